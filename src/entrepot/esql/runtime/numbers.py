# SPDX-License-Identifier: Apache-2.0
"""The functions on numbers.

ABS, CEILING, FLOOR, ROUND, SIGN and TRUNCATE answer in the type they are
asked in; roots, powers, logarithms and angles are always FLOAT. An argument
outside of a function's domain is an error, never NAN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    ROUND_UP,
    Decimal,
    InvalidOperation,
)
from typing import Any

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime.casts_to_numbers import decimal_from_float
from entrepot.esql.runtime.operators import DECIMALS
from entrepot.esql.runtime.type_names import (
    INTEGER_MAX,
    INTEGER_MIN,
    divided_by_zero,
    overflow,
    plain,
    require_integer,
    wrong_argument,
)

MODES = {
    "ROUND_UP": ROUND_UP,
    "ROUND_DOWN": ROUND_DOWN,
    "ROUND_CEILING": ROUND_CEILING,
    "ROUND_FLOOR": ROUND_FLOOR,
    "ROUND_HALF_UP": ROUND_HALF_UP,
    "ROUND_HALF_EVEN": ROUND_HALF_EVEN,
    "ROUND_HALF_DOWN": ROUND_HALF_DOWN,
}


def _numeric(function: str, value: Any) -> Any:
    if type(value) in (int, Decimal, float):
        return value
    value = plain(value)
    if type(value) in (int, Decimal, float):
        return value
    raise wrong_argument(function, value, "a number")


def absolute(value: Any) -> Any:
    """ABS."""
    if value is None:
        return None
    number = _numeric("ABS", value)
    if type(number) is int and number == INTEGER_MIN:
        raise overflow("ABS")
    return number.copy_abs() if type(number) is Decimal else abs(number)


def sign(value: Any) -> Any:
    """SIGN: -1, 0 or 1, in the type of the argument."""
    if value is None:
        return None
    number = _numeric("SIGN", value)
    if number != number:
        return number
    return type(number)((number > 0) - (number < 0))


def _places(function: str, number: Any, places: int, rounding: str) -> Any:
    """A number rounded at a place behind the point, or before it when `places` is negative."""
    if type(number) is int:
        if places >= 0:
            return number
        # From the twentieth place on, an INTEGER is either nothing or more than INTEGER holds.
        unit = Decimal(1).scaleb(min(-places, 20))
        return _whole(function, Decimal(number).quantize(unit, rounding=rounding, context=DECIMALS))
    if type(number) is float:
        if not math.isfinite(number):
            return number
        return float(_decimal_places(function, decimal_from_float(number), places, rounding))
    return _decimal_places(function, number, places, rounding) if number.is_finite() else number


def _decimal_places(function: str, number: Decimal, places: int, rounding: str) -> Decimal:
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= -places:
        return number
    if number.adjusted() + places < -1 and rounding not in (ROUND_UP, ROUND_CEILING, ROUND_FLOOR):
        return Decimal(0).scaleb(-max(min(places, 400), 0))
    try:
        rounded = number.quantize(Decimal(1).scaleb(-places), rounding=rounding, context=DECIMALS)
        # A number rounded to tens is 30, not 3E+1.
        return rounded if places >= 0 else rounded.quantize(Decimal(1), context=DECIMALS)
    except InvalidOperation as failure:
        raise overflow(function) from failure


def _whole(function: str, number: Decimal) -> int:
    whole = int(number)
    if not INTEGER_MIN <= whole <= INTEGER_MAX:
        raise overflow(function)
    return whole


def round_(value: Any, *arguments: Any, form: str = "") -> Any:
    """ROUND(value, places [MODE mode]); half to even unless a mode is given."""
    if value is None or None in arguments:
        return None
    rounding = ROUND_HALF_EVEN
    if form == "MODE":
        mode = str(arguments[-1]).upper()
        if mode not in MODES:
            raise EsqlRunError(f"ROUND has no mode {arguments[-1]!r}", number=2420)
        rounding = MODES[mode]
        arguments = arguments[:-1]
    places = require_integer("ROUND", arguments[0]) if arguments else 0
    return _places("ROUND", _numeric("ROUND", value), places, rounding)


def truncate(value: Any, places: Any) -> Any:
    """TRUNCATE(value, places): the digits behind are cut off."""
    if value is None or places is None:
        return None
    return _places("TRUNCATE", _numeric("TRUNCATE", value), require_integer("TRUNCATE", places), ROUND_DOWN)


def ceiling(value: Any) -> Any:
    """CEIL: the smallest whole number that is not smaller."""
    return _to_whole("CEIL", value, math.ceil, ROUND_CEILING)


def floor(value: Any) -> Any:
    """FLOOR: the largest whole number that is not larger."""
    return _to_whole("FLOOR", value, math.floor, ROUND_FLOOR)


def _to_whole(function: str, value: Any, of_float: Callable[[float], int], rounding: str) -> Any:
    if value is None:
        return None
    number = _numeric(function, value)
    if type(number) is int:
        return number
    if type(number) is float:
        return float(of_float(number)) if math.isfinite(number) else number
    return number.to_integral_value(rounding=rounding) if number.is_finite() else number


def mod(dividend: Any, divisor: Any) -> Any:
    """MOD: the rest, with the sign of the dividend."""
    if dividend is None or divisor is None:
        return None
    a, b = _numeric("MOD", dividend), _numeric("MOD", divisor)
    if type(a) is float or type(b) is float:
        raise wrong_argument("MOD", a if type(a) is float else b, "INTEGER or DECIMAL")
    if not b:
        raise divided_by_zero()
    if type(a) is int and type(b) is int:
        rest = abs(a) % abs(b)
        return -rest if a < 0 else rest
    try:
        return DECIMALS.remainder(a, b)
    except InvalidOperation as failure:
        raise overflow("MOD") from failure


# --- bits ------------------------------------------------------------------------------------------


def _bitwise(name: str, combine: Callable[[int, int], int]) -> Callable[..., int | None]:
    def apply(*arguments: Any) -> int | None:
        if None in arguments:
            return None
        numbers = [require_integer(name, argument) for argument in arguments]
        result = numbers[0]
        for number in numbers[1:]:
            result = combine(result, number)
        return result

    apply.__doc__ = f"{name} of two or more INTEGERs."
    return apply


bit_and = _bitwise("BITAND", lambda a, b: a & b)
bit_or = _bitwise("BITOR", lambda a, b: a | b)
bit_xor = _bitwise("BITXOR", lambda a, b: a ^ b)


def bit_not(value: Any) -> int | None:
    return None if value is None else ~require_integer("BITNOT", value)


# --- FLOAT functions ---------------------------------------------------------------------------------


def _as_float(name: str, argument: Any) -> float:
    number = _numeric(name, argument)
    value = float(number)
    if math.isinf(value) and type(number) is Decimal and number.is_finite():
        raise OverflowError
    return value


def _of_float(name: str, function: Callable[..., float]) -> Callable[..., float | None]:
    def apply(*arguments: Any) -> float | None:
        if None in arguments:
            return None
        try:
            result = function(*(_as_float(name, argument) for argument in arguments))
        except OverflowError as failure:
            raise overflow(name) from failure
        except (ValueError, ZeroDivisionError) as failure:
            shown = ", ".join(str(argument) for argument in arguments)
            raise EsqlRunError(f"{name} has no value at {shown}", sqlstate="S22003", number=2420) from failure
        return result

    apply.__doc__ = f"{name}, as a FLOAT."
    return apply


acos = _of_float("ACOS", math.acos)
asin = _of_float("ASIN", math.asin)
atan = _of_float("ATAN", math.atan)
atan2 = _of_float("ATAN2", math.atan2)
cos = _of_float("COS", math.cos)
cosh = _of_float("COSH", math.cosh)
cot = _of_float("COT", lambda value: 1 / math.tan(value))
degrees = _of_float("DEGREES", math.degrees)
exp = _of_float("EXP", math.exp)
ln = _of_float("LN", math.log)
log10 = _of_float("LOG10", math.log10)
power = _of_float("POWER", math.pow)
radians = _of_float("RADIANS", math.radians)
sin = _of_float("SIN", math.sin)
sinh = _of_float("SINH", math.sinh)
sqrt = _of_float("SQRT", math.sqrt)
tan = _of_float("TAN", math.tan)
tanh = _of_float("TANH", math.tanh)


def rand(run: Any, seed: Any = None) -> float:
    """RAND: a FLOAT from 0.0 up to 1.0; a seed begins a sequence that comes the same every time."""
    if seed is not None:
        run.random.seed(require_integer("RAND", seed))
    return float(run.random.random())
