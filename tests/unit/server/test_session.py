# SPDX-License-Identifier: Apache-2.0
"""A session by itself: what it leaves behind, what it waits for, and in which order things happen."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import DiskFull, Fenced, GetInhibited, LogFull, QueueFull, UnitFinished
from entrepot.message import Message
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity

from .guests import House, Work

Inside = Callable[[Work], None]
ADMINISTRATOR = Identity("root", administrator=True)


class Told(list[Any]):
    """A `done` that remembers what it was called with."""

    def __call__(self, *values: Any) -> None:
        self.append(values[0] if len(values) == 1 else values)


def session_of(house: House) -> Session:
    return Session(house.registry, ADMINISTRATOR, "tests", "NATIVE")


async def put(house: House, *bodies: bytes, queue: str = "Q", persistent: bool = True, **fields: Any) -> None:
    for body in bodies:
        await asyncio.to_thread(house.host.put, queue, Message(body, **fields), persistent=persistent)


def rest(house: House, queue: str = "Q") -> list[tuple[bytes, int]]:
    """What stands on a queue, with backout counts."""
    return [(message.body, message.backout_count) for message in house.host.browse(queue, None, None, 99)[0]]


def log_full(house: House, times: int) -> list[int]:
    """Let the log have no room for some puts and commits; returns what counts the checkpoints."""
    manager, host = house.host.manager, house.host
    room, checkpoint = manager.log.require_room, host.checkpoint
    checkpoints: list[int] = []
    left = times

    def require_room(size: int, **named: Any) -> None:
        nonlocal left
        if left > 0:
            left -= 1
            raise LogFull(1)
        room(size, **named)

    def counted() -> None:
        checkpoints.append(1)
        checkpoint()

    manager.log.require_room = require_room  # type: ignore[method-assign, assignment]
    host.checkpoint = counted  # type: ignore[method-assign]
    return checkpoints


# --- the end -------------------------------------------------------------------------------------


def test_units_that_are_left_open_are_backed_out(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2")
        session = session_of(house)
        unit = session.begin()
        got = Told()
        session.get("Q", None, unit, 0.0, got)
        session.put("R", Message(b"3"), Told(), persistent=True, unit=unit)
        assert (house.held("Q"), house.held("R")) == (1, 1)
        session.close()
        assert unit.state is UnitState.BACKED_OUT
        assert rest(house) == [(b"1", 1), (b"2", 0)]
        assert rest(house, "R") == []

    inside(work)


def test_what_was_not_acknowledged_returns_and_counts_as_tried(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2")
        session = session_of(house)
        got = Told()
        session.get("Q", None, None, 0.0, got)
        session.get("Q", None, None, 0.0, got)
        accepted = Told()
        session.accept([got[1][1]], accepted)
        await house.until(lambda: accepted)
        session.close()
        assert rest(house) == [(b"1", 1)]

    inside(work)


def test_a_lost_stream_gives_back_what_is_persistent_and_nothing_else(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2", b"3")
        await put(house, b"n1", b"n2", persistent=False)
        session = session_of(house)
        came: list[Message] = []
        stream = session.stream("Q", None, came.extend, Told())
        stream.grant(5)
        assert [message.body for message in came] == [b"1", b"2", b"3", b"n1", b"n2"]
        used = Told()
        stream.used(1, used)
        await house.until(lambda: used)
        session.close()
        await house.until(lambda: house.held("Q") == 0)
        # The second and third may have been used: they count as tried. The others must not come twice.
        assert rest(house) == [(b"2", 1), (b"3", 1)]

    inside(work)


def test_a_stream_that_stops_gives_back_everything_untried(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2")
        await put(house, b"n1", persistent=False)
        session = session_of(house)
        came: list[Message] = []
        stream = session.stream("Q", None, came.extend, Told())
        stream.grant(9)
        stream.close()
        stream.close()
        assert rest(house) == [(b"1", 0), (b"2", 0), (b"n1", 0)]
        await put(house, b"3")
        assert len(came) == 3
        session.close()

    inside(work)


def test_gets_that_wait_end_with_the_session_and_take_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        got = Told()
        for wait_s in (60.0, math.inf):
            session.get("Q", None, None, wait_s, got)
        session.get("Q", None, session.begin(), 60.0, got)
        session.close()
        await put(house, b"1")
        assert rest(house) == [(b"1", 0)]

    inside(work)


def test_a_message_that_comes_to_one_who_has_just_gone_is_given_back(inside: Inside) -> None:
    async def work(house: House) -> None:
        for persistent in (True, False):
            session = session_of(house)
            got = Told()
            session.get("Q", None, None, 60.0, got)
            # From another thread: it is on its way to the loop while the partner goes.
            await_put = put(house, b"1", persistent=persistent)
            house.registry.engine.drain, drain = (lambda: None), house.registry.engine.drain  # type: ignore[method-assign, assignment]
            await await_put
            session.close()
            house.registry.engine.drain = drain  # type: ignore[method-assign]
            drain()
            await asyncio.sleep(0)
            assert [body for body, _ in rest(house)] == [b"1"], persistent
            house.host.clear("Q")

    inside(work)


def test_temporary_queues_go_with_their_session(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        made = Told()
        session.make_dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "MINE.*", made)
        name = made[0][0]
        assert house.host.find("QLOCAL", name) is not None
        session.close()
        assert house.host.find("QLOCAL", name) is None

    inside(work)


def test_a_session_is_closed_once_and_leaves_the_desk(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        assert house.registry.sessions == {session.number: session}
        session.close()
        session.close()
        assert house.registry.sessions == {}
        assert session_of(house).number != session.number
        for each in list(house.registry.sessions.values()):
            each.close()

    inside(work)


def test_what_a_unit_has_begun_to_commit_is_not_backed_out(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        unit = session.begin()
        session.put("Q", Message(b"1"), Told(), persistent=True, unit=unit)
        session.commit(unit, Told())
        session.close()
        await house.until(lambda: unit.state is UnitState.COMMITTED)
        assert rest(house) == [(b"1", 0)]

    inside(work)


# --- no room -------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
def test_a_full_log_blocks_until_checkpoints_have_made_room(inside: Inside, times: int) -> None:
    async def work(house: House) -> None:
        checkpoints = log_full(house, times + 1)  # a put tries twice before it asks for a checkpoint
        session = session_of(house)
        told, unblocked = Told(), Told()
        session.on_unblocked = lambda: unblocked(1)
        session.put("Q", Message(b"1"), told, persistent=True)
        assert session.blocked
        assert not told
        await house.until(lambda: told)
        assert told[0][1] is None
        assert not session.blocked
        assert (len(checkpoints), len(unblocked)) == (times, 1)
        assert rest(house) == [(b"1", 0)]
        session.close()

    inside(work)


def test_a_log_that_stays_full_is_told_after_two_checkpoints(inside: Inside) -> None:
    async def work(house: House) -> None:
        checkpoints = log_full(house, 99)
        session = session_of(house)
        told = Told()
        session.put("Q", Message(b"1"), told, persistent=True)
        await house.until(lambda: told)
        assert isinstance(told[0][1], LogFull)
        assert len(checkpoints) == 2
        assert not session.blocked
        session.close()
        log_full(house, 0)

    inside(work)


def test_a_checkpoint_that_fails_is_told(inside: Inside) -> None:
    async def work(house: House) -> None:
        log_full(house, 2)

        def fails() -> None:
            raise DiskFull("checkpoint")

        checkpoint, house.host.checkpoint = house.host.checkpoint, fails  # type: ignore[method-assign]
        session = session_of(house)
        told = Told()
        session.put("Q", Message(b"1"), told, persistent=True)
        await house.until(lambda: told)
        assert isinstance(told[0][1], DiskFull)
        assert not session.blocked
        session.close()
        house.host.checkpoint = checkpoint  # type: ignore[method-assign]

    inside(work)


def test_a_session_that_ends_while_the_log_is_full_leaves_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2", b"3")
        session = session_of(house)
        got, came = Told(), Told()
        session.get("Q", None, None, 0.0, got)
        stream = session.stream("Q", None, came, Told())
        stream.grant(1)
        unit = session.begin()
        session.get("Q", None, unit, 0.0, Told())
        log_full(house, 3)
        session.accept([got[0][1]], Told())
        stream.used(1, Told())
        session.commit(unit, Told())
        session.close()
        await house.until(lambda: len(rest(house)) == 3)
        await asyncio.sleep(0.05)
        # Nobody knows whether the partner was told, so it was not.
        assert rest(house) == [(b"1", 1), (b"2", 1), (b"3", 1)]

    inside(work)


def test_what_could_not_be_settled_at_first_leaves_no_trace_once_it_is(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1")
        session = session_of(house)
        got, accepted = Told(), Told()
        session.get("Q", None, None, 0.0, got)
        log_full(house, 1)
        session.accept([got[0][1]], accepted)
        await house.until(lambda: accepted)
        assert accepted == [None]
        assert session.leases == set()
        assert rest(house) == []
        session.close()

    inside(work)


def test_what_could_not_be_settled_at_all_returns_when_the_session_ends(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1")
        session = session_of(house)
        got, accepted = Told(), Told()
        session.get("Q", None, None, 0.0, got)
        log_full(house, 3)
        session.accept([got[0][1]], accepted)
        await house.until(lambda: accepted)
        assert isinstance(accepted[0], LogFull)
        session.close()
        assert rest(house) == [(b"1", 1)]

    inside(work)


def test_a_full_queue_is_waited_for_as_long_as_it_was_said(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        await put(house, b"0")
        session = session_of(house)
        told = Told()
        session.put("Q", Message(b"1"), told)
        assert isinstance(told[0][1], QueueFull)
        session.put("Q", Message(b"1"), told, wait_s=0.03)
        assert session.blocked
        await house.until(lambda: len(told) == 2)
        assert isinstance(told[1][1], QueueFull)
        assert not session.blocked
        session.put("Q", Message(b"1"), told, wait_s=60.0)
        house.host.clear("Q")
        await house.until(lambda: len(told) == 3)
        assert told[2][1] is None
        session.close()

    inside(work)


def test_a_full_queue_behind_a_full_log_is_waited_for_too(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        await put(house, b"0")
        session = session_of(house)
        told = Told()
        session.put("Q", Message(b"1"), told, wait_s=60.0, persistent=True)
        log_full(house, 1)
        house.host.clear("Q")
        await house.until(lambda: told)
        assert told[0][1] is None
        session.close()

    inside(work)


def test_a_session_that_ends_while_it_waits_for_room_puts_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        await put(house, b"0")
        session = session_of(house)
        told = Told()
        session.put("Q", Message(b"1"), told, wait_s=60.0)
        session.put("Q", Message(b"2"), told, wait_s=60.0, aside=True)
        session.close()
        house.host.clear("Q")
        await asyncio.sleep(0.03)
        assert rest(house) == []
        assert not told

    inside(work)


# --- units and gets ------------------------------------------------------------------------------


def test_a_get_in_a_unit_that_finds_nothing_leaves_no_reader_behind(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        unit = session.begin()
        got = Told()
        assert session.get("Q", None, unit, 0.0, got) is None
        assert got == [(None, None, None)]
        assert not house.host.manager.objects.queues["Q"].waiters
        session.close()

    inside(work)


def test_gets_end_in_time_and_not_before(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        got = Told()
        begun = house.loop.time()
        for wait_s in (0.05, 0.02, 0.05):
            session.get("Q", None, None, wait_s, got)
        await house.until(lambda: len(got) == 1)
        assert house.loop.time() - begun >= 0.02
        await house.until(lambda: len(got) == 3)
        assert house.loop.time() - begun >= 0.05
        assert got == [(None, None, None)] * 3
        session.close()

    inside(work)


def test_a_unit_that_has_ended_cannot_be_backed_out(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        unit = session.begin()
        session.back_out(unit)
        with pytest.raises(UnitFinished):
            session.back_out(unit)
        session.close()

    inside(work)


def test_leases_are_settled_together_and_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, *(bytes([number]) for number in range(5)))
        session = session_of(house)
        got = Told()
        for _ in range(5):
            session.get("Q", None, None, 0.0, got)
        leases = [lease for _, lease, _ in got]
        accepted = Told()
        session.accept(leases[:3], accepted)
        session.accept(leases[:3], accepted)
        session.release(leases[3:4], tried=False)
        await house.until(lambda: len(accepted) == 2)
        assert accepted == [None, None]
        session.close()
        assert rest(house) == [(bytes([3]), 0), (bytes([4]), 1)]

    inside(work)


def test_a_lease_moves_into_a_unit_and_shares_its_fate(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1")
        session = session_of(house)
        got = Told()
        session.get("Q", None, None, 0.0, got)
        lease, unit = got[0][1], session.begin()
        session.enlist(lease, unit)
        with pytest.raises(UnitFinished):
            session.enlist(lease, unit)
        session.back_out(unit)
        assert rest(house) == [(b"1", 1)]
        session.close()

    inside(work)


# --- streams -------------------------------------------------------------------------------------


def test_a_stream_delivers_as_far_as_its_credit_and_goes_on_with_more(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, *(bytes([number]) for number in range(10)), persistent=False)
        session = session_of(house)
        came: list[Message] = []
        stream = session.stream("Q", None, came.extend, Told())
        stream.grant(3)
        assert (len(came), stream.credit) == (3, 0)
        stream.grant(2)
        assert len(came) == 5
        stream.pause()
        stream.grant(5)
        assert len(came) == 5
        stream.resume()
        assert [message.body[0] for message in came] == list(range(10))
        session.close()

    inside(work)


def test_used_counts_only_what_was_delivered(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2", b"3")
        session = session_of(house)
        stream = session.stream("Q", None, Told(), Told())
        stream.grant(2)
        for up_to in (0, -5, 1, 1, -(2**63)):
            used = Told()
            stream.used(up_to, used)
            await house.until(lambda used=used: used)  # type: ignore[misc]
        stream.used(2**63, used)
        await house.until(lambda: len(used) == 2)
        session.close()
        assert rest(house) == [(b"3", 0)]

    inside(work)


def test_messages_that_come_by_themselves_keep_their_order_with_those_that_are_fetched(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        came: list[Message] = []
        stream = session.stream("Q", None, came.extend, Told())
        stream.grant(2)
        engine = house.registry.engine
        # As in a callback of the engine, which others' callbacks have to wait for.
        engine._draining = True
        for number in range(4):
            session.put("Q", Message(bytes([number])), Told())
        assert not came
        stream.grant(2)
        engine._draining = False
        engine.drain()
        assert [message.body[0] for message in came] == [0, 1, 2, 3]
        session.close()

    inside(work)


def test_a_stream_whose_queue_is_closed_fails_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        await put(house, b"1", b"2")
        session = session_of(house)
        failed = Told()
        stream = session.stream("Q", None, Told(), failed)
        stream.grant(5)
        await asyncio.to_thread(house.mqsc, "ALTER QLOCAL(Q) GET(DISABLED)")
        await house.until(lambda: failed)
        assert isinstance(failed[0], GetInhibited)
        stream.grant(5)
        assert len(failed) == 1
        await asyncio.to_thread(house.mqsc, "ALTER QLOCAL(Q) GET(ENABLED)")
        # Its reader may still say what it has used, and closes it then.
        used = Told()
        stream.used(1, used)
        await house.until(lambda: used)
        stream.close()
        assert rest(house) == [(b"2", 0)]
        session.close()

    inside(work)


# --- the office ----------------------------------------------------------------------------------


def test_a_command_blocks_its_session_and_no_other(inside: Inside) -> None:
    async def work(house: House) -> None:
        first, second = session_of(house), session_of(house)
        told, others = Told(), Told()
        first.mqsc("DEFINE QLOCAL(NEW)", "-", told)
        assert first.blocked
        assert not second.blocked
        second.put("R", Message(b"1"), others)
        assert others
        await house.until(lambda: told)
        assert not first.blocked
        assert told[0][1] is None
        first.close()
        second.close()

    inside(work)


def test_the_answer_to_a_command_whose_asker_has_gone_goes_nowhere(inside: Inside) -> None:
    async def work(house: House) -> None:
        session = session_of(house)
        told = Told()
        session.mqsc("DEFINE QLOCAL(NEW)", "-", told)
        session.close()
        await house.until(lambda: house.host.find("QLOCAL", "NEW"))
        await asyncio.sleep(0.01)
        assert not told

    inside(work)


# --- fenced while something waits ----------------------------------------------------------------


def test_a_put_that_waits_for_room_in_the_log_is_refused_once_its_session_is_fenced(inside: Inside) -> None:
    async def work(house: House) -> None:
        log_full(house, 2)
        session, answered = session_of(house), Told()
        session.put("Q", Message(b"late"), answered, persistent=True)
        assert session.blocked, "it waits for a checkpoint"
        session.fence(Fenced("flow/1", 1, 2))
        await house.until(lambda: answered)
        assert isinstance(answered[0][1], Fenced)
        assert not session.blocked
        assert rest(house) == []
        session.close()

    inside(work)


def test_a_put_that_waits_for_room_on_its_queue_is_refused_once_its_session_is_fenced(inside: Inside) -> None:
    async def work(house: House) -> None:
        for aside in (False, True):
            house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(0)")
            session, answered = session_of(house), Told()
            session.put("Q", Message(b"late"), answered, wait_s=60.0, aside=aside)
            session.fence(Fenced("flow/1", 1, 2))
            house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(5)")
            await house.until(lambda: answered)  # noqa: B023
            assert isinstance(answered[0][1], Fenced), aside
            assert rest(house) == []
            session.close()

    inside(work)
