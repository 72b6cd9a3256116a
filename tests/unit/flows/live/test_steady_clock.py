# SPDX-License-Identifier: Apache-2.0
"""The time that flows wait by: forward only, and the same for all instances of a machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from entrepot.flows.live import steady_clock
from entrepot.flows.live.steady_clock import QUEUE, SteadyClock
from entrepot.testing.clock import VirtualClock

from .staged import Stage

DAY_S = 86_400.0


@pytest.fixture
def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The id of the machine's start."""
    path = tmp_path / "boot_id"
    path.write_text(str(tmp_path))
    monkeypatch.setattr(steady_clock, "_BOOT_ID", path)
    return path


def test_a_clock_that_is_set_moves_no_instance_not_even_one_that_begins_later(stage: Stage, boot: Path) -> None:
    clock = VirtualClock()
    first = SteadyClock(stage.connection, clock)
    begun = first.now()
    assert begun == pytest.approx(clock.now())
    for jump_s in (DAY_S, -3 * DAY_S):
        clock.jump(jump_s)
        clock.advance(10)
        later = SteadyClock(stage.connection, clock)
        assert first.now() == later.now()
    assert first.now() == pytest.approx(begun + 20)


def test_after_a_start_of_the_machine_its_clock_is_believed_again(stage: Stage, boot: Path) -> None:
    clock = VirtualClock()
    SteadyClock(stage.connection, clock).now()
    boot.write_text("another start")
    clock.jump(DAY_S)
    assert SteadyClock(stage.connection, clock).now() == pytest.approx(clock.now())


def test_what_is_no_time_is_passed_over(stage: Stage, boot: Path) -> None:
    clock = VirtualClock()
    key = steady_clock._boot_key()
    stage.connection.mqsc(f"DEFINE QLOCAL({QUEUE}) REPLACE")
    for body in (b"", b"soon", b"nan", b"inf"):
        stage.connection.put(QUEUE, body, correlation_id=key)
    assert SteadyClock(stage.connection, clock).now() == pytest.approx(clock.now())


def test_without_another_clock_it_is_the_machines(stage: Stage, boot: Path) -> None:
    before = time.time()
    assert before - 1.0 <= SteadyClock(stage.connection).now() <= time.time() + 1.0


def test_what_instances_agree_on_outlives_the_queue_manager(stage: Stage, boot: Path) -> None:
    clock = VirtualClock()
    SteadyClock(stage.connection, clock).now()
    key = steady_clock._boot_key()
    (kept,) = stage.connection.browse(QUEUE, correlation_id=key)
    assert kept.persistent
    assert float(kept.body) == pytest.approx(clock.now())


def test_an_instance_that_may_not_keep_anything_is_on_its_own(stage: Stage, boot: Path) -> None:
    clock = VirtualClock()
    stage.connection.mqsc(f"DEFINE QLOCAL({QUEUE}) REPLACE\nALTER QLOCAL({QUEUE}) MAXDEPTH(0)")
    try:
        steady = SteadyClock(stage.connection, clock)
        begun = steady.now()
        clock.jump(DAY_S)
        clock.advance(10)
        assert steady.now() == pytest.approx(begun + 10)
    finally:
        stage.connection.mqsc(f"ALTER QLOCAL({QUEUE}) MAXDEPTH(5000)")
