# SPDX-License-Identifier: Apache-2.0
"""Messages that come before they are asked for: order, credit, and where they are when something breaks."""

from __future__ import annotations

import threading
import time

import pytest

from channels.processes import Program, ServerProcess, until
from channels.proxy import Proxy
from entrepot import Connection, Message
from entrepot.client.blocking import Consumption, connect
from entrepot.errors import ConnectFailed, ConnectionClosed, GetInhibited


def fill(connection: Connection, count: int, **options: bool) -> None:
    with connection.pipeline() as pipeline:
        for number in range(count):
            pipeline.put("Q", b"%d" % number, **({"persistent": number % 2 == 0} | options))


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.body) for message in messages]


def uncommitted(connection: Connection) -> int:
    return int(str(connection.mqsc("DISPLAY QSTATUS(Q) UNCOM CURDEPTH")[0].rows[0]["UNCOM"]))


def depth(connection: Connection) -> int:
    return int(str(connection.mqsc("DISPLAY QSTATUS(Q) CURDEPTH")[0].rows[0]["CURDEPTH"]))


def use_all(consumption: Consumption, connection: Connection) -> list[Message]:
    """All that come until the queue is empty: a busy machine may take longer than one wait to connect again."""
    found: list[Message] = []

    def is_empty() -> bool:
        while (message := consumption.get(wait_s=0.1)) is not None:
            found.append(message)
        return depth(connection) == 0

    until(is_empty, "all were used")
    return found


def is_locked(connection: Connection, count: int) -> bool:
    return sum(1 for _ in connection.browse("Q")) == depth(connection) - count


@pytest.mark.parametrize("read_ahead", [1, 2, 7, 100, 1_000])
def test_messages_come_in_order_and_leave_for_good(connection: Connection, read_ahead: int) -> None:
    fill(connection, 500)
    consumption = connection.consume("Q", read_ahead=read_ahead, wait_s=60)
    assert [int(next(consumption).body) for _ in range(500)] == list(range(500))
    assert consumption.get(wait_s=0.2) is None
    until(lambda: depth(connection) == 0, "all have left")
    assert list(connection.consume("Q", wait_s=0.2)) == []


def test_what_arrives_later_comes_too(connection: Connection, other: Connection) -> None:
    with connection.consume("Q", read_ahead=5) as consumption:
        for number in range(50):
            other.put("Q", b"%d" % number, persistent=number % 3 == 0)
            assert int(next(consumption).body) == number


def test_the_server_sends_no_more_than_it_has_credit_for(connection: Connection, other: Connection) -> None:
    fill(other, 100, persistent=False)  # they leave at once, and do not wait for the log of a busy machine
    most = 0
    with connection.consume("Q", read_ahead=10) as consumption:
        for _ in range(40):
            next(consumption)
            most = max(most, uncommitted(other))
    # Beside the ten, five may be leaving for good at that moment.
    assert 5 <= most <= 10 + 5


def test_closing_returns_what_was_not_used_in_its_order(connection: Connection, other: Connection) -> None:
    fill(other, 50)
    with connection.consume("Q", read_ahead=20) as consumption:
        used = [next(consumption) for _ in range(7)]
        until(lambda: is_locked(other, 20) or is_locked(other, 13), "as many as there is credit for are on their way")
    left = list(other.browse("Q"))
    assert numbers(used + left) == list(range(50))
    assert {message.backout_count for message in left} == {0}, "nobody has tried them"


def test_closing_the_connection_says_how_far_it_has_come(connection: Connection, server: object) -> None:
    with connect(server.unix_url) as reader:  # type: ignore[attr-defined]
        fill(connection, 10, persistent=True)
        consumption = reader.consume("Q", read_ahead=10)
        for _ in range(4):
            next(consumption)
    left = list(connection.browse("Q"))
    assert numbers(left) == [3, 4, 5, 6, 7, 8, 9]
    assert [message.backout_count for message in left] == [1, 0, 0, 0, 0, 0, 0], "one was at hand"


