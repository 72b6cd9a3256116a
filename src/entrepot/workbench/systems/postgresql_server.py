# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL as a server under measurement; how messages are kept in it is a subclass's affair."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import psycopg

from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.postgresql_process import USER, PostgreSqlProcess, programs, version
from entrepot.workbench.systems.processes import LOOPBACK, chosen_port
from entrepot.workbench.systems.system import System

_CONNECTIONS_MAX = 500


class PostgreSqlServer(System):
    commands = ("initdb", "postgres")
    packages = ("postgresql",)
    modules = ("psycopg",)
    start_s = 4.0

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, quality, options)
        self._process = PostgreSqlProcess(folder, self.name)

    @classmethod
    def absent(cls) -> str:
        if programs() is None:
            return f"{', '.join(cls.commands)} not installed: entrepot bench peers install {cls.name}"
        if importlib.util.find_spec("psycopg") is None:
            return "Python module psycopg not installed: pip install 'entrepot[bench]'"
        return ""

    def start(self) -> None:
        parameters = {
            "max_connections": str(_CONNECTIONS_MAX),
            "synchronous_commit": "on" if self.quality.is_persistent else "off",
            "autovacuum_naptime": "1s",
        }
        self._process.start(chosen_port(self.name, self.options), parameters, self._answers)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        self._process.stop()

    @property
    def pids(self) -> list[int]:
        return self._process.pids

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def version(self) -> str:
        return f"{version()}; psycopg {metadata.version('psycopg')}, {psycopg.pq.__impl__}"

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of the calling thread, which commits each statement."""
        return psycopg.connect(
            f"host={LOOPBACK} port={self._process.port} user={USER} dbname=postgres", autocommit=True
        )
