# SPDX-License-Identifier: Apache-2.0
"""The asyncio connection: the verbs of the blocking one, and what only tasks can do to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import entrepot.aio
from entrepot.aio import Connection
from entrepot.errors import QueueNotFound, RequestTimedOut, UnitFinished
from entrepot.queues.folder import create
from entrepot.recovery_log.settings import LogSettings

Test = Callable[[Connection], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Test], None]:
    """Runs a coroutine with a connection whose queue manager has the queues Q and R."""

    def runner(test: Test) -> None:
        async def main() -> None:
            async with await entrepot.aio.connect(f"embedded:{tmp_path / 'qm'}") as connection:
                await connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(R)")
                await test(connection)

        create(tmp_path / "qm", log=LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4))
        asyncio.run(asyncio.wait_for(main(), 30))

    return runner


def test_put_and_get(run: Callable[[Test], None]) -> None:
    async def test(connection: Connection) -> None:
        message_id = await connection.put("Q", b"one", persistent=True, properties={"region": "EU"})
        await connection.put("Q", b"two")
        assert [message.body async for message in connection.browse("Q")] == [b"one", b"two"]
        message = await connection.get("Q", selector="region = 'EU'")
        assert message is not None
        assert (message.body, message.message_id) == (b"one", message_id)
        assert (await connection.get("Q", wait_s=1)).body == b"two"  # type: ignore[union-attr]
        assert await connection.get("Q") is None
        with pytest.raises(QueueNotFound):
            await connection.put("NOPE", b"")

    run(test)


def test_a_unit_of_work_commits_or_backs_out(run: Callable[[Test], None]) -> None:
    async def test(connection: Connection) -> None:
        await connection.put("Q", b"order", persistent=True)
        with pytest.raises(ZeroDivisionError):
            async with connection.unit_of_work() as unit:
                assert await unit.get("Q") is not None
                await unit.put("R", b"never", persistent=True)
                _ = 1 / 0
        async with connection.unit_of_work() as unit:
            message = await unit.get("Q")
            assert message is not None
            assert message.backout_count == 1
            await unit.put("R", message.body, persistent=True)
        assert unit.state == "committed"
        with pytest.raises(UnitFinished):
            await unit.put("R", b"late")
        assert (await connection.get("R")).body == b"order"  # type: ignore[union-attr]
        assert await connection.get("R") is None

    run(test)


def test_many_tasks_wait_on_one_queue_and_each_message_goes_to_one(run: Callable[[Test], None]) -> None:
    async def test(connection: Connection) -> None:
        readers = [asyncio.create_task(connection.get("Q", wait_s=20)) for _ in range(50)]
        await asyncio.sleep(0.01)
        await asyncio.gather(*(connection.put("Q", b"%d" % n, persistent=n % 2 == 0) for n in range(50)))
        messages = await asyncio.gather(*readers)
        assert sorted(int(message.body) for message in messages if message) == list(range(50))

    run(test)


def test_many_tasks_commit_and_nothing_is_lost(run: Callable[[Test], None]) -> None:
    async def test(connection: Connection) -> None:
        async def commit(task: int) -> None:
            for number in range(20):
                async with connection.unit_of_work() as unit:
                    await unit.put("Q", b"%d-%d" % (task, number), persistent=True)

        await asyncio.gather(*(commit(task) for task in range(32)))
        bodies = [message.body async for message in connection.browse("Q")]
        assert len(set(bodies)) == len(bodies) == 640

    run(test)


def test_a_cancelled_wait_loses_no_message(run: Callable[[Test], None]) -> None:
    async def test(connection: Connection) -> None:
        for number in range(40):
            reader = asyncio.create_task(connection.get("Q", wait_s=20))
            await asyncio.sleep(0)
            await connection.put("Q", b"%d" % number, persistent=number % 2 == 0)
            reader.cancel()
            done = await asyncio.gather(reader, return_exceptions=True)
            if isinstance(done[0], BaseException):
                message = await connection.get("Q", wait_s=5)
                assert message is not None
                assert message.body == b"%d" % number
        assert await connection.get("Q") is None

    run(test)


def test_a_wait_ends_in_time(run: Callable[[Test], None]) -> None:
    async def test(connection: Connection) -> None:
        assert await connection.get("Q", wait_s=0.05) is None
        await connection.put("Q", b"later")
        assert await connection.get("Q") is not None

    run(test)


def test_requests_meet_their_replies(run: Callable[[Test], None]) -> None:
    async def test(connection: Connection) -> None:
        async def serve() -> None:
            for _ in range(10):
                request = await connection.get("Q", wait_s=10)
                assert request is not None
                await connection.put(request.reply_to, request.body.upper(), correlation_id=request.message_id)

        server = asyncio.create_task(serve())
        replies = await asyncio.gather(*(connection.request("Q", b"r%d" % n, timeout_s=10) for n in range(10)))
        assert sorted(reply.body for reply in replies) == sorted(b"R%d" % n for n in range(10))
        await server
        with pytest.raises(RequestTimedOut):
            await connection.request("Q", b"nobody", timeout_s=0.05)

    run(test)


def test_a_prepared_unit_is_resolved(run: Callable[[Test], None]) -> None:
    async def test(connection: Connection) -> None:
        unit = connection.unit_of_work()
        await unit.put("Q", b"x", persistent=True)
        await unit.prepare(b"xid")
        assert await connection.in_doubt() == [b"xid"]
        await connection.resolve(b"xid", commit=True)
        assert (await connection.get("Q")).body == b"x"  # type: ignore[union-attr]

    run(test)
