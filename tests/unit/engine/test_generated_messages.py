# SPDX-License-Identifier: Apache-2.0
"""Reports, copies, triggers and depth events."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import host_of
from entrepot import Connection, Feedback, Message, MessageType, Report
from entrepot.engine.waiting import Waiter
from entrepot.errors import PutInhibited

DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
EVENTS = "SYSTEM.ADMIN.PERFM.EVENT"
INITIATION = "SYSTEM.DEFAULT.INITIATION.QUEUE"


def drain(connection: Connection, queue: str) -> list[Message]:
    return list(iter(lambda: connection.get(queue), None))


def bodies(connection: Connection, queue: str) -> list[bytes]:
    return [message.body for message in drain(connection, queue)]


# --- reports ----------------------------------------------------------------------------------


@pytest.fixture
def told(connection: Connection) -> Connection:
    """With a queue R for reports."""
    connection.mqsc("DEFINE QLOCAL(R)")
    return connection


@pytest.mark.parametrize("persistent", [False, True])
def test_sender_is_told_of_arrival_and_delivery(told: Connection, persistent: bool) -> None:
    options = Report.ARRIVAL | Report.DELIVERY
    sent = told.put("Q", b"body", report=options, reply_to="R", persistent=persistent, priority=3, format="MQSTR")
    (arrival,) = drain(told, "R")
    assert (arrival.type, arrival.feedback) == (MessageType.REPORT, Feedback.ARRIVAL)
    assert (arrival.correlation_id, arrival.body, arrival.format) == (sent, b"", "")
    assert (arrival.persistent, arrival.priority) == (persistent, 3)
    assert arrival.message_id not in (b"", sent)
    assert told.get("Q") is not None
    (delivery,) = drain(told, "R")
    assert (delivery.feedback, delivery.correlation_id) == (Feedback.DELIVERY, sent)


def test_report_carries_what_the_sender_asks_for(told: Connection) -> None:
    options = Report.ARRIVAL | Report.WITH_DATA | Report.PASS_MESSAGE_ID | Report.PASS_CORRELATION_ID
    told.put("Q", b"body", report=options, reply_to="R", message_id=b"m", correlation_id=b"c", format="MQSTR")
    (report,) = drain(told, "R")
    assert (report.body, report.message_id, report.correlation_id, report.format) == (b"body", b"m", b"c", "MQSTR")


def test_reports_of_a_unit_come_with_its_commit(told: Connection) -> None:
    unit = told.unit_of_work()
    unit.put("Q", b"", report=Report.ARRIVAL | Report.DELIVERY, reply_to="R")
    assert drain(told, "R") == []
    unit.commit()
    assert [report.feedback for report in drain(told, "R")] == [Feedback.ARRIVAL]
    unit = told.unit_of_work()
    unit.get("Q")
    unit.back_out()
    assert drain(told, "R") == []
    with told.unit_of_work() as unit:
        unit.get("Q")
        assert drain(told, "R") == []
    assert [report.feedback for report in drain(told, "R")] == [Feedback.DELIVERY]


def test_delivery_to_a_waiting_reader_is_told_too(told: Connection) -> None:
    manager = host_of(told)._manager
    waiter = Waiter(None, None, lambda: None)
    manager.wait("Q", waiter)
    told.put("Q", b"", report=Report.DELIVERY, reply_to="R")
    assert waiter.message is not None
    assert [report.feedback for report in drain(told, "R")] == [Feedback.DELIVERY]


def test_report_without_a_place_to_go_is_none(told: Connection) -> None:
    told.put("Q", b"", report=Report.ARRIVAL)
    assert drain(told, DEAD) == []


@pytest.mark.parametrize("reply_to", ["NOWHERE", "bad name", "FULL"])
def test_undeliverable_report_goes_to_the_dead_letter_queue(told: Connection, reply_to: str) -> None:
    told.mqsc("DEFINE QLOCAL(FULL) MAXDEPTH(0)")
    told.put("Q", b"", report=Report.ARRIVAL, reply_to=reply_to)
    assert told.get("Q") is not None, "the message itself has arrived"
    (dead,) = drain(told, DEAD)
    assert dead.feedback == Feedback.ARRIVAL
    assert dead.properties["dead_letter_queue"] == reply_to


def test_report_for_another_queue_manager_goes_to_its_transmission_queue(told: Connection) -> None:
    told.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)")
    told.put("Q", b"", report=Report.ARRIVAL, reply_to="R", reply_to_manager="QM2")
    (report,) = drain(told, "QM2")
    assert (report.target_queue, report.target_manager) == ("R", "QM2")


def test_message_on_a_transmission_queue_has_not_arrived_yet(told: Connection) -> None:
    told.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)")
    told.put("FAR@QM2", b"", report=Report.ARRIVAL | Report.DELIVERY, reply_to="R")
    assert told.get("QM2") is not None
    assert drain(told, "R") == []


def test_reports_of_a_distribution_list_come_from_every_queue(told: Connection) -> None:
    told.mqsc("DEFINE QLOCAL(A)")
    told.put(["Q", "A"], b"", report=Report.ARRIVAL, reply_to="R")
    assert len(drain(told, "R")) == 2


# --- streaming copies -------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_every_arriving_message_is_copied(connection: Connection, persistent: bool) -> None:
    connection.mqsc("DEFINE QLOCAL(COPY)\nALTER QLOCAL(Q) STREAMQ(COPY)")
    sent = connection.put("Q", b"1", persistent=persistent, report=Report.ARRIVAL, properties={"a": 1})
    unit = connection.unit_of_work()
    unit.put("Q", b"2", persistent=persistent)
    assert len(list(connection.browse("COPY"))) == 1
    unit.back_out()
    with connection.unit_of_work() as unit:
        unit.put("Q", b"3", persistent=persistent)
    copies = drain(connection, "COPY")
    assert [copy.body for copy in copies] == [b"1", b"3"]
    assert (copies[0].message_id, copies[0].persistent, copies[0].properties) == (sent, persistent, {"a": 1})
    assert copies[0].report == 0
    assert bodies(connection, "Q") == [b"1", b"3"]


def test_copy_is_made_although_a_reader_waits(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(COPY)\nALTER QLOCAL(Q) STREAMQ(COPY)")
    waiter = Waiter(None, None, lambda: None)
    host_of(connection)._manager.wait("Q", waiter)
    connection.put("Q", b"1")
    assert waiter.message is not None
    assert bodies(connection, "COPY") == [b"1"]


@pytest.mark.parametrize("stream", ["MISSING", "SHUT"])
def test_best_effort_copy_may_fail_and_a_required_one_refuses_the_put(connection: Connection, stream: str) -> None:
    connection.mqsc(f"DEFINE QLOCAL(SHUT) PUT(DISABLED)\nALTER QLOCAL(Q) STREAMQ({stream})")
    connection.put("Q", b"1")
    connection.mqsc("ALTER QLOCAL(Q) STRMQOS(MUSTDUP)")
    for persistent in (False, True):
        with pytest.raises(Exception, match=stream):
            connection.put("Q", b"2", persistent=persistent)
    with pytest.raises(Exception, match=stream), connection.unit_of_work() as unit:
        unit.put("Q", b"3")
    assert unit.state == "backed out"
    assert bodies(connection, "Q") == [b"1"]
    assert host_of(connection).queue_status("Q")["UNCOM"] == 0


def test_unit_whose_copy_failed_may_commit_later_and_copies_once(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B) PUT(DISABLED)\nDEFINE QLOCAL(Q2) STREAMQ(B) STRMQOS(MUSTDUP)")
    connection.mqsc("ALTER QLOCAL(Q) STREAMQ(A) STRMQOS(MUSTDUP)")
    unit = connection.unit_of_work()
    unit.put("Q", b"1")
    unit.put("Q2", b"2")
    with pytest.raises(PutInhibited):
        unit.commit()
    assert unit.state == "active"
    connection.mqsc("ALTER QLOCAL(B) PUT(ENABLED)")
    unit.commit()
    assert [bodies(connection, name) for name in ("Q", "A", "Q2", "B")] == [[b"1"], [b"1"], [b"2"], [b"2"]]


# --- triggers ---------------------------------------------------------------------------------


@pytest.fixture
def triggered(timed: Any) -> Any:
    connection = timed.open()
    connection.mqsc(
        f"""DEFINE PROCESS(P) APPLICID('run --me') APPLTYPE(UNIX) USERDATA('user') ENVRDATA('env')
        DEFINE QLOCAL(Q) TRIGGER TRIGTYPE(FIRST) PROCESS(P) INITQ({INITIATION}) TRIGDATA('data')"""
    )
    return timed, connection


def triggers(connection: Connection) -> int:
    return len(drain(connection, INITIATION))


def test_trigger_message_tells_what_to_start(triggered: Any) -> None:
    _, connection = triggered
    connection.put("Q", b"")
    (trigger,) = drain(connection, INITIATION)
    assert trigger.format == "TRIGGER"
    assert trigger.properties == {
        "queue": "Q",
        "process": "P",
        "trigger_data": "data",
        "application_type": "UNIX",
        "application_id": "run --me",
        "environment_data": "env",
        "user_data": "user",
    }


def test_first_triggers_when_an_empty_queue_gets_a_message(triggered: Any) -> None:
    _, connection = triggered
    connection.put("Q", b"1")
    connection.put("Q", b"2", persistent=True)
    assert triggers(connection) == 1
    drain(connection, "Q")
    connection.put("Q", b"3")
    assert triggers(connection) == 1


def test_first_triggers_again_after_the_interval(triggered: Any) -> None:
    place, connection = triggered
    connection.mqsc("ALTER QMGR TRIGINT(5000)")
    connection.put("Q", b"1")
    place.advance(4)
    connection.put("Q", b"2")
    assert triggers(connection) == 1
    place.advance(2)
    connection.put("Q", b"3")
    assert triggers(connection) == 1


def test_every_triggers_for_each_message(triggered: Any) -> None:
    _, connection = triggered
    connection.mqsc("ALTER QLOCAL(Q) TRIGTYPE(EVERY)")
    connection.put("Q", b"1")
    with connection.unit_of_work() as unit:
        unit.put("Q", b"2")
        unit.put("Q", b"3", persistent=True)
        assert triggers(connection) == 1
    assert triggers(connection) == 2


def test_depth_triggers_once_and_switches_itself_off(triggered: Any) -> None:
    place, connection = triggered
    connection.mqsc("ALTER QLOCAL(Q) TRIGTYPE(DEPTH) TRIGDPTH(3)")
    for _ in range(2):
        connection.put("Q", b"")
    assert triggers(connection) == 0
    connection.put("Q", b"", persistent=True)
    connection.put("Q", b"")
    assert triggers(connection) == 1
    assert connection.mqsc("DISPLAY QLOCAL(Q) TRIGGER")[0].rows[0]["TRIGGER"] in ("NO", "NOTRIGGER")
    place.advance(0)
    connection = place.reopen()
    assert host_of(connection).find("QLOCAL", "Q").trigger_enabled is False
    connection.mqsc("ALTER QLOCAL(Q) TRIGGER")
    for _ in range(2):
        connection.put("Q", b"")
    assert triggers(connection) == 1


@pytest.mark.parametrize("kind", ["FIRST", "EVERY", "DEPTH"])
def test_messages_of_too_low_a_priority_do_not_count(triggered: Any, kind: str) -> None:
    _, connection = triggered
    connection.mqsc(f"ALTER QLOCAL(Q) TRIGTYPE({kind}) TRIGMPRI(5) TRIGDPTH(1)")
    for _ in range(3):
        connection.put("Q", b"", priority=4)
    assert triggers(connection) == 0
    connection.put("Q", b"", priority=5)
    assert triggers(connection) == 1


@pytest.mark.parametrize("kind", ["FIRST", "EVERY"])
@pytest.mark.parametrize("persistent", [False, True])
def test_no_trigger_while_a_reader_waits(triggered: Any, kind: str, persistent: bool) -> None:
    _, connection = triggered
    connection.mqsc(f"ALTER QLOCAL(Q) TRIGTYPE({kind})")
    waiter = Waiter(None, None, lambda: None)
    host_of(connection)._manager.wait("Q", waiter)
    connection.put("Q", b"", persistent=persistent)
    assert waiter.message is not None
    assert triggers(connection) == 0


def test_backed_out_message_triggers_again(triggered: Any) -> None:
    _, connection = triggered
    connection.put("Q", b"")
    unit = connection.unit_of_work()
    unit.get("Q")
    assert triggers(connection) == 1
    unit.back_out()
    assert triggers(connection) == 1


def test_message_that_waits_when_triggering_is_switched_on_triggers(triggered: Any) -> None:
    _, connection = triggered
    connection.mqsc("ALTER QLOCAL(Q) NOTRIGGER")
    connection.put("Q", b"")
    assert triggers(connection) == 0
    connection.mqsc("ALTER QLOCAL(Q) TRIGGER")
    assert triggers(connection) == 1


def test_message_that_waits_at_a_restart_triggers(triggered: Any) -> None:
    place, connection = triggered
    connection.put("Q", b"", persistent=True)
    connection.mqsc(f"CLEAR QLOCAL({INITIATION})")
    connection = place.reopen()
    assert triggers(connection) == 1


def test_delayed_message_triggers_when_it_is_due(triggered: Any) -> None:
    place, connection = triggered
    connection.put("Q", b"", delay_s=10)
    assert triggers(connection) == 0
    place.advance(10)
    assert triggers(connection) == 1


def test_trigger_without_an_initiation_queue_goes_to_the_dead_letter_queue(triggered: Any) -> None:
    _, connection = triggered
    connection.mqsc("ALTER QLOCAL(Q) INITQ(MISSING)")
    connection.put("Q", b"")
    (dead,) = drain(connection, DEAD)
    assert (dead.format, dead.properties["queue"]) == ("TRIGGER", "Q")


# --- depth events -----------------------------------------------------------------------------


def events(connection: Connection) -> list[tuple[str, int]]:
    found = drain(connection, EVENTS)
    assert all((event.format, event.properties["queue"]) == ("EVENT", "Q") for event in found)
    return [(str(event.properties["event"]), int(event.properties["depth"])) for event in found]


def test_depth_events_come_once_for_each_way_up_and_down(connection: Connection) -> None:
    connection.mqsc(
        "ALTER QLOCAL(Q) MAXDEPTH(10) QDEPTHHI(80) QDEPTHLO(20) QDPHIEV(ENABLED) QDPLOEV(ENABLED) QDPMAXEV(ENABLED)"
    )
    for _ in range(2):
        for number in range(10):
            connection.put("Q", b"", persistent=number % 2 == 0)
        assert events(connection) == [("DEPTH_HIGH", 8)]
        for _ in range(3):
            with pytest.raises(Exception, match="maximum of 10"):
                connection.put("Q", b"")
        assert events(connection) == [("DEPTH_FULL", 10)]
        drain(connection, "Q")
        assert events(connection) == [("DEPTH_LOW", 2)]


def test_low_event_needs_no_high_event(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10) QDEPTHHI(50) QDEPTHLO(10) QDPLOEV(ENABLED)")
    connection.put("Q", b"")
    connection.get("Q")
    assert events(connection) == []
    for _ in range(5):
        connection.put("Q", b"")
    drain(connection, "Q")
    assert events(connection) == [("DEPTH_LOW", 1)]


def test_events_may_be_switched_off_and_never_flood_the_dead_letter_queue(connection: Connection) -> None:
    connection.mqsc(f"ALTER QLOCAL(Q) MAXDEPTH(1) QDPMAXEV(ENABLED)\nALTER QLOCAL({EVENTS}) MAXDEPTH(0)")
    for _ in range(2):
        connection.put("Q", b"")
        with pytest.raises(Exception, match="maximum"):
            connection.put("Q", b"")
        drain(connection, "Q")
    assert drain(connection, DEAD) == []
    connection.mqsc(f"ALTER QLOCAL({EVENTS}) MAXDEPTH(10)\nALTER QMGR PERFMEV(DISABLED)")
    connection.put("Q", b"")
    with pytest.raises(Exception, match="maximum"):
        connection.put("Q", b"")
    assert events(connection) == []
