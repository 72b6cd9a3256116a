# SPDX-License-Identifier: Apache-2.0
"""Writing dates and times by the letters of a pattern.

Most patterns are numbers and literals only: they become one format string and
one getter of all the numbers. Names, weeks and zones have a function each.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, tzinfo
from functools import lru_cache
from operator import attrgetter
from typing import Any

from entrepot.models.dates.iso import Moment, with_zone, zone_text

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

NUMBER_DIGITS = {"y": 4, "Y": 4, "M": 2, "d": 2, "D": 3, "e": 1, "F": 1, "w": 2, "W": 1, "h": 2, "H": 2, "k": 2,
                 "K": 2, "m": 2, "s": 2, "S": 9}  # fmt: skip
"""Letters that stand for numbers, and the digits that their numbers can have."""

Token = tuple[str, int]
"""A letter and how often it stands there; or a literal text with 0."""

_ATTRIBUTES = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
_NUMBERS: dict[str, Callable[[Any], int]] = {
    "Y": lambda value: int(value.isocalendar()[0]),
    "D": lambda value: int(value.timetuple().tm_yday),
    "e": lambda value: int(value.isoweekday()),
    "F": lambda value: (value.day - 1) // 7 + 1,
    "w": lambda value: int(value.isocalendar()[1]),
    "W": lambda value: week_in_month(value),
    "h": lambda value: (value.hour - 1) % 12 + 1,
    "k": lambda value: (value.hour - 1) % 24 + 1,
    "K": lambda value: value.hour % 12,
}
TIME_LETTERS = frozenset("ahHkKmsS")

DATES_KEPT = 2048
"""Dates that each pattern remembers."""

_EPOCH = date(1970, 1, 1)


def is_number(letter: str, count: int) -> bool:
    """Whether a token is written in digits."""
    return count > 0 and letter in NUMBER_DIGITS and not (letter == "M" and count > 2)


def week_in_month(day: date) -> int:
    """Weeks begin on Monday; the first has at least four days of the month, what lies before it is week 0."""
    first = day.replace(day=1).weekday()
    return (day.day - 1 + first) // 7 + (1 if first <= 3 else 0)


def renderer(tokens: list[Token], zone: tzinfo) -> Callable[[Moment], str]:
    """What writes values by these tokens; `zone` is where a value without one is."""
    letters = {letter for letter, count in tokens if count}
    clock = bool(letters & TIME_LETTERS)
    zoned = not letters.isdisjoint({"z", "Z", "ZU"})
    dated = bool(letters - TIME_LETTERS - {"z", "Z", "ZU"})
    write = _writer(tokens)
    if zoned:
        return lambda value: write(with_zone(_whole(value), zone))

    # Only plain dates: equal datetimes can be in different zones, and then they are written differently.
    write_date = lru_cache(maxsize=DATES_KEPT)(write)

    def render(value: Moment) -> str:
        kind = type(value)
        if kind is date:
            return write(_whole(value)) if clock else write_date(value)
        if kind is time and dated:
            value = _whole(value)
        return write(value)

    return render


def _whole(value: Moment) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, time):
        return datetime.combine(_EPOCH, value)
    return datetime.combine(value, time())


def _writer(tokens: list[Token]) -> Callable[[Any], str]:
    if all(not count or (letter in _ATTRIBUTES and is_number(letter, count)) for letter, count in tokens):
        numbers = [(letter, count) for letter, count in tokens if count]
        if ("y", 2) not in numbers:
            shape = "".join(f"%0{count}d" if count else letter.replace("%", "%%") for letter, count in tokens)
            numbers_of = attrgetter(*[_ATTRIBUTES[letter] for letter, _ in numbers])
            return lambda value: shape % numbers_of(value)
    pieces = [_piece(letter, count) for letter, count in tokens]
    return lambda value: "".join([piece(value) for piece in pieces])


def _piece(letter: str, count: int) -> Callable[[Any], str]:
    if not count:
        return lambda _: letter
    if letter in "yY" and count == 2:
        year = attrgetter("year") if letter == "y" else _NUMBERS["Y"]
        return lambda value: f"{year(value) % 100:02d}"
    if letter == "S":
        return lambda value: f"{value.microsecond:06d}000"[:count]
    if is_number(letter, count):
        number = attrgetter(_ATTRIBUTES[letter]) if letter in _ATTRIBUTES else _NUMBERS[letter]
        return lambda value: f"{number(value):0{count}d}"
    if letter in "ME":
        cut = None if count > 3 else 3
        if letter == "M":
            return lambda value: MONTHS[value.month - 1][:cut]
        return lambda value: DAYS[value.weekday()][:cut]
    if letter == "a":
        return lambda value: "AM" if value.hour < 12 else "PM"
    if letter == "G":
        return lambda _: "AD"
    return lambda value: zone_text(value, letter, count)
