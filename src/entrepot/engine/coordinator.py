# SPDX-License-Identifier: Apache-2.0
"""The coordinator's verbs on a host, for any thread: what drives databases calls these.

Transaction ids are texts out here, because databases want them so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from entrepot.engine.global_units import Outcome, UnfinishedDecision
from entrepot.engine.host import Host
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import Unit


class HostCoordinator:
    """What `channels.client_coordinator.ClientCoordinator` is at the other end of a channel."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._units = host.manager.global_units

    def prefix(self) -> str:
        """How the transaction ids of this queue manager begin."""
        return self._units.prefix.decode()

    def begin(self) -> tuple[Unit, str]:
        with self._host.lock:
            unit = self._units.begin()
        return unit, unit.transaction_id.decode()

    def decide(self, unit: Unit, branches: Sequence[Branch], *, counted: bool = True) -> None:
        unit.forgiving = not counted
        self._host.durably(partial(self._units.decide, unit, branches))

    def prepare(self, unit: Unit, branches: Sequence[Branch], *, counted: bool = True) -> None:
        unit.forgiving = not counted
        self._host.durably(partial(self._units.prepare, unit, branches))

    def resolve(self, transaction_id: str, *, commit: bool) -> None:
        self._host.durably(partial(self._units.resolve, transaction_id.encode(), commit=commit))

    def outcomes(self, transaction_ids: Sequence[str]) -> list[Outcome]:
        with self._host.lock:
            return [self._units.outcome(transaction_id.encode()) for transaction_id in transaction_ids]

    def unfinished(self, resource: str) -> list[UnfinishedDecision]:
        with self._host.lock:
            return list(self._units.unfinished(resource))

    def undecided(self, resource: str) -> list[tuple[str, int]]:
        with self._host.lock:
            return [(name.decode(), number) for name, number in self._units.undecided(resource)]

    def finish(self, transaction_id: str, branch_ids: Sequence[str]) -> None:
        with self._host.lock:
            self._units.finish(transaction_id.encode(), branch_ids)

    def met_otherwise(self, transaction_id: str, branch_id: str, outcome: str) -> None:
        self._host.durably(partial(self._units.met_otherwise, transaction_id.encode(), branch_id, outcome))

    # --- for operators ----------------------------------------------------------------------

    def report(self) -> list[dict[str, Any]]:
        """Everything that is not settled everywhere, oldest first within each kind."""
        with self._host.lock:
            return _report(self._host)

    def resolve_heuristically(self, transaction_id: bytes, *, commit: bool) -> None:
        """An operator decides a prepared unit instead of its coordinator, and that is remembered."""
        in_doubt = self._host.manager.in_doubt
        self._host.durably(partial(in_doubt.resolve, transaction_id, commit=commit, heuristic=True))

    def forget(self, transaction_id: bytes) -> None:
        """Let go of a heuristic outcome, or of a decision that some database will never ask for."""
        with self._host.lock:
            self._units.forget(transaction_id)


def _report(host: Host) -> list[dict[str, Any]]:
    units, in_doubt = host.manager.global_units, host.manager.in_doubt
    found = []
    for transaction_id in in_doubt.units:
        branches, user = units.prepared.get(transaction_id, ([], ""))
        row = _row(transaction_id, "prepared", [(each, _waiting(each)) for each in branches])
        since = units.since.get(transaction_id, 0.0)
        age_s = round(max(host.manager.clock.now() - since, 0.0), 3) if since else None
        found.append(row | {"user": user, "age_s": age_s})
    for transaction_id, (unfinished, user) in units.decisions.items():
        row = _row(transaction_id, "committed", [(each, "unfinished") for each in unfinished.values()])
        found.append(row | {"user": user})
    for heuristic in units.heuristics.values():
        branch = Branch(heuristic.resource, heuristic.branch_id)
        found.append(_row(heuristic.transaction_id, f"heuristic: {heuristic.outcome}", [(branch, heuristic.outcome)]))
    return found


def _waiting(branch: Branch) -> str:
    return "prepared" if branch.branch_id else "committed or not: ask it"


def _row(transaction_id: bytes, state: str, branches: Sequence[tuple[Branch, str]]) -> dict[str, Any]:
    return {
        "transaction_id": transaction_id.hex(),
        "global_unit": transaction_id.decode(errors="replace") if transaction_id.startswith(b"entrepot-") else "",
        "state": state,
        "user": "",
        "age_s": None,
        "branches": [
            {"resource": branch.resource, "branch_id": branch.branch_id, "state": its_state}
            for branch, its_state in branches
            if branch.resource
        ],
    }
