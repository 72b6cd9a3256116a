# SPDX-License-Identifier: Apache-2.0
"""Verbs over time: persistence, expiry, delay, backout thresholds, and what survives a stop or a kill."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import host_of
from entrepot import Connection, Message, MessageType, Report
from entrepot.engine import unit_of_work
from entrepot.engine.waiting import Waiter
from entrepot.errors import LogFull, SpillFailed, TooManyUncommitted


def drain(connection: Connection, queue: str = "Q") -> list[Message]:
    return list(iter(lambda: connection.get(queue), None))


def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body for message in drain(connection, queue)]


def status(connection: Connection, queue: str = "Q") -> dict[str, float]:
    return {key: float(value) for key, value in host_of(connection).queue_status(queue).items()}


# --- persistence ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_persistent_messages_survive_in_order_and_others_do_not(place: Any, how: str) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(P) DEFPSIST(YES)")
    for number in range(30):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 0, priority=number % 3, properties={"n": number})
        connection.put("P", b"%d" % number, persistent=None if number % 2 else False)
    again = place.reopen() if how == "stop" else place.killed().open()
    found = drain(again)
    expected = sorted((n for n in range(30) if n % 2 == 0), key=lambda n: (-(n % 3), n))
    assert [message.body for message in found] == [b"%d" % n for n in expected]
    assert all(message.persistent and message.properties == {"n": int(message.body)} for message in found)
    assert bodies(again, "P") == [b"%d" % n for n in range(1, 30, 2)]
    again.close()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_got_messages_do_not_come_back(place: Any, how: str) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    for number in range(6):
        connection.put("Q", b"%d" % number, persistent=True)
    connection.administration.checkpoint()
    connection.get("Q")
    with connection.unit_of_work() as unit:
        unit.get("Q")
    open_unit = connection.unit_of_work()
    open_unit.get("Q")
    again = place.reopen() if how == "stop" else place.killed().open()
    assert [(message.body, message.backout_count) for message in drain(again)] == [
        (b"2", 1),
        (b"3", 0),
        (b"4", 0),
        (b"5", 0),
    ]
    again.close()


def test_checkpoints_in_the_middle_change_nothing(place: Any) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    expected = []
    for number in range(60):
        connection.put("Q", b"%d" % number, persistent=True)
        expected.append(b"%d" % number)
        if number % 3 == 0:
            message = connection.get("Q")
            assert message is not None
            assert message.body == expected.pop(0)
        if number % 10 == 0:
            connection.administration.checkpoint()
    again = place.killed().open()
    assert bodies(again) == expected
    again.close()
    assert bodies(connection) == expected


def test_ids_of_a_later_start_are_new(place: Any) -> None:
    seen: set[bytes] = set()
    for _ in range(3):
        connection = place.reopen()
        connection.mqsc("DEFINE QLOCAL(Q) REPLACE")
        made = {connection.put("Q", b"", persistent=True) for _ in range(5)}
        assert not seen & made
        seen |= made


# --- expiry -----------------------------------------------------------------------------------


@pytest.fixture
def aging(timed: Any) -> Any:
    """A queue manager with a clock of its own and queues Q and REPLIES."""
    connection = timed.open()
    connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(REPLIES)")
    return timed, connection


@pytest.mark.parametrize("persistent", [False, True])
def test_message_is_discarded_once_it_has_expired(aging: Any, persistent: bool) -> None:
    place, connection = aging
    connection.put("Q", b"short", expiry_s=10, persistent=persistent)
    connection.put("Q", b"long", expiry_s=100, persistent=persistent)
    connection.put("Q", b"for good", persistent=persistent)
    place.advance(9.9)
    assert status(connection)["CURDEPTH"] == 3
    place.advance(0.1)
    assert [message.body for message in connection.browse("Q")] == [b"long", b"for good"]
    assert status(connection)["CURDEPTH"] == 2
    place.advance(1_000)
    assert bodies(connection) == [b"for good"]


def test_reader_sees_how_long_a_message_is_still_of_use(aging: Any) -> None:
    place, connection = aging
    connection.put("Q", b"", expiry_s=10)
    place.advance(4)
    assert next(connection.browse("Q")).expiry_s == pytest.approx(6)
    message = connection.get("Q")
    assert message.expiry_s == pytest.approx(6)


def test_expired_message_is_not_shown_before_anybody_has_tidied_up(aging: Any) -> None:
    place, connection = aging
    connection.put("Q", b"", expiry_s=10, correlation_id=b"c")
    place.clock.advance(11)
    assert list(connection.browse("Q")) == []
    assert connection.get("Q", correlation_id=b"c") is None
    assert connection.get("Q") is None


def test_message_that_expires_during_a_stop_is_discarded_at_the_start(aging: Any) -> None:
    place, connection = aging
    connection.put("Q", b"", expiry_s=10, persistent=True)
    connection.put("Q", b"kept", expiry_s=100, persistent=True)
    place.close()
    place.clock.advance(50)
    connection = place.open()
    message = connection.get("Q")
    assert (message.body, message.expiry_s) == (b"kept", pytest.approx(50))


def test_sender_is_told_of_the_expiry_when_it_asked(aging: Any) -> None:
    place, connection = aging
    asked = connection.put("Q", b"gone", expiry_s=5, report=Report.EXPIRATION, reply_to="REPLIES")
    connection.put("Q", b"quiet", expiry_s=5, reply_to="REPLIES")
    place.advance(6)
    reports = drain(connection, "REPLIES")
    assert [(report.type, report.feedback, report.correlation_id) for report in reports] == [
        (MessageType.REPORT, 258, asked)
    ]


@pytest.mark.parametrize("persistent", [False, True])
def test_message_that_expired_in_a_unit_is_discarded_when_it_returns(aging: Any, persistent: bool) -> None:
    place, connection = aging
    connection.put("Q", b"", expiry_s=5, report=Report.EXPIRATION, reply_to="REPLIES", persistent=persistent)
    unit = connection.unit_of_work()
    assert unit.get("Q") is not None
    place.advance(6)
    assert status(connection)["CURDEPTH"] == 1
    unit.back_out()
    place.advance(0)
    assert status(connection)["CURDEPTH"] == 0
    assert len(drain(connection, "REPLIES")) == 1


def test_message_that_expired_before_its_commit_reaches_nobody(aging: Any) -> None:
    place, connection = aging
    manager = host_of(connection)._manager
    unit = connection.unit_of_work()
    unit.put("Q", b"", expiry_s=5)
    waiter = Waiter(None, None, lambda: None)
    manager.wait("Q", waiter)
    place.clock.advance(6)
    unit.commit()
    assert waiter.message is None
    place.advance(0)
    assert status(connection)["CURDEPTH"] == 0


def test_whole_group_has_no_expired_message(aging: Any) -> None:
    place, connection = aging
    connection.put("Q", b"1", group_id=b"g", sequence=1, expiry_s=5)
    connection.put("Q", b"2", group_id=b"g", sequence=2, last_in_group=True)
    place.clock.advance(6)
    with connection.unit_of_work() as unit:
        assert unit.get_group("Q") is None
        assert unit.get("Q", whole_group=True) is None


def test_timers_of_messages_that_were_got_do_not_pile_up(aging: Any) -> None:
    _place, connection = aging
    manager = host_of(connection)._manager
    for _ in range(5_000):
        connection.put("Q", b"", expiry_s=3_600)
        connection.get("Q")
    assert len(manager.timers._waiting) < 3_000


# --- delay ------------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_delayed_message_stays_hidden_until_it_is_due(aging: Any, persistent: bool) -> None:
    place, connection = aging
    connection.put("Q", b"late", delay_s=10, persistent=persistent, correlation_id=b"c")
    connection.put("Q", b"now", persistent=persistent)
    assert next(iter(connection.browse("Q"))).body == b"now"
    assert connection.get("Q", correlation_id=b"c") is None
    assert status(connection)["DELAYED"] == 1
    assert status(connection)["CURDEPTH"] == 2
    place.advance(10)
    assert status(connection)["DELAYED"] == 0
    assert bodies(connection) == [b"late", b"now"], "it arrived first and takes that place"


def test_delay_is_counted_from_the_put_also_in_a_unit(aging: Any) -> None:
    place, connection = aging
    unit = connection.unit_of_work()
    unit.put("Q", b"", delay_s=10)
    place.advance(6)
    unit.commit()
    assert connection.get("Q") is None
    place.advance(4)
    assert connection.get("Q") is not None


def test_waiting_reader_is_served_when_the_delay_is_over(aging: Any) -> None:
    place, connection = aging
    manager = host_of(connection)._manager
    connection.put("Q", b"late", delay_s=10)
    waiter = Waiter(None, None, lambda: None)
    manager.wait("Q", waiter)
    place.advance(9)
    assert waiter.message is None
    place.advance(1)
    assert waiter.message is not None
    assert waiter.message.body == b"late"


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_delay_goes_on_after_a_restart(aging: Any, how: str) -> None:
    place, connection = aging
    connection.put("Q", b"late", delay_s=10, persistent=True)
    connection.put("Q", b"over", delay_s=1, persistent=True)
    target = place if how == "stop" else place.killed()
    place.close()
    place.clock.advance(5)
    connection = target.open()
    assert bodies(connection) == [b"over"]
    assert status(connection)["DELAYED"] == 1
    target.advance(5)
    assert bodies(connection) == [b"late"]
    target.close()


def test_message_that_expires_before_it_is_due_is_discarded(aging: Any) -> None:
    place, connection = aging
    connection.put("Q", b"", delay_s=10, expiry_s=5, report=Report.EXPIRATION, reply_to="REPLIES")
    manager = host_of(connection)._manager
    waiter = Waiter(None, None, lambda: None)
    manager.wait("Q", waiter)
    place.advance(11)
    place.advance(0)
    assert waiter.message is None
    assert len(drain(connection, "REPLIES")) == 1
    assert status(connection)["CURDEPTH"] == 0


def test_clear_takes_delayed_messages_too(aging: Any) -> None:
    place, connection = aging
    connection.put("Q", b"", delay_s=10, persistent=True)
    connection.put("Q", b"")
    connection.mqsc("CLEAR QLOCAL(Q)")
    assert status(connection)["CURDEPTH"] == 0
    place.advance(11)
    assert connection.get("Q") is None


# --- backout threshold ------------------------------------------------------------------------


def fail(connection: Connection, times: int, queue: str = "Q") -> None:
    for _ in range(times):
        unit = connection.unit_of_work()
        assert unit.get(queue) is not None
        unit.back_out()


def reader_gets(connection: Connection, queue: str = "Q") -> bytes | None:
    with connection.unit_of_work() as unit:
        message = unit.get(queue)
        return message.body if message else None


@pytest.mark.parametrize("persistent", [False, True])
def test_poison_moves_to_the_backout_queue_with_its_reason(aging: Any, persistent: bool) -> None:
    place, connection = aging
    connection.mqsc("DEFINE QLOCAL(BAD)\nALTER QLOCAL(Q) BOTHRESH(2) BOQNAME(BAD)")
    poison = connection.put(
        "Q", b"poison", persistent=persistent, properties={"own": 1}, correlation_id=b"c", priority=9
    )
    connection.put("Q", b"healthy", persistent=persistent)
    fail(connection, 2)
    assert reader_gets(connection) == b"healthy"
    place.advance(0)
    (moved,) = drain(connection, "BAD")
    assert (moved.body, moved.message_id, moved.correlation_id) == (b"poison", poison, b"c")
    assert moved.persistent is persistent
    assert moved.properties["own"] == 1
    assert moved.properties["dead_letter_queue"] == "Q"
    assert moved.properties["dead_letter_reason"] == 2362
    assert "2 times" in str(moved.properties["dead_letter_problem"])


def test_poison_without_a_backout_queue_moves_to_the_dead_letter_queue(aging: Any) -> None:
    _, connection = aging
    connection.mqsc("ALTER QLOCAL(Q) BOTHRESH(1)")
    connection.put("Q", b"poison", expiry_s=60)
    fail(connection, 1)
    assert reader_gets(connection) is None
    (moved,) = drain(connection, "SYSTEM.DEAD.LETTER.QUEUE")
    assert moved.properties["dead_letter_reason"] == 2362
    assert moved.expiry_s is None, "nobody could look into it if it expired there"


def test_missing_backout_queue_leads_to_the_dead_letter_queue_with_both_reasons(aging: Any) -> None:
    _, connection = aging
    connection.mqsc("ALTER QLOCAL(Q) BOTHRESH(1) BOQNAME(MISSING)")
    connection.put("Q", b"poison")
    fail(connection, 1)
    assert reader_gets(connection) is None
    (moved,) = drain(connection, "SYSTEM.DEAD.LETTER.QUEUE")
    assert moved.properties["dead_letter_queue"] == "Q"
    assert moved.properties["dead_letter_reason"] == 2362
    assert "no queue MISSING" in str(moved.properties["dead_letter_problem"])


def test_poison_that_no_queue_takes_stays_available(aging: Any) -> None:
    _, connection = aging
    connection.mqsc("ALTER QLOCAL(Q) BOTHRESH(1) BOQNAME(MISSING)\nALTER QMGR DEADQ(MISSING.TOO)")
    connection.put("Q", b"poison")
    fail(connection, 3)
    assert reader_gets(connection) == b"poison"


def test_sender_may_want_poison_discarded_and_be_told(aging: Any) -> None:
    _, connection = aging
    connection.mqsc("ALTER QLOCAL(Q) BOTHRESH(1)")
    connection.put("Q", b"poison", report=Report.DISCARD | Report.EXCEPTION | Report.WITH_DATA, reply_to="REPLIES")
    fail(connection, 1)
    assert reader_gets(connection) is None
    assert drain(connection, "SYSTEM.DEAD.LETTER.QUEUE") == []
    (report,) = drain(connection, "REPLIES")
    assert (report.feedback, report.body) == (2362, b"poison")


def test_waiting_reader_is_not_given_poison(aging: Any) -> None:
    _, connection = aging
    connection.mqsc("ALTER QLOCAL(Q) BOTHRESH(1)")
    connection.put("Q", b"poison")
    manager = host_of(connection)._manager
    bad = connection.unit_of_work()
    bad.get("Q")
    unit = host_of(connection).begin()
    waiter = Waiter(None, unit, lambda: None)
    manager.wait("Q", waiter)
    bad.back_out()
    assert waiter.message is None
    connection.put("Q", b"healthy")
    assert waiter.message is not None
    assert waiter.message.body == b"healthy"
    host_of(connection).back_out(unit)


def test_poisoned_group_moves_as_a_whole(aging: Any) -> None:
    _, connection = aging
    connection.mqsc("ALTER QLOCAL(Q) BOTHRESH(1)")
    for sequence in (1, 2):
        connection.put("Q", b"%d" % sequence, group_id=b"g", sequence=sequence, last_in_group=sequence == 2)
    unit = connection.unit_of_work()
    assert len(unit.get_group("Q")) == 2
    unit.back_out()
    with connection.unit_of_work() as unit:
        assert unit.get_group("Q") is None
    assert bodies(connection, "SYSTEM.DEAD.LETTER.QUEUE") == [b"1", b"2"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_hardened_counts_reach_the_threshold_over_restarts(aging: Any, how: str) -> None:
    place, connection = aging
    connection.mqsc("ALTER QLOCAL(Q) BOTHRESH(2)")
    connection.put("Q", b"poison", persistent=True)
    fail(connection, 1)
    if how == "stop":
        connection = place.reopen()
    else:
        place = place.killed()
        connection = place.open()
    assert next(connection.browse("Q")).backout_count == 1
    fail(connection, 1)
    assert reader_gets(connection) is None
    place.advance(0)
    assert bodies(connection, "SYSTEM.DEAD.LETTER.QUEUE") == [b"poison"]
    place.close()


def test_kill_counts_as_a_back_out(aging: Any) -> None:
    place, connection = aging
    connection.put("Q", b"deadly", persistent=True)
    connection.unit_of_work().get("Q")
    killed = place.killed()
    assert next(killed.open().browse("Q")).backout_count == 1
    killed.close()


def test_count_that_is_not_hardened_dies_with_the_process(aging: Any) -> None:
    place, connection = aging
    connection.mqsc("ALTER QLOCAL(Q) NOHARDENBO")
    connection.put("Q", b"", persistent=True)
    fail(connection, 2)
    assert next(connection.browse("Q")).backout_count == 2
    killed = place.killed()
    assert next(killed.open().browse("Q")).backout_count == 0
    killed.close()


# --- units ------------------------------------------------------------------------------------


def test_unit_takes_no_more_messages_than_it_may(connection: Connection) -> None:
    connection.mqsc("ALTER QMGR MAXUMSGS(3)")
    connection.put("Q", b"")
    unit = connection.unit_of_work()
    unit.get("Q")
    unit.put("Q", b"")
    unit.put("Q", b"")
    for verb in (lambda: unit.put("Q", b""), lambda: unit.get("Q"), lambda: unit.put(["Q"], b"")):
        with pytest.raises(TooManyUncommitted):
            verb()
    unit.commit()
    assert status(connection)["CURDEPTH"] == 2


def test_unit_takes_no_more_bytes_than_it_may(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_of_work, "UNCOMMITTED_BYTES_MAX", 1_000)
    with connection.unit_of_work() as unit:
        unit.put("Q", b"x" * 900)
        with pytest.raises(TooManyUncommitted, match="bytes"):
            unit.put("Q", b"x" * 101)
        unit.put("Q", b"x" * 100)
    assert status(connection)["CURDEPTH"] == 2


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("commit", [True, False])
def test_prepared_unit_survives_a_restart(place: Any, how: str, commit: bool) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(OUT)")
    for number in range(3):
        connection.put("Q", b"%d" % number, persistent=True)
    connection.administration.checkpoint()
    unit = connection.unit_of_work()
    unit.get("Q")
    unit.put("OUT", b"out", persistent=True)
    unit.put("OUT", b"lost with the process")
    unit.prepare(b"x")
    connection.put("Q", b"3", persistent=True)
    if how == "stop":
        connection = place.reopen()
    else:
        place = place.killed()
        connection = place.open()
    connection = place.reopen()
    assert connection.in_doubt() == [b"x"]
    assert [message.body for message in connection.browse("Q")] == [b"1", b"2", b"3"]
    assert status(connection)["CURDEPTH"] == 4
    assert connection.get("OUT") is None
    connection.resolve(b"x", commit=commit)
    connection = place.reopen()
    assert connection.in_doubt() == []
    assert bodies(connection) == ([b"1", b"2", b"3"] if commit else [b"0", b"1", b"2", b"3"])
    assert bodies(connection, "OUT") == ([b"out"] if commit else [])
    place.close()


def test_deletion_waits_for_prepared_units(connection: Connection) -> None:
    unit = connection.unit_of_work()
    unit.put("Q", b"", persistent=True)
    unit.prepare(b"x")
    with pytest.raises(Exception, match="uncommitted"):
        connection.mqsc("DELETE QLOCAL(Q) PURGE")
    connection.resolve(b"x", commit=True)
    assert status(connection)["CURDEPTH"] == 1


def test_commit_that_met_a_full_log_adds_copies_and_reports_only_once(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.mqsc("DEFINE QLOCAL(COPY)\nDEFINE QLOCAL(REPLIES)\nALTER QLOCAL(Q) STREAMQ(COPY)")
    log = host_of(connection)._manager.log
    require_room = log.require_room
    refusals = [1]

    def refuse(size: int, *, reserved: bool) -> None:
        if refusals:
            refusals.pop()
            raise LogFull(0)
        require_room(size, reserved=reserved)

    with connection.unit_of_work() as unit:
        unit.put("Q", b"", persistent=True, report=Report.ARRIVAL, reply_to="REPLIES")
        monkeypatch.setattr(log, "require_room", refuse)
    assert not refusals
    assert [status(connection, name)["CURDEPTH"] for name in ("Q", "COPY", "REPLIES")] == [1, 1, 1]
    assert [status(connection, name)["UNCOM"] for name in ("Q", "COPY", "REPLIES")] == [0, 0, 0]


# --- queue avoidance and spilling failures ----------------------------------------------------


def test_message_for_a_waiting_reader_never_stands_on_the_queue(connection: Connection) -> None:
    manager = host_of(connection)._manager
    waiter = Waiter(None, None, lambda: None)
    manager.wait("Q", waiter)
    connection.put("Q", b"straight")
    assert waiter.message is not None
    assert waiter.message.body == b"straight"
    assert manager.objects.queues["Q"].memory_bytes == 0
    assert status(connection)["CURDEPTH"] == 0


def test_put_that_cannot_spill_stores_nothing(
    connection: Connection, small_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.mqsc("ALTER QLOCAL(Q) BUFFER(2000)")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(host_of(connection)._manager.store, "write", refuse)
    stored = 0
    with pytest.raises(SpillFailed) as caught:
        for _ in range(100):
            connection.put("Q", b"%d" % stored, expiry_s=60)
            stored += 1
    assert caught.value.outcome == "not_done"
    assert status(connection)["CURDEPTH"] == stored
    monkeypatch.undo()
    connection.put("Q", b"goes on")
    assert bodies(connection) == [b"%d" % n for n in range(stored)] + [b"goes on"]
