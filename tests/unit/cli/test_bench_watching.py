# SPDX-License-Identifier: Apache-2.0
"""What a run of the workbench tells at the terminal of a trial that gave no figure."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.cli.bench_watching import Watching
from entrepot.workbench.measuring import environment
from entrepot.workbench.measuring import glance as glancing
from entrepot.workbench.measuring.glance import Glance

TRIAL: Any = SimpleNamespace(
    scenario="nstl/1", system="rabbitmq", point="bytes=100", repetition=1, status="measured", facts={}, trial="t1"
)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (37.5, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("load")
def test_a_trial_in_which_nothing_arrived_is_told_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glancing, "glance", lambda *_: Glance(0, 0.0, 0, None, None, 25))
    watching = Watching(tmp_path)
    assert watching._line(TRIAL) == (
        "nstl/1 rabbitmq bytes=100 #1: NO FIGURE: no message arrived while the load ran, 25 MISSING; "
        "the machine is busy: load 37.5 on 2 processors"
    )
    assert watching.without_figure == ["nstl/1 rabbitmq bytes=100 #1"]


@pytest.mark.usefixtures("load")
def test_a_trial_with_a_figure_is_told_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glancing, "glance", lambda *_: Glance(100, 2.0, 10_000, 0.5, 1.0, 0))
    watching = Watching(tmp_path)
    assert watching._line(TRIAL) == "nstl/1 rabbitmq bytes=100 #1: 50/s, 0.50 ms at the median"
    assert watching.without_figure == []


def test_a_machine_with_time_is_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.4, 0.0, 0.0))
    assert environment.busy_reason() == ""
