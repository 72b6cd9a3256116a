# SPDX-License-Identifier: Apache-2.0
"""Entrepot inside of its application: what the documents call a trusted or fastpath binding.

The queue manager runs in the process that leads the trial, and all clients
are threads of it. So its processor time and memory are those of the whole
process: server and generators cannot be told apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from entrepot.client.blocking import Connection, connect
from entrepot.engine.folder import SETTINGS, create
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.entrepot_system import (
    CONTRACTS,
    REPLIES,
    EntrepotSystem,
    depth_of,
    queue_definition,
)
from entrepot.workbench.systems.system import Ability


class EntrepotEmbedded(EntrepotSystem):
    name = "entrepot-embedded"
    title = "Entrepot, embedded"
    abilities: ClassVar[frozenset[Ability]] = frozenset({"queues", "requests", "topics", "sessions", "calls"})
    contracts: ClassVar[Mapping[Quality, str]] = {
        **CONTRACTS,
        Quality.EXPRESS: "In memory: lost with the application, of which the queue manager is a part; at most once.",
    }
    one_process = True
    start_s = 1.0

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, quality, options)
        self.path = folder / "bench"
        self._held: Connection | None = None

    @property
    def url(self) -> str:
        return f"embedded:{self.path}"

    def start(self) -> None:
        self.start_database()
        if not (self.path / SETTINGS).exists():
            create(self.path, name="BENCH", log=self.log)
        # It stops with the last connection, so one stays for as long as the system runs.
        self._held = connect(self.url)
        self._held.mqsc(queue_definition(REPLIES, self.options))

    def stop(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
        self.stop_database()

    @property
    def pids(self) -> list[int]:
        return [] if self._held is None else [os.getpid()]

    def is_alive(self) -> bool:
        """Whether the queue manager has not stopped itself, because its disk failed."""
        if not super().is_alive() or self._held is None:
            return False
        return self._held.administration.status()["state"] == "running"

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "read ahead": "none: there is no way that a message would have to go",
            "processes": "queue manager and load are one process: its CPU time and memory count as the server's",
        }

    def create_queues(self, names: Sequence[str]) -> None:
        with connect(self.url) as connection:
            for name in names:
                connection.mqsc(f"{queue_definition(name, self.options)}\nCLEAR QLOCAL('{name}')")

    def depth(self, queue: str) -> int | None:
        assert self._held is not None
        return depth_of(self._held.mqsc(f"DISPLAY QSTATUS('{queue}') CURDEPTH"))
