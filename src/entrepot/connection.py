# SPDX-License-Identifier: Apache-2.0
"""The public edge: connect to a queue manager, put, get, browse, and units of work.

with entrepot.connect("embedded:./qm1") as connection:
    connection.mqsc("DEFINE QLOCAL(ORDERS) REPLACE")
    connection.put("ORDERS", b"...", persistent=True)
    with connection.unit_of_work() as unit:
        order = unit.get("ORDERS", wait_s=1)
        unit.put("DONE", order.body, persistent=True)
"""

from __future__ import annotations

import getpass
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from entrepot import checks
from entrepot.errors import ConnectionClosed, InvalidUrl, RequestTimedOut
from entrepot.message import Message, MessageType
from entrepot.mqsc import Answer, require_ok, run_script
from entrepot.options import GetOptions, PutOptions, criteria, draft
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import MODEL_QUEUE
from entrepot.queues.folder import SETTINGS, as_recovery_error, create, read_settings
from entrepot.queues.host import Host
from entrepot.queues.unit_of_work import Unit, UnitState

_BROWSE_AT_ONCE = 500

_hosts: dict[Path, tuple[Host, int]] = {}
_hosts_lock = threading.Lock()


def connect(url: str, *, application: str = "") -> Connection:
    """Connect to a queue manager.

    `embedded:PATH` runs it inside this process, and creates it when there is
    nothing at PATH yet; connections of one process to one PATH share it. It
    stops with the last connection.

    Raises:
        InvalidUrl: Not a URL of ours.
        RecoveryError: It cannot be started; the error says why. Nothing was lost.
    """
    scheme, _, place = url.partition(":") if isinstance(url, str) else ("", "", "")
    if scheme != "embedded" or not place or "\0" in place:
        raise InvalidUrl(str(url))
    checks.text("application", application)
    path = Path(place).resolve()
    with _hosts_lock:
        host, users = _hosts.get(path, (None, 0))
        if host is None:
            _create_unless_there(path)
            host = Host(path)
        _hosts[path] = (host, users + 1)
    return Connection(host, application=application)


def _create_unless_there(path: Path) -> None:
    try:
        if (path / SETTINGS).exists():
            return
        is_new = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    except OSError as error:
        raise as_recovery_error(path, error) from error
    if is_new:
        create(path)
    else:
        read_settings(path)  # tells what is wrong, before a lock is left in a folder that is not ours


def _leave(host: Host) -> None:
    with _hosts_lock:
        for path, (shared, users) in list(_hosts.items()):
            if shared is host:
                if users > 1:
                    _hosts[path] = (host, users - 1)
                    return
                del _hosts[path]
                host.close()
                return
    host.close()


class _Verbs:
    """What a connection and a unit of work have in common."""

    _connection: Connection
    _unit: Unit | None

    def put(
        self,
        queue: str | Sequence[str],
        body: bytes | bytearray | memoryview,
        **options: Unpack[PutOptions],
    ) -> bytes:
        """Leave a message for whoever reads the queue next; returns its message id.

        Outside of a unit of work a persistent message is on disk when this
        returns; a nonpersistent one is in memory and dies with the queue
        manager. Inside, nobody sees it before the commit. `PutOptions` tells
        what may be said about the message. Several queues, or the name of a
        NAMELIST, make a distribution list: all get the message, or none.

        Raises:
            QueueNotFound, PutInhibited, MessageTooLong: Nothing was stored.
            QueueFull, LogFull, DiskFull: Nothing was stored; retry later.
            InvalidArgument: An argument is wrong; nothing was stored.
            DiskFailed: Whether it was stored is unknown; the queue manager has stopped.
        """
        connection = self._connection
        message, persistent, priority = draft(body, options, user=connection.user, application=connection.application)
        return connection.host.put(queue, message, persistent=persistent, priority=priority, unit=self._unit)

    def get(self, queue: str, *, wait_s: float = 0.0, **options: Unpack[GetOptions]) -> Message | None:
        """Take the next message off a queue, or None when there is none within `wait_s`.

        `GetOptions` tells which message it has to be, if not just the next one.
        Outside of a unit of work the message has left for good; inside, it comes
        back with a raised `backout_count` unless the unit commits, and moves to
        the backout queue once the queue's threshold is reached.

        Raises:
            QueueNotFound, GetInhibited, SelectorSyntaxError: No message was taken.
            DiskFailed: Whether one was taken is unknown; the queue manager has stopped.
        """
        if wait_s != 0:
            wait_s = checks.wait("wait_s", wait_s)
        return self._connection.host.get(queue, criteria(options), unit=self._unit, wait_s=wait_s)


