# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pytest

from entrepot import checks, limits
from entrepot.errors import InvalidArgument
from entrepot.message import MessageType, PropertyValue
from folding import for_each


class Bytes(bytes):
    pass


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("value", [b"", b"abc", bytearray(b"abc"), memoryview(b"abcdef")[::2], Bytes(b"abc")])
def test_body_becomes_bytes_of_our_own(value: Any) -> None:
    body = checks.body(value)
    assert type(body) is bytes
    assert body == bytes(value)


def test_text_is_no_body_and_the_error_says_what_to_do() -> None:
    with pytest.raises(InvalidArgument, match="encode"):
        checks.body("text")


def test_identifier_may_be_empty_but_nobody_asks_for_an_empty_one() -> None:
    assert checks.identifier("message_id", b"") == b""
    assert checks.wanted_identifier("message_id", b"x" * limits.ID_BYTES_MAX) == b"x" * limits.ID_BYTES_MAX
    for wrong in (b"", b"x" * (limits.ID_BYTES_MAX + 1), "x", None):
        with pytest.raises(InvalidArgument, match="message_id"):
            checks.wanted_identifier("message_id", wrong)


def test_transaction_id_may_be_as_long_as_xa_has_it() -> None:
    assert checks.transaction_id(b"x" * 140) == b"x" * 140
    for wrong in (b"", b"x" * 141, "x"):
        with pytest.raises(InvalidArgument):
            checks.transaction_id(wrong)


def test_message_type_may_be_said_by_its_number() -> None:
    assert checks.message_type(1) is MessageType.REQUEST
    assert checks.message_type(MessageType.REPLY) is MessageType.REPLY
    for wrong in (0, 3, 9, True, "REQUEST", 1.0, None):
        with pytest.raises(InvalidArgument):
            checks.message_type(wrong)


def test_text_is_counted_in_bytes() -> None:
    assert checks.text("format", "é" * 512) == "é" * 512
    for wrong in ("é" * 513, "\ud800", b"x", None):
        with pytest.raises(InvalidArgument):
            checks.text("format", wrong)


@pytest.mark.parametrize("value", [0, 9])
def test_whole_number_lies_within_its_limits(value: int) -> None:
    assert checks.whole_number("priority", value, 0, 9) == value


@for_each("value", [-1, 10, 5.0, True, "5", None, 10**5000, Unspeakable()], ids=lambda v: type(v).__name__)
def test_other_numbers_are_refused_whatever_they_are(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        checks.whole_number("priority", value, 0, 9)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", [0, 0.5, 60, 86_400 * 365])
def test_seconds_are_a_number_that_is_not_negative(value: float) -> None:
    assert checks.seconds("expiry_s", value) == value


@for_each("value", [-0.1, math.nan, math.inf, -math.inf, 10**400, True, "1", None])
def test_other_seconds_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgument):
        checks.seconds("expiry_s", value)


def test_some_seconds_must_be_more_than_none() -> None:
    with pytest.raises(InvalidArgument, match="more than 0"):
        checks.seconds("expiry_s", 0, positive=True)


def test_one_may_wait_for_good() -> None:
    assert checks.wait("wait_s", math.inf) == math.inf
    with pytest.raises(InvalidArgument):
        checks.wait("wait_s", math.nan)


def test_flag_is_true_or_false_and_nothing_like_it() -> None:
    assert checks.flag("persistent", True) is True
    for wrong in (1, 0, None, "yes", b""):
        with pytest.raises(InvalidArgument):
            checks.flag("persistent", wrong)


def test_properties_are_copied() -> None:
    given: dict[str, PropertyValue] = {"a": 1, "b": "x", "c": b"y", "d": 1.5, "e": True}
    copied = checks.properties(given)
    assert copied == given
    assert copied is not given


@for_each(
    "wrong",
    [
        [("a", 1)],
        {"": 1},
        {1: 1},
        {"a": None},
        {"a": 2**63},
        {"a": -(2**63) - 1},
        {"a": {}},
        {"a": "\ud800"},
        {"\ud800": 1},
        {"x" * 4096: 1},
        {str(number): 1 for number in range(1001)},
        {"a": b"x" * limits.PROPERTIES_BYTES_MAX},
        {"é" * 4000 + str(n): "x" * 4096 for n in range(100)},
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_properties_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        checks.properties(wrong)
    assert len(str(caught.value).encode()) < 500
