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
from entrepot.workbench.systems.system import REPLY_S, Replier, SystemCaller, SystemReceiver, TaskRequester

if TYPE_CHECKING:
    from entrepot import aio
    from entrepot.workbench.systems.unit_database import ReceiverRow, UnitDatabase

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


class EntrepotSender:
    """Puts on a queue, or publishes on a topic; owns its connection.

    Express messages go through a pipeline unless the sender `waits` for each
    answer, as it must where a queue may be full; recoverable ones are answered
    for one by one, and others are a unit of work for each call.
    """

    def __init__(
        self, connection: Connection, destination: str, quality: Quality, *, topic: bool = False, waits: bool = False
    ) -> None:
        self._connection = connection
        self._destination = destination
        self._topic = topic
        self._persistent = quality.is_persistent
        self._pipeline = connection.pipeline() if quality is Quality.EXPRESS and not waits else None
        one_by_one = quality in (Quality.EXPRESS, Quality.RECOVERABLE)
        self.send = self._send_piped if self._pipeline else self._send_each if one_by_one else self._send_unit

    def _send_piped(self, bodies: Sequence[bytes]) -> None:
        assert self._pipeline is not None
        put = self._pipeline.publish if self._topic else self._pipeline.put
        for body in bodies[:-1]:
            put(self._destination, body, persistent=False)
        # A pipeline gathers what need not go at once; this must, and what was gathered goes with it.
        put(self._destination, bodies[-1], persistent=False, wait_s=ROOM_S)

    def _send_each(self, bodies: Sequence[bytes]) -> None:
        put = self._connection.publish if self._topic else self._connection.put
        for body in bodies:
            put(self._destination, body, persistent=self._persistent, wait_s=ROOM_S)

    def _send_unit(self, bodies: Sequence[bytes]) -> None:
        with self._connection.unit_of_work() as unit:
            if not self._topic:
                unit.put_many(self._destination, bodies, persistent=True)
                return
            for body in bodies:
                unit.publish(self._destination, body, persistent=True)

    def flush(self) -> None:
        if self._pipeline is not None:
            self._pipeline.wait()

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
) -> SystemReceiver:
    """Gets from a queue; owns its connection. With a `database`, each message changes a row in its unit of work."""
    if quality is Quality.EXPRESS:
        return _ExpressReceiver(connection, connection.consume(queue, read_ahead=read_ahead))
    row = database.open_row() if database is not None and quality is Quality.GLOBAL else None
    return _UnitReceiver(connection, queue, read_ahead, unit_messages, row)


def make_subscriber(
    connection: Connection, topic: str, number: int, quality: Quality, read_ahead: int
) -> SystemReceiver:
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
    """What was received since the last commit is in one unit of work, with a `row` in a global one."""

    def __init__(
        self,
        connection: Connection,
        queue: str,
        read_ahead: int,
        unit_messages: int,
        row: ReceiverRow | None = None,
    ) -> None:
        self._connection = connection
        self._reader = connection.reader(queue, read_ahead=read_ahead)
        self._unit_messages = unit_messages
        self._row = row
        self._unit: Any = None

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        if self._unit is None:
            row, connection = self._row, self._connection
            self._unit = connection.global_unit_of_work(row.engine) if row else connection.unit_of_work()
        bodies = [message.body for message in self._reader.get_many(self._unit, self._unit_messages, wait_s=timeout_s)]
        if self._row is not None:
            for body in bodies:
                self._row.update(self._unit.database(self._row.engine), body)
        return bodies

    def commit(self) -> None:
        if self._unit is not None:
            self._unit.commit()
            self._unit = None

    def close(self) -> None:
        if self._unit is not None and self._row is not None:
            self._unit.back_out()
        self._reader.close()
        self._connection.close()  # backs out what is open here
        if self._row is not None:
            self._row.close()


# --- request and reply -------------------------------------------------------------------------------


class EntrepotRequester:
    """Owns its connection; `replies` is the common queue for persistent replies."""

    def __init__(
        self, connection: Connection, requests: str, replies: str, quality: Quality, reply_manager: str = ""
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._replies = replies
        self._quality = quality
        self._reply_manager = reply_manager

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        if self._quality is Quality.EXPRESS:
            return self._request_express(body, timeout_s)
        if self._quality is Quality.RECOVERABLE:
            return self._receive(self._connection, self._send(self._connection, body), timeout_s)
        with self._connection.unit_of_work() as unit:
            message_id = self._send(unit, body)
        with self._connection.unit_of_work() as unit:
            return self._receive(unit, message_id, timeout_s)

    def _request_express(self, body: bytes, timeout_s: float) -> bytes | None:
        manager = self._reply_manager
        with contextlib.suppress(RequestTimedOut):
            return self._connection.request(
                self._requests, body, timeout_s=timeout_s, persistent=False, reply_to_manager=manager
            ).body
        return None

    def _send(self, verbs: Connection | UnitOfWork, body: bytes) -> bytes:
        return verbs.put(
            self._requests, body, persistent=True, reply_to=self._replies, reply_to_manager=self._reply_manager
        )

    def _receive(self, verbs: Connection | UnitOfWork, message_id: bytes, timeout_s: float) -> bytes | None:
        reply = verbs.get(self._replies, correlation_id=message_id, wait_s=timeout_s)
        return None if reply is None else reply.body

    def close(self) -> None:
        self._connection.close()


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


class TimedCaller(SystemCaller):
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
