# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ with pika's BlockingConnection: classic queues, a reply queue for each driver.

AMQP 0-9-1 cannot get by correlation id, so each driver consumes from a
queue of its own, which spares the broker the search. Persistent means
durable queues, delivery mode 2, publisher confirms, and an acknowledgement
by hand after the reply was confirmed.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import pika

from peers.system import ONE_WAY, REPLY_S, REQUESTS, Producer, System, Trips, drive_blocking
from processes import LOOPBACK, Server, accepts, free_port

# Debian's command in the path insists on a user and a log folder of its own, so start what it wraps.
_COMMAND = "/usr/lib/rabbitmq/bin/rabbitmq-server"
PREFETCH = 10
PREFETCH_ONE_WAY = 1000


class RabbitMq(System):
    name = "rabbitmq"
    title = "RabbitMQ, pika"
    commands = (_COMMAND, "epmd")
    nonpersistent_contract = "memory; classic queue, no confirms, delivered means acknowledged"
    persistent_contract = (
        "fsync of the queue's own journal before each confirm (seen in that order); delivered before it,"
        " acknowledgements forced up to 0.2 s later; no unit of work: after a crash a request may be served twice"
    )

    def start(self) -> None:
        self._port, distribution_port, epmd_port = free_port(), free_port(), free_port()
        erlang = {"ERL_EPMD_PORT": str(epmd_port), "ERL_EPMD_ADDRESS": LOOPBACK, "HOME": str(self.folder)}
        # Erlang would start its port mapper by itself, and leave it running for ever.
        self._mapper = Server(["epmd"], self.folder / "epmd.log", erlang)
        self._mapper.wait_until(lambda: accepts(epmd_port))
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {LOOPBACK}:{self._port}\nlog.file.level = warning\n"
        )
        environment = erlang | {
            "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            # Together these make the script become the broker, so that its pid is the broker's.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
        }
        self._server = Server([_COMMAND], self.folder / "output.log", environment)
        self._server.wait_until(lambda: accepts(self._port))
        channel = self.channel()
        for queue in (REQUESTS, ONE_WAY):
            channel.queue_declare(queue, durable=self.persistent)
        channel.connection.close()

    def stop(self) -> None:
        for name in ("_server", "_mapper"):
            if hasattr(self, name):
                getattr(self, name).stop()

    @property
    def pids(self) -> list[int]:
        return [self._server.pid]

    def version(self) -> str:
        command = ["dpkg-query", "--show", "--showformat", "${Version}", "rabbitmq-server"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"RabbitMQ {found.stdout or 'of unknown version'}; pika {metadata.version('pika')}"

    def settings(self) -> dict[str, Any]:
        return {"queue": "classic, version 1", "prefetch of a worker": PREFETCH, "reply queue": "one per driver"}

    def channel(self) -> Any:
        return pika.BlockingConnection(pika.ConnectionParameters(LOOPBACK, self._port)).channel()

    def drive(self, number: int, trips: Trips) -> int:
        driver = _Driver(self.channel(), f"REPLIES.{number}", persistent=self.persistent)
        drive_blocking(driver.round_trip, trips)
        return driver.unexpected

    def work(self, ready: Callable[[], None]) -> None:
        channel, persistent = self.channel(), self.persistent
        if persistent:
            channel.confirm_delivery()
            channel.basic_qos(prefetch_count=PREFETCH)

        def reply(_: Any, method: Any, properties: Any, body: bytes) -> None:
            described = _described(persistent, correlation_id=properties.correlation_id)
            channel.basic_publish("", properties.reply_to, body, described)
            if persistent:
                channel.basic_ack(method.delivery_tag)

        channel.basic_consume(REQUESTS, reply, auto_ack=not persistent)
        ready()
        channel.start_consuming()

    def producer(self) -> Producer:
        return _Producer(self.channel())

    def consume(self, see: Callable[[bytes], None], ready: Callable[[], None]) -> None:
        channel = self.channel()
        channel.basic_qos(prefetch_count=PREFETCH_ONE_WAY)
        unacknowledged = 0

        def take(_: Any, method: Any, __: Any, body: bytes) -> None:
            nonlocal unacknowledged
            see(body)
            unacknowledged += 1
            if unacknowledged == PREFETCH_ONE_WAY // 4:
                channel.basic_ack(method.delivery_tag, multiple=True)
                unacknowledged = 0

        channel.basic_consume(ONE_WAY, take)
        ready()
        channel.start_consuming()


def _described(persistent: bool, **properties: Any) -> Any:
    return pika.BasicProperties(delivery_mode=2 if persistent else 1, **properties)


class _Driver:
    def __init__(self, channel: Any, reply_queue: str, *, persistent: bool) -> None:
        self._channel = channel
        self._persistent = persistent
        self._reply_queue = reply_queue
        self._numbers = itertools.count()
        self._awaited = ""
        self._reply: bytes | None = None
        self.unexpected = 0
        channel.queue_declare(reply_queue, durable=persistent, exclusive=not persistent)
        if persistent:
            channel.confirm_delivery()
        channel.basic_consume(reply_queue, self._take, auto_ack=not persistent)

    def _take(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        if properties.correlation_id == self._awaited:
            self._reply = body
        else:
            self.unexpected += 1
        if self._persistent:
            self._channel.basic_ack(method.delivery_tag)

    def round_trip(self, body: bytes) -> bytes | None:
        self._awaited, self._reply = str(next(self._numbers)), None
        described = _described(self._persistent, reply_to=self._reply_queue, correlation_id=self._awaited)
        # With confirms on, this returns when the broker has confirmed, and raises when it has refused.
        self._channel.basic_publish("", REQUESTS, body, described)
        wait = self._channel.connection.process_data_events
        while self._reply is None:
            before = self.unexpected
            wait(time_limit=REPLY_S)
            if self._reply is None and self.unexpected == before:
                return None
        return self._reply


class _Producer:
    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._described = _described(False)

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._channel.basic_publish("", ONE_WAY, body, self._described)

    def flush(self) -> None:
        # An answer to a later frame means that all before it were read.
        self._channel.queue_declare(ONE_WAY, passive=True)
