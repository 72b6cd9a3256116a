# SPDX-License-Identifier: Apache-2.0
"""When messages are meant to be sent: constant, Poisson, or as a trace has it.

A schedule is made before the load begins and waits for nothing, so
a system that stalls is measured with all the messages that were meant to be
sent meanwhile. Several senders share one schedule: the i-th takes every
n-th moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_CHUNK = 4096


def offsets_ns(arrivals: str, rate_per_s: float, *, seed: int, trace: Path | None = None) -> Iterator[int]:
    """Moments in ns after the start, rising, without an end (a trace is begun again, scaled to the rate)."""
    if arrivals == "constant":
        yield from _constant(rate_per_s)
    elif arrivals == "poisson":
        yield from _poisson(rate_per_s, seed)
    elif trace is not None:
        yield from _traced(trace, rate_per_s)
    else:
        raise ValueError(f"arrivals {arrivals!r}: constant, poisson, or trace with a file")


def share(offsets: Iterator[int], number: int, of: int) -> Iterator[int]:
    """Every n-th moment."""
    for index, offset in enumerate(offsets):
        if index % of == number:
            yield offset


def _constant(rate_per_s: float) -> Iterator[int]:
    index = 0
    while True:
        # From the beginning each time: steps that are added up would drift.
        yield int(index * 1e9 / rate_per_s)
        index += 1


def _poisson(rate_per_s: float, seed: int) -> Iterator[int]:
    import numpy

    generator = numpy.random.default_rng(seed)
    moment = 0.0
    while True:
        for gap in generator.exponential(1e9 / rate_per_s, _CHUNK).tolist():
            moment += gap
            yield int(moment)


def _traced(path: Path, rate_per_s: float) -> Iterator[int]:
    """A file with a moment in seconds on each line; its shape is kept, and its mean rate made to fit."""
    moments = [float(line) for line in path.read_text().split()]
    length_s = (moments[-1] - moments[0]) * len(moments) / max(len(moments) - 1, 1)
    scale = len(moments) / rate_per_s / length_s * 1e9
    cycle = 0
    while True:
        for moment in moments:
            yield int((moment - moments[0] + cycle * length_s) * scale)
        cycle += 1
