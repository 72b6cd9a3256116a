# SPDX-License-Identifier: Apache-2.0
"""The truth tables of SQL-92, written out."""

from __future__ import annotations

import pytest

from entrepot.message import Message
from entrepot.selectors import compile_selector
from entrepot.selectors.kinds import Condition, Truth
from entrepot.selectors.three_valued import condition_of, conjunction, disjunction, negation
from folding import for_each

T, F, U = True, False, None
MESSAGE = Message(b"")

AND_TABLE = [(T, T, T), (T, F, F), (T, U, U), (F, T, F), (F, F, F), (F, U, F), (U, T, U), (U, F, F), (U, U, U)]
OR_TABLE = [(T, T, T), (T, F, T), (T, U, T), (F, T, T), (F, F, F), (F, U, U), (U, T, T), (U, F, U), (U, U, U)]
NOT_TABLE = [(T, F), (F, T), (U, U)]


def always(truth: Truth) -> Condition:
    return lambda _message: truth


@for_each("left, right, result", AND_TABLE)
def test_and_follows_its_truth_table(left: Truth, right: Truth, result: Truth) -> None:
    assert conjunction((always(left), always(right)))(MESSAGE) is result


@for_each("left, right, result", AND_TABLE)
def test_and_of_three_follows_the_same_table(left: Truth, right: Truth, result: Truth) -> None:
    assert conjunction((always(left), always(T), always(right)))(MESSAGE) is result


@for_each("left, right, result", OR_TABLE)
def test_or_follows_its_truth_table(left: Truth, right: Truth, result: Truth) -> None:
    assert disjunction((always(left), always(right)))(MESSAGE) is result


@pytest.mark.parametrize("operand, result", NOT_TABLE)
def test_not_follows_its_truth_table(operand: Truth, result: Truth) -> None:
    assert negation(always(operand))(MESSAGE) is result


@for_each("left, right, result", AND_TABLE)
def test_and_of_properties_follows_the_table_with_null_as_unknown(left: Truth, right: Truth, result: Truth) -> None:
    present = {name: truth for name, truth in (("p", left), ("q", right)) if truth is not None}
    message = Message(b"", properties=present)
    assert compile_selector("p AND q").matches(message) is (result is T)
    assert compile_selector("NOT (p AND q)").matches(message) is (result is F)
    assert compile_selector("(p AND q) IS NULL").matches(message) is (result is U)


@pytest.mark.parametrize("value", ["true", 1, 0, b"\1", 1.0, None])
def test_value_that_is_no_boolean_is_unknown_as_condition(value: str | int | bytes | float | None) -> None:
    assert condition_of(lambda _message: value)(MESSAGE) is U


def test_operand_after_a_deciding_one_is_not_evaluated() -> None:
    def never(_message: Message) -> Truth:
        raise AssertionError

    assert conjunction((always(F), never))(MESSAGE) is F
    assert conjunction((always(U), always(F), never))(MESSAGE) is F
    assert disjunction((always(T), never))(MESSAGE) is T
