# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.server.amqp.codec import UInt, UShort
from entrepot.server.amqp.frame_checker import CHANNEL_MAX, LINKS_MAX, FrameChecker
from folding import for_each

from .peer import attach_receiver, attach_sender, begin, credit, disposition, frame, transfer

OPEN = frame("open", ["tests"])
EMPTY = b"\x00\x00\x00\x08\x02\x00\x00\x00"


def detach(handle: int) -> bytes:
    return frame("detach", [UInt(handle), True])


def end(channel: int = 0) -> bytes:
    return frame("end", [], channel)


GOOD = (
    OPEN, EMPTY, begin(), attach_sender(handle=0), attach_receiver(handle=1), credit(5, 1), transfer(0, b"x" * 100),
    disposition(0, 5, None), detach(0), attach_sender(handle=0), detach(1), end(), begin(), begin(7),
    frame("close", []),
)  # fmt: skip


@pytest.mark.parametrize("step", [100_000, 1, 7, 50])
def test_good_frames_pass_as_they_are(step: int) -> None:
    frame_checker, said, passed = FrameChecker(), b"".join(GOOD), b""
    for at in range(0, len(said), step):
        frames, refusal = frame_checker.check(said[at : at + step])
        assert refusal is None
        passed += frames
    assert passed == said


@for_each(
    ("said", "condition"),
    [
        ((begin(),), "amqp:not-allowed"),
        ((frame("open", ["x"], channel=1),), "amqp:not-allowed"),
        ((OPEN, OPEN), "amqp:not-allowed"),
        ((OPEN, begin(), begin()), "amqp:not-allowed"),
        ((OPEN, begin(CHANNEL_MAX + 1)), "amqp:not-allowed"),
        ((OPEN, frame("begin", [UShort(0), UInt(0), UInt(1), UInt(1)])), "amqp:not-allowed"),
        ((OPEN, attach_sender()), "amqp:not-allowed"),
        ((OPEN, begin(), end(), attach_sender()), "amqp:not-allowed"),
        ((OPEN, begin(), attach_sender(), attach_sender(name="other")), "amqp:not-allowed"),
        ((OPEN, begin(), attach_sender(), attach_sender(handle=5)), "amqp:not-allowed"),
        ((OPEN, begin(), attach_sender(handle=2**31)), "amqp:not-allowed"),
        ((OPEN, begin(), transfer(0, b"x")), "amqp:invalid-field"),
        ((OPEN, begin(), attach_receiver(handle=0), transfer(0, b"x")), "amqp:invalid-field"),
        ((OPEN, transfer(0, b"x")), "amqp:not-allowed"),
        ((OPEN, begin(), credit(5, 3)), "amqp:invalid-field"),
        ((OPEN, begin(), detach(0)), "amqp:invalid-field"),
        ((OPEN, begin(), attach_sender(), detach(0), detach(0)), "amqp:invalid-field"),
        ((OPEN, end()), "amqp:not-allowed"),
        ((OPEN, frame("close", []), begin()), "amqp:not-allowed"),
        ((OPEN, frame("mechanisms", [])), "amqp:not-allowed"),
        ((OPEN, frame("begin", [None, UInt(0)], kind=1)), "amqp:connection:framing-error"),
        ((OPEN, b"\x00\x00\x00\x07\x02\x00\x00\x00"), "amqp:connection:framing-error"),
        ((OPEN, b"\x00\x01\x00\x01\x02\x00\x00\x00"), "amqp:connection:framing-error"),
        ((OPEN, b"\x00\x00\x00\x0c\x03\x00\x00\x00\x00\x00\x00\x00"), "amqp:connection:framing-error"),
        ((OPEN, b"\x00\x00\x00\x0a\x02\x00\x00\x00\x00\x53"), "amqp:connection:framing-error"),
        ((OPEN, b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x11\x40"), "amqp:connection:framing-error"),
        ((OPEN, b"\x00\x00\x00\x0e\x02\x00\x00\x00\x00\x53\x11\xc0\xff\x05"), "amqp:connection:framing-error"),
        ((OPEN, begin(), frame("attach", ["x", UInt(0)])), "amqp:connection:framing-error"),
        ((OPEN, begin(), frame("attach", [b"x", UInt(0), True])), "amqp:connection:framing-error"),
        ((OPEN, begin(), frame("attach", ["x", "0", True])), "amqp:connection:framing-error"),
        ((b"\x00\x00\x80\x00\x02\x00\x00\x00",), "amqp:connection:framing-error"),
    ],
    ids=range(31),
)
def test_bad_frames_do_not_pass(said: tuple[bytes, ...], condition: str) -> None:
    frames, refusal = FrameChecker().check(b"".join(said))
    assert refusal is not None
    assert refusal.condition == condition
    assert frames == b"".join(said[:-1])


def test_links_of_a_session_are_limited() -> None:
    many = [attach_sender(handle=number, name=str(number)) for number in range(LINKS_MAX + 1)]
    frames, refusal = FrameChecker().check(b"".join((OPEN, begin(), *many)))
    assert refusal is not None
    assert refusal.condition == "amqp:resource-limit-exceeded"
    assert frames.endswith(many[-2])


def test_limits_of_the_partner_are_its_own() -> None:
    few = frame("open", ["x", None, None, UShort(0)])
    _, refusal = FrameChecker().check(few + begin(0) + begin(1))
    assert refusal is not None
    assert refusal.condition == "amqp:resource-limit-exceeded"
    one_link = frame("begin", [None, UInt(0), UInt(1), UInt(1), UInt(0)])
    _, refusal = FrameChecker().check(OPEN + one_link + attach_sender() + attach_receiver())
    assert refusal is not None
    assert refusal.condition == "amqp:resource-limit-exceeded"


def test_fields_are_read_to_their_last_byte() -> None:
    # An array of symbols whose lengths point beyond it made the engine crash when it encoded the source again.
    array = b"\xf0\x00\x00\x00\x18\x00\x00\x00\x02\xb3\x00\x00\x00\x05toic\x00\x00\x00\x06shared"
    source = b"\x00\x53\x28\xc0" + bytes([len(array) + 13, 11]) + b"\xa1\x01Q" + b"\x40" * 9 + array
    fields = b"\xa1\x01a\x43\x41\x50\x00\x50\x01" + source
    performative = b"\x00\x53\x12\xc0" + bytes([len(fields) + 1, 6]) + fields
    attach = (len(performative) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + performative
    disposition_inside = b"\x00\x53\x15\xc0\x0c\x05\x41\x43\x40\x41\x00\x53\x34\xc0\x05\x01\xa0"
    frame_checker = FrameChecker()
    assert frame_checker.check(OPEN + begin()).refusal is None
    refused = frame_checker.check(attach)
    assert refused.frames == b""
    assert refused.refusal is not None
    frame_checker = FrameChecker()
    assert frame_checker.check(OPEN + begin()).refusal is None
    frame_of_it = (len(disposition_inside) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + disposition_inside
    assert frame_checker.check(frame_of_it).refusal is not None
