# SPDX-License-Identifier: Apache-2.0
"""The coordinator's verbs at the end of a line to a server, for the blocking client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from entrepot.errors import Fenced, UnitNotInDoubt
from entrepot.limits import TRANSACTIONS_ASKED_MAX
from entrepot.queues.global_units import Outcome, Unfinished
from entrepot.queues.unit_of_work import UnitState
from entrepot.recovery_log.record import Branch
from entrepot.wire import verbs
from entrepot.wire.verbs import Verb

if TYPE_CHECKING:
    from entrepot.channels.client import Client
    from entrepot.channels.client_core import RemoteUnit


class ClientCoordinator:
    """What `queues.coordinator.HostCoordinator` is for the embedded binding."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._prepared: dict[str, RemoteUnit] = {}

    @property
    def prefix(self) -> str:
        prefix: bytes = self._ask([])[0]
        return prefix.decode()

    def begin(self) -> tuple[RemoteUnit, str]:
        unit, transaction_id = self._client.begin_global()
        unit.transaction_id = transaction_id
        return unit, transaction_id.decode()

    def decide(self, unit: RemoteUnit, branches: Sequence[Branch], *, counted: bool = True) -> None:
        name, forms = unit.transaction_id, _forms(branches)
        self._client.end_global(
            unit,
            UnitState.COMMITTED,
            lambda number: (Verb.DECIDE, verbs.Decide(number, name, forms, used=unit.deliveries, counted=counted)),
        )

    def prepare(self, unit: RemoteUnit, branches: Sequence[Branch], *, counted: bool = True) -> None:
        name, forms = unit.transaction_id, _forms(branches)
        self._client.end_global(
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
            self._client.give_back(unit)

    def _tell(self, verb: int, frame: Any) -> Any:
        """Ask something about what was decided before; who has been fenced since still has to bring it to its end."""
        try:
            return self._client.ask(verb, frame)
        except Fenced:
            fresh = self._client.unclaimed()
        try:
            return fresh.ask(verb, frame)
        finally:
            fresh.close()

    def outcomes(self, transaction_ids: Sequence[str]) -> list[Outcome]:
        found: list[Outcome] = []
        for begin in range(0, len(transaction_ids), TRANSACTIONS_ASKED_MAX):
            found += self._ask(transaction_ids[begin : begin + TRANSACTIONS_ASKED_MAX])[1]
        return found

    def unfinished(self, resource: str) -> list[Unfinished]:
        """The first few hundred; the others are told when these are finished."""
        forms = self._ask([], resource)[2]
        return [Unfinished(name, Branch(resource, branch_id, number), "") for name, branch_id, number in forms]

    def undecided(self, resource: str) -> list[tuple[str, int]]:
        """The first few hundred, as of `unfinished`."""
        return [(name.decode(), number) for name, number in self._ask([], resource)[3]]

    def _ask(self, transaction_ids: Sequence[str], resource: str = "") -> Any:
        frame = verbs.Outcomes([name.encode() for name in transaction_ids], resource)
        return self._tell(Verb.OUTCOMES, frame)

    def finish(self, transaction_id: str, branch_ids: Sequence[str]) -> None:
        """Nobody waits for it: should it get lost, the databases are asked once more."""
        self._client.tell(Verb.FORGET, verbs.Forget(transaction_id.encode(), list(branch_ids)))

    def met_otherwise(self, transaction_id: str, branch_id: str, outcome: str) -> None:
        self._tell(Verb.FORGET, verbs.Forget(transaction_id.encode(), [branch_id], outcome))

    # --- for operators ----------------------------------------------------------------------

    def report(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.manage("in_doubt")
        return found

    def resolve_heuristically(self, transaction_id: bytes, *, commit: bool) -> None:
        self._client.manage("resolve", transaction_id=transaction_id, commit=commit)

    def forget(self, transaction_id: bytes) -> None:
        self._client.manage("forget", transaction_id=transaction_id)


def _forms(branches: Sequence[Branch]) -> list[tuple[str, str, int]]:
    return [(branch.resource, branch.branch_id, branch.number) for branch in branches]
