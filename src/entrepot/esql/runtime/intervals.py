# SPDX-License-Identifier: Apache-2.0
"""INTERVAL: its text forms and its arithmetic.

    INTERVAL '1-06' YEAR TO MONTH      18 months
    INTERVAL '2 12:30:00.5' DAY TO SECOND

There are two classes, months and seconds, and they never mix. The last
field of the qualifier is the finest that an interval keeps: whatever is
smaller is cut off, never rounded up.
"""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, Context, Decimal, InvalidOperation, Overflow
from functools import lru_cache
from typing import Any

from entrepot.errors.esql import CastFailed, EsqlRunError
from entrepot.esql.runtime.type_names import divided_by_zero, incompatible
from entrepot.models.values import MONTHS_IN, SECONDS_IN, Interval

FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_WIDEST = Decimal(10) ** 18
"""No span that fits between two dates comes near this many seconds."""
_EXACT = Context(prec=40, rounding=ROUND_DOWN)


@lru_cache(maxsize=256)
def fields_of(qualifier: str) -> tuple[str, ...]:
    """The fields from first to last: DAY TO MINUTE gives DAY, HOUR, MINUTE.

    Raises:
        EsqlRunError: There is no such qualifier.
    """
    # Leading precisions, DAY(3) TO SECOND(2), are allowed by SQL and change nothing here.
    words = re.sub(r"\([^)]*\)", "", qualifier).upper().split()
    names = [word[:-1] if word.endswith("S") and word[:-1] in FIELDS else word for word in words if word != "TO"]
    if len(names) in (1, 2) and all(name in FIELDS for name in names):
        first, last = FIELDS.index(names[0]), FIELDS.index(names[-1])
        if first <= last and (first < 2) == (last < 2):
            return FIELDS[first : last + 1]
    raise EsqlRunError(f"there is no interval {qualifier!r}", number=2420)


def normal_qualifier(fields: tuple[str, ...]) -> str:
    return fields[0] if len(fields) == 1 else f"{fields[0]} TO {fields[-1]}"


def is_months(interval: Interval) -> bool:
    """Whether it is of the class YEAR, MONTH."""
    return fields_of(interval.qualifier)[0] in MONTHS_IN


def of_months(qualifier: str, months: int) -> Interval:
    """A span of months, cut to the last field."""
    fields = fields_of(qualifier)
    unit = MONTHS_IN[fields[-1]]
    return Interval(normal_qualifier(fields), months=_cut(months, unit))


def of_seconds(qualifier: str, seconds: Decimal | int) -> Interval:
    """A span of seconds, cut to the last field."""
    fields = fields_of(qualifier)
    exact = Decimal(seconds)
    if not abs(exact) < _WIDEST:
        raise _too_wide()
    if fields[-1] != "SECOND":
        exact = Decimal(_cut(int(exact), SECONDS_IN[fields[-1]]))
    elif exact == exact.to_integral_value():
        exact = exact.quantize(Decimal(1))
    else:
        exact = exact.normalize(_EXACT)
    return Interval(normal_qualifier(fields), seconds=exact)


def _cut(amount: int, unit: int) -> int:
    whole = abs(amount) // unit * unit
    return -whole if amount < 0 else whole


def _too_wide() -> EsqlRunError:
    return EsqlRunError("the interval is too wide", sqlstate="S22015", number=2401)


# --- text ------------------------------------------------------------------------------------------

_LITERAL = re.compile(r"\s*INTERVAL\s*([+-]?)\s*'([^']*)'\s*([A-Z ()0-9]*?)\s*", re.IGNORECASE)
_SEPARATOR = {"MONTH": r"\s*-\s*", "HOUR": r"\s+", "MINUTE": r"\s*:\s*", "SECOND": r"\s*:\s*"}
_LIMITS = {"MONTH": 11, "HOUR": 23, "MINUTE": 59, "SECOND": 59}


@lru_cache(maxsize=64)
def _reader(fields: tuple[str, ...]) -> re.Pattern[str]:
    pattern = r"\s*([+-]?)\s*"
    for place, field in enumerate(fields):
        digits = r"(\d{1,18}(?:\.\d{0,9})?)" if field == "SECOND" else r"(\d{1,18})"
        pattern += (_SEPARATOR[field] if place else "") + digits
    return re.compile(pattern + r"\s*", re.ASCII)


def read_interval(text: str, qualifier: str) -> Interval:
    """An interval from '1-06', or from the whole literal with the same qualifier.

    Raises:
        CastFailed: The text is no interval with this qualifier.
    """
    fields = fields_of(qualifier)
    literal = _LITERAL.fullmatch(text)
    sign = ""
    body = text
    if literal is not None:
        sign, body, written = literal.groups()
        if written and fields_of(written) != fields:
            raise _unreadable(text, fields)
    found = _reader(fields).fullmatch(body)
    if found is None:
        raise _unreadable(text, fields)
    inner, *parts = found.groups()
    amounts = [Decimal(part) for part in parts]
    for field, amount in list(zip(fields, amounts, strict=True))[1:]:
        # Only the first field may be as large as it likes: 90 minutes are no field after hours.
        if int(amount) > _LIMITS[field]:
            raise _unreadable(text, fields)
    negative = (sign == "-") != (inner == "-")
    return _of_parts(fields, amounts, negative)


def read_interval_literal(text: str) -> Interval:
    """INTERVAL '1:30' HOUR TO MINUTE, in a text.

    Raises:
        CastFailed: The text is none, or lacks the qualifier.
    """
    found = _LITERAL.fullmatch(text)
    if found is None or not found[3]:
        raise CastFailed(f"{text[:80]!r} is no INTERVAL with its qualifier", sqlstate="S22018", number=2595)
    return read_interval(text, found[3].upper())


