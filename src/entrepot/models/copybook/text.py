# SPDX-License-Identifier: Apache-2.0
"""COBOL source as words with their places: fixed columns or free text, comments and continued lines.

In fixed format columns 1 to 6 are a number, 7 says comment (* /), debugging (D)
or continuation (-), 8 to 72 are text and the rest is a remark. Text is free
when some line does not fit that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from entrepot.errors import ModelInvalid

LINES_MAX = 200_000
"""More than any copybook has."""

_FREE = re.compile(r"\s*(?:>>|\$)\s*(?:SOURCE|SET\s+SOURCEFORMAT).*FREE", re.IGNORECASE)
_FIXED = re.compile(r"\s*(?:>>|\$)\s*(?:SOURCE|SET\s+SOURCEFORMAT).*FIXED", re.IGNORECASE)
_NOISE = re.compile(r"\s*(?:EJECT|SKIP[123]|TITLE\b.*|>>.*|\$SET\b.*|CBL\b.*|PROCESS\b.*)\.?\s*", re.IGNORECASE)
_WORD = re.compile(
    r"""(?P<literal>(?:[XNGBZ]|NX)?(?:'(?:[^']|'')*'|"(?:[^"]|"")*"))
      | (?P<open>(?:[XNGBZ]|NX)?['"].*)
      | (?P<number>[+-]?(?:[0-9]+(?:[.][0-9]+)?|[.][0-9]+)(?=[\s.,;)]|$))
      | (?P<word>[A-Za-z0-9_][A-Za-z0-9_-]*(?::[A-Za-z0-9_-]*)*|:[^\s.]*|[^\s.,;'"]+)
      | (?P<period>\.(?=\s|$))
      | (?P<other>\.)""",
    re.VERBOSE | re.IGNORECASE,
)
_PICTURE = re.compile(r"\S+")
_PICTURE_WORDS = ("PIC", "PICTURE")


@dataclass(frozen=True, slots=True)
class Word:
    kind: str
    """word, number, literal, picture or period."""
    text: str
    line: int
    column: int

    @property
    def upper(self) -> str:
        return self.text.upper()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line with those that continue it."""

    text: str
    starts: tuple[tuple[int, int, int], ...]
    """Where each line begins in the text, its number, and the column it begins with."""

    def place(self, position: int) -> tuple[int, int]:
        """Line and column of a character."""
        start, line, column = next(start for start in reversed(self.starts) if start[0] <= position)
        return line, column + position - start


def read_words(text: str, file: str) -> list[Word]:
    """All words of a copybook.

    Raises:
        ModelInvalid: Something that is no COBOL; says where.
    """
    lines = text.expandtabs(8).splitlines()
    if len(lines) > LINES_MAX:
        raise ModelInvalid(file, LINES_MAX, 1, f"a copybook of more than {LINES_MAX} lines is no copybook")
    pieces = _free_pieces(lines) if _is_free(lines) else _fixed_pieces(lines, file)
    words: list[Word] = []
    for piece in pieces:
        _split(piece, words, file)
    return words


def _is_free(lines: list[str]) -> bool:
    for line in lines:
        if _FREE.match(line):
            return True
        if _FIXED.match(line):
            return False
    return not all(_fits_columns(line) for line in lines)


def _fits_columns(line: str) -> bool:
    number, indicator = line[:6], line[6:7]
    if not line.strip():
        return True
    return (not number.strip() or number.isalnum() or _changed(number)) and indicator in (
        "",
        " ",
        "*",
        "-",
        "/",
        "D",
        "d",
        "$",
    )


def _changed(number: str) -> bool:
    """Some shops put a change mark there instead of a number: it has no space inside and is no level number."""
    mark = number.strip()
    return " " not in mark and not (mark.isdigit() and len(mark) < 3) and not mark.startswith("*>")


def _free_pieces(lines: list[str]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("*") or _NOISE.fullmatch(line):
            continue
        pieces.append(_Piece(_without_comment(line), ((0, number, 1),)))
    return pieces


def _fixed_pieces(lines: list[str], file: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    for number, line in enumerate(lines, 1):
        indicator, text = line[6:7], line[7:72]
        if (indicator and indicator in "*/dD$") or not text.strip():
            continue
        if indicator == "-":
            if not pieces:
                raise ModelInvalid(file, number, 7, "the first line cannot continue another one")
            pieces[-1] = _continued(pieces[-1], text, number, file)
        elif not _NOISE.fullmatch(text):
            pieces.append(_Piece(_without_comment(text), ((0, number, 8),)))
    return pieces


def _continued(before: _Piece, text: str, line: int, file: str) -> _Piece:
    quote = _open_quote(before.text)
    more = text.lstrip()
    column = 8 + len(text) - len(more)
    if quote and more[:1] != quote:
        raise ModelInvalid(file, line, column, f"a literal goes on here, so the line must begin with {quote}")
    kept = before.text.rstrip()
    if quote:
        # An unfinished literal reaches to column 72, with all the spaces there.
        kept = before.text + " " * (before.starts[-1][0] + 73 - before.starts[-1][2] - len(before.text))
        more, column = more[1:], column + 1
    return _Piece(_without_comment(kept + more), (*before.starts, (len(kept), line, column)))


def _open_quote(text: str) -> str:
    quote = ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
    return quote


def _without_comment(text: str) -> str:
    start = text.find("*>")
    while start >= 0:
        if not _open_quote(text[:start]):
            return text[:start]
        start = text.find("*>", start + 2)
    return text


def _split(piece: _Piece, words: list[Word], file: str) -> None:
    text, position = piece.text, 0
    while position < len(text):
        if text[position].isspace() or text[position] in ",;":
            position += 1
            continue
        line, column = piece.place(position)
        if _awaits_picture(words):
            found = _PICTURE.match(text, position)
            assert found is not None
            picture = found[0]
            while picture[-1:] in (".", ",", ";") and picture:
                picture = picture[:-1]
            if picture.upper() == "IS":
                words.append(Word("word", picture, line, column))
            else:
                words.append(Word("picture", picture, line, column))
            position += max(len(picture), 1)
            continue
        found = _WORD.match(text, position)
        kind = found.lastgroup if found is not None else None
        if found is None or kind is None or kind in ("open", "other"):
            problem = (
                "a literal begins here and does not end" if kind == "open" else f"{text[position]!r} is no COBOL here"
            )
            raise ModelInvalid(file, line, column, problem)
        words.append(Word(kind, found[0], line, column))
        position = found.end()


def _awaits_picture(words: list[Word]) -> bool:
    if not words or words[-1].kind != "word":
        return False
    last = words[-1].upper
    if last == "IS" and len(words) > 1:
        return words[-2].kind == "word" and words[-2].upper in _PICTURE_WORDS
    # The first word behind a level is a name, even if it is PIC.
    return last in _PICTURE_WORDS
