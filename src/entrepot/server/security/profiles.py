# SPDX-License-Identifier: Apache-2.0
"""Names with asterisks, and which of several that fit a name is the most specific.

In a profile for objects, as in MQ, `?` is one character, `*` any
characters within a qualifier or one whole qualifier, and `**` any number
of qualifiers, none included:

    ORDERS.*      fits ORDERS.NEW, and not ORDERS, ORDERS.NEW.EU
    ORDERS.**     fits all three
    ORDERS.N*.EU  fits ORDERS.NEW.EU

In plain text, such as a channel's name, `*` is any characters, dots too.
Matching takes time in proportion to the two lengths multiplied, whatever
the pattern; a regular expression would not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

_T = TypeVar("_T")

_LITERAL, _END, _ONE, _SOME, _ANY = range(5)
"""From the most specific to the least, after MQ: a character, nothing more, `?`, `*`, `**`."""


def matches_text(pattern: str, text: str) -> bool:
    """Whether a pattern with `*` and `?` fits a whole text."""
    return glob(pattern, text, "*", _same_character)


def matches_name(profile: str, name: str) -> bool:
    """Whether a profile with `?`, `*` and `**` fits an object's name."""
    return bool(profile) and glob(profile.split("."), name.split("."), "**", matches_text)


@lru_cache(maxsize=4096)
def rank(pattern: str) -> tuple[int, ...]:
    """A sort key: of two patterns that fit the same text, the lower one is the more specific.

    MQ compares from left to right, and where two differ, a character beats
    a wildcard, and `?` beats `*` beats `**`. A name without any is the
    first of all.
    """
    if "*" not in pattern and "?" not in pattern:
        # Said apart, because `AB.**` fits AB too, and has more characters.
        return ()
    ranks = []
    index = 0
    while index < len(pattern):
        if pattern.startswith("**", index):
            ranks.append(_ANY)
            index += 1
        else:
            ranks.append({"?": _ONE, "*": _SOME}.get(pattern[index], _LITERAL))
        index += 1
    return (*ranks, _END)


def _same_character(pattern: str, character: str) -> bool:
    return pattern == "?" or pattern == character


def glob(pattern: Sequence[_T], items: Sequence[_T], star: _T, fits: Callable[[_T, _T], bool]) -> bool:
    """Whether a pattern fits all items, where `star` fits any number of them."""
    # Match one by one; on a mismatch let the last star take one more item. No earlier star need be tried again.
    at = done = 0
    behind_star = star_done = 0  # the place behind the last star, 0 before the first, and the items up to its end
    while done < len(items):
        if at < len(pattern) and pattern[at] == star:
            at += 1
            behind_star, star_done = at, done
        elif at < len(pattern) and fits(pattern[at], items[done]):
            at += 1
            done += 1
        elif behind_star:
            star_done += 1
            at, done = behind_star, star_done
        else:
            return False
    return all(part == star for part in pattern[at:])
