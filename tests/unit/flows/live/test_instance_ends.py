# SPDX-License-Identifier: Apache-2.0
"""How an instance ends, and what its successor relies on: claims, epochs, orders, and units whose end is not known."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.client.blocking import UnitOfWork
from entrepot.errors import ConnectionLost, Fenced, GlobalUnitInDoubt, SparkGone
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live import instance as instances
from entrepot.flows.live.deployment import ATTEMPTS_MAX, Deployment
from entrepot.flows.live.instance import STOP, Instance, InstanceProcess
from entrepot.message import Message
from entrepot.models.tree import Assembly

from .staged import Stage, drawn, node, reads, until, writes

pytestmark = pytest.mark.usefixtures("quick")


def order(number: object) -> str:
    return f"<order><n>{number}</n></order>"


@pytest.fixture
def flow(stage: Stage) -> FlowDefinition:
    return drawn("In -> Out", In=reads(stage.queue()), Out=writes(stage.queue()))


def test_an_instance_has_its_name_before_it_opens_anything(stage: Stage, flow: FlowDefinition) -> None:
    deployment = Deployment(flow, stage.url, run=7)
    instance = Instance(deployment, 0)
    (claim,) = stage.connection.claims(deployment.claim_name(0))
    assert (claim.connected, claim.epoch) == (True, 7 * ATTEMPTS_MAX)
    instance.close()


def test_a_later_attempt_fences_those_before_it_and_a_later_run_fences_both(stage: Stage, flow: FlowDefinition) -> None:
    first = Instance(Deployment(flow, stage.url, run=7), 0)
    second = Instance(Deployment(flow, stage.url, run=7), 0, attempt=1)
    with pytest.raises(Fenced):
        first.run()
    with pytest.raises(Fenced):
        Instance(Deployment(flow, stage.url, run=7), 0, attempt=0)
    far = Instance(Deployment(flow, stage.url, run=7), 0, attempt=ATTEMPTS_MAX + 5)
    third = Instance(Deployment(flow, stage.url, run=8), 0)
    for older in (second, far):
        with pytest.raises(Fenced):
            older.run()
    third.close()


class Noted:
    """A source that has one message, and notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._waiting = [Message(b"<order/>", persistent=True)]

    def next(self, wait_s: float) -> Message | None:
        del wait_s
        return self._waiting.pop() if self._waiting else None

    def committed(self) -> None:
        self.told.append("committed")

    def backed_out(self) -> None:
        self.told.append("backed out")

    def left_in_doubt(self) -> None:
        self.told.append("in doubt")

    def close(self) -> None:
        self.told.append("closed")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionLost("unix:qm", "gone"), "in doubt"),
        (GlobalUnitInDoubt(b"unit".hex(), "gone"), "in doubt"),
        (ValueError("refused"), "backed out"),
    ],
    ids=["connection lost", "global unit in doubt", "refused"],
)
def test_a_source_hears_that_a_unit_is_in_doubt_when_its_commit_was_not_answered(
    stage: Stage, flow: FlowDefinition, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    instance = Instance(Deployment(flow, stage.url, run=1), 0)
    source = Noted()
    (point,) = instance.kernel.points
    point.source, point.queue = (lambda: source), ""

    def refuse(self: UnitOfWork, **_: Any) -> None:
        raise error

    instance.open()
    monkeypatch.setattr(UnitOfWork, "commit", refuse)
    assert instance._serve(instance._inputs[0], 0.0)
    assert source.told == [told]
    instance.close()


def test_a_message_that_waits_for_another_one_does_not_hold_up_a_stop(stage: Stage) -> None:
    source, target, empty = stage.queue("BOTHRESH(2)"), stage.queue(), stage.queue()
    for options in ({"wait_ms": -1}, {"wait_ms": 3_600_000}, {"wait_ms": -1, "browse": True}):
        waits = drawn(
            "In -> Get -> Out", In=reads(source), Get=node("MQGet", queue=empty, **options), Out=writes(target)
        )
        stage.put(source, order(1))
        with stage.running(waits) as running:
            running.until(lambda: not stage.drained(source) and _is_locked(stage, source), "it waits")
        (came,) = stage.messages(source)
        assert came.backout_count == 0, "it was not tried"
        stage.connection.get(source)
    assert stage.bodies(target) == []


def _is_locked(stage: Stage, queue: str) -> bool:
    row = stage.connection.mqsc(f"DISPLAY QSTATUS({queue}) UNCOM")[0].rows[0]
    return bool(int(str(row["UNCOM"] or 0)))


def test_an_instance_whose_spark_is_gone_ends_its_unit_and_tells_nobody_that_it_was_stopped(
    stage: Stage, flow: FlowDefinition
) -> None:
    process = InstanceProcess()
    instance = Instance(Deployment(flow, stage.url, run=1), 0, process=process)
    process.is_orphan = True
    with pytest.raises(SparkGone):
        instance.run()
    (claim,) = stage.connection.claims(Deployment(flow, stage.url).claim_name(0))
    assert not claim.connected


@pytest.fixture
def interrupting() -> Iterator[None]:
    """A SIGINT of this process is the test's affair."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupting")
def test_a_message_that_interrupts_its_process_is_counted_so_that_this_ends(stage: Stage) -> None:
    aside, target = stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside}) BOTHRESH(2)")

    def interrupts(assembly: Assembly, _: Any) -> Assembly:
        if assembly.root.get("XMLNSC", "order", "n") == "bad":
            signal.raise_signal(signal.SIGINT)
        return assembly

    flow = drawn("In -> X -> Out", In=reads(source), X=node("Python", function=interrupts), Out=writes(target))
    stage.put(source, order("bad"), order(1))
    deployment = Deployment(flow, stage.url, run=1)
    for attempt in range(2):
        with pytest.raises(KeyboardInterrupt):
            Instance(deployment, 0, attempt).run()
    with stage.running(flow) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
    assert stage.bodies(target) == [order(1)]
    assert len(stage.messages(aside)) == 1


def test_orders_are_heard_in_every_wait(stage: Stage, flow: FlowDefinition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "_REST_S_MIN", 3600.0)
    monkeypatch.setattr(instances, "_REST_S_MAX", 3600.0)
    queue = flow.nodes["In"].properties["queue"]
    stage.connection.mqsc(f"ALTER QLOCAL({queue}) GET(DISABLED)")
    with stage.running(flow) as running:
        running.until(lambda: running.problem, "its input rests")
    assert running.results[0]["order"] == STOP
    until(lambda: not running.is_alive, lambda: "it ends")
