# SPDX-License-Identifier: Apache-2.0
"""A session's put on its way: past authority and memory to the engine, and again when there was no room for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError, LogFull, QueueFull, SpillFailed
from entrepot.message import Message
from entrepot.server.background_work import judge

if TYPE_CHECKING:
    from entrepot.server.session import Session

_FULL_RETRY_S = 0.01
_ASIDE_MAX = 32
"""Puts that wait for room beside other verbs: each keeps its message in memory, and asks again and again."""

PutDone = Callable[[bytes, EntrepotError | None], None]
"""Told the message id, or why it was refused."""


class SessionPut:
    """One put; `done` is called exactly once, unless the session is closed before."""

    __slots__ = (
        "_aside", "_done", "_message", "_message_id", "_name", "_persistent", "_priority", "_session", "_unit",
        "_wait_s",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        name: str | list[str],
        message: Message,
        done: PutDone,
        persistent: bool | None,
        priority: int | None,
        unit: Unit | None,
        wait_s: float,
        aside: bool,
    ) -> None:
        self._session = session
        self._name = name
        self._message = message
        self._done = done
        self._persistent = persistent
        self._priority = priority
        self._unit = unit
        self._wait_s = wait_s
        self._aside = aside
        self._message_id = b""

    def begin(self) -> None:
        """See whether it is allowed, and do it; the conditions of many subscribers are asked first."""
        session, name, message = self._session, self._name, self._message
        is_publication = isinstance(name, str) and name.startswith(TOPIC_PREFIX)
        if message.retained and not is_publication:
            self._message = message = replace(message, retained=False)  # a queue keeps everything
        try:
            session.require_put(name)
            session.registry.memory.require(len(message.body), session.registry.host.settings.name)
            if is_publication and judge(session, str(name), message, self._go):
                return
        except EntrepotError as error:
            self._done(b"", error)
            return
        self._go()

    def _go(self) -> None:
        session, message = self._session, self._message
        try:
            session.require_unfenced()
            session.engine.put(self._name, message, self._persistent, self._priority, self._unit, self._done)
        except (LogFull, QueueFull, SpillFailed) as error:
            self._wait_for_room(error)
        except EntrepotError as error:
            self._done(b"", error)
        if message.delay_s:
            session.registry.host.wake_housekeeper()

    def _wait_for_room(self, error: EntrepotError) -> None:
        """There was no room for it: wait for a checkpoint, or for readers, if it may wait."""
        session = self._session
        if self._wait_s <= 0 and not isinstance(error, LogFull):
            self._done(b"", error)
        elif self._aside and session.aside < _ASIDE_MAX and not isinstance(error, LogFull):
            session.aside += 1
            self._try_aside(session.registry.loop.time() + self._wait_s)
        else:
            session.attempt(self._verb, self._ended, wait_s=self._wait_s)

    def _verb(self) -> Settlement | None:
        self._message_id, settlement = self._session.engine.manager.put(
            self._name, self._message, persistent=self._persistent, priority=self._priority, unit=self._unit
        )
        return settlement

    def _ended(self, error: EntrepotError | None) -> None:
        self._done(self._message_id, error)

    def _try_aside(self, deadline: float) -> None:
        """Try once more, beside the session's other verbs, until there is room or time is up."""
        session = self._session
        if session.closed:
            return
        loop = session.registry.loop
        try:
            session.require_unfenced()
            if session.engine.run(self._verb, self._ended):
                self._ended(None)
        except (QueueFull, SpillFailed) as full:
            if loop.time() < deadline:
                loop.call_later(_FULL_RETRY_S, self._try_aside, deadline)
                return
            self._ended(full)
        except LogFull:
            session.attempt(self._verb, self._ended)
        except EntrepotError as failed:
            self._ended(failed)
        session.aside -= 1
