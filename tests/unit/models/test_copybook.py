# SPDX-License-Identifier: Apache-2.0
"""COBOL copybooks: what each clause makes of a model, and what is refused where."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from entrepot.errors import ModelInvalid
from entrepot.models.copybook import load_copybook, read_copybook
from entrepot.models.copybook.pictures import Picture, read_picture
from entrepot.models.cwf import compile_cwf
from entrepot.models.logical import (
    Composition,
    CwfField,
    Kind,
    MessageFormat,
    MessageSet,
    Simple,
    Structure,
    StructureMember,
    ValueType,
)
from entrepot.models.message_sets import load_set
from entrepot.models.mrm import MRM
from entrepot.models.tree import Folder
from folding import for_each
from unit.models.cwf_models import BIG, EBCDIC, LATIN, plain, tree


def read(text: str) -> MessageSet:
    return read_copybook(text, "shop/orders.cpy")


def members(text: str) -> tuple[StructureMember, ...]:
    (message,) = read(f"01 R.\n{text}").messages.values()
    return message.structure.members


def only(text: str) -> tuple[Simple, CwfField, StructureMember]:
    """The only member of a record: its type and its physical properties."""
    (member,) = members(text)
    physical = member.physical["CWF1"]
    assert isinstance(member.content, Simple)
    assert isinstance(physical, CwfField)
    return member.content, physical, member


# --- clauses ---------------------------------------------------------------------------------------------------


@for_each(
    ("clauses", "wanted", "storage", "length", "signed", "decimals"),
    [
        ("PIC X(10)", ValueType.STRING, "string", 10, True, 0),
        ("PIC XXX", ValueType.STRING, "string", 3, True, 0),
        ("PICTURE IS A(5)", ValueType.STRING, "string", 5, True, 0),
        ("PIC X(3)9(2)", ValueType.STRING, "string", 5, True, 0),
        ("PIC 9(5)", ValueType.INTEGER, "external", 5, False, 0),
        ("PIC S9(5)", ValueType.INTEGER, "external", 5, True, 0),
        ("PIC 9V99", ValueType.DECIMAL, "external", 3, False, 2),
        ("PIC S9(5)V99 SIGN TRAILING SEPARATE", ValueType.DECIMAL, "external", 8, True, 2),
        ("PIC 9(3)P(2)", ValueType.INTEGER, "external", 3, False, -2),
        ("PIC VP(2)9(3)", ValueType.DECIMAL, "external", 3, False, 5),
        ("PIC P(2)9(3)", ValueType.DECIMAL, "external", 3, False, 5),
        ("PIC S9(4) COMP", ValueType.INTEGER, "integer", 2, True, 0),
        ("PIC 9(5) COMP", ValueType.INTEGER, "integer", 4, False, 0),
        ("PIC S9(9) USAGE IS BINARY", ValueType.INTEGER, "integer", 4, True, 0),
        ("PIC S9(10) COMP-5", ValueType.INTEGER, "integer", 8, True, 0),
        ("PIC S9(18) COMPUTATIONAL-4", ValueType.INTEGER, "integer", 8, True, 0),
        ("PIC S9(7)V99 COMP", ValueType.DECIMAL, "integer", 4, True, 2),
        ("PIC S9(5)V99 COMP-3", ValueType.DECIMAL, "packed", 4, True, 2),
        ("COMP-3 PIC 9(4)", ValueType.INTEGER, "packed", 3, False, 0),
        ("PIC S9(31) PACKED-DECIMAL", ValueType.INTEGER, "packed", 16, True, 0),
        ("COMP-1", ValueType.FLOAT, "float", 4, True, 0),
        ("USAGE COMP-2", ValueType.FLOAT, "float", 8, True, 0),
        ("INDEX", ValueType.INTEGER, "integer", 4, True, 0),
        ("POINTER", ValueType.BINARY, "binary", 4, True, 0),
        ("PIC Z,ZZ9.99-", ValueType.STRING, "string", 9, True, 0),
        ("PIC $$,$$9.99CR", ValueType.STRING, "string", 11, True, 0),
        ("PIC 99/99/9999", ValueType.STRING, "string", 10, True, 0),
        ("PIC 9(5) BLANK WHEN ZERO", ValueType.STRING, "string", 5, True, 0),
    ],
)
def test_picture_and_usage_make_type_and_length(
    clauses: str, wanted: ValueType, storage: str, length: int, signed: bool, decimals: int
) -> None:
    simple, physical, _ = only(f"05 A {clauses}.")
    assert simple.type is wanted
    assert (physical.storage, physical.length, physical.signed, physical.decimals) == (
        storage,
        length,
        signed,
        decimals,
    )


def test_external_decimals_are_right_justified_with_zeros() -> None:
    _, physical, _ = only("05 A PIC S9(3) SIGN IS LEADING.")
    assert (physical.justify, physical.padding, physical.sign) == ("right", "0", "leading")


def test_national_characters_are_counted_as_characters() -> None:
    _, physical, _ = only("05 A PIC N(4) USAGE NATIONAL.")
    assert (physical.storage, physical.length, physical.length_unit) == ("string", 4, "characters")


def test_justified_text_is_on_the_right() -> None:
    assert only("05 A PIC X(4) JUSTIFIED RIGHT.")[1].justify == "right"
    assert only("05 A PIC X(4) JUST.")[1].justify == "right"


@for_each(
    ("clauses", "alignment"),
    [
        ("PIC S9(4) COMP SYNC", 2),
        ("PIC S9(9) COMP SYNCHRONIZED RIGHT", 4),
        ("PIC S9(18) COMP SYNC LEFT", 4),
        ("COMP-1 SYNC", 4),
        ("COMP-2 SYNC", 8),
        ("PIC S9(4) COMP", 0),
        ("PIC S9(4) COMP-3 SYNC", 0),
        ("PIC X(4) SYNC", 0),
    ],
)
def test_synchronized_numbers_are_aligned(clauses: str, alignment: int) -> None:
    assert only(f"05 A {clauses}.")[1].alignment == alignment


@for_each(
    ("clauses", "default"),
    [
        ("PIC X(4) VALUE 'ab'", "ab"),
        ('PIC X(4) VALUE IS "it\'s"', "it's"),
        ("PIC X(4) VALUE 'o''k'", "o'k"),
        ("PIC X(4) VALUE SPACES", ""),
        ("PIC X(4) VALUE ZEROS", "0000"),
        ("PIC X(4) VALUE ALL '-+'", "-+-+"),
        ("PIC X(2) VALUE LOW-VALUES", "\0\0"),
        ("PIC X(2) VALUE HIGH-VALUES", None),
        ("PIC 9(4) VALUE 12", "12"),
        ("PIC S9(4)V99 COMP-3 VALUE -1.50", "-1.50"),
        ("PIC 9(4) VALUE ZERO", "0"),
        ("COMP-1 VALUE 1.5", "1.5"),
        ("PIC 9(4)", None),
    ],
)
def test_value_is_the_default(clauses: str, default: str | None) -> None:
    assert only(f"05 A {clauses}.")[2].default == default


def test_usage_and_sign_of_a_group_are_for_its_items() -> None:
    (member,) = members("05 G COMP-3 SIGN LEADING SEPARATE. 10 A PIC 9(3). 10 B PIC S9(3) DISPLAY.")
    assert isinstance(member.content, Structure)
    first, second = (inner.physical["CWF1"] for inner in member.content.members)
    assert isinstance(first, CwfField)
    assert isinstance(second, CwfField)
    assert first.storage == "packed"
    assert (second.storage, second.sign, second.length) == ("external", "leading separate", 4)


def test_names_have_underscores() -> None:
    (message,) = read("01 ORDER-RECORD. 05 ORDER-ID PIC X. 05 2ND-LINE PIC X.").messages.values()
    assert message.name == "ORDER_RECORD"
    assert [member.name for member in message.structure.members] == ["ORDER_ID", "_2ND_LINE"]


def test_the_set_is_named_after_the_file_and_has_two_formats() -> None:
    message_set = read("01 A. 05 B PIC X.")
    assert (message_set.name, message_set.file) == ("orders", "shop/orders.cpy")
    assert {name: physical.kind for name, physical in message_set.formats.items()} == {
        "CWF1": Kind.CWF,
        "XML1": Kind.XML,
    }


def test_several_records_are_several_messages() -> None:
    message_set = read("01 A. 05 X PIC X.\n77 COUNTER PIC 9(4) COMP.\n01 B PIC X(3).\n01 C REDEFINES A. 05 Y PIC 9.")
    assert list(message_set.messages) == ["A", "COUNTER", "B", "C"]
    assert [member.name for member in message_set.messages["B"].structure.members] == ["B"]


def test_a_copybook_without_level_01_is_one_record_named_after_the_file() -> None:
    message_set = read("05 A PIC X. 05 B. 10 C PIC X.")
    assert [member.name for member in message_set.messages["orders"].structure.members] == ["A", "B"]


def test_members_know_their_lines() -> None:
    (first, second) = members("   05 A PIC X.\n\n   05 B PIC X.")
    assert (first.line, second.line) == (2, 4)


# --- occurs, redefines, filler, conditions --------------------------------------------------------------------


def test_occurs_is_a_fixed_number() -> None:
    (member,) = members("05 A PIC X OCCURS 3 TIMES INDEXED BY I J ASCENDING KEY IS B.")
    assert (member.min_occurs, member.max_occurs) == (3, 3)


def test_occurs_depending_on_has_a_counter() -> None:
    _, member = members("05 N PIC 99. 05 A PIC X OCCURS 1 TO 7 TIMES DEPENDING ON N INDEXED BY I.")
    physical = member.physical["CWF1"]
    assert isinstance(physical, CwfField)
    assert (member.min_occurs, member.max_occurs, physical.count_from) == (1, 7, "N")


def test_counters_are_found_whatever_their_case_and_group() -> None:
    text = "01 R. 05 G. 10 N-X PIC 9. 05 H. 10 N-X PIC 9. 05 A PIC X OCCURS 0 TO 9 DEPENDING ON n-x of g."
    codec = compile_cwf(read(text), "R", "CWF1")
    found = plain(codec.parse(b"12x", LATIN, BIG))
    assert found == [("G", [("N_X", 1)]), ("H", [("N_X", 2)]), ("A", "x")]


def test_redefines_is_a_choice_that_is_not_seen() -> None:
    (member,) = members("05 A PIC 9(4). 05 B REDEFINES A PIC X(4). 05 C REDEFINES A. 10 D PIC XX. 10 E PIC XX.")
    assert member.name == ""
    assert isinstance(member.content, Structure)
    assert member.content.composition is Composition.CHOICE
    assert [inner.name for inner in member.content.members] == ["A", "B", "C"]


def test_a_filler_group_is_not_seen_but_its_items_are() -> None:
    codec = compile_cwf(read("01 R. 05 A PIC 9(4). 05 FILLER REDEFINES A. 10 B PIC XX. 10 C PIC XX."), "R", "CWF1")
    assert plain(codec.parse(b"1234", LATIN, BIG)) == [("A", 1234)]
    assert plain(codec.parse(b"abcd", LATIN, BIG)) == [("B", "ab"), ("C", "cd")]
    assert codec.render(tree(("B", "ab"), ("C", "cd")), LATIN, BIG) == b"abcd"


def test_filler_is_skipped_wherever_it_is() -> None:
    text = """01 R.
        05 FILLER PIC X.
        05 A PIC X.
        05 PIC X(2).
        05 B PIC X OCCURS 2.
        05 FILLER PIC X(3).
        05 C PIC X OCCURS 2.
        05 FILLER PIC 9(2) COMP.
        05 G. 10 FILLER PIC X(2).
        05 D PIC X.
        05 FILLER PIC X OCCURS 2."""
    codec = compile_cwf(read(text + "\n"), "R", "CWF1")
    body = b"?a??bb???cc??__d??"
    pairs = [("A", "a"), ("B", "b"), ("B", "b"), ("C", "c"), ("C", "c"), ("G", None), ("D", "d")]
    assert plain(codec.parse(body, LATIN, BIG)) == pairs
    made = tree(*((name, value) for name, value in pairs if name != "G"))
    assert codec.render(made, LATIN, BIG) == b" a  bb   cc    d  "


def test_filler_with_a_value_is_written() -> None:
    codec = compile_cwf(read("01 R. 05 A PIC X. 05 FILLER PIC X VALUE ','. 05 B PIC X."), "R", "CWF1")
    assert codec.render(tree(("A", "x"), ("B", "y")), EBCDIC, BIG).hex() == "a76ba8"


@for_each(
    ("clauses", "stored"),
    [
        ("PIC X(3) VALUE 'ab'", b"ab "),
        ("PIC XX VALUE '; ' OCCURS 2", b"; ; "),
        ("PIC X(3) VALUE SPACES", b"   "),
        ("PIC X(3) VALUE LOW-VALUES", b"\0\0\0"),
        ("PIC 9(3) VALUE 7", b"007"),
        ("PIC X(3) VALUE ZEROS", b"000"),
        ("PIC S9(4) COMP VALUE 0", b"\0\0"),
        ("PIC S9(4) COMP SYNC VALUE 0", b"\0\0\0"),
    ],
)
def test_filler_is_written_with_its_value(clauses: str, stored: bytes) -> None:
    codec = compile_cwf(read(f"01 R. 05 A PIC X. 05 FILLER {clauses}. 05 B PIC X."), "R", "CWF1")
    assert codec.render(tree(("A", "a"), ("B", "b")), LATIN, BIG) == b"a" + stored + b"b"
    assert plain(codec.parse(b"a" + b"?" * len(stored) + b"b", LATIN, BIG)) == [("A", "a"), ("B", "b")]


def test_a_message_of_a_copybook_can_be_shown_as_xml() -> None:
    message_set = read("01 R. 05 A PIC 99. 05 FILLER PIC X VALUE ','. 05 B PIC X OCCURS 2. 05 C REDEFINES B PIC XX.")
    cwf = Folder(MRM, b"42,xy", ccsid=LATIN, encoding=BIG, model=MessageFormat(message_set, "R", "CWF1"))
    shown = Folder(MRM, model=MessageFormat(message_set, "R", "XML1"))
    shown.fill([element.copy() for element in cwf.children])
    assert shown.render().endswith(b"<R><A>42</A><B>x</B><B>y</B></R>")


def test_condition_names_are_the_values_if_they_look_like_all() -> None:
    assert only("05 A PIC X. 88 YES VALUE 'Y'. 88 NO VALUES ARE 'N' 'X'.")[0].values == ("Y", "N", "X")
    assert only("05 A PIC 9. 88 ONE VALUE 1. 88 MORE VALUES 2,3, 4.")[0].values == ("1", "2", "3", "4")
    assert only("05 A PIC X. 88 YES VALUE 'Y'.")[0].values == ()
    assert only("05 A PIC 9. 88 LOW VALUE 1 THRU 4. 88 HIGH VALUE 5 THRU 9.")[0].values == ()
    assert only("05 A PIC X VALUE 'Q'. 88 YES VALUE 'Y'. 88 NO VALUE 'N'.")[0].values == ()


# --- text ------------------------------------------------------------------------------------------------------


def test_fixed_columns_comments_and_continued_lines() -> None:
    text = "\n".join(
        (
            "000100 01  R.                                                           REMARK",
            "000200*    05  GONE  PIC X.",
            "000300/",
            "000400D    05  DEBUG PIC X.",
            "000500     05  A PIC X(50) VALUE 'abc",
            "000600-    'def'.",
            "000700     05  LONG-NA",
            "000800-        ME PIC X. *> a remark",
            "           EJECT",
            "000900     05  B PIC X.",
        )
    )
    found = read(text).messages["R"].structure.members
    assert [member.name for member in found] == ["A", "LONG_NAME", "B"]


def test_a_continued_literal_keeps_the_spaces_up_to_column_72() -> None:
    first = "           05  A PIC X(60) VALUE 'abc".ljust(72)
    (member,) = read(f"       01 R.\n{first}\n      -    'def'.").messages["R"].structure.members
    assert member.default == "abc" + " " * (72 - len("           05  A PIC X(60) VALUE 'abc")) + "def"


def test_free_text_goes_beyond_column_72() -> None:
    text = "01 R.\n  05 A PIC X(3)" + " " * 80 + "VALUE 'abc'. *> 05 B PIC X.\n* 05 C PIC X.\n"
    (member,) = read(text).messages["R"].structure.members
    assert member.default == "abc"


def test_a_file_is_read_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "order.cpy"
    path.write_bytes("      * größer\n       01 R.\n           05 A PIC X.\n".encode("latin-1"))
    assert list(load_set(path).messages) == ["R"]
    with pytest.raises(ModelInvalid, match="cannot be read"):
        load_copybook(tmp_path / "missing.cpy")


@for_each(
    ("text", "line", "column", "problem"),
    [
        ("01 R.\n  05 A PIC X", 2, 13, "a period that closes A"),
        ("01 R.\n  05 A PIC X\n  05 B PIC X.", 3, 3, "is a period missing"),
        ("01 R.\n  05 A.", 2, 6, "neither a PICTURE nor items below it"),
        ("01 R.\n  66 A RENAMES B.", 2, 3, "66"),
        ("01 R.\n  78 A VALUE 1.", 2, 3, "78"),
        ("01 R.\n  50 A PIC X.", 2, 3, "level 50"),
        ("01 R.\n  05 A PIC Q.", 2, 12, "no picture symbol"),
        ("01 R.\n  05 A PIC 9(40).", 2, 12, "31 digits"),
        ("01 R.\n  05 A PIC 9V9V9.", 2, 12, "V once"),
        ("01 R.\n  05 A PIC X(0).", 2, 12, "count of 0"),
        ("01 R.\n  05 A PIC X(9999999999).", 2, 12, "count"),
        ("01 R.\n  05 A PIC 9(19) COMP.", 2, 6, "at most 18"),
        ("01 R.\n  05 A PIC X COMP-3.", 2, 6, "is text"),
        ("01 R.\n  05 A PIC 9 COMP-1.", 2, 6, "forbids"),
        ("01 R.\n  05 A PIC 9 COMP-X.", 2, 14, "not supported"),
        ("01 R.\n  05 A PIC 9 COLOUR RED.", 2, 14, "no clause"),
        ("01 R.\n  05 A PIC X OCCURS 3 TO 5.", 2, 26, "DEPENDING ON"),
        ("01 R.\n  05 A PIC X OCCURS 5 TO 3 DEPENDING ON N.", 2, 6, "cannot be"),
        ("01 R.\n  05 A PIC X OCCURS 0 TO 3 DEPENDING ON N.\n  05 N PIC 9.", 2, 41, "comes before"),
        ("01 R.\n  05 N PIC X.\n  05 A PIC X OCCURS 0 TO 3 DEPENDING ON N.", 3, 41, "no whole number"),
        ("01 R.\n  05 A PIC X.\n  05 B PIC X.\n  05 C REDEFINES A PIC X.", 4, 6, "right before"),
        ("01 R.\n  05 A PIC X.\n  05 B REDEFINES NOTHING PIC X.", 3, 6, "right before"),
        ("01 R.\n  05 A PIC XX.\n    10 B PIC X.", 2, 6, "a PICTURE and items"),
        ("01 R.\n  05 A PIC X.\n  03 B PIC X.", 3, 6, "one level"),
        ("77 N PIC 9.\n  05 A PIC X.", 2, 6, "no group above"),
        ("88 Y VALUE 'Y'.", 1, 4, "needs an item before"),
        ("01 R.\n  05 A PIC X VALUE 'abc.", 2, 20, "does not end"),
        ("01 R.\n  05 A PIC X VALUE 'abc'.", 2, 6, "longer than 1"),
        ("01 R.\n  05 A PIC 9 VALUE 'abc'.", 2, 6, "no number"),
        ("01 R.\n  05 A PIC X VALUE X'0G'.", 2, 20, "not hexadecimal"),
        ("01 R.\n  COPY OTHER.", 2, 3, "COPY is not followed"),
        ("01 R.\n  05 :TAG:-ID PIC X.", 2, 6, "COPY REPLACING"),
        ("IDENTIFICATION DIVISION.", 1, 1, "belongs to a program"),
        ("01 R.\n  05 A PIC X.\n01 R.\n  05 A PIC X.", 3, 4, "two records R"),
        ("01.\n  05 A PIC X.", 1, 1, "needs a name"),
        ("01 R.\n  05 A PIC X BLANK SPACES.", 2, 14, "BLANK WHEN ZERO"),
        ("01 R.\n  05 A PIC X JUST.\n  05 B PIC 9 JUST.", 3, 6, "for text"),
        ("", 1, 1, "no data description"),
        ("      -    X", 1, 7, "cannot continue"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(ModelInvalid) as refused:
        read(text)
    assert problem in refused.value.problem
    assert (refused.value.line, refused.value.column) == (line, column)
    assert refused.value.file == "shop/orders.cpy"


def test_noise_is_refused_with_a_place() -> None:
    words = [
        "01",
        "05",
        "10",
        "88",
        "R",
        "A",
        "B",
        "PIC",
        "X(3)",
        "9(4)",
        "S9V99",
        ".",
        ".",
        ".",
        "VALUE",
        "'x'",
        "OCCURS",
        "3",
        "TO",
        "DEPENDING",
        "ON",
        "N",
        "REDEFINES",
        "COMP-3",
        "(",
        "'",
        "*",
        "-",
        "\n",
    ]
    source = random.Random(7)
    refused = 0
    for _ in range(800):
        text = "01 R. " + " ".join(source.choices(words, k=source.randint(1, 25)))
        try:
            message_set = read(text)
            for name in message_set.messages:
                compile_cwf(message_set, name, "CWF1")
        except ModelInvalid as problem:
            refused += 1
            assert problem.line >= 1
    assert refused > 400


@pytest.mark.parametrize(
    ("text", "picture"),
    [
        ("S9(5)V9(2)", Picture("number", 7, True, 2)),
        ("s99", Picture("number", 2, True, 0)),
        ("9(3)PPV", Picture("number", 3, False, -2)),
        ("+ZZ9", Picture("edited", 4)),
        ("G(3)", Picture("national", 3)),
    ],
)
def test_pictures(text: str, picture: Picture) -> None:
    assert read_picture(text) == picture


@for_each("text", ["9P9", "S", "XN", "9S", "(3)", "9(", "9V9P", "PV9", "X)"])
def test_what_is_no_picture(text: str) -> None:
    with pytest.raises(ValueError, match=r"PIC|picture|number"):
        read_picture(text)
