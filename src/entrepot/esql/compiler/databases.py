# SPDX-License-Identifier: Apache-2.0
"""Database statements to Python: SQL text with bound values, sent through the run's database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.esql.compiler.source import Code
from entrepot.esql.compiler.sql import NotSql, Sql, Translator, columns_of, conjuncts
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.runtime.database import sql_name
from entrepot.esql.syntax import (
    DeleteFrom,
    Expression,
    Finish,
    FromSource,
    Insert,
    Passthru,
    PassthruStatement,
    Path,
    Select,
    Step,
    Update,
)

if TYPE_CHECKING:
    from entrepot.esql.compiler.expressions import ExpressionCompiler
    from entrepot.esql.compiler.state import RoutineState


class DatabaseCompiler:
    """Tables: in SELECT, and the statements that change them."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._paths = expressions.paths
        self._names = state.names
        self._lines = state.lines
        self._decided: set[int] = set()
        """SELECTs whose whole condition went to the database."""

    # --- where tables are --------------------------------------------------------------------------------

    def table(self, path: Path) -> tuple[str, str]:
        """Python for the data source and for the table's name in SQL: Database[.source][.schema].table."""
        symbol, steps = self._paths.resolve(path)
        if symbol.kind != "database" or not 1 <= len(steps) <= 3:
            problem = "a table is Database.TABLE, Database.SCHEMA.TABLE or with the source in front"
            raise Unsupported(path, problem)
        names = [self._table_step(step) for step in steps]
        source = names.pop(0) if len(names) == 3 else "''"
        if len(steps) == 3:
            source = self._plain_step(steps[0])
        return source, " + '.' + ".join(names)

    def _table_step(self, step: Step) -> str:
        if step.name is not None:
            return repr(sql_name(step.name, quoted=step.quoted))
        return f"identifier({self._plain_step(step)})"

    def _plain_step(self, step: Step) -> str:
        if step.name is not None:
            return repr(step.name)
        if step.name_expression is None:
            raise Unsupported(step, "a table's name is a name or an expression in braces")
        return self._expressions.expression(step.name_expression).text

    def database_name(self, path: Path | None) -> str:
        if path is None:
            return "''"
        symbol, steps = self._paths.resolve(path)
        if symbol.kind != "database" or len(steps) > 1:
            raise Unsupported(path, "a data source is Database.NAME")
        return self._plain_step(steps[0]) if steps else "''"

    def _translator(self, tables: set[str], later: set[str]) -> Translator:
        return Translator(tables, later, lambda node: self._expressions.expression(node).text)

    # --- SELECT ------------------------------------------------------------------------------------------

    def table_query(self, node: Select, tables: list[FromSource], *, alone: bool) -> str:
        """Python for the rows of database tables: tuples of one element for each table."""
        names = [table.alias or _table_name(table.path) for table in tables]
        columns = [columns_of((node.selected, node.where), name) for name in names]
        if node.form == "all":
            columns = [None] * len(tables)
        if len(tables) > 1 and any(wanted is None for wanted in columns):
            raise Unsupported(node, "SELECT * over several tables: name the columns")
        where, complete = self._where(node, set(names), alone=alone)
        if complete:
            self._decided.add(id(node))
        selected = ", ".join(
            f"{sql_name(name)}.*"
            if wanted is None
            else ", ".join(f"{sql_name(name)}.{_column(step)}" for step in wanted) or "1"
            for name, wanted in zip(names, columns, strict=True)
        )
        keys = repr(tuple(None if wanted is None else tuple(step.name for step in wanted) for wanted in columns))
        source, tables_text = self._from(tables, names)
        text = f"{selected and repr('SELECT ' + selected + ' FROM ')} + {tables_text}{_tail(where)}"
        return f"query_rows(run, {source}, {text}, {_values(where)}, {keys})"

    def _from(self, tables: list[FromSource], names: list[str]) -> tuple[str, str]:
        places = [self.table(table.path) for table in tables]
        if len({source for source, _ in places}) > 1:
            raise Unsupported(tables[1], "tables of two data sources in one FROM")
        text = " + ', ' + ".join(
            f"{table} + {' AS ' + sql_name(name)!r}" for (_, table), name in zip(places, names, strict=True)
        )
        return places[0][0], text

    def _where(self, node: Select, names: set[str], *, alone: bool) -> tuple[Sql, bool]:
        """What of the condition goes to the database, and whether that is all of it."""
        later: set[str] = set()
        if not alone:
            later = {source.alias or _table_name(source.path) for source in node.sources} - names
            later -= {name for name in later if self._names.find(name) is not None}
        translator = self._translator(names, later)
        taken = Sql("", [])
        complete = True
        for part in conjuncts(node.where):
            try:
                sql = translator.translate(part)
            except NotSql:
                complete = False
                continue
            if sql.text == "?":
                # A condition that mentions no column is decided here: not every database binds truth values.
                complete = False
                continue
            taken.text = f"{taken.text} AND {sql.text}" if taken.text else sql.text
            taken.values.extend(sql.values)
        return taken, complete

    def has_decided(self, node: Select) -> bool:
        """Whether `table_query` has taken over the whole WHERE clause."""
        return id(node) in self._decided

    def aggregate(self, node: Select) -> Code | None:
        """An aggregate that the database can compute itself; None when it cannot."""
        if not all(self._paths.is_database(source.path) for source in node.sources):
            return None
        if node.selected and node.selected[0].alias:
            return None
        names = [source.alias or _table_name(source.path) for source in node.sources]
        try:
            what = self._translator(set(names), set()).translate(node.selected[0].expression) if node.selected else None
        except NotSql:
            return None
        where, complete = self._where(node, set(names), alone=True)
        if not complete or (what is not None and what.text == "?"):
            return None
        source, tables_text = self._from(list(node.sources), names)
        head = f"SELECT {node.aggregate}({what.text if what else '*'}) FROM "
        values = Sql("", [*(what.values if what else ()), *where.values])
        return Code(f"query_value(run, {source}, {head!r} + {tables_text}{_tail(where)}, {_values(values)})")

    # --- changing tables ---------------------------------------------------------------------------------

    def do_Insert(self, node: Insert) -> None:
        source, table = self.table(node.target)
        columns = f" ({', '.join(sql_name(name) for name in node.columns)})" if node.columns else ""
        if node.columns and len(node.columns) != len(node.values):
            raise Unsupported(node, f"{len(node.columns)} columns and {len(node.values)} values")
        marks = ", ".join("?" for _ in node.values)
        values = "".join(f"{self._expressions.scalar(value).text}, " for value in node.values)
        tail = f"{columns} VALUES ({marks})"
        self._lines.statement(f"execute(run, {source}, 'INSERT INTO ' + {table} + {tail!r}, ({values}))")

    def do_Update(self, node: Update) -> None:
        source, table = self.table(node.target)
        alias = node.alias or _table_name(node.target)
        settings: list[str] = []
        values: list[str] = []
        for column, expression in node.settings:
            sql = self._sql(expression, alias)
            settings.append(f"{sql_name(column)} = {sql.text}")
            values.extend(sql.values)
        where = Sql("", []) if node.where is None else self._sql(node.where, alias)
        tail = f" AS {sql_name(alias)} SET {', '.join(settings)}"
        text = f"'UPDATE ' + {table} + {tail!r}{_tail(where)}"
        self._lines.statement(f"execute(run, {source}, {text}, {_values(Sql('', [*values, *where.values]))})")

    def do_DeleteFrom(self, node: DeleteFrom) -> None:
        source, table = self.table(node.target)
        alias = node.alias or _table_name(node.target)
        where = Sql("", []) if node.where is None else self._sql(node.where, alias)
        text = f"'DELETE FROM ' + {table} + {' AS ' + sql_name(alias)!r}{_tail(where)}"
        self._lines.statement(f"execute(run, {source}, {text}, {_values(where)})")

    def _sql(self, node: Expression, alias: str) -> Sql:
        try:
            return self._translator({alias}, set()).translate(node)
        except NotSql:
            raise Unsupported(node, "this cannot be said in the SQL of a database") from None

    # --- PASSTHRU, COMMIT -----------------------------------------------------------------------------------

    def passthru(self, node: Passthru) -> Code:
        values = "".join(f"{self._expressions.scalar(value).text}, " for value in node.arguments)
        text = self._expressions.scalar(node.text).text
        return Code(f"passthru(run, {self.database_name(node.source)}, {text}, ({values}))", "LIST")

    def do_PassthruStatement(self, node: PassthruStatement) -> None:
        self._lines.statement(self.passthru(node.passthru).text)

    def do_Finish(self, node: Finish) -> None:
        self._lines.statement(f"finish(run, {self.database_name(node.database)}, {node.commit})")


def _table_name(path: Path) -> str:
    last = path.steps[-1]
    return last.name or "T"


def _column(step: Step) -> str:
    return sql_name(step.name or "", quoted=step.quoted)


def _tail(where: Sql) -> str:
    return f" + {' WHERE ' + where.text!r}" if where.text else ""


def _values(sql: Sql) -> str:
    return "(" + "".join(f"{value}, " for value in sql.values) + ")"
