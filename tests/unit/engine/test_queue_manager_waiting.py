# SPDX-License-Identifier: Apache-2.0
"""Messages and readers in the engine: who gets what while readers wait, and what units and messages cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.entry import OVERHEAD_BYTES
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import StandingWaiter, Waiter
from entrepot.errors import LogFull, QueueManagerFailed, QueueManagerStopped, TooManyUncommitted
from entrepot.message import Feedback, Message, Report
from entrepot.selectors import compile_selector

from .simulated import Simulated


@pytest.fixture
def simulated() -> Simulated:
    return Simulated()


@pytest.fixture
def manager(simulated: Simulated) -> QueueManager:
    return simulated.manager


def waiting(manager: QueueManager, unit: Unit | None = None, criteria: Criteria | None = None) -> Waiter:
    waiter = Waiter(criteria, unit, lambda: None)
    manager.wait("Q", waiter)
    return waiter


def put(manager: QueueManager, body: bytes = b"", *, persistent: bool = False, report: int = 0) -> None:
    manager.put("Q", Message(body, report=report, reply_to="REPLIES" if report else ""), persistent=persistent)
    manager.force()


def define(manager: QueueManager, *definitions: LocalQueue) -> None:
    for definition in definitions:
        manager.administration.define(definition, replace_existing=True)
    manager.force()


def status(manager: QueueManager, name: str = "Q") -> tuple[object, object, object]:
    shown = manager.administration.queue_status(name)
    return shown["CURDEPTH"], shown["UNCOM"], shown["IPPROCS"]


def body_of(waiter: Waiter) -> bytes | None:
    return waiter.message and waiter.message.body


# --- readers that wait --------------------------------------------------------------------------


def test_a_reader_that_stopped_waiting_takes_nothing(manager: QueueManager) -> None:
    waiter = waiting(manager)
    manager.stop_waiting(waiter)
    put(manager, b"for others")
    assert (waiter.message, status(manager)) == (None, (1, 0, 0))


@pytest.mark.parametrize("persistent", [False, True])
def test_what_a_waiting_reader_took_has_left_for_good(simulated: Simulated, persistent: bool) -> None:
    waiter = waiting(simulated.manager)
    put(simulated.manager, b"taken", persistent=persistent)
    simulated.manager.force()
    assert (body_of(waiter), status(simulated.manager)) == (b"taken", (0, 0, 0))
    assert (waiter.settlement is not None) is persistent
    assert simulated.kill_and_start().manager.get("Q")[0] is None


@pytest.mark.parametrize("persistent", [False, True])
def test_what_a_reader_took_in_a_unit_returns_with_it_and_counts_as_a_try(
    manager: QueueManager, persistent: bool
) -> None:
    unit = manager.begin()
    waiter = waiting(manager, unit)
    put(manager, b"tried", persistent=persistent)
    assert waiter.message is not None
    assert (waiter.message.backout_count, status(manager)) == (0, (1, 1, 0))
    assert manager.get("Q")[0] is None
    manager.back_out(unit)
    message, _ = manager.get("Q")
    assert message is not None
    assert (message.body, message.backout_count) == (b"tried", 1)


def test_a_private_unit_guards_only_what_has_to_be_logged(manager: QueueManager) -> None:
    for persistent, guarded in ((False, 0), (True, 1)):
        unit = manager.internal_unit()
        unit.private = True
        waiter = waiting(manager, unit)
        put(manager, persistent=persistent)
        assert waiter.message is not None
        assert len(unit.takes) == guarded
        assert status(manager) == (guarded, guarded, 0)
        manager.commit(unit)
        manager.force()
        assert status(manager) == (0, 0, 0)


@pytest.mark.parametrize("in_unit", [False, True])
def test_a_reader_that_waited_confirms_the_delivery_if_the_sender_asks(manager: QueueManager, in_unit: bool) -> None:
    define(manager, LocalQueue(name="REPLIES"))
    unit = manager.begin() if in_unit else None
    waiter = waiting(manager, unit)
    put(manager, report=Report.DELIVERY)
    if unit is not None:
        assert status(manager, "REPLIES")[0] == 0
        manager.commit(unit)
    assert waiter.message is not None
    assert [message.feedback for message in manager.browse("REPLIES", None, None, 9)[0]] == [Feedback.DELIVERY]


def test_a_reader_whose_removal_the_log_refuses_hears_of_it_and_the_message_stays(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiter = waiting(manager)
    manager.put("Q", Message(b"persistent"), persistent=True)

    def refuse(size: int, *, reserved: bool) -> None:
        raise LogFull(0)

    monkeypatch.setattr(manager.log, "require_room", refuse)
    manager.force()
    assert (waiter.message, type(waiter.error)) == (None, LogFull)
    monkeypatch.undo()
    assert status(manager) == (1, 0, 0)
    assert manager.get("Q")[0] is not None


def test_a_message_whose_reader_is_not_known_in_this_turn_stands_on_its_queue(manager: QueueManager) -> None:
    manager.turn.left = 0
    waiter = waiting(manager, None, Criteria(selector=compile_selector("n = 1")))
    put(manager, b"not asked about yet")
    assert (waiter.message, status(manager)) == (None, (1, 0, 1))


def test_readers_have_their_turns_one_after_the_other(manager: QueueManager) -> None:
    readers = [StandingWaiter(None, manager.begin(), lambda: None) for _ in range(2)]
    for reader in readers:
        reader.credit = 2
        manager.wait("Q", reader)
    for number in range(5):
        put(manager, b"%d" % number)
    assert [[message.body for message in reader.arrived] for reader in readers] == [[b"0", b"2"], [b"1", b"3"]]
    assert status(manager) == (5, 4, 0)


def test_a_reader_that_waits_when_the_queue_manager_stops_is_told(manager: QueueManager) -> None:
    waiter, stopped = waiting(manager), []
    manager.on_stop = lambda: stopped.append(waiter.error)
    manager.fail(QueueManagerStopped("QM"))
    assert isinstance(waiter.error, QueueManagerStopped)
    assert stopped == [waiter.error], "after everyone has been answered"
    with pytest.raises((QueueManagerStopped, QueueManagerFailed)):
        manager.put("Q", Message(b""))


# --- leases --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("persistent", "report", "guarded"),
    [(True, 0, True), (False, 0, False), (False, Report.DELIVERY, True), (False, Report.ARRIVAL, False)],
)
def test_a_lease_is_guarded_if_its_loss_would_matter(
    manager: QueueManager, persistent: bool, report: int, guarded: bool
) -> None:
    define(manager, LocalQueue(name="REPLIES"))
    put(manager, persistent=persistent, report=report)
    guard = manager.begin()
    assert manager.lease("Q", None, guard) is not None
    assert (len(guard.takes), status(manager)[0]) == (int(guarded), int(guarded))


@pytest.mark.parametrize("filled", [False, True])
def test_a_lease_that_finds_nothing_waits_if_it_is_to(manager: QueueManager, filled: bool) -> None:
    criteria = Criteria(message_id=b"wanted")
    if filled:
        put(manager, b"another")
    guard = manager.begin()
    assert manager.lease("Q", criteria, guard) is None
    assert status(manager)[2] == 0
    waiter = Waiter(criteria, guard, lambda: None)
    assert manager.lease("Q", criteria, guard, waiter) is None
    assert status(manager)[2] == 1


# --- delay and time ------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("delay_s", [0.5, 1.0, 1.5])
def test_a_message_is_hidden_for_all_of_its_delay(simulated: Simulated, delay_s: float, persistent: bool) -> None:
    manager = simulated.manager
    manager.put("Q", Message(b"late", delay_s=delay_s), persistent=persistent)
    manager.force()
    simulated.clock.advance(delay_s - 0.25)
    assert (manager.get("Q")[0], simulated.bodies()) == (None, [])
    simulated.clock.advance(0.25)
    manager.timers.tick()
    assert simulated.bodies() == [b"late"]


# --- what a unit may hold ------------------------------------------------------------------------


def test_what_a_full_unit_refused_has_left_no_trace(manager: QueueManager) -> None:
    unit = Unit(1, 1)
    manager.put("Q", Message(b"first"), unit=unit)
    verbs: list[Callable[[], object]] = [
        lambda: manager.put("Q", Message(b"second"), unit=unit),
        lambda: manager.put("topic:t", Message(b"second"), unit=unit),
        lambda: manager.get("Q", None, unit),
    ]
    for verb in verbs:
        with pytest.raises(TooManyUncommitted):
            verb()
    assert (len(unit.puts), unit.body_bytes, status(manager)) == (1, 5, (0, 1, 0))
    manager.commit(unit)
    assert status(manager) == (1, 0, 0)


def test_a_group_that_is_larger_than_the_unit_may_hold_stays_whole(manager: QueueManager) -> None:
    for sequence in (1, 2):
        manager.put("Q", Message(b"", group_id=b"g", sequence=sequence, last_in_group=sequence == 2))
    with pytest.raises(TooManyUncommitted):
        manager.get_group("Q", Criteria(whole_group=True), Unit(1, 1))
    assert status(manager) == (2, 0, 0)
    assert len(manager.get_group("Q", Criteria(whole_group=True), Unit(1, 2)) or ()) == 2


@pytest.mark.parametrize("names", [("Q",), ("Q", "A"), ("Q", "A", "B")])
def test_a_put_to_several_queues_shares_its_body_among_them(manager: QueueManager, names: tuple[str, ...]) -> None:
    define(manager, LocalQueue(name="A"), LocalQueue(name="B"))
    manager.put(names, Message(b"x" * 6000), persistent=True)
    manager.force()
    for name in names:
        assert manager.objects.queues[name].memory_bytes == 6000 // len(names) + OVERHEAD_BYTES


def test_a_get_alone_or_in_a_unit_tells_what_watches_the_queue(manager: QueueManager) -> None:
    for definition in manager.administration.define_missing():
        assert definition is not None
    manager.force()
    manager.administration.alter(replace(manager.objects.manager, performance_events=True))
    watched = {"depth_max": 4, "depth_high_percent": 50, "depth_low_percent": 25}
    define(manager, LocalQueue(name="Q", depth_high_event=True, depth_low_event=True, **watched))  # type: ignore[arg-type]
    for number, in_unit in enumerate((False, True, False)):
        put(manager)
        put(manager, persistent=number == 2)
        for _ in range(2):
            unit = manager.begin() if in_unit else None
            assert manager.get("Q", None, unit)[0] is not None
            if unit is not None:
                manager.commit(unit)
            manager.force()
        events = manager.browse("SYSTEM.ADMIN.PERFM.EVENT", None, None, 99)[0]
        assert len(events) == 2 * (number + 1)
