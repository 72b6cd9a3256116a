# SPDX-License-Identifier: Apache-2.0
"""The blocking client: the verbs of a host, at the end of a connection, for any number of threads.

Whichever thread waits for an answer reads for all of them; so a single
thread never pays for a switch, and a waiting get keeps nobody from putting.
A small thread of the process's own keeps idle connections alive, so that a
reader may take its time with a message.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from entrepot.channels.address import Address, open_socket
from entrepot.channels.client_core import (
    GATHER_BYTES,
    ClientCore,
    ReadAhead,
    RemoteUnit,
    ended_with,
    queue_name,
    wanted,
)
from entrepot.errors import (
    ChannelError,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    EntrepotError,
    ProtocolError,
    QueueManagerQuiescing,
    SecurityError,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.limits import KIB
from entrepot.message import Message
from entrepot.mqsc import Answer
from entrepot.queues.criteria import Criteria
from entrepot.queues.unit_of_work import UnitState
from entrepot.wire import verbs
from entrepot.wire.codec import decode
from entrepot.wire.frame import FrameReader, frame_bytes_max
from entrepot.wire.verbs import Verb

_READ_BYTES = 64 * KIB
_HANDSHAKE_S = 15.0
_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 1.0
_IDLE_S = 0.02
"""How long a consumer may find nothing before it says how far it has come."""


class _Slot:
    """One verb's answer; whoever waits for it may have to read for others."""

    __slots__ = ("done", "error", "ticket", "unit_active", "value")

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.error: EntrepotError | None = None
        self.unit_active = False
        self.ticket: threading.Lock | None = None

    def resolve(self, value: Any) -> None:
        self.value = value
        self._finish()

    def fail(self, error: EntrepotError, *, unit_active: bool = False) -> None:
        self.error = error
        self.unit_active = unit_active
        self._finish()

    def _finish(self) -> None:
        self.done = True
        if self.ticket is not None:
            with contextlib.suppress(RuntimeError):  # released already, to let its thread read
                self.ticket.release()


