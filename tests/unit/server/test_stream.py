# SPDX-License-Identifier: Apache-2.0
"""A stream by itself: credit, order, and how much of it may be on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.engine.criteria import Criteria
from entrepot.errors import EntrepotError, FrameUnreadable, GetInhibited
from entrepot.limits import CONSUMER_CREDIT_MAX
from entrepot.message import Message
from entrepot.selectors import ready_selector
from entrepot.server import stream as stream_module
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity
from entrepot.server.stream import Stream

from .guests import House, Work

Inside = Callable[[Work], None]


class Reading:
    """A session with one stream, and what has come by it."""

    def __init__(self, house: House, criteria: Criteria | None = None, *, held: bool = False) -> None:
        self.house = house
        self.session = Session(house.registry, Identity("root", administrator=True), "tests", "NATIVE")
        self.came: list[Message] = []
        self.failed: list[EntrepotError | None] = []
        self.stream: Stream = self.session.stream("Q", criteria, self.came.extend, self.failed.append, held=held)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.came]

    async def used(self, up_to: int) -> None:
        done: list[Any] = []
        self.stream.used(up_to, done.append)
        await self.house.until(lambda: done)
        assert done == [None]


async def put(house: House, *bodies: bytes, persistent: bool = True, **fields: Any) -> None:
    for body in bodies:
        await asyncio.to_thread(house.host.put, "Q", Message(body, **fields), persistent=persistent)


def rest(house: House) -> list[tuple[bytes, int]]:
    """What stands on the queue, with backout counts."""
    return [(message.body, message.backout_count) for message in house.host.browse("Q", None, None, 99)[0]]


async def put_unheard(house: House, *bodies: bytes) -> Callable[[], None]:
    """Messages that come to readers who wait, but the loop has not heard of it yet; returns what lets it hear."""
    house.registry.engine.drain, drain = (lambda: None), house.registry.engine.drain  # type: ignore[method-assign, assignment]
    await put(house, *bodies)

    def hear() -> None:
        house.registry.engine.drain = drain  # type: ignore[method-assign]
        drain()

    return hear


# --- credit --------------------------------------------------------------------------------------


def test_as_many_come_as_there_is_credit_for(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2", b"3")
        reading = Reading(house)
        seen = []
        for more in (0, 1, 1):
            reading.stream.grant(more)
            seen.append(list(reading.bodies))
        assert seen == [[], [b"1"], [b"1", b"2"]]
        assert reading.stream.credit == 0
        assert house.held("Q") == 2
        reading.session.close()

    inside(work)


def test_without_credit_nothing_comes_to_a_stream_that_waits(inside: Inside) -> None:
    async def work(house: House) -> None:
        reading, other = Reading(house), Reading(house)
        reading.stream.grant(0)
        other.stream.grant(1)
        await put(house, b"1", b"2")
        await house.until(lambda: other.came)
        reading.stream.grant(0)
        assert (reading.bodies, other.bodies) == ([], [b"1"])
        assert (house.depth("Q"), house.held("Q")) == (2, 1)
        for each in (reading, other):
            each.session.close()

    inside(work)


def test_a_stream_without_credit_does_not_look_at_its_queue(inside: Inside) -> None:
    async def work(house: House) -> None:
        reading = Reading(house)
        engine, looks = house.registry.engine, []
        look = engine.get_some_or_wait
        engine.get_some_or_wait = lambda *what: (looks.append(what), look(*what))[1]  # type: ignore[method-assign]
        reading.stream.grant(0)
        reading.stream.resume()
        assert looks == []
        reading.stream.grant(1)
        assert len(looks) == 1
        reading.session.close()

    inside(work)


def test_a_stream_without_credit_asks_for_no_turn_of_the_loop(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2")
        reading = Reading(house)
        asked: list[Any] = []
        call_soon = house.loop.call_soon
        house.loop.call_soon = lambda call, *a, **k: (asked.append(call), call_soon(call, *a, **k))[1]  # type: ignore[method-assign, assignment]
        reading.stream.grant(1)
        assert reading.stream.pump not in asked
        house.loop.call_soon = call_soon  # type: ignore[method-assign]
        reading.session.close()

    inside(work)


def test_what_is_left_for_a_later_turn_comes_in_order(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "_PUMP_AT_ONCE", 2)

    async def work(house: House) -> None:
        bodies = [b"%d" % number for number in range(7)]
        await put(house, *bodies)
        reading = Reading(house)
        reading.stream.grant(6)
        assert reading.bodies == bodies[:2]
        await house.until(lambda: len(reading.came) == 6)
        for _ in range(3):
            await asyncio.sleep(0)
        assert reading.bodies == bodies[:6]
        reading.session.close()

    inside(work)


def test_credit_may_be_raised_up_to_the_limit_and_no_further(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2")
        plain, held = Reading(house), Reading(house, held=True)
        assert plain.stream.allows(0, CONSUMER_CREDIT_MAX)
        assert not plain.stream.allows(0, CONSUMER_CREDIT_MAX + 1)
        limit = held.stream.limit
        held.stream.grant(1)
        unused = min(CONSUMER_CREDIT_MAX, limit - 1)
        assert held.stream.allows(0, unused)
        assert not held.stream.allows(0, unused + 1)
        assert held.stream.allows(1, min(CONSUMER_CREDIT_MAX, limit))
        for each in (plain, held):
            each.session.close()

    inside(work)


# --- bodies that are on their way ------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three bytes at most may be on their way, and one message is looked for at a time."""
    monkeypatch.setattr(stream_module, "_HELD_BYTES_MAX", 3)
    monkeypatch.setattr(stream_module, "_PUMP_AT_ONCE", 1)


