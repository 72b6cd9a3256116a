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
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.server.mqsc import Answer
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.entrepot_system import CONTRACTS, EntrepotSystem
from entrepot.workbench.systems.system import Ability


class EmbeddedManager:
    """A queue manager in this process, for as long as the connection that is kept here."""

    def __init__(self, path: Path, log: LogSettings) -> None:
        self.path = path
        self._log = log
        self._held: Connection | None = None

    @property
    def url(self) -> str:
        return f"embedded:{self.path}"

    def start(self) -> None:
        if not (self.path / SETTINGS).exists():
            create(self.path, name="BENCH", log=self._log)
        self._held = connect(self.url)

    def stop(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    @property
    def pids(self) -> list[int]:
        return [] if self._held is None else [os.getpid()]

    def mqsc(self, *commands: str) -> list[Answer]:
        assert self._held is not None
        return self._held.mqsc("\n".join(commands))

    def is_running(self) -> bool:
        """Whether it has not stopped itself, because its disk failed."""
        return self._held is not None and self._held.administration.status()["state"] == "running"


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
        self.manager = EmbeddedManager(folder / "bench", self.log)

    @property
    def managers(self) -> Sequence[EmbeddedManager]:
        return (self.manager,)

    @property
    def url(self) -> str:
        return self.manager.url

    def is_alive(self) -> bool:
        return super().is_alive() and self.manager.is_running()

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "read ahead": "none: there is no way that a message would have to go",
            "processes": "queue manager and load are one process: its CPU time and memory count as the server's",
        }
