# SPDX-License-Identifier: Apache-2.0
"""DATE, TIME, TIMESTAMP and their GMT twins: text forms, zones and arithmetic.

    DATE '2003-12-24'   TIME '09:30:00'   GMTTIMESTAMP '2003-12-24 09:30:00.125'

A naive time or datetime is local, one that knows its zone is GMT. Where one
meets the other, the offset of the local zone counts as it is now, because
that is what LOCAL_TIMEZONE tells a program; `use_zone` and `use_clock` say
what local and now are.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from entrepot.errors.esql import CastFailed, EsqlRunError
from entrepot.esql.runtime.intervals import fields_of, is_months, of_months, of_seconds
from entrepot.esql.runtime.type_names import incompatible, type_name_of
from entrepot.models.values import Interval


def _machine_clock() -> datetime:
    return datetime.now(UTC)


_clock: Callable[[], datetime] = _machine_clock
_zone: tzinfo | None = None


def use_clock(clock: Callable[[], datetime] | None) -> None:
    """Let a DATE that becomes a TIMESTAMP take its time of day from this clock, which tells aware datetimes."""
    global _clock
    _clock = clock or _machine_clock


def use_zone(zone: tzinfo | None) -> None:
    """Take this as the local zone; None is the zone of the machine."""
    global _zone
    _zone = zone


def local(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """An aware time in the local zone."""
    return moment.astimezone(zone or _zone)


def now() -> datetime:
    return _clock().astimezone(UTC)


def local_offset(moment: datetime | None = None, zone: tzinfo | None = None) -> timedelta:
    """How far local time is ahead of GMT at a moment; now without one."""
    aware = (moment or _clock()).astimezone(zone or _zone)
    return aware.utcoffset() or timedelta()


def shift(moment: datetime, by: timedelta) -> datetime:
    """A datetime moved, as an ESQL error where it would leave the calendar."""
    try:
        return moment + by
    except OverflowError as failure:
        raise out_of_calendar() from failure


def out_of_calendar() -> EsqlRunError:
    return EsqlRunError("the date lies outside the years 1 to 9999", sqlstate="S22008", number=2401)


def to_local(value: datetime) -> datetime:
    """GMTTIMESTAMP to TIMESTAMP."""
    return shift(value.astimezone(UTC).replace(tzinfo=None), local_offset())


def to_gmt(value: datetime) -> datetime:
    """TIMESTAMP to GMTTIMESTAMP."""
    return shift(value, -local_offset()).replace(tzinfo=UTC)


_ANY_DAY = date(2000, 1, 2)


def time_to_local(value: time) -> time:
    """GMTTIME to TIME; the day is forgotten."""
    return to_local(datetime.combine(_ANY_DAY, value.replace(tzinfo=UTC))).time()


def time_to_gmt(value: time) -> time:
    """TIME to GMTTIME."""
    return to_gmt(datetime.combine(_ANY_DAY, value)).timetz()


# --- text ------------------------------------------------------------------------------------------

_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_TIME = r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?"


def _forms(keyword: str, body: str) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:{keyword}\s*'\s*{body}\s*'|{body})\s*", re.ASCII | re.IGNORECASE)


_FORMS = {
    "DATE": _forms("DATE", _DATE),
    "TIME": _forms("TIME", _TIME),
    "GMTTIME": _forms("GMTTIME", _TIME),
    "TIMESTAMP": _forms("TIMESTAMP", rf"{_DATE}\s+{_TIME}"),
    "GMTTIMESTAMP": _forms("GMTTIMESTAMP", rf"{_DATE}\s+{_TIME}"),
}


def unreadable(text: str, target: str) -> CastFailed:
    return CastFailed(
        f"{text[:100]!r} cannot be read as {target}", sqlstate="S22007", number=2595, inserts=(text[:100], target)
    )


def read_datetime(text: str, target: str) -> Any:
    """A date or time from its literal, or from what stands between its quotes.

    Raises:
        CastFailed: The text has another form, or there is no such day or time.
    """
    found = _FORMS[target].fullmatch(text)
    if found is None:
        raise unreadable(text, target)
    groups = found.groups()
    half = len(groups) // 2
    parts = groups[:half] if groups[0] is not None else groups[half:]
    try:
        if target == "DATE":
            return date(int(parts[0]), int(parts[1]), int(parts[2]))
        zone = UTC if target.startswith("GMT") else None
        hour, minute, second, fraction = parts[-4:]
        microsecond = int((fraction or "0").ljust(6, "0")[:6])
        if half == 4:
            return time(int(hour), int(minute), int(second), microsecond, zone)
        year, month, day = (int(part) for part in parts[:3])
        return datetime(year, month, day, int(hour), int(minute), int(second), microsecond, zone)
    except ValueError as failure:
        raise unreadable(text, target) from failure


def _precision(microsecond: int) -> str:
    # Clocks tell milliseconds or microseconds, and so does the product: three digits or six.
    if not microsecond:
        return "seconds"
    return "microseconds" if microsecond % 1000 else "milliseconds"


def datetime_text(value: Any) -> str:
    """What stands between the quotes of the literal."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return str(value.isoformat(" ", _precision(value.microsecond)))
    if isinstance(value, time):
        return value.replace(tzinfo=None).isoformat(_precision(value.microsecond))
    return str(value.isoformat())


