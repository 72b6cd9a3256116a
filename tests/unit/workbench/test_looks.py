# SPDX-License-Identifier: Apache-2.0
"""Senders look at what is under way so often that a window is one, however many they are."""

from __future__ import annotations

import pytest

from entrepot.workbench.loads.load import LOOK_MAX, look_every


@pytest.mark.parametrize(("window", "senders"), [(1000, 50), (10_000, 1), (20_000, 100), (500, 1), (20_000, 50)])
def test_all_together_go_beyond_the_window_by_a_tenth_at_most(window: int, senders: int) -> None:
    assert 1 <= look_every(window, senders) <= LOOK_MAX
    assert look_every(window, senders) * senders <= window / 10


def test_more_senders_than_a_tenth_of_the_window_look_each_time() -> None:
    assert look_every(20_000, 50 * 50) == 1
