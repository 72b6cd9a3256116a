# SPDX-License-Identifier: Apache-2.0
"""The asyncio connection by every binding: the verbs of the blocking one, and what only tasks can do to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import entrepot.aio
from entrepot import Message
from entrepot.aio import Connection
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import (
    ConnectionClosed,
    GetInhibited,
    InvalidArgument,
    QueueFull,
    QueueNotFound,
    RequestTimedOut,
    UnitFinished,
)

Test = Callable[[Connection], Awaitable[None]]
Run = Callable[[Test], None]


@pytest.fixture
def run(url: str) -> Run:
    """Runs a coroutine with a connection whose queue manager has the queues Q and R."""

    def runner(test: Test) -> None:
        async def main() -> None:
            async with await entrepot.aio.connect(url, application="tests") as connection:
                await connection.mqsc("DEFINE QLOCAL(R)")
                await test(connection)

        asyncio.run(asyncio.wait_for(main(), 120))

    return runner


def got(message: Message | None) -> Message:
    assert message is not None
    return message


async def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body async for message in connection.browse(queue)]


def test_put_and_get(run: Run) -> None:
    async def test(connection: Connection) -> None:
        message_id = await connection.put("Q", b"one", persistent=True, properties={"region": "EU"})
        await connection.put("Q", b"two")
        assert await bodies(connection) == [b"one", b"two"]
        message = got(await connection.get("Q", selector="region = 'EU'"))
        assert (message.body, message.message_id, message.application) == (b"one", message_id, "tests")
        assert got(await connection.get("Q", wait_s=60)).body == b"two"
        assert await connection.get("Q") is None
        with pytest.raises(QueueNotFound):
            await connection.put("NOPE", b"")
        with pytest.raises(InvalidArgument):
            await connection.put("Q", b"", priority=10)

    run(test)


def test_a_unit_of_work_commits_or_backs_out(run: Run) -> None:
    async def test(connection: Connection) -> None:
        await connection.put("Q", b"order", persistent=True)
        with pytest.raises(ZeroDivisionError):
            async with connection.unit_of_work() as unit:
                assert await unit.get("Q") is not None
                await unit.put("R", b"never", persistent=True)
                _ = 1 / 0
        async with connection.unit_of_work() as unit:
            message = got(await unit.get("Q"))
            assert message.backout_count == 1
            await unit.put("R", message.body, persistent=True)
        assert unit.state == "committed"
        with pytest.raises(UnitFinished):
            await unit.put("R", b"late")
        assert got(await connection.get("R")).body == b"order"
        assert await connection.get("R") is None

    run(test)


def test_a_wrong_put_spoils_its_unit_at_the_latest_when_it_commits(run: Run) -> None:
    async def test(connection: Connection) -> None:
        unit = connection.unit_of_work()
        await unit.put("Q", b"right", persistent=True)
        with pytest.raises(QueueNotFound):
            # Through a channel nobody waits for a put of a unit of work; its commit tells.
            await unit.put("NOPE", b"wrong", persistent=True)
            await unit.commit()
        if unit.state == "active":
            await unit.back_out()
        assert unit.state == "backed out"
        assert await bodies(connection) == []

    run(test)


def test_many_are_put_at_once_and_come_with_the_commit(run: Run) -> None:
    async def test(connection: Connection) -> None:
        sent = [b"%d" % number for number in range(300)]
        async with connection.unit_of_work() as unit:
            ids = await unit.put_many("Q", sent, persistent=True)
            assert await bodies(connection) == []
        assert len(set(ids)) == 300
        first = await connection.get("Q")
        assert first is not None
        assert (first.body, first.message_id, first.persistent) == (b"0", ids[0], True)
        assert await bodies(connection) == sent[1:]
        with pytest.raises(QueueNotFound):
            async with connection.unit_of_work() as unit:
                await unit.put_many("NOWHERE", sent)

    run(test)


def test_many_are_got_at_once_and_come_back_in_order(run: Run) -> None:
    async def test(connection: Connection) -> None:
        for number in range(10):
            await connection.put("Q", b"%d" % number, persistent=number % 2 == 0)
        unit = connection.unit_of_work()
        assert [message.body for message in await unit.get_many("Q", 7)] == [b"%d" % n for n in range(7)]
        assert len(await unit.get_many("Q", 100)) == 3
        assert await unit.get_many("Q", 100, wait_s=0.01) == []
        await unit.back_out()
        assert await bodies(connection) == [b"%d" % n for n in range(10)]

    run(test)


def test_a_group_is_got_when_it_is_whole(run: Run) -> None:
    async def test(connection: Connection) -> None:
        async with connection.unit_of_work() as unit:
            waiting = asyncio.create_task(unit.get_group("Q", wait_s=60))
            await connection.put("Q", b"2", group_id=b"g", sequence=2, last_in_group=True)
            await asyncio.sleep(0.03)
            assert not waiting.done()
            await connection.put("Q", b"1", group_id=b"g", sequence=1)
            assert [message.body for message in await waiting or ()] == [b"1", b"2"]
        assert await bodies(connection) == []

    run(test)


def test_a_cancelled_wait_for_a_group_ends_and_takes_nothing(run: Run) -> None:
    async def test(connection: Connection) -> None:
        unit = connection.unit_of_work()
        waiting = asyncio.create_task(unit.get_group("Q", wait_s=3600))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await unit.back_out()
        await connection.put("Q", b"alone")
        await asyncio.sleep(0.05)
        assert got(await connection.get("Q")).body == b"alone"

    run(test)


def test_many_tasks_wait_on_one_queue_and_each_message_goes_to_one(run: Run) -> None:
    async def test(connection: Connection) -> None:
        readers = [asyncio.create_task(connection.get("Q", wait_s=60)) for _ in range(50)]
        await asyncio.sleep(0.01)
        await asyncio.gather(*(connection.put("Q", b"%d" % n, persistent=n % 2 == 0) for n in range(50)))
        messages = await asyncio.gather(*readers)
        assert sorted(int(message.body) for message in messages if message) == list(range(50))

    run(test)


def test_many_tasks_commit_and_nothing_is_lost(run: Run) -> None:
    async def test(connection: Connection) -> None:
        async def commit(task: int) -> None:
            for number in range(20):
                async with connection.unit_of_work() as unit:
                    await unit.put("Q", b"%d-%d" % (task, number), persistent=True)

        await asyncio.gather(*(commit(task) for task in range(32)))
        found = await bodies(connection)
        assert len(set(found)) == len(found) == 640

    run(test)


def test_messages_are_consumed_in_order_until_none_comes(run: Run) -> None:
    async def test(connection: Connection) -> None:
        for number in range(50):
            await connection.put("Q", b"%d" % number, persistent=number % 2 == 0)
        consumption = await connection.consume("Q", read_ahead=7)
        assert [got(await consumption.get(60)).body for _ in range(50)] == [b"%d" % n for n in range(50)]
        assert await consumption.get(0.1) is None
        assert await bodies(connection) == []
        await consumption.close()
        async for _ in await connection.consume("Q", wait_s=0.1):
            raise AssertionError("there is none any more")
        with pytest.raises(QueueNotFound):
            await connection.consume("NOPE")

    run(test)


def test_what_was_not_used_stays_in_its_order(run: Run) -> None:
    async def test(connection: Connection) -> None:
        for number in range(20):
            await connection.put("Q", b"%d" % number, persistent=number % 2 == 0)
        async with await connection.consume("Q", read_ahead=10) as consumption:
            for number in range(3):
                assert got(await consumption.get(60)).body == b"%d" % number
        left = [message async for message in connection.browse("Q")]
        assert [message.body for message in left] == [b"%d" % n for n in range(3, 20)]
        assert {message.backout_count for message in left} == {0}

    run(test)


def test_inhibiting_gets_ends_a_consumption(run: Run) -> None:
    async def test(connection: Connection) -> None:
        consumption = await connection.consume("Q")
        waiting = asyncio.create_task(consumption.get(60))
        await asyncio.sleep(0.05)
        await connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
        with pytest.raises(GetInhibited):
            await waiting

    run(test)


def test_a_cancelled_wait_loses_no_message(run: Run) -> None:
    async def test(connection: Connection) -> None:
        for number in range(40):
            reader = asyncio.create_task(connection.get("Q", wait_s=60))
            await asyncio.sleep(0)
            await connection.put("Q", b"%d" % number, persistent=number % 2 == 0)
            reader.cancel()
            done = await asyncio.gather(reader, return_exceptions=True)
            found = await connection.get("Q", wait_s=60) if isinstance(done[0], BaseException) else done[0]
            assert got(found).body == b"%d" % number
        assert await connection.get("Q") is None

    run(test)


def test_a_timeout_from_outside_loses_no_message(run: Run) -> None:
    async def test(connection: Connection) -> None:
        try:
            found = await asyncio.wait_for(connection.get("Q", wait_s=60), 0.05)
        except TimeoutError:
            found = None
        assert found is None
        await connection.put("Q", b"later")
        assert got(await connection.get("Q")).body == b"later"

    run(test)


def test_a_wait_ends_in_time(run: Run) -> None:
    async def test(connection: Connection) -> None:
        assert await connection.get("Q", wait_s=0.05) is None
        await connection.put("Q", b"later")
        assert await connection.get("Q") is not None

    run(test)


def test_a_full_queue_is_waited_for(run: Run) -> None:
    async def test(connection: Connection) -> None:
        await connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        await connection.put("Q", b"1")
        with pytest.raises(QueueFull):
            await connection.put("Q", b"2", wait_s=0.05)
        waiting = asyncio.create_task(connection.put("Q", b"2", wait_s=60))
        await asyncio.sleep(0.05)
        assert got(await connection.get("Q")).body == b"1"
        await waiting
        assert got(await connection.get("Q")).body == b"2"

    run(test)


def test_requests_meet_their_replies(run: Run) -> None:
    async def test(connection: Connection) -> None:
        async def serve() -> None:
            for _ in range(10):
                request = got(await connection.get("Q", wait_s=60))
                await connection.reply(request, request.body.upper())

        server = asyncio.create_task(serve())
        replies = await asyncio.gather(*(connection.request("Q", b"r%d" % n, timeout_s=60) for n in range(10)))
        assert [reply.body for reply in replies] == [b"R%d" % n for n in range(10)]
        await server
        with pytest.raises(RequestTimedOut):
            await connection.request("Q", b"nobody", timeout_s=0.05)

    run(test)


def test_a_prepared_unit_is_resolved(run: Run) -> None:
    async def test(connection: Connection) -> None:
        unit = connection.unit_of_work()
        await unit.put("Q", b"x", persistent=True)
        await unit.prepare(b"xid")
        assert await connection.in_doubt() == [b"xid"]
        await connection.resolve(b"xid", commit=True)
        assert got(await connection.get("Q")).body == b"x"

    run(test)


def test_a_closed_connection_has_backed_out_and_refuses_every_verb(run: Run) -> None:
    async def test(connection: Connection) -> None:
        unit = connection.unit_of_work()
        await unit.put("Q", b"")
        await connection.close()
        await connection.close()
        assert unit.state == "backed out"
        for verb in (
            lambda: connection.put("Q", b""),
            lambda: connection.get("Q"),
            lambda: connection.request("Q", b""),
            lambda: connection.mqsc("PING QMGR"),
            lambda: connection.consume("Q"),
            connection.dynamic_queue,
        ):
            with pytest.raises(ConnectionClosed):
                await verb()

    run(test)


def test_a_full_log_is_given_as_many_checkpoints_as_by_every_other_binding(folder: Path) -> None:
    path = folder.parent / "SMALL"
    create(path, log=LogSettings(segment_bytes=64 * 1024, primary=3, secondary=1))

    async def main() -> None:
        async with await entrepot.aio.connect(f"embedded:{path}") as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)")
            for _ in range(100):
                await connection.put("Q", bytes(20_000), persistent=True)
                assert await connection.get("Q") is not None

    asyncio.run(main())
