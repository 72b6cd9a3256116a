# SPDX-License-Identifier: Apache-2.0
"""Forward: messages go to a foreign broker, a forwarder moves them to the system, receivers take them (NSTL's bridge).

    sender ─▶ foreign broker ─▶ forwarder ─▶ system ─▶ receiver

The forwarder commits at the broker when the system has answered for what it
was given: none is lost, and a crash may bring some twice. NSTL had three
machines; here the processes that would be on each are added up: sender and
broker, forwarder, system and receiver, in per cent of one processor.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from entrepot.errors import LoadUnsuitable
from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.loads.load import Load
from entrepot.workbench.loads.receiving import POLL_S, receive
from entrepot.workbench.loads.window import PAUSE_S, Window
from entrepot.workbench.measuring.stage import Stage, Trial
from entrepot.workbench.quality import Quality
from entrepot.workbench.scenario import Parameter
from entrepot.workbench.systems import absent_reason, find_system
from entrepot.workbench.systems.processes import process_cpu_s
from entrepot.workbench.systems.system import System

QUEUE = "BENCH.FORWARD"
FOREIGN = ("rabbitmq", "activemq", "jetstream", "redis-streams", "postgresql")
"""What may be the foreign broker, when the point does not say; the first that is installed."""
WINDOW = 1000
_LOOK_S = 0.1


class Forward(Load):
    name = "forward"
    needs = frozenset({"queues"})
    parameters = {"message_bytes": 1000, "threads": 1, "foreign": "", "window": WINDOW}

    @classmethod
    def unsuitable(cls, system: type[System], parameters: Mapping[str, Parameter]) -> str:
        if reason := super().unsuitable(system, parameters):
            return reason
        if system.one_process:
            return "it lives in the process of its clients, whose CPU times could not be told apart"
        return _choose(parameters)[1]

    def run(self, stage: Stage) -> None:
        name, problem = _choose({"foreign": stage.text("foreign"), "quality": str(stage.system.quality)})
        if problem:
            raise LoadUnsuitable(stage.system.name, self.name, problem)
        folder = stage.scratch / "foreign"
        folder.mkdir(exist_ok=True)
        foreign = find_system(name)(folder, stage.system.quality, {"message_bytes": stage.number("message_bytes")})
        stage.say(f"starting {foreign.title}")
        with foreign:
            self._forward(stage, foreign)

    def _forward(self, stage: Stage, foreign: System) -> None:
        threads, message_bytes = stage.number("threads"), stage.number("message_bytes")
        foreign.create_queues([QUEUE])
        stage.system.create_queues([QUEUE])
        with stage.trial(queues=[QUEUE]) as trial:
            trial.evidence["foreign"] = f"{foreign.title}, {foreign.version()}: {foreign.contracts[foreign.quality]}"
            trial.start("receiver", receive, threads, QUEUE)
            trial.start("forwarder", forward, threads, foreign)
            trial.start("sender", send, threads, foreign, message_bytes, stage.number("window"), threads)
            trial.gather()
            shares = CpuShares(trial, foreign)
            trial.go(stage.seconds, until=shares.look)
            trial.facts.update(shares.percent())
            trial.applications.join("sender")
            trial.drain(lambda: trial.counted("receiver") >= trial.counted("sender"))
            trial.finish("forwarder", "receiver", "sender")


def _choose(parameters: Mapping[str, Parameter]) -> tuple[str, str]:
    """The foreign broker, and why there is none."""
    wanted = str(parameters.get("foreign", ""))
    quality = Quality(str(parameters.get("quality", Quality.EXPRESS)))
    problems = []
    for name in (wanted,) if wanted else FOREIGN:
        problem = absent_reason(name)
        if not problem and quality not in find_system(name).contracts:
            problem = f"{name} offers no {quality} messages"
        if not problem:
            return name, ""
        problems.append(problem)
    return "", f"there is no foreign broker: {'; '.join(problems)}"


class CpuShares:
    """How much of one processor each process used while the load lasted."""

    def __init__(self, trial: Trial, foreign: System) -> None:
        applications, system = trial.applications, trial.stage.system
        self._pids = {
            "cpu_sender": [*applications.pids("sender"), *foreign.pids],
            "cpu_bridge": applications.pids("forwarder"),
            "cpu_receiver": [*applications.pids("receiver"), *system.pids],
        }
        self._first: tuple[float, dict[str, float]] | None = None
        self._last: tuple[float, dict[str, float]] = (0.0, {})

    def look(self) -> bool:
        """Read the processes' times now and then; never a reason to stop."""
        now = time.monotonic()
        if now - self._last[0] >= _LOOK_S:
            self._last = (now, {name: _cpu_s(pids) for name, pids in self._pids.items()})
            self._first = self._first or self._last
        return False

    def percent(self) -> dict[str, float]:
        if self._first is None or self._last[0] <= self._first[0]:
            return {}
        elapsed_s = self._last[0] - self._first[0]
        return {name: (self._last[1][name] - before) / elapsed_s * 100 for name, before in self._first[1].items()}


def _cpu_s(pids: Iterable[int]) -> float:
    total = 0.0
    for pid in pids:
        if Path(f"/proc/{pid}").exists():
            total += process_cpu_s(pid)
    return total


def send(client: Client, foreign: System, message_bytes: int, window: int, threads: int) -> None:
    """To the foreign broker, with at most `window` messages under way on the whole road."""
    sender, tail, note, clock = foreign.sender(QUEUE), padding(message_bytes), client.sent.add, time.monotonic_ns
    size, me, gate, number = max(message_bytes, 8), client.number, client.gate, 0
    # Clients are counted in the order in which they were started: receivers, forwarders, senders.
    under_way = Window(gate, window, sending=range(2 * threads, 3 * threads), taking=range(threads))
    gate.wait()
    while (ready := clock()) < gate.ended_ns:
        if under_way.is_full(number):
            time.sleep(PAUSE_S)
            continue
        before = clock()
        sender.send([header(me, number) + tail])
        note((me, number, size, ready, before, clock()))
        number += 1
        client.count(number)
    sender.flush()
    sender.close()


def forward(client: Client, foreign: System) -> None:
    """From the foreign broker to the system, until all is finished."""
    source, target, commits = foreign.receiver(QUEUE), client.system.sender(QUEUE), foreign.quality.is_persistent
    client.gate.wait()
    moved = 0
    while not client.gate.is_finished:
        bodies = source.receive(POLL_S)
        if bodies:
            target.send(bodies)
            if commits:
                source.commit()
            moved += len(bodies)
            client.count(moved)
        else:
            target.flush()
    source.close()
    target.close()
