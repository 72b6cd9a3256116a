# SPDX-License-Identifier: Apache-2.0
"""One instance of a flow: get messages, run the kernel, put and commit, again and again.

A batch of messages shares a unit of work: whatever has arrived, up to a
hundred of them or a few milliseconds. Input, outputs, kept states and, in a
coordinated flow, database work are committed together, so each message is
dealt with exactly once whatever is killed.

When something fails that cannot be undone for one message alone, the whole
unit is given back untried, and its messages are then worked on one by one.
Nothing here knows of Spark: `live` runs this as a task, and a benchmark may
run it in a plain process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from entrepot.connection import Connection, Reader, connect
from entrepot.errors import (
    ConnectionLost,
    DatabaseFailed,
    EntrepotError,
    Fenced,
    GlobalUnitInDoubt,
    NowhereToSetAside,
)
from entrepot.flows.journey import Journey
from entrepot.flows.kernel import NEVER, Earlier, Kernel, NotAlone
from entrepot.flows.nodes.input_node import InputNode, Point, Source
from entrepot.message import Message
from entrepot.models import collect_seldom
from entrepot.spark.deployment import ATTEMPTS_MAX, Deployment
from entrepot.spark.flow_outside import FlowOutside, TraceFiles, is_outage

if TYPE_CHECKING:
    from entrepot.spark.flow_databases import FlowDatabases
    from entrepot.spark.flow_outside import Unit

_LOGGER = logging.getLogger("entrepot")

BEAT_S = 0.25
"""How often an instance says that it lives, and hears whether it should stop."""
_OTHERS_S = 0.005
"""How long one input is waited for when there are several."""
_PAUSE_S_MAX = 5.0
_EARLIER_MAX = 10_000
STOP = "stop"

Get = Callable[["Unit", float], Message | None]


class Instance:
    """A flow at work; `run` returns when it is told to stop."""

    def __init__(self, deployment: Deployment, number: int, attempt: int = 0) -> None:
        self._deployment = deployment
        self._number = number
        self._epoch = deployment.run * ATTEMPTS_MAX + min(attempt, ATTEMPTS_MAX - 1)
        self._claim = deployment.claim_name(number)
        flow = deployment.flow
        self._connection: Connection = connect(
            deployment.url,
            application=f"flow {flow.name}",
            user=deployment.user,
            password=deployment.password,
        )
        self._connection.claim(self._claim, self._epoch)
        collect_seldom()
        self.kernel = Kernel(flow, node_statistics=deployment.node_statistics)
        self._databases = _databases(deployment)
        trace = f"{deployment.user_trace}.{number}" if deployment.user_trace else ""
        self._traces = TraceFiles(trace)
        self._outside = FlowOutside(self._connection, self._databases, self._traces)
        self._coordinated = flow.coordinated and self._databases is not None
        self._earlier: dict[bytes, Earlier] = {}
        """Of messages that were given back: how often they were tried."""
        self._alone = 0
        """So many of the next messages are worked on one by one."""
        self._beat_at = 0.0
        self._pause_s = 0.0
        self._problem = ""
        self._started = time.time()
        self._order = ""

    # --- the life of it -----------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Work until somebody orders a stop; what was done.

        Raises:
            Fenced: A newer attempt or run has taken over. Nothing of this one's last unit has happened.
        """
        try:
            self._prepare()
            with contextlib.ExitStack() as opened:
                inputs = [_Input(point, self, opened) for point in self.kernel.points]
                patience_s = BEAT_S if len(inputs) == 1 else _OTHERS_S
                while not self._must_stop():
                    busy = False
                    for each in inputs:
                        busy = self._serve(each, 0.0 if busy else patience_s) or busy
            self._beat(final=True)
            return self.status()
        finally:
            self.close()

    def _prepare(self) -> None:
        """Make the flow's own queues, and let its timers put their first tokens."""
        self._outside.require_queues(point.queue for point in self.kernel.points if point.internal)
        if self._number:
            return
        for node in self.kernel.nodes.values():
            if isinstance(node, InputNode):
                with self._connection.unit_of_work() as unit:
                    self._outside.begin(unit)
                    journey = Journey(Message(b""), self._outside)
                    node.prime(journey)
                    self._outside.accept(journey)
                    self._outside.settle_states()

    def _must_stop(self) -> bool:
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + BEAT_S
            self._beat()
        return self._order == STOP

    def _beat(self, *, final: bool = False) -> None:
        try:
            self._order = self._connection.claim(
                self._claim, self._epoch, status=self.status() | {"state": "stopped" if final else "running"}
            )
        except ConnectionLost as error:
            self._problem = error.what  # the next verb mends the connection

    def status(self) -> dict[str, Any]:
        """What it has done so far, as plain data."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "pid": os.getpid(),
            "started": self._started,
            "elapsed_s": round(time.time() - self._started, 3),
            "cpu_s": round(used.ru_utime + used.ru_stime, 3),
            "problem": self._problem,
            **self.kernel.statistics.told(),
        }

    def close(self) -> None:
        with contextlib.suppress(EntrepotError):
            self._connection.close()
        if self._databases is not None:
            self._databases.close()
        self._traces.close()

    # --- one unit of work ---------------------------------------------------------------------

    def _serve(self, source: _Input, wait_s: float) -> bool:
        """Work on what an input has, in one unit of work; whether there was something."""
        try:
            found = self._batch(source, wait_s)
        except (Fenced, KeyboardInterrupt):
            raise
        except NowhereToSetAside as error:
            self._pause(error)
        except DatabaseFailed as error:
            if not is_outage(error):
                raise
            self._pause(error)
        except GlobalUnitInDoubt as error:
            # Every part follows what was decided; the messages of the unit come again if it was to back out.
            self._pause(error)
        except ConnectionLost as error:
            self._pause(error)
        except EntrepotError as error:
            # A put was refused when the unit was to commit: whose it was shows when they go one by one.
            self.kernel.statistics.given_back += 1
            self._problem = error.what
            if self._outside.careful:
                self._pause(error)
            self._alone = max(self._alone, source.last_count, 1)
        else:
            if found:
                self._pause_s = 0.0
                self._problem = ""
            return found
        source.backed_out()
        return True

    def _pause(self, error: EntrepotError) -> None:
        """Something is out of order that no message can help: wait, a little longer each time."""
        self._problem = error.what
        self.kernel.statistics.given_back += 1
        self._alone = max(self._alone, 1)
        self._pause_s = min(max(self._pause_s * 2, 0.05), _PAUSE_S_MAX)
        _LOGGER.warning("%s: %s", self._claim, error)
        end = time.monotonic() + self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311 -- no secret
        while time.monotonic() < end and not self._must_stop():
            time.sleep(min(BEAT_S, max(end - time.monotonic(), 0.0)))

    def _batch(self, source: _Input, wait_s: float) -> bool:
        outside, kernel = self._outside, self.kernel
        careful = outside.careful = self._alone > 0
        limit = 1 if careful else self._deployment.batch_max
        unit = self._begin()
        outside.begin(unit)
        after: list[Callable[[], None]] = []
        count = 0
        try:
            for message in self._messages(source, unit, limit, wait_s):
                count += 1
                outside.next_message()
                earlier = self._earlier.get(message.message_id, NEVER) if self._earlier else NEVER
                journey = kernel.process(source.point, message, outside, earlier)
                if earlier is not NEVER:
                    del self._earlier[message.message_id]
                kernel.statistics.outputs += len(journey.outputs)
                kernel.statistics.bytes_out += outside.accept(journey)
                if journey.after_commit:
                    after += journey.after_commit
            if not count:
                unit.back_out()
                return False
            outside.settle_states()
            outside.commit_databases()
            unit.commit(counted=False)
        except NotAlone as error:
            source.last_count = count
            self._give_back(unit)
            self._remember(message, error.earlier)
            source.backed_out()
            self._alone = max(self._alone, count)
            if is_outage(error.earlier.error):
                self._earlier.pop(message.message_id, None)
                raise error.earlier.error from error  # type: ignore[misc]
            return True
        except BaseException:
            source.last_count = count
            self._give_back(unit)
            raise
        if careful:
            self._alone -= 1
        kernel.statistics.units += 1
        source.committed()
        for action in after:
            action()
        return True

    def _begin(self) -> Unit:
        if self._coordinated:
            assert self._databases is not None
            return self._connection.global_unit_of_work(*self._databases.engines)
        return self._connection.unit_of_work()

    def _messages(self, source: _Input, unit: Unit, limit: int, wait_s: float) -> Iterator[Message]:
        message = source.get(unit, wait_s)
        if message is None:
            return
        end = time.monotonic() + self._deployment.batch_s
        yield message
        taken = 1
        while taken < limit and time.monotonic() < end:
            message = source.get(unit, 0.0)
            if message is None:
                return
            yield message
            taken += 1

    def _give_back(self, unit: Unit) -> None:
        """Let nothing of a unit have happened; its messages return untried."""
        self._outside.back_out_databases()
        if unit.state == "active":
            with contextlib.suppress(EntrepotError):
                unit.back_out(counted=False)

    def _remember(self, message: Message, earlier: Earlier) -> None:
        if len(self._earlier) >= _EARLIER_MAX:
            self._earlier.clear()
        self._earlier[message.message_id] = earlier


class _Input:
    """A point of the kernel with what brings its messages."""

    def __init__(self, point: Point, instance: Instance, opened: contextlib.ExitStack) -> None:
        self.point = point
        self.last_count = 0
        self._source: Source | None = None
        if point.source is not None:
            self._source = point.source()
            opened.callback(self._source.close)
            self.get: Get = self._from_source
            return
        options: dict[str, Any] = {"selector": point.selector} if point.selector else {}
        deployment = instance._deployment
        reader = instance._connection.reader(point.queue, read_ahead=2 * deployment.batch_max, **options)
        opened.enter_context(reader)
        self.get = _from_reader(reader)

    def _from_source(self, unit: Unit, wait_s: float) -> Message | None:
        assert self._source is not None
        return self._source.next(wait_s)

    def committed(self) -> None:
        if self._source is not None:
            self._source.committed()

    def backed_out(self) -> None:
        if self._source is not None:
            self._source.backed_out()


def _from_reader(reader: Reader) -> Get:
    def get(unit: Unit, wait_s: float) -> Message | None:
        return reader.get(unit, wait_s=wait_s)

    return get


def _databases(deployment: Deployment) -> FlowDatabases | None:
    if not deployment.databases:
        return None
    from entrepot.spark.flow_databases import FlowDatabases

    return FlowDatabases(deployment.databases)


def run_instance(deployment: Deployment, number: int, attempt: int) -> dict[str, Any]:
    """What a Spark task, or a process, does: one instance until it is told to stop."""
    return Instance(deployment, number, attempt).run()


