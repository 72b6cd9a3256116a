# SPDX-License-Identifier: Apache-2.0
"""Who produces faster than others read waits; and nobody's memory grows with what has not been read."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import entrepot.aio
from channels.processes import Program, ServerProcess, forget_peak, memory_bytes
from conftest import MEMORY, let_tester_in
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.engine.folder import create
from entrepot.errors import ChannelError, QueueFull
from entrepot.limits import MIB

# A few buffers of a megabyte, the bodies that one reader may hold, and what Python does not give back at once.
GROWTH_MAX = 200 * MIB
MESSAGES = 500
"""Of a megabyte each."""


@pytest.fixture(scope="module")
def server_of_module() -> Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as parent:
        path = Path(parent) / "QM1"
        create(path)
        let_tester_in(path)
        with ServerProcess(path) as process:
            with process.connect() as connection:
                connection.mqsc(f"DEFINE QLOCAL(Q) BUFFER({16 * MIB})\nDEFINE QLOCAL(R) MAXDEPTH(10)")
            yield process


@pytest.fixture
def backlog(server_of_module: ServerProcess) -> ServerProcess:
    """A server with much more on its queue than may come into its memory, most of it on disk."""
    with server_of_module.connect() as connection:
        depth = int(str(connection.mqsc("DISPLAY QSTATUS(Q) CURDEPTH")[0].rows[0]["CURDEPTH"]))
        with connection.pipeline() as pipeline:
            for _ in range(MESSAGES - depth):
                pipeline.put("Q", bytes(MIB))
    return server_of_module


def growth(process: ServerProcess, before: int) -> int:
    return memory_bytes(process.pid, "VmHWM") - before


def test_a_reader_that_does_not_read_costs_no_more_than_a_few_buffers(backlog: ServerProcess) -> None:
    lines = """
        consumption = connection.consume("Q", read_ahead=1000)
        print("ready")
        sys.stdin.readline()
    """
    before = memory_bytes(backlog.pid)
    forget_peak(backlog.pid)
    with Program(backlog.unix_url, lines) as program:
        program.said()
        os.kill(program.pid, signal.SIGSTOP)
        time.sleep(2)
        assert growth(backlog, before) < GROWTH_MAX


def test_a_reader_that_takes_its_time_costs_no_more_than_it_may_hold(backlog: ServerProcess) -> None:
    """An event loop reads whatever comes; so only what its reader has used makes room for more."""

    async def main() -> int:
        async with await entrepot.aio.connect(backlog.unix_url) as connection:
            consumption = await connection.consume("Q", read_ahead=1_000)
            assert await consumption.get(60) is not None
            await asyncio.sleep(2)
            return growth(backlog, before)

    before = memory_bytes(backlog.pid)
    forget_peak(backlog.pid)
    assert asyncio.run(main()) < GROWTH_MAX


def test_a_long_backlog_is_read_to_its_end(backlog: ServerProcess) -> None:
    before = memory_bytes(backlog.pid)
    forget_peak(backlog.pid)
    with backlog.connect() as connection, connection.consume("Q", read_ahead=1_000, wait_s=60) as consumption:
        for _ in range(MESSAGES):
            next(consumption)
        assert consumption.get(wait_s=0.2) is None
    assert growth(backlog, before) < GROWTH_MAX


def test_a_fast_producer_is_held_back_by_a_small_queue(backlog: ServerProcess) -> None:
    """Neither its own memory nor the server's grows with what waits for room."""
    lines = f"""
        with connection.pipeline() as pipeline:
            for number in range(300):
                pipeline.put("R", bytes({MIB}), wait_s=60)
        print("done")
        sys.stdin.readline()
    """
    before = memory_bytes(backlog.pid)
    forget_peak(backlog.pid)
    with Program(backlog.unix_url, lines) as program, backlog.connect() as reader:
        for number in range(300):
            assert reader.get("R", wait_s=60) is not None
            if number in (10, 100):
                time.sleep(0.5)
        assert program.said() == "done"
        assert memory_bytes(program.pid, "VmHWM") < GROWTH_MAX
    assert growth(backlog, before) < GROWTH_MAX


def test_a_pipeline_against_a_small_queue_loses_nothing_and_keeps_order(
    connection: Connection, other: Connection
) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(7)")
    found: list[int] = []

    def read() -> None:
        with other.consume("Q", read_ahead=3, wait_s=60) as consumption:
            while len(found) < 1_000:
                found.append(int(next(consumption).body))

    reader = threading.Thread(target=read)
    reader.start()
    with connection.pipeline() as pipeline:
        for number in range(1_000):
            pipeline.put("Q", b"%d" % number, persistent=number % 10 == 0, wait_s=60)
    reader.join(60)
    # A persistent message can be got once it is forced, so its neighbours may overtake it.
    assert sorted(found) == list(range(1_000))
    assert [n for n in found if n % 10] == [n for n in range(1_000) if n % 10]


def test_who_waits_for_room_does_not_hold_up_other_threads(connection: Connection, other: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    connection.put("Q", b"full")
    done: list[bytes] = []
    waiting = threading.Thread(target=lambda: done.append(connection.put("Q", b"waits", wait_s=60)))
    waiting.start()
    for number in range(50):
        connection.put("R", b"%d" % number)
    assert not done, "it waits still"
    with pytest.raises(QueueFull):
        connection.put("Q", b"waits in vain", wait_s=0.2)
    assert connection.get("Q") is not None
    waiting.join(30)
    assert len(done) == 1


def test_who_goes_away_while_it_waits_for_room_leaves_nothing_behind(connection: Connection, server: object) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    connection.put("Q", b"full")
    leaver = connect(server.unix_url, reconnect_s=0)  # type: ignore[attr-defined]

    def put() -> None:
        with pytest.raises(ChannelError):
            leaver.put("Q", b"late", wait_s=30)

    waiting = threading.Thread(target=put)
    waiting.start()
    time.sleep(0.1)
    leaver.close()
    waiting.join(30)
    assert not waiting.is_alive()
    assert connection.get("Q") is not None
    time.sleep(0.1)
    assert connection.get("Q") is None, "its put went with it"
