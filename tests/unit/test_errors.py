# SPDX-License-Identifier: Apache-2.0
"""Every error of the tree, whatever it is called."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from entrepot import errors
from entrepot.errors import EntrepotError, MqscScriptFailed, QueueNotFound, UnitOfWorkError
from folding import for_each

PAGE = Path(__file__).parents[2] / "docs" / "ERRORS.md"

_VALUES: dict[str, Any] = {"str": "some {text}", "int": 7, "float": 1.5, "tuple[str, ...]": ("one", "two")}
_VALUES["tuple[tuple[str, int, int, str, str], ...]"] = (("a.esql", 1, 2, "no", "x"),)
_VALUES["tuple[tuple[str, str, str], ...]"] = (("a.yaml:1:2", "no", "yes"),)
_WITH_LETTERS_BELOW = (errors.QueueingError, errors.FlowError)
"""Families whose branches have codes of their own."""


def _all(kind: type[EntrepotError]) -> list[type[EntrepotError]]:
    return [found for sub in kind.__subclasses__() for found in (sub, *_all(sub))]


ALL = [kind for kind in _all(EntrepotError) if kind.__module__.startswith(errors.__name__)]


def example(kind: type[EntrepotError]) -> EntrepotError:
    values: list[Any] = []
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name == "failures":
            values.append((QueueNotFound("Q"),) if kind is MqscScriptFailed else (("Q", "why"),))
        else:
            values.append(_VALUES[str(field.type)])
    return kind(*values)


@for_each("kind", ALL, ids=lambda kind: kind.__name__)
def test_error_crosses_processes(kind: type[EntrepotError]) -> None:
    error = example(kind)
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(made) is kind
        assert str(made) == str(error)
        assert (made.code, made.outcome, made.retryable) == (error.code, error.outcome, error.retryable)


@for_each("kind", ALL, ids=lambda kind: kind.__name__)
def test_error_says_what_happened_and_what_to_do(kind: type[EntrepotError]) -> None:
    error = example(kind)
    text = str(error)
    assert text.startswith(f"{kind.__name__} [{kind.code}")
    assert "{" not in text.replace("{text}", "")
    if fields(kind):  # type: ignore[arg-type]
        assert error.what
        assert re.match(r"[A-Z]\d\d$", kind.code)
        assert kind.outcome in ("not_done", "done", "unknown")


def test_codes_are_unique_and_follow_the_tree() -> None:
    codes = [kind.code for kind in ALL]
    assert len(codes) == len(set(codes))
    for kind in ALL:
        parent = kind.__mro__[1]
        if parent is not EntrepotError and parent not in _WITH_LETTERS_BELOW:
            assert kind.code[0] == parent.code[0], kind  # type: ignore[attr-defined]


def test_unit_errors_are_queueing_errors() -> None:
    assert issubclass(UnitOfWorkError, errors.QueueingError)


@for_each("kind", ALL, ids=lambda kind: kind.__name__)
def test_error_is_on_its_page(kind: type[EntrepotError]) -> None:
    assert kind.code in PAGE.read_text()
    assert kind.__name__ in PAGE.read_text()


def test_error_can_be_raised_and_caught_by_its_family() -> None:
    with pytest.raises(errors.QueueingError) as caught:
        raise QueueNotFound("Q")
    assert caught.value.queue == "Q"  # type: ignore[attr-defined]
    assert "DEFINE QLOCAL(Q)" in str(caught.value)


def test_advice_quotes_names_that_mqsc_would_read_otherwise() -> None:
    assert "DEFINE QLOCAL(EMAILS)," in errors.QueueNotFound("EMAILS").advice
    assert "DEFINE QLOCAL('emails')," in errors.QueueNotFound("emails").advice
    assert "in capitals unless" in errors.QueueNotFound("emails").advice
    assert "in capitals unless" not in errors.QueueNotFound("EMAILS").advice
    assert "CHANNEL('To.B')" in errors.ChannelNotAvailable("To.B", "why").advice
    assert "QLOCAL('it''s {x}')" in errors.ObjectNotFound("QLOCAL", "it's {x}").advice
