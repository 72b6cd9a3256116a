# SPDX-License-Identifier: Apache-2.0
"""Bytes that were made to hurt: floods, depths and expressions. All end soon, with an error of ours or a tree."""

from __future__ import annotations

import contextlib
import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import processor_s
from entrepot.errors import MessageTooComplex, MessageUnreadable, ModelInvalid
from entrepot.models.logical import StructureMember
from entrepot.models.tds.patterns import compile_safe
from folding import for_each
from unit.models.tds_models import (
    ALL,
    CHOICE,
    ENCODED,
    FIXED,
    PATTERN,
    TAGGED,
    TAGGED_FIXED,
    VARIABLE,
    codec,
    group,
    read,
    simple,
)

MEGABYTE = 1 << 20

KINDS = {
    "all": codec(simple("A", least=0), simple("B", least=0), separation=ALL, delimiter="*"),
    "row": codec(simple("A", least=0, most=100, repeat_delimiter=":"), simple("B"), separation=ALL, delimiter="*"),
    "tagged": codec(simple("A", tag="a", least=0),
                    group("", simple("B", tag="b"), simple("C", tag="c"), least=0, most=9),
                    separation=TAGGED, delimiter="*", tag_separator=":"),
    "tagged fixed": codec(simple("A", tag="a", length=1, most=5), separation=TAGGED_FIXED, tag_length=1),
    "encoded": codec(simple("A", tag="a", most=5), separation=ENCODED, tag_length=1, encoded_length=2),
    "variable": codec(simple("A"), simple("B", length=2), simple("C", most=3), separation=VARIABLE, delimiter="*"),
    "pattern": codec(simple("A", pattern="[*:a]{0,9}", most=5), separation=PATTERN),
    "quoted": codec(simple("A"), simple("B"), separation=ALL, delimiter="*", tds={"quote": "'", "escape": "?"}),
    "fixed": codec(simple("A", "integer", length=2), simple("B", length=3, least=0, most=4), separation=FIXED),
    "choice": codec(group("", group("X", simple("A", "integer"), simple("B"), separation=ALL, delimiter=":"),
                          group("Y", simple("A"), simple("B", "integer"), separation=ALL, delimiter=":"),
                          composition=CHOICE, most=9, repeat_delimiter="*", separation=FIXED), separation=FIXED),
}  # fmt: skip


@for_each("flood", ["*", ":", "a:", "*a:", "b:", "a", "''", "?", "a01", "*b:1*c:1"])
@for_each("kind", KINDS)
def test_flood_costs_no_more_than_its_length(kind: str, flood: str) -> None:
    # Processor time, because other tests run beside this one.
    began = time.process_time()
    try:
        elements = read(KINDS[kind], flood * (MEGABYTE // len(flood)))
    except MessageUnreadable as error:
        assert error.offset <= MEGABYTE
    else:
        # One element has it all, or there are no more than the model allows.
        assert len(elements) <= 100
    assert time.process_time() - began < 4


def test_flood_of_allowed_repeats_takes_linear_time() -> None:
    compiled = codec(simple("A", least=0, most=None, repeat_delimiter=":"), separation=ALL, delimiter="*")
    floods = ["x:" * size + "x" for size in (25_000, 100_000)]
    assert [len(read(compiled, flood)) for flood in floods] == [25_001, 100_001]
    short, long = (processor_s(partial(read, compiled, flood)) for flood in floods)
    assert long < 10 * short


def test_flood_of_tags_takes_linear_time() -> None:
    record = group("R", simple("A", tag="a"), simple("B", tag="b", least=0), most=None, separation=TAGGED,
                   delimiter="*", tag_separator=":")  # fmt: skip
    compiled = codec(record, separation=TAGGED, delimiter="*", tag_separator=":")
    assert len(read(compiled, "*".join(["a:"] * 50_000))) == 50_000


@given(st.sampled_from(sorted(KINDS)), st.text(st.sampled_from("ab*:'?0 1c"), max_size=40))
@settings(max_examples=400)
def test_any_text_gives_a_tree_or_an_error_of_ours(kind: str, text: str) -> None:
    try:
        read(KINDS[kind], text)
    except MessageUnreadable as error:
        assert 0 <= error.offset <= len(text.encode())
        assert error.path.startswith("M")


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=60))
def test_any_bytes_give_a_tree_or_an_error_of_ours(kind: str, body: bytes) -> None:
    with contextlib.suppress(MessageUnreadable):
        read(KINDS[kind], body)


def test_alternatives_that_keep_failing_are_given_up() -> None:
    """Each level tries two alternatives that read to the end of the message before they fail."""

    def choices(depth: int) -> StructureMember:
        if not depth:
            return simple("N", "integer")
        inner = choices(depth - 1)
        ways = [group(name, inner, simple("Z", "integer"), separation=ALL, delimiter="*") for name in "XY"]
        return group("", *ways, composition=CHOICE, separation=FIXED)

    compiled = codec(choices(18), separation=FIXED)
    began = time.process_time()
    with pytest.raises(MessageTooComplex, match="failed so often"):
        read(compiled, "x" + "*2" * 18)
    assert time.process_time() - began < 5


def test_models_deeper_than_trees_are_refused() -> None:
    member = simple("A", length=1)
    for _ in range(450):
        member = group("G", member, separation=FIXED)
    with pytest.raises(ModelInvalid, match="nested"):
        codec(member, separation=FIXED)


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a*)*", "(a|a*)+", "([a-z]+[0-9]?)+x", "(\\d+)*\\d", "((a{1,20})b?){11,}", "(.*,?)*"]
)
def test_expressions_that_could_run_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="for ever"):
        compile_safe(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "[A-Z]{3}[0-9]+",
        "([A-Z]+,)*",
        "(?:/[A-Z0-9]{1,8})*",
        "(\\r\\n.{1,35}){0,3}",
        "a*b*c*",
        "([0-9]{1,3}){1,4}",
        "(?:ab)+",
    ],
)
def test_harmless_expressions_are_accepted(pattern: str) -> None:
    assert compile_safe(pattern).pattern == pattern
