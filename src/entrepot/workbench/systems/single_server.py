# SPDX-License-Identifier: Apache-2.0
"""A system that is one server process on one port of the loopback: how it begins, again too, and ends."""

from __future__ import annotations

import subprocess
from abc import abstractmethod

from entrepot.workbench.systems.processes import ServerProcess, chosen_port
from entrepot.workbench.systems.system import System


class SingleServer(System):
    """What is kept in the server is a subclass's affair."""

    _port = 0
    _server: ServerProcess | None = None

    def start(self) -> None:
        # Of one that was killed, threads may still be about to end; no other process may work in its folder before.
        self.stop()
        self.folder.mkdir(parents=True, exist_ok=True)
        # Started again, it is where its clients know it to be.
        self._port = self._port or chosen_port(self.name, self.options)
        self._server = self._launch()
        self._server.wait_until_listening(self._port)

    @abstractmethod
    def _launch(self) -> ServerProcess:
        """Start the process, which is to listen on `_port`."""

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = None

    @property
    def pids(self) -> list[int]:
        return [] if self._server is None else [self._server.pid]


def package_version(package: str) -> str:
    """Of a package of Debian's."""
    command = ["dpkg-query", "--show", "--showformat", "${Version}", package]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout or "of unknown version"
