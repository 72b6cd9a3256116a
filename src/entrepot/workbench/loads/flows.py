# SPDX-License-Identifier: Apache-2.0
"""Flow: a case of the broker document, from the input queue through flows on Spark to its receivers.

As chapter 8 of the document has it, a sender keeps messages waiting on the
input queue, so that the rate is the flows' own; the rate is that of whole
journeys, however many messages a journey has in between. A publication
counts once: one subscriber is measured, and a background program consumes
what the others get. Clients have the binding that is measured, flows run
beside the queue manager as the broker did. Spark, its instances and the database belong to the
system under measurement: their CPU time is the server's.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from entrepot.errors import LoadUnsuitable, SystemFailed
from entrepot.workbench.broker.messages import NUMBERS_MAX, Template, read_mark
from entrepot.workbench.generators.gate import fork
from entrepot.workbench.loads.load import Load
from entrepot.workbench.measuring.observations import NONE_NS, RECEIVED
from entrepot.workbench.measuring.stage import Pids, Stage, Trial
from entrepot.workbench.scenario import Parameter

if TYPE_CHECKING:
    from entrepot.client.blocking import Connection
    from entrepot.workbench.broker.cases import BrokerCase
    from entrepot.workbench.broker.engine import FlowsAtWork
    from entrepot.workbench.generators.client import Client

IN, OUT = "BROKER.IN", "BROKER.OUT"
RECEIVER, CONSUMER = range(1), range(1, 2)
"""The trial's first client, and its second where there is a background program."""
TOPIC = "broker/prices"
AT_ONCE = 100
"""Messages that the sender puts together, and that a receiver or replier takes in one unit of work at most."""
WAITING_S = 0.5
"""The sender keeps as much under way as the flows do in this time …"""
WAITING_MIN, WAITING_MAX = 20, 5000
"""… within these limits for each copy of the flow."""
WAITING_BYTES_MAX = 64 * 1024 * 1024
HELD_PART_MIN = 0.02
"""A sender that hardly ever had to wait was the limit itself."""
STEADY_PART = 0.3
"""So much of the time is left out of what is told as a fact; the analysis finds the warm-up for itself."""
SENDERS_PERSISTENT = 2
"""While one waits for its commit, the other puts."""
COPIES_FAN_IN_MAX = 4
READ_AHEAD = 1000
ROOM_S = 60.0
PAUSE_S = 0.001
POLL_S = 0.2
SWEEP_S = 0.25
"""How often the background program goes round the queues of the other subscribers."""
SWEEP_COMMIT, SWEEP_MAX = 10, 500
"""So many queues, and messages of each, in one unit of work."""
SUBSCRIBER_DEPTH_MAX = 999_999_999


class QueueManagerAccess(Protocol):
    """A queue manager, as its administrator and the flows on its machine reach it."""

    @property
    def unix_url(self) -> str: ...

    def mqsc(self, *commands: str) -> Any: ...


class Reachable(Protocol):
    """A system whose queue manager has an address."""

    @property
    def url(self) -> str: ...

    @property
    def manager(self) -> QueueManagerAccess: ...


class CaseDatabase(Protocol):
    """What the Database nodes of a case talk to."""

    @property
    def url(self) -> str: ...

    @property
    def pids(self) -> Sequence[int]: ...


class Flow(Load):
    name = "flow"
    needs = frozenset({"flows"})
    parameters = {
        "case": "trivial",
        "message_bytes": 1024,
        "instances": 1,
        "execution_groups": 1,
        "subscribers": 0,
        "database": "",
        "seconds_factor": 1,
    }
    """`instances: 0` runs a copy for each processor; `subscribers: 0` are the case's own."""

    @classmethod
    def duration_s(cls, seconds: float, parameters: Mapping[str, Parameter]) -> float:
        del parameters
        return seconds + 8.0  # Spark's start, and the flows'

    def run(self, stage: Stage) -> None:
        from entrepot.workbench.broker.engine import Engine

        plan = FlowLoadPlan(stage)
        with plan.database() as database:
            stage.say("starting Spark")
            with Engine(stage.scratch, tasks=plan.tasks) as engine:
                measure(stage, plan, engine, database)


