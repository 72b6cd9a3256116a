# SPDX-License-Identifier: Apache-2.0
"""The queue manager's own recovery: a thread that ends what applications have left at registered databases."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from entrepot.engine.databases.coordinator import UnitCoordinator
from entrepot.engine.databases.registered import FILE, RegisteredResources
from entrepot.errors import EntrepotError, ExtraMissing, QueueManagerFailed, QueueManagerStopped

if TYPE_CHECKING:
    from entrepot.engine.databases.resource import Resource

_LOGGER = logging.getLogger("entrepot")
_EVERY_S = 5.0


class ResourceWatch:
    """Asks every registered database every few seconds: one short query each, if nothing is left there."""

    def __init__(self, path: Path, coordinator: UnitCoordinator, *, every_s: float = _EVERY_S) -> None:
        self._registered = RegisteredResources(path)
        self._coordinator = coordinator
        self._every_s = every_s
        self._resources: dict[str, Resource] = {}
        self._troubled: dict[str, str] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="entrepot-resources", daemon=True)

    @staticmethod
    def is_wanted(path: Path) -> bool:
        """Whether the queue manager in a folder has resources."""
        return (path / FILE).exists()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Return when it has ended; one that waits for a database is not waited for long."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def _go_on(self) -> None:
        while True:
            try:
                self.one_round()
            except (QueueManagerStopped, QueueManagerFailed):
                return
            except EntrepotError as error:
                self._trouble(FILE, str(error))
            if self._end.wait(self._every_s):
                return

    def one_round(self) -> None:
        """Ask each of them once."""
        if self._registered.refresh():
            self._resources.clear()
            self._troubled.clear()
        for name in self._registered.names():
            if self._end.is_set():
                return
            self._recover(name)

    def _recover(self, name: str) -> None:
        try:
            from sqlalchemy.exc import SQLAlchemyError

            from entrepot.engine.databases.recovery import recover
        except ImportError as error:
            raise ExtraMissing("a database as a resource", "sql") from error
        try:
            recover(self._resource(name), self._coordinator, self._coordinator.prefix())
        except (QueueManagerStopped, QueueManagerFailed):
            raise
        except (SQLAlchemyError, EntrepotError, ImportError) as error:
            self._trouble(name, str(error))
        else:
            if self._troubled.pop(name, None):
                _LOGGER.info("resource %s can be reached again", name)

    def _resource(self, name: str) -> Resource:
        if name not in self._resources:
            from sqlalchemy import NullPool, create_engine

            from entrepot.engine.databases.resource import resource_of

            # No pool: a connection that is used every few seconds would only stand in the database's way.
            self._resources[name] = resource_of(create_engine(self._registered.url(name), poolclass=NullPool))
        return self._resources[name]

    def _trouble(self, name: str, problem: str) -> None:
        """Tell it once, not every few seconds."""
        if self._troubled.get(name) != problem:
            self._troubled[name] = problem
            _LOGGER.warning("resource %s: %s", name, problem)
