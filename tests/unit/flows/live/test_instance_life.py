# SPDX-License-Identifier: Apache-2.0
"""The life of an instance: what it has made before its first message, what it tells, and what it leaves behind."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from entrepot.client.blocking import Reader, UnitOfWork
from entrepot.errors import ConnectionLost, DatabaseFailed, Fenced, OnePhaseTwice
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.flow_world import Output
from entrepot.flows.journey import Journey
from entrepot.flows.live import instance as instances
from entrepot.flows.live.deployment import ATTEMPTS_MAX, Deployment
from entrepot.flows.live.instance import STOP, Instance, run_instance
from entrepot.message import Message
from open_files import open_files

from .played_source import Outcomes, Script, flow_of_inputs, message, orders, ran, stepped
from .staged import Stage, drawn, node, reads, writes
from .stepped import SteppedTime

ROW = "INSERT INTO Database.t (n) VALUES (1);"


@pytest.fixture
def flow(stage: Stage) -> FlowDefinition:
    return flow_of_inputs(stage, 1)


def _claim(stage: Stage, flow: FlowDefinition) -> Any:
    (claim,) = stage.connection.claims(Deployment(flow, stage.url).claim_prefix)
    return claim


# --- its beginning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("attempt", "below"), [(0, 0), (7, 7), (999, 999), (1000, 999), (5000, 999)])
def test_however_often_it_is_tried_a_new_run_has_a_higher_epoch(
    stage: Stage, flow: FlowDefinition, attempt: int, below: int
) -> None:
    Instance(Deployment(flow, stage.url, run=7), 0, attempt).close()
    assert _claim(stage, flow).epoch == 7 * ATTEMPTS_MAX + below < 8 * ATTEMPTS_MAX


def test_the_collector_of_its_process_runs_seldom(stage: Stage, flow: FlowDefinition) -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, *before[1:])
    try:
        Instance(Deployment(flow, stage.url, run=1), 0).close()
        assert gc.get_threshold()[0] >= 10_000
    finally:
        gc.set_threshold(*before)


def test_a_coordinated_flow_without_databases_works_in_plain_units(stage: Stage, instance_clock: SteppedTime) -> None:
    flow = flow_of_inputs(stage, 1)
    flow.coordinated = True
    source = Script(instance_clock, *orders(1))
    ran(stepped(stage, flow, source))
    assert source.told == ["committed 1", "closed 0"]


def test_databases_that_cannot_commit_together_are_told_before_the_first_message(stage: Stage, tmp_path: Path) -> None:
    flow = drawn(
        "In -> X -> Out",
        coordinated=True,
        In=reads(stage.queue()),
        X=node("Database", statements=ROW, data_source="A"),
        Out=writes(stage.queue()),
    )
    urls = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("A", "B")}
    instance = Instance(Deployment(flow, stage.url, urls, run=1), 0)
    with pytest.raises(OnePhaseTwice):
        instance.open()
    instance.close()


@pytest.mark.parametrize("number", [0, 1])
def test_the_first_instance_puts_what_has_to_be_there_before_the_first_message(
    stage: Stage, flow: FlowDefinition, number: int
) -> None:
    queue = stage.queue()
    token = Output(queue, Message(b"token", persistent=True))
    instance = Instance(Deployment(flow, stage.url, run=1), number)
    instance.kernel.nodes["In0"].prime = lambda journey: journey.put(token)  # type: ignore[attr-defined]
    instance.open()
    assert stage.bodies(queue) == ([] if number else ["token"])
    instance.close()


@pytest.mark.parametrize("number", [0, 1])
def test_every_instance_makes_the_flows_own_queues(stage: Stage, number: int) -> None:
    flow = drawn(
        "Timer -> Out",
        Timer=node("TimeoutNotification", unique_id=f"LIFE{number}", interval_s=3600.0),
        Out=writes(stage.queue()),
    )
    instance = Instance(Deployment(flow, stage.url, run=1), number)
    instance.open()
    (point,) = instance.kernel.points
    assert stage.depth(point.queue) == 0
    instance.close()


# --- what keeps it from starting --------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["outage", "later attempt", "first attempt"])
def test_an_instance_that_does_not_open_leaves_no_connection_and_an_outage_is_left_to_spark(
    stage: Stage, flow: FlowDefinition, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    problem = ConnectionLost("unix:qm", "gone") if kept == "outage" else DatabaseFailed("refused", sqlstate="28000")
    opened: list[Instance] = []

    def fails(self: Instance) -> None:
        opened.append(self)  # so that it is not closed by being forgotten
        raise problem

    monkeypatch.setattr(Instance, "open", fails)
    deployment = Deployment(flow, stage.url, run=1)
    if kept == "first attempt":
        assert run_instance(deployment, 0, 0) == {"error": problem, "problem": problem.what}
    else:
        with pytest.raises(type(problem)):
            run_instance(deployment, 0, int(kept == "later attempt"))
    assert not _claim(stage, flow).connected


# --- its end ----------------------------------------------------------------------------------------------------


def test_when_it_says_that_it_has_stopped_it_has_let_go_of_its_inputs(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[str] = []
    source = Script(instance_clock, *orders(1))
    original = source.close
    monkeypatch.setattr(source, "close", lambda: (states.append(_claim(stage, flow).status["state"]), original()))
    result = ran_result(stepped(stage, flow, source))
    assert states == ["running"]
    assert _claim(stage, flow).status["state"] == "stopped"
    assert _claim(stage, flow).status["messages"] == result["messages"]
    assert result["order"] == "stop"


def ran_result(instance: Instance) -> dict[str, Any]:
    instance.kernel.process = Outcomes()  # type: ignore[method-assign]
    return instance.run()


@pytest.mark.parametrize("ends", ["stopped", "fenced"])
def test_however_it_ends_nothing_of_it_is_left_open(
    stage: Stage, instance_clock: SteppedTime, tmp_path: Path, ends: str
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (n INTEGER)")
    engine.dispose()
    flow = drawn(
        "In -> X -> Tell",
        In=reads(stage.queue()),
        X=node("Database", statements=ROW),
        Tell=node("Trace", pattern="here"),
    )
    source = Script(instance_clock, *orders(1), None)
    instance = stepped(
        stage, flow, source, databases={"": f"sqlite:///{tmp_path}/ledger.db"}, user_trace=f"{tmp_path}/trace"
    )
    instance.open()
    assert instance._serve(instance._inputs[0], 0.0)
    assert open_files(tmp_path) == ["ledger.db", "trace.0"]
    if ends == "stopped":
        instance.run()
    else:
        stage.connection.retire(_claim(stage, flow).name, 2 * ATTEMPTS_MAX)
        with pytest.raises(Fenced):
            instance.run()
    assert open_files(tmp_path) == []
    assert source.told == ["committed 1", "closed 0"]
    assert not _claim(stage, flow).connected


def test_a_reader_is_closed_before_its_instance_says_that_it_has_stopped(
    stage: Stage, flow: FlowDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[str] = []
    original = Reader.close

    def close(self: Reader) -> None:
        states.append(_claim(stage, flow).status.get("state", ""))
        original(self)

    monkeypatch.setattr(Reader, "close", close)
    instance = Instance(Deployment(flow, stage.url, run=1), 0)
    stage.connection.instruct(_claim(stage, flow).name, STOP)
    instance.run()
    assert states == ["running"]


# --- what it does for its process -------------------------------------------------------------------------------


class Process:
    """Stands in for a `WorkerProcess`."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_orphan = False

    def begin_message(self) -> None:
        self.events.append("begin")

    def allow_time(self, seconds: float) -> None: ...


