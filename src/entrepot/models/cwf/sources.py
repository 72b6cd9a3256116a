# SPDX-License-Identifier: Apache-2.0
"""The children of an element while they are being written: each is taken once, by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from entrepot.models.tree import Element


class _Missing:
    """The value of an element that is not there; NULL is a value."""

    def __repr__(self) -> str:
        return "missing"


MISSING: Final[Any] = _Missing()


class Children:
    """Elements by name, in the order in which they come for each name."""

    __slots__ = ("_left",)

    def __init__(self, children: Sequence[Element]) -> None:
        left: dict[str, list[Element]] = {}
        # From the last to the first, so that taking the first one is a pop.
        for child in reversed(children):
            if child.key in left:
                left[child.key].append(child)
            else:
                left[child.key] = [child]
        self._left = left

    def values(self, names: list[str]) -> list[Any]:
        """The value of the next element of each name."""
        left = self._left
        return [left[name].pop().value if left.get(name) else MISSING for name in names]

    def one(self, name: str) -> Element | None:
        """The next element of that name."""
        left = self._left.get(name)
        return left.pop() if left else None

    def up_to(self, name: str, most: int | None) -> list[Element]:
        """The next elements of that name, but not more than `most`."""
        left = self._left.get(name)
        if not left:
            return []
        if most is None or len(left) <= most:
            del self._left[name]
            left.reverse()
            return left
        taken = left[: -most - 1 : -1]
        del left[-most:]
        return taken

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether there is an element left of one of these names."""
        return any(left for name, left in self._left.items() if name in names)

    def left_over(self) -> str | None:
        """The name of an element that was not used."""
        return next((name for name, left in self._left.items() if left), None)
