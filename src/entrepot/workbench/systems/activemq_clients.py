# SPDX-License-Identifier: Apache-2.0
"""Clients of ActiveMQ whose calls block, on stomp.py.

stomp.py reads on a thread of its own; a `StompConnection` brings what that thread
gets to the thread that waits for it.
"""

from __future__ import annotations

import itertools
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import stomp

from entrepot.errors import SystemFailed
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.processes import LOOPBACK
from entrepot.workbench.systems.system import REPLY_S

PREFETCH = 1000
PREFETCH_REPLIER = 10
ACKNOWLEDGED_AT_ONCE = PREFETCH // 4
SILENCE_S = 0.2
"""After so long without a message a queue is taken to be empty."""
_CLOSE_S = 60.0
_STATISTICS_S = 5.0
_SIZE = re.compile(rb"<string>size</string>\s*<long>(\d+)</long>")
_SUBSCRIPTION = "0"
Headers = Mapping[str, str]


class StompConnection(stomp.ConnectionListener):  # type: ignore[misc]
    """A connection with at most one subscription."""

    def __init__(self, port: int, client_id: str = "") -> None:
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._take: Callable[[Any], None] = self._messages.put
        self._receipts: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._names = (str(number) for number in itertools.count())
        self._failure = ""
        self._is_closing = False
        self._has_ended = threading.Event()
        self._stomp = stomp.Connection12(
            [(LOOPBACK, port)], auto_decode=False, try_loopback_connect=False, reconnect_attempts_max=1
        )
        self._stomp.set_listener("", self)
        self._stomp.connect(wait=True, headers={"client-id": client_id} if client_id else {})
        self._stomp.transport.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def on_message(self, frame: Any) -> None:
        self._take(frame)

    def on_receipt(self, frame: Any) -> None:
        self._receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self._fail(f"answered with an error: {frame.headers.get('message', '')}")

    def on_disconnected(self) -> None:
        self._has_ended.set()
        if not self._is_closing:
            self._fail("closed the connection")

    def _fail(self, problem: str) -> None:
        self._failure = self._failure or problem
        # Waiting threads wake up and find the failure.
        self._messages.put(None)
        self._receipts.put("")

    def _check(self) -> None:
        if self._failure:
            raise SystemFailed("activemq", self._failure)

    def answer_with(self, reply: Callable[[Any], None]) -> None:
        """Let the thread that reads also reply, which spares a switch of threads."""
        self._take = reply

    def wait_for_ever(self) -> None:
        """Until the broker is gone."""
        self._messages.get()
        self._check()

    def receive(self, timeout_s: float) -> Any | None:
        """The next message, or None when the time is over."""
        try:
            frame = self._messages.get(timeout=timeout_s) if timeout_s > 0 else self._messages.get_nowait()
        except queue.Empty:
            self._check()
            return None
        if frame is None:
            self._check()
        return frame

    def waiting(self) -> int:
        """How many messages have come and were not received yet."""
        return self._messages.qsize()

    def subscribe(self, destination: str, *, ack: str, prefetch: int = PREFETCH, durable: str = "") -> None:
        """Return when the subscription exists."""
        headers = {"activemq.prefetchSize": str(prefetch), "receipt": next(self._names)}
        if durable:
            headers["activemq.subscriptionName"] = durable
        self._stomp.subscribe(destination, id=_SUBSCRIPTION, ack=ack, headers=headers)
        self.wait_for(headers["receipt"])

    def send(self, destination: str, body: bytes, headers: Headers) -> None:
        self._check()
        self._stomp.send(destination, body, headers=dict(headers))

    def send_for_receipt(self, destination: str, body: bytes, headers: Headers) -> str:
        """The name of the receipt that will come."""
        receipt = next(self._names)
        self.send(destination, body, {**headers, "receipt": receipt})
        return receipt

    def wait_for(self, receipt: str) -> None:
        """Return when a receipt has come, and with it all that were asked for before.

        Raises:
            SystemFailed: It does not come.
        """
        found = ""
        while found != receipt:
            self._check()
            try:
                found = self._receipts.get(timeout=REPLY_S)
            except queue.Empty:
                raise SystemFailed("activemq", f"sent no receipt for {REPLY_S:.0f} s") from None

    def acknowledge(self, frame: Any, unit: str = "") -> None:
        self._stomp.ack(frame.headers["ack"], transaction=unit or None)

    def begin(self) -> str:
        """A new unit of work, by its name."""
        unit = f"u{next(self._names)}"
        self._stomp.begin(transaction=unit)
        return unit

    def commit(self, unit: str) -> None:
        """Return when the broker has forced it."""
        receipt = next(self._names)
        self._stomp.commit(transaction=unit, headers={"receipt": receipt})
        self.wait_for(receipt)

    def close(self) -> None:
        """Return when the broker has seen everything and has let go of what was not acknowledged."""
        self._is_closing = True
        if self._stomp.is_connected():
            self._stomp.disconnect(receipt=next(self._names))
            self._has_ended.wait(_CLOSE_S)


