# SPDX-License-Identifier: Apache-2.0
"""Whose processor time counts as the trial's own, and when a trial is marked as busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from entrepot.workbench.measuring import quiet
from entrepot.workbench.systems.processes import descendants


def test_what_runs_below_the_leader_is_its_own() -> None:
    waits = [sys.executable, "-c", "import subprocess, sys; subprocess.run(['sleep', '60'])"]
    with subprocess.Popen(waits) as child:
        deadline = time.monotonic() + 60
        while len(descendants(child.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        own = descendants(os.getpid())
        assert os.getppid() not in own
        below = descendants(child.pid)
        assert below[0] == child.pid
        assert len(below) == 2
        assert set(below) < set(own)
        for pid in reversed(below):
            os.kill(pid, signal.SIGKILL)


def test_own_work_is_not_taken_for_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "_machine_cpu_s", lambda: 1000.0)
    before = quiet.others_cpu_s()
    for _ in range(2_000_000):
        pass
    # The machine's time stands still here, so ours alone is taken away from it.
    assert quiet.others_cpu_s() <= before


@pytest.mark.parametrize(("share", "is_marked"), [(None, False), (0.0, False), (0.1, False), (0.11, True), (0.8, True)])
def test_more_than_a_tenth_of_the_processors_is_a_mark(share: float | None, is_marked: bool) -> None:
    assert bool(quiet.busy_mark(share)) == is_marked


def test_the_mark_says_how_much_and_what_is_allowed() -> None:
    assert quiet.busy_mark(0.34) == "other processes used 34% of the processors meanwhile (10% are allowed)"
