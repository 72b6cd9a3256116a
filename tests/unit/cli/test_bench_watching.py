# SPDX-License-Identifier: Apache-2.0
"""What a run of the workbench tells at the terminal of a trial that gave no figure, and how Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.cli.bench_watching import Watching
from entrepot.workbench.measuring import environment
from entrepot.workbench.measuring import glance as glancing
from entrepot.workbench.measuring.glance import Glance

TRIAL: Any = SimpleNamespace(
    scenario="nstl/1",
    system="rabbitmq",
    point="bytes=100",
    repetition=1,
    status="measured",
    facts={},
    trial="t1",
    busy="",
)
DISTURBED: Any = SimpleNamespace(**{**vars(TRIAL), "busy": "other processes used 34% of the processors"})


def test_a_trial_in_which_nothing_arrived_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glancing, "glance", lambda *_: Glance(0, 0.0, 0, None, None, 25))
    watching = Watching(tmp_path)
    assert watching._line(DISTURBED) == (
        "nstl/1 rabbitmq bytes=100 #1: NO FIGURE: no message arrived while the load ran, 25 MISSING; "
        "BUSY: other processes used 34% of the processors"
    )
    assert watching.without_figure == ["nstl/1 rabbitmq bytes=100 #1"]


def test_a_trial_with_a_figure_is_told_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glancing, "glance", lambda *_: Glance(100, 2.0, 10_000, 0.5, 1.0, 0))
    watching = Watching(tmp_path)
    told = "nstl/1 rabbitmq bytes=100 #1: 50/s, 0.50 ms at the median"
    assert watching._line(TRIAL) == told
    assert watching._line(DISTURBED) == f"{told}; BUSY: other processes used 34% of the processors"
    assert watching.without_figure == []


def test_a_machine_with_more_to_do_than_processors_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (37.5, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert environment.busy_reason() == "the machine is busy: load 37.5 on 2 processors"


def test_a_machine_with_time_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.4, 0.0, 0.0))
    assert environment.busy_reason() == ""


VISIT: Any = SimpleNamespace(
    plan=SimpleNamespace(scenario="nstl/1", system="rabbitmq", point=lambda: SimpleNamespace(key="bytes=100"))
)


def test_an_interrupt_that_a_library_swallows_ends_the_run_before_its_next_visit(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with Watching(tmp_path) as watching:
        watching.visit_begins(1, 3, VISIT, 60.0)
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            watching.visit_begins(2, 3, VISIT, 40.0)
    assert signal.getsignal(signal.SIGINT) is before
