# SPDX-License-Identifier: Apache-2.0
"""Python source as it is written: lines, their indentation, and which line of ESQL each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from entrepot.esql.syntax import SourcePlace

INDENT = "    "

Line = tuple[int, str, SourcePlace | None]
"""Depth, text, where it comes from."""


@dataclass(frozen=True, slots=True)
class Code:
    """An expression in Python, and what is known of its type."""

    text: str
    type: str = ""
    """An ESQL type; "" unknown, TREE an element or None, LIST a list."""


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


class RoutineLines:
    """The body of a routine, and the functions that have to stand before the statement whose expressions use them."""

    def __init__(self) -> None:
        self.body = PythonLines()
        self._preludes: list[list[Line]] = [[]]

    def prelude(self, lines: list[Line]) -> None:
        """A function that the next statement needs."""
        self._preludes[-1].extend(lines)

    def flush(self, source: PythonLines | None = None) -> None:
        """Write the functions that the next statement needs."""
        (source or self.body).extend(self._preludes[-1])
        self._preludes[-1].clear()

    def statement(self, text: str) -> None:
        """A line of a statement, after the functions that its expressions need."""
        self.flush()
        self.body.line(text)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Inside of a function that is itself such a prelude."""
        self._preludes.append([])
        yield
        self._preludes.pop()
