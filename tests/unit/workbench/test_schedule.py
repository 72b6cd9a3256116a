# SPDX-License-Identifier: Apache-2.0
"""Schedules of an open loop: constant, Poisson, a trace; and how senders share one."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy
import pytest

from entrepot.workbench.generators.schedule import offsets_ns, share


def first(count: int, arrivals: str, rate_per_s: float, **arguments: object) -> list[int]:
    return list(itertools.islice(offsets_ns(arrivals, rate_per_s, seed=7, **arguments), count))  # type: ignore[arg-type]


def test_a_constant_schedule_does_not_drift() -> None:
    moments = first(1_000_000, "constant", 3.0)
    assert moments[:4] == [0, 333_333_333, 666_666_666, 1_000_000_000]
    assert moments[999_999] == int(999_999 * 1e9 / 3)


def test_poisson_arrivals_have_the_rate_and_the_variance_of_poisson() -> None:
    gaps = numpy.diff(first(200_000, "poisson", 1000.0)) / 1e9
    assert gaps.mean() == pytest.approx(0.001, rel=0.01)
    # Exponential gaps: the standard deviation equals the mean.
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.02)


def test_the_same_seed_gives_the_same_poisson_schedule() -> None:
    assert first(100, "poisson", 50.0) == first(100, "poisson", 50.0)


def test_a_trace_keeps_its_shape_and_gets_the_rate(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text("10.0\n10.1\n10.2\n11.0\n")
    moments = first(40_001, "trace", 100.0, trace=trace)
    assert moments == sorted(moments)
    assert moments[40_000] / 1e9 == pytest.approx(400.0, rel=0.001)
    gaps = numpy.diff(moments[:4])
    assert gaps[2] / gaps[0] == pytest.approx(8.0)


def test_senders_share_a_schedule_without_gaps_or_overlap() -> None:
    shares = [list(itertools.islice(share(offsets_ns("constant", 10.0, seed=1), number, 3), 20)) for number in range(3)]
    assert sorted(itertools.chain(*shares)) == first(60, "constant", 10.0)


def test_unknown_arrivals_are_refused() -> None:
    with pytest.raises(ValueError, match="trace with a file"):
        first(1, "bursty", 10.0)
