# SPDX-License-Identifier: Apache-2.0
"""By every binding: sessions as JMS has them, over queues."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from entrepot import Connection, Message
from entrepot.client.blocking import connect
from entrepot.errors import (
    EntrepotError,
    GetInhibited,
    InvalidArgument,
    QueueFull,
    QueueNotFound,
    SelectorSyntaxError,
    TooManyUncommitted,
)
from entrepot.jms import Acknowledge, Consumer, Session

AUTO, CLIENT = Acknowledge.AUTO, Acknowledge.CLIENT
DUPLICATES_OK, TRANSACTED = Acknowledge.DUPLICATES_OK, Acknowledge.TRANSACTED
EVERY_MODE = pytest.mark.parametrize("mode", list(Acknowledge), ids=lambda mode: mode.name)
SELF_ACKNOWLEDGING = pytest.mark.parametrize("mode", [AUTO, DUPLICATES_OK], ids=lambda mode: mode.name)


def fill(connection: Connection, count: int, queue: str = "Q") -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    for number, body in enumerate(bodies):
        connection.put(queue, body, persistent=number % 2 == 0, properties={"n": number})
    return bodies


def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body for message in connection.browse(queue)]


def readers(connection: Connection) -> int:
    """How many wait for messages, or have them come."""
    return int(str(connection.mqsc("DISPLAY QSTATUS(Q) IPPROCS")[0].rows[0]["IPPROCS"]))


def received(consumer: Consumer, count: int, wait_s: float = 60) -> list[bytes]:
    messages = [consumer.receive(wait_s) for _ in range(count)]
    return [message.body for message in messages if message is not None]


def end(session: Session, mode: Acknowledge) -> None:
    """Say that what was received is done with, if that has to be said."""
    if mode is TRANSACTED:
        session.commit()
    else:
        session.acknowledge()


def eventually(condition: Callable[[], bool], within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it has not come to pass"
        time.sleep(0.005)


@contextmanager
def in_thread(action: Callable[[], object]) -> Iterator[list[object]]:
    results: list[object] = []

    def run() -> None:
        try:
            results.append(action())
        except EntrepotError as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield results
    thread.join(90)
    assert not thread.is_alive()


# --- receiving, in every mode ---------------------------------------------------------------------------


@EVERY_MODE
def test_messages_come_in_order_and_are_gone_when_acknowledged(connection: Connection, mode: Acknowledge) -> None:
    expected = fill(connection, 30)
    with Session(connection, mode, prefetch=8) as session:
        consumer = session.consumer("Q")
        assert received(consumer, 30) == expected
        assert consumer.receive(0) is None
        assert consumer.receive(0.01) is None
        end(session, mode)
    assert bodies(connection) == []


@EVERY_MODE
def test_what_was_not_received_stays_untouched(connection: Connection, mode: Acknowledge) -> None:
    fill(connection, 20)
    with Session(connection, mode, prefetch=10) as session:
        assert received(session.consumer("Q"), 3) == [b"0", b"1", b"2"]
        end(session, mode)
    left = list(connection.browse("Q"))
    assert [message.body for message in left] == [b"%d" % number for number in range(3, 20)]
    assert {message.backout_count for message in left} == {0}


@EVERY_MODE
def test_a_selector_leaves_the_others(connection: Connection, mode: Acknowledge) -> None:
    fill(connection, 6)
    with Session(connection, mode) as session:
        assert received(session.consumer("Q", selector="n >= 2 AND n < 5"), 3) == [b"2", b"3", b"4"]
        end(session, mode)
    assert bodies(connection) == [b"0", b"1", b"5"]


@EVERY_MODE
def test_receive_waits_for_what_comes(connection: Connection, mode: Acknowledge) -> None:
    with Session(connection, mode) as session:
        consumer = session.consumer("Q")
        with in_thread(lambda: consumer.receive()) as results:
            time.sleep(0.4)  # longer than one verb waits
            connection.put("Q", b"came")
        (message,) = results
        assert isinstance(message, Message)
        assert message.body == b"came"


@EVERY_MODE
def test_another_thread_may_close_what_waits(connection: Connection, mode: Acknowledge) -> None:
    with Session(connection, mode) as session:
        consumer = session.consumer("Q")
        with in_thread(lambda: consumer.receive(math.inf)) as results:
            eventually(lambda: readers(connection) == 1)
            consumer.close()
        assert results == [None]
        eventually(lambda: readers(connection) == 0)
        other = session.consumer("Q")
        with in_thread(lambda: other.receive(math.inf)) as results:
            eventually(lambda: readers(connection) == 1)
            session.close()
        assert results == [None]
    connection.put("Q", b"stays")
    assert bodies(connection) == [b"stays"]


@EVERY_MODE
def test_a_closed_one_receives_no_more(connection: Connection, mode: Acknowledge) -> None:
    fill(connection, 1)
    session = Session(connection, mode)
    with session.consumer("Q") as consumer:
        pass
    with pytest.raises(InvalidArgument, match="consumer"):
        consumer.receive(0)
    other = session.consumer("Q")
    session.close()
    session.close()
    for verb in (lambda: other.receive(0), lambda: session.consumer("Q"), lambda: session.send("Q", b"")):
        with pytest.raises(InvalidArgument, match="session"):
            verb()
    other.close()
    assert bodies(connection) == [b"0"]


@EVERY_MODE
def test_a_missing_queue_is_told_and_may_come(connection: Connection, mode: Acknowledge) -> None:
    with Session(connection, mode) as session:
        consumer = session.consumer("LATER")
        with pytest.raises(QueueNotFound):
            consumer.receive(0)
        connection.mqsc("DEFINE QLOCAL(LATER)")
        connection.put("LATER", b"now")
        assert received(consumer, 1) == [b"now"]
        connection.mqsc("ALTER QLOCAL(LATER) GET(DISABLED)")
        with pytest.raises(GetInhibited):
            consumer.receive(60)
        connection.mqsc("ALTER QLOCAL(LATER) GET(ENABLED)")
        connection.put("LATER", b"again")
        assert received(consumer, 1) == [b"again"]


@EVERY_MODE
def test_a_session_may_outlive_its_connection(url: str, mode: Acknowledge) -> None:
    with connect(url) as keeper:
        connection = connect(url)
        fill(connection, 4)
        session = Session(connection, mode)
        consumer = session.consumer("Q")
        assert received(consumer, 1) == [b"0"]
        connection.close()
        session.close()
        # Others were read ahead through a channel. With DUPLICATES_OK only the persistent one of these is back.
        eventually(lambda: b"2" in bodies(keeper))


def test_wrong_arguments_are_told_at_once(connection: Connection) -> None:
    with pytest.raises(InvalidArgument):
        Session(connection, "AUTO")  # type: ignore[arg-type]
    for wrong in (0, -1, 1.5, None, 10**9):
        with pytest.raises(InvalidArgument):
            Session(connection, prefetch=wrong)  # type: ignore[arg-type]
    with Session(connection) as session:
        with pytest.raises(SelectorSyntaxError):
            session.consumer("Q", selector="n >")
        with pytest.raises(InvalidArgument, match="wait_s"):
            session.consumer("Q").receive(-1)


def test_verbs_of_other_modes_are_refused(connection: Connection) -> None:
    for mode in (AUTO, CLIENT, DUPLICATES_OK):
        with Session(connection, mode) as session:
            for verb in (session.commit, session.rollback):
                with pytest.raises(InvalidArgument, match=mode.name):
                    verb()
    with Session(connection, TRANSACTED) as session, pytest.raises(InvalidArgument, match="TRANSACTED"):
        session.recover()


def test_many_sessions_leave_nothing_behind(connection: Connection) -> None:
    for _ in range(1_100):  # more than the units of work that a connection may have open
        with Session(connection, CLIENT) as session:
            assert session.consumer("Q").receive(0) is None


# --- AUTO and DUPLICATES_OK -----------------------------------------------------------------------------


def test_auto_acknowledges_what_it_hands_over(connection: Connection) -> None:
    fill(connection, 3)
    with Session(connection, AUTO) as session:
        assert received(session.consumer("Q"), 1) == [b"0"]
        session.acknowledge()
        session.recover()
        assert bodies(connection) == [b"1", b"2"]
        assert received(session.consumer("Q"), 1) == [b"1"]


def test_duplicates_ok_acknowledges_at_the_latest_when_it_is_idle(connection: Connection) -> None:
    fill(connection, 3)
    with Session(connection, DUPLICATES_OK, prefetch=100) as session:
        consumer = session.consumer("Q")
        assert received(consumer, 3) == [b"0", b"1", b"2"]
        assert consumer.receive(0.1) is None
        session.recover()
        assert consumer.receive(0) is None
    assert bodies(connection) == []


# --- CLIENT ---------------------------------------------------------------------------------------------


def test_acknowledge_covers_all_consumers_of_the_session(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(R)")
    fill(connection, 3)
    fill(connection, 3, "R")
    with Session(connection, CLIENT, prefetch=100) as session:
        one, other = session.consumer("Q"), session.consumer("R")
        received(one, 2)
        received(other, 1)
        session.acknowledge()
        received(one, 1)
    assert bodies(connection) == [b"2"]
    assert bodies(connection, "R") == [b"1", b"2"]


def test_recover_brings_back_in_order_what_was_not_acknowledged(connection: Connection) -> None:
    expected = fill(connection, 10)
    with Session(connection, CLIENT, prefetch=100) as session:
        consumer = session.consumer("Q")
        assert received(consumer, 3) == expected[:3]
        session.acknowledge()
        assert received(consumer, 4) == expected[3:7]
        session.recover()
        again = [consumer.receive(60) for _ in range(7)]
        assert [message and message.body for message in again] == expected[3:]
        assert [message and message.backout_count for message in again] == [1, 1, 1, 1, 0, 0, 0]
        session.acknowledge()
    assert bodies(connection) == []


@pytest.mark.parametrize("prefetch", [1, 2, 3, 100])
@pytest.mark.parametrize("mode", [CLIENT, TRANSACTED], ids=lambda mode: mode.name)
def test_what_was_only_read_ahead_is_never_counted(connection: Connection, mode: Acknowledge, prefetch: int) -> None:
    expected = fill(connection, 9)
    with Session(connection, mode, prefetch=prefetch) as session:
        consumer = session.consumer("Q")
        for tries in range(3):
            again = [consumer.receive(0) for _ in range(4)]
            assert [message and message.body for message in again] == expected[:4]
            assert [message and message.backout_count for message in again] == [tries] * 4
            session.rollback() if mode is TRANSACTED else session.recover()
        assert received(consumer, 2) == expected[:2]
        end(session, mode)
        assert received(consumer, 1, 0) == expected[2:3]
    assert [message.backout_count for message in connection.browse("Q")] == [4, 3, 0, 0, 0, 0, 0]
    assert bodies(connection) == expected[2:]


def test_recover_keeps_each_consumers_order(connection: Connection) -> None:
    fill(connection, 8)
    with Session(connection, CLIENT) as session:
        low, high = session.consumer("Q", "n < 4"), session.consumer("Q", "n >= 4")
        for _ in range(2):
            found = [received(high, 1) + received(low, 1) for _ in range(3)]
            assert found == [[b"4", b"0"], [b"5", b"1"], [b"6", b"2"]]
            session.recover()


def test_closing_without_acknowledging_lets_all_come_again(connection: Connection) -> None:
    expected = fill(connection, 4)
    with Session(connection, CLIENT) as session:
        received(session.consumer("Q"), 3)
    assert bodies(connection) == expected
    assert [message.backout_count for message in connection.browse("Q")] == [1, 1, 1, 0]


def test_a_closed_consumers_messages_can_be_acknowledged(connection: Connection) -> None:
    fill(connection, 2)
    with Session(connection, CLIENT) as session:
        with session.consumer("Q") as consumer:
            received(consumer, 2)
        session.acknowledge()
    assert bodies(connection) == []


def test_a_client_session_sends_at_once(connection: Connection) -> None:
    fill(connection, 1)
    with Session(connection, CLIENT, prefetch=1) as session:  # else its consumer has locked what it sends
        received(session.consumer("Q"), 1)
        message_id = session.send("Q", b"sent", persistent=True, properties={"n": 9}, priority=0)
        (found,) = connection.browse("Q")
        assert (found.message_id, found.body, found.persistent) == (message_id, b"sent", True)
    assert bodies(connection) == [b"0", b"sent"]


def test_too_many_unacknowledged_can_still_be_acknowledged(connection: Connection) -> None:
    connection.mqsc("ALTER QMGR MAXUMSGS(3)")
    fill(connection, 4)
    with Session(connection, CLIENT) as session:
        consumer = session.consumer("Q")
        received(consumer, 3)
        with pytest.raises(TooManyUncommitted):
            consumer.receive(0)
        session.acknowledge()
        assert received(consumer, 1) == [b"3"]


def test_recovered_too_often_goes_to_the_backout_queue(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(BAD)\nALTER QLOCAL(Q) BOTHRESH(2) BOQNAME(BAD)")
    fill(connection, 2)
    with Session(connection, CLIENT) as session:
        consumer = session.consumer("Q")
        for _ in range(2):
            assert received(consumer, 1) == [b"0"]
            session.recover()
        assert received(consumer, 1) == [b"1"]
    eventually(lambda: bodies(connection, "BAD") == [b"0"])


# --- TRANSACTED -----------------------------------------------------------------------------------------


def test_a_unit_sends_and_receives_together(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(R)")
    fill(connection, 2)
    with Session(connection, TRANSACTED) as session:
        consumer = session.consumer("Q")
        for body in (b"0", b"1"):
            for ending in (session.rollback, session.commit):
                assert received(consumer, 1) == [body]
                session.send("R", b"of " + body, persistent=True)
                assert b"of " + body not in bodies(connection, "R")
                session.acknowledge()
                ending()
        session.send("R", b"never")
        received(consumer, 0)
    assert bodies(connection) == []
    assert bodies(connection, "R") == [b"of 0", b"of 1"]


def test_an_empty_unit_commits(connection: Connection) -> None:
    with Session(connection, TRANSACTED) as session:
        session.commit()
        session.rollback()
        assert session.consumer("Q").receive(0) is None
        session.commit()


def test_a_refused_send_backs_out_the_unit_and_the_next_begins(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(R) MAXDEPTH(1)")
    connection.put("R", b"full")
    fill(connection, 1)
    with Session(connection, TRANSACTED) as session:
        consumer = session.consumer("Q")
        received(consumer, 1)
        with pytest.raises(QueueFull):  # embedded at once, through a channel at the commit
            session.send("R", b"too much")
            session.commit()
        session.rollback()
        assert received(consumer, 1) == [b"0"]
        session.send("Q", b"instead")
        session.commit()
    assert bodies(connection) == [b"instead"]


# --- listeners ------------------------------------------------------------------------------------------


@EVERY_MODE
def test_a_listener_gets_all_in_order(connection: Connection, mode: Acknowledge) -> None:
    expected = fill(connection, 20)
    found: list[bytes] = []
    with Session(connection, mode) as session:

        def listener(message: Message) -> None:
            found.append(message.body)
            end(session, mode)

        session.consumer("Q").listen(listener)
        eventually(lambda: len(found) == 20)
        connection.put("Q", b"late")
        eventually(lambda: len(found) == 21)
    assert found == [*expected, b"late"]
    assert bodies(connection) == []


@EVERY_MODE
def test_listeners_of_a_session_take_turns_on_one_thread(connection: Connection, mode: Acknowledge) -> None:
    connection.mqsc("DEFINE QLOCAL(R)")
    found: dict[str, list[bytes]] = {"Q": [], "R": []}
    threads: set[threading.Thread] = set()
    inside = threading.Lock()
    with Session(connection, mode) as session:

        def listen(queue: str) -> None:
            def listener(message: Message) -> None:
                assert inside.acquire(blocking=False)
                threads.add(threading.current_thread())
                time.sleep(0.001)
                found[queue].append(message.body)
                end(session, mode)
                inside.release()

            session.consumer(queue).listen(listener)

        listen("Q")
        listen("R")
        expected = fill(connection, 10)
        fill(connection, 10, "R")
        eventually(lambda: len(found["Q"]) == len(found["R"]) == 10)
    assert found == {"Q": expected, "R": expected}
    assert len(threads) == 1
    assert threading.current_thread() not in threads


@SELF_ACKNOWLEDGING
def test_what_a_callback_fails_with_comes_again_and_then_to_the_backout_queue(
    connection: Connection, mode: Acknowledge, caplog: pytest.LogCaptureFixture
) -> None:
    connection.mqsc("DEFINE QLOCAL(BAD)\nALTER QLOCAL(Q) BOTHRESH(2) BOQNAME(BAD)")
    fill(connection, 4)
    found: list[tuple[bytes, int]] = []
    errors: list[Exception] = []

    def listener(message: Message) -> None:
        found.append((message.body, message.backout_count))
        if message.body == b"1" or (message.body == b"2" and not message.backout_count):
            raise ZeroDivisionError(message.body)

    with Session(connection, mode) as session:
        session.on_error = errors.append
        session.consumer("Q").listen(listener)
        eventually(lambda: (b"3", 0) in found)
    assert found == [(b"0", 0), (b"1", 0), (b"1", 1), (b"2", 0), (b"2", 1), (b"3", 0)]
    assert [error.args for error in errors] == [(b"1",), (b"1",), (b"2",)]
    assert "ZeroDivisionError" in caplog.text
    assert bodies(connection) == []
    assert bodies(connection, "BAD") == [b"1"]


@SELF_ACKNOWLEDGING
def test_a_callback_may_recover_its_message(connection: Connection, mode: Acknowledge) -> None:
    fill(connection, 2)
    found: list[tuple[bytes, int]] = []
    with Session(connection, mode) as session:
        session.recover()  # nothing to recover yet

        def listener(message: Message) -> None:
            found.append((message.body, message.backout_count))
            if message.backout_count < 2:
                session.recover()

        session.consumer("Q", "n = 0").listen(listener)
        eventually(lambda: len(found) == 3)
        time.sleep(0.05)
    assert found == [(b"0", 0), (b"0", 1), (b"0", 2)]
    assert bodies(connection) == [b"1"]


def test_a_client_listener_that_raises_gets_the_next(connection: Connection) -> None:
    fill(connection, 3)
    found: list[tuple[bytes, int]] = []
    with Session(connection, CLIENT) as session:

        def listener(message: Message) -> None:
            found.append((message.body, message.backout_count))
            if message.body == b"2" and not message.backout_count:
                session.recover()
            if message.backout_count == 0:
                raise ZeroDivisionError
            session.acknowledge()

        session.consumer("Q").listen(listener)
        eventually(lambda: len(found) == 6)
    assert found == [(b"%d" % n, tries) for tries in (0, 1) for n in range(3)]
    assert bodies(connection) == []


def test_a_transacted_listener_answers_in_its_unit(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(R)")
    fill(connection, 5)
    with Session(connection, TRANSACTED) as session:

        def listener(message: Message) -> None:
            session.send("R", message.body, persistent=True)
            if message.body == b"3" and not message.backout_count:
                session.rollback()
            else:
                session.commit()

        session.consumer("Q").listen(listener)
        eventually(lambda: len(bodies(connection, "R")) == 5)
    assert bodies(connection, "R") == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(connection) == []


@EVERY_MODE
def test_closing_waits_for_the_callback(connection: Connection, mode: Acknowledge) -> None:
    fill(connection, 3)
    entered, left = threading.Event(), threading.Event()
    with Session(connection, mode) as session:

        def listener(message: Message) -> None:
            entered.set()
            time.sleep(0.1)
            end(session, mode)
            left.set()

        consumer = session.consumer("Q", "n = 1")
        consumer.listen(listener)
        assert entered.wait(60)
        consumer.close()
        assert left.is_set()
        connection.put("Q", b"3", properties={"n": 1})
        time.sleep(0.05)
    assert bodies(connection) == [b"0", b"2", b"3"]


@EVERY_MODE
def test_a_session_closes_when_its_callback_has_ended(connection: Connection, mode: Acknowledge) -> None:
    fill(connection, 3)
    entered, left = threading.Event(), threading.Event()
    session = Session(connection, mode)

    def listener(message: Message) -> None:
        entered.set()
        time.sleep(0.1)
        left.set()

    session.consumer("Q").listen(listener)
    assert entered.wait(60)
    session.close()
    assert left.is_set()
    assert bodies(connection) == ([b"1", b"2"] if mode in (AUTO, DUPLICATES_OK) else [b"0", b"1", b"2"])


@EVERY_MODE
def test_a_callback_may_close_its_consumer_or_session(connection: Connection, mode: Acknowledge) -> None:
    fill(connection, 4)
    found: list[bytes] = []
    session = Session(connection, mode)

    def first(message: Message) -> None:
        found.append(message.body)
        end(session, mode)
        consumer.close()

    def second(message: Message) -> None:
        found.append(message.body)
        end(session, mode)
        session.close()

    consumer = session.consumer("Q")
    consumer.listen(first)
    eventually(lambda: found == [b"0"])
    session.consumer("Q").listen(second)
    eventually(lambda: found == [b"0", b"1"])
    session.close()
    assert bodies(connection) == [b"2", b"3"]


def test_only_callbacks_use_a_session_with_listeners(connection: Connection) -> None:
    with Session(connection, TRANSACTED) as session:
        consumer = session.consumer("Q")
        consumer.listen(lambda message: None)
        for verb in (session.commit, session.rollback, consumer.receive, lambda: session.send("Q", b"")):
            with pytest.raises(InvalidArgument, match="listeners"):
                verb()


def test_a_listener_that_cannot_read_tells_so(connection: Connection) -> None:
    errors: list[Exception] = []
    found: list[bytes] = []

    def failing(error: Exception) -> None:
        errors.append(error)
        raise ZeroDivisionError

    connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    with Session(connection) as session:
        session.on_error = failing
        session.consumer("NOWHERE").listen(lambda message: None)
        session.consumer("Q").listen(lambda message: found.append(message.body))
        eventually(lambda: len(errors) >= 3)
        connection.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
        connection.put("Q", b"came")
        eventually(lambda: found == [b"came"])
    assert [type(error) for error in errors].count(QueueNotFound) == 1
    assert {type(error) for error in errors} == {QueueNotFound, GetInhibited}