class StompWatch(threading.local):
    """Reads depths over a connection of the thread that asks, kept for the next time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._process = 0
        self._connection: StompConnection | None = None

    def depth(self, name: str) -> int | None:
        # A forked process has no thread that reads its parent's connection.
        if self._connection is None or self._process != os.getpid():
            replies = f"/queue/WORKBENCH.STATISTICS.{os.getpid()}.{threading.get_ident()}"
            self._process, self._replies, self._connection = os.getpid(), replies, StompConnection(self._port)
            self._connection.subscribe(replies, ack="auto")
        connection = self._connection
        try:
            connection.send(f"/queue/ActiveMQ.Statistics.Destination.{name}", b"", {"reply-to": self._replies})
            answer = connection.receive(_STATISTICS_S)
        except (SystemFailed, stomp.exception.StompException):
            self._connection = None
            raise
        if answer is None:
            # The answer may still come, and must not be taken for the next one.
            connection.close()
            self._connection = None
            return None
        found = _SIZE.search(answer.body)
        return int(found[1]) if found else None


def _send(
    connection: StompConnection,
    quality: Quality,
    destination: str,
    bodies: Sequence[bytes],
    headers: Headers,
    *,
    receipts: bool = False,
) -> None:
    """As safely as the quality asks; with `receipts`, those of express messages are waited for, too."""
    if quality is Quality.TRANSACTIONAL:
        unit = connection.begin()
        for body in bodies:
            connection.send(destination, body, {**headers, "transaction": unit})
        connection.commit(unit)
    elif quality is Quality.EXPRESS and not receipts:
        for body in bodies:
            connection.send(destination, body, headers)
    else:
        asked = [connection.send_for_receipt(destination, body, headers) for body in bodies]
        for receipt in asked[-1:]:
            connection.wait_for(receipt)


def _acknowledge(connection: StompConnection, quality: Quality, frame: Any) -> None:
    if quality is Quality.RECOVERABLE:
        connection.acknowledge(frame)
    elif quality is Quality.TRANSACTIONAL:
        unit = connection.begin()
        connection.acknowledge(frame, unit)
        connection.commit(unit)


class StompSender:
    def __init__(
        self, connection: StompConnection, quality: Quality, destination: str, *, receipts: bool = False
    ) -> None:
        self._connection = connection
        self._quality = quality
        self._receipts = receipts
        self._destination = destination
        self._headers = {"persistent": "true"} if quality.is_persistent else {}

    def send(self, bodies: Sequence[bytes]) -> None:
        _send(self._connection, self._quality, self._destination, bodies, self._headers, receipts=self._receipts)

    def flush(self) -> None:
        # A receipt for a later frame means that all before it were taken; this topic has no subscriber.
        self._connection.wait_for(self._connection.send_for_receipt("/topic/WORKBENCH.FLUSHED", b"", {}))

    def close(self) -> None:
        self._connection.close()


class StompReceiver:
    """Persistent messages are handed over one by one, so that the caller's commit decides what belongs together."""

    def __init__(self, connection: StompConnection, quality: Quality, destination: str, *, durable: str = "") -> None:
        self._connection = connection
        self._quality = quality
        self._last: Any | None = None
        self._open = 0
        # An acknowledgement of a message is one of all before it, too.
        connection.subscribe(destination, ack="client", durable=durable)

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        if not self._quality.is_persistent and self._last is not None and not self._connection.waiting():
            # A full queue takes nothing more before what it has given is acknowledged.
            self._acknowledge()
        frame = self._connection.receive(timeout_s)
        if frame is None:
            return ()
        bodies = [frame.body]
        if not self._quality.is_persistent:
            for _ in range(self._connection.waiting()):
                if (more := self._connection.receive(0)) is not None:
                    bodies.append(more.body)
                    frame = more
        self._last = frame
        self._open += len(bodies)
        if not self._quality.is_persistent and self._open >= ACKNOWLEDGED_AT_ONCE:
            self._acknowledge()
        return bodies

    def _acknowledge(self) -> None:
        self._connection.acknowledge(self._last)
        self._last, self._open = None, 0

    def commit(self) -> None:
        if not self._quality.is_persistent or self._last is None:
            return
        _acknowledge(self._connection, self._quality, self._last)
        self._last, self._open = None, 0

    def close(self) -> None:
        if not self._quality.is_persistent and self._last is not None:
            self._acknowledge()
        self._connection.close()


