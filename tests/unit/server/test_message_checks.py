# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot import limits
from entrepot.errors import InvalidArgument, LimitExceeded
from entrepot.message import Message, MessageType
from entrepot.server import message_checks
from folding import for_each


def checked_message(**fields: Any) -> Message:
    return message_checks.checked_message(Message(fields.pop("body", b"x"), **fields), user="ann", application="orders")


def test_identity_and_history_are_not_for_the_sender_to_say() -> None:
    forged = checked_message(
        user="root",
        application="payroll",
        backout_count=7,
        put_time=1.0,
        target_queue="PAYROLL",
        target_manager="QM9",
    )
    assert (forged.user, forged.application) == ("ann", "orders")
    assert (forged.backout_count, forged.put_time) == (0, 0.0)
    assert (forged.target_queue, forged.target_manager) == ("", "")


def test_what_is_the_senders_own_stays() -> None:
    said: dict[str, Any] = {
        "message_id": b"m" * 128,
        "correlation_id": b"c" * 128,
        "type": MessageType.REQUEST,
        "expiry_s": 5.0,
        "delay_s": 1.0,
        "reply_to": "ANSWERS",
        "reply_to_manager": "QM2",
        "group_id": b"g" * 128,
        "sequence": 3,
        "last_in_group": True,
        "report": 0x100,
        "feedback": -5,
        "format": "MQSTR",
        "ccsid": 850,
        "encoding": 273,
        "properties": {"region": "EU", "count": -(2**63), "big": 2**63 - 1, "ratio": 0.5, "raw": b"\0", "yes": True},
    }
    found = checked_message(body=b"body", **said)
    assert found.body == b"body"
    for name, value in said.items():
        assert getattr(found, name) == value, name


@for_each(
    ("name", "value"),
    [
        ("message_id", b"m" * 129),
        ("correlation_id", b"c" * 129),
        ("group_id", b"g" * 129),
        ("reply_to", "x" * 1025),
        ("reply_to_manager", "x" * 1025),
        ("format", "é" * 600),
        ("sequence", 0),
        ("sequence", -1),
        ("sequence", 2**63),
        ("report", -1),
        ("report", 2**31),
        ("feedback", 2**31),
        ("ccsid", 2**31),
        ("encoding", -(2**31) - 1),
        ("expiry_s", 0.0),
        ("expiry_s", -1.0),
        ("expiry_s", math.inf),
        ("expiry_s", math.nan),
        ("delay_s", -0.5),
        ("delay_s", math.nan),
        ("delay_s", math.inf),
        ("delay_s", 1e30),
        ("properties", {"": 1}),
        ("properties", {"x" * 4096: 1}),
        ("properties", {str(number): 1 for number in range(1001)}),
        ("properties", {"a": "x" * limits.PROPERTIES_BYTES_MAX}),
        ("properties", {"a": None}),
        ("properties", {"a": []}),
        ("properties", {"a": {"b": 1}}),
        ("properties", {"a": 2**63}),
        ("properties", {"a": -(2**63) - 1}),
        ("properties", {"a": msgspec.msgpack.Ext(5, b"x")}),
        ("properties", {"a": datetime.datetime.now(datetime.UTC)}),
    ],
)
def test_what_is_beyond_the_limits_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        checked_message(**{name: value})
    assert refused.value.argument == name
    assert len(str(refused.value)) < 500


_wild: dict[str, st.SearchStrategy[Any]] = {
    "message_id": st.binary(max_size=300),
    "correlation_id": st.binary(max_size=300),
    "group_id": st.binary(max_size=300),
    "expiry_s": st.none() | st.floats(),
    "delay_s": st.floats(),
    "sequence": st.integers(-(2**63), 2**64 - 1),
    "report": st.integers(-(2**63), 2**64 - 1),
    "feedback": st.integers(-(2**63), 2**64 - 1),
    "ccsid": st.integers(-(2**63), 2**64 - 1),
    "encoding": st.integers(-(2**63), 2**64 - 1),
    "priority": st.integers(-(2**63), 2**64 - 1),
    "backout_count": st.integers(-(2**63), 2**64 - 1),
    "put_time": st.floats(),
    "reply_to": st.text(max_size=2000),
    "format": st.text(max_size=2000),
    "user": st.text(max_size=50),
}


@given(st.fixed_dictionaries({}, optional=_wild))
def test_what_passes_is_within_the_limits(fields: dict[str, Any]) -> None:
    try:
        found = checked_message(**fields)
    except InvalidArgument:
        return
    for name in ("message_id", "correlation_id", "group_id"):
        assert len(getattr(found, name)) <= limits.ID_BYTES_MAX
    assert 1 <= found.sequence <= 999_999_999
    for name in ("report", "feedback", "ccsid", "encoding"):
        assert -(2**31) <= getattr(found, name) < 2**31
    assert found.expiry_s is None or 0 < found.expiry_s < 1e10
    assert 0 <= found.delay_s < 1e10
    assert len(found.reply_to.encode()) <= limits.TEXT_BYTES_MAX
    assert (found.user, found.backout_count, found.put_time) == ("ann", 0, 0.0)


@pytest.mark.parametrize("value", [-1, 10, 2**63])
def test_a_priority_beyond_nine_is_refused(value: int) -> None:
    with pytest.raises(InvalidArgument):
        message_checks.priority(value)
    assert [message_checks.priority(each) for each in (None, 0, 9)] == [None, 0, 9]


@pytest.mark.parametrize("value", [-1.0, -0.001, math.nan, -math.inf, 1e30])
def test_a_wait_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(InvalidArgument):
        message_checks.wait(value)
    assert [message_checks.wait(each) for each in (0, 0.5, 3, math.inf)] == [0.0, 0.5, 3.0, math.inf]


def test_names_too_long_to_be_names_are_refused_before_anybody_looks_for_them() -> None:
    longest = f"{'Q' * 48}@{'M' * 48}"
    message_checks.require_names(longest)
    message_checks.require_names([longest] * limits.DISTRIBUTION_MAX)
    for wrong in (longest + "x", [longest, longest + "x"]):
        with pytest.raises(InvalidArgument):
            message_checks.require_names(wrong)
    with pytest.raises(LimitExceeded):
        message_checks.require_names(["Q"] * (limits.DISTRIBUTION_MAX + 1))
