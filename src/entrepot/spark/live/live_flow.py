# SPDX-License-Identifier: Apache-2.0
"""A flow at work: a Spark job for each execution group, a long-running task for each instance.

    with LiveFlow(spark, flow, "unix:./qm1", instances=2) as live:
        live.status()
        live.redeploy(flow_of_today)

Exactly once is the queue manager's doing, not Spark's. Spark finds a place
for each instance, starts it again when it dies, and keeps instances apart.
Because a cancelled task goes on for seconds, every attempt works under a
claim with an epoch, and a later one fences those before.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from entrepot.client.blocking import Connection, connect
from entrepot.engine.claims import Claim
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    EntrepotError,
    Fenced,
    FlowEnded,
    FlowNotReady,
    InstancesTooMany,
    MqscError,
    NotAuthorized,
)
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.live.deployment import ATTEMPTS_MAX, MESSAGE_S_MAX, Deployment
from entrepot.flows.live.instance import REPLACED, STOP, run_instance
from entrepot.spark.live.worker_process import WorkerProcess

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOGGER = logging.getLogger("entrepot")

_ASK_S = 0.05
_AGAIN_S = 0.5
_AGAIN_S_MAX = 30.0
_TRACEBACK = "Traceback (most recent call last):"
_TASK_FAILED = "most recent failure: "
_REASON_CHARACTERS = 500
_WATCH_S = 1.0
_STOP_S = 30.0
"""A task that was told to stop and has not ended after so long is cancelled and fenced."""
_FENCED_S = 5.0
"""So long tasks that another run has fenced have to see it, before they are cancelled."""
_CANCEL_S = 15.0
_STEADY_S = 60.0
"""A job that has run for so long was not ended by what ended the one before."""


class LiveFlow:
    """A flow on Spark, from start to stop."""

    def __init__(
        self,
        spark: SparkSession | SparkContext,
        flow: FlowDefinition,
        url: str,
        *,
        instances: int | None = None,
        group: str = "default",
        databases: Mapping[str, str] | None = None,
        batch_max: int = 100,
        message_s_max: float = MESSAGE_S_MAX,
        node_statistics: bool = False,
        user_trace: str = "",
        user: str = "",
        password: str = "",
    ) -> None:
        """
        Raises:
            FlowInvalid, InvalidSetting: The flow, or what it is to run with, is wrong.
            InstancesTooMany: Spark has fewer slots than that.
        """
        context: Any = getattr(spark, "sparkContext", spark)
        self._context: SparkContext = context
        self._deployment = Deployment(
            flow,
            url,
            databases=dict(databases or {}),
            group=group,
            instances=instances or flow.instances,
            batch_max=batch_max,
            message_s_max=message_s_max,
            node_statistics=node_statistics,
            user_trace=str(Path(user_trace).resolve()) if user_trace else "",
            user=user,
            password=password,
        )
        require_slots(self._context, self._deployment.instances)
        self._connection: Connection = connect(
            url, application=f"flow {flow.name} (driver)", user=user, password=password
        )
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._error: EntrepotError | None = None
        self._trouble = ""
        """Why Spark has given up on the job last."""
        self.restarts = 0
        """How often Spark has given up on the job, and it was begun again."""
        self._last: list[dict[str, Any]] = []

    # --- start and stop -----------------------------------------------------------------------

    def start(self) -> Self:
        """Check everything that can be known beforehand, take over from its last run, and begin.

        Raises:
            FlowInvalid, FlowNotReady: It cannot run as it is; says all that is missing. Nothing was begun.
        """
        require_ready(self._deployment.flow, self._deployment.databases, self._connection)
        self._take_over()
        self._stopping.clear()
        self._error = None
        from pyspark import InheritableThread

        self._thread = InheritableThread(target=self._supervise, name=f"flow {self.name}", daemon=True)
        self._thread.start()
        return self

    @property
    def name(self) -> str:
        return self._deployment.flow.name

    def wait_until_running(self, timeout_s: float = 60.0, on_progress: Callable[[int], None] = lambda _: None) -> None:
        """Return when every instance is at work.

        Raises:
            FlowEnded: It ended before that.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            ready = sum(claim.connected for claim in self._claims())
            on_progress(ready)
            if ready >= self._deployment.instances:
                return
            if not self.is_running:
                raise self._error or FlowEnded(self.name, "it has ended already")
            if time.monotonic() >= deadline:
                problem = f"{ready} of {self._deployment.instances} instances have begun within {timeout_s:g} s"
                raise FlowEnded(self.name, f"{problem}; {self._trouble}" if self._trouble else problem)
            time.sleep(_ASK_S)

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the flow has ended, by whosoever's order; whether it has.

        Raises:
            EntrepotError: What it ended with, if that was no order.
        """
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self.is_running:
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Let every instance finish its unit of work and end; one that does not in time is cancelled and fenced.

        Returns within `timeout_s` and 15 s.
        """
        self._stopping.set()
        if self._thread is None:
            return
        deadline = time.monotonic() + timeout_s
        while self._thread.is_alive() and time.monotonic() < deadline:
            # Again and again: an instance that is only just starting has not heard the first one.
            with contextlib.suppress(ConnectionLost, ConnectFailed):
                self._connection.instruct(self._deployment.claim_prefix, STOP)
            self._thread.join(_ASK_S)
        if self._thread.is_alive():
            self.cancel()
            self._thread.join(_CANCEL_S)

    def cancel(self) -> None:
        """End the job without asking its tasks, and fence them: Spark lets cancelled tasks go on for seconds."""
        self._stopping.set()
        _LOGGER.warning("flow %s: instances that have not ended by themselves are cancelled and fenced", self.name)
        self._context.cancelJobGroup(self._job_group)
        try:
            self._fence(self._deployment.run + 1)
        except (ConnectionLost, ConnectFailed) as error:
            # A task that outlives this commits nothing while there is no answer, and Spark ends it within seconds.
            _LOGGER.warning("flow %s: its instances cannot be fenced: %s", self.name, error)

    def _fence(self, run: int) -> None:
        for instance in range(self._deployment.instances):
            self._connection.retire(self._deployment.claim_name(instance), run * ATTEMPTS_MAX)

    def redeploy(self, flow: FlowDefinition, *, timeout_s: float = 30.0) -> None:
        """Go on with another version of the flow; no message is lost or worked on twice.

        Raises:
            FlowInvalid, FlowNotReady: The old one goes on.
        """
        require_ready(flow, self._deployment.databases, self._connection)
        self.stop(timeout_s)
        self._deployment = replace(self._deployment, flow=flow)
        self.start()

    def close(self) -> None:
        self.stop()
        self._connection.close()

    def __enter__(self) -> Self:
        try:
            return self if self.is_running else self.start()
        except BaseException:
            self._connection.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what it does -------------------------------------------------------------------------

    def status(self) -> list[dict[str, Any]]:
        """What each instance has reported last."""
        return claims_as_data(self._claims())

    def _claims(self) -> list[Claim]:
        lowest = self._deployment.run * ATTEMPTS_MAX
        found = self._connection.claims(self._deployment.claim_prefix)
        return [claim for claim in found if claim.epoch >= lowest]

    def _take_over(self) -> None:
        """Let a run that is still at work end in good order; afterwards its number is too low for anything."""
        prefix = self._deployment.claim_prefix
        deadline = time.monotonic() + 5.0
        while any(claim.connected for claim in self._connection.claims(prefix)) and time.monotonic() < deadline:
            self._connection.instruct(prefix, REPLACED)
            time.sleep(_ASK_S)
        self._begin_run()

    def _begin_run(self) -> None:
        epoch = self._connection.next_epoch(self._deployment.claim_prefix)
        self._deployment = replace(self._deployment, run=epoch // ATTEMPTS_MAX + 1)
        self._fence(self._deployment.run)

    # --- the job ------------------------------------------------------------------------------

    @property
    def _job_group(self) -> str:
        deployment = self._deployment
        return f"entrepot {deployment.claim_prefix}{deployment.run}"

    def _supervise(self) -> None:
        """Run the job, and again when Spark gives up on it: a flow outlives any number of crashes."""
        pause_s = _AGAIN_S
        is_first = True
        while True:
            begun = time.monotonic()
            try:
                self._last = self._run_job()
                if not self._is_to_go_on(is_first):
                    return
            except Exception as error:
                if self._stopping.is_set():
                    return
                self._trouble = _reason(error)
                _LOGGER.warning("flow %s: Spark has given up on its job: %s", self.name, self._trouble)
                if _is_hopeless(self._context):
                    self._error = FlowEnded(self.name, f"Spark has ended: {self._trouble}")
                    return
                if is_first and _is_foreign(error) and time.monotonic() - begun < _STEADY_S:
                    # A killed task may begin again; what cannot even be loaded there never will.
                    self._error = FlowEnded(self.name, f"its tasks fail: {self._trouble}")
                    return
            is_first = False
            if time.monotonic() - begun > _STEADY_S:
                pause_s = _AGAIN_S
            while True:
                if self._stopping.wait(pause_s):
                    return
                pause_s = min(pause_s * 2, _AGAIN_S_MAX)
                try:
                    self._begin_again()
                    break
                except (ConnectionLost, ConnectFailed) as error:
                    _LOGGER.warning("flow %s: %s", self.name, error)
                except EntrepotError as error:
                    self._error = error
                    return

    def _is_to_go_on(self, is_first: bool) -> bool:
        """Whether a job whose tasks have all ended is to run again; if not, and it was not stopped here, why."""
        if self._stopping.is_set():
            return False
        if any(result.get("fenced") or result.get("order") == REPLACED for result in self._last):
            self._error = FlowEnded(self.name, "another run of it has taken over")
            return False
        errors = [result["error"] for result in self._last if "error" in result]
        if not errors:
            return False
        if is_first:
            self._error = errors[0]
            return False
        # It has worked before, so what keeps it from that may pass.
        _LOGGER.warning("flow %s: %s", self.name, errors[0])
        return True

    def _begin_again(self) -> None:
        """
        Raises:
            FlowEnded: Another run was begun meanwhile, which is the one that counts.
        """
        ours = (self._deployment.run + 1) * ATTEMPTS_MAX
        if any(claim.epoch >= ours for claim in self._connection.claims(self._deployment.claim_prefix)):
            raise FlowEnded(self.name, "another run of it has taken over")
        self.restarts += 1
        self._begin_run()

    def _run_job(self) -> list[dict[str, Any]]:
        deployment = self._deployment
        context = self._context
        context.setJobGroup(self._job_group, f"flow {self.name}, {deployment.group}", interruptOnCancel=True)
        places = context.parallelize(range(deployment.instances), deployment.instances)
        ended = threading.Event()
        threading.Thread(target=self._watch_job, args=(ended,), name=f"watch {self.name}", daemon=True).start()
        try:
            results: list[dict[str, Any]] = places.mapPartitions(_Task(deployment)).collect()
            return results
        finally:
            ended.set()

    def _watch_job(self, ended: threading.Event) -> None:
        """Cancel tasks that do not hear what others hear: an order to stop, or that another run has fenced them."""
        next_run = (self._deployment.run + 1) * ATTEMPTS_MAX
        late_at: dict[bool, float] = {}
        while not ended.wait(_WATCH_S):
            try:
                claims = self._connection.claims(self._deployment.claim_prefix)
            except EntrepotError:
                continue
            is_fenced = any(claim.epoch >= next_run for claim in claims)
            is_told = any(claim.order == STOP for claim in claims)
            now = time.monotonic()
            for is_so, is_stop, patience_s in ((is_told, True, _STOP_S), (is_fenced, False, _FENCED_S)):
                if not is_so:
                    late_at.pop(is_stop, None)
                elif now >= late_at.setdefault(is_stop, now + patience_s):
                    if is_told:
                        self.cancel()
                    else:
                        self._context.cancelJobGroup(self._job_group)
                    return


class _Task:
    """What Spark runs; it knows nothing but the deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    def __call__(self, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        from pyspark import TaskContext

        task = TaskContext.get()
        attempt = task.attemptNumber() if task is not None else 0
        process = WorkerProcess(self._deployment.message_s_max, is_own=True)
        try:
            for number in numbers:
                try:
                    yield run_instance(self._deployment, number, attempt, process)
                except Fenced as error:
                    # A zombie's end. Its successor goes on, so Spark must not try again.
                    yield {"fenced": True, "problem": error.what}
        finally:
            process.close()


def claims_as_data(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """Claims of flows as plain data."""
    return [
        {
            "name": claim.name,
            "epoch": claim.epoch,
            "connected": claim.connected,
            "renewed_at": claim.renewed_at,
            **dict(claim.status or {}),
        }
        for claim in claims
    ]


def require_ready(flow: FlowDefinition, databases: Mapping[str, str], connection: Connection) -> None:
    """Check all that can be known of a flow before it runs.

    Raises:
        FlowInvalid: Everything that is wrong with it.
        FlowNotReady: Everything that it needs and that is not there.
    """
    kernel = Kernel(flow)
    problems = list(_missing_sources(kernel, databases))
    problems += _missing_queues(kernel, connection)
    if databases:
        problems += _unreachable(databases)
        if flow.coordinated and not problems:
            problems += _uncoordinated(databases, connection)
    if problems:
        raise FlowNotReady(flow.name, tuple(problems))


def require_slots(context: SparkContext, instances: int) -> None:
    """
    Raises:
        InstancesTooMany: On this machine Spark has fewer slots, and a task without one would wait for ever.
    """
    slots = context.defaultParallelism
    if str(context.master).startswith("local") and instances > slots:
        raise InstancesTooMany(instances, slots)


def _missing_sources(kernel: Kernel, databases: Mapping[str, str]) -> Iterator[str]:
    if "" in databases:
        return
    for node in kernel.nodes.values():
        source = node.settings.get("data_source")
        if source and source not in databases:
            yield f"node {node.name}: the data source {source!r} has no database; say --database {source}=URL"


def _missing_queues(kernel: Kernel, connection: Connection) -> Iterator[str]:
    for point in kernel.points:
        if not point.queue or point.internal:
            continue
        try:
            found = connection.mqsc(f"DISPLAY QUEUE('{point.queue}')")[0].rows
        except NotAuthorized:
            continue  # the get itself will tell
        except MqscError:
            found = ()
        if not found:
            yield f"node {point.node.name}: there is no queue {point.queue}; DEFINE QLOCAL('{point.queue}')"


def _unreachable(databases: Mapping[str, str]) -> Iterator[str]:
    from entrepot.flows.live.flow_databases import FlowDatabases

    opened = FlowDatabases(databases)
    try:
        for name in databases:
            try:
                opened._connected(name)
            except EntrepotError as error:
                yield f"data source {name or '(default)'}: {error.what}"
    finally:
        opened.close()


def _uncoordinated(databases: Mapping[str, str], connection: Connection) -> Iterator[str]:
    """Databases that cannot commit together with messages."""
    from entrepot.flows.live.flow_databases import FlowDatabases

    opened = FlowDatabases(databases)
    try:
        connection.global_unit_of_work(*opened.engines).back_out()
    except EntrepotError as error:
        yield f"{error.what}; {error.advice}"
    finally:
        opened.close()


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


def _is_hopeless(context: SparkContext) -> bool:
    """Whether Spark itself is gone, rather than one of its jobs."""
    try:
        return bool(context._jsc is None or context._jsc.sc().isStopped())
    except Exception:
        return True
