# SPDX-License-Identifier: Apache-2.0
"""Time that only passes: what expiries and delays are measured with, whatever happens to the wall clock.

Steady time is the wall clock's time plus an offset. When the wall clock is
set, the offset changes by as much the other way, and the step is noted with
the next key: a message that has a time limit was put under the offset that
its key leads to. So its put time stays what the wall clock said, and no
message needs a second time. The steps are kept with the queue manager's
attributes, in the log and in the checkpoint.

Across a restart the wall clock's difference counts, at least 0 s: a clock
that was set back meanwhile lets no time pass.
"""

from __future__ import annotations

import logging
from bisect import bisect_right

from entrepot.clock import Clock
from entrepot.engine.definitions import ClockSteps
from entrepot.engine.entry import QueuedMessage

_LOGGER = logging.getLogger("entrepot")

STEP_S_MIN = 0.5
"""A smaller difference between the clocks is no step: the error of an expiry stays below it."""
STEPS_MAX = 1000
"""Of more, the oldest are forgotten; messages older than those follow the wall clock."""
_READING_S_MAX = 0.05
"""Readings of two clocks that are further apart say nothing: this process was stopped between them."""


class SteadyTime:
    """The steady time of one queue manager since its start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.steps: ClockSteps = ()
        """Key and offset: messages from this key on, up to the next step's, have the offset."""
        self.count = 0
        """How many steps this start has seen; see `shift_since`."""
        self._offsets = [0.0]
        """The offset after each of these steps."""
        self._elapsed_base = 0.0
        """Steady time minus `elapsed`: the same as long as this start lasts."""
        self._wall_base = 0.0
        """Wall clock minus `elapsed`, as of the last step."""
        self._set_bases(clock.now(), clock.elapsed())

    def _set_bases(self, wall: float, elapsed: float) -> None:
        self._wall_base = wall - elapsed
        self._elapsed_base = self._wall_base + self._offsets[-1]

    def begin(self, steps: ClockSteps, wall_last: float, key_next: int) -> None:
        """Go on after a restart, from what the wall clock said last before it."""
        self.steps = steps
        self._offsets = [steps[-1][1] if steps else 0.0]
        self.count = 0
        wall, elapsed = self._clock.now(), self._clock.elapsed()
        back_s = wall_last - wall
        if back_s > STEP_S_MIN:
            self._step(self._offsets[-1] + back_s, key_next, f"back by {back_s:,.1f} s while the queue manager stood")
        self._set_bases(wall, elapsed)

    def now(self) -> float:
        return self._clock.elapsed() + self._elapsed_base

    def of(self, entry: QueuedMessage) -> float:
        """When a message was put, in steady time."""
        return entry.message.put_time + self._offset(entry.key)

    def _offset(self, key: int) -> float:
        steps = self.steps
        if not steps:
            return 0.0
        if key >= steps[-1][0]:
            return steps[-1][1]
        index = bisect_right(steps, key, key=lambda step: step[0])
        return steps[index - 1][1] if index else 0.0

    @property
    def offset(self) -> float:
        """Steady time minus wall clock, as of now."""
        return self._offsets[-1]

    def follow(self, key_next: int) -> float:
        """What the wall clock says; if it was set since the last call, a step before `key_next` is noted."""
        wall, elapsed = self._clock.now(), self._clock.elapsed()
        if abs(wall - elapsed - self._wall_base) < STEP_S_MIN:
            return wall
        while True:
            before, wall, elapsed = elapsed, self._clock.now(), self._clock.elapsed()
            if elapsed - before < _READING_S_MAX:
                break
        jump = wall - elapsed - self._wall_base
        if abs(jump) >= STEP_S_MIN:
            self._wall_base = wall - elapsed
            direction = "forward" if jump > 0 else "back"
            self._step(self._elapsed_base - self._wall_base, key_next, f"{direction} by {abs(jump):,.1f} s")
        return wall

    def _step(self, offset: float, key_next: int, what: str) -> None:
        self._offsets.append(offset)
        self.count += 1
        self.steps = (*self.steps, (key_next, offset))[-STEPS_MAX:]
        _LOGGER.warning("the clock was set %s; expiries and delays go on as before", what)

    def shift_since(self, count: int) -> float:
        """What to add to a wall clock time that was read after `count` steps, so that it fits the offset of now."""
        return self._offsets[count] - self._offsets[-1]
