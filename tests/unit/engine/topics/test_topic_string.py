# SPDX-License-Identifier: Apache-2.0
"""What a topic is, what a pattern is, and which of them go together."""

from __future__ import annotations

import pickle
import time

import pytest

from entrepot.engine.topics import TOPIC_CHARACTERS_MAX, TOPIC_LEVELS_MAX, from_style, parse_pattern, require_topic
from entrepot.errors import InvalidTopic
from folding import for_each

DEEPEST = "/".join("a" * TOPIC_LEVELS_MAX)


@for_each(
    "topic",
    ["a", "/", "/a", "a/", "a//b", "a+b/c#", "++/##", "a b", "a*/?%", "größe/€", "x" * TOPIC_CHARACTERS_MAX, DEEPEST],
)
def test_topics_one_can_publish_to(topic: str) -> None:
    assert require_topic(topic) == topic
    assert parse_pattern(topic).matches(topic)


@for_each(
    "topic, column, word",
    [
        (None, 1, "NoneType"),
        (b"a", 1, "bytes"),
        ("", 1, "at least one"),
        ("x" * (TOPIC_CHARACTERS_MAX + 1), TOPIC_CHARACTERS_MAX + 1, "at most 10240"),
        ("a\x00b", 2, "U+0000"),
        ("ab\n", 3, "U+000A"),
        ("a/\x7f", 3, "U+007F"),
        ("a\x85", 2, "U+0085"),
        ("a\ud800", 2, "U+D800"),
        ("+", 1, "+ alone"),
        ("#", 1, "# alone"),
        ("a/+", 3, "+ alone"),
        ("ab/#/c/+", 4, "# alone"),
        ("/+", 2, "+ alone"),
        ("a+/b/+/\x00", 6, "+ alone"),
        ("\x00/+", 1, "U+0000"),
        (DEEPEST + "/b", 2 * TOPIC_LEVELS_MAX + 1, "at most 100 levels"),
        ("/" * TOPIC_LEVELS_MAX, TOPIC_LEVELS_MAX + 1, "at most 100 levels"),
        ("+/" + DEEPEST, 1, "+ alone"),
    ],
)
def test_the_first_thing_wrong_with_a_topic_is_named_with_its_column(topic: object, column: int, word: str) -> None:
    with pytest.raises(InvalidTopic) as caught:
        require_topic(topic)
    assert caught.value.column == column
    assert word in caught.value.problem
    assert len(caught.value.topic) <= TOPIC_CHARACTERS_MAX


@for_each(
    "text, scheme, column",
    [
        (7, "TOPIC", 1),
        ("", "TOPIC", 1),
        ("", "CHAR", 1),
        ("a/#\t", "TOPIC", 4),
        ("a*\t", "CHAR", 3),
        ("*" * (TOPIC_CHARACTERS_MAX + 1), "CHAR", TOPIC_CHARACTERS_MAX + 1),
        ("+/" * TOPIC_LEVELS_MAX, "TOPIC", 2 * TOPIC_LEVELS_MAX + 1),
        ("ab%", "CHAR", 3),
        ("%%%a", "CHAR", 3),
        ("a%", "CHAR", 2),
        ("a%%b%c*", "CHAR", 5),
        ("a", "char", 1),
        ("a", "", 1),
    ],
)
def test_a_pattern_that_cannot_be_understood_is_refused_with_its_column(text: object, scheme: str, column: int) -> None:
    with pytest.raises(InvalidTopic) as caught:
        parse_pattern(text, scheme)
    assert caught.value.column == column


@for_each(
    "pattern, matching, others",
    [
        ("a", ["a"], ["b", "a/", "/a", "A", ""]),
        ("+", ["a", "b"], ["a/b", "/a", ""]),
        ("#", ["a", "a/b", "/", "//", ""], []),
        ("a/#", ["a", "a/", "a/b", "a/b/c"], ["ab", "b", "/a", ""]),
        ("#/a", ["a", "/a", "b/a", "b/c/a", "a/a"], ["a/", "a/b", "ba"]),
        ("a/#/b", ["a/b", "a//b", "a/x/b", "a/b/b", "a/x/y/b"], ["a", "b", "a/b/c", "ab"]),
        ("a/+/b", ["a/x/b", "a//b", "a/+/b"], ["a/b", "a/x/y/b"]),
        ("+/+", ["/", "a/b", "/a"], ["a", "a/b/c"]),
        ("#/+", ["a", "a/b", "/"], [""]),
        ("a/#/#", ["a", "a/b"], ["b"]),
        ("/#", ["/", "/a", "/a/b"], ["a", ""]),
        ("a+/b#", ["a+/b#"], ["ax/b", "a+/b"]),
        ("a/*", ["a/*"], ["a/b"]),
    ],
)
def test_wildcards_for_levels(pattern: str, matching: list[str], others: list[str]) -> None:
    parsed = parse_pattern(pattern)
    assert [topic for topic in matching + others if parsed.matches(topic)] == matching


