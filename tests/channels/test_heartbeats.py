# SPDX-License-Identifier: Apache-2.0
"""Who falls silent is taken for dead, and who only takes its time is not."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import entrepot.aio
from channels.processes import Program, ServerProcess, until, without_stalls
from channels.threads import in_threads
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import ConnectFailed, ConnectionLost
from entrepot.testing.servers import ServerThread

# Two and a half heartbeats of a second, the round in which a server looks after its partners, and a busy machine.
NOTICED_S = 2.5 + 1.0 + 46.5


@pytest.fixture
def server(quick: Path) -> Iterator[ServerThread]:
    with ServerThread(quick) as server:
        yield server


@pytest.fixture
def process(quick: Path) -> Iterator[ServerProcess]:
    with ServerProcess(quick) as process:
        yield process


@contextmanager
def frozen(pid: int) -> Iterator[float]:
    """A process that does nothing any more, and whose connections stay open; yields since when."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield time.monotonic()
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_frozen_client_is_ended_and_its_unit_backed_out(server: ServerThread, connection: Connection) -> None:
    lines = """
        unit = connection.unit_of_work()
        print(unit.get("Q").body.decode())
        sys.stdin.readline()
        connection.mqsc("PING QMGR")
        print("lives")
        sys.stdin.readline()
    """

    def work_and_freeze() -> None:
        connection.mqsc("CLEAR QLOCAL(Q)")
        connection.put("Q", b"work", persistent=True)
        with Program(server.unix_url, lines) as program:
            assert program.said() == "work"
            assert connection.get("Q", wait_s=3) is None, "it works for longer than its heartbeats, and is not dead"
            since = time.monotonic()
            program.tell()
            assert program.said() == "lives"
            with frozen(program.pid):
                message = connection.get("Q", wait_s=NOTICED_S)
                assert message is not None
                assert message.backout_count == 1
                assert time.monotonic() - since > 2.2, "no sooner than two and a half heartbeats"

    without_stalls(work_and_freeze)


def test_a_frozen_client_that_does_not_read_is_ended_too(server: ServerThread, connection: Connection) -> None:
    """The server has more to say than the connection takes, and must not wait for ever to have said it."""
    connection.mqsc("ALTER QLOCAL(Q) MAXMSGL(10000000)")
    for number in range(20):
        connection.put("Q", b"%d " % number + bytes(1_000_000), persistent=True)
    lines = """
        consumption = connection.consume("Q", read_ahead=20)
        print("ready")
        sys.stdin.readline()
    """
    with Program(server.unix_url, lines) as program:
        assert program.said() == "ready"
        with frozen(program.pid):
            until(lambda: connection.mqsc("DISPLAY QSTATUS(Q) UNCOM")[0].rows[0]["UNCOM"] == 0, "ended")
            assert len(list(connection.browse("Q"))) == 20


def test_who_takes_his_time_is_not_ended(server: ServerThread, connection: Connection) -> None:
    """In a unit of work, with a consumption, with a pipeline that is never answered, and in a task; all at once."""

    def work_in_a_unit() -> None:
        with connect(server.unix_url) as client:
            with client.unit_of_work() as unit:
                assert unit.get("Q") is not None
                time.sleep(4)
                unit.put("R", b"done", persistent=True)
            assert client.calls.core.opened == 1, "by the same connection"

    def wait_for_nothing() -> None:
        with connect(server.unix_url) as client:
            consumption = client.consume("R", selector="late = TRUE")
            time.sleep(4)
            client.put("R", b"after a while", properties={"late": True})
            assert consumption.get(wait_s=60) is not None
            assert client.calls.core.opened == 1

    def only_tell() -> None:
        with connect(server.unix_url) as client:
            with client.pipeline() as pipeline:
                for _ in range(40):
                    pipeline.put("TOLD", b"")
                    time.sleep(0.1)
            assert client.calls.core.opened == 1

    async def task() -> None:
        async with await entrepot.aio.connect(server.unix_url) as client:
            async with client.unit_of_work() as unit:
                await unit.put("R", b"begun", persistent=True)
                await asyncio.sleep(4)
            assert client.calls.core.opened == 1

    def all_at_once() -> None:
        connection.mqsc("CLEAR QLOCAL(TOLD)")
        connection.put("Q", b"work", persistent=True)
        in_threads([work_in_a_unit, wait_for_nothing, only_tell, lambda: asyncio.run(task())])
        assert sum(1 for _ in connection.browse("TOLD")) == 40

    connection.mqsc("DEFINE QLOCAL(TOLD)")
    without_stalls(all_at_once)


