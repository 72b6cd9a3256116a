# SPDX-License-Identifier: Apache-2.0
"""Dates and times as text, by patterns such as yyyyMMdd, yyyyDDD or dd MMM yyyy HH:mm:ss.SSS ZZZ.

The letters are those of the broker's documents: a d D e E F G h H I k K m M s S T
w W y Y z Z, text between quotes for itself, and U behind I, T or ZZZ for Z instead
of +00:00. A pattern is compiled once and kept. What a pattern does not say is
1970-01-01 00:00:00. Weeks are those of ISO 8601: they begin on Monday and the first
one has at least four days. Two-digit years are those from 1953 to 2052.

    >>> compile_pattern("yyyyDDD").parse("2004060")
    datetime.date(2004, 2, 29)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache, partial
from operator import itemgetter

from entrepot.models.dates.iso import (
    Fields,
    Moment,
    day_in_year,
    has_time,
    iso_fields,
    iso_time_fields,
    offset_of,
    render_iso,
)
from entrepot.models.dates.rendering import (
    DATES_KEPT,
    DAYS,
    MONTHS,
    NUMBER_DIGITS,
    TIME_LETTERS,
    Token,
    is_number,
    renderer,
    week_in_month,
)

CENTURY_WINDOW = 53
"""Two-digit years from here on belong to the twentieth century."""

_DATE_LETTERS = frozenset("dDeEFGMwWyY")
_RANGES = {"e": (1, 7), "F": (1, 5), "w": (1, 53), "W": (0, 6), "h": (1, 12), "H": (0, 24), "k": (1, 24), "K": (0, 11),
           "D": (1, 366)}  # fmt: skip
_CALLED = {"e": "day in week", "F": "day of week in month", "w": "week", "W": "week in month", "h": "hour", "H": "hour",
           "k": "hour", "K": "hour", "D": "day in year"}  # fmt: skip

# Offsets in hours of the zone names that letters and log files still carry; others must say their offset.
_ZONES = {"UTC": 0, "GMT": 0, "UT": 0, "Z": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3,
          "MSK": 3, "JST": 9, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8,
          "PDT": -7}  # fmt: skip
_ZONE_NAMES = {"Greenwich Mean Time": 0, "Coordinated Universal Time": 0, "Central European Time": 1,
               "Eastern Standard Time": -5, "Eastern Daylight Time": -4, "Central Standard Time": -6,
               "Central Daylight Time": -5, "Mountain Standard Time": -7, "Mountain Daylight Time": -6,
               "Pacific Standard Time": -8, "Pacific Daylight Time": -7}  # fmt: skip
_ZONES_LOWER = {name.lower(): hours for name, hours in (_ZONES | _ZONE_NAMES).items()}

_OFFSET = r"[zZ]|(?:GMT|UTC)?[+-][0-9]{1,2}(?::?[0-9]{2})?|GMT|UTC"
_ZONE = "|".join(sorted((*map(re.escape, _ZONES), *map(re.escape, _ZONE_NAMES)), key=len, reverse=True))


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A pattern that is ready to read and to write; also the pair (parse, render).

    All raise ValueError with a reason that fits behind "it is no date: ".
    """

    pattern: str
    parse: Callable[[str], Moment]
    """A date, a time or a datetime, by what the pattern has letters for; with a zone when the text has one."""
    render: Callable[[Moment], str]
    """Takes a date, time or datetime; one without a zone is taken to be in `compile_pattern`'s."""
    parse_date: Callable[[str], date]
    parse_time: Callable[[str], time]
    parse_datetime: Callable[[str], datetime]
    width: int
    """Characters that it always has; 0 when that depends on the value."""
    numeric: bool
    """It writes nothing but digits, so that packed digits can hold it."""

    def __iter__(self) -> Iterator[Callable[..., Moment | str]]:
        return iter((self.parse, self.render))


