# SPDX-License-Identifier: Apache-2.0
"""Requests and replies through a channel, also when the connection with its reply queue is no more."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import entrepot.aio
from channels.processes import ServerProcess, until
from channels.proxy import Proxy
from entrepot import Connection, Message, MessageType
from entrepot.client.blocking import connect
from entrepot.errors import ConnectionLost, InvalidArgument, QueueNotFound, RequestTimedOut
from entrepot.testing.servers import ServerThread


@contextmanager
def serving(url: str, workers: int = 2) -> Iterator[None]:
    """Answers whatever is asked on Q until it is told to stop."""

    def serve(connection: Connection) -> None:
        with connection:
            while (request := connection.get("Q", wait_s=60)) is not None and request.body != b"stop":
                connection.reply(request, request.body.upper())

    threads = [threading.Thread(target=serve, args=(connect(url),)) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        with connect(url) as connection:
            for _ in threads:
                connection.put("Q", b"stop")
        for thread in threads:
            thread.join(90)
            assert not thread.is_alive()


def test_each_thread_gets_its_own_reply(server: ServerThread, connection: Connection) -> None:
    wrong: list[object] = []

    def ask(thread: int) -> None:
        for number in range(50):
            body = b"t%d-%d" % (thread, number)
            reply = connection.request("Q", body, timeout_s=60)
            if reply.body != body.upper() or reply.type is not MessageType.REPLY:
                wrong.append(reply)

    with serving(server.unix_url):
        threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
    assert wrong == []


def test_many_tasks_ask_at_once(server: ServerThread) -> None:
    async def main() -> list[Message]:
        async with await entrepot.aio.connect(server.unix_url) as connection:
            return await asyncio.gather(*(connection.request("Q", b"r%d" % n, timeout_s=60) for n in range(500)))

    with serving(server.unix_url):
        replies = asyncio.run(main())
    assert [reply.body for reply in replies] == [b"R%d" % n for n in range(500)]
    assert len({reply.correlation_id for reply in replies}) == 500


def test_a_reply_is_as_persistent_and_as_urgent_as_its_request(connection: Connection) -> None:
    for persistent in (True, False):
        message_id = connection.put(
            "Q", b"question", type=MessageType.REQUEST, reply_to="R", persistent=persistent, priority=7
        )
        request = connection.get("Q")
        assert request is not None
        connection.reply(request, b"answer")
        reply = connection.get("R", correlation_id=message_id, wait_s=60)
        assert reply is not None
        assert (reply.body, reply.persistent, reply.priority) == (b"answer", persistent, 7)


def test_a_message_that_wants_no_reply_gets_none(connection: Connection) -> None:
    connection.put("Q", b"no question")
    message = connection.get("Q")
    assert message is not None
    with pytest.raises(InvalidArgument):
        connection.reply(message, b"answer")


def test_a_reply_that_nobody_waits_for_any_more_is_refused_without_harm(
    connection: Connection, other: Connection
) -> None:
    with pytest.raises(RequestTimedOut):
        other.request("Q", b"question", timeout_s=0.2, persistent=False)
    connection.put("Q", b"question", type=MessageType.REQUEST, reply_to="ENTREPOT.GONE")
    request = connection.get("Q", wait_s=60)
    assert request is not None
    connection.reply(request, b"answer")
    with pytest.raises(QueueNotFound), connection.pipeline() as pipeline:
        pipeline.put("R", b"")
    assert connection.get("R") is not None


def test_a_request_on_its_way_when_the_connection_breaks_has_an_unknown_outcome(
    proxy: Proxy, connection: Connection
) -> None:
    with connect(proxy.url) as asker:
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                asker.request("Q", b"question", timeout_s=60)
            except ConnectionLost as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        until(lambda: list(connection.browse("Q")), "it was put")
        proxy.cut()
        thread.join(90)
        assert [error.outcome for error in errors] == ["unknown"]  # type: ignore[attr-defined]


def test_the_reply_queue_is_made_again_after_a_reconnect(server: ServerThread, proxy: Proxy) -> None:
    with serving(server.unix_url), connect(proxy.url) as connection:
        assert connection.request("Q", b"one", timeout_s=60).body == b"ONE"
        before = connection.reply_queue()
        proxy.cut()
        time.sleep(0.05)
        assert connection.request("Q", b"two", timeout_s=60).body == b"TWO"
        assert connection.reply_queue() != before


def test_the_reply_queue_is_made_again_after_a_restart(process: ServerProcess) -> None:
    with process.connect() as connection, serving(process.unix_url):
        assert connection.request("Q", b"one", timeout_s=60).body == b"ONE"
        process.restart()
        assert connection.request("Q", b"two", timeout_s=60).body == b"TWO"
        assert connection.request("Q", b"three", timeout_s=60).body == b"THREE"


def test_tasks_make_their_reply_queue_again_too(server: ServerThread, proxy: Proxy) -> None:
    async def main() -> None:
        async with await entrepot.aio.connect(proxy.url) as connection:
            assert (await connection.request("Q", b"one", timeout_s=60)).body == b"ONE"
            proxy.cut()
            await asyncio.sleep(0.05)
            replies = await asyncio.gather(*(connection.request("Q", b"r%d" % n, timeout_s=60) for n in range(20)))
            assert [reply.body for reply in replies] == [b"R%d" % n for n in range(20)]

    with serving(server.unix_url):
        asyncio.run(main())
