# SPDX-License-Identifier: Apache-2.0
"""A script becomes statements, each word with its place in the file.

    * a comment                                   (an asterisk first)
    DEFINE QLOCAL(ORDERS) +                       (the next line goes on)
           DESCR('It''s for orders') PUT(enabled)
    DEF QA(O) TARGET(ORDERS); DIS Q(*)            (two statements in a line)

This module knows MQSC's lexical rules and no keyword: verbs, kinds and
attributes are the matter of commands.py and keywords.py. A statement with
an error keeps it, so that the reader of a script hears of all its errors.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from entrepot.errors import MqscSyntaxError

BLANKS = " \t"

ERRORS_PER_COMMAND_MAX = 20
"""Each error shows its line; a megabyte of quotes must not become a million such lines."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t,]+)                                   # MQ takes commas for blanks everywhere
    | (?P<string>'[^']*(?:''[^']*)*' | "[^"]*(?:""[^"]*)*")
    | (?P<word>[^ \t,();'"]+)
    | (?P<mark>[();])
    | (?P<unclosed>['"])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a script; both numbers begin at 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Value:
    """One value out of parentheses: upper case unless it was quoted."""

    text: str
    at: Position


@dataclass(frozen=True, slots=True)
class Parameter:
    """A keyword, in upper case, with the values in its parentheses; None without parentheses."""

    keyword: str
    at: Position
    values: tuple[Value, ...] | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One command as written: verb, noun and the rest, all in the same form."""

    text: str
    at: Position
    parameters: tuple[Parameter, ...]
    errors: tuple[MqscSyntaxError, ...] = ()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int
    at: Position


@dataclass(slots=True)
class _JoinedLine:
    """Lines that continuation makes one, and where each of its characters came from."""

    text: str = ""
    offsets: list[int] = field(default_factory=list)
    origins: list[Position] = field(default_factory=list)
    open_end: Position | None = None
    """The continuation character after which the script ended."""

    def append(self, text: str, origin: Position) -> None:
        self.offsets.append(len(self.text))
        self.origins.append(origin)
        self.text += text

    def at(self, offset: int) -> Position:
        piece = bisect_right(self.offsets, offset) - 1
        origin = self.origins[piece]
        return Position(origin.line, origin.column + offset - self.offsets[piece])


class Script:
    """The text of a script, and the errors that point into it."""

    def __init__(self, text: str, source: str = "-") -> None:
        self.source = source
        # Windows editors like to begin a file with a byte order mark.
        self._lines = _LINE_END.split(text.removeprefix("\ufeff"))
        # A tab would push the caret below the line away from its place.
        self._lines_shown = [line.replace("\t", " ") for line in self._lines]

    def error(self, at: Position, problem: str) -> MqscSyntaxError:
        return MqscSyntaxError(self.source, at.line, at.column, problem, self._lines_shown[at.line - 1])

    def _report(self, errors: list[MqscSyntaxError], at: Position, problem: str) -> None:
        if len(errors) < ERRORS_PER_COMMAND_MAX:
            errors.append(self.error(at, problem))

    def statements(self) -> Iterator[Statement]:
        """All statements in order, the broken ones with their errors."""
        for joined in self._joined_lines():
            yield from self._statements_of(joined)

    def _joined_lines(self) -> Iterator[_JoinedLine]:
        joined = _JoinedLine()
        continued_by = ""
        for number, line in enumerate(self._lines, start=1):
            content = line.rstrip(BLANKS)
            # Within a command only column 1 makes a comment: `DISPLAY Q( +` may go on with an indented `*)`.
            if not content or (content if continued_by else content.lstrip(BLANKS)).startswith("*"):
                continue
            start = len(content) - len(content.lstrip(BLANKS)) if continued_by == "+" else 0
            continued_by = content[-1] if content[-1] in "+-" else ""
            end = len(content) - len(continued_by)
            joined.append(content[start:end], Position(number, start + 1))
            if continued_by:
                joined.open_end = Position(number, end + 1)
            else:
                joined.open_end = None
                yield joined
                joined = _JoinedLine()
        if joined.open_end is not None:
            yield joined

    def _statements_of(self, joined: _JoinedLine) -> Iterator[Statement]:
        errors: list[MqscSyntaxError] = []
        tokens: list[_Token] = []
        for token in _tokens(joined):
            if token.kind == "unclosed":
                problem = "this quote is never closed (a quote inside a value is written twice; a line goes on after +)"
                self._report(errors, token.at, problem)
            if token.text == ";" and token.kind == "mark":
                if tokens:
                    yield self._statement(joined, tokens, errors, token.offset)
                errors, tokens = [], []
            else:
                tokens.append(token)
        if tokens:
            if joined.open_end is not None:
                self._report(errors, joined.open_end, "the script ends where this promises another line")
            yield self._statement(joined, tokens, errors, len(joined.text))

    def _statement(
        self, joined: _JoinedLine, tokens: list[_Token], errors: list[MqscSyntaxError], end: int
    ) -> Statement:
        parameters = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            opened = index + 1 < len(tokens) and _is_mark(tokens[index + 1], "(")
            if token.kind == "word" and opened:
                values, index = self._values(tokens, index + 1, errors)
                parameters.append(Parameter(token.text.upper(), token.at, values))
                continue
            index += 1
            if token.kind == "word":
                parameters.append(Parameter(token.text.upper(), token.at))
            elif token.kind == "string":
                self._report(errors, token.at, "a quoted value belongs in the parentheses of a keyword")
            elif _is_mark(token, "("):
                self._report(errors, token.at, "a keyword is missing before this parenthesis")
                _, index = self._values(tokens, index - 1, errors)
            elif _is_mark(token, ")"):
                self._report(errors, token.at, "this parenthesis closes nothing")
        text = joined.text[tokens[0].offset : end].strip(BLANKS)
        return Statement(text, tokens[0].at, tuple(parameters), tuple(errors))

    def _values(
        self, tokens: list[_Token], opening: int, errors: list[MqscSyntaxError]
    ) -> tuple[tuple[Value, ...], int]:
        """The values from the parenthesis at `opening` on, and the index after its end."""
        values: list[Value] = []
        depth = 0
        for index in range(opening, len(tokens)):
            token = tokens[index]
            if _is_mark(token, "("):
                depth += 1
                if depth == 2:
                    self._report(errors, token.at, "a value with parentheses in it belongs in quotes")
            elif _is_mark(token, ")"):
                depth -= 1
                if depth == 0:
                    return tuple(values), index + 1
            elif token.kind == "string":
                quote = token.text[0]
                values.append(Value(token.text[1:-1].replace(quote * 2, quote), token.at))
            elif token.kind == "word":
                values.append(Value(token.text.upper(), token.at))
        # An unclosed quote has swallowed the parenthesis and is reported already.
        if tokens[-1].kind != "unclosed":
            problem = "this parenthesis is never closed (a line goes on after +)"
            self._report(errors, tokens[opening].at, problem)
        return tuple(values), len(tokens)


def _tokens(joined: _JoinedLine) -> Iterator[_Token]:
    """The tokens of a line; after an unclosed quote nothing more can be told apart."""
    for match in _TOKEN.finditer(joined.text):
        kind = match.lastgroup or ""
        if kind != "blank":
            yield _Token(kind, match[0], match.start(), joined.at(match.start()))
        if kind == "unclosed":
            return


def _is_mark(token: _Token, mark: str) -> bool:
    return token.kind == "mark" and token.text == mark
