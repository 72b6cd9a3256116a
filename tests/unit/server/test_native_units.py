# SPDX-License-Identifier: Apache-2.0
"""Units of work by frames that want no answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from entrepot.engine.criteria import Criteria
from entrepot.errors import (
    EntrepotError,
    FrameUnreadable,
    InvalidArgument,
    QueueNotFound,
    UnitFinished,
)
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.verbs import Verb

from .guests import House, Work, put

Inside = Callable[[Work], None]


def test_a_put_that_was_refused_is_told_with_the_commit_and_nothing_of_the_unit_happens(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for end, payload in ((Verb.COMMIT, verbs.UnitPayload(1)), (Verb.PREPARE, verbs.Prepare(1, b"x"))):
            guest.say(Verb.PUT, 0, put("Q", unit=1))
            guest.say(Verb.PUT, 0, put("NOWHERE", unit=1))
            guest.say(Verb.PUT, 0, put("ELSEWHERE", unit=1))
            with pytest.raises(QueueNotFound, match="NOWHERE"):
                await guest.ask(end, 9, payload)
            assert (house.depth("Q"), house.held("Q")) == (0, 0)
            await guest.commit(1)  # there is nothing left of it

    inside(work)


def test_a_unit_all_of_whose_puts_were_refused_does_not_commit(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say(Verb.PUT, 0, put("Q", unit=1, priority=10))
        with pytest.raises(InvalidArgument):
            await guest.commit(1)
        guest.say(Verb.PUT, 0, put("Q", unit=1, priority=10))
        await guest.ask(Verb.BACK_OUT, 9, verbs.UnitPayload(1))
        await guest.commit(1)

    inside(work)


def test_synchronize_tells_the_first_refusal_since_the_last_one(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for queue in ("Q", "NOWHERE", "ELSEWHERE", "Q"):
            guest.say(Verb.PUT, 0, put(queue, persistent=True))
        with pytest.raises(QueueNotFound, match="NOWHERE"):
            await guest.ask(Verb.SYNCHRONIZE, 9, verbs.Empty())
        assert house.depth("Q") == 2
        await guest.ask(Verb.SYNCHRONIZE, 9, verbs.Empty())

    inside(work)


@pytest.mark.parametrize("end", [Verb.COMMIT, Verb.BACK_OUT])
def test_gets_that_wait_in_a_unit_end_with_it(inside: Inside, end: Verb) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say(Verb.GET, 10, verbs.Get("Q", 5, math.inf))
        guest.say(Verb.GET_MANY, 11, verbs.GetMany("Q", 5, 3, math.inf))
        guest.say(Verb.GET_GROUP, 12, verbs.GetGroup("Q", 5, math.inf))
        guest.say(Verb.GET, 13, verbs.Get("Q", 0, math.inf))
        await guest.ask(end, 9, verbs.UnitPayload(5))
        assert (await guest.answer(10))[1].message is None
        assert (await guest.answer(11))[1].messages == []
        assert (await guest.answer(12))[1].messages == []
        # What comes now is not lost under a unit that has ended.
        await guest.put("Q", b"1", persistent=True)
        assert (await guest.answer(13))[1].message.body == b"1"
        await guest.put("Q", b"2", persistent=True)
        assert (await guest.get("Q")).body == b"2"  # type: ignore[union-attr]

    inside(work)


def test_get_many_and_get_group_want_a_unit(inside: Inside) -> None:
    async def work(house: House) -> None:
        for verb, payload in ((Verb.GET_MANY, verbs.GetMany("Q", 0, 5)), (Verb.GET_GROUP, verbs.GetGroup("Q", 0))):
            guest = await house.admitted()
            guest.say(verb, 9, payload)
            assert isinstance(await guest.farewell(), FrameUnreadable)

    inside(work)


def test_a_unit_that_ends_twice_ends_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", unit=1, persistent=True)
        guest.say_bytes(encode(Verb.COMMIT, 10, verbs.UnitPayload(1)) + encode(Verb.COMMIT, 11, verbs.UnitPayload(1)))
        await guest.answer(10)
        await guest.answer(11)
        assert house.depth("Q") == 1
        await guest.ask(Verb.PREPARE, 9, verbs.Prepare(2, b"x"))
        with pytest.raises(EntrepotError):
            await guest.ask(Verb.PREPARE, 9, verbs.Prepare(3, b"x"))
        await guest.ask(Verb.RESOLVE, 9, verbs.Resolve(b"x", False))

    inside(work)


def test_a_group_can_no_longer_be_got_in_a_unit_that_has_ended(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        session = guest.link.session
        unit = session.begin()
        session.back_out(unit)
        told: list[EntrepotError | None] = []
        session.get_group("Q", Criteria(whole_group=True), unit, 5.0, lambda _, error: told.append(error))
        assert isinstance(told[0], UnitFinished)

    inside(work)
