# SPDX-License-Identifier: Apache-2.0
"""PICTURE clauses: what S9(5)V99 says about a field."""

from __future__ import annotations

import re
from dataclasses import dataclass

DIGITS_MAX = 31
CHARACTERS_MAX = 2**27

_SYMBOL = re.compile(r"(CR|DB|[A-Z0-9$*+,./-])(?:\(\s*([0-9]{1,10})\s*\))?", re.IGNORECASE)
_NUMERIC = re.compile(r"S?(?:9+V?9*|V9+|9+P+V?|V?P+9+)")


@dataclass(frozen=True, slots=True)
class Picture:
    kind: str
    """text, national, edited or number."""
    length: int
    """Characters; of a number, digits that are stored."""
    signed: bool = False
    decimals: int = 0
    """Digits behind the decimal point; negative for zeros in front of it that are not stored."""


def read_picture(text: str) -> Picture:
    """
    Raises:
        ValueError: It is no picture; says why.
    """
    symbols = _symbols(text)
    if _is_numeric(symbols):
        return _number(symbols)
    kinds = {symbol for symbol, _ in symbols}
    length = sum(count * len(symbol) for symbol, count in symbols if symbol not in "VPS")
    if not 1 <= length <= CHARACTERS_MAX:
        raise ValueError(f"PIC {text} has a length of {length}")
    if kinds <= {"X", "A", "9"}:
        return Picture("text", length)
    if kinds <= {"N"} or kinds <= {"G"}:
        return Picture("national", length)
    if kinds & {"N", "G", "1"}:
        raise ValueError(f"PIC {text} mixes characters of one and two bytes, or has bits; that is not supported")
    if not kinds <= set("XA90BZ/,.+-*$EPVS") | {"CR", "DB"}:
        wrong = sorted(kinds - set("XA90BZ/,.+-*$EPVS") - {"CR", "DB"})[0]
        raise ValueError(f"PIC {text} has {wrong}, which is no picture symbol")
    return Picture("edited", length)


def _symbols(text: str) -> list[tuple[str, int]]:
    symbols: list[tuple[str, int]] = []
    position = 0
    while position < len(text):
        found = _SYMBOL.match(text, position)
        if found is None:
            raise ValueError(f"PIC {text} has {text[position]!r}, which is no picture symbol")
        count = int(found[2]) if found[2] is not None else 1
        if not 1 <= count <= CHARACTERS_MAX:
            raise ValueError(f"PIC {text} has a count of {count}")
        symbols.append((found[1].upper(), count))
        position = found.end()
    return symbols


def _is_numeric(symbols: list[tuple[str, int]]) -> bool:
    kinds = {symbol for symbol, _ in symbols}
    return "9" in kinds and kinds <= {"S", "9", "V", "P"}


def _number(symbols: list[tuple[str, int]]) -> Picture:
    if sum(count for _, count in symbols) > 2 * DIGITS_MAX:
        raise ValueError(f"a number has at most {DIGITS_MAX} digits")
    text = "".join(symbol * count for symbol, count in symbols)
    if not _NUMERIC.fullmatch(text):
        raise ValueError(f"{text} is no picture of a number: S comes first, V once, P at one end")
    digits = text.count("9")
    if digits > DIGITS_MAX:
        raise ValueError(f"a number has at most {DIGITS_MAX} digits, not {digits}")
    signed = text.startswith("S")
    places = text.removeprefix("S")
    before, point, behind = places.partition("V")
    if point:
        # V may stand beside P, which says where the point is without it.
        scale = len(behind) if behind else -before.count("P")
    elif places.startswith("P"):
        scale = len(places)
    else:
        scale = -places.count("P")
    return Picture("number", digits, signed, scale)
