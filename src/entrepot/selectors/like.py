# SPDX-License-Identifier: Apache-2.0
"""LIKE: `%` stands for any text, `_` for any one character, line breaks included.

A pattern is cut at its `%` into pieces. The first piece belongs at the start
of the text, the last at its end, and each of the others is taken where it
first occurs after the one before it; taking a later place could never help,
so nothing is ever tried twice. Patterns come from strangers, and a
backtracking matcher would hang the queue manager on '%a%a%a%a%b'.
"""

from __future__ import annotations

from collections.abc import Callable

Matcher = Callable[[str], bool]

ANY_CHARACTER = None
"""The `_` of a pattern, once escapes are resolved."""

Piece = tuple[str | None, ...]


class PatternError(ValueError):
    """A pattern that cannot be understood; `index` is the place in the pattern, from 0."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(index, problem)
        self.index = index
        self.problem = problem


def cut_pattern(pattern: str, escape: str | None) -> list[Piece]:
    """The pieces between the `%` of a pattern; there is one more of them than there are `%`.

    Raises:
        PatternError: The escape character stands before none of `%`, `_` and itself,
            which SQL-92 forbids.
    """
    pieces: list[list[str | None]] = [[]]
    characters = iter(enumerate(pattern))
    for index, character in characters:
        if character == escape:
            _, escaped = next(characters, (index, ""))
            if escaped not in ("%", "_", escape):
                raise PatternError(index, f"in a pattern, {escape!r} stands only before %, _ or another {escape!r}")
            pieces[-1].append(escaped)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(ANY_CHARACTER if character == "_" else character)
    return [tuple(piece) for piece in pieces]


def compile_pattern(pattern: str, escape: str | None = None) -> Matcher:
    """A test whether a text is like the pattern.

    Its time is proportional to the length of the text; a piece with `_` in
    the middle of a pattern costs in addition a bit operation per character
    of text on as many bits as the piece has characters.

    Raises:
        PatternError: As for `cut_pattern`.
    """
    first, *rest = cut_pattern(pattern, escape)
    if not rest:
        return _whole_matcher(first)
    *middle, last = rest
    starts_with, ends_with = _place_matcher(first), _place_matcher(last)
    finders = [_finder(piece) for piece in middle if piece]
    length_min = len(first) + len(last)

    def matches(text: str) -> bool:
        end = len(text) - len(last)
        if len(text) < length_min or not starts_with(text, 0) or not ends_with(text, end):
            return False
        position = len(first)
        for find in finders:
            position = find(text, position, end)
            if position < 0:
                return False
        return True

    return matches


def _whole_matcher(piece: Piece) -> Matcher:
    fits, length = _place_matcher(piece), len(piece)
    return lambda text: len(text) == length and fits(text, 0)


def _place_matcher(piece: Piece) -> Callable[[str, int], bool]:
    """A test whether a piece stands at a place of a text that is known to be long enough."""
    runs = _literal_runs(piece)
    if not runs:
        return lambda _text, _start: True
    if len(runs) == 1:
        ((offset, run),) = runs
        return lambda text, start: text.startswith(run, start + offset)
    return lambda text, start: all(text.startswith(run, start + offset) for offset, run in runs)


def _literal_runs(piece: Piece) -> list[tuple[int, str]]:
    """The stretches of a piece without `_`, each with its offset."""
    runs: list[tuple[int, str]] = []
    for offset, character in enumerate(piece):
        if character is ANY_CHARACTER:
            continue
        if runs and runs[-1][0] + len(runs[-1][1]) == offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + character)
        else:
            runs.append((offset, character))
    return runs


def has_gap_between_wildcards(pattern: str, escape: str | None) -> bool:
    """Whether a pattern has a `_` beside text between two `%`: only that is looked for one character at a time."""
    middle = cut_pattern(pattern, escape)[1:-1]
    return any(0 < sum(character is ANY_CHARACTER for character in piece) < len(piece) for piece in middle)


def _finder(piece: Piece) -> Callable[[str, int, int], int]:
    """A search for the first place of a piece in text[start:end]; it gives where that place ends, or -1."""
    runs, length = _literal_runs(piece), len(piece)
    if not runs:
        return lambda _text, start, end: start + length if start + length <= end else -1
    if len(runs[0][1]) == length:
        literal = runs[0][1]

        def find_literal(text: str, start: int, end: int) -> int:
            found = text.find(literal, start, end)
            return found if found < 0 else found + length

        return find_literal
    return _gapped_finder(piece)


def _gapped_finder(piece: Piece) -> Callable[[str, int, int], int]:
    # The Shift-And method: bit i of `reached` says that the first i + 1 characters
    # of the piece stand right before the present place. Trying the piece at one
    # place after another would take length of text times length of piece.
    anywhere = sum(1 << index for index, character in enumerate(piece) if character is ANY_CHARACTER)
    places: dict[str, int] = {}
    for index, character in enumerate(piece):
        if character is not ANY_CHARACTER:
            places[character] = places.get(character, anywhere) | 1 << index
    complete = 1 << (len(piece) - 1)
    offset, literal = _literal_runs(piece)[0]

    def find(text: str, start: int, end: int) -> int:
        # No match can begin before the first literal characters of the piece occur.
        first = text.find(literal, start + offset, end)
        if first < 0:
            return -1
        reached = 0
        for position in range(first - offset, end):
            reached = (reached << 1 | 1) & places.get(text[position], anywhere)
            if reached & complete:
                return position + 1
        return -1

    return find
