# SPDX-License-Identifier: Apache-2.0
"""PING CHANNEL: a connection that hears the other end's welcome, and ends."""

from __future__ import annotations

import asyncio
from typing import Any

from entrepot.channels.dialler import Dial
from entrepot.engine.definitions import Channel
from entrepot.errors import ConnectionLost, EntrepotError, HandshakeTimedOut
from entrepot.server.framed_connection import FramedConnection
from entrepot.server.session_registry import SessionRegistry
from entrepot.server.wire.error_form import from_wire
from entrepot.server.wire.verbs import ChannelHello, ChannelWelcome, Verb


class _Probe(FramedConnection):
    __slots__ = ("_answer",)

    def __init__(self, registry: SessionRegistry, answer: asyncio.Future[ChannelWelcome]) -> None:
        super().__init__(registry)
        self._answer = answer

    def on_frame(self, verb: int, number: int, payload: Any) -> None:  # noqa: ARG002
        if not self._answer.done():
            if verb == Verb.CHANNEL_WELCOME:
                self._answer.set_result(payload)
            elif verb in (Verb.CLOSING, Verb.FAILED):
                self._answer.set_exception(from_wire(payload.error))
        self.close()

    def on_lost(self, problem: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(ConnectionLost(self.address or "the other end", str(problem or "it closed")))


async def probe(
    registry: SessionRegistry, definition: Channel, open_connection: Dial, hello: ChannelHello, *, timeout_s: float
) -> ChannelWelcome:
    """The other end's answer to a sender's first frame.

    Raises:
        ChannelError, SecurityError: Why there is none.
    """
    answer: asyncio.Future[ChannelWelcome] = registry.loop.create_future()

    def dialled(link: FramedConnection | None, error: EntrepotError | None) -> None:
        if link is not None:
            link.send(Verb.CHANNEL_HELLO, 0, hello)
        elif error is not None and not answer.done():
            answer.set_exception(error)

    give_up = open_connection(definition, 0, lambda: _Probe(registry, answer), dialled)
    try:
        return await asyncio.wait_for(answer, timeout_s)
    except TimeoutError:
        raise HandshakeTimedOut(definition.connection_name, timeout_s) from None
    finally:
        give_up()
