# SPDX-License-Identifier: Apache-2.0
"""Who has subscribed to a topic, found without asking every subscription.

Patterns of levels share a tree, in which a topic goes along several branches
at a time: the one of its level, that of `+`, and those of `#`, which it may
leave or stay in. Patterns of characters with wildcards are found by what
comes before the first wildcard; only those that begin like the topic are
tried. How many others there are makes no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from itertools import count
from typing import Generic, TypeVar

from entrepot.engine.topics.level_steps import ANY, ONE, levels_of
from entrepot.engine.topics.topic_string import TopicPattern

T = TypeVar("T", bound=Hashable)


class _Branch(Generic[T]):
    """One level of patterns. There can be a great many of them, so what is not needed is not made."""

    __slots__ = ("after_any", "after_one", "children", "is_any", "items")

    def __init__(self, is_any: bool = False) -> None:
        self.is_any = is_any
        self.children: dict[str, _Branch[T]] | None = None
        self.after_one: _Branch[T] | None = None
        self.after_any: _Branch[T] | None = None
        self.items: dict[T, int] | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.items or self.children or self.after_one or self.after_any)

    def next(self, level: str, is_wild: bool) -> _Branch[T] | None:
        if not is_wild:
            return self.children.get(level) if self.children else None
        return self.after_one if level == ONE else self.after_any

    def grow(self, level: str, is_wild: bool) -> _Branch[T]:
        branch = self.next(level, is_wild)
        if branch is not None:
            return branch
        branch = _Branch(is_wild and level == ANY)
        if not is_wild:
            if self.children is None:
                self.children = {}
            self.children[level] = branch
        elif level == ONE:
            self.after_one = branch
        else:
            self.after_any = branch
        return branch

    def cut(self, level: str, is_wild: bool) -> None:
        if is_wild:
            if level == ONE:
                self.after_one = None
            else:
                self.after_any = None
        elif self.children:
            del self.children[level]
            self.children = self.children or None


class TopicTree(Generic[T]):
    """Items by pattern, such as subscriptions.

    The time of `match` depends on the levels of the topic and on the patterns
    that begin like it, never on how many patterns there are.
    """

    __slots__ = ("_lengths", "_numbers", "_pairs", "_prefixes", "_root")

    def __init__(self) -> None:
        self._root: _Branch[T] = _Branch()
        self._prefixes: dict[str, dict[TopicPattern, dict[T, int]]] = {}
        self._lengths: Counter[int] = Counter()
        self._numbers = count()
        self._pairs = 0

    def __len__(self) -> int:
        """How many pairs of pattern and item there are."""
        return self._pairs

    def add(self, pattern: TopicPattern, item: T) -> None:
        """Let `match` find `item` for every topic that the pattern matches. Adding it twice is adding it once."""
        items = self._items_to_fill(pattern)
        if item not in items:
            items[item] = next(self._numbers)
            self._pairs += 1

    def remove(self, pattern: TopicPattern, item: T) -> None:
        """Undo `add`; without one, nothing happens."""
        if pattern.expression is not None:
            self._remove_by_prefix(pattern, item)
            return
        way = self._way_of(pattern)
        items = way[-1].items if len(way) > len(pattern.levels) else None
        if not items or item not in items:
            return
        del items[item]
        self._pairs -= 1
        way[-1].items = items or None
        steps = list(_steps_of(pattern))
        while steps and way.pop().is_empty:
            way[-1].cut(*steps.pop())

    def match(self, topic: str) -> list[T]:
        """The items whose patterns match, each once, in the order in which they were added."""
        numbers: dict[T, int] = {}
        for items in self._items_for(topic):
            for item, number in items.items():
                if number < numbers.get(item, number + 1):
                    numbers[item] = number
        return sorted(numbers, key=numbers.__getitem__)

    def _items_for(self, topic: str) -> Iterator[dict[T, int]]:
        *_, last = self._branches_along(topic)
        for branch in last:
            if branch.items:
                yield branch.items
        for length in self._lengths:
            # A slice of a topic that is shorter than that is the topic, and would be found twice.
            if length <= len(topic):
                for pattern, items in self._prefixes.get(topic[:length], {}).items():
                    if pattern.matches(topic):
                        yield items

    def _branches_along(self, topic: str) -> Iterator[Iterable[_Branch[T]]]:
        """The branches that a topic has reached before its first level and after each."""
        reached = _with_empty_rests([self._root])
        yield reached
        for level in levels_of(topic):
            following: list[_Branch[T]] = []
            for branch in reached:
                if branch.is_any:
                    following.append(branch)
                if branch.after_one:
                    following.append(branch.after_one)
                if branch.children and (child := branch.children.get(level)):
                    following.append(child)
            reached = _with_empty_rests(following)
            yield reached

    def _items_to_fill(self, pattern: TopicPattern) -> dict[T, int]:
        if pattern.expression is not None:
            if pattern.literal not in self._prefixes:
                self._prefixes[pattern.literal] = {}
                self._lengths[len(pattern.literal)] += 1
            return self._prefixes[pattern.literal].setdefault(pattern, {})
        branch = self._root
        for level, is_wild in _steps_of(pattern):
            branch = branch.grow(level, is_wild)
        if branch.items is None:
            branch.items = {}
        return branch.items

    def _way_of(self, pattern: TopicPattern) -> list[_Branch[T]]:
        """The branches of a pattern from the root on, as far as they are there."""
        way = [self._root]
        for level, is_wild in _steps_of(pattern):
            branch = way[-1].next(level, is_wild)
            if branch is None:
                break
            way.append(branch)
        return way

    def _remove_by_prefix(self, pattern: TopicPattern, item: T) -> None:
        patterns = self._prefixes.get(pattern.literal, {})
        items = patterns.get(pattern, {})
        if item not in items:
            return
        del items[item]
        self._pairs -= 1
        if not items:
            del patterns[pattern]
        if not patterns:
            del self._prefixes[pattern.literal]
            self._lengths[len(pattern.literal)] -= 1
            self._lengths += Counter()  # drops lengths that nobody has any more


def _steps_of(pattern: TopicPattern) -> Iterator[tuple[str, bool]]:
    """The levels of a pattern, each with whether it is a wildcard: in scheme CHAR, `+` is a name like any other."""
    for level in pattern.levels:
        yield level, pattern.scheme == "TOPIC" and level in (ONE, ANY)


def _with_empty_rests(branches: list[_Branch[T]]) -> Iterable[_Branch[T]]:
    # `#` stands for no level too, so whoever is before it is also behind it. A
    # dictionary keeps each branch once: two ways lead to it when `#` is repeated.
    reached = dict.fromkeys(branches)
    for branch in branches:
        rest = branch.after_any
        while rest is not None and rest not in reached:
            reached[rest] = None
            rest = rest.after_any
    return reached
