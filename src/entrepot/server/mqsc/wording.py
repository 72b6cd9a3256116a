# SPDX-License-Identifier: Apache-2.0
"""How error messages speak of words: guesses at what was meant, lists, and long ones cut short."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_CHARACTERS_MAX = 120


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about a wrong word, or nothing when no known word is near."""
    # Only the head of a long word is compared, because the comparison takes the square of its length.
    near = get_close_matches(word[:48], sorted(set(known)), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def shortened(text: str) -> str:
    """The text, or its beginning when it would fill the screen."""
    return text if len(text) <= _CHARACTERS_MAX else text[: _CHARACTERS_MAX - 3] + "..."


def listed(words: Iterable[str]) -> str:
    """`A, B or C`."""
    *most, last = [*words] or [""]
    return f"{', '.join(most)} or {last}" if most else last


def no_keyword(word: str, noun: str, known: Iterable[str]) -> str:
    return f"{shortened(word)} is no keyword of {noun}" + suggestion(word, known)
