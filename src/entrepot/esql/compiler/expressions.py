# SPDX-License-Identifier: Apache-2.0
"""Expressions to Python.

NULL and UNKNOWN are None. A condition needs only to be true or not, so there
AND and OR become Python's own; everywhere else three-valued logic is kept.
"""

from __future__ import annotations

from decimal import Decimal

from entrepot.esql.compiler.calls import CallCompiler
from entrepot.esql.compiler.databases import DatabaseCompiler
from entrepot.esql.compiler.evaluation import EvalCompiler
from entrepot.esql.compiler.paths import PathCompiler
from entrepot.esql.compiler.selects import SelectCompiler
from entrepot.esql.compiler.source import Code
from entrepot.esql.compiler.state import RoutineState
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.syntax import (
    Among,
    Between,
    Binary,
    BitStream,
    Call,
    Case,
    Cast,
    Expression,
    IntervalOf,
    Is,
    Like,
    ListOf,
    Literal,
    Passthru,
    Path,
    RowOf,
    Select,
    The,
    Unary,
)

_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "||": "concat"}
_COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_TYPE_OF = {
    str: "CHARACTER",
    int: "INTEGER",
    Decimal: "DECIMAL",
    float: "FLOAT",
    bool: "BOOLEAN",
    bytes: "BLOB",
}


