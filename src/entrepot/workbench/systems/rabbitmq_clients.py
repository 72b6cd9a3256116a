# SPDX-License-Identifier: Apache-2.0
"""Clients of RabbitMQ whose calls block, on pika's SelectConnection.

pika's own BlockingConnection stands on a SelectConnection, too, but writes
and waits for each publication by itself: measured with 1,000 bytes on the
machine of 2026, it sent at 86 to 120 µs of CPU a message where this takes
36 µs in batches (and no more than it one by one), and received at 40 µs where
this takes 37 µs. With asyncio and uvloop a single publication costs 185 µs.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import pika

from entrepot.errors import SystemFailed
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.processes import LOOPBACK
from entrepot.workbench.systems.system import REPLY_S

PREFETCH = 1000
PREFETCH_REPLIER = 10
ACKNOWLEDGED_AT_ONCE = PREFETCH // 4
TOPICS = "amq.topic"
"""The topic exchange that is always there."""
_FORCED = "workbench.forced"
_REFUSED_PAUSE_S = 0.001


class PikaChannel:
    """A channel on a connection of its own; `verbs` are pika's, and `call` waits for the answer of one."""

    def __init__(self, port: int) -> None:
        self._failure = ""
        opened: list[Any] = []
        self._connection = pika.SelectConnection(
            # Between two calls heartbeats would not be answered.
            pika.ConnectionParameters(LOOPBACK, port, heartbeat=0),
            on_open_callback=opened.append,
            on_open_error_callback=self._fail,
            on_close_callback=self._fail,
        )
        self._loop = self._connection.ioloop
        self._loop.activate_poller()
        self.wait_until(lambda: len(opened) == 1)
        self._connection.channel(on_open_callback=opened.append)
        self.wait_until(lambda: len(opened) == 2)
        self.verbs = opened[1]
        self.verbs.add_on_close_callback(self._fail)

    def _fail(self, _: Any, error: object) -> None:
        self._failure = self._failure or f"closed the connection: {error}"

    def step(self) -> None:
        """Write what is to be written, or wait for something to read."""
        self._loop.poll()
        self._loop.process_timeouts()
        if self._failure:
            raise SystemFailed("rabbitmq", self._failure)

    def wait_until(self, is_done: Callable[[], object], timeout_s: float | None = None) -> bool:
        """Whether it came to pass in time.

        Raises:
            SystemFailed: The broker has closed the channel or the connection, or is gone.
        """
        if is_done():
            return True
        expired: list[bool] = []
        timer = None if timeout_s is None else self._loop.call_later(timeout_s, lambda: expired.append(True))
        try:
            while not is_done():
                if expired:
                    return False
                self.step()
        finally:
            if timer is not None and not expired:
                self._loop.remove_timeout(timer)
        return True

    def call(self, verb: Callable[..., object], *arguments: Any, **options: Any) -> Any:
        """The broker's answer to a verb."""
        answers: list[Any] = []
        verb(*arguments, callback=answers.append, **options)
        self.wait_until(lambda: answers)
        return answers[0]

    def close(self) -> None:
        """Return when the broker has seen everything and has let go of what was not acknowledged."""
        if self._connection.is_open:
            self._connection.close()
        while not self._connection.is_closed:
            self._loop.poll()
            self._loop.process_timeouts()
        self._loop.deactivate_poller()
        self._loop.close()


def force_definitions(channel: PikaChannel) -> None:
    """Have the queues that were just declared on disk.

    The broker answers a declaration before its definition is safe, now and
    then: killed within two seconds it came back without the queue, and without
    its messages, confirmed or not (3 times in 58 kills). What it forces
    for a later definition takes those before it along.
    """
    channel.call(channel.verbs.exchange_declare, _FORCED, durable=True)
    channel.call(channel.verbs.exchange_delete, _FORCED)


