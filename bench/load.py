# SPDX-License-Identifier: Apache-2.0
"""Applications under measurement: a process each, all running before anything is counted.

The processes are forked from a fresh interpreter that has imported the
client library and holds neither threads nor connections, so that 120 of
them start in a second and share no more than code. Times are of the
monotonic clock, which all processes of a machine have in common.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Self

GATHER_S = 60.0
"""How long an application may take until it is connected."""
HEAD_START_S = 0.3
"""From the opening of the gate to the common start, so that all have woken up."""
_fork = multiprocessing.get_context("fork")


class ApplicationFailed(Exception):
    """An application ended with an error; whatever was counted is worthless."""


class Gate:
    """Where applications tell that they are connected, and wait for the common start."""

    def __init__(self, warm_up_s: float, window_s: float) -> None:
        self._warm_up_s, self._window_s = warm_up_s, window_s
        self._started = _fork.RawValue("d", 0.0)
        self._arrived = _fork.Semaphore(0)
        self._opened = _fork.Event()

    def arrive(self) -> None:
        self._arrived.release()

    def wait(self) -> None:
        """Arrive, and return at the common start."""
        self.arrive()
        self._opened.wait()
        sleep_until(self._started.value)

    def one_arrives(self, timeout_s: float) -> bool:
        return bool(self._arrived.acquire(timeout=timeout_s))

    def open(self) -> None:
        self._started.value = time.perf_counter() + HEAD_START_S
        self._opened.set()

    @property
    def begun(self) -> float:
        """When the part that counts begins; known once the gate is open."""
        return float(self._started.value) + self._warm_up_s

    @property
    def ended(self) -> float:
        return self.begun + self._window_s


class Applications:
    """Forks applications and brings home what they return; kills what still runs at the end of its block."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._running: list[tuple[Callable[..., Any], Any, Connection]] = []
        self._arrived = 0
        gc.collect()
        gc.freeze()

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Run `function(*arguments, gate)` in a process of its own; it has to arrive at the gate."""
        mine, theirs = _fork.Pipe(duplex=False)
        process = _fork.Process(target=_run, args=(function, (*arguments, self._gate), theirs), daemon=True)
        process.start()
        theirs.close()
        self._running.append((function, process, mine))

    def gather(self) -> None:
        """Return when all that were started have arrived.

        Raises:
            ApplicationFailed: One has ended, or has not arrived in time.
        """
        deadline = time.monotonic() + GATHER_S
        while self._arrived < len(self._running):
            if self._gate.one_arrives(timeout_s=0.2):
                self._arrived += 1
                continue
            self._check()
            if time.monotonic() > deadline:
                raise ApplicationFailed(f"only {self._arrived} of {len(self._running)} have connected")

    @property
    def pids(self) -> list[int]:
        return [process.pid for _, process, _ in self._running]

    def answers(self, function: Callable[..., Any], timeout_s: float = 120.0) -> list[Any]:
        """What those that ran this function have returned, in the order in which they were started."""
        found = []
        deadline = time.monotonic() + timeout_s
        for ran, process, pipe in self._running:
            if ran != function:
                continue
            while not pipe.poll(0.2):
                self._check()
                if time.monotonic() > deadline:
                    raise ApplicationFailed(f"{process.name} gave no answer")
            answer, error = pipe.recv()
            if error:
                raise ApplicationFailed(error)
            found.append(answer)
        return found

    def _check(self) -> None:
        for _, process, pipe in self._running:
            if process.exitcode not in (None, 0):
                error = pipe.recv()[1] if pipe.poll() else f"{process.name} ended with {process.exitcode}"
                raise ApplicationFailed(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        processes = [process for _, process, _ in self._running]
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


def _run(function: Callable[..., Any], arguments: tuple[Any, ...], pipe: Connection) -> None:
    try:
        pipe.send((function(*arguments), ""))
    except BaseException:
        pipe.send((None, traceback.format_exc()))
        os._exit(1)
    # Client libraries leave threads and event loops behind, which would have the last word at an orderly end.
    os._exit(0)


def sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))
