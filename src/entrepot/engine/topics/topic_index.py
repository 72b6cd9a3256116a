# SPDX-License-Identifier: Apache-2.0
"""Values by topic, found one by one, by pattern, or along the way from the root.

Retained publications are kept like this, and topic objects, whose attributes
are inherited from level to level. The root is the topic "", which only topic
objects know: nobody can publish to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from entrepot.engine.topics.level_steps import (
    Levels,
    Positions,
    first_positions,
    is_at_end,
    levels_of,
    next_positions,
    wanted_levels,
)
from entrepot.engine.topics.topic_string import TopicPattern

T = TypeVar("T")

_NOTHING: Any = object()
"""The value of a level that has none; None can be a value."""


class _Level(Generic[T]):
    __slots__ = ("children", "value")

    def __init__(self) -> None:
        self.children: dict[str, _Level[T]] | None = None
        self.value: T = _NOTHING


class TopicIndex(Generic[T]):
    """Values by topic. While somebody goes through `find` or all of it, it must not be changed."""

    __slots__ = ("_length", "_root")

    def __init__(self) -> None:
        self._root: _Level[T] = _Level()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return _all_below((), self._root)

    def set(self, topic: str, value: T) -> None:
        """Keep `value` for `topic`, in place of what it had."""
        level = self._root
        for name in levels_of(topic):
            if level.children is None:
                level.children = {}
            if name not in level.children:
                level.children[name] = _Level()
            level = level.children[name]
        self._length += level.value is _NOTHING
        level.value = value

    def get(self, topic: str) -> T | None:
        """The value of exactly this topic."""
        level = self._level_at(levels_of(topic))
        return None if level is None or level.value is _NOTHING else level.value

    def remove(self, topic: str) -> None:
        """Forget the value of exactly this topic; if it has none, nothing happens."""
        names = levels_of(topic)
        way = list(self._levels_along(names))
        if len(way) <= len(names) or way[-1].value is _NOTHING:
            return
        way[-1].value = _NOTHING
        self._length -= 1
        for name, parent, level in zip(reversed(names), reversed(way[:-1]), reversed(way[1:]), strict=True):
            if level.children or level.value is not _NOTHING:
                break
            assert parent.children is not None
            del parent.children[name]

    def find(self, pattern: TopicPattern) -> Iterator[tuple[str, T]]:
        """The topics that match a pattern, with their values, without a look at levels that cannot match."""
        if not pattern.is_wild:
            return self._find_one(pattern.literal)
        if pattern.expression is not None:
            return self._find_by_characters(pattern)
        return self._find_by_levels(pattern.levels)

    def way_to(self, topic: str) -> list[T]:
        """The values from the root down to the topic itself, of those that have one: the last is the nearest."""
        return [level.value for level in self._levels_along(levels_of(topic)) if level.value is not _NOTHING]

    def _find_one(self, topic: str) -> Iterator[tuple[str, T]]:
        level = self._level_at(levels_of(topic))
        if level is not None and level.value is not _NOTHING:
            yield topic, level.value

    def _find_by_characters(self, pattern: TopicPattern) -> Iterator[tuple[str, T]]:
        above = self._level_at(pattern.levels)
        if above is not None:
            for topic, value in _all_below(pattern.levels, above):
                if pattern.matches(topic):
                    yield topic, value

    def _find_by_levels(self, wanted: Levels) -> Iterator[tuple[str, T]]:
        root: tuple[Levels, _Level[T], Positions] = ((), self._root, first_positions(wanted))
        waiting = [root]
        while waiting:
            names, level, positions = waiting.pop()
            if level.value is not _NOTHING and is_at_end(wanted, positions):
                yield "/".join(names), level.value
            children = level.children or {}
            choice = wanted_levels(wanted, positions)
            waiting.extend(
                ((*names, name), children[name], following)
                for name in (children if choice is None else choice & children.keys())
                if (following := next_positions(wanted, positions, name))
            )

    def _level_at(self, names: Levels) -> _Level[T] | None:
        way = list(self._levels_along(names))
        return way[-1] if len(way) > len(names) else None

    def _levels_along(self, names: Levels) -> Iterator[_Level[T]]:
        """The root and what is below it on the way to a topic, as far as it is there."""
        level = self._root
        yield level
        for name in names:
            if not level.children or name not in level.children:
                return
            level = level.children[name]
            yield level


def _all_below(names: Levels, level: _Level[T]) -> Iterator[tuple[str, T]]:
    """A level and all that is below it, with a list of our own instead of recursion, as topics can be deep."""
    waiting = [(names, level)]
    while waiting:
        names, level = waiting.pop()
        if level.value is not _NOTHING:
            yield "/".join(names), level.value
        for name, child in (level.children or {}).items():
            waiting.append(((*names, name), child))
