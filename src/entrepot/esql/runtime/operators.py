# SPDX-License-Identifier: Apache-2.0
"""The operators + - * / || and NOT.

NULL in gives NULL out. Two numbers meet in the wider of their types:
INTEGER, then DECIMAL, then FLOAT. INTEGER has 64 bits, DECIMAL 34 digits
with half-even rounding, and a result that fits neither is an error. Text is
never taken for a number here: the product casts CHARACTER only where it
compares, so a program writes CAST.

The types of both operands are looked at exactly, two integers before all
else: these functions are called for every expression of every message.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Any

from entrepot.esql.runtime.dates import add_interval, difference
from entrepot.esql.runtime.intervals import add_intervals, negate_interval, scale_interval
from entrepot.esql.runtime.large import LARGE, require_room
from entrepot.esql.runtime.type_names import INTEGER_MAX, INTEGER_MIN, divided_by_zero, incompatible, overflow, plain
from entrepot.models.values import Bits, Interval

DECIMAL_DIGITS = 34
DECIMALS = Context(
    prec=DECIMAL_DIGITS,
    rounding=ROUND_HALF_EVEN,
    Emin=-999_999_999,
    Emax=999_999_999,
    traps=[InvalidOperation, DivisionByZero, Overflow],
)
"""How DECIMAL counts: topic ak17820."""

_decimal_add = DECIMALS.add
_decimal_subtract = DECIMALS.subtract
_decimal_multiply = DECIMALS.multiply
_decimal_divide = DECIMALS.divide

Operation = Callable[[Any, Any], Any]
Table = dict[tuple[type, type], Operation]

interval_of = difference
"""(left - right) qualifier: the difference of two dates or times."""


_INFINITY = math.inf


def add(a: Any, b: Any) -> Any:
    """a + b."""
    if type(a) is int and type(b) is int:
        total = a + b
        if -0x8000_0000_0000_0000 <= total <= 0x7FFF_FFFF_FFFF_FFFF:
            return total
        raise overflow("+")
    if type(a) is float and type(b) is float:
        result = a + b
        if -_INFINITY < result < _INFINITY:
            return result
    if a is None or b is None:
        return None
    return _apply(_ADD, "+", a, b)


def subtract(a: Any, b: Any) -> Any:
    """a - b; between two dates or times the compiler calls `interval_of`, which knows the qualifier."""
    if type(a) is int and type(b) is int:
        total = a - b
        if -0x8000_0000_0000_0000 <= total <= 0x7FFF_FFFF_FFFF_FFFF:
            return total
        raise overflow("-")
    if type(a) is float and type(b) is float:
        result = a - b
        if -_INFINITY < result < _INFINITY:
            return result
    if a is None or b is None:
        return None
    return _apply(_SUBTRACT, "-", a, b)


def multiply(a: Any, b: Any) -> Any:
    """a * b; the scales of two decimals add up: 0.30 * 1.6 is 0.480."""
    if type(a) is int and type(b) is int:
        total = a * b
        if -0x8000_0000_0000_0000 <= total <= 0x7FFF_FFFF_FFFF_FFFF:
            return total
        raise overflow("*")
    if type(a) is float and type(b) is float:
        result = a * b
        if -_INFINITY < result < _INFINITY:
            return result
    if a is None or b is None:
        return None
    return _apply(_MULTIPLY, "*", a, b)


def divide(a: Any, b: Any) -> Any:
    """a / b; between integers the fraction is cut off: -7 / 2 is -3."""
    if type(a) is int and type(b) is int:
        if not b:
            raise divided_by_zero()
        quotient = a // b if (a < 0) == (b < 0) else -(-a // b)
        if quotient > INTEGER_MAX:
            raise overflow("/")
        return quotient
    if a is None or b is None:
        return None
    return _apply(_DIVIDE, "/", a, b)


def _apply(table: Table, operator: str, a: Any, b: Any) -> Any:
    operation = table.get((type(a), type(b)))
    if operation is None:
        a, b = plain(a), plain(b)
        operation = table.get((type(a), type(b)))
        if operation is None:
            raise incompatible(operator, a, b)
    try:
        return operation(a, b)
    except (DivisionByZero, ZeroDivisionError) as failure:
        raise divided_by_zero() from failure
    except (InvalidOperation, Overflow, OverflowError) as failure:
        # 0 / 0 is the one invalid operation between finite decimals.
        if operator == "/" and isinstance(failure, InvalidOperation) and not b:
            raise divided_by_zero() from failure
        raise overflow(operator) from failure


def _is_finite(number: Any) -> bool:
    # A DECIMAL can be finite and yet too large for FLOAT.
    return number.is_finite() if type(number) is Decimal else math.isfinite(number)


def _finite(operation: Operation) -> Operation:
    """A FLOAT operation whose result overflows where its operands did not is an error, not INF."""

    def checked(a: Any, b: Any) -> float:
        result: float = operation(float(a), float(b))
        if not math.isfinite(result) and _is_finite(a) and _is_finite(b):
            raise OverflowError
        return result

    return checked


def _numeric(of_decimals: Operation, of_floats: Operation) -> Table:
    floats = _finite(of_floats)
    table: Table = dict.fromkeys(((Decimal, Decimal), (Decimal, int), (int, Decimal)), of_decimals)
    for other in (int, Decimal):
        table[float, other] = table[other, float] = floats
    table[float, float] = floats
    return table


_ADD = _numeric(_decimal_add, lambda a, b: a + b)
_SUBTRACT = _numeric(_decimal_subtract, lambda a, b: a - b)
_MULTIPLY = _numeric(_decimal_multiply, lambda a, b: a * b)
_DIVIDE = _numeric(_decimal_divide, lambda a, b: a / b)

for _kind in (date, time, datetime):
    _ADD[_kind, Interval] = add_interval
    _ADD[Interval, _kind] = lambda interval, value: add_interval(value, interval)
    _SUBTRACT[_kind, Interval] = lambda value, interval: add_interval(value, interval, -1)
_ADD[Interval, Interval] = add_intervals
_SUBTRACT[Interval, Interval] = lambda a, b: add_intervals(a, b, -1)
for _number in (int, Decimal, float):
    _MULTIPLY[Interval, _number] = scale_interval
    _MULTIPLY[_number, Interval] = lambda number, interval: scale_interval(interval, number)
    _DIVIDE[Interval, _number] = lambda interval, number: scale_interval(interval, number, divide=True)


def concat(a: Any, b: Any) -> Any:
    """a || b, of two CHARACTERs, two BLOBs or two BITs."""
    if type(a) is str and type(b) is str:
        text = a + b
        if len(text) > LARGE:
            require_room("||", len(text))
        return text
    if a is None or b is None:
        return None
    a, b = plain(a), plain(b)
    if type(a) is type(b):
        if type(a) is str or type(a) is bytes:
            require_room("||", len(a) + len(b))
            return a + b
        if type(a) is Bits:
            require_room("||", len(a.digits) + len(b.digits))
            return Bits(a.digits + b.digits)
    raise incompatible("||", a, b)


def negate(a: Any) -> Any:
    """-a."""
    if type(a) is int:
        if a == INTEGER_MIN:
            raise overflow("-")
        return -a
    if a is None:
        return None
    a = plain(a)
    kind = type(a)
    if kind is int:
        return negate(a)
    if kind is Decimal:
        return a.copy_negate() if a else a
    if kind is float:
        return -a
    if kind is Interval:
        return negate_interval(a)
    raise incompatible("-", a)


def positive(a: Any) -> Any:
    """+a."""
    if type(a) is int or a is None:
        return a
    a = plain(a)
    if type(a) in (int, Decimal, float, Interval):
        return a
    raise incompatible("+", a)


def not_(a: Any) -> bool | None:
    """NOT a, where NOT UNKNOWN is UNKNOWN."""
    if a is True:
        return False
    if a is False:
        return True
    if a is None:
        return None
    raise incompatible("NOT", a)
