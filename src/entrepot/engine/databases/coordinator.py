# SPDX-License-Identifier: Apache-2.0
"""What recovery asks of the queue manager that decides: near or far, from any thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from entrepot.engine.global_units import Outcome, UnfinishedDecision


class UnitCoordinator(Protocol):
    """Global units of work, as whoever drives the databases sees their queue manager."""

    def prefix(self) -> str:
        """How the transaction ids of the queue manager begin, and no other's."""

    def resolve(self, transaction_id: str, *, commit: bool) -> None:
        """A database that commits in one phase has committed, or not."""

    def outcomes(self, transaction_ids: Sequence[str]) -> list[Outcome]: ...

    def unfinished(self, resource: str) -> list[UnfinishedDecision]: ...

    def undecided(self, resource: str) -> list[tuple[str, int]]:
        """Units in doubt until it is known whether this one-phase database has committed, and which one it was."""

    def finish(self, transaction_id: str, branch_ids: Sequence[str]) -> None: ...

    def met_otherwise(self, transaction_id: str, branch_id: str, outcome: str) -> None: ...
