# SPDX-License-Identifier: Apache-2.0
"""The time, as a part of the I/O seam: a simulation brings a clock of its own.

The wall clock is data: it says when something happened, and may be set.
What waits is measured with `elapsed`, which only goes forward.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """What the queue manager wants to know about time."""

    def now(self) -> float:
        """Seconds since 1970 by the wall clock, which may jump."""

    def elapsed(self) -> float:
        """Seconds since some moment before this process; they pass while the machine sleeps, too."""


class SystemClock:
    """The machine's clocks."""

    # time.time itself, not a wrapper around it: every put asks for the time.
    now = staticmethod(time.time)
    elapsed = staticmethod(
        partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
    )
