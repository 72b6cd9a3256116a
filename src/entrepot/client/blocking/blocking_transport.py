# SPDX-License-Identifier: Apache-2.0
"""A line to a server for any number of threads: one connection, and the next when it breaks.

Whichever thread waits for an answer reads for all of them; so a single
thread never pays for a switch, and a waiting get keeps nobody from putting.
No thread waits with the lock held, not even for a connection that takes no
more: both ends might wait for each other.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from entrepot.client.address import Address, closed_at_once, open_socket, problem_of
from entrepot.client.blocking import keep_alive
from entrepot.client.blocking.blocking_reply import BlockingReply
from entrepot.client.blocking.plain_transport import PlainTransport
from entrepot.client.protocol import ANSWER_BYTES_MAX, GATHER_BYTES, NOT_ASKED, ClientCore, waited_for
from entrepot.client.read_ahead import ReadAhead
from entrepot.errors import (
    ConnectFailed,
    ConnectionClosed,
    EntrepotError,
    Fenced,
    ProtocolError,
    SecurityError,
)
from entrepot.limits import KIB
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.frame import FrameReader
from entrepot.server.wire.verbs import Verb

_READ_BYTES = 64 * KIB
_HANDSHAKE_S = 15.0
_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 1.0
_PATIENCE_S = 0.02
"""How long the kernel waits in a read. Most answers are there by then, and cost one system call instead of two."""
_PATIENCE = struct.pack("ll", 0, int(_PATIENCE_S * 1_000_000))
_STALE_S = 0.01
"""After so long a connection may have been closed while nobody was reading."""
_GOODBYE_S = 2.0
_TURN_S = 1.0
_SILENCE = 2.5
"""A server that says nothing for so many heartbeats is taken for dead."""
_JOIN_BYTES = 256 * KIB
"""Up to here copying frames together costs less than handing them to the kernel one by one."""
_PIECES_MAX = 512
"""What one gathered write takes; the kernel's limit is 1,024."""
_FOREVER = float("inf")
_CLOSED = "the queue manager has closed the connection"
_WAIT_MAX_S = 3600.0
_HEARTBEAT = encode(Verb.HEARTBEAT, 0, verbs.Empty())

Result = TypeVar("Result")


