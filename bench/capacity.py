# SPDX-License-Identifier: Apache-2.0
"""How many clients one server holds, and how fast it lets them come and go.

Thousands of clients are connected, and each makes one round trip a minute,
spread evenly, against one echo application: the capacity test of the
document on WebSphere MQ. The response time counts from the moment at which
a request was due, so a late generator shows; its own delay is noted apart.
Memory is the server's resident set, before and with all clients connected; the
kernel's socket buffers are not in it.
Short sessions connect, make five round trips and close, again and again,
from several processes. Clients come over TCP and over the Unix socket.
"""

from __future__ import annotations

import asyncio
import random
import resource
import time
from pathlib import Path
from typing import Any

import trial
from figures import MEMORY_ONLY, Figure, Outcome, at_least, at_most, percentile
from load import ApplicationFailed, Applications, Gate, sleep_until
from peers.entrepot_server import QueueManager, serve
from peers.system import REPLY_S, REQUESTS
from processes import cpu_s, open_files, resident_kib

BODY_BYTES = 2048
PROCESSES = 4
SESSION_PROCESSES = 8
SESSION_TRIPS = 5
CONNECTING_AT_ONCE = 20
FILES_SPARE = 500
BINDINGS = ("tcp", "unix")


def connected(binding: str, clients: int, interval_s: float, window_s: float, folder: str) -> dict[str, Any]:
    """So many clients, each with a round trip per interval: memory, response times, CPU time."""
    allow_files(clients + FILES_SPARE)
    gate = Gate(0.0, window_s)
    with QueueManager(Path(folder)) as manager, Applications(gate) as applications:
        manager.define_queues(REQUESTS)
        url = manager.unix_url if binding == "unix" else manager.tcp_url
        applications.start(_echo, manager.unix_url)
        applications.gather()
        memory_kib = [resident_kib([manager.pid])]
        begun = time.perf_counter()
        for number in range(PROCESSES):
            applications.start(_clients, url, number, clients, interval_s)
        applications.gather()
        connect_s = time.perf_counter() - begun
        memory_kib.append(resident_kib([manager.pid]))
        # A client that shared its neighbour's socket would make the figure per client a lie.
        if open_files(manager.pid) < clients:
            raise ApplicationFailed(f"{clients} clients, but the server has {open_files(manager.pid)} files open")
        gate.open()
        sleep_until(gate.begun)
        server_s = cpu_s([manager.pid])
        sleep_until(gate.ended)
        server_s = cpu_s([manager.pid]) - server_s
        answers = applications.answers(_clients, timeout_s=window_s + REPLY_S)
        memory_kib.append(resident_kib([manager.pid]))
    responses_ms = [value * 1000 for answer in answers for value in answer["responses_s"]]
    delays_ms = [value * 1000 for answer in answers for value in answer["delays_s"]]
    if not responses_ms:
        raise ApplicationFailed("not one round trip within the window")
    return {
        "clients": clients,
        "connect_s": connect_s,
        "memory_kib": memory_kib,
        "idle_kib_per_client": (memory_kib[1] - memory_kib[0]) / clients,
        "used_kib_per_client": (memory_kib[2] - memory_kib[0]) / clients,
        "round_trips": len(responses_ms),
        "response_ms_median": percentile(responses_ms, 50),
        "response_ms_p99": percentile(responses_ms, 99),
        "response_ms_max": max(responses_ms),
        "send_delay_ms_p99": percentile(delays_ms, 99),
        "server_cpu_percent": server_s / window_s * 100,
        "faults": sum(answer["faults"] for answer in answers),
    }


