# SPDX-License-Identifier: Apache-2.0
"""A flow on Spark: a job for each execution group, a long-running task for each instance.

    with LiveFlow(spark, flow, "unix:./qm1", instances=2) as live:
        live.status()
        live.redeploy(flow_of_today)

`flows.live.supervision` starts, watches and stops it; Spark finds a place for
each instance and starts it again when it dies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Unpack

from entrepot.errors import Fenced, InstancesTooMany
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live.deployment import Deployment
from entrepot.flows.live.instance import run_instance
from entrepot.flows.live.supervision import FlowOptions, InstancesFailed, SupervisedFlow
from entrepot.flows.live.worker_process import WorkerProcess
from entrepot.spark.starting.quick_daemon import parent_at_start

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_TRACEBACK = "Traceback (most recent call last):"
_TASK_FAILED = "most recent failure: "
_REASON_CHARACTERS = 500


class LiveFlow(SupervisedFlow):
    """A flow on Spark, from start to stop."""

    def __init__(
        self, spark: SparkSession | SparkContext, flow: FlowDefinition, url: str, **options: Unpack[FlowOptions]
    ) -> None:
        """Options are those of `FlowOptions`.

        Raises:
            FlowInvalid, InvalidSetting: The flow, or what it is to run with, is wrong.
            InstancesTooMany: Spark has fewer slots than that.
        """
        context: Any = getattr(spark, "sparkContext", spark)
        super().__init__(SparkJobs(context), flow, url, **options)


class SparkJobs:
    """Runs instances as the tasks of Spark jobs."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def require_room(self, instances: int) -> None:
        """
        Raises:
            InstancesTooMany: On this machine Spark has fewer slots, and a task without one would wait for ever.
        """
        slots = self._context.defaultParallelism
        if str(self._context.master).startswith("local") and instances > slots:
            raise InstancesTooMany(instances, slots)

    def new_thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        """One that has a thread of its own in the JVM, and ends it."""
        from pyspark import InheritableThread

        thread: threading.Thread = InheritableThread(target=work, name=name, daemon=True)
        return thread

    def run(self, deployment: Deployment) -> list[dict[str, Any]]:
        """
        Raises:
            InstancesFailed: Spark has given up on the job.
        """
        try:
            return self._collect(deployment)
        except Exception as error:
            reason = _reason(error)
            if self._is_over():
                raise InstancesFailed(f"Spark has ended: {reason}", is_final=True) from error
            raise InstancesFailed(reason, is_foreign=_is_foreign(error)) from error

    def cancel(self, deployment: Deployment) -> None:
        self._context.cancelJobGroup(_job_group(deployment))

    def _collect(self, deployment: Deployment) -> list[dict[str, Any]]:
        description = f"flow {deployment.flow.name}, {deployment.group}"
        self._context.setJobGroup(_job_group(deployment), description, interruptOnCancel=True)
        places = self._context.parallelize(range(deployment.instances), deployment.instances)
        results: list[dict[str, Any]] = places.mapPartitions(_Task(deployment)).collect()
        return results

    def _is_over(self) -> bool:
        """Whether Spark itself is gone, rather than one of its jobs."""
        try:
            return bool(self._context._jsc is None or self._context._jsc.sc().isStopped())
        except Exception:
            return True


def _job_group(deployment: Deployment) -> str:
    return f"entrepot {deployment.claim_prefix}{deployment.run}"


class _Task:
    """What Spark runs; it knows nothing but the deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    def __call__(self, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        from pyspark import TaskContext

        task = TaskContext.get()
        attempt = task.attemptNumber() if task is not None else 0
        process = WorkerProcess(self._deployment.message_s_max, is_own=True, parent=parent_at_start())
        try:
            for number in numbers:
                try:
                    yield run_instance(self._deployment, number, attempt, process)
                except Fenced as error:
                    # A zombie's end. Its successor goes on, so Spark must not try again.
                    yield {"fenced": True, "problem": error.what}
        finally:
            process.close()


def _reason(error: BaseException) -> str:
    """What an error of Spark says, without the stacks of Java and Python."""
    text = str(error).strip()
    if _TRACEBACK in text:
        lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
        reason = next((line for line in lines if line and not line.startswith(" ")), lines[-1] if lines else text)
        return reason[:_REASON_CHARACTERS]
    reason = text.partition(_TASK_FAILED)[2] or text
    return reason.partition("\n")[0].strip()[:_REASON_CHARACTERS]


def _is_foreign(error: BaseException) -> bool:
    """Whether Python has raised something in a task, rather than died, and it was no error of ours.

    Of ours only those get here that may pass, such as a queue manager that does not answer.
    """
    return _TRACEBACK in str(error) and not _reason(error).startswith("entrepot.errors.")