class BlockingTransport(PlainTransport):
    """One connection after another to the same queue manager, for all threads that have the client."""

    is_near = False
    """Whether the queue manager is in this process."""

    def __init__(self, address: Address, *, application: str, reconnect_s: float = 30.0) -> None:
        self.address = address
        self._application = application
        self._reconnect_s = reconnect_s
        self.core = ClientCore(str(address))
        # Guards core, socket and backlog; held while encoding and sending, never while waiting.
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        self._reader_thread = 0
        """Which thread reads for all, if one does."""
        self._followers: list[BlockingReply] = []
        self._socket: socket.socket | None = None
        self._descriptor = -1
        """Of the socket, where the compiled form may read and write it by itself."""
        self._reader = FrameReader(memoryview(b""))
        self._encrypted = False
        self._hung_up = select.poll()
        self._backlog: list[memoryview] = []
        """What the connection did not take at once, and must take before anything else."""
        self._problem = ""
        """Why the last connection broke."""
        self._said = 0.0
        self._heard = 0.0
        self._heartbeat_s = 0.0
        self._closed = False
        self._later: deque[Callable[[], Any]] = deque()
        """Steps of the garbage collector, which struck while its thread was in the middle of a verb."""

    def open(self) -> None:
        """Connect and say who we are.

        Raises:
            ConnectFailed, SecurityError: There is no answer, or permission is denied.
        """
        with self._lock:
            self._open()
        keep_alive.keep(self)

    # --- the connection -------------------------------------------------------------------------

    @property
    def welcome(self) -> verbs.Welcome:
        assert self.core.welcome is not None
        return self.core.welcome

    @property
    def opened(self) -> int:
        """How many connections there have been: temporary queues do not survive a change of it."""
        return self.core.opened

    @property
    def mends_itself(self) -> bool:
        """Whether it connects again when it has broken."""
        return self._reconnect_s > 0 and not self._closed

    def _open(self) -> None:
        """Connect and say who we are; called with the lock held."""
        address = self.address
        opened = open_socket(address, _HANDSHAKE_S)
        # Memory of its own: a thread may still be reading from the connection before.
        reader = FrameReader(memoryview(bytearray(_READ_BYTES)))
        slot = BlockingReply()
        self.core.farewell = None
        try:
            self.core.take()
            self.core.hello(
                slot,
                channel=address.channel,
                user=address.user,
                password=address.password,
                application=self._application,
                manager=address.manager,
            )
            opened.sendall(b"".join(self.core.take()))
            while not slot.done:
                self.core.hear(reader, _receive(opened, reader))
            claims = self.core.begin_again(BlockingReply) if slot.error is None else []
            if claims:
                opened.sendall(b"".join(self.core.take()))
            while not all(claim.done for claim in claims):
                self.core.hear(reader, _receive(opened, reader))
        except (OSError, ProtocolError) as error:
            opened.close()
            self.core.lose(_words(error))
            farewell = self.core.farewell
            closed = isinstance(error, ConnectionError)
            problem = closed_at_once(address) if closed else problem_of(error)
            raise ConnectFailed(str(address), farewell.what if farewell else problem) from error
        except BaseException:
            opened.close()
            raise
        for refused in (slot, *claims):
            if refused.error is not None:
                opened.close()
                raise self.core.refused(refused.error)
        self._begin(opened, reader, slot.value)

    def _begin(self, opened: socket.socket, reader: FrameReader, welcome: verbs.Welcome) -> None:
        """A server has let us in."""
        self.core.begin_connection(welcome)
        reader.frame_bytes_max = ANSWER_BYTES_MAX
        self._heartbeat_s = welcome.heartbeat_s
        self._heard = self._said = time.monotonic()
        self._encrypted = isinstance(opened, ssl.SSLSocket)
        # TLS is not for two threads at a time, so its reads and writes never block and have the lock.
        opened.settimeout(0.0 if self._encrypted else None)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
        self._hung_up = select.poll()
        self._hung_up.register(opened, select.POLLRDHUP)
        self._descriptor = opened.fileno() if type(opened) is socket.socket else -1
        # In this order: whoever finds the socket unchanged after having looked at the reader has its reader.
        self._reader = reader
        self._socket = opened

    def _drop(self) -> None:
        opened, self._socket = self._socket, None
        self._backlog.clear()
        if opened is not None:
            _hang_up(opened)  # it wakes the thread that reads, as closing does not
            opened.close()

    def _ensure(self) -> None:
        """Have a connection, an old or a new one; called with the lock held, and before every verb.

        One that has been idle may be there no longer, and a verb that is sent
        all the same would have an unknown outcome for no good reason.

        Raises:
            ConnectFailed: None to be had within the time for reconnecting.
            SecurityError: We are not let in any more.
            Fenced: Somebody else acts in our place.
        """
        if self._closed:
            raise ConnectionClosed()
        self.core.require_unfenced()
        opened = self._socket
        if opened is not None:
            if time.monotonic() - self._heard < _STALE_S or not self._has_gone(opened):
                return
            # What we said now would be lost, and nobody could tell whether it was.
            self._give_up(opened, _CLOSED)
        if self._reconnect_s <= 0:
            raise ConnectFailed(self.core.peer, self._problem)
        deadline = time.monotonic() + self._reconnect_s
        pause_s = _RETRY_FIRST_S
        while True:
            try:
                self.core.require_unfenced()  # its last words may have been that
                self._open()
                return
            except (SecurityError, Fenced):
                raise
            except EntrepotError as error:
                if time.monotonic() + pause_s >= deadline or self._closed:
                    raise waited_for(error, self._reconnect_s) from error
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _RETRY_MAX_S)

    def _has_gone(self, opened: socket.socket) -> bool:
        if self._encrypted:
            self._read_what_came(opened)  # TLS says goodbye before the connection is closed
        return self._socket is not opened or bool(self._hung_up.poll(0))

    def _give_up(self, broken: socket.socket, problem: str) -> None:
        """A connection takes no more; what it has still brought is heard first."""
        self._read_what_came(broken)
        self._break(broken, problem)

    def _break(self, broken: socket.socket, problem: str) -> None:
        """A connection has broken; everybody who waits for it is told."""
        with self._lock:
            if self._socket is not broken:
                return  # somebody else has noticed before
            self._drop()
            self._problem = problem
            self.core.lose(problem)

    def close(self) -> None:
        """Say goodbye and end the connection; what is open is backed out."""
        if self._closed:
            return
        self._closed = True  # from here on nobody connects again
        slot = BlockingReply()
        # Nobody has to wait long for a server that does not answer any more.
        if self._lock.acquire(timeout=_GOODBYE_S):
            try:
                if self._socket is not None:
                    self.core.ask(Verb.GOODBYE, verbs.Empty(), slot)
                    self._send()
            finally:
                self._lock.release()
            if self._socket is not None:
                self._wait(slot, time.monotonic() + _GOODBYE_S)
        opened = self._socket
        if opened is not None:
            _hang_up(opened)
        with self._lock:
            self._drop()
            self.core.lose("the connection was closed")

    # --- asking ---------------------------------------------------------------------------------

    def _make_ready(self) -> None:
        """Have a connection for a verb, and do what has to come before it; called with the lock held."""
        self._ensure()
        while self._later:
            self._later.popleft()()

    @property
    def _is_fresh(self) -> bool:
        """Whether there is a connection for a verb, and nothing to do before it."""
        return (
            self._socket is not None
            and not self._later
            and not self._closed
            and self.core.fenced is None
            and time.monotonic() - self._heard < _STALE_S
        )

    def do(self, step: Callable[[], Result], *, urgent: bool = True) -> Result:
        """See `transport.Transport.do`."""
        with self._lock:
            self._make_ready()
            try:
                result = step()
                if urgent or self.core.out_bytes > GATHER_BYTES:
                    self._send()
            except EntrepotError:
                raise
            except BaseException:
                self._interrupted()
                raise
        if self._backlog:
            self._relieve()
        return result

    def call(self, verb: int, payload: Any, *, opened: int = 0) -> Any:
        """See `transport.Transport.call`."""
        slot = BlockingReply()
        return self.answer(slot) if self._say(verb, payload, slot, opened, urgent=True) else NOT_ASKED

    def tell(self, verb: int, payload: Any, *, opened: int, urgent: bool = True) -> bool:
        """See `transport.Transport.tell`."""
        said = self._say(verb, payload, None, opened, urgent)
        if self._backlog:
            self._relieve()
        return said

    def _say(self, verb: int, payload: Any, slot: BlockingReply | None, opened: int, urgent: bool) -> bool:
        """`do` for the verbs that run most, in one piece; False when that connection is no longer there."""
        core = self.core
        with self._lock:
            if not self._is_fresh:
                self._make_ready()
            if opened and core.opened != opened:
                return False
            try:
                if urgent:
                    core.gather(verb, payload, slot)
                else:
                    core.join(payload)
                if urgent or core.out_bytes > GATHER_BYTES:
                    self._send()
            except EntrepotError:
                raise
            except BaseException:
                self._interrupted()
                raise
        return True

    def do_if_connected(self, step: Callable[[], Result]) -> Result | None:
        """See `transport.Transport.do_if_connected`."""
        with self._lock:
            if self._socket is None:
                return None
            result = step()
            self._send()
        return result

    def used(self, ahead: ReadAhead) -> None:
        """See `transport.Transport.used`."""
        with self._lock:
            opened = self._socket
            if opened is None or ahead.is_lost:
                return
            if self._has_gone(opened):
                # The server has taken back what it does not know to be used: let none of that be used again.
                self._give_up(opened, _CLOSED)
                return
            self.core.gather_credit(ahead)
            if time.monotonic() - self._heard >= _STALE_S:
                self._send()  # an application that takes its time may not say anything for long

    def do_later(self, step: Callable[[], Any]) -> None:
        """See `transport.Transport.do_later`."""
        if self._is_occupied:
            self._later.append(step)  # before the next verb
        else:
            self.do_if_connected(step)

    def slot(self) -> BlockingReply:
        return BlockingReply()

    def answer(self, slot: BlockingReply) -> Any:
        """See `transport.Transport.answer`."""
        if self._backlog:
            self._relieve()
        if not slot.done:
            self._wait(slot)
        if slot.error is not None:
            raise slot.error
        return slot.value

    @property
    def is_connected(self) -> bool:
        return self._socket is not None

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def problem(self) -> str:
        """Why the last connection broke."""
        return self._problem

    @property
    def reconnect_s(self) -> float:
        """How long it tries to connect again."""
        return self._reconnect_s

    def another(self) -> BlockingTransport:
        """A second line to the same queue manager."""
        line = BlockingTransport(self.address, application=self._application, reconnect_s=self._reconnect_s)
        line.open()
        return line

    def _send(self) -> None:
        """Send what has gathered, or leave it to `_relieve`; called with the lock held.

        A connection that breaks here is told to those who wait for it.
        """
        opened, size = self._socket, self.core.out_bytes
        parts = self.core.take()
        if opened is None or not parts:
            return
        self._said = time.monotonic()
        if len(parts) > 1 and size <= _JOIN_BYTES:
            parts = [b"".join(parts)]
        if len(parts) == 1 and not self._backlog and not self._encrypted:
            data = parts[0]
            try:
                sent = opened.send(data, socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self._give_up(opened, _words(error))
                return
            if sent < len(data):
                self._backlog.append(memoryview(data)[sent:])
            return
        self._backlog += map(memoryview, parts)
        self._flush()

    def _flush(self) -> None:
        """Send of the backlog what the connection takes now; called with the lock held."""
        opened, backlog = self._socket, self._backlog
        if opened is None:
            return
        try:
            while backlog:
                if self._encrypted:
                    sent = opened.send(backlog[0])
                else:
                    sent = opened.sendmsg(backlog[:_PIECES_MAX], (), socket.MSG_DONTWAIT)
                whole = 0
                while whole < len(backlog) and sent >= len(backlog[whole]):
                    sent -= len(backlog[whole])
                    whole += 1
                del backlog[:whole]
                if sent:
                    backlog[0] = backlog[0][sent:]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._give_up(opened, _words(error))

    def _relieve(self) -> None:
        """Return when the backlog is sent.

        What the server says meanwhile is read, because it may not take more
        before it is rid of that; and the lock is free, for the thread that reads.
        """
        while self._backlog:
            opened = self._socket
            if opened is None:
                return
            if self._reading.acquire(blocking=False):
                try:
                    self._read_for(None, time.monotonic() + _TURN_S)
                finally:
                    self._stop_reading()
            else:
                with contextlib.suppress(ValueError):  # closed meanwhile
                    _ready(opened, select.POLLOUT, 0.05)
                with self._lock:
                    self._flush()

    @property
    def _is_occupied(self) -> bool:
        """Whether this very thread is in the middle of a verb, so that another one must not begin."""
        return self._reader_thread == threading.get_ident() or self._lock._is_owned()

    # --- waiting and reading ----------------------------------------------------------------------

    def _wait(self, slot: BlockingReply, deadline: float = _FOREVER) -> None:
        """Return when a slot is done or time is up, having read for everybody unless another thread was at it."""
        while not slot.done and (deadline == _FOREVER or time.monotonic() < deadline):
            if self._reading.acquire(blocking=False):
                try:
                    self._read_for(slot, deadline)
                finally:
                    self._stop_reading()
            else:
                self._follow(slot, deadline)

    def _follow(self, slot: BlockingReply, deadline: float) -> None:
        ticket = threading.Lock()
        ticket.acquire()
        with self._lock:
            # Either whoever reads sees us when it stops, or we see that it has stopped.
            slot.ticket = ticket
            self._followers.append(slot)
            waiting = not slot.done and self._reading.locked()
        try:
            if waiting:
                ticket.acquire(timeout=min(_TURN_S, max(deadline - time.monotonic(), 0.0)))
        except BaseException:
            self._interrupted()
            raise
        finally:
            with self._lock:
                slot.ticket = None
                with contextlib.suppress(ValueError):
                    self._followers.remove(slot)
            if slot.done and not self._reading.locked():
                self._pass_the_turn()  # it may have been given to us, who need it no more

    def _stop_reading(self) -> None:
        self._reader_thread = 0
        self._reading.release()
        if self._followers:
            self._pass_the_turn()

    def _pass_the_turn(self) -> None:
        with self._lock:
            for slot in self._followers:
                if not slot.done and slot.ticket is not None:
                    with contextlib.suppress(RuntimeError):
                        slot.ticket.release()
                    return

    def _read_for(self, slot: BlockingReply | None, deadline: float) -> None:
        """Read until a slot is done, or without one until the backlog is sent, but no longer than till the deadline."""
        self._reader_thread = threading.get_ident()
        while (
            (self._backlog if slot is None else not slot.done)
            and (deadline == _FOREVER or time.monotonic() < deadline)
        ):  # fmt: skip
            opened = self._socket
            if opened is None:
                return
            try:
                self._read_or_send(opened, deadline)
            except (OSError, ValueError, ProtocolError) as error:
                self._break(opened, _words(error))
            except BaseException:
                self._interrupted()
                raise

    def _interrupted(self) -> None:
        """A verb will not get its answer, though it may take a message: the server has to take that back."""
        opened = self._socket
        if opened is not None:
            self._break(opened, "the application was interrupted")

    def _read_or_send(self, opened: socket.socket, deadline: float) -> None:
        """Wait until one of both can be done, but no longer than till the deadline."""
        if not self._encrypted and not self._backlog and deadline - time.monotonic() >= _PATIENCE_S * 0.8:
            reader = self._reader
            if self._socket is not opened:
                return
            try:
                count = opened.recv_into(reader.buffer())
            except BlockingIOError:
                pass  # it takes longer
            else:
                if count == 0:
                    raise ConnectionResetError(_CLOSED)
                self._heed(opened, reader, count)
                return
        events = select.POLLIN | (select.POLLOUT if self._backlog else 0)
        found = select.POLLIN
        if not self._is_pending(opened):
            found = _ready(opened, events, deadline - time.monotonic())
        if found & select.POLLOUT:
            with self._lock:
                self._flush()
        if found & ~select.POLLOUT:
            self._read(opened)

    def _is_pending(self, opened: socket.socket) -> bool:
        """Whether something was decrypted already, so that the kernel need not have more."""
        if not isinstance(opened, ssl.SSLSocket):
            return False
        with self._lock:
            return opened.pending() > 0

    def _read(self, opened: socket.socket) -> None:
        """Read once and hand out what is whole."""
        reader = self._reader
        if self._socket is not opened:
            return
        if self._encrypted:
            with self._lock, contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._heed(opened, reader, _receive(opened, reader))
        else:
            self._heed(opened, reader, _receive(opened, reader))

    def _heed(self, opened: socket.socket, reader: FrameReader, count: int) -> None:
        with self._lock:
            if self._socket is not opened:
                return  # whoever it was meant for knows that the connection has broken
            self._heard = time.monotonic()
            self.core.hear(reader, count)
            if self.core.urgent:
                self._send()

    def look_after(self) -> None:
        """Say and hear something if nobody else does; called by the process's keeper."""
        opened, heartbeat_s = self._socket, self._heartbeat_s
        if opened is None:
            return
        if (self._backlog or self.core.out) and self._lock.acquire(blocking=False):
            # How far a consumer has come, for instance, or an acknowledgement whose reader waits for nothing more.
            try:
                self._flush()
                self._send()
            finally:
                self._lock.release()
        if not heartbeat_s:
            return
        self._read_what_came(opened)
        now = time.monotonic()
        silent_s = now - self._heard
        if silent_s > _SILENCE * heartbeat_s:
            if self._lock.acquire(blocking=False):
                try:
                    self._break(opened, f"nothing was heard from the queue manager for {silent_s:.1f} s")
                finally:
                    self._lock.release()
            else:
                _hang_up(opened)  # somebody is busy with this very server, and will notice
        elif max(now - self._said, silent_s) >= heartbeat_s / 2 and self._lock.acquire(blocking=False):
            try:
                self._say_something(opened)
            finally:
                self._lock.release()

    def _read_what_came(self, opened: socket.socket) -> None:
        """Take in what came while nobody was reading, without waiting for more."""
        if not self._reading.acquire(blocking=False):
            return
        self._reader_thread = threading.get_ident()
        try:
            while self._socket is opened and (self._is_pending(opened) or _ready(opened, select.POLLIN, 0.0)):
                self._read(opened)
        except (OSError, ValueError, ProtocolError) as error:
            self._break(opened, _words(error))
        finally:
            self._stop_reading()

    def _say_something(self, opened: socket.socket) -> None:
        """A heartbeat, ahead of what has gathered; called with the lock held."""
        if self._socket is not opened:
            return
        if not self._backlog and _ready(opened, select.POLLOUT, 0.0) & select.POLLOUT:
            self._said = time.monotonic()
            self._backlog.append(memoryview(_HEARTBEAT))
        self._flush()


def _receive(opened: socket.socket, reader: FrameReader) -> int:
    count = opened.recv_into(reader.buffer())
    if count == 0:
        raise ConnectionResetError(_CLOSED)
    return count


def _ready(opened: socket.socket, events: int, wait_s: float) -> int:
    """Which of these can be done with a connection, when one of them can, or none when time is up."""
    poll = select.poll()
    poll.register(opened, events)
    found = poll.poll(max(min(wait_s, _WAIT_MAX_S), 0.0) * 1000)
    return found[0][1] if found else 0


def _hang_up(opened: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not the TLS socket's own, which would say so to its peer first.
        socket.socket.shutdown(opened, socket.SHUT_RDWR)


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
