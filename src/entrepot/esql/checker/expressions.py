# SPDX-License-Identifier: Apache-2.0
"""What can be wrong in an expression: names, kinds, calls, and types that are certain.

Each check gives back the expression's type, or an empty string when only a
message tells it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from entrepot.esql.checker import certain_types
from entrepot.esql.checker.scopes import CORRELATIONS, CheckerSymbol, Project, Scope, similar
from entrepot.esql.mistakes import MISTAKE, WARNING
from entrepot.esql.parsing.building import KIND_DOMAINS, plain_names
from entrepot.esql.syntax import (
    Among,
    Between,
    Binary,
    BitStream,
    Call,
    Case,
    Cast,
    Expression,
    FromSource,
    IntervalOf,
    Is,
    KindName,
    Like,
    ListOf,
    Literal,
    Module,
    Passthru,
    Path,
    Routine,
    RowOf,
    Select,
    SourceFile,
    SourcePlace,
    Step,
    SyntaxNode,
    The,
    Unary,
)
from entrepot.models.element_types import NAMED

STRUCTURAL: dict[str, tuple[int, int | None]] = {
    "BITSTREAM": (1, 1),
    "CARDINALITY": (1, 1),
    "COALESCE": (1, None),
    "EVAL": (1, 1),
    "EXISTS": (1, 1),
    "FIELDNAME": (1, 1),
    "FIELDNAMESPACE": (1, 1),
    "FIELDTYPE": (1, 1),
    "FIELDVALUE": (1, 1),
    "LASTMOVE": (1, 1),
    "NULLIF": (2, 2),
    "SAMEFIELD": (2, 2),
    "SINGULAR": (1, 1),
}
"""Functions that look at fields rather than values, with how many arguments they take."""

_RESULTS = {
    **dict.fromkeys(("CARDINALITY", "LENGTH", "POSITION", "FIELDTYPE"), "INTEGER"),
    **dict.fromkeys(("EXISTS", "SINGULAR", "LASTMOVE", "SAMEFIELD", "STARTSWITH", "ENDSWITH", "CONTAINS"), "BOOLEAN"),
    **dict.fromkeys(("FIELDNAME", "FIELDNAMESPACE", "UUIDASCHAR", "BASE64ENCODE", "SPACE"), "CHARACTER"),
    "UUIDASBLOB": "BLOB",
    "CURRENT_DATE": "DATE",
    "CURRENT_TIME": "TIME",
    "CURRENT_TIMESTAMP": "TIMESTAMP",
    "CURRENT_GMTDATE": "DATE",
    "CURRENT_GMTTIME": "GMTTIME",
    "CURRENT_GMTTIMESTAMP": "GMTTIMESTAMP",
    "LOCAL_TIMEZONE": "INTERVAL",
}

MISSING_DOMAINS = frozenset({"DFDL", "DataObject", "IDOC", "JMSMap", "JMSStream", "MQRFH"})
"""Domains of the real product that are not here; a path into one would find nothing, without a reason given."""

_ROOTS = frozenset({"InputRoot", "OutputRoot", "Root"})

Report = Callable[[SourcePlace, str, str], None]


@cache
def known_functions() -> dict[str, tuple[int, int | None]]:
    """Every function of the language, in capitals, with the fewest and the most arguments."""
    from entrepot.esql.runtime.functions import FUNCTIONS

    counts = {name.upper(): (built.arguments_min, built.arguments_max) for name, built in FUNCTIONS.items()}
    return counts | STRUCTURAL


@cache
def known_constants() -> frozenset[str]:
    from entrepot.esql.runtime.constants import CONSTANTS

    return frozenset(CONSTANTS)


class ExpressionChecks:
    """The expressions of one routine."""

    def __init__(
        self,
        project: Project,
        file: SourceFile,
        module: Module | None,
        scope: Scope,
        report: Report,
        *,
        allow_eval: bool = False,
        kind: str | None = None,
    ) -> None:
        self.project = project
        self.file = file
        self.module = module
        self.kind = kind if kind is not None else module.kind if module is not None else ""
        self.scope = scope
        self.allow_eval = allow_eval
        self.labels: list[str] = []
        self.returned = False
        self._report = report

    def mistake(self, node: SyntaxNode, problem: str) -> None:
        self._report(node.place, problem, MISTAKE)

    def warning(self, node: SyntaxNode, problem: str) -> None:
        self._report(node.place, problem, WARNING)

    def expression(self, node: Any) -> str:
        """Check an expression; None is none."""
        if node is None:
            return ""
        check: Callable[[Any], str] = getattr(self, f"on_{type(node).__name__.lower()}")
        return check(node)

    # --- operators ------------------------------------------------------------------------------

    def on_literal(self, node: Literal) -> str:
        return "BOOLEAN" if node.unknown else certain_types.type_of_value(node.value)

    def on_unary(self, node: Unary) -> str:
        type_ = self.expression(node.operand)
        if node.operator == "NOT":
            self._report_problem(node, certain_types.truth_problem("NOT", type_))
            return "BOOLEAN"
        if type_ in ("BOOLEAN", "BLOB", "BIT"):
            self.mistake(node, f"{node.operator} takes a number or an interval, and this is a {type_}")
            return ""
        return type_

    def on_binary(self, node: Binary) -> str:
        left, right = self.expression(node.left), self.expression(node.right)
        operator = node.operator
        if operator in ("AND", "OR"):
            for operand, type_ in ((node.left, left), (node.right, right)):
                self._report_problem(operand, certain_types.truth_problem(operator, type_))
            return "BOOLEAN"
        if operator == "||":
            return "CHARACTER" if left == right == "CHARACTER" else ""
        if operator in ("+", "-", "*", "/"):
            type_, problem = certain_types.sum_type(operator, left, right)
            self._report_problem(node, problem)
            return type_
        if isinstance(node.left, Unary) and node.left.operator == "NOT":
            self.warning(
                node.left, f"NOT binds more tightly than {operator}; if NOT (... {operator} ...) is meant, write it so"
            )
            return "BOOLEAN"
        self._report_problem(node, certain_types.comparison_problem(operator, left, right))
        return "BOOLEAN"

    def on_between(self, node: Between) -> str:
        operand = self.expression(node.operand)
        for border in (node.low, node.high):
            self._report_problem(border, certain_types.comparison_problem("between", operand, self.expression(border)))
        return "BOOLEAN"

    def on_among(self, node: Among) -> str:
        operand = self.expression(node.operand)
        for candidate in node.candidates:
            self._report_problem(candidate, certain_types.comparison_problem("=", operand, self.expression(candidate)))
        return "BOOLEAN"

    def on_like(self, node: Like) -> str:
        for part in (node.operand, node.pattern, node.escape):
            type_ = self.expression(part)
            if part is not None and type_ in certain_types.SCALARS - certain_types.STRINGS:
                self.mistake(part, f"LIKE compares texts, and this is {type_}")
        return "BOOLEAN"

    def on_is(self, node: Is) -> str:
        type_ = self.expression(node.operand)
        if node.what in ("TRUE", "FALSE", "UNKNOWN"):
            self._report_problem(node, certain_types.truth_problem(f"IS {node.what}", type_))
        return "BOOLEAN"

    def on_intervalof(self, node: IntervalOf) -> str:
        self.expression(node.operand)
        if not isinstance(node.operand, Binary) or node.operand.operator != "-":
            self.mistake(node, f"{node.qualifier} stands behind a difference in brackets: (a - b) {node.qualifier}")
        return "INTERVAL"

    def on_case(self, node: Case) -> str:
        operand = self.expression(node.operand)
        for when, then in node.branches:
            type_ = self.expression(when)
            if node.operand is None:
                self._report_problem(when, certain_types.truth_problem("WHEN", type_))
            else:
                self._report_problem(when, certain_types.comparison_problem("=", operand, type_))
            self.expression(then)
        self.expression(node.otherwise)
        return ""

    def on_cast(self, node: Cast) -> str:
        types = [self.expression(operand) for operand in node.operand]
        for clause in (node.ccsid, node.encoding, node.format, node.default):
            self.expression(clause)
        target = node.type.name
        if target in ("REFERENCE", "ROW", "LIST"):
            self.mistake(node.type, f"nothing can be CAST to {target}")
        elif len(types) == 1:
            self._report_problem(node, certain_types.assignment_problem(types[0], target))
        elif target not in certain_types.MOMENTS | {"INTERVAL"}:
            self.mistake(node, f"several values make a date, a time or an interval, not {target}")
        return target

    def _report_problem(self, node: SyntaxNode, problem: str) -> None:
        if problem:
            self.mistake(node, problem)

    # --- calls ----------------------------------------------------------------------------------

    def on_call(self, node: Call) -> str:
        name = node.name[-1].upper()
        if len(node.name) == 1 and name in STRUCTURAL:
            return self._builtin(node, name)
        routine = self.project.find_routine(node.name, self.file, self.module)
        if routine is not None:
            if routine.returns is None:
                self.mistake(node, f"{routine.name} gives no value back; CALL it")
            self.routine_call(node, routine, node.arguments)
            return "" if routine.returns is None else _scalar(routine.returns.name)
        if len(node.name) == 1 and name in known_functions():
            return self._builtin(node, name)
        self._arguments(node.arguments)
        known = self.project.routine_names(self.file, self.module)
        self.mistake(node, f"there is no function {'.'.join(node.name)}{_near(node.name, known)}")
        return ""

    def _builtin(self, node: Call, name: str) -> str:
        self._arguments(node.arguments)
        least, most = known_functions()[name]
        self._report_problem(node, _count_problem(name, least, most, len(node.arguments)))
        if name == "EVAL" and not self.allow_eval:
            self.mistake(node, "EVAL runs text as a program and is off; allow_eval turns it on")
        if name == "LASTMOVE" and node.arguments:
            argument = node.arguments[0]
            symbol = self._variable(argument)
            if symbol is None or not symbol.is_reference:
                self.mistake(argument, "LASTMOVE takes a REFERENCE variable")
        return _RESULTS.get(name, "")

    def _variable(self, node: Expression) -> CheckerSymbol | None:
        names = plain_names(node) if isinstance(node, Path) else None
        return self.scope.find(names[0]) if names is not None and len(names) == 1 else None

    def _arguments(self, arguments: tuple[Expression, ...]) -> list[str]:
        return [self.expression(argument) for argument in arguments]

    def routine_call(self, node: SyntaxNode, routine: Routine, arguments: tuple[Expression, ...]) -> None:
        """Arguments against parameters."""
        types = self._arguments(arguments)
        wanted = len(routine.parameters)
        if len(arguments) != wanted:
            self._report_problem(node, _count_problem(routine.name, wanted, wanted, len(arguments)))
            return
        for parameter, argument, type_ in zip(routine.parameters, arguments, types, strict=True):
            target = parameter.type.name
            if parameter.direction != "IN":
                if not isinstance(argument, Path):
                    self.mistake(argument, f"{parameter.name} is {parameter.direction}: name a variable or a field")
                else:
                    self.assignable(argument)
            elif target == "REFERENCE":
                if not isinstance(argument, Path):
                    self.mistake(argument, f"{parameter.name} is a REFERENCE: name a field")
            else:
                self._report_problem(argument, certain_types.assignment_problem(type_, target))

    def assignable(self, path: Path) -> None:
        """Whether a place may be written to."""
        raise NotImplementedError

    def on_bitstream(self, node: BitStream) -> str:
        self.expression(node.path)
        for clause in (node.options, node.encoding, node.ccsid, node.set, node.type, node.format):
            self.expression(clause)
        return "BLOB"

    def on_passthru(self, node: Passthru) -> str:
        self.expression(node.text)
        if node.source is not None:
            self.database(node.source)
        self._arguments(node.arguments)
        return ""

    # --- rows and lists ---------------------------------------------------------------------------

    def on_the(self, node: The) -> str:
        self.expression(node.select)
        return ""

    def on_rowof(self, node: RowOf) -> str:
        for selected in node.selected:
            self.expression(selected.expression)
            self.steps(selected.alias)
        return "ROW"

    def on_listof(self, node: ListOf) -> str:
        self._arguments(node.items)
        return "LIST"

    def on_select(self, node: Select) -> str:
        from_database = any(source.path.steps[0].name == "Database" for source in node.sources)
        with self.scope.block(columns=from_database):
            for source in node.sources:
                self._source(source)
            self.expression(node.where)
            for selected in node.selected:
                self.expression(selected.expression)
                self.steps(selected.alias)
        if node.form == "aggregate" and node.aggregate == "COUNT":
            return "INTEGER"
        return "LIST" if node.form in ("list", "all") else ""

    def _source(self, source: FromSource) -> None:
        if source.path.steps[0].name == "Database":
            self.database(source.path)
        else:
            self.expression(source.path)
        last = source.path.steps[-1]
        name = source.alias or last.name
        if name and not (not source.alias and len(source.path.steps) == 1):
            self.scope.add(CheckerSymbol(name, source.place))

    def database(self, path: Path) -> None:
        """Database.T, Database.S.T, Database.{name}: its braces are ESQL, its names are the database's."""
        if path.steps[0].name != "Database":
            self.mistake(path, "a table or data source begins with Database")
        self.steps(path.steps)

    # --- field references -------------------------------------------------------------------------

    def on_path(self, node: Path) -> str:
        symbol = self.resolve(node)
        self.steps(node.steps)
        if symbol is None and len(node.steps) > 1 and node.steps[0].name in _ROOTS:
            self.domain(node, node.steps[1].name)
        if symbol is None or len(node.steps) > 1:
            return ""
        return _scalar(symbol.type)

    def domain(self, node: SyntaxNode, name: Any) -> None:
        if name in MISSING_DOMAINS:
            self.mistake(node, f"the domain {name} is not supported")

    def resolve(self, path: Path) -> CheckerSymbol | None:
        """The variable that a path begins with; None for a tree, a constant, or what is not declared, which is told."""
        head = path.steps[0]
        name = head.name or ""
        symbol = self.scope.find(name)
        if symbol is not None:
            if len(path.steps) > 1 and not symbol.has_fields:
                self.mistake(path, f"{name} is {symbol.type} and has no fields")
            return symbol
        if name in CORRELATIONS[self.kind] or name in known_constants() or name == "Database":
            return None
        if self._is_kind(path) or (self.scope.columns and len(path.steps) == 1):
            return None
        if name in CORRELATIONS[""]:
            there = "InputRoot and OutputRoot" if self.kind == "COMPUTE" else "Root"
            self.mistake(path, f"{name} is unknown in a {self.kind} module; there is {there}")
            return None
        known = [*self.scope.names(), *CORRELATIONS[self.kind]]
        self.mistake(path, f"{name} is not declared{similar(name, known)}")
        return None

    def _is_kind(self, path: Path) -> bool:
        """XMLNSC.Attribute as a value: the number of a type."""
        names = plain_names(path)
        if names is None or len(names) > 2:
            return False
        domain = names[0].upper() if len(names) == 2 else "GENERIC"
        return names[-1].upper() in NAMED.get(domain, {})

    def steps(self, steps: tuple[Step, ...]) -> None:
        """Kinds, namespaces, {expressions} and indexes."""
        for step in steps:
            self.kinds(step.kinds)
            self.expression(step.name_expression)
            self.expression(step.namespace_expression)
            # xmlns:prefix names a namespace declaration; xmlns itself is never declared.
            if step.namespace is not None and step.namespace != "xmlns":
                prefix = self.scope.find(step.namespace)
                if prefix is None:
                    hint = similar(step.namespace, list(self.scope.names()))
                    self.mistake(step, f"the namespace {step.namespace} is not declared{hint}")
                elif prefix.type not in ("CHARACTER", ""):
                    self.mistake(step, f"{step.namespace} is {prefix.type} and no namespace")
            if step.index is not None and step.index.expression is not None:
                type_ = self.expression(step.index.expression)
                if type_ in certain_types.SCALARS - certain_types.NUMBERS - {"CHARACTER"}:
                    self.mistake(step.index, f"an index is a number, and this is {type_}")

    def kinds(self, kinds: tuple[Expression | KindName, ...]) -> None:
        for kind in kinds:
            if not isinstance(kind, KindName):
                self.expression(kind)
                continue
            domain = kind.domain.upper() or "GENERIC"
            if kind.name.upper() not in NAMED.get(domain, {}):
                shown = f"{kind.domain}.{kind.name}" if kind.domain else kind.name
                named = NAMED.get(domain, {})
                hint = similar(kind.name.upper(), list(named)) if named else ""
                assert domain in KIND_DOMAINS or not kind.domain
                self.mistake(kind, f"there is no type ({shown}){hint}")


def _scalar(type_: str) -> str:
    return type_ if type_ in certain_types.SCALARS else ""


def _count_problem(name: str, least: int, most: int | None, given: int) -> str:
    if given >= least and (most is None or given <= most):
        return ""
    wanted = f"at least {least}" if most is None else str(least) if least == most else f"{least} to {most}"
    noun = "argument" if wanted == "1" else "arguments"
    return f"{name} takes {wanted if wanted != '0' else 'no'} {noun}, and here are {given}"


def _near(name: tuple[str, ...], routines: list[str]) -> str:
    return similar(name[-1], routines) or similar(name[-1].upper(), list(known_functions()))
