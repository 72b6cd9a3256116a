# SPDX-License-Identifier: Apache-2.0
"""From what the grammar finds to the nodes of syntax.py: places, paths and what is wrong though the grammar allows it.

A rule of the grammar ends in a method of the same name. What a method finds
wrong becomes a `Wrong` in the tree, so that the parser goes on and all
mistakes of a file are told together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from lark import Token

from entrepot.esql.syntax import Binary, Expression, Index, KindName, Path, SourceFile, SourcePlace, Step, SyntaxNode
from entrepot.models.element_types import NAMED

DEPTH_MAX = 150
"""How deep statements and expressions may nest; code that walks the tree may recurse so far."""

KIND_DOMAINS = frozenset(NAMED) | {"MQRFH2", "MQRFH", "MQMD", "MIME", "BLOB", "DATAOBJECT", "IDOC"}
"""What may stand before the dot in (XMLNSC.Attribute); anything else there is a field reference."""


@dataclass(frozen=True, slots=True)
class Wrong(SyntaxNode):
    """In place of something that cannot be; never leaves the parser."""

    problem: str


def place_of(token: Token) -> SourcePlace:
    return SourcePlace(token.line or 1, token.column or 1)


@dataclass(frozen=True, slots=True)
class _NameExpression:
    place: SourcePlace
    expression: Expression


def kinds_of(expression: Any) -> tuple[Expression | KindName, ...]:
    """What stands in the brackets of a type, or behind TYPE: names joined by +, or any expression."""
    parts: list[Any] = []
    while isinstance(expression, Binary) and expression.operator == "+":
        parts.append(expression.right)
        expression = expression.left
    parts.append(expression)
    return tuple(_kind(part) for part in reversed(parts))


def _kind(expression: Any) -> Any:
    if isinstance(expression, Path):
        names = plain_names(expression)
        if names is not None and len(names) == 1 and names[0].upper() in NAMED["GENERIC"]:
            return KindName(expression.place, "", names[0])
        if names is not None and len(names) == 2 and names[0].upper() in KIND_DOMAINS:
            return KindName(expression.place, names[0], names[1])
    return expression


def plain_names(path: Path) -> tuple[str, ...] | None:
    """a.b.c as its names; None when there is anything else in the path."""
    names = []
    for step in path.steps:
        if step != Step(step.place, step.name, quoted=step.quoted) or step.name is None:
            return None
        names.append(step.name)
    return tuple(names)


class PathBuilding:
    """Field references."""

    def path(self, *steps: Step) -> Path:
        return Path(steps[0].place, steps)

    def first_step(self, name: Token, index: Index | None) -> Step:
        return Step(place_of(name), name.value, quoted=name.type == "QUOTED", index=index)

    def index(self, bracket: Token, sign: Token | None, expression: Expression | None) -> Any:
        if sign is None:
            return Index(place_of(bracket), "all" if expression is None else "number", expression)
        return Index(place_of(bracket), "from_last" if sign.type == "LESS" else "from_first", expression)

    def kind(self, expression: Expression) -> tuple[SourcePlace, tuple[Expression | KindName, ...]]:
        return expression.place, kinds_of(expression)

    def name_expression(self, brace: Token, expression: Expression) -> _NameExpression:
        return _NameExpression(place_of(brace), expression)

    def step(self, name: Any, index: Index | None) -> Step:
        return _step(None, None, name, index)

    def step_in_namespace(self, namespace: Any, name: Any, index: Index | None) -> Step:
        return _step(None, namespace, name, index)

    def step_without_namespace(self, name: Any, index: Index | None) -> Step:
        return _step(None, "", name, index)

    def kind_step(self, kind: Any, name: Any, index: Index | None) -> Step:
        return _step(kind, None, name, index)

    def kind_step_in_namespace(self, kind: Any, namespace: Any, name: Any, index: Index | None) -> Step:
        return _step(kind, namespace, name, index)

    def kind_step_without_namespace(self, kind: Any, name: Any, index: Index | None) -> Step:
        return _step(kind, "", name, index)

    def kind_step_alone(self, kind: Any, index: Index | None) -> Step:
        return Step(kind[0], kinds=kind[1], index=index)

    def index_step(self, index: Index) -> Step:
        return Step(index.place, index=index)


def _step(kind: Any, namespace: Any, name: Any, index: Index | None) -> Step:
    parts: dict[str, Any] = {}
    if isinstance(name, _NameExpression):
        place = name.place
        parts["name_expression"] = name.expression
    else:
        place = place_of(name)
        if name.type == "STAR":
            parts["any_name"] = True
        else:
            parts["name"] = name.value
            parts["quoted"] = name.type == "QUOTED"
    if namespace == "" and not isinstance(namespace, Token):
        parts["no_namespace"] = True
    elif isinstance(namespace, _NameExpression):
        place = namespace.place
        parts["namespace_expression"] = namespace.expression
    elif namespace is not None:
        place = place_of(namespace)
        if namespace.type == "STAR":
            parts["any_namespace"] = True
        else:
            parts["namespace"] = namespace.value
    if kind is not None:
        place, parts["kinds"] = kind
    return Step(place, index=index, **parts)


# --- the tree as a whole ----------------------------------------------------------------------------


@cache
def _parts(kind: type[SyntaxNode | SourceFile]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name != "place")


def walk(root: object) -> Iterator[tuple[SyntaxNode, int]]:
    """Every node with its depth, parents before children, without recursion."""
    waiting: list[tuple[Any, int]] = [(root, 0)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend((item, depth) for item in part)
        elif isinstance(part, SyntaxNode | SourceFile):
            if isinstance(part, SyntaxNode):
                yield part, depth
            kind: Any = type(part)
            for name in _parts(kind):
                value = getattr(part, name)
                if isinstance(value, SyntaxNode | tuple):
                    waiting.append((value, depth + 1))


def wrong_in(root: object) -> list[Wrong]:
    """What the grammar allowed and the building refused, and the first place that is nested too deeply."""
    found: list[Wrong] = []
    too_deep = False
    for node, depth in walk(root):
        if isinstance(node, Wrong):
            found.append(node)
        elif depth > DEPTH_MAX and not too_deep:
            too_deep = True
            found.append(Wrong(node.place, f"this is nested more than {DEPTH_MAX} deep; split it up"))
    return found


_BALANCED_FROM = 16
_ASSOCIATIVE = frozenset({"||", "AND", "OR"})


def chain_of(operands: Sequence[Any], operators: Sequence[Token]) -> Any:
    """a + b + c from left to right.

    A long chain of ||, AND or OR becomes a balanced tree, which means the same
    and does not nest: programs build texts of hundreds of pieces.
    """
    operator = _operator(operators[0])
    if len(operands) > _BALANCED_FROM and operator in _ASSOCIATIVE:
        middle = len(operands) // 2
        left = chain_of(operands[:middle], operators[: middle - 1]) if middle > 1 else operands[0]
        right = chain_of(operands[middle:], operators[middle:])
        return Binary(place_of(operators[middle - 1]), operator, left, right)
    result = operands[0]
    for token, operand in zip(operators, operands[1:], strict=True):
        result = Binary(place_of(token), _operator(token), result, operand)
    return result


def _operator(token: Token) -> str:
    return token.value.upper() if token.type in ("AND", "OR") else str(token.value)
