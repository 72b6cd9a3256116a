# SPDX-License-Identifier: Apache-2.0
"""Hosts with blocking verbs, for tests of what lies below sessions.

host = Host(path)
host.put("Q", Message(b"x"), persistent=True)
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from entrepot.engine import host
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import Waiter
from entrepot.message import Message
from entrepot.server import served_host

if TYPE_CHECKING:
    _Base = host.Host
else:
    _Base = object


class Verbs(_Base):
    """The verbs, on the thread that asks."""

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        unit: Unit | None = None,
    ) -> bytes:
        message_id = b""

        def put() -> Settlement | None:
            nonlocal message_id
            message_id, settlement = self.manager.put(
                name, message, persistent=persistent, priority=priority, unit=unit
            )
            return settlement

        self.durably(put)
        if message.delay_s:
            self.wake_housekeeper()
        return message_id

    def get(
        self,
        name: str,
        criteria: Criteria | None = None,
        *,
        unit: Unit | None = None,
        wait_s: float = 0.0,
    ) -> Message | None:
        message: Message | None = None

        def get() -> Settlement | None:
            nonlocal message
            message, settlement = self.manager.get(name, criteria, unit)
            return settlement

        self.durably(get)
        if message is not None or wait_s <= 0:
            return message
        return self.get_when_it_comes(name, criteria, unit or self.private_unit(), wait_s)

    def get_when_it_comes(self, name: str, criteria: Criteria | None, guard: Unit, wait_s: float) -> Message | None:
        """Wait for a message under a unit of work, or under a private one outside of any."""
        ticket = threading.Lock()
        ticket.acquire()
        waiter = Waiter(criteria, guard, ticket.release)
        self.wait(name, waiter)
        try:
            if not ticket.acquire(timeout=min(wait_s, threading.TIMEOUT_MAX)):
                self.stop_waiting(waiter)
            if waiter.error is not None:
                raise waiter.error
            if guard.private:
                self.durably(lambda: self.manager.commit(guard))
            return waiter.message
        except BaseException:
            # An interrupt must not leave a reader behind that takes messages nobody will see.
            self.give_back(name, waiter)
            raise

    def wait(self, name: str, waiter: Waiter) -> None:
        """Let a reader wait without blocking this thread; serve it at once if something has come meanwhile."""
        with self.lock:
            message, waiter.settlement = self.manager.get(name, waiter.criteria, waiter.unit)
            if message is None:
                self.manager.wait(name, waiter)
                return
            waiter.message = message
            waiter.wake()

    def get_group(self, name: str, criteria: Criteria, *, unit: Unit) -> list[Message] | None:
        with self.lock:
            return self.manager.get_group(name, criteria, unit)

    def browse(
        self, name: str, criteria: Criteria | None, place: tuple[int, int] | None, limit: int
    ) -> tuple[list[Message], tuple[int, int] | None]:
        with self.lock:
            return self.manager.browse(name, criteria, place, limit)

    def begin(self) -> Unit:
        return self.manager.begin()

    def commit(self, unit: Unit, *, counted: bool = True) -> None:
        self.durably(lambda: self.manager.commit(unit, counted=counted))

    def back_out(self, unit: Unit, *, counted: bool = True) -> None:
        with self.lock:
            self.manager.back_out(unit, counted=counted)

    def prepare(self, unit: Unit, transaction_id: bytes) -> None:
        self.durably(lambda: self.manager.in_doubt.prepare(unit, transaction_id))

    def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        self.durably(lambda: self.manager.in_doubt.resolve(transaction_id, commit=commit))

    def subscribe(self, wanted: SubscriptionDefinition, *, new_only: bool = False) -> SubscriptionDefinition:
        """See `Publishing.subscribe`."""
        found = wanted

        def subscribe() -> Settlement | None:
            nonlocal found
            found, settlement = self.manager.publishing.subscribe(wanted, new_only=new_only)
            return settlement

        self.durably(subscribe)
        return found

    def unsubscribe(self, name: str) -> None:
        self.durably(lambda: self.manager.publishing.unsubscribe(name))

    def make_dynamic(self, model: str, pattern: str) -> str:
        name = ""

        def make() -> Settlement | None:
            nonlocal name
            name, settlement = self.manager.administration.make_dynamic(model, pattern)
            return settlement

        self.durably(make)
        return name


class Host(Verbs, host.Host):
    """A queue manager in this process."""


class ServedHost(Verbs, served_host.ServedHost):
    """The same with the users of a server."""


class Hosted(Verbs):
    """The same for a host that another has started."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)
