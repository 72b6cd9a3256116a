# SPDX-License-Identifier: Apache-2.0
"""Units of work one by one: how many messages each has, what is remembered when one fails, and how long it rests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.client.blocking import UnitOfWork
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    DatabaseFailed,
    FolderUnusable,
    NowhereToSetAside,
    QueueFull,
)
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.journey import Earlier, NotAlone
from entrepot.flows.live import instance as instances
from entrepot.flows.live.instance import Instance

from .played_source import Outcomes, Script, flow_of_inputs, message, orders, ran, stepped
from .staged import Stage
from .stepped import SteppedTime

GONE = FolderUnusable("flow", "In", "/in", "not there")
CONFLICT = DatabaseFailed("deadlock", sqlstate="40001")


@pytest.fixture
def flow(stage: Stage) -> FlowDefinition:
    return flow_of_inputs(stage, 1)


def _fault(error: Exception, tries: int = 1) -> NotAlone:
    return NotAlone(Earlier(tries, error))


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the first commits be refused."""

    def refuse(*errors: Exception) -> None:
        left = list(errors)
        original = UnitOfWork.commit

        def commit(self: UnitOfWork, **options: Any) -> None:
            if left and not options.get("counted", True):  # those of messages
                raise left.pop(0)
            original(self, **options)

        monkeypatch.setattr(UnitOfWork, "commit", commit)

    return refuse


# --- waits ------------------------------------------------------------------------------------------------------