class Client:
    """What a `Host` is for the embedded binding."""

    def __init__(self, address: Address, *, application: str, reconnect_s: float = 30.0) -> None:
        self.address = address
        self._application = application
        self._reconnect_s = reconnect_s
        self._core = ClientCore(str(address))
        # Guards core and socket; held while encoding and sending, never while waiting.
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        self._followers: list[_Slot] = []
        self._socket: socket.socket | None = None
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._reader = FrameReader(self._buffer)
        self._said = 0.0
        self._heard = 0.0
        self._heartbeat_s = 0.0
        self._closed = False
        with self._lock:
            self._open()
        _keep_alive(self)

    # --- the connection -------------------------------------------------------------------------

    @property
    def welcome(self) -> verbs.Welcome:
        assert self._core.welcome is not None
        return self._core.welcome

    @property
    def opened(self) -> int:
        """How many connections there have been: temporary queues do not survive a change of it."""
        return self._core.opened

    def _open(self) -> None:
        """Connect and say who we are; called with the lock held."""
        address = self.address
        opened = open_socket(address, _HANDSHAKE_S)
        self._socket, self._reader = opened, FrameReader(self._buffer)
        self._core.farewell = None
        slot = _Slot()
        try:
            self._core.take()
            self._core.hello(
                slot,
                channel=address.channel,
                user=address.user,
                password=address.password,
                application=self._application,
                manager=address.manager,
            )
            opened.sendall(b"".join(self._core.take()))
            while not slot.done:
                self._read(opened)
        except (OSError, ProtocolError) as error:
            self._drop()
            raise ConnectFailed(str(address), str(error)) from error
        if slot.error is not None:
            self._drop()
            raise slot.error
        welcome: verbs.Welcome = slot.value
        self._core.begin_connection(welcome)
        self._reader.frame_bytes_max = frame_bytes_max(welcome.body_bytes_max)
        self._heartbeat_s = welcome.heartbeat_s
        self._heard = self._said = time.monotonic()
        # The kernel ends a read that nothing comes for, so that no other system call is needed to notice.
        opened.settimeout(None)
        patience_s = int(max(welcome.heartbeat_s, 1)) if welcome.heartbeat_s else 0
        if not isinstance(opened, ssl.SSLSocket):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(patience_s))

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ensure(self) -> socket.socket:
        """A connection, an old or a new one; called with the lock held.

        Raises:
            ConnectFailed: None to be had within the time for reconnecting.
            SecurityError: We are not let in any more.
        """
        if self._closed:
            raise ConnectionClosed()
        if self._socket is not None:
            return self._socket
        deadline = time.monotonic() + self._reconnect_s
        pause_s = _RETRY_FIRST_S
        while True:
            try:
                self._open()
                break
            except SecurityError:
                raise
            except (ChannelError, EntrepotError):
                if time.monotonic() + pause_s >= deadline or self._closed:
                    raise
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _RETRY_MAX_S)
        assert self._socket is not None
        return self._socket

    def _break(self, broken: socket.socket, problem: str) -> None:
        """A connection has broken; everybody who waits for it is told."""
        with self._lock:
            if self._socket is not broken:
                return  # somebody else has noticed before
            self._drop()
            self._core.lose(problem)

    # --- asking and waiting ---------------------------------------------------------------------

    def _ask(self, verb: int, payload: Any, *, with_message: bool = False) -> Any:
        slot = _Slot()
        with self._lock:
            self._ensure()
            self._core.ask(verb, payload, slot, with_message=with_message)
            self._send()
        return self._answer(slot)

    def _answer(self, slot: _Slot) -> Any:
        if not slot.done:
            self._wait(lambda: slot.done, slot)
        if slot.error is not None:
            raise slot.error
        return slot.value

    def _send(self) -> None:
        """Send what has gathered; called with the lock held. A failure is told to those who wait."""
        opened = self._socket
        parts = self._core.take()
        if opened is None or not parts:
            return
        self._said = time.monotonic()
        try:
            data = parts[0] if len(parts) == 1 else None
            if isinstance(opened, ssl.SSLSocket):
                for part in parts:
                    opened.sendall(part)
                return
            if data is not None:
                sent = opened.send(data, socket.MSG_DONTWAIT)
                if sent == len(data):
                    return
                parts = [data[sent:]]
            self._send_slowly(opened, parts)
        except BlockingIOError:
            try:
                self._send_slowly(opened, parts)
            except OSError as error:
                self._break(opened, error.strerror or str(error))
        except OSError as error:
            self._break(opened, error.strerror or str(error))

    def _send_slowly(self, opened: socket.socket, parts: list[bytes]) -> None:
        """The server takes less than we have: read what it says meanwhile, or both would wait for each other."""
        views = [memoryview(part) for part in parts]
        poll = select.poll()
        poll.register(opened, select.POLLIN | select.POLLOUT)
        while views:
            try:
                sent = opened.sendmsg(views[:512], (), socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if sent:
                views[0] = views[0][sent:]
            if not views:
                return
            ready = poll.poll(1000)
            if ready and ready[0][1] & select.POLLIN:
                if self._reading.acquire(blocking=False):
                    try:
                        self._read(opened)
                    finally:
                        self._reading.release()
                else:
                    time.sleep(0.001)  # the thread that reads will do it
            if self._socket is not opened:
                raise ConnectionResetError("the connection was closed")

    def _wait(self, ready: Callable[[], bool], slot: _Slot, deadline: float = float("inf")) -> None:
        """Return when `ready`, having read for everybody unless another thread was at it."""
        while not ready():
            if time.monotonic() >= deadline:
                return
            if self._reading.acquire(blocking=False):
                try:
                    self._read_until(ready, deadline)
                finally:
                    self._reading.release()
                    self._pass_the_turn()
            else:
                self._follow(ready, slot, deadline)

    def _follow(self, ready: Callable[[], bool], slot: _Slot, deadline: float) -> None:
        ticket = threading.Lock()
        ticket.acquire()
        with self._lock:
            if ready():
                return
            slot.ticket = ticket
            self._followers.append(slot)
        # A turn that was passed on just before is asked for again soon.
        ticket.acquire(timeout=min(0.05, max(deadline - time.monotonic(), 0.0)))
        with self._lock:
            slot.ticket = None
            with contextlib.suppress(ValueError):
                self._followers.remove(slot)

    def _pass_the_turn(self) -> None:
        with self._lock:
            for slot in self._followers:
                if not slot.done and slot.ticket is not None:
                    with contextlib.suppress(RuntimeError):
                        slot.ticket.release()
                    return

    def _read_until(self, ready: Callable[[], bool], deadline: float) -> None:
        while not ready() and time.monotonic() < deadline:
            opened = self._socket
            if opened is None:
                return
            try:
                self._read_with_patience(opened, deadline)
            except ProtocolError as error:
                self._break(opened, str(error))
            except OSError as error:
                self._break(opened, error.strerror or str(error))

    def _read_with_patience(self, opened: socket.socket, deadline: float) -> None:
        if deadline != float("inf"):
            left_s = max(deadline - time.monotonic(), 0.0)
            pending = isinstance(opened, ssl.SSLSocket) and opened.pending()
            if not pending and not select.select([opened], [], [], left_s)[0]:
                return
        try:
            self._read(opened)
        except BlockingIOError:  # the kernel's time is up
            if self._heartbeat_s and time.monotonic() - self._heard > 2.5 * self._heartbeat_s:
                raise TimeoutError("nothing was heard from the queue manager") from None

    def _read(self, opened: socket.socket) -> None:
        """Read once and hand out what is whole."""
        count = opened.recv_into(self._reader.buffer())
        if count == 0:
            raise ConnectionResetError("the queue manager has closed the connection")
        self._heard = time.monotonic()
        with self._lock:
            core = self._core
            for verb, number, view in self._reader.frames(count):
                core.handle(verb, number, decode(verb, view))
            if core.urgent:
                self._send()

    def keep_alive(self) -> None:
        """Say something if nothing was said for long; called by the process's keeper."""
        opened = self._socket
        if opened is None or not self._heartbeat_s or time.monotonic() - self._said < self._heartbeat_s / 2:
            return
        if self._lock.acquire(blocking=False):
            try:
                self._core.tell(Verb.HEARTBEAT, verbs.Empty())
                self._send()
            finally:
                self._lock.release()

    @property
    def failure(self) -> EntrepotError | None:
        return None

    # --- verbs ----------------------------------------------------------------------------------

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        unit: RemoteUnit | None = None,
        wait_s: float = 0.0,
    ) -> bytes:
        if unit is not None:
            return self._put_in_unit(name, message, persistent, priority, unit, wait_s)
        slot = _Slot()
        with self._lock:
            self._ensure()
            message_id, frame = self._core.put(name, message, persistent, priority, 0, wait_s)
            self._core.ask(Verb.PUT, frame, slot, with_message=True)
            self._send()
        self._answer(slot)
        return message_id

    def _put_in_unit(
        self,
        name: str | Sequence[str],
        message: Message,
        persistent: bool | None,
        priority: int | None,
        unit: RemoteUnit,
        wait_s: float,
    ) -> bytes:
        """Nobody waits for it: what goes wrong is told when the unit commits."""
        with self._lock:
            self._ensure()
            self._require_active(unit)
            number = self._core.require_unit(unit)
            message_id, frame = self._core.put(name, message, persistent, priority, number, wait_s)
            self._core.tell(Verb.PUT, frame, with_message=True)
            if self._core.out_bytes > GATHER_BYTES:
                self._send()
        return message_id

    def get(
        self, name: str, criteria: Criteria | None = None, *, unit: RemoteUnit | None = None, wait_s: float = 0.0
    ) -> Message | None:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                message: Message | None = self._in_unit(unit, partial(_get_frame, name, wait_s, criteria))
                return message
            except ConnectionLost:
                # Outside of a unit of work nothing persistent was lost: asking again is safe.
                wait_s = max(deadline - time.monotonic(), 0.0)
                if unit is not None or self._closed or self._reconnect_s <= 0:
                    raise

    def _in_unit(self, unit: RemoteUnit | None, frame: Callable[[int], tuple[int, Any]]) -> Any:
        """Ask something that may belong to a unit of work; a broken connection has backed that out."""
        slot = _Slot()
        with self._lock:
            self._ensure()
            number = 0
            if unit is not None:
                self._require_active(unit)
                number = self._core.require_unit(unit)
            self._core.ask(*frame(number), slot)
            self._send()
        try:
            return self._answer(slot)
        except ConnectionLost as error:
            if unit is None:
                raise
            unit.state = UnitState.BACKED_OUT
            raise UnitBackedOut(unit.number, error.problem) from error

    def _require_active(self, unit: RemoteUnit) -> None:
        if unit.state is not UnitState.ACTIVE:
            raise UnitFinished(unit.number, unit.state.value)

    def get_many(
        self, name: str, limit: int, criteria: Criteria | None, *, unit: RemoteUnit, wait_s: float = 0.0
    ) -> list[Message]:
        """Up to `limit` messages at once; only the first is waited for."""
        answer = self._in_unit(
            unit,
            lambda number: (Verb.GET_MANY, verbs.GetMany(queue_name(name), number, limit, wait_s, wanted(criteria))),
        )
        messages: list[Message] = answer.messages
        return messages

    def get_group(
        self, name: str, criteria: Criteria, *, unit: RemoteUnit, wait_s: float = 0.0
    ) -> list[Message] | None:
        selector = None if criteria.selector is None else criteria.selector.text
        answer = self._in_unit(
            unit, lambda number: (Verb.GET_GROUP, verbs.GetGroup(queue_name(name), number, wait_s, selector))
        )
        return answer.messages or None

    def request(
        self,
        name: str,
        message: Message,
        reply_queue: str,
        timeout_s: float,
        *,
        persistent: bool | None,
        priority: int | None,
    ) -> Message:
        """Put a request and get its reply with one frame each way.

        Raises:
            RequestTimedOut: No reply came in time.
        """
        frame = verbs.Request(queue_name(name), reply_queue, timeout_s, persistent, priority, message)
        reply: Message = self._ask(Verb.REQUEST, frame, with_message=True)
        return reply

    def browse(
        self, name: str, criteria: Criteria | None, place: tuple[int, int] | None, limit: int
    ) -> tuple[list[Message], tuple[int, int] | None]:
        frame = verbs.Browse(queue_name(name), place, limit, wanted(criteria))
        try:
            answer = self._ask(Verb.BROWSE, frame)
        except ConnectionLost:
            answer = self._ask(Verb.BROWSE, frame)  # looking again changes nothing
        return answer.messages, answer.place

    def begin(self) -> RemoteUnit:
        with self._lock:
            self._ensure()
            return self._core.begin_unit()

    def commit(self, unit: RemoteUnit) -> None:
        self._end(unit, UnitState.COMMITTED, lambda number: (Verb.COMMIT, verbs.OfUnit(number)))

    def prepare(self, unit: RemoteUnit, transaction_id: bytes) -> None:
        self._end(unit, UnitState.PREPARED, lambda number: (Verb.PREPARE, verbs.Prepare(number, transaction_id)))

    def _end(self, unit: RemoteUnit, ended: UnitState, frame: Callable[[int], tuple[int, Any]]) -> None:
        slot = _Slot()
        with self._lock:
            self._ensure()
            self._require_active(unit)
            if not unit.used and ended is UnitState.COMMITTED:
                unit.state = ended  # nothing was done in it
                return
            number = self._core.require_unit(unit)
            self._core.ask(*frame(number), slot)
            self._send()
        try:
            self._answer(slot)
        except EntrepotError as error:
            ended_with(unit, error, unit_active=slot.unit_active)
            raise
        unit.state = ended

    def back_out(self, unit: RemoteUnit) -> None:
        with self._lock:
            self._require_active(unit)
            unit.state = UnitState.BACKED_OUT
            if not unit.used or unit.opened != self._core.opened or self._socket is None:
                return  # the server has done so when the connection broke
        with contextlib.suppress(ConnectionLost):
            self._ask(Verb.BACK_OUT, verbs.OfUnit(unit.number))

    def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        self._ask(Verb.RESOLVE, verbs.Resolve(transaction_id, commit))

    def in_doubt(self) -> list[bytes]:
        return list(self._ask(Verb.IN_DOUBT, verbs.Empty()))

    # --- many at a time -------------------------------------------------------------------------

    def put_without_answer(
        self, name: str | Sequence[str], message: Message, *, persistent: bool | None, priority: int | None
    ) -> bytes:
        """Gather a put; `synchronize` tells what became of all of them."""
        with self._lock:
            self._ensure()
            message_id, frame = self._core.put(name, message, persistent, priority, 0, 0.0)
            self._core.tell(Verb.PUT, frame, with_message=True)
            if self._core.out_bytes > GATHER_BYTES:
                self._send()
        return message_id

    def synchronize(self) -> None:
        """Return when all puts that wanted no answer are where they belong.

        Raises:
            EntrepotError: The first that was refused; the others were carried out.
        """
        self._ask(Verb.SYNCHRONIZE, verbs.Empty())

    def consume(self, name: str, criteria: Criteria | None, read_ahead: int) -> Consumption:
        """Let messages come of themselves, `read_ahead` of them before they are used."""
        return Consumption(self, name, wanted(criteria), read_ahead)

    def open_consumer(self, name: str, which: verbs.Wanted | None, read_ahead: int) -> ReadAhead:
        slot = _Slot()
        with self._lock:
            self._ensure()
            ahead = self._core.consume(queue_name(name), which, read_ahead, slot)
            self._send()
        self._answer(slot)
        return ahead

    def next_of(self, ahead: ReadAhead, deadline: float) -> Message | None:
        """The next message that came of itself, or None when none came in time."""
        arrived = ahead.arrived
        if not arrived:
            self._wait_ahead(ahead, min(deadline, time.monotonic() + _IDLE_S))
            if not arrived and ahead.error is None:
                # It will take a while: let the server know how far we have come.
                with self._lock:
                    if self._core.used(ahead, idle=True):
                        self._send()
                self._wait_ahead(ahead, deadline)
            if not arrived:
                if ahead.error is not None:
                    raise ahead.error
                return None
        return arrived.popleft()

    def _wait_ahead(self, ahead: ReadAhead, deadline: float) -> None:
        slot = _Slot()
        ahead.wake = lambda: slot.resolve(None)
        self._wait(lambda: bool(ahead.arrived) or ahead.error is not None, slot, deadline)
        ahead.wake = None

    def was_used(self, ahead: ReadAhead) -> None:
        """The application is done with one more message."""
        ahead.given += 1
        if ahead.given - ahead.told >= ahead.credit_step:
            with self._lock:
                if self._core.used(ahead):
                    self._send()

    def close_consumer(self, ahead: ReadAhead) -> None:
        with self._lock:
            if self._core.consumers.pop(ahead.number, None) is None or self._socket is None:
                return
            self._core.used(ahead, idle=True)
        with contextlib.suppress(ConnectionLost, ConnectionClosed):
            self._ask(Verb.STOP_CONSUMING, verbs.OfConsumer(ahead.number))

    # --- administration -------------------------------------------------------------------------

    def mqsc(self, script: str, source: str) -> list[Answer]:
        answers: list[Answer] = self._ask(Verb.MQSC, verbs.Mqsc(script, source))
        return answers

    def make_dynamic(self, model: str, pattern: str) -> str:
        name: str = self._ask(Verb.DYNAMIC, verbs.Dynamic(model, pattern))
        return name

    def remove_temporary(self, names: Iterable[str]) -> None:
        """The server does that when the connection ends."""

    def manage(self, what: str, **arguments: Any) -> Any:
        """What the command line asks of a running queue manager."""
        return self._ask(Verb.MANAGE, verbs.Manage(what, arguments))

    def status(self) -> dict[str, int | float | str]:
        found: dict[str, int | float | str] = self.manage("status")
        return found

    @property
    def manager_name(self) -> str:
        return self.welcome.manager

    def dump(self) -> str:
        script: str = self.manage("dump")
        return script

    def back_up(self, destination: Path) -> dict[str, Any]:
        report: dict[str, Any] = self.manage("backup", destination=str(destination))
        return report

    def checkpoint(self) -> None:
        self.manage("checkpoint")

    def close(self) -> None:
        """Say goodbye and end the connection; what is open is backed out."""
        if self._closed:
            return
        with contextlib.suppress(EntrepotError):
            if self._socket is not None:
                self._ask(Verb.GOODBYE, verbs.Empty())
        self._closed = True
        with self._lock:
            self._drop()
            self._core.lose("the connection was closed")


