# SPDX-License-Identifier: Apache-2.0
"""By every binding: what the end of a loop, however it comes, means for the message at hand and those behind it."""

from __future__ import annotations

import asyncio
import gc
import pickle
from functools import partial
from itertools import islice

import pytest

import entrepot.aio
from entrepot import Connection, Message
from entrepot.client.blocking import connect
from entrepot.engine.definitions import DEAD_LETTER_QUEUE
from entrepot.errors import ConnectionClosed, DeliverySettled, InvalidArgument, QueueFull


def fill(connection: Connection, count: int = 6) -> None:
    for number in range(count):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 0)


def left(connection: Connection, queue: str = "Q") -> list[tuple[int, int]]:
    """What stands on a queue, with its backout counts; empties it."""
    found = [(int(message.body), message.backout_count) for message in connection.browse(queue)]
    while connection.get(queue) is not None:
        pass
    return found


UNTRIED = [(3, 0), (4, 0), (5, 0)]


def test_an_exception_returns_the_message_at_hand_and_leaves_the_others_untried(connection: Connection) -> None:
    fill(connection)
    with pytest.raises(ZeroDivisionError), connection.consume("Q") as consumption:
        for message in consumption:
            assert message.body != b"2" or 1 // 0
    assert left(connection) == [(2, 1), *UNTRIED]


def test_a_with_that_ends_in_peace_settles_the_message_at_hand(connection: Connection) -> None:
    fill(connection)
    with connection.consume("Q") as consumption:
        for message in consumption:
            if message.body == b"2":
                break
    assert left(connection) == UNTRIED


def test_a_bare_loop_that_is_left_returns_the_message_at_hand_and_another_can_begin(connection: Connection) -> None:
    fill(connection)
    for message in connection.consume("Q"):
        if message.body == b"2":
            break
    consumption = connection.consume("Q", wait_s=0.05)
    with pytest.raises(ZeroDivisionError):
        for message in consumption:
            assert message.body != b"3" or 1 // 0
    assert [int(message.body) for message in islice(consumption, 2)] == [3, 4]
    assert [(int(message.body), message.backout_count) for message in consumption] == [(4, 1), (5, 0)]
    assert left(connection) == []


def test_nothing_that_was_handled_comes_again_after_a_clean_close(connection: Connection, url: str) -> None:
    fill(connection, 149)
    with connect(url) as reader:
        handled = [int(message.body) for message in islice(reader.consume("Q"), 149)]
    assert handled == list(range(149))
    assert left(connection) == [(148, 1)], "the loop was left with it"
    fill(connection, 30)
    with connect(url) as reader:
        for message in reader.consume("Q"):
            if message.body == b"20":
                reader.close()
                break
    assert left(connection) == [(20, 1), *((number, 0) for number in range(21, 30))]
    with pytest.raises(DeliverySettled):
        message.ack()


def test_a_message_can_be_acknowledged_returned_or_rejected(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(BACK)\nALTER QLOCAL(Q) BOQNAME(BACK)")
    fill(connection)
    with pytest.raises(ZeroDivisionError), connection.consume("Q") as consumption:
        for message in consumption:
            if message.body == b"1":
                message.retry(delay_s=3600)
            elif message.body == b"2":
                message.reject("no such customer")
            elif message.body == b"3":
                message.ack()
                for verb in (message.ack, message.retry, partial(message.reject, "too late")):
                    with pytest.raises(DeliverySettled):
                        verb()
                1 // 0  # noqa: B018
    (rejected,) = connection.browse("BACK")
    assert rejected.properties["dead_letter_problem"] == "no such customer"
    assert left(connection) == [(4, 0), (5, 0)]
    status = connection.mqsc("DISPLAY QSTATUS(Q) CURDEPTH")[0].rows[0]
    assert status["CURDEPTH"] == 1, "what waits for its next try"


def test_a_message_that_is_retried_too_often_moves_to_the_backout_queue(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(BACK)\nALTER QLOCAL(Q) BOTHRESH(3) BOQNAME(BACK)")
    connection.put("Q", b"0", persistent=True)
    tries = []
    with connection.consume("Q", wait_s=0.5) as consumption:
        for message in consumption:
            tries.append(message.backout_count)
            message.retry(delay_s=0.01 if len(tries) == 1 else 0)
    assert tries == [0, 1, 2]
    assert (left(connection), len(left(connection, "BACK"))) == ([], 1)


def test_a_rejected_message_that_no_queue_takes_is_returned(connection: Connection) -> None:
    connection.mqsc(f"DEFINE QLOCAL(BACK) MAXDEPTH(0)\nALTER QLOCAL({DEAD_LETTER_QUEUE}) MAXDEPTH(0)")
    fill(connection, 1)
    with connection.consume("Q", read_ahead=1) as consumption:
        message = next(consumption)
        with pytest.raises(QueueFull):
            message.reject("x" * 5_000)
        with pytest.raises(DeliverySettled):
            message.reject("once more")
    assert left(connection) == [(0, 1)]


def test_a_delivery_is_a_message_and_travels_as_one(connection: Connection) -> None:
    fill(connection, 1)
    with connection.consume("Q") as consumption:
        found = next(consumption)
        assert isinstance(found, Message)
        copy = pickle.loads(pickle.dumps(found))
        assert type(copy) is Message
        assert copy == found.message
        assert repr(found).startswith("Delivery(body=b'0'")
        for wrong in (-1, "soon", None):
            with pytest.raises(InvalidArgument):
                found.retry(delay_s=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            found.reject(None)  # type: ignore[arg-type]
    assert left(connection) == []


def test_a_loop_that_the_garbage_collector_ends_gives_back_what_it_had(connection: Connection) -> None:
    fill(connection)
    cycle: list[object] = []
    loop = iter(connection.consume("Q"))
    cycle += [loop, cycle]
    assert next(loop).body == b"0"
    del loop, cycle
    gc.collect()
    connection.put("Q", b"6")
    assert left(connection) == [(0, 1), (1, 0), (2, 0), *UNTRIED, (6, 0)]


def test_a_closed_connection_refuses_the_next_turn(connection: Connection) -> None:
    consumption = connection.consume("Q")
    connection.close()
    with pytest.raises(ConnectionClosed):
        consumption.get()


def test_tasks_have_the_same_promises(connection: Connection, url: str) -> None:
    async def leave(reader: entrepot.aio.Connection, how: str) -> None:
        fill(connection)
        try:
            if how == "bare":
                async for message in await reader.consume("Q"):
                    if message.body == b"2":
                        break
            else:
                async with await reader.consume("Q") as consumption:
                    async for message in consumption:
                        if message.body == b"1" and how == "retry":
                            await message.retry(delay_s=3600)
                        if message.body == b"2" and how == "reject":
                            await message.reject("no such customer")
                        if message.body == b"2":
                            assert how != "error" or 1 // 0
                            break
        except ZeroDivisionError:
            pass
        await reader.in_doubt()  # what the loop has said is said before this is answered

    async def main() -> dict[str, list[tuple[int, int]]]:
        async with await entrepot.aio.connect(url) as reader:
            found = {}
            for how in ("peace", "error", "bare", "reject", "retry"):
                await leave(reader, how)
                found[how] = await asyncio.to_thread(left, connection)
            return found

    assert asyncio.run(main()) == {
        "peace": UNTRIED,
        "error": [(2, 1), *UNTRIED],
        "bare": [(2, 1), *UNTRIED],
        "reject": UNTRIED,
        "retry": UNTRIED,
    }
    assert [message.body for message in connection.browse(DEAD_LETTER_QUEUE)] == [b"2"]
