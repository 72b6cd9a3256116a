# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from entrepot.amqp.codec import Described, Symbol, decode_all
from entrepot.amqp.conditions import Refusal
from entrepot.amqp.filters import read_filters
from entrepot.errors import SelectorSyntaxError
from entrepot.message import Message

NAME = "apache.org:selector-filter:string"


@pytest.mark.parametrize("descriptor", [Symbol(NAME), 0x0000468C00000004])
def test_selector_is_heeded_and_told_back(descriptor: Any) -> None:
    criteria, heeded = read_filters({Symbol("mine"): Described(descriptor, "colour = 'red'")})
    assert criteria is not None
    assert criteria.matches(Message(b"", properties={"colour": "red"}))
    assert not criteria.matches(Message(b"", properties={"colour": "blue"}))
    assert heeded is not None
    assert decode_all(heeded) == {"mine": Described(NAME, "colour = 'red'")}


def test_other_filters_are_left_out_of_the_answer() -> None:
    assert read_filters(None) == (None, None)
    assert read_filters({}) == (None, None)
    assert read_filters({Symbol("no-local"): Described(0x0000468C00000003, [])}) == (None, None)
    assert read_filters({Symbol("plain"): "colour = 'red'"}) == (None, None)


@pytest.mark.parametrize(
    "filters",
    [
        5,
        {Symbol("a"): Described(NAME, 5)},
        {"Ä": Described(NAME, "a = 1")},
        {5: Described(NAME, "a = 1")},
        {Symbol(each): Described(NAME, "a = 1") for each in ("a", "b")},
    ],
    ids=["no map", "no text", "no symbol", "no name", "two"],
)
def test_filters_that_cannot_be(filters: Any) -> None:
    with pytest.raises(Refusal) as caught:
        read_filters(filters)
    assert caught.value.condition == "amqp:invalid-field"


def test_broken_selector() -> None:
    with pytest.raises(SelectorSyntaxError):
        read_filters({Symbol("a"): Described(NAME, "a =")})
