# SPDX-License-Identifier: Apache-2.0
"""Dates and times of ISO 8601, in its extended and its basic form, and what zones are written like.

2006-10-07T12:06:56.568+01:00   20061007T120656   2006-280   2006-W40-6   2006-10   12:06:56Z
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

Moment = date | time | datetime
"""What a pattern reads and writes."""

Fields = tuple[int, int, int, int, int, int, int, tzinfo | None]
"""Year, month, day, hour, minute, second, microsecond, zone: the order in which datetime takes them."""

_DATE = r"""
    (?P<year>[0-9]{4}) (?: -(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))? | (?P<month2>[0-9]{2})(?P<day2>[0-9]{2})
    | -?(?P<yearday>[0-9]{3}) | -?W(?P<week>[0-9]{2})(?:-?(?P<weekday>[1-7]))? )?"""
_TIME = r"""
    (?P<hour>[0-9]{2}) (?: :(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9}))?)?
    | (?P<minute2>[0-9]{2})(?:(?P<second2>[0-9]{2})(?:[.,](?P<fraction2>[0-9]{1,9}))?)? )?
    (?P<zone>[zZ]|[+-][0-9]{2}(?::?[0-9]{2})?)?"""
_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2}))?")

_match_date = re.compile(rf"{_DATE}(?:[T ]{_TIME})?", re.VERBOSE).fullmatch
_match_time = re.compile(_TIME, re.VERBOSE).fullmatch


def has_time(text: str) -> bool:
    """Whether an ISO date is followed by a time."""
    return "T" in text or " " in text


def iso_fields(text: str) -> Fields:
    """
    Raises:
        ValueError: It is no date or datetime.
    """
    found = _match_date(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is no date of ISO 8601")
    fields = found.groupdict()
    year = int(fields["year"])
    day = date(year, int(fields["month"] or fields["month2"] or 1), int(fields["day"] or fields["day2"] or 1))
    if fields["yearday"] is not None:
        day = day_in_year(year, int(fields["yearday"]))
    elif fields["week"] is not None:
        day = date.fromisocalendar(year, int(fields["week"]), int(fields["weekday"] or 1))
    return day.year, day.month, day.day, *_clock(fields)


def iso_time_fields(text: str) -> Fields:
    """
    Raises:
        ValueError: It is no time.
    """
    found = _match_time(text.removeprefix("T"))
    if found is None:
        raise ValueError(f"{text[:80]!r} is no time of ISO 8601")
    return 1970, 1, 1, *_clock(found.groupdict())


def _clock(fields: dict[str, str | None]) -> tuple[int, int, int, int, tzinfo | None]:
    fraction = fields["fraction"] or fields["fraction2"] or "0"
    zone = fields["zone"]
    return (
        int(fields["hour"] or 0),
        int(fields["minute"] or fields["minute2"] or 0),
        int(fields["second"] or fields["second2"] or 0),
        int(fraction.ljust(6, "0")[:6]),
        None if zone is None else offset_of(zone),
    )


def day_in_year(year: int, number: int) -> date:
    """The date of yyyyDDD.

    Raises:
        ValueError: The year has no such day.
    """
    first = date(year, 1, 1).toordinal()
    last = date(year, 12, 31).toordinal()
    if not 1 <= number <= last - first + 1:
        raise ValueError(f"{year} has no day {number}")
    return date.fromordinal(first + number - 1)


def offset_of(text: str) -> timezone:
    """The zone of Z, +3, +03, +03:00 or +0300.

    Raises:
        ValueError: No place on Earth is that far from Greenwich.
    """
    if text in ("Z", "z"):
        return UTC
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is no time zone")
    hours, minutes = int(found[2]), int(found[3] or 0)
    if hours > 18 or minutes > 59:
        raise ValueError(f"{text!r} is no time zone")
    span = timedelta(hours=hours, minutes=minutes)
    return timezone(-span if found[1] == "-" else span) if span else UTC


def with_zone(value: time | datetime, zone: tzinfo) -> time | datetime:
    """A value that knows where it is: it stays as it is if it does already."""
    return value.replace(tzinfo=zone) if value.tzinfo is None else value


def zone_text(value: time | datetime, letter: str = "Z", count: int = 3) -> str:
    """The zone of a value as the letters z, Z and ZZZU ask for it."""
    span = value.utcoffset() or timedelta(0)
    if letter == "ZU" and not span:
        return "Z"
    sign = "-" if span < timedelta(0) else "+"
    hours, minutes = divmod(abs(span) // timedelta(minutes=1), 60)
    whole = f"{sign}{hours:02d}:{minutes:02d}"
    if letter == "z" or (letter == "Z" and count == 4):
        return f"GMT{whole}" if span else "GMT"
    if letter == "Z" and count < 3:
        # Half an hour must not be lost, though the letters ask for hours only.
        return f"{sign}{hours:0{count}d}" + (f":{minutes:02d}" if minutes else "")
    return whole.replace(":", "") if letter == "Z" and count == 5 else whole


def render_iso(value: Moment, *, zulu: bool, timed_only: bool, zone: tzinfo) -> str:
    """I and T: as much as the value has, with milliseconds, or microseconds if they are not zero."""
    letter = "ZU" if zulu else "Z"
    if isinstance(value, datetime) and timed_only:
        value = value.timetz()
    if isinstance(value, datetime | time):
        precision = "microseconds" if value.microsecond % 1000 else "milliseconds"
        return value.replace(tzinfo=None).isoformat(timespec=precision) + zone_text(with_zone(value, zone), letter)
    return value.isoformat() if not timed_only else "00:00:00.000" + ("Z" if zulu else "+00:00")
