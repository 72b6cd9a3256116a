# SPDX-License-Identifier: Apache-2.0
"""XPath as Route tables and maps have it, translated to ESQL.

    $Root/XMLNSC/order/amount > 100
    EXISTS(SELECT xp_1 FROM Root.XMLNSC.order.amount[] AS xp_1
           WHERE CAST(xp_1 AS FLOAT DEFAULT NULL) > 100)

A comparison with a path asks whether some element of that path fulfils it, so
it becomes a SELECT; what is missing is no error and fulfils nothing. Only the
first element counts where XPath wants one value, as in contains(). Not
supported: descendants (//), parents, other axes, unions, and functions that
ESQL has no equal for; each is refused by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from entrepot.esql.parsing.words import RESERVED
from entrepot.flows.xpath_syntax import (
    Expression,
    LocationPath,
    LocationStep,
    Negative,
    Number,
    Sequence,
    XPathBinary,
    XPathCall,
    XPathText,
    parse_xpath,
)

FILTER_NAMES: Mapping[str, str] = {
    "Root": "Root",
    "InputRoot": "Root",
    "Body": "Body",
    "InputBody": "Body",
    "Properties": "Properties",
    "InputProperties": "Properties",
    "LocalEnvironment": "LocalEnvironment",
    "InputLocalEnvironment": "LocalEnvironment",
    "Environment": "Environment",
    "ExceptionList": "ExceptionList",
    "InputExceptionList": "ExceptionList",
}
"""What variables mean in a Route table: a Route node asks as a Filter does."""

Kind = Literal["nodes", "number", "text", "truth", "moment"]

_ONE_ROOT_BELOW = frozenset({"XMLNSC", "XMLNS", "XML", "SOAP", "JSON"})
"""Domains with one element at the top, which need no further search."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TYPES = {
    "string": "CHARACTER", "boolean": "BOOLEAN", "decimal": "DECIMAL", "integer": "INTEGER", "int": "INTEGER",
    "long": "INTEGER", "short": "INTEGER", "double": "FLOAT", "float": "FLOAT", "date": "DATE", "time": "TIME",
    "dateTime": "TIMESTAMP", "hexBinary": "BLOB",
}  # fmt: skip
"""Types of XML Schema, and what ESQL calls them."""
_NUMBERS = frozenset({"INTEGER", "DECIMAL", "FLOAT"})
_VARIABLE = re.compile(r"\$[A-Za-z_]")


