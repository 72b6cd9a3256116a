# SPDX-License-Identifier: Apache-2.0
"""Tasks that are cancelled at any moment, through a channel: every message is with somebody, or on its queue."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

import entrepot.aio
from entrepot.aio import Connection
from entrepot.testing.servers import ServerThread

GETS = 300


def run(server: ServerThread, test: Callable[[Connection, Connection], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            await entrepot.aio.connect(server.unix_url) as reader,
            await entrepot.aio.connect(server.unix_url) as writer,
        ):
            await test(reader, writer)

    asyncio.run(asyncio.wait_for(main(), 120))


async def rest(connection: Connection, queue: str = "Q", count: int = 0) -> list[int]:
    """All that is left, of which `count` must come."""
    found: list[int] = []
    while (message := await connection.get(queue, wait_s=60 if len(found) < count else 0.3)) is not None:
        found.append(int(message.body))
    return found


async def write(writer: Connection, count: int, persistent: Callable[[int], bool], chance: random.Random) -> None:
    for number in range(count):
        await writer.put("Q", b"%d" % number, persistent=persistent(number))
        # Slower than readers, so that most of them wait.
        await asyncio.sleep(chance.random() * 0.004)


@pytest.mark.parametrize("kind", ["persistent", "nonpersistent", "mixed"])
@pytest.mark.parametrize("seed", [1, 2])
def test_cancelled_gets_lose_nothing(server: ServerThread, kind: str, seed: int) -> None:
    chance = random.Random(seed)
    persistent = {
        "persistent": lambda _: True,
        "nonpersistent": lambda _: False,
        "mixed": lambda number: number % 2 == 0,
    }[kind]

    async def test(reader: Connection, writer: Connection) -> None:
        got: list[int] = []
        outcomes: Counter[str] = Counter()

        async def get() -> None:
            message = await reader.get("Q", wait_s=60)
            outcomes["got" if message is not None else "none"] += 1
            if message is not None:
                got.append(int(message.body))

        writing = asyncio.create_task(write(writer, GETS // 3, persistent, chance))
        # As many as it takes on a busy machine, else this has tested nothing.
        while outcomes.total() < GETS or min(outcomes["cancelled"], outcomes["got"]) <= 10:
            task = asyncio.create_task(get())
            await asyncio.sleep(chance.choice((0, 0, 0.0005, 0.001, 0.003)) * chance.random())
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                outcomes["cancelled"] += 1
        await writing
        got += await rest(reader, count=GETS // 3 - len(got))
        assert sorted(got) == list(range(GETS // 3))

    run(server, test)


def test_many_gets_cancelled_at_once_lose_nothing(server: ServerThread) -> None:
    async def test(reader: Connection, writer: Connection) -> None:
        for round_ in range(10):
            tasks = [asyncio.create_task(reader.get("Q", wait_s=60)) for _ in range(50)]
            putting = [asyncio.create_task(writer.put("Q", b"%d" % n, persistent=n % 3 == 0)) for n in range(50)]
            await asyncio.sleep(round_ * 0.0005)
            for task in tasks:
                task.cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*putting)
            got = [int(each.body) for each in found if each is not None and not isinstance(each, BaseException)]
            got += await rest(reader, count=50 - len(got))
            assert sorted(got) == list(range(50))

    run(server, test)


def test_cancelled_gets_of_a_unit_belong_to_it_or_not_at_all(server: ServerThread) -> None:
    chance = random.Random(3)

    async def test(reader: Connection, writer: Connection) -> None:
        got: list[int] = []
        writing = asyncio.create_task(write(writer, 100, lambda n: n % 2 == 0, chance))
        for number in range(150):
            unit = reader.unit_of_work()
            verb = unit.get("Q", wait_s=60) if number % 2 else unit.get_many("Q", 3, wait_s=60)
            task = asyncio.create_task(verb)  # type: ignore[arg-type]
            await asyncio.sleep(chance.random() * 0.002)
            task.cancel()
            try:
                found = await task
            except asyncio.CancelledError:
                found = None
            # It commits, so what its reader has not seen must not be in it.
            await unit.commit()
            messages = found if isinstance(found, list) else [found] if found is not None else []
            got += [int(message.body) for message in messages]
        await writing
        got += await rest(reader, count=100 - len(got))
        assert sorted(got) == list(range(100))

    run(server, test)


def test_cancelled_consumers_lose_nothing(server: ServerThread) -> None:
    chance = random.Random(4)

    async def test(reader: Connection, writer: Connection) -> None:
        got: list[int] = []

        async def consume() -> None:
            async with await reader.consume("Q", read_ahead=5) as consumption:
                async for message in consumption:
                    got.append(int(message.body))

        writing = asyncio.create_task(write(writer, 300, lambda n: n % 2 == 0, chance))
        while not writing.done():
            task = asyncio.create_task(consume())
            await asyncio.sleep(chance.random() * 0.01)
            task.cancel()
            await asyncio.wait([task], timeout=60)
            assert task.cancelled(), "it heeds its cancellation"
        got += await rest(reader, count=300 - len(got))
        assert sorted(got) == list(range(300))

    run(server, test)


def test_a_cancelled_put_is_there_or_not_and_the_connection_goes_on(server: ServerThread) -> None:
    chance = random.Random(5)

    async def test(reader: Connection, writer: Connection) -> None:
        done, cancelled = set(), set()
        for number in range(100):
            task = asyncio.create_task(writer.put("Q", b"%d" % number, persistent=True))
            await asyncio.sleep(chance.random() * 0.001)
            task.cancel()
            try:
                await task
                done.add(number)
            except asyncio.CancelledError:
                cancelled.add(number)
        found = await rest(reader)
        assert len(found) == len(set(found))
        assert done <= set(found) <= done | cancelled
        await writer.put("Q", b"0")

    run(server, test)


def test_a_cancelled_commit_happened_as_a_whole_or_not_at_all(server: ServerThread) -> None:
    chance = random.Random(6)

    async def test(reader: Connection, writer: Connection) -> None:
        for number in range(60):
            unit = writer.unit_of_work()
            await unit.put("Q", b"%d" % number, persistent=True)
            await unit.put("R", b"%d" % number, persistent=True)
            task = asyncio.create_task(unit.commit())
            await asyncio.sleep(chance.random() * 0.001)
            task.cancel()
            try:
                await task
                assert unit.state == "committed"
            except asyncio.CancelledError:
                assert unit.state in ("unknown", "active")
                if unit.state == "active":
                    await unit.back_out()
        # When this one has happened, all those before it have, or will not.
        async with writer.unit_of_work() as unit:
            for queue in ("Q", "R"):
                await unit.put(queue, b"60", persistent=True)
        assert sorted(await rest(reader)) == sorted(await rest(reader, "R"))

    run(server, test)
