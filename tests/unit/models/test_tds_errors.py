# SPDX-License-Identifier: Apache-2.0
"""What TDS says about bytes, trees and models that are wrong: path, byte offset, and what was expected."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from entrepot.errors import MessageUnreadable, MessageUnwritable, ModelInvalid, ModelNotFound
from entrepot.models.mrm import Codec
from entrepot.models.tds import compile_tds
from folding import for_each
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
    codec,
    group,
    message_set,
    read,
    simple,
    structure,
    write,
)

TAGGED_ABC = codec(
    simple("A", tag="a"), simple("B", "integer", tag="b", least=0), simple("C", tag="cc", least=0, most=2),
    separation=TAGGED, delimiter="*", tag_separator=":", group_indicator="{", group_terminator="}",
)  # fmt: skip
ROWS = codec(
    group("Row", simple("Id", "integer"), simple("Name"), most=None, separation=ALL, delimiter=","),
    separation=ALL, delimiter="\n",
)  # fmt: skip
LENGTHS = codec(simple("A", length=3), simple("B", "integer", length=4), separation=FIXED)
REPEATS = codec(simple("A", most=2, repeat_delimiter=":"), simple("B"), separation=ALL, delimiter="*")
ENCODED_A = codec(simple("A", tag="aa"), separation=ENCODED, tag_length=2, encoded_length=3)
COUNTED = codec(simple("N", "integer"), simple("A", least=0, most=9, count_from="N", repeat_delimiter=":"),
                separation=ALL, delimiter="*")  # fmt: skip
PATTERNS = codec(simple("A", pattern="[A-Z]+"), simple("B", pattern="[0-9]+"), separation=PATTERN)
QUOTED = codec(simple("A"), simple("B"), separation=ALL, delimiter=",", tds={"quote": '"'})
ESCAPED = codec(simple("A"), simple("B"), separation=ALL, delimiter=",", tds={"escape": "?"})


@for_each(
    ("compiled", "body", "path", "offset", "words"),
    [
        (TAGGED_ABC, "a:1", "M", 0, "'{' should begin it, not 'a:1'"),
        (TAGGED_ABC, "{a:1", "M", 4, "'}' should end M, not the end"),
        (TAGGED_ABC, "{a:1*x:2}", "M", 5, "expects a or b or cc, not 'x:2}'"),
        (TAGGED_ABC, "{b:1}", "M", 5, "A (tag 'a') is missing"),
        (TAGGED_ABC, "{a:1*a:2}", "M", 5, "A may be here 1 time at most"),
        (TAGGED_ABC, "{a:1*cc:1*cc:2*cc:3}", "M", 15, "C may be here 2 times at most"),
        (TAGGED_ABC, "{a:1*b:x}", "M.B", 7, "'x' is no INTEGER"),
        (TAGGED_ABC, "{a:1}}", "M", 5, "should end here, but there is '}'"),
        (TAGGED_ABC, "{äöü:1}", "M", 1, "expects a or b or cc"),
        (TAGGED_ABC, "{a:ä*b:x}", "M.B", 8, "'x' is no INTEGER"),
        (TAGGED_ABC, "", "M", 0, "'{' should begin it, not the end"),
        (ROWS, "1,a\n2,b\nx,c", "M.Row[3].Id", 8, "'x' is no INTEGER"),
        (ROWS, "1,a\n2", "M.Row[2]", 5, "Name is missing; here is the end"),
        (ROWS, "1,a,b", "M", 3, "should end here, but there is ',b'"),
        (LENGTHS, "abc12", "M.B", 3, "it has 4 characters, but only 2 are left"),
        (LENGTHS, "abc1234x", "M", 7, "should end here"),
        (LENGTHS, "abcxyzw", "M.B", 3, "'xyzw' is no INTEGER"),
        (REPEATS, "1:2:3*x", "M.A", 3, "there may be 2 of it, and here is one more"),
        (REPEATS, "1:2", "M", 3, "B is missing"),
        (ENCODED_A, "aa01", "M.A", 2, "should be its length in 3 digits"),
        (ENCODED_A, "aa0x1abc", "M.A", 2, "should be its length in 3 digits"),
        (ENCODED_A, "aa009abc", "M.A", 2, "its length says 9 characters, but only 3 are left"),
        (COUNTED, "3*a:b", "M.A[3]", 5, "a delimiter should be here"),
        (COUNTED, "-1*a", "M.A", 3, "counts nothing"),
        (COUNTED, "99999999*a", "M.A", 9, "no room for so many"),
        (PATTERNS, "abc", "M.A", 0, "'abc' does not match [A-Z]+"),
        (PATTERNS, "ABC", "M.B", 3, "the end does not match"),
        (QUOTED, '"abc', "M.A", 0, "never closed"),
        (QUOTED, '"a"b,c', "M.A", 3, "should follow the closing quote"),
        (ESCAPED, "a,b?", "M.B", 3, "the escape character has nothing behind it"),
    ],
)
def test_unreadable_message_says_path_offset_and_what_was_expected(
    compiled: Codec, body: str, path: str, offset: int, words: str
) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read(compiled, body)
    error = caught.value
    assert (error.domain, error.path, error.offset) == ("TDS", path, offset)
    assert words in error.problem
    assert pickle.loads(pickle.dumps(error)).problem == error.problem


def test_nearest_tags_are_named_when_there_are_many() -> None:
    compiled = codec(*[simple(f"F{n}", tag=f"{n}A", least=0) for n in range(10, 40)], separation=TAGGED, delimiter="*",
                     tag_separator=":")  # fmt: skip
    with pytest.raises(MessageUnreadable, match="expects 23A or others, not '23B:x'"):
        read(compiled, "10A:x*23B:x")


def test_byte_that_the_code_page_has_not_is_named() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read(TAGGED_ABC, b"{a:\xff}")
    assert caught.value.offset == 3


def test_offset_counts_bytes_of_the_code_page() -> None:
    with pytest.raises(MessageUnreadable) as caught:
        read(ROWS, "€€,a".encode("utf-16-be") + "\n".encode("utf-16-be"), 1200)
    assert caught.value.offset == 0
    with pytest.raises(MessageUnreadable) as caught:
        read(ROWS, "1,€\nx,b".encode())
    assert caught.value.offset == 6


@for_each(
    ("compiled", "tree", "path", "words"),
    [
        (TAGGED_ABC, [("B", 1)], "M.A", "it is missing"),
        (TAGGED_ABC, [("A", "1"), ("X", "2")], "M.X", "no such element here; it has A, B, C"),
        (TAGGED_ABC, [("A", "1"), ("A", "2")], "M.A", "one too many"),
        (TAGGED_ABC, [("A", "1*2")], "M.A", "'1*2' has '*', which would end it"),
        (TAGGED_ABC, [("A", "1}")], "M.A", "has '}'"),
        (TAGGED_ABC, [("A", [("X", 1)])], "M.A", "simple element, but has children"),
        (LENGTHS, [("A", "abcd"), ("B", 1)], "M.A", "has 4 characters, and there is room for 3"),
        (LENGTHS, [("A", "abc")], "M.B", "it is missing"),
        (REPEATS, [("A", "1"), ("A", "2"), ("A", "3"), ("B", "x")], "M.B", "it is missing; here is A"),
        (ROWS, [("Row", [("Id", 1), ("Name", "a")]), ("Row", [("Id", 2)])], "M.Row[2].Name", "it is missing"),
        (ROWS, [("Row", [("Id", 1), ("Name", "a")]), ("Row", [("Id", "x"), ("Name", "a")])], "M.Row[2].Id", "number"),
        (ROWS, [("Row", [("Id", 1), ("Name", "a\nb")])], "M.Row[1].Name", "<LF>"),
        (ROWS, [("Row", "text")], "M.Row[1]", "it is a structure, but has the value"),
        (ENCODED_A, [("A", "x" * 1000)], "M.A", "3 digits of length cannot say"),
        (COUNTED, [("N", 3), ("A", "x")], "M.A", "N says 3 of it, but there are 1"),
        (PATTERNS, [("A", "abc"), ("B", "1")], "M.A", "does not match"),
    ],
)
def test_unwritable_tree_says_its_path(compiled: Codec, tree: Tree, path: str, words: str) -> None:
    with pytest.raises(MessageUnwritable) as caught:
        write(compiled, tree)
    assert caught.value.path == path
    assert words in caught.value.problem


def test_character_that_the_code_page_has_not_cannot_be_written() -> None:
    with pytest.raises(MessageUnwritable):
        write(TAGGED_ABC, [("A", "€")], 819)


@for_each(
    ("members", "said", "words"),
    [
        ([simple("A", tag="a")], {"separation": TAGGED, "tag_separator": ":", "tag_length": 2}, "not by both"),
        ([simple("A", tag="a")], {"separation": TAGGED}, "need a separator or a length"),
        ([simple("A")], {"separation": TAGGED, "tag_separator": ":"}, "it has no tag"),
        ([simple("A", tag="abc")], {"separation": TAGGED, "tag_length": 2}, "the 2 characters of all tags"),
        ([simple("A", tag="a:b")], {"separation": TAGGED, "tag_separator": ":"}, "has the tag separator in it"),
        ([simple("A")], {"separation": FIXED}, "it needs a length"),
        ([simple("A", tag="a")], {"separation": TAGGED_FIXED, "tag_length": 1}, "it needs a length"),
        ([simple("A", tag="a")], {"separation": ENCODED, "tag_length": 1}, "how many characters"),
        ([simple("A")], {"separation": ALL}, "no delimiter"),
        ([simple("A")], {"separation": VARIABLE}, "no delimiter"),
        ([simple("A")], {"separation": PATTERN}, "needs a data pattern"),
        ([simple("A", pattern="[")], {"separation": PATTERN}, "no regular expression"),
        ([simple("A", pattern="(a+)+b")], {"separation": PATTERN}, "could run for ever"),
        ([simple("A", most=None), simple("B")], {"separation": ALL, "delimiter": "*"}, "how many of A"),
        ([simple("A", length=1, most=None), simple("B", length=1)], {"separation": FIXED}, "how many of A"),
        ([simple("A", least=3, most=2)], {"separation": ALL, "delimiter": "*"}, "cannot be there"),
        ([simple("", length=1)], {"separation": FIXED}, "only groups"),
        (
            [group("G", simple("A", length=1), separation=FIXED)],
            {"separation": TAGGED, "tag_separator": ":"},
            "neither a tag nor",
        ),
    ],
)
def test_model_that_cannot_work_is_refused_when_it_is_compiled(members: Any, said: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelInvalid) as caught:
        codec(*members, **said)
    assert words in caught.value.problem
    assert "M" in caught.value.problem


def test_elements_in_any_order_need_something_to_be_told_by() -> None:
    with pytest.raises(ModelInvalid, match="in any order"):
        codec(simple("A"), simple("B"), composition=UNORDERED, separation=ALL, delimiter="*")


def test_structure_says_which_one_it_is() -> None:
    inner = group("Inner", simple("A", tag="a"), separation=TAGGED, tag_separator=":", tag_length=1)
    with pytest.raises(ModelInvalid, match=r"M\.Inner: its tags end"):
        codec(inner, separation=FIXED)


def test_what_a_structure_says_itself_excludes_the_other_way_of_the_format() -> None:
    compiled = codec(simple("A", tag="aa"), separation=TAGGED, tag_length=2, tds={"tag_separator": ":"})
    assert read(compiled, "aa:x") == [("A", ":x")]


def test_choice_with_nothing_of_it_is_said() -> None:
    compiled = codec(simple("A", tag="a"), simple("B", tag="b"), composition=CHOICE, separation=TAGGED, delimiter="*",
                     tag_separator=":")  # fmt: skip
    with pytest.raises(MessageUnreadable, match="one of a or b should be here"):
        read(compiled, "")
    with pytest.raises(MessageUnreadable):
        read(compiled, "a:1*b:2")
    with pytest.raises(MessageUnwritable, match="none of its alternatives"):
        write(compiled, [])


def test_path_names_the_alternative_of_a_choice() -> None:
    choice = group("", simple("A", "integer", tag="a"), simple("B", "date", tag="b"), composition=CHOICE)
    compiled = codec(simple("Z", tag="z"), choice, separation=TAGGED, delimiter="*", tag_separator=":")
    with pytest.raises(MessageUnreadable) as caught:
        read(compiled, "z:1*b:x")
    assert (caught.value.path, caught.value.offset) == ("M.B", 6)


def test_unknown_message_and_format_are_named() -> None:
    known = message_set(structure("M", simple("A", length=1), separation=FIXED))
    with pytest.raises(ModelNotFound):
        compile_tds(known, "X", "T")
    with pytest.raises(ModelNotFound):
        compile_tds(known, "M", "X")
