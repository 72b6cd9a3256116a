# SPDX-License-Identifier: Apache-2.0
"""Entrepot inside of its application: what the documents call a trusted or fastpath binding.

The queue manager runs in the process that leads the trial, and all clients
are threads of it. So its processor time and memory are those of the whole
process: server and generators cannot be told apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from entrepot.connection import Connection, connect
from entrepot.queues.folder import SETTINGS, create
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems import entrepot_clients as clients
from entrepot.workbench.systems import unit_database
from entrepot.workbench.systems.entrepot_server import (
    ON_DISK,
    REPLIES,
    SERVER_CONTRACTS,
    common_settings,
    depth_of,
    log_settings,
    queue_definition,
    read_ahead,
    unit_messages,
)
from entrepot.workbench.systems.system import (
    Ability,
    Caller,
    Receiver,
    Replier,
    Requester,
    Sender,
    System,
    _is_running,
)


class EntrepotEmbedded(System):
    name = "entrepot-embedded"
    title = "Entrepot, embedded"
    abilities: ClassVar[frozenset[Ability]] = frozenset({"queues", "requests", "topics", "sessions", "calls"})
    contracts: ClassVar[Mapping[Quality, str]] = {
        **SERVER_CONTRACTS,
        Quality.EXPRESS: "In memory: lost with the application, of which the queue manager is a part; at most once.",
        Quality.RECOVERABLE: f"Each message is {ON_DISK} its put returns, and its removal before its get returns.",
    }
    one_process = True
    start_s = 1.0

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, quality, options)
        self.path = folder / "bench"
        self.database: unit_database.UnitDatabase | None = None
        self._held: Connection | None = None

    @property
    def url(self) -> str:
        return f"embedded:{self.path}"

    def start(self) -> None:
        if self.quality is Quality.GLOBAL:
            kind = unit_database.choose(str(self.options.get("database", "")))
            self.database = self.database or unit_database.UnitDatabase(self.folder / "database", kind)
            self.database.start()
        if not (self.path / SETTINGS).exists():
            create(self.path, name="BENCH", log=log_settings(str(self.options.get("binding", ""))))
        # It stops with the last connection, so one stays for as long as the system runs.
        self._held = connect(self.url)
        self._held.mqsc(queue_definition(REPLIES, self.options))

    def stop(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
        if self.database is not None:
            self.database.stop()

    @property
    def pids(self) -> list[int]:
        return [] if self._held is None else [os.getpid()]

    def is_alive(self) -> bool:
        """Whether the queue manager has not stopped itself, because its disk failed."""
        running = self._held is not None and self._held.host.failure is None
        return running and all(map(_is_running, self.database.pids if self.database else ()))

    def version(self) -> str:
        found = f"entrepot {metadata.version('entrepot')}"
        return found if self.database is None else f"{found}; {self.database.version()}"

    def settings(self) -> dict[str, str]:
        found = {
            "url": "embedded",
            **common_settings(self.quality, self.options),
            "processes": "queue manager and load are one process: its CPU time and memory count as the server's",
        }
        found["read ahead"] = "none: there is no way to read ahead on"
        return found

    def create_queues(self, names: Sequence[str]) -> None:
        with connect(self.url) as connection:
            for name in names:
                connection.mqsc(f"{queue_definition(name, self.options)}\nCLEAR QLOCAL('{name}')")

    def depth(self, queue: str) -> int | None:
        assert self._held is not None
        return depth_of(self._held.mqsc(f"DISPLAY QSTATUS('{queue}') CURDEPTH"))

    def connect(self) -> Connection:
        return connect(self.url)

    def sender(self, queue: str) -> Sender:
        return clients.make_sender(self.connect(), queue, self.quality)

    def receiver(self, queue: str) -> Receiver:
        return clients.make_receiver(
            self.connect(), queue, self.quality, read_ahead(self.options), unit_messages(self.options), self.database
        )

    def requester(self, requests: str, number: int) -> Requester:
        del number
        return clients.make_requester(self.connect(), requests, REPLIES, self.quality)

    def replier(self, requests: str) -> Replier:
        return clients.EchoReplier(self.connect, requests, self.quality)

    def caller(self, queue: str) -> Caller:
        return clients.TimedCaller(self.connect, queue, self.quality)

    def publisher(self, topic: str) -> Sender:
        return clients.make_sender(self.connect(), topic, self.quality, topic=True)

    def subscriber(self, topic: str, number: int) -> Receiver:
        return clients.make_subscriber(self.connect(), topic, number, self.quality, read_ahead(self.options))
