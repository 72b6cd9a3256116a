# SPDX-License-Identifier: Apache-2.0
"""AMQP: its encoding, messages in it, and a connection that says frames."""

from __future__ import annotations

import asyncio
import struct

from entrepot.message import Message
from entrepot.server.amqp.codec import Malformed, decode
from entrepot.server.amqp.mapping import decode_message, encode_message
from unit.server.amqp.fuzz import Rogue
from unit.server.amqp.peer import AMQP_HEADER, Place, frame

from .running_loop import RunningPlace
from .target import Target, join_pieces, split_pieces

_HEAD = struct.Struct(">IBBH")


def read_value(data: bytes) -> None:
    decode(data)


def read_message(data: bytes) -> None:
    decode_message(data, 1.7e9)


_PLACE = RunningPlace()


async def _visit(place: Place, data: bytes) -> None:
    peer = place.connect()
    peer.say(AMQP_HEADER, frame("open", ["fuzz"]))
    for piece in split_pieces(data):
        if peer.transport.closing or not piece:
            break
        # Channel and body; the length of a frame is always right.
        peer.say(_HEAD.pack(len(piece) + 7, 2, 0, piece[0] & 3) + piece[1:])
        await asyncio.sleep(0)
    peer.lose()


def say_frames(data: bytes) -> None:
    """The engine in C, our checks before it and our conversation behind it."""
    _PLACE.visit(lambda place: _visit(place, data))


def _conversation(seed: int) -> bytes:
    rogue = Rogue(seed)
    rogue.deviation = 0
    frames = rogue.stream()[1:30]
    return join_pieces(*(bytes((each[7],)) + each[8:] for each in frames))


MESSAGES = (
    encode_message(Message(b"body", persistent=True, properties={"a": 1, "b": 2.5, "c": "x", "d": True}), "Q"),
    encode_message(Message(b"x" * 30, correlation_id=b"c", reply_to="Q", group_id=b"g", expiry_s=5.0), "Q"),
    encode_message(Message(b"<a><b>2</b></a>", topic="T", retained=True), ""),
)

TARGETS = (
    Target("amqp-value", read_value, MESSAGES, 20000, 1000, refusals=(Malformed,)),
    Target("amqp-message", read_message, MESSAGES, 10000, 1000, refusals=(Malformed,)),
    Target("amqp-visit", say_frames, tuple(_conversation(seed) for seed in range(12)), 200, 8192),
)
