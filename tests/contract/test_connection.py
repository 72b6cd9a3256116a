# SPDX-License-Identifier: Apache-2.0
"""The public contract, verb by verb. A new binding becomes one more parameter of the `connection` fixture."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from entrepot import Connection, Message, MessageType, Report
from entrepot.errors import (
    ConnectionClosed,
    DistributionFailed,
    EntrepotError,
    GetInhibited,
    InvalidArgument,
    InvalidName,
    MessageTooLong,
    MqscError,
    MqscScriptFailed,
    PutInhibited,
    QueueFull,
    QueueNotFound,
    RequestTimedOut,
    SelectorSyntaxError,
    TransactionIdInUse,
    UnitFinished,
    UnitNotInDoubt,
)
from folding import for_each


def got(message: Message | None) -> Message:
    assert message is not None
    return message


def depth(connection: Connection, queue: str = "Q") -> int:
    # Through a channel a persistent message leaves its queue when its reader has acknowledged it, which the reader
    # does not wait for.
    deadline = time.monotonic() + 60
    while True:
        status = connection.mqsc(f"DISPLAY QSTATUS({queue}) CURDEPTH UNCOM")[0].rows[0]
        if status["UNCOM"] == 0 or time.monotonic() > deadline:
            return int(str(status["CURDEPTH"]))
        time.sleep(0.01)


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


def readers(connection: Connection, queue: str = "Q") -> int:
    return int(str(connection.mqsc(f"DISPLAY QSTATUS({queue}) IPPROCS")[0].rows[0]["IPPROCS"]))


def wait_for_readers(connection: Connection, count: int, queue: str = "Q") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if readers(connection, queue) == count:
            return
        time.sleep(0.002)
    raise AssertionError(f"{count} readers did not come")


# --- put and get ------------------------------------------------------------------------------


def test_get_returns_what_put_left(connection: Connection) -> None:
    connection.put("Q", b"42 crates")
    assert got(connection.get("Q")).body == b"42 crates"


def test_get_from_an_empty_queue_is_none(connection: Connection) -> None:
    assert connection.get("Q") is None


def test_get_takes_the_message_away(connection: Connection) -> None:
    connection.put("Q", b"once")
    connection.get("Q")
    assert connection.get("Q") is None
    assert depth(connection) == 0


def test_messages_come_in_order_of_arrival(connection: Connection) -> None:
    for number in range(20):
        connection.put("Q", b"%d" % number)
    assert [got(connection.get("Q")).body for _ in range(20)] == [b"%d" % number for number in range(20)]


def test_higher_priority_comes_first_and_arrival_decides_within_one(connection: Connection) -> None:
    for body, priority in ((b"a0", 0), (b"b9", 9), (b"c5", 5), (b"d9", 9), (b"e0", 0)):
        connection.put("Q", body, priority=priority)
    assert [got(connection.get("Q")).body for _ in range(5)] == [b"b9", b"d9", b"c5", b"a0", b"e0"]


def test_persistent_and_nonpersistent_keep_one_order(connection: Connection) -> None:
    for number in range(10):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 0)
    assert [got(connection.get("Q")).body for _ in range(10)] == [b"%d" % number for number in range(10)]


@for_each("body", [b"", b"\x00\xff", bytearray(b"array"), memoryview(b"view"), b"x" * 100_000])
def test_bodies_are_any_bytes(connection: Connection, body: bytes) -> None:
    connection.put("Q", body)
    message = got(connection.get("Q"))
    assert message.body == bytes(body)
    assert type(message.body) is bytes


def test_later_change_of_a_buffer_does_not_reach_the_message(connection: Connection) -> None:
    body, properties = bytearray(b"before"), {"a": 1}
    connection.put("Q", body, properties=properties)
    body[:] = b"after!"
    properties["a"] = 2
    message = got(connection.get("Q"))
    assert (message.body, message.properties) == (b"before", {"a": 1})


def test_descriptor_travels_with_the_message(connection: Connection) -> None:
    before = time.time()
    message_id = connection.put(
        "Q",
        b"",
        persistent=True,
        priority=7,
        expiry_s=600,
        correlation_id=b"correlation",
        group_id=b"group",
        sequence=3,
        last_in_group=True,
        type=MessageType.REPLY,
        report=Report.EXPIRATION | Report.WITH_DATA,
        feedback=65_537,
        reply_to="REPLIES",
        reply_to_manager="QM2",
        format="MQSTR",
        ccsid=1047,
        encoding=785,
        properties={"text": "é", "whole": -(2**63), "real": 0.5, "yes": True, "bytes": b"\x00"},
    )
    message = got(connection.get("Q"))
    assert message.message_id == message_id
    assert before <= message.put_time <= time.time()
    assert 500 < (message.expiry_s or 0) <= 600
    assert message.application == "tests"
    assert message.persistent
    assert (message.priority, message.type, message.feedback) == (7, MessageType.REPLY, 65_537)
    assert (message.correlation_id, message.group_id) == (b"correlation", b"group")
    assert (message.sequence, message.last_in_group) == (3, True)
    assert (message.reply_to, message.reply_to_manager) == ("REPLIES", "QM2")
    assert (message.format, message.ccsid, message.encoding) == ("MQSTR", 1047, 785)
    assert message.report == Report.EXPIRATION | Report.WITH_DATA
    assert message.properties == {"text": "é", "whole": -(2**63), "real": 0.5, "yes": True, "bytes": b"\x00"}


def test_queue_gives_the_defaults_for_persistence_and_priority(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) DEFPSIST(YES) DEFPRTY(4)")
    connection.put("Q", b"default")
    connection.put("Q", b"own", persistent=False, priority=0)
    first, second = got(connection.get("Q")), got(connection.get("Q"))
    assert (first.persistent, first.priority) == (True, 4)
    assert (second.persistent, second.priority) == (False, 0)


def test_message_ids_are_unique_unless_given(connection: Connection) -> None:
    made = {connection.put("Q", b"", persistent=number % 3 == 0) for number in range(100)}
    assert len(made) == 100
    assert connection.put("Q", b"", message_id=b"mine") == b"mine"


def test_equal_message_ids_are_got_one_after_the_other(connection: Connection) -> None:
    for body in (b"first", b"second"):
        connection.put("Q", body, message_id=b"same")
    assert got(connection.get("Q", message_id=b"same")).body == b"first"
    assert got(connection.get("Q", message_id=b"same")).body == b"second"
    assert connection.get("Q", message_id=b"same") is None


# --- get by criteria --------------------------------------------------------------------------


def fill(connection: Connection) -> None:
    for number in range(12):
        connection.put(
            "Q",
            b"%d" % number,
            message_id=b"m%d" % number,
            correlation_id=b"c%d" % (number % 3),
            group_id=b"g%d" % (number % 2),
            sequence=number // 2 + 1,
            properties={"number": number, "region": "EU" if number % 4 else "US"},
        )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"message_id": b"m7"}, b"7"),
        ({"correlation_id": b"c2"}, b"2"),
        ({"group_id": b"g1"}, b"1"),
        ({"selector": "number > 4"}, b"5"),
        ({"selector": "region = 'US' AND number > 0"}, b"4"),
        ({"correlation_id": b"c1", "selector": "number > 6"}, b"7"),
        ({"correlation_id": b"c1", "group_id": b"g0"}, b"4"),
        ({"message_id": b"m5", "correlation_id": b"c2"}, b"5"),
        ({"message_id": b"m5", "correlation_id": b"c0"}, None),
        ({"group_id": b"g1", "selector": "region = 'US'"}, None),
        ({"message_id": b"nobody"}, None),
        ({"correlation_id": b"nobody"}, None),
        ({"group_id": b"nobody"}, None),
        ({"selector": "missing = 1"}, None),
    ],
)
def test_get_meets_all_criteria(connection: Connection, wanted: dict[str, Any], expected: bytes | None) -> None:
    fill(connection)
    message = connection.get("Q", **wanted)
    assert (message.body if message else None) == expected
    assert depth(connection) == (11 if message else 12)
    shown = [message.body for message in connection.browse("Q", **wanted)]
    assert expected not in shown


def test_what_was_got_by_id_leaves_no_gap(connection: Connection) -> None:
    fill(connection)
    connection.get("Q", message_id=b"m3")
    connection.get("Q", correlation_id=b"c2")
    rest = [got(connection.get("Q")).body for _ in range(10)]
    assert rest == [b"%d" % number for number in range(12) if number not in (3, 2)]


def test_higher_priority_comes_first_with_criteria_too(connection: Connection) -> None:
    for number, priority in enumerate((1, 5, 3)):
        connection.put("Q", b"%d" % number, priority=priority, correlation_id=b"c", properties={"n": number})
    assert got(connection.get("Q", correlation_id=b"c")).body == b"1"
    assert got(connection.get("Q", selector="n >= 0")).body == b"2"


# --- waiting ----------------------------------------------------------------------------------


def test_get_waits_no_longer_than_told(connection: Connection) -> None:
    start = time.monotonic()
    assert connection.get("Q", wait_s=0.05) is None
    assert 0.04 < time.monotonic() - start < 50


@pytest.mark.parametrize("persistent", [False, True])
def test_waiting_reader_gets_what_arrives(connection: Connection, persistent: bool) -> None:
    thread, results = in_thread(lambda: connection.get("Q", wait_s=60))
    wait_for_readers(connection, 1)
    connection.put("Q", b"came", persistent=persistent)
    thread.join()
    assert got(results[0]).body == b"came"
    assert depth(connection) == 0


def test_many_readers_get_each_message_exactly_once(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(100000)")
    taken: list[list[bytes]] = [[] for _ in range(8)]

    def read(mine: list[bytes]) -> None:
        while (message := connection.get("Q", wait_s=60)) is not None and message.body != b"stop":
            mine.append(message.body)

    readers = [threading.Thread(target=read, args=(mine,)) for mine in taken]
    for reader in readers:
        reader.start()
    writers = [
        threading.Thread(
            target=lambda part=part: [
                connection.put("Q", b"%d" % n, persistent=n % 7 == 0) for n in range(part * 200, part * 200 + 200)
            ]
        )
        for part in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for _ in readers:
        connection.put("Q", b"stop", priority=0)
    for reader in readers:
        reader.join()
    assert sorted(int(body) for mine in taken for body in mine) == list(range(600))


def test_waiting_readers_get_only_what_they_ask_for(connection: Connection) -> None:
    waits = [
        in_thread(lambda: connection.get("Q", correlation_id=b"one", wait_s=60)),
        in_thread(lambda: connection.get("Q", correlation_id=b"two", wait_s=60)),
        in_thread(lambda: connection.get("Q", selector="colour = 'red'", wait_s=60)),
        in_thread(lambda: connection.get("Q", message_id=b"m", wait_s=60)),
    ]
    wait_for_readers(connection, 4)
    connection.put("Q", b"nobody's")
    connection.put("Q", b"for two", correlation_id=b"two")
    connection.put("Q", b"for red", properties={"colour": "red"}, persistent=True)
    connection.put("Q", b"for m", message_id=b"m")
    connection.put("Q", b"for one", correlation_id=b"one", persistent=True)
    for thread, _ in waits:
        thread.join()
    assert [got(results[0]).body for _, results in waits] == [b"for one", b"for two", b"for red", b"for m"]
    assert got(connection.get("Q")).body == b"nobody's"


def test_first_waiting_reader_is_served_first(connection: Connection) -> None:
    first = in_thread(lambda: connection.get("Q", wait_s=60))
    wait_for_readers(connection, 1)
    second = in_thread(lambda: connection.get("Q", wait_s=60))
    wait_for_readers(connection, 2)
    connection.put("Q", b"1")
    connection.put("Q", b"2", persistent=True)
    for thread, _ in (first, second):
        thread.join()
    assert [got(results[0]).body for _, results in (first, second)] == [b"1", b"2"]


def test_waiting_reader_gets_what_another_unit_commits(connection: Connection) -> None:
    thread, results = in_thread(lambda: connection.get("Q", wait_s=60))
    wait_for_readers(connection, 1)
    with connection.unit_of_work() as unit:
        unit.put("Q", b"hidden")
        time.sleep(0.02)
        assert not results
    thread.join()
    assert got(results[0]).body == b"hidden"


def test_waiting_reader_gets_what_another_unit_backs_out(connection: Connection) -> None:
    connection.put("Q", b"back")
    unit = connection.unit_of_work()
    unit.get("Q")
    thread, results = in_thread(lambda: connection.get("Q", wait_s=60))
    wait_for_readers(connection, 1)
    unit.back_out()
    thread.join()
    assert (got(results[0]).body, got(results[0]).backout_count) == (b"back", 1)


def test_waiting_reader_gets_a_delayed_message_when_it_is_due(connection: Connection) -> None:
    start = time.monotonic()
    connection.put("Q", b"later", delay_s=0.1)
    early = connection.get("Q")
    assert early is None or time.monotonic() - start > 0.1, "unless the machine is that busy"
    assert got(early or connection.get("Q", wait_s=60)).body == b"later"
    assert 0.1 < time.monotonic() - start < 50


def test_reader_in_a_unit_waits_too_and_backing_out_returns_the_message(connection: Connection) -> None:
    unit = connection.unit_of_work()
    thread, results = in_thread(lambda: unit.get("Q", wait_s=60))
    wait_for_readers(connection, 1)
    connection.put("Q", b"came")
    thread.join()
    assert got(results[0]).body == b"came"
    assert connection.get("Q") is None
    unit.back_out()
    assert got(connection.get("Q")).backout_count == 1


def test_inhibiting_gets_ends_the_waiting(connection: Connection) -> None:
    thread, results = in_thread(lambda: connection.get("Q", wait_s=60))
    wait_for_readers(connection, 1)
    connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    thread.join()
    assert isinstance(results[0], GetInhibited)


def test_reader_that_came_by_a_deleted_alias_leaves_no_trace(connection: Connection) -> None:
    connection.mqsc("DEFINE QALIAS(A) TARGET(Q)")
    # A busy machine may come too late to see it wait, but not if it waits longer.
    for wait_s in (0.3, 3, 30):
        thread, results = in_thread(lambda wait_s=wait_s: connection.get("A", wait_s=wait_s))
        while readers(connection) != 1 and thread.is_alive():
            time.sleep(0.002)
        if thread.is_alive():
            break
    connection.mqsc("DELETE QALIAS(A)")
    thread.join()
    assert results == [None]
    connection.put("Q", b"not for the dead")
    assert got(connection.get("Q")).body == b"not for the dead"


# --- browse -----------------------------------------------------------------------------------


def test_browse_shows_messages_in_order_and_leaves_them(connection: Connection) -> None:
    for body, priority in ((b"low", 1), (b"high", 8), (b"low too", 1)):
        connection.put("Q", body, priority=priority)
    assert [message.body for message in connection.browse("Q")] == [b"high", b"low", b"low too"]
    assert depth(connection) == 3


def test_browse_of_an_empty_queue_ends_at_once(connection: Connection) -> None:
    assert list(connection.browse("Q")) == []


def test_browse_shows_what_arrives_behind_the_cursor(connection: Connection) -> None:
    for body in (b"1", b"2"):
        connection.put("Q", body, priority=5)
    cursor = connection.browse("Q")
    assert next(cursor).body == b"1"
    connection.put("Q", b"3", priority=5)
    connection.put("Q", b"before the cursor", priority=9)
    assert [message.body for message in cursor] == [b"2", b"3"]
    connection.put("Q", b"too late", priority=5)
    assert list(cursor) == []


def test_browse_goes_through_a_deep_queue(connection: Connection) -> None:
    for number in range(1_234):
        connection.put("Q", b"%d" % number, priority=number % 3, properties={"n": number})
    expected = [b"%d" % n for priority in (2, 1, 0) for n in range(priority, 1_234, 3)]
    assert [message.body for message in connection.browse("Q")] == expected
    last = [message.body for message in connection.browse("Q", selector="n BETWEEN 1200 AND 1201")]
    assert last == [b"1201", b"1200"]


def test_browse_hides_what_units_have(connection: Connection) -> None:
    for body in (b"1", b"2"):
        connection.put("Q", body)
    with connection.unit_of_work() as unit:
        unit.get("Q")
        unit.put("Q", b"3")
        assert [message.body for message in connection.browse("Q")] == [b"2"]
    assert [message.body for message in connection.browse("Q")] == [b"2", b"3"]


def test_browse_tells_a_wrong_queue_at_once(connection: Connection) -> None:
    with pytest.raises(QueueNotFound):
        connection.browse("NOWHERE")


# --- units of work ----------------------------------------------------------------------------


def test_unit_shows_nothing_before_its_commit(connection: Connection) -> None:
    with connection.unit_of_work() as unit:
        unit.put("Q", b"hidden", persistent=True)
        assert connection.get("Q") is None
        assert unit.state == "active"
    assert unit.state == "committed"
    assert got(connection.get("Q")).body == b"hidden"


def test_unit_spans_many_queues(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(IN)\nDEFINE QLOCAL(OUT1)\nDEFINE QLOCAL(OUT2)")
    connection.put("IN", b"order", persistent=True)
    with connection.unit_of_work() as unit:
        order = got(unit.get("IN"))
        unit.put("OUT1", order.body, persistent=True)
        unit.put("OUT2", order.body)
    assert [depth(connection, name) for name in ("IN", "OUT1", "OUT2")] == [0, 1, 1]


def test_exception_backs_the_unit_out(connection: Connection) -> None:
    connection.put("Q", b"work", persistent=True)
    with pytest.raises(ZeroDivisionError), connection.unit_of_work() as unit:
        unit.get("Q")
        unit.put("Q", b"vanishes", persistent=True)
        raise ZeroDivisionError
    assert unit.state == "backed out"
    message = got(connection.get("Q"))
    assert (message.body, message.backout_count) == (b"work", 1)
    assert connection.get("Q") is None


def test_backed_out_message_returns_to_its_place(connection: Connection) -> None:
    for number in range(4):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 1)
    unit = connection.unit_of_work()
    assert [got(unit.get("Q")).body for _ in range(3)] == [b"0", b"1", b"2"]
    unit.back_out()
    assert [got(connection.get("Q")).body for _ in range(4)] == [b"0", b"1", b"2", b"3"]


def test_backed_out_message_is_found_by_its_id(connection: Connection) -> None:
    connection.put("Q", b"away", message_id=b"m", correlation_id=b"c", group_id=b"g")
    connection.put("Q", b"other", message_id=b"n")
    unit = connection.unit_of_work()
    assert got(unit.get("Q")).body == b"away"
    assert connection.get("Q", message_id=b"m") is None
    unit.back_out()
    assert got(connection.get("Q", message_id=b"m")).body == b"away"


def test_backout_count_rises_with_every_back_out(connection: Connection) -> None:
    connection.put("Q", b"poison")
    for expected in range(4):
        unit = connection.unit_of_work()
        assert got(unit.get("Q")).backout_count == expected
        unit.back_out()


def test_two_units_on_one_queue_do_not_meet(connection: Connection) -> None:
    for body in (b"1", b"2"):
        connection.put("Q", body)
    one, two = connection.unit_of_work(), connection.unit_of_work()
    assert got(one.get("Q")).body == b"1"
    assert got(two.get("Q")).body == b"2"
    assert one.get("Q") is None
    one.put("Q", b"3")
    assert two.get("Q") is None
    two.back_out()
    one.commit()
    assert [got(connection.get("Q")).body for _ in range(2)] == [b"2", b"3"]


@pytest.mark.parametrize("end", ["commit", "back_out"])
def test_unit_that_has_ended_refuses_every_verb(connection: Connection, end: str) -> None:
    unit = connection.unit_of_work()
    getattr(unit, end)()
    for verb in (
        lambda: unit.put("Q", b""),
        lambda: unit.get("Q"),
        lambda: unit.get_group("Q"),
        unit.commit,
        unit.back_out,
        lambda: unit.prepare(b"x"),
    ):
        with pytest.raises(UnitFinished):
            verb()
    assert depth(connection) == 0


def test_unit_that_was_ended_by_hand_may_leave_its_block(connection: Connection) -> None:
    with connection.unit_of_work() as unit:
        unit.put("Q", b"kept")
        unit.commit()
    with connection.unit_of_work() as unit:
        unit.put("Q", b"dropped")
        unit.back_out()
    assert depth(connection) == 1


def test_own_puts_are_not_visible_to_the_unit_itself(connection: Connection) -> None:
    with connection.unit_of_work() as unit:
        unit.put("Q", b"hidden")
        assert unit.get("Q") is None


# --- prepared units ---------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_coordinator_decides_about_a_prepared_unit(connection: Connection, commit: bool) -> None:
    connection.mqsc("DEFINE QLOCAL(OUT)")
    connection.put("Q", b"in", persistent=True)
    unit = connection.unit_of_work()
    unit.get("Q")
    unit.put("OUT", b"out", persistent=True)
    unit.prepare(b"transaction")
    assert unit.state == "prepared"
    assert connection.in_doubt() == [b"transaction"]
    assert connection.get("Q") is None
    assert connection.get("OUT") is None
    connection.resolve(b"transaction", commit=commit)
    assert connection.in_doubt() == []
    assert (connection.get("OUT") is not None) is commit
    assert (connection.get("Q") is None) is commit


def test_transaction_id_names_one_unit_at_a_time(connection: Connection) -> None:
    one, two = connection.unit_of_work(), connection.unit_of_work()
    one.prepare(b"x")
    two.put("Q", b"")
    with pytest.raises(TransactionIdInUse):
        two.prepare(b"x")
    assert two.state == "active"
    two.prepare(b"y" * 140)
    assert connection.in_doubt() == [b"x", b"y" * 140]
    connection.resolve(b"x", commit=False)
    connection.resolve(b"y" * 140, commit=True)
    assert depth(connection) == 1
    with pytest.raises(UnitNotInDoubt):
        connection.resolve(b"x", commit=True)


def test_prepared_unit_refuses_to_end_by_itself(connection: Connection) -> None:
    unit = connection.unit_of_work()
    unit.prepare(b"x")
    for verb in (unit.commit, unit.back_out, lambda: unit.put("Q", b"")):
        with pytest.raises(UnitFinished):
            verb()
    connection.resolve(b"x", commit=False)


# --- groups -----------------------------------------------------------------------------------


def put_group(connection: Connection, group: bytes, *sequences: int, last: int = 3) -> None:
    for sequence in sequences:
        connection.put("Q", group + b"%d" % sequence, group_id=group, sequence=sequence, last_in_group=sequence == last)


def test_whole_group_comes_only_when_it_is_complete(connection: Connection) -> None:
    put_group(connection, b"g", 3, 1)
    assert connection.get("Q", whole_group=True) is None
    put_group(connection, b"g", 2)
    found = [got(connection.get("Q", whole_group=True)).body for _ in range(3)]
    assert found == [b"g1", b"g2", b"g3"]
    assert connection.get("Q", whole_group=True) is None


def test_message_of_no_group_is_a_group_of_one(connection: Connection) -> None:
    put_group(connection, b"g", 1, 2)
    connection.put("Q", b"alone")
    assert got(connection.get("Q", whole_group=True)).body == b"alone"
    with connection.unit_of_work() as unit:
        assert unit.get_group("Q") is None
        connection.put("Q", b"alone")
        assert [message.body for message in unit.get_group("Q") or ()] == [b"alone"]


def test_unit_gets_a_whole_group_in_sequence(connection: Connection) -> None:
    put_group(connection, b"a", 1, 2)
    put_group(connection, b"b", 2, 3, 1)
    unit = connection.unit_of_work()
    assert [message.body for message in unit.get_group("Q") or ()] == [b"b1", b"b2", b"b3"]
    assert unit.get_group("Q") is None
    unit.back_out()
    with connection.unit_of_work() as unit:
        found = unit.get_group("Q") or []
        assert [message.backout_count for message in found] == [1, 1, 1]
    assert depth(connection) == 2


def test_unit_goes_through_a_whole_group_one_by_one(connection: Connection) -> None:
    put_group(connection, b"g", 2, 1, 3)
    other = connection.unit_of_work()
    with connection.unit_of_work() as unit:
        assert got(unit.get("Q", whole_group=True)).body == b"g1"
        assert other.get("Q", whole_group=True) is None
        assert got(unit.get("Q", whole_group=True)).body == b"g2"
        assert got(unit.get("Q", whole_group=True)).body == b"g3"
    other.back_out()
    assert depth(connection) == 0


def test_reader_waits_until_a_group_is_whole(connection: Connection) -> None:
    thread, results = in_thread(lambda: connection.get("Q", selector="colour = 'red'", whole_group=True, wait_s=60))
    wait_for_readers(connection, 1)
    connection.put("Q", b"red", group_id=b"g", sequence=1, properties={"colour": "red"})
    time.sleep(0.02)
    assert not results
    connection.put("Q", b"blue", group_id=b"g", sequence=2, last_in_group=True, properties={"colour": "blue"})
    thread.join()
    assert got(results[0]).body == b"red"


def test_several_readers_share_a_whole_group(connection: Connection) -> None:
    waits = [in_thread(lambda: connection.get("Q", whole_group=True, wait_s=60)) for _ in range(3)]
    wait_for_readers(connection, 3)
    put_group(connection, b"g", 3, 2, 1)
    for thread, _ in waits:
        thread.join()
    assert sorted(got(results[0]).body for _, results in waits) == [b"g1", b"g2", b"g3"]


def test_unit_waits_for_a_whole_group(connection: Connection) -> None:
    with connection.unit_of_work() as unit:
        thread, results = in_thread(lambda: unit.get_group("Q", wait_s=60))
        put_group(connection, b"g", 1, 2)
        time.sleep(0.02)
        assert not results
        put_group(connection, b"g", 3)
        thread.join()
        assert [message.body for message in results[0]] == [b"g1", b"g2", b"g3"]


def test_group_that_is_too_large_for_the_unit_stays(connection: Connection) -> None:
    connection.mqsc("ALTER QMGR MAXUMSGS(2)")
    put_group(connection, b"g", 1, 2, 3)
    with pytest.raises(EntrepotError, match="limit of 2"), connection.unit_of_work() as unit:
        unit.get_group("Q")
    assert [message.backout_count for message in connection.browse("Q")] == [0, 0, 0]


# --- distribution lists -----------------------------------------------------------------------


def test_one_put_reaches_many_queues(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B) DEFPSIST(YES)\nDEFINE NAMELIST(ALL) NAMES(Q, A, B)")
    by_list = connection.put(["Q", "A", "B"], b"list", persistent=True)
    by_name = connection.put("ALL", b"name list")
    for queue in ("Q", "A", "B"):
        first, second = got(connection.get(queue)), got(connection.get(queue))
        assert (first.body, first.message_id, first.persistent) == (b"list", by_list, True)
        assert (second.body, second.message_id, second.persistent) == (b"name list", by_name, queue == "B")


def test_distribution_names_every_queue_that_fails_and_reaches_none(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(FULL) MAXDEPTH(1)\nDEFINE QLOCAL(SHUT) PUT(DISABLED)")
    connection.put("FULL", b"")
    with pytest.raises(DistributionFailed) as caught:
        connection.put(["Q", "FULL", "SHUT", "NOWHERE", "Q"], b"")
    assert [name for name, _ in caught.value.failures] == ["FULL", "SHUT", "NOWHERE"]
    assert "maximum of 1" in str(caught.value)
    assert depth(connection) == 0
    assert connection.mqsc("DISPLAY QSTATUS(Q) UNCOM")[0].rows[0]["UNCOM"] in (0, "0")


def test_distribution_list_takes_part_in_a_unit(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(A)")
    unit = connection.unit_of_work()
    unit.put(("Q", "A"), b"", persistent=True)
    assert connection.get("A") is None
    unit.commit()
    assert connection.get("A") is not None
    unit = connection.unit_of_work()
    unit.put(("Q", "A"), b"")
    unit.back_out()
    assert connection.get("A") is None


# --- request and reply ------------------------------------------------------------------------


def test_request_returns_its_reply(connection: Connection) -> None:
    def serve() -> None:
        for _ in range(2):
            request = got(connection.get("Q", wait_s=60))
            assert request.type is MessageType.REQUEST
            connection.put(request.reply_to, b"someone else's", correlation_id=b"other")
            connection.put(
                request.reply_to, request.body.upper(), correlation_id=request.message_id, type=MessageType.REPLY
            )

    thread, _ = in_thread(serve)
    assert connection.request("Q", b"one", timeout_s=60).body == b"ONE"
    assert connection.request("Q", b"two", timeout_s=60, properties={"a": 1}).body == b"TWO"
    thread.join()


def test_request_without_a_reply_has_an_unknown_outcome(connection: Connection) -> None:
    with pytest.raises(RequestTimedOut) as caught:
        connection.request("Q", b"hello?", timeout_s=0.05)
    assert caught.value.outcome == "unknown"
    assert (caught.value.queue, caught.value.timeout_s) == ("Q", 0.05)
    time.sleep(0.02)
    assert connection.get("Q") is None, "a request that nobody waits for expires"


# --- refusals ---------------------------------------------------------------------------------


def test_full_queue_refuses_and_takes_again_when_there_is_room(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    connection.put("Q", b"")
    unit = connection.unit_of_work()
    unit.put("Q", b"")
    with pytest.raises(QueueFull) as caught:
        connection.put("Q", b"")
    assert caught.value.retryable
    unit.back_out()
    connection.put("Q", b"", persistent=True)
    with pytest.raises(QueueFull):
        connection.put("Q", b"", persistent=True)
    connection.get("Q")
    connection.put("Q", b"")


def test_message_may_be_as_long_as_the_queue_says(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXMSGL(10)")
    connection.put("Q", b"x" * 10)
    with pytest.raises(MessageTooLong):
        connection.put("Q", b"x" * 11)
    connection.mqsc("ALTER QMGR MAXMSGL(5)")
    with pytest.raises(MessageTooLong):
        connection.put("Q", b"x" * 6)
    assert depth(connection) == 1


def test_inhibited_queue_refuses_until_it_is_enabled(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) PUT(DISABLED) GET(DISABLED)")
    with pytest.raises(PutInhibited):
        connection.put("Q", b"")
    with pytest.raises(GetInhibited):
        connection.get("Q", wait_s=5)
    with pytest.raises(GetInhibited):
        connection.browse("Q")
    connection.mqsc("ALTER QLOCAL(Q) PUT(ENABLED) GET(ENABLED)")
    connection.put("Q", b"")
    assert connection.get("Q") is not None


WRONG_PUTS: list[tuple[dict[str, Any], type[EntrepotError]]] = [
    ({"queue": None}, InvalidArgument),
    ({"queue": 5}, InvalidArgument),
    ({"queue": b"Q"}, InvalidArgument),
    ({"queue": {"Q": 1}}, InvalidArgument),
    ({"queue": []}, InvalidArgument),
    ({"queue": ["Q", None]}, InvalidName),
    ({"queue": ["Q", ["Q"]]}, InvalidName),
    ({"queue": ""}, InvalidName),
    ({"queue": "has space"}, InvalidName),
    ({"queue": "x" * 49}, InvalidName),
    ({"queue": "Ü"}, InvalidName),
    ({"queue": "../../etc/passwd"}, QueueNotFound),
    ({"queue": "@QM1"}, InvalidName),
    ({"queue": "Q@bad name"}, InvalidName),
    ({"queue": "NOWHERE"}, QueueNotFound),
    ({"queue": "q"}, QueueNotFound),
    ({"body": "text"}, InvalidArgument),
    ({"body": None}, InvalidArgument),
    ({"body": 5}, InvalidArgument),
    ({"body": [1]}, InvalidArgument),
    ({"persistent": 1}, InvalidArgument),
    ({"persistent": "yes"}, InvalidArgument),
    ({"priority": -1}, InvalidArgument),
    ({"priority": 10}, InvalidArgument),
    ({"priority": 5.0}, InvalidArgument),
    ({"priority": True}, InvalidArgument),
    ({"expiry_s": 0}, InvalidArgument),
    ({"expiry_s": -1}, InvalidArgument),
    ({"expiry_s": float("nan")}, InvalidArgument),
    ({"expiry_s": float("inf")}, InvalidArgument),
    ({"expiry_s": 10**400}, InvalidArgument),
    ({"expiry_s": "1"}, InvalidArgument),
    ({"delay_s": -0.1}, InvalidArgument),
    ({"delay_s": None}, InvalidArgument),
    ({"delay_s": ""}, InvalidArgument),
    ({"delay_s": float("nan")}, InvalidArgument),
    ({"message_id": "text"}, InvalidArgument),
    ({"message_id": ""}, InvalidArgument),
    ({"message_id": None}, InvalidArgument),
    ({"message_id": b"x" * 129}, InvalidArgument),
    ({"correlation_id": 0}, InvalidArgument),
    ({"correlation_id": b"x" * 129}, InvalidArgument),
    ({"group_id": bytearray(b"g")}, InvalidArgument),
    ({"sequence": 0}, InvalidArgument),
    ({"sequence": True}, InvalidArgument),
    ({"sequence": 1.0}, InvalidArgument),
    ({"sequence": 10**9}, InvalidArgument),
    ({"last_in_group": 1}, InvalidArgument),
    ({"last_in_group": None}, InvalidArgument),
    ({"type": 3}, InvalidArgument),
    ({"type": "request"}, InvalidArgument),
    ({"type": None}, InvalidArgument),
    ({"report": -1}, InvalidArgument),
    ({"report": 2**31}, InvalidArgument),
    ({"report": "arrival"}, InvalidArgument),
    ({"report": None}, InvalidArgument),
    ({"feedback": 2**70}, InvalidArgument),
    ({"feedback": 0.0}, InvalidArgument),
    ({"reply_to": 5}, InvalidArgument),
    ({"reply_to": None}, InvalidArgument),
    ({"reply_to": "x" * 1025}, InvalidArgument),
    ({"reply_to_manager": b""}, InvalidArgument),
    ({"format": "\ud800"}, InvalidArgument),
    ({"format": 0}, InvalidArgument),
    ({"ccsid": 2**70}, InvalidArgument),
    ({"ccsid": "1208"}, InvalidArgument),
    ({"encoding": None}, InvalidArgument),
    ({"properties": 5}, InvalidArgument),
    ({"properties": []}, InvalidArgument),
    ({"properties": [("a", 1)]}, InvalidArgument),
    ({"properties": {"": 1}}, InvalidArgument),
    ({"properties": {5: 1}}, InvalidArgument),
    ({"properties": {"x" * 4096: 1}}, InvalidArgument),
    ({"properties": {"\ud800": 1}}, InvalidArgument),
    ({"properties": {"a": "\ud800"}}, InvalidArgument),
    ({"properties": {"a": None}}, InvalidArgument),
    ({"properties": {"a": 2**63}}, InvalidArgument),
    ({"properties": {"a": [1]}}, InvalidArgument),
    ({"properties": {str(n): n for n in range(1001)}}, InvalidArgument),
    ({"properties": {"a": "x" * (1024 * 1024)}}, InvalidArgument),
]


@for_each("in_unit", [False, True])
@for_each(("arguments", "expected"), WRONG_PUTS, ids=lambda value: str(value)[:40])
def test_wrong_put_stores_nothing(
    connection: Connection, arguments: dict[str, Any], expected: type[EntrepotError], in_unit: bool
) -> None:
    call = {"queue": "Q", "body": b"", "persistent": True, **arguments}
    verbs = connection.unit_of_work() if in_unit else connection
    with pytest.raises(EntrepotError) as caught:
        verbs.put(call.pop("queue"), call.pop("body"), **call)
        # Through a channel nobody waits for a put of a unit of work; its commit tells.
        verbs.commit()  # type: ignore[union-attr]
    assert type(caught.value) is expected
    assert caught.value.outcome == "not_done"
    assert str(caught.value)
    if in_unit and verbs.state == "active":  # type: ignore[union-attr]
        verbs.commit()  # type: ignore[union-attr]
    assert depth(connection) == 0
    connection.put("Q", b"and goes on", persistent=True)
    assert got(connection.get("Q")).body == b"and goes on"


@for_each(
    ("arguments", "expected"),
    [
        ({"queue": None}, InvalidName),
        ({"queue": ["Q"]}, InvalidName),
        ({"queue": b"Q"}, InvalidName),
        ({"queue": ""}, InvalidName),
        ({"queue": "NOWHERE"}, QueueNotFound),
        ({"wait_s": -1}, InvalidArgument),
        ({"wait_s": None}, InvalidArgument),
        ({"wait_s": "1"}, InvalidArgument),
        ({"wait_s": float("nan")}, InvalidArgument),
        ({"message_id": b""}, InvalidArgument),
        ({"message_id": "m"}, InvalidArgument),
        ({"correlation_id": b""}, InvalidArgument),
        ({"correlation_id": b"x" * 129}, InvalidArgument),
        ({"group_id": 5}, InvalidArgument),
        ({"selector": ""}, SelectorSyntaxError),
        ({"selector": "a ="}, SelectorSyntaxError),
        ({"selector": 5}, SelectorSyntaxError),
        ({"whole_group": 1}, InvalidArgument),
        ({"whole_group": None}, InvalidArgument),
    ],
    ids=str,
)
def test_wrong_get_takes_nothing(
    connection: Connection, arguments: dict[str, Any], expected: type[EntrepotError]
) -> None:
    connection.put("Q", b"stays")
    call = {"queue": "Q", **arguments}
    with pytest.raises(expected):
        connection.get(call.pop("queue"), **call)
    if "wait_s" not in arguments and "whole_group" not in arguments:
        call = {"queue": "Q", **arguments}
        with pytest.raises(expected):
            connection.browse(call.pop("queue"), **call)
    assert depth(connection) == 1
    assert got(connection.get("Q")).body == b"stays"


@for_each("wrong", ["text", None, b"", b"x" * 141, 5])
def test_wrong_transaction_id_changes_nothing(connection: Connection, wrong: Any) -> None:
    with connection.unit_of_work() as unit:
        unit.put("Q", b"")
        with pytest.raises(InvalidArgument):
            unit.prepare(wrong)
        with pytest.raises(InvalidArgument):
            connection.resolve(wrong, commit=True)
    assert depth(connection) == 1
    assert got(connection.get("Q")).body == b""


def test_outcome_of_a_prepared_unit_must_be_said_clearly(connection: Connection) -> None:
    connection.unit_of_work().prepare(b"x")
    with pytest.raises(InvalidArgument):
        connection.resolve(b"x", commit="no")  # type: ignore[arg-type]
    assert connection.in_doubt() == [b"x"]


@pytest.mark.parametrize("timeout_s", [0, -1, None, "1"])
def test_wrong_timeout_of_a_request_puts_nothing(connection: Connection, timeout_s: Any) -> None:
    with pytest.raises(InvalidArgument):
        connection.request("Q", b"", timeout_s=timeout_s)
    assert depth(connection) == 0


# --- administration and the connection itself -------------------------------------------------


def test_mqsc_answers_with_rows_and_raises_what_went_wrong(connection: Connection) -> None:
    answers = connection.mqsc("DEFINE QLOCAL(A) DESCR('an a')\nDISPLAY QLOCAL(A) DESCR")
    assert answers[1].rows[0]["DESCR"] == "an a"
    with pytest.raises(MqscScriptFailed) as caught:
        connection.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\nDELETE QLOCAL(C)")
    assert len(caught.value.failures) == 2
    assert connection.get("B") is None
    with pytest.raises(MqscError):
        connection.mqsc("NONSENSE")


def test_dynamic_queue_goes_with_its_connection(connection: Connection) -> None:
    name = connection.dynamic_queue(pattern="MINE.*")
    assert name.startswith("MINE.")
    connection.put(name, b"")
    assert connection.get(name) is not None


def test_closed_connection_refuses_every_verb(connection: Connection) -> None:
    unit = connection.unit_of_work()
    connection.close()
    connection.close()
    for verb in (
        lambda: connection.put("Q", b""),
        lambda: connection.get("Q"),
        lambda: connection.browse("Q"),
        lambda: connection.request("Q", b""),
        lambda: connection.mqsc("PING QMGR"),
        lambda: connection.resolve(b"x", commit=True),
        connection.unit_of_work,
        connection.in_doubt,
        connection.dynamic_queue,
        lambda: unit.put("Q", b""),
        unit.commit,
    ):
        with pytest.raises(ConnectionClosed):
            verb()


def test_unit_left_open_is_backed_out_when_the_connection_closes(connection: Connection) -> None:
    unit = connection.unit_of_work()
    with connection:
        unit.put("Q", b"")
    assert unit.state == "backed out"
