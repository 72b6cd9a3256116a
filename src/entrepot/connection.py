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

import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack
from weakref import WeakSet

from entrepot import checks
from entrepot.binding import Binding, RunningUnit
from entrepot.claiming import ClaimVerbs
from entrepot.consuming import Consumption as Consumption
from entrepot.databases.watch import ResourceWatch
from entrepot.embedded import ClaimedHost, EmbeddedHost, current_user
from entrepot.errors import ConnectionClosed, ExtraMissing, InvalidUrl
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message, MessageType
from entrepot.mqsc import Answer, require_ok
from entrepot.options import (
    GetOptions,
    PutOptions,
    SubscribeOptions,
    criteria,
    draft,
    drafts,
    publication,
    reply_options,
    reply_to,
    subscription,
)
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import MODEL_QUEUE, require_subscription_name
from entrepot.queues.folder import SETTINGS, as_recovery_error, create, read_settings
from entrepot.queues.unit_of_work import UnitState
from entrepot.reading import Reader as Reader
from entrepot.subscription import Subscription

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from entrepot.global_unit import Databases, GlobalUnitOfWork

_BROWSE_AT_ONCE = 500

_hosts: dict[Path, tuple[EmbeddedHost, int]] = {}
_hosts_lock = threading.Lock()


def connect(
    url: str, *, application: str = "", user: str = "", password: str = "", reconnect_s: float = 30.0
) -> Connection:
    """Connect to a queue manager.

    `embedded:PATH` runs it inside this process, and creates it when there is
    nothing at PATH yet; connections of one process to one PATH share it. It
    stops with the last connection.

    `unix:PATH` reaches the one that runs in that folder (`entrepot qm start`),
    `mq://host:1414/QM?channel=NAME` one anywhere by a client channel, and
    `mqs://` the same encrypted. Such a connection mends itself for up to
    `reconnect_s` when it breaks; a verb whose outcome is unknown then says so.

    Raises:
        InvalidUrl: Not a URL of ours.
        RecoveryError: It cannot be started; the error says why. Nothing was lost.
        ConnectFailed, SecurityError: Nobody answers there, or does not let us in.
    """
    checks.text("application", application)
    if isinstance(url, str) and not url.startswith("embedded:"):
        return _connect_remotely(url, application, user, password, checks.seconds("reconnect_s", reconnect_s))
    host, leave = share_host(url)
    return Connection(host, application=application, leave=leave)


def share_host(url: str) -> tuple[EmbeddedHost, Callable[[], None]]:
    """The queue manager of an `embedded:` URL, shared by the connections of this process, and how to let it go."""
    scheme, _, place = url.partition(":") if isinstance(url, str) else ("", "", "")
    if scheme != "embedded" or not place or "\0" in place:
        raise InvalidUrl(str(url))
    path = Path(place).resolve()
    with _hosts_lock:
        host, users = _hosts.get(path, (None, 0))
        if host is None:
            _create_unless_there(path)
            host = EmbeddedHost(path)
            if ResourceWatch.is_wanted(path):
                watch = ResourceWatch(path, host.coordinator)
                host.on_close = watch.close
                watch.start()
        _hosts[path] = (host, users + 1)
    return host, partial(_leave, host)


def _connect_remotely(url: str, application: str, user: str, password: str, reconnect_s: float) -> Connection:
    # Imported here, so that an embedded queue manager needs no sockets.
    from entrepot.channels.address import parse
    from entrepot.channels.client import Client

    address = parse(url, user=user, password=password)
    name = application or program()
    return Connection(Client(address, application=name, reconnect_s=reconnect_s), application=name)


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


