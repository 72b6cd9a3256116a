# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot import errors
from entrepot.errors import (
    DistributionFailed,
    EntrepotError,
    FrameUnreadable,
    MqscCommandFailed,
    MqscScriptFailed,
    MqscSyntaxError,
    QueueFull,
    QueueNotFound,
)
from entrepot.server.wire.error_form import from_wire, to_wire
from folding import for_each

KINDS = [kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type)]
KINDS = [kind for kind in KINDS if issubclass(kind, EntrepotError)]

_SAMPLES: dict[str, Any] = {"str": "a «text»", "int": 7, "float": 1.5, "tuple[str, ...]": ("one", "two")}
_SAMPLES["tuple[tuple[str, str], ...]"] = (("one", "full"),)
_SAMPLES["tuple[tuple[str, int, int, str, str], ...]"] = (("a.esql", 1, 2, "no", "x"),)
_SAMPLES["tuple[tuple[str, str, str], ...]"] = (("a.yaml:1:2", "no", "yes"),)


def sample(kind: type[EntrepotError]) -> EntrepotError:
    """One of each, with values of the types that its fields say."""
    if kind is MqscScriptFailed:
        return MqscScriptFailed((MqscSyntaxError("-", 1, 2, "no", "x"), MqscCommandFailed("-", 1, 2, "no")))
    if kind is DistributionFailed:
        return DistributionFailed((("A", "full"), ("B", "no such queue")))
    return kind(*(_SAMPLES[str(field.type)] for field in fields(kind)))  # type: ignore[arg-type]


def travelled(error: EntrepotError) -> EntrepotError:
    return from_wire(msgspec.msgpack.decode(msgspec.msgpack.encode(to_wire(error))))


@for_each("kind", [kind for kind in KINDS if kind is not EntrepotError])
def test_every_error_survives_the_wire(kind: type[EntrepotError]) -> None:
    error = sample(kind)
    found = travelled(error)
    assert type(found) is kind
    assert to_wire(found) == to_wire(error)
    assert str(found) == str(error)
    assert (found.outcome, found.retryable, found.reason) == (error.outcome, error.retryable, error.reason)


def test_no_two_errors_have_the_same_code() -> None:
    codes = [kind.code for kind in KINDS]
    assert sorted(set(codes)) == sorted(codes)


def test_errors_within_errors_survive() -> None:
    error = MqscScriptFailed((MqscSyntaxError("orders.mqsc", 3, 5, "no such word", "DEFIN"),))
    found = travelled(error)
    assert isinstance(found, MqscScriptFailed)
    assert found.failures[0].line_text == "DEFIN"
    assert found.advice == error.advice


def test_the_form_has_a_code_and_values_and_no_name_of_a_class() -> None:
    assert to_wire(QueueFull("ORDERS", 5)) == {"error": ["Q02", "ORDERS", 5]}


@for_each(
    "form",
    [
        None,
        1,
        "Q02",
        [],
        {},
        {"error": None},
        {"error": []},
        {"error": 5},
        {"error": "Q02"},
        {"error": ["Z99"]},
        {"error": [None]},
        {"error": [["Q02"], "ORDERS", 5]},
        {"error": [{"a": 1}, "ORDERS", 5]},
        {"error": ["Q02"]},
        {"error": ["Q02", "ORDERS", 5, "and more"]},
        {"error": ["Q02", {"no": "error"}, 5]},
        {"error": ["builtins.SystemExit", "ORDERS"]},
        {"error": ["QueueFull", "ORDERS", 5]},
        {"error": ["entrepot.errors.QueueFull", "ORDERS", 5]},
        {"error": ["C04", "partner", "not a number"]},  # would fail when it is shown
        {"error": ["A03", 5]},
    ],
)
def test_a_form_that_is_no_error_of_ours_is_a_protocol_error(form: Any) -> None:
    with pytest.raises(FrameUnreadable):
        from_wire(form)


def test_a_form_that_nests_without_end_is_a_protocol_error() -> None:
    form: Any = {"error": ["Q01", "ORDERS"]}
    for _ in range(5000):
        form = {"error": ["A03", [form]]}
    with pytest.raises(FrameUnreadable):
        from_wire(form)


_anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from([kind.code for kind in KINDS]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.just("error") | st.text(max_size=3), inner),
)


@given(_anything)
def test_whatever_a_form_is_it_is_an_error_of_ours_or_a_protocol_error(form: Any) -> None:
    try:
        found = from_wire(form)
    except FrameUnreadable:
        return
    assert isinstance(found, EntrepotError)
    assert str(found)


def test_no_error_made_outside_of_our_tree_can_be_asked_for() -> None:
    class Elsewhere(EntrepotError):
        code = "X77"

    with pytest.raises(FrameUnreadable):
        from_wire({"error": ["X77"]})
    assert travelled(QueueNotFound("Q")).code == "Q01"
