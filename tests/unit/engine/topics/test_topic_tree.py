# SPDX-License-Identifier: Apache-2.0
"""Subscriptions by pattern: the right ones, each once, and without a look at the others."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.topics import TopicPattern, TopicTree, parse_pattern
from unit.engine.topics.random_topics import patterns, topics


def branches_visited(tree: TopicTree[int], topic: str) -> int:
    return sum(len(list(reached)) for reached in tree._branches_along(topic))


@given(st.lists(st.tuples(patterns, st.integers(0, 5))), st.lists(st.integers(0, 30)), st.lists(topics, min_size=1))
def test_match_agrees_with_asking_every_pattern(
    added: list[tuple[TopicPattern, int]], removed: list[int], asked: list[str]
) -> None:
    tree: TopicTree[int] = TopicTree()
    pairs: dict[tuple[TopicPattern, int], None] = {}
    for pattern, item in added:
        tree.add(pattern, item)
        pairs.setdefault((pattern, item))
    for index in removed:
        if index < len(added):
            tree.remove(*added[index])
            pairs.pop(added[index], None)
    assert len(tree) == len(pairs)
    for topic in asked:
        assert tree.match(topic) == list(dict.fromkeys(item for pattern, item in pairs if pattern.matches(topic)))


@given(st.lists(st.tuples(patterns, st.integers(0, 5))))
def test_what_is_removed_leaves_nothing_behind(added: list[tuple[TopicPattern, int]]) -> None:
    tree: TopicTree[int] = TopicTree()
    for pattern, item in added:
        tree.add(pattern, item)
    for pattern, item in added:
        tree.remove(pattern, item)
    assert len(tree) == 0
    assert tree._root.is_empty and tree._root.children is None
    assert not tree._prefixes and not tree._lengths


def test_removing_what_is_not_there_does_nothing() -> None:
    tree: TopicTree[str] = TopicTree()
    tree.add(parse_pattern("a/b"), "one")
    for text, scheme, item in [("a/b", "TOPIC", "two"), ("a", "TOPIC", "one"), ("a/b/c", "TOPIC", "one")]:
        tree.remove(parse_pattern(text, scheme), item)
    tree.remove(parse_pattern("a*", "CHAR"), "one")
    assert tree.match("a/b") == ["one"]
    assert len(tree) == 1


def test_an_item_found_in_several_ways_comes_once_and_in_order() -> None:
    tree: TopicTree[str] = TopicTree()
    tree.add(parse_pattern("a/#"), "first")
    tree.add(parse_pattern("a/b"), "second")
    tree.add(parse_pattern("a*", "CHAR"), "first")
    tree.add(parse_pattern("#/b/#"), "first")
    tree.add(parse_pattern("#/#"), "third")
    assert tree.match("a/b") == ["first", "second", "third"]
    tree.remove(parse_pattern("a/#"), "first")
    assert tree.match("a/b") == ["second", "first", "third"]


def test_a_plus_among_characters_is_no_wildcard() -> None:
    tree: TopicTree[str] = TopicTree()
    tree.add(parse_pattern("a/+", "CHAR"), "characters")
    tree.add(parse_pattern("a/+", "TOPIC"), "levels")
    assert tree.match("a/b") == ["levels"]


def test_a_hundred_thousand_patterns_cost_a_match_no_more_than_ten() -> None:
    def visited(size: int) -> int:
        tree: TopicTree[int] = TopicTree()
        for number in range(size):
            shape = ("price/{}/#", "#/{}/gold", "{}/+/gold", "price/{}/gold", "+/{}")[number % 5]
            tree.add(parse_pattern(shape.format(number)), number)
        assert tree.match("price/0/silver") == [0]
        return branches_visited(tree, "price/0/silver")

    assert visited(100_000) == visited(10) <= 20


def test_patterns_of_characters_are_found_by_their_beginning() -> None:
    asked = 0

    class Counted(TopicPattern, frozen=True):
        def matches(self, topic: str) -> bool:
            nonlocal asked
            asked += 1
            return super().matches(topic)

    tree: TopicTree[int] = TopicTree()
    for number in range(20_000):
        pattern = parse_pattern(f"price.{number:05}.*", "CHAR")
        tree.add(
            Counted(*(getattr(pattern, field) for field in TopicPattern.__struct_fields__)),
            number,
        )
    assert tree.match("price.00042.gold") == [42]
    assert asked == 1


def test_a_pattern_takes_little_memory() -> None:
    parsed = [parse_pattern(f"price/{number}/+") for number in range(10_000)]
    tree: TopicTree[int] = TopicTree()
    tracemalloc.start()
    try:
        for pattern in parsed:
            tree.add(pattern, 0)
        bytes_per_pattern = tracemalloc.get_traced_memory()[0] / len(parsed)
    finally:
        tracemalloc.stop()
    assert bytes_per_pattern < 1_000


def test_many_any_number_wildcards_against_a_long_topic_visit_each_branch_once_a_level() -> None:
    tree: TopicTree[int] = TopicTree()
    tree.add(parse_pattern("#/a/" * 49 + "#"), 1)
    tree.add(parse_pattern("#/a/" * 49 + "b"), 2)
    topic = "/".join("a" * 100)
    assert tree.match(topic) == [1]
    assert branches_visited(tree, topic) <= 101 * 101
