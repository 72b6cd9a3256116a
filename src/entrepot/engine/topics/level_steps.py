# SPDX-License-Identifier: Apache-2.0
"""How a pattern with `+` and `#` goes along a topic, level by level.

A position is the number of the pattern's levels that are behind; a `#` can be
behind or not, so there are several positions at a time. Keeping the set of
them bounds the work by levels of the topic times levels of the pattern, where
trying one way after another through '#/a/#/a/#/a' would double it with each
`#`.
"""

from __future__ import annotations

from collections.abc import Iterable

ONE = "+"
ANY = "#"

Levels = tuple[str, ...]
Positions = frozenset[int]


def levels_of(topic: str) -> Levels:
    """The levels of a topic; the root, which is "", has none."""
    return tuple(topic.split("/")) if topic else ()


def first_positions(pattern: Levels) -> Positions:
    return _with_empty_rests(pattern, (0,))


def next_positions(pattern: Levels, positions: Positions, level: str) -> Positions:
    """Where the pattern can stand after one more level of the topic; nowhere when it cannot match any more."""
    following: list[int] = []
    for position in positions:
        if position == len(pattern):
            continue
        wanted = pattern[position]
        if wanted == ANY:
            following.append(position)
        elif wanted in (ONE, level):
            following.append(position + 1)
    return _with_empty_rests(pattern, following)


def is_at_end(pattern: Levels, positions: Positions) -> bool:
    return len(pattern) in positions


def wanted_levels(pattern: Levels, positions: Positions) -> set[str] | None:
    """The names that the next level can have, or None when it can have any."""
    wanted = {pattern[position] for position in positions if position < len(pattern)}
    return None if ONE in wanted or ANY in wanted else wanted


def _with_empty_rests(pattern: Levels, positions: Iterable[int]) -> Positions:
    # `#` stands for no level too, so whoever is before it is also behind it.
    reached = set(positions)
    for position in tuple(reached):
        behind = position
        while behind < len(pattern) and pattern[behind] == ANY:
            behind += 1
            reached.add(behind)
    return frozenset(reached)
