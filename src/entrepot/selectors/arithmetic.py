# SPDX-License-Identifier: Apache-2.0
"""The four arithmetical operations, with Java's integer division.

What cannot be computed is NULL, so that a comparison with it is UNKNOWN: an
operand that is NULL or no number, a division by zero, an integer too large
for a float. No message can make a selector raise an error, and no product of
many factors grows into a number that takes long to multiply.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from entrepot.message import Message
from entrepot.selectors.expressions import ArithmeticOperator
from entrepot.selectors.kinds import KINDS, Reader, Value, ValueKind


def divide(dividend: float, divisor: float) -> float:
    """7 / 2 is 3 and -7 / 2 is -3, where Python would round to -4; with a float it is 3.5."""
    if isinstance(dividend, int) and isinstance(divisor, int):
        quotient = abs(dividend) // abs(divisor)
        return quotient if (dividend < 0) == (divisor < 0) else -quotient
    return dividend / divisor


OPERATIONS: dict[ArithmeticOperator, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
}


_INTEGER_END = 2**1024
"""What no float reaches."""


def arithmetic(first: Reader, steps: tuple[tuple[ArithmeticOperator, Reader], ...]) -> Reader:
    """`first`, and from left to right what is done to it."""
    operations = tuple((OPERATIONS[symbol], operand) for symbol, operand in steps)

    def compute(message: Message) -> Value:
        result: Any = first(message)
        if KINDS[result.__class__] is not ValueKind.NUMBER:
            return None
        try:
            for operate, operand in operations:
                value = operand(message)
                if KINDS[value.__class__] is not ValueKind.NUMBER:
                    return None
                result = operate(result, value)
                if result.__class__ is int and not -_INTEGER_END < result < _INTEGER_END:
                    return None
        except (ZeroDivisionError, OverflowError):
            return None
        number: Value = result
        return number

    return compute
