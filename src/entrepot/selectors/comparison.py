# SPDX-License-Identifier: Apache-2.0
"""The comparisons, for values whose kinds are only known when a message is there.

A comparison with NULL is UNKNOWN. Numbers compare with numbers, int or float;
text with text, also in order, as SQL-92 has it; booleans and bytes are equal
or not, and have no order. For unlike kinds JMS says that "the value of the
operation is false". We take that literally for `=`, which makes them surely
not equal. `<>` and the orders are UNKNOWN for unlike kinds: that selects no
message either, and neither does putting NOT before it, so that no selector
takes a message by comparing things that cannot be compared.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from entrepot.limits import SELECTOR_TEXT_CHARACTERS_MAX
from entrepot.message import Message
from entrepot.selectors.expressions import ComparisonOperator
from entrepot.selectors.kinds import KINDS, Condition, Reader, Truth, Value, ValueKind

_TESTS: dict[ComparisonOperator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

MIRRORED: dict[ComparisonOperator, ComparisonOperator] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
"""The operator that says the same with the operands exchanged."""

_EQUATABLE = frozenset({ValueKind.NUMBER, ValueKind.TEXT, ValueKind.BOOLEAN, ValueKind.BYTES})
_ORDERABLE = frozenset({ValueKind.NUMBER, ValueKind.TEXT})
_SIZED = frozenset({ValueKind.TEXT, ValueKind.BYTES})


def value_test(symbol: ComparisonOperator) -> Callable[[Value, Value], Truth]:
    """The comparison of two values of whatever kind."""
    test = _TESTS[symbol]
    unlike = _unlike_truth(symbol)
    comparable = _EQUATABLE if symbol in ("=", "<>") else _ORDERABLE

    def compare(left: Value, right: Value) -> Truth:
        if left is None or right is None:
            return None
        kind = KINDS[left.__class__]
        if kind is KINDS[right.__class__] and kind in comparable:
            if kind in _SIZED and min(len(left), len(right)) > SELECTOR_TEXT_CHARACTERS_MAX:  # type: ignore[arg-type]
                return None  # a message must not decide how long this takes
            return test(left, right)
        return unlike

    return compare


def comparison(left: Reader, symbol: ComparisonOperator, right: Reader) -> Condition:
    compare = value_test(symbol)
    return lambda message: compare(left(message), right(message))


def comparison_with_literal(read: Reader, symbol: ComparisonOperator, literal: str | int | float | bool) -> Condition:
    test, unlike, kind = _TESTS[symbol], _unlike_truth(symbol), KINDS[type(literal)]

    def holds(message: Message) -> Truth:
        value = read(message)
        if KINDS[value.__class__] is kind:
            return test(value, literal)
        return None if value is None else unlike

    return holds


def property_comparison(name: str, symbol: ComparisonOperator, literal: str | int | float | bool) -> Condition:
    """The same for a property, without the call of a reader: this is what most selectors consist of."""
    test, unlike, kind = _TESTS[symbol], _unlike_truth(symbol), KINDS[type(literal)]

    def holds(message: Message) -> Truth:
        value = message.properties.get(name)
        if KINDS[value.__class__] is kind:
            return test(value, literal)
        return None if value is None else unlike

    return holds


def between(read: Reader, read_low: Reader, read_high: Reader) -> Condition:
    at_least, at_most = value_test(">="), value_test("<=")

    def holds(message: Message) -> Truth:
        value = read(message)
        above = at_least(value, read_low(message))
        below = at_most(value, read_high(message))
        # One bound that surely fails decides, even when the other is NULL.
        if above is None or below is None:
            return False if above is False or below is False else None
        return above and below

    return holds


def membership(read: Reader, values: frozenset[str | int | float], kind: ValueKind) -> Condition:
    """IN: as `=` with any of the values, hence FALSE for a value of another kind."""

    def holds(message: Message) -> Truth:
        value = read(message)
        if KINDS[value.__class__] is kind:
            return value in values
        return None if value is None else False

    return holds


def _unlike_truth(symbol: ComparisonOperator) -> Truth:
    return False if symbol == "=" else None
