# SPDX-License-Identifier: Apache-2.0
"""A timeout request as a message has it, read and checked.

TimeoutRequest
  Action           SET or CANCEL
  Identifier       names the request
  StartDate        TODAY (default) or 2026-09-11
  StartTime        NOW (default) or 17:30:00, local time
  Interval         seconds between two times; 0 by default
  Count            how often, 1 by default; -1 for ever
  IgnoreMissed     TRUE (default): what was missed while the flow was stopped is not made good
  AllowOverwrite   TRUE (default): a later request of the same identifier takes its place
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from entrepot.models.tree import Element

LATE_S_MAX = 300.0
"""A start that has passed by no more than this is now; IBM's brokers refuse what is later."""
_INTERVAL_S_MAX = 10 * 365 * 86_400
_COUNT_MAX = 2**31 - 1


class RequestError(Exception):
    """A field that cannot be; the node says where that was."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem


@dataclass(frozen=True, slots=True)
class TimeoutRequest:
    """What a message asks for."""

    action: str
    identifier: str
    start_at: float = 0.0
    """Seconds since 1970."""
    start_date: str = ""
    start_time: str = ""
    interval_s: int = 0
    count: int = 1
    ignore_missed: bool = True
    allow_overwrite: bool = True


def read_request(element: Element, now: float) -> TimeoutRequest:
    """
    Raises:
        RequestError: The first field that is missing or wrong.
    """
    action = _text(element, "Action").upper()
    if action not in ("SET", "CANCEL"):
        problem = f"is {_text(element, 'Action')!r}" if action else "is missing"
        raise RequestError("Action", f"{problem}; it is SET or CANCEL")
    identifier = _text(element, "Identifier")
    if not identifier:
        raise RequestError("Identifier", "is missing")
    if action == "CANCEL":
        return TimeoutRequest(action, identifier)
    interval_s = _integer(element, "Interval", 0)
    if not 0 <= interval_s <= _INTERVAL_S_MAX:
        raise RequestError("Interval", f"is {interval_s}; it is a number of seconds from 0 on")
    count = _integer(element, "Count", 1)
    if count != -1 and not 0 < count <= _COUNT_MAX:
        raise RequestError("Count", f"is {count}; it is more than 0, or -1 for ever")
    if count == -1 and not interval_s:
        raise RequestError("Interval", "is 0, and Count is -1: it would never rest")
    start = _start(element, now)
    return TimeoutRequest(
        action,
        identifier,
        max(start.timestamp(), now),
        start.strftime("%Y-%m-%d"),
        start.strftime("%H:%M:%S"),
        interval_s,
        count,
        _flag(element, "IgnoreMissed"),
        _flag(element, "AllowOverwrite"),
    )


def _start(element: Element, now: float) -> datetime:
    local = datetime.fromtimestamp(now)
    day = _day(element, local.date())
    clock = _clock(element)
    if clock is None:
        if day == local.date():
            return local
        clock = local.time()
    start = datetime.combine(day, clock)
    try:
        late_s = now - start.timestamp()
    except (OverflowError, OSError) as error:
        raise RequestError("StartDate", f"is {day}, which no clock here reaches") from error
    if late_s > LATE_S_MAX:
        problem = f"is {start:%Y-%m-%d %H:%M:%S}, which has passed more than {LATE_S_MAX / 60:.0f} minutes ago"
        raise RequestError("StartTime", problem)
    return start


def _day(element: Element, today: date) -> date:
    value = _value(element, "StartDate")
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    text = str(value).strip()
    if text.upper() in ("", "TODAY"):
        return today
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError as error:
        raise RequestError("StartDate", f"is {text!r}; it is TODAY or a date like 2026-09-11") from error


def _clock(element: Element) -> time | None:
    """The time of the day; None for now."""
    value = _value(element, "StartTime")
    if isinstance(value, datetime):
        return value.time()
    if isinstance(value, time):
        return value.replace(tzinfo=None)
    text = str(value).strip()
    if text.upper() in ("", "NOW"):
        return None
    for form in ("%H:%M:%S", "%H:%M:%S.%f"):
        try:
            return datetime.strptime(text, form).time()
        except ValueError:
            continue
    raise RequestError("StartTime", f"is {text!r}; it is NOW or a time like 17:30:00")


def _value(element: Element, name: str) -> Any:
    value = element.get(name)
    return "" if value is None else value


def _text(element: Element, name: str) -> str:
    return str(_value(element, name)).strip()


def _integer(element: Element, name: str, otherwise: int) -> int:
    text = _text(element, name)
    if not text:
        return otherwise
    try:
        return int(text)
    except ValueError as error:
        raise RequestError(name, f"is {text!r}, which is no whole number") from error


def _flag(element: Element, name: str) -> bool:
    text = _text(element, name).upper()
    if text in ("", "TRUE"):
        return True
    if text == "FALSE":
        return False
    raise RequestError(name, f"is {text!r}; it is TRUE or FALSE")
