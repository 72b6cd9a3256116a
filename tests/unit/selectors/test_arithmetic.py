# SPDX-License-Identifier: Apache-2.0
"""Arithmetic as Java does it, and NULL where it cannot be done."""

from __future__ import annotations

from entrepot.message import Message
from entrepot.selectors.arithmetic import arithmetic, divide
from entrepot.selectors.expressions import ArithmeticOperator
from entrepot.selectors.kinds import Value
from folding import for_each


@for_each(
    "dividend, divisor, quotient",
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (0, 5, 0), (7.0, 2, 3.5), (-7, 2.0, -3.5), (10**30, 10**29, 10)],
)
def test_division_of_integers_truncates_toward_zero(dividend: float, divisor: float, quotient: float) -> None:
    assert divide(dividend, divisor) == quotient
    assert type(divide(dividend, divisor)) is type(quotient)


@for_each(
    "left, operator, right",
    [
        (1, "/", 0),
        (1.0, "/", 0.0),
        (None, "+", 1),
        (1, "+", None),
        ("1", "+", 1),
        (1, "*", "a"),
        (True, "+", 1),
        (1, "-", True),
        (b"1", "+", 1),
        (10**400, "*", 1.5),
    ],
)
def test_what_cannot_be_computed_is_null(left: Value, operator: ArithmeticOperator, right: Value) -> None:
    compute = arithmetic(lambda _message: left, ((operator, lambda _message: right),))
    assert compute(Message(b"")) is None
