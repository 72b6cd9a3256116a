# SPDX-License-Identifier: Apache-2.0
"""Random topics and patterns with few letters, so that they meet often."""

from __future__ import annotations

from hypothesis import strategies as st

from entrepot.engine.topics import TopicPattern, parse_pattern

_level = st.sampled_from(["a", "b", "ab", ""])
topics = st.lists(_level, min_size=1, max_size=5).map("/".join).filter(bool)

_level_patterns = (
    st.lists(st.sampled_from(["a", "b", "ab", "", "+", "#"]), min_size=1, max_size=6)
    .map("/".join)
    .filter(bool)
    .map(parse_pattern)
)
_character_patterns = (
    st.lists(st.sampled_from(["a", "b", "/", "*", "?", "%%", "+"]), min_size=1, max_size=7)
    .map("".join)
    .map(lambda text: parse_pattern(text, "CHAR"))
)
patterns: st.SearchStrategy[TopicPattern] = _level_patterns | _character_patterns
