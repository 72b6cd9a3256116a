# SPDX-License-Identifier: Apache-2.0
"""Comparisons: = <> < <= > >=, LIKE, BETWEEN, IN and IS.

With NULL on either side the answer is UNKNOWN, which is None. Values of two
types are compared in one of them, as topic ak05700 tells: text in the type of
the other side, numbers in the wider type, GMT in local time, and a DATE with
a TIMESTAMP as midnight. Trailing blanks of text do not count.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime.casting import caster
from entrepot.esql.runtime.casts_to_numbers import TO_DECIMAL, TO_FLOAT, TO_INTEGER
from entrepot.esql.runtime.dates import time_to_local, to_local
from entrepot.esql.runtime.intervals import compare_intervals
from entrepot.esql.runtime.type_names import incompatible, plain, type_name_of
from entrepot.limits import SELECTOR_CHARACTERS_MAX
from entrepot.models.values import Bits, Interval
from entrepot.selectors.like import PatternError, compile_pattern

_SAME = frozenset((int, Decimal, float, bytes, Bits, bool, date))
"""Types whose values Python compares as ESQL does."""


def _alike(a: Any, b: Any, sign: str) -> tuple[Any, Any]:
    """The two sides in one type, such that Python compares them as ESQL does."""
    kind, other = type(a), type(b)
    if kind is other:
        if kind is str:
            return a.rstrip(" "), b.rstrip(" ")
        if kind in _SAME:
            return a, b
        if kind is Interval:
            return compare_intervals(a, b), 0
        if kind is datetime or kind is time:
            if (a.tzinfo is None) == (b.tzinfo is None):
                return a, b
            convert: Callable[[Any], Any] = to_local if kind is datetime else time_to_local
            return (a, convert(b)) if a.tzinfo is None else (convert(a), b)
    if kind is str:
        return _alike(_as_other(a, b), b, sign)
    if other is str:
        return _alike(a, _as_other(b, a), sign)
    if kind in _NUMBERS and other in _NUMBERS:
        return (float(a), float(b)) if kind is float or other is float else (a, b)
    if kind is date and other is datetime:
        return datetime(a.year, a.month, a.day, tzinfo=UTC if b.tzinfo is not None else None), b
    if kind is datetime and other is date:
        return a, datetime(b.year, b.month, b.day, tzinfo=UTC if a.tzinfo is not None else None)
    simple, plainer = plain(a), plain(b)
    if type(simple) is not kind or type(plainer) is not other:
        return _alike(simple, plainer, sign)
    raise incompatible(sign, a, b)


_NUMBERS = frozenset((int, Decimal, float))


_FROM_TEXT: dict[type, Callable[[str], Any]] = {int: TO_INTEGER[str], Decimal: TO_DECIMAL[str], float: TO_FLOAT[str]}
"""The casts of text that nearly all comparisons need."""


def _as_other(text: str, other: Any) -> Any:
    """Text cast to the type of what it is compared with."""
    convert = _FROM_TEXT.get(type(other))
    if convert is not None:
        return convert(text)
    name = type_name_of(other)
    qualifier = other.qualifier if type(other) is Interval else ""
    return caster(name, None, None, qualifier)(text)


def equal(a: Any, b: Any) -> bool | None:
    """a = b."""
    kind = type(a)
    if kind is type(b):
        if kind is str:
            if a == b:
                return True
            return bool((a[-1:] == " " or b[-1:] == " ") and a.rstrip(" ") == b.rstrip(" "))
        if kind is int:
            return a == b  # type: ignore[no-any-return]
    if a is None or b is None:
        return None
    a, b = _alike(a, b, "=")
    return a == b  # type: ignore[no-any-return]


def not_equal(a: Any, b: Any) -> bool | None:
    """a <> b."""
    same = equal(a, b)
    return None if same is None else not same


def _ordering(compare: Callable[[Any, Any], bool], sign: str) -> Callable[[Any, Any], bool | None]:
    def ordered(a: Any, b: Any) -> bool | None:
        kind = type(a)
        if kind is type(b) and (kind is int or (kind is str and a[-1:] != " " and b[-1:] != " ")):
            return compare(a, b)
        if a is None or b is None:
            return None
        a, b = _alike(a, b, sign)
        # Decimals raise on NaN where floats answer false; ESQL's NAN is in no order with anything.
        if (type(a) is Decimal and a.is_nan()) or (type(b) is Decimal and b.is_nan()):
            return False
        return compare(a, b)

    ordered.__doc__ = f"a {sign} b."
    return ordered


less = _ordering(operator.lt, "<")
less_equal = _ordering(operator.le, "<=")
greater = _ordering(operator.gt, ">")
greater_equal = _ordering(operator.ge, ">=")


# --- LIKE -------------------------------------------------------------------------------------------


PATTERN_CHARACTERS_MAX = SELECTOR_CHARACTERS_MAX


@lru_cache(maxsize=1024)
def _matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise EsqlRunError(f"LIKE: the pattern is longer than {PATTERN_CHARACTERS_MAX} characters", number=2420)
    if escape is None:
        # The backslash is the escape character by default, so one before an ordinary
        # character, as in a Windows path, stands for itself.
        settled = []
        place = 0
        while place < len(pattern):
            character = pattern[place]
            if character == "\\":
                after = pattern[place + 1 : place + 2]
                if after in ("%", "_", "\\") and after:
                    character += after
                    place += 1
                else:
                    character = "\\\\"
            settled.append(character)
            place += 1
        pattern, escape = "".join(settled), "\\"
    try:
        return compile_pattern(pattern, escape)
    except PatternError as failure:
        raise EsqlRunError(f"LIKE: {failure.problem}", number=2420, inserts=(pattern,)) from failure


def like(value: Any, pattern: Any, escape: Any = None) -> bool | None:
    """value LIKE pattern [ESCAPE escape]; `%` is any text, `_` any character, `\\` the escape without another."""
    if value is None or pattern is None:
        return None
    if escape is not None and (type(escape) is not str or len(escape) != 1):
        raise EsqlRunError("ESCAPE takes one character", number=2420)
    if type(value) is str and type(pattern) is str:
        return _matcher(pattern, escape)(value)
    value, pattern = plain(value), plain(pattern)
    if type(value) is str and type(pattern) is str:
        return _matcher(pattern, escape)(value)
    if type(value) is bytes and type(pattern) is bytes:
        return _matcher(pattern.decode("latin-1"), escape)(value.decode("latin-1"))
    raise incompatible("LIKE", value, pattern)


# --- BETWEEN, IN, IS -----------------------------------------------------------------------------------


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def between(value: Any, low: Any, high: Any, symmetric: bool = False) -> bool | None:
    """value BETWEEN low AND high; SYMMETRIC takes the two ends in either order."""
    inside = _and(greater_equal(value, low), less_equal(value, high))
    if inside is True or not symmetric:
        return inside
    turned = _and(greater_equal(value, high), less_equal(value, low))
    if turned is True:
        return True
    return None if inside is None or turned is None else False


def among(value: Any, candidates: tuple[Any, ...]) -> bool | None:
    """value IN (candidates): UNKNOWN when none is equal but one might be."""
    answer: bool | None = False
    for candidate in candidates:
        same = equal(value, candidate)
        if same:
            return True
        if same is None:
            answer = None
    return answer


def is_(value: Any, what: str) -> bool:
    """value IS what, for NULL, TRUE, FALSE, UNKNOWN, NUM, NAN, INF, +INF and -INF; never UNKNOWN itself."""
    if what == "NULL" or what == "UNKNOWN":
        return value is None
    if what == "TRUE":
        return value is True
    if what == "FALSE":
        return value is False
    value = plain(value)
    if type(value) is int:
        return what in ("NUM", "NUMBER")
    if type(value) is not float and type(value) is not Decimal:
        return False
    # Decimals answer for themselves: 1E+999 is infinite only as a FLOAT.
    exact = value if type(value) is Decimal else Decimal(value)
    if what in ("NUM", "NUMBER"):
        return exact.is_finite()
    if what == "NAN":
        return exact.is_nan()
    infinite = exact.is_infinite()
    if what in ("INF", "INFINITY"):
        return infinite
    if what in ("+INF", "+INFINITY"):
        return infinite and value > 0
    if what in ("-INF", "-INFINITY"):
        return infinite and value < 0
    raise EsqlRunError(f"there is no IS {what}", number=2420)
