# SPDX-License-Identifier: Apache-2.0
"""Frames of our own protocol: cutting them out of a stream, and a connection that is let in and says them."""

from __future__ import annotations

from entrepot.server.wire.codec import decode, decode_asked, encode
from entrepot.server.wire.error_form import from_wire
from entrepot.server.wire.frame import HEAD, HEAD_BYTES, FrameReader
from entrepot.server.wire.verbs import Verb
from unit.server.guests import SAMPLES, House

from .running_loop import RunningHouse
from .target import Target, join_pieces, split_pieces

_BUFFER = memoryview(bytearray(64 * 1024))


def read_stream(data: bytes) -> None:
    """The first byte says how many bytes come at a time."""
    reader, rest = FrameReader(_BUFFER, 16 * 1024), memoryview(data)[1:]
    step = data[0] or 4096 if data else 1
    while rest:
        buffer = reader.buffer()
        count = min(len(buffer), step, len(rest))
        buffer[:count] = rest[:count]
        rest = rest[count:]
        for verb, _, payload in reader.frames(count):
            decode_asked(verb, payload)


def read_answer(data: bytes) -> None:
    """What a server says to a client that trusts it no more than the server trusts the client."""
    if data:
        answer = decode(data[0], data[1:])
        if data[0] in (Verb.FAILED, Verb.CLOSING):
            assert isinstance(from_wire(answer.error), Exception)


_HOUSE = RunningHouse()


async def _visit(house: House, data: bytes) -> None:
    guest = await house.admitted()
    for piece in split_pieces(data):
        if guest.wire.closing or not piece:
            break
        # Verb, number, payload; the length is always right, as read_stream is about wrong ones.
        number = piece[1] if len(piece) > 1 else 0
        guest.say_bytes(HEAD.pack(HEAD_BYTES - 4 + len(piece[2:]), piece[0], number) + piece[2:])
    guest.wire.lose()


def say_frames(data: bytes) -> None:
    """A server with a queue manager answers whatever is said, or closes; nothing escapes, nothing stays behind."""
    _HOUSE.visit(lambda house: _visit(house, data))


def _piece(verb: Verb) -> bytes:
    content = encode(verb, 0, SAMPLES[verb])[HEAD_BYTES:]
    return bytes((verb, 7)) + content


_SAID = [verb for verb in SAMPLES if verb not in (Verb.HELLO, Verb.GOODBYE)]
STREAMS = (
    b"\0" + b"".join(encode(verb, 7, payload) for verb, payload in SAMPLES.items()),
    *(b"\3" + encode(verb, 1, payload) for verb, payload in SAMPLES.items()),
)
VISITS = (
    join_pieces(*map(_piece, _SAID)),
    join_pieces(*map(_piece, (Verb.PUT, Verb.CONSUME, Verb.CREDIT, Verb.ACKNOWLEDGE, Verb.PUT_MANY, Verb.COMMIT))),
    *(join_pieces(_piece(verb)) for verb in _SAID),
)
ANSWERS = tuple(bytes((verb,)) + encode(verb, 0, payload)[HEAD_BYTES:] for verb, payload in SAMPLES.items())

TARGETS = (
    Target("native-stream", read_stream, STREAMS, 20000),
    Target("native-answer", read_answer, (*ANSWERS, bytes((Verb.FAILED,)) + b"\x91\x92\xa3Q01\x90"), 40000, 1000),
    Target("native-visit", say_frames, VISITS, 300, 8192),
)
