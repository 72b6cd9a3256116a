# SPDX-License-Identifier: Apache-2.0
"""CAST to DATE, TIME, TIMESTAMP, GMTTIME, GMTTIMESTAMP and INTERVAL.

A day that becomes a timestamp takes the time of day from the clock, a time
takes the day; local and GMT are as far apart as LOCAL_TIMEZONE says. Several
values make one: three numbers a DATE, six a TIMESTAMP, a DATE and a TIME a
TIMESTAMP. Topic ak05680 has both tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from entrepot.errors.esql import CastFailed
from entrepot.esql.runtime.casts_to_numbers import Casts, cast_failed, decimal_from_float
from entrepot.esql.runtime.dates import now, read_datetime, time_to_gmt, time_to_local, to_gmt, to_local
from entrepot.esql.runtime.intervals import (
    fields_of,
    from_parts,
    is_months,
    normal_qualifier,
    of_months,
    of_seconds,
    read_interval,
    read_interval_literal,
    scale_interval,
)
from entrepot.esql.runtime.type_names import type_name_of
from entrepot.models.values import Interval


def _reader(target: str) -> Callable[[str], Any]:
    return lambda text: read_datetime(text, target)


def _time_as_local(value: time) -> time:
    return value if value.tzinfo is None else time_to_local(value)


def _time_as_gmt(value: time) -> time:
    return time_to_gmt(value) if value.tzinfo is None else value.replace(tzinfo=UTC)


def _as_local(value: datetime) -> datetime:
    return value if value.tzinfo is None else to_local(value)


def _as_gmt(value: datetime) -> datetime:
    return to_gmt(value) if value.tzinfo is None else value.astimezone(UTC)


def _timestamp_from_time(value: time) -> datetime:
    if value.tzinfo is not None:
        return to_local(_gmttimestamp_from_time(value))
    return datetime.combine(to_local(now()).date(), value)


def _gmttimestamp_from_time(value: time) -> datetime:
    if value.tzinfo is None:
        return to_gmt(_timestamp_from_time(value))
    return datetime.combine(now().date(), value.replace(tzinfo=UTC))


TO_DATE: Casts = {date: lambda value: value, datetime: lambda value: value.date(), str: _reader("DATE")}
TO_TIME: Casts = {time: _time_as_local, datetime: lambda value: _as_local(value).time(), str: _reader("TIME")}
TO_GMTTIME: Casts = {time: _time_as_gmt, datetime: lambda value: _as_gmt(value).timetz(), str: _reader("GMTTIME")}
TO_TIMESTAMP: Casts = {
    datetime: _as_local,
    date: lambda value: datetime.combine(value, to_local(now()).time()),
    time: _timestamp_from_time,
    str: _reader("TIMESTAMP"),
}
TO_GMTTIMESTAMP: Casts = {
    datetime: _as_gmt,
    date: lambda value: datetime.combine(value, now().timetz()),
    time: _gmttimestamp_from_time,
    str: _reader("GMTTIMESTAMP"),
}


def to_interval(qualifier: str) -> Casts:
    """The casts to an INTERVAL with this qualifier; without one, to that of the value or of a literal in a text."""
    if not qualifier:
        return {Interval: lambda value: value, str: read_interval_literal}
    fields = fields_of(qualifier)
    normal = normal_qualifier(fields)
    name = f"INTERVAL {normal}"

    def from_interval(value: Interval) -> Interval:
        months = is_months(value)
        if months != (fields[0] in ("YEAR", "MONTH")):
            raise cast_failed(value, name)
        return of_months(normal, value.months) if months else of_seconds(normal, value.seconds)

    def from_number(value: Any) -> Interval:
        if len(fields) != 1:
            raise cast_failed(value, name)
        return scale_interval(from_parts([Decimal(1)], normal), value)

    return {
        Interval: from_interval,
        str: lambda text: read_interval(text, normal),
        int: from_number,
        Decimal: from_number,
        float: from_number,
    }


# --- several values make one ------------------------------------------------------------------------------


def _number(value: Any, target: str) -> Decimal:
    if type(value) is int:
        return Decimal(value)
    if type(value) is Decimal:
        return value
    if type(value) is float:
        return decimal_from_float(value)
    raise cast_failed(value, f"part of a {target}")


def _whole(value: Decimal, target: str) -> int:
    if not value.is_finite() or value.adjusted() > 10:
        raise cast_failed(value, f"part of a {target}")
    return int(value)


def _second(value: Decimal, target: str) -> tuple[int, int]:
    whole = _whole(value, target)
    return whole, int((value - whole) * 1000000)


def parts_to_datetime(values: Sequence[Any], target: str) -> Any:
    """CAST(2003, 12, 24 AS DATE), CAST(day, clock AS TIMESTAMP) and their like.

    Raises:
        CastFailed: Too many or too few parts, or there is no such day or time.
    """
    zone = UTC if target.startswith("GMT") else None
    if target.endswith("TIMESTAMP") and len(values) == 2:
        day, clock = values
        if type(day) is not date or type(clock) is not time or (clock.tzinfo is not None) != (zone is not None):
            kinds = " and ".join(type_name_of(value) for value in values)
            raise CastFailed(f"{kinds} cannot become {target}", sqlstate="S22018", number=2595)
        return datetime.combine(day, clock.replace(tzinfo=zone))
    wanted = {"DATE": 3, "TIME": 3, "GMTTIME": 3, "TIMESTAMP": 6, "GMTTIMESTAMP": 6}.get(target)
    if wanted is None:
        raise CastFailed(f"several values make no {target}", number=2595)
    if len(values) != wanted:
        raise CastFailed(f"{wanted} numbers make a {target}, not {len(values)}", number=2595)
    numbers = [_number(value, target) for value in values]
    try:
        if target == "DATE":
            return date(*(_whole(number, target) for number in numbers))
        second, microsecond = _second(numbers[-1], target)
        whole = [_whole(number, target) for number in numbers[:-1]]
        if wanted == 3:
            return time(whole[0], whole[1], second, microsecond, zone)
        return datetime(whole[0], whole[1], whole[2], whole[3], whole[4], second, microsecond, zone)
    except (ValueError, OverflowError) as failure:
        shown = ", ".join(str(value) for value in values)
        raise CastFailed(f"{shown} make no {target}", sqlstate="S22007", number=2595, inserts=(shown,)) from failure


def parts_to_interval(values: Sequence[Any], qualifier: str) -> Interval:
    """CAST(7, 30 AS INTERVAL HOUR TO MINUTE)."""
    return from_parts([_number(value, "INTERVAL") for value in values], qualifier)
