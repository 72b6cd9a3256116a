# SPDX-License-Identifier: Apache-2.0
"""Queue managers that live as long as the process, for targets that talk to one."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from conftest import folder_in_memory
from entrepot.client.blocking.connecting import connected_to
from entrepot.client.embedded import EmbeddedHost
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import EntrepotError
from hosted import Host
from unit.server.amqp.fuzz import Mistakes
from unit.server.amqp.peer import Place, StubAdmission
from unit.server.guests import FOUNDED, House, until

VISITS_BETWEEN_CLEANING = 200
_LOG = LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4)
_running: list[RunningManager] = []


def stop_all() -> None:
    """End all queue managers that targets have started."""
    while _running:
        _running.pop().stop()


atexit.register(stop_all)


class RunningManager:
    """A queue manager in memory, on a loop that turns only while something visits it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._visits = 0
        self._host: Host

    def _start(self) -> asyncio.AbstractEventLoop:
        path = Path(self._stack.enter_context(folder_in_memory())) / "QM1"
        create(path, log=_LOG)
        with connected_to(EmbeddedHost(path), application="fuzz") as connection:
            connection.mqsc(FOUNDED)
        _running.append(self)
        loop = self._loop = asyncio.new_event_loop()
        self._host = Host(path)
        self._stack.callback(self._host.close)
        loop.run_until_complete(self._open())
        return loop

    def stop(self) -> None:
        """End the queue manager; the next visit starts another."""
        self._stack.close()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    async def _open(self) -> None: ...

    def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        loop = self._loop or self._start()

        async def worked() -> None:
            await work()
            await until(self._is_left)
            self._visits += 1
            if self._visits % VISITS_BETWEEN_CLEANING == 0:
                await until(self._is_clean)

        loop.run_until_complete(worked())
        self._require_no_escape()

    def _is_left(self) -> bool:
        """Whether nothing of the last visit is connected any more."""
        raise NotImplementedError

    def _require_no_escape(self) -> None:
        raise NotImplementedError

    def _is_clean(self) -> bool:
        """Make room for the next visits; nothing that a visitor held is held when it has left."""
        host = self._host
        for transaction_id in host.in_doubt():
            with contextlib.suppress(EntrepotError):
                host.resolve(transaction_id, commit=False)
        queues = host.manager.objects.queues.values()
        if host.in_doubt() or any(queue.reserved or queue.uncommitted_gets for queue in queues):
            return False
        for queue in list(queues):
            with contextlib.suppress(EntrepotError):
                host.clear(queue.definition.name)
        return True


class RunningHouse(RunningManager):
    """With a door for our own protocol."""

    async def _open(self) -> None:
        self.house = House(self._host)

    def visit(self, work: Callable[[House], Awaitable[None]]) -> None:
        self._run(lambda: work(self.house))

    def _is_left(self) -> bool:
        self.house.guests.clear()
        return not self.house.registry.sessions and not self.house.registry.links

    def _require_no_escape(self) -> None:
        escaped, self.house.escaped[:] = list(self.house.escaped), []
        assert escaped == []


class RunningPlace(RunningManager):
    """With a door for AMQP."""

    async def _open(self) -> None:
        self.place = Place(self._host, StubAdmission())
        self._mistakes = Mistakes()
        for name in ("entrepot", "asyncio"):
            logging.getLogger(name).addHandler(self._mistakes)

    def visit(self, work: Callable[[Place], Awaitable[None]]) -> None:
        self._run(lambda: work(self.place))

    def _is_left(self) -> bool:
        return not self.place.registry.sessions and not self.place.registry.links

    def _is_clean(self) -> bool:
        with self._host.lock:
            names = list(self.place.registry.engine.manager.objects.subscribers.by_name)
        for name in names:
            with contextlib.suppress(EntrepotError):
                self._host.unsubscribe(name)
        return super()._is_clean()

    def _require_no_escape(self) -> None:
        found, self._mistakes.found[:] = list(self._mistakes.found), []
        assert found == []