class FlowLoadPlan:
    """What a point asks for, on this machine."""

    def __init__(self, stage: Stage, suffix: str = "") -> None:
        from entrepot.workbench.broker.cases import find_case

        self.case: BrokerCase = find_case(stage.text("case"))
        self.suffix = suffix
        self.message_bytes = stage.number("message_bytes")
        self.groups = stage.number("execution_groups")
        self.subscribers = (stage.number("subscribers") or self.case.subscribers) if self.case.subscribers else 0
        self._stage = stage
        processors = len(os.sched_getaffinity(0))
        # Chapter 2 is about the whole machine, and publishes that under a name of its own.
        self.is_full_machine = stage.scenario.table.startswith("2.")
        self.instances = stage.number("instances") or processors
        if len(self.case.flows) > 1:
            # The document ran one copy of the first and four of the second, on eight processors.
            self.instances = max(1, min(COPIES_FAN_IN_MAX, processors // 2))
        self.persistent = stage.system.quality.is_persistent

    @property
    def copies(self) -> int:
        return self.instances * self.groups

    @property
    def tasks(self) -> int:
        return self.groups * (len(self.case.flows) - 1 + self.instances)

    @property
    def source(self) -> str:
        return IN + self.suffix

    @property
    def subscriber_queues(self) -> list[str]:
        return [f"BROKER.SUB.{number}{self.suffix}" for number in range(self.subscribers)]

    @property
    def target(self) -> str:
        """Where a message is when its journey is over."""
        return self.subscriber_queues[-1] if self.subscribers else OUT + self.suffix

    @property
    def topic(self) -> str:
        return TOPIC + self.suffix

    @property
    def waiting_max(self) -> int:
        """How many messages may be under way at most."""
        each_bytes = self.message_bytes * max(1, self.subscribers)
        return max(WAITING_MIN, min(WAITING_MAX, WAITING_BYTES_MAX // each_bytes))

    @contextlib.contextmanager
    def database(self) -> Iterator[CaseDatabase | None]:
        """The case's database, if it has one."""
        if not self.case.database:
            yield None
            return
        from entrepot.workbench.broker.database import open_database

        self._stage.say("starting the database")
        with open_database(self._stage.scratch / "database", self._stage.text("database")) as found:
            yield found


# --- the leader's part -----------------------------------------------------------------------------------


def measure(stage: Stage, plan: FlowLoadPlan, engine: FlowsAtWork, database: CaseDatabase | None = None) -> None:
    """One trial of a case whose flows `engine` runs.

    Raises:
        SystemFailed: The flows did not begin; there is no trial.
    """
    with at_work(stage, plan, engine, database) as servers:
        run_trial(stage, plan, engine, servers)


@contextlib.contextmanager
def at_work(
    stage: Stage, plan: FlowLoadPlan, engine: FlowsAtWork, database: CaseDatabase | None = None
) -> Iterator[Pids]:
    """Queues, subscribers and flows; yields what can tell the processes that belong to the system beside its own.

    They change: a database has one for each connection, which a flow opens when its first message comes.
    """
    from entrepot.workbench.broker.deploying import DeploymentRequest, databases_of, queues_of

    manager = _reachable(stage).manager
    stage.system.create_queues(queues_of(plan.case, plan.suffix))
    wanted = DeploymentRequest(
        case=plan.case.name,
        url=manager.unix_url,
        message_bytes=plan.message_bytes,
        instances=plan.instances,
        groups=plan.groups,
        databases=databases_of(plan.case, database.url) if database is not None else {},
        suffix=plan.suffix,
    )
    with _subscribed(plan, manager), engine.deployed(wanted):
        yield lambda: [*engine.pids, *(database.pids if database is not None else ())]


def run_trial(stage: Stage, plan: FlowLoadPlan, engine: FlowsAtWork, servers: Pids) -> None:
    with stage.trial(queues=[plan.source, plan.target], servers=servers) as trial:
        _drive(stage, plan, trial, _reachable(stage).url)
        if problem := engine.problem():
            raise SystemFailed("the flow", problem)
        _tell(plan, trial)


def _drive(stage: Stage, plan: FlowLoadPlan, trial: Trial, url: str) -> None:
    held_ns = fork.RawValue("q", 0)
    trial.start("receiver", receive, 1, url, plan.target, plan.persistent)
    consumed = plan.subscriber_queues[:-1]
    if consumed:
        trial.start("consumer", consume_others, 1, url, consumed)
    if plan.case.echo:
        trial.start("replier", reply, 1, url, plan.case.echo + plan.suffix)
    template = plan.case.template(plan.message_bytes)
    first = 1 + bool(consumed) + bool(plan.case.echo)
    slots = range(first, first + (SENDERS_PERSISTENT if plan.persistent else 1))
    trial.start("sender", send, len(slots), url, plan, template, slots, len(consumed), held_ns)
    trial.gather()
    trial.go(stage.seconds)
    trial.applications.join("sender")
    trial.drain(lambda: trial.counted("receiver") >= trial.counted("sender"))
    if consumed:
        expected = trial.counted("sender") * len(consumed)
        trial.drain(lambda: trial.counted("consumer") >= expected)
        if (found := trial.counted("consumer")) != expected:
            trial.reason = f"the other {len(consumed)} subscribers got {found} messages and not {expected}"
    trial.finish()
    held = held_ns.value / max(trial.gate.ended_ns - trial.gate.begun_ns, 1) / len(slots)
    trial.facts["sender_held"] = held
    trial.evidence["sender"] = f"kept messages waiting: it was held back {held:.0%} of the time by what was under way"
    if held < HELD_PART_MIN:
        trial.reason = "the sender could not keep messages waiting on the input queue, so the rate is its own"


def _tell(plan: FlowLoadPlan, trial: Trial) -> None:
    """What a message cost the machine's server side; and the rate, where the whole machine was to be used."""
    import numpy

    parts = [numpy.fromfile(path, dtype=numpy.int64).reshape(-1, len(RECEIVED)) for path in trial.raw("received")]
    times = numpy.sort(numpy.concatenate(parts)[:, RECEIVED.index("received_ns")]) if parts else numpy.empty(0)
    begun, ended = trial.gate.begun_ns, trial.gate.ended_ns
    used = [each for each in trial.samples("cpu_s", "server") if each[0] >= begun + STEADY_PART * (ended - begun)]
    if len(used) < 2:
        return
    (first_ns, first_s), (last_ns, last_s) = used[0], used[-1]
    messages = int(numpy.searchsorted(times, last_ns) - numpy.searchsorted(times, first_ns))
    if not messages:
        return
    trial.facts["cpu_per_message"] = (last_s - first_s) / messages * 1000
    if plan.is_full_machine:
        trial.facts["throughput_full_machine"] = messages / ((last_ns - first_ns) / 1e9)


def _reachable(stage: Stage) -> Reachable:
    system: Any = stage.system
    if not hasattr(system, "url") or not hasattr(system, "manager"):
        raise LoadUnsuitable(system.name, Flow.name, "flows on Spark reach a queue manager by its address")
    return cast("Reachable", system)


@contextlib.contextmanager
def _subscribed(plan: FlowLoadPlan, manager: QueueManagerAccess) -> Iterator[None]:
    """Subscribers with a queue each."""
    names = plan.subscriber_queues
    if not names:
        yield
        return
    content = f" CONTENT('{plan.case.content.replace(chr(39), chr(39) * 2)}')" if plan.case.content else ""
    manager.mqsc(
        *(
            f"DEFINE QLOCAL('{name}') MAXDEPTH({SUBSCRIBER_DEPTH_MAX}) REPLACE\n"
            f"DEFINE SUB('{name}') TOPICSTR('{plan.topic}') DEST('{name}'){content}"
            for name in names
        )
    )
    try:
        yield
    finally:
        manager.mqsc(*(f"DELETE SUB('{name}')\nDELETE QLOCAL('{name}') PURGE" for name in names))


# --- the clients' parts ----------------------------------------------------------------------------------


def send(
    client: Client, url: str, plan: FlowLoadPlan, template: Template, senders: range, others: int, held_ns: Any
) -> None:
    """Put until the gate closes, and pause while enough is under way.

    What is under way is bounded by what the flows do in WAITING_S, so that a
    slow one is not still at work when the time for late messages is over.
    """
    import entrepot

    note, clock, me, gate = client.sent.add, time.monotonic_ns, client.number, client.gate
    size = len(template.body(0, 0))
    with entrepot.connect(url) as connection:
        put = _putter(connection, plan, template, me)
        begun, number = gate.wait(), 0
        while (ready := clock()) < gate.ended_ns:
            done = gate.counted(RECEIVER)
            rate_per_ns = done / max(ready - begun, 1)
            waiting = int(min(max(rate_per_ns * WAITING_S * 1e9, WAITING_MIN * plan.copies), plan.waiting_max))
            sent = gate.counted(senders)
            room = min(waiting - (sent - done), AT_ONCE)
            if others:
                # What the background program has not consumed yet must not pile up either.
                room = min(room, plan.waiting_max - (sent - gate.counted(CONSUMER) // others))
            if room < min(AT_ONCE, max(1, waiting // 4)):
                time.sleep(PAUSE_S)
                held_ns.value += clock() - ready
                continue
            numbers = range(number, number + room)
            assert numbers.stop <= NUMBERS_MAX
            before = clock()
            put(numbers)
            after = clock()
            for each in numbers:
                note((me, each, size, ready, before, after))
            number = numbers.stop
            client.count(number)


def _putter(connection: Connection, plan: FlowLoadPlan, template: Template, sender: int) -> Callable[[range], None]:
    """Persistent messages in units of work; others without waiting for answers, which the count of journeys gives."""
    queue, form, make = plan.source, template.format, template.body
    if not plan.persistent:
        pipeline = connection.pipeline()

        def put(numbers: range) -> None:
            for number in numbers[:-1]:
                pipeline.put(queue, make(sender, number), format=form, persistent=False)
            # A put that may wait goes at once, and takes along what was gathered.
            pipeline.put(queue, make(sender, numbers[-1]), format=form, persistent=False, wait_s=ROOM_S)

        return put

    def put_in_unit(numbers: range) -> None:
        with connection.unit_of_work() as unit:
            for number in numbers:
                unit.put(queue, make(sender, number), format=form, persistent=True)

    return put_in_unit


def receive(client: Client, url: str, queue: str, persistent: bool) -> None:
    """Take and note what comes out, until all is over; persistent messages in units of work."""
    import entrepot

    gate, seen = client.gate, 0
    with entrepot.connect(url) as connection:
        if not persistent:
            with connection.consume(queue, read_ahead=READ_AHEAD) as incoming:
                gate.arrive()
                while not gate.is_finished:
                    taken = incoming.get(POLL_S)
                    if taken is not None:
                        _note(client, taken.body, time.monotonic_ns(), NONE_NS)
                        seen += 1
                        client.count(seen)
            return
        with connection.reader(queue, read_ahead=AT_ONCE * 2) as reader:
            gate.arrive()
            while not gate.is_finished:
                with connection.unit_of_work() as unit:
                    messages = reader.get_many(unit, AT_ONCE, wait_s=POLL_S)
                    received_ns = time.monotonic_ns()
                committed_ns = time.monotonic_ns()
                for message in messages:
                    _note(client, message.body, received_ns, committed_ns)
                seen += len(messages)
                client.count(seen)


def _note(client: Client, body: bytes, received_ns: int, committed_ns: int) -> None:
    found = read_mark(body)
    if found is None:
        raise ValueError(f"a message without its mark came out: {body[:200]!r}")
    client.received.add((client.number, *found, received_ns, committed_ns))


def consume_others(client: Client, url: str, queues: Sequence[str]) -> None:
    """The background program of chapter 3.9.1.2: it consumes what all subscribers but one get."""
    import entrepot

    seen = 0
    with entrepot.connect(url) as connection:
        client.gate.arrive()
        while not client.gate.is_finished:
            begun, is_behind = time.monotonic(), False
            for at in range(0, len(queues), SWEEP_COMMIT):
                with connection.unit_of_work() as unit:
                    got = [len(unit.get_many(queue, SWEEP_MAX)) for queue in queues[at : at + SWEEP_COMMIT]]
                is_behind = is_behind or max(got) == SWEEP_MAX
                seen += sum(got)
                client.count(seen)
            if not is_behind:
                time.sleep(max(0.0, begun + SWEEP_S - time.monotonic()))


def reply(client: Client, url: str, queue: str) -> None:
    """The application behind an aggregation: it copies requests to their reply queue."""
    import entrepot

    with entrepot.connect(url) as connection, connection.reader(queue, read_ahead=AT_ONCE * 2) as reader:
        client.gate.arrive()
        while not client.gate.is_finished:
            with connection.unit_of_work() as unit:
                for request in reader.get_many(unit, AT_ONCE, wait_s=POLL_S):
                    unit.put(
                        request.reply_to,
                        request.body,
                        correlation_id=request.message_id,
                        persistent=request.persistent,
                        format=request.format,
                    )
