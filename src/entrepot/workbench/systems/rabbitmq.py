# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ with pika: classic queues, a reply queue for each requester, and the topic exchange that every RabbitMQ has.

A unit of work is AMQP 0-9-1's tx class and not a group of confirms: what was
published with confirms can be seen, and stays, before they come, while a tx
shows nothing before its commit and nothing at all if it is given up. Its
commit is still not atomic when the broker dies within it, as RabbitMQ's own
documentation says, and the contract here says it, too. AMQP 0-9-1 cannot get
by correlation id, so each requester consumes from a queue of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata

from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import rabbitmq_clients as clients
from entrepot.workbench.systems.processes import LOOPBACK, ServerProcess, free_port
from entrepot.workbench.systems.single_server import SingleServer, package_version
from entrepot.workbench.systems.system import Replier, Requester, SystemReceiver, SystemSender

# Debian's command in the path insists on a user and a log folder of its own, so start what it wraps.
_COMMAND = "/usr/lib/rabbitmq/bin/rabbitmq-server"


class RabbitMq(SingleServer):
    name = "rabbitmq"
    title = "RabbitMQ, pika"
    commands = (_COMMAND, "epmd")
    packages = ("rabbitmq-server",)
    modules = ("pika",)
    abilities = frozenset({"queues", "requests", "topics", "sessions"})
    contracts = {
        Quality.EXPRESS: "memory; transient classic queue, no confirms; receivers acknowledge 250 at once",
        Quality.RECOVERABLE: (
            "fsync of the queue's own journal before each message's confirm (seen in that order); may be delivered"
            " before it; acknowledgements are not waited for and forced up to 0.2 s later, so a crash repeats messages"
        ),
        Quality.TRANSACTIONAL: (
            "tx of AMQP 0-9-1: invisible until tx.commit-ok, which follows the fsync of what was published; not atomic"
            " if the broker dies within a commit; acknowledgements forced up to 0.2 s later: a crash repeats messages"
        ),
    }
    answered_contract = (
        "memory; transient classic queue, each message's confirm is waited for; receivers acknowledge 250 at once"
    )
    start_s = 8.0

    _mapper: ServerProcess | None = None
    _watch: clients.PikaWatch | None = None

    def start(self) -> None:
        super().start()
        self._watch = clients.PikaWatch(self._port)

    def _launch(self) -> ServerProcess:
        mapper_port = free_port()
        erlang = {"ERL_EPMD_PORT": str(mapper_port), "ERL_EPMD_ADDRESS": LOOPBACK, "HOME": str(self.folder)}
        # Erlang would start its port mapper by itself, and leave it running for ever.
        self._mapper = ServerProcess(["epmd"], self.folder / "epmd.log", erlang, name=f"{self.name} (epmd)")
        self._mapper.wait_until_listening(mapper_port)
        return ServerProcess([_COMMAND], self.folder / "output.log", erlang | self._environment(), name=self.name)

    def _environment(self) -> dict[str, str]:
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {LOOPBACK}:{self._port}\nlog.file.level = warning\n"
        )
        return {
            # Always the same, because the folder of its queues is named after it; the port mapper is ours alone.
            "RABBITMQ_NODENAME": "workbench@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
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

    def stop(self) -> None:
        super().stop()
        if self._mapper is not None:
            self._mapper.stop()
        self._mapper = self._watch = None

    def version(self) -> str:
        return f"RabbitMQ {package_version('rabbitmq-server')}; pika {metadata.version('pika')}"

    def settings(self) -> dict[str, str]:
        settings = {
            "queue": "classic, version 1",
            "prefetch": f"{clients.PREFETCH} of a receiver, {clients.PREFETCH_REPLIER} of a replier",
            "reply queue": "one per requester",
            "client": "pika's SelectConnection; heartbeats off; the confirms of one send are waited for together",
            "depth": "messages that no receiver has been sent yet",
        }
        if self._limit_bytes:
            settings["queue limit"] = f"x-max-length-bytes {self._limit_bytes}, a refused publication is made again"
        elif self.options.get("queue_limit_bytes"):
            settings["queue limit"] = "none: a tx of which one publication was refused would be committed in part"
        return settings

    @property
    def _limit_bytes(self) -> int:
        return 0 if self.quality is Quality.TRANSACTIONAL else int(self.options.get("queue_limit_bytes") or 0)

    def create_queues(self, names: Sequence[str]) -> None:
        limit = {"x-max-length-bytes": self._limit_bytes, "x-overflow": "reject-publish"} if self._limit_bytes else {}
        channel = self._channel()
        for name in names:
            channel.call(channel.verbs.queue_delete, name)
            channel.call(channel.verbs.queue_declare, name, durable=self.quality.is_persistent, arguments=limit or None)
        if self.quality.is_persistent:
            clients.force_definitions(channel)
        channel.close()

    def depth(self, queue: str) -> int | None:
        return None if self._watch is None else self._watch.depth(queue)

    def _channel(self) -> clients.PikaChannel:
        return clients.PikaChannel(self._port)

    def sender(self, queue: str) -> SystemSender:
        limited = self._limit_bytes > 0
        return clients.PikaSender(
            self._channel(), self.quality, "", queue, limited=limited, confirms=self.is_answered or limited
        )

    def receiver(self, queue: str) -> SystemReceiver:
        return clients.PikaReceiver(self._channel(), self.quality, queue)

    def requester(self, requests: str, number: int) -> Requester:
        return clients.PikaRequester(self._channel(), self.quality, requests, f"{requests}.REPLIES.{number}")

    def replier(self, requests: str) -> Replier:
        return clients.PikaReplier(self._channel(), self.quality, requests)

    def publisher(self, topic: str) -> SystemSender:
        return clients.PikaSender(self._channel(), self.quality, clients.TOPICS, topic, confirms=self.is_answered)

    def subscriber(self, topic: str, number: int) -> SystemReceiver:
        channel, persistent = self._channel(), self.quality.is_persistent
        queue = f"{topic}.SUBSCRIBER.{number}"
        channel.call(channel.verbs.queue_declare, queue, durable=persistent, exclusive=not persistent)
        channel.call(channel.verbs.queue_bind, queue, clients.TOPICS, topic)
        if persistent:
            clients.force_definitions(channel)
        return clients.PikaReceiver(channel, self.quality, queue)
