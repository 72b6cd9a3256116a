# SPDX-License-Identifier: Apache-2.0
"""Threads that run when a test says so, and pauses that take no time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

ROUNDS_MAX = 50


class Threads:
    """Stands in for the module `threading`."""

    def __init__(self) -> None:
        self.started: list[HandThread] = []
        self.pauses: list[float] = []
        """How long each pause would have been."""
        self.rounds = 0
        """How often a thread has come to where it pauses, if nothing wakes it."""
        self.in_pause: Callable[[], object] = lambda: None
        """What happens during each of them."""

    def module(self) -> Any:
        return SimpleNamespace(Thread=self.thread, Event=self.event, Lock=threading.Lock)

    def thread(self, *, target: Callable[[], None], name: str, daemon: bool) -> HandThread:
        return HandThread(self, target, name, daemon=daemon)

    def event(self) -> HandEvent:
        return HandEvent(self)

    def run(self) -> None:
        """Let the one thread that was started go on until it ends."""
        (thread,) = self.started
        thread.alive = True
        thread.target()
        thread.alive = False
        self.started.clear()


class HandThread:
    def __init__(self, threads: Threads, target: Callable[[], None], name: str, *, daemon: bool) -> None:
        self._threads = threads
        self.target = target
        self.name = name
        self.daemon = daemon
        self.alive = False
        self.joined: list[float] = []

    def start(self) -> None:
        self.alive = True
        self._threads.started.append(self)

    def is_alive(self) -> bool:
        return self.alive

    def join(self, timeout: float) -> None:
        self.joined.append(timeout)


class HandEvent:
    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float) -> bool:
        self._threads.rounds += 1
        assert self._threads.rounds < ROUNDS_MAX, "it would never end"
        if not self._set:
            self._threads.pauses.append(timeout)
            self._threads.in_pause()
        return self._set