class StompRequester:
    def __init__(self, connection: StompConnection, quality: Quality, requests: str, reply_queue: str) -> None:
        self._connection = connection
        self._quality = quality
        self._destination = requests
        self._headers = {"reply-to": reply_queue} | ({"persistent": "true"} if quality.is_persistent else {})
        # A reply queue may hold what came too late for an earlier client.
        self._numbers = (f"{os.getpid()}-{time.monotonic_ns()}-{count}" for count in itertools.count())
        connection.subscribe(reply_queue, ack="client-individual" if quality.is_persistent else "auto")

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        correlation = next(self._numbers)
        headers = {**self._headers, "correlation-id": correlation}
        _send(self._connection, self._quality, self._destination, [body], headers)
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            reply = self._connection.receive(left_s)
            if reply is None:
                return None
            _acknowledge(self._connection, self._quality, reply)
            if reply.headers["correlation-id"] == correlation:
                return bytes(reply.body)
        return None

    def close(self) -> None:
        self._connection.close()


class StompReplier:
    def __init__(self, connection: StompConnection, quality: Quality, requests: str) -> None:
        self._connection = connection
        self._quality = quality
        self._requests = requests

    def serve(self, ready: Callable[[], None]) -> None:
        persistent = self._quality.is_persistent
        if not persistent:
            self._connection.answer_with(self._reply)
        self._connection.subscribe(
            self._requests, ack="client-individual" if persistent else "auto", prefetch=PREFETCH_REPLIER
        )
        ready()
        if not persistent:
            self._connection.wait_for_ever()
        while True:
            if (request := self._connection.receive(REPLY_S)) is not None:
                self._reply_safely(request)

    def _reply(self, request: Any) -> None:
        headers = {"correlation-id": request.headers["correlation-id"]}
        self._connection.send(request.headers["reply-to"], request.body, headers)

    def _reply_safely(self, request: Any) -> None:
        """The reply and the acknowledgement in one unit of work, or the one before the other."""
        connection, destination = self._connection, request.headers["reply-to"]
        headers = {"persistent": "true", "correlation-id": request.headers["correlation-id"]}
        if self._quality is Quality.RECOVERABLE:
            connection.wait_for(connection.send_for_receipt(destination, request.body, headers))
            connection.acknowledge(request)
            return
        unit = connection.begin()
        connection.send(destination, request.body, {**headers, "transaction": unit})
        connection.acknowledge(request, unit)
        connection.commit(unit)
