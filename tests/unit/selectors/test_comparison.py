# SPDX-License-Identifier: Apache-2.0
"""Comparison of every kind of value with every other."""

from __future__ import annotations

import pytest

from entrepot.message import Message
from entrepot.selectors.comparison import between, comparison_with_literal, membership, property_comparison, value_test
from entrepot.selectors.expressions import ComparisonOperator
from entrepot.selectors.kinds import Truth, Value, ValueKind
from folding import for_each

OPERATORS: tuple[ComparisonOperator, ...] = ("=", "<>", "<", "<=", ">", ">=")
LESS = (False, True, True, True, False, False)
EQUAL = (True, False, False, True, False, True)
UNLIKE = (False, None, None, None, None, None)
NULL = (None,) * 6


@for_each(
    "left, right, truths",
    [
        (1, 2, LESS),
        (1, 1.5, LESS),
        (2.0, 2, EQUAL),
        ("a", "b", LESS),
        ("a", "a", EQUAL),
        (True, True, (True, False, None, None, None, None)),
        (False, True, (False, True, None, None, None, None)),
        (b"a", b"a", (True, False, None, None, None, None)),
        (1, "1", UNLIKE),
        (True, 1, UNLIKE),
        (True, "true", UNLIKE),
        (b"a", "a", UNLIKE),
        (None, 1, NULL),
        ("a", None, NULL),
        (None, None, NULL),
    ],
)
def test_comparison_of_two_values(left: Value, right: Value, truths: tuple[Truth, ...]) -> None:
    assert tuple(value_test(operator)(left, right) for operator in OPERATORS) == truths


@for_each("value", [None, "a", "b", 1, 2.5, True, False, b"a"])
@for_each("literal", ["a", 1, 2.5])
def test_shortcuts_for_literals_agree_with_the_general_comparison(value: Value, literal: str | int | float) -> None:
    message = Message(b"", properties={} if value is None else {"p": value})
    for operator in OPERATORS:
        truth = value_test(operator)(value, literal)
        assert property_comparison("p", operator, literal)(message) is truth
        assert comparison_with_literal(lambda _message: value, operator, literal)(message) is truth


@for_each(
    "value, low, high, truth",
    [
        (2, 1, 3, True),
        (1, 1, 3, True),
        (3, 1, 3, True),
        (4, 1, 3, False),
        (9, None, 3, False),
        (2, None, 3, None),
        (None, 1, 3, None),
        ("b", "a", "c", True),
        ("b", 1, 3, None),
        (True, False, True, None),
    ],
)
def test_between_includes_its_bounds_and_one_failing_bound_decides(
    value: Value, low: Value, high: Value, truth: Truth
) -> None:
    holds = between(lambda _message: value, lambda _message: low, lambda _message: high)
    assert holds(Message(b"")) is truth


@pytest.mark.parametrize(
    "value, truth", [(1, True), (2.0, True), (3, False), (True, False), ("1", False), (None, None)]
)
def test_membership_is_equality_with_any_of_the_values(value: Value, truth: Truth) -> None:
    assert membership(lambda _message: value, frozenset({1, 2}), ValueKind.NUMBER)(Message(b"")) is truth