PATTERN_CHARACTERS_MAX = 200
"""Longer ones are no pattern of a date; programs and messages can make up patterns."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str, zone: tzinfo = UTC) -> DatePattern:
    """A pattern, ready to use; `zone` is where values without one are when the pattern writes a zone.

    Raises:
        ValueError: The pattern has a letter that means nothing, or a quote without its other.
    """
    if pattern in ("I", "IU", "T", "TU"):
        return _compile_iso(pattern, zone)
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"the pattern {pattern[:40]!r}... is longer than {PATTERN_CHARACTERS_MAX} characters")
    tokens = tokenize(pattern)
    letters = {letter for letter, count in tokens if count}
    if not letters:
        raise ValueError(f"the pattern {pattern!r} has no letters of dates or times")
    fields = _quick_fields(tokens) or _slow_fields(tokens)
    dated, timed = bool(letters & _DATE_LETTERS), bool(letters & (TIME_LETTERS | {"z", "Z", "ZU"}))
    widths = [_width(letter, count) for letter, count in tokens]
    read_date, read_time, read_datetime = _readers(fields)
    return DatePattern(
        pattern,
        read_datetime if dated and timed else read_date if dated else read_time,
        renderer(tokens, zone),
        read_date,
        read_time,
        read_datetime,
        width=sum(widths) if all(widths) else 0,
        numeric=all(is_number(*token) for token in tokens),
    )


def parse_date(text: str, pattern: str = "I") -> date:
    """A date by a pattern, ISO 8601 unless told.

    Raises:
        ValueError: Text or pattern is wrong; says how.
    """
    return compile_pattern(pattern).parse_date(text)


def parse_time(text: str, pattern: str = "T") -> time:
    """A time by a pattern, ISO 8601 unless told; raises ValueError as `parse_date` does."""
    return compile_pattern(pattern).parse_time(text)


def parse_datetime(text: str, pattern: str = "I") -> datetime:
    """A datetime by a pattern, ISO 8601 unless told; raises ValueError as `parse_date` does."""
    return compile_pattern(pattern).parse_datetime(text)


def tokenize(pattern: str) -> list[Token]:
    """The letters of a pattern with their counts, and its literals."""
    tokens: list[Token] = []
    literal = ""
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == "'":
            text, position = _quoted(pattern, position)
            literal += text
            continue
        end = position + 1
        if not (letter.isascii() and letter.isalpha()) or letter == "T":
            # T between a date and a time is what people mean by it, quoted or not; as a pattern it stands alone.
            literal += letter
            position = end
            continue
        while end < len(pattern) and pattern[end] == letter:
            end += 1
        if literal:
            tokens.append((literal, 0))
            literal = ""
        tokens.append(_token(letter, end - position, pattern, position))
        if tokens[-1] == ("Z", 3) and pattern[end : end + 1] == "U":
            tokens[-1] = ("ZU", 3)
            end += 1
        position = end
    if literal:
        tokens.append((literal, 0))
    return tokens


def _token(letter: str, count: int, pattern: str, position: int) -> Token:
    if letter in "IU":
        raise ValueError(f"the pattern {pattern!r} has {letter} at {position + 1} beside other letters: I stands alone")
    if letter not in NUMBER_DIGITS and letter not in "aEGzZ":
        raise ValueError(f"the pattern {pattern!r} has the letter {letter} at {position + 1}, which means nothing")
    most = {"S": 9, "M": 4, "E": 4, "a": 1, "G": 1}.get(letter, 5)
    if count > most:
        raise ValueError(f"the pattern {pattern!r} has {letter} more than {most} times in a row")
    return letter, count


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    if pattern[start + 1 : start + 2] == "'":
        return "'", start + 2
    text = ""
    position = start + 1
    while True:
        end = pattern.find("'", position)
        if end < 0:
            raise ValueError(f"the pattern {pattern!r} opens a quote at {start + 1} and never closes it")
        text += pattern[position:end]
        if pattern[end + 1 : end + 2] != "'":
            return text, end + 1
        text += "'"
        position = end + 2


def _width(letter: str, count: int) -> int:
    if not count:
        return len(letter)
    if not is_number(letter, count):
        return {("a", 1): 2, ("M", 3): 3, ("E", 3): 3, ("Z", 3): 6, ("Z", 5): 5}.get((letter, count), 0)
    if letter in "yY":
        return 0 if count in (1, 3) else count
    return count if count >= NUMBER_DIGITS[letter] or letter == "S" else 0


# --- reading ---------------------------------------------------------------------------------------------------

_DEFAULTS = ("1970", "1", "1", "0", "0", "0")
_PLACES = {"y": 0, "M": 1, "d": 2, "H": 3, "m": 4, "s": 5}


def _expression(tokens: list[Token]) -> re.Pattern[str]:
    parts: list[str] = []
    for place, (letter, count) in enumerate(tokens):
        if not count:
            parts.append(re.escape(letter))
        elif is_number(letter, count):
            beside = tokens[max(place - 1, 0) : place] + tokens[place + 1 : place + 2]
            # Digits that touch the next number's digits must keep to their count; else leading zeros may be missing.
            exact = any(is_number(*other) for other in beside) or (letter in "yY" and count > 1)
            most = count if letter == "S" else max(NUMBER_DIGITS[letter], count)
            parts.append(f"([0-9]{{{count}}})" if exact else f"([0-9]{{1,{most}}})")
        else:
            parts.append(f"({_text_expression(letter, count)})")
    return re.compile("".join(parts), re.IGNORECASE)


def _text_expression(letter: str, count: int) -> str:
    if letter == "a":
        return "am|pm"
    if letter == "G":
        return "AD|BC"
    if letter in "ME":
        names = MONTHS if letter == "M" else DAYS
        return "|".join(names if count > 3 else (name[:3] for name in names))
    return f"{_OFFSET}|{_ZONE}" if letter == "z" else _OFFSET


def _no_match(text: str) -> ValueError:
    return ValueError(f"{text!r} does not fit the pattern" if len(text) < 80 else "it does not fit the pattern")


def _quick_fields(tokens: list[Token]) -> Callable[[str], Fields] | None:
    """For patterns with nothing but year, month, day, hour, minute, second and their fraction as numbers."""
    letters = [letter for letter, count in tokens if count]
    if len(set(letters)) != len(letters) or not set(letters) <= set("yMdHmsS"):
        return None
    if any(not is_number(*token) for token in tokens if token[1]) or ("y", 2) in tokens:
        return None
    match = _expression(tokens).fullmatch
    # Groups in the order of the pattern, then the defaults: this picks year, month ... second from the two.
    order = [letters.index(letter) if letter in letters else len(letters) + place for letter, place in _PLACES.items()]
    pick = itemgetter(*order)
    fraction = letters.index("S") if "S" in letters else None

    def fields(text: str) -> Fields:
        found = match(text)
        if found is None:
            raise _no_match(text)
        groups = found.groups()
        year, month, day, hour, minute, second = map(int, pick(groups + _DEFAULTS))
        micro = 0 if fraction is None else int(groups[fraction].ljust(6, "0")[:6])
        return year, month, day, hour, minute, second, micro, None

    return fields


def _slow_fields(tokens: list[Token]) -> Callable[[str], Fields]:
    match = _expression(tokens).fullmatch
    letters = [token for token in tokens if token[1]]

    def fields(text: str) -> Fields:
        found = match(text)
        if found is None:
            raise _no_match(text)
        numbers: dict[str, int] = {}
        zone = None
        for (letter, count), group in zip(letters, found.groups(), strict=True):
            if letter in "zZU":
                zone = _zone(group)
                continue
            number = _number(letter, count, group)
            if numbers.setdefault(letter, number) != number:
                raise ValueError(f"it says {letter} twice, and not the same")
        day = _day(numbers)
        return day.year, day.month, day.day, *_clock(numbers), zone

    return fields


def _number(letter: str, count: int, group: str) -> int:
    if letter == "S":
        return int(group.ljust(6, "0")[:6])
    if letter == "a":
        return int(group[0] in "pP")
    if letter == "G":
        if group[0] in "bB":
            raise ValueError("years before the first are not kept")
        return 1
    if letter == "E" or (letter == "M" and count > 2):
        names = DAYS if letter == "E" else MONTHS
        return next(place for place, name in enumerate(names, 1) if name[:3].lower() == group[:3].lower())
    number = int(group)
    if letter in _RANGES:
        low, high = _RANGES[letter]
        if not low <= number <= high:
            raise ValueError(f"{_CALLED[letter]} {number} is not from {low} to {high}")
    if letter in "yY" and count == 2:
        number += 1900 if number >= CENTURY_WINDOW else 2000
    return number


def _zone(text: str) -> timezone:
    lower = text.lower()
    hours = _ZONES_LOWER.get(lower)
    if hours is not None:
        return timezone(timedelta(hours=hours)) if hours else UTC
    return offset_of(lower.removeprefix("gmt").removeprefix("utc"))


def _day(numbers: dict[str, int]) -> date:
    year = numbers.get("y", numbers.get("Y", 1970))
    weekday = numbers.get("E", numbers.get("e"))
    if "M" in numbers or "d" in numbers:
        day = _day_of_month(numbers, year, weekday)
    elif "D" in numbers:
        day = day_in_year(year, numbers["D"])
    elif "w" in numbers:
        # date.fromisocalendar refuses week 53 where the year has none.
        day = date.fromisocalendar(numbers.get("Y", year), numbers["w"], weekday or 1)
    else:
        return date(year, 1, 1)
    if weekday is not None and day.isoweekday() != weekday:
        raise ValueError(f"{day} is a {DAYS[day.weekday()]}, not a {DAYS[weekday - 1]}")
    if "D" in numbers and day.timetuple().tm_yday != numbers["D"]:
        raise ValueError(f"{day} is not day {numbers['D']} of its year")
    return day


def _day_of_month(numbers: dict[str, int], year: int, weekday: int | None) -> date:
    month = numbers.get("M", 1)
    if "d" in numbers or weekday is None or not numbers.keys() & {"F", "W"}:
        return date(year, month, numbers.get("d", 1))
    first = date(year, month, 1)
    if "F" in numbers:
        day = 1 + (weekday - first.isoweekday()) % 7 + 7 * (numbers["F"] - 1)
    else:
        day = 7 * (numbers["W"] - week_in_month(first)) + weekday - first.weekday()
    return date(year, month, day)


def _clock(numbers: dict[str, int]) -> tuple[int, int, int, int]:
    if "H" in numbers:
        hour = numbers["H"]
    elif "k" in numbers:
        hour = numbers["k"] % 24
    else:
        hour = numbers.get("h", numbers.get("K", 0)) % 12 + 12 * numbers.get("a", 0)
    return hour, numbers.get("m", 0), numbers.get("s", 0), numbers.get("S", 0)


def _readers(
    fields: Callable[[str], Fields],
) -> tuple[Callable[[str], date], Callable[[str], time], Callable[[str], datetime]]:
    def read_datetime(text: str) -> datetime:
        found = fields(text)
        if found[3] == 24:
            return _midnight(found)
        return datetime(*found)

    # Most dates of a day's messages are the same few, and a date cannot be changed.
    @lru_cache(maxsize=DATES_KEPT)
    def read_date(text: str) -> date:
        return read_datetime(text).date()

    def read_time(text: str) -> time:
        return read_datetime(text).timetz()

    return read_date, read_time, read_datetime


def _midnight(fields: Fields) -> datetime:
    """24:00 is the end of a day, which is the beginning of the next one."""
    year, month, day, _, minute, second, micro, zone = fields
    if minute or second or micro:
        raise ValueError("nothing comes after 24:00")
    try:
        return datetime(year, month, day, tzinfo=zone) + timedelta(days=1)
    except OverflowError:
        raise ValueError("no day comes after the last one of year 9999") from None


def _compile_iso(pattern: str, zone: tzinfo) -> DatePattern:
    """I and T: whatever ISO 8601 has of a date and a time, or of a time."""
    timed_only = pattern[0] == "T"
    read_date, read_time, read_datetime = _readers(iso_time_fields if timed_only else iso_fields)
    read_clock = _readers(iso_time_fields)[1]

    def parse(text: str) -> Moment:
        return read_time(text) if timed_only else read_datetime(text) if has_time(text) else read_date(text)

    def parse_time_of(text: str) -> time:
        # A time alone is ISO 8601, too: 12:06 as well as 2006-10-07T12:06.
        return read_time(text) if not timed_only and has_time(text) else read_clock(text)

    return DatePattern(
        pattern,
        parse,
        partial(render_iso, zulu=pattern[1:] == "U", timed_only=timed_only, zone=zone),
        read_date,
        parse_time_of,
        read_datetime,
        width=0,
        numeric=False,
    )
