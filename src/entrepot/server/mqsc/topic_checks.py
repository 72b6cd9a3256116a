# SPDX-License-Identifier: Apache-2.0
"""What DEFINE SUB has to say, checked as far as that goes without a queue manager."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.server.mqsc.parameters import ParsedParameters
from entrepot.server.mqsc.syntax import Position, Value
from entrepot.server.mqsc.topic_keywords import pattern_problem

OF_A_PROVIDED_QUEUE = {"DEST": "destination", "DESTQMGR": "destination_manager"}
"""What only a subscription says whose queue was there before it."""

Report = Callable[[Position, str], None]


def require_subscription(said: ParsedParameters, error: Report, at: Position) -> None:
    """Refuse what cannot become a subscription; `at` is where the noun stands.

    With LIKE the other subscription decides what is missing, so that waits
    until it is at hand.
    """
    changes, is_like = said.changes, "LIKE" in said.flags
    if not (is_like or changes.get("topic") or said.values.get("TOPICOBJ") or _is_wrong(said, "TOPICSTR", "TOPICOBJ")):
        error(at, "DEFINE SUB needs TOPICSTR or TOPICOBJ: the topics it is about")
    if changes.get("managed"):
        for keyword, field in OF_A_PROVIDED_QUEUE.items():
            if changes.get(field):
                error(said.places[keyword], f"{keyword} contradicts DESTCLAS(MANAGED): the queue is made for it")
    elif not (is_like or changes.get("destination") or _is_wrong(said, "DEST", "DESTCLAS")):
        error(at, "DEFINE SUB needs DEST, the queue for its publications, or DESTCLAS(MANAGED)")
    topics, scheme = changes.get("topic"), changes.get("wildcards", "" if is_like else "TOPIC")
    if topics and scheme and (problem := pattern_problem(topics, scheme)):
        error(said.value_places["TOPICSTR"], f"TOPICSTR, {problem}")


def topic_object(said: ParsedParameters) -> Value | None:
    """The topic object that TOPICOBJ names, at its place."""
    name = said.values.get("TOPICOBJ")
    return Value(name, said.value_places["TOPICOBJ"]) if name else None


def _is_wrong(said: ParsedParameters, *keywords: str) -> bool:
    """Whether one of these was said and could not be understood, which is an error already."""
    fields = {"TOPICSTR": "topic", "DEST": "destination", "DESTCLAS": "managed"}
    found = {keyword: said.changes.get(field) for keyword, field in fields.items()} | said.values
    return any(keyword in said.places and found.get(keyword) is None for keyword in keywords)
