# SPDX-License-Identifier: Apache-2.0
"""Bringing branches to the end that was decided for them, after somebody died or could not be reached.

First the database is asked what it has prepared for our queue manager, then
the queue manager what became of each: a unit that is active then was active
all the time, and one that is neither active nor decided never will be. The
other way round, what was prepared and decided in between would be backed out.
A database with one phase that has decided for all is asked what it did, after
the queue manager which units wait for that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from entrepot.engine.databases.branch import unit_of
from entrepot.engine.databases.coordinator import UnitCoordinator
from entrepot.engine.databases.resource import Resource, problem_of
from entrepot.engine.databases.sqlite import SQLite
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import ConnectionClosed, EntrepotError, HeuristicOutcome, UnitNotInDoubt

_LOGGER = logging.getLogger("entrepot")
_AGAIN_S = 5.0
_BACKGROUND_S = 0.5
_BACKGROUND_S_MAX = 5.0
_ROWS_KEPT = 100
"""So many rows of units that have ended do no harm at a database with one phase."""


def recover(resource: Resource, coordinator: UnitCoordinator, prefix: str) -> set[str]:
    """End what can be ended at a database; the transaction ids that are still open there.

    Raises:
        EntrepotError, SQLAlchemyError: One of both cannot be reached. What was done so far stays.
    """
    if isinstance(resource, SQLite):
        recover_last_agent(resource, coordinator)
    if not resource.two_phase:
        return set()
    # Decisions before the list: a decided branch that is not in the list has ended, and did not just begin.
    unfinished = {each.branch.branch_id: each for each in coordinator.unfinished(resource.name)}
    listed = resource.prepared(prefix)
    units = sorted({unit_of(branch_id) for branch_id in listed})
    outcomes = dict(zip(units, coordinator.outcomes(units), strict=True)) if units else {}
    left: set[str] = set()
    for branch_id in listed:
        unit = unit_of(branch_id)
        if outcomes[unit] == "committed":
            known = unfinished.get(branch_id)
            commit(resource, coordinator, known.branch if known else Branch(resource.name, branch_id))
        elif outcomes[unit] == "unknown":
            resource.roll_back(branch_id)
        else:
            left.add(unit)
    for branch_id, each in unfinished.items():
        if branch_id not in listed:
            _report(resource, coordinator, each.branch, resource.ended(each.branch))
    return left


def commit(resource: Resource, coordinator: UnitCoordinator, branch: Branch) -> None:
    """Commit a decided branch, whoever has prepared it, and let the queue manager know."""
    _report(resource, coordinator, branch, resource.commit(branch))


def _report(resource: Resource, coordinator: UnitCoordinator, branch: Branch, end: str) -> None:
    unit = unit_of(branch.branch_id)
    if end == "committed":
        coordinator.finish(unit, [branch.branch_id])
        return
    _LOGGER.error("%s: branch %s was to commit, and is %s", resource.name, branch.branch_id, end)
    coordinator.met_otherwise(unit, branch.branch_id, end)


def recover_last_agent(resource: SQLite, coordinator: UnitCoordinator) -> None:
    """End the units that are in doubt until somebody has asked this database whether it has committed them.

    Raises:
        EntrepotError, SQLAlchemyError: One of both cannot be reached. What was done so far stays.
    """
    # Before the database is asked: a branch that is in doubt has written its row already, or never will.
    waiting = coordinator.undecided(resource.name)
    if not waiting:
        return
    identity = resource.identity()
    units = [unit for unit, number in waiting if number == identity]
    for unit, committed in (resource.settle(units) if units else {}).items():
        try:
            coordinator.resolve(unit, commit=committed)
        except (UnitNotInDoubt, HeuristicOutcome) as error:
            # Whoever began it lives and was faster, or an operator; another time nobody will ask for it.
            _LOGGER.info("%s: %s", resource.name, error)
        else:
            _LOGGER.info("%s: %s is %s", resource.name, unit, "committed" if committed else "backed out")
            resource.told(unit)


def sweep(resource: SQLite, coordinator: UnitCoordinator, prefix: str) -> None:
    """Drop the rows of units that have ended, should there be many."""
    # Rows before outcomes: a row says that its unit was prepared, so one that is not in doubt now has ended.
    units = resource.remembered(prefix)
    if len(units) > _ROWS_KEPT:
        outcomes = coordinator.outcomes(units)
        ended = [unit for unit, outcome in zip(units, outcomes, strict=True) if outcome not in ("active", "in doubt")]
        resource.forget(ended)


class Recoveries:
    """What one connection does about branches that are left behind; for any thread."""

    def __init__(self, coordinator: Callable[[], UnitCoordinator]) -> None:
        self._coordinator = coordinator
        self._lock = threading.Lock()
        self._recovered: dict[Resource, float] = {}
        self._prefix = ""
        self._pending: dict[Resource, set[str]] = {}
        self._verdicts: dict[str, bool] = {}
        """Units that wait for what their one-phase database has decided, and whether it has committed."""
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._closed = False

    def before_use(self, resource: Resource) -> None:
        """Look after a database the first time a unit is to use it, and then now and then.

        Raises:
            DatabaseUnavailable, TwoPhaseUnavailable: The first time; nothing was done.
        """
        with self._lock:
            recovered = self._recovered.get(resource)
            if recovered is not None and time.monotonic() - recovered < _AGAIN_S:
                return
            self._recovered[resource] = time.monotonic()
        try:
            if recovered is None:
                resource.check()
            self._recover(resource)
            if recovered is None and isinstance(resource, SQLite):
                sweep(resource, self._coordinator(), self._prefix)
        except SQLAlchemyError as error:
            _LOGGER.warning("%s: what was left there is not ended yet: %s", resource.name, problem_of(error))
        except EntrepotError:
            with self._lock:
                self._recovered.pop(resource, None)
            if recovered is None:
                raise

    def _recover(self, resource: Resource) -> set[str]:
        coordinator = self._coordinator()
        if not self._prefix:
            self._prefix = coordinator.prefix()
        return recover(resource, coordinator, self._prefix)

    def later(self, resources: Sequence[Resource], transaction_id: str) -> None:
        """Something of a unit is left at these databases: go on with it beside the program."""
        with self._lock:
            for resource in resources:
                if resource.two_phase or isinstance(resource, SQLite):
                    self._pending.setdefault(resource, set()).add(transaction_id)
        self._start()

    def tell_later(self, transaction_id: str, *, commit: bool) -> None:
        """The queue manager does not know yet what a one-phase database has decided."""
        with self._lock:
            self._verdicts[transaction_id] = commit
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._closed or self._thread is not None or not (self._pending or self._verdicts):
                return
            self._thread = threading.Thread(target=self._go_on, name="entrepot-recovery", daemon=True)
            self._thread.start()

    def _go_on(self) -> None:
        pause_s = _BACKGROUND_S
        while True:
            self._wake.wait(pause_s)
            pause_s = min(pause_s * 1.5, _BACKGROUND_S_MAX)
            try:
                self._one_round()
            except ConnectionClosed:
                self._closed = True
            except (EntrepotError, SQLAlchemyError) as error:
                _LOGGER.info("recovery of global units goes on: %s", problem_of(error))
            with self._lock:
                if self._closed or not (self._pending or self._verdicts):
                    self._thread = None
                    return

    def _one_round(self) -> None:
        with self._lock:
            verdicts = dict(self._verdicts)
            pending = {resource: set(waiting) for resource, waiting in self._pending.items()}
        for transaction_id, commit_it in verdicts.items():
            coordinator = self._coordinator()
            (outcome,) = coordinator.outcomes([transaction_id])
            if outcome == "in doubt":
                coordinator.resolve(transaction_id, commit=commit_it)
            if outcome != "active":  # its connection has broken, and the queue manager will notice
                with self._lock:
                    self._verdicts.pop(transaction_id, None)
        for resource, waiting in pending.items():
            ended = waiting - self._recover(resource)
            with self._lock:
                self._pending[resource] -= ended
                if not self._pending[resource]:
                    del self._pending[resource]

    def close(self) -> None:
        """Leave the rest to the next connection, or to the queue manager itself."""
        self._closed = True
        self._wake.set()
