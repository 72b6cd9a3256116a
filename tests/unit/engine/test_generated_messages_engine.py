# SPDX-License-Identifier: Apache-2.0
"""Events, triggers, copies and moves to the message, in the engine itself."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import PERFORMANCE_EVENT_QUEUE, LocalQueue
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.reports import BACKOUT_THRESHOLD_REACHED, REJECTED_BY_READER
from entrepot.engine.unit_of_work import Unit, UnitState
from entrepot.engine.waiting import Waiter
from entrepot.errors import EntrepotError, LogFull, UnitFinished
from entrepot.message import Feedback, Message, Report

from .simulated import Simulated

DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


@pytest.fixture
def manager() -> QueueManager:
    """With the queues REPLIES and BAD, and events switched on."""
    manager = Simulated().manager
    manager.administration.define_missing()
    manager.force()
    manager.administration.alter(replace(manager.objects.manager, performance_events=True))
    for name in ("REPLIES", "BAD", "START"):
        manager.administration.define(LocalQueue(name=name), replace_existing=False)
    manager.force()
    return manager


def redefine(manager: QueueManager, **attributes: Any) -> None:
    manager.administration.alter(LocalQueue(name="Q", **attributes))
    manager.force()


def put(manager: QueueManager, body: bytes = b"", **attributes: Any) -> None:
    persistent, priority = attributes.pop("persistent", False), attributes.pop("priority", None)
    manager.put("Q", Message(body, **attributes), persistent=persistent, priority=priority)
    manager.force()


def found(manager: QueueManager, name: str) -> list[Message]:
    return manager.browse(name, None, None, 1000)[0]


def events(manager: QueueManager) -> list[object]:
    return [message.properties["event"] for message in found(manager, PERFORMANCE_EVENT_QUEUE)]


def got(manager: QueueManager, count: int = 1) -> Unit:
    unit = manager.begin()
    for _ in range(count):
        assert manager.get("Q", None, unit)[0] is not None
    return unit


def refuse(size: int, *, reserved: bool) -> None:
    raise LogFull(0)


# --- events --------------------------------------------------------------------------------------


def test_depth_events_come_at_their_depths_and_once_for_each_way(manager: QueueManager) -> None:
    redefine(
        manager, depth_max=200, depth_high_percent=60, depth_low_percent=30, depth_high_event=True, depth_low_event=True
    )
    for way in range(1, 3):
        for depth in range(manager.objects.queues["Q"].depth + 1, 131):
            put(manager)
            assert events(manager).count("DEPTH_HIGH") == way - (depth < 120)
        for depth in range(129, 49, -1):
            manager.get("Q")
            assert events(manager).count("DEPTH_LOW") == way - (depth > 60)


@pytest.mark.parametrize("switched_off", ["depth_high_event", "depth_low_event"])
def test_only_events_that_are_wanted_come(manager: QueueManager, switched_off: str) -> None:
    wanted = {"depth_high_event": True, "depth_low_event": True, switched_off: False}
    redefine(manager, depth_max=2, depth_high_percent=50, depth_low_percent=0, **wanted)
    put(manager)
    manager.get("Q")
    assert len(events(manager)) == 1


def test_a_full_queue_tells_once_until_a_message_has_left(manager: QueueManager) -> None:
    redefine(manager, depth_max=1, depth_full_event=True, depth_high_percent=100)
    put(manager)
    for count in (1, 2):
        for _ in range(3):
            with pytest.raises(EntrepotError):
                put(manager)
        assert events(manager).count("DEPTH_FULL") == count
        manager.get("Q")
        put(manager)


def test_the_queue_of_events_causes_none_itself(manager: QueueManager) -> None:
    definition = manager.objects.queues[PERFORMANCE_EVENT_QUEUE].definition
    manager.administration.alter(replace(definition, depth_max=1, depth_high_event=True, depth_full_event=True))
    redefine(manager, depth_max=1, depth_high_event=True)
    put(manager)
    assert events(manager) == ["DEPTH_HIGH"]


# --- triggers ------------------------------------------------------------------------------------


def triggers(manager: QueueManager) -> int:
    return len(found(manager, "START"))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_depth_triggers_when_it_is_reached_and_once(manager: QueueManager, depth: int) -> None:
    redefine(manager, trigger_enabled=True, trigger_type="DEPTH", trigger_depth=depth, initiation_queue="START")
    for number in range(1, 8):
        manager.put("Q", Message(b""))
        assert triggers(manager) == (number >= depth)
    manager.force()
    assert not manager.objects.queues["Q"].definition.trigger_enabled


def test_a_depth_that_triggered_stays_off_over_a_restart(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    redefine(manager, trigger_enabled=True, trigger_type="DEPTH", trigger_depth=1, initiation_queue="START")
    monkeypatch.setattr(manager.log, "require_room", refuse)
    for _ in range(2):
        manager.put("Q", Message(b""))
    assert triggers(manager) == 1, "it is off, if only until the next restart"


@pytest.mark.parametrize(("kind", "expected"), [("FIRST", [1, 1, 1]), ("EVERY", [1, 2, 3]), ("NONE", [0, 0, 0])])
@pytest.mark.parametrize("least", [0, 4])
def test_kinds_of_triggers(manager: QueueManager, kind: str, expected: list[int], least: int) -> None:
    redefine(manager, trigger_enabled=True, trigger_type=kind, trigger_priority=least, initiation_queue="START")
    if least:
        put(manager, priority=least - 1)
        assert triggers(manager) == 0
    for count in expected:
        put(manager, priority=least)
        assert triggers(manager) == count


def test_a_message_that_a_reader_takes_starts_no_program(manager: QueueManager) -> None:
    redefine(manager, trigger_enabled=True, trigger_type="EVERY", initiation_queue="START")
    for unit in (None, manager.begin()):
        manager.wait("Q", Waiter(None, unit, lambda: None))
        put(manager)
    assert triggers(manager) == 0


# --- copies --------------------------------------------------------------------------------------


def test_a_copy_asks_for_no_reports_and_no_replies(manager: QueueManager) -> None:
    redefine(manager, stream_queue="BAD")
    put(manager, b"copied", report=Report.ARRIVAL, reply_to="REPLIES", reply_to_manager="QM")
    (copy,) = found(manager, "BAD")
    assert (copy.body, copy.report, copy.reply_to, copy.reply_to_manager) == (b"copied", 0, "", "")
    assert len(found(manager, "REPLIES")) == 1


# --- what failed too often, or cannot be used -----------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_a_rejected_message_goes_to_the_backout_queue_and_its_sender_is_told(
    manager: QueueManager, persistent: bool
) -> None:
    redefine(manager, backout_queue="BAD")
    report = Report.EXCEPTION | Report.DELIVERY
    put(manager, b"useless", report=report, reply_to="REPLIES", persistent=persistent)
    unit = got(manager)
    manager.consequences.reject(unit, "it makes no sense")
    manager.force()
    (moved,) = found(manager, "BAD")
    assert (moved.body, moved.properties["dead_letter_reason"]) == (b"useless", REJECTED_BY_READER)
    assert [message.feedback for message in found(manager, "REPLIES")] == [REJECTED_BY_READER], "it was not delivered"
    assert (unit.state, found(manager, "Q")) == (UnitState.COMMITTED, [])
    with pytest.raises(UnitFinished):
        manager.consequences.reject(unit, "again")


def test_a_message_that_no_queue_takes_stays_in_its_unit(manager: QueueManager) -> None:
    manager.administration.alter(LocalQueue(name="BAD", depth_max=1))
    redefine(manager, backout_queue="BAD")
    manager.administration.alter(replace(manager.objects.manager, dead_letter_queue="MISSING"))
    manager.force()
    for _ in range(2):
        put(manager, report=Report.EXCEPTION, reply_to="REPLIES")
    unit = got(manager, 2)
    with pytest.raises(EntrepotError):
        manager.consequences.reject(unit, "no sense")
    assert (unit.state, unit.puts, unit.body_bytes) == (UnitState.ACTIVE, [], 0)
    assert [manager.objects.queues[name].reserved for name in ("BAD", "REPLIES")] == [0, 0]
    manager.back_out(unit)
    assert len(found(manager, "Q")) == 2


@pytest.mark.parametrize("threshold", [1, 2])
def test_a_message_moves_when_it_has_failed_as_often_as_its_threshold(manager: QueueManager, threshold: int) -> None:
    redefine(manager, backout_threshold=threshold, backout_queue="BAD")
    put(manager, b"poison", report=Report.EXCEPTION | Report.DELIVERY, reply_to="REPLIES")
    for _ in range(threshold):
        manager.back_out(got(manager))
    assert manager.get("Q", None, manager.begin())[0] is None
    (moved,) = found(manager, "BAD")
    assert moved.properties["dead_letter_reason"] == BACKOUT_THRESHOLD_REACHED
    assert [message.feedback for message in found(manager, "REPLIES")] == [BACKOUT_THRESHOLD_REACHED]


def test_poison_stays_available_while_the_log_has_no_room_for_its_move(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    redefine(manager, backout_threshold=1, backout_queue="BAD")
    put(manager, b"poison", persistent=True)
    manager.back_out(got(manager))
    monkeypatch.setattr(manager.log, "require_room", refuse)
    unit = manager.begin()
    message, _ = manager.get("Q", None, unit)
    assert message is not None
    assert (manager.objects.queues["BAD"].reserved, found(manager, "BAD")) == (0, [])


def test_a_reader_outside_of_a_unit_gets_what_failed_too_often(manager: QueueManager) -> None:
    redefine(manager, backout_threshold=1, backout_queue="BAD")
    put(manager, b"poison")
    manager.back_out(got(manager))
    message, _ = manager.get("Q", Criteria())
    assert message is not None


def test_a_report_that_its_reply_queue_refuses_becomes_a_dead_letter(manager: QueueManager) -> None:
    manager.administration.alter(LocalQueue(name="REPLIES", put_enabled=False))
    manager.force()
    put(manager, report=Report.ARRIVAL, reply_to="REPLIES")
    (dead,) = found(manager, DEAD)
    assert (dead.feedback, dead.properties["dead_letter_queue"]) == (Feedback.ARRIVAL, "REPLIES")
    assert dead.properties["dead_letter_reason"] == 2051
