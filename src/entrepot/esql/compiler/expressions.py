# SPDX-License-Identifier: Apache-2.0
"""Expressions to Python.

NULL and UNKNOWN are None. A condition needs only to be true or not, so there
AND and OR become Python's own; everywhere else three-valued logic is kept.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from entrepot.esql.compiler.databases import DatabaseCompiler
from entrepot.esql.compiler.paths import Code, PathCompiler
from entrepot.esql.compiler.selects import SelectCompiler
from entrepot.esql.compiler.source import Line, PythonLines
from entrepot.esql.runtime.functions import FUNCTIONS
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
    Routine,
    RoutineParameter,
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


class ExpressionCompiler(PathCompiler):
    """The part of a routine's compiler that knows expressions."""

    selects: SelectCompiler
    databases: DatabaseCompiler

    def __init__(self) -> None:
        self.preludes: list[list[Line]] = [[]]
        """Functions that have to stand before the statement whose expressions use them."""
        self.constants: dict[str, Any] = {}
        """What generated source refers to by name, because it cannot be written down."""
        self.allow_eval = False

    def constant(self, value: Any, stem: str) -> str:
        name = f"{stem}_{len(self.constants) + 1}"
        self.constants[name] = value
        return name

    def find_routine(self, name: tuple[str, ...], *, function: bool) -> tuple[str, Routine] | None:
        raise NotImplementedError

    def evaluation(self, node: Call) -> Code:
        raise NotImplementedError

    # --- the kinds of expressions -----------------------------------------------------------------

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
            raise self.unsupported(node, f"a condition is BOOLEAN, not {compiled.type}")
        return f"truth({compiled.text})"

    def tree(self, node: Expression) -> Code:
        """Python for what SET may take whole: an element, a list, or a value."""
        if isinstance(node, Path) and self.is_scalar(node) is None:
            return Code(self.elements(node), "LIST") if self.is_list(node) else Code(self.element(node), "TREE")
        return self._first(node) if isinstance(node, The) else self.expression(node)

    def on_Literal(self, node: Literal) -> Code:
        value = node.value
        if value is None or type(value) in (int, bool):
            return Code(repr(value), "BOOLEAN" if node.unknown else _TYPE_OF.get(type(value), ""))
        if type(value) in (str, bytes):
            return Code(repr(value), _TYPE_OF[type(value)])
        return Code(self.constant(value, "literal"), _TYPE_OF.get(type(value), ""))

    def on_Path(self, node: Path) -> Code:
        if self.is_list(node):
            return Code(self.elements(node), "LIST")
        return self.value(node)

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
            kept = self.names.temporary()
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
        return isinstance(node, RowOf | ListOf) or (isinstance(node, Path) and self.is_list(node))

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
            if isinstance(node.operand, Path) and self.is_scalar(node.operand) is None:
                # A folder with children and no value of its own is not NULL.
                text = f"presence({self.element(node.operand)})"
            elif isinstance(node.operand, The):
                text = f"presence({self._first(node.operand).text})"
            return Code(f"({text} is {'not ' if node.negated else ''}None)", "BOOLEAN")
        code = f"is_({self.expression(node.operand).text}, {node.what!r})"
        return Code(f"(not {code})" if node.negated else code, "BOOLEAN")

    def on_Case(self, node: Case) -> Code:
        kept = self.names.temporary()
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
            caster = self.constants["caster"](kind.name, kind.precision, kind.scale, kind.qualifier)
            text = f"{self.constant(caster, 'as_' + kind.name.lower())}({operands[0]})"
        if node.default is not None:
            text = f"cast_or(lambda: {text}, lambda: {self.expression(node.default).text})"
        return Code(text, kind.name)

    def on_BitStream(self, node: BitStream) -> Code:
        clauses = (node.options, node.encoding, node.ccsid, node.set, node.type, node.format)
        parts = ", ".join("None" if clause is None else self.expression(clause).text for clause in clauses)
        return Code(f"bitstream(run, {self.element(node.path)}, {parts})", "BLOB")

    def on_IntervalOf(self, node: IntervalOf) -> Code:
        operand = node.operand
        if isinstance(operand, Binary) and operand.operator == "-":
            left, right = self.expression(operand.left).text, self.expression(operand.right).text
            return Code(f"interval_of({left}, {right}, {node.qualifier!r})", "INTERVAL")
        raise self.unsupported(node, f"{node.qualifier} stands behind a difference of two dates or times")

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

    # --- calls --------------------------------------------------------------------------------------

    def on_Call(self, node: Call) -> Code:
        if len(node.name) == 1:
            structural = getattr(self, "call_" + node.name[0].upper(), None)
            if structural is not None:
                compiled = structural(node)
                assert isinstance(compiled, Code)
                return compiled
        found = self.find_routine(node.name, function=True)
        if found is not None:
            return self.routine_call(node, *found)
        builtin = FUNCTIONS.get(node.name[-1].upper()) if len(node.name) == 1 else None
        if builtin is None:
            raise self.unsupported(node, f"there is no function {'.'.join(node.name)}")
        arguments = [self.expression(argument).text for argument in node.arguments]
        if builtin.needs_run:
            arguments.insert(0, "run")
        if len(builtin.forms) > 1:
            arguments.append(f"form={node.form!r}")
        name = f"f_{builtin.name}"
        self.constants[name] = builtin.call
        return Code(f"{name}({', '.join(arguments)})")

    def routine_call(self, node: Call, python: str, routine: Routine) -> Code:
        """A function of the program, inside of an expression."""
        outs = [parameter for parameter in routine.parameters if parameter.direction != "IN"]
        arguments = self.arguments(routine.parameters, node.arguments)
        code = f"{python}({', '.join(['run', *arguments])})"
        type_name = routine.returns.name if routine.returns is not None else ""
        if not outs:
            return Code(code, type_name if type_name not in ("ROW", "REFERENCE") else "TREE")
        kept = self.names.temporary()
        stores = []
        number = 0
        for parameter, argument in zip(routine.parameters, node.arguments, strict=True):
            if parameter.direction == "IN":
                continue
            number += 1
            symbol = self.is_scalar(argument) if isinstance(argument, Path) else None
            if symbol is None or not symbol.local:
                raise self.unsupported(
                    argument, f"parameter {parameter.name} gives back a value: name a local variable"
                )
            stores.append(f"({symbol.python} := {kept}[{number}])")
        return Code(f"(({kept} := {code}), {', '.join(stores)}, {kept}[0])[-1]", type_name)

    def arguments(self, parameters: tuple[RoutineParameter, ...], given: tuple[Expression, ...]) -> list[str]:
        texts = []
        for parameter, argument in zip(parameters, given, strict=True):
            if parameter.type.name == "REFERENCE":
                if not isinstance(argument, Path):
                    raise self.unsupported(argument, f"parameter {parameter.name} is a REFERENCE: name a field")
                texts.append(self.element(argument))
            elif parameter.type.name == "ROW":
                texts.append(self.tree(argument).text)
            elif parameter.direction == "OUT":
                texts.append("None")
            else:
                texts.append(self.converted(self.expression(argument), parameter.type.name))
        return texts

    def converted(self, code: Code, type_name: str) -> str:
        """A value on its way into something declared with a type."""
        if code.type == type_name or type_name in ("ROW", "REFERENCE", "LIST", ""):
            return code.text
        if code.text == "None":
            return "None"
        caster = self.constants["caster"](type_name, None, None, "")
        name = f"to_{type_name}"
        self.constants[name] = caster
        return f"{name}({code.text})"

    # --- functions that look at fields rather than at values ---------------------------------------

    def _path_argument(self, node: Call) -> Path:
        if len(node.arguments) != 1 or not isinstance(node.arguments[0], Path):
            raise self.unsupported(node, f"{node.name[0].upper()} takes one field reference")
        return node.arguments[0]

    def call_CARDINALITY(self, node: Call) -> Code:
        if len(node.arguments) != 1:
            raise self.unsupported(node, "CARDINALITY takes one list")
        return Code(f"cardinality({self.as_list(node.arguments[0])})", "INTEGER")

    def call_EXISTS(self, node: Call) -> Code:
        if len(node.arguments) != 1:
            raise self.unsupported(node, "EXISTS takes one list")
        return Code(f"(cardinality({self.as_list(node.arguments[0])}) > 0)", "BOOLEAN")

    def call_SINGULAR(self, node: Call) -> Code:
        if len(node.arguments) != 1:
            raise self.unsupported(node, "SINGULAR takes one list")
        return Code(f"(cardinality({self.as_list(node.arguments[0])}) == 1)", "BOOLEAN")

    def as_list(self, node: Expression) -> str:
        if isinstance(node, Path) and self.is_scalar(node) is None:
            return self.elements(node)
        return self.tree(node).text

    def call_FIELDNAME(self, node: Call) -> Code:
        return Code(f"field_name({self.element(self._path_argument(node))})", "CHARACTER")

    def call_FIELDNAMESPACE(self, node: Call) -> Code:
        return Code(f"field_namespace({self.element(self._path_argument(node))})", "CHARACTER")

    def call_FIELDTYPE(self, node: Call) -> Code:
        return Code(f"field_type({self.element(self._path_argument(node))})", "INTEGER")

    def call_FIELDVALUE(self, node: Call) -> Code:
        return Code(f"value_of({self.element(self._path_argument(node))})")

    def call_LASTMOVE(self, node: Call) -> Code:
        path = self._path_argument(node)
        symbol = self.names.find(path.steps[0].name or "")
        if symbol is None or symbol.kind != "reference" or len(path.steps) > 1:
            raise self.unsupported(node, "LASTMOVE takes a REFERENCE variable")
        return Code(f"moved_{symbol.python}", "BOOLEAN")

    def call_SAMEFIELD(self, node: Call) -> Code:
        if len(node.arguments) != 2 or not all(isinstance(argument, Path) for argument in node.arguments):
            raise self.unsupported(node, "SAMEFIELD takes two field references")
        left, right = (self.element(argument) for argument in node.arguments if isinstance(argument, Path))
        return Code(f"({left} is {right})", "BOOLEAN")

    def call_COALESCE(self, node: Call) -> Code:
        text = self.expression(node.arguments[-1]).text
        for argument in reversed(node.arguments[:-1]):
            kept = self.names.temporary()
            text = f"({kept} if ({kept} := {self.expression(argument).text}) is not None else {text})"
        return Code(text)

    def call_NULLIF(self, node: Call) -> Code:
        if len(node.arguments) != 2:
            raise self.unsupported(node, "NULLIF takes two values")
        kept = self.names.temporary()
        left, right = (self.expression(argument).text for argument in node.arguments)
        return Code(f"(None if equal(({kept} := {left}), {right}) else {kept})")

    def call_BITSTREAM(self, node: Call) -> Code:
        return Code(f"bitstream(run, {self.element(self._path_argument(node))}, *[None] * 6)", "BLOB")

    def call_EVAL(self, node: Call) -> Code:
        return self.evaluation(node)

    # --- preludes -----------------------------------------------------------------------------------

    def flush(self, source: PythonLines) -> None:
        """Write the functions that the next statement needs."""
        source.extend(self.preludes[-1])
        self.preludes[-1].clear()


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
