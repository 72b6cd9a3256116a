# SPDX-License-Identifier: Apache-2.0
"""The asyncio client and a real server's link: what breaks, what is asked again, and what a cancelled task has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.client.aio import async_transport
from entrepot.engine.definitions import Channel
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    MessageTooLong,
    QueueNotFound,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.message import Message
from entrepot.server.wire.verbs import Verb

from .aio_guests import Street, connected
from .guests import House, Work, until

Inside = Callable[[Work], None]


async def put(street: Street, body: bytes = b"x", unit: Any = None, *, queue: str = "Q", wait_s: float = 0.0) -> bytes:
    return await street.client.put(queue, Message(body), persistent=True, priority=None, unit=unit, wait_s=wait_s)


async def get(street: Street, unit: Any = None, *, wait_s: float = 0.0) -> bytes | None:
    message = await street.client.get("Q", None, unit=unit, wait_s=wait_s)
    return None if message is None else message.body


async def lose(street: Street) -> None:
    """The connection breaks while nobody says anything."""
    street.wires[-1].break_off()
    await until(lambda: street.wires[-1].is_closing())


def bodies(house: House) -> list[bytes]:
    return [message.body for message in house.host.browse("Q", None, None, 99)[0]]


# --- the next connection -------------------------------------------------------------------------


def test_a_message_has_an_id_of_the_connection_on_which_it_is_sent(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            await put(street)
            await lose(street)
            ids = [await put(street), await put(street, unit=street.client.begin())]
            head = street.client.line.welcome.message_id_head
            assert [each[: len(head)] for each in ids] == [head, head]
            assert (len(street.wires), street.said(0)) == (2, [Verb.PUT])

    inside(work)


def test_a_body_is_judged_by_what_the_connection_on_which_it_is_sent_takes(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            await lose(street)
            default = house.host.find("CHANNEL", "SYSTEM.DEF.SVRCONN")
            assert isinstance(default, Channel)
            house.host.alter(replace(default, body_bytes_max=5))
            for unit in (None, street.client.begin()):
                with pytest.raises(MessageTooLong):
                    await put(street, b"x" * 6, unit)
            await put(street, b"x" * 5)

    inside(work)


def test_a_get_goes_on_by_the_next_connection(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            street.cut_at = Verb.GET
            getting = asyncio.create_task(get(street, wait_s=60.0))
            await until(lambda: len(street.wires) == 2)
            await put(street, b"1")
            assert await getting == b"1"

    inside(work)


@pytest.mark.parametrize("wait_s", [0.0, 60.0])
def test_who_does_not_reconnect_is_told_that_the_answer_was_lost(inside: Inside, wait_s: float) -> None:
    async def work(house: House) -> None:
        async with connected(house, reconnect_s=0) as street:
            street.cut_at = Verb.GET
            with pytest.raises(ConnectionLost):
                await get(street, wait_s=wait_s)
            for ask in (get, put):
                with pytest.raises(ConnectFailed):
                    await ask(street)
            assert len(street.wires) == 1

    inside(work)


@pytest.mark.parametrize("is_heard", [True, False])
def test_what_changes_something_is_not_asked_again(inside: Inside, is_heard: bool) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            street.is_heard = is_heard
            asked: list[tuple[Verb, Callable[[], Any]]] = [
                (Verb.PUT, lambda: put(street)),
                (Verb.MQSC, lambda: street.client.administration.mqsc("CLEAR QLOCAL(R)")),
                (Verb.RESOLVE, lambda: street.client.connection.resolve(b"x", commit=True)),
                (Verb.DYNAMIC, lambda: street.client.connection.dynamic_queue("SYSTEM.DEFAULT.MODEL.QUEUE", "X.*")),
            ]
            for verb, ask in asked:
                street.cut_at = verb
                with pytest.raises(ConnectionLost):
                    await ask()
                assert len(street.frames(verb)) == 1
            assert bodies(house) == [b"x"] * is_heard

    inside(work)


def test_what_only_looks_is_asked_again(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            await put(street, b"1")
            asked: list[tuple[Verb, Callable[[], Any]]] = [
                (Verb.BROWSE, lambda: street.client.browse("Q", None, None, 5)),
                (Verb.MQSC, lambda: street.client.administration.mqsc("DISPLAY QMGR")),
                (Verb.IN_DOUBT, street.client.connection.in_doubt),
                (Verb.CLAIMS, lambda: street.client.connection.claims("flow/")),
            ]
            for verb, ask in asked:
                street.cut_at = verb
                await ask()
                assert len(street.frames(verb)) == 2

    inside(work)


def test_connecting_is_not_tried_for_ever(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_transport, "_RETRY_FIRST_S", 0.001)

    async def work(house: House) -> None:
        async with connected(house, reconnect_s=0.01) as street:
            await lose(street)
            street.is_passable = False
            with pytest.raises(ConnectFailed, match="tried for"):
                await put(street)
            street.is_passable = True
            await put(street)
            assert street.client.core.opened == 2

    inside(work)


def test_tasks_that_find_no_connection_share_the_next_one(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            await lose(street)
            await asyncio.gather(*(put(street) for _ in range(5)))
            assert (len(street.wires), len(bodies(house))) == (2, 5)
            before = street.wires[1].writes
            await asyncio.gather(*(put(street) for _ in range(5)))
            assert street.wires[1].writes == before + 1, "what is said within a turn of the loop leaves together"

    inside(work)


# --- units of work -------------------------------------------------------------------------------


def test_a_unit_whose_connection_breaks_is_backed_out(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            client = street.client
            await put(street, b"1")
            verbs: list[tuple[Verb, Callable[[Any], Any]]] = [
                (Verb.GET, lambda unit: get(street, unit)),
                (Verb.GET_MANY, lambda unit: client.get_many("Q", 2, None, unit=unit, wait_s=0.0)),
                (Verb.PUT, lambda unit: put(street, b"2", unit, wait_s=1.0)),
            ]
            for verb, ask in verbs:
                street.cut_at = verb
                unit = client.begin()
                with pytest.raises(UnitBackedOut):
                    await ask(unit)
                assert unit.state is UnitState.BACKED_OUT
                with pytest.raises(UnitFinished):
                    await ask(unit)
            assert bodies(house) == [b"1"]

    inside(work)


def test_a_unit_moves_to_the_next_connection_if_nothing_was_done_in_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            idle, used = street.client.begin(), street.client.begin()
            await put(street, b"1", used)
            await lose(street)
            await put(street, b"2", idle)
            with pytest.raises(UnitBackedOut):
                await put(street, b"1", used)
            await street.client.commit(idle)
            assert bodies(house) == [b"2"]

    inside(work)


def test_a_unit_in_which_nothing_was_done_ends_without_a_word(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            committed, backed_out = street.client.begin(), street.client.begin()
            await street.client.commit(committed)
            await street.client.back_out(backed_out)
            assert (committed.state, backed_out.state) == (UnitState.COMMITTED, UnitState.BACKED_OUT)
            assert street.said() == []

    inside(work)


def test_a_refused_put_of_a_unit_is_told_when_it_commits(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            unit = street.client.begin()
            await put(street, b"1", unit)
            await put(street, b"2", unit, queue="NOWHERE")
            with pytest.raises(QueueNotFound):
                await street.client.commit(unit)
            assert unit.state is UnitState.BACKED_OUT
            assert bodies(house) == []

    inside(work)


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_commit_whose_answer_is_lost_has_an_unknown_outcome(inside: Inside, is_heard: bool) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            street.is_heard = is_heard
            unit = street.client.begin()
            await put(street, b"1", unit)
            street.cut_at = Verb.COMMIT
            with pytest.raises(ConnectionLost):
                await street.client.commit(unit)
            assert unit.state is UnitState.UNKNOWN
            await until(lambda: bodies(house) == [b"1"] * is_heard)

    inside(work)


def test_backing_out_needs_no_connection(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            units = [street.client.begin() for _ in range(3)]
            for unit in units:
                await put(street, b"1", unit, wait_s=1.0)
            street.cut_at = Verb.BACK_OUT
            for unit in units:
                await street.client.back_out(unit)
            assert {unit.state for unit in units} == {UnitState.BACKED_OUT}
            assert (len(street.frames(Verb.BACK_OUT)), len(street.wires)) == (1, 1)

    inside(work)


# --- cancelled tasks -----------------------------------------------------------------------------


async def cancelled(task: asyncio.Task[Any]) -> bool:
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


def test_a_cancelled_get_takes_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            getting = asyncio.create_task(get(street, wait_s=60.0))
            await until(lambda: Verb.GET in street.said())
            assert await cancelled(getting)
            await put(street, b"1")
            assert bodies(house) == [b"1"]
            assert Verb.CANCEL in street.said()

    inside(work)


def test_a_message_that_comes_with_the_cancellation_is_not_lost(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            getting = asyncio.create_task(get(street, wait_s=60.0))
            await until(lambda: Verb.GET in street.said())
            await asyncio.to_thread(house.host.put, "Q", Message(b"1"), persistent=False)
            assert not await cancelled(getting)
            assert getting.result() == b"1"
            assert bodies(house) == []

    inside(work)


def test_a_cancelled_commit_has_an_unknown_outcome(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            unit = street.client.begin()
            await put(street, b"1", unit)
            committing = asyncio.create_task(street.client.commit(unit))
            await until(lambda: Verb.COMMIT in street.said())
            assert await cancelled(committing)
            assert unit.state is UnitState.UNKNOWN

    inside(work)


# --- the end -------------------------------------------------------------------------------------


def test_closing_says_goodbye_once_and_ends_who_waits(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with connected(house) as street:
            getting = asyncio.create_task(get(street, wait_s=60.0))
            await until(lambda: Verb.GET in street.said())
            unit = street.client.begin()
            await street.client.close()
            await street.client.close()
            for ask in (getting, get(street), put(street), street.client.back_out(unit)):
                with pytest.raises(ConnectionClosed):
                    await ask
            assert street.said() == [Verb.GET, Verb.GOODBYE]

    inside(work)


def test_a_server_that_says_nothing_is_left(inside: Inside) -> None:
    async def work(house: House) -> None:
        default = house.host.find("CHANNEL", "SYSTEM.DEF.SVRCONN")
        assert isinstance(default, Channel)
        house.host.alter(replace(default, heartbeat_s=100))
        async with connected(house) as street:
            client = street.client
            client.line.heard -= 24.0
            client.line._keep_alive()
            assert street.said() == []
            client.line.heard -= 2.0
            client.line._keep_alive()
            assert street.said() == [Verb.HEARTBEAT]
            client.line.heard -= 230.0
            getting = asyncio.create_task(get(street, wait_s=60.0))
            client.line._keep_alive()
            await until(lambda: len(street.wires) == 2)
            assert await cancelled(getting)

    inside(work)
