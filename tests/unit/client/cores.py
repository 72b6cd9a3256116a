# SPDX-License-Identifier: Apache-2.0
"""What tests of the client's half of the protocol share: a core that is connected to nobody, and its frames."""

from __future__ import annotations

from typing import Any

from entrepot.client.protocol import ClientCore
from entrepot.errors import EntrepotError
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode
from entrepot.server.wire.frame import VERSION, FrameReader


class Slot:
    """Remembers its answer."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: EntrepotError | None = None
        self.unit_active = False

    def resolve(self, value: Any) -> None:
        self.value = value

    def fail(self, error: EntrepotError, *, unit_active: bool = False) -> None:
        self.error = error
        self.unit_active = unit_active


def welcome(head: bytes = b"head", *, body_bytes_max: int = 1_000_000, token: bytes = b"token") -> verbs.Welcome:
    return verbs.Welcome(VERSION, "QM1", 1, 0.0, body_bytes_max, "ann", 1, head, token)


def new_core() -> ClientCore:
    """A client that is connected for the first time."""
    core = ClientCore("unix:qm1")
    core.begin_connection(welcome())
    return core


def said(core: ClientCore) -> list[tuple[int, int, Any]]:
    """Verb, number and payload of what has gathered."""
    data = b"".join(core.take())
    reader = FrameReader(memoryview(bytearray(len(data) + 1)), 2**31)
    reader.buffer()[: len(data)] = data
    return [(verb, number, decode(verb, view)) for verb, number, view in reader.frames(len(data))]


def texts(*bodies: str, **fields: Any) -> list[Message]:
    return [Message(body.encode(), **fields) for body in bodies]


def bodies(messages: list[Message]) -> str:
    return " ".join(message.body.decode() for message in messages)
