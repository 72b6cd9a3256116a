# SPDX-License-Identifier: Apache-2.0
"""Prepared units of work: their coordinator decides, however long it takes and however often we restart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from entrepot.engine.recovery_log.record import Branch, PrepareRecord, ResolveRecord
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Unit, UnitState
from entrepot.errors import (
    DiskFailed,
    DiskFull,
    EntrepotError,
    LimitExceeded,
    TransactionIdInUse,
    UnitNotInDoubt,
)
from entrepot.limits import TRANSACTION_ID_BYTES_MAX

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import Arrival, QueueManager

_RECORD_BYTES = 1024


class InDoubt:
    """The units whose outcome is not ours to decide, by transaction id."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self.units: dict[bytes, tuple[Unit, list[Arrival]]] = {}
        """Each with what arrives where if it commits."""
        self._deciding: set[bytes] = set()
        """Transaction ids that are being prepared or resolved right now."""

    def prepare(
        self,
        unit: Unit,
        transaction_id: bytes,
        *,
        branches: Sequence[Branch] = (),
        user: str = "",
        limited: bool = False,
    ) -> Settlement:
        """Leave the unit's outcome to a coordinator; from the settlement on it survives a restart.

        `branches` are those of a global unit of ours, which a one-phase
        database is about to decide. `user` may resolve it.

        Raises:
            UserLimitReached: The user, or all users, have as many prepared as may be. The unit is still active.
        """
        manager = self._manager
        unit.require_active()
        if not 1 <= len(transaction_id) <= TRANSACTION_ID_BYTES_MAX:
            raise LimitExceeded("transaction id bytes", len(transaction_id), TRANSACTION_ID_BYTES_MAX)
        # Nobody else may use an id of ours: its outcome would be taken for that of a global unit.
        foreign = transaction_id != unit.transaction_id and transaction_id.startswith(manager.global_units.prefix)
        if transaction_id in self.units or transaction_id in self._deciding or foreign:
            raise TransactionIdInUse(transaction_id.hex())
        manager.global_units.hold(transaction_id, user, limited=limited)
        planned = len(unit.puts)
        try:
            manager.consequences.add_to(unit, delivered=True)
            records, arrivals = manager.records(unit)
            prepared = PrepareRecord(manager.stamp(records), transaction_id, list(branches), user, manager.clock.now())
            records.append(prepared)
            manager.require_room_for(unit, records + records[-1:] * len(branches))
        except (DiskFull, DiskFailed) as error:
            manager.global_units.let_go(transaction_id, user)
            raise manager.undo(unit, error) from error
        except EntrepotError:
            manager.global_units.let_go(transaction_id, user)
            manager.forget_puts(unit, planned)
            raise
        unit.state = UnitState.PREPARED
        unit.transaction_id = transaction_id
        self._deciding.add(transaction_id)

        def apply() -> None:
            self._deciding.remove(transaction_id)
            self.units[transaction_id] = (unit, arrivals)
            manager.global_units.restore(prepared)

        def undo(error: EntrepotError) -> EntrepotError:
            self._deciding.remove(transaction_id)
            manager.global_units.let_go(transaction_id, user)
            return manager.undo(unit, error)

        return manager.promise(records, arrivals, apply, undo)

    def resolve(self, transaction_id: bytes, *, commit: bool, heuristic: bool = False) -> Settlement | None:
        """Carry out the coordinator's decision about a prepared unit, or an operator's instead of it.

        Raises:
            HeuristicOutcome: An operator has decided it the other way.
        """
        manager = self._manager
        manager.group_commit.require_running()
        if transaction_id not in self.units or transaction_id in self._deciding:
            if not heuristic and manager.global_units.met_heuristic(transaction_id, commit=commit):
                return None
            raise UnitNotInDoubt(transaction_id.hex())
        manager.require_room(_RECORD_BYTES, reserved=True)
        unit, arrivals = self.units[transaction_id]
        self._deciding.add(transaction_id)

        def apply() -> None:
            self._deciding.remove(transaction_id)
            del self.units[transaction_id]
            manager.global_units.was_resolved(transaction_id, commit=commit, heuristic=heuristic)
            if commit:
                manager.apply(unit, arrivals)
                manager.late += [entry for _, entry in arrivals if entry.log_position >= 0]
            else:
                manager.release(unit)

        def undo(error: EntrepotError) -> EntrepotError:
            self._deciding.remove(transaction_id)
            return error

        return manager.group_commit.promise([ResolveRecord(transaction_id, commit, heuristic)], apply, undo)
