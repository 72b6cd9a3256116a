# SPDX-License-Identifier: Apache-2.0
"""The time that flows wait by: forward only, and the same for all instances of a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.spark.live import steady_clock
from entrepot.spark.live.steady_clock import QUEUE, SteadyClock
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
