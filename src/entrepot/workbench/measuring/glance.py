# SPDX-License-Identifier: Apache-2.0
"""A first look at a trial, in plain NumPy, for the terminal; figures to quote come from the analysis.

Counts everything between the opening of the gate and the end of the load,
warm-up included, so it says less than the analysis says later.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entrepot.workbench.measuring.record import TrialRecord

_BY_SENDER = frozenset({"send"})
"""Loads whose figure is what was acknowledged to the sender."""


@dataclass(frozen=True, slots=True)
class Glance:
    messages: int
    seconds: float
    bytes: int
    latency_ms_median: float | None
    latency_ms_p99: float | None
    missing: int
    """Sent and never received; negative when more came than was sent."""

    @property
    def per_s(self) -> float:
        return self.messages / self.seconds if self.seconds > 0 else 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


def glance(folder: Path, record: TrialRecord) -> Glance | None:
    """None when the trial has no messages (timed calls), or failed."""
    if record.status == "failed" or not (folder / "sent.parquet").exists():
        return None
    import numpy

    sent = _columns(folder / "sent.parquet")
    counted = "acknowledged_ns" if record.load in _BY_SENDER else "received_ns"
    done = sent if record.load in _BY_SENDER else _columns(folder / "received.parquet")
    if not len(done.get(counted, ())):
        return Glance(0, 0.0, 0, None, None, len(sent["number"]))
    times = done[counted]
    inside = (times >= record.begun_ns) & (times <= max(record.ended_ns, record.begun_ns + 1))
    messages = int(inside.sum())
    last = times[inside].max() if messages else record.ended_ns
    # A load that ended because there was nothing left to do ended with its last message.
    seconds = (min(int(last), record.ended_ns) - record.begun_ns) / 1e9
    size = int(numpy.median(sent["bytes"])) if len(sent["bytes"]) else 0
    latencies = _latencies(sent, done, counted, record) / 1e6
    copies = record.facts.get("copies", 1.0)
    received = _columns(folder / "received.parquet").get("number", ())
    return Glance(
        messages,
        seconds,
        messages * size,
        float(numpy.percentile(latencies, 50)) if len(latencies) else None,
        float(numpy.percentile(latencies, 99)) if len(latencies) else None,
        round(len(sent["number"]) * copies) - len(received),
    )


def _latencies(sent: Any, done: Any, counted: str, record: TrialRecord) -> Any:
    import numpy

    if record.load in _BY_SENDER:
        return done[counted] - done["intended_ns"]
    # One number for (sender, number), so that a sorted search joins the two sides.
    keys = sent["sender"] << 48 | sent["number"]
    order = numpy.argsort(keys)
    wanted = done["sender"] << 48 | done["number"]
    if not len(keys):
        return numpy.empty(0)
    found = order[numpy.clip(numpy.searchsorted(keys, wanted, sorter=order), 0, len(keys) - 1)]
    matched = keys[found] == wanted
    return (done[counted] - sent["intended_ns"][found])[matched]


def _columns(path: Path) -> dict[str, Any]:
    import numpy
    import pyarrow.parquet

    if not path.exists():
        return {}
    table = pyarrow.parquet.read_table(path)
    return {
        name: table[name].fill_null(0).to_numpy().astype(numpy.int64) for name in table.column_names if name != "trial"
    }
