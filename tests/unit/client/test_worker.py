# SPDX-License-Identifier: Apache-2.0
"""Handlers of a worker: what they are given, what becomes of their results, and of messages they fail with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec
import pytest

import entrepot
import entrepot.aio
from entrepot import Message, Worker
from entrepot.client.worker import Backoff
from entrepot.errors import InvalidArgument, QueueNotFound

_names = count(1)

QUEUES = "\n".join(f"DEFINE QLOCAL({name})" for name in ("Q", "R", "DONE", "DEAD"))


@dataclass
class Order:
    number: int
    cents: int = 0


class Line(msgspec.Struct):
    crates: int


class Model:
    """What pydantic's models have."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    @classmethod
    def model_validate_json(cls, body: bytes) -> Model:
        if not body.startswith(b"{"):
            raise ValueError("it is no object")
        return cls(body)

    def model_dump_json(self) -> str:
        return self.text.decode()


@pytest.fixture
def url() -> Iterator[str]:
    name = f"memory:W{next(_names)}"
    with entrepot.connect(name) as connection:
        connection.mqsc(f"{QUEUES}\nALTER QMGR DEADQ(DEAD)")
        yield name


def play(url: str, worker: Worker, work: Callable[[entrepot.aio.Connection], Awaitable[Any]]) -> Any:
    """Do something while a worker runs; what it returns."""

    async def main() -> Any:
        async with await entrepot.aio.connect(url) as connection, worker:
            return await asyncio.wait_for(work(connection), 60)

    return asyncio.run(main())


async def comes(connection: entrepot.aio.Connection, queue: str) -> Message:
    message = await connection.get(queue, wait_s=60)
    assert message is not None
    return message


@pytest.mark.parametrize(
    ("annotation", "body", "given"),
    [
        (bytes, b"\x00", b"\x00"),
        (None, b"any", b"any"),
        (str, "für".encode(), "für"),
        (dict, b'{"a": 1}', {"a": 1}),
        (list[int], b"[1, 2]", [1, 2]),
        (Order, b'{"number": 7}', Order(7)),
        (Line, b'{"crates": 42}', Line(42)),
    ],
)
def test_a_body_is_what_the_annotation_says(url: str, annotation: Any, body: bytes, given: Any) -> None:
    worker, seen = Worker(url), []

    async def handler(body):  # type: ignore[no-untyped-def]
        seen.append(body)
        return b"done"

    if annotation is not None:
        handler.__annotations__["body"] = annotation
    worker.handles("Q", sends_to="DONE")(handler)

    async def work(connection: entrepot.aio.Connection) -> None:
        await connection.put("Q", body)
        await comes(connection, "DONE")

    play(url, worker, work)
    assert seen == [given]


def test_a_result_goes_where_it_is_sent_or_to_who_asks(url: str) -> None:
    worker = Worker(url)

    @worker.handles("Q", sends_to="DONE")
    async def sent(order: Order, message: Message) -> Order:
        assert message.priority == 3
        return Order(order.number + 1)

    @worker.handles("R")
    def answered(model: Model) -> Model:
        return model

    async def work(connection: entrepot.aio.Connection) -> None:
        message_id = await connection.put("Q", b'{"number": 1}', priority=3, persistent=True)
        done = await comes(connection, "DONE")
        assert (done.body, done.correlation_id, done.persistent) == (b'{"number":2,"cents":0}', message_id, True)
        reply = await connection.request("R", b"{}")
        assert reply.body == b"{}"

    play(url, worker, work)


@pytest.mark.parametrize("body", [b"nonsense", b'{"number": "x"}'])
def test_a_body_that_cannot_be_read_is_set_aside_at_once_and_harms_no_neighbour(url: str, body: bytes) -> None:
    worker = Worker(url)

    @worker.handles("Q", sends_to="DONE")
    async def handler(order: Order) -> int:
        return order.number

    async def work(connection: entrepot.aio.Connection) -> Message:
        await connection.put("Q", body)
        await connection.put("Q", b'{"number": 1}')
        assert (await comes(connection, "DONE")).body == b"1"
        return await comes(connection, "DEAD")

    dead = play(url, worker, work)
    assert (dead.body, dead.properties["dead_letter_problem"][:20]) == (body, "BodyUnreadable [Q22 ")


