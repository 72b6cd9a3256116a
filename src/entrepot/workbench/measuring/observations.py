# SPDX-License-Identifier: Apache-2.0
"""The raw observations of a trial, and their Parquet schemas.

    RUN/run.json                     RunRecord
    RUN/trials/TRIAL/trial.json      TrialRecord; written last, so a trial without it did not end
    RUN/trials/TRIAL/sent.parquet    one row per message that was sent
    RUN/trials/TRIAL/received.parquet one row per message that came, twice if it came twice
    RUN/trials/TRIAL/calls.parquet   one row per timed call (only the load `calls` and `sessions`)
    RUN/trials/TRIAL/samples.parquet one row per measure, subject and second

Times are nanoseconds of the monotonic clock, which all processes of a
machine have in common. A sender numbers its messages from `first` upwards
without gaps, so what is missing, double or overtaken can be counted.
Generators append to arrays and write them as they are (`.raw`) when they
end; the leader turns those into Parquet, so no generator imports Arrow.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

NONE_NS = 0
"""No time: a message that was not acknowledged, a receiver that does not commit. Becomes null in Parquet."""
SENT = ("sender", "number", "bytes", "intended_ns", "sent_ns", "acknowledged_ns")
"""`intended` is when the schedule wanted it sent; in a closed loop, when the sender was ready to."""
RECEIVED = ("receiver", "sender", "number", "received_ns", "committed_ns")
CALLS = ("caller", "call", "bytes", "begun_ns", "ended_ns")
"""`call` is an index into CALL_NAMES."""
CALL_NAMES = ("connect", "disconnect", "open", "close", "put", "get", "commit", "back_out", "session")
SAMPLES = ("t_ns", "measure", "subject", "value")
"""Measures (c: cumulative): cpu_busy_s c, run_queue, cpu_s c, resident_bytes, write_bytes c, write_calls c,
disk_flushes c, disk_flush_ms c, disk_writes c, disk_write_bytes c, disk_busy_ms c, network_bytes c, depth, getters,
getter_wait_s c (of all getters together, in calls that ask for messages).
Subjects: machine, server, generators, busiest generator, busiest getter, others (all that is no part of the trial; at
its two ends), getters, a device, a queue."""
_NULLABLE = {"acknowledged_ns", "committed_ns"}


class ObservationRows:
    """Rows of integers that a generator appends to while it is being measured; one array, so that it stays cheap."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.values = array("q")
        self.add = self.values.extend
        """`add((…))` with a value for each column."""

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            self.values.tofile(file)


def to_parquet(trial: str, columns: Sequence[str], raw: Iterable[Path], target: Path) -> int:
    """Bring the generators' arrays together in one Parquet file; how many rows it has."""
    import numpy
    import pyarrow
    import pyarrow.parquet

    parts = [numpy.fromfile(path, dtype=numpy.int64).reshape(-1, len(columns)) for path in sorted(raw)]
    rows = numpy.concatenate(parts) if parts else numpy.empty((0, len(columns)), dtype=numpy.int64)
    arrays = []
    for index, name in enumerate(columns):
        values = numpy.ascontiguousarray(rows[:, index])
        mask = values == NONE_NS if name in _NULLABLE else None
        arrays.append(pyarrow.array(values, type=pyarrow.int64(), mask=mask))
    pyarrow.parquet.write_table(_table(trial, columns, arrays, len(rows)), target, compression="zstd")
    return len(rows)


def samples_to_parquet(trial: str, samples: Sequence[tuple[int, str, str, float]], target: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    types = (pyarrow.int64(), pyarrow.string(), pyarrow.string(), pyarrow.float64())
    arrays = [pyarrow.array([row[i] for row in samples], type=kind) for i, kind in enumerate(types)]
    pyarrow.parquet.write_table(_table(trial, SAMPLES, arrays, len(samples)), target, compression="zstd")


def _table(trial: str, columns: Sequence[str], arrays: list[pyarrow.Array], rows: int) -> pyarrow.Table:
    import pyarrow

    names = pyarrow.array([trial], type=pyarrow.string()).take(pyarrow.array([0] * rows, type=pyarrow.int32()))
    return pyarrow.Table.from_arrays([names, *arrays], names=["trial", *columns])
