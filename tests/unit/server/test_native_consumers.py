# SPDX-License-Identifier: Apache-2.0
"""Consumers for units of work: what was seen, what was used, and clients that say what is not so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.errors import (
    FrameTooLong,
    FrameUnreadable,
    HeartbeatMissed,
    LogFull,
    QueueNotFound,
    TooManyUncommitted,
)
from entrepot.server import stream
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import LONG_BODY_BYTES
from entrepot.server.wire.verbs import Verb

from .guests import Guest, House, Work, put

Inside = Callable[[Work], None]


async def reading(house: House, count: int = 4, credit: int = 10) -> Guest:
    """A guest with a held consumer 1 at Q, where every second message is persistent."""
    guest = await house.admitted()
    for number in range(count):
        await guest.put("Q", b"%d" % number, persistent=number % 2 == 0)
    await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, credit, held=True))
    await guest.until(lambda: len(guest.deliveries()) == min(count, credit))
    return guest


def left(house: House, queue: str = "Q") -> list[tuple[bytes, int]]:
    return [(message.body, message.backout_count) for message in house.host.browse(queue, None, None, 99)[0]]


async def end(house: House, guest: Guest) -> None:
    guest.wire.lose()
    await house.until(lambda: house.held("Q") == 0)


# --- several at once -------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [False, True])
def test_who_takes_several_at_once_gets_them_so_and_others_do_not(inside: Inside, held: bool) -> None:
    async def work(house: House) -> None:
        guest, other = await house.admitted(), await house.admitted()
        for number in range(7):
            await guest.put("Q", b"%d" % number)
            await guest.put("R", b"%d" % number)
        await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, 5, held=held, together=True))
        await other.ask(Verb.CONSUME, 9, verbs.Consume("R", 1, 5, held=held))
        assert [[message.body for message in batch] for batch in guest.batches()] == [[b"0", b"1", b"2", b"3", b"4"]]
        assert [[message.body for message in batch] for batch in other.batches()] == [[b"%d" % n] for n in range(5)]
        # Up to the third were used; the numbers of those that came together count one by one.
        guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0 if held else 3, 1))
        await guest.until(lambda: len(guest.deliveries()) == 6)
        assert [message.body for message in guest.batches()[1]] == [b"5"]
        await guest.ask(Verb.STOP_CONSUMING, 10, verbs.ConsumerPayload(1))
        assert left(house) == [(b"%d" % number, 0) for number in range(0 if held else 3, 7)]

    inside(work)


@pytest.mark.parametrize("held", [False, True])
def test_a_consumer_is_answered_before_its_first_message_comes(inside: Inside, held: bool) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", b"1")
        guest.say(Verb.CONSUME, 9, verbs.Consume("Q", 1, 5, held=held))
        await guest.until(guest.deliveries)
        assert [verb for verb, _, _ in guest.frames()] == [Verb.DONE, Verb.DELIVERY]

    inside(work)


def test_what_comes_at_once_has_a_bound_and_long_messages_come_alone(inside: Inside) -> None:
    sizes = [1, 40_000, 24_000, 2_000, 70_000, 3, 4, LONG_BODY_BYTES, 5]

    async def work(house: House) -> None:
        guest = await house.admitted()
        for number, size in enumerate(sizes):
            await guest.put("Q", bytes([number]) * size)
        await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, 50, together=True))
        await guest.until(lambda: len(guest.deliveries()) == len(sizes))
        assert [[message.body[0] for message in batch] for batch in guest.batches()] == [
            [0, 1, 2],
            [3],
            [4],
            [5, 6],
            [7],
            [8],
        ]
        assert [len(message.body) for message in guest.deliveries()] == sizes

    inside(work)


# --- what is seen and used -----------------------------------------------------------------------


def test_what_was_seen_returns_counted_and_the_rest_uncounted(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        for seen in (1, 2, 1, 2, 0, -5):
            guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 0, seen))
        await end(house, guest)
        assert left(house) == [(b"0", 1), (b"1", 1), (b"2", 0), (b"3", 0)]

    inside(work)


@pytest.mark.parametrize("silent", [True, False])
def test_of_a_partner_that_fell_silent_all_that_was_sent_may_have_been_seen(inside: Inside, silent: bool) -> None:
    async def work(house: House) -> None:
        guest = await reading(house, count=4, credit=3)
        if silent:
            guest.link.close(HeartbeatMissed("", 9.0))
        guest.wire.lose(None if silent else TimeoutError())
        await house.until(lambda: house.held("Q") == 0)
        assert left(house) == [(b"0", 1), (b"1", 1), (b"2", 1), (b"3", 0)]

    inside(work)


def test_stopping_returns_the_same(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 0, 3))
        await guest.ask(Verb.STOP_CONSUMING, 9, verbs.ConsumerPayload(1))
        assert left(house) == [(b"0", 1), (b"1", 1), (b"2", 1), (b"3", 0)]

    inside(work)


@pytest.mark.parametrize("seen", [0, 1, 3])
def test_a_commit_takes_what_was_used_and_its_puts(inside: Inside, seen: int) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        guest.say(Verb.PUT, 0, put("R", b"put", 1))
        guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 0, seen))
        await guest.ask(Verb.COMMIT, 9, verbs.Commit(1, [(1, 1), (1, 2), (1, 0), (1, -9)]))
        await end(house, guest)
        assert left(house) == [(b"2", int(seen == 3)), (b"3", 0)]
        assert left(house, "R") == [(b"put", 0)]

    inside(work)


def test_a_refused_put_leaves_what_was_used_with_its_consumer(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 0, 1))
        guest.say(Verb.PUT, 0, put("NOWHERE", b"", 1))
        with pytest.raises(QueueNotFound):
            await guest.ask(Verb.COMMIT, 9, verbs.Commit(1, [(1, 1)]))
        assert house.held("Q") == 4
        await guest.ask(Verb.COMMIT, 9, verbs.Commit(2, [(1, 2)]))
        await end(house, guest)
        assert left(house) == [(b"2", 0), (b"3", 0)]

    inside(work)


def full_log(house: House, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let the next commits find no room."""
    true, failed = house.host.manager._commit, []

    def commit(*arguments: Any, **options: Any) -> Any:
        if len(failed) < times and arguments[0].number:
            failed.append(1)
            raise LogFull(1)
        return true(*arguments, **options)

    monkeypatch.setattr(house.host.manager, "_commit", commit)


