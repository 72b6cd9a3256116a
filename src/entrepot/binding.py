# SPDX-License-Identifier: Apache-2.0
"""What a connection stands on, so that one `Connection` serves every binding.

Units of work are the binding's own: `Unit` in this process, `RemoteUnit` at
the other end of a channel. A connection only hands them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from entrepot.errors import EntrepotError
from entrepot.message import Message, PutInUnit
from entrepot.mqsc import Answer
from entrepot.queues.claims import Claim
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import Subscription
from entrepot.queues.global_units import Outcome, Unfinished
from entrepot.queues.unit_of_work import UnitState
from entrepot.recovery_log.record import Branch


class RunningUnit(Protocol):
    """A unit of work, here or at the other end of a channel."""

    number: int
    state: UnitState


class Incoming(Protocol):
    """Messages that come one after another; the last one is at hand until one of the other verbs ends that."""

    def get(self, wait_s: float) -> Message | None:
        """The next message; nothing is at hand when this is called."""

    def done(self) -> None:
        """What is at hand was used; the queue manager may hear of it later, with others."""

    def ack(self) -> None:
        """What is at hand was used, and has left for good when this returns."""

    def retry(self, delay_s: float) -> None:
        """What is at hand returns as tried, and can be got after so long."""

    def reject(self, reason: str) -> None:
        """What is at hand moves to the backout queue or the dead-letter queue; or returns as tried, and raises."""

    def close(self, *, tried: bool) -> None:
        """Let no more come. What is at hand, if `tried`, returns as tried, all the rest untried."""


class UnitReader(Protocol):
    """Messages that come one after another, each in the unit of work that asks for it."""

    def get(self, unit: Any, limit: int, wait_s: float) -> list[Message]: ...

    def look_ahead(self, count: int) -> None: ...

    def close(self) -> None: ...


class Outgoing(Protocol):
    """Puts that nobody waits for one by one."""

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None,
        priority: int | None,
        wait_s: float,
    ) -> bytes: ...

    def wait(self) -> None:
        """Return when all of them are where they belong, or raise the first refusal."""


class Coordinator(Protocol):
    """Global units of work, as whoever drives the databases sees their queue manager."""

    @property
    def prefix(self) -> str:
        """How the transaction ids of the queue manager begin, and nobody else's."""

    def begin(self) -> tuple[Any, str]:
        """A unit of work and its transaction id."""

    def decide(self, unit: Any, branches: Sequence[Branch], *, counted: bool = True) -> None:
        """Commit a unit whose branches are all prepared; durable when this returns."""

    def prepare(self, unit: Any, branches: Sequence[Branch], *, counted: bool = True) -> None:
        """Leave the outcome to a database that commits in one phase."""

    def resolve(self, transaction_id: str, *, commit: bool) -> None:
        """That database has committed, or not."""

    def outcomes(self, transaction_ids: Sequence[str]) -> list[Outcome]: ...

    def unfinished(self, resource: str) -> list[Unfinished]: ...

    def undecided(self, resource: str) -> list[tuple[str, int]]:
        """Units in doubt until it is known whether this one-phase database has committed, and which one it was."""

    def finish(self, transaction_id: str, branch_ids: Sequence[str]) -> None: ...

    def met_otherwise(self, transaction_id: str, branch_id: str, outcome: str) -> None: ...

    def report(self) -> list[dict[str, Any]]: ...

    def resolve_heuristically(self, transaction_id: bytes, *, commit: bool) -> None: ...

    def forget(self, transaction_id: bytes) -> None: ...


class Binding(Protocol):
    """What a connection stands on: a host in this process, or a client's end of a channel."""

    @property
    def opened(self) -> int:
        """Counts connections: temporary queues and open units do not survive a change of it."""

    @property
    def failure(self) -> EntrepotError | None: ...

    @property
    def coordinator(self) -> Coordinator: ...

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        unit: Any = None,
        wait_s: float = 0.0,
    ) -> bytes: ...

    def put_many(self, unit: Any, puts: Sequence[PutInUnit], *, answered: bool = False) -> list[bytes]:
        """Put messages in a unit of work; their ids. A refusal is told at its end, or now."""

    def get(
        self, name: str, criteria: Criteria | None = None, *, unit: Any = None, wait_s: float = 0.0
    ) -> Message | None: ...

    def get_many(
        self, name: str, limit: int, criteria: Criteria | None, *, unit: Any, wait_s: float = 0.0
    ) -> list[Message]: ...

    def get_group(self, name: str, criteria: Criteria, *, unit: Any, wait_s: float = 0.0) -> list[Message] | None: ...

    def request(
        self,
        name: str,
        message: Message,
        reply_queue: str,
        timeout_s: float,
        *,
        persistent: bool | None,
        priority: int | None,
        opened: int,
    ) -> Message | None:
        """None: the connection that has made the reply queue is no more; nothing was put."""

    def put_without_answer(
        self, name: str | Sequence[str], message: Message, *, persistent: bool | None, priority: int | None
    ) -> bytes:
        """Put a message at once; where an answer would have to be waited for, it is not."""

    def pipeline(self) -> Outgoing: ...

    def consume(self, name: str, criteria: Criteria | None, read_ahead: int, units: set[Any]) -> Incoming:
        """Messages that come of themselves; `units` are those that the connection has open."""

    def reader(self, name: str, criteria: Criteria | None, read_ahead: int) -> UnitReader: ...

    def browse(
        self, name: str, criteria: Criteria | None, place: tuple[int, int] | None, limit: int
    ) -> tuple[list[Message], tuple[int, int] | None]: ...

    def begin(self) -> Any: ...

    def commit(self, unit: Any, *, counted: bool = True) -> None: ...

    def back_out(self, unit: Any, *, counted: bool = True) -> None: ...

    def prepare(self, unit: Any, transaction_id: bytes) -> None: ...

    def resolve(self, transaction_id: bytes, *, commit: bool) -> None: ...

    def in_doubt(self) -> list[bytes]: ...

    def subscribe(self, wanted: Subscription, *, new_only: bool = False) -> Subscription:
        """Open a subscription, and make it if there is none; returns it as it is."""

    def leave_subscription(self, name: str) -> None: ...

    def unsubscribe(self, name: str) -> None: ...

    def claimant(self, units: set[Any], application: str) -> ClaimedBinding:
        """The same binding for one connection alone, so that it can be fenced; `units` are those it has open."""

    def mqsc(self, script: str, source: str) -> list[Answer]: ...

    def make_dynamic(self, model: str, pattern: str) -> str: ...

    def remove_temporary(self, names: Iterable[str]) -> None: ...

    @property
    def manager_name(self) -> str: ...

    def dump(self) -> str:
        """All objects as an MQSC script."""

    def back_up(self, destination: Path) -> dict[str, Any]:
        """Copy the queue manager to a folder on its machine; what was copied."""

    def status(self) -> dict[str, int | float | str]: ...

    def checkpoint(self) -> None: ...

    def close(self) -> None: ...


class ClaimedBinding(Binding, Protocol):
    """One whose connection may act under claims; `queues.claims` says what these verbs promise."""

    def claim(self, name: str, epoch: int, status: bytes) -> str: ...

    def retire(self, name: str, epoch: int) -> None: ...

    def instruct(self, prefix: str, order: str) -> int: ...

    def claims(self, prefix: str) -> list[Claim]: ...

    def next_epoch(self, prefix: str) -> int: ...
