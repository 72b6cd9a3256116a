# SPDX-License-Identifier: Apache-2.0
"""The native protocol's side of a server: a connection of bytes, from its admission to its end.

Until its first frame has been admitted a connection has no session, a small
frame limit and a deadline. Then its `Conversation` knows what frames mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from entrepot import checks
from entrepot.compiled import compiled
from entrepot.engine.definitions import Channel
from entrepot.errors import (
    EntrepotError,
    Fenced,
    FrameUnreadable,
    HandshakeTimedOut,
    HeartbeatMissed,
    UnknownVerb,
    VersionUnsupported,
    WrongManager,
)
from entrepot.server.admission import Admission, Caller
from entrepot.server.connection_limiter import ConnectionLimiter
from entrepot.server.conversation import Conversation
from entrepot.server.framed_connection import FramedConnection
from entrepot.server.putting import put_rest
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity, SessionRegistry
from entrepot.server.stream import Stream
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode_asked
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.frame import HANDSHAKE_FRAME_BYTES_MAX, VERSION, FrameReader, frame_bytes_max, read_buffer
from entrepot.server.wire.verbs import MAGIC, Verb

_FENCED_S = 2.0
"""How long a partner that is fenced may ask and be refused, so that it knows what became of what it said before."""
_NOTHING = verbs.Empty()
_express = compiled("express")
_outlet = compiled("outlet")

if _express is not None:

    class _Lane(_express.FastPath, asyncio.BufferedProtocol):  # type: ignore[misc, name-defined]
        """What event loops take for a protocol."""

        __slots__ = ()


class ChannelEnd(Protocol):
    """The receiving end of a channel between queue managers."""

    def handle(self, verb: int, number: int, payload: Any) -> None: ...

    def lost(self) -> None: ...


ReceiverFactory = Callable[["NativeConnection", verbs.ChannelHello, Channel, Identity], ChannelEnd]


class NativeConnection(FramedConnection):
    """One accepted connection."""

    __slots__ = (
        "_deadline", "_end", "_is_stranger", "_lane", "_make_receiver", "_unread_bytes", "admission", "caller",
        "channel", "conversation", "gate", "handshake_s", "identity",
    )  # fmt: skip

    def __init__(
        self,
        registry: SessionRegistry,
        admission: Admission,
        gate: ConnectionLimiter,
        make_receiver: ReceiverFactory | None = None,
        handshake_s: float = 10.0,
    ) -> None:
        super().__init__(registry, decode_asked)
        # Who is not known yet is not read much of at a time, either.
        self.reader = FrameReader(read_buffer()[:HANDSHAKE_FRAME_BYTES_MAX])
        self.caller: Caller | None = None
        """Who has passed the gate."""
        self.admission = admission
        self.gate = gate
        self.handshake_s = handshake_s
        self.identity: Identity | None = None
        self.channel = Channel(name="")
        self.conversation: Conversation | None = None
        self._end: Conversation | ChannelEnd | None = None
        """Who takes its frames, once it is admitted."""
        self._make_receiver = make_receiver
        self._unread_bytes = 0
        self._deadline: Any = None
        self._is_stranger = False
        self._lane: Any = None
        """The compiled form of what its frames ask most, once it is admitted."""

    @property
    def session(self) -> Session | None:
        return None if self.conversation is None else self.conversation.session

    # --- the beginning --------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        caller = Caller.of(transport)
        if not self._enter(caller):
            self.closed = True
            transport.abort()
            return
        self.caller = caller
        self._is_stranger = True
        self.address = caller.address
        self.registry.links.add(self)
        self._deadline = self.registry.loop.call_later(self.handshake_s, self._too_slow)

    def _enter(self, caller: Caller) -> bool:
        if not self.gate.enter(caller.address):
            self.admission.turned_away(caller, "connections of the listener")
            return False
        if not self.admission.meet(caller):
            self.gate.leave(caller.address)
            return False
        return True

    def _end_handshake(self) -> None:
        """The partner is admitted, or gone."""
        if self._is_stranger and self.caller is not None:
            self._is_stranger = False
            self.admission.part(self.caller)

    def _too_slow(self) -> None:
        self.close(HandshakeTimedOut(self.address, self.handshake_s))

    def _admit(self, verb: int, number: int, hello: Any) -> None:
        if verb not in (Verb.HELLO, Verb.CHANNEL_HELLO):
            raise FrameUnreadable(f"the first frame must be HELLO, not {Verb(verb).name}")
        if hello.magic != MAGIC:
            raise FrameUnreadable("this is not Entrepot's protocol")
        if hello.version != VERSION:
            raise VersionUnsupported(hello.version, VERSION)
        self.hold()
        self._deadline.cancel()
        self._deadline = None
        task = self.registry.loop.create_task(self._admission(verb, number, hello))
        task.add_done_callback(self._admission_ended)

    def _admission_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.close()
            raise task.exception()  # type: ignore[misc]  # to the loop's handler, which logs it

    async def _admission(self, verb: int, number: int, hello: Any) -> None:
        between_managers = verb == Verb.CHANNEL_HELLO
        if self.caller is None or self.closed:
            return
        try:
            identity = await self.admission.admit(
                self.caller,
                kind="RCVR" if between_managers else "SVRCONN",
                channel=hello.channel,
                user=hello.user,
                password=hello.password,
                application=hello.manager if between_managers else hello.application,
            )
        except EntrepotError as error:
            self._refuse(number, error)
            return
        if self.closed:
            self.admission.leave(identity)
            return
        self.identity = identity
        self._end_handshake()
        try:
            self._require_manager(hello.target if between_managers else hello.manager)
            self.channel = self.admission.channel_of(identity)
            self.reader.widen(read_buffer(), frame_bytes_max(self.channel.body_bytes_max))
            if between_managers:
                if self._make_receiver is None:
                    raise UnknownVerb(verb)
                self._end = self._make_receiver(self, hello, self.channel, identity)
            else:
                self._open(number, hello, identity)
        except EntrepotError as error:
            self._refuse(number, error)
            return
        self.resume()

    def _require_manager(self, wanted: str) -> None:
        name = self.registry.host.settings.name
        if wanted and wanted != name:
            raise WrongManager(self.address, wanted, name)

    def _open(self, number: int, hello: verbs.Hello, identity: Identity) -> None:
        application = checks.text("application", hello.application)
        session = Session(self.registry, identity, application, "NATIVE")
        self._end = self.conversation = Conversation(self, session)
        session.on_unblocked, session.on_replaced = self.resume, self.close
        if _express is not None:
            frame_bytes = self.reader.frame_bytes_max
            self._lane = _Lane(self, self.conversation, read_buffer().obj, frame_bytes, self._hear, put_rest)
            self.transport.set_protocol(self._lane)
        host = self.registry.host
        heartbeat_s = self.channel.heartbeat_s
        self.send(
            Verb.WELCOME,
            number,
            verbs.Welcome(
                VERSION,
                host.settings.name,
                session.number,
                heartbeat_s,
                self.channel.body_bytes_max,
                identity.user,
                host.manager.incarnation,
                host.manager.message_id_head(session.number),
                self.registry.session_tokens.follow(session, hello.before),
                joins_puts=True,
            ),
        )

    def _refuse(self, number: int, error: EntrepotError) -> None:
        if not self.closed:
            self.send(Verb.FAILED, number, verbs.Failed(to_wire(error)))
            self.close()

    @property
    def heartbeat_s(self) -> float:
        """How often the partner has to say something; 0 is never, as while we do not listen to it."""
        return self.channel.heartbeat_s if self._end is not None and not self.is_deaf else 0.0

    def reassure(self) -> None:
        """While a verb holds up the partner's heartbeats too, tell it that we live; and see whether it reads."""
        if self.session is not None and self.is_deaf and self.channel.heartbeat_s:
            self.send(Verb.ALIVE, 0, _NOTHING)
        unread_bytes = self.transport.get_write_buffer_size() if self.unread else 0
        if unread_bytes < self._unread_bytes:
            self.heard = self.registry.loop.time()
        self._unread_bytes = unread_bytes

    # --- the end ----------------------------------------------------------------------------------

    def fence(self, error: Fenced) -> None:
        """Somebody has taken the partner's place: tell it why, answer what was carried out before, and end."""
        if self.session is None or self.session.closed:
            return
        if not self.closed:
            self.send(Verb.CLOSING, 0, verbs.Closing(to_wire(error)))
            self.registry.loop.call_later(_FENCED_S, self.close)
        self.session.fence(error)

    def close(self, error: EntrepotError | None = None) -> None:
        if isinstance(error, HeartbeatMissed) and self.conversation is not None:
            self.conversation.consumers.see_all()
        super().close(error)

    def on_lost(self, problem: Exception | None) -> None:
        if isinstance(problem, TimeoutError) and self.conversation is not None:
            self.conversation.consumers.see_all()
        if self._deadline is not None:
            self._deadline.cancel()
        if self._end is not None:
            self._end.lost()
        if self.identity is not None:
            self.admission.leave(self.identity)
            self.identity = None
        if self.caller is not None:
            self._end_handshake()
            self.registry.links.discard(self)
            self.gate.leave(self.caller.address)
            self.caller = None

    # --- frames -----------------------------------------------------------------------------------

    @property
    def is_blocked(self) -> bool:
        return self.unread or (self.session is not None and self.session.blocked)

    def open_outlet(self, stream: Stream, numbered: Any) -> None:
        if self._lane is not None:
            stream.waiter.outlet = _outlet.Outlet(stream, numbered, self, self._engine)

    def on_frame(self, verb: int, number: int, payload: Any) -> None:
        if self._end is not None:
            self._end.handle(verb, number, payload)
        else:
            self._admit(verb, number, payload)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.conversation is not None:
            self.conversation.consumers.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.conversation is not None:
            self.conversation.consumers.resume()
