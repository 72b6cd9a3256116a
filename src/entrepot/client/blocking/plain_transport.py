# SPDX-License-Identifier: Apache-2.0
"""The hot verbs of a blocking line, each in one piece; `compiled/transport.pyx` has their compiled form.

That form reads and writes the socket itself, where it is not encrypted.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from entrepot.client.blocking.blocking_reply import BlockingReply
from entrepot.client.options import Sender
from entrepot.client.protocol import GATHER_BYTES
from entrepot.client.read_ahead import ReadAhead
from entrepot.compiled import compiled
from entrepot.errors import EntrepotError
from entrepot.message import Message, MessageType

if TYPE_CHECKING:
    from entrepot.client.protocol import ClientCore


class PlainTransport:
    """What `Line` has in two forms."""

    if TYPE_CHECKING:
        core: ClientCore
        _lock: Any
        _socket: Any
        _backlog: list[memoryview]
        answer: Any
        _make_ready: Any
        _interrupted: Any
        _relieve: Any
        _send: Any
        _wait: Any

        @property
        def _is_fresh(self) -> bool: ...

    def put_plain(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """See `transport.Transport.put_plain`."""
        slot = BlockingReply()
        message_id = self._put_now(name, body, persistent, None, b"", MessageType.DATAGRAM, sender, slot)
        self.answer(slot)
        return message_id

    def reply_plain(self, name: str, body: bytes, priority: int | None, correlation_id: bytes, sender: Sender) -> bytes:
        """See `transport.Transport.reply_plain`."""
        message_id = self._put_now(name, body, False, priority, correlation_id, MessageType.REPLY, sender, None)
        if self._backlog:
            self._relieve()
        return message_id

    def _put_now(self, *put: Any) -> bytes:
        with self._lock:
            if not self._is_fresh:
                self._make_ready()
            try:
                message_id = self.core.gather_put(*put)
                self._send()
            except EntrepotError:
                raise
            except BaseException:
                self._interrupted()
                raise
        return message_id

    def join_plain(self, name: str, body: bytes, persistent: bool | None, sender: Sender) -> bytes:
        """See `transport.Transport.join_plain`."""
        core = self.core
        with self._lock:
            if not self._is_fresh:
                self._make_ready()
            try:
                message_id = core.join_put(name, body, persistent, sender)
                if core.out_bytes > GATHER_BYTES:
                    self._send()
            except EntrepotError:
                raise
            except BaseException:
                self._interrupted()
                raise
        if self._backlog:
            self._relieve()
        return message_id

    def request_plain(
        self,
        name: str,
        body: bytes,
        reply_queue: str,
        timeout_s: float,
        persistent: bool | None,
        sender: Sender,
        opened: int,
    ) -> Message | None:
        """See `transport.Transport.request_plain`."""
        slot = BlockingReply()
        with self._lock:
            if not self._is_fresh:
                self._make_ready()
            if self.core.opened != opened:
                return None
            try:
                self.core.gather_request(name, body, reply_queue, timeout_s, persistent, sender, slot)
                self._send()
            except EntrepotError:
                raise
            except BaseException:
                self._interrupted()
                raise
        reply: Message = self.answer(slot)
        return reply

    def arrived(self, ahead: ReadAhead, deadline: float) -> None:
        """See `transport.Transport.arrived`."""
        if ahead.has_some or ahead.error is not None:
            return
        if self.core.out:
            with self._lock:
                self._send()
        slot = BlockingReply()
        ahead.wake = partial(slot.resolve, None)
        if not ahead.has_some and ahead.error is None:
            self._wait(slot, deadline)
        ahead.wake = None


_compiled = compiled("transport")
if not TYPE_CHECKING and _compiled is not None:
    PlainTransport = _compiled.PlainTransport