async def settled(house: House) -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("held", [False, True])
def test_no_more_bodies_come_than_a_reader_may_keep_in_memory(inside: Inside, small: None, held: bool) -> None:
    async def work(house: House) -> None:
        await put(house, *(b"x" for _ in range(9)))
        reading = Reading(house, held=held)
        reading.stream.grant(9)
        await settled(house)
        assert len(reading.came) == 3
        reading.session.close()

    inside(work)


def test_when_some_are_used_others_come(inside: Inside, small: None) -> None:
    async def work(house: House) -> None:
        await put(house, *(b"x" for _ in range(9)))
        reading = Reading(house)
        reading.stream.grant(9)
        await settled(house)
        for used, came in ((1, 4), (4, 7), (7, 9)):
            await reading.used(used)
            reading.stream.grant(0)
            await settled(house)
            assert len(reading.came) == came
        reading.session.close()

    inside(work)


def test_what_was_seen_in_a_unit_lets_others_come(inside: Inside, small: None) -> None:
    async def work(house: House) -> None:
        await put(house, *(b"x" for _ in range(9)))
        reading = Reading(house, held=True)
        reading.stream.grant(9)
        await settled(house)
        for seen, came in ((2, 5), (5, 8), (5, 8), (99, 9)):
            reading.stream.see(seen)
            await settled(house)
            assert len(reading.came) == came
        reading.session.close()

    inside(work)


def test_a_stream_that_waits_stops_when_it_has_enough(inside: Inside, small: None) -> None:
    async def work(house: House) -> None:
        reading = Reading(house)
        reading.stream.grant(9)
        await put(house, *(b"x" for _ in range(9)))
        await settled(house)
        assert 3 <= len(reading.came) < 9
        before = len(reading.came)
        await put(house, b"y")
        await settled(house)
        assert len(reading.came) == before
        reading.session.close()

    inside(work)


# --- order ---------------------------------------------------------------------------------------


def test_what_came_first_is_delivered_first_though_the_loop_heard_of_it_late(inside: Inside) -> None:
    async def work(house: House) -> None:
        reading = Reading(house)
        reading.stream.grant(9)
        hear = await put_unheard(house, b"1", b"2")
        reading.stream.pause()
        await put(house, b"3")
        assert reading.bodies == []
        reading.stream.resume()
        assert reading.bodies == [b"1", b"2", b"3"]
        hear()
        await settled(house)
        assert reading.bodies == [b"1", b"2", b"3"]
        assert reading.stream.delivered == 3
        await reading.used(2)
        reading.stream.close()
        assert rest(house) == [(b"3", 0)]
        reading.session.close()

    inside(work)


