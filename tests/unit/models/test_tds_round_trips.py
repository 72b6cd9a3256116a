# SPDX-License-Identifier: Apache-2.0
"""Random models and random trees: what was written is read again as it was, for each separation and nested."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.models.logical import Separation, Structure, StructureMember, TdsField
from unit.models.tds_models import (
    ALL,
    ENCODED,
    FIXED,
    PATTERN,
    TAGGED,
    TAGGED_FIXED,
    VARIABLE,
    Tree,
    codec,
    group,
    read,
    simple,
    write,
)

WITH_TAGS = (TAGGED, TAGGED_FIXED, ENCODED)
LETTERS = "abcXYZ 019äé"
DELIMITERS = ("*", "+", ";", "|")
KINDS = ("string", "integer", "decimal", "boolean", "date")
SEEDS = st.integers(0, 2**32)
"""Models and trees are drawn from Python's own generator: strategies of strategies take too long."""


class Inventor:
    """Invents a model, and then trees for it."""

    def __init__(self, seed: int, alphabet: str) -> None:
        self.random = Random(seed)
        self.alphabet = alphabet

    def value(self, kind: str) -> Any:
        random = self.random
        if kind == "string":
            text = "".join(random.choices(self.alphabet, k=random.randint(1, 8)))
            # What begins or ends with padding loses it; that is no round trip's business.
            return text.strip() or "x"
        if kind == "integer":
            return random.randint(-9999, 9999)
        if kind == "decimal":
            return Decimal(random.randint(-9999, 9999)).scaleb(-2)
        if kind == "boolean":
            return random.random() < 0.5
        return date(1900, 1, 1) + timedelta(random.randint(0, 70_000))

    def body(self, depth: int, separation: Separation | None = None) -> tuple[list[StructureMember], dict[str, Any]]:
        random = self.random
        separation = separation or random.choice(list(Separation))
        said: dict[str, Any] = {"separation": separation}
        if separation in (TAGGED, ALL, VARIABLE):
            said["delimiter"] = DELIMITERS[depth]
        if separation in (ALL, VARIABLE):
            said["suppress_absent"] = random.choice(("never", "end"))
        if separation in WITH_TAGS:
            said |= random.choice(({"tag_separator": ":"}, {"tag_length": 3}))
        if separation is ENCODED:
            said |= {"encoded_length": 4, "encoded_extra": random.choice((0, 4))}
        # Indicator and terminator make every nested structure one that can be found and ended.
        said |= {"group_indicator": "<[{"[depth], "group_terminator": ">]}"[depth]}
        return [self.member(separation, depth, number) for number in range(random.randint(1, 5))], said

    def member(self, separation: Separation, depth: int, number: int) -> StructureMember:
        random = self.random
        name = f"N{depth}{number}"
        said: dict[str, Any] = {"tag": f"t{depth}{number}"} if separation in WITH_TAGS else {}
        if depth < 2 and separation is not PATTERN and random.random() < 0.4:
            inner, inner_said = self.body(depth + 1)
            # All indicators of a level are the same: without tag or delimiter nothing tells which one is absent.
            least = random.randint(0, 1) if separation in (*WITH_TAGS, ALL) else 1
            return group(name, *inner, least=least, **said, **inner_said)
        if separation is PATTERN:
            return simple(name, least=random.randint(0, 1), pattern=f"{number}=[a-z]+;")
        kind, most = random.choice(KINDS), random.choice((1, 1, 3))
        if separation in (FIXED, TAGGED_FIXED) or (separation is VARIABLE and random.random() < 0.5):
            said |= {"length": 10}
            if kind in ("integer", "decimal"):
                said |= {"justify": "right", "padding": "0"}
        # Without a tag, only a fixed number or a delimiter of its own says how many there are.
        least = most
        if separation in WITH_TAGS or "length" not in said:
            least = random.randint(0, most)
        if separation not in WITH_TAGS and most > 1 and "length" not in said:
            said["repeat_delimiter"] = "~"
        return simple(name, kind, least=least, most=most, **said)

    def tree(self, members: Iterable[StructureMember]) -> Tree:
        random = self.random
        tree: Tree = []
        for member in members:
            assert member.max_occurs is not None
            for _ in range(random.randint(member.min_occurs, member.max_occurs)):
                content = member.content
                if isinstance(content, Structure):
                    tree.append((member.name, self.tree(content.members)))
                    continue
                field = member.physical["T"]
                assert isinstance(field, TdsField)
                if field.pattern:
                    tree.append((member.name, f"{member.name[-1]}={random.choice(('a', 'bc', 'xyz'))};"))
                else:
                    tree.append((member.name, self.value(content.type.value)))
        return tree


@pytest.mark.parametrize("separation", list(Separation))
@given(seed=SEEDS)
@settings(max_examples=40)
def test_what_was_written_is_read_again(separation: Separation, seed: int) -> None:
    inventor = Inventor(seed, LETTERS)
    members, said = inventor.body(0, separation)
    compiled = codec(*members, **said)
    for _ in range(3):
        tree = inventor.tree(members)
        written = write(compiled, tree)
        assert read(compiled, written) == tree
        assert write(compiled, read(compiled, written)) == written


@pytest.mark.parametrize("tds", [{"escape": "?"}, {"quote": '"'}, {"escape": "?", "quote": '"'}])
@given(seed=SEEDS)
@settings(max_examples=40)
def test_data_may_have_every_delimiter_when_it_can_be_hidden(tds: dict[str, str], seed: int) -> None:
    inventor = Inventor(seed, 'a*+;|~:<>[]{}?"')
    members, said = inventor.body(0, inventor.random.choice((ALL, TAGGED)))
    compiled = codec(*members, tds=tds, **said)
    tree = inventor.tree(members)
    assert read(compiled, write(compiled, tree)) == tree


@given(
    st.lists(st.text(st.sampled_from("ab*"), min_size=1, max_size=6), min_size=3, max_size=3),
    st.sampled_from(("**", "*a", "*a*", "ab", "***")),
)
@settings(max_examples=100)
def test_delimiters_of_several_characters_never_overlap_with_data(found: list[str], delimiter: str) -> None:
    compiled = codec(simple("A"), simple("B"), simple("C"), separation=ALL, delimiter=delimiter, tds={"escape": "?"})
    tree: Tree = list(zip("ABC", found, strict=True))
    assert read(compiled, write(compiled, tree)) == tree


@given(st.lists(st.sampled_from("ABCDE"), unique=True, min_size=1))
def test_tagged_elements_keep_the_order_they_came_in(order: list[str]) -> None:
    compiled = codec(*(simple(name, tag=name, least=0) for name in "ABCDE"), separation=TAGGED, delimiter=";",
                     tag_separator="=")  # fmt: skip
    body = ";".join(f"{name}={number}" for number, name in enumerate(order)).encode()
    assert write(compiled, read(compiled, body)) == body


@given(st.decimals(-(10**9), 10**9, places=3), st.sampled_from((".", ",")))
def test_decimals_keep_value_and_scale(value: Decimal, point: str) -> None:
    compiled = codec(simple("V", "decimal"), separation=ALL, delimiter=";", tds={"decimal_point": point})
    ((_, found),) = read(compiled, write(compiled, [("V", value)]))
    assert found == value
    assert found.as_tuple() == value.as_tuple() or value == 0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_read_as_they_were(value: float) -> None:
    compiled = codec(simple("V", "float"), separation=ALL, delimiter=";")
    assert read(compiled, write(compiled, [("V", value)])) == [("V", value)]
