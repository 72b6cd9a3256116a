# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from entrepot.errors import ContentFilterSyntaxError, SelectorSyntaxError
from entrepot.message import Message
from entrepot.server.amqp.codec import Described, Symbol, decode_all
from entrepot.server.amqp.conditions import Refusal
from entrepot.server.amqp.filters import CONTENT_FILTER, Filters, read_filters

NAME = "apache.org:selector-filter:string"


@pytest.mark.parametrize("descriptor", [Symbol(NAME), 0x0000468C00000004])
def test_selector_is_heeded_and_told_back(descriptor: Any) -> None:
    _, _, criteria, heeded = read_filters({Symbol("mine"): Described(descriptor, "colour = 'red'")})
    assert criteria is not None
    assert criteria.matches(Message(b"", properties={"colour": "red"}))
    assert not criteria.matches(Message(b"", properties={"colour": "blue"}))
    assert decode_all(heeded) == {"mine": Described(NAME, "colour = 'red'")}


def test_other_filters_are_left_out_of_the_answer() -> None:
    assert read_filters(None) == Filters()
    assert read_filters({}) == Filters()
    assert read_filters({Symbol("no-local"): Described(0x0000468C00000003, [])}) == Filters()
    assert read_filters({Symbol("odd"): Described([], "colour = 'red'")}) == Filters()
    assert read_filters({Symbol("plain"): "colour = 'red'"}) == Filters()


def test_content_filter_is_for_topics() -> None:
    asked = {
        Symbol("jms-selector"): Described(0x0000468C00000004, "colour = 'red'"),
        Symbol("content"): Described(Symbol(CONTENT_FILTER), "xpath:/order[total > 100]"),
    }
    selector, content, _, heeded = read_filters(asked, topic=True)
    assert (selector, content) == ("colour = 'red'", "xpath:/order[total > 100]")
    assert decode_all(heeded) == {
        "jms-selector": Described(NAME, "colour = 'red'"),
        "content": Described(CONTENT_FILTER, "xpath:/order[total > 100]"),
    }
    assert decode_all(read_filters(asked).heeded) == {"jms-selector": Described(NAME, "colour = 'red'")}


def test_broken_content_filter() -> None:
    with pytest.raises(ContentFilterSyntaxError):
        read_filters({Symbol("a"): Described(CONTENT_FILTER, "xpath:/order[")}, topic=True)


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