def datetime_literal(value: Any) -> str:
    """DATE '2003-12-24': what CAST to CHARACTER without FORMAT gives."""
    return f"{type_name_of(value)} '{datetime_text(value)}'"


# --- arithmetic ------------------------------------------------------------------------------------


def add_interval(value: Any, interval: Interval, sign: int = 1) -> Any:
    """A date or time moved by an interval.

    Raises:
        EsqlRunError: The calendar has no such day (a month after 31 January), or a TIME cannot move by
            days or months, or a DATE by hours.
    """
    fields = fields_of(interval.qualifier)
    if is_months(interval):
        if type(value) is time:
            raise incompatible("+" if sign > 0 else "-", value, interval)
        return _add_months(value, sign * interval.months)
    try:
        by = timedelta(microseconds=int(interval.seconds * 1000000)) * sign
    except OverflowError as failure:
        raise out_of_calendar() from failure
    if type(value) is time:
        # A clock goes round: an hour after 23:30 it is 00:30.
        moved = shift(datetime.combine(date(5000, 1, 1), value), by)
        return moved.timetz()
    if type(value) is date:
        if fields[-1] != "DAY":
            raise incompatible("+" if sign > 0 else "-", value, interval)
        try:
            return value + by
        except OverflowError as failure:
            raise out_of_calendar() from failure
    return shift(value, by)


def _add_months(value: Any, months: int) -> Any:
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise out_of_calendar()
    month += 1
    if value.day > monthrange(year, month)[1]:
        raise EsqlRunError(
            f"there is no day {value.day} in {year:04}-{month:02}",
            sqlstate="S22008",
            number=2401,
            inserts=(str(value.day),),
        )
    return value.replace(year=year, month=month)


def difference(left: Any, right: Any, qualifier: str) -> Interval | None:
    """(left - right) as an interval with this qualifier; what is smaller than its last field is cut off.

    Raises:
        EsqlRunError: The two are not of one kind, or a TIME is asked for days.
    """
    if left is None or right is None:
        return None
    first = fields_of(qualifier)[0]
    left, right = _alike(left, right)
    if type(left) is time:
        if first in ("YEAR", "MONTH", "DAY"):
            raise EsqlRunError(f"the difference of two times has no {first}", number=2420)
        left = datetime.combine(_ANY_DAY, left)
        right = datetime.combine(_ANY_DAY, right)
    if first in ("YEAR", "MONTH"):
        return of_months(qualifier, _months_between(left, right))
    span = left - right
    seconds = Decimal(span.days * 86400 + span.seconds)
    if span.microseconds:
        seconds += Decimal(span.microseconds).scaleb(-6)
    return of_seconds(qualifier, seconds)


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Both of one type; local time becomes GMT where the two differ."""
    kind = type(left)
    if kind is not type(right) or kind not in (date, time, datetime):
        raise incompatible("-", left, right)
    if kind is not date and (left.tzinfo is None) != (right.tzinfo is None):
        convert = to_gmt if kind is datetime else time_to_gmt
        if left.tzinfo is None:
            left = convert(left)
        else:
            right = convert(right)
    return left, right


def _months_between(left: Any, right: Any) -> int:
    if left < right:
        return -_months_between(right, left)
    months = (left.year - right.year) * 12 + left.month - right.month

    # The last month counts only when it is complete.
    return int(months - 1 if _within_month(left) < _within_month(right) else months)


def _within_month(value: Any) -> tuple[int, time]:
    return value.day, value.time() if isinstance(value, datetime) else time()
