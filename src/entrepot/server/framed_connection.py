# SPDX-License-Identifier: Apache-2.0
"""A connection that carries frames: cuts what comes, and keeps back what its partner or we cannot take.

What to do with a frame is its subclass's affair.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import Callable
from typing import Any

from entrepot.errors import EntrepotError, FrameUnreadable, ProtocolError
from entrepot.limits import KIB, MIB
from entrepot.server.session_registry import SessionRegistry
from entrepot.server.wire.codec import LONG_BODY_BYTES, decode, encode, encode_parts
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.frame import FrameReader, read_buffer
from entrepot.server.wire.verbs import Closing, Payload, Verb

_LOGGER = logging.getLogger("entrepot")

Decode = Callable[[int, memoryview | bytes], Any]

_WRITE_HIGH_BYTES = 1 * MIB
_GATHER_BYTES = 256 * KIB
_FRAMES_AT_ONCE = 1000
"""A read can bring twenty thousand frames; so many are served before others have their turn."""
_LAST_BYTES = 4 * KIB
_TOO_LARGE = "there is no memory for a frame of this size"
_FAREWELL_S = 2.0
"""How long a partner may take to read the end of what it was told."""


class _ClosedConnection:
    """What is left of a connection: answers that come too late go nowhere, and nobody has to ask first."""

    def write(self, _: bytes) -> None:
        pass

    def writelines(self, _: list[bytes]) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def is_closing(self) -> bool:
        return True

    def get_extra_info(self, _: str) -> None:
        pass


_GONE = _ClosedConnection()


class FramedConnection(asyncio.BufferedProtocol):
    """One connection; everything happens on the loop's thread."""

    __slots__ = (
        "_engine",
        "_held",
        "_out",
        "_out_bytes",
        "_pausing",
        "address",
        "closed",
        "decode",
        "heard",
        "reader",
        "registry",
        "transport",
        "unread",
    )  # fmt: skip

    def __init__(self, registry: SessionRegistry, decode: Decode = decode) -> None:
        self.registry = registry
        self.decode = decode
        self._engine = registry.engine
        self.transport: Any = None
        self.reader = FrameReader(read_buffer())
        self.address = ""
        self.heard = registry.loop.time()
        """When something was last read, by the loop's clock."""
        self.closed = False
        self.unread = False
        """The partner does not read what we have written."""
        self._held: list[tuple[int, int, Any]] | None = None
        """Frames that came while the link was on hold, as they came: decoded they may be many times as long."""
        self._pausing = False
        self._out: list[bytes] = []
        self._out_bytes = 0

    # --- asyncio's side -----------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)

    def get_buffer(self, _sizehint: int) -> Any:
        try:
            return self.reader.buffer()
        except MemoryError:
            # Only this partner needs so much; nothing of ours was changed.
            self.close(FrameUnreadable(_TOO_LARGE))
            return bytearray(_LAST_BYTES)

    def _decoded(self, verb: int, content: memoryview | bytes) -> Any:
        try:
            return self.decode(verb, content)
        except MemoryError:
            raise FrameUnreadable(_TOO_LARGE) from None

    def buffer_updated(self, nbytes: int) -> None:
        if self.closed:
            return  # an encrypted connection may still bring what came before its end
        self.heard = self.registry.loop.time()
        self._hear(nbytes, 0)

    def _hear(self, nbytes: int, start: int) -> None:
        """Hear what was read, behind the first bytes that were heard already."""
        try:
            if self._held is None and not start and (frame := self.reader.only_frame(nbytes)) is not None:
                verb, number, view = frame
                try:
                    payload = self.decode(verb, view)
                except MemoryError:
                    raise FrameUnreadable(_TOO_LARGE) from None
                self.on_frame(verb, number, payload)
                if self._engine.crowded and not self.closed:
                    self._slow_down()
                return
            with self._engine:  # what many frames cause is told in a few writes
                for index, (verb, number, view) in enumerate(self.reader.frames(nbytes, start)):
                    if self._held is not None:
                        self._held.append((verb, number, bytes(view)))
                    else:
                        self.on_frame(verb, number, self._decoded(verb, view))
                        if index == _FRAMES_AT_ONCE:
                            self.give_way()
                    if self.closed:
                        return
        except ProtocolError as error:
            self.close(error)
            return
        if self._engine.crowded and not self.closed:
            self._slow_down()

    def _slow_down(self) -> None:
        """The log has more to write than it should: read no more from this partner for a moment."""
        if self._held is None:
            self.hold()
            self.registry.loop.call_later(0.001, self._go_on)

    def _go_on(self) -> None:
        self._engine.crowded = self.registry.host.is_crowded
        if self._engine.crowded and not self.closed and self.registry.host.failure is None:
            self.registry.loop.call_later(0.001, self._go_on)
        else:
            self.resume()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.unread = True
        self.heard = self.registry.loop.time()  # from now on it shows that it lives by reading
        self.hold()

    def resume_writing(self) -> None:
        self.unread = False
        self.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._held = None
        # What is still to be answered, by the log or a queue, has nowhere to go.
        self.transport = _GONE
        self.on_lost(exc)

    # --- our side -----------------------------------------------------------------------------

    def on_frame(self, verb: int, number: int, payload: Any) -> None:
        """A frame has come."""
        raise NotImplementedError

    def on_lost(self, _problem: Exception | None) -> None:
        """The connection has ended, by either side."""

    def hold(self) -> None:
        """Keep back what comes until `resume`; the partner feels it as a connection that takes no more."""
        if self._held is None:
            self._held = []
        if not self._pausing and not self.closed:
            self._pausing = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Go on with what was kept back, in its order, unless something blocks again."""
        if self.is_blocked:
            return
        held, self._held = self._held, None
        for index, (verb, number, content) in enumerate(held or ()):
            if self.closed:
                return
            self.late(verb, number, content)
            if index == _FRAMES_AT_ONCE:
                self.give_way()
            if self._held is not None:
                self._held.extend((held or [])[index + 1 :])
                return
        if self._pausing and not self.closed:
            self._pausing = False
            # What it has said meanwhile is still to be read.
            self.heard = self.registry.loop.time()
            self.transport.resume_reading()

    def postpone(self, verb: int, number: int, payload: Any) -> None:
        """Keep a verb back until `resume`, ahead of all that comes behind it."""
        self.hold()
        assert self._held is not None
        self._held.append((verb, number, payload))

    def late(self, verb: int, number: int, content: Any) -> None:
        """Hear a frame that had to wait, decoded or not; if it breaks the protocol, that is the end."""
        try:
            self.on_frame(verb, number, self._decoded(verb, content) if isinstance(content, bytes) else content)
        except ProtocolError as error:
            self.close(error)

    def give_way(self) -> None:
        """This takes long: whoever else waits for the loop comes before this partner's next verb."""
        if self._held is None and not self.closed:
            self.hold()
            self.registry.loop.call_soon(self.resume)

    @property
    def is_deaf(self) -> bool:
        """Whether we do not listen to the partner just now, for no fault of its own; then its silence says nothing."""
        return self._pausing and not self.unread

    def has_hung_up(self) -> bool:
        """Whether the partner has gone while we did not listen; reading would have told us."""
        connected = self.transport.get_extra_info("socket") if self._pausing and self.transport is not None else None
        if connected is None:
            return False
        poll = select.poll()
        poll.register(connected.fileno(), select.POLLRDHUP)
        return bool(poll.poll(0))

    @property
    def is_blocked(self) -> bool:
        """Whether frames have to wait; subclasses know more reasons."""
        return self.unread

    def send(self, verb: int, number: int, payload: Payload) -> None:
        """Say something; the loop writes all that was said within one of its turns at once."""
        self._write(encode(verb, number, payload))

    def _write(self, frame: bytes) -> None:
        turn = self._engine.turn
        if turn is None:
            self.transport.write(frame)
            return
        if not self._out:
            turn.append(self)
        self._out.append(frame)
        self._out_bytes += len(frame)
        if self._out_bytes >= _GATHER_BYTES:
            self.flush()  # so that one who does not read is noticed before more is made for it

    def flush(self) -> None:
        """Write what was said within a turn that has brought many frames."""
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self.transport.is_closing():
            self.transport.write(b"".join(out))

    def send_message(self, verb: int, number: int, payload: Any) -> None:
        """The same for a payload whose last field is a message, which may be long."""
        message = payload.message
        if message is not None and len(message.body) >= LONG_BODY_BYTES:
            self.flush()
            self.transport.writelines(encode_parts(verb, number, payload))
        elif self._engine.turn is None:
            self.transport.write(encode(verb, number, payload))
        else:
            self._write(encode(verb, number, payload))

    def close(self, error: EntrepotError | None = None) -> None:
        """End the connection; an error is told to the partner first."""
        if self.closed:
            return
        if isinstance(error, ProtocolError):
            _LOGGER.info("connection from %s: %s", self.address, error)
        if error is not None:
            self.send(Verb.CLOSING, 0, Closing(to_wire(error)))
        self.flush()
        self.closed = True
        if self.transport is not None:
            self.transport.close()
            # Who does not read would keep a closed connection, and what it has locked, for ever.
            self.registry.loop.call_later(_FAREWELL_S, self._abort)

    def _abort(self) -> None:
        self.transport.abort()
