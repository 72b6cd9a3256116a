# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a model, told with their place and what is allowed there; the first one ends the reading."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import NoReturn

from entrepot.errors import ModelInvalid
from entrepot.models.model_extent import NESTING_MAX, PROBLEM_CHARACTERS_MAX
from entrepot.yaml_places import Place, Written, read_yaml, words_for

described = partial(words_for, table="a mapping")


def wrong(written: Written, problem: str) -> NoReturn:
    _wrong_at(written.start, problem)


def _wrong_at(place: Place, problem: str, advice: str = "") -> NoReturn:
    text = f"{problem}. {advice}" if advice else problem
    raise ModelInvalid(place.file, place.line or 1, place.column or 1, text[:PROBLEM_CHARACTERS_MAX])


def read_model(text: str, file: str) -> Written:
    """The one document of a text.

    Raises:
        ModelInvalid: It is no YAML, or more of it than a model may be.
    """
    # A level of a model is a list, a table in it, and a table of properties.
    root = read_yaml(text, file, _wrong_at, NESTING_MAX * 3)
    if root is None:
        _wrong_at(Place(file, 1, 1), "the file is empty; a model begins with `messages:`")
    return root


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` and what is known, for the end of a complaint."""
    listed = list(known)
    close = get_close_matches(word.lower(), [name.lower() for name in listed], 1, 0.6)
    meant = next((name for name in listed if close and name.lower() == close[0]), "")
    shown = ", ".join(listed[:40]) + (", ..." if len(listed) > 40 else "")
    return (f"; did you mean {meant}?" if meant else ";") + f" Allowed: {shown or 'nothing'}"
