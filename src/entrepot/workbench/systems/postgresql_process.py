# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL process in a folder of its own, as a system under measurement and as a database beside one.

PostgreSQL refuses to run as root, so root starts it as the user postgres,
which must be able to reach the folder; permissions of folders that are not
ours are never changed. It starts again on what is in its folder, even if it
was killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from entrepot.errors import SystemFailed
from entrepot.workbench.systems.processes import LOOPBACK, ServerProcess, descendants
from entrepot.workbench.systems.system import is_running

USER = "ent"
"""Of the database; trusted, since only the loopback reaches it."""
_OWNER = "postgres"
_LIBRARIES = Path("/usr/lib/postgresql")
_ORPHANS_S = 60.0
_STOP_S = 30.0


def programs() -> Path | None:
    """Where initdb and postgres are: of the newest version, as Debian installs them, or on the path."""
    installed = [path for path in _LIBRARIES.glob("*/bin") if (path / "initdb").exists()]
    if installed:
        return max(installed, key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


def closed_folder(folder: Path) -> Path | None:
    """The folder on the way that PostgreSQL's own user cannot pass; None when there is none."""
    if os.geteuid() != 0:
        return None
    there = [parent for parent in folder.resolve().parents if parent.exists()]
    return next((parent for parent in there if not parent.stat().st_mode & 0o001), None)


class PostgreSqlProcess:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._server: ServerProcess | None = None
        self.port = 0

    def start(self, port: int, parameters: Mapping[str, str], answers: Callable[[], bool]) -> None:
        """Return when it `answers`; it accepts connections while it still recovers.

        Raises:
            SystemFailed: Its user cannot get to the folder, or it did not start.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        if closed := closed_folder(self._folder):
            problem = f"runs as the user {_OWNER}, which cannot reach {self._folder}: {closed} is closed to others"
            raise SystemFailed(self._name, problem)
        owner = _OWNER if os.geteuid() == 0 else ""
        if owner:
            shutil.chown(self._folder, owner, owner)
        # The processes of one that was killed end by themselves; before they have, another refuses to start.
        self._wait_until_alone()
        if not (self._data / "PG_VERSION").exists():
            self._create(owner)
        # It may name a dead process that was not waited for yet, which would pass for a living one.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        command = [program("postgres"), "-D", str(self._data), "-p", str(port)]
        settings = {"listen_addresses": LOOPBACK, "unix_socket_directories": "", "fsync": "on", **parameters}
        for key, value in settings.items():
            command += ["-c", f"{key}={value}"]
        self.port = port
        self._server = ServerProcess(command, self._folder / "log", name=self._name, user=owner)
        self._server.wait_until_listening(port)
        self._server.wait_until(answers)

    def _create(self, owner: str) -> None:
        identity: dict[str, Any] = {"user": owner, "group": owner, "extra_groups": []} if owner else {}
        initdb = [program("initdb"), "-D", str(self._data), "-A", "trust", "-U", USER, "-E", "UTF8", "--no-locale"]
        made = subprocess.run(initdb, capture_output=True, text=True, cwd=self._folder, **identity)
        if made.returncode:
            raise SystemFailed(self._name, f"could not be created:\n{made.stdout[-500:]}{made.stderr[-1500:]}")

    def stop(self) -> None:
        if self._server is None:
            return
        if self.is_alive():
            # What ServerProcess.stop sends makes PostgreSQL wait for its clients; this one makes it send them away.
            os.kill(self._server.pid, signal.SIGINT)
            deadline = time.monotonic() + _STOP_S
            while self.is_alive() and time.monotonic() < deadline:
                time.sleep(0.02)
        self._server.stop()
        self._wait_until_alone()

    @property
    def pids(self) -> list[int]:
        """The head, and its children: a process for each connection, so this changes."""
        return [] if self._server is None else descendants(self._server.pid)

    def is_alive(self) -> bool:
        """The head alone counts: the others end with their clients."""
        return self._server is not None and is_running(self._server.pid)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _wait_until_alone(self) -> None:
        """Until nothing works in the data folder, as every process of PostgreSQL does."""
        deadline = time.monotonic() + _ORPHANS_S
        while _works_in(self._data):
            if time.monotonic() > deadline:
                raise SystemFailed(self._name, f"still has processes in {self._data} whose head is gone")
            time.sleep(0.02)


def program(name: str) -> str:
    folder = programs()
    assert folder is not None, "callers have checked that it is installed"
    return str(folder / name)


def version() -> str:
    finished = subprocess.run([program("postgres"), "--version"], capture_output=True, text=True, check=True)
    return finished.stdout.strip()


def _works_in(folder: Path) -> bool:
    place = str(folder.resolve())
    for working in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if str(working.readlink()) == place:
                return True
    return False
