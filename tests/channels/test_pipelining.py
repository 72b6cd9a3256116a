# SPDX-License-Identifier: Apache-2.0
"""Many verbs on their way at a time: order, errors, threads that share a connection, and how few writes it takes."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter
from typing import Any

import pytest

from channels.processes import ServerProcess, until
from channels.proxy import Proxy
from channels.threads import in_threads
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import ConnectionLost, EntrepotError, QueueFull, QueueNotFound


def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body for message in connection.browse(queue)]


# --- pipelines ----------------------------------------------------------------------------------


def test_a_pipeline_keeps_order_and_is_done_when_it_is_left(connection: Connection, other: Connection) -> None:
    with connection.pipeline() as pipeline:
        for number in range(2_000):
            pipeline.put("Q", b"%d" % number, persistent=number % 3 == 0)
    assert bodies(other) == [b"%d" % number for number in range(2_000)]


def test_the_first_refusal_is_raised_and_the_others_are_carried_out(connection: Connection) -> None:
    with pytest.raises(QueueNotFound) as caught, connection.pipeline() as pipeline:
        for number in range(300):
            pipeline.put({100: "NOWHERE", 200: "NOR.HERE"}.get(number, "Q"), b"%d" % number)
    assert caught.value.queue == "NOWHERE"
    assert bodies(connection) == [b"%d" % number for number in range(300) if number not in (100, 200)]
    with connection.pipeline() as pipeline:
        pipeline.put("Q", b"and goes on")


def test_a_pipeline_can_be_waited_for_in_between(connection: Connection, other: Connection) -> None:
    with connection.pipeline() as pipeline:
        pipeline.put("Q", b"1")
        pipeline.wait()
        assert bodies(other) == [b"1"]
        pipeline.put("NOWHERE", b"")
        with pytest.raises(QueueNotFound):
            pipeline.wait()


def test_pipelines_of_several_threads_each_hear_of_what_may_be_theirs(connection: Connection) -> None:
    wrong, right = connection.pipeline(), connection.pipeline()
    wrong.put("NOWHERE", b"lost")
    right.put("Q", b"kept")
    # The server does not know whose put it was, so the one that asks first must not be the only one that hears.
    with pytest.raises(QueueNotFound):
        right.wait()
    with pytest.raises(QueueNotFound):
        wrong.wait()
    right.wait()
    wrong.wait()


def test_a_pipeline_whose_connection_broke_does_not_claim_success(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as broken:
        pipeline = broken.pipeline()
        pipeline.put("Q", b"gathered, and never sent")
        proxy.cut()
        time.sleep(0.05)
        pipeline.put("Q", b"by the next connection")
        with pytest.raises(ConnectionLost) as caught:
            pipeline.wait()
        assert caught.value.outcome == "unknown"
        pipeline.put("Q", b"and goes on")
        pipeline.wait()
    assert bodies(connection) == [b"by the next connection", b"and goes on"]


def test_what_a_pipeline_has_put_survives_a_kill_right_after_it(process: ServerProcess) -> None:
    with process.connect() as connection, connection.pipeline() as pipeline:
        for number in range(1_000):
            pipeline.put("Q", b"%d" % number, persistent=True)
        pipeline.wait()
        process.kill()
        process.start()
        pipeline.wait()
    with process.connect() as connection:
        assert bodies(connection) == [b"%d" % number for number in range(1_000)]


# --- threads that share a connection --------------------------------------------------------------


def test_a_waiting_get_keeps_no_other_thread_from_putting(connection: Connection) -> None:
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(connection.get("Q", wait_s=60)))
    reader.start()
    begun = time.monotonic()
    for number in range(100):
        connection.put("R", b"%d" % number, persistent=number % 10 == 0)
    assert time.monotonic() - begun < 50
    assert not found
    connection.put("Q", b"for the reader")
    reader.join(60)
    assert found[0].body == b"for the reader"


def test_eight_threads_share_a_connection(connection: Connection) -> None:
    def work(thread: int) -> None:
        mine = b"t%d" % thread
        for number in range(125):
            connection.put("Q", b"%d" % number, correlation_id=mine, persistent=number % 5 == 0)
            with connection.unit_of_work() as unit:
                taken = unit.get("Q", correlation_id=mine)
                assert taken is not None
                assert taken.body == b"%d" % number, "its own, and no other's"
                unit.put("R", taken.body, correlation_id=mine, persistent=number % 5 == 1)

    in_threads([lambda thread=thread: work(thread) for thread in range(8)])
    assert bodies(connection) == []
    moved = [(message.correlation_id, int(message.body)) for message in connection.browse("R")]
    assert Counter(thread for thread, _ in moved) == {b"t%d" % thread: 125 for thread in range(8)}
    for thread in range(8):
        assert [number for mine, number in moved if mine == b"t%d" % thread] == list(range(125))


def test_a_thread_with_much_to_say_and_one_with_much_to_hear_do_not_wait_for_each_other(
    connection: Connection, other: Connection
) -> None:
    """Each side is full of what the other has not read yet; somebody has to read in spite of that."""
    count, body = 60, bytes(400_000)
    for _ in range(count):
        other.put("Q", body)

    def read() -> None:
        with connection.consume("Q", read_ahead=count, wait_s=60) as consumption:
            for _ in range(count):
                assert next(consumption).body == body

    def write() -> None:
        with connection.pipeline() as pipeline:
            for _ in range(count):
                pipeline.put("R", body)

    in_threads([read, write, write])
    assert sum(1 for _ in other.browse("R")) == 2 * count


def test_closing_ends_what_other_threads_wait_for(connection: Connection) -> None:
    errors: list[EntrepotError] = []

    def wait() -> None:
        try:
            connection.get("Q", wait_s=60)
        except EntrepotError as error:
            errors.append(error)

    readers = [threading.Thread(target=wait) for _ in range(3)]
    for reader in readers:
        reader.start()
    until(lambda: connection.mqsc("DISPLAY QSTATUS(Q) IPPROCS")[0].rows[0]["IPPROCS"] == 3, "all of them wait")
    connection.close()
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()
    assert [type(error).__name__ for error in errors] == ["ConnectionClosed"] * 3


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="only it hears signals")
def test_an_interrupted_get_takes_nothing_later(connection: Connection, other: Connection) -> None:
    class Interrupt(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupt

    def waits(count: int) -> bool:
        return bool(other.mqsc("DISPLAY QSTATUS(Q) IPPROCS")[0].rows[0]["IPPROCS"] == count)

    def interrupt_it() -> None:
        until(lambda: waits(1), "it waits")
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for wait_s in (20, 3600, float("inf")):
            interrupting = threading.Thread(target=interrupt_it)
            with pytest.raises(Interrupt):
                interrupting.start()
                connection.get("Q", wait_s=wait_s)
            interrupting.join(60)
            until(lambda: waits(0), "the server has noticed")
            other.put("Q", b"for somebody else")
            time.sleep(0.05)
            assert other.get("Q") is not None
            connection.put("R", b"and goes on")
    finally:
        signal.signal(signal.SIGUSR1, before)


# --- few writes -----------------------------------------------------------------------------------


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long each write of a client was."""
    found: list[int] = []

    def counted(name: str) -> None:
        original = getattr(socket.socket, name)

        def write(self: socket.socket, *arguments: Any) -> Any:
            sent = original(self, *arguments)
            found.append(sent)
            return sent

        monkeypatch.setattr(socket.socket, name, write)

    counted("send")
    counted("sendmsg")
    return found


def test_a_unit_of_three_puts_is_one_write(connection: Connection, writes: list[int]) -> None:
    connection.put("Q", b"so that the connection has been used")
    writes.clear()
    with connection.unit_of_work() as unit:
        for number in range(3):
            unit.put("Q", b"%d" % number, persistent=True)
    assert len(writes) == 1
    assert bodies(connection)[1:] == [b"0", b"1", b"2"]


def test_a_pipeline_gathers(connection: Connection, writes: list[int]) -> None:
    with connection.pipeline() as pipeline:
        for _ in range(1_000):
            pipeline.put("Q", b"x" * 100)
    assert len(writes) <= 5


def test_a_refused_put_of_a_unit_backs_it_out_when_it_commits(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(R) MAXDEPTH(1)")
    connection.put("R", b"full")
    unit = connection.unit_of_work()
    unit.put("Q", b"with it", persistent=True)
    unit.put("R", b"too much", persistent=True)
    with pytest.raises(QueueFull):
        unit.commit()
    assert unit.state == "backed out"
    assert bodies(connection) == []