def _leave(host: EmbeddedHost) -> None:
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
    _unit: RunningUnit | None

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
        message, persistent, priority, wait_s = draft(
            body, options, user=connection.user, application=connection.application
        )
        return connection.host.put(
            queue, message, persistent=persistent, priority=priority, unit=self._unit, wait_s=wait_s
        )

    def publish(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        retain: bool = False,
        **options: Unpack[PutOptions],
    ) -> bytes:
        """Let everybody have a message who has subscribed to the topic; returns its message id.

        All of them have it, or none: what a subscriber's queue refuses goes to
        the dead-letter queue, unless the topic says otherwise. With `retain` it is
        kept for subscribers to come, in place of what was kept before. For the
        rest it is a put: persistent or not, in a unit of work or on its own.

        Raises:
            InvalidTopic, PublishInhibited, PublicationFailed, MessageTooLong: Nobody has it.
        """
        connection = self._connection
        name, (message, persistent, priority, wait_s) = publication(
            topic, body, options, retain=retain, user=connection.user, application=connection.application
        )
        return connection.host.put(
            name, message, persistent=persistent, priority=priority, unit=self._unit, wait_s=wait_s
        )

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

    def __init__(self, connection: Connection, unit: RunningUnit) -> None:
        self._connection = connection
        self._unit: RunningUnit = unit

    @property
    def local(self) -> UnitOfWork:
        """What a global unit has of this kind."""
        return self

    @property
    def state(self) -> str:
        """active, prepared, committed or backed out"""
        return self._unit.state.value

    def put_many(
        self, queue: str, bodies: Iterable[bytes | bytearray | memoryview], **options: Unpack[PutOptions]
    ) -> list[bytes]:
        """Put a message for each body, alike in all else, with one verb; their message ids.

        Through a channel what is refused is told when the unit commits, as of `put`.

        Raises:
            InvalidArgument: An argument is wrong, or an option belongs to one message; nothing was put.
            MessageTooLong: The channel would not take one of them; nothing was put.
        """
        connection = self._connection
        puts = drafts(queue, bodies, options, user=connection.user, application=connection.application)
        return connection.host.put_many(self._unit, puts)

    def get_group(self, queue: str, *, wait_s: float = 0.0, selector: str | None = None) -> list[Message] | None:
        """All messages of the next group that is whole, in sequence; a message of no group is one alone."""
        wanted = criteria({"selector": selector, "whole_group": True})
        assert wanted is not None
        return self._connection.host.get_group(queue, wanted, unit=self._unit, wait_s=checks.wait("wait_s", wait_s))

    def get_many(
        self, queue: str, limit: int = 100, *, wait_s: float = 0.0, **options: Unpack[GetOptions]
    ) -> list[Message]:
        """Up to `limit` messages with one verb; only the first is waited for, so none means that none came.

        An error behind the first message ends the batch, and what was got is
        returned; the next call raises the error and gets nothing.

        Raises:
            TooManyUncommitted: The unit is full (MAXUMSGS); commit it. Nothing was got.
            QueueNotFound, GetInhibited: Nothing was got.
        """
        limit = checks.whole_number("limit", limit, 1, CONSUMER_CREDIT_MAX)
        wait_s = checks.wait("wait_s", wait_s)
        return self._connection.host.get_many(queue, limit, criteria(options), unit=self._unit, wait_s=wait_s)

    def commit(self, *, counted: bool = True) -> None:
        """Let everything happen; on disk when this returns.

        With `counted=False` messages that return, because a put was refused for
        instance, return as `back_out(counted=False)` gives them back.

        Raises:
            UnitBackedOut: The disk is full; nothing happened, and the gets are back on their queues.
            LogFull: The unit is still active; commit again later, or back out.
            DiskFailed: The outcome is unknown; the queue manager has stopped.
            ConnectionLost: The outcome is unknown; the connection broke while the unit was ending.
            QueueingError: Through a channel, a put of this unit was refused; the unit is backed out.
            Fenced: Somebody else acts under this connection's claim; the unit is backed out.
        """
        checks.flag("counted", counted)
        self._end(lambda host: host.commit(self._unit, counted=counted))

    def back_out(self, *, counted: bool = True) -> None:
        """Let nothing happen: puts vanish, gets return with a raised backout count.

        With `counted=False` they return unharmed, as if nobody had got them: for
        who gives a batch back to take its messages one by one. A crash counts all the same.
        """
        checks.flag("counted", counted)
        self._end(lambda host: host.back_out(self._unit, counted=counted))

    def prepare(self, transaction_id: bytes) -> None:
        """Leave the outcome to a coordinator, who says it with `Connection.resolve`, even after a restart."""
        name = checks.transaction_id(transaction_id)
        self._end(lambda host: host.prepare(self._unit, name))

    def _end(self, verb: Callable[[Binding], None]) -> None:
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

    def __init__(self, host: Binding, queue: str, criteria: Criteria | None) -> None:
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


