# SPDX-License-Identifier: Apache-2.0
"""Entrepot's own server as a process, through its standard binding (a Unix socket) and its client channel (TCP)."""

from __future__ import annotations

import resource
import socket
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from entrepot.connection import Connection, connect
from entrepot.limits import MIB
from entrepot.mqsc import Answer
from entrepot.queues.folder import SETTINGS, create
from entrepot.recovery_log.settings import LogSettings
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import entrepot_clients as clients
from entrepot.workbench.systems import unit_database
from entrepot.workbench.systems.processes import LOOPBACK, Server, accepts, free_port, script
from entrepot.workbench.systems.system import (
    Ability,
    Caller,
    Receiver,
    Replier,
    Requester,
    Sender,
    System,
    TaskRequester,
    _is_running,
)

CHANNEL = "APP"
USER = "bench"
"""As whom clients over TCP act, who show no password: a channel of the loopback may say so."""
REPLIES = "ENTREPOT.BENCH.REPLIES"
DEPTH_MAX = 999_999_999
TUNED_LOG = LogSettings(primary=12, buffer_bytes=16 * MIB)
READ_AHEAD_MAX = 100
_READ_AHEAD_BYTES = 4 * MIB
"""Of messages that wait at one reader; large ones are read ahead in small numbers."""
_UNIX_PATH_BYTES_MAX = 107

ON_DISK = "on disk (fdatasync, shared by those who wait) before"
SERVER_CONTRACTS = {
    Quality.EXPRESS: "In memory: lost with the server; sent without waiting for an answer, at most once to its reader.",
    Quality.RECOVERABLE: (
        f"Each message is {ON_DISK} its put returns; it leaves the log some messages after it was read, forced but not"
        " waited for, so a crash may bring the last ones again: none lost. A replier's get and put are forced one by"
        " one."
    ),
    Quality.TRANSACTIONAL: (
        f"Every unit of work is {ON_DISK} its commit returns, at the sender and at the receiver: none lost, none twice."
    ),
    Quality.GLOBAL: (
        f"The sender's unit of work is {ON_DISK} its commit returns; the receiver's get and its row in the database"
        " commit together or not at all, prepared, decided and committed with a force each: none lost, none twice."
    ),
}


def log_settings(binding: str) -> LogSettings:
    """What a point's binding says about the log."""
    return TUNED_LOG if binding == "tuned-log" else LogSettings()


