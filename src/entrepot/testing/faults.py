# SPDX-License-Identifier: Apache-2.0
"""Where a disk should fail: asked before each operation, by the simulated disk and by `FaultyDisk` alike.

A test that wants something odd brings its own object with `before`;
`PlannedFaults` covers the usual: the k-th write, once or for ever.
"""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass
from typing import Protocol

OPERATIONS = frozenset(
    {
        "open",
        "create",
        "write",
        "read",
        "force",
        "truncate",
        "allocate",
        "rename",
        "remove",
        "force_folder",
        "make_folder",
    }
)
"""Every operation a disk asks its faults about."""

GROWING = frozenset({"create", "write", "allocate", "make_folder"})
"""The operations that a full disk refuses."""


class Faults(Protocol):
    """Decides, before each operation, whether it fails."""

    def before(self, operation: str, path: str, size: int) -> int | None:
        """None lets the operation pass; an OSError raised here is the operation's own.

        For a write an answer of n lets only n bytes through. The simulated
        disk then raises ENOSPC; `FaultyDisk` reports the short count to its
        caller, as the system call does.
        """


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    at: int
    """Which call fails, counted from 1 over the `operations` named here."""
    error_number: int | None = errno.EIO
    """What the call fails with; None makes a write short instead."""
    operations: frozenset[str] = OPERATIONS
    for_ever: bool = False
    """Whether all later calls fail as well."""
    part: float = 0.5
    """How much of a short write is done; at least one byte, else its caller would never end."""

    def strikes(self, call: int) -> bool:
        return call == self.at or (self.for_ever and call > self.at)


class PlannedFaults:
    """Faults at calls counted beforehand; without any it only counts."""

    def __init__(self, *plan: Fault) -> None:
        for fault in plan:
            if unknown := fault.operations - OPERATIONS:
                raise ValueError(f"no such operations: {', '.join(sorted(unknown))}")
        self.count = 0
        """How many operations there were, of any kind."""
        self._plan = plan
        self._calls = [0] * len(plan)
        # The queue manager forces from a thread of its own.
        self._lock = threading.Lock()

    def before(self, operation: str, path: str, size: int) -> int | None:
        struck = self._count(operation)
        if struck is None:
            return None
        if struck.error_number is not None:
            raise OSError(struck.error_number, os.strerror(struck.error_number), path)
        if operation != "write" or size <= 1:
            return None
        return min(max(1, int(size * struck.part)), size - 1)

    def _count(self, operation: str) -> Fault | None:
        """Count the call for every fault that concerns it; the first that strikes, if any."""
        struck = None
        with self._lock:
            self.count += 1
            for position, fault in enumerate(self._plan):
                if operation in fault.operations:
                    self._calls[position] += 1
                    if struck is None and fault.strikes(self._calls[position]):
                        struck = fault
        return struck
