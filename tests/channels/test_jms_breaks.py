# SPDX-License-Identifier: Apache-2.0
"""Sessions as JMS has them, when their connection breaks."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from channels.processes import until
from channels.proxy import Proxy
from entrepot import Connection, Message
from entrepot.client.blocking import connect
from entrepot.errors import UnitBackedOut
from entrepot.jms import Acknowledge, Consumer, Session

EVERY_MODE = pytest.mark.parametrize("mode", list(Acknowledge), ids=lambda mode: mode.name)
HELD = pytest.mark.parametrize("mode", [Acknowledge.CLIENT, Acknowledge.TRANSACTED], ids=lambda mode: mode.name)


def cut_and_settle(proxy: Proxy) -> None:
    """Break connections, and let everybody see it."""
    proxy.cut()
    proxy.settle()
    time.sleep(0.05)  # for as long as that after a word from the server a client takes its connection for granted


def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body for message in connection.browse(queue)]


def depth(connection: Connection, queue: str = "Q") -> int:
    """How many are there, with those that somebody has and has not acknowledged."""
    return int(str(connection.mqsc(f"DISPLAY QSTATUS({queue}) CURDEPTH")[0].rows[0]["CURDEPTH"]))


def receive_all(consumer: Consumer, connection: Connection, queue: str, receive: Callable[[Message], None]) -> None:
    """Until its queue is empty: a busy machine may take longer than one wait to connect again."""

    def is_empty() -> bool:
        while (message := consumer.receive(0.1)) is not None:
            receive(message)
        return depth(connection, queue) == 0

    until(is_empty, "all have come")


@EVERY_MODE
def test_a_session_that_has_received_nothing_goes_on(connection: Connection, proxy: Proxy, mode: Acknowledge) -> None:
    with connect(proxy.url) as client, Session(client, mode) as session:
        consumer = session.consumer("Q")
        for number in range(3):
            assert consumer.receive(0.01) is None
            cut_and_settle(proxy)
            connection.put("Q", b"%d" % number, persistent=True)
            message = consumer.receive(60)
            assert message is not None
            assert message.body == b"%d" % number
            if mode is Acknowledge.TRANSACTED:
                session.commit()
            session.acknowledge()
            consumer.receive(0.05)  # idle, so that DUPLICATES_OK tells what it has handed over
            until(lambda: depth(connection) == 0, "the server knows that it was")


@HELD
def test_what_was_not_acknowledged_comes_again(connection: Connection, proxy: Proxy, mode: Acknowledge) -> None:
    for number in range(4):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 0)
    with connect(proxy.url) as client, Session(client, mode) as session:
        consumer = session.consumer("Q")
        assert [message and message.body for message in (consumer.receive(60), consumer.receive(60))] == [b"0", b"1"]
        if mode is Acknowledge.TRANSACTED:
            session.send("R", b"never")
        cut_and_settle(proxy)
        with pytest.raises(UnitBackedOut):
            consumer.receive(60)
        again = [consumer.receive(60) for _ in range(4)]
        assert [message and message.body for message in again] == [b"0", b"1", b"2", b"3"]
        cut_and_settle(proxy)
        with pytest.raises(UnitBackedOut):
            session.commit() if mode is Acknowledge.TRANSACTED else session.acknowledge()
        until(lambda: len(bodies(connection)) == 4, "all are back")
        cut_and_settle(proxy)
    assert bodies(connection) == [b"0", b"1", b"2", b"3"]
    assert bodies(connection, "R") == []


@HELD
def test_recovering_across_a_break_is_no_error(connection: Connection, proxy: Proxy, mode: Acknowledge) -> None:
    connection.put("Q", b"0", persistent=True)
    with connect(proxy.url) as client, Session(client, mode) as session:
        consumer = session.consumer("Q")
        for _ in range(3):
            message = consumer.receive(60)
            assert message is not None
            cut_and_settle(proxy)
            session.rollback() if mode is Acknowledge.TRANSACTED else session.recover()
    until(lambda: bodies(connection) == [b"0"], "it is back")


def test_duplicates_ok_loses_nothing_persistent(connection: Connection, proxy: Proxy) -> None:
    for number in range(50):
        connection.put("Q", b"%d" % number, persistent=True)
    found: list[int] = []

    def receive(message: Message) -> None:
        found.append(int(message.body))
        if len(found) in (7, 25):
            cut_and_settle(proxy)

    with connect(proxy.url) as client, Session(client, Acknowledge.DUPLICATES_OK, prefetch=10) as session:
        receive_all(session.consumer("Q"), connection, "Q", receive)
    assert sorted(set(found)) == list(range(50))
    assert bodies(connection) == []


@EVERY_MODE
def test_a_listener_goes_on_and_loses_nothing(connection: Connection, proxy: Proxy, mode: Acknowledge) -> None:
    for number in range(60):
        connection.put("Q", b"%d" % number, persistent=True)
    found: list[int] = []
    errors: list[Exception] = []
    with connect(proxy.url) as client, Session(client, mode) as session:

        def listener(message: Message) -> None:
            found.append(int(message.body))
            if len(found) in (5, 20, 40):
                proxy.cut()
            if mode is Acknowledge.TRANSACTED:
                session.commit()
            session.acknowledge()

        session.on_error = errors.append
        session.consumer("Q").listen(listener)
        until(lambda: 59 in found and not bodies(connection), "all have come")
    assert sorted(set(found)) == list(range(60))
    assert 1 <= len(errors) <= 6


# --- topics ---------------------------------------------------------------------------------------------


@EVERY_MODE
def test_a_consumer_of_a_topic_begins_anew(connection: Connection, proxy: Proxy, mode: Acknowledge) -> None:
    with connect(proxy.url) as client, Session(client, mode) as session:
        consumer = session.consumer("topic:prices/#")

        def is_back(breaks: int) -> bool:
            if client.calls.core.opened <= breaks:
                consumer.receive(0.05)  # once more: the machine was too busy to see the break within its wait
            return client.calls.core.opened > breaks

        for number in range(3):
            assert consumer.receive(0.05) is None
            until(lambda number=number: is_back(number), "it is subscribed again")
            connection.publish("prices/ibm", b"%d" % number, persistent=True)
            message = consumer.receive(60)
            assert message is not None
            assert message.body == b"%d" % number
            if mode is Acknowledge.TRANSACTED:
                session.commit()
            session.acknowledge()
            cut_and_settle(proxy)


@EVERY_MODE
def test_a_durable_consumer_goes_on(connection: Connection, proxy: Proxy, mode: Acknowledge) -> None:
    found: list[int] = []
    with connect(proxy.url) as client, Session(client, mode, prefetch=4) as session:
        consumer = session.durable_consumer("topic:prices/#", "desk-7")
        for number in range(12):
            connection.publish("prices/ibm", b"%d" % number, persistent=True)
        queue = str(connection.mqsc("DISPLAY SUB('desk-7') DEST")[0].rows[0]["DEST"])

        def receive(message: Message) -> None:
            found.append(int(message.body))
            if mode is Acknowledge.TRANSACTED:
                session.commit()
            session.acknowledge()
            if len(found) in (3, 9):
                cut_and_settle(proxy)

        receive_all(consumer, connection, queue, receive)
    assert sorted(set(found)) == list(range(12))
    if mode in (Acknowledge.CLIENT, Acknowledge.TRANSACTED):
        assert found == list(range(12))


@EVERY_MODE
def test_a_listener_at_a_topic_goes_on(connection: Connection, proxy: Proxy, mode: Acknowledge) -> None:
    found: list[bytes] = []
    with connect(proxy.url) as client, Session(client, mode) as session:

        def listener(message: Message) -> None:
            found.append(message.body)
            if mode is Acknowledge.TRANSACTED:
                session.commit()
            session.acknowledge()

        def heard(body: bytes) -> bool:
            connection.publish("prices/ibm", body)
            time.sleep(0.02)
            return body in found

        session.consumer("topic:prices/#").listen(listener)
        for body in (b"0", b"1", b"2"):
            until(lambda body=body: heard(body), "it is subscribed")
            proxy.cut()
