# SPDX-License-Identifier: Apache-2.0
"""What goes wrong inside the engine, before path and byte offset are known.

Both exceptions collect the names of the structures they leave; the codec turns
them into MessageUnreadable and MessageUnwritable, and computes the byte offset
only then. A choice may also catch them, to try its next alternative.
"""

from __future__ import annotations

from typing import Any

from entrepot.errors import ModelInvalid
from entrepot.models.tds.values import excerpt


class TextMismatch(Exception):
    """The text is not what the model says, at a character offset."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(position, problem)
        self.position = position
        self.problem = problem
        self.steps: list[str] = []
        """Names from the innermost structure outwards."""
        self.final = False
        """No other alternative may be tried: the work is used up."""


class Unwritten(Exception):
    """The tree has what the model cannot express."""

    def __init__(self, problem: str, step: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps: list[str] = [step] if step else []


class Reading:
    """What one message's reading has to remember; made anew for each message."""

    __slots__ = ("expected", "full", "noted", "stopped", "work")

    def __init__(self, size: int) -> None:
        self.noted: dict[str, object] = {}
        """Values of the elements that others refer to for their length or number."""
        self.stopped = -1
        """Where a structure last ended because it did not know the tag there."""
        self.expected: tuple[Any, ...] = ()
        """A function and its arguments, to say what that structure would have known; asked only in an error."""
        self.full = False
        """It knew the tag, but had as many of it as there may be; no structure around it can say that better."""
        self.work = 64 * size + 100_000
        """Characters that failed alternatives of choices may cost."""

    def expectation(self) -> str:
        say, *arguments = self.expected
        return str(say(*arguments))


def found(text: str, position: int, end: int) -> str:
    """What stands at a position, for a sentence."""
    return excerpt(text[position : min(end, position + 40)]) if position < end else "the end"


def step(key: str, number: int, most: int) -> str:
    """A step of a path: Item[3] where there may be several."""
    name = key.rpartition("}")[2] if key[:1] == "{" else key
    return f"{name}[{number}]" if most > 1 and number else name


def invalid(file: str, line: int, problem: str) -> ModelInvalid:
    return ModelInvalid(file or "model", line, 0, problem)
