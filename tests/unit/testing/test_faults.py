# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest

from entrepot.testing import Fault, PlannedFaults


def outcomes(faults: PlannedFaults, operations: str) -> list[int | None]:
    """The error number of each call; None where it passed."""
    seen: list[int | None] = []
    for operation in operations.split():
        try:
            faults.before(operation, "file", 100)
            seen.append(None)
        except OSError as error:
            seen.append(error.errno)
    return seen


def test_fault_strikes_once_at_its_call() -> None:
    assert outcomes(PlannedFaults(Fault(2)), "write write write") == [None, errno.EIO, None]


def test_fault_for_ever_strikes_all_later_calls() -> None:
    faults = PlannedFaults(Fault(2, errno.ENOSPC, for_ever=True))
    assert outcomes(faults, "write write write") == [None, errno.ENOSPC, errno.ENOSPC]


def test_fault_counts_only_the_operations_it_names() -> None:
    faults = PlannedFaults(Fault(2, operations=frozenset({"force"})))
    assert outcomes(faults, "write force write write force") == [None, None, None, None, errno.EIO]
    assert faults.count == 5


def test_short_write_does_some_bytes_but_never_all() -> None:
    faults = PlannedFaults(Fault(1, None, part=0.3, for_ever=True))
    assert faults.before("write", "file", 100) == 30
    assert faults.before("write", "file", 2) == 1
    assert faults.before("write", "file", 1) is None
    assert faults.before("force", "file", 0) is None


def test_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="fsync"):
        PlannedFaults(Fault(1, operations=frozenset({"fsync"})))