@pytest.mark.parametrize("ending", ["commit", "back out", "more", "lose"])
def test_a_full_log_leaves_the_unit_with_what_it_has_used(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        guest.say(Verb.PUT, 0, put("R", b"put", 1, persistent=True))
        full_log(house, monkeypatch, 3)  # once, and behind each of two checkpoints
        guest.say(Verb.COMMIT, 9, verbs.Commit(1, [(1, 2)]))
        verb, failed = await guest.answer(9)
        assert (verb, failed.unit_active) == (Verb.FAILED, True)
        assert (house.held("Q"), left(house), left(house, "R")) == (4, [], [])
        if ending == "back out":
            await guest.ask(Verb.BACK_OUT, 9, verbs.UnitPayload(1))
        elif ending != "lose":
            await guest.ask(Verb.COMMIT, 9, verbs.Commit(1, [(1, 3 if ending == "more" else 2)]))
        await end(house, guest)
        every = [(b"0", 1), (b"1", 1), (b"2", 0), (b"3", 0)]
        assert left(house) == {"commit": every[2:], "more": every[3:]}.get(ending, every)
        assert left(house, "R") == ([(b"put", 0)] if ending in ("commit", "more") else [])

    inside(work)


def test_a_stopped_consumer_leaves_what_was_used_with_the_unit(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        await guest.ask(Verb.STOP_CONSUMING, 9, verbs.ConsumerPayload(1, 2, 7))
        assert (house.held("Q"), left(house)) == (2, [(b"2", 0), (b"3", 0)])
        await guest.ask(Verb.BACK_OUT, 9, verbs.UnitPayload(7))
        assert left(house) == [(b"0", 1), (b"1", 1), (b"2", 0), (b"3", 0)]
        await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 2, 9, held=True))
        await guest.ask(Verb.STOP_CONSUMING, 9, verbs.ConsumerPayload(2, 0, 8))
        assert not guest.link.session.units, "nothing was used, so no unit has begun"

    inside(work)


def test_what_a_unit_prepares_outlives_its_consumer(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        await guest.ask(Verb.PREPARE, 9, verbs.Prepare(1, b"x", [(1, 3)]))
        guest.wire.lose()
        await house.until(lambda: house.held("Q") == 3)
        await asyncio.to_thread(house.host.resolve, b"x", commit=True)
        assert left(house) == [(b"3", 0)]

    inside(work)


def test_what_was_seen_keeps_no_more_from_coming(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_HELD_BYTES_MAX", 2)

    async def work(house: House) -> None:
        guest = await reading(house, count=2, credit=2)
        for number in range(2, 8):
            await guest.put("Q", b"%d" % number)
        guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 8))
        await guest.ask(Verb.HEARTBEAT, 5, verbs.Empty())
        assert len(guest.deliveries()) == 2
        guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 0, 2))
        await guest.until(lambda: len(guest.deliveries()) >= 4)
        for seen in range(3, 9):
            guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 0, seen))
        await guest.until(lambda: len(guest.deliveries()) == 8)
        await guest.ask(Verb.COMMIT, 9, verbs.Commit(1, [(1, 8)]))
        assert left(house) == []

    inside(work)


