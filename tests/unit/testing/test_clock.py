# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.clock import Clock
from entrepot.testing import VirtualClock


def test_time_stands_still_until_advanced() -> None:
    virtual = VirtualClock(100.0)
    clock: Clock = virtual
    assert clock.now() == clock.now() == 100.0
    virtual.advance(2.5)
    assert clock.now() == 102.5


def test_the_wall_clock_can_be_set_while_time_passes_as_before() -> None:
    clock = VirtualClock()
    clock.jump(-60)
    clock.advance(1)
    assert clock.now() == 1_700_000_000.0 - 59
    assert clock.elapsed() == 1