def test_nothing_comes_while_the_partner_does_not_read(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1")
        reading = Reading(house)
        reading.stream.pause()
        reading.stream.grant(5)
        await put(house, b"2")
        await settled(house)
        assert reading.bodies == []
        reading.stream.resume()
        assert reading.bodies == [b"1", b"2"]
        reading.session.close()

    inside(work)


def test_what_came_to_a_stream_that_has_just_closed_returns(inside: Inside) -> None:
    async def work(house: House) -> None:
        reading = Reading(house)
        reading.stream.grant(9)
        hear = await put_unheard(house, b"1", b"2")
        reading.stream.close()
        hear()
        await settled(house)
        assert reading.bodies == []
        assert rest(house) == [(b"1", 0), (b"2", 0)]
        reading.session.close()

    inside(work)


def test_a_selector_chooses_what_comes_now_and_later(inside: Inside) -> None:
    async def work(house: House) -> None:
        for number in range(4):
            await put(house, b"%d" % number, properties={"even": number % 2 == 0})
        reading = Reading(house, Criteria(selector=ready_selector("even = TRUE")))
        reading.stream.grant(9)
        await house.until(lambda: len(reading.came) == 2)
        await put(house, b"5", properties={"even": False})
        await put(house, b"6", properties={"even": True})
        await house.until(lambda: len(reading.came) == 3)
        assert reading.bodies == [b"0", b"2", b"6"]
        reading.session.close()

    inside(work)


# --- what was used and what was not ----------------------------------------------------------------


def test_what_is_used_twice_or_was_never_delivered_counts_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2", b"3")
        reading = Reading(house)
        reading.stream.grant(2)
        for up_to in (1, 1, 0, 99):
            await reading.used(up_to)
        assert reading.stream.delivered == 2
        reading.stream.close()
        assert rest(house) == [(b"3", 0)]
        reading.session.close()

    inside(work)


def test_only_a_delivery_that_is_not_used_can_be_returned(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2", b"3")
        plain, held = Reading(house), Reading(house, held=True)
        plain.stream.grant(2)
        held.stream.grant(1)
        await plain.used(1)
        plain.stream.require_returnable(2)
        for stream, number in ((plain.stream, 1), (plain.stream, 3), (held.stream, 1)):
            with pytest.raises(FrameUnreadable):
                stream.require_returnable(number)
        for each in (plain, held):
            each.session.close()

    inside(work)


def test_a_delivery_that_returns_leaves_those_before_used_and_those_behind_alone(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2", b"3")
        reading = Reading(house)
        reading.stream.grant(3)
        used: list[Any] = []
        reading.stream.give_back(2, 0.0, used.append)
        await house.until(lambda: used)
        assert rest(house) == [(b"2", 1)]
        await reading.used(3)
        reading.session.close()
        assert rest(house) == [(b"2", 1)]

    inside(work)


@pytest.mark.parametrize(("tried", "counts"), [(0, [0, 0]), (1, [0, 0]), (2, [1, 0]), (9, [1, 1])])
def test_a_stream_that_stops_counts_what_was_tried(inside: Inside, tried: int, counts: list[int]) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2", b"3")
        reading = Reading(house)
        reading.stream.grant(3)
        await reading.used(1)
        reading.stream.close(tried=tried)
        assert [count for _, count in rest(house)] == counts
        reading.session.close()

    inside(work)


def test_a_queue_that_cannot_be_read_any_more_is_told_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        reading = Reading(house)
        reading.stream.grant(5)
        await asyncio.to_thread(house.mqsc, "ALTER QLOCAL(Q) GET(DISABLED)")
        await house.until(lambda: reading.failed)
        reading.stream.grant(1)
        await settled(house)
        assert [type(error) for error in reading.failed] == [GetInhibited]
        reading.session.close()

    inside(work)
