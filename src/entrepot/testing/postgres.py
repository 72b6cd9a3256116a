# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL of one's own, for tests and measurements: private folder, private port, durable, killable."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_START_S = 60.0
_USER = "postgres"
_LIBRARIES = Path("/usr/lib/postgresql")


def programs() -> Path:
    """Where initdb and postgres are: of the newest version, as Debian installs them, or on the path.

    Raises:
        FileNotFoundError: There is no PostgreSQL here.
    """
    installed = [path for path in _LIBRARIES.glob("*/bin") if (path / "initdb").exists()]
    if installed:
        return max(installed, key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    if found is None:
        raise FileNotFoundError("PostgreSQL: install the package postgresql")
    return Path(found).resolve().parent


class Postgres:
    """`with Postgres(folder) as postgres: create_engine(postgres.url)`.

    Run by root it becomes the user postgres, which must be able to reach the folder.
    """

    def __init__(self, folder: Path, *, prepared_max: int = 64, connections_max: int = 64) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._bin = programs()
        self._prepared_max = prepared_max
        self._connections_max = connections_max
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        # PostgreSQL refuses to run as root.
        self._as = {"user": _USER, "group": _USER, "extra_groups": []} if os.geteuid() == 0 else {}

    @property
    def url(self) -> str:
        """For SQLAlchemy, with psycopg."""
        return f"postgresql+psycopg://ent@127.0.0.1:{self.port}/postgres"

    @property
    def pids(self) -> list[int]:
        """The server's processes, the one that starts the others first."""
        if self._process is None:
            return []
        head = self._process.pid
        return [head, *(pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _parent(pid) == head)]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def create(self) -> None:
        """Lay out a new data folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._as:
            shutil.chown(self.folder, _USER, _USER)
        subprocess.run(  # noqa: S603
            [self._bin / "initdb", "-D", self._data, "-A", "trust", "-U", "ent", "-E", "UTF8", "--no-locale"],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._as,  # type: ignore[call-overload]
        )

    def start(self) -> None:
        """Start it, after a kill too, and return when it answers."""
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_prepared_transactions": self._prepared_max,
            "max_connections": self._connections_max,
            "fsync": "on",
            "shared_buffers": "16MB",
            "autovacuum": "off",
        }
        for key, value in options.items():
            command += ["-c", f"{key}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._as,  # type: ignore[call-overload]
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_S
        ready = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "ent"]
        while subprocess.run(ready, check=False).returncode:  # noqa: S603
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL to every process of it, as if the machine had lost power, but for what the kernel holds."""
        if self._process is None:
            return
        pids = self.pids
        kill_all(pids)
        self._process.wait()
        self._process = None
        # Each of them holds the shared memory until it has gone, and the next start is refused while one does.
        while any(map(_is_running, pids)):
            time.sleep(0.001)

    def stop(self) -> None:
        """A quick, clean end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.create()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def kill_all(pids: list[int]) -> None:
    """SIGKILL; the first is stopped before, so that it starts nothing while the others die."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
