# SPDX-License-Identifier: Apache-2.0
"""Connected: thousands of clients, each with a connection of its own and little to do (tables 16 and 17).

Rated closed loop: each client makes a round trip at the moments of its own
schedule. The clients live on the event loops of a few processes. Response
times count from the moment at which a request was meant to be sent. Memory
is the server's resident set before, with all clients connected, and with a
reply queue of its own for each, where it is to have one; what the kernel
keeps for sockets is not in it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from entrepot.errors import GeneratorFailed
from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.generators.gate import fork
from entrepot.workbench.loads.load import Load
from entrepot.workbench.loads.round_trips import REQUESTS, reply
from entrepot.workbench.measuring.stage import Stage, Trial
from entrepot.workbench.systems.processes import open_files, resident_kib
from entrepot.workbench.systems.system import REPLY_S, TaskRequester

PROCESSES = 4
CONNECTING_AT_ONCE = 20
OPEN_S = 120.0


class Connected(Load):
    name = "connected"
    needs = frozenset({"requests", "connections"})
    parameters = {
        "message_bytes": 2048,
        "apps": 1000,
        "workers": 1,
        "rate_per_app_hour": 60,
        "common_reply_queue": True,
        "channel_pairs": 1,
        "seconds_factor": 2,
        "binding": "",
        "test": "",
    }

    def run(self, stage: Stage) -> None:
        apps, rate_per_app_hour = stage.number("apps"), stage.number("rate_per_app_hour")
        system = stage.system
        system.create_queues([REQUESTS])
        steps = OpeningSteps()
        with stage.trial(queues=[REQUESTS], offered_per_s=apps * rate_per_app_hour / 3600) as trial:
            trial.start("replier", reply, stage.number("workers"))
            trial.gather()
            memory_kib = [resident_kib(system.pids)]
            stage.say(f"connecting {apps:,} clients")
            begun = time.monotonic()
            processes = min(PROCESSES, apps)
            trial.start("driver", live, processes, stage.number("message_bytes"), apps, rate_per_app_hour, steps)
            trial.gather()
            trial.evidence["connected"] = f"{apps:,} clients within {time.monotonic() - begun:.1f} s"
            _require_connections(trial, apps)
            memory_kib.append(resident_kib(system.pids))
            steps.open_queues(trial, processes)
            memory_kib.append(resident_kib(system.pids))
            trial.facts["memory_per_client"] = (memory_kib[1] - memory_kib[0]) / apps
            if stage.text("common_reply_queue") == "False":
                trial.facts["memory_per_open_queue"] = (memory_kib[2] - memory_kib[1]) / apps
            trial.go(stage.seconds)
            trial.applications.join("driver", timeout_s=REPLY_S + 60)


class OpeningSteps:
    """Between connecting and the start: the reply queues are opened when the leader has looked at the memory."""

    def __init__(self) -> None:
        self._opening = fork.Event()
        self._opened = fork.Semaphore(0)

    def open_queues(self, trial: Trial, processes: int) -> None:
        """
        Raises:
            GeneratorFailed: A driver has failed, or took too long.
        """
        self._opening.set()
        deadline = time.monotonic() + OPEN_S
        for _ in range(processes):
            while not self._opened.acquire(timeout=0.1):
                trial.applications.check()
                if time.monotonic() > deadline:
                    raise GeneratorFailed("driver", f"reply queues are not open after {OPEN_S:.0f} s")

    def wait(self) -> None:
        self._opening.wait()

    def done(self) -> None:
        self._opened.release()


def _require_connections(trial: Trial, apps: int) -> None:
    # A client that shared its neighbour's socket would make the figure per client a lie.
    files = sum(map(open_files, trial.stage.system.pids))
    if files < apps:
        raise GeneratorFailed("driver", f"there are {apps} clients, but the server has {files} files open")


def live(client: Client, message_bytes: int, apps: int, rate_per_app_hour: int, steps: OpeningSteps) -> None:
    """Every PROCESSES-th of all clients, on one event loop."""
    numbers = range(client.number, apps, min(PROCESSES, apps))
    asyncio.run(_live_on_loop(client, numbers, padding(message_bytes), 3600e9 / rate_per_app_hour, apps, steps))


async def _live_on_loop(
    client: Client, numbers: range, tail: bytes, interval_ns: float, apps: int, steps: OpeningSteps
) -> None:
    at_once = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def connect(number: int) -> TaskRequester:
        async with at_once:
            return await client.system.task_requester(REQUESTS, number)

    async def open_queue(requester: TaskRequester) -> None:
        async with at_once:
            await requester.open_queue()

    requesters = await asyncio.gather(*map(connect, numbers))
    client.gate.arrive()
    # The loop goes on meanwhile, or the heartbeats of the first connections would be missed.
    await asyncio.to_thread(steps.wait)
    await asyncio.gather(*map(open_queue, requesters))
    steps.done()
    begun = await asyncio.to_thread(client.gate.wait)
    clients = [
        _client(client, requester, number, tail, begun + number / apps * interval_ns, interval_ns)
        for requester, number in zip(requesters, numbers, strict=True)
    ]
    await asyncio.gather(*clients)
    await asyncio.gather(*(requester.close() for requester in requesters))


async def _client(
    client: Client, requester: TaskRequester, me: int, tail: bytes, first_ns: float, interval_ns: float
) -> None:
    sent, received, clock, gate = client.sent.add, client.received.add, time.monotonic_ns, client.gate
    number = 0
    while (intended := int(first_ns + number * interval_ns)) < gate.ended_ns:
        await asyncio.sleep(max(0.0, (intended - clock()) / 1e9))
        before = clock()
        if before >= gate.ended_ns:
            break
        body = header(me, number) + tail
        answer: Any = await requester.request(body, REPLY_S)
        after = clock()
        sent((me, number, len(body), intended, before, after))
        if answer is not None:
            if bytes(answer) != body:
                raise GeneratorFailed("driver", f"the reply to request {number} of client {me} has other bytes")
            received((me, me, number, after, after))
        number += 1
