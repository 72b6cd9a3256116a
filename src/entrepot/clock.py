# SPDX-License-Identifier: Apache-2.0
"""The time, as a part of the I/O seam: a simulation brings a clock of its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the queue manager wants to know about time."""

    def now(self) -> float:
        """Seconds since 1970. Expiry, delay and the log's times are counted in it."""


class SystemClock:
    """The machine's clock."""

    # time.time itself, not a wrapper around it: every put asks for the time.
    now = staticmethod(time.time)
