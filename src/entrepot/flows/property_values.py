# SPDX-License-Identifier: Apache-2.0
"""What is said about a node, from text to the type that its declaration asks for.

YAML, files of IBM's tools and command lines all say texts; a node wants numbers
and flags. What cannot be understood stays text, so that `problem_with` can
tell what is wrong with it, and where.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from entrepot.flows.nodes.node import Property

_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_YES = ("yes", "true", "on")
_NO = ("no", "false", "off")
_SHOWN_MAX = 60


def read_value(text: str, declared: Property) -> Any:
    """The value that a text means for a property; the text itself where it means none."""
    match declared.kind:
        case "integer":
            return int(text) if _INTEGER.fullmatch(text.strip()) else text
        case "number":
            return float(text) if _NUMBER.fullmatch(text.strip()) else text
        case "flag":
            lowered = text.strip().lower()
            return True if lowered in _YES else False if lowered in _NO else text
        case "list":
            return [text]
        case "any" | "table":
            return read_plain(text)
        case _:
            return text


def read_plain(text: str) -> Any:
    """A text that no declaration says anything about: a number, true, false, nothing, or what it is.

    `yes` and `no` stay texts: where no flag is asked for, they may be names.
    """
    if _INTEGER.fullmatch(text) and not _has_leading_zero(text):
        return int(text)
    if _NUMBER.fullmatch(text) and not _has_leading_zero(text):
        return float(text)
    if text in ("true", "false"):
        return text == "true"
    return None if text in ("", "~", "null") else text


def _has_leading_zero(text: str) -> bool:
    """Numbers of articles and accounts begin so; what is calculated with does not."""
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()


def problem_with(value: Any, declared: Property) -> str:
    """What is wrong with a value, or nothing."""
    if value is None:
        return "" if not declared.required and declared.default is None else "nothing is said"
    match declared.kind:
        case "text" | "esql":
            return "" if isinstance(value, str) else f"{_shown(value)} is no text"
        case "integer":
            fits = isinstance(value, int) and not isinstance(value, bool)
            return "" if fits else f"{_shown(value)} is no whole number"
        case "number":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            return "" if fits else f"{_shown(value)} is no number"
        case "flag":
            return "" if isinstance(value, bool) else f"{_shown(value)} is neither yes nor no"
        case "choice":
            if value in declared.choices:
                return ""
            return f"{_shown(value)} is none of {', '.join(declared.choices)}{meant(str(value), declared.choices)}"
        case "list":
            return "" if isinstance(value, list | tuple) else f"{_shown(value)} is no list"
        case "table":
            return "" if isinstance(value, list | tuple | dict) else f"{_shown(value)} is no table"
        case _:
            return ""


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` where a known word is near, for the end of a complaint."""
    listed = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(listed), 1, 0.6)
    return f"; did you mean {listed[close[0]]}?" if close else ""