def test_a_handler_that_fails_has_done_nothing_and_is_tried_as_often_as_it_says(url: str) -> None:
    worker, tries = Worker(url), []

    @worker.handles("Q", retries=2, backoff=lambda tried: 0.001 * tried)
    async def handler(body: bytes, message: Message, unit: entrepot.aio.UnitOfWork) -> None:
        tries.append(message.backout_count)
        await unit.put("DONE", body)
        raise RuntimeError("no such customer")

    async def work(connection: entrepot.aio.Connection) -> Message:
        await connection.put("Q", b"x")
        dead = await comes(connection, "DEAD")
        assert await connection.get("DONE") is None
        return dead

    dead = play(url, worker, work)
    assert tries == [0, 1, 2]
    assert dead.properties["dead_letter_problem"] == "RuntimeError: no such customer"


def test_calls_run_at_a_time_and_a_stop_lets_them_end(url: str) -> None:
    worker = Worker(url)
    running, go_on = [], asyncio.Event()

    @worker.handles("Q", concurrency=3, sends_to="DONE")
    async def handler(body: bytes) -> bytes:
        running.append(body)
        await go_on.wait()
        return body

    async def main() -> list[bytes]:
        async with await entrepot.aio.connect(url) as connection:
            for number in range(5):
                await connection.put("Q", b"%d" % number)
            await worker.start()
            async with asyncio.timeout(60):
                while len(running) < 3:
                    await asyncio.sleep(0.001)
            stopping = asyncio.create_task(worker.stop())
            await asyncio.sleep(0)
            go_on.set()
            await stopping
            return [message.body async for message in connection.browse("Q")]

    assert asyncio.run(main()) == [b"3", b"4"]
    with entrepot.connect(url) as connection:
        assert sorted(message.body for message in connection.browse("DONE")) == [b"0", b"1", b"2"]
        assert {message.backout_count for message in connection.browse("Q")} == {0}


def test_a_call_that_does_not_end_is_cancelled_and_its_message_comes_again(url: str) -> None:
    worker, begun = Worker(url), asyncio.Event()

    @worker.handles("Q")
    async def handler(body: bytes) -> None:
        begun.set()
        await asyncio.sleep(3600)

    async def main() -> None:
        async with await entrepot.aio.connect(url) as connection:
            await connection.put("Q", b"x")
            await worker.start()
            await asyncio.wait_for(begun.wait(), 60)
            await worker.stop(patience_s=0.01)
            (left,) = [message async for message in connection.browse("Q")]
            assert left.backout_count == 1

    asyncio.run(main())


def test_a_queue_that_is_not_there_ends_the_worker_with_its_error(url: str) -> None:
    worker = Worker(url)

    @worker.handles("NOWHERE")
    async def handler(body: bytes) -> None:
        raise AssertionError

    async def main() -> None:
        await worker.start()
        await asyncio.wait(worker._tasks)
        await worker.stop()

    with pytest.raises(QueueNotFound):
        asyncio.run(main())


def test_what_a_handler_cannot_be_given_is_told_when_it_is_registered() -> None:
    worker = Worker("memory:")

    def two(one: bytes, other: bytes) -> None: ...

    def threaded(unit: entrepot.aio.UnitOfWork) -> None: ...

    def strange(body: list[int] | set[int]) -> None: ...

    for handler in (two, threaded, strange):
        with pytest.raises(InvalidArgument):
            worker.handles("Q")(handler)
    with pytest.raises(InvalidArgument):
        asyncio.run(worker.start())
    for wrong in ({"retries": -1}, {"concurrency": 0}):
        with pytest.raises(InvalidArgument):
            worker.handles("Q", **wrong)  # type: ignore[arg-type]


def test_messages_stay_away_longer_each_time() -> None:
    assert [Backoff()(tries) for tries in (0, 1, 2, 8, 100)] == [1.0, 2.0, 4.0, 256.0, 300.0]
