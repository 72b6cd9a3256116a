# SPDX-License-Identifier: Apache-2.0
"""Global units of work, which we coordinate: our part and those of databases happen together or not at all.

Presumed abort: what no Decision in the log says is backed out. So all that
has to be remembered is which units are active (in memory: they die with us)
and which decisions some database does not know yet. Like the rest of the
engine this does no I/O; whoever drives the databases is outside.

    active ──decide──> committed, unfinished ──finish for each branch──> forgotten
       └────back out, end of connection, restart────> unknown: presumed backed out
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal
from weakref import WeakValueDictionary

from entrepot.engine.quotas import PREPARED_UNITS
from entrepot.engine.recovery_log.record import (
    Branch,
    DecisionRecord,
    ForgetRecord,
    HeuristicRecord,
    PrepareRecord,
    Record,
    ResolveRecord,
)
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Unit, UnitState
from entrepot.errors import (
    DiskFailed,
    DiskFull,
    EntrepotError,
    HeuristicOutcome,
    LimitExceeded,
    NotCoordinated,
)
from entrepot.limits import BRANCHES_MAX

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

Outcome = Literal["active", "in doubt", "committed", "unknown"]
"""`unknown`: no decision was made, or everybody knows it already; a branch that is still prepared is backed out."""

COMMITTED = "committed"
BACKED_OUT = "backed out"
_RECORD_BYTES = 1024
_LIVING = (UnitState.ACTIVE, UnitState.ENDING)


@dataclass(frozen=True, slots=True)
class UnfinishedDecision:
    """A decision that a database does not know yet, as far as we know."""

    transaction_id: bytes
    branch: Branch
    user: str


class GlobalUnits:
    """What a coordinator has to know, by transaction id."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._active: WeakValueDictionary[bytes, Unit] = WeakValueDictionary()
        self.decisions: dict[bytes, tuple[dict[str, Branch], str]] = {}
        """Branches that have to be told a commit, by their ids, and who has decided it."""
        self.prepared: dict[bytes, tuple[list[Branch], str]] = {}
        """The branches of units that are in doubt themselves, if there are any, and the user who has prepared them."""
        self.since: dict[bytes, float] = {}
        """When they were prepared."""
        self.heuristics: dict[tuple[bytes, str], HeuristicRecord] = {}
        """Parts that somebody has ended on his own account; the branch id of our own part is empty."""

    @property
    def prefix(self) -> bytes:
        """How all our transaction ids begin, and nobody else's."""
        return f"entrepot-{self._manager.manager_id.hex()}-".encode()

    def begin(self) -> Unit:
        """A unit of work under a transaction id that was never used and never will be."""
        unit = self._manager.begin()
        unit.transaction_id = self.prefix + f"{self._manager.incarnation}-{unit.number}".encode()
        self._active[unit.transaction_id] = unit
        return unit

    def hold(self, transaction_id: bytes, user: str, *, limited: bool) -> None:
        """Count a unit for its user while something of it waits for a coordinator or a database.

        Raises:
            UserLimitReached
        """
        if user:
            self._manager.quotas.hold(PREPARED_UNITS, user, transaction_id, limited=limited)

    def let_go(self, transaction_id: bytes, user: str) -> None:
        if user:
            self._manager.quotas.let_go(PREPARED_UNITS, user, transaction_id)

    # --- deciding ---------------------------------------------------------------------------

    def decide(
        self, unit: Unit, branches: Sequence[Branch], user: str = "", *, limited: bool = False
    ) -> Settlement | None:
        """Commit a global unit whose branches are all prepared; from the settlement on they must commit.

        Raises:
            DiskFull, UnitBackedOut: Nothing happened, and nothing will: back the branches out.
            LogFull: The unit is still active.
            UserLimitReached: The user has as many unfinished ones as may be. The unit is still active.
        """
        manager = self._manager
        unit.require_active()
        transaction_id = unit.transaction_id
        if self._active.get(transaction_id) is not unit:
            raise NotCoordinated(_text(transaction_id), "this unit of work is not global")
        if not branches:
            return manager.commit(unit, counted=not unit.forgiving)
        self._require_fitting(transaction_id, branches)
        self.hold(transaction_id, user, limited=limited)
        planned = len(unit.puts)
        try:
            if unit.consequential:
                manager.consequences.add_to(unit, delivered=True)
            records, arrivals = manager.records(unit)
            records.append(DecisionRecord(manager.stamp(records), transaction_id, list(branches), user))
            # The texts of a branch take about as much room as a record.
            manager.require_room_for(unit, records + records[-1:] * len(branches))
        except (DiskFull, DiskFailed) as error:
            self.let_go(transaction_id, user)
            raise manager.undo(unit, error) from error
        except EntrepotError:
            self.let_go(transaction_id, user)
            manager.forget_puts(unit, planned)
            raise
        unit.state = UnitState.ENDING

        def apply() -> None:
            self._remember(transaction_id, branches, user)
            manager.apply(unit, arrivals)

        def undo(error: EntrepotError) -> EntrepotError:
            self.let_go(transaction_id, user)
            return manager.undo(unit, error)

        return manager.promise(records, arrivals, apply, undo)

    def _require_fitting(self, transaction_id: bytes, branches: Sequence[Branch]) -> None:
        if len(branches) > BRANCHES_MAX:
            raise LimitExceeded("branches of a global unit of work", len(branches), BRANCHES_MAX)
        ids = [branch.branch_id for branch in branches]
        # Recovery finds the unit of a branch by the branch's id, so that has to begin with the unit's.
        head = f"{_text(transaction_id)}-"
        if len(set(ids)) != len(ids) or not all(name.startswith(head) or not name for name in ids):
            raise NotCoordinated(_text(transaction_id), "its branches have other ids, or the same one twice")

    def prepare(self, unit: Unit, branches: Sequence[Branch], user: str = "", *, limited: bool = False) -> Settlement:
        """Leave the outcome of a global unit to the one database that commits in one phase."""
        self._require_fitting(unit.transaction_id, branches)
        prepare = self._manager.in_doubt.prepare
        return prepare(unit, unit.transaction_id, branches=branches, user=user, limited=limited)

    def resolve(self, transaction_id: bytes, *, commit: bool) -> Settlement | None:
        """Decide a global unit that was prepared, as its one-phase database has done."""
        return self._manager.in_doubt.resolve(transaction_id, commit=commit)

    def owner(self, transaction_id: bytes) -> str | None:
        """Who has prepared or decided a unit; None when nothing is remembered about it."""
        known = self.prepared.get(transaction_id) or self.decisions.get(transaction_id)
        return None if known is None else known[1]

    def was_resolved(self, transaction_id: bytes, *, commit: bool, heuristic: bool) -> None:
        """A prepared unit has come to its end: its branches, if it has any, are to follow."""
        branches, user = self._settled(transaction_id)
        if commit:
            self._remember(transaction_id, branches, user)
        if heuristic:
            outcome = COMMITTED if commit else BACKED_OUT
            self.heuristics[transaction_id, ""] = HeuristicRecord(transaction_id, "", "", outcome)

    def met_heuristic(self, transaction_id: bytes, *, commit: bool) -> bool:
        """Whether an operator has decided a unit as its coordinator does now; then it is forgotten.

        Raises:
            HeuristicOutcome: He has decided otherwise.
        """
        found = self.heuristics.get((transaction_id, ""))
        if found is None:
            return False
        wanted = COMMITTED if commit else BACKED_OUT
        if found.outcome != wanted:
            raise HeuristicOutcome(_shown(transaction_id), found.outcome, wanted)
        if transaction_id not in self.decisions:
            self.forget(transaction_id)
        return True

    def _settled(self, transaction_id: bytes) -> tuple[list[Branch], str]:
        """A unit is in doubt no more: its branches, and whose it was."""
        self.since.pop(transaction_id, None)
        branches, user = self.prepared.pop(transaction_id, ([], ""))
        self.let_go(transaction_id, user)
        return branches, user

    def _remember(self, transaction_id: bytes, branches: Iterable[Branch], user: str) -> None:
        unfinished = {branch.branch_id: branch for branch in branches if branch.branch_id}
        if unfinished:
            self.decisions[transaction_id] = (unfinished, user)
            self.hold(transaction_id, user, limited=False)
        else:
            self.let_go(transaction_id, user)

    # --- asking -----------------------------------------------------------------------------

    def outcome(self, transaction_id: bytes) -> Outcome:
        """What a branch that is prepared has to do; it must have been prepared before this is asked."""
        manager = self._manager
        manager.group_commit.require_running()
        if transaction_id in self.decisions:
            return "committed"
        if transaction_id in manager.in_doubt.units:
            return "in doubt"
        unit = self._active.get(transaction_id)
        if unit is not None and unit.state in (*_LIVING, UnitState.PREPARED):
            return "active"
        return "unknown"

    def unfinished(self, resource: str | None = None, user: str | None = None) -> Iterator[UnfinishedDecision]:
        """Branches that have to be told a commit: of one resource or all, of one user or all."""
        for transaction_id, (branches, owner) in self.decisions.items():
            if user is not None and user != owner:
                continue
            for branch in branches.values():
                if resource is None or branch.resource == resource:
                    yield UnfinishedDecision(transaction_id, branch, owner)

    def undecided(self, resource: str, user: str | None = None) -> Iterator[tuple[bytes, int]]:
        """Units that wait for what a one-phase database did, if that can be asked, each with the database's number."""
        for transaction_id, (branches, owner) in self.prepared.items():
            if user is not None and user != owner:
                continue
            for branch in branches:
                if branch.resource == resource and not branch.branch_id and branch.number:
                    yield transaction_id, branch.number

    # --- forgetting -------------------------------------------------------------------------

    def finish(self, transaction_id: bytes, branch_ids: Iterable[str]) -> None:
        """These branches know the decision. A note only: should it get lost, they are asked once more."""
        self._manager.group_commit.require_running()
        known = self.decisions.get(transaction_id, ({}, ""))[0]
        ended = [branch_id for branch_id in branch_ids if branch_id in known]
        if ended:
            self._manager.group_commit.note(ForgetRecord(transaction_id, ended))
            self._end(transaction_id, ended)

    def _end(self, transaction_id: bytes, branch_ids: Iterable[str]) -> None:
        branches = self.decisions.get(transaction_id, ({}, ""))[0]
        for branch_id in branch_ids:
            branches.pop(branch_id, None)
        if not branches:
            self._drop(transaction_id)

    def _drop(self, transaction_id: bytes) -> None:
        _, user = self.decisions.pop(transaction_id, ({}, ""))
        self.let_go(transaction_id, user)

    def met_otherwise(self, transaction_id: bytes, branch_id: str, outcome: str) -> Settlement:
        """A branch that was to commit has ended otherwise at its database; remembered until somebody forgets it."""
        manager = self._manager
        manager.group_commit.require_running()
        branch = self.decisions.get(transaction_id, ({}, ""))[0].get(branch_id)
        if branch is None:
            raise NotCoordinated(_shown(transaction_id), f"no branch {branch_id!r} waits for a decision")
        manager.require_room(_RECORD_BYTES, reserved=True)
        record = HeuristicRecord(transaction_id, branch_id, branch.resource, outcome)
        return manager.group_commit.promise([record], partial(self.restore, record), _as_it_is)

    def forget(self, transaction_id: bytes) -> None:
        """Let go of all that is remembered about a transaction, unfinished or heuristic.

        Raises:
            NotCoordinated: Nothing is.
        """
        self._manager.group_commit.require_running()
        if transaction_id not in self.decisions and not self.heuristics_of(transaction_id):
            raise NotCoordinated(_shown(transaction_id), "there is nothing to forget")
        self._manager.group_commit.note(ForgetRecord(transaction_id, []))
        self._forget(transaction_id)

    def heuristics_of(self, transaction_id: bytes) -> list[HeuristicRecord]:
        return [found for (name, _), found in self.heuristics.items() if name == transaction_id]

    def _forget(self, transaction_id: bytes) -> None:
        self._drop(transaction_id)
        for found in self.heuristics_of(transaction_id):
            del self.heuristics[transaction_id, found.branch_id]

    # --- checkpoint and restart -------------------------------------------------------------

    def state(self) -> Iterator[Record]:
        """What a checkpoint has to have, beside the prepared units themselves."""
        for transaction_id, (branches, user) in self.decisions.items():
            yield DecisionRecord(0, transaction_id, list(branches.values()), user)
        yield from self.heuristics.values()

    def restore(self, record: PrepareRecord | DecisionRecord | HeuristicRecord) -> None:
        match record:
            case PrepareRecord():
                self.since[record.transaction_id] = record.time
                if record.branches or record.user:
                    self.prepared[record.transaction_id] = (record.branches, record.user)
                    self.hold(record.transaction_id, record.user, limited=False)
            case DecisionRecord():
                self._remember(record.transaction_id, record.branches, record.user)
            case HeuristicRecord():
                self._end(record.transaction_id, [record.branch_id])
                self.heuristics[record.transaction_id, record.branch_id] = record

    def restore_resolved(self, record: ResolveRecord, *, new: bool) -> None:
        """Replay a Resolve; `new`: the checkpoint has not seen it."""
        if new:
            self.was_resolved(record.transaction_id, commit=record.committed, heuristic=record.heuristic)
        else:
            self._settled(record.transaction_id)

    def restore_forgotten(self, record: ForgetRecord) -> None:
        if record.branches:
            self._end(record.transaction_id, record.branches)
        else:
            self._forget(record.transaction_id)


def _text(transaction_id: bytes) -> str:
    return transaction_id.decode("ascii", errors="backslashreplace")


def _shown(transaction_id: bytes) -> str:
    """Ours are texts; those of other coordinators are shown as everywhere else."""
    return _text(transaction_id) if transaction_id.startswith(b"entrepot-") else transaction_id.hex()


def _as_it_is(error: EntrepotError) -> EntrepotError:
    return error
