# SPDX-License-Identifier: Apache-2.0
"""The tokens of XPath 1.0: literals, numbers, variables, names with their prefix, and signs.

`*` is a name, whether it stands for all elements or multiplies; only a parser
can tell.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["literal", "number", "variable", "name", "sign", "end"]

_NAME = r"[^\W\d][\w.\-\u00b7]*"
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<literal>"[^"]*"|'[^']*')
    | (?P<number>\d+(?:\.\d*)?|\.\d+)
    | (?P<variable>\${_NAME}(?::(?!:){_NAME})?)
    | (?P<name>(?:\*|{_NAME})(?::(?!:)(?:\*|{_NAME}))?)
    | (?P<sign>::|//|\.\.|!=|<=|>=|[-+=<>|()\[\],@./])
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: Kind
    text: str
    at: int
    """The place of its first character, from 0."""


class NoToken(ValueError):
    """At `index`, no token begins."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def tokens_of(expression: str) -> list[Token]:
    """
    Raises:
        NoToken
    """
    tokens: list[Token] = []
    position, end = 0, len(expression.rstrip())
    while position < end:
        found = _TOKEN.match(expression, position)
        if found is None:
            raise NoToken(len(expression) - len(expression[position:].lstrip()))
        kind: Kind = found.lastgroup  # type: ignore[assignment]
        tokens.append(Token(kind, found[kind], found.start(kind)))
        position = found.end()
    return tokens
