# SPDX-License-Identifier: Apache-2.0
"""What all of our own systems have in common: settings, the database of global units, and the clients.

A binding says where its queue manager runs and how a connection to it is
made; the clients are the same over all of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Protocol

from entrepot.client.blocking import Connection, connect
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.limits import MIB
from entrepot.server.mqsc import Answer
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import entrepot_clients as clients
from entrepot.workbench.systems import unit_database
from entrepot.workbench.systems.system import (
    Replier,
    Requester,
    System,
    SystemCaller,
    SystemReceiver,
    SystemSender,
    TaskRequester,
)

REPLIES = "ENTREPOT.BENCH.REPLIES"
DEPTH_MAX = 999_999_999
TUNED_LOG = LogSettings(primary=12, buffer_bytes=16 * MIB)
"""As the document on MST tunes the log of MQSeries: several times the files and the buffer that it comes with."""
READ_AHEAD = 100
"""The library's default."""
_READ_AHEAD_BYTES = 4 * MIB
"""Of messages that wait at one reader; large ones are read ahead in small numbers."""

ON_DISK = "on disk (fdatasync, shared by waiting callers) before"
CONTRACTS: Mapping[Quality, str] = {
    Quality.EXPRESS: "In memory: lost with the server; sent without waiting for an answer, at most once to its reader.",
    Quality.RECOVERABLE: (
        f"Each message is {ON_DISK} its put returns, without a unit of work; it is received in one, on disk before its"
        " commit returns: none lost, none twice. Request and reply: each put and get is on disk by itself."
    ),
    Quality.TRANSACTIONAL: (
        f"Every unit of work is {ON_DISK} its commit returns, at the sender and at the receiver: none lost, none twice."
    ),
    Quality.GLOBAL: (
        f"The sender's unit of work is {ON_DISK} its commit returns; the receiver's get and its row in the database"
        " commit together or not at all, on disk at both before commit returns: none lost, none twice."
    ),
}


def queue_definition(name: str, options: Mapping[str, Any]) -> str:
    return f"DEFINE QLOCAL('{name}') MAXDEPTH({depth_max(options)}) REPLACE"


