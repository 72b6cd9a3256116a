# SPDX-License-Identifier: Apache-2.0
"""Known answers of TDS: bytes by hand, the tree they mean, and the same bytes written again."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from entrepot.models.logical import StructureMember
from entrepot.models.mrm import Codec
from unit.models.tds_models import (
    ALL,
    CHOICE,
    ENCODED,
    FIXED,
    PATTERN,
    TAGGED,
    TAGGED_FIXED,
    UNORDERED,
    VARIABLE,
    Tree,
    agree,
    codec,
    group,
    read,
    simple,
    write,
)


def three(**tags: str) -> list[StructureMember]:
    return [simple(name, tag=tag, least=0) for name, tag in tags.items()]


def star(*members: StructureMember, **said: Any) -> Codec:
    return codec(*members, separation=ALL, delimiter="*", **said)


# --- all elements delimited -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "tree"),
    [
        ("data1*data2*data3*data4", [("A", "data1"), ("B", "data2"), ("C", "data3"), ("D", "data4")]),
        ("data1**data3*data4", [("A", "data1"), ("C", "data3"), ("D", "data4")]),
        ("data1*data2**", [("A", "data1"), ("B", "data2")]),
        ("***data4", [("D", "data4")]),
        ("***", []),
    ],
)
def test_absent_element_leaves_nothing_between_its_delimiters(body: str, tree: Tree) -> None:
    agree(star(*[simple(name, least=0) for name in "ABCD"]), body, tree)


def test_delimiters_of_absent_elements_at_the_end_are_left_out_when_the_model_says_so() -> None:
    compiled = star(*[simple(name, least=0) for name in "ABCD"], suppress_absent="end")
    agree(compiled, "data1*data2", [("A", "data1"), ("B", "data2")])
    agree(compiled, "data1**data3", [("A", "data1"), ("C", "data3")])
    agree(compiled, "", [])


def test_message_with_fewer_delimiters_is_read_when_the_rest_is_optional() -> None:
    compiled = star(simple("A"), simple("B", least=0), simple("C", least=0))
    assert read(compiled, "x") == [("A", "x")]


def test_group_indicator_and_terminator_stand_around_the_elements() -> None:
    compiled = star(simple("A"), simple("B"), simple("C"), group_indicator="{", group_terminator="}")
    agree(compiled, "{data1*data22222*data3}", [("A", "data1"), ("B", "data22222"), ("C", "data3")])


def test_mandatory_empty_element_is_null_by_default_and_a_string_without_null() -> None:
    agree(star(simple("A"), simple("B")), "x*", [("A", "x"), ("B", None)])
    agree(star(simple("A"), simple("B", null_policy="none")), "x*", [("A", "x"), ("B", "")])
    agree(star(simple("A", "integer"), simple("B")), "*x", [("A", None), ("B", "x")])


def test_null_has_its_own_text_when_the_policy_is_literal() -> None:
    compiled = star(simple("A", "integer", null_policy="literal", null_value="N/A"), simple("B"))
    agree(compiled, "N/A*x", [("A", None), ("B", "x")])
    agree(compiled, "7*x", [("A", 7), ("B", "x")])


def test_repeats_have_a_delimiter_of_their_own() -> None:
    compiled = star(simple("A"), simple("B", least=0, most=5, repeat_delimiter=":"), simple("C"))
    agree(compiled, "1*x:y:z*2", [("A", "1"), ("B", "x"), ("B", "y"), ("B", "z"), ("C", "2")])
    agree(compiled, "1*x*2", [("A", "1"), ("B", "x"), ("C", "2")])
    agree(compiled, "1**2", [("A", "1"), ("C", "2")])


def test_empty_repeats_at_the_end_are_no_repeats() -> None:
    compiled = star(simple("A", least=0, most=5, repeat_delimiter=":"), simple("C"))
    assert read(compiled, "x::::*2") == [("A", "x"), ("C", "2")]
    assert read(compiled, "x::y*2") == [("A", "x"), ("A", None), ("A", "y"), ("C", "2")]


def test_fixed_number_of_repeats_uses_the_delimiter_of_the_structure() -> None:
    compiled = star(simple("A"), simple("B", least=3, most=3), simple("C"))
    agree(compiled, "1*x*y*z*2", [("A", "1"), ("B", "x"), ("B", "y"), ("B", "z"), ("C", "2")])


def test_last_member_repeats_to_the_end() -> None:
    compiled = star(simple("A"), simple("B", "integer", least=0, most=None))
    agree(compiled, "1*2*3*4", [("A", "1"), ("B", 2), ("B", 3), ("B", 4)])
    agree(compiled, "1*", [("A", "1")])


def test_lines_of_fields_are_a_table() -> None:
    row = group("Row", simple("Id", "integer"), simple("Name"), most=None, separation=ALL, delimiter=",")
    compiled = codec(row, separation=ALL, delimiter="\r\n")
    agree(
        compiled,
        "1,one\r\n2,two\r\n3,three",
        [("Row", [("Id", n), ("Name", name)]) for n, name in ((1, "one"), (2, "two"), (3, "three"))],
    )


def test_lines_with_a_terminator_of_their_own_need_no_delimiter() -> None:
    row = group("Row", simple("A"), simple("B"), most=None, separation=ALL, delimiter=",", group_terminator="\n")
    compiled = codec(row, separation=FIXED)
    agree(compiled, "1,2\n3,4\n", [("Row", [("A", "1"), ("B", "2")]), ("Row", [("A", "3"), ("B", "4")])])


def test_inner_element_ends_at_the_delimiter_of_the_structure_around_it() -> None:
    inner = group("In", simple("B"), simple("C", least=0), separation=ALL, delimiter="+")
    compiled = star(simple("A"), inner, simple("D"))
    agree(compiled, "1*2+3*4", [("A", "1"), ("In", [("B", "2"), ("C", "3")]), ("D", "4")])
    agree(compiled, "1*2+*4", [("A", "1"), ("In", [("B", "2")]), ("D", "4")])


def test_optional_structure_is_absent_between_delimiters() -> None:
    inner = group("In", simple("B"), simple("C"), least=0, separation=ALL, delimiter="+")
    compiled = star(simple("A"), inner, simple("D"))
    agree(compiled, "1**4", [("A", "1"), ("D", "4")])


def test_same_delimiter_at_two_levels_keeps_the_delimiters_of_what_is_absent() -> None:
    inner = group("E3", *[simple(f"P{n}", least=0) for n in (1, 2, 3)], least=0, separation=ALL, delimiter="*",
                  suppress_absent="end")  # fmt: skip
    compiled = star(simple("A"), simple("B"), inner, simple("D"))
    agree(compiled, "data1*data2*e3***data4", [("A", "data1"), ("B", "data2"), ("E3", [("P1", "e3")]), ("D", "data4")])
    agree(compiled, "data1*data2****data4", [("A", "data1"), ("B", "data2"), ("D", "data4")])


def test_group_without_a_name_is_not_in_the_tree() -> None:
    inner = group("", simple("B"), simple("C"), separation=ALL, delimiter="+")
    agree(star(simple("A"), inner), "1*2+3", [("A", "1"), ("B", "2"), ("C", "3")])


def test_group_without_properties_is_written_as_what_is_around_it() -> None:
    agree(star(simple("A"), group("", simple("B"), simple("C"))), "1*2*3", [("A", "1"), ("B", "2"), ("C", "3")])


def test_mixed_structures_of_the_manual() -> None:
    """Tags outside, a delimited group in brackets and a fixed-length one in angles inside."""
    compiled = codec(
        simple("D1", tag="Tag1"),
        group("G", simple("D2"), simple("D3"), tag="Tag2", separation=ALL, delimiter="+", group_indicator="[",
              group_terminator="]"),
        group("H", simple("D4", length=5), simple("D5", length=5), tag="Tag3", separation=FIXED, group_indicator="<",
              group_terminator=">"),
        separation=TAGGED, delimiter="*", tag_separator=":", group_indicator="{", group_terminator="}",
    )  # fmt: skip
    agree(
        compiled,
        "{Tag1:Data1*Tag2:[Data2+Data3]*Tag3:<Data4Data5>}",
        [("D1", "Data1"), ("G", [("D2", "Data2"), ("D3", "Data3")]), ("H", [("D4", "Data4"), ("D5", "Data5")])],
    )


def test_elements_out_of_order_in_the_tree_are_written_in_the_order_of_the_model() -> None:
    compiled = star(simple("A"), simple("B"), simple("C", least=0))
    assert write(compiled, [("B", "2"), ("A", "1")]) == b"1*2*"


# --- tagged ---------------------------------------------------------------------------------------

TAGS = {"A": "tag1", "B": "tag2222222", "C": "tag333"}
ABC = [("A", "data1"), ("B", "data2"), ("C", "data3")]


def test_tagged_delimited_with_a_tag_separator() -> None:
    compiled = codec(*three(**TAGS), separation=TAGGED, delimiter="*", tag_separator=":", group_indicator="{",
                     group_terminator="}")  # fmt: skip
    agree(compiled, "{tag1:data1*tag2222222:data2*tag333:data3}", ABC)
    agree(compiled, "{tag333:data3*tag1:data1}", [("C", "data3"), ("A", "data1")])
    agree(compiled, "{}", [])


def test_tagged_delimited_with_tags_of_one_length() -> None:
    compiled = codec(*three(A="tag11", B="tag22", C="tag33"), separation=TAGGED, delimiter="*", tag_length=5,
                     group_indicator="{", group_terminator="}")  # fmt: skip
    agree(compiled, "{tag11data1*tag22data2*tag33data3}", ABC)


def test_tag_without_data_is_null_and_not_absent() -> None:
    compiled = codec(*three(A="a", B="b"), separation=TAGGED, delimiter="*", tag_separator=":")
    agree(compiled, "a:*b:x", [("A", None), ("B", "x")])
    agree(compiled, "b:x", [("B", "x")])


def test_tagged_element_repeats_by_its_tag() -> None:
    compiled = codec(simple("A", tag="a"), simple("B", tag="b", least=0, most=None), separation=TAGGED, delimiter="*",
                     tag_separator=":")  # fmt: skip
    agree(compiled, "a:1*b:2*b:3", [("A", "1"), ("B", "2"), ("B", "3")])
    agree(compiled, "b:2*a:1*b:3", [("B", "2"), ("A", "1"), ("B", "3")])


def test_tagged_fixed_length_needs_no_delimiter() -> None:
    members = [
        simple("A", tag="tag1", length=5),
        simple("B", tag="tag22222222", length=8, padding="0"),
        simple("C", tag="tag333", length=7, padding="0"),
    ]
    compiled = codec(*members, separation=TAGGED_FIXED, tag_separator=":", group_indicator="{", group_terminator="}")
    # The manual writes data2 to eight characters with zeros behind it.
    agree(compiled, "{tag1:data1tag22222222:data2000tag333:data300}",
          [("A", "data1"), ("B", "data2"), ("C", "data3")])  # fmt: skip


def test_tagged_fixed_length_with_tags_of_one_length() -> None:
    members = [simple("A", tag="tag11", length=5), simple("B", tag="tag22", length=8, padding="0")]
    agree(codec(*members, separation=TAGGED_FIXED, tag_length=5), "tag22data2000tag11data1",
          [("B", "data2"), ("A", "data1")])  # fmt: skip


def test_encoded_length_stands_between_tag_and_data() -> None:
    compiled = codec(*three(A="tagA", B="tagB"), separation=ENCODED, tag_length=4, encoded_length=3)
    agree(compiled, "tagA007dataAAAtagB002xy", [("A", "dataAAA"), ("B", "xy")])


def test_encoded_length_may_count_itself() -> None:
    compiled = codec(*three(A="tagA", B="tagB"), separation=ENCODED, tag_length=4, encoded_length=3, encoded_extra=3)
    agree(compiled, "tagA010dataAAAtagB005xy", [("A", "dataAAA"), ("B", "xy")])


def test_encoded_length_hides_every_delimiter() -> None:
    compiled = codec(
        group("G", simple("X", tag="x"), tag="g", separation=ENCODED, tag_separator="=", encoded_length=2),
        simple("Y", tag="y"),
        separation=TAGGED, delimiter=";", tag_separator="=",
    )  # fmt: skip
    agree(compiled, "g=x=05a;b=c;y=1", [("G", [("X", "a;b=c")]), ("Y", "1")])


def test_structure_behind_an_encoded_length_ends_with_it() -> None:
    inner = group("G", simple("X"), simple("Y"), tag="gg", separation=ALL, delimiter=",")
    compiled = codec(inner, simple("Z", tag="zz"), separation=ENCODED, tag_length=2, encoded_length=2)
    agree(compiled, "gg05ab,cdzz01e", [("G", [("X", "ab"), ("Y", "cd")]), ("Z", "e")])


RECORD = group(
    "Record",
    group("Start", simple("P", length=2), simple("Q", length=2), tag="10", separation=FIXED, group_terminator="\r\n"),
    group("More", simple("P", length=2), simple("Q", length=2), tag="11", least=0, separation=FIXED,
          group_terminator="\r\n"),
    most=None, separation=TAGGED_FIXED, tag_length=2,
)  # fmt: skip


def test_tag_that_is_there_already_begins_the_next_record() -> None:
    compiled = codec(RECORD, separation=TAGGED_FIXED, tag_length=2)
    agree(
        compiled,
        b"10AABB\r\n10CCDD\r\n11EEFF\r\n10GGHH\r\n",
        [
            ("Record", [("Start", [("P", "AA"), ("Q", "BB")])]),
            ("Record", [("Start", [("P", "CC"), ("Q", "DD")]), ("More", [("P", "EE"), ("Q", "FF")])]),
            ("Record", [("Start", [("P", "GG"), ("Q", "HH")])]),
        ],
    )


def test_group_that_the_tree_does_not_show_repeats_by_its_first_tag() -> None:
    statement = codec(
        simple("20", tag="20"),
        group("", simple("61", tag="61"), simple("86", tag="86", least=0), least=0, most=None),
        simple("62F", tag="62F"),
        simple("86", tag="86", least=0),
        separation=TAGGED, delimiter="\n:", tag_separator=":",
    )  # fmt: skip
    agree(
        statement,
        "20:ref\n:61:one\n:86:about one\n:61:two\n:62F:end\n:86:about all",
        [("20", "ref"), ("61", "one"), ("86", "about one"), ("61", "two"), ("62F", "end"), ("86", "about all")],
    )


def test_choice_is_made_by_the_tag() -> None:
    compiled = codec(
        simple("Id", tag="20"),
        group("", simple("Bic", tag="95P"), simple("Name", tag="95Q"), composition=CHOICE),
        separation=TAGGED, delimiter="\n:", tag_separator=":",
    )  # fmt: skip
    agree(compiled, "20:x\n:95P:BANK", [("Id", "x"), ("Bic", "BANK")])
    agree(compiled, "20:x\n:95Q:Mr A", [("Id", "x"), ("Name", "Mr A")])


def test_any_order_is_kept() -> None:
    compiled = codec(*three(A="a", B="b", C="c"), composition=UNORDERED, separation=TAGGED, delimiter=";",
                     tag_separator="=")  # fmt: skip
    agree(compiled, "c=3;a=1;b=2", [("C", "3"), ("A", "1"), ("B", "2")])


# --- SWIFT's shape --------------------------------------------------------------------------------

SWIFT = {"delimiter": "\r\n:", "group_indicator": "\r\n:", "group_terminator": "\r\n-", "tag_separator": ":",
         "decimal_point": ","}  # fmt: skip


def sequence(name: str, code: str, *members: StructureMember, **said: Any) -> StructureMember:
    return group(name, simple("16R", tag="16R", values=(code,)), *members, simple("16S", tag="16S", values=(code,)),
                 separation=TAGGED, group_indicator="", group_terminator="", **said)  # fmt: skip


def settlement() -> Codec:
    return codec(
        sequence("General", "GENL", simple("20C", tag="20C"),
                 sequence("Link", "LINK", simple("20C", tag="20C"), least=0, most=None)),
        sequence("Trade", "TRADDET", simple("98A", tag="98A", most=3), simple("70E", tag="70E", least=0)),
        separation=TAGGED, tds=SWIFT,
    )  # fmt: skip


BLOCK4 = (
    "\r\n:16R:GENL\r\n:20C::SEME//x\r\n:16R:LINK\r\n:20C::PREV//y\r\n:16S:LINK\r\n:16S:GENL"
    "\r\n:16R:TRADDET\r\n:98A::TRAD//20031110\r\n:98A::SETT//20031113\r\n:70E::X//one\r\ntwo - three: four"
    "\r\n:16S:TRADDET\r\n-"
)


def test_sequences_with_the_same_tag_are_told_by_its_value() -> None:
    agree(
        settlement(),
        BLOCK4,
        [
            ("General", [("16R", "GENL"), ("20C", ":SEME//x"),
                         ("Link", [("16R", "LINK"), ("20C", ":PREV//y"), ("16S", "LINK")]), ("16S", "GENL")]),
            ("Trade", [("16R", "TRADDET"), ("98A", ":TRAD//20031110"), ("98A", ":SETT//20031113"),
                       ("70E", ":X//one\r\ntwo - three: four"), ("16S", "TRADDET")]),
        ],
    )  # fmt: skip


def test_optional_sequence_is_not_there_when_its_value_is_not() -> None:
    body = BLOCK4.replace("\r\n:16R:LINK\r\n:20C::PREV//y\r\n:16S:LINK", "")
    general = read(settlement(), body)[0]
    assert general == ("General", [("16R", "GENL"), ("20C", ":SEME//x"), ("16S", "GENL")])


def test_fixed_values_are_written_where_the_tree_lacks_them() -> None:
    tree: Tree = [("General", [("20C", ":SEME//x")]), ("Trade", [("98A", ":TRAD//20031110")])]
    assert write(settlement(), tree) == (
        b"\r\n:16R:GENL\r\n:20C::SEME//x\r\n:16S:GENL\r\n:16R:TRADDET\r\n:98A::TRAD//20031110\r\n:16S:TRADDET\r\n-"
    )


def test_indicator_that_is_a_tag_with_its_value_begins_a_sequence() -> None:
    def enclosed(code: str, *members: StructureMember, **said: Any) -> StructureMember:
        return group(code, *members, separation=TAGGED, group_indicator=f"16R:{code}\r\n:",
                     group_terminator=f"\r\n:16S:{code}", **said)  # fmt: skip

    compiled = codec(
        enclosed("GENL", simple("20C", tag="20C"), enclosed("LINK", simple("20C", tag="20C"), least=0, most=None)),
        enclosed("TRADDET", simple("98A", tag="98A")),
        simple("70E", tag="70E", least=0),
        separation=TAGGED, tds=SWIFT,
    )  # fmt: skip
    agree(
        compiled,
        "\r\n:16R:GENL\r\n:20C:a\r\n:16R:LINK\r\n:20C:b\r\n:16S:LINK\r\n:16R:LINK\r\n:20C:c\r\n:16S:LINK\r\n:16S:GENL"
        "\r\n:16R:TRADDET\r\n:98A:d\r\n:16S:TRADDET\r\n:70E:e\r\n-",
        [
            ("GENL", [("20C", "a"), ("LINK", [("20C", "b")]), ("LINK", [("20C", "c")])]),
            ("TRADDET", [("98A", "d")]),
            ("70E", "e"),
        ],
    )


def test_blocks_are_told_by_their_group_indicators() -> None:
    compiled = codec(
        group("Basic", simple("Bic", length=8), separation=FIXED, group_indicator="{1:", group_terminator="}"),
        group("User", simple("Ref", tag="108"), least=0, separation=TAGGED, group_indicator="{3:{",
              group_terminator="}}", tag_separator=":", delimiter=""),
        group("Text", simple("20", tag="20"), separation=TAGGED, group_indicator="{4:\r\n:",
              group_terminator="\r\n-}", tag_separator=":", delimiter="\r\n:"),
        separation=FIXED,
    )  # fmt: skip
    agree(compiled, "{1:BANKGB2L}{4:\r\n:20:ref}\r\n-}", [("Basic", [("Bic", "BANKGB2L")]), ("Text", [("20", "ref}")])])
    agree(
        compiled,
        "{1:BANKGB2L}{3:{108:MUR}}{4:\r\n:20:ref\r\n-}",
        [("Basic", [("Bic", "BANKGB2L")]), ("User", [("Ref", "MUR")]), ("Text", [("20", "ref")])],
    )


# --- fixed length ---------------------------------------------------------------------------------


def test_fixed_lengths_follow_each_other() -> None:
    compiled = codec(simple("A", length=5, padding="0"), simple("B", length=7, padding="0"),
                     simple("C", length=6, padding="0"), separation=FIXED)  # fmt: skip
    agree(compiled, "data1data200data30", [("A", "data1"), ("B", "data2"), ("C", "data3")])


def test_fixed_number_of_repeats_has_no_delimiter() -> None:
    compiled = codec(simple("A", length=6, padding="0"), simple("B", length=5, least=3, most=3),
                     simple("C", length=7, padding="0"), separation=FIXED)  # fmt: skip
    agree(compiled, "data10data2data2data2data300",
          [("A", "data1"), ("B", "data2"), ("B", "data2"), ("B", "data2"), ("C", "data3")])  # fmt: skip


def test_optional_element_in_the_middle_is_written_as_padding() -> None:
    compiled = codec(simple("A", length=2), simple("N", "integer", length=3, least=0), simple("B", length=2),
                     separation=FIXED)  # fmt: skip
    agree(compiled, "ab   cd", [("A", "ab"), ("B", "cd")])
    agree(compiled, "ab12 cd", [("A", "ab"), ("N", 12), ("B", "cd")])


def test_default_is_written_for_an_absent_element() -> None:
    compiled = codec(simple("A", length=3, default="xyz"), simple("B", length=2), separation=FIXED)
    assert write(compiled, [("B", "cd")]) == b"xyzcd"


def test_number_of_repeats_is_told_by_an_earlier_element() -> None:
    compiled = codec(
        simple("Count", "integer", length=2, justify="right", padding="0"),
        group("Item", simple("Code", length=2), least=0, most=99, count_from="Count", separation=FIXED),
        simple("End", length=1), separation=FIXED,
    )  # fmt: skip
    agree(compiled, "02aabbZ", [("Count", 2), ("Item", [("Code", "aa")]), ("Item", [("Code", "bb")]), ("End", "Z")])
    agree(compiled, "00Z", [("Count", 0), ("End", "Z")])


def test_length_is_told_by_an_earlier_element() -> None:
    compiled = codec(simple("Size", "integer", length=3, justify="right", padding="0"),
                     simple("Text", length_from="Size"), simple("End", length=1), separation=FIXED)  # fmt: skip
    agree(compiled, "005helloZ", [("Size", 5), ("Text", "hello"), ("End", "Z")])
    agree(compiled, "000Z", [("Size", 0), ("Text", ""), ("End", "Z")])


def test_records_are_told_by_their_first_field() -> None:
    compiled = codec(
        group("", group("Head", simple("Kind", length=1, values=("H",)), simple("Name", length=3), separation=FIXED),
              group("Line", simple("Kind", length=1, values=("L",)), simple("Price", "integer", length=2),
                    separation=FIXED),
              composition=CHOICE, most=None, separation=FIXED),
        separation=FIXED,
    )  # fmt: skip
    agree(compiled, "HabcL12L34", [("Head", [("Kind", "H"), ("Name", "abc")]), ("Line", [("Kind", "L"), ("Price", 12)]),
                                   ("Line", [("Kind", "L"), ("Price", 34)])])  # fmt: skip


def test_choice_without_tags_takes_the_first_alternative_that_can_be_read() -> None:
    compiled = codec(
        group("", simple("Number", "integer", length=3), simple("Word", length=3), composition=CHOICE,
              separation=FIXED),
        separation=FIXED,
    )  # fmt: skip
    agree(compiled, "123", [("Number", 123)])
    agree(compiled, "abc", [("Word", "abc")])


def test_structure_of_given_length_is_padded() -> None:
    inner = group("G", simple("A"), simple("B"), length=8, separation=ALL, delimiter=",")
    compiled = codec(inner, simple("Z", length=1), separation=FIXED)
    assert read(compiled, "ab,cd,ef!"[:5] + "   !") == [("G", [("A", "ab"), ("B", "cd   ")]), ("Z", "!")]
    assert write(compiled, [("G", [("A", "a"), ("B", "b")]), ("Z", "!")]) == b"a,b     !"


# --- variable length elements delimited -----------------------------------------------------------


def test_delimiter_stands_behind_elements_of_variable_length_only() -> None:
    compiled = codec(simple("A"), simple("B"), simple("C"), simple("D", length=8, padding="0"),
                     simple("E", length=5), separation=VARIABLE, delimiter="*")  # fmt: skip
    agree(compiled, "data1*data2*data3*data4000data5",
          [("A", "data1"), ("B", "data2"), ("C", "data3"), ("D", "data4"), ("E", "data5")])  # fmt: skip


def test_variable_element_behind_a_fixed_one() -> None:
    compiled = codec(simple("A", length=3), simple("B"), simple("C", length=2), simple("D"), separation=VARIABLE,
                     delimiter="*", group_indicator="{", group_terminator="}")  # fmt: skip
    agree(compiled, "{abcdef*ghij}", [("A", "abc"), ("B", "def"), ("C", "gh"), ("D", "ij")])


def test_fixed_repeats_in_a_variable_structure_have_no_delimiter() -> None:
    compiled = codec(simple("A"), simple("B", length=2, least=2, most=2), simple("C"), separation=VARIABLE,
                     delimiter="*")  # fmt: skip
    agree(compiled, "x*aabby", [("A", "x"), ("B", "aa"), ("B", "bb"), ("C", "y")])


# --- data patterns --------------------------------------------------------------------------------


def test_data_patterns_of_the_manual() -> None:
    compiled = codec(simple("A", pattern="[A-Z]{1,3}"), simple("B", pattern="[0-9]+"), simple("C", pattern="[a-z]*"),
                     simple("Rest", pattern="(?s).*"), separation=PATTERN)  # fmt: skip
    agree(compiled, "DT31758934information for you",
          [("A", "DT"), ("B", "31758934"), ("C", "information"), ("Rest", " for you")])  # fmt: skip


def test_optional_pattern_that_does_not_match_is_absent() -> None:
    compiled = codec(simple("A", pattern="[A-Z]+", least=0), simple("B", "integer", pattern="[0-9]{2}", most=None),
                     separation=PATTERN)  # fmt: skip
    agree(compiled, "ABC1234", [("A", "ABC"), ("B", 12), ("B", 34)])
    agree(compiled, "12", [("B", 12)])


def test_alternatives_are_chosen_by_their_patterns() -> None:
    compiled = codec(simple("Word", pattern="[a-z]+"), simple("Number", "integer", pattern="[0-9]+"),
                     composition=CHOICE, separation=PATTERN)  # fmt: skip
    agree(compiled, "abc", [("Word", "abc")])
    agree(compiled, "123", [("Number", 123)])


def test_patterns_in_any_order() -> None:
    compiled = codec(simple("Word", pattern="[a-z]+"), simple("Number", "integer", pattern="[0-9]+"),
                     composition=UNORDERED, separation=PATTERN)  # fmt: skip
    agree(compiled, "12ab", [("Number", 12), ("Word", "ab")])


def test_structure_extends_as_far_as_its_pattern() -> None:
    inner = group("G", simple("A"), simple("B"), pattern="[^;]*;", separation=ALL, delimiter=",", group_terminator=";")
    compiled = codec(inner, simple("Z", pattern=".+"), separation=PATTERN)
    agree(compiled, "x,y;rest", [("G", [("A", "x"), ("B", "y")]), ("Z", "rest")])


# --- escape and quote -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("a?+b+c", ("a+b", "c")),
        ("a??+c", ("a?", "c")),
        ("??+?+", ("?", "+")),
        ("a?'b+c", ("a'b", "c")),
    ],
)
def test_escaped_delimiter_belongs_to_the_data(body: str, values: tuple[str, str]) -> None:
    compiled = codec(simple("A"), simple("B"), separation=ALL, delimiter="+", tds={"escape": "?", "reserved": "'"})
    agree(compiled, body, [("A", values[0]), ("B", values[1])])


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ('a,"b,c"', ("a", "b,c")),
        ('"say ""hi"", now",x', ('say "hi", now', "x")),
        ('a,"""b"""', ("a", '"b"')),
        ('"a""b",c', ('a"b', "c")),
    ],
)
def test_quoted_delimiter_belongs_to_the_data(body: str, values: tuple[str, str]) -> None:
    compiled = codec(simple("A"), simple("B"), separation=ALL, delimiter=",", tds={"quote": '"'})
    agree(compiled, body, [("A", values[0]), ("B", values[1])])


def test_quote_inside_data_that_do_not_begin_with_one_is_data() -> None:
    compiled = codec(simple("A"), simple("B"), separation=ALL, delimiter=",", tds={"quote": '"'})
    assert read(compiled, 'a"b,c') == [("A", 'a"b'), ("B", "c")]


def test_quoted_nothing_is_an_empty_string_and_not_absent() -> None:
    compiled = codec(simple("A", least=0), simple("B"), separation=ALL, delimiter=",", tds={"quote": '"'})
    assert read(compiled, '"",x') == [("A", ""), ("B", "x")]


def test_quote_may_stand_around_data_that_do_not_need_it() -> None:
    compiled = codec(simple("A", "integer"), simple("B"), separation=ALL, delimiter=",", tds={"quote": '"'})
    assert read(compiled, '"12","x"') == [("A", 12), ("B", "x")]


def test_escape_hides_a_terminator_of_several_characters() -> None:
    compiled = codec(simple("A", tag="a"), separation=TAGGED, delimiter="\r\n:", group_terminator="\r\n-",
                     tag_separator=":", tds={"escape": "\\"})  # fmt: skip
    agree(compiled, "a:x\\\r\\\n\\-y\r\n-", [("A", "x\r\n-y")])


def test_data_that_end_like_a_delimiter_begins_are_escaped() -> None:
    compiled = codec(simple("A"), simple("B"), separation=ALL, delimiter="**", tds={"escape": "\\"})
    agree(compiled, "a\\***b", [("A", "a*"), ("B", "b")])


# --- values and code pages ------------------------------------------------------------------------


def test_observed_length_pads_inside_delimiters() -> None:
    compiled = codec(simple("A", length=5), simple("B", "integer", length=4, justify="right", padding="0"),
                     separation=ALL, delimiter=";", observe_length=True)  # fmt: skip
    agree(compiled, "ab   ;0012", [("A", "ab"), ("B", 12)])
    agree(compiled, "a;b  ;0012", [("A", "a;b"), ("B", 12)])


def test_decimal_comma_of_the_format() -> None:
    compiled = codec(simple("A", "decimal"), simple("B"), separation=ALL, delimiter=";", tds={"decimal_point": ","})
    agree(compiled, "1234,50;x", [("A", Decimal("1234.50")), ("B", "x")])
    assert read(compiled, "1234,;x") == [("A", Decimal(1234)), ("B", "x")]


def test_ebcdic_message_is_read_by_its_code_page() -> None:
    compiled = star(simple("A"), simple("B", "integer"))
    agree(compiled, bytes.fromhex("C1C25CF1F2"), [("A", "AB"), ("B", 12)], 37)


def test_code_page_of_the_format_overrides_that_of_the_message() -> None:
    compiled = star(simple("A"), simple("B"), tds={"ccsid": 37})
    agree(compiled, bytes.fromhex("C15CC2"), [("A", "A"), ("B", "B")], 1208)


def test_lengths_count_characters_and_not_bytes() -> None:
    compiled = codec(simple("A", length=3), simple("B", length=2), separation=FIXED)
    agree(compiled, "äöüab", [("A", "äöü"), ("B", "ab")])


def test_namespaced_names_are_the_keys_of_elements() -> None:
    agree(star(simple("{urn:x}A"), simple("{urn:x}B")), "1*2", [("{urn:x}A", "1"), ("{urn:x}B", "2")])
