# SPDX-License-Identifier: Apache-2.0
"""What an event loop is for a server, turned by the threads that use an embedded queue manager.

Sessions run on it as they run on a server's loop. Their callbacks run under
the engine's lock: whichever thread lets that go first calls what has become
ready. Only what is due at a time needs a thread of its own, which starts
with the first timer.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from entrepot.engine.criteria import Criteria
from entrepot.engine.host import Host
from entrepot.engine.loop_host import LoopHost
from entrepot.engine.search import Search

_LOGGER = logging.getLogger("entrepot")


class TurnLock:
    """A lock that may be taken several times; its last release calls what is ready, still under it."""

    __slots__ = ("_depth", "_lock", "ready")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self.ready: deque[Callable[[], None]] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            self._depth += 1
        return taken

    def release(self) -> None:
        if self._depth == 1 and self.ready:
            self.call_ready()
        self._depth -= 1
        self._lock.release()

    def call_ready(self) -> None:
        """Call what is ready; for the thread that has the lock."""
        ready = self.ready
        while ready:
            try:
                ready.popleft()()
            except Exception:
                # It is not the fault of the thread that happens to be here.
                _LOGGER.exception("a callback of the embedded queue manager has failed")

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_mine(self) -> bool:
        """Whether this very thread has it."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]


class Timer:
    """Something that is to be called at a time."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Pending:
    """The outcome of work on a thread, whose callbacks run in a turn."""

    def __init__(self, future: Future[Any], lock: TurnLock) -> None:
        self._future = future
        self._lock = lock

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        def done(future: Future[Any]) -> None:
            with self._lock:
                callback(future)

        self._future.add_done_callback(done)


class ThreadLoop:
    """The part of an event loop's interface that sessions use; its methods want the lock to be held."""

    time = staticmethod(time.monotonic)

    def __init__(self, lock: TurnLock) -> None:
        self._lock = lock
        self._timers: list[tuple[float, int, Timer]] = []
        self._number = 0
        self._wake = threading.Condition()
        self._next_due = math.inf
        self._thread: threading.Thread | None = None
        self._closed = False
        self._pool = ThreadPoolExecutor(1, "entrepot-embedded")

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        """Call something at the end of this turn."""
        self._lock.ready.append(partial(callback, *args))

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> Timer:
        return self.call_at(self.time() + delay_s, callback, *args)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Call something in a turn of its own at a time."""
        timer = Timer(partial(callback, *args))
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, timer))
        if when < self._next_due and not self._closed:
            with self._wake:
                self._next_due = when
                if self._thread is None:
                    self._thread = threading.Thread(target=self._keep_time, name="entrepot-timers", daemon=True)
                    self._thread.start()
                self._wake.notify()
        return timer

    def run_in_executor(self, pool: ThreadPoolExecutor | None, work: Callable[[], Any]) -> Pending:
        return Pending((pool or self._pool).submit(work), self._lock)

    def _keep_time(self) -> None:
        while True:
            with self._wake:
                while not self._closed and self.time() < self._next_due:
                    left_s = self._next_due - self.time()
                    self._wake.wait(min(left_s, threading.TIMEOUT_MAX))
                if self._closed:
                    return
            with self._lock:
                self._call_due()

    def _call_due(self) -> None:
        now = self.time()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                self._lock.ready.append(callback)
        with self._wake:
            self._next_due = self._timers[0][0] if self._timers else math.inf

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()
        self._pool.shutdown()


class ThreadHost(LoopHost):
    """The engine for the sessions of an embedded queue manager; any thread may enter it."""

    def __init__(self, host: Host) -> None:
        assert isinstance(host.lock, TurnLock)
        self._turns = host.lock
        super().__init__(host, ThreadLoop(host.lock))

    def post(self, callback: Callable[[], None]) -> None:
        self._turns.ready.append(callback)

    def drain(self) -> None:
        """The end of the turn does it."""

    def __enter__(self) -> None:
        self._turns.acquire()

    def __exit__(self, *_: object) -> None:
        self._turns.release()

    def search_for(self, criteria: Criteria | None) -> Search | None:
        """None: a search runs to its end here, since no loop is waited for."""
        del criteria
        return None

    def _want_force(self) -> None:
        # The threads that wait for it force, or the housekeeper does.
        self.crowded = self.host.is_crowded