def test_two_consumers_share_a_queue_and_nothing_comes_twice(connection: Connection, other: Connection) -> None:
    fill(other, 1_000)
    taken: list[list[int]] = [[], []]
    deadline = time.monotonic() + 60

    def read(mine: list[int], reader: Connection) -> None:
        with reader.consume("Q", read_ahead=50) as consumption:
            while len(taken[0]) + len(taken[1]) < 1_000 and time.monotonic() < deadline:
                if (message := consumption.get(wait_s=0.3)) is not None:
                    mine.append(int(message.body))

    threads = [threading.Thread(target=read, args=pair) for pair in zip(taken, (connection, other), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert sorted(taken[0] + taken[1]) == list(range(1_000))
    assert all(mine == sorted(mine) for mine in taken)


def test_selectors_choose_what_comes(connection: Connection) -> None:
    for number in range(20):
        connection.put("Q", b"%d" % number, properties={"even": number % 2 == 0})
    with connection.consume("Q", wait_s=60, selector="even = TRUE") as consumption:
        assert [int(next(consumption).body) for _ in range(10)] == list(range(0, 20, 2))
        assert consumption.get(wait_s=0.05) is None
    assert numbers(list(connection.browse("Q"))) == list(range(1, 20, 2))


def test_a_consumption_that_was_closed_gives_nothing(connection: Connection) -> None:
    fill(connection, 3)
    consumption = connection.consume("Q")
    consumption.close()
    consumption.close()
    assert consumption.get(wait_s=0.2) is None
    assert list(consumption) == []


def test_a_thread_that_waits_is_woken_when_another_closes_the_consumption(connection: Connection) -> None:
    consumption = connection.consume("Q")
    found: list[Message | None] = []
    reader = threading.Thread(target=lambda: found.append(consumption.get(wait_s=60)))
    reader.start()
    time.sleep(0.1)
    consumption.close()
    reader.join(30)
    assert found == [None]


def test_a_closed_connection_ends_its_consumptions(connection: Connection) -> None:
    consumption = connection.consume("Q")
    connection.close()
    with pytest.raises(ConnectionClosed):
        consumption.get()


@pytest.mark.parametrize("persistent", [True, False])
def test_inhibiting_gets_neither_loses_nor_doubles_what_has_come(
    connection: Connection, other: Connection, persistent: bool
) -> None:
    fill(other, 20, persistent=persistent)
    used = []
    consumption = connection.consume("Q", read_ahead=8)
    with pytest.raises(GetInhibited):
        used += [next(consumption) for _ in range(4)]
        other.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
        while (message := consumption.get(wait_s=60)) is not None:
            used.append(message)
    consumption.close()
    other.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
    assert numbers(used + list(other.browse("Q"))) == list(range(20))


# --- when something breaks --------------------------------------------------------------------------


def test_what_a_killed_reader_had_comes_again_if_persistent_and_never_twice_if_not(
    connection: Connection, server: object
) -> None:
    fill(connection, 20)
    lines = """
        consumption = connection.consume("Q", read_ahead=10)
        for _ in range(3):
            print(next(consumption).body.decode())
        time.sleep(60)
    """
    with Program(server.unix_url, lines) as program:  # type: ignore[attr-defined]
        used = [int(program.said()) for _ in range(3)]
        assert used == [0, 1, 2]
        until(lambda: is_locked(connection, 10), "ten are on their way")
    until(lambda: uncommitted(connection) == 0 and depth(connection) == 15, "the server has noticed")
    left = list(connection.browse("Q"))
    # Five nonpersistent ones of the ten were on their way; whether they were used is not known, so they are gone.
    assert numbers(left) == [0, 2, 4, 6, 8, *range(10, 20)]
    assert [message.backout_count for message in left] == [1] * 5 + [0] * 10


def test_a_consumption_survives_its_connection(server: object, proxy: Proxy, other: Connection) -> None:
    fill(other, 30)
    with connect(proxy.url) as connection, connection.consume("Q", read_ahead=10) as consumption:
        first = [next(consumption) for _ in range(5)]
        assert numbers(first) == [0, 1, 2, 3, 4]
        until(lambda: len(list(other.browse("Q"))) <= 20, "ten are on their way")
        connection.mqsc("PING QMGR")  # its answer comes behind them
        proxy.cut()
        until(lambda: uncommitted(other) == 0, "the server has noticed")
        rest = use_all(consumption, other)
    # Those that were here already are used first, if the server has let go of them; the others come again.
    again = [number for number in numbers(rest) if number < 5]
    assert set(again) <= {0, 2, 4}, "only what the server did not know to be used, and is persistent"
    fresh = [number for number in numbers(rest) if number >= 5]
    assert sorted(fresh) == list(range(5, 30)), "each once"
    assert all(message.backout_count == 1 for message in rest if int(message.body) in {6, 8})


def test_a_consumption_survives_a_killed_server(process: ServerProcess) -> None:
    with process.connect() as connection, process.connect() as writer:
        fill(writer, 30, persistent=True)
        with connection.consume("Q", read_ahead=10) as consumption:
            used = [next(consumption) for _ in range(12)]
            until(lambda: depth(writer) <= 20, "the server has heard what was used")
            process.restart()
            used += use_all(consumption, writer)
        assert sorted(set(numbers(used))) == list(range(30))
        assert len(used) <= 30 + 10
        assert depth(writer) == 0


def test_a_consumption_that_does_not_mend_itself_says_so(server: object, proxy: Proxy) -> None:
    connection = connect(proxy.url, reconnect_s=0)
    consumption = connection.consume("Q")
    proxy.cut()
    with pytest.raises(ConnectFailed):
        consumption.get(wait_s=60)
    connection.close()
