# SPDX-License-Identifier: Apache-2.0
"""Senders look at what is under way so often that a window is one, however many they are."""

from __future__ import annotations

import pytest

from entrepot.workbench.generators.gate import StartGate
from entrepot.workbench.loads.window import LOOK_MAX, Window, look_every


@pytest.mark.parametrize(("window", "senders"), [(1000, 50), (10_000, 1), (20_000, 100), (500, 1), (20_000, 50)])
def test_all_together_go_beyond_the_window_by_a_tenth_at_most(window: int, senders: int) -> None:
    assert 1 <= look_every(window, senders) <= LOOK_MAX
    assert look_every(window, senders) * senders <= window / 10


def test_more_senders_than_a_tenth_of_the_window_look_each_time() -> None:
    assert look_every(20_000, 50 * 50) == 1


def test_a_window_is_full_until_receivers_have_come_nearer() -> None:
    gate = StartGate()
    under_way = Window(gate, 100, sending=range(1, 2), taking=range(1))
    gate.count(1, 99)
    assert not under_way.is_full(99)
    gate.count(1, 110)
    assert not under_way.is_full(108), "it looks after every tenth message"
    assert under_way.is_full(109)
    gate.count(0, 20)
    assert not under_way.is_full(109)


def test_a_window_of_no_size_holds_nobody_back() -> None:
    gate = StartGate()
    gate.count(1, 1_000_000)
    assert not Window(gate, 0, sending=range(1, 2), taking=range(1)).is_full(1_000_000)
