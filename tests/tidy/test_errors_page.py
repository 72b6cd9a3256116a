# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import inspect
import re

from entrepot import errors
from entrepot.errors import EntrepotError

from .pages import DOCS, table_rows

PAGE = DOCS / "ERRORS.md"
ALL = [error for _, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, EntrepotError)]
BRANCHES = {error for error in ALL if error.__subclasses__()}


def test_page_says_the_same_of_every_error_as_the_code() -> None:
    said = {tuple(cells[:5]) for cells in table_rows(PAGE, 7) if re.fullmatch(r"[A-Z]\d\d", cells[0])}
    true = {
        (
            error.code,
            f"`{error.__name__}`",
            str(error.reason or "–"),
            error.outcome,
            "yes" if error.retryable else "no",
        )
        for error in ALL
        if error not in BRANCHES
    }
    assert said - true == set(), "on the page only"
    assert true - said == set(), "in errors/ only"


def test_page_names_every_branch() -> None:
    said = {(cells[0], cells[1]) for cells in table_rows(PAGE, 3) if re.fullmatch(r"[A-Z]\d\d", cells[0])}
    assert said == {(error.code, f"`{error.__name__}`") for error in BRANCHES}


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [error.code for error in ALL]
    assert sorted(codes) == sorted(set(codes))


def test_every_row_says_what_it_means_and_what_to_do() -> None:
    rows = [cells for cells in table_rows(PAGE, 7) if re.fullmatch(r"[A-Z]\d\d", cells[0])]
    assert [cells[0] for cells in rows if not cells[5].endswith(".") or not cells[6].endswith(".")] == []
