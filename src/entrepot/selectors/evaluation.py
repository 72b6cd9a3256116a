# SPDX-License-Identifier: Apache-2.0
"""From an expression to a Python function of a message, made once and called for every message.

Each expression becomes a closure over the closures of its parts. Nothing of
the selector's text is ever run as Python.
"""

from __future__ import annotations

from typing import assert_never, cast

from entrepot.limits import SELECTOR_TEXT_CHARACTERS_MAX
from entrepot.message import Message
from entrepot.selectors import comparison, three_valued
from entrepot.selectors.arithmetic import arithmetic
from entrepot.selectors.expressions import (
    And,
    Arithmetic,
    BetweenTest,
    Brackets,
    Comparison,
    Expression,
    Identifier,
    In,
    IsNull,
    LikeTest,
    Not,
    Or,
    SelectorLiteral,
)
from entrepot.selectors.identifiers import identifier_reader, is_property
from entrepot.selectors.kinds import Condition, Reader, Truth, Value, ValueKind
from entrepot.selectors.like import Matcher, compile_pattern

_Condition = And | Or | Not | Comparison | BetweenTest | In | LikeTest | IsNull


def reader_for(expression: Expression) -> Reader:
    """What gives the value of any expression."""
    match expression:
        case SelectorLiteral(value=value):
            return _constant(value)
        case Identifier(name=name):
            return identifier_reader(name)
        case Brackets(inner=inner):
            return reader_for(inner)
        case Arithmetic(first=first, steps=steps):
            return arithmetic(reader_for(first), tuple((symbol, reader_for(operand)) for symbol, operand in steps))
        case _:
            return _condition_for(cast(_Condition, expression))


def condition_for(expression: Expression) -> Condition:
    """What tells whether a condition holds; what is no condition for a message, is UNKNOWN for it."""
    read = reader_for(expression)
    return cast(Condition, read) if expression.kind is ValueKind.BOOLEAN else three_valued.condition_of(read)


def _condition_for(condition: _Condition) -> Condition:
    match condition:
        case And(operands=operands):
            return three_valued.conjunction(tuple(condition_for(operand) for operand in operands))
        case Or(operands=operands):
            return three_valued.disjunction(tuple(condition_for(operand) for operand in operands))
        case Not(operand=operand):
            return three_valued.negation(condition_for(operand))
        case Comparison():
            return _comparison_for(condition)
        case BetweenTest(operand=operand, low=low, high=high):
            return comparison.between(reader_for(operand), reader_for(low), reader_for(high))
        case In(operand=operand, values=values, values_kind=kind):
            return comparison.membership(reader_for(operand), values, kind)
        case LikeTest(operand=operand, pattern=pattern, escape=escape):
            return _likeness(reader_for(operand), compile_pattern(pattern, escape))
        case IsNull(operand=operand):
            return _nullness(reader_for(operand))
        case _:
            assert_never(condition)


def _comparison_for(condition: Comparison) -> Condition:
    left, symbol, right = condition.left, condition.operator, condition.right
    if isinstance(left, SelectorLiteral):
        left, symbol, right = right, comparison.MIRRORED[symbol], left
    if not isinstance(right, SelectorLiteral):
        return comparison.comparison(reader_for(left), symbol, reader_for(right))
    if isinstance(left, Identifier) and is_property(left.name):
        return comparison.property_comparison(left.name, symbol, right.value)
    return comparison.comparison_with_literal(reader_for(left), symbol, right.value)


def _constant(value: Value) -> Reader:
    return lambda _message: value


def _likeness(read: Reader, matches: Matcher) -> Condition:
    def holds(message: Message) -> Truth:
        value = read(message)
        return matches(value) if isinstance(value, str) and len(value) <= SELECTOR_TEXT_CHARACTERS_MAX else None

    return holds


def _nullness(read: Reader) -> Condition:
    return lambda message: read(message) is None