class Connection(_Verbs, ClaimVerbs):
    """A connection to a queue manager; its verbs may be used from any thread."""

    def __init__(self, host: Binding, *, application: str = "", leave: Callable[[], None] | None = None) -> None:
        self._connection = self
        self._unit = None
        self._host: Binding | None = host
        self._leave = leave or host.close
        self.user = current_user()
        self.application = checks.text("application", application or program())
        self._temporary: list[str] = []
        self._reply_queue = ("", 0)
        self._units: set[RunningUnit] = set()
        self._subscriptions: set[Subscription] = set()
        self._consumptions: WeakSet[Consumption] = WeakSet()
        self._databases: Databases | None = None

    @property
    def host(self) -> Binding:
        if self._host is None:
            raise ConnectionClosed()
        return self._host

    def browse(self, queue: str, **options: Unpack[GetOptions]) -> Browse:
        """Look at a queue's messages without taking them; `GetOptions` tells at which."""
        return Browse(self.host, queue, criteria(options))

    def unit_of_work(self) -> UnitOfWork:
        """Begin a unit of work; use it with `with`."""
        return UnitOfWork(self, self.begin())

    def global_unit_of_work(self, *engines: Engine) -> GlobalUnitOfWork:
        """Begin a unit of work that databases take part in; use it with `with`.

        Each engine is SQLAlchemy's. All of them commit in two phases, but for
        one at most, which then decides for all. The first time an engine is
        used here, what a crash has left at its database is brought to its end.

        Raises:
            TwoPhaseUnavailable, OnePhaseTwice, DatabaseUnavailable: Nothing was begun.
        """
        try:
            from entrepot.global_unit import Databases, GlobalUnitOfWork
        except ImportError as error:
            raise ExtraMissing("a global unit of work", "sql") from error

        if self._databases is None:
            self._databases = Databases(lambda: self.host.coordinator)
        resources = self._databases.of(engines)
        coordinator = self.host.coordinator
        unit, transaction_id = coordinator.begin()
        self._units.add(unit)
        local = UnitOfWork(self, unit)
        return GlobalUnitOfWork(
            local,
            unit,
            transaction_id,
            coordinator,
            resources,
            self._databases.recoveries,
            partial(self.ended, unit),
        )

    def begin(self) -> RunningUnit:
        """A bare unit, which this connection backs out when it is closed."""
        unit: RunningUnit = self.host.begin()
        self._units.add(unit)
        return unit

    def ended(self, unit: RunningUnit) -> None:
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
        while True:
            reply_queue = self.reply_queue()
            # A request that nobody waits for any more is of no use.
            options |= {"type": MessageType.REQUEST, "reply_to": reply_queue, "expiry_s": timeout_s}
            message, persistent, priority, _ = draft(body, options, user=self.user, application=self.application)
            reply = self.host.request(
                queue,
                message,
                reply_queue,
                timeout_s,
                persistent=persistent,
                priority=priority,
                opened=self._reply_queue[1],
            )
            if reply is not None:
                return reply

    def reply(self, request: Message, body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]) -> bytes:
        """Answer a request on the queue it names, under its message id, as persistent as it was.

        Through a channel a nonpersistent reply is not waited for. Should it be
        refused, because who asked has gone for instance, the next pipeline's
        `wait` on this connection tells.
        """
        if options or request.persistent:
            return self.put(reply_to(request), body, **reply_options(request, options))
        message = Message(
            body if body.__class__ is bytes else checks.body(body),
            correlation_id=request.message_id,
            type=MessageType.REPLY,
            user=self.user,
            application=self.application,
        )
        return self.host.put_without_answer(reply_to(request), message, persistent=False, priority=request.priority)

    def pipeline(self) -> Pipeline:
        """Put many messages without waiting for each; use it with `with`, which waits for all of them."""
        return Pipeline(self)

    def consume(
        self, queue: str, *, read_ahead: int = 100, wait_s: float = math.inf, **options: Unpack[GetOptions]
    ) -> Consumption:
        """Messages one after another, until none comes for `wait_s`; use it with `with` and a `for` loop.

        A message is settled when its turn ends well: when the loop asks for the
        next one, or the `with` ends without an exception. By an exception it
        returns to its queue with a raised `backout_count`, and at BOTHRESH moves
        to BOQNAME; a bare `for` that is left in any way returns it, too.
        `message.ack()`, `retry(delay_s=...)` and `reject(reason)` say otherwise.
        Through a channel up to `read_ahead` messages come before they are asked
        for; on leaving they return untried. Should the connection break, what was
        not settled comes again if it is persistent, and is gone if not.
        """
        credit = checks.whole_number("read_ahead", read_ahead, 1, CONSUMER_CREDIT_MAX)
        wanted = criteria(options)
        consumption = Consumption(
            lambda: self.host.consume(queue, wanted, credit, self._units), checks.wait("wait_s", wait_s)
        )
        self._consumptions.add(consumption)
        return consumption

    def reader(self, queue: str, *, read_ahead: int = 100, **options: Unpack[GetOptions]) -> Reader:
        """Read a queue in units of work; use it with `with`.

        It promises what `UnitOfWork.get` promises, but through a channel up to
        `read_ahead` messages come before they are asked for. Those are locked
        meanwhile: others neither get nor see them. They return untried when the
        reader is closed or the connection breaks.
        """
        credit = checks.whole_number("read_ahead", read_ahead, 1, CONSUMER_CREDIT_MAX)
        return Reader(self, queue, criteria(options), credit)

    def subscribe(self, topic: str | None = None, **options: Unpack[SubscribeOptions]) -> Subscription:
        """Have what is published on a topic from now on, and what was retained; use it with `with`.

        `+` stands for one level of a topic and `#` for any number. With
        `durable="NAME"` the subscription collects while nobody is connected; by
        that name it is opened again, without a topic if you like.

        Raises:
            InvalidTopic, SelectorSyntaxError, ContentFilterSyntaxError, InvalidArgument: Nothing was done.
            SubscriptionInUse, SubscriptionDiffers, SubscriptionNotFound: It is not open.
        """
        wanted, new_only = subscription(topic, options)
        opened = Subscription(
            self.host, wanted, self._subscriptions.discard, self._units, self._consumptions, new_only=new_only
        )
        self._subscriptions.add(opened)
        return opened

    def unsubscribe(self, durable: str) -> None:
        """End a durable subscription, and discard what it has collected.

        Raises:
            SubscriptionNotFound, SubscriptionInUse: Nothing was done.
        """
        self.host.unsubscribe(require_subscription_name(durable))

    def reply_queue(self) -> str:
        """The temporary queue on which this connection waits for replies."""
        name, opened = self._reply_queue
        while not name or opened != self.host.opened:
            opened = self.host.opened
            name = self.dynamic_queue()
            self._reply_queue = (name, opened)
        return name

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
        answers = self.host.mqsc(script, source)
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
        if self._databases is not None:
            self._databases.recoveries.close()
        if host.failure is None:
            for consumption in list(self._consumptions):
                consumption.give_back()
            for unit in list(units):
                if unit.state is UnitState.ACTIVE:
                    host.back_out(unit)
            for opened in list(self._subscriptions):
                opened.close()
            host.remove_temporary(self._temporary)
            if isinstance(host, ClaimedHost):
                host.holder.leave()
        self._host = None
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pipeline:
    """Puts that nobody waits for one by one.

    Leaving the `with` returns when all of them are where they belong. Should
    one have been refused, that error is raised then; the others were carried out.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._outgoing = connection.host.pipeline()

    def put(
        self, queue: str | Sequence[str], body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]
    ) -> bytes:
        """Put a message; returns its id, before the queue manager has it.

        With `wait_s`, a full queue holds up all that comes behind it on this connection.
        """
        connection = self._connection
        message, persistent, priority, wait_s = draft(
            body, options, user=connection.user, application=connection.application
        )
        return self._outgoing.put(queue, message, persistent=persistent, priority=priority, wait_s=wait_s)

    def publish(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        retain: bool = False,
        **options: Unpack[PutOptions],
    ) -> bytes:
        """Publish a message; returns its id, before the queue manager has it."""
        connection = self._connection
        name, (message, persistent, priority, wait_s) = publication(
            topic, body, options, retain=retain, user=connection.user, application=connection.application
        )
        return self._outgoing.put(name, message, persistent=persistent, priority=priority, wait_s=wait_s)

    def wait(self) -> None:
        """Return when all that was put so far is where it belongs.

        Raises:
            EntrepotError: The first put that was refused; the others were carried out.
            ConnectionLost: The connection broke. What was put before that may be there or not.
        """
        self._outgoing.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.wait()


def program() -> str:
    """What this process calls itself."""
    return Path(sys.argv[0] or "python").name