def read_ahead(options: Mapping[str, Any]) -> int:
    size = max(int(options.get("message_bytes", 0) or 0), 1)
    return max(1, min(READ_AHEAD_MAX, _READ_AHEAD_BYTES // size))


def queue_definition(name: str, options: Mapping[str, Any]) -> str:
    return f"DEFINE QLOCAL('{name}') MAXDEPTH({int(options.get('queue_depth_max', DEPTH_MAX))}) REPLACE"


def common_settings(quality: Quality, options: Mapping[str, Any]) -> dict[str, str]:
    """What all of ours say of themselves."""
    binding = str(options.get("binding", ""))
    log = log_settings(binding)
    found = {
        "read ahead": f"{read_ahead(options)} messages",
        "reply queue": "temporary, one for each requester" if quality is Quality.EXPRESS else "common, by correlation id",
    }
    if quality.is_persistent:
        tuned = "; favours persistent messages: fewer checkpoints" if log is TUNED_LOG else " (as it comes)"
        found["log"] = f"{log.primary} files of {log.segment_bytes // MIB} MiB, buffer {log.buffer_bytes // MIB} MiB{tuned}"
    if "queue_depth_max" in options:
        found["queue limit"] = f"{options['queue_depth_max']} messages; a put waits for room"
    return found


def allow_files() -> None:
    """Let servers and generators that are started from here on open as many files as this user may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def depth_of(answers: Sequence[Answer]) -> int:
    return sum(int(row["CURDEPTH"]) for answer in answers for row in answer.rows)


class QueueManager:
    """A server process over a folder of its own, with a listener on a free port of the loopback."""

    def __init__(self, folder: Path, name: str = "BENCH", log: LogSettings | None = None) -> None:
        self.path = folder / name.lower()
        self.name = name
        self._log = log or LogSettings()
        self._server: Server | None = None
        self.port = 0

    def start(self) -> None:
        """Start it, on what is in its folder if it was there before, even if it was killed."""
        if not (self.path / SETTINGS).exists():
            create(self.path, name=self.name, log=self._log)
        allow_files()
        self._server = Server([script("entrepot"), "qm", "start", str(self.path)], self.path.with_suffix(".log"))
        self._server.wait_until(self._answers)
        self.port = free_port()
        self.mqsc(
            f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SVRCONN) MCAUSER('{USER}') REPLACE",
            f"SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('{USER}') AUTHADD(ALLMQI)",
            f"SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('{USER}') AUTHADD(ALLMQI)",
            f"SET AUTHREC PROFILE('SYSTEM.BASE.TOPIC') OBJTYPE(TOPIC) PRINCIPAL('{USER}') AUTHADD(PUB,SUB)",
        )
        self.listen("L", self.port)

    def listen(self, listener: str, port: int, more: str = "") -> None:
        """Let a listener begin; it does not by itself when the queue manager is started again, on another port."""
        self.mqsc(
            f"DEFINE LISTENER({listener}) PORT({port}) IPADDR('{LOOPBACK}') CONTROL(MANUAL)"
            f" MAXCONN(1000000) MAXCONNA(1000000) {more} REPLACE",
            f"START LISTENER({listener})",
        )
        assert self._server is not None
        self._server.wait_until(lambda: accepts(port))

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()

    @property
    def pid(self) -> int | None:
        return None if self._server is None else self._server.pid

    @property
    def unix_url(self) -> str:
        return f"unix:{self.path}"

    @property
    def tcp_url(self) -> str:
        return f"mq://{LOOPBACK}:{self.port}/{self.name}?channel={CHANNEL}"

    def mqsc(self, *commands: str) -> list[Answer]:
        with connect(self.unix_url) as connection:
            return connection.mqsc("\n".join(commands))

    def depth(self, *queues: str) -> int:
        return depth_of(self.mqsc(*(f"DISPLAY QSTATUS('{queue}') CURDEPTH" for queue in queues)))

    def _answers(self) -> bool:
        # A killed server leaves its socket behind, so that it is there says nothing.
        place = self.path / "socket"
        if not place.exists():
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
            try:
                tried.connect(_short(place))
            except OSError:
                return False
        return True


def _short(place: Path) -> str:
    """A path that fits into the address of a Unix socket."""
    if len(str(place).encode()) <= _UNIX_PATH_BYTES_MAX:
        return str(place)
    import os

    relative = os.path.relpath(place)
    return relative if len(relative) < len(str(place)) else str(place)


class EntrepotServer(System):
    """One server process; its bindings say how clients reach it."""

    abilities: ClassVar[frozenset[Ability]] = frozenset(
        {"queues", "requests", "topics", "sessions", "connections", "calls", "flows"}
    )
    contracts = SERVER_CONTRACTS
    start_s = 2.0

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, quality, options)
        self.manager = QueueManager(folder, log=log_settings(str(self.options.get("binding", ""))))
        self.database: unit_database.UnitDatabase | None = None

    @property
    def url(self) -> str:
        raise NotImplementedError

    def start(self) -> None:
        if self.quality is Quality.GLOBAL:
            kind = unit_database.choose(str(self.options.get("database", "")))
            self.database = self.database or unit_database.UnitDatabase(self.folder / "database", kind)
            self.database.start()
        self.manager.start()
        self.manager.mqsc(queue_definition(REPLIES, self.options))

    def stop(self) -> None:
        self.manager.stop()
        if self.database is not None:
            self.database.stop()

    @property
    def pids(self) -> list[int]:
        return [] if self.manager.pid is None else [self.manager.pid]

    def is_alive(self) -> bool:
        return super().is_alive() and all(map(_is_running, self.database.pids if self.database else ()))

    def version(self) -> str:
        found = f"entrepot {metadata.version('entrepot')}"
        return found if self.database is None else f"{found}; {self.database.version()}"

    def settings(self) -> dict[str, str]:
        found = {"url": self.url.partition(":")[0], **common_settings(self.quality, self.options)}
        if self.options.get("binding") in ("fastpath", "trusted"):
            found["binding"] = "as standard: a server has its clients in other processes; entrepot-embedded has not"
        if self.database is not None:
            forced = "fsync on" if self.database.kind == unit_database.POSTGRESQL else "last agent, forced by SQLite"
            found["database"] = f"{self.database.kind}, {forced}; its CPU time is not counted as the server's"
        return found

    def create_queues(self, names: Sequence[str]) -> None:
        for name in names:
            self.manager.mqsc(queue_definition(name, self.options), f"CLEAR QLOCAL('{name}')")

    def depth(self, queue: str) -> int | None:
        return self.manager.depth(queue)

    def connect(self) -> Connection:
        return connect(self.url)

    def sender(self, queue: str) -> Sender:
        return clients.make_sender(self.connect(), queue, self.quality)

    def receiver(self, queue: str) -> Receiver:
        return clients.make_receiver(
            self.connect(), queue, self.quality, read_ahead(self.options), unit_messages(self.options), self.database
        )

    def requester(self, requests: str, number: int) -> Requester:
        del number  # a correlation id needs none
        return clients.make_requester(self.connect(), requests, REPLIES, self.quality)

    def replier(self, requests: str) -> Replier:
        return clients.EchoReplier(self.connect, requests, self.quality)

    def caller(self, queue: str) -> Caller:
        return clients.TimedCaller(self.connect, queue, self.quality)

    async def task_requester(self, requests: str, number: int) -> TaskRequester:
        from entrepot import aio

        del number
        return clients.AioRequester(await aio.connect(self.url), requests, common_reply_queue(self.options))

    def publisher(self, topic: str) -> Sender:
        return clients.make_sender(self.connect(), topic, self.quality, topic=True)

    def subscriber(self, topic: str, number: int) -> Receiver:
        return clients.make_subscriber(self.connect(), topic, number, self.quality, read_ahead(self.options))


def unit_messages(options: Mapping[str, Any]) -> int:
    """How many messages a receiver may have in one unit of work."""
    return int(options.get("unit_messages", 1))


def common_reply_queue(options: Mapping[str, Any]) -> str:
    """Where many connected clients wait for their replies; nothing when each is to have a queue of its own."""
    return "" if options.get("reply_queue", "common") == "own" else REPLIES


class EntrepotUnix(EntrepotServer):
    name = "entrepot-unix"
    title = "Entrepot, standard binding"

    @property
    def url(self) -> str:
        return self.manager.unix_url


class EntrepotTcp(EntrepotServer):
    name = "entrepot-tcp"
    title = "Entrepot, client channel"

    @property
    def url(self) -> str:
        return self.manager.tcp_url