def test_an_instance_with_one_input_waits_there_as_long_as_between_two_beats(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    source = Script(instance_clock, None, None)
    result = stepped(stage, flow, source).run()
    assert set(source.waits) == {instances.BEAT_S}
    assert instance_clock.slept == [], "a message that comes meanwhile is not kept waiting"
    assert source.told == ["closed 0"]
    assert (result["units"], result["given_back"]) == (0, 0), "where nothing comes, nothing is committed"


def test_several_inputs_are_waited_for_in_turn_unless_there_is_something_to_do(
    stage: Stage, instance_clock: SteppedTime
) -> None:
    flow = flow_of_inputs(stage, 3)
    first, second = Script(instance_clock, *orders(1)), Script(instance_clock, None, *orders(2))
    third = Script(instance_clock, None, None, None)
    stepped(stage, flow, first, second, third).run()
    short = 0.005
    assert first.waits[:1] == [short]
    assert second.waits[:2] == [0.0, short], "the first has had something, and in the second round not"
    assert third.waits[:3] == [0.0, 0.0, short]


@pytest.mark.parametrize("broken", ["input", "unit"])
def test_an_input_that_gives_nothing_because_of_an_error_does_not_hurry_the_others(
    stage: Stage, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    first, second = Script(instance_clock, GONE if broken == "input" else None), Script(instance_clock, None)
    instance = stepped(stage, flow_of_inputs(stage, 2), first, second)
    if broken == "unit":
        _begin_fails_once(instance, monkeypatch)
    instance.run()
    assert second.waits[0] == 0.005


def _begin_fails_once(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    original, errors = instance._connection.unit_of_work, [ConnectFailed("unix:qm", "gone")]
    instance.open()

    def unit_of_work() -> UnitOfWork:
        if errors:
            raise errors.pop()
        return original()

    monkeypatch.setattr(instance._connection, "unit_of_work", unit_of_work)


def test_a_unit_that_was_given_back_is_something_to_do(stage: Stage, instance_clock: SteppedTime) -> None:
    first, second = Script(instance_clock, *orders(1)), Script(instance_clock, None)
    ran(stepped(stage, flow_of_inputs(stage, 2), first, second), _fault(ValueError("x")))
    assert second.waits[0] == 0.0


def test_a_queue_manager_that_is_gone_when_a_unit_begins_is_told_and_waited_for(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Script(instance_clock, *orders(1))
    instance = stepped(stage, flow, source)
    _begin_fails_once(instance, monkeypatch)
    assert not instance._serve(instance._inputs[0], 0.0)
    assert "gone" in instance.status()["problem"]
    ran(instance)
    assert source.asked_at_s[0] == pytest.approx(0.05, abs=0.01)
    assert source.told == ["committed 1", "closed 0"]
    assert instance.status()["problem"] == ""


# --- rests ------------------------------------------------------------------------------------------------------


def test_an_input_that_fails_rests_twice_as_long_each_time_and_five_seconds_at_most(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    source = Script(instance_clock, *[GONE] * 9, *orders(1), None, GONE, GONE, None)
    outcomes = ran(stepped(stage, flow, source))
    assert source.pauses_s[:9] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert source.pauses_s[9:12] == [0.0, 0.05, 0.1], "after a success it begins anew"
    assert max(instance_clock.slept) <= instances.BEAT_S, "orders are heard meanwhile"
    assert outcomes.seen == [("1", 0)]


def test_an_input_that_fails_is_told_that_what_it_handed_out_comes_again(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    source = Script(instance_clock, message("1"), GONE)
    instance = stepped(stage, flow, source)
    outcomes = ran(instance)
    assert source.told == ["backed out 1", "committed 1", "closed 0"]
    assert outcomes.seen == [("1", 0)]
    assert instance.status()["given_back"] == 0


def test_an_outage_is_no_messages_fault_and_is_waited_out(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    source = Script(instance_clock, *orders(1))
    instance = stepped(stage, flow, source)
    outcomes = ran(instance, *[_fault(ConnectFailed("unix:qm", "gone"))] * 4)
    assert outcomes.seen == [("1", 0)] * 5
    assert source.pauses_s[:4] == [0.05, 0.1, 0.2, 0.4]
    assert instance.status()["given_back"] == 4


def test_a_conflict_is_tried_again_soon_and_becomes_a_messages_own_fault_after_so_many(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "_CONFLICTS_MAX", 2)
    source = Script(instance_clock, *orders(1))
    own = [_fault(CONFLICT, tries) for tries in (1, 1, 1, 2, 2, 2)]
    outcomes = ran(stepped(stage, flow, source), *own)
    assert [tries for _, tries in outcomes.seen] == [0, 0, 0, 1, 1, 1, 2]
    assert source.pauses_s[:6] == [0.05, 0.05, 0.0, 0.05, 0.05, 0.0]


def test_conflicts_of_a_message_are_not_counted_against_the_next_one(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "_CONFLICTS_MAX", 2)
    source = Script(instance_clock, message("1"), None, message("2"))
    two = [_fault(CONFLICT), _fault(CONFLICT)]
    outcomes = ran(stepped(stage, flow, source), *two, None, *two)
    assert outcomes.seen == [("1", 0)] * 3 + [("2", 0)] * 3


# --- one by one -------------------------------------------------------------------------------------------------


def test_messages_of_a_unit_that_was_refused_are_worked_on_one_by_one_and_later_ones_together_again(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, refusing: Callable[..., None]
) -> None:
    source = Script(instance_clock, *orders(1, 2, 3), None, *orders(4, 5, 6))
    refusing(QueueFull("Q", 1))
    outcomes = ran(stepped(stage, flow, source))
    assert source.told == ["backed out 3", *["committed 1"] * 3, "committed 3", "closed 0"]
    assert outcomes.careful == [False] * 3 + [True] * 3 + [False] * 3
    assert {tries for _, tries in outcomes.seen} == {0}, "it is not known whose fault it was"


def test_a_message_whose_unit_is_refused_when_it_is_alone_has_been_tried(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, refusing: Callable[..., None]
) -> None:
    refusing(*[QueueFull("Q", 1)] * 3)
    outcomes = ran(stepped(stage, flow, Script(instance_clock, *orders(1))))
    assert [tries for _, tries in outcomes.seen] == [0, 0, 1, 2]


def test_a_message_that_has_been_dealt_with_is_forgotten(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    source = Script(instance_clock, message("1"), None, message("1"))
    outcomes = ran(stepped(stage, flow, source), _fault(ValueError("x")))
    assert [tries for _, tries in outcomes.seen] == [0, 1, 0]


def test_what_follows_an_error_at_a_database_is_a_messages_own_fault_only_when_it_is_alone(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    aftermath = DatabaseFailed("aborted", sqlstate="25P02")
    outcomes = ran(stepped(stage, flow, Script(instance_clock, *orders(1))), _fault(aftermath), _fault(aftermath))
    assert [tries for _, tries in outcomes.seen] == [0, 0, 1]


def test_only_so_many_messages_are_remembered(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instances, "_EARLIER_MAX", 2)
    # Another instance has those that were given back, until the last two come here again.
    source = Script(instance_clock, *orders(1), None, *orders(2), None, *orders(3), None, *orders(1), None, again=False)
    outcomes = ran(stepped(stage, flow, source), *[_fault(ValueError("x"))] * 3)
    assert outcomes.seen == [("1", 0), ("2", 0), ("3", 0), ("1", 0)]


def test_a_message_that_nobody_takes_rests_when_it_is_alone_and_is_then_tried_anew(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    nowhere = NowhereToSetAside("flow", "In0", "Q", "bad")
    source = Script(instance_clock, *orders(1, 2))
    instance = stepped(stage, flow, source)
    # In a unit with its neighbour; the neighbour; alone, its own fault; alone, and nobody takes it; alone, and well.
    outcomes = ran(instance, None, nowhere, None, _fault(ValueError("x")), nowhere, None)
    assert outcomes.seen == [("1", 0), ("2", 0), ("1", 0), ("2", 0), ("2", 1), ("2", 0)]
    assert source.pauses_s[:4] == [0.0, 0.0, 0.0, 0.05]


def test_a_message_that_failed_before_comes_last_in_its_unit(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    tried = message("2", backout_count=1)
    source = Script(instance_clock, message("1"), tried, message("3"))
    ran(stepped(stage, flow, source))
    assert source.told == ["committed 2", "committed 1", "closed 0"]


# --- units that are given back ------------------------------------------------------------------------------------


class Unit:
    """A unit of work whose commit fails, and which notes how it ends."""

    def __init__(self, state: str, told: list[Any]) -> None:
        self.state = "active"
        self._unit = None
        self._after = state
        self._told = told

    def commit(self, *, counted: bool) -> None:
        self.state = self._after
        raise ConnectionLost("unix:qm", "gone")

    def back_out(self, *, counted: bool = True) -> None:
        self._told.append(("back out", counted))

    def __exit__(self, *_: object) -> None:
        self._told.append("left")


@pytest.mark.parametrize(("state", "told"), [("active", [("back out", False)]), ("unknown", ["left"])])
def test_a_unit_that_fails_is_backed_out_uncounted_and_one_whose_connection_broke_leaves_nothing_at_databases(
    stage: Stage,
    flow: FlowDefinition,
    instance_clock: SteppedTime,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    told: list[Any],
) -> None:
    ended: list[Any] = []
    instance = stepped(stage, flow, Script(instance_clock, *orders(1)))
    instance.kernel.process = Outcomes()  # type: ignore[method-assign]
    instance.open()
    monkeypatch.setattr(instance._connection, "unit_of_work", lambda: Unit(state, ended))
    assert instance._serve(instance._inputs[0], 0.0)
    assert ended == told
    instance.close()


def test_a_unit_without_messages_is_backed_out(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    instance = stepped(stage, flow, Script(instance_clock, None))
    instance.open()
    monkeypatch.setattr(instance._connection, "unit_of_work", lambda: Unit("active", ended))
    assert not instance._serve(instance._inputs[0], 0.0)
    assert ended == [("back out", True)]
    instance.close()


def test_a_message_that_waits_when_the_flow_is_to_stop_goes_back_untried(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    source = Script(instance_clock, *orders(1))
    instance = stepped(stage, flow, source)
    instance.kernel.process = Outcomes(instances._Stopping())  # type: ignore[method-assign, arg-type]
    instance.open()
    assert not instance._serve(instance._inputs[0], 0.0), "nobody is to hurry because of it"
    assert source.told == ["backed out 1"]
    instance.close()


def test_when_a_unit_was_given_back_queues_are_asked_again_what_they_say(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    queue = stage.queue("BOTHRESH(1)")
    instance = stepped(stage, flow, Script(instance_clock, *orders(1)))
    instance.kernel.process = Outcomes(_fault(ValueError("x")))  # type: ignore[method-assign]
    instance.open()
    assert instance._world.facts(queue).threshold == 1
    stage.connection.mqsc(f"ALTER QLOCAL({queue}) BOTHRESH(3)")
    instance._serve(instance._inputs[0], 0.0)
    assert instance._world.facts(queue).threshold == 3
    instance.close()