class UnitOfWork(_Verbs):
    """Puts and gets that happen together or not at all.

    As a context manager it commits at the end and backs out on an exception.
    One thread at a time may use it.
    """

    def __init__(self, connection: Connection, unit: Unit) -> None:
        self._connection = connection
        self._unit: Unit = unit

    @property
    def state(self) -> str:
        """active, prepared, committed or backed out"""
        return self._unit.state.value

    def get_group(self, queue: str, *, wait_s: float = 0.0, selector: str | None = None) -> list[Message] | None:
        """All messages of the next group that is whole, in sequence; a message of no group is one alone."""
        wanted = criteria({"selector": selector, "whole_group": True})
        assert wanted is not None
        return self._connection.host.get_group(queue, wanted, unit=self._unit, wait_s=checks.wait("wait_s", wait_s))

    def commit(self) -> None:
        """Let everything happen; on disk when this returns.

        Raises:
            UnitBackedOut: The disk is full; nothing happened, and the gets are back on their queues.
            LogFull: The unit is still active; commit again later, or back out.
            DiskFailed: The outcome is unknown; the queue manager has stopped.
        """
        self._end(lambda host: host.commit(self._unit))

    def back_out(self) -> None:
        """Let nothing happen: puts vanish, gets return with a raised backout count."""
        self._end(lambda host: host.back_out(self._unit))

    def prepare(self, transaction_id: bytes) -> None:
        """Leave the outcome to a coordinator, who says it with `Connection.resolve`, even after a restart."""
        name = checks.transaction_id(transaction_id)
        self._end(lambda host: host.prepare(self._unit, name))

    def _end(self, verb: Callable[[Host], None]) -> None:
        try:
            verb(self._connection.host)
        finally:
            if self._unit.state is not UnitState.ACTIVE:
                self._connection.ended(self._unit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unit.state is not UnitState.ACTIVE:
            return  # ended by hand
        if kind is None:
            try:
                self.commit()
            except BaseException:
                if self._unit.state is UnitState.ACTIVE:
                    self.back_out()
                raise
        else:
            self.back_out()


class Browse(Iterator[Message]):
    """A cursor over a queue's messages, in the order readers would get them, leaving them there.

    It shows messages that arrive behind it while it moves on, and looks ahead a
    few hundred at a time, so it may show one that somebody has got meanwhile.
    """

    def __init__(self, host: Host, queue: str, criteria: Criteria | None) -> None:
        self._host = host
        self._queue = queue
        self._criteria = criteria
        self._place: tuple[int, int] | None = None
        self._ahead: list[Message] = []
        self._ended = False
        self._fetch()  # now, so that a wrong queue name is told now

    def _fetch(self) -> None:
        found, self._place = self._host.browse(self._queue, self._criteria, self._place, _BROWSE_AT_ONCE)
        self._ahead = found[::-1]

    def __next__(self) -> Message:
        if not self._ahead and not self._ended:
            self._fetch()
        if not self._ahead:
            self._ended = True
            raise StopIteration
        return self._ahead.pop()


class Connection(_Verbs):
    """A connection to a queue manager; its verbs may be used from any thread."""

    def __init__(self, host: Host, *, application: str = "") -> None:
        self._connection = self
        self._unit = None
        self._host: Host | None = host
        self.user = _user()
        self.application = checks.text("application", application or Path(sys.argv[0] or "python").name)
        self._temporary: list[str] = []
        self._reply_queue = ""
        self._units: set[Unit] = set()

    @property
    def host(self) -> Host:
        if self._host is None:
            raise ConnectionClosed()
        return self._host

    def browse(self, queue: str, **options: Unpack[GetOptions]) -> Browse:
        """Look at a queue's messages without taking them; `GetOptions` tells at which."""
        return Browse(self.host, queue, criteria(options))

    def unit_of_work(self) -> UnitOfWork:
        """Begin a unit of work; use it with `with`."""
        return UnitOfWork(self, self.begin())

    def begin(self) -> Unit:
        """A bare unit, which this connection backs out when it is closed."""
        unit = self.host.begin()
        self._units.add(unit)
        return unit

    def ended(self, unit: Unit) -> None:
        """A unit of work of this connection has come to its end."""
        self._units.discard(unit)

    def request(
        self,
        queue: str,
        body: bytes | bytearray | memoryview,
        *,
        timeout_s: float = 30.0,
        **options: Unpack[PutOptions],
    ) -> Message:
        """Put a request and wait for the reply that carries its message id as correlation id.

        Raises:
            RequestTimedOut: No reply came in time; whether the request is served is unknown.
        """
        timeout_s = checks.seconds("timeout_s", timeout_s, positive=True)
        reply_queue = self.reply_queue()
        # A request that nobody waits for any more is of no use.
        options |= {"type": MessageType.REQUEST, "reply_to": reply_queue, "expiry_s": timeout_s}
        message_id = self.put(queue, body, **options)
        reply = self.get(reply_queue, correlation_id=message_id, wait_s=timeout_s)
        if reply is None:
            raise RequestTimedOut(queue, timeout_s)
        return reply

    def reply_queue(self) -> str:
        """The temporary queue on which this connection waits for replies."""
        if not self._reply_queue:
            self._reply_queue = self.dynamic_queue()
        return self._reply_queue

    def dynamic_queue(self, model: str = MODEL_QUEUE, pattern: str = "ENTREPOT.*") -> str:
        """Create a queue after a model and return its name; a temporary one goes with this connection."""
        name = self.host.make_dynamic(model, pattern)
        self._temporary.append(name)
        return name

    def mqsc(self, script: str, *, source: str = "-") -> list[Answer]:
        """Run administration commands and return their answers.

        Raises:
            MqscError: A command was wrong or failed; the others were carried out.
        """
        answers = run_script(script, self.host, source)
        require_ok(answers)
        return answers

    def in_doubt(self) -> list[bytes]:
        """The transaction ids of units that were prepared and not resolved."""
        return self.host.in_doubt()

    def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        """Carry out a coordinator's decision about a prepared unit of work."""
        self.host.resolve(checks.transaction_id(transaction_id), commit=checks.flag("commit", commit))

    def close(self) -> None:
        """Back out what is open, drop temporary queues, and let the queue manager go."""
        if self._host is None:
            return
        host, units = self._host, self._units
        if host.failure is None:
            for unit in units:
                if unit.state is UnitState.ACTIVE:
                    host.back_out(unit)
            host.remove_temporary(self._temporary)
        self._host = None
        _leave(host)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # a container may run under a number that has no name