class PikaWatch(threading.local):
    """Reads depths over a connection of the thread that asks, kept for the next time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._process = 0
        self._channel: PikaChannel | None = None

    def depth(self, queue: str) -> int:
        # A forked process must not use its parent's connection.
        if self._channel is None or self._process != os.getpid():
            self._process, self._channel = os.getpid(), PikaChannel(self._port)
        try:
            answer = self._channel.call(self._channel.verbs.queue_declare, queue, passive=True)
        except SystemFailed:
            self._channel = None
            raise
        count: int = answer.method.message_count
        return count


class _Publishing:
    """Publishes as safely as a quality asks for."""

    def __init__(self, channel: PikaChannel, quality: Quality, *, confirms: bool = False) -> None:
        self._channel = channel
        self._verbs = channel.verbs
        self._delivery_mode = 2 if quality.is_persistent else 1
        self._is_unit = quality is Quality.TRANSACTIONAL
        self._confirms = confirms or quality is Quality.RECOVERABLE
        self._published = 0
        self._unconfirmed: set[int] = set()
        self._refused: set[int] = set()
        if self._is_unit:
            channel.call(self._verbs.tx_select)
        elif self._confirms:
            channel.call(lambda callback: self._verbs.confirm_delivery(self._answered, callback=callback))

    def described(self, **properties: Any) -> Any:
        return pika.BasicProperties(delivery_mode=self._delivery_mode, **properties)

    def _answered(self, frame: Any) -> None:
        method = frame.method
        tag: int = method.delivery_tag
        answered = {each for each in self._unconfirmed if each <= tag} if method.multiple else {tag}
        self._unconfirmed -= answered
        if isinstance(method, pika.spec.Basic.Nack):
            self._refused |= answered

    def publish(self, exchange: str, key: str, bodies: Iterable[bytes], described: Any) -> None:
        """Write them; not safe before `settle`."""
        for body in bodies:
            self._verbs.basic_publish(exchange, key, body, described)
            if self._confirms:
                self._published += 1
                self._unconfirmed.add(self._published)

    def settle(self) -> bool:
        """Return when what was published is as safe as promised; whether the broker took all of it."""
        if self._is_unit:
            self._channel.call(self._verbs.tx_commit)
        elif self._confirms:
            self._channel.wait_until(lambda: not self._unconfirmed)
        else:
            self._channel.step()
        refused, self._refused = bool(self._refused), set()
        return not refused


class PikaSender:
    def __init__(
        self,
        channel: PikaChannel,
        quality: Quality,
        exchange: str,
        key: str,
        *,
        confirms: bool,
        limited: bool = False,
    ) -> None:
        """`confirms` are waited for, of express messages too; a `limited` queue refuses what is too much by them."""
        self._channel = channel
        self._publishing = _Publishing(channel, quality, confirms=confirms)
        self._place = (exchange, key)
        self._described = self._publishing.described()
        self._limited = limited

    def send(self, bodies: Sequence[bytes]) -> None:
        if self._limited:
            self._send_limited(bodies)
            return
        self._publishing.publish(*self._place, bodies, self._described)
        if not self._publishing.settle():
            _refused(self._place[1])

    def _send_limited(self, bodies: Sequence[bytes]) -> None:
        # One by one, because a message that is sent again would be overtaken by those behind it.
        for body in bodies:
            self._publishing.publish(*self._place, (body,), self._described)
            while not self._publishing.settle():
                time.sleep(_REFUSED_PAUSE_S)
                self._publishing.publish(*self._place, (body,), self._described)

    def flush(self) -> None:
        # An answer to a later frame means that all before it were read.
        self._channel.call(self._channel.verbs.exchange_declare, TOPICS, passive=True)

    def close(self) -> None:
        self._channel.close()


def _refused(queue: str) -> NoReturn:
    raise SystemFailed("rabbitmq", f"refused a message for {queue}")


class PikaReceiver:
    """Persistent messages are handed over one by one, so that the caller's commit decides what belongs together."""

    def __init__(self, channel: PikaChannel, quality: Quality, queue: str) -> None:
        self._channel = channel
        self._verbs = channel.verbs
        self._quality = quality
        self._come: deque[tuple[int, bytes]] = deque()
        self._tag_received = 0
        self._tag_acknowledged = 0
        if quality is Quality.TRANSACTIONAL:
            channel.call(self._verbs.tx_select)
        channel.call(self._verbs.basic_qos, prefetch_count=PREFETCH)
        channel.call(self._verbs.basic_consume, queue, self._take)

    def _take(self, _: Any, method: Any, __: Any, body: bytes) -> None:
        self._come.append((method.delivery_tag, body))

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        if not self._channel.wait_until(lambda: self._come, timeout_s):
            return ()
        if self._quality.is_persistent:
            self._tag_received, body = self._come.popleft()
            return (body,)
        self._tag_received = self._come[-1][0]
        bodies = [body for _, body in self._come]
        self._come.clear()
        if self._tag_received - self._tag_acknowledged >= ACKNOWLEDGED_AT_ONCE:
            self._acknowledge()
        return bodies

    def _acknowledge(self) -> None:
        self._verbs.basic_ack(self._tag_received, multiple=True)
        self._tag_acknowledged = self._tag_received

    def commit(self) -> None:
        if not self._quality.is_persistent or self._tag_received == self._tag_acknowledged:
            return
        self._acknowledge()
        if self._quality is Quality.TRANSACTIONAL:
            self._channel.call(self._verbs.tx_commit)
        else:
            self._channel.step()

    def close(self) -> None:
        if not self._quality.is_persistent and self._tag_received > self._tag_acknowledged:
            self._acknowledge()
        self._channel.close()


