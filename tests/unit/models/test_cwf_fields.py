# SPDX-License-Identifier: Apache-2.0
"""One field at a time: bytes worked out by hand, read and written."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from entrepot.errors import MessageUnreadable, MessageUnwritable, ModelInvalid
from entrepot.models.logical import CwfFormat, StructureMember
from folding import for_each
from unit.models.cwf_models import (
    BIG,
    BINARY,
    BOOLEAN,
    DATE,
    DATETIME,
    DECIMAL,
    EBCDIC,
    FLOAT,
    INTEGER,
    LATIN,
    LITTLE,
    STRING,
    TIME,
    UTF8,
    ZOS,
    codec_of,
    simple,
    tree,
)

D = Decimal

KNOWN: list[tuple[str, StructureMember, int, int, str, Any]] = [
    # integers
    ("two bytes", simple("A", INTEGER, "integer", 2), LATIN, BIG, "0102", 258),
    ("two bytes reversed", simple("A", INTEGER, "integer", 2), LATIN, LITTLE, "0102", 513),
    ("negative", simple("A", INTEGER, "integer", 2), LATIN, BIG, "FFFE", -2),
    ("unsigned", simple("A", INTEGER, "integer", 2, signed=False), LATIN, BIG, "FFFE", 65534),
    ("one byte", simple("A", INTEGER, "integer", 1), LATIN, LITTLE, "80", -128),
    ("four bytes", simple("A", INTEGER, "integer", 4), LATIN, BIG, "7FFFFFFF", 2**31 - 1),
    ("eight bytes", simple("A", INTEGER, "integer", 8), LATIN, LITTLE, "00000000000000 80".replace(" ", ""), -(2**63)),
    ("three bytes", simple("A", INTEGER, "integer", 3), LATIN, BIG, "FFFF38", -200),
    ("three bytes reversed", simple("A", INTEGER, "integer", 3), LATIN, LITTLE, "38FFFF", -200),
    ("seven bytes unsigned", simple("A", INTEGER, "integer", 7, signed=False), LATIN, BIG, "FF000000000000", 255 << 48),
    ("binary with decimals", simple("A", DECIMAL, "integer", 4, decimals=2), LATIN, BIG, "FFFFFF85", D("-1.23")),
    ("binary with zeros not stored", simple("A", INTEGER, "integer", 2, decimals=-3), LATIN, BIG, "0005", 5000),
    ("integers reversed, packed not", simple("A", INTEGER, "integer", 2), LATIN, 0x112, "0100", 1),
    # packed
    ("packed", simple("A", DECIMAL, "packed", 4, decimals=2), LATIN, BIG, "1234567D", D("-12345.67")),
    ("packed positive", simple("A", DECIMAL, "packed", 4, decimals=2), EBCDIC, ZOS, "1234567C", D("12345.67")),
    ("packed reversed", simple("A", DECIMAL, "packed", 4, decimals=2), LATIN, LITTLE, "7D563412", D("-12345.67")),
    ("packed reversed, integers not", simple("A", INTEGER, "packed", 2), LATIN, 0x121, "5C12", 125),
    ("packed unsigned", simple("A", INTEGER, "packed", 3, signed=False), LATIN, BIG, "00042F", 42),
    ("packed keeps its scale", simple("A", DECIMAL, "packed", 3, decimals=3), LATIN, BIG, "01500C", D("1.500")),
    ("packed fraction only", simple("A", DECIMAL, "packed", 2, decimals=5), LATIN, BIG, "123C", D("0.00123")),
    ("packed with zeros not stored", simple("A", INTEGER, "packed", 2, decimals=-2), LATIN, BIG, "012D", -1200),
    ("packed 31 digits", simple("A", INTEGER, "packed", 16), LATIN, BIG, "1234567890123456789012345678901D",
     -1234567890123456789012345678901),
    ("packed decimal of 31 digits", simple("A", DECIMAL, "packed", 16, decimals=1), LATIN, BIG,
     "1234567890123456789012345678901C", D("123456789012345678901234567890.1")),
    ("packed as float", simple("A", FLOAT, "packed", 3, decimals=2), LATIN, BIG, "01250D", -12.5),
    # external
    ("EBCDIC zoned", simple("A", INTEGER, "external", 7), EBCDIC, ZOS, "F1F2F3F4F5F6D7", -1234567),
    ("EBCDIC zoned positive", simple("A", INTEGER, "external", 3), EBCDIC, ZOS, "F0F4C2", 42),
    ("EBCDIC unsigned", simple("A", INTEGER, "external", 3, signed=False), EBCDIC, ZOS, "F0F4F2", 42),
    ("EBCDIC leading", simple("A", INTEGER, "external", 3, sign="leading"), EBCDIC, ZOS, "D1F2F3", -123),
    ("EBCDIC trailing separate", simple("A", INTEGER, "external", 4, sign="trailing separate"), EBCDIC, ZOS,
     "F1F2F360", -123),
    ("EBCDIC leading separate", simple("A", INTEGER, "external", 4, sign="leading separate"), EBCDIC, ZOS,
     "4EF1F2F3", 123),
    ("ASCII zoned", simple("A", INTEGER, "external", 3), LATIN, BIG, b"12s".hex(), -123),
    ("ASCII zoned zero digit", simple("A", INTEGER, "external", 3), LATIN, BIG, b"12p".hex(), -120),
    ("ASCII positive", simple("A", INTEGER, "external", 3), LATIN, BIG, b"123".hex(), 123),
    ("ASCII with EBCDIC's signs", simple("A", INTEGER, "external", 3, ebcdic_sign=True), LATIN, BIG,
     b"12L".hex(), -123),
    ("ASCII with EBCDIC's plus", simple("A", INTEGER, "external", 3, ebcdic_sign=True), LATIN, BIG, b"12{".hex(), 120),
    ("ASCII leading", simple("A", INTEGER, "external", 3, sign="leading"), LATIN, BIG, b"q23".hex(), -123),
    ("ASCII separate", simple("A", INTEGER, "external", 4, sign="trailing separate"), UTF8, BIG, b"123-".hex(), -123),
    ("PIC 9V99", simple("A", DECIMAL, "external", 3, signed=False, decimals=2), LATIN, BIG, b"199".hex(), D("1.99")),
    ("zoned, blank on the left", simple("A", INTEGER, "external", 5, signed=False, justify="right", padding="0x20"),
     LATIN, BIG, b"   42".hex(), 42),
    ("external with zeros not stored", simple("A", INTEGER, "external", 2, decimals=-2), LATIN, BIG, b"12".hex(), 1200),
    # floats
    ("IEEE double", simple("A", FLOAT, "float", 8), LATIN, BIG, "C05DA80000000000", -118.625),
    ("IEEE double reversed", simple("A", FLOAT, "float", 8), LATIN, LITTLE, "0000000000A85DC0", -118.625),
    ("IEEE single", simple("A", FLOAT, "float", 4), LATIN, BIG, "C2ED4000", -118.625),
    ("IEEE beside reversed integers", simple("A", FLOAT, "float", 4), LATIN, 0x122, "C2ED4000", -118.625),
    ("hexadecimal by encoding", simple("A", FLOAT, "float", 4), EBCDIC, ZOS, "C276A000", -118.625),
    ("hexadecimal by model", simple("A", FLOAT, "hexfloat", 4), LATIN, LITTLE, "C276A000", -118.625),
    ("hexadecimal one", simple("A", FLOAT, "hexfloat", 4), LATIN, BIG, "41100000", 1.0),
    ("hexadecimal tenth", simple("A", FLOAT, "hexfloat", 8), LATIN, BIG, "401999999999999A", 0.1),
    ("hexadecimal zero", simple("A", FLOAT, "hexfloat", 8), LATIN, BIG, "0000000000000000", 0.0),
    ("hexadecimal largest", simple("A", FLOAT, "hexfloat", 4), LATIN, BIG, "7FFFFFFF", (1 - 2.0**-24) * 16.0**63),
    ("decimal in a float", simple("A", DECIMAL, "float", 8), LATIN, BIG, "3FF8000000000000", D("1.5")),
    # strings
    ("string", simple("A", STRING, "string", 6), LATIN, BIG, b"abc   ".hex(), "abc"),
    ("string full", simple("A", STRING, "string", 3), LATIN, BIG, b"abc".hex(), "abc"),
    ("string empty", simple("A", STRING, "string", 3), LATIN, BIG, b"   ".hex(), ""),
    ("string keeps leading spaces", simple("A", STRING, "string", 5), LATIN, BIG, b" ab  ".hex(), " ab"),
    ("string right", simple("A", STRING, "string", 6, justify="right"), LATIN, BIG, b"   abc".hex(), "abc"),
    ("string EBCDIC", simple("A", STRING, "string", 6), EBCDIC, ZOS, "818283404040", "abc"),
    ("string with NUL", simple("A", STRING, "string", 5, padding="0x00"), LATIN, BIG, "6162630000", "abc"),
    ("string with stars", simple("A", STRING, "string", 5, padding="*"), EBCDIC, ZOS, "8182835C5C", "abc"),
    ("string UTF-8 in bytes", simple("A", STRING, "string", 5), UTF8, BIG, "C3A9202020", "é"),
    ("string UTF-8 in characters", simple("A", STRING, "string", 3, length_unit="characters"), UTF8, BIG,
     "C3A9E282AC20", "é€"),
    ("string UTF-16 in characters", simple("A", STRING, "string", 3, length_unit="characters"), 1200, BIG,
     "00E920AC0020", "é€"),
    ("string UTF-16 reversed", simple("A", STRING, "string", 4), 1200, LITTLE, "E9002000", "é"),
    ("string Shift-JIS in characters", simple("A", STRING, "string", 3, length_unit="characters"), 943, BIG,
     "93FA967B41", "日本A"),
    ("string as it is", simple("A", STRING, "string", 3, justify="none"), LATIN, BIG, b"a  ".hex(), "a  "),
    ("number in a string", simple("A", DECIMAL, "string", 7), LATIN, BIG, b"-12.50 ".hex(), D("-12.50")),
    # others
    ("binary", simple("A", BINARY, "binary", 3), LATIN, BIG, "0041FF", b"\x00A\xff"),
    ("true", simple("A", BOOLEAN, "boolean"), LATIN, BIG, "00000001", True),
    ("false in one byte", simple("A", BOOLEAN, "boolean", 1), LATIN, BIG, "00", False),
    # dates
    ("date as text", simple("A", DATE, "string", 8, format="yyyyMMdd"), LATIN, BIG,
     b"20040229".hex(), date(2004, 2, 29)),
    ("date in EBCDIC", simple("A", DATE, "string", 10, format="MM/dd/yyyy"), EBCDIC, ZOS,
     "F0F261F2F961F2F0F0F4", date(2004, 2, 29)),
    ("date packed", simple("A", DATE, "packed", 4, format="yyyyDDD"), LATIN, BIG, "2004060C", date(2004, 2, 29)),
    ("date packed, even digits", simple("A", DATE, "packed", 5, format="yyyyMMdd"), LATIN, BIG, "020040229C",
     date(2004, 2, 29)),
    ("date zoned", simple("A", DATE, "external", 7, format="yyyyDDD"), EBCDIC, ZOS,
     "F2F0F0F4F0F6F0", date(2004, 2, 29)),
    ("time", simple("A", TIME, "string", 4, format="HHmm"), LATIN, BIG, b"2359".hex(), time(23, 59)),
    ("time packed", simple("A", TIME, "packed", 3, format="HHmm"), LATIN, BIG, "02359C", time(23, 59)),
    ("timestamp", simple("A", DATETIME, "string", 14, format="yyyyMMddHHmmss"), LATIN, BIG,
     b"20040229123456".hex(), datetime(2004, 2, 29, 12, 34, 56)),
    ("seconds since 1970", simple("A", DATETIME, "integer", 4), LATIN, BIG, "62B9E48D",
     datetime(2022, 6, 27, 17, 10, 37, tzinfo=UTC)),
    ("milliseconds since 1970", simple("A", DATETIME, "integer", 8), LATIN, BIG, "FFFFFFFFFFFFFC18",
     datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    # null
    ("null by fill", simple("A", STRING, "string", 3, null_policy="fill", null_value=" "), EBCDIC, ZOS, "404040", None),
    ("null by padding", simple("A", STRING, "string", 3, null_policy="fill", padding="#"), LATIN, BIG,
     b"###".hex(), None),
    ("null by literal", simple("A", STRING, "string", 5, null_policy="literal", null_value="N/A"), LATIN, BIG,
     b"N/A  ".hex(), None),
    ("null packed by bytes", simple("A", INTEGER, "packed", 2, null_policy="literal", null_value="0xFFFF"), LATIN, BIG,
     "FFFF", None),
    ("null packed by fill", simple("A", INTEGER, "packed", 2, null_policy="fill", null_value="0x40"), LATIN, BIG,
     "4040", None),
    ("null integer by fill", simple("A", INTEGER, "integer", 2, null_policy="fill", null_value="0xFF"), LATIN, LITTLE,
     "FFFF", None),
    ("null by value", simple("A", DECIMAL, "packed", 2, decimals=1, null_policy="logical", null_value="99.9"), LATIN,
     BIG, "999C", None),
    ("not null", simple("A", DECIMAL, "packed", 2, decimals=1, null_policy="logical", null_value="0"), LATIN, BIG,
     "001C", D("0.1")),
    ("null date", simple("A", DATE, "packed", 4, format="yyyyDDD", null_policy="fill", null_value="0x00"), LATIN, BIG,
     "00000000", None),
]  # fmt: skip


@for_each(("member", "ccsid", "encoding", "stored", "value"), [case[1:] for case in KNOWN],
                         ids=[case[0] for case in KNOWN])  # fmt: skip
def test_a_field_is_read_and_written(
    member: StructureMember, ccsid: int, encoding: int, stored: str, value: Any
) -> None:
    codec = codec_of(member)
    (element,) = codec.parse(bytes.fromhex(stored), ccsid, encoding)
    assert element.value == value
    assert type(element.value) is type(value)
    assert str(element.value) == str(value)  # 1.50 and 1.5 are equal, but not the same number to ESQL
    assert codec.render(tree(("A", value)), ccsid, encoding).hex().upper() == stored.upper()


@for_each(
    ("member", "ccsid", "stored", "value"),
    [
        (simple("A", INTEGER, "packed", 2), LATIN, "123F", 123),
        (simple("A", INTEGER, "packed", 2), LATIN, "123A", 123),
        (simple("A", INTEGER, "packed", 2), LATIN, "123E", 123),
        (simple("A", INTEGER, "packed", 2), LATIN, "123B", -123),
        (simple("A", INTEGER, "packed", 2, signed=False), LATIN, "123C", 123),
        (simple("A", DECIMAL, "packed", 2, decimals=1), LATIN, "000D", D("0.0")),
        (simple("A", INTEGER, "external", 3), EBCDIC, "F1F2F3", 123),
        (simple("A", INTEGER, "external", 3), EBCDIC, "F1F2B3", -123),
        (simple("A", INTEGER, "external", 3), LATIN, b"12C".hex(), 123),
        (simple("A", INTEGER, "external", 3), LATIN, b"12}".hex(), -120),
        (simple("A", FLOAT, "hexfloat", 4), LATIN, "42010000", 1.0),  # not normalized
    ],
)
def test_what_others_write_differently_is_read_too(
    member: StructureMember, ccsid: int, stored: str, value: Any
) -> None:
    (element,) = codec_of(member).parse(bytes.fromhex(stored), ccsid, BIG)
    assert element.value == value
    assert str(element.value) == str(value)


@for_each(
    ("member", "ccsid", "stored", "offset", "problem"),
    [
        (simple("A", INTEGER, "packed", 2), LATIN, "1A3C", 1, "half-byte 2 is A"),
        (simple("A", INTEGER, "packed", 2), LATIN, "1234", 1, "ends with 4"),
        (simple("A", INTEGER, "packed", 2, signed=False), LATIN, "123D", 1, "has no sign"),
        (simple("A", INTEGER, "external", 3), EBCDIC, "F1C2F3", 1, "byte 2, X'C2'"),
        (simple("A", INTEGER, "external", 3), LATIN, b"1 3".hex(), 1, "byte 2, X'20'"),
        (simple("A", INTEGER, "external", 3), LATIN, b"12z".hex(), 1, "digit with a sign"),
        (simple("A", INTEGER, "external", 3, signed=False), LATIN, b"12s".hex(), 1, "byte 3"),
        (simple("A", INTEGER, "external", 3, sign="leading separate"), LATIN, b"123".hex(), 1, "no sign"),
        (simple("A", INTEGER, "external", 3, sign="leading separate"), LATIN, b"+1_".hex(), 1, "external"),
        (simple("A", STRING, "string", 3), UTF8, "61FF62", 2, "X'FF62'"),
        (simple("A", STRING, "string", 3, justify="right"), UTF8, "2061FF", 3, "X'FF'"),
        (simple("A", STRING, "string", 2, length_unit="characters"), UTF8, "61FF", 2, "nothing in the code page"),
        (simple("A", STRING, "string", 3, length_unit="characters"), UTF8, "6162", 1, "needs 3 bytes"),
        (simple("A", BOOLEAN, "boolean"), LATIN, "00000002", 1, "neither true nor false"),
        (simple("A", DATE, "string", 8, format="yyyyMMdd"), LATIN, b"20040230".hex(), 1, "day is out of range"),
        (simple("A", DATE, "packed", 4, format="yyyyDDD"), LATIN, "2004060D", 1, "negative"),
        (simple("A", DATE, "packed", 5, format="yyyyMMdd"), LATIN, "120040229C", 1, "more digits"),
        (simple("A", DECIMAL, "string", 3), LATIN, b"1,5".hex(), 1, "not a number"),
        (simple("A", INTEGER, "string", 3), LATIN, b"1.5".hex(), 1, "whole number"),
        (simple("A", DECIMAL, "float", 8), LATIN, "7FF8000000000000", 1, "not a number"),
        (simple("A", DATETIME, "integer", 8), LATIN, "7FFFFFFFFFFFFFFF", 1, "9999"),
    ],
)
def test_bad_bytes_are_refused_with_path_and_offset(
    member: StructureMember, ccsid: int, stored: str, offset: int, problem: str
) -> None:
    codec = codec_of(simple("X", BINARY, "binary", 1), member)
    with pytest.raises(MessageUnreadable) as refused:
        codec.parse(b"\0" + bytes.fromhex(stored), ccsid, BIG)
    assert refused.value.path == "M.A"
    assert refused.value.offset == offset
    assert problem in refused.value.problem


@for_each(
    ("member", "value", "problem"),
    [
        (simple("A", INTEGER, "integer", 2), 32768, "not from -32768 to 32767"),
        (simple("A", INTEGER, "integer", 2, signed=False), -1, "not from 0"),
        (simple("A", INTEGER, "integer", 3), 2**23, "not from"),
        (simple("A", INTEGER, "integer", 4), "many", "not a number"),
        (simple("A", INTEGER, "integer", 4), D("1.5"), "more than 0 decimals"),
        (simple("A", INTEGER, "integer", 4), b"\0", "not a number"),
        (simple("A", INTEGER, "integer", 4), None, "NULL"),
        (simple("A", INTEGER, "packed", 2), 1000, "more than 3 digits"),
        (simple("A", INTEGER, "packed", 2), D("1E+999999"), "too many digits"),
        (simple("A", INTEGER, "packed", 2), D("NaN"), "not a number"),
        (simple("A", DECIMAL, "packed", 2, decimals=1), D("1.25"), "more than 1 decimals"),
        (simple("A", INTEGER, "packed", 2, signed=False), -1, "has no sign"),
        (simple("A", INTEGER, "packed", 2, decimals=-2), 150, "multiple of 100"),
        (simple("A", INTEGER, "external", 3), 1000, "more than 3 digits"),
        (simple("A", INTEGER, "external", 4, sign="leading separate"), 1000, "more than 3 digits"),
        (simple("A", INTEGER, "external", 3, signed=False), -1, "has no sign"),
        (simple("A", FLOAT, "float", 4), 1e39, "too large"),
        (simple("A", FLOAT, "float", 8), "x", "not a number"),
        (simple("A", FLOAT, "float", 8), 10**400, "too large"),
        (simple("A", FLOAT, "hexfloat", 4), 1e76, "too large"),
        (simple("A", FLOAT, "hexfloat", 4), math.inf, "System/390 has no inf"),
        (simple("A", STRING, "string", 3), "abcd", "room for 3"),
        (simple("A", STRING, "string", 3), "\u4e2d", "no '\u4e2d'"),
        (simple("A", STRING, "string", 3), None, "NULL"),
        (simple("A", BINARY, "binary", 3), b"ab", "it has 2 bytes"),
        (simple("A", BINARY, "binary", 3), "abc", "not a BLOB"),
        (simple("A", BOOLEAN, "boolean"), 1, "not a BOOLEAN"),
        (simple("A", DATE, "string", 8, format="yyyyMMdd"), time(1), "not a DATE"),
        (simple("A", TIME, "string", 4, format="HHmm"), date(2004, 2, 29), "not a TIME"),
        (simple("A", DATE, "string", 8, format="yyyyMMdd"), "tomorrow", "no date"),
        (simple("A", DATETIME, "integer", 4), datetime(2100, 1, 1), "too far"),
    ],
)
def test_what_does_not_fit_is_not_written(member: StructureMember, value: Any, problem: str) -> None:
    with pytest.raises(MessageUnwritable) as refused:
        codec_of(member).render(tree(("A", value)), LATIN, BIG)
    assert refused.value.path == "M.A"
    assert problem in refused.value.problem


@for_each(
    ("member", "value", "stored"),
    [
        (simple("A", INTEGER, "integer", 2), "5", "0005"),
        (simple("A", INTEGER, "integer", 2), D("5.00"), "0005"),
        (simple("A", INTEGER, "integer", 2), 5.0, "0005"),
        (simple("A", DECIMAL, "packed", 2, decimals=1), 7, "070C"),
        (simple("A", DECIMAL, "packed", 2, decimals=1), "-1.5", "015D"),
        (simple("A", FLOAT, "float", 4), D("1.5"), "3FC00000"),
        (simple("A", STRING, "string", 4), 42, b"42  ".hex()),
        (simple("A", STRING, "string", 4), D("1.50"), b"1.50".hex()),
        (simple("A", BOOLEAN, "boolean", 1), "true", "01"),
        (simple("A", DATE, "packed", 4, format="yyyyDDD"), "2004-02-29", "2004060C"),
        (simple("A", DATE, "string", 8, format="yyyyMMdd"), datetime(2004, 2, 29, 12), b"20040229".hex()),
    ],
)
def test_a_value_of_another_type_is_written_if_it_means_the_same(
    member: StructureMember, value: Any, stored: str
) -> None:
    assert codec_of(member).render(tree(("A", value)), LATIN, BIG).hex().upper() == stored.upper()


def test_booleans_have_the_values_of_the_format() -> None:
    codec = codec_of(simple("A", BOOLEAN, "boolean", 1), physical=CwfFormat(boolean_true=b"Y", boolean_false=b"N"))
    assert codec.parse(b"Y", LATIN, BIG)[0].value is True
    assert codec.render(tree(("A", False)), LATIN, BIG) == b"N"


def test_an_encoding_that_does_not_say_matters_only_to_numbers_it_does_not_say() -> None:
    text = codec_of(simple("A", STRING, "string", 1))
    assert text.parse(b"x", LATIN, 0)[0].value == "x"
    number = codec_of(simple("A", INTEGER, "integer", 2))
    with pytest.raises(MessageUnreadable, match="does not say how integers lie"):
        number.parse(b"\0\1", LATIN, 0x110)
    with pytest.raises(MessageUnwritable, match="does not say how integers lie"):
        number.render(tree(("A", 1)), LATIN, 0x110)


def test_external_decimals_in_utf16_are_refused_as_the_message_comes() -> None:
    codec = codec_of(simple("A", INTEGER, "external", 2))
    with pytest.raises(MessageUnreadable, match="code page 1200"):
        codec.parse(b"\0\x31", 1200, BIG)


@for_each(
    ("member", "problem"),
    [
        (simple("A", INTEGER, "integer", 9), "from 1 to 8"),
        (simple("A", INTEGER, "integer", 0), "length 0"),
        (simple("A", FLOAT, "float", 6), "neither 4 nor 8"),
        (simple("A", STRING, "packed", 2), "cannot be stored"),
        (simple("A", INTEGER, "packed", 2, decimals=1), "make it a decimal"),
        (simple("A", INTEGER, "zoned", 2), "storage 'zoned'"),
        (simple("A", STRING, "string", 3, padding="ab"), "more than one character"),
        (simple("A", STRING, "string", 3, justify="centre"), "justification"),
        (simple("A", STRING, "string", 0), "no member gives it"),
        (simple("A", STRING, "string", 2**31), "length"),
        (simple("A", INTEGER, "external", 3, sign="behind"), "sign 'behind'"),
        (simple("A", INTEGER, "external", 33), "32"),
        (simple("A", DATE, "packed", 3, format="yyyyDDD"), "room for fewer"),
        (simple("A", DATE, "packed", 9, format="dd MMM yyyy"), "cannot be packed"),
        (simple("A", DATE, "string", 9, format="yyyyQQ"), "letter Q"),
        (simple("A", STRING, "string", 3, alignment=3), "alignment 3"),
        (simple("A", STRING, "string", 3, null_policy="sometimes"), "null policy"),
        (simple("A", INTEGER, "packed", 2, null_policy="literal", null_value="N"), "the field has 2"),
        (simple("A", INTEGER, "packed", 2, null_policy="logical", null_value="N"), "not a number"),
        (simple("A", INTEGER, "packed", 2, default="N"), "default of A"),
        (simple("A", INTEGER, "integer", 2, length_from="B"), "refers to B"),
        (simple("A", STRING, "string", 2, skip_before=-1), "skips"),
    ],
)
def test_a_model_that_cannot_be_is_refused_with_its_line(member: StructureMember, problem: str) -> None:
    with pytest.raises(ModelInvalid) as refused:
        codec_of(member)
    assert (refused.value.file, refused.value.line) == ("s.yaml", 7)
    assert problem in refused.value.problem
