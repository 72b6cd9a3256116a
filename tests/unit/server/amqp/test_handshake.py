# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.server.amqp.codec import Symbol, decode, encode
from entrepot.server.amqp.handshake import (
    AMQP_HEADER,
    SASL_HEADER,
    ClaimedIdentity,
    Handshake,
    HandshakeFailed,
    Outcome,
    outcome,
)
from folding import for_each

from .peer import frame, init

MECHANISMS = ("PLAIN", "ANONYMOUS")


def begun() -> Handshake:
    handshake = Handshake(MECHANISMS)
    handshake.feed(SASL_HEADER)
    return handshake


def test_mechanisms_are_offered() -> None:
    reply, claim = Handshake(MECHANISMS).feed(SASL_HEADER)
    assert claim is None
    assert reply.startswith(SASL_HEADER)
    performative, _ = decode(reply[16:])
    assert (performative.descriptor, performative.value) == (0x40, [["PLAIN", "ANONYMOUS"]])


def test_password_is_claimed() -> None:
    handshake = begun()
    assert handshake.feed(init("PLAIN", b"\x00app\x00secret")) == (b"", ClaimedIdentity("PLAIN", "app", "secret"))
    assert handshake.accepted() == outcome(Outcome.OK)
    assert not handshake.is_over
    handshake.feed(AMQP_HEADER + b"rest")
    assert handshake.is_over
    assert handshake.waiting == b"rest"


def test_all_at_once_and_byte_by_byte_are_the_same() -> None:
    said = SASL_HEADER + init("PLAIN", b"app\x00app\x00secret") + AMQP_HEADER + b"rest"
    for step in (len(said), 1, 7):
        handshake, claims = Handshake(MECHANISMS), []
        for at in range(0, len(said), step):
            _, claim = handshake.feed(said[at : at + step])
            if claim is not None:
                claims.append(claim)
                handshake.accepted()
        handshake.feed(b"")
        assert claims == [ClaimedIdentity("PLAIN", "app", "secret")]
        assert handshake.is_over
        assert handshake.waiting == b"rest"


def test_anonymous_claims_nobody() -> None:
    assert begun().feed(init("ANONYMOUS", b"trace"))[1] == ClaimedIdentity("ANONYMOUS")
    assert begun().feed(init("ANONYMOUS", None))[1] == ClaimedIdentity("ANONYMOUS")


def test_no_sasl_claims_nobody() -> None:
    handshake = Handshake(MECHANISMS)
    assert handshake.feed(AMQP_HEADER + b"rest") == (b"", ClaimedIdentity(""))
    assert handshake.accepted() == b""
    assert handshake.is_over
    assert handshake.waiting == b"rest"


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\n\r\n", b"G", b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"AMQQ", b"\x16\x03\x01"],
    ids=repr,
)
def test_other_protocols_hear_what_we_speak(said: bytes) -> None:
    with pytest.raises(HandshakeFailed) as caught:
        Handshake(MECHANISMS).feed(said)
    assert caught.value.farewell == SASL_HEADER


@for_each(
    "said",
    [
        init("EXTERNAL", b""),
        init("SCRAM-SHA-256", b""),
        init("PLAIN", None),
        init("PLAIN", b"app\x00secret"),
        init("PLAIN", b"\x00\x00secret"),
        init("PLAIN", b"boss\x00app\x00secret"),
        init("PLAIN", b"\x00\xff\x00secret"),
        frame("init", [], kind=1),
        frame("init", ["PLAIN"], kind=1),
        frame("outcome", [Symbol("PLAIN")], kind=1),
        b"\x00\x00\x00\x0b\x02\x01\x00\x00\x00\x53\x41",
        b"\x00\x00\x00\x09\x02\x01\x00\x00\x40",
    ],
    ids=range(12),
)
def test_claims_that_are_none_are_refused(said: bytes) -> None:
    with pytest.raises(HandshakeFailed) as caught:
        begun().feed(said)
    assert caught.value.farewell == outcome(Outcome.AUTH)


@pytest.mark.parametrize(
    "said",
    [
        b"\x00\x10\x00\x00\x02\x01\x00\x00",
        b"\x00\x00\x00\x07\x02\x01\x00\x00",
        b"\x00\x00\x00\x10\x01\x01\x00\x00",
        b"\x00\x00\x00\x10\x02\x00\x00\x00",
    ],
    ids=["long", "short", "offset", "type"],
)
def test_frames_that_are_none_end_the_connection(said: bytes) -> None:
    with pytest.raises(HandshakeFailed):
        begun().feed(said)


def test_second_header_must_be_amqps() -> None:
    handshake = begun()
    handshake.feed(init("ANONYMOUS", None))
    handshake.accepted()
    with pytest.raises(HandshakeFailed) as caught:
        handshake.feed(SASL_HEADER)
    assert caught.value.farewell == AMQP_HEADER
    assert encode(None) == b"\x40"
