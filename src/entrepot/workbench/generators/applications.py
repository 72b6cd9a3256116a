# SPDX-License-Identifier: Apache-2.0
"""Load generators as processes, all connected before anything is counted.

They are forked from the leader of a trial, a fresh interpreter that holds
neither threads nor connections, so that a hundred of them start in a second
and share no more than code. More clients than PROCESSES_MAX become threads
of that many processes. A system that lives inside of its application
(embedded) has all of its clients as threads of the leader.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Self

from entrepot.errors import GeneratorFailed
from entrepot.workbench.generators.client import Client
from entrepot.workbench.generators.gate import StartGate, fork

GATHER_S = 60.0
"""How long a client may take until it is connected."""
END_S = 60.0
"""How long clients may take to write down what they noted."""
PROCESSES_MAX = 40
_POLL_S = 0.1
Function = Callable[..., None]


class Applications:
    """Starts clients, waits for them, and kills what still runs at the end of its block."""

    def __init__(self, gate: StartGate, *, one_process: bool) -> None:
        self._gate = gate
        self._one_process = one_process
        self._processes: list[tuple[str, Any]] = []
        self._threads: list[tuple[str, threading.Thread]] = []
        self._errors: Any = queue.SimpleQueue() if one_process else fork.SimpleQueue()
        self._expected = 0
        self._arrived = 0
        gc.collect()
        gc.freeze()

    def start(self, clients: Sequence[Client], function: Function, *arguments: Any) -> None:
        """Run `function(client, *arguments)` for each client; each has to arrive at the gate."""
        self._expected += len(clients)
        role = clients[0].role if clients else ""
        if self._one_process:
            for client in clients:
                thread = threading.Thread(
                    target=_run_one, args=(client, function, arguments, self._errors), daemon=True
                )
                thread.start()
                self._threads.append((role, thread))
            return
        shares = [clients[first::PROCESSES_MAX] for first in range(min(PROCESSES_MAX, len(clients)))]
        for share in shares:
            process = fork.Process(target=_run_process, args=(share, function, arguments, self._errors), daemon=True)
            process.start()
            self._processes.append((role, process))

    def gather(self) -> None:
        """Return when all that were started have arrived.

        Raises:
            GeneratorFailed: One has ended, or has not arrived in time.
        """
        deadline = time.monotonic() + GATHER_S
        while self._arrived < self._expected:
            if self._gate.one_arrives(timeout_s=_POLL_S):
                self._arrived += 1
                continue
            self.check()
            if time.monotonic() > deadline:
                raise GeneratorFailed("all", f"only {self._arrived} of {self._expected} have connected")

    def pids(self, role: str | None = None) -> list[int]:
        """Of the processes that still run."""
        return [process.pid for found, process in self._processes if role in (None, found) and process.is_alive()]

    def join(self, role: str, timeout_s: float = END_S) -> None:
        """Return when all clients of a role have written down what they noted."""
        deadline = time.monotonic() + timeout_s
        for waiting in [found for name, found in (*self._processes, *self._threads) if name == role]:
            while waiting.is_alive():
                waiting.join(_POLL_S)
                self.check()
                if time.monotonic() > deadline:
                    raise GeneratorFailed(role, f"did not end within {timeout_s:.0f} s")
        self.check()

    def check(self) -> None:
        """
        Raises:
            GeneratorFailed: A client has failed; the error is in it.
        """
        if not self._errors.empty():
            failed_role, error = self._errors.get()
            raise GeneratorFailed(failed_role, error)
        for role, process in self._processes:
            if process.exitcode not in (None, 0):
                raise GeneratorFailed(role, f"ended with {process.exitcode}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for _, process in self._processes:
            process.kill()
        for _, process in self._processes:
            process.join()


def _run_process(clients: Sequence[Client], function: Function, arguments: tuple[Any, ...], errors: Any) -> None:
    # An interrupt of the terminal is the leader's affair, which ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # None on the main thread, where uvloop pays for signals at every call: no client is to be favoured.
    threads = [
        threading.Thread(target=_run_one, args=(client, function, arguments, errors), daemon=True) for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Client libraries leave threads and event loops behind, which would have the last word at an orderly end.
    os._exit(0)


def _run_one(client: Client, function: Function, arguments: tuple[Any, ...], errors: Any) -> None:
    try:
        function(client, *arguments)
        client.write()
    except BaseException:
        errors.put((client.role, traceback.format_exc(limit=-6)))
