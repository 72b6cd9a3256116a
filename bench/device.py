# SPDX-License-Identifier: Apache-2.0
"""What the device itself can do: the ceiling of every persistent figure.

A write of each size at the next place of a zero-filled file, then
fdatasync, as a recovery log does it; and one long sequential write with one
fdatasync at its end.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

import trial
from figures import Figure, Outcome, percentile

FILE_BYTES = 64 * 1024 * 1024
SIZES_BYTES = (2 * 1024, 16 * 1024, 64 * 1024, 1024 * 1024)
CONTRACT = "fdatasync after each write"


def forces(folder: str, writes: int) -> dict[str, Any]:
    """Latencies of write+fdatasync by size, in ms."""
    descriptor = zeroed_file(Path(folder) / "forces", FILE_BYTES)
    latencies_ms: dict[str, list[float]] = {}
    for size in SIZES_BYTES:
        body, offset, found = os.urandom(size), 0, []
        for _ in range(writes if size < 1024 * 1024 else max(writes // 8, 10)):
            begun = time.perf_counter()
            os.pwrite(descriptor, body, offset)
            os.fdatasync(descriptor)
            found.append((time.perf_counter() - begun) * 1000)
            offset = (offset + size) % FILE_BYTES
        latencies_ms[str(size)] = found
    os.close(descriptor)
    return {"latencies_ms": latencies_ms}


def sequential(folder: str, file_bytes: int) -> dict[str, Any]:
    """MB/s of one long write into a new file, forced at its end."""
    chunk = os.urandom(1024 * 1024)
    descriptor = os.open(Path(folder) / "sequential", os.O_WRONLY | os.O_CREAT)
    begun = time.perf_counter()
    for _ in range(file_bytes // len(chunk)):
        os.write(descriptor, chunk)
    os.fdatasync(descriptor)
    elapsed_s = time.perf_counter() - begun
    os.close(descriptor)
    return {"rate_mb_per_s": file_bytes / 1e6 / elapsed_s}


def zeroed_file(path: Path, size: int) -> int:
    """A file whose blocks exist and are written, so that a force has no metadata to bring along."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    zeros = bytes(1024 * 1024)
    for offset in range(0, size, len(zeros)):
        os.pwrite(descriptor, zeros, offset)
    os.fsync(descriptor)
    return descriptor


def measure(*, quick: bool) -> Outcome:
    repetitions = 2 if quick else 5
    writes, file_bytes = (100, 64 * 1024 * 1024) if quick else (1000, 512 * 1024 * 1024)
    trials: list[dict[str, Any]] = []
    for _ in range(repetitions):
        with trial.scratch_folder() as folder:
            found = trial.run("device:forces", folder=str(folder), writes=writes)
            found |= trial.run("device:sequential", folder=str(folder), file_bytes=file_bytes)
            trials.append(found)
    figures = []
    for size in SIZES_BYTES:
        label = f"{size // 1024} KiB" if size < 1024 * 1024 else "1 MiB"
        samples = [found["latencies_ms"][str(size)] for found in trials]
        medians = [statistics.median(sample) for sample in samples]
        figures += [
            Figure(f"{label}: median_ms", medians, CONTRACT),
            Figure(f"{label}: p99_ms", [percentile(sample, 99) for sample in samples], CONTRACT),
            Figure(f"{label}: rate_per_s", [len(sample) / sum(sample) * 1000 for sample in samples], CONTRACT),
        ]
    rates = [found["rate_mb_per_s"] for found in trials]
    figures.append(Figure("sequential: rate_mb_per_s", rates, "one fdatasync at the end"))
    settings = {"repetitions": repetitions, "writes": writes, "sequential_bytes": file_bytes}
    return Outcome("device", "The device: pwrite + fdatasync into a zero-filled file", figures, settings, trials)
