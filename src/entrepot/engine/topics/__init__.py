# SPDX-License-Identifier: Apache-2.0
"""Topics: who wants a publication, told by its topic and by what it says.

    subscriptions.add(parse_pattern("price/+/#"), subscription)
    subscriptions.match("price/metal/gold")
    Content(body).matches(compile_filter("xpath:/order[total > 100]"))

topic_string.py knows what topics and patterns look like, and level_steps.py
how a pattern goes along a topic. topic_tree.py finds the patterns that match
a topic, topic_index.py the topics that match a pattern. content_filter.py
looks into bodies, in languages such as that of xpath.py, which asks
xpath_work.py how much work an expression makes. Nothing here does I/O.
"""

from __future__ import annotations

from entrepot.engine.topics.content_filter import Content, Filter, Language, compile_filter, register
from entrepot.engine.topics.topic_index import TopicIndex
from entrepot.engine.topics.topic_string import (
    TOPIC_CHARACTERS_MAX,
    TOPIC_LEVELS_MAX,
    Scheme,
    TopicPattern,
    from_style,
    parse_pattern,
    require_topic,
)
from entrepot.engine.topics.topic_tree import TopicTree

__all__ = [
    "TOPIC_CHARACTERS_MAX",
    "TOPIC_LEVELS_MAX",
    "Content",
    "Filter",
    "Language",
    "Scheme",
    "TopicIndex",
    "TopicPattern",
    "TopicTree",
    "compile_filter",
    "from_style",
    "parse_pattern",
    "register",
    "require_topic",
]