def test_a_connection_whose_application_is_at_work_is_busy(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        assert not guest.link.session.is_busy
        await guest.ask(Verb.CREDIT, 9, verbs.Credit(1, 0, 0, 1))
        assert guest.link.session.is_busy
        await guest.ask(Verb.COMMIT, 9, verbs.Commit(1, [(1, 1)]))
        assert not guest.link.session.is_busy

    inside(work)


# --- clients that say what is not so -------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "payload"),
    [
        (Verb.COMMIT, verbs.Commit(1, [(1, 5)])),
        (Verb.COMMIT, verbs.Commit(1, [(1, 2**63)])),
        (Verb.COMMIT, verbs.Commit(1, [(1, 2), (2, 1)])),
        (Verb.COMMIT, verbs.Commit(1, [(77, 1)])),
        (Verb.COMMIT, verbs.Commit(1, [(-1, 0)])),
        (Verb.COMMIT, verbs.Commit(0, [(1, 1)])),
        (Verb.COMMIT, verbs.Commit(1, [(1, 2)] * 9_000 + [(1, 5)])),
        (Verb.PREPARE, verbs.Prepare(1, b"x", [(1, 5)])),
        (Verb.STOP_CONSUMING, verbs.ConsumerPayload(1, 5, 1)),
        (Verb.STOP_CONSUMING, verbs.ConsumerPayload(2, 1, 1)),
        (Verb.STOP_CONSUMING, verbs.ConsumerPayload(77, 1, 1)),
        (Verb.RETURN, verbs.ReturnPayload(1, 1, 0)),
        (Verb.RETURN, verbs.ReturnPayload(2, 1, 0)),
        (Verb.RETURN, verbs.ReturnPayload(2, 0, 0, 1.0, "why")),
    ],
    ids=lambda value: value.name if isinstance(value, Verb) else None,
)
def test_who_has_used_what_it_does_not_have_is_cut_off_and_nothing_happens(
    inside: Inside, verb: Verb, payload: Any
) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        await guest.ask(Verb.CONSUME, 9, verbs.Consume("R", 2, 5))  # which is not held
        guest.say(Verb.PUT, 0, put("R", b"never", 1))
        guest.say(verb, 9, payload)
        assert isinstance(await guest.farewell(), FrameUnreadable)
        await house.until(lambda: house.held("Q") == 0)
        assert left(house) == [(b"%d" % number, 0) for number in range(4)]
        assert (left(house, "R"), house.host.in_doubt()) == ([], [])

    inside(work)


def test_a_list_without_end_is_not_even_read(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        guest.say(Verb.COMMIT, 9, verbs.Commit(1, [(1, 1)] * 100_000))
        assert isinstance(await guest.farewell(), FrameTooLong)

    inside(work)


def test_a_long_list_of_nothing_new_costs_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await reading(house)
        await guest.ask(Verb.COMMIT, 9, verbs.Commit(1, [(1, number % 3) for number in range(15_000)]))
        await end(house, guest)
        assert left(house) == [(b"2", 0), (b"3", 0)]

    inside(work)


@pytest.mark.parametrize("seen", [5, 2**31, 2**63, 2**64 - 1])
def test_who_has_seen_more_than_it_was_sent_has_seen_just_that(inside: Inside, seen: int) -> None:
    async def work(house: House) -> None:
        guest = await reading(house, count=4, credit=2)
        await guest.ask(Verb.CREDIT, 9, verbs.Credit(1, 0, 0, seen))
        guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 1, 2))
        await guest.until(lambda: len(guest.deliveries()) == 3)
        await end(house, guest)
        assert left(house) == [(b"0", 1), (b"1", 1), (b"2", 0), (b"3", 0)]

    inside(work)


def test_what_is_not_held_is_not_seen(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", b"0", persistent=True)
        await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, 5))
        await guest.ask(Verb.CREDIT, 9, verbs.Credit(1, 0, 0, 1))
        await guest.ask(Verb.STOP_CONSUMING, 9, verbs.ConsumerPayload(1))
        assert left(house) == [(b"0", 0)]

    inside(work)


def test_nobody_holds_more_than_a_unit_may_have(inside: Inside) -> None:
    async def work(house: House) -> None:
        await asyncio.to_thread(house.mqsc, "ALTER QMGR MAXUMSGS(3)")
        guest = await house.admitted()
        for number in range(9):
            await guest.put("Q", b"%d" % number)
        assert (await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, 100, held=True))).value == 3
        assert (await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 2, 1, held=True))).value == 3
        await guest.until(lambda: len(guest.deliveries()) == 4)
        # What is used and what may come may be said with one frame.
        await guest.ask(Verb.CREDIT, 9, verbs.Credit(1, 2, 2, 0))
        await guest.until(lambda: len(guest.deliveries()) == 6)
        with pytest.raises(TooManyUncommitted):
            await guest.ask(Verb.COMMIT, 9, verbs.Commit(1, [(1, 5), (2, 1)]))
        assert house.held("Q") == 4
        guest.say(Verb.PUT, 0, put("R", b"", 2))
        await guest.ask(Verb.STOP_CONSUMING, 9, verbs.ConsumerPayload(1, 5, 2))
        with pytest.raises(TooManyUncommitted):
            await guest.ask(Verb.COMMIT, 9, verbs.Commit(2))
        assert (house.held("Q"), left(house, "R")) == (1, [])
        guest.say(Verb.CREDIT, 0, verbs.Credit(2, 0, 3))
        assert isinstance(await guest.farewell(), FrameUnreadable)

    inside(work)
