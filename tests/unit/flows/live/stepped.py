# SPDX-License-Identifier: Apache-2.0
"""Time that passes only when the code under test waits, and threads that a test runs itself.

clock = SteppedTime()
monkeypatch.setattr(module, "time", clock)
clock.plan(20.0, action)        done when the wait reaches that second
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_LOOKS_MAX = 5_000
_WAITS_MAX = 2_000
_SECONDS_MAX = 86_400.0
_LOOK_S = 1e-6


class SteppedTime:
    """Stands in for the module `time`. A loop that never waits, or waits for ever, fails the test."""

    strftime = staticmethod(time.strftime)

    def __init__(self) -> None:
        self._now = 1000.0
        self._looks = self._waits = 0
        self._plans: list[tuple[float, Callable[[], object]]] = []
        self.slept: list[float] = []

    @property
    def passed_s(self) -> float:
        return self._now - 1000.0

    def plan(self, at_s: float, action: Callable[[], object]) -> None:
        self._plans.append((at_s, action))
        self._plans.sort(key=lambda plan: plan[0])

    def monotonic(self) -> float:
        self._looks += 1
        assert self._looks < _LOOKS_MAX, "it looks at the clock without end, and never waits"
        self._now += _LOOK_S
        return self._now

    def time(self) -> float:
        return 1.7e9 + self.monotonic()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        end = self._now + seconds
        self._waits += 1
        assert self._waits < _WAITS_MAX, "it waits again and again"
        assert end < 1000.0 + _SECONDS_MAX, "it waits for ever"
        while self._plans and 1000.0 + self._plans[0][0] <= end:
            at_s, action = self._plans.pop(0)
            self._now = max(self._now, 1000.0 + at_s)
            action()
        self._now = max(self._now, end)


class SteppedEvent:
    """Stands in for `threading.Event`."""

    def __init__(self, clock: SteppedTime) -> None:
        self._clock = clock
        self._is_set = False
        self.waits: list[float] = []

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float) -> bool:
        if not self._is_set:
            self.waits.append(timeout)
            self._clock.advance(timeout)
        return self._is_set


class SteppedThread:
    """Stands in for `threading.Thread`: it is alive from its start to `end`, and `run` is the test's affair."""

    def __init__(
        self, clock: SteppedTime, target: Callable[..., object], name: str, daemon: bool, args: tuple[Any, ...] = ()
    ) -> None:
        self._clock = clock
        self._target = target
        self.args = args
        self.name = name
        self.daemon = daemon
        self._is_alive = False

    def start(self) -> None:
        self._is_alive = True

    def run(self) -> None:
        self._target(*self.args)
        self._is_alive = False

    def end(self) -> None:
        self._is_alive = False

    def is_alive(self) -> bool:
        return self._is_alive

    def join(self, timeout: float | None = None) -> None:
        if self._is_alive:
            self._clock.advance(_SECONDS_MAX if timeout is None else timeout)


class Stepped:
    """Stands in for the module `threading`."""

    def __init__(self, clock: SteppedTime) -> None:
        self._clock = clock
        self.threads: list[SteppedThread] = []
        self.events: list[SteppedEvent] = []

    def Event(self) -> SteppedEvent:
        self.events.append(SteppedEvent(self._clock))
        return self.events[-1]

    def Thread(self, **options: Any) -> SteppedThread:
        self.threads.append(SteppedThread(self._clock, **options))
        return self.threads[-1]