class ExpressionCompiler:
    """Operators itself; paths, calls, SELECT, EVAL and databases are parts that come back to it."""

    def __init__(self, state: RoutineState) -> None:
        self._names = state.names
        self._constants = state.constants
        self.paths = PathCompiler(state, self)
        self.evaluations = EvalCompiler(state, self)
        self.calls = CallCompiler(state, self)
        self.selects = SelectCompiler(state, self)
        self.databases = DatabaseCompiler(state, self)

    def expression(self, node: Expression) -> Code:
        """Python for the value of an expression."""
        compiled = getattr(self, "on_" + type(node).__name__)(node)
        assert isinstance(compiled, Code)
        return compiled

    def condition(self, node: Expression) -> str:
        """Python that is true where the expression is TRUE, and false where it is FALSE or UNKNOWN."""
        if isinstance(node, Binary) and node.operator in ("AND", "OR"):
            return f"({self.condition(node.left)} {node.operator.lower()} {self.condition(node.right)})"
        return self.boolean(node)

    def boolean(self, node: Expression) -> str:
        """Python for a BOOLEAN; fields that hold something else are an error when they are met."""
        compiled = self.expression(node)
        if compiled.type == "BOOLEAN":
            return compiled.text
        if compiled.type not in ("", "CHARACTER"):
            raise Unsupported(node, f"a condition is BOOLEAN, not {compiled.type}")
        return f"truth({compiled.text})"

    def tree(self, node: Expression) -> Code:
        """Python for what SET may take whole: an element, a list, or a value."""
        if isinstance(node, Path) and self.paths.is_scalar(node) is None:
            return (
                Code(self.paths.elements(node), "LIST")
                if self.paths.is_list(node)
                else Code(self.paths.element(node), "TREE")
            )
        return self._first(node) if isinstance(node, The) else self.expression(node)

    def as_list(self, node: Expression) -> str:
        """Python for a list, where a field stands for itself."""
        if isinstance(node, Path) and self.paths.is_scalar(node) is None:
            return self.paths.elements(node)
        return self.tree(node).text

    def scalar(self, node: Expression) -> Code:
        """Python for one value, where an element or a list may be given."""
        code = self.expression(node)
        return Code(f"single({code.text})") if code.type in ("LIST", "TREE") else code

    def on_Literal(self, node: Literal) -> Code:
        value = node.value
        if value is None or type(value) in (int, bool):
            return Code(repr(value), "BOOLEAN" if node.unknown else _TYPE_OF.get(type(value), ""))
        if type(value) in (str, bytes):
            return Code(repr(value), _TYPE_OF[type(value)])
        return Code(self._constants.add(value, "literal"), _TYPE_OF.get(type(value), ""))

    def on_Path(self, node: Path) -> Code:
        if self.paths.is_list(node):
            return Code(self.paths.elements(node), "LIST")
        return self.paths.value(node)

    def on_Unary(self, node: Unary) -> Code:
        operand = self.expression(node.operand)
        if node.operator == "NOT":
            return Code(f"not_({self.boolean(node.operand)})", "BOOLEAN")
        name = "negate" if node.operator == "-" else "positive"
        return Code(f"{name}({operand.text})", operand.type)

    def on_Binary(self, node: Binary) -> Code:
        operator = node.operator
        if operator in ("AND", "OR"):
            left, right = self.boolean(node.left), self.boolean(node.right)
            kept = self._names.temporary()
            decided, function = ("False", "and_") if operator == "AND" else ("True", "or_")
            return Code(f"({decided} if ({kept} := {left}) is {decided} else {function}({kept}, {right}))", "BOOLEAN")
        if operator in ("=", "<>") and (self._is_many(node.left) or self._is_many(node.right)):
            code = f"same({self.tree(node.left).text}, {self.tree(node.right).text})"
            return Code(code if operator == "=" else f"not_({code})", "BOOLEAN")
        left_code, right_code = self.expression(node.left), self.expression(node.right)
        if operator in "+-*/" and "FLOAT" in (left_code.type, right_code.type):
            left_code, right_code = _as_float(node.left, left_code), _as_float(node.right, right_code)
        if operator in _COMPARISONS:
            return Code(f"{_COMPARISONS[operator]}({left_code.text}, {right_code.text})", "BOOLEAN")
        return Code(
            f"{_ARITHMETIC[operator]}({left_code.text}, {right_code.text})",
            _type_of_sum(operator, left_code.type, right_code.type),
        )

    def _is_many(self, node: Expression) -> bool:
        """Whether an operand is a row or a list, so that the other one has to be seen as a whole, too."""
        return isinstance(node, RowOf | ListOf) or (isinstance(node, Path) and self.paths.is_list(node))

    def on_Between(self, node: Between) -> Code:
        operands = ", ".join(self.expression(part).text for part in (node.operand, node.low, node.high))
        code = f"between({operands}, {node.symmetric})"
        return Code(f"not_({code})" if node.negated else code, "BOOLEAN")

    def on_Among(self, node: Among) -> Code:
        candidates = "".join(f"{self.expression(candidate).text}, " for candidate in node.candidates)
        code = f"among({self.expression(node.operand).text}, ({candidates}))"
        return Code(f"not_({code})" if node.negated else code, "BOOLEAN")

    def on_Like(self, node: Like) -> Code:
        escape = "None" if node.escape is None else self.expression(node.escape).text
        code = f"like({self.expression(node.operand).text}, {self.expression(node.pattern).text}, {escape})"
        return Code(f"not_({code})" if node.negated else code, "BOOLEAN")

    def on_Is(self, node: Is) -> Code:
        if node.what == "NULL":
            if isinstance(node.operand, Literal):
                return Code(repr((node.operand.value is None) is not node.negated), "BOOLEAN")
            operand = self.expression(node.operand)
            text = operand.text
            if operand.type == "LIST":
                return Code(f"({'' if node.negated else 'not '}{text})", "BOOLEAN")
            if isinstance(node.operand, Path) and self.paths.is_scalar(node.operand) is None:
                # A folder with children and no value of its own is not NULL.
                text = f"presence({self.paths.element(node.operand)})"
            elif isinstance(node.operand, The):
                text = f"presence({self._first(node.operand).text})"
            return Code(f"({text} is {'not ' if node.negated else ''}None)", "BOOLEAN")
        code = f"is_({self.expression(node.operand).text}, {node.what!r})"
        return Code(f"(not {code})" if node.negated else code, "BOOLEAN")

    def on_Case(self, node: Case) -> Code:
        kept = self._names.temporary()
        types: set[str] = set()
        text = "None"
        if node.otherwise is not None:
            otherwise = self.expression(node.otherwise)
            text = otherwise.text
            types.add(otherwise.type)
        for number, (when, then) in reversed(list(enumerate(node.branches))):
            if node.operand is None:
                test = self.condition(when)
            else:
                operand = f"({kept} := {self.expression(node.operand).text})" if number == 0 else kept
                test = f"equal({operand}, {self.expression(when).text})"
            result = self.expression(then)
            types.add(result.type)
            text = f"({result.text} if {test} else {text})"
        return Code(text, types.pop() if len(types) == 1 else "")

    def on_Cast(self, node: Cast) -> Code:
        kind = node.type
        operands = [self.expression(operand).text for operand in node.operand]
        clauses = (node.ccsid, node.encoding, node.format)
        if len(operands) > 1:
            text = f"cast_parts(({', '.join(operands)},), {kind.name!r})"
        elif any(clauses):
            parts = ", ".join("None" if clause is None else self.expression(clause).text for clause in clauses)
            text = f"cast({operands[0]}, {kind.name!r}, {kind.precision}, {kind.scale}, {kind.qualifier!r}, {parts})"
        else:
            caster = self._constants.caster(kind.name, kind.precision, kind.scale, kind.qualifier)
            text = f"{self._constants.add(caster, 'as_' + kind.name.lower())}({operands[0]})"
        if node.default is not None:
            text = f"cast_or(lambda: {text}, lambda: {self.expression(node.default).text})"
        return Code(text, kind.name)

    def on_BitStream(self, node: BitStream) -> Code:
        clauses = (node.options, node.encoding, node.ccsid, node.set, node.type, node.format)
        parts = ", ".join("None" if clause is None else self.expression(clause).text for clause in clauses)
        return Code(f"bitstream(run, {self.paths.element(node.path)}, {parts})", "BLOB")

    def on_IntervalOf(self, node: IntervalOf) -> Code:
        operand = node.operand
        if isinstance(operand, Binary) and operand.operator == "-":
            left, right = self.expression(operand.left).text, self.expression(operand.right).text
            return Code(f"interval_of({left}, {right}, {node.qualifier!r})", "INTERVAL")
        raise Unsupported(node, f"{node.qualifier} stands behind a difference of two dates or times")

    def on_Passthru(self, node: Passthru) -> Code:
        return self.databases.passthru(node)

    def on_Select(self, node: Select) -> Code:
        return self.selects.select(node)

    def on_The(self, node: The) -> Code:
        return Code(f"single({self._first(node).text})")

    def _first(self, node: The) -> Code:
        """What THE takes of a list: a row, a field or a value."""
        if isinstance(node.select, Select):
            return self.selects.select(node.select, want="first")
        return Code(f"the({self.tree(node.select).text})")

    def on_RowOf(self, node: RowOf) -> Code:
        return self.selects.row(node)

    def on_ListOf(self, node: ListOf) -> Code:
        return Code(f"[{', '.join(self.tree(item).text for item in node.items)}]", "LIST")

    def on_Call(self, node: Call) -> Code:
        return self.calls.call(node)


def _as_float(node: Expression, code: Code) -> Code:
    """A number beside a FLOAT, which would be made one each time."""
    if isinstance(node, Literal) and type(node.value) in (int, Decimal):
        return Code(repr(float(node.value)), "FLOAT")
    return code


def _type_of_sum(operator: str, left: str, right: str) -> str:
    if operator == "||":
        return "CHARACTER" if left == right == "CHARACTER" else ""
    if left == right and left in ("INTEGER", "FLOAT", "DECIMAL"):
        return left
    numbers = {left, right}
    if numbers == {"INTEGER", "DECIMAL"}:
        return "DECIMAL"
    return "FLOAT" if "FLOAT" in numbers and numbers <= {"FLOAT", "INTEGER", "DECIMAL"} else ""
