# SPDX-License-Identifier: Apache-2.0
"""An accepted AMQP connection: the socket, who is at its other end, and when it has to end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from entrepot.engine.definitions import Listener
from entrepot.errors import (
    ChannelNotAvailable,
    EntrepotError,
    HandshakeTimedOut,
    TooManyConnections,
    UserLimitReached,
)
from entrepot.limits import KIB, MIB
from entrepot.server.admission import Admission, Caller
from entrepot.server.amqp.codec import Symbol, encode, encode_described
from entrepot.server.amqp.conditions import Refusal, refusal_of
from entrepot.server.amqp.conversation import AmqpConversation
from entrepot.server.amqp.handshake import AMQP_HEADER, ClaimedIdentity, Handshake, HandshakeFailed, Outcome, outcome
from entrepot.server.connection_limiter import ConnectionLimiter
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity, SessionRegistry

_LOGGER = logging.getLogger("entrepot")
_WRITE_HIGH_BYTES = 1 * MIB
_WAITING_BYTES_MAX = 64 * KIB
"""What a partner may send ahead before it is admitted."""


class AmqpProtocol(asyncio.Protocol):
    """One connection; everything happens on the loop's thread, and nothing that goes wrong leaves it."""

    def __init__(
        self, registry: SessionRegistry, admission: Admission, listener: Listener, gate: ConnectionLimiter | None = None
    ) -> None:
        self.registry = registry
        self.session: Session | None = None
        self.heard = registry.loop.time()
        self.address = ""
        self.closed = False
        self._admission = admission
        self._listener = listener
        self._gate = gate
        self._transport: Any = None
        self._caller = Caller("")
        self._handshake: Handshake | None = None
        self._identity: Identity | None = None
        self._conversation: AmqpConversation | None = None
        self._heartbeat_s = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._flushing = False
        self._unread = False
        self._paused = False
        self._is_stranger = False

    # --- asyncio's side -------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._caller = Caller.of(transport)
        if not self._enter():
            self.closed = True
            transport.abort()
            return
        self.address = self._caller.address
        transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self.registry.links.add(self)
        self._handshake = Handshake(_mechanisms(self._caller))
        self._expect_progress()

    def data_received(self, data: bytes) -> None:
        self.heard = self.registry.loop.time()
        if self.closed:
            return
        try:
            if self._conversation is None:
                self._shake_hands(data)
                return
            self._conversation.receive(data)
            self._slow_down()
        except Exception:
            self._fail()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._unread = True

    def resume_writing(self) -> None:
        self._unread = False
        self._wants_flush()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the name is asyncio's
        self.closed = True
        for timer in (self._deadline, self._ticking):
            if timer is not None:
                timer.cancel()
        try:
            if self._conversation is not None:
                self._conversation.free()
        except Exception:
            _LOGGER.exception("AMQP connection from %s", self.address)
        finally:
            self._end_handshake()
            if self._identity is not None:
                self._admission.leave(self._identity)
                self._identity = None
            self.registry.links.discard(self)
            if self._gate is not None and self.address:
                self._gate.leave(self.address)

    # --- the beginning ----------------------------------------------------------------------------

    def _enter(self) -> bool:
        gate, address = self._gate, self._caller.address
        if gate is not None and not gate.enter(address):
            self._admission.turned_away(self._caller, "connections of the listener")
            return False
        self._is_stranger = self._admission.meet(self._caller)
        if not self._is_stranger and gate is not None:
            gate.leave(address)
        return self._is_stranger

    def _end_handshake(self) -> None:
        """The partner is admitted, or gone."""
        if self._is_stranger:
            self._is_stranger = False
            self._admission.part(self._caller)

    def _expect_progress(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.registry.loop.call_later(self._listener.handshake_s, self._too_slow)

    def _too_slow(self) -> None:
        self.close(HandshakeTimedOut(self.address, self._listener.handshake_s))

    def _shake_hands(self, data: bytes) -> None:
        handshake = self._handshake
        assert handshake is not None
        if len(handshake.waiting) + len(data) > _WAITING_BYTES_MAX:
            self._hang_up(b"")
            return
        try:
            reply, claim = handshake.feed(data)
        except HandshakeFailed as failed:
            _LOGGER.info("AMQP connection from %s: %s", self.address, failed.problem)
            self._hang_up(failed.farewell)
            return
        if reply:
            self._transport.write(reply)
        if claim is not None:
            self._hold()
            task = self.registry.loop.create_task(self._admit(claim))
            task.add_done_callback(_nothing_escapes)
        elif handshake.is_over:
            self._begin(handshake.waiting)

    async def _admit(self, claim: ClaimedIdentity) -> None:
        try:
            identity = await self._admission.admit(
                self._caller,
                kind="SVRCONN",
                channel=self._listener.channel,
                user=claim.user,
                password=claim.password,
                application="AMQP",
            )
        except EntrepotError as error:
            if not self.closed:
                self._turn_away(claim, error)
            return
        if self.closed:
            self._admission.leave(identity)
            return
        self._identity = identity
        self._end_handshake()
        assert self._handshake is not None
        self._transport.write(self._handshake.accepted())
        self._expect_progress()
        self._release()
        try:
            self._shake_hands(b"")
        except Exception:
            self._fail()

    def _turn_away(self, claim: ClaimedIdentity, error: EntrepotError) -> None:
        if claim.mechanism:
            busy = isinstance(error, TooManyConnections | UserLimitReached | ChannelNotAvailable)
            self._hang_up(outcome(Outcome.SYS_TEMP if busy else Outcome.AUTH))
            return
        self._hang_up(AMQP_HEADER + _farewell(self.registry.host.settings.name, refusal_of(error)))

    def _begin(self, data: bytes) -> None:
        identity = self._identity
        assert identity is not None
        self._handshake = None
        channel = self._admission.channel(identity.channel)
        self._heartbeat_s = channel.heartbeat_s
        self._conversation = AmqpConversation(
            self.registry, identity, channel, wants_flush=self._wants_flush, opened=self._opened, failed=self._fail
        )
        self._conversation.receive(data)
        self._wants_flush()

    def _opened(self, session: Session) -> None:
        self.session = session
        session.on_unblocked = self._unblocked
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.registry.loop.call_soon(self._tick)

    @property
    def heartbeat_s(self) -> float:
        """How often the partner has to say something; 0 is never. While we do not listen it need not."""
        return 0.0 if self.session is None or self._paused else self._heartbeat_s

    # --- holding and going on -----------------------------------------------------------------------

    def _hold(self) -> None:
        if not self._paused and not self.closed:
            self._paused = True
            self._transport.pause_reading()

    def _release(self) -> None:
        if self._paused and not self.closed:
            self._paused = False
            self._transport.resume_reading()

    def _slow_down(self) -> None:
        """Read no more for a while when the session has to wait, or the log has more to write than it should."""
        conversation = self._conversation
        assert conversation is not None
        if conversation.is_blocked:
            self._hold()
        elif self.registry.host.is_crowded and not self._paused:
            self._hold()
            self.registry.loop.call_later(0.001, self._go_on)

    def _go_on(self) -> None:
        if self.closed or self._conversation is None:
            return
        if self.registry.host.is_crowded and self.registry.host.failure is None:
            self.registry.loop.call_later(0.001, self._go_on)
        elif not self._conversation.is_blocked:
            self._release()

    def _unblocked(self) -> None:
        if self.closed or self._conversation is None:
            return
        try:
            self._conversation.process()
        except Exception:
            self._fail()
            return
        if not self._conversation.is_blocked:
            self._release()

    # --- writing --------------------------------------------------------------------------------------

    def _wants_flush(self) -> None:
        """Write at the end of this turn of the loop, together with whatever else comes up."""
        if not self._flushing and not self.closed:
            self._flushing = True
            self.registry.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        conversation = self._conversation
        if self.closed or conversation is None:
            return
        try:
            conversation.before_flush()
            transport = self._transport
            while not self._unread:
                data = conversation.pull()
                if not data:
                    if data is None:
                        self._hang_up(b"")
                        return
                    break
                transport.write(data)
            conversation.after_flush()
        except Exception:
            self._fail()
            return
        if conversation.draining:
            self._wants_flush()

    def _tick(self) -> None:
        conversation = self._conversation
        if self.closed or conversation is None:
            return
        loop = self.registry.loop
        now_ms = int(loop.time() * 1000)
        try:
            due_ms = conversation.tick(now_ms)
        except Exception:
            self._fail()
            return
        if due_ms:
            self._ticking = loop.call_later(max((due_ms - now_ms) / 1000, 0.01), self._tick)
        self._wants_flush()

    # --- the end --------------------------------------------------------------------------------------

    def close(self, error: EntrepotError | None = None) -> None:
        """End the connection; an error is told to the partner first."""
        if self.closed:
            return
        if self._conversation is None:
            self._hang_up(b"")
            return
        try:
            self._conversation.close(None if error is None else refusal_of(error))
            while data := self._conversation.pull():
                self._transport.write(data)
        except Exception:
            self._fail()
            return
        self._hang_up(b"")

    def _hang_up(self, last_words: bytes) -> None:
        self.closed = True
        if last_words:
            self._transport.write(last_words)
        self._transport.close()

    def _fail(self) -> None:
        """Something of ours has gone wrong: this connection ends, the others must not notice."""
        _LOGGER.exception("AMQP connection from %s", self.address)
        self.closed = True
        self._transport.abort()


def _mechanisms(caller: Caller) -> tuple[str, ...]:
    usual = ("PLAIN", "ANONYMOUS")
    return ("EXTERNAL", *usual) if caller.tls_peer else usual


def _farewell(container: str, refusal: Refusal) -> bytes:
    """Open and close, for a partner that has spoken no SASL in which to refuse it."""
    error = encode_described(0x1D, encode([Symbol(refusal.condition), refusal.description]))
    opening = encode_described(0x10, encode([container]))
    closing = encode_described(0x18, b"\xd0" + (len(error) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + error)
    return b"".join((len(body) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body for body in (opening, closing))


def _nothing_escapes(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _LOGGER.error("AMQP admission", exc_info=task.exception())
