# SPDX-License-Identifier: Apache-2.0
"""The functions on strings: topics ak05190 to ak05290, ak64960 to ak64990."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.runtime import strings
from entrepot.models.values import Bits
from folding import for_each

HELLO = "Hello World!"
REPEATED = "ABCABCABCABCABC"

SUBSTRINGS = [
    (HELLO, (7, 4), "FROM FOR", "Worl"),
    (HELLO, (7,), "FROM", "World!"),
    (HELLO, (1, 5), "FROM FOR", "Hello"),
    (HELLO, (0, 3), "FROM FOR", "He"),
    (HELLO, (-3, 6), "FROM FOR", "He"),
    (HELLO, (-3, 2), "FROM FOR", ""),
    (HELLO, (-3,), "FROM", HELLO),
    (HELLO, (12, 5), "FROM FOR", "!"),
    (HELLO, (50, 5), "FROM FOR", ""),
    (HELLO, (3, 0), "FROM FOR", ""),
    (HELLO, ("World",), "BEFORE", "Hello "),
    (HELLO, ("World", 3), "BEFORE FOR", "lo "),
    (HELLO, ("World", 99), "BEFORE FOR", "Hello "),
    (HELLO, ("World",), "AFTER", "!"),
    (HELLO, ("Hello", 3), "AFTER FOR", " Wo"),
    (HELLO, ("xyz",), "BEFORE", ""),
    (HELLO, ("xyz",), "AFTER", ""),
    (b"\x01\x02\x03\x04", (2, 2), "FROM FOR", b"\x02\x03"),
    (b"\x01\x02\x03\x04", (b"\x03",), "BEFORE", b"\x01\x02"),
    (Bits("110010"), (3, 3), "FROM FOR", Bits("001")),
    (Bits("110010"), (Bits("00"),), "AFTER", Bits("10")),
    (None, (1, 2), "FROM FOR", None),
    (HELLO, (None, 2), "FROM FOR", None),
    (HELLO, (1, None), "FROM FOR", None),
    (HELLO, (None,), "BEFORE", None),
]


@for_each(("source", "arguments", "form", "expected"), SUBSTRINGS)
def test_substring(source: Any, arguments: tuple[Any, ...], form: str, expected: Any) -> None:
    result = strings.substring(source, *arguments, form=form)
    assert result == expected
    assert type(result) is type(expected)


POSITIONS = [
    (("Village", "Hursley Village"), "IN", 9),
    (("Town", "Hursley Village"), "IN", 0),
    (("B", REPEATED), "IN", 2),
    (("D", REPEATED), "IN", 0),
    (("A", REPEATED, 4), "IN FROM", 4),
    (("C", REPEATED, 2), "IN FROM", 3),
    (("B", REPEATED, 2), "IN REPEAT", 5),
    (("C", REPEATED, 4), "IN REPEAT", 12),
    (("A", REPEATED, 4, 2), "IN FROM REPEAT", 7),
    (("AB", REPEATED, 2, 3), "IN FROM REPEAT", 10),
    (("A", REPEATED, -2), "IN REPEAT", 10),
    # An APAR (support page 4778613) corrects the topic's example of FROM 2, and has the others.
    (("BC", REPEATED, 12, -3), "IN FROM REPEAT", 5),
    (("B", REPEATED, 10, -1), "IN FROM REPEAT", 8),
    (("BC", REPEATED, 10, -3), "IN FROM REPEAT", 2),
    (("CA", REPEATED, -1), "IN REPEAT", 12),
    (("A", REPEATED, 6), "IN REPEAT", 0),
    (("A", REPEATED, -6), "IN REPEAT", 0),
    (("A", REPEATED, 99), "IN FROM", 0),
    (("A", REPEATED, 99, -1), "IN FROM REPEAT", 13),
    (("", REPEATED), "IN", 1),
    (("aa", "aaa", 2), "IN REPEAT", 2),
    ((b"\x02", b"\x01\x02"), "IN", 2),
    ((Bits("1"), Bits("001")), "IN", 3),
    ((None, "a"), "IN", None),
    (("a", None), "IN", None),
    (("a", "a", None), "IN FROM", None),
]


@for_each(("arguments", "form", "expected"), POSITIONS)
def test_position(arguments: tuple[Any, ...], form: str, expected: int | None) -> None:
    assert strings.position(*arguments, form=form) == expected


CALLS = [
    (strings.left, ("Hi there!", 4), "Hi t"),
    (strings.left, ("Hi", 9), "Hi"),
    (strings.left, ("Hi", 0), ""),
    (strings.left, ("Hi", -1), ""),
    (strings.left, (b"\x01\x02", 1), b"\x01"),
    (strings.left, (Bits("101"), 2), Bits("10")),
    (strings.right, ("Hi there!", 4), "ere!"),
    (strings.right, ("Hi", 9), "Hi"),
    (strings.right, ("Hi", 0), ""),
    (strings.right, ("Hi", -1), ""),
    (strings.right, (b"\x01\x02", 1), b"\x02"),
    (strings.length, (HELLO,), 12),
    (strings.length, ("",), 0),
    (strings.length, (b"\x01\x02",), 2),
    (strings.length, (Bits("10101"),), 5),
    (strings.ltrim, ("  a ",), "a "),
    (strings.rtrim, ("  a ",), "  a"),
    (strings.ltrim, (b"\0\x01\0",), b"\x01\0"),
    (strings.upper, ("straße é",), "STRASSE É"),
    (strings.lower, ("ABC É",), "abc é"),
    (strings.contains, (HELLO, "World"), True),
    (strings.contains, (HELLO, "world"), False),
    (strings.contains, (b"\x01\x02", b"\x02"), True),
    (strings.contains, (Bits("0110"), Bits("11")), True),
    (strings.starts_with, (HELLO, "Hello"), True),
    (strings.starts_with, (HELLO, "World"), False),
    (strings.starts_with, (b"\x01\x02", b"\x01"), True),
    (strings.ends_with, (HELLO, "World!"), True),
    (strings.ends_with, (HELLO, "World"), False),
    (strings.ends_with, (Bits("01"), Bits("1")), True),
    (strings.overlay, ("ABCDEFGHIJ", "1234", 4, 3), "ABC1234GHIJ"),
    (strings.overlay, ("ABCDEFGHIJ", "1234", 4), "ABC1234HIJ"),
    (strings.overlay, ("ABC", "X", 99), "ABCX"),
    (strings.overlay, ("ABC", "X", 2, 0), "AXBC"),
    (strings.overlay, (b"\x01\x02\x03", b"\xff", 2), b"\x01\xff\x03"),
    (strings.overlay, (Bits("0000"), Bits("11"), 2), Bits("0110")),
    (strings.replace, ("ABCDABCDABCDA", "A", "AA"), "AABCDAABCDAABCDAA"),
    (strings.replace, ("AAABCDEFAABCDEF", "AA", "XYZ"), "XYZABCDEFXYZBCDEF"),
    (strings.replace, ("ABCABC", "B"), "ACAC"),
    (strings.replace, ("ABC", "", "x"), "ABC"),
    (strings.replace, (b"\x01\x02", b"\x01", b"\xff\xff"), b"\xff\xff\x02"),
    (strings.replace, (b"\x01\x02", b"\x01"), b"\x02"),
    (strings.replace, (Bits("0100"), Bits("1"), Bits("11")), Bits("01100")),
    (strings.replicate, ("ABCD", 3), "ABCDABCDABCD"),
    (strings.replicate, ("A", 0), ""),
    (strings.replicate, (b"\x01", 3), b"\x01\x01\x01"),
    (strings.replicate, (Bits("10"), 2), Bits("1010")),
    (strings.space, (3,), "   "),
    (strings.space, (0,), ""),
    (strings.translate, ("hello", "el", "ip"), "hippo"),
    (strings.translate, ("a-b_c", "-_", " "), "a bc"),
    (strings.translate, ("a-b_c", "-_"), "abc"),
    (strings.translate, ("aba", "aa", "xy"), "xbx"),
    (strings.translate, (b"\x01\x02", b"\x01", b"\xff"), b"\xff\x02"),
    (strings.translate, (Bits("0110"), Bits("0"), Bits("1")), Bits("1111")),
    (strings.base64_encode, ("Hello",), "SGVsbG8="),
    (strings.base64_encode, (b"\xff\xfe",), "//4="),
    (strings.base64_encode, (Bits("01000001"),), "QQ=="),
    (strings.base64_decode, ("SGVsbG8=",), b"Hello"),
    (strings.base64_decode, ("SGVs\r\nbG8=",), b"Hello"),
    (strings.base64_decode, ("",), b""),
]


@for_each(("function", "arguments", "expected"), CALLS)
def test_a_call(function: Any, arguments: tuple[Any, ...], expected: Any) -> None:
    result = function(*arguments)
    assert result == expected
    assert type(result) is type(expected)


TRIMMED = [
    (("   NNN DDD ZZZ   ",), "", "NNN DDD ZZZ"),
    (("LEADING", "aabbcc"), "FROM", "aabbcc"),
    (("LEADING", " ", "  a "), "FROM", "a "),
    (("TRAILING", "b", "aaabBb"), "FROM", "aaabB"),
    (("BOTH", "0", "00120"), "FROM", "12"),
    (("TRAILING", "  a  "), "FROM", "  a"),
    (("\t a ",), "", "\t a"),
    (("BOTH", b"\x00\x01\x00"), "FROM", b"\x01"),
    (("LEADING", b"\xff", b"\xff\xff\x01"), "FROM", b"\x01"),
    (("BOTH", Bits("00100")), "FROM", Bits("1")),
    (("BOTH", Bits("1"), Bits("1101")), "FROM", Bits("0")),
    ((None,), "", None),
    (("BOTH", None, "a"), "FROM", None),
    (("BOTH", "a", None), "FROM", None),
]


@for_each(("arguments", "form", "expected"), TRIMMED)
def test_trim(arguments: tuple[Any, ...], form: str, expected: Any) -> None:
    assert strings.trim(*arguments, form=form) == expected


@for_each(
    ("function", "count"),
    [
        (strings.left, 2),
        (strings.right, 2),
        (strings.length, 1),
        (strings.ltrim, 1),
        (strings.rtrim, 1),
        (strings.upper, 1),
        (strings.lower, 1),
        (strings.contains, 2),
        (strings.starts_with, 2),
        (strings.ends_with, 2),
        (strings.overlay, 3),
        (strings.replace, 3),
        (strings.replicate, 2),
        (strings.space, 1),
        (strings.translate, 3),
        (strings.base64_encode, 1),
        (strings.base64_decode, 1),
    ],
)
def test_null_in_any_argument_gives_null(function: Any, count: int) -> None:
    sound: list[Any] = ["a", "b", 1]
    for place in range(count):
        arguments = [None if other == place else sound[min(other, 2)] for other in range(count)]
        assert function(*arguments) is None


@for_each(
    ("function", "arguments"),
    [
        (strings.length, (5,)),
        (strings.upper, (b"a",)),
        (strings.lower, (1,)),
        (strings.left, ("a", "1")),
        (strings.left, ("a", 1.5)),
        (strings.left, ("a", True)),
        (strings.contains, ("a", b"a")),
        (strings.starts_with, ("a", 1)),
        (strings.replace, ("a", "a", b"b")),
        (strings.replicate, ("a", -1)),
        (strings.replicate, ("ab", 10**9)),
        (strings.space, (-1,)),
        (strings.space, (10**12,)),
        (strings.overlay, ("a", b"b", 1)),
        (strings.substring, ("a", "1")),
        (strings.substring, ("abc", 1, -1)),
        (strings.position, (1, "a")),
        (strings.translate, ("a", 1, 2)),
        (strings.base64_decode, ("%%%",)),
        (strings.base64_decode, ("QQ=",)),
        (strings.base64_decode, ("é",)),
        (strings.base64_encode, (1,)),
        (strings.replace, ("a" * 100_000, "a", "b" * 1000)),
    ],
)
def test_a_wrong_argument_is_an_error(function: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(EsqlRunError):
        function(*arguments)


def test_a_negative_length_has_the_sqlstate_of_substring_errors() -> None:
    with pytest.raises(EsqlRunError) as caught:
        strings.substring("abc", 1, -1)
    assert caught.value.sqlstate == "S22011"


def test_trim_takes_one_character() -> None:
    with pytest.raises(EsqlRunError, match="one character"):
        strings.trim("BOTH", "ab", "abc", form="FROM")


def test_position_counts_from_one() -> None:
    with pytest.raises(EsqlRunError, match="counts from 1"):
        strings.position("a", "a", 0, form="IN FROM")


def test_a_huge_repeat_ends_early() -> None:
    started = time.process_time()
    assert strings.position("a", "aaa", 10**15, form="IN REPEAT") == 0
    assert strings.position("a", "aaa", -(10**15), form="IN REPEAT") == 0
    assert time.process_time() - started < 5


@given(st.text("abc", max_size=10), st.integers(-5, 15), st.integers(0, 15))
@settings(max_examples=200)
def test_substring_is_the_overlap_of_range_and_string(text: str, start: int, length: int) -> None:
    expected = "".join(text[place - 1] for place in range(start, start + length) if 1 <= place <= len(text))
    assert strings.substring(text, start, length, form="FROM FOR") == expected
    assert strings.substring(text.encode(), start, length, form="FROM FOR") == expected.encode()


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=3), st.integers(1, 5))
@settings(max_examples=150)
def test_the_nth_position_is_the_nth_place_where_it_stands(text: str, wanted: str, repeat: int) -> None:
    places = [place + 1 for place in range(len(text)) if text.startswith(wanted, place)]
    if len(places) >= repeat:
        assert strings.position(wanted, text, repeat, form="IN REPEAT") == places[repeat - 1]
        assert strings.position(wanted, text, -repeat, form="IN REPEAT") == places[-repeat]
    else:
        assert strings.position(wanted, text, repeat, form="IN REPEAT") == 0
        assert strings.position(wanted, text, -repeat, form="IN REPEAT") == 0


@given(st.text(max_size=20), st.integers(0, 25))
@settings(max_examples=50)
def test_left_and_the_rest_make_the_whole(text: str, count: int) -> None:
    rest = strings.right(text, max(len(text) - count, 0))
    assert strings.left(text, count) + rest == text


@given(st.binary(max_size=50))
@settings(max_examples=50)
def test_base64_comes_back(data: bytes) -> None:
    assert strings.base64_decode(strings.base64_encode(data)) == data
