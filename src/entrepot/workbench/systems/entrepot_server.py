# SPDX-License-Identifier: Apache-2.0
"""Entrepot's own server as a process, through its standard binding (a Unix socket) and its client channel (TCP)."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from entrepot.client.blocking import connect
from entrepot.disk import lock_folder
from entrepot.engine.folder import SETTINGS, create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import SystemFailed
from entrepot.server.mqsc import Answer
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.entrepot_system import EntrepotSystem, depth_at
from entrepot.workbench.systems.processes import LOOPBACK, ServerProcess, accepts, chosen_port, script
from entrepot.workbench.systems.system import Ability

CHANNEL = "APP"
USER = "bench"
"""The user of clients over TCP, without a password: a channel of the loopback may say so."""
_END_S = 60.0


def allow_files() -> None:
    """Let servers and generators that are started from here on open as many files as this user may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class QueueManagerProcess:
    """A server process over a folder of its own, with a listener on a free port of the loopback."""

    def __init__(self, folder: Path, name: str = "BENCH", log: LogSettings | None = None, port: int = 0) -> None:
        self.path = folder / name.lower()
        self.name = name
        self._log = log or LogSettings()
        self._server: ServerProcess | None = None
        self._port_wanted = port
        self.port = 0

    def start(self) -> None:
        """Start it, on what is in its folder if it was there before, even if it was killed."""
        if not (self.path / SETTINGS).exists():
            create(self.path, name=self.name, log=self._log)
        self._await_end()
        allow_files()
        self._server = ServerProcess([script("entrepot"), "qm", "start", str(self.path)], self.path.with_suffix(".log"))
        self._server.wait_until(self._answers)
        self.port = chosen_port("entrepot", {"port": self._port_wanted})
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
    def pids(self) -> list[int]:
        return [] if self._server is None else [self._server.pid]

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
        return depth_at(self, *queues)

    def _await_end(self) -> None:
        """Wait until the folder is free: of a process that was killed, threads may still be about to end."""
        deadline = time.monotonic() + _END_S
        while (lock := lock_folder(self.path)) is None:
            if time.monotonic() > deadline:
                raise SystemFailed(self.name, f"runs in {self.path} already")
            time.sleep(0.01)
        # A killed server leaves its socket behind, which takes connections until its last thread has ended.
        (self.path / "socket").unlink(missing_ok=True)
        os.close(lock)

    def _answers(self) -> bool:
        # By way of a descriptor, because the path of a Unix socket has at most 107 bytes.
        folder = os.open(self.path, os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
                tried.connect(f"/proc/self/fd/{folder}/socket")
        except OSError:
            return False
        finally:
            os.close(folder)
        return True


class EntrepotServer(EntrepotSystem):
    """One server process; its bindings say how clients reach it."""

    abilities: ClassVar[frozenset[Ability]] = frozenset(
        {"queues", "requests", "topics", "sessions", "connections", "calls", "flows"}
    )

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, quality, options)
        self.manager = QueueManagerProcess(folder, log=self.log, port=int(self.options.get("port") or 0))

    @property
    def managers(self) -> Sequence[QueueManagerProcess]:
        return (self.manager,)

    def settings(self) -> dict[str, str]:
        found = super().settings()
        if self.options.get("binding") in ("fastpath", "trusted"):
            found["binding"] = "as standard: a server has its clients in other processes; entrepot-embedded has not"
        return found


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
