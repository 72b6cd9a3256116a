# SPDX-License-Identifier: Apache-2.0
"""Dates by patterns: known answers from the broker's table of letters and from ISO 8601."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.models.dates.patterns import compile_pattern, parse_date, parse_datetime, parse_time
from folding import for_each

HOUR_AHEAD = timezone(timedelta(hours=1))

BOTH_WAYS = [
    ("yyyyMMdd", "20040229", date(2004, 2, 29)),
    ("yyyyDDD", "2004060", date(2004, 2, 29)),
    ("yyyyDDD", "2003365", date(2003, 12, 31)),
    ("yyDDD", "53001", date(1953, 1, 1)),
    ("yyDDD", "52366", date(2052, 12, 31)),
    ("MM/dd/yyyy", "12/31/1999", date(1999, 12, 31)),
    ("dd.MM.yy", "01.02.03", date(2003, 2, 1)),
    ("d MMM yyyy", "7 Oct 2006", date(2006, 10, 7)),
    ("EEEE, d MMMM yyyy", "Saturday, 7 October 2006", date(2006, 10, 7)),
    ("EEE yyyy-MM-dd", "Sat 2006-10-07", date(2006, 10, 7)),
    ("yyyy MM F EEE", "2004 07 2 Wed", date(2004, 7, 14)),
    ("YYYY ww EEEE", "2002 01 Monday", date(2001, 12, 31)),
    ("YYYY'W'ww-e", "2009W53-5", date(2010, 1, 1)),
    ("yyyy-MM-dd G", "2006-10-07 AD", date(2006, 10, 7)),
    ("HHmm", "2359", time(23, 59)),
    ("HHmmssSSS", "235958123", time(23, 59, 58, 123000)),
    ("HH:mm:ss.SSSSSS", "23:59:58.123456", time(23, 59, 58, 123456)),
    ("hh:mm a", "12:05 AM", time(0, 5)),
    ("h 'o''clock' a", "6 o'clock PM", time(18)),
    ("K:mm a", "0:30 PM", time(12, 30)),
    ("kk", "24", time(0)),
    ("yyyyMMddHHmmss", "20061007120656", datetime(2006, 10, 7, 12, 6, 56)),
    ("yyyy-MM-dd'T'HH:mm:ss.SSSZZZ", "2006-10-07T12:06:56.568+01:00",
     datetime(2006, 10, 7, 12, 6, 56, 568000, HOUR_AHEAD)),
    ("yyyy-MM-ddTHH:mm:ssZZZU", "2006-10-07T12:06:56Z", datetime(2006, 10, 7, 12, 6, 56, tzinfo=UTC)),
    ("HH:mm Z", "12:06 +1", time(12, 6, tzinfo=HOUR_AHEAD)),
    ("HH:mm ZZ", "12:06 +01", time(12, 6, tzinfo=HOUR_AHEAD)),
    ("HH:mm ZZZZ", "12:06 GMT+01:00", time(12, 6, tzinfo=HOUR_AHEAD)),
    ("HH:mm ZZZZZ", "12:06 -0530", time(12, 6, tzinfo=timezone(-timedelta(hours=5, minutes=30)))),
    ("HH:mm Z", "12:06 -5:30", time(12, 6, tzinfo=timezone(-timedelta(hours=5, minutes=30)))),
    ("I", "2006-10-07T12:06:56.568+01:00", datetime(2006, 10, 7, 12, 6, 56, 568000, HOUR_AHEAD)),
    ("I", "2006-10-07", date(2006, 10, 7)),
    ("IU", "2006-10-07T12:06:56.000Z", datetime(2006, 10, 7, 12, 6, 56, tzinfo=UTC)),
    ("T", "12:06:56.568+01:00", time(12, 6, 56, 568000, HOUR_AHEAD)),
    ("TU", "12:06:56.568Z", time(12, 6, 56, 568000, UTC)),
]  # fmt: skip


@for_each(("pattern", "text", "value"), BOTH_WAYS)
def test_a_pattern_reads_and_writes(pattern: str, text: str, value: object) -> None:
    parse, render = compile_pattern(pattern)
    read = parse(text)
    assert read == value
    assert type(read) is type(value)
    assert render(read) == text


@for_each(
    ("pattern", "text", "value"),
    [
        ("MM/dd/yyyy", "2/9/2004", date(2004, 2, 9)),  # leading zeros may be missing before a literal
        ("HH:mm:ss.SSS", "01:02:03.5", time(1, 2, 3, 500000)),
        ("d MMMM yyyy", "7 october 2006", date(2006, 10, 7)),
        ("hh:mm a", "01:00 pm", time(13)),
        ("HH:mm z", "12:06 CET", time(12, 6, tzinfo=HOUR_AHEAD)),
        ("HH:mm z", "12:06 UTC", time(12, 6, tzinfo=UTC)),
        ("yyyy", "2006", date(2006, 1, 1)),
        ("I", "20061007T120656Z", datetime(2006, 10, 7, 12, 6, 56, tzinfo=UTC)),
        ("I", "2006-280", date(2006, 10, 7)),
        ("I", "2006-W40-6", date(2006, 10, 7)),
        ("I", "2006-10", date(2006, 10, 1)),
        ("T", "1206", time(12, 6)),
        ("yyyy-MM-dd HH:mm", "1999-12-31 24:00", datetime(2000, 1, 1)),
    ],
)
def test_what_is_meant_is_read(pattern: str, text: str, value: object) -> None:
    assert compile_pattern(pattern).parse(text) == value


@for_each(
    ("pattern", "text", "reason"),
    [
        ("yyyyMMdd", "2004023", "does not fit"),
        ("yyyyMMdd", "20040230", "day is out of range"),
        ("yyyyMMdd", "２００４０２２９", "does not fit"),
        ("yyyyDDD", "2003366", "2003 has no day 366"),
        ("yyyyDDD", "2003000", "from 1 to 366"),
        ("HHmm", "2401", "nothing comes after 24:00"),
        ("HHmm", "1260", "minute must be"),
        ("EEE yyyyMMdd", "Mon 20040229", "is a Sunday"),
        ("yyyy-MM-dd G", "0044-03-15 BC", "before the first"),
        ("yyyyMMdd HH", "99991231 24", "9999"),
        ("HH Z", "12 +19", "no time zone"),
        ("yyyy MM MMM", "2004 07 Aug", "twice"),
        ("YYYY ww", "2003 53", "Invalid week"),
        ("I", "yesterday", "no date of ISO 8601"),
        ("T", "noon", "no time of ISO 8601"),
    ],
)
def test_what_is_no_date_is_refused_with_a_reason(pattern: str, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        compile_pattern(pattern).parse(text)


@for_each("pattern", ["yyyyQ", "", "'never closed", "--", "yyyyI", "MMMMM", "SSSSSSSSSS", "b"])
def test_a_pattern_that_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        compile_pattern(pattern)


def test_what_a_pattern_does_not_say_is_the_beginning_of_1970() -> None:
    assert compile_pattern("HH:mm").parse_datetime("12:06") == datetime(1970, 1, 1, 12, 6)
    assert compile_pattern("dd/MM").parse_date("31/12") == date(1970, 12, 31)
    assert compile_pattern("yyyyMMdd").parse_time("20040229") == time(0)


def test_a_value_without_a_zone_is_in_the_zone_of_the_pattern() -> None:
    noon = datetime(2006, 10, 7, 12)
    assert compile_pattern("HH:mmZZZ").render(noon) == "12:00+00:00"
    assert compile_pattern("HH:mmZZZ", HOUR_AHEAD).render(noon) == "12:00+01:00"


def test_equal_moments_in_two_zones_are_not_taken_for_each_other() -> None:
    render = compile_pattern("yyyyMMdd").render
    late = datetime(2006, 10, 7, 23, 30, tzinfo=UTC)
    assert render(late) == "20061007"
    assert render(late.astimezone(HOUR_AHEAD)) == "20061008"


def test_the_functions_without_a_pattern_read_iso() -> None:
    assert parse_date("2006-10-07") == date(2006, 10, 7)
    assert parse_time("12:06:56") == time(12, 6, 56)
    assert parse_datetime("2006-10-07 12:06:56") == datetime(2006, 10, 7, 12, 6, 56)


@pytest.mark.parametrize(
    ("pattern", "width", "numeric"),
    [("yyyyDDD", 7, True), ("HHmm", 4, True), ("d/M/yyyy", 0, False), ("dd MMM", 6, False)],
)
def test_a_pattern_knows_how_wide_it_is(pattern: str, width: int, numeric: bool) -> None:
    compiled = compile_pattern(pattern)
    assert (compiled.width, compiled.numeric) == (width, numeric)


@settings(max_examples=60)
@given(
    st.datetimes(min_value=datetime(1000, 1, 1)),
    st.sampled_from(
        [
            "yyyyMMddHHmmssSSSSSS",
            "EEEE d MMMM yyyy hh:mm:ss.SSSSSS a",
            "yyyy-DDD'T'HH:mm:ss.SSSSSS",
            "YYYY-'W'ww-e kk:mm:ss.SSSSSS",
            "I",
        ]
    ),
)
def test_what_was_written_is_read_again(value: datetime, pattern: str) -> None:
    compiled = compile_pattern(pattern)
    assert compiled.parse_datetime(compiled.render(value)).replace(tzinfo=None) == value
