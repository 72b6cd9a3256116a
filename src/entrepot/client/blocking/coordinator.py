# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/coordinator.py by tools/blocking: change that one.
"""Global units of work, as whoever drives the databases sees their queue manager."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from entrepot.client.blocking.calls import Calls
from entrepot.client.read_ahead import RemoteUnit
from entrepot.engine.global_units import Outcome, UnfinishedDecision
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import Fenced, UnitNotInDoubt
from entrepot.limits import TRANSACTIONS_ASKED_MAX
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb


class ClientCoordinator:
    """One client's; transaction ids are texts here, because databases want them so."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._prepared: dict[str, RemoteUnit] = {}

    def prefix(self) -> str:
        """How the transaction ids of the queue manager begin, and nobody else's."""
        prefix: bytes = (self._ask([]))[0]
        return prefix.decode()

    def begin(self) -> tuple[RemoteUnit, str]:
        """A unit of work and its transaction id."""
        calls = self._calls
        unit = calls.begin()
        unit.transaction_id = calls.ask_in(unit, Verb.BEGIN_GLOBAL, verbs.UnitPayload)
        return unit, unit.transaction_id.decode()

    def decide(self, unit: RemoteUnit, branches: Sequence[Branch], *, counted: bool = True) -> None:
        name, forms = unit.transaction_id, _forms(branches)
        self._calls.end(
            unit,
            UnitState.COMMITTED,
            lambda number: (Verb.DECIDE, verbs.Decide(number, name, forms, used=unit.deliveries, counted=counted)),
        )

    def prepare(self, unit: RemoteUnit, branches: Sequence[Branch], *, counted: bool = True) -> None:
        name, forms = unit.transaction_id, _forms(branches)
        self._calls.end(
            unit,
            UnitState.PREPARED,
            lambda number: (Verb.PREPARE, verbs.Prepare(number, name, unit.deliveries, forms, counted)),
        )
        self._prepared[name.decode()] = unit

    def resolve(self, transaction_id: str, *, commit: bool) -> None:
        unit = self._prepared.pop(transaction_id, None)
        try:
            self._tell(Verb.DECIDE, verbs.Decide(0, transaction_id.encode(), [], commit))
        except UnitNotInDoubt:
            # Recovery was faster; what the unit had is back on its queue all the same.
            self._give_back(unit, commit)
            raise
        self._give_back(unit, commit)

    def _give_back(self, unit: RemoteUnit | None, commit: bool) -> None:
        if unit is not None and not commit:
            self._calls.give_back(unit)

    def _tell(self, verb: int, frame: Any) -> Any:
        """Ask something about what was decided before; who has been fenced since still has to bring it to its end."""
        try:
            return self._calls.ask(verb, frame)
        except Fenced:
            fresh = self._calls.line.another()
        try:
            return Calls(fresh).ask(verb, frame)
        finally:
            fresh.close()

    def outcomes(self, transaction_ids: Sequence[str]) -> list[Outcome]:
        found: list[Outcome] = []
        for begin in range(0, len(transaction_ids), TRANSACTIONS_ASKED_MAX):
            found += (self._ask(transaction_ids[begin : begin + TRANSACTIONS_ASKED_MAX]))[1]
        return found

    def unfinished(self, resource: str) -> list[UnfinishedDecision]:
        """The first few hundred; the others are told when these are finished."""
        forms = (self._ask([], resource))[2]
        return [UnfinishedDecision(name, Branch(resource, branch_id, number), "") for name, branch_id, number in forms]

    def undecided(self, resource: str) -> list[tuple[str, int]]:
        """The first few hundred, as of `unfinished`."""
        return [(name.decode(), number) for name, number in (self._ask([], resource))[3]]

    def _ask(self, transaction_ids: Sequence[str], resource: str = "") -> Any:
        frame = verbs.Outcomes([name.encode() for name in transaction_ids], resource)
        return self._tell(Verb.OUTCOMES, frame)

    def finish(self, transaction_id: str, branch_ids: Sequence[str]) -> None:
        """Nobody waits for it: should it get lost, the databases are asked once more."""
        frame = verbs.Forget(transaction_id.encode(), list(branch_ids))
        self._calls.line.do_if_connected(partial(self._calls.core.tell, Verb.FORGET, frame))

    def met_otherwise(self, transaction_id: str, branch_id: str, outcome: str) -> None:
        self._tell(Verb.FORGET, verbs.Forget(transaction_id.encode(), [branch_id], outcome))


def _forms(branches: Sequence[Branch]) -> list[tuple[str, str, int]]:
    return [(branch.resource, branch.branch_id, branch.number) for branch in branches]