def is_xpath(text: str) -> bool:
    """Whether a condition is XPath and not ESQL: it begins with a slash or has a $variable."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "''", text)
    return bare.lstrip().startswith("/") or _VARIABLE.search(bare) is not None


def to_esql(text: str, *, namespaces: Mapping[str, str] | None = None, names: Mapping[str, str] | None = None) -> str:
    """The ESQL condition of an XPath; it is true or false, never unknown.

    `namespaces` are the prefixes of a table; `names` are variables, and what ESQL calls them.

    Raises:
        ValueError: It is no XPath, or none that is supported. Says what and where.
    """
    return Translation(namespaces, names).condition(parse_xpath(text))


def to_value(
    text: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    context: str = "",
) -> str:
    """The ESQL expression for the value of an XPath, as maps assign it."""
    return Translation(namespaces, names, context).value(parse_xpath(text))


def esql_name(name: str) -> str:
    """An element's name as ESQL writes it."""
    if _PLAIN.fullmatch(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def esql_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@dataclass(slots=True)
class _Chain:
    """The elements of a path: one FROM, in which each item starts at the one before."""

    rows: list[str]
    conditions: list[str]
    last: str
    """What ESQL calls one of them."""

    def select(self, what: str, *more: str) -> str:
        conditions = [*self.conditions, *more]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {what} FROM {', '.join(self.rows)}{where}"  # noqa: S608 -- ESQL over trees, compiled as such


class Translation:
    """One expression on its way to ESQL."""

    def __init__(
        self, namespaces: Mapping[str, str] | None = None, names: Mapping[str, str] | None = None, context: str = ""
    ) -> None:
        self._namespaces = namespaces or {}
        self._names = FILTER_NAMES if names is None else names
        self._context = context
        self._rows = 0

    # --- what an expression is ------------------------------------------------------------------

    def _kind(self, expression: Expression) -> Kind:
        match expression:
            case LocationPath() | Sequence():
                return "nodes"
            case XPathText():
                return "text"
            case Number() | Negative():
                return "number"
            case XPathBinary(operator=operator):
                return "number" if operator in ("+", "-", "*", "div", "mod") else "truth"
            case XPathCall(name=name):
                return _function(name).kind

    def condition(self, expression: Expression) -> str:
        """TRUE or FALSE."""
        match expression:
            case XPathBinary(operator=("and" | "or") as operator, left=left, right=right):
                return f"({self.condition(left)} {operator.upper()} {self.condition(right)})"
            case XPathBinary(operator=operator, left=left, right=right) if operator in _COMPARISONS:
                return self._comparison(operator, left, right)
            case LocationPath():
                return self._exists(expression)
            case XPathCall() if self._kind(expression) == "truth":
                return self._call(expression)
        if self._kind(expression) == "text":
            return f"(LENGTH({self.text(expression)}) > 0)"
        if isinstance(expression, Sequence):
            raise ValueError("a sequence is no condition")
        return f"(({self.number(expression)} <> 0) IS TRUE)"

    def text(self, expression: Expression) -> str:
        """CHARACTER, never null."""
        match expression:
            case XPathText(value=value):
                return esql_text(value)
            case Number(text=number):
                return esql_text(number)
            case LocationPath():
                return f"COALESCE(CAST({self._first(expression)} AS CHARACTER), '')"
            case XPathCall() if self._kind(expression) == "text":
                return self._call(expression)
        return f"COALESCE(CAST({self.value(expression)} AS CHARACTER), '')"

    def number(self, expression: Expression) -> str:
        """A number; null for what XPath calls NaN."""
        match expression:
            case Number(text=number):
                return number
            case Negative(operand=operand):
                return f"(- {self.number(operand)})"
            case XPathBinary(operator=operator, left=left, right=right) if operator in ("+", "-", "*"):
                return f"({self.number(left)} {operator} {self.number(right)})"
            case XPathBinary(operator="div", left=left, right=right):
                return f"(CAST({self.number(left)} AS FLOAT) / {self.number(right)})"
            case XPathBinary(operator="mod", left=left, right=right):
                return f"MOD({self.number(left)}, {self.number(right)})"
            case LocationPath():
                return f"CAST({self._first(expression)} AS FLOAT DEFAULT NULL)"
            case XPathCall() if self._kind(expression) == "number":
                return self._call(expression)
        if isinstance(expression, XPathCall) and self._kind(expression) == "moment":
            raise ValueError(f"{expression.name}() is no number; only its text can be compared")
        if self._kind(expression) == "truth":
            return f"(CASE WHEN {self.condition(expression)} THEN 1 ELSE 0 END)"
        return f"CAST({self.text(expression)} AS FLOAT DEFAULT NULL)"

    def value(self, expression: Expression) -> str:
        """Whatever it is, in its own type."""
        if isinstance(expression, LocationPath):
            return self._first(expression)
        if isinstance(expression, XPathCall):
            return self._call(expression)
        kind = self._kind(expression)
        if kind == "text":
            return self.text(expression)
        return self.number(expression) if kind == "number" else self.condition(expression)

    # --- comparisons ----------------------------------------------------------------------------

    def _comparison(self, operator: str, left: Expression, right: Expression) -> str:
        if isinstance(left, Sequence) or (self._kind(left) != "nodes" and self._kind(right) == "nodes"):
            left, right, operator = right, left, _TURNED[operator]
        if isinstance(left, LocationPath):
            if self._kind(right) == "truth":
                return f"({self.condition(left)} {_sql(operator)} {self.condition(right)})"
            return self._some(operator, left, right)
        if isinstance(left, Sequence):
            raise ValueError("two sequences cannot be compared")
        if isinstance(right, Sequence):
            raise ValueError("only a path can be compared with a sequence")
        kinds = {self._kind(left), self._kind(right)}
        if "truth" in kinds and operator in ("=", "!="):
            return f"({self.condition(left)} {_sql(operator)} {self.condition(right)})"
        if kinds == {"text"} and operator in ("=", "!="):
            return f"({self.text(left)} {_sql(operator)} {self.text(right)})"
        if operator == "!=":
            return f"(NOT (({self.number(left)} = {self.number(right)}) IS TRUE))"
        return f"(({self.number(left)} {operator} {self.number(right)}) IS TRUE)"

    def _some(self, operator: str, left: LocationPath, right: Expression) -> str:
        """Whether some element of a path compares so."""
        chain = self._chain(left)
        if isinstance(right, LocationPath):
            other = self._chain(right)
            numbers = operator not in ("=", "!=")
            compared = f"{_cast(chain.last, numbers)} {_sql(operator)} {_cast(other.last, numbers)}"
            both = _Chain(chain.rows + other.rows, chain.conditions + other.conditions, other.last)
            if not both.rows:
                return f"(({compared}) IS TRUE)"
            return f"EXISTS({both.select(_row(both), compared)})"
        compared = self._compared(operator, chain.last, right)
        if not chain.rows:
            return f"(({compared}) IS TRUE)"
        return f"EXISTS({chain.select(_row(chain), compared)})"

    def _compared(self, operator: str, element: str, right: Expression) -> str:
        if isinstance(right, Sequence):
            if operator != "=":
                raise ValueError(f"{operator} with a sequence is not supported; = is")
            numbers = all(isinstance(item, Number) for item in right.items)
            items = ", ".join(self.number(item) if numbers else self.text(item) for item in right.items)
            return f"{_cast(element, numbers)} IN ({items})"
        if self._kind(right) == "text" and operator in ("=", "!="):
            return f"{_cast(element, False)} {_sql(operator)} {self.text(right)}"
        return f"{_cast(element, True)} {_sql(operator)} {self.number(right)}"

    # --- paths ----------------------------------------------------------------------------------

    def _exists(self, path: LocationPath) -> str:
        chain = self._chain(path)
        if not chain.rows:
            return f"EXISTS({chain.last}[])" if path.steps else "TRUE"
        return f"EXISTS({chain.select(_row(chain))})"

    def _first(self, path: LocationPath) -> str:
        """The first element of a path."""
        if any(not _is_position(predicate) for step in path.steps for predicate in step.predicates):
            chain = self._chain(path)
            return f"THE({chain.select('ITEM ' + chain.last)})"
        current, domain = self._start(path)
        for step in path.steps:
            domain = domain or step.name
            current += f".{self._step(step, domain)}{_position(step)}"
        return current

    def _start(self, path: LocationPath) -> tuple[str, str]:
        """What ESQL calls the start of a path, and the domain that it lies in, when that is known."""
        if path.variable is None:
            if not self._context:
                raise ValueError(f"{path.text!r} does not say where it starts; begin with $Root or $Body")
            return self._context, "XMLNSC"
        name = self._names.get(path.variable)
        if name is None:
            raise ValueError(f"the variable ${path.variable} is unknown; there are {_list(self._names)}")
        return name, "" if name in ("Root", "InputRoot") else "XMLNSC"

    def _chain(self, path: LocationPath) -> _Chain:
        current, domain = self._start(path)
        chain = _Chain([], [], current)
        known_single = 0
        if not domain and path.steps:
            known_single = 2 if path.steps[0].name in _ONE_ROOT_BELOW else 1
            if path.steps[0].name in ("MQMD", "Properties"):
                known_single = len(path.steps)
        elif path.variable in ("Body", "InputBody"):
            known_single = 1
        for number, step in enumerate(path.steps):
            domain = domain or step.name
            written = f"{chain.last}.{self._step(step, domain)}"
            if number < known_single and not step.predicates:
                chain.last = written
                continue
            self._rows += 1
            row = f"xp_{self._rows}"
            at = _position(step)
            chain.rows.append(f"{written}{at or '[]'} AS {row}")
            chain.last = row
            for predicate in step.predicates:
                if not _is_position(predicate):
                    chain.conditions.append(self._within(row, predicate))
        return chain

    def _within(self, row: str, predicate: Expression) -> str:
        inner = Translation(self._namespaces, self._names, row)
        inner._rows = self._rows
        found = inner.condition(predicate)
        self._rows = inner._rows
        return found

    def _step(self, step: LocationStep, domain: str) -> str:
        kind = ""
        if step.attribute:
            kind = f"({domain if domain in ('XMLNSC', 'XMLNS', 'XML', 'SOAP') else 'XMLNSC'}.Attribute)"
        if step.prefix == "*":
            return f"{kind}*:{esql_name(step.name)}"
        name = "*" if step.name == "*" else esql_name(step.name)
        if not step.prefix:
            return kind + name
        uri = self._namespaces.get(step.prefix)
        if uri is None:
            raise ValueError(f"the prefix {step.prefix} has no namespace; there are {_list(self._namespaces)}")
        return f"{kind}{{{esql_text(uri)}}}:{name}"

    # --- functions ------------------------------------------------------------------------------

    def _call(self, call: XPathCall) -> str:
        function = _function(call.name)
        least, most = function.arguments
        if not least <= len(call.arguments) <= most:
            raise ValueError(f"{call.name}() has {len(call.arguments)} arguments")
        return function.write(self, call.arguments)

    def count(self, arguments: tuple[Expression, ...]) -> str:
        chain = self._chain(_path(arguments[0], "count"))
        return f"({self._whole(chain).select('COUNT(*)')})"

    def sum(self, arguments: tuple[Expression, ...]) -> str:
        chain = self._chain(_path(arguments[0], "sum"))
        whole = self._whole(chain)
        return f"COALESCE(({whole.select(f'SUM({_cast(whole.last, True)})')}), 0)"

    def _whole(self, chain: _Chain) -> _Chain:
        """A chain that has rows, as a SELECT needs it."""
        if chain.rows:
            return chain
        self._rows += 1
        row = f"xp_{self._rows}"
        return _Chain([f"{chain.last}[] AS {row}"], chain.conditions, row)

    def cut(self, arguments: tuple[Expression, ...]) -> str:
        text, start = self.text(arguments[0]), self.number(arguments[1])
        length = f" FOR {self.number(arguments[2])}" if len(arguments) > 2 else ""
        return f"SUBSTRING({text} FROM {start}{length})"

    def beside(self, side: str, arguments: tuple[Expression, ...]) -> str:
        text, mark = self.text(arguments[0]), self.text(arguments[1])
        return f"(CASE WHEN CONTAINS({text}, {mark}) THEN SUBSTRING({text} {side} {mark}) ELSE '' END)"


@dataclass(frozen=True, slots=True)
class _Function:
    kind: Kind
    arguments: tuple[int, int]
    write: Callable[[Translation, tuple[Expression, ...]], str]


_MANY = 1_000
_FUNCTIONS: dict[str, _Function] = {
    "true": _Function("truth", (0, 0), lambda *_: "TRUE"),
    "false": _Function("truth", (0, 0), lambda *_: "FALSE"),
    "not": _Function("truth", (1, 1), lambda to, a: f"(NOT {to.condition(a[0])})"),
    "boolean": _Function("truth", (1, 1), lambda to, a: to.condition(a[0])),
    "exists": _Function("truth", (1, 1), lambda to, a: to.condition(_path(a[0], "exists"))),
    "empty": _Function("truth", (1, 1), lambda to, a: f"(NOT {to.condition(_path(a[0], 'empty'))})"),
    "contains": _Function("truth", (2, 2), lambda to, a: f"CONTAINS({to.text(a[0])}, {to.text(a[1])})"),
    "starts-with": _Function("truth", (2, 2), lambda to, a: f"STARTSWITH({to.text(a[0])}, {to.text(a[1])})"),
    "ends-with": _Function("truth", (2, 2), lambda to, a: f"ENDSWITH({to.text(a[0])}, {to.text(a[1])})"),
    "string": _Function("text", (1, 1), lambda to, a: to.text(a[0])),
    "concat": _Function("text", (1, _MANY), lambda to, a: f"({' || '.join(to.text(each) for each in a)})"),
    "substring": _Function("text", (2, 3), Translation.cut),
    "substring-before": _Function("text", (2, 2), lambda to, a: to.beside("BEFORE", a)),
    "substring-after": _Function("text", (2, 2), lambda to, a: to.beside("AFTER", a)),
    "upper-case": _Function("text", (1, 1), lambda to, a: f"UPPER({to.text(a[0])})"),
    "lower-case": _Function("text", (1, 1), lambda to, a: f"LOWER({to.text(a[0])})"),
    "string-length": _Function("number", (1, 1), lambda to, a: f"LENGTH({to.text(a[0])})"),
    "number": _Function("number", (1, 1), lambda to, a: to.number(a[0])),
    "count": _Function("number", (1, 1), Translation.count),
    "sum": _Function("number", (1, 1), Translation.sum),
    "floor": _Function("number", (1, 1), lambda to, a: f"FLOOR({to.number(a[0])})"),
    "ceiling": _Function("number", (1, 1), lambda to, a: f"CEILING({to.number(a[0])})"),
    # XPath rounds a half up, also below zero.
    "round": _Function("number", (1, 1), lambda to, a: f"FLOOR({to.number(a[0])} + 0.5)"),
    "abs": _Function("number", (1, 1), lambda to, a: f"ABS({to.number(a[0])})"),
    "current-dateTime": _Function("moment", (0, 0), lambda *_: "CURRENT_TIMESTAMP"),
    "current-date": _Function("moment", (0, 0), lambda *_: "CURRENT_DATE"),
    "current-time": _Function("moment", (0, 0), lambda *_: "CURRENT_TIME"),
}
FUNCTIONS = tuple(sorted(_FUNCTIONS))


def _function(name: str) -> _Function:
    prefix, _, local = name.rpartition(":")
    if prefix in ("xs", "xsd"):
        return _constructor(local)
    function = _FUNCTIONS.get(local) if prefix in ("", "fn") else None
    if function is None:
        raise ValueError(f"the function {name}() is not supported; there are {', '.join(FUNCTIONS)}")
    return function


def _constructor(name: str) -> _Function:
    """xs:int and its like."""
    esql = _TYPES.get(name)
    if esql is None:
        raise ValueError(f"the type xs:{name} is not supported; there are {', '.join(sorted(_TYPES))}")
    kinds: dict[str, Kind] = {"CHARACTER": "text", "BOOLEAN": "truth"}
    kind: Kind = "number" if esql in _NUMBERS else kinds.get(esql, "moment")
    return _Function(kind, (1, 1), lambda to, a: f"CAST({to.value(a[0])} AS {esql})")


def _path(expression: Expression, function: str) -> LocationPath:
    if not isinstance(expression, LocationPath):
        raise ValueError(f"{function}() wants a path")
    return expression


def _is_position(predicate: Expression) -> bool:
    match predicate:
        case Number() | XPathCall(name="last", arguments=()):
            return True
        case XPathBinary(
            operator="=", left=XPathCall(name="position", arguments=()), right=Number() | XPathCall(name="last")
        ):
            return True
    return False


def _position(step: LocationStep) -> str:
    """[n] or [<] for a step that says which of its elements it means; nothing for all of them."""
    positions = [predicate for predicate in step.predicates if _is_position(predicate)]
    if not positions:
        return ""
    if len(positions) > 1 or step.predicates[0] is not positions[0]:
        raise ValueError(f"of the predicates of {step.name}, a position can only be the first")
    if step.name == "*":
        raise ValueError("a position of * is not supported, as ESQL would count attributes too; name the element")
    chosen = positions[0].right if isinstance(positions[0], XPathBinary) else positions[0]
    return f"[{chosen.text}]" if isinstance(chosen, Number) else "[<]"


def _row(chain: _Chain) -> str:
    return chain.rows[-1].rpartition(" AS ")[2]


def _cast(element: str, number: bool) -> str:
    return f"CAST({element} AS {'FLOAT DEFAULT NULL' if number else 'CHARACTER'})"


def _sql(operator: str) -> str:
    return "<>" if operator == "!=" else operator


def _list(names: Mapping[str, str]) -> str:
    return ", ".join(sorted(names)) or "none"
