# SPDX-License-Identifier: Apache-2.0
"""Where data end: the delimiters and terminators that are in force at one element.

An element without a length ends at the first mark of any structure around it,
up to one whose extent is known. The marks of each element are collected once,
into one search. Escape and quote characters make marks part of the data; when
an element is written, `Markup.protect` puts them where they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from entrepot.models.tds.trouble import TextMismatch, Unwritten, found
from entrepot.models.tds.values import excerpt

Seek = Callable[[str, int, int], int]
"""(text, position, end): where the data that begin at `position` end."""

Take = Callable[[str, int, int], tuple[str, int, bool]]
"""(text, position, end): the data without escapes and quotes, where they end, and whether they were quoted."""

Protect = Callable[[str], str]


def seek_first(marks: frozenset[str]) -> Seek:
    if not marks:
        return lambda _text, _position, end: end
    if len(marks) == 1:
        (mark,) = marks

        def seek_one(text: str, position: int, end: int) -> int:
            at = text.find(mark, position, end)
            return end if at < 0 else at

        return seek_one
    search = search_for(marks)

    def seek_any(text: str, position: int, end: int) -> int:
        match = search(text, position, end)
        return match.start() if match else end

    return seek_any


def search_for(marks: frozenset[str]) -> Callable[[str, int, int], re.Match[str] | None]:
    return re.compile(_either(marks) or r"\Z(?!)").search


def stands_at(marks: frozenset[str]) -> Callable[[str, int, int], bool]:
    """Whether the data are empty at a position: a mark or the end stands there."""
    if not marks:
        return lambda _text, position, end: position >= end
    ordered = tuple(sorted(marks, key=len, reverse=True))
    return lambda text, position, end: position >= end or text.startswith(ordered, position, end)


def _either(marks: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(marks, key=lambda mark: (-len(mark), mark))))


class Markup:
    """The marks in force for the data of one element, with the format's escape and quote."""

    __slots__ = ("escape", "marks", "plain", "protect", "quote", "search", "seek", "take")

    def __init__(self, marks: frozenset[str], escape: str, quote: str, reserved: str) -> None:
        # A mark that begins with another one begins where that one does; only where matters.
        marks = frozenset(mark for mark in marks if not any(mark != m and mark.startswith(m) for m in marks))
        self.marks = marks
        self.escape = escape
        self.quote = quote
        self.plain = not escape and not quote
        """Data are the characters up to the mark, nothing else."""
        self.search = search_for(marks)
        self.seek = seek_first(marks)
        self.take = self._taker()
        self.protect = self._protector(reserved)

    def _taker(self) -> Take:
        escape, quote = self.escape, self.quote
        seek = self.seek
        if self.plain:

            def take_plain(text: str, position: int, end: int) -> tuple[str, int, bool]:
                at = seek(text, position, end)
                return text[position:at], at, False

            return take_plain
        escaped = re.compile(re.escape(escape) + r"(.)", re.DOTALL) if escape else None
        stop = re.compile(_either({escape, *self.marks})).search if escape else None
        closed = stands_at(self.marks)
        width = len(quote)

        def unquoted(text: str, position: int, end: int) -> tuple[str, int, bool]:
            if stop is None or escaped is None:
                at = seek(text, position, end)
                return text[position:at], at, False
            at = position
            while match := stop(text, at, end):
                if match.group() != escape:
                    at = match.start()
                    break
                at = match.end() + 1
                if at > end:
                    raise TextMismatch(match.start(), "the escape character has nothing behind it")
            else:
                at = end
            data = text[position:at]
            return (escaped.sub(r"\1", data) if escape in data else data), at, False

        def take(text: str, position: int, end: int) -> tuple[str, int, bool]:
            if not quote or not text.startswith(quote, position, end):
                return unquoted(text, position, end)
            pieces: list[str] = []
            at = position + width
            while True:
                close = text.find(quote, at, end)
                if close < 0:
                    raise TextMismatch(
                        position, f"the quote that {found(text, position, end)} begins with is never closed"
                    )
                pieces.append(text[at:close])
                at = close + width
                if not text.startswith(quote, at, end):
                    break
                # A quote twice is one that belongs to the data.
                pieces.append(quote)
                at += width
            if not closed(text, at, end):
                raise TextMismatch(at, f"a delimiter should follow the closing quote, not {found(text, at, end)}")
            return "".join(pieces), at, True

        return take

    def _protector(self, reserved: str) -> Protect:
        """Data so written that they end where they should; Unwritten where that cannot be done."""
        escape, quote = self.escape, self.quote
        if self.plain:
            # There is nothing to hide a reserved character behind.
            reserved = ""
        dangers = [_either({*self.marks, *reserved})] if self.marks or reserved else []
        # "a*" in front of a delimiter "**" would end one character too early.
        early = {
            mark[:cut]
            for mark in self.marks
            for cut in range(1, len(mark))
            for follower in self.marks
            if (mark[:cut] + follower).startswith(mark)
        }
        if early:
            dangers.append(rf"(?:{_either(early)})\Z")
        if escape:
            dangers.append(re.escape(escape))
        if quote:
            # RFC 4180 wants quotes around data that have one anywhere; behind an escape only the first could mislead.
            dangers.append((r"\A" if escape else "") + re.escape(quote))
        if not dangers:
            return str
        search = re.compile("|".join(dangers)).search
        hide = re.compile("|".join(dangers))

        def protect(data: str) -> str:
            match = search(data)
            if match is None:
                return data
            if escape:
                return hide.sub(lambda danger: "".join(escape + c for c in danger.group()), data)
            if quote:
                return quote + data.replace(quote, quote + quote) + quote
            raise Unwritten(f"{excerpt(data)} has {excerpt(match.group())}, which would end it, and there is no escape")

        return protect
