# SPDX-License-Identifier: Apache-2.0
"""Structures in CWF: nesting, repeats, counts, lengths, choices, alignment, filler and defaults."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from entrepot.errors import MessageUnreadable, MessageUnwritable, ModelInvalid, ModelNotFound
from entrepot.models.cwf import compile_cwf
from entrepot.models.element_types import NAME, NAME_VALUE
from entrepot.models.logical import (
    Composition,
    CwfFormat,
    MessageFormat,
    MessageModel,
    MessageSet,
    Simple,
    Structure,
    StructureMember,
    TdsFormat,
    ValueType,
)
from entrepot.models.mrm import MRM
from entrepot.models.tree import Element, Folder
from folding import for_each
from unit.models.cwf_models import (
    BIG,
    BINARY,
    EBCDIC,
    FLOAT,
    INTEGER,
    LATIN,
    LITTLE,
    STRING,
    UTF8,
    choice,
    codec_of,
    group,
    plain,
    simple,
    tree,
)


def text(name: str, length: int, **said: Any) -> StructureMember:
    return simple(name, STRING, "string", length, **said)


def short(name: str, **said: Any) -> StructureMember:
    return simple(name, INTEGER, "integer", 2, **said)


def both_ways(members: tuple[StructureMember, ...], stored: str, *pairs: tuple[str, Any], encoding: int = BIG) -> None:
    """The bytes read as the tree, and the tree written as the bytes."""
    codec = codec_of(*members)
    body = bytes.fromhex(stored)
    elements = codec.parse(body, LATIN, encoding)
    assert plain(elements) == list(pairs)
    assert codec.render(tree(*pairs), LATIN, encoding).hex() == body.hex()


def test_a_message_is_a_sequence_of_fields() -> None:
    both_ways((short("A"), text("B", 2), short("C")), "0001 6162 0002", ("A", 1), ("B", "ab"), ("C", 2))


def test_numbers_of_two_byte_orders_lie_side_by_side() -> None:
    members = (short("A"), simple("B", FLOAT, "float", 4), simple("C", INTEGER, "packed", 2), short("D"))
    both_ways(members, "0100 3F800000 012C 0200", ("A", 1), ("B", 1.0), ("C", 12), ("D", 2), encoding=0x112)


def test_structures_are_elements_with_children_and_kinds() -> None:
    codec = codec_of(group("G", short("A"), group("H", text("B", 1))))
    (top,) = codec.parse(b"\0\1x", LATIN, BIG)
    inner = top.first("H")
    assert inner is not None
    assert (top.kind, inner.kind, inner.children[0].kind) == (NAME, NAME, NAME_VALUE)
    assert top.parent is None
    assert inner.parent is top
    assert inner.children[0].path() == "G.H.B"


def test_a_group_without_a_name_is_not_seen() -> None:
    both_ways((group("", short("A"), short("B")), short("C")), "0001 0002 0003", ("A", 1), ("B", 2), ("C", 3))


def test_fixed_repeats_of_fields_and_structures() -> None:
    members = (short("A", occurs_most=3), group("G", short("B"), text("C", 1), most=2))
    pairs = (("A", 1), ("A", 2), ("A", 3), ("G", [("B", 4), ("C", "x")]), ("G", [("B", 5), ("C", "y")]))
    both_ways(members, "0001 0002 0003 0004 78 0005 79", *pairs)


def test_repeats_within_repeats() -> None:
    members = (group("G", text("A", 1), group("H", text("B", 1), text("C", 1), most=2), most=2),)
    h = [("H", [("B", "1"), ("C", "2")]), ("H", [("B", "3"), ("C", "4")])]
    both_ways(members, b"x1234y1234".hex(), ("G", [("A", "x"), *h]), ("G", [("A", "y"), *h]))


def test_a_count_says_how_often() -> None:
    members = (short("N"), text("A", 2, occurs_most=9, occurs_least=0, count_from="N"), text("B", 1))
    both_ways(members, "0002 6162 6364 7A", ("N", 2), ("A", "ab"), ("A", "cd"), ("B", "z"))
    both_ways(members, "0000 7A", ("N", 0), ("B", "z"))


def test_a_count_in_a_structure_above_and_one_within_the_table() -> None:
    members = (
        group("HEAD", short("N")),
        group("T", short("M"), text("A", 1, occurs_most=9, count_from="M"), most=9, count_from="N"),
        text("B", 1),
    )
    body = "0002  0001 78  0003 616263  7A"
    pairs = (
        ("HEAD", [("N", 2)]),
        ("T", [("M", 1), ("A", "x")]),
        ("T", [("M", 3), ("A", "a"), ("A", "b"), ("A", "c")]),
        ("B", "z"),
    )
    both_ways(members, body, *pairs)


def test_a_matrix_has_a_count_for_rows_and_one_for_columns() -> None:
    cells = group("ROW", text("C", 1, occurs_most=9, occurs_least=0, count_from="COLS"), most=9, count_from="ROWS")
    members = (short("ROWS"), short("COLS"), cells)
    row = [("C", "a"), ("C", "b")]
    both_ways(members, "0002 0002 6162 6162", ("ROWS", 2), ("COLS", 2), ("ROW", row), ("ROW", row))


def test_rows_without_columns_are_rows() -> None:
    cells = group("ROW", text("C", 1, occurs_most=9, occurs_least=0, count_from="COLS"), most=9, count_from="ROWS")
    codec = codec_of(short("ROWS"), short("COLS"), cells)
    assert plain(codec.parse(bytes.fromhex("00020000"), LATIN, BIG))[2:] == [("ROW", None), ("ROW", None)]


def test_two_tables_share_a_count() -> None:
    members = (short("N"), text("A", 1, occurs_most=5, count_from="N"), text("B", 1, occurs_most=5, count_from="N"))
    both_ways(members, "0002 61 62 63 64", ("N", 2), ("A", "a"), ("A", "b"), ("B", "c"), ("B", "d"))


def test_a_count_that_is_left_out_is_written_from_the_repeats() -> None:
    codec = codec_of(
        group("HEAD", text("X", 1), short("N")),
        group("T", short("M"), text("A", 1, occurs_most=9, count_from="M"), most=9, count_from="N"),
    )
    made = tree(("HEAD", [("X", "x")]), ("T", [("A", "a"), ("A", "b")]), ("T", [("A", "c")]), ("T", []))
    assert codec.render(made, LATIN, BIG).hex() == "780003000261620001630000"


def test_a_count_that_contradicts_the_repeats_is_refused() -> None:
    codec = codec_of(short("N"), text("A", 1, occurs_most=9, count_from="N"))
    with pytest.raises(MessageUnwritable, match=r"M\.A cannot be written as CWF: there are 1 of it, and N says 2"):
        codec.render(tree(("N", 2), ("A", "x")), LATIN, BIG)


def test_a_count_beyond_the_model_is_refused() -> None:
    codec = codec_of(short("N"), text("A", 1, occurs_most=2, count_from="N"))
    with pytest.raises(MessageUnreadable) as refused:
        codec.parse(b"\0\3abc", LATIN, BIG)
    assert (refused.value.path, refused.value.offset) == ("M.A", 2)
    with pytest.raises(MessageUnwritable, match="fewer of them"):
        codec.render(tree(("N", 2), *[("A", "x")] * 3), LATIN, BIG)


@pytest.mark.parametrize(("body", "problem"), [("FFFF", "less than none"), ("7F7F", "it needs")])
def test_a_count_that_is_none_is_refused(body: str, problem: str) -> None:
    codec = codec_of(short("N"), text("A", 1, occurs_most=None, count_from="N"))
    with pytest.raises(MessageUnreadable, match=problem):
        codec.parse(bytes.fromhex(body), LATIN, BIG)


def test_repeats_without_a_count_go_on_to_the_end() -> None:
    members = (text("A", 1), group("G", short("B"), most=None))
    both_ways(members, "78 0001 0002", ("A", "x"), ("G", [("B", 1)]), ("G", [("B", 2)]))
    with pytest.raises(MessageUnreadable, match="goes on for 1 bytes"):
        codec_of(*members).parse(b"x\0\1\0", LATIN, BIG)


def test_a_group_without_a_name_repeats() -> None:
    members = (group("", text("A", 1), text("B", 1), most=2), text("C", 1))
    both_ways(members, b"12345".hex(), ("A", "1"), ("B", "2"), ("A", "3"), ("B", "4"), ("C", "5"))


def test_missing_repeats_have_defaults() -> None:
    codec = codec_of(short("A", occurs_most=3, default="7"), group("G", text("B", 1, default="x"), most=2))
    assert codec.render(tree(("A", 1)), LATIN, BIG).hex() == "0001000700077878"


def test_missing_repeats_without_defaults_are_named() -> None:
    codec = codec_of(group("G", text("B", 1), most=2))
    with pytest.raises(MessageUnwritable, match=r"M\.G\[2\]\.B cannot be written as CWF: it is missing"):
        codec.render(tree(("G", [("B", "x")])), LATIN, BIG)


# --- lengths ---------------------------------------------------------------------------------------------------


def test_a_length_says_how_long() -> None:
    members = (short("L"), simple("A", STRING, "string", length_from="L"), text("B", 1))
    both_ways(members, "0003 616263 7A", ("L", 3), ("A", "abc"), ("B", "z"))
    both_ways(members, "0000 7A", ("L", 0), ("A", ""), ("B", "z"))


def test_a_length_that_is_left_out_is_written_from_the_text() -> None:
    codec = codec_of(short("L"), simple("A", STRING, "string", length_from="L"))
    assert codec.render(tree(("A", "é!")), UTF8, BIG).hex() == "0003c3a921"


def test_a_length_in_characters() -> None:
    codec = codec_of(short("L"), simple("A", STRING, "string", length_from="L", length_unit="characters"), text("B", 1))
    for ccsid, body in ((UTF8, "0002c3a9217a"), (LATIN, "0002e9217a")):
        assert plain(codec.parse(bytes.fromhex(body), ccsid, BIG)) == [("L", 2), ("A", "é!"), ("B", "z")]
        assert codec.render(tree(("A", "é!"), ("B", "z")), ccsid, BIG).hex() == body
    assert codec.render(tree(("L", 4), ("A", "é!"), ("B", "z")), UTF8, BIG).hex() == "0004c3a92120207a"


def test_binary_takes_a_length_too_and_is_not_padded() -> None:
    codec = codec_of(short("L"), simple("A", BINARY, "binary", length_from="L"))
    assert codec.parse(b"\0\2\xff\0", LATIN, BIG)[1].value == b"\xff\0"
    with pytest.raises(MessageUnwritable, match="length of 1"):
        codec.render(tree(("L", 2), ("A", b"x")), LATIN, BIG)


def test_the_rest_of_the_message_is_a_length() -> None:
    codec = codec_of(text("A", 1), simple("B", BINARY, "binary", -1))
    assert codec.parse(b"xyz", LATIN, BIG)[1].value == b"yz"
    assert codec.render(tree(("A", "x"), ("B", b"yz")), LATIN, BIG) == b"xyz"


def test_a_length_that_is_too_long_is_refused_where_the_text_begins() -> None:
    codec = codec_of(short("L"), simple("A", STRING, "string", length_from="L"))
    with pytest.raises(MessageUnreadable) as refused:
        codec.parse(b"\x7f\xffabc", LATIN, BIG)
    assert (refused.value.path, refused.value.offset) == ("M.A", 2)


# --- choices ---------------------------------------------------------------------------------------------------


def test_a_choice_is_the_first_alternative_that_can_be_read() -> None:
    members = (choice(simple("A", INTEGER, "external", 4), text("B", 4)), text("C", 1))
    both_ways(members, b"1234z".hex(), ("A", 1234), ("C", "z"))
    both_ways(members, b"ab  z".hex(), ("B", "ab"), ("C", "z"))


def test_a_shorter_alternative_is_padded_to_the_longest() -> None:
    codec = codec_of(choice(group("G", short("A")), text("B", 4)), text("C", 1))
    assert plain(codec.parse(b"\0\1  z", LATIN, BIG)) == [("G", [("A", 1)]), ("C", "z")]
    assert codec.render(tree(("G", [("A", 1)]), ("C", "z")), LATIN, BIG) == b"\0\1  z"
    assert codec.render(tree(("B", "xx"), ("C", "z")), EBCDIC, BIG).hex() == "a7a74040a9"


def test_an_enumeration_tells_alternatives_apart() -> None:
    kind = Simple(ValueType.STRING, values=("C", "D"))
    cash = group("CASH", simple("KIND", kind, "string", 1), text("SUM", 3))
    bank = group("BANK", text("KIND", 1), text("ACCOUNT", 3))
    codec = codec_of(choice(cash, bank))
    assert plain(codec.parse(b"C123", LATIN, BIG)) == [("CASH", [("KIND", "C"), ("SUM", "123")])]
    assert plain(codec.parse(b"X123", LATIN, BIG)) == [("BANK", [("KIND", "X"), ("ACCOUNT", "123")])]


def test_if_no_enumeration_holds_the_first_readable_alternative_is_taken() -> None:
    yes = Simple(ValueType.STRING, values=("Y",))
    codec = codec_of(choice(simple("A", yes, "string", 1), simple("B", yes, "string", 1)))
    assert plain(codec.parse(b"N", LATIN, BIG)) == [("A", "N")]


def test_a_choice_that_none_fits_says_why_for_each() -> None:
    codec = codec_of(choice(simple("A", INTEGER, "external", 2), simple("B", INTEGER, "packed", 2)))
    with pytest.raises(MessageUnreadable) as refused:
        codec.parse(b"xx", LATIN, BIG)
    assert refused.value.problem.startswith("none of the alternatives can be read: A: ")
    assert "; B: " in refused.value.problem


def test_a_choice_of_which_the_tree_has_none_is_refused() -> None:
    codec = codec_of(choice(short("A"), text("B", 2)))
    with pytest.raises(MessageUnwritable, match="none of A, B is there"):
        codec.render(tree(), LATIN, BIG)


def test_a_choice_of_which_the_tree_has_two_is_refused() -> None:
    codec = codec_of(choice(short("A"), text("B", 2)))
    with pytest.raises(MessageUnwritable, match=r"M\.B cannot be written as CWF: the model has no such element"):
        codec.render(tree(("A", 1), ("B", "x")), LATIN, BIG)


def test_alternatives_may_differ_in_length_by_what_they_say() -> None:
    long = group("LONG", short("L"), simple("T", STRING, "string", length_from="L"))
    members = (choice(long, text("SHORT", 1)), text("Z", 1))
    both_ways(members, "0002 6162 7A", ("LONG", [("L", 2), ("T", "ab")]), ("Z", "z"))


def test_a_structure_with_a_name_may_be_a_choice() -> None:
    members = (choice(simple("A", INTEGER, "external", 1), text("B", 1), name="EITHER"),)
    both_ways(members, "3F", ("EITHER", [("B", "?")]))


def test_a_message_itself_may_be_a_choice() -> None:
    structure = Structure("M", (simple("A", INTEGER, "external", 1), text("B", 1)), Composition.CHOICE)
    codec = compile_cwf(MessageSet("S", {"M": MessageModel("M", structure)}, {"CWF1": CwfFormat()}), "M", "CWF1")
    assert plain(codec.parse(b"?", LATIN, BIG)) == [("B", "?")]


# --- gaps and alignment ------------------------------------------------------------------------------------------


def test_skipped_bytes_are_written_as_padding_of_the_code_page() -> None:
    codec = codec_of(text("A", 1, skip_after=2), short("B", skip_before=1), text("", 2), text("C", 1))
    assert plain(codec.parse(b"x???\0\1??z", LATIN, BIG)) == [("A", "x"), ("B", 1), ("C", "z")]
    made = tree(("A", "x"), ("B", 1), ("C", "z"))
    assert codec.render(made, LATIN, BIG) == b"x   \0\1  z"
    assert codec.render(made, EBCDIC, BIG).hex() == "a740404000014040a9"


def test_skipped_bytes_may_have_a_value() -> None:
    codec = codec_of(text("A", 1, skip_after=3, skip_value="!"), text("B", 1, skip_before=3, skip_value="0x0102"))
    assert codec.render(tree(("A", "a"), ("B", "b")), LATIN, BIG) == b"a!  \1\2\0b"
    with pytest.raises(ModelInvalid, match="longer than the 1 bytes"):
        codec_of(text("A", 1, skip_after=1, skip_value="ab"))


def test_filler_at_the_end_must_be_there() -> None:
    codec = codec_of(text("A", 1, skip_after=2))
    assert codec.render(tree(("A", "x")), LATIN, BIG) == b"x  "
    with pytest.raises(MessageUnreadable, match="it needs 3 bytes, and the message has 2 left"):
        codec.parse(b"x ", LATIN, BIG)


def test_filler_with_a_value_is_written_with_it() -> None:
    codec = codec_of(text("A", 1), text("", 1, default=","), text("B", 1), text("", 2, default="!"))
    assert codec.render(tree(("A", "x"), ("B", "y")), LATIN, BIG) == b"x,y! "
    assert plain(codec.parse(b"x?y??", LATIN, BIG)) == [("A", "x"), ("B", "y")]


def test_a_structure_of_nothing_but_filler() -> None:
    codec = codec_of(group("G", text("", 3)), text("A", 1))
    assert plain(codec.parse(b"???x", LATIN, BIG)) == [("G", None), ("A", "x")]
    assert codec.render(tree(("A", "x")), LATIN, BIG) == b"   x"


def test_alignment_leaves_bytes_out() -> None:
    word = simple("B", INTEGER, "integer", 4, alignment=4)
    both_ways((text("A", 1), word, text("C", 1), short("D", alignment=2)), "78 000000 00000001 79 00 0002",
              ("A", "x"), ("B", 1), ("C", "y"), ("D", 2))  # fmt: skip


def test_alignment_of_the_format_is_for_all() -> None:
    codec = codec_of(text("A", 1), text("B", 1), physical=CwfFormat(alignment=4))
    assert codec.render(tree(("A", "x"), ("B", "y")), LATIN, BIG) == b"x\0\0\0y"


def test_alignment_in_a_table_whose_items_begin_at_odd_places() -> None:
    item = group("G", text("A", 1), short("B", alignment=2), text("C", 1), most=2)
    pairs = [("G", [("A", "a"), ("B", 1), ("C", "c")]), ("G", [("A", "a"), ("B", 1), ("C", "c")])]
    # The second A lies at 5, so its B needs no slack.
    both_ways((item,), "61 00 0001 63  61 0001 63", *pairs)


def test_alignment_behind_a_text_of_varying_length() -> None:
    members = (short("L"), simple("T", STRING, "string", length_from="L"), short("A", alignment=4))
    for length, slack in ((1, 1), (2, 0), (3, 3), (4, 2)):
        body = length.to_bytes(2, "big") + b"x" * length + bytes(slack) + b"\0\7"
        codec = codec_of(*members)
        assert codec.parse(body, LATIN, BIG)[2].value == 7
        assert codec.render(tree(("L", length), ("T", "x" * length), ("A", 7)), LATIN, BIG) == body


# --- trees -----------------------------------------------------------------------------------------------------


def test_elements_may_come_in_any_order() -> None:
    codec = codec_of(short("A"), text("B", 1), group("G", text("C", 1), text("D", 1)))
    made = tree(("G", [("D", "d"), ("C", "c")]), ("B", "b"), ("A", 1))
    assert codec.render(made, LATIN, BIG) == b"\0\1bcd"


def test_a_missing_element_has_its_default() -> None:
    codec = codec_of(short("A", default="9"), text("B", 2), group("G", text("C", 1, default="c")))
    assert codec.render(tree(("B", "b")), LATIN, BIG) == b"\0\x09b c"


def test_a_missing_element_without_default_is_named() -> None:
    codec = codec_of(short("A"), group("G", text("B", 1), text("C", 1)))
    with pytest.raises(MessageUnwritable) as refused:
        codec.render(tree(("A", 1), ("G", [("B", "b")])), LATIN, BIG)
    assert refused.value.path == "M.G.C"
    with pytest.raises(MessageUnwritable) as refused:
        codec.render(tree(("A", 1)), LATIN, BIG)
    assert refused.value.path == "M.G.B"


def test_an_element_that_the_model_does_not_have_is_refused() -> None:
    codec = codec_of(short("A"))
    with pytest.raises(MessageUnwritable, match=r"M\.TYPO cannot be written as CWF: the model has no such element"):
        codec.render(tree(("A", 1), ("TYPO", 2)), LATIN, BIG)


def test_a_value_where_a_structure_should_be_is_refused() -> None:
    codec = codec_of(group("G", short("A", default="1")))
    with pytest.raises(MessageUnwritable, match=r"M\.G cannot be written as CWF: it has a value"):
        codec.render(tree(("G", "x")), LATIN, BIG)


def test_the_folder_of_a_message_reads_and_writes_by_its_model() -> None:
    message = MessageModel("M", Structure("M", (short("A"), text("B", 3))))
    message_set = MessageSet("S", {"M": message}, {"CWF1": CwfFormat()})
    folder = Folder(MRM, b"\1\0abc", ccsid=LATIN, encoding=LITTLE, model=MessageFormat(message_set, "M", "CWF1"))
    assert folder.get("A") == 1
    changed = folder.first("A")
    assert isinstance(changed, Element)
    changed.set_value(Decimal(2))
    assert folder.render() == b"\2\0abc"


# --- models ----------------------------------------------------------------------------------------------------


@for_each(
    ("members", "problem"),
    [
        ((text("A", 1, count_from="N", occurs_most=3), short("N")), "refers to N"),
        ((text("N", 1), text("A", 1, count_from="N", occurs_most=3)), "no number"),
        ((group("G", short("N"), most=2), text("A", 1, count_from="N", occurs_most=3)), "refers to N"),
        ((choice(name="G"),), "no alternatives"),
        ((text("A", 1, occurs_least=3, occurs_most=2),), "cannot be"),
        ((StructureMember("A", STRING, line=7),), "no physical properties"),
        ((text("", 1 << 27),), "longer than"),
        ((text("", 1 << 20, occurs_most=1 << 10),), "longer than"),
    ],
)
def test_a_structure_that_cannot_be_is_refused(members: tuple[StructureMember, ...], problem: str) -> None:
    with pytest.raises(ModelInvalid) as refused:
        codec_of(*members)
    assert refused.value.line == 7
    assert problem in refused.value.problem


def test_structures_nested_too_deep_are_refused() -> None:
    member = text("A", 1)
    for _ in range(150):
        member = group("G", member)
    with pytest.raises(ModelInvalid, match="100 levels"):
        codec_of(member)


def test_names_that_the_set_does_not_have() -> None:
    message_set = MessageSet("S", {"M": MessageModel("M", Structure("M", ()))}, {"TDS1": TdsFormat()})
    with pytest.raises(ModelNotFound, match="'X'"):
        compile_cwf(message_set, "X", "TDS1")
    with pytest.raises(ModelNotFound, match="'CWF1'"):
        compile_cwf(message_set, "M", "CWF1")
    with pytest.raises(ModelInvalid, match="no CWF"):
        compile_cwf(message_set, "M", "TDS1")


def test_a_qualified_count_is_found_in_its_structure() -> None:
    members = (
        group("A", short("N")),
        group("B", short("N")),
        text("T", 1, occurs_most=9, occurs_least=0, count_from="A.N"),
    )
    both_ways(members, "0001 0003 78", ("A", [("N", 1)]), ("B", [("N", 3)]), ("T", "x"))


def test_an_empty_message_has_no_elements() -> None:
    codec = codec_of()
    assert codec.parse(b"", LATIN, BIG) == []
    assert codec.render(tree(), LATIN, BIG) == b""