def test_time_begins_anew_for_opening_for_each_message_for_the_commit_and_while_nothing_comes(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process()
    events = process.events
    original = UnitOfWork.commit

    def commit(self: UnitOfWork, **options: Any) -> None:
        events.append("commit")
        original(self, **options)

    source = Script(instance_clock, *orders(1, 2), None, None)
    instance = stepped(stage, flow, source, process=process)
    assert events == ["begin"]
    outcomes = Outcomes()
    instance.kernel.process = lambda *given: events.append("message") or outcomes(*given)  # type: ignore[method-assign, func-returns-value]
    instance.open()
    monkeypatch.setattr(UnitOfWork, "commit", commit)
    instance._serve(instance._inputs[0], 0.0)
    assert events == ["begin", "begin", "message", "begin", "message", "begin", "commit"]
    del events[:]
    instance.run()
    assert events == ["begin"] * len(events)
    assert len(events) >= 2, "with each beat"


def test_an_order_is_asked_for_four_times_a_second_and_no_more(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: list[float] = []
    source = Script(instance_clock, *orders(*range(30)), *[None] * 8)
    instance = stepped(stage, flow, source, batch_max=1)
    original = instance._connection.claim

    def claim(*given: Any, **options: Any) -> str:
        beats.append(instance_clock.passed_s)
        return original(*given, **options)

    monkeypatch.setattr(instance._connection, "claim", claim)
    ran(instance)
    assert len(beats) <= instance_clock.passed_s / instances.BEAT_S + 3
    assert len(beats) >= 3


# --- what it does with a message --------------------------------------------------------------------------------


def test_nothing_of_a_message_in_a_unit_that_a_database_has_undone_reaches_the_queue_manager(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [DatabaseFailed("undone", sqlstate="25P02")]
    source = Script(instance_clock, message("1"))
    instance = stepped(stage, flow, source)
    instance.open()
    sent: list[int] = []
    monkeypatch.setattr(instance._connection.calls, "put_many", lambda unit, puts, **_: sent.append(len(puts)))

    def require_sound() -> None:
        if problems:
            raise problems.pop()

    def process(point: Any, came: Message, world: Any, earlier: Any) -> Journey:
        journey = Journey(came, world)
        journey.outputs.append(Output("Q", Message(bytes(2 * 1024 * 1024))))
        return journey

    monkeypatch.setattr(instance._world, "require_sound", require_sound)
    instance.kernel.process = process  # type: ignore[method-assign]
    assert instance._serve(instance._inputs[0], 0.0)
    assert (source.told, sent) == (["backed out 1"], [])
    instance.close()


def test_a_message_that_has_used_no_database_fails_alone_though_its_neighbour_has(
    stage: Stage, instance_clock: SteppedTime, tmp_path: Path
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/ledger.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (n INTEGER)")
    aside = stage.queue()
    flow = drawn(
        "In -> Which",
        "Which.true -> Row",
        "Which.false -> Bad",
        "In.failure -> Aside",
        In=reads(stage.queue()),
        Which=node("Filter", condition="Root.XMLNSC.n = '1'"),
        Row=node("Database", statements=ROW),
        Bad=node("Throw", text="on purpose"),
        Aside=writes(aside),
    )
    source = Script(instance_clock, message("<n>1</n>"), message("<n>2</n>"))
    result = stepped(stage, flow, source, databases={"": f"sqlite:///{tmp_path}/ledger.db"}).run()
    assert (result["given_back"], result["units"], result["messages"], result["outputs"]) == (0, 1, 2, 1)
    assert stage.bodies(aside) == ["<n>2</n>"]
    engine.dispose()


def test_what_is_to_be_done_after_the_commit_is_done_though_the_source_or_another_of_it_fails(
    stage: Stage, flow: FlowDefinition, instance_clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    source = Script(instance_clock, message("1"))
    original = source.committed

    def committed() -> None:
        original()
        done.append("source")
        raise ValueError("too late")

    def fails() -> None:
        raise ValueError("too late as well")

    def process(point: Any, came: Message, world: Any, earlier: Any) -> Journey:
        journey = Journey(came, world)
        journey.after_commit += [fails, lambda: done.append("answer")]
        return journey

    monkeypatch.setattr(source, "committed", committed)
    instance = stepped(stage, flow, source)
    instance.kernel.process = process  # type: ignore[method-assign]
    assert instance.run()["given_back"] == 0
    assert done == ["source", "answer"]
