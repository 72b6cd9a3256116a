# SPDX-License-Identifier: Apache-2.0
"""One instance of a flow: get messages, run the kernel, put and commit, again and again.

A batch of messages shares a unit of work: whatever has arrived, up to a
hundred of them or a few milliseconds. Input, outputs, kept states and, in a
coordinated flow, database work are committed together, so each message is
dealt with exactly once whatever is killed.

When something fails that cannot be undone for one message alone, the whole
unit is given back untried, and its messages are then worked on one by one.
What is no message's fault, such as a database that is down, lets one input
rest for a while and nothing else.

While the queue manager commits one batch, the next one is worked on if its
messages are here. It is committed only when the one before is known to be;
if that has failed, both go back. Nothing here knows of Spark: `spark.live`
runs this as a task, and a benchmark may run it in a plain process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import resource
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from entrepot.client.blocking import Connection, Reader, connect
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    DatabaseUnavailable,
    EntrepotError,
    Fenced,
    GlobalUnitInDoubt,
    NowhereToSetAside,
    SparkGone,
    UnitBackedOut,
)
from entrepot.errors.describing import error_text
from entrepot.esql.user_functions import FlowControl, watching_interrupts
from entrepot.flows.journey import NEVER, Earlier, Journey, NotAlone
from entrepot.flows.kernel import Kernel
from entrepot.flows.live.deployment import ATTEMPTS_MAX, Deployment
from entrepot.flows.live.live_world import (
    LiveWorld,
    TraceFiles,
    is_aftermath,
    is_conflict,
    is_outage,
    reason_of,
)
from entrepot.flows.nodes.input_node import EntryPoint, InputNode, MessageSource
from entrepot.flows.nodes.node import Node
from entrepot.flows.statistics import FlowStatistics
from entrepot.message import Message
from entrepot.models import collect_seldom

if TYPE_CHECKING:
    from entrepot.client.blocking import UnitOfWork
    from entrepot.flows.live.flow_databases import FlowDatabases
    from entrepot.flows.live.live_world import Unit

_LOGGER = logging.getLogger("entrepot")

BEAT_S = 0.25
"""How often an instance says that it lives, and hears whether it should stop."""
_OTHERS_S = 0.005
"""How long one input is waited for when there are several."""
_REST_S_MIN = 0.05
_REST_S_MAX = 5.0
_CONFLICTS_MAX = 20
"""So often a message may meet a deadlock in a database before that is held to be its own fault."""
_SHORTEST_S = 1e-6
_FIRST_S = 0.001
"""What a message is held to take before one was seen: the first unit of work should not be a long one."""
_FIRST_AHEAD = 20
_LEARNING = 0.2
"""How much the last unit of work says about the next one."""
_EARLIER_MAX = 10_000
STOP = "stop"
REPLACED = "make room for another run"
"""Orders; both end an instance."""

Get = Callable[["Unit", int, float], Sequence[Message]]


class _Stopping(FlowControl):
    """The flow is to stop while a message waits for something: it goes back untried."""


class InstanceProcess:
    """The process that an instance runs in, without limits; `worker_process` has some."""

    is_orphan = False
    """The process that started this one is gone."""

    def begin_message(self) -> None:
        """The time of another message begins, or of something else that has an end."""

    def allow_time(self, seconds: float) -> None:
        """A node is about to wait for so long at most, by its own word."""


class _Counts(NamedTuple):
    """What a unit of work adds to the statistics, and takes with it when it is given back."""

    messages: int
    bytes_in: int
    outputs: int
    bytes_out: int
    set_aside: int


class _Sent(NamedTuple):
    """A unit of work whose commit is on its way."""

    unit: UnitOfWork
    source: _Input
    before: _Counts
    """What the statistics said before it."""
    messages: int
    last_key: tuple[str, bytes, float]
    message_s: float


class _Overtaken(FlowControl):
    """The unit of work before this one has failed: this one goes back untried, whatever it was doing."""

    def __init__(self, sent: _Sent, error: Exception) -> None:
        super().__init__(sent, error)
        self.sent = sent
        self.error = error


class _InputFailed(Exception):
    """An input does not give messages; none has come to harm."""

    def __init__(self, error: EntrepotError) -> None:
        super().__init__(error)
        self.error = error


class Instance:
    """A flow at work; `run` returns when it is told to stop."""

    def __init__(
        self, deployment: Deployment, number: int, attempt: int = 0, process: InstanceProcess | None = None
    ) -> None:
        self._deployment = deployment
        self._process = process or InstanceProcess()
        self._process.begin_message()  # what has to be opened may keep it waiting, too
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
        # What cannot be taken back must not be done again because of a neighbour.
        is_irrevocable = any(map(_is_irrevocable, self.kernel.nodes.values()))
        self._batch_max = 1 if is_irrevocable else deployment.batch_max
        self._databases = _databases(deployment)
        trace = f"{deployment.user_trace}.{number}" if deployment.user_trace else ""
        self._traces = TraceFiles(trace)
        self._world = LiveWorld(
            self._connection,
            self._databases,
            self._traces,
            allow_time=self._process.allow_time,
            go_on_waiting=self._go_on_waiting,
            know_before=self._know_before,
        )
        self._sent: _Sent | None = None
        self._may_overlap = not is_irrevocable and self._databases is None
        """What is done at once, or at a database, must not be done because of a unit that may yet fail."""
        self._coordinated = flow.coordinated and self._databases is not None
        self._earlier: dict[tuple[str, bytes, float], Earlier] = {}
        """Of messages that were given back: how often they were tried."""
        self._inputs: list[_Input] = []
        self._opened = contextlib.ExitStack()
        self._commit_s = 0.0
        self._message_s = _FIRST_S
        """What a message takes, by those before it."""
        self._beat_at = 0.0
        self._problem = ""
        """What keeps it from its queue manager."""
        self._started = time.time()
        self._started_at = time.monotonic()
        self._order = ""

    # --- the life of it -----------------------------------------------------------------------

    def open(self) -> None:
        """Make what the flow needs, and open its inputs.

        Raises:
            EntrepotError: It cannot work as it is.
        """
        self._prepare()
        if self._coordinated:
            with contextlib.suppress(DatabaseUnavailable):  # that one is waited for, like any other time
                self._begin().back_out()
        self._inputs = [_Input(point, self, self._opened) for point in self.kernel.points]

    def run(self) -> dict[str, Any]:
        """Work until a stop is ordered; what was done.

        Raises:
            Fenced: A newer attempt or run has taken over. Nothing of this one's last unit has happened.
            SparkGone: Its results would reach no process.
        """
        try:
            if not self._inputs:
                self.open()
            patience_s = BEAT_S if len(self._inputs) == 1 else _OTHERS_S
            with watching_interrupts():
                while not self._must_stop():
                    self._round(self._inputs, patience_s)
                self._finish_sent()
            self._opened.close()
            self._beat(final=True)
            if self._process.is_orphan:
                raise SparkGone(self._claim)
            return self.status() | {"order": self._order}
        finally:
            self.close()

    def _round(self, inputs: Sequence[_Input], patience_s: float) -> None:
        """Serve each input once; wait where there is nothing to do."""
        busy = awake = False
        for each in inputs:
            if each.is_resting():
                continue
            awake = True
            busy = self._serve(each, 0.0 if busy else patience_s) or busy
        if not awake:
            now = time.monotonic()
            time.sleep(max(min(BEAT_S, min(each.rests_until for each in inputs) - now), 0.0))

    def _prepare(self) -> None:
        """Make the flow's own queues, and let its timers put their first tokens."""
        self._world.require_queues(point.queue for point in self.kernel.points if point.internal and point.queue)
        if self._number:
            return
        for node in self.kernel.nodes.values():
            if isinstance(node, InputNode):
                with self._connection.unit_of_work() as unit:
                    self._world.begin(unit)
                    journey = Journey(Message(b""), self._world)
                    node.prime(journey)
                    self._world.accept(journey)
                    self._world.settle()

    def _must_stop(self) -> bool:
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + BEAT_S
            self._finish_sent()  # what it tells of itself has happened
            self._beat()
            self._process.begin_message()
        return self._order in (STOP, REPLACED) or self._process.is_orphan

    def _go_on_waiting(self) -> None:
        """
        Raises:
            _Stopping: A message must not wait any longer, since the flow is to end.
        """
        if self._must_stop():
            raise _Stopping

    def _beat(self, *, final: bool = False) -> None:
        try:
            self._order = self._connection.claim(
                self._claim, self._epoch, status=self.status() | {"state": "stopped" if final else "running"}
            )
            self._problem = ""
        except (ConnectionLost, ConnectFailed) as error:
            self._problem = error.what  # the next verb tries to mend the connection

    def status(self) -> dict[str, Any]:
        """What it has done so far, as plain data."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "pid": os.getpid(),
            "started": self._started,
            "elapsed_s": round(time.monotonic() - self._started_at, 3),
            "cpu_s": round(used.ru_utime + used.ru_stime, 3),
            "problem": self._problem or "; ".join(dict.fromkeys(each.problem for each in self._inputs if each.problem)),
            **self.kernel.statistics.as_data(),
        }

    def close(self) -> None:
        with contextlib.suppress(EntrepotError, _Overtaken):
            self._know_before()
        with contextlib.suppress(EntrepotError):
            self._opened.close()
        with contextlib.suppress(EntrepotError):
            self._connection.close()
        if self._databases is not None:
            self._databases.close()
        self._traces.close()

    # --- one unit of work ---------------------------------------------------------------------

    def _serve(self, source: _Input, wait_s: float) -> bool:
        """Work on what an input has, in one unit of work; whether there was something."""
        if self._sent is not None and not self._overlaps(source) and not self._finish_sent():
            return True
        careful = source.alone > 0
        try:
            found = self._batch(source, wait_s, careful)
        except Fenced:
            raise
        except _Overtaken as overtaken:
            source.backed_out()
            self._undo(overtaken)
            return True
        except _Stopping:
            source.backed_out()
            return False
        except Exception as error:
            return self._failed(source, error, careful)
        if found and self._sent is None:
            source.went_well()
        source.problem = ""
        return found

    def _failed(self, source: _Input, error: Exception, careful: bool) -> bool:
        """The last unit of work of an input was given back; whether there was something in it."""
        if isinstance(error, _InputFailed):
            self._rest(source, error.error)
            source.backed_out()  # it may have handed out something before
            return False
        if isinstance(error, NowhereToSetAside):
            # The flow may be mended, or the message given a place: it is tried anew, not condemned at once.
            self._forget_earlier(source.last_key)
            source.problem = error.what
            if source.last_count == 1:
                self._rest(source, error)  # else those that came before it go on, one by one
        elif isinstance(error, NotAlone):
            self._go_back(source, error.earlier, is_own=careful or not is_aftermath(error.earlier.error))
        else:
            if not isinstance(error, EntrepotError):
                _LOGGER.error("%s: a mistake of ours", self._claim, exc_info=error)
            if not source.last_count:
                self._rest(source, error)
                return False
            # A put was refused, or a database, when the unit was to commit; alone, a message is the cause of that.
            before = self._earlier.get(source.last_key, NEVER)
            self._go_back(source, before._replace(tries=before.tries + 1, error=reason_of(error)), is_own=careful)
        source.alone = max(source.alone, source.last_count)
        source.backed_out()
        return True

    def _go_back(self, source: _Input, earlier: Earlier, *, is_own: bool) -> None:
        """A unit of work was given back: remember which message caused it, or wait when none did."""
        error = earlier.error
        if is_outage(error):
            self._rest(source, error)
        elif is_conflict(error) and source.conflicts < _CONFLICTS_MAX:
            source.conflicts += 1
            self._rest(source, error, rest_s_max=_REST_S_MIN)
        elif is_own:
            source.conflicts = 0
            self._remember(source.last_key, earlier)
        if not source.is_resting():
            source.problem = error_text(error)

    def _rest(self, source: _Input, error: BaseException | None, rest_s_max: float = _REST_S_MAX) -> None:
        """Something is out of order that no message can help: leave an input alone, a little longer each time."""
        source.problem = error_text(error)
        source.rest(rest_s_max)
        _LOGGER.warning("%s: %s", self._claim, error_text(error))

    def _batch(self, source: _Input, wait_s: float, careful: bool) -> bool:
        world, kernel = self._world, self.kernel
        world.careful = careful
        statistics = kernel.statistics
        before = _counts(statistics)
        source.last_count = 0
        source.is_in_doubt = False
        after: list[Callable[[], None]] = []
        unit = self._begin()
        try:
            world.begin(unit)
            messages = self._got(source, unit, wait_s)
            begun = time.monotonic()
            for message in messages:
                source.last_count += 1
                source.last_key = key = (source.point.queue, message.message_id, message.put_time)
                world.next_message()
                self._process.begin_message()
                earlier = self._earlier.get(key, NEVER) if self._earlier else NEVER
                journey = kernel.process(source.point, message, world, earlier)
                world.require_sound()
                world.accept(journey)
                statistics.sent(journey.outputs)
                if journey.after_commit:
                    after += journey.after_commit
            if not source.last_count:
                unit.back_out()
                return False
            worked = time.monotonic()
            message_s = (worked - begun) / source.last_count
            self._process.begin_message()
            self._know_before()
            world.settle()
            if not after and self._overlaps(source):
                unit.local.begin_commit()
                self._sent = _Sent(unit.local, source, before, source.last_count, source.last_key, message_s)
                return True
            world.commit_databases()
            try:
                unit.commit(counted=False)
            except (ConnectionLost, GlobalUnitInDoubt):
                source.is_in_doubt = True
                raise
        except (Exception, FlowControl):
            self._give_back(unit, before, source.last_count)
            raise
        except BaseException:
            # The process was interrupted. Should the message itself have done so, that has to end one day.
            self._give_back(unit, before, source.last_count, counted=True)
            raise
        if careful:
            source.alone -= 1
        self._forget_earlier(source.last_key)
        statistics.units += 1
        self._learn(message_s, time.monotonic() - worked)
        self._committed(source, after)
        return True

    # --- a commit that is on its way ----------------------------------------------------------

    def _overlaps(self, source: _Input) -> bool:
        """Whether the next messages of an input are here, and may be worked on before the last unit is committed."""
        return (
            self._may_overlap
            and source.is_in_order
            and not self._is_one_by_one(source)
            and 2 * source.ready >= self._limit(source)
        )

    def _know_before(self) -> None:
        """Wait for the commit that is on its way, if there is one.

        Raises:
            _Overtaken: It has failed, and is still to be undone.
            Fenced
        """
        sent, self._sent = self._sent, None
        if sent is None:
            return
        waits = time.monotonic()
        try:
            sent.unit.finish_commit()
        except Fenced:
            self._give_back(sent.unit, sent.before, sent.messages)
            raise
        except Exception as error:
            raise _Overtaken(sent, error) from error
        self._forget_earlier(sent.last_key)
        self.kernel.statistics.units += 1
        self._learn(sent.message_s, time.monotonic() - waits)
        self._committed(sent.source, ())

    def _finish_sent(self) -> bool:
        """The same between units of work; whether it has gone well."""
        try:
            self._know_before()
        except _Overtaken as overtaken:
            self._undo(overtaken)
            return False
        return True

    def _undo(self, overtaken: _Overtaken) -> None:
        """A commit that was on its way has failed, and what came behind it was given back."""
        sent = overtaken.sent
        source = sent.source
        source.last_count, source.last_key = sent.messages, sent.last_key
        self._give_back(sent.unit, sent.before, sent.messages)
        self._failed(source, overtaken.error, careful=False)

    def _committed(self, source: _Input, after: Sequence[Callable[[], None]]) -> None:
        """Do what was to be done after the commit; what goes wrong here undoes nothing any more."""
        try:
            source.committed()
        except Exception:
            _LOGGER.exception("%s: after a commit", self._claim)
        for action in after:
            try:
                action()
            except Exception:
                _LOGGER.exception("%s: after a commit", self._claim)

    def _learn(self, message_s: float, commit_s: float) -> None:
        self._message_s += (max(message_s, _SHORTEST_S) - self._message_s) * _LEARNING
        self._commit_s += (commit_s - self._commit_s) * _LEARNING

    def _begin(self) -> Unit:
        if self._coordinated:
            assert self._databases is not None
            return self._connection.global_unit_of_work(*self._databases.engines)
        return self._connection.unit_of_work()

    def _got(self, source: _Input, unit: Unit, wait_s: float) -> Sequence[Message]:
        limit = self._limit(source)
        source.look_ahead(2 * limit)
        try:
            return source.get(unit, limit, wait_s)
        except (Fenced, UnitBackedOut):
            raise
        except EntrepotError as error:
            raise _InputFailed(error) from error

    def _limit(self, source: _Input) -> int:
        """How many messages the next unit may have: they may take a few milliseconds, or as long as a commit does."""
        if self._is_one_by_one(source):
            return 1
        batch_s = max(self._deployment.batch_s, self._commit_s)
        return max(1, min(self._batch_max, int(batch_s / self._message_s)))

    def _is_one_by_one(self, source: _Input) -> bool:
        """Where one try is all a message has, a crash must not cost its neighbours theirs."""
        queue = source.point.queue
        return source.alone > 0 or (bool(queue) and self._world.facts(queue).threshold == 1)

    def _give_back(self, unit: Unit, before: _Counts, count: int, *, counted: bool = False) -> None:
        """Let nothing of a unit have happened; its messages return untried, unless that is counted."""
        statistics = self.kernel.statistics
        for name, value in before._asdict().items():
            setattr(statistics, name, value)
        statistics.given_back += bool(count)
        self._world.back_out_databases()
        self._world.forget()
        with contextlib.suppress(EntrepotError):
            if unit.state == "active":
                unit.back_out(counted=counted)
            else:
                unit.__exit__(None, None, None)  # a connection that broke has left work open at databases

    def _remember(self, key: tuple[str, bytes, float], earlier: Earlier) -> None:
        if len(self._earlier) >= _EARLIER_MAX:
            self._earlier.clear()
        self._earlier[key] = earlier

    def _forget_earlier(self, key: tuple[str, bytes, float]) -> None:
        self._earlier.pop(key, None)


class _Input:
    """A point of the kernel with what brings its messages."""

    def __init__(self, point: EntryPoint, instance: Instance, opened: contextlib.ExitStack) -> None:
        self.point = point
        self.last_count = 0
        """How many messages its last unit of work had."""
        self.last_key = ("", b"", 0.0)
        """What the last of them is known by; ids alone may be used twice."""
        self.alone = 0
        """So many of its next messages are worked on one by one."""
        self.is_in_doubt = False
        """It is unknown here whether its last unit of work was committed."""
        self.rests_until = 0.0
        self.problem = ""
        self.conflicts = 0
        self._rest_s = 0.0
        self._source: MessageSource | None = None
        self._reader: Reader | None = None
        if point.source is not None:
            self._source = point.source()
            opened.callback(self._source.close)
            self.get: Get = self._from_source
            return
        options: dict[str, Any] = {"selector": point.selector} if point.selector else {}
        reader = instance._connection.reader(point.queue, read_ahead=_FIRST_AHEAD, **options)
        opened.enter_context(reader)
        self.get = _from_reader(reader)
        self._reader = reader

    def _from_source(self, unit: Unit, limit: int, wait_s: float) -> list[Message]:
        del unit  # the source hears by itself what has become of it
        assert self._source is not None
        found: list[Message] = []
        while len(found) < limit:
            message = self._source.next(0.0 if found else wait_s)
            if message is None:
                break
            found.append(message)
            if message.backout_count:
                break  # it was in a unit that ended with a crash, and may be the cause: then it takes no others along
        return found

    def rest(self, rest_s_max: float) -> None:
        """Ask it for nothing for a while; each time for longer, and not all instances at the same time."""
        self._rest_s = min(max(self._rest_s * 2, _REST_S_MIN), rest_s_max)
        self.rests_until = time.monotonic() + self._rest_s * random.uniform(0.5, 1.0)  # noqa: S311 -- no secret

    @property
    def ready(self) -> int:
        """How many of its messages wait here."""
        return self._reader.ready if self._reader is not None else 0

    @property
    def is_in_order(self) -> bool:
        """Whether its messages come from a queue, and nothing has gone wrong with the last ones."""
        return self._reader is not None and not self._rest_s and not self.conflicts

    def is_resting(self) -> bool:
        return self.rests_until > 0.0 and time.monotonic() < self.rests_until

    def went_well(self) -> None:
        self._rest_s = self.rests_until = 0.0
        self.conflicts = 0

    def look_ahead(self, count: int) -> None:
        """Messages that wait here for a slow flow are kept from its other instances, so let few of them wait."""
        if self._reader is not None:
            self._reader.look_ahead(count)

    def committed(self) -> None:
        if self._source is not None:
            self._source.committed()

    def backed_out(self) -> None:
        if self._source is None:
            return
        if self.is_in_doubt:
            self._source.left_in_doubt()
        else:
            self._source.backed_out()


def _from_reader(reader: Reader) -> Get:
    def get(unit: Unit, limit: int, wait_s: float) -> list[Message]:
        return reader.get_many(unit, limit, wait_s=wait_s)

    return get


def _databases(deployment: Deployment) -> FlowDatabases | None:
    if not deployment.databases:
        return None
    from entrepot.flows.live.flow_databases import FlowDatabases

    return FlowDatabases(deployment.databases)


def _is_irrevocable(node: Node) -> bool:
    """Whether a node does something at once, whatever becomes of the unit of work."""
    settings = node.settings
    if isinstance(node, InputNode):
        return False
    at_once = settings.get("transaction") == "no" or settings.get("database_transaction") == "commit"
    return at_once or node.type == "HTTPRequest"


def _counts(statistics: FlowStatistics) -> _Counts:
    return _Counts(
        statistics.messages, statistics.bytes_in, statistics.outputs, statistics.bytes_out, statistics.set_aside
    )


def run_instance(
    deployment: Deployment, number: int, attempt: int, process: InstanceProcess | None = None
) -> dict[str, Any]:
    """What a Spark task, or a process, does: one instance until it is told to stop.

    What keeps it from starting at all would do so again: on the first attempt
    that is its answer, under "error", and not raised.

    Raises:
        Fenced: A newer attempt or run has taken over.
    """
    instance: Instance | None = None
    try:
        instance = Instance(deployment, number, attempt, process)
        instance.open()
    except EntrepotError as error:
        if instance is not None:
            instance.close()
        if attempt or isinstance(error, Fenced) or is_outage(error):
            raise
        return {"error": error, "problem": error.what}
    return instance.run()
