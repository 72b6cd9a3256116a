# SPDX-License-Identifier: Apache-2.0
"""Our own clients, over any binding: what an application of ours does for each quality of service.

Express messages go with a pipeline, others one by one or in units of work; readers read ahead.
Nonpersistent requesters use `request`; persistent ones do as the document
on WebSphere MQ has it: put in a unit of work, commit, and get the reply by
correlation id from a common queue in another unit. A replier gets and
replies in one unit, so that a crash leaves either the request or the reply.
Persistent messages are always received in units of work: what was received
and not committed comes again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from entrepot.client.blocking import Connection, UnitOfWork
from entrepot.client.options import reply_to
from entrepot.errors import RequestTimedOut
from entrepot.message import Message
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.system import REPLY_S, Caller, Receiver, Replier, Requester, Sender, TaskRequester

if TYPE_CHECKING:
    from entrepot import aio
    from entrepot.workbench.systems.unit_database import UnitDatabase

ROOM_S = 60.0
"""How long a put waits for room on a full queue; a put that may wait is also sent at once, and not gathered."""
REPLIER_READ_AHEAD = 10
_TURN_S = 1.0


class _Source(Protocol):
    """What comes one by one: of a queue, or of a subscription."""

    def get(self, wait_s: float = 0.0) -> Message | None: ...

    def settle(self) -> None: ...

    def close(self) -> None: ...


# --- senders -----------------------------------------------------------------------------------------


def make_sender(
    connection: Connection, destination: str, quality: Quality, *, topic: bool = False, waits: bool = False
) -> Sender:
    """Puts on a queue, or publishes on a topic, and `waits` for the answer to each; owns its connection."""
    if quality is Quality.EXPRESS and not waits:
        return _ExpressSender(connection, destination, topic=topic)
    if quality in (Quality.EXPRESS, Quality.RECOVERABLE):
        return _SingleSender(connection, destination, topic=topic, persistent=quality.is_persistent)
    return _UnitSender(connection, destination, topic=topic)


class _ExpressSender:
    """Nobody waits for the server's answer before `flush`."""

    def __init__(self, connection: Connection, destination: str, *, topic: bool) -> None:
        self._connection = connection
        self._pipeline = connection.pipeline()
        self._put = self._pipeline.publish if topic else self._pipeline.put
        self._destination = destination

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies[:-1]:
            self._put(self._destination, body, persistent=False)
        # A pipeline gathers what need not go at once; this must, and what was gathered goes with it.
        self._put(self._destination, bodies[-1], persistent=False, wait_s=ROOM_S)

    def flush(self) -> None:
        self._pipeline.wait()

    def close(self) -> None:
        self._connection.close()


