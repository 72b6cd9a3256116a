# SPDX-License-Identifier: Apache-2.0
"""By every binding: pipelines, messages that are consumed, many gets at once, and waiting for room on a full queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import EntrepotError, GetInhibited, InvalidArgument, QueueFull, QueueNotFound, UnitFinished


def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body for message in connection.browse(queue)]


def fill(connection: Connection, count: int) -> None:
    for number in range(count):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 0)


def in_thread(action: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(action())
        except EntrepotError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


# --- pipelines ----------------------------------------------------------------------------------


def test_a_pipeline_puts_in_order(connection: Connection) -> None:
    with connection.pipeline() as pipeline:
        ids = [pipeline.put("Q", b"%d" % n, persistent=n % 4 == 0, properties={"n": n}) for n in range(100)]
    found = list(connection.browse("Q"))
    assert [message.body for message in found] == [b"%d" % n for n in range(100)]
    assert [message.message_id for message in found] == ids


def test_a_pipeline_raises_the_first_refusal_and_carries_out_the_others(connection: Connection) -> None:
    with pytest.raises(QueueNotFound) as caught, connection.pipeline() as pipeline:
        for queue in ("Q", "NOWHERE", "Q", "NOR.HERE", "Q"):
            pipeline.put(queue, b"")
    assert caught.value.queue == "NOWHERE"
    assert len(bodies(connection)) == 3


def test_a_wrong_argument_is_told_at_once(connection: Connection) -> None:
    with connection.pipeline() as pipeline:
        with pytest.raises(InvalidArgument):
            pipeline.put("Q", b"", priority=10)
        pipeline.put("Q", b"")
    assert len(bodies(connection)) == 1


def test_an_exception_is_not_hidden_by_a_refusal(connection: Connection) -> None:
    with pytest.raises(ZeroDivisionError), connection.pipeline() as pipeline:
        pipeline.put("NOWHERE", b"")
        raise ZeroDivisionError


# --- messages that are consumed -------------------------------------------------------------------


@pytest.mark.parametrize("read_ahead", [1, 10, 1_000])
def test_messages_are_consumed_in_order(connection: Connection, read_ahead: int) -> None:
    fill(connection, 100)
    consumption = connection.consume("Q", read_ahead=read_ahead, wait_s=60)
    assert [next(consumption).body for _ in range(100)] == [b"%d" % n for n in range(100)]
    assert consumption.get(wait_s=0.05) is None
    assert bodies(connection) == []
    consumption.close()
    assert list(connection.consume("Q", read_ahead=read_ahead, wait_s=0.05)) == [], "it ends when none comes"


def test_what_was_not_used_stays_in_its_order(connection: Connection) -> None:
    fill(connection, 20)
    with connection.consume("Q", read_ahead=10) as consumption:
        assert [next(consumption).body for _ in range(3)] == [b"0", b"1", b"2"]
    left = list(connection.browse("Q"))
    assert [message.body for message in left] == [b"%d" % n for n in range(3, 20)]
    assert {message.backout_count for message in left} == {0}


def test_a_consumer_waits_for_what_comes(connection: Connection) -> None:
    consumption = connection.consume("Q")
    thread, results = in_thread(lambda: consumption.get(wait_s=60))
    connection.put("Q", b"came")
    thread.join()
    assert results[0].body == b"came"
    assert consumption.get(wait_s=0.05) is None
    consumption.close()


def test_a_wrong_consumer_takes_nothing(connection: Connection) -> None:
    connection.put("Q", b"stays")
    with pytest.raises(QueueNotFound):
        connection.consume("NOWHERE")
    for wrong in (0, -1, 1.5, None, 10**9):
        with pytest.raises(InvalidArgument):
            connection.consume("Q", read_ahead=wrong)  # type: ignore[arg-type]
    connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    with pytest.raises(GetInhibited):
        connection.consume("Q")
    connection.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
    assert bodies(connection) == [b"stays"]


# --- many gets at once ------------------------------------------------------------------------------


def test_many_are_got_with_one_verb(connection: Connection) -> None:
    fill(connection, 10)
    with connection.unit_of_work() as unit:
        assert [message.body for message in unit.get_many("Q", 4)] == [b"0", b"1", b"2", b"3"]
        assert len(unit.get_many("Q")) == 6
        assert unit.get_many("Q", wait_s=0.01) == []
        unit.back_out()
    assert [message.backout_count for message in connection.browse("Q")] == [1] * 10
    with pytest.raises(UnitFinished):
        unit.get_many("Q")


def test_the_first_of_many_is_waited_for(connection: Connection) -> None:
    unit = connection.unit_of_work()
    thread, results = in_thread(lambda: unit.get_many("Q", 5, wait_s=60))
    time.sleep(0.05)
    connection.put("Q", b"came")
    thread.join()
    assert [message.body for message in results[0]] == [b"came"]
    unit.commit()
    assert bodies(connection) == []


# --- a full queue -------------------------------------------------------------------------------------


@pytest.fixture
def full(connection: Connection) -> Connection:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    connection.put("Q", b"1")
    connection.put("Q", b"2")
    return connection


@pytest.mark.parametrize("persistent", [False, True])
def test_a_put_waits_until_another_thread_has_made_room(full: Connection, persistent: bool) -> None:
    thread, results = in_thread(lambda: full.put("Q", b"3", wait_s=60, persistent=persistent))
    time.sleep(0.05)
    assert not results
    assert full.get("Q") is not None
    thread.join(90)
    assert isinstance(results[0], bytes)
    assert bodies(full) == [b"2", b"3"]


def test_a_put_waits_no_longer_than_told(full: Connection) -> None:
    begun = time.monotonic()
    with pytest.raises(QueueFull):
        full.put("Q", b"3", wait_s=0.1)
    assert 0.09 < time.monotonic() - begun < 50
    assert bodies(full) == [b"1", b"2"]


def test_a_put_of_a_unit_waits_too(full: Connection) -> None:
    with full.unit_of_work() as unit:
        thread, results = in_thread(lambda: unit.put("Q", b"3", wait_s=60))
        time.sleep(0.05)
        assert not results
        assert full.get("Q") is not None
        thread.join(90)
        assert isinstance(results[0], bytes)
        with pytest.raises(QueueFull):
            unit.put("Q", b"4", wait_s=0.05)
    assert bodies(full) == [b"2", b"3"], "what was refused does not spoil the unit"


def test_a_pipeline_waits_for_room(full: Connection, url: str) -> None:
    found: list[bytes] = []

    def read() -> None:
        # By a connection of its own: what waits in a pipeline holds up what comes behind it.
        with connect(url) as reader:
            while len(found) < 52:
                message = reader.get("Q", wait_s=60)
                assert message is not None
                found.append(message.body)

    thread, _ = in_thread(read)
    with full.pipeline() as pipeline:
        for number in range(50):
            pipeline.put("Q", b"p%d" % number, wait_s=60)
    thread.join(90)
    assert found == [b"1", b"2", *(b"p%d" % number for number in range(50))]


def test_a_pipeline_that_waits_in_vain_is_refused(full: Connection) -> None:
    with pytest.raises(QueueFull), full.pipeline() as pipeline:
        pipeline.put("Q", b"3", wait_s=0.05)
    assert bodies(full) == [b"1", b"2"]
