# SPDX-License-Identifier: Apache-2.0
"""What a store does to its disk: the operations in their order, and the files that it leaves open."""

from __future__ import annotations

import errno

from entrepot.testing import Fault, Faults, PlannedFaults


class Noted:
    """Faults that note the operations; they strike only where `faults` do."""

    def __init__(self, faults: Faults | None = None) -> None:
        self._faults = faults
        self.operations: list[tuple[str, str]] = []

    def before(self, operation: str, path: str, size: int) -> int | None:
        self.operations.append((operation, path))
        return None if self._faults is None else self._faults.before(operation, path, size)

    def count(self, *operations: str) -> int:
        return sum(operation in operations for operation, _ in self.operations)

    def opened(self, path: str) -> int:
        return self.operations.count(("open", path))


class Written:
    """Faults that never strike and count the bytes that are written."""

    def __init__(self) -> None:
        self.bytes = 0

    def before(self, operation: str, path: str, size: int) -> None:
        if operation == "write":
            self.bytes += size


def refusing(operation: str, number: int = errno.ENOSPC) -> PlannedFaults:
    """The next operation of this kind fails."""
    return PlannedFaults(Fault(at=1, error_number=number, operations=frozenset({operation})))