class Consumption(Iterator[Message]):
    """Messages that came ahead of their use; a message counts as used when the next one is asked for."""

    def __init__(self, client: Client, name: str, which: verbs.Wanted | None, read_ahead: int) -> None:
        self._client = client
        self._name = name
        self._which = which
        self._read_ahead = read_ahead
        self._unused = False
        self._ended = False
        self._ahead = client.open_consumer(name, which, read_ahead)

    def get(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""
        if self._unused:
            self._unused = False
            self._client.was_used(self._ahead)
        deadline = time.monotonic() + wait_s
        while not self._ended:
            try:
                message = self._client.next_of(self._ahead, deadline)
            except (ConnectionLost, QueueManagerQuiescing):
                # Nothing that was not used is lost: it is on its queue again.
                self._ahead = self._client.open_consumer(self._name, self._which, self._read_ahead)
                continue
            self._unused = message is not None
            return message
        return None

    def __next__(self) -> Message:
        message = self.get(float("inf"))
        if message is None:
            raise StopIteration
        return message

    def close(self) -> None:
        """Let no more come; what was not used is on its queue again."""
        if not self._ended:
            self._ended = True
            if self._unused:
                self._client.was_used(self._ahead)
            self._client.close_consumer(self._ahead)


def _get_frame(name: str, wait_s: float, criteria: Criteria | None, unit: int) -> tuple[int, verbs.Get]:
    return Verb.GET, verbs.Get(queue_name(name), unit, wait_s, wanted(criteria))


def _timeval(seconds: int) -> bytes:
    import struct

    return struct.pack("ll", seconds, 0)


# --- keeping idle connections alive -----------------------------------------------------------------

_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_keeper_lock = threading.Lock()
_keeper: threading.Thread | None = None


def _keep_alive(client: Client) -> None:
    global _keeper
    with _keeper_lock:
        _clients.add(client)
        if _keeper is None or not _keeper.is_alive():
            _keeper = threading.Thread(target=_keep_all_alive, name="entrepot-keeper", daemon=True)
            _keeper.start()


def _keep_all_alive() -> None:
    while True:
        time.sleep(0.5)
        for client in list(_clients):
            with contextlib.suppress(EntrepotError):
                client.keep_alive()