def _unreadable(text: str, fields: tuple[str, ...]) -> CastFailed:
    name = f"INTERVAL {normal_qualifier(fields)}"
    return CastFailed(
        f"{text[:100]!r} cannot be read as {name}", sqlstate="S22007", number=2595, inserts=(text[:100], name)
    )


def _of_parts(fields: tuple[str, ...], amounts: list[Decimal], negative: bool) -> Interval:
    units = MONTHS_IN if fields[0] in MONTHS_IN else SECONDS_IN
    total = Decimal(0)
    for field, amount in zip(fields, amounts, strict=True):
        total = _EXACT.add(total, _EXACT.multiply(amount, Decimal(units[field])))
    if not abs(total) < _WIDEST:
        raise _too_wide()
    if negative:
        total = -total
    qualifier = normal_qualifier(fields)
    if units is MONTHS_IN:
        return of_months(qualifier, int(total))
    return of_seconds(qualifier, total)


def from_parts(amounts: list[Decimal], qualifier: str) -> Interval:
    """CAST(7, 30 AS INTERVAL HOUR TO MINUTE); one number for each field.

    Raises:
        CastFailed: There are more or fewer numbers than fields.
    """
    fields = fields_of(qualifier)
    if len(amounts) != len(fields):
        raise CastFailed(
            f"INTERVAL {normal_qualifier(fields)} has {len(fields)} fields, not {len(amounts)}", number=2595
        )
    if any(not amount.is_finite() for amount in amounts):
        raise CastFailed("an interval is made of finite numbers", number=2595)
    return _of_parts(fields, amounts, negative=False)


def parts_of(interval: Interval) -> tuple[bool, list[Decimal]]:
    """Whether it is negative, and how much of each field it has."""
    fields = fields_of(interval.qualifier)
    months = fields[0] in MONTHS_IN
    units = MONTHS_IN if months else SECONDS_IN
    total = Decimal(interval.months) if months else interval.seconds
    rest = abs(total)
    amounts = []
    for field in fields:
        unit = units[field]
        amount = rest if unit == 1 else Decimal(int(rest) // unit)
        amounts.append(amount)
        rest = _EXACT.subtract(rest, amount * unit)
    return total < 0, amounts


def interval_text(interval: Interval) -> str:
    """What stands between the quotes of the literal: 1-06, 12:30:05.25."""
    negative, amounts = parts_of(interval)
    text = ""
    for place, (field, amount) in enumerate(zip(fields_of(interval.qualifier), amounts, strict=True)):
        separator = "" if place == 0 else {"MONTH": "-", "HOUR": " "}.get(field, ":")
        digits = format(amount, "f")
        if place:
            whole = digits.partition(".")[0]
            digits = "0" * (2 - len(whole)) + digits
        text += separator + digits
    return f"-{text}" if negative else text


def interval_literal(interval: Interval) -> str:
    """INTERVAL '1-06' YEAR TO MONTH."""
    return f"INTERVAL '{interval_text(interval)}' {normal_qualifier(fields_of(interval.qualifier))}"


# --- arithmetic ------------------------------------------------------------------------------------


def join_qualifiers(left: str, right: str) -> str:
    """The qualifier of a sum: from the larger first field to the smaller last one."""
    if left == right:
        return left
    one, other = fields_of(left), fields_of(right)
    first = min(FIELDS.index(one[0]), FIELDS.index(other[0]))
    last = max(FIELDS.index(one[-1]), FIELDS.index(other[-1]))
    return normal_qualifier(FIELDS[first : last + 1])


def add_intervals(left: Interval, right: Interval, sign: int = 1) -> Interval:
    months = is_months(left)
    if months != is_months(right):
        raise incompatible("+" if sign > 0 else "-", left, right)
    qualifier = join_qualifiers(left.qualifier, right.qualifier)
    if months:
        return of_months(qualifier, left.months + sign * right.months)
    return of_seconds(qualifier, _EXACT.add(left.seconds, sign * right.seconds))


def negate_interval(interval: Interval) -> Interval:
    return Interval(interval.qualifier, -interval.months, -interval.seconds if interval.seconds else Decimal(0))


def scale_interval(interval: Interval, number: Any, divide: bool = False) -> Interval:
    """An interval times or by a number; it keeps its qualifier."""
    try:
        factor = Decimal(repr(number)) if type(number) is float else Decimal(number)
        if not factor.is_finite():
            raise _too_wide()
        if divide and not factor:
            raise divided_by_zero()
        operation = _EXACT.divide if divide else _EXACT.multiply
        if is_months(interval):
            total = operation(Decimal(interval.months), factor)
            if abs(total) >= _WIDEST:
                raise _too_wide()
            return of_months(interval.qualifier, int(total))
        return of_seconds(interval.qualifier, operation(interval.seconds, factor))
    except (InvalidOperation, Overflow) as failure:
        raise _too_wide() from failure


def compare_intervals(left: Interval, right: Interval) -> int:
    """-1, 0 or 1; only intervals of one class can be compared."""
    if is_months(left) != is_months(right):
        raise incompatible("a comparison", left, right)
    one: Decimal | int = left.months or left.seconds
    other: Decimal | int = right.months or right.seconds
    return (one > other) - (one < other)


def interval_number(interval: Interval, target: str) -> Decimal:
    """The number of an interval with one field: INTERVAL '90' SECOND is 90.

    Raises:
        CastFailed: The interval has more than one field.
    """
    fields = fields_of(interval.qualifier)
    if len(fields) != 1:
        name = f"INTERVAL {interval.qualifier}"
        raise CastFailed(
            f"{name} has more than one field and cannot become {target}", number=2595, inserts=(name, target)
        )
    negative, amounts = parts_of(interval)
    return -amounts[0] if negative else amounts[0]
