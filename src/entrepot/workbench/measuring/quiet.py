# SPDX-License-Identifier: Apache-2.0
"""Whether a trial had the machine to itself: the share of the processors that processes outside of it used.

The trial's own processes are the leader and everything below it: servers,
generators, and whatever those start. Time of children that have ended is in
their parents' accounts, so nothing of ours is taken for others' work. Time
that the hypervisor gave to other machines counts as others', too.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from entrepot.workbench.systems.processes import descendants, stat_fields

OTHERS_SHARE_MAX = 0.1
"""Of all processors. A trial beside more than this carries a mark: its figure may be lower than the system's own."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def others_cpu_s() -> float:
    """Processor time so far of all processes but this one and those below it."""
    return _machine_cpu_s() - _own_cpu_s(os.getpid())


def busy_mark(others_share: float | None) -> str:
    """What a trial, its figure and its ratios are marked with; empty when others left the machine alone."""
    if others_share is None or others_share <= OTHERS_SHARE_MAX:
        return ""
    return f"other processes used {others_share:.0%} of the processors meanwhile ({OTHERS_SHARE_MAX:.0%} are allowed)"


def _machine_cpu_s() -> float:
    # Without interrupts: those of loopback and disk are mostly the trial's own, and no process has them in its account.
    user, nice, system, _, _, _, _, steal = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    return sum(map(int, (user, nice, system, steal))) / _TICKS_PER_S


def _own_cpu_s(leader: int) -> float:
    ticks = 0
    for pid in descendants(leader):
        with contextlib.suppress(OSError, IndexError):
            # With what its children had used that have ended.
            ticks += sum(map(int, stat_fields(pid)[11:15]))
    return ticks / _TICKS_PER_S
