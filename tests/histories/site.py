# SPDX-License-Identifier: Apache-2.0
"""Where a history happens: a queue manager as a process on a file system of its own, and a network that can be cut."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from channels.processes import until
from channels.proxy import Proxy
from entrepot import Connection, connect
from entrepot.engine import media
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import EntrepotError

FILE_SYSTEM_BYTES = 96 * 1024 * 1024
_SHUTDOWN, _WITHOUT_LOG = 0x8004587D, 2
"""ioctl of ext4 and XFS: from now on nothing more reaches the disk, as in a power cut."""
ANSWER_S_MAX = 60.0
QUEUES = ("A", "B", "ORDERED")
# BUFFER is small, so that messages spill while the disk is full, too.
DEFINITIONS = "\n".join(f"DEFINE QLOCAL({name}) BUFFER(40000) MAXDEPTH(100000)" for name in QUEUES)


class Site:
    """A queue manager that can be killed, frozen, starved, moved and cut off; `url` leads to it whatever happened."""

    def __init__(self, folder: Path, log: LogSettings, bug: str = "") -> None:
        self._folder = folder
        self._log = log
        self._bug = bug
        self._disk = folder / "disk"
        self._image = folder / "image"
        self._clock = folder / "clock"
        self._clock.write_bytes(bytes(8))
        self.has_own_disk = False
        """Whether it may be filled and lose its power: only root can mount one."""
        self._copies = 0
        self.path = self._disk / "qm"
        self._process: subprocess.Popen[bytes] | None = None
        self._proxy: Proxy | None = None
        self.url = ""

    # --- life -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._disk.mkdir()
        self._mount(new=True)
        create(self.path, log=self._log)
        with connect(f"embedded:{self.path}") as connection:
            connection.mqsc(DEFINITIONS)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._proxy is not None:
            self._proxy.__exit__()
        self.kill()
        if self.has_own_disk:
            subprocess.run(["umount", str(self._disk)], check=True)

    def _mount(self, *, new: bool) -> None:
        if new:
            with self._image.open("wb") as file:
                file.truncate(FILE_SYSTEM_BYTES)
            if subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=False, capture_output=True).returncode:
                return
        mounted = subprocess.run(["mount", "-o", "loop", str(self._image), str(self._disk)], check=False)
        assert new or not mounted.returncode
        self.has_own_disk = not mounted.returncode

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server, and let the network lead to it."""
        command = [sys.executable, "-m", "histories.server_process", str(self.path), str(self._clock), self._bug]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        log = (self._folder / "server.log").open("ab")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        log.close()
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), f"the server did not start: {self.last_words()}"
        if self._proxy is None or self._proxy_leads_to != self.path:
            self._lead_network_here()

    def _lead_network_here(self) -> None:
        """The same address for clients, whatever folder the queue manager lies in now."""
        if self._proxy is not None:
            self._proxy.lead_to(self.path)
        else:
            self._proxy = Proxy(self._folder / "network", self.path)
            self._proxy.__enter__()
            self.url = self._proxy.url
        self._proxy_leads_to = self.path

    def last_words(self) -> str:
        return "\n".join((self._folder / "server.log").read_text(errors="replace").splitlines()[-20:])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def heal(self) -> None:
        """Everything works again; a server that has ended is started.

        Raises:
            AssertionError: It runs, but answers nobody.
        """
        if not self.is_running:
            self.kill()
            self.start()
        assert self._proxy is not None
        self._proxy.refusing = self._proxy.deaf = False
        until(self._answers, f"it runs and answers nobody: {self.last_words()}", ANSWER_S_MAX)

    def _answers(self) -> bool:
        if not self.is_running:
            self.kill()
            self.start()
        with contextlib.suppress(EntrepotError), self.administer() as connection:
            connection.administration.manage("status")  # type: ignore[attr-defined]
            return True
        return False

    def administer(self) -> Connection:
        """A connection that no nemesis cuts."""
        return connect(f"unix:{self.path}", application="history", reconnect_s=1.0)

    # --- troubles ---------------------------------------------------------------------------------

    def freeze(self, seconds: float) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGCONT)

    def cut(self) -> None:
        assert self._proxy is not None
        self._proxy.cut()

    def make_deaf(self) -> None:
        """Answers are lost from now on, while what is asked still arrives."""
        assert self._proxy is not None
        self._proxy.deaf = True

    def move_clock(self, seconds: float) -> None:
        with self._clock.open("r+b") as file:  # in place, since the server has it mapped
            file.write(struct.pack("<d", seconds))

    def limit(self, what: int, extra: int) -> None:
        """Let the server have only so much more than it has now; less than nothing lifts the limit."""
        _, hard = resource.prlimit(self.pid, what)
        if extra < 0:
            soft = hard
        elif what == resource.RLIMIT_NOFILE:
            soft = max(int(name) for name in os.listdir(f"/proc/{self.pid}/fd")) + 1 + extra
        else:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[0])
            soft = pages * resource.getpagesize() + extra
        resource.prlimit(self.pid, what, (soft, hard))

    def fill_disk(self) -> None:
        ballast = self._disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            block = bytes(64 * 1024)
            while True:
                if not file.write(block):
                    break

    def empty_disk(self) -> None:
        (self._disk / "ballast").unlink(missing_ok=True)

    def cut_power(self) -> None:
        """What was not forced is lost, with the server; the disk is mounted again."""
        folder = os.open(self._disk, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, struct.pack("<I", _WITHOUT_LOG))
        finally:
            os.close(folder)
        self.kill()
        subprocess.run(["umount", str(self._disk)], check=True)
        self._mount(new=False)

    def checkpoint(self) -> None:
        with self.administer() as connection:
            connection.administration.manage("checkpoint")  # type: ignore[attr-defined]

    def back_up(self) -> Path:
        """A backup that is made while everything goes on."""
        self._copies += 1
        destination = self._folder / f"backup-{self._copies}"
        with self.administer() as connection:
            connection.administration.manage("backup", destination=str(destination))  # type: ignore[attr-defined]
        return destination

    def restore(self, backup: Path) -> None:
        """The server is gone; make another from the backup and what there is of the log, and go on with that."""
        self.kill()
        restored = self._disk / f"qm-{self._copies}"
        media.restore(backup, restored, log_from=self.path)
        shutil.rmtree(self.path)
        shutil.rmtree(backup)
        self.path = restored
        self.start()