def allow_files(wanted: int) -> None:
    """Servers and clients that are started from here on may open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
    except (OSError, ValueError) as error:
        raise ApplicationFailed(f"{wanted} open files are needed; raise `ulimit -n` from {soft}") from error


def _echo(url: str, gate: Gate) -> None:
    import entrepot

    connection = entrepot.connect(url)
    gate.arrive()
    serve(connection)


def _clients(url: str, number: int, clients: int, interval_s: float, gate: Gate) -> dict[str, Any]:
    """Every PROCESSES-th of all clients, on one event loop."""
    return asyncio.run(_clients_on_loop(url, range(number, clients, PROCESSES), interval_s / clients, gate))


async def _clients_on_loop(url: str, numbers: range, step_s: float, gate: Gate) -> dict[str, Any]:
    import entrepot.aio

    at_once = asyncio.Semaphore(CONNECTING_AT_ONCE)

    async def connect() -> Any:
        async with at_once:
            return await entrepot.aio.connect(url)

    connections = await asyncio.gather(*(connect() for _ in numbers))
    # The loop goes on meanwhile, or the heartbeats of those who came first would be missed.
    await asyncio.to_thread(gate.wait)
    found: dict[str, Any] = {"responses_s": [], "delays_s": [], "faults": 0}
    interval_s = step_s * (numbers.stop)

    async def live(connection: Any, number: int) -> None:
        due = gate.begun + number * step_s
        while due < gate.ended:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            body = number.to_bytes(8, "big") * (BODY_BYTES // 8)
            found["delays_s"].append(time.perf_counter() - due)
            try:
                reply = await connection.request(REQUESTS, body, timeout_s=REPLY_S, persistent=False)
                found["faults"] += reply.body != body
            except Exception:
                found["faults"] += 1
            found["responses_s"].append(time.perf_counter() - due)
            due += interval_s

    pairs = zip(connections, numbers, strict=True)
    await asyncio.gather(*(live(connection, number) for connection, number in pairs))
    return found


def sessions(binding: str, window_s: float, folder: str) -> dict[str, Any]:
    """Connect, five round trips, close: how many of these a second."""
    gate = Gate(0.5, window_s)
    with QueueManager(Path(folder)) as manager, Applications(gate) as applications:
        manager.define_queues(REQUESTS)
        url = manager.unix_url if binding == "unix" else manager.tcp_url
        for _ in range(2):
            applications.start(_echo, manager.unix_url)
        applications.gather()
        for _ in range(SESSION_PROCESSES):
            applications.start(_sessions, url)
        applications.gather()
        gate.open()
        sleep_until(gate.begun)
        server_s, client_s = cpu_s([manager.pid]), cpu_s(applications.pids)
        sleep_until(gate.ended)
        server_s, client_s = cpu_s([manager.pid]) - server_s, cpu_s(applications.pids) - client_s
        answers = applications.answers(_sessions)
    durations_ms = [value * 1000 for answer in answers for value in answer["durations_s"]]
    if not durations_ms:
        raise ApplicationFailed("not one session within the window")
    return {
        "rate_per_s": len(durations_ms) / window_s,
        "session_ms_median": percentile(durations_ms, 50),
        "session_ms_p99": percentile(durations_ms, 99),
        "server_cpu_us": server_s / len(durations_ms) * 1e6,
        "client_cpu_us": client_s / len(durations_ms) * 1e6,
        "faults": sum(answer["faults"] for answer in answers),
    }


def _sessions(url: str, gate: Gate) -> dict[str, Any]:
    import entrepot

    found: dict[str, Any] = {"durations_s": [], "faults": 0}
    body = random.randbytes(BODY_BYTES)

    def session() -> None:
        with entrepot.connect(url) as connection:
            for _ in range(SESSION_TRIPS):
                reply = connection.request(REQUESTS, body, timeout_s=REPLY_S, persistent=False)
                found["faults"] += reply.body != body

    session()
    gate.wait()
    before = time.perf_counter()
    while before < gate.ended:
        session()
        after = time.perf_counter()
        if gate.begun <= after < gate.ended:
            found["durations_s"].append(after - before)
        before = after
    return found


def measure(*, quick: bool) -> Outcome:
    repetitions, clients, interval_s, window_s, sessions_s = (
        (1, 1_000, 6.0, 6.0, 1.0) if quick else (1, 13_000, 60.0, 120.0, 4.0)
    )
    session_repetitions = 1 if quick else 3
    trials: list[dict[str, Any]] = []
    for binding in BINDINGS:
        for repetition in range(repetitions):
            with trial.scratch_folder() as folder:
                found = trial.run(
                    "capacity:connected",
                    binding=binding,
                    clients=clients,
                    interval_s=interval_s,
                    window_s=window_s,
                    folder=str(folder),
                )
            trials.append({"test": "connected", "binding": binding, "repetition": repetition} | found)
        for repetition in range(session_repetitions):
            with trial.scratch_folder() as folder:
                found = trial.run("capacity:sessions", binding=binding, window_s=sessions_s, folder=str(folder))
            trials.append({"test": "sessions", "binding": binding, "repetition": repetition} | found)
    figures = [figure for binding in BINDINGS for figure in _rows(binding, clients, trials)]
    faults = [float(found["faults"]) for found in trials]
    figures.append(Figure("lost or wrong replies: messages", faults, "", at_most(0)))
    settings = {
        "clients": clients,
        "interval_s": interval_s,
        "window_s": window_s,
        "processes": PROCESSES,
        "session_processes": SESSION_PROCESSES,
        "sessions_s": sessions_s,
        "body_bytes": BODY_BYTES,
    }
    return Outcome("capacity", f"{clients:,} connected clients, and short sessions", figures, settings, trials)


def _rows(binding: str, clients: int, trials: list[dict[str, Any]]) -> list[Figure]:
    def samples(test: str, field: str) -> list[float]:
        return [found[field] for found in trials if (found["test"], found["binding"]) == (test, binding)]

    title = f"{clients:,} clients, {binding}"
    delay = f"generator late by {max(samples('connected', 'send_delay_ms_p99')):.1f} ms at p99, included"
    used = f"{max(samples('connected', 'used_kib_per_client')):.1f} once each has had a round trip"
    connect = f"connected within {max(samples('connected', 'connect_s')):.1f} s"
    per_session = (
        f"connect, {SESSION_TRIPS} round trips, close; CPU µs per session: server"
        f" {max(samples('sessions', 'server_cpu_us')):.0f}, clients {max(samples('sessions', 'client_cpu_us')):.0f}"
    )
    return [
        Figure(f"{title}: response_ms_median", samples("connected", "response_ms_median"), MEMORY_ONLY, note=connect),
        Figure(f"{title}: response_ms_p99", samples("connected", "response_ms_p99"), MEMORY_ONLY, at_most(1000), delay),
        Figure(f"{title}: response_ms_max", samples("connected", "response_ms_max"), MEMORY_ONLY, at_most(1000)),
        Figure(f"{title}: idle_kib_per_client", samples("connected", "idle_kib_per_client"), "", at_most(40), used),
        Figure(f"{title}: server_cpu_percent", samples("connected", "server_cpu_percent"), MEMORY_ONLY),
        Figure(f"sessions, {binding}: rate_per_s", samples("sessions", "rate_per_s"), "", at_least(500), per_session),
    ]