class _SingleSender:
    """Each message by itself, answered for before the next; a full queue holds its sender up."""

    def __init__(self, connection: Connection, destination: str, *, topic: bool, persistent: bool) -> None:
        self._connection = connection
        self._persistent = persistent
        self._put = connection.publish if topic else connection.put
        self._destination = destination

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._put(self._destination, body, persistent=self._persistent, wait_s=ROOM_S)

    def flush(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        self._connection.close()


class _UnitSender:
    """All messages of a call in one unit of work."""

    def __init__(self, connection: Connection, destination: str, *, topic: bool) -> None:
        self._connection = connection
        self._topic = topic
        self._destination = destination

    def send(self, bodies: Sequence[bytes]) -> None:
        with self._connection.unit_of_work() as unit:
            if not self._topic:
                unit.put_many(self._destination, bodies, persistent=True)
                return
            for body in bodies:
                unit.publish(self._destination, body, persistent=True)

    def flush(self) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        self._connection.close()


# --- receivers ---------------------------------------------------------------------------------------


def make_receiver(
    connection: Connection,
    queue: str,
    quality: Quality,
    read_ahead: int,
    unit_messages: int = 1,
    database: UnitDatabase | None = None,
) -> Receiver:
    """Gets from a queue; owns its connection."""
    if quality is Quality.EXPRESS:
        return _ExpressReceiver(connection, connection.consume(queue, read_ahead=read_ahead))
    if quality is Quality.GLOBAL:
        assert database is not None
        return _GlobalReceiver(connection, queue, read_ahead, unit_messages, database)
    return _UnitReceiver(connection, queue, read_ahead, unit_messages)


def make_subscriber(connection: Connection, topic: str, number: int, quality: Quality, read_ahead: int) -> Receiver:
    """Subscribes, durably if the quality is persistent; owns its connection."""
    durable = f"S{number}" if quality.is_persistent else None
    subscription = connection.subscribe(topic, durable=durable)
    if quality is Quality.EXPRESS:
        return _ExpressReceiver(connection, subscription.consume(read_ahead=read_ahead))
    return _UnitReceiver(connection, subscription.queue, read_ahead, 1)


class _ExpressReceiver:
    """What has come is gone from its queue."""

    def __init__(self, connection: Connection, source: _Source) -> None:
        self._connection = connection
        self._source = source

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        message = self._source.get(timeout_s)
        self._source.settle()
        return () if message is None else (message.body,)

    def commit(self) -> None:
        """There is nothing left to do."""

    def close(self) -> None:
        self._source.close()
        self._connection.close()


class _UnitReceiver:
    """What was received since the last commit is in one unit of work."""

    def __init__(self, connection: Connection, queue: str, read_ahead: int, unit_messages: int) -> None:
        self._connection = connection
        self._reader = connection.reader(queue, read_ahead=read_ahead)
        self._unit_messages = unit_messages
        self._unit: UnitOfWork | None = None

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        if self._unit is None:
            self._unit = self._connection.unit_of_work()
        messages = self._reader.get_many(self._unit, self._unit_messages, wait_s=timeout_s)
        return [message.body for message in messages]

    def commit(self) -> None:
        if self._unit is not None:
            self._unit.commit()
            self._unit = None

    def close(self) -> None:
        self._reader.close()
        self._connection.close()  # backs out what is open


class _GlobalReceiver:
    """Each message changes a row, in one global unit of work with its get."""

    def __init__(
        self, connection: Connection, queue: str, read_ahead: int, unit_messages: int, database: UnitDatabase
    ) -> None:
        self._connection = connection
        self._reader = connection.reader(queue, read_ahead=read_ahead)
        self._unit_messages = unit_messages
        self._row = database.open_row()
        self._unit: Any = None

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        if self._unit is None:
            self._unit = self._connection.global_unit_of_work(self._row.engine)
        messages = self._reader.get_many(self._unit, self._unit_messages, wait_s=timeout_s)
        for message in messages:
            self._row.update(self._unit.database(self._row.engine), message.body)
        return [message.body for message in messages]

    def commit(self) -> None:
        if self._unit is not None:
            self._unit.commit()
            self._unit = None

    def close(self) -> None:
        if self._unit is not None:
            self._unit.back_out()
        self._reader.close()
        self._connection.close()
        self._row.close()


# --- request and reply -------------------------------------------------------------------------------


def make_requester(
    connection: Connection, requests: str, replies: str, quality: Quality, reply_manager: str = ""
) -> Requester:
    """Owns its connection; `replies` is the common queue for persistent replies."""
    if quality is Quality.EXPRESS:
        return _ExpressRequester(connection, requests, reply_manager)
    if quality is Quality.RECOVERABLE:
        return _RecoverableRequester(connection, requests, replies, reply_manager)
    return _UnitRequester(connection, requests, replies, reply_manager)


class _ExpressRequester:
    def __init__(self, connection: Connection, requests: str, reply_manager: str) -> None:
        self._connection = connection
        self._requests = requests
        self._reply_manager = reply_manager

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        try:
            return self._connection.request(
                self._requests,
                body,
                timeout_s=timeout_s,
                persistent=False,
                reply_to_manager=self._reply_manager,
            ).body
        except RequestTimedOut:
            return None

    def close(self) -> None:
        self._connection.close()


class _RecoverableRequester:
    def __init__(self, connection: Connection, requests: str, replies: str, reply_manager: str) -> None:
        self._connection = connection
        self._requests = requests
        self._replies = replies
        self._reply_manager = reply_manager

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        message_id = self._connection.put(
            self._requests, body, persistent=True, reply_to=self._replies, reply_to_manager=self._reply_manager
        )
        reply = self._connection.get(self._replies, correlation_id=message_id, wait_s=timeout_s)
        return None if reply is None else reply.body

    def close(self) -> None:
        self._connection.close()


class _UnitRequester(_RecoverableRequester):
    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        with self._connection.unit_of_work() as unit:
            message_id = unit.put(
                self._requests, body, persistent=True, reply_to=self._replies, reply_to_manager=self._reply_manager
            )
        with self._connection.unit_of_work() as unit:
            reply = unit.get(self._replies, correlation_id=message_id, wait_s=timeout_s)
        return None if reply is None else reply.body


class EchoReplier(Replier):
    """Answers each request with its own body."""

    def __init__(self, connect: Callable[[], Connection], requests: str, quality: Quality) -> None:
        self._connect = connect
        self._requests = requests
        self._quality = quality

    def serve(self, ready: Callable[[], None]) -> None:
        connection = self._connect()
        if self._quality is Quality.EXPRESS:
            requests = connection.consume(self._requests, read_ahead=REPLIER_READ_AHEAD)
            ready()
            for request in requests:
                connection.reply(request, request.body)
        ready()
        serve_one = _serve_recoverable if self._quality is Quality.RECOVERABLE else _serve_in_unit
        while True:
            serve_one(connection, self._requests)


def _serve_recoverable(connection: Connection, requests: str) -> None:
    request = connection.get(requests, wait_s=_TURN_S)
    if request is not None:
        connection.reply(request, request.body)


def _serve_in_unit(connection: Connection, requests: str) -> None:
    with connection.unit_of_work() as unit:
        request = unit.get(requests, wait_s=_TURN_S)
        if request is not None:
            unit.put(reply_to(request), request.body, correlation_id=request.message_id, persistent=True)


class AioRequester(TaskRequester):
    """A nonpersistent requester on an event loop, with a queue of its own or the common one for replies."""

    def __init__(self, connection: aio.Connection, requests: str, common: str, reply_manager: str = "") -> None:
        self._connection = connection
        self._requests = requests
        self._common = common
        """The common queue for replies; empty when each has its own."""
        self._reply_manager = reply_manager

    async def open_queue(self) -> None:
        if not self._common:
            await self._connection.reply_queue()

    async def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        if not self._common:
            with contextlib.suppress(RequestTimedOut):
                reply = await self._connection.request(
                    self._requests,
                    body,
                    timeout_s=timeout_s,
                    persistent=False,
                    reply_to_manager=self._reply_manager,
                )
                return reply.body
            return None
        message_id = await self._connection.put(
            self._requests, body, persistent=False, reply_to=self._common, reply_to_manager=self._reply_manager
        )
        found = await self._connection.get(self._common, correlation_id=message_id, wait_s=timeout_s)
        return None if found is None else found.body

    async def close(self) -> None:
        await self._connection.close()


# --- single calls ------------------------------------------------------------------------------------


class TimedCaller(Caller):
    """The eight calls of the document's MQI tool, as ours has them.

    There is no handle to open: a put names its queue. `open` lets a reader
    begin to read it ahead, which asks the server once, and `close` ends that;
    gets in between would be from what was read ahead, so a load closes first.
    """

    def __init__(self, connect: Callable[[], Connection], queue: str, quality: Quality) -> None:
        self._connect = connect
        self._queue = queue
        self._persistent = quality.is_persistent
        self._connection: Connection | None = None
        self._source: _Source | None = None
        self._unit: UnitOfWork | None = None

    def connect(self) -> None:
        self._connection = self._connect()

    def open(self) -> None:
        self._source = self._connected.consume(self._queue, read_ahead=1)

    def put(self, body: bytes, *, in_unit: bool) -> None:
        verbs = self._in_unit() if in_unit else self._connected
        verbs.put(self._queue, body, persistent=self._persistent)

    def get(self, *, in_unit: bool) -> bytes | None:
        verbs = self._in_unit() if in_unit else self._connected
        message = verbs.get(self._queue)
        return None if message is None else message.body

    def commit(self) -> None:
        self._in_unit().commit()
        self._unit = None

    def back_out(self) -> None:
        self._in_unit().back_out()
        self._unit = None

    def close(self) -> None:
        assert self._source is not None
        self._source.close()

    def disconnect(self) -> None:
        self._connected.close()
        self._connection = None

    @property
    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def _in_unit(self) -> UnitOfWork:
        if self._unit is None:
            self._unit = self._connected.unit_of_work()
        return self._unit