@for_each(
    "pattern, matching, others",
    [
        ("*", ["a", "a/b", "/"], []),
        ("a/*", ["a/", "a/b", "a/b/c"], ["a", "ab"]),
        ("a*", ["a", "ab", "a/b"], ["ba"]),
        ("*a", ["a", "b/a", "aa"], ["ab"]),
        ("a?c", ["abc", "a/c", "a?c"], ["ac", "abbc"]),
        ("?", ["a", "/"], ["", "ab"]),
        ("a*b*c", ["abc", "a/b/c", "abbc", "abcbc"], ["acb", "ab", "abcd"]),
        ("*a?b*", ["acb", "xacby", "aacb"], ["ab", "a"]),
        ("*ab?", ["abc", "ababc"], ["ab"]),
        ("a%*b", ["a*b"], ["axb", "a%*b"]),
        ("a%?%%*", ["a?%", "a?%x"], ["ab%"]),
        ("a/+/#", ["a/+/#"], ["a/b/c"]),
        ("a.b(*", ["a.b(", "a.b(c"], ["axb("]),
    ],
)
def test_wildcards_for_characters(pattern: str, matching: list[str], others: list[str]) -> None:
    parsed = parse_pattern(pattern, "CHAR")
    assert [topic for topic in matching + others if parsed.matches(topic)] == matching


@for_each(
    "text, scheme, levels, first_wild, is_wild",
    [
        ("a/b", "TOPIC", ("a", "b"), 2, False),
        ("a/+/b", "TOPIC", ("a", "+", "b"), 1, True),
        ("#", "TOPIC", ("#",), 0, True),
        ("/#", "TOPIC", ("", "#"), 1, True),
        ("a/b", "CHAR", ("a", "b"), 2, False),
        ("a/b*", "CHAR", ("a",), 1, True),
        ("a/b/?", "CHAR", ("a", "b"), 2, True),
        ("*", "CHAR", (), 0, True),
        ("/*", "CHAR", ("",), 1, True),
        ("a%*/?", "CHAR", ("a*",), 1, True),
        ("a%*", "CHAR", ("a*",), 1, False),
    ],
)
def test_a_pattern_tells_its_levels(
    text: str, scheme: str, levels: tuple[str, ...], first_wild: int, is_wild: bool
) -> None:
    pattern = parse_pattern(text, scheme)
    assert (pattern.text, pattern.scheme) == (text, scheme)
    assert (pattern.levels, pattern.first_wild_level, pattern.is_wild) == (levels, first_wild, is_wild)


@pytest.mark.parametrize("text, scheme", [("a/+/#", "TOPIC"), ("a", "TOPIC"), ("a*b?", "CHAR")])
def test_patterns_are_equal_hash_and_pickle(text: str, scheme: str) -> None:
    pattern = parse_pattern(text, scheme)
    assert {pattern, parse_pattern(text, scheme), pickle.loads(pickle.dumps(pattern))} == {pattern}
    assert parse_pattern("a", "TOPIC") != parse_pattern("a", "CHAR")


def test_many_any_number_wildcards_do_not_explode() -> None:
    topic = "/".join("a" * TOPIC_LEVELS_MAX)
    begun = time.process_time()
    assert parse_pattern("#/a/" * 49 + "#").matches(topic)
    assert not parse_pattern("#/a/" * 49 + "b").matches(topic)
    # Trying every way would take longer than the universe has been there.
    assert time.process_time() - begun < 5


def test_many_stars_do_not_explode() -> None:
    begun = time.process_time()
    assert not parse_pattern("*a" * 2_000 + "*b", "CHAR").matches("a" * TOPIC_CHARACTERS_MAX)
    assert parse_pattern("*a" * 2_000 + "*", "CHAR").matches("a" * TOPIC_CHARACTERS_MAX)
    assert time.process_time() - begun < 5


@for_each(
    "style, text, ours",
    [
        ("mq", "a/+/#", "a/+/#"),
        ("mq", "a.b", "a.b"),
        ("jms", "a.b.c", "a/b/c"),
        ("jms", "a.*.c", "a/+/c"),
        ("jms", "a.#", "a/#"),
        ("jms", "a.>", "a/#"),
        ("jms", "#.b", "#/b"),
        ("jms", "a*.b>", "a*/b>"),
        ("jms", "a..b", "a//b"),
        ("tibco", "a.b", "a/b"),
        ("tibco", "a.*.b", "a/+/b"),
        ("tibco", "a.>", "a/+/#"),
        ("tibco", ">", "+/#"),
    ],
)
def test_patterns_of_other_brokers(style: str, text: str, ours: str) -> None:
    assert from_style(text, style) == ours


@for_each(
    "style, text, column",
    [
        ("jms", "a/b", 2),
        ("tibco", "ab.c/d", 5),
        ("jms", "a.+", 3),
        ("tibco", "a.b.+", 5),
        ("tibco", "#", 1),
        ("tibco", "a.>.b", 3),
        ("tibco", "a.>.b/c", 3),
        ("kafka", "a", 1),
    ],
)
def test_what_would_change_its_meaning_is_refused(style: str, text: str, column: int) -> None:
    with pytest.raises(InvalidTopic) as caught:
        from_style(text, style)
    assert caught.value.column == column


def test_tibco_rest_has_at_least_one_level() -> None:
    pattern = parse_pattern(from_style("a.>", "tibco"))
    assert pattern.matches("a/b") and pattern.matches("a/b/c") and not pattern.matches("a")