class PikaRequester:
    def __init__(self, channel: PikaChannel, quality: Quality, requests: str, reply_queue: str) -> None:
        self._channel = channel
        self._requests, self._reply_queue = requests, reply_queue
        self._persistent = persistent = quality.is_persistent
        self._publishing = _Publishing(channel, quality)
        # A durable reply queue may hold what came too late for an earlier client.
        self._numbers = (f"{os.getpid()}-{time.monotonic_ns()}-{count}" for count in itertools.count())
        self._awaited = ""
        self._reply: bytes | None = None
        self._tag_received = self._tag_acknowledged = 0
        verbs = channel.verbs
        channel.call(verbs.queue_declare, reply_queue, durable=persistent, exclusive=not persistent)
        if persistent:
            force_definitions(channel)
        channel.call(verbs.basic_consume, reply_queue, self._take, auto_ack=not persistent)

    def _take(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        if properties.correlation_id == self._awaited:
            self._reply = body
        self._tag_received = method.delivery_tag

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        self._awaited, self._reply = next(self._numbers), None
        described = self._publishing.described(reply_to=self._reply_queue, correlation_id=self._awaited)
        self._publishing.publish("", self._requests, (body,), described)
        if not self._publishing.settle():
            _refused(self._requests)
        self._channel.wait_until(lambda: self._reply is not None, timeout_s)
        if self._persistent:
            self._acknowledge()
        return self._reply

    def _acknowledge(self) -> None:
        # Not as soon as a reply comes: while a tx commits, the broker takes no other verb.
        if self._tag_received > self._tag_acknowledged:
            self._channel.verbs.basic_ack(self._tag_received, multiple=True)
            self._tag_acknowledged = self._tag_received
            self._publishing.settle()

    def close(self) -> None:
        self._channel.close()


class PikaReplier:
    def __init__(self, channel: PikaChannel, quality: Quality, requests: str) -> None:
        self._channel = channel
        self._requests = requests
        self._quality = quality
        self._publishing = _Publishing(channel, quality)
        self._come: deque[tuple[Any, Any, bytes]] = deque()

    def serve(self, ready: Callable[[], None]) -> None:
        channel, persistent = self._channel, self._quality.is_persistent
        channel.call(channel.verbs.basic_qos, prefetch_count=PREFETCH_REPLIER)
        take = self._keep if persistent else self._reply_to
        channel.call(channel.verbs.basic_consume, self._requests, take, auto_ack=not persistent)
        ready()
        while True:
            channel.wait_until(lambda: self._come)
            method, properties, body = self._come.popleft()
            self._reply_safely(method, properties, body)

    def _keep(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._come.append((method, properties, body))

    def _reply_to(self, _: Any, __: Any, properties: Any, body: bytes) -> None:
        described = self._publishing.described(correlation_id=properties.correlation_id)
        self._publishing.publish("", properties.reply_to, (body,), described)

    def _reply_safely(self, method: Any, properties: Any, body: bytes) -> None:
        """The reply and the acknowledgement in one unit of work, or the one before the other."""
        self._reply_to(None, None, properties, body)
        if self._quality is Quality.TRANSACTIONAL:
            self._channel.verbs.basic_ack(method.delivery_tag)
            self._publishing.settle()
            return
        if not self._publishing.settle():
            _refused(properties.reply_to)
        self._channel.verbs.basic_ack(method.delivery_tag)