def test_who_waits_for_room_on_a_full_queue_is_not_ended(server: ServerThread, connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")

    def wait() -> None:
        connection.mqsc("CLEAR QLOCAL(Q)")
        connection.put("Q", b"1")
        with connect(server.unix_url) as producer, connect(server.unix_url) as other:
            waiting = threading.Thread(target=lambda: producer.put("Q", b"2", wait_s=60))
            waiting.start()
            with other.pipeline() as pipeline:
                pipeline.put("Q", b"3", wait_s=60)  # holds up all that comes behind it
                pipeline.put("R", b"behind")
                time.sleep(4.5)
                for body in (b"1", {b"2", b"3"}, {b"2", b"3"}):
                    message = connection.get("Q", wait_s=60)
                    assert message is not None
                    assert message.body in body
            waiting.join(60)
            assert not waiting.is_alive()
            assert (producer.calls.core.opened, other.calls.core.opened) == (1, 1)

    without_stalls(wait)


# --- a server that falls silent -----------------------------------------------------------------------


def test_a_frozen_server_is_noticed_by_who_waits(process: ServerProcess) -> None:
    begun = time.monotonic()
    connection = process.connect(reconnect_s=0)
    with frozen(process.pid) as since:
        with pytest.raises(ConnectionLost, match="nothing was heard"):
            connection.get("Q", wait_s=60)
        assert time.monotonic() - begun > 2.4, "no sooner than two and a half heartbeats"
        assert time.monotonic() - since < NOTICED_S
        connection.close()


def test_a_frozen_server_is_noticed_by_who_waits_for_a_while(process: ServerProcess) -> None:
    connection = process.connect(reconnect_s=0)
    consumption = connection.consume("Q")
    with frozen(process.pid) as since:
        with pytest.raises(ConnectFailed, match="nothing was heard"):
            consumption.get(wait_s=60)
        assert time.monotonic() - since < NOTICED_S
        connection.close()


def test_a_frozen_server_is_noticed_by_who_has_much_to_say(process: ServerProcess) -> None:
    connection = process.connect(reconnect_s=0)
    connection.mqsc("ALTER QLOCAL(Q) MAXMSGL(100000000)")
    with frozen(process.pid) as since:
        with pytest.raises(ConnectionLost):
            connection.put("Q", bytes(50_000_000))
        assert time.monotonic() - since < NOTICED_S
        connection.close()


def test_a_frozen_server_is_noticed_by_tasks(process: ServerProcess) -> None:
    async def main() -> None:
        connection = await entrepot.aio.connect(process.unix_url, reconnect_s=0)
        with frozen(process.pid) as since:
            with pytest.raises(ConnectionLost, match="nothing was heard"):
                await connection.get("Q", wait_s=60)
            assert time.monotonic() - since < NOTICED_S
            await connection.close()

    asyncio.run(main())


def test_closing_does_not_wait_for_a_frozen_server(process: ServerProcess) -> None:
    connection = process.connect()
    with frozen(process.pid) as since:
        connection.close()
        assert time.monotonic() - since < NOTICED_S


def test_a_get_goes_on_when_a_frozen_server_thaws(process: ServerProcess) -> None:
    with process.connect() as connection, process.connect() as writer:
        found: list[object] = []
        reader = threading.Thread(target=lambda: found.append(connection.get("Q", wait_s=60)))
        reader.start()
        with frozen(process.pid):
            # By a connection that the server, too, may take for dead the put would have an unknown outcome.
            until(lambda: writer.calls.line._socket is None, "it has noticed")
        writer.put("Q", b"still wanted", persistent=True)
        reader.join(60)
        assert found[0].body == b"still wanted"  # type: ignore[attr-defined]
