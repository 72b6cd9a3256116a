# SPDX-License-Identifier: Apache-2.0
"""Who watches over a flow's Spark job: what is begun again, what ends the flow, and what the reason is said to be.

Spark is played by a context that runs nothing; the queue manager is real.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from entrepot.client.blocking import connect
from entrepot.errors import (
    ConnectFailed,
    EntrepotError,
    Fenced,
    FlowEnded,
    FlowNotReady,
    FolderUnusable,
    InstancesTooMany,
)
from entrepot.flows.live import supervision as living
from entrepot.flows.live.deployment import ATTEMPTS_MAX, Deployment
from entrepot.flows.live.instance import REPLACED, STOP, run_instance
from entrepot.spark.live.live_flow import LiveFlow
from global_units.conftest import new_postgres
from unit.flows.live.staged import Stage, drawn, node, reads, until, writes

Job = Callable[[LiveFlow], list[dict[str, Any]]]
KILLED = (
    "An error occurred while calling collectAndServe.\n: org.apache.spark.SparkException: Job aborted due to stage "
    "failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 3) "
    "(executor driver): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.apache"
)
RAISED = (
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
    "  File \"worker.py\", line 1, in read_command\nModuleNotFoundError: No module named 'orders'"
)


class Context:
    """What a `LiveFlow` asks of a SparkContext."""

    master = "local[4]"
    defaultParallelism = 4

    def __init__(self) -> None:
        self.cancelled: list[str] = []
        self._jsc: Any = self
        self.is_stopped = False

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)

    def sc(self) -> Context:
        return self

    def isStopped(self) -> bool:
        return self.is_stopped


@pytest.fixture(autouse=True)
def quick_supervision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(living, "_AGAIN_S", 0.01)
    monkeypatch.setattr("pyspark.InheritableThread", threading.Thread)


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
def supervised(stage: Stage, context: Context, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LiveFlow]]:
    """A flow that was started, and whose jobs end as the test says: each in its turn, the last again and again."""
    opened: list[LiveFlow] = []

    def start(*jobs: Job | Exception | list[dict[str, Any]]) -> LiveFlow:
        flow = drawn("In -> Out", In=reads(stage.queue()), Out=writes(stage.queue()))
        live: Any = LiveFlow(context, flow, stage.url)  # type: ignore[arg-type]
        waiting = list(jobs)

        def run_job() -> list[dict[str, Any]]:
            job = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if isinstance(job, Exception):
                raise job
            return job if isinstance(job, list) else job(live)

        monkeypatch.setattr(live._runner, "_collect", lambda _: run_job())
        opened.append(live)
        live.start()
        started: LiveFlow = live
        return started

    yield start
    for live in opened:
        live.close()


def works(live: LiveFlow) -> list[dict[str, Any]]:
    """A job that goes on until somebody stops it."""
    assert live._stopping.wait(60)
    return [{"messages": 1, "order": "stop"}]


def test_a_job_that_spark_gives_up_is_begun_again_with_a_higher_run(supervised: Callable[..., LiveFlow]) -> None:
    live = supervised(RuntimeError(KILLED), RuntimeError(KILLED), works)
    until(lambda: live.restarts == 2, lambda: "it is begun again")
    until(lambda: live._deployment.run == 3, lambda: "with a higher run")
    assert live.is_running
    assert live._trouble.endswith("Python worker exited unexpectedly (crashed)")
    live.stop()
    assert live.wait(60)


@pytest.mark.parametrize("result", [{"fenced": True, "problem": "x"}, {"messages": 3, "order": REPLACED}])
def test_a_run_that_was_replaced_says_so(supervised: Callable[..., LiveFlow], result: dict[str, Any]) -> None:
    live = supervised([{"messages": 1, "order": "stop"}, result])
    with pytest.raises(FlowEnded, match="another run of it has taken over"):
        live.wait(60)
    assert live.restarts == 0


def test_a_flow_that_was_told_to_stop_from_elsewhere_ends_quietly(supervised: Callable[..., LiveFlow]) -> None:
    assert supervised([{"messages": 1, "order": "stop"}]).wait(60)


def test_what_keeps_tasks_from_starting_ends_the_flow_the_first_time_and_is_waited_out_later(
    supervised: Callable[..., LiveFlow],
) -> None:
    gone = {"error": FolderUnusable("f", "In", "/in", "not there"), "problem": "not there"}
    live = supervised([gone])
    with pytest.raises(FolderUnusable):
        live.wait(60)
    live = supervised(RuntimeError(KILLED), [gone], [gone], works)
    until(lambda: live.restarts == 3, lambda: "it is begun again")
    assert live.is_running


def test_tasks_that_cannot_be_loaded_end_the_flow_with_what_python_said(supervised: Callable[..., LiveFlow]) -> None:
    live = supervised(RuntimeError(RAISED))
    with pytest.raises(FlowEnded, match="its tasks fail: ModuleNotFoundError: No module named 'orders'"):
        live.wait(60)


def test_tasks_that_find_no_queue_manager_are_begun_again(supervised: Callable[..., LiveFlow]) -> None:
    lost = RAISED.replace("ModuleNotFoundError", "entrepot.errors.channels.ConnectFailed")
    live = supervised(RuntimeError(lost), works)
    until(lambda: live.restarts == 1, lambda: "it is begun again")
    assert live.is_running


def test_spark_that_has_ended_ends_the_flow(supervised: Callable[..., LiveFlow], context: Context) -> None:
    context.is_stopped = True
    with pytest.raises(FlowEnded, match="Spark has ended"):
        supervised(RuntimeError(KILLED)).wait(60)


def test_a_queue_manager_that_is_away_when_the_job_is_begun_again_is_waited_for(
    supervised: Callable[..., LiveFlow], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([ConnectFailed("unix:/qm", "no such file"), ConnectFailed("unix:/qm", "no such file")])
    original = LiveFlow._begin_again

    def begin_again(self: LiveFlow) -> None:
        refusal = next(refusals, None)
        if refusal is not None:
            raise refusal
        original(self)

    monkeypatch.setattr(LiveFlow, "_begin_again", begin_again)
    live = supervised(RuntimeError(KILLED), works)
    until(lambda: live.restarts == 1, lambda: "it is begun again")
    assert next(refusals, None) is None
    assert live.is_running


def test_a_run_that_somebody_else_has_begun_meanwhile_is_left_in_peace(
    supervised: Callable[..., LiveFlow], stage: Stage
) -> None:
    def replaced(live: LiveFlow) -> list[dict[str, Any]]:
        stage.connection.retire(live._deployment.claim_name(0), (live._deployment.run + 1) * ATTEMPTS_MAX)
        raise RuntimeError(KILLED)

    live = supervised(replaced, works)
    with pytest.raises(FlowEnded, match="another run of it has taken over"):
        live.wait(60)
    assert live.restarts == 0


def test_an_instance_that_does_not_end_in_time_is_cancelled_and_fenced(
    supervised: Callable[..., LiveFlow], context: Context, stage: Stage
) -> None:
    ended = threading.Event()

    def deaf(live: LiveFlow) -> list[dict[str, Any]]:
        until(lambda: context.cancelled or ended.is_set(), lambda: "it is cancelled")
        return [{"fenced": True}]

    live = supervised(deaf)
    run = live._deployment.run
    live.stop(0.1)
    assert live.wait(60)
    assert len(context.cancelled) == 1
    (claim,) = stage.connection.claims(live._deployment.claim_name(0))
    assert claim.epoch == (run + 1) * ATTEMPTS_MAX


def _watched(live: LiveFlow, monkeypatch: pytest.MonkeyPatch) -> threading.Thread:
    """The watch over a job that does not end."""
    monkeypatch.setattr(living, "_WATCH_S", 0.01)
    thread = threading.Thread(target=live._watch, args=(threading.Event(),), daemon=True)
    thread.start()
    return thread


def test_a_job_whose_tasks_are_deaf_to_an_order_from_elsewhere_is_cancelled(
    supervised: Callable[..., LiveFlow], context: Context, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(living, "_STOP_S", 0.05)
    live = supervised(works)
    claim = live._deployment.claim_name(0)
    with connect(stage.url) as instance:
        instance.claim(claim, live._deployment.run * ATTEMPTS_MAX)
        thread = _watched(live, monkeypatch)
        stage.connection.instruct(live._deployment.claim_prefix, STOP)
        thread.join(60)
        assert len(set(context.cancelled)) == 1
        with pytest.raises(Fenced):
            instance.claims(claim)
    assert live.wait(60)


def test_a_job_whose_tasks_do_not_see_that_another_run_has_fenced_them_is_cancelled(
    supervised: Callable[..., LiveFlow], context: Context, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(living, "_FENCED_S", 0.05)
    live = supervised(works)
    thread = _watched(live, monkeypatch)
    stage.connection.retire(live._deployment.claim_name(0), (live._deployment.run + 1) * ATTEMPTS_MAX)
    thread.join(60)
    # The flow's own watch may have seen it as well.
    assert len(set(context.cancelled)) == 1
    assert not live._stopping.is_set(), "it is told that another run has taken over"


def test_too_many_instances_and_what_is_missing_are_told_before_anything_runs(stage: Stage, context: Context) -> None:
    spark: Any = context
    insert = "INSERT INTO Database.t (n) VALUES (1);"
    flow = drawn(
        "In -> Row -> Out",
        In=reads("NO.SUCH.QUEUE"),
        Row=node("Database", statements=insert, data_source="LEDGER"),
        Out=writes(stage.queue()),
    )
    with pytest.raises(InstancesTooMany, match="5 instances want a task each, and Spark has 4 slots"):
        LiveFlow(spark, flow, stage.url, instances=5)
    live = LiveFlow(spark, flow, stage.url)
    with pytest.raises(FlowNotReady) as told, live:
        pass
    assert "node Row: the data source 'LEDGER' has no database; say --database LEDGER=URL" in told.value.what
    assert "node In: there is no queue NO.SUCH.QUEUE; DEFINE QLOCAL('NO.SUCH.QUEUE')" in told.value.what
    with pytest.raises(EntrepotError):
        live.status()  # nothing is left open


def test_a_database_that_cannot_prepare_is_told_before_a_coordinated_flow_runs(stage: Stage, context: Context) -> None:
    spark: Any = context
    flow = drawn(
        "In -> Row -> Out",
        coordinated=True,
        In=reads(stage.queue()),
        Row=node("Database", statements="INSERT INTO Database.t (n) VALUES (1);", data_source="LEDGER"),
        Out=writes(stage.queue()),
    )
    with new_postgres(prepared_max=0) as postgres:
        live = LiveFlow(spark, flow, stage.url, databases={"LEDGER": postgres.url})
        with pytest.raises(FlowNotReady, match="max_prepared_transactions"):
            live.start()
        postgres.stop()
        with pytest.raises(FlowNotReady, match="data source LEDGER"):
            live.start()
        live.close()


def test_an_instance_answers_what_keeps_it_from_starting_on_its_first_attempt_only(stage: Stage) -> None:
    flow = drawn(
        "In -> Out",
        In=node("FileInput", directory="/there/is/no/such/folder"),
        Out=writes(stage.queue()),
    )
    deployment = Deployment(flow, stage.url, run=1)
    answer = run_instance(deployment, 0, 0)
    assert isinstance(answer["error"], FolderUnusable)
    with pytest.raises(FolderUnusable):
        run_instance(deployment, 0, 1)
