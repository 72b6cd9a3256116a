# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server process in a folder of its own.

PostgreSQL refuses to run as root, so root starts it as the user postgres,
who must be able to get to the folder. Each connection has a process at the
server, so `pids` changes while clients come and go.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import psycopg

from entrepot.errors import SystemFailed
from entrepot.workbench.systems.processes import LOOPBACK, Server, chosen_port
from entrepot.workbench.systems.system import System, is_running

_USER = "postgres"
_LIBRARIES = Path("/usr/lib/postgresql")
_ORPHANS_S = 15.0
_STOP_S = 30.0
_CONNECTIONS_MAX = 500


def programs() -> Path | None:
    """Where initdb and postgres are: of the newest version, as Debian installs them, or on the path."""
    installed = [path for path in _LIBRARIES.glob("*/bin") if (path / "initdb").exists()]
    if installed:
        return max(installed, key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


class PostgreSqlServer(System):
    """Starts and stops the server; how messages are kept in it is a subclass's affair."""

    commands = ("initdb", "postgres")
    packages = ("postgresql",)
    modules = ("psycopg",)
    start_s = 4.0

    _server: Server | None = None
    _port = 0

    @classmethod
    def absent(cls) -> str:
        if programs() is None:
            return f"{', '.join(cls.commands)} not installed: entrepot bench peers install {cls.name}"
        if importlib.util.find_spec("psycopg") is None:
            return "Python module psycopg not installed: pip install 'entrepot[bench]'"
        return ""

    def start(self) -> None:
        self._port = chosen_port(self.name, self.options)
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            self._give_folder_to_postgres()
        # The processes of one that was killed end by themselves; before they have, another refuses to start.
        self._wait_until_alone()
        if not (self._data / "PG_VERSION").exists():
            self._create()
        command = [str(self._program("postgres")), "-D", str(self._data), "-p", str(self._port)]
        for key, value in self._parameters().items():
            command += ["-c", f"{key}={value}"]
        self._server = Server(command, self.folder / "log", name=self.name, user=_USER if os.geteuid() == 0 else "")
        self._server.wait_until_listening(self._port)
        # It accepts connections while it still recovers, and then tells to come back later.
        self._server.wait_until(self._answers)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _program(self, name: str) -> Path:
        folder = programs()
        assert folder is not None, "absent() has told that it is not installed"
        return folder / name

    def _give_folder_to_postgres(self) -> None:
        for parent in self.folder.resolve().parents:
            if not parent.stat().st_mode & 0o001:
                problem = f"runs as the user {_USER}, who cannot get to {self.folder}: {parent} is closed to others"
                raise SystemFailed(self.name, problem)
        shutil.chown(self.folder, _USER, _USER)

    def _create(self) -> None:
        identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            identity = {"user": _USER, "group": _USER, "extra_groups": []}
        initdb = [str(self._program("initdb")), "-D", str(self._data), "-A", "trust", "-U", "ent"]
        made = subprocess.run(
            [*initdb, "-E", "UTF8", "--no-locale"], capture_output=True, text=True, cwd=self.folder, **identity
        )
        if made.returncode:
            raise SystemFailed(self.name, f"could not be created:\n{made.stdout[-500:]}{made.stderr[-1500:]}")

    def _parameters(self) -> dict[str, str]:
        return {
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "max_connections": str(_CONNECTIONS_MAX),
            "fsync": "on",
            "synchronous_commit": "on" if self.quality.is_persistent else "off",
            "autovacuum_naptime": "1s",
        }

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        if self._server is None:
            return
        if self.is_alive():
            # What Server.stop sends makes PostgreSQL wait for its clients; this one makes it send them away.
            os.kill(self._server.pid, signal.SIGINT)
            deadline = time.monotonic() + _STOP_S
            while self.is_alive() and time.monotonic() < deadline:
                time.sleep(0.02)
        self._server.stop()
        self._wait_until_alone()

    def _wait_until_alone(self) -> None:
        """Until nothing works in the data folder, as every process of PostgreSQL does."""
        deadline = time.monotonic() + _ORPHANS_S
        while _works_in(self._data):
            if time.monotonic() > deadline:
                raise SystemFailed(self.name, f"still has processes in {self._data} whose head is gone")
            time.sleep(0.02)

    @property
    def pids(self) -> list[int]:
        """The head, and who it has started."""
        if self._server is None:
            return []
        head = self._server.pid
        return [head, *(pid for pid in _all_pids() if _parent(pid) == head)]

    def is_alive(self) -> bool:
        """The head alone counts: the others end with their clients."""
        return self._server is not None and is_running(self._server.pid)

    def version(self) -> str:
        told = subprocess.run([str(self._program("postgres")), "--version"], capture_output=True, text=True, check=True)
        return f"{told.stdout.strip()}; psycopg {metadata.version('psycopg')}, {psycopg.pq.__impl__}"

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of the calling thread, which commits each statement."""
        return psycopg.connect(f"host={LOOPBACK} port={self._port} user=ent dbname=postgres", autocommit=True)


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _works_in(folder: Path) -> bool:
    place = str(folder.resolve())
    for pid in _all_pids():
        with contextlib.suppress(OSError):
            if str(Path(f"/proc/{pid}/cwd").readlink()) == place:
                return True
    return False
