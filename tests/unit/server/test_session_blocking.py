# SPDX-License-Identifier: Apache-2.0
"""When a session keeps its partner's next verbs waiting, and when it is busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.errors import EntrepotError, Fenced, LogFull, QueueFull, UnitFinished
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity

from .guests import House, Work

Inside = Callable[[Work], None]


class Told(list[Any]):
    """A `done` that remembers what it was called with."""

    def __call__(self, value: Any) -> None:
        self.append(value)


def session_of(house: House) -> Session:
    return Session(house.registry, Identity("root", administrator=True), "tests", "NATIVE")


def once(error: EntrepotError) -> Callable[[], None]:
    """A verb that is refused the first time."""
    errors = [error]

    def verb() -> None:
        if errors:
            raise errors.pop()

    return verb


def test_a_verb_that_finds_room_when_it_is_tried_again_at_once_blocks_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        unblocked, told = Told(), Told()
        session.on_unblocked = lambda: unblocked(session.blocked)
        session.attempt(once(QueueFull("Q", 1)), lambda error: told((error, session.blocked)), wait_s=60.0)
        assert told == [(None, True)], "verbs behind it wait until its outcome is told"
        assert (unblocked, session.blocked) == ([False], False)
        session.close()

    inside(work)


def test_a_verb_of_a_fenced_session_that_meets_a_full_log_is_refused_and_blocks_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        unblocked, told = Told(), Told()
        session.on_unblocked = lambda: unblocked(session.blocked)
        session.fence(error := Fenced("flow/1", 1, 2))
        session.attempt(once(LogFull(1)), lambda error: told((error, session.blocked)))
        assert told == [(error, True)]
        assert (unblocked, session.blocked) == ([False], False)
        session.close()

    inside(work)


def test_a_unit_that_has_ended_without_its_session_keeps_that_busy_until_it_is_to_be_backed_out(
    inside: Inside,
) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        unit = session.begin()
        house.host.back_out(unit)
        assert session.is_busy
        with pytest.raises(UnitFinished):
            session.back_out(unit)
        assert not session.is_busy
        session.close()

    inside(work)
