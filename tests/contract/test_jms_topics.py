# SPDX-License-Identifier: Apache-2.0
"""By every binding: sessions as JMS has them, over topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from entrepot import Connection, Message
from entrepot.client.blocking import connect
from entrepot.errors import (
    InvalidArgument,
    SelectorSyntaxError,
    SubscriptionDiffers,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from entrepot.jms import Acknowledge, Consumer, Session

EVERY_MODE = pytest.mark.parametrize("mode", list(Acknowledge), ids=lambda mode: mode.name)
HELD = pytest.mark.parametrize("mode", [Acknowledge.CLIENT, Acknowledge.TRANSACTED], ids=lambda mode: mode.name)


@pytest.fixture
def other(url: str, connection: Connection) -> Iterator[Connection]:
    """A second connection to the same queue manager."""
    with connect(url, application="tests") as other:
        yield other


def received(consumer: Consumer, count: int, wait_s: float = 60) -> list[bytes]:
    messages = [consumer.receive(wait_s) for _ in range(count)]
    return [message.body for message in messages if message is not None]


def all_of(consumer: Consumer) -> list[bytes]:
    found = []
    while (message := consumer.receive(0.2)) is not None:
        found.append(message.body)
    return found


def end(session: Session, mode: Acknowledge) -> None:
    """Say that what was sent and received is done with, if that has to be said."""
    if mode is Acknowledge.TRANSACTED:
        session.commit()
    else:
        session.acknowledge()


def eventually(condition: Callable[[], bool], within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it has not come to pass"
        time.sleep(0.005)


# --- for as long as the consumer is open ----------------------------------------------------------------


@EVERY_MODE
def test_each_consumer_of_a_topic_gets_each_message(
    connection: Connection, other: Connection, mode: Acknowledge
) -> None:
    with Session(connection, mode) as session, Session(other, mode) as others:
        one, two = session.consumer("topic:prices/#"), others.consumer("topic:prices/+")
        three = session.consumer("topic:weather")
        for topic in ("prices/ibm", "prices/sap", "prices/sap/today"):
            session.send(f"topic:{topic}", topic.encode(), persistent=True)
        end(session, mode)
        assert received(one, 3) == [b"prices/ibm", b"prices/sap", b"prices/sap/today"]
        assert received(two, 2) == [b"prices/ibm", b"prices/sap"]
        assert two.receive(0.05) is None
        assert three.receive(0.05) is None
        end(session, mode)
        end(others, mode)


@EVERY_MODE
def test_a_selector_holds_for_a_topic(connection: Connection, mode: Acknowledge) -> None:
    with Session(connection, mode) as session:
        consumer = session.consumer("topic:prices/#", selector="price > 100")
        for price in (99, 100, 101, 102):
            session.send("topic:prices/ibm", b"%d" % price, properties={"price": price})
        end(session, mode)
        assert received(consumer, 2) == [b"101", b"102"]
        assert consumer.receive(0.05) is None


@EVERY_MODE
def test_a_closed_consumer_misses_what_comes(connection: Connection, mode: Acknowledge) -> None:
    with Session(connection, mode) as session:
        with session.consumer("topic:prices/#"):
            session.send("topic:prices/ibm", b"unread")
            end(session, mode)
        session.send("topic:prices/ibm", b"missed")
        end(session, mode)
        consumer = session.consumer("topic:prices/#")
        session.send("topic:prices/ibm", b"seen")
        end(session, mode)
        assert received(consumer, 1) == [b"seen"]
        assert consumer.receive(0.05) is None


@HELD
def test_a_closed_consumers_messages_can_be_acknowledged(connection: Connection, mode: Acknowledge) -> None:
    with Session(connection, mode) as session:
        consumer = session.consumer("topic:prices/#")
        connection.publish("prices/ibm", b"1", persistent=True)
        assert received(consumer, 1) == [b"1"]
        consumer.close()
        end(session, mode)
        assert session.consumer("topic:prices/#").receive(0.05) is None


@HELD
def test_what_was_not_acknowledged_comes_again_in_order(connection: Connection, mode: Acknowledge) -> None:
    with Session(connection, mode) as session:
        consumer = session.consumer("topic:prices/#")
        for number in range(4):
            connection.publish("prices/ibm", b"%d" % number, persistent=number % 2 == 0)
        assert received(consumer, 3) == [b"0", b"1", b"2"]
        session.rollback() if mode is Acknowledge.TRANSACTED else session.recover()
        again = [consumer.receive(60) for _ in range(4)]
        assert [message and message.body for message in again] == [b"0", b"1", b"2", b"3"]
        assert [message and message.backout_count for message in again] == [1, 1, 1, 0]


def test_a_unit_publishes_and_receives_together(connection: Connection) -> None:
    connection.put("Q", b"order", persistent=True)
    with Session(connection, Acknowledge.TRANSACTED) as session, Session(connection) as watching:
        watcher = watching.consumer("topic:orders/#")
        orders = session.consumer("Q")
        for ending in (session.rollback, session.commit):
            assert received(orders, 1) == [b"order"]
            session.send("topic:orders/eu", b"accepted", persistent=True)
            assert watcher.receive(0.05) is None
            ending()
        assert received(watcher, 1) == [b"accepted"]
        assert watcher.receive(0.05) is None


@EVERY_MODE
def test_a_listener_hears_a_topic(connection: Connection, mode: Acknowledge) -> None:
    found: list[bytes] = []
    with Session(connection, mode) as session:

        def listener(message: Message) -> None:
            found.append(message.body)
            end(session, mode)
            if message.body == b"2" and message.backout_count == 0 and mode is Acknowledge.AUTO:
                raise ZeroDivisionError

        session.consumer("topic:prices/#").listen(listener)
        for number in range(4):
            connection.publish("prices/ibm", b"%d" % number, persistent=True)
        expected = [b"0", b"1", b"2", b"2", b"3"] if mode is Acknowledge.AUTO else [b"0", b"1", b"2", b"3"]
        eventually(lambda: len(found) >= len(expected))
    assert found == expected


@EVERY_MODE
def test_a_callback_may_close_its_consumer(connection: Connection, mode: Acknowledge) -> None:
    found: list[bytes] = []
    with Session(connection, mode) as session:

        def listener(message: Message) -> None:
            found.append(message.body)
            consumer.close()
            end(session, mode)

        consumer = session.consumer("topic:prices/#")
        consumer.listen(listener)
        connection.publish("prices/ibm", b"0", persistent=True)
        connection.publish("prices/ibm", b"1", persistent=True)
        eventually(lambda: bool(found))
        time.sleep(0.05)
    assert found == [b"0"]


@EVERY_MODE
def test_a_session_may_outlive_its_connection(url: str, other: Connection, mode: Acknowledge) -> None:
    connection = connect(url)
    session = Session(connection, mode)
    consumer = session.consumer("topic:prices/#")
    durable = session.durable_consumer("topic:prices/#", "desk-7")
    for number in range(3):
        other.publish("prices/ibm", b"%d" % number, persistent=True)
    assert received(consumer, 1) == received(durable, 1) == [b"0"]
    connection.close()
    session.close()
    with Session(other) as again:
        consumer = again.durable_consumer("topic:prices/#", "desk-7")
        found = received(consumer, 2)
        assert (found + all_of(consumer))[-2:] == [b"1", b"2"]


# --- durable --------------------------------------------------------------------------------------------


@EVERY_MODE
def test_a_durable_subscription_collects_while_nobody_reads(
    connection: Connection, other: Connection, mode: Acknowledge
) -> None:
    with Session(connection, mode) as session:
        session.durable_consumer("topic:prices/#", "desk-7", selector="price > 1").close()
    for price in range(5):
        other.publish("prices/ibm", b"%d" % price, persistent=True, properties={"price": price})
    with Session(connection, mode, prefetch=10) as session:
        consumer = session.durable_consumer("topic:prices/#", "desk-7", selector="price > 1")
        assert received(consumer, 1) == [b"2"]
        end(session, mode)
    with Session(other, mode) as session:
        consumer = session.durable_consumer("topic:prices/#", "desk-7", selector="price > 1")
        assert received(consumer, 2) == [b"3", b"4"]
        assert consumer.receive(0.05) is None
        end(session, mode)
        consumer.close()
        session.unsubscribe("desk-7")
        with pytest.raises(SubscriptionNotFound):
            session.unsubscribe("desk-7")


def test_a_durable_subscription_has_one_reader_unless_shared(connection: Connection, other: Connection) -> None:
    with Session(connection) as session, Session(other) as others:
        consumer = session.durable_consumer("topic:prices/#", "desk-7")
        with pytest.raises(SubscriptionInUse):
            others.durable_consumer("topic:prices/#", "desk-7")
        consumer.close()
        again = others.durable_consumer("topic:prices/#", "desk-7")
        again.close()
        with pytest.raises(SubscriptionDiffers):
            session.durable_consumer("topic:weather", "desk-7")
        session.unsubscribe("desk-7")
        one = session.durable_consumer("topic:prices/#", "desk-8", shared=True)
        two = others.durable_consumer("topic:prices/#", "desk-8", shared=True)
        for number in range(6):
            session.send("topic:prices/ibm", b"%d" % number)
        assert received(one, 2) + received(two, 2) + received(one, 2) == [b"%d" % number for number in range(6)]


# --- shared ---------------------------------------------------------------------------------------------


@EVERY_MODE
def test_shared_consumers_get_each_message_once(connection: Connection, other: Connection, mode: Acknowledge) -> None:
    with Session(connection, mode, prefetch=1) as session, Session(other, mode, prefetch=1) as others:
        one = session.shared_consumer("topic:prices/#", "registry")
        two = others.shared_consumer("topic:prices/#", "registry")
        alone = session.consumer("topic:prices/#")
        for number in range(6):
            connection.publish("prices/ibm", b"%d" % number)
        first, second = received(one, 2), received(two, 2)
        found = first + second

        def all_found() -> bool:
            found.extend(all_of(one) + all_of(two))
            return len(found) >= 6

        eventually(all_found)
        assert sorted(found) == [b"%d" % number for number in range(6)]
        assert first == sorted(first)
        assert len(received(alone, 6)) == 6
        end(session, mode)
        end(others, mode)


def test_a_shared_subscription_goes_with_its_last_reader(connection: Connection, other: Connection) -> None:
    with Session(connection) as session, Session(other) as others:
        one = session.shared_consumer("topic:prices/#", "registry")
        two = others.shared_consumer("topic:prices/#", "registry")
        one.close()
        session.send("topic:prices/ibm", b"kept")
        assert received(two, 1) == [b"kept"]
        session.send("topic:prices/ibm", b"dropped")
        two.close()
        assert session.shared_consumer("topic:prices/#", "registry").receive(0.05) is None


# --- wrong arguments ------------------------------------------------------------------------------------


def test_wrong_arguments_are_told_at_once(connection: Connection) -> None:
    with Session(connection) as session:
        with pytest.raises(InvalidArgument, match="topic"):
            session.durable_consumer("Q", "desk-7")
        with pytest.raises(InvalidArgument, match="topic"):
            session.shared_consumer("Q", "registry")
        with pytest.raises(SelectorSyntaxError):
            session.consumer("topic:prices/#", selector="price >")
    with pytest.raises(InvalidArgument, match="session"):
        session.unsubscribe("desk-7")
