# SPDX-License-Identifier: Apache-2.0
"""A verb that meets a full log: checkpoints make room, but not for ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from entrepot.channels.attempt import attempt, attempted
from entrepot.engine.host import CHECKPOINTS_FOR_ROOM
from entrepot.engine.settlement import Settlement
from entrepot.errors import EntrepotError, LogFull, QueueNotFound
from entrepot.message import Message
from unit.server.guests import House, Work

Inside = Callable[[Work], None]
Told = list[EntrepotError | None]


class Verb:
    """Raises so often, and then puts a message."""

    def __init__(self, house: House, full: int, error: EntrepotError | None = None) -> None:
        self._put = partial(house.host.manager.put, "Q", Message(b"x"))
        self._full = full
        self._error = error or LogFull(1)
        self.runs = 0

    def __call__(self) -> Settlement | None:
        self.runs += 1
        assert self.runs < 20, "it is run for ever"
        if self.runs <= self._full:
            raise self._error
        return self._put(persistent=True)[1]


@pytest.mark.parametrize("full", range(CHECKPOINTS_FOR_ROOM + 1))
def test_a_full_log_gets_checkpoints_and_the_verb_another_try(inside: Inside, full: int) -> None:
    async def work(house: House) -> None:
        told: Told = []
        verb = Verb(house, full)
        assert attempt(house.registry, verb, told.append) == (full == 0)
        await house.until(lambda: told)
        assert (told, verb.runs, house.depth("Q")) == ([None], full + 1, 1)

    inside(work)


def test_a_log_that_stays_full_is_told_after_so_many_checkpoints(inside: Inside) -> None:
    async def work(house: House) -> None:
        told: Told = []
        verb = Verb(house, 99)
        attempt(house.registry, verb, told.append)
        await house.until(lambda: told)
        assert [type(error) for error in told] == [LogFull]
        assert verb.runs == CHECKPOINTS_FOR_ROOM + 1

    inside(work)


def test_another_error_is_told_at_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        told: Told = []
        verb = Verb(house, 1, error := QueueNotFound("Q"))
        assert not attempt(house.registry, verb, told.append)
        assert (told, verb.runs) == ([error], 1)

    inside(work)


def test_a_verb_without_a_settlement_is_done_at_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        told: Told = []
        assert attempt(house.registry, lambda: None, told.append)
        assert told == [None]

    inside(work)


def test_who_awaits_a_verb_has_its_effect_or_its_error(inside: Inside) -> None:
    async def work(house: House) -> None:
        await attempted(house.registry, Verb(house, 1))
        assert house.depth("Q") == 1
        with pytest.raises(QueueNotFound):
            await attempted(house.registry, Verb(house, 1, QueueNotFound("Q")))

    inside(work)
