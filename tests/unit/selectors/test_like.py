# SPDX-License-Identifier: Apache-2.0
"""LIKE, against a matcher that is too simple to be wrong, and against hostile patterns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.selectors.like import PatternError, compile_pattern
from folding import for_each


def naively_like(text: str, pattern: str, escape: str | None) -> bool:
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == escape:
        return text[:1] == rest[0] and naively_like(text[1:], rest[1:], escape)
    if head == "%":
        return any(naively_like(text[start:], rest, escape) for start in range(len(text) + 1))
    return bool(text) and head in ("_", text[0]) and naively_like(text[1:], rest, escape)


@for_each(
    "pattern, escape, text, result",
    [
        ("abc", None, "abc", True),
        ("abc", None, "ABC", False),
        ("", None, "", True),
        ("", None, "a", False),
        ("%", None, "", True),
        ("_", None, "", False),
        ("_", None, "\n", True),
        ("a%c", None, "a\nb\r\nc", True),
        ("a%a", None, "a", False),
        ("a%a", None, "aa", True),
        ("12%3", None, "12993", True),
        ("l_se", None, "loose", False),
        ("\\_%", "\\", "_foo", True),
        ("\\_%", "\\", "bar", False),
        ("100!%", "!", "100%", True),
        ("100!%", "!", "1000", False),
        ("a!!b", "!", "a!b", True),
        ("a%%%_", "%", "a%_", True),
        ("\\%", None, "\\x", True),
        ("[a-z].*", None, "[a-z].*", True),
        ("_", None, "\N{GRINNING FACE}", True),
        ("%a_c%e", None, "xxabaacde", True),
    ],
)
def test_pattern_matches_as_sql_says(pattern: str, escape: str | None, text: str, result: bool) -> None:
    assert compile_pattern(pattern, escape)(text) is result


PATTERN_PARTS = st.sampled_from(["a", "b", "%", "_", "%", "_", "!%", "!_", "!!"])


@settings(max_examples=500)
@given(st.lists(PATTERN_PARTS, max_size=8).map("".join), st.text("ab%_!\n", max_size=12))
def test_matcher_agrees_with_the_naive_one(pattern: str, text: str) -> None:
    assert compile_pattern(pattern, "!")(text) is naively_like(text, pattern, "!")


@given(st.lists(st.sampled_from("ab%_"), max_size=9).map("".join), st.text("ab", max_size=14))
def test_matcher_agrees_with_the_naive_one_without_escape(pattern: str, text: str) -> None:
    assert compile_pattern(pattern)(text) is naively_like(text, pattern, None)


@pytest.mark.parametrize("pattern, index", [("a!", 1), ("!a", 0), ("!!!", 2)])
def test_escape_before_anything_else_is_refused(pattern: str, index: int) -> None:
    with pytest.raises(PatternError) as refused:
        compile_pattern(pattern, "!")
    assert refused.value.index == index


@pytest.mark.parametrize(
    "pattern", ["%a" * 2000 + "%b%", "%a_a" * 1000 + "%b%", "%" + "a_" * 2000 + "b%", "%" * 4000 + "b%"]
)
def test_hostile_pattern_on_long_text_takes_steps_in_proportion_to_the_text(pattern: str) -> None:
    matches = compile_pattern(pattern)
    # Lines of Python that run are a measure that no slow machine disturbs; the
    # backtracking that this forbids would need more of them than there are atoms.
    steps_by_length = [_steps(matches, "a" * length) for length in (10_000, 20_000)]
    assert steps_by_length[1] <= 2.2 * steps_by_length[0] + 100
    assert steps_by_length[1] < 10 * 20_000


def _steps(matches: Callable[[str], bool], text: str) -> int:
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        assert matches(text) is False
    finally:
        sys.settrace(before)
    return steps
