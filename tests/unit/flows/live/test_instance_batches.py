# SPDX-License-Identifier: Apache-2.0
"""How many messages share a unit of work: what an instance learns of messages and commits, and where one is alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.client.blocking import Reader, UnitOfWork
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live import instance as instances
from entrepot.flows.live.instance import Instance

from .played_source import Outcomes, Script, flow_of_inputs, orders, ran, stepped
from .staged import Stage, drawn, node, reads, writes
from .stepped import SteppedTime


@pytest.fixture
def flow(stage: Stage) -> FlowDefinition:
    return flow_of_inputs(stage, 1)


def test_a_unit_has_as_many_messages_as_it_may(stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime) -> None:
    source = Script(instance_clock, *orders(*range(8)))
    ran(stepped(stage, flow, source, batch_max=3))
    assert source.told == ["committed 3", "committed 3", "committed 2", "closed 0"]


def _slow(instance_clock: SteppedTime, instance: Instance, message_s: float) -> None:
    """Let each message take a while."""
    outcomes = Outcomes()

    def process(*arguments: Any) -> Any:
        instance_clock.advance(message_s)
        return outcomes(*arguments)

    instance.kernel.process = process  # type: ignore[method-assign]


def test_units_of_slow_messages_become_small(stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime) -> None:
    source = Script(instance_clock, *orders(*range(200)))
    instance = stepped(stage, flow, source, batch_s=0.1)
    _slow(instance_clock, instance, 0.04)
    instance.run()
    assert source.told[0] == "committed 100"
    assert source.told[10:14] == ["committed 2"] * 4


def test_a_message_that_takes_longer_than_a_unit_may_is_alone(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime
) -> None:
    source = Script(instance_clock, *orders(*range(120)))
    instance = stepped(stage, flow, source)
    _slow(instance_clock, instance, 1.0)
    instance.run()
    assert source.told[5:10] == ["committed 1"] * 5


def test_where_commits_take_long_units_become_large_and_what_comes_after_the_commit_is_no_part_of_it(
    stage: Stage, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = UnitOfWork.commit
    sizes: dict[str, list[str]] = {}
    for slow in ("commit", "after it"):

        def commit(self: UnitOfWork, slow: str = slow, **options: Any) -> None:
            instance_clock.advance(1.0 if slow == "commit" else 0.0)
            original(self, **options)

        monkeypatch.setattr(UnitOfWork, "commit", commit)
        source = Script(instance_clock, *orders(*range(80)))
        instance = stepped(stage, flow_of_inputs(stage, 1), source)
        _slow(instance_clock, instance, 0.001)
        if slow == "after it":
            monkeypatch.setattr(source, "committed", _late(source, instance_clock))
        instance.run()
        sizes[slow] = source.told
    assert sizes["commit"][:2] == ["committed 20", "committed 60"]
    assert sizes["after it"][1] in ("committed 19", "committed 20")


def _late(source: Script, instance_clock: SteppedTime) -> Callable[[], None]:
    original = source.committed

    def committed() -> None:
        instance_clock.advance(5.0)
        original()

    return committed


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages readers let come before they are asked for."""
    counts: list[int] = []
    original = Reader.look_ahead

    def look_ahead(self: Reader, count: int) -> None:
        counts.append(count)
        original(self, count)

    monkeypatch.setattr(Reader, "look_ahead", look_ahead)
    return counts


@pytest.mark.parametrize(("threshold", "batch_max", "count"), [(0, 100, 40), (1, 100, 2), (2, 100, 40), (3, 5, 10)])
def test_no_more_than_two_units_of_messages_wait_here_and_where_one_try_is_all_a_message_has_two(
    stage: Stage, instance_clock: SteppedTime, ahead: list[int], threshold: int, batch_max: int, count: int
) -> None:
    flow = drawn("In -> Out", In=reads(stage.queue(f"BOTHRESH({threshold})")), Out=writes(stage.queue()))
    instance = _with_queue(stage, flow, batch_max)
    instance.open()
    instance._serve(instance._inputs[0], 0.0)
    assert ahead == [count]
    instance.close()


def _with_queue(stage: Stage, flow: FlowDefinition, batch_max: int = 100) -> Instance:
    return Instance(instances.Deployment(flow, stage.url, run=1, batch_max=batch_max), 0)


ROW = {"statements": "INSERT INTO Database.t (n) VALUES (1);"}


@pytest.mark.parametrize(
    ("kind", "is_alone"),
    [
        (node("MQOutput", queue="Q"), False),
        (node("MQOutput", queue="Q", transaction="no"), True),
        (node("MQOutput", queue="Q", transaction="yes"), False),
        (node("Database", **ROW), False),
        (node("Database", **ROW, database_transaction="commit"), True),
        (node("HTTPRequest", url="http://127.0.0.1:1/"), True),
    ],
)
def test_what_cannot_be_taken_back_is_done_in_units_of_one_message(
    stage: Stage, instance_clock: SteppedTime, ahead: list[int], kind: tuple[str, dict[str, Any]], is_alone: bool
) -> None:
    flow = drawn("In -> X", In=reads(stage.queue(), transaction="no"), X=kind)
    instance = _with_queue(stage, flow)
    instance.open()
    instance._serve(instance._inputs[0], 0.0)
    assert ahead == [2 if is_alone else 40]
    instance.close()
