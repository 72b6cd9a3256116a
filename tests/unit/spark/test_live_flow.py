# SPDX-License-Identifier: Apache-2.0
"""A live flow's start and end, and those who wait for them. Time passes only in waits."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.client.blocking import Connection, connect
from entrepot.errors import EntrepotError, Fenced, FlowEnded, FlowNotReady, InstancesTooMany
from entrepot.flows.live.deployment import ATTEMPTS_MAX
from entrepot.flows.live.instance import REPLACED, STOP
from entrepot.spark.live.live_flow import LiveFlow
from unit.flows.live.staged import Stage, drawn, reads, writes
from unit.flows.live.stepped import Stepped, SteppedTime

from .played_spark import ENDED, FOREIGN, KILLED, Spark, claim_of, epochs, flow_of, run

# --- start ------------------------------------------------------------------------------------------------------


def test_a_start_fences_every_instance_of_earlier_runs(live: LiveFlow, stage: Stage, worker: Connection) -> None:
    worker.claim(claim_of(live, 1), 3 * ATTEMPTS_MAX + 5)
    live.start()
    assert epochs(stage, live) == [4 * ATTEMPTS_MAX, 4 * ATTEMPTS_MAX]
    with pytest.raises(Fenced):
        worker.claim(claim_of(live, 1), 3 * ATTEMPTS_MAX + 5)


def test_a_run_that_is_still_at_work_may_end_in_good_order(
    live: LiveFlow, clock: SteppedTime, worker: Connection
) -> None:
    worker.claim(claim_of(live), ATTEMPTS_MAX)
    heard: list[str] = []
    clock.plan(1.0, lambda: heard.append(worker.claim(claim_of(live), ATTEMPTS_MAX)))
    clock.plan(2.0, worker.close)
    live.start()
    assert heard == [REPLACED]
    assert 2.0 <= clock.passed_s < 2.2


def test_a_run_that_does_not_end_is_taken_over_after_five_seconds(
    live: LiveFlow, clock: SteppedTime, worker: Connection
) -> None:
    worker.claim(claim_of(live), ATTEMPTS_MAX)
    live.start()
    assert 5.0 <= clock.passed_s < 5.2
    with pytest.raises(Fenced):
        worker.claims()


def test_the_thread_of_a_flow_does_not_keep_its_program_from_ending(live: LiveFlow, threads: Stepped) -> None:
    assert not live.is_running
    live.start()
    assert live.is_running
    assert [(thread.name, thread.daemon) for thread in threads.threads] == [(f"flow {live.name}", True)]


def test_a_flow_that_is_not_ready_takes_over_from_nobody(
    spark: Any, threads: Stepped, stage: Stage, worker: Connection
) -> None:
    flow = drawn("In -> Out", In=reads("NOT.DEFINED"), Out=writes(stage.queue()))
    live = LiveFlow(spark, flow, stage.url)
    worker.claim(claim_of(live), 1)
    with pytest.raises(FlowNotReady):
        live.start()
    assert worker.claim(claim_of(live), 1) == ""
    assert not live.is_running
    live.close()


def test_instances_are_the_definitions_unless_the_caller_wants_another_number(
    spark: Any, threads: Stepped, stage: Stage
) -> None:
    flow = flow_of(stage)
    flow.instances = 3
    for wanted, count in ((None, 3), (4, 4)):
        live = LiveFlow(spark, flow, stage.url, instances=wanted)
        live.start()
        assert len(live.status()) == count
        threads.threads[-1].end()
        live.close()


def test_on_one_machine_there_is_a_slot_for_each_instance_and_elsewhere_spark_may_find_more(
    spark: Any, threads: Stepped, stage: Stage
) -> None:
    with pytest.raises(InstancesTooMany):
        LiveFlow(spark, flow_of(stage), stage.url, instances=5)
    LiveFlow(spark, flow_of(stage), stage.url, instances=4).close()
    spark.master = "yarn"
    LiveFlow(spark, flow_of(stage), stage.url, instances=5).close()


# --- wait -------------------------------------------------------------------------------------------------------


def test_a_flow_runs_when_all_its_instances_are_at_work(
    live: LiveFlow, clock: SteppedTime, stage: Stage, worker: Connection
) -> None:
    live.start()
    epoch = epochs(stage, live)[0]
    progress: list[int] = []
    worker.claim(claim_of(live, 0), epoch)
    clock.plan(3.0, lambda: worker.claim(claim_of(live, 1), epoch))
    live.wait_until_running(60.0, progress.append)
    assert sorted(set(progress)) == [1, 2]
    assert progress[-1] == 2
    assert clock.passed_s == pytest.approx(3.0, abs=0.1)


def test_instances_that_do_not_begin_are_asked_for_twenty_times_a_second_until_the_time_is_over(
    live: LiveFlow, stage: Stage, worker: Connection
) -> None:
    live.start()
    worker.claim(claim_of(live, 0), epochs(stage, live)[0])
    progress: list[int] = []
    with pytest.raises(FlowEnded, match="1 of 2 instances have begun within 2 s"):
        live.wait_until_running(2.0, progress.append)
    assert 40 <= len(progress) <= 42


def test_who_waits_for_a_flow_that_has_ended_hears_why(live: LiveFlow, spark: Spark, threads: Stepped) -> None:
    with pytest.raises(FlowEnded, match="ended already"):
        live.wait_until_running(1.0)
    spark.jobs = [FOREIGN]
    run(live, threads)
    with pytest.raises(FlowEnded, match="its tasks fail: ModuleNotFoundError: orders"):
        live.wait_until_running(1.0)


def test_waiting_ends_with_the_flow_or_with_the_time(live: LiveFlow, clock: SteppedTime, threads: Stepped) -> None:
    assert live.wait(0.0), "it was never begun"
    live.start()
    assert not live.wait(2.0)
    assert clock.passed_s == pytest.approx(2.0, abs=0.1)
    clock.plan(3.0, threads.threads[0].end)
    assert live.wait(5.0)
    assert not live.is_running


def test_the_status_is_that_of_this_runs_instances(live: LiveFlow, stage: Stage, worker: Connection) -> None:
    old = f"{claim_of(live, 1)}9"  # an instance that this run has not
    worker.claim(old, 1)
    worker.close()
    live.start()
    epoch = epochs(stage, live)[0]
    with connect(stage.url) as new:
        new.claim(claim_of(live, 0), epoch, status={"messages": 7})
        first, second = live.status()
    assert (first["name"], first["epoch"], first["connected"], first["messages"]) == (claim_of(live, 0), epoch, True, 7)
    assert (second["name"], second["connected"]) == (claim_of(live, 1), False)
    assert "messages" not in second


# --- stop, cancel, redeploy, close ------------------------------------------------------------------------------


def test_a_stop_is_ordered_until_every_instance_has_heard_it(
    live: LiveFlow, clock: SteppedTime, stage: Stage, threads: Stepped, spark: Spark, worker: Connection
) -> None:
    live.start()
    epoch = epochs(stage, live)[0]
    heard: list[str] = []
    clock.plan(1.0, lambda: worker.claim(claim_of(live), epoch))  # it is only just starting
    clock.plan(1.5, lambda: heard.append(worker.claim(claim_of(live), epoch)))
    clock.plan(2.0, threads.threads[0].end)
    live.stop()
    assert heard == [STOP]
    assert spark.cancelled == []
    assert clock.passed_s == pytest.approx(2.0, abs=0.1)


def test_instances_that_do_not_stop_in_time_are_cancelled_and_fenced_and_have_15_s_to_end(
    live: LiveFlow, clock: SteppedTime, stage: Stage, threads: Stepped, spark: Spark
) -> None:
    live.start()
    (epoch, _) = epochs(stage, live)
    clock.plan(9.0, threads.threads[0].end)
    live.stop(4.0)
    assert len(spark.cancelled) == 1
    assert epochs(stage, live) == [epoch + ATTEMPTS_MAX] * 2
    assert clock.passed_s == pytest.approx(4.0 + 15.0, abs=0.2)
    assert live.wait(0.0)


def test_a_job_that_fails_while_it_is_stopped_is_not_begun_again(
    live: LiveFlow, clock: SteppedTime, threads: Stepped, spark: Spark
) -> None:
    spark.jobs = [KILLED, ENDED]
    live.start()
    clock.plan(1.0, threads.threads[0].run)
    live.stop()
    assert live.restarts == 0
    assert live.wait(0.0)


def test_a_flow_that_was_never_started_stops_at_once(live: LiveFlow, clock: SteppedTime) -> None:
    live.stop()
    assert clock.passed_s < 0.1


def test_a_job_is_cancelled_by_the_group_that_it_runs_in_and_is_not_begun_again(
    live: LiveFlow, spark: Spark, threads: Stepped
) -> None:
    def cancelled() -> None:
        live.cancel()
        raise KILLED

    spark.jobs = [cancelled]
    run(live, threads)
    assert live.wait(0.0)
    assert spark.groups == [(spark.cancelled[0], True)]
    assert live.restarts == 0


def test_tasks_that_end_fenced_after_a_cancel_are_no_error(live: LiveFlow, spark: Spark, threads: Stepped) -> None:
    def fenced() -> list[dict[str, Any]]:
        live.cancel()
        return [{"fenced": True}]

    spark.jobs = [fenced]
    run(live, threads)
    assert live.wait(0.0)


def test_a_flow_that_is_not_ready_does_not_end_the_one_that_runs(
    live: LiveFlow, stage: Stage, worker: Connection
) -> None:
    live.start()
    epoch = epochs(stage, live)[0]
    worker.claim(claim_of(live), epoch)
    with pytest.raises(FlowNotReady):
        live.redeploy(drawn("In -> Out", In=reads("NOT.DEFINED"), Out=writes(stage.queue())))
    assert live.is_running
    assert worker.claim(claim_of(live), epoch) == "", "it has heard of no order"


def test_another_version_begins_when_the_one_before_has_ended_and_is_supervised_like_it(
    live: LiveFlow, clock: SteppedTime, spark: Spark, threads: Stepped, stage: Stage
) -> None:
    live.start()
    (old,) = threads.threads
    clock.plan(1.0, old.end)
    another = flow_of(stage)
    live.redeploy(another)
    assert live.name == another.name
    assert not old.is_alive()
    assert live.is_running
    spark.jobs = [KILLED, ENDED]
    threads.threads[-1].run()
    assert live.restarts == 1


def test_closing_stops_the_flow_and_leaves_no_connection(
    live: LiveFlow, clock: SteppedTime, threads: Stepped, spark: Spark
) -> None:
    with live:
        assert live.is_running
        clock.plan(1.0, threads.threads[0].end)
    assert not live.is_running
    assert spark.cancelled == []
    with pytest.raises(EntrepotError):
        live.status()


def test_a_block_around_a_flow_that_runs_begins_no_second_one(
    live: LiveFlow, clock: SteppedTime, threads: Stepped
) -> None:
    live.start()
    with live:
        clock.plan(1.0, threads.threads[0].end)
    assert len(threads.threads) == 1
