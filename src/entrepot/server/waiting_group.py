# SPDX-License-Identifier: Apache-2.0
"""A get that waits for all messages of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.engine.criteria import Criteria
from entrepot.engine.search import Search
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.server.session import Session

_LOOK_S = 0.01

GotGroup = Callable[[list[Message], EntrepotError | None], None]


class WaitingGroup:
    """Looks again and again: groups become whole rarely, and a waiter that takes many messages is not simple."""

    __slots__ = ("_criteria", "_deadline", "_done", "_name", "_session", "guard")

    def __init__(
        self, session: Session, name: str, criteria: Criteria, unit: Unit, wait_s: float, done: GotGroup
    ) -> None:
        self._session = session
        self._name = name
        self._criteria = criteria
        self.guard = unit
        self._deadline = session.registry.loop.time() + wait_s
        self._done: GotGroup | None = done
        session.waiting.add(self)
        self._look()

    @property
    def is_waiting(self) -> bool:
        return self._done is not None

    def _look(self) -> None:
        search = self._session.engine.search_for(self._criteria)
        self._session.engine.in_turns(lambda: self._step(search))

    def _step(self, search: Search | None) -> None:
        if self._done is None:
            return
        session = self._session
        try:
            with session.registry.host.lock:
                messages = session.engine.manager.get_group(self._name, self._criteria, self.guard, search)
        except EntrepotError as error:
            self._end([], error)
            return
        if search is not None:
            search.end()
        loop = session.registry.loop
        if messages is None and loop.time() < self._deadline:
            loop.call_later(_LOOK_S, self._look)
        else:
            self._end(messages or [], None)

    def _end(self, messages: list[Message], error: EntrepotError | None) -> None:
        done, self._done = self._done, None
        self._session.waiting.discard(self)
        if done is not None:
            done(messages, error)

    def cancel(self) -> None:
        """Wait no longer."""
        self._end([], self._session.fenced)
