# SPDX-License-Identifier: Apache-2.0
"""The Spark jobs of a live flow, one after another, and the watch over each. Time passes only in waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.client.blocking import Connection
from entrepot.errors import FlowEnded, FolderUnusable
from entrepot.flows.live.deployment import ATTEMPTS_MAX
from entrepot.flows.live.instance import REPLACED, STOP
from entrepot.spark.live.live_flow import LiveFlow
from unit.flows.live.staged import Stage
from unit.flows.live.stepped import Stepped, SteppedThread, SteppedTime

from .played_spark import ENDED, FOREIGN, KILLED, Spark, claim_of, epochs, run

# --- one job after another --------------------------------------------------------------------------------------


def test_pauses_between_jobs_double_up_to_half_a_minute(live: LiveFlow, spark: Spark, threads: Stepped) -> None:
    spark.jobs = [*[KILLED] * 9, ENDED]
    run(live, threads)
    assert threads.events[0].waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert live.restarts == 9
    assert live.wait(0.0)


def test_a_job_that_has_run_for_a_minute_is_begun_again_soon(
    live: LiveFlow, spark: Spark, clock: SteppedTime, threads: Stepped
) -> None:
    def long() -> None:
        clock.advance(61.0)
        raise KILLED

    spark.jobs = [KILLED, KILLED, long, KILLED, ENDED]
    run(live, threads)
    assert threads.events[0].waits == [0.5, 1.0, 0.5, 1.0]


def test_tasks_that_could_be_loaded_once_may_fail_later(
    live: LiveFlow, spark: Spark, clock: SteppedTime, threads: Stepped
) -> None:
    def long() -> None:
        clock.advance(61.0)
        raise FOREIGN

    spark.jobs = [long, FOREIGN, ENDED]
    run(live, threads)
    assert live.wait(0.0)
    assert live.restarts == 2


def test_each_job_has_a_higher_run_than_the_one_before(
    live: LiveFlow, spark: Spark, threads: Stepped, stage: Stage
) -> None:
    seen: list[int] = []

    def killed() -> None:
        seen.extend(epochs(stage, live))
        raise KILLED

    spark.jobs = [killed, killed, ENDED]
    run(live, threads)
    assert seen == [ATTEMPTS_MAX] * 2 + [2 * ATTEMPTS_MAX] * 2
    assert len({group for group, _ in spark.groups}) == 3


@pytest.mark.parametrize("result", [{"fenced": True}, {"order": REPLACED}])
def test_a_run_that_was_replaced_is_not_begun_again(
    live: LiveFlow, spark: Spark, threads: Stepped, result: dict[str, Any]
) -> None:
    spark.jobs = [KILLED, [*ENDED, result]]
    run(live, threads)
    with pytest.raises(FlowEnded, match="another run of it has taken over"):
        live.wait(0.0)
    assert live.restarts == 1


def test_a_run_that_another_one_has_replaced_between_two_jobs_is_not_begun_again(
    live: LiveFlow, spark: Spark, threads: Stepped, stage: Stage
) -> None:
    def replaced() -> None:
        stage.connection.retire(claim_of(live), epochs(stage, live)[0] + ATTEMPTS_MAX)
        raise KILLED

    spark.jobs = [replaced]
    run(live, threads)
    with pytest.raises(FlowEnded, match="another run of it has taken over"):
        live.wait(0.0)


def test_what_keeps_the_first_tasks_from_starting_ends_the_flow_and_later_ones_are_begun_again(
    live: LiveFlow, spark: Spark, threads: Stepped
) -> None:
    first, second = (FolderUnusable("f", name, "/in", "not there") for name in ("A", "B"))
    spark.jobs = [[*ENDED, {"error": first}, {"error": second}]]
    run(live, threads)
    with pytest.raises(FolderUnusable) as told:
        live.wait(0.0)
    assert told.value is first
    spark.jobs = [KILLED, [*ENDED, {"error": first}], ENDED]
    run(live, threads)
    assert live.wait(0.0)
    assert live.restarts == 2


def test_a_stop_between_two_jobs_ends_the_flow(
    live: LiveFlow, spark: Spark, clock: SteppedTime, threads: Stepped
) -> None:
    clock.plan(10.0, live.cancel)
    spark.jobs = [KILLED] * 20
    run(live, threads)
    assert live.wait(0.0)
    assert len(spark.jobs) == 15, "jobs begin at 0, 0.5, 1.5, 3.5 and 7.5 s"


@pytest.mark.parametrize("java", ["none", "stopped", "broken"])
def test_without_spark_no_job_is_begun_again(live: LiveFlow, spark: Spark, threads: Stepped, java: str) -> None:
    spark.is_stopped = java == "stopped"
    if java != "stopped":
        spark._jsc = None if java == "none" else object()
    spark.jobs = [KILLED]
    run(live, threads)
    with pytest.raises(FlowEnded, match="Spark has ended: Lost task 0: Python worker exited unexpectedly"):
        live.wait(0.0)


# --- the watch over a job ---------------------------------------------------------------------------------------


def _watch(threads: Stepped) -> SteppedThread:
    return threads.threads[-1]


def _watched(spark: Spark, live: LiveFlow, threads: Stepped, prepare: Callable[[], object]) -> None:
    """Run a flow whose only job is watched over until the watch has ended."""

    def job() -> list[dict[str, Any]]:
        prepare()
        _watch(threads).run()
        return ENDED

    spark.jobs = [job]
    run(live, threads)


def test_every_job_is_watched_over_until_its_end(live: LiveFlow, spark: Spark, threads: Stepped) -> None:
    spark.jobs = [KILLED, ENDED]
    run(live, threads)
    watches = [thread for thread in threads.threads if thread.name == f"watch {live.name}"]
    assert [(watch.is_alive(), watch.daemon) for watch in watches] == [(True, True)] * 2
    for watch in watches:
        watch.run()  # it ends at once, as its job has
    assert spark.cancelled == []


def test_a_job_that_nobody_has_stopped_or_fenced_goes_on(
    live: LiveFlow, spark: Spark, clock: SteppedTime, threads: Stepped, stage: Stage, worker: Connection
) -> None:
    def prepare() -> None:
        worker.claim(claim_of(live), epochs(stage, live)[0])
        stage.connection.instruct(f"flow/{live.name}/", "another order")
        clock.plan(120.0, _watch(threads).args[0].set)

    _watched(spark, live, threads, prepare)
    assert spark.cancelled == []


def test_tasks_that_do_not_hear_an_order_to_stop_are_cancelled_and_fenced_after_half_a_minute(
    live: LiveFlow, spark: Spark, clock: SteppedTime, threads: Stepped, stage: Stage, worker: Connection
) -> None:
    def prepare() -> None:
        worker.claim(claim_of(live), epochs(stage, live)[0])
        stage.connection.instruct(f"flow/{live.name}/", STOP)

    _watched(spark, live, threads, prepare)
    assert len(spark.cancelled) == 1
    assert clock.passed_s == pytest.approx(31.0, abs=0.5)
    assert epochs(stage, live) == [2 * ATTEMPTS_MAX] * 2


def test_tasks_that_do_not_see_another_run_are_cancelled_after_five_seconds(
    live: LiveFlow, spark: Spark, clock: SteppedTime, threads: Stepped, stage: Stage
) -> None:
    _watched(spark, live, threads, lambda: stage.connection.retire(claim_of(live, 1), 2 * ATTEMPTS_MAX))
    assert len(spark.cancelled) == 1
    assert clock.passed_s == pytest.approx(6.0, abs=0.5)
    assert epochs(stage, live) == [ATTEMPTS_MAX, 2 * ATTEMPTS_MAX], "the other run is not fenced"


def test_an_attempt_that_has_not_heard_the_order_has_the_whole_time(
    live: LiveFlow, spark: Spark, clock: SteppedTime, threads: Stepped, stage: Stage, worker: Connection
) -> None:
    def stop() -> None:
        stage.connection.instruct(f"flow/{live.name}/", STOP)

    def prepare() -> None:
        worker.claim(claim_of(live), ATTEMPTS_MAX)
        stop()
        clock.plan(20.0, lambda: worker.claim(claim_of(live), ATTEMPTS_MAX + 1))
        clock.plan(25.0, stop)

    _watched(spark, live, threads, prepare)
    assert clock.passed_s == pytest.approx(56.0, abs=1.0)
