# SPDX-License-Identifier: Apache-2.0
"""SELECT to Python: a function that loops over its sources and builds rows.

    (SELECT I.Surname AS Name FROM InputRoot.XML.Invoice[] AS I WHERE I.Balance > 0)

becomes

    def select_1():
        rows = []
        for c_I in named(walk(InputRoot, ('XML',)), 'Invoice'):
            if greater(read(c_I, ('Balance',)), 0):
                row = Element('')
                put_tree(row, ('Name',), walk(c_I, ('Surname',)))
                rows.append(row)
        return rows

Tables of a database are sources like any other: sql.py says what of the
condition the database itself can decide.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from entrepot.esql.compiler.names import CompilerSymbol
from entrepot.esql.compiler.paths import keys_literal
from entrepot.esql.compiler.source import Code, PythonLines
from entrepot.esql.syntax import Call, Expression, FromSource, Literal, Path, RowOf, Select, Selected, Step

if TYPE_CHECKING:
    from entrepot.esql.compiler.expressions import ExpressionCompiler
    from entrepot.esql.compiler.state import RoutineState

SCALARS = ("CHARACTER", "INTEGER", "DECIMAL", "FLOAT", "BOOLEAN", "BLOB")


class SelectCompiler:
    """SELECT and ROW; databases are asked for the rows of tables."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._paths = expressions.paths
        self._names = state.names
        self._lines = state.lines

    def select(self, node: Select, *, want: str = "list") -> Code:
        """Python for a SELECT; with `want` first for what THE takes of it."""
        if node.form == "aggregate":
            aggregate = self._expressions.databases.aggregate(node)
            if aggregate is not None:
                return aggregate
        function = self._names.temporary().replace("t", "select_")
        source = PythonLines()
        source.place = node.place
        with source.block(f"def {function}():"):
            self._body(source, node, want)
        self._lines.prelude(source.lines)
        if node.form == "aggregate" and not (node.selected and node.selected[0].alias):
            return Code(f"{function}()")
        return Code(f"{function}()", "" if want == "first" else "LIST")

    def _body(self, source: PythonLines, node: Select, want: str) -> None:
        if node.form == "aggregate":
            source.line("total = None" if node.aggregate != "COUNT" else "total = 0")
        elif want == "list":
            source.line("rows = []")
        with self._names.block(), self._lines.apart():
            self._loops(source, node, list(node.sources), want)
        if node.form == "aggregate":
            alias = node.selected[0].alias if node.selected else ()
            if alias:
                source.line("row = Element('')")
                source.line(f"put_value(row, {self._alias_keys(alias)}, total)")
                source.line("return row" if want == "first" else "return [row]")
            else:
                source.line("return total")
        elif want == "list":
            source.line("return rows")
        else:
            source.line("return None")

    def _loops(self, source: PythonLines, node: Select, sources: list[FromSource], want: str) -> None:
        if not sources:
            self._row(source, node, want)
            return
        first = sources[0]
        if self._paths.is_database(first.path):
            tables = [first]
            while len(tables) < len(sources) and self._paths.is_database(sources[len(tables)].path):
                tables.append(sources[len(tables)])
            self._database_loop(source, node, tables, sources[len(tables) :], want)
            return
        elements = self._paths.elements(first.path)
        self._lines.flush(source)
        python = self._correlation(first)
        listed = f"all_{python}"
        source.line(f"{listed} = {elements}")
        # Paid before the condition is asked: a join of long lists takes its time even if it finds nothing.
        source.line(f"run.steps -= len({listed})")
        source.line("if run.steps < 0: run.spent()")
        with source.block(f"for {python} in {listed}:"):
            self._loops(source, node, sources[1:], want)

    def _correlation(self, first: FromSource) -> str:
        name = first.alias or _last_name(first.path) or "row"
        python = self._names.fresh(name, "c")
        self._names.declare(name, CompilerSymbol("row", python))
        return python

    def _database_loop(
        self, source: PythonLines, node: Select, tables: list[FromSource], rest: list[FromSource], want: str
    ) -> None:
        query = self._expressions.databases.table_query(node, tables, alone=not rest)
        self._lines.flush(source)
        names = ", ".join(self._correlation(table) for table in tables)
        with source.block(f"for {names}{',' if len(tables) == 1 else ''} in {query}:"):
            source.line("run.steps -= 1")
            source.line("if run.steps < 0: run.spent()")
            self._loops(source, node, rest, want)

    # --- one row --------------------------------------------------------------------------------------

    def _row(self, source: PythonLines, node: Select, want: str) -> None:
        if node.where is not None and not self._expressions.databases.has_decided(node):
            condition = self._expressions.condition(node.where)
            self._lines.flush(source)
            with source.block(f"if {condition}:"):
                self._result(source, node, want)
        else:
            self._result(source, node, want)

    def _result(self, source: PythonLines, node: Select, want: str) -> None:
        if node.form == "aggregate":
            self._accumulate(source, node)
        elif node.form == "item":
            item = self._expressions.tree(node.selected[0].expression)
            self._lines.flush(source)
            if want == "first":
                source.line(f"return {item.text}")
            elif item.type == "LIST":
                source.line(f"rows.extend({item.text})")
            else:
                source.line(f"rows.append({item.text})")
        else:
            source.line("row = new_row()")
            if node.form == "all":
                for each in node.sources:
                    symbol = self._names.find(each.alias or _last_name(each.path) or "row")
                    assert symbol is not None
                    source.line(f"put_children(row, {symbol.python})")
            self._put_all(source, node.selected)
            source.line("return row" if want == "first" else "rows.append(row)")

    def _accumulate(self, source: PythonLines, node: Select) -> None:
        if not node.selected:
            source.line("total += 1")
            return
        value = self._expressions.expression(node.selected[0].expression).text
        self._lines.flush(source)
        source.line(f"value = {value}")
        with source.block("if value is not None:"):
            if node.aggregate == "COUNT":
                source.line("total += 1")
            elif node.aggregate == "SUM":
                source.line("total = value if total is None else add(total, value)")
            else:
                compare = "less" if node.aggregate == "MIN" else "greater"
                source.line(f"if total is None or {compare}(value, total): total = value")

    def _put_all(self, source: PythonLines, selected: tuple[Selected, ...]) -> None:
        """A select list into a new row. A name that is new to it is added; others are looked for."""
        before: set[str | None] = set()
        for number, each in enumerate(selected, 1):
            head = _head(each)
            self.put(source, each, number, alone=head is not None and head not in before and None not in before)
            before.add(head)

    def put(
        self, source: PythonLines, selected: Selected, number: int, row: str = "row", *, alone: bool = False
    ) -> None:
        """One thing of a select list into the row."""
        node = selected.expression
        alias = selected.alias
        if isinstance(node, Path) and node.steps[-1].any_name and node.steps[-1].index is None and not alias:
            base, steps = self._paths.base(node)
            source.line(f"put_children({row}, {self._paths.below(base, steps[:-1])})")
            return
        code = self._expressions.tree(node)
        self._lines.flush(source)
        if not alias:
            name = _last_name(node) if isinstance(node, Path) else None
            if name is None and code.type == "TREE":
                source.line(f"put_named({row}, {code.text})")
                return
            alias = (Step(node.place, name=name or f"column{number}"),)
        last = alias[-1]
        if last.index is not None and last.index.form == "all":
            parent = self._paths.made(row, alias[:-1])
            pattern = self._paths.pattern(replace(last, index=None))
            source.line(f"{list_function(node)}({parent}, {pattern}, {code.text})")
        elif all(self._paths.plain_key(step) is not None for step in alias):
            function = {"TREE": "put_tree", "LIST": "put_any"}.get(code.type, "put_value" if code.type else "put_any")
            if alone and len(alias) == 1 and function != "put_any":
                key = self._paths.plain_key(last)
                source.line(f"{function.replace('put', 'add')}({row}, {key!r}, {code.text})")
            else:
                source.line(f"{function}({row}, {self._alias_keys(alias)}, {code.text})")
        elif (
            alone
            and len(alias) == 1
            and last.index is None
            and code.type not in ("TREE", "LIST", "")
            and self._paths.key(last)
        ):
            kind = f"{self._paths.kinds(last.kinds)}[0]"
            source.line(f"add_value({row}, {self._paths.key(last)!r}, {code.text}, {kind})")
        elif isinstance(node, Literal) and node.value is not None:
            target = self._paths.made(row, alias)
            self._lines.flush(source)
            source.line(f"{target}.value = {code.text}")
        else:
            kept = self._names.temporary()
            source.line(f"{kept} = {code.text}")
            with source.block(f"if {kept} is not None:"):
                target = self._paths.made(row, alias)
                self._lines.flush(source)
                source.line(f"assign({target}, {kept})")

    def _alias_keys(self, alias: tuple[Step, ...]) -> str:
        return keys_literal([self._paths.plain_key(step) or "" for step in alias])

    # --- ROW -------------------------------------------------------------------------------------------

    def row(self, node: RowOf) -> Code:
        """ROW(a AS x, ...): a function as well, because it takes several lines."""
        function = self._names.temporary().replace("t", "row_")
        source = PythonLines()
        source.place = node.place
        with source.block(f"def {function}():"), self._lines.apart():
            source.line("row = new_row()")
            self._put_all(source, node.selected)
            source.line("return row")
        self._lines.prelude(source.lines)
        return Code(f"{function}()", "TREE")


def list_function(node: Expression) -> str:
    """What gives a list to `name[]`: rows that were made for it need no copies."""
    return "assign_rows" if isinstance(node, Select) and node.form in ("list", "all") else "assign_list"


def _head(selected: Selected) -> str | None:
    """The name that a thing of a select list has in the row; None when it is not known yet."""
    if selected.alias:
        return selected.alias[0].name
    return _last_name(selected.expression)


def _last_name(path: object) -> str | None:
    if isinstance(path, Path):
        last = path.steps[-1]
        if last.name is not None:
            return last.name
        if isinstance(last.name_expression, Literal) and isinstance(last.name_expression.value, str):
            return last.name_expression.value
    return path.name[-1] if isinstance(path, Call) else None
