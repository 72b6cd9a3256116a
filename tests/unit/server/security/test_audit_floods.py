# SPDX-License-Identifier: Apache-2.0
"""When the audit log writes the refusals that it has counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.server.security.audit import AuditLog, records
from entrepot.server.security.refusal_counter import PER_ADDRESS_MAX
from entrepot.testing import VirtualClock

SURPLUS = 7


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def flooded(folder: Path, clock: VirtualClock) -> Iterator[AuditLog]:
    """A log with a full second of refusals, and some more."""
    log = AuditLog.open(folder, now=clock.now)
    for _ in range(PER_ADDRESS_MAX + SURPLUS):
        log.write("connect", address="10.0.0.7", verdict="refused")
    yield log
    log.close()


def behind_the_first(folder: Path) -> list[tuple[str, int]]:
    """Events and counts of what was written behind those refusals that have a line each."""
    return [(record["event"], record.get("count", 0)) for record in records(folder)][PER_ADDRESS_MAX:]


def test_within_its_second_nothing_more_is_written(folder: Path, flooded: AuditLog) -> None:
    flooded.settle()
    flooded.write("put", verdict="allowed")
    assert behind_the_first(folder) == [("put", 0)]


def test_settle_writes_what_was_counted_in_a_second_that_is_over(
    folder: Path, flooded: AuditLog, clock: VirtualClock
) -> None:
    clock.advance(1)
    flooded.settle()
    assert behind_the_first(folder) == [("connect", SURPLUS)]
    flooded.settle()
    assert behind_the_first(folder) == [("connect", SURPLUS)]


def test_the_next_line_stands_behind_what_was_counted_before_it(
    folder: Path, flooded: AuditLog, clock: VirtualClock
) -> None:
    clock.advance(1)
    flooded.write("put", verdict="allowed")
    assert behind_the_first(folder) == [("connect", SURPLUS), ("put", 0)]


def test_in_the_next_second_refusals_have_lines_again(folder: Path, flooded: AuditLog, clock: VirtualClock) -> None:
    clock.advance(1)
    flooded.write("connect", address="10.0.0.7", verdict="refused")
    assert behind_the_first(folder) == [("connect", SURPLUS), ("connect", 0)]
