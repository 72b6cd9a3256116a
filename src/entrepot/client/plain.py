# SPDX-License-Identifier: Apache-2.0
"""Plain verbs of a client and their answers, between arguments and frames, without any I/O.

A plain put says nothing of its message but body, persistence, priority,
type, correlation id and reply queue. Most puts are plain. The compiled form
(`compiled/transport.pyx`) writes their frames without making a message first, and
reads plain answers without msgspec; what is not plain it leaves to the
methods of `ClientCore` that are named `..._any`. This form always does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from entrepot.compiled import compiled
from entrepot.limits import KIB
from entrepot.message import PutInUnit
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.frame import FrameReader
from entrepot.server.wire.verbs import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from entrepot.client.options import Sender
    from entrepot.client.read_ahead import ReadAhead

PUT_MANY_BYTES = 56 * KIB
"""What a frame of many puts has at most; a server takes no longer frames whose parts it has not looked at."""


class PlainCore:
    """What `ClientCore` has in two forms."""

    if TYPE_CHECKING:
        out: list[Any]
        put_any: Any
        request_any: Any
        join_any: Any
        bodies_any: Any
        tell: Any
        handle: Any
        hear_any: Any

    def __init__(self) -> None:
        self._joined: list[PutInUnit] = []
        self._joined_bytes = 0
        """Puts that are to share a frame; its other parts are in no hurry, either."""

    def gather_put(
        self,
        name: str,
        body: bytes,
        persistent: bool | None,
        priority: int | None,
        correlation_id: bytes,
        kind: int,
        sender: Sender,
        slot: Any,
    ) -> bytes:
        """Gather a put; `slot` is where its answer goes, if it wants one. Returns the message id.

        Raises:
            MessageTooLong, InvalidName: Nothing was gathered.
        """
        message_id: bytes = self.put_any(name, body, persistent, priority, correlation_id, kind, sender, slot)
        return message_id

    def gather_request(
        self,
        name: str,
        body: bytes,
        reply_queue: str,
        timeout_s: float,
        persistent: bool | None,
        sender: Sender,
        slot: Any,
    ) -> None:
        """Gather a request whose reply comes as its answer.

        Raises:
            MessageTooLong, InvalidName: Nothing was gathered.
        """
        self.request_any(name, body, reply_queue, timeout_s, persistent, sender, slot)

    def join_put(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """Gather a put that wants no answer and may share a frame with its neighbours; its message id.

        Raises:
            MessageTooLong, InvalidName: Nothing was gathered.
        """
        message_id: bytes = self.join_any(name, body, persistent, sender)
        return message_id

    def join_one(self, put: PutInUnit, size: int) -> None:
        """Gather a put of at most about `size` bytes that shares a frame with its neighbours."""
        self._joined_bytes += size
        if self._joined_bytes > PUT_MANY_BYTES:
            if self._joined:
                self._gather_joined()
            self._joined_bytes = size
        self._joined.append(put)

    def _gather_joined(self) -> None:
        """Gather the frame that puts without an answer share."""
        self.out.append(encode(Verb.PUT_MANY, 0, verbs.PutMany(0, self._joined)))
        self._joined = []
        self._joined_bytes = 0

    def gather_bodies(
        self, unit: int, name: str, bodies: Sequence[bytes], persistent: bool | None, sender: Sender
    ) -> list[bytes]:
        """Gather puts of a unit of work that differ in their bodies only; their message ids.

        Raises:
            MessageTooLong, InvalidName: Nothing was gathered.
        """
        message_ids: list[bytes] = self.bodies_any(unit, name, bodies, persistent, sender)
        return message_ids

    def gather_credit(self, ahead: ReadAhead) -> None:
        """Gather how far the application has used a consumer's messages."""
        more, ahead.told = ahead.given - ahead.told, ahead.given
        self.tell(Verb.CREDIT, verbs.Credit(ahead.number, ahead.given, more))

    def hear(self, reader: FrameReader, count: int) -> None:
        """Do what frames say that are whole now that `count` bytes were read.

        Raises:
            ProtocolError: What came is no frame of ours, or makes no sense.
        """
        if (frame := reader.only_frame(count)) is not None:
            verb, number, view = frame
            self.handle(verb, number, decode(verb, view))
        else:
            self.hear_any(reader, count, 0)


_compiled = compiled("transport")
if not TYPE_CHECKING and _compiled is not None:
    PlainCore = _compiled.PlainCore
