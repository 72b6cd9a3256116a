# SPDX-License-Identifier: Apache-2.0
"""The clock times in a log, and which place in the log a time names.

Positions order the log; times only help people to find a position. A clock
that was set back makes times repeat, so a time may name several places.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from entrepot.disk import Disk
from entrepot.engine.recovery_log.checkpoint import read_checkpoint
from entrepot.engine.recovery_log.group import Group
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.settings import ManagerSettings

_STEPS_MAX = 100
"""More are not listed; a clock that is set back this often is broken."""


class ClockStep(msgspec.Struct, frozen=True):
    """Two groups, one behind the other in the log, of which the later has the earlier time."""

    position: int
    """Where the later group begins."""
    before: float
    after: float


class LogTimes:
    """When each group behind a checkpoint was written, as the clock had it."""

    def __init__(self, applied_position: int, checkpoint_time: float) -> None:
        self.applied_position = applied_position
        """The checkpoint has everything before it."""
        self.end_position = applied_position
        self._checkpoint_time = checkpoint_time
        self._groups: list[tuple[int, float]] = []
        self.steps_back: list[ClockStep] = []

    def add(self, position: int, time: float) -> None:
        before = self._groups[-1][1] if self._groups else self._checkpoint_time
        if time < before and len(self.steps_back) < _STEPS_MAX:
            self.steps_back.append(ClockStep(position, before, time))
        self._groups.append((position, time))

    def cut_for(self, until: float | None) -> int:
        """The position up to which the log counts: behind the last group that has this time or an earlier one."""
        if until is None:
            return self.end_position
        end = self.end_position
        for position, time in reversed(self._groups):
            if time <= until:
                return end
            end = position
        return self.applied_position

    def ambiguity(self, until: float) -> list[str]:
        """Why a time does not name exactly one place; empty when it does."""
        cut = self.cut_for(until)
        asked = datetime.fromtimestamp(until, UTC).isoformat()
        first_later = next((position for position, time in self._groups if time > until), cut)
        if first_later < cut:
            return [
                f"The clock went back, so {asked} names more than one place in the log. Everything before position "
                f"{cut} counts; groups from position {first_later} on have later times. Compare them with entrepot log "
                "show, and choose another place with --to-position if this one is wrong."
            ]
        if cut == self.applied_position and self._checkpoint_time > until:
            made = datetime.fromtimestamp(self._checkpoint_time, UTC).isoformat()
            return [f"The backup was made at {made}, later than {asked}; this is the state of the backup."]
        return []

    def stamp_before(self, position: int) -> float | None:
        """The time of the last group before a position."""
        return next((time for begin, time in reversed(self._groups) if begin < position), None)


def read_times(disk: Disk, settings: ManagerSettings) -> LogTimes:
    """Read the log behind the checkpoint.

    Raises:
        LogDamaged, LogIncomplete, CheckpointDamaged
    """
    head, _ = read_checkpoint(disk)
    times = LogTimes(head.applied_position, head.time)
    reader = LogReader(disk, settings.log, settings.manager_id)
    records = reader.records(head.start_position, boundary=head.applied_position, incarnation=head.incarnation)
    for position, record in records:
        if isinstance(record, Group) and position >= head.applied_position:
            times.add(position, record.time)
    times.end_position = max(reader.end_position, head.applied_position)
    return times
