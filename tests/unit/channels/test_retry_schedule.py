# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.channels.retry_schedule import RetrySchedule
from entrepot.engine.definitions import Channel


def _pauses(count: int, name: str = "C", **options: int) -> list[float | None]:
    backoff = RetrySchedule(Channel(name=name, channel_type="SDR", **options))  # type: ignore[arg-type]
    return [backoff.pause_s() for _ in range(count)]


def test_pauses_double_up_to_the_short_timer_and_then_are_long() -> None:
    found = _pauses(9, short_retry_s=1, short_retry_count=6, long_retry_s=8, long_retry_count=2)
    for pause_s, whole_s in zip(found[:8], [0.1, 0.2, 0.4, 0.8, 1, 1, 8, 8], strict=True):
        assert pause_s is not None
        assert 0.8 * whole_s <= pause_s <= whole_s
    assert found[8] is None


def test_channels_do_not_all_come_at_the_same_moment() -> None:
    assert len({_pauses(1, name=f"C{n}")[0] for n in range(100)}) > 50
    assert _pauses(3) == _pauses(3)


def test_no_timer_means_no_storm() -> None:
    assert all(pause_s is not None and pause_s >= 0.08 for pause_s in _pauses(30, short_retry_s=0, long_retry_s=0))


def test_what_is_left_is_told() -> None:
    backoff = RetrySchedule(Channel(name="C", short_retry_count=2, long_retry_count=3))
    for _ in range(3):
        backoff.pause_s()
    assert (backoff.short_left, backoff.long_left) == (0, 2)
    backoff.reset()
    assert (backoff.short_left, backoff.long_left) == (2, 3)
