# SPDX-License-Identifier: Apache-2.0
"""Values by topic: one by one, by pattern, and along the way from the root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.topics import TopicIndex, TopicPattern, parse_pattern
from unit.engine.topics.random_topics import patterns, topics


def index_of(*values: str) -> TopicIndex[str]:
    index: TopicIndex[str] = TopicIndex()
    for topic in values:
        index.set(topic, topic.upper())
    return index


@given(st.dictionaries(topics | st.just(""), st.integers()), st.lists(topics), patterns)
def test_find_agrees_with_asking_for_every_topic(
    values: dict[str, int], removed: list[str], pattern: TopicPattern
) -> None:
    index: TopicIndex[int] = TopicIndex()
    for topic, value in values.items():
        index.set(topic, value)
    for topic in removed:
        index.remove(topic)
        values.pop(topic, None)
    found = list(index.find(pattern))
    assert sorted(found) == sorted((topic, value) for topic, value in values.items() if pattern.matches(topic))
    assert sorted(index) == sorted(values.items())
    assert len(index) == len(values)


@given(st.dictionaries(topics | st.just(""), st.integers()), topics)
def test_the_way_to_a_topic_has_its_ancestors_in_order(values: dict[str, int], topic: str) -> None:
    index: TopicIndex[int] = TopicIndex()
    for each, value in values.items():
        index.set(each, value)
    levels = topic.split("/")
    ancestors = ["", *("/".join(levels[:depth]) for depth in range(1, len(levels) + 1))]
    assert index.way_to(topic) == [values[each] for each in dict.fromkeys(ancestors) if each in values]


@given(st.lists(topics | st.just("")))
def test_what_is_removed_leaves_nothing_behind(added: list[str]) -> None:
    index = index_of(*added)
    for topic in added:
        index.remove(topic)
    assert len(index) == 0
    assert not index._root.children


def test_a_topic_has_the_value_it_was_given_last() -> None:
    index = index_of("a/b")
    index.set("a/b", "newer")
    assert index.get("a/b") == "newer"
    assert len(index) == 1
    assert [index.get(topic) for topic in ("a", "a/b/c", "b", "")] == [None] * 4


def test_none_is_a_value_too() -> None:
    index: TopicIndex[None] = TopicIndex()
    index.set("a", None)
    assert list(index) == [("a", None)]
    assert index.way_to("a/b") == [None]
    assert len(index) == 1


def test_removing_what_is_not_there_does_nothing() -> None:
    index = index_of("a/b")
    for topic in ("a", "a/b/c", "c", ""):
        index.remove(topic)
    assert list(index) == [("a/b", "A/B")]


def test_the_root_is_above_every_topic() -> None:
    index = index_of("", "price", "price/metal/gold")
    assert index.way_to("price/metal/gold/today") == ["", "PRICE", "PRICE/METAL/GOLD"]
    assert index.way_to("/price") == [""]
    assert index.way_to("") == [""]
    assert index.get("") == ""


@pytest.mark.parametrize(
    "text, scheme, visited_max",
    [("price/7/gold", "TOPIC", 3), ("price/7/+", "TOPIC", 10), ("price/7/*", "CHAR", 10), ("none/#", "TOPIC", 3)],
)
def test_find_looks_only_where_something_can_match(
    text: str, scheme: str, visited_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = index_of(*(f"price/{number}/{metal}" for number in range(1_000) for metal in ("gold", "tin")))
    visited = 0

    class CountedLevels(dict[str, object]):
        def __getitem__(self, name: str) -> object:
            nonlocal visited
            visited += 1
            return super().__getitem__(name)

        def items(self):  # type: ignore[no-untyped-def]
            nonlocal visited
            visited += len(self)
            return super().items()

    waiting = [index._root]
    while waiting:
        level = waiting.pop()
        if level.children:
            waiting.extend(level.children.values())
            level.children = CountedLevels(level.children)  # type: ignore[assignment]
    pattern = parse_pattern(text, scheme)
    found = list(index.find(pattern))
    assert visited <= visited_max
    assert sorted(found) == sorted((topic, value) for topic, value in index if pattern.matches(topic))


def test_many_any_number_wildcards_do_not_explode() -> None:
    topic = "/".join("a" * 100)
    index = index_of(topic)
    assert [found for found, _ in index.find(parse_pattern("#/a/" * 49 + "#"))] == [topic]
    assert list(index.find(parse_pattern("#/a/" * 49 + "b"))) == []
