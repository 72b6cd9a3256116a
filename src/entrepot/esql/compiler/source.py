# SPDX-License-Identifier: Apache-2.0
"""Python source as it is written: lines, their indentation, and which line of ESQL each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from entrepot.esql.syntax import SourcePlace

INDENT = "    "

Line = tuple[int, str, SourcePlace | None]
"""Depth, text, where it comes from."""


class PythonLines:
    """Lines in the making."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[Line] = []
        self.depth = depth
        self.place: SourcePlace | None = None

    def line(self, text: str) -> None:
        self.lines.append((self.depth, text, self.place))

    def extend(self, lines: list[Line]) -> None:
        """Lines made elsewhere, at the depth where we are."""
        self.lines.extend((self.depth + depth, text, place) for depth, text, place in lines)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What stands below a line that ends with a colon; `pass` when nothing does."""
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def text(self) -> str:
        return "".join(f"{INDENT * depth}{text}\n" for depth, text, _ in self.lines)
