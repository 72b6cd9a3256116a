# SPDX-License-Identifier: Apache-2.0
"""Dates and times as text by CAST's FORMAT: yyyyMMdd, dd MMM yyyy HH:mm, I, TU.

The patterns are those of message models (models/dates/patterns.py), and so is
their meaning. What ESQL adds are its types: a TIMESTAMP is in the local
zone, a GMTTIMESTAMP in GMT, and text that names its zone is moved there.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import Any

from entrepot.errors.esql import CastFailed
from entrepot.esql.runtime.dates import local_offset, shift, unreadable
from entrepot.models.dates.patterns import PATTERN_CHARACTERS_MAX, DatePattern, compile_pattern


def _compiled(pattern: str, offset: timedelta) -> DatePattern:
    try:
        return compile_pattern(pattern, timezone(offset) if offset else UTC)
    except ValueError as failure:
        raise CastFailed(f"FORMAT: {failure}", sqlstate="S22007", number=2595, inserts=(pattern,)) from failure


@lru_cache(maxsize=512)
def _names_zone(pattern: str) -> bool:
    """Whether a pattern may write the zone, so that it matters which one is the local."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise CastFailed(f"FORMAT {pattern[:40]!r}... is no pattern of a date: it is too long", number=2595)
    return pattern[:1] in ("I", "T") or "z" in pattern.lower()


def format_datetime(value: Any, pattern: str) -> str:
    """A date or time by a pattern.

    Raises:
        CastFailed: The pattern is wrong, or asks for what the value has not.
    """
    local = _names_zone(pattern) and (not isinstance(value, datetime | time) or value.tzinfo is None)
    compiled = _compiled(pattern, local_offset() if local else timedelta())
    try:
        return compiled.render(value)
    except ValueError as failure:
        raise CastFailed(f"FORMAT {pattern!r}: {failure}", sqlstate="S22007", number=2595) from failure


def parse_datetime(text: str, pattern: str, target: str) -> Any:
    """A value of the type `target` from text by a pattern.

    Raises:
        CastFailed: The pattern is wrong, or the text does not fit it.
    """
    compiled = _compiled(pattern, timedelta())
    try:
        if target == "DATE":
            return _day(compiled.parse_date(text))
        if target in ("TIME", "GMTTIME"):
            return _clock(compiled.parse_time(text), target)
        return _moment(compiled.parse_datetime(text), target)
    except ValueError as failure:
        raise unreadable(text, f"{target} FORMAT {pattern!r}: {failure}") from failure


def _day(value: date) -> date:
    return value.date() if isinstance(value, datetime) else value


def _moment(value: datetime, target: str) -> datetime:
    zone = UTC if target == "GMTTIMESTAMP" else None
    if value.tzinfo is None:
        return value.replace(tzinfo=zone)
    gmt = shift(value.replace(tzinfo=None), -(value.utcoffset() or timedelta()))
    return gmt.replace(tzinfo=UTC) if zone is not None else shift(gmt, local_offset())


def _clock(value: time, target: str) -> time:
    zone = UTC if target == "GMTTIME" else None
    if value.tzinfo is None:
        return value.replace(tzinfo=zone)
    moved = _moment(datetime.combine(date(2000, 1, 2), value), "GMTTIMESTAMP" if zone else "TIMESTAMP")
    return moved.timetz()
