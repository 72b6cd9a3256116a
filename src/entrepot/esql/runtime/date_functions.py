# SPDX-License-Identifier: Apache-2.0
"""The functions on dates and times: EXTRACT, CURRENT_DATE and its like, LOCAL_TIMEZONE.

What is current stays the same all through one call of a node, as topic
ak05180 demands: the run holds one moment. Weeks begin on Sunday, and the
first week of a year or month is the one with its first day.
"""

from __future__ import annotations

from calendar import isleap
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime import dates
from entrepot.esql.runtime.intervals import fields_of, of_seconds, parts_of
from entrepot.esql.runtime.type_names import type_name_of, wrong_argument
from entrepot.models.values import Interval


def _local(run: Any) -> datetime:
    return dates.local(run.now, run.local_zone).replace(tzinfo=None)


def current_date(run: Any) -> date:
    return _local(run).date()


def current_time(run: Any) -> time:
    return _local(run).time()


def current_timestamp(run: Any) -> datetime:
    return _local(run)


def current_gmtdate(run: Any) -> date:
    return run.now.astimezone(UTC).date()  # type: ignore[no-any-return]


def current_gmttime(run: Any) -> time:
    return run.now.astimezone(UTC).timetz()  # type: ignore[no-any-return]


def current_gmttimestamp(run: Any) -> datetime:
    return run.now.astimezone(UTC)  # type: ignore[no-any-return]


def local_timezone(run: Any) -> Interval:
    """LOCAL_TIMEZONE: how far local time is ahead of GMT, INTERVAL HOUR TO MINUTE."""
    offset = dates.local(run.now, run.local_zone).utcoffset()
    seconds = 0 if offset is None else int(offset.total_seconds())
    return of_seconds("HOUR TO MINUTE", seconds)


# --- EXTRACT -----------------------------------------------------------------------------------------


def _first_sunday_week(day: int, weekday_of_first: int) -> int:
    """The number of a week that begins on Sunday, when the first day is in week 1."""
    return (day - 1 + weekday_of_first) // 7 + 1


def _weekday(value: date) -> int:
    """0 for Sunday."""
    return value.isoweekday() % 7


_DATE_FIELDS: dict[str, Callable[[Any], Any]] = {
    "YEAR": lambda value: value.year,
    "MONTH": lambda value: value.month,
    "DAY": lambda value: value.day,
    "DAYS": lambda value: value.toordinal(),
    "DAYOFYEAR": lambda value: value.timetuple().tm_yday,
    "DAYOFWEEK": lambda value: _weekday(value) + 1,
    "MONTHS": lambda value: (value.year - 1) * 12 + value.month,
    "QUARTEROFYEAR": lambda value: (value.month + 2) // 3,
    "QUARTERS": lambda value: (value.year - 1) * 4 + (value.month + 2) // 3,
    "WEEKS": lambda value: (value.toordinal() + 6) // 7,
    "WEEKOFYEAR": lambda value: _first_sunday_week(value.timetuple().tm_yday, _weekday(date(value.year, 1, 1))),
    "WEEKOFMONTH": lambda value: _first_sunday_week(value.day, _weekday(date(value.year, value.month, 1))),
    "ISLEAPYEAR": lambda value: isleap(value.year),
}


def _second(value: Any) -> float:
    return float(value.second + Decimal(value.microsecond).scaleb(-6))


_TIME_FIELDS: dict[str, Callable[[Any], Any]] = {
    "HOUR": lambda value: value.hour,
    "MINUTE": lambda value: value.minute,
    "SECOND": _second,
}


def extract(field: Any, source: Any) -> Any:
    """EXTRACT(field FROM source): an INTEGER; SECOND is a FLOAT, ISLEAPYEAR a BOOLEAN.

    Raises:
        EsqlRunError: There is no such field, or the source has it not.
    """
    if source is None:
        return None
    name = str(field).upper()
    if isinstance(source, Interval):
        return _extract_from_interval(name, source)
    if not isinstance(source, date | time):
        raise wrong_argument("EXTRACT", source, "a date, a time or an INTERVAL")
    read = None
    if isinstance(source, date):
        read = _DATE_FIELDS.get(name)
    if read is None and isinstance(source, datetime | time):
        read = _TIME_FIELDS.get(name)
    if read is None:
        raise _no_field(name, source)
    return read(source)


def _no_field(name: str, source: Any) -> EsqlRunError:
    kind = type_name_of(source)
    if name in _DATE_FIELDS or name in _TIME_FIELDS:
        return EsqlRunError(f"{kind} has no {name}", number=2420, inserts=(name, kind))
    return EsqlRunError(f"EXTRACT knows no field {name}", number=2420, inserts=(name,))


def _extract_from_interval(name: str, source: Interval) -> Any:
    fields = fields_of(source.qualifier)
    if name not in fields:
        raise _no_field(name, source)
    negative, amounts = parts_of(source)
    amount = amounts[fields.index(name)]
    amount = -amount if negative else amount
    return float(amount) if name == "SECOND" else int(amount)
