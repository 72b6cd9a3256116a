# SPDX-License-Identifier: Apache-2.0
"""How much work a measurement may cost: a thumbnail shows that it works, quick gives a picture, full can be quoted."""

from __future__ import annotations

import msgspec


class Effort(msgspec.Struct, kw_only=True, frozen=True):
    scale: str
    seconds: float
    """How long the load lasts, warm-up included; the warm-up is found afterwards."""
    repetitions: int
    """Fresh runs of everything, interleaved."""
    messages_max: int
    """Of one sender, where the load fills a queue."""
    bytes_max: int
    """Of all messages of a trial that fills a queue."""
    sample_s: float
    drain_s: float
    """How long after the load messages may still arrive before they count as lost."""
    probe_s: tuple[float, float]
    """A short and a long probe of a search."""
    probe_messages: tuple[int, int]
    """As many messages at least are offered in them, so slow systems are probed for longer."""
    probes_max: int
    search_s: float
    """Of all probes together, however slow the system is."""
    calls: int
    """Timed calls of each kind and size."""
    refuse_busy: bool = False
    """Whether a trial that others disturbed (quiet.py) is invalid; otherwise it is marked."""
    system_warm_up: bool = True
    """Whether to add what a system needs until it has its speed (a JVM compiles)."""


EFFORTS = {
    effort.scale: effort
    for effort in (
        Effort(
            scale="thumbnail",
            seconds=0.6,
            repetitions=1,
            messages_max=300,
            bytes_max=4 * 1024 * 1024,
            sample_s=0.1,
            drain_s=10.0,
            probe_s=(0.4, 0.6),
            probe_messages=(4, 8),
            probes_max=4,
            search_s=20.0,
            calls=20,
            system_warm_up=False,
        ),
        Effort(
            scale="quick",
            seconds=3.0,
            repetitions=2,
            messages_max=30_000,
            bytes_max=64 * 1024 * 1024,
            sample_s=0.5,
            drain_s=20.0,
            probe_s=(1.2, 3.0),
            probe_messages=(40, 200),
            probes_max=20,
            search_s=300.0,
            calls=300,
        ),
        Effort(
            scale="full",
            seconds=20.0,
            repetitions=5,
            messages_max=200_000,
            bytes_max=512 * 1024 * 1024,
            sample_s=1.0,
            drain_s=60.0,
            probe_s=(5.0, 30.0),
            probe_messages=(40, 200),
            probes_max=30,
            search_s=3600.0,
            calls=5000,
        ),
    )
}