def depth_max(options: Mapping[str, Any]) -> int:
    """How many messages a queue may hold; a limit in bytes becomes one of messages, since ours know no other."""
    limit_bytes = int(options.get("queue_limit_bytes", 0) or 0)
    return max(1, limit_bytes // max(int(options.get("message_bytes", 1)), 1)) if limit_bytes else DEPTH_MAX


def depth_at(manager: Manager, *queues: str) -> int:
    return depth_of(manager.mqsc(*(f"DISPLAY QSTATUS('{queue}') CURDEPTH" for queue in queues)))


def depth_of(answers: Sequence[Answer]) -> int:
    return sum(int(str(row["CURDEPTH"])) for answer in answers for row in answer.rows)


class Manager(Protocol):
    """A queue manager under measurement, wherever it runs."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    @property
    def pids(self) -> list[int]: ...

    def mqsc(self, *commands: str) -> list[Answer]: ...


class EntrepotSystem(System):
    """Clients over `url`; messages with a limited queue wait for room."""

    contracts: ClassVar[Mapping[Quality, str]] = CONTRACTS
    answered_contract = "In memory: lost with the server; each put is answered before the next is sent."

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, quality, options)
        self.database: unit_database.UnitDatabase | None = None

    @property
    @abstractmethod
    def managers(self) -> Sequence[Manager]:
        """Its queue managers; queues are at the last of them."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Where applications connect."""

    def start(self) -> None:
        self.start_database()
        for manager in self.managers:
            manager.start()
            manager.mqsc(queue_definition(REPLIES, self.options))

    def stop(self) -> None:
        for manager in self.managers:
            manager.stop()
        if self.database is not None:
            self.database.stop()

    @property
    def pids(self) -> list[int]:
        return [pid for manager in self.managers for pid in manager.pids]

    def create_queues(self, names: Sequence[str]) -> None:
        if names:
            self.managers[-1].mqsc(*(queue_definition(name, self.options) for name in names))
            self.managers[-1].mqsc(*(f"CLEAR QLOCAL('{name}')" for name in names))

    def depth(self, queue: str) -> int | None:
        return depth_at(self.managers[-1], queue)

    @property
    def log(self) -> LogSettings:
        """What the point says about the log: `tuned-log`, or as it comes."""
        return TUNED_LOG if self.options.get("binding") == "tuned-log" else LogSettings()

    @property
    def limited(self) -> bool:
        return depth_max(self.options) < DEPTH_MAX

    @property
    def read_ahead(self) -> int:
        size = max(int(self.options.get("message_bytes", 0) or 0), 1)
        return max(1, min(READ_AHEAD, _READ_AHEAD_BYTES // size))

    def start_database(self) -> None:
        """Start what receivers of the quality `global_unit` change.

        Raises:
            SystemAbsent: The database that the point asks for is not here.
        """
        if self.quality is Quality.GLOBAL:
            kind = unit_database.choose(str(self.options.get("database", "")), self.folder)
            self.database = self.database or unit_database.UnitDatabase(self.folder / "database", kind)
            self.database.start()

    def is_alive(self) -> bool:
        return super().is_alive() and (self.database is None or self.database.is_alive())

    def version(self) -> str:
        found = f"entrepot {metadata.version('entrepot')}"
        return found if self.database is None else f"{found}; {self.database.version()}"

    def settings(self) -> dict[str, str]:
        common = self.quality is not Quality.EXPRESS
        found = {
            "url": self.url.partition(":")[0],
            "read ahead": f"{self.read_ahead} messages",
            "reply queue": "common, by correlation id" if common else "temporary, one for each requester",
        }
        if self.quality.is_persistent:
            log = self.log
            tuned = "; favours persistent messages: fewer checkpoints" if log is TUNED_LOG else ", as it comes"
            sizes = f"{log.primary} files of {log.segment_bytes // MIB} MiB, buffer {log.buffer_bytes // MIB} MiB"
            found["log"] = sizes + tuned
        if self.limited:
            found["queue limit"] = f"{depth_max(self.options)} messages; each put is answered for, and waits for room"
        if self.database is not None:
            forced = "fsync on" if self.database.kind == unit_database.POSTGRESQL else "last agent, forced by SQLite"
            found["database"] = f"{self.database.kind}, {forced}; its CPU time is not counted as the server's"
        return found

    # --- clients ------------------------------------------------------------------------------------

    def connect(self) -> Connection:
        return connect(self.url)

    def sender(self, queue: str) -> SystemSender:
        return clients.EntrepotSender(self.connect(), queue, self.quality, waits=self.limited or self.is_answered)

    def connect_receiver(self) -> Connection:
        """Where receivers and repliers connect."""
        return self.connect()

    def receiver(self, queue: str) -> SystemReceiver:
        return clients.make_receiver(
            self.connect_receiver(), queue, self.quality, self.read_ahead, self.unit_messages, self.database
        )

    def way_of(self, requests: str, number: int) -> tuple[str, str]:
        """The queue that a requester puts on, and the queue manager that its replies are to find."""
        del number
        return requests, ""

    @property
    def unit_messages(self) -> int:
        """How many messages a receiver gets in one call, and so in one unit of work, at most."""
        return max(1, int(self.options.get("batch", 1)))

    def requester(self, requests: str, number: int) -> Requester:
        there, back = self.way_of(requests, number)
        return clients.EntrepotRequester(self.connect(), there, REPLIES, self.quality, back)

    def replier(self, requests: str) -> Replier:
        return clients.EchoReplier(self.connect_receiver, requests, self.quality)

    @property
    def common_reply_queue(self) -> str:
        """Where many connected clients wait for their replies; nothing when each is to have a queue of its own."""
        return REPLIES if self.options.get("common_reply_queue", True) else ""

    async def task_requester(self, requests: str, number: int) -> TaskRequester:
        from entrepot import aio

        there, back = self.way_of(requests, number)
        return clients.AioRequester(await aio.connect(self.url), there, self.common_reply_queue, back)

    def caller(self, queue: str) -> SystemCaller:
        return clients.TimedCaller(self.connect, queue, self.quality)

    def publisher(self, topic: str) -> SystemSender:
        return clients.EntrepotSender(self.connect(), topic, self.quality, topic=True, waits=self.is_answered)

    def subscriber(self, topic: str, number: int) -> SystemReceiver:
        return clients.make_subscriber(self.connect(), topic, number, self.quality, self.read_ahead)
