# SPDX-License-Identifier: Apache-2.0
"""Mistakes of kind that show without a message: `'a' + 1`, `NOT 5`, `amount LIKE 7`.

A property can be of any kind, and the same selector meets messages of many
senders, so only literals and what is made of them can be wrong here.
"""

from __future__ import annotations

from collections.abc import Iterable

from entrepot.selectors.expressions import Expression, SelectorLiteral
from entrepot.selectors.kinds import ValueKind
from entrepot.selectors.like import PatternError, cut_pattern
from entrepot.selectors.mistakes import SelectorMistake, shown


def require_condition(expression: Expression, whose: str) -> None:
    if expression.kind not in (ValueKind.BOOLEAN, None):
        raise SelectorMistake(
            expression.column, f"{whose} is a condition, such as amount > 100, and this is {_named(expression)}"
        )


def require_number(expression: Expression, operator: str) -> None:
    if expression.kind not in (ValueKind.NUMBER, None):
        raise SelectorMistake(
            expression.column, f"'{operator}' calculates with numbers, and this is {_named(expression)}"
        )


def require_like_operand(expression: Expression) -> None:
    if expression.kind not in (ValueKind.TEXT, None):
        raise SelectorMistake(expression.column, f"LIKE looks at text, and this is {_named(expression)}")


def require_comparable(expressions: Iterable[Expression], operator: str) -> None:
    """Refuse what is surely never of one kind: a condition on it would select nothing, ever."""
    known = [expression for expression in expressions if expression.kind is not None]
    for expression in known[1:]:
        if expression.kind is not known[0].kind:
            problem = f"{operator} compares like with like, and this is {_named(expression)}, not {_named(known[0])}"
            raise SelectorMistake(expression.column, problem)


def require_orderable(expressions: Iterable[Expression], operator: str) -> None:
    for expression in expressions:
        if expression.kind is ValueKind.BOOLEAN:
            raise SelectorMistake(
                expression.column, f"{operator} orders numbers or text, and this is {_named(expression)}"
            )


def text_literal(expression: Expression, whose: str) -> str:
    """The text of a literal that has to be one."""
    if not isinstance(expression, SelectorLiteral) or not isinstance(expression.value, str):
        raise SelectorMistake(expression.column, f"{whose} is text in single quotes, and this is {_named(expression)}")
    return expression.value


def list_values(expressions: Iterable[Expression]) -> tuple[frozenset[str | int | float], ValueKind]:
    """The values of a list after IN, which are literals of one kind."""
    values: list[str | int | float] = []
    expressions = tuple(expressions)
    for expression in expressions:
        if not isinstance(expression, SelectorLiteral) or expression.kind not in (ValueKind.TEXT, ValueKind.NUMBER):
            raise SelectorMistake(
                expression.column, f"a list holds text or numbers as such, and this is {_named(expression)}"
            )
        values.append(expression.value)
    require_comparable(expressions, "IN")
    return frozenset(values), ValueKind.TEXT if isinstance(values[0], str) else ValueKind.NUMBER


def like_pattern(pattern: Expression, escape: Expression | None) -> tuple[str, str | None]:
    """The pattern and the escape character of LIKE."""
    pattern_text = text_literal(pattern, "the pattern of LIKE")
    escape_text = None if escape is None else text_literal(escape, "the escape character")
    if escape is not None and escape_text is not None and len(escape_text) != 1:
        problem = f"the escape character is one character, and {shown(escape_text)} has {len(escape_text)}"
        raise SelectorMistake(escape.column, problem)
    try:
        cut_pattern(pattern_text, escape_text)
    except PatternError as error:
        # The quote at the start, and each quote written twice, move what comes after.
        quotes_before = 1 + pattern_text[: error.index].count("'")
        raise SelectorMistake(pattern.column + error.index + quotes_before, error.problem) from None
    return pattern_text, escape_text


def _named(expression: Expression) -> str:
    if expression.kind is None:
        return "a property"
    if isinstance(expression, SelectorLiteral) and expression.kind is ValueKind.BOOLEAN:
        return "a boolean"
    return expression.kind.value
