# SPDX-License-Identifier: Apache-2.0
"""Messages that came before they were asked for, and the units of work that hold them, as a client knows them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from entrepot.compiled import compiled
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import ConnectionLost, EntrepotError
from entrepot.message import Message
from entrepot.server.wire import verbs


class RemoteUnit:
    """A unit of work at the other end of a connection; it begins there with its first verb."""

    __slots__ = (
        "aheads", "asked", "behind", "left", "messages", "number", "opened", "problem", "state", "transaction_id",
        "used",
    )  # fmt: skip

    def __init__(self, number: int, opened: int) -> None:
        self.number = number
        self.opened = opened
        """Which connection it belongs to: it does not survive that one."""
        self.state = UnitState.ACTIVE
        self.used = False
        self.transaction_id = b""
        """Of a global one."""
        self.aheads: list[HeldAhead] = []
        """Where it was asked for messages that come ahead; where it has some from, they say so."""
        self.messages = 0
        """Those, and its puts."""
        self.asked: Any = None
        """Where the answer to its commit goes, while that is on its way."""
        self.left: list[tuple[HeldAhead, int]] = []
        """How far it has used which of its consumers, when others may have got further since."""
        self.problem: EntrepotError | None = None
        """Why a commit that was on its way has failed."""
        self.behind: list[RemoteUnit] = []
        """Units that had what came before its messages: it is committed after them or not at all."""

    @property
    def deliveries(self) -> list[tuple[int, int]]:
        """How far it has used each of its consumers, for the verb that ends it."""
        return [(ahead.number, ahead.given) for ahead in self.aheads if ahead.unit is self]


def ended_with(unit: RemoteUnit, error: EntrepotError, *, unit_active: bool) -> None:
    """A unit's end was refused, or nobody knows."""
    if isinstance(error, ConnectionLost):
        unit.state = UnitState.UNKNOWN
    elif not unit_active:
        unit.state = UnitState.BACKED_OUT


class ReadAhead:
    """Messages that came by credit and wait to be used."""

    __slots__ = (
        "_lost", "arrived", "credit_step", "error", "given", "number", "opened", "queue", "told", "wake", "wanted",
    )  # fmt: skip

    def __init__(self, number: int, queue: str, wanted: verbs.Wanted | None, credit: int, opened: int) -> None:
        self.number = number
        self.queue = queue
        self.wanted = wanted
        self.opened = opened
        self.arrived: deque[Message] = deque()
        self.credit_step = max(credit // 2, 1)
        self.given = 0
        """How many of its messages the application has got so far."""
        self.told = 0
        """How many of these the server knows of."""
        self.error: EntrepotError | None = None
        self._lost = False
        self.wake: Callable[[], None] | None = None

    @property
    def has_some(self) -> bool:
        """Whether a message is here."""
        return bool(self.arrived)

    @property
    def count(self) -> int:
        """How many messages are here."""
        return len(self.arrived)

    def arrive(self, messages: Sequence[Message]) -> None:
        self.arrived.extend(messages)
        if self.wake is not None:
            self.wake()

    def lose(self, error: EntrepotError) -> None:
        """Nothing more comes by this connection."""
        self.error = error
        self._lost = True
        if self.wake is not None:
            self.wake()

    @property
    def is_lost(self) -> bool:
        """Whether the server has taken back what was not settled."""
        return self._lost

    def use(self) -> bool:
        """What was given last has been used; whether the server should hear of it now."""
        if self._lost:
            return False
        self.given += 1
        return self.given - self.told >= self.credit_step

    def next(self) -> Message | None:
        """What came first, if anything is left."""
        while self.arrived:
            message = self.arrived.popleft()
            # What a server has lost sight of it puts back if it is persistent, so this one would come twice.
            # Nonpersistent ones it has let go of: they are here or nowhere.
            if not self._lost or not message.persistent:
                return message
        return None


_compiled = compiled("transport")
if not TYPE_CHECKING and _compiled is not None:
    ReadAhead = _compiled.ReadAhead


class HeldAhead(ReadAhead):
    """Messages that came by credit for units of work: the server keeps every one until its unit ends."""

    __slots__ = ("_expire_at", "_read_ahead", "granted", "limit", "settled", "unit")

    def __init__(self, number: int, queue: str, wanted: verbs.Wanted | None, credit: int, opened: int) -> None:
        super().__init__(number, queue, wanted, credit, opened)
        self._read_ahead = credit
        self._expire_at: deque[float] = deque()
        """When each of those that have arrived will be of no use any more."""
        self.granted = 0
        """How many the server was asked for so far."""
        self.settled = 0
        """How many of these have left with their unit."""
        self.limit = 0
        """How many may be asked for and not settled: MAXUMSGS."""
        self.unit: RemoteUnit | None = None
        """Which has what was handed out and is not settled."""

    def arrive(self, messages: Sequence[Message]) -> None:
        self._expire_at.extend(
            [math.inf if one.expiry_s is None else time.monotonic() + one.expiry_s for one in messages]
        )
        super().arrive(messages)

    @property
    def has_expired(self) -> bool:
        """Whether the next message has lain here too long; the server knows what becomes of those."""
        return bool(self.arrived) and self._expire_at[0] <= time.monotonic()

    def next_few(self, limit: int) -> list[Message]:
        """What came first, for the application; a message that was tried before comes alone.

        It may be what ended its process, and then its neighbours should not be in the same unit again.
        """
        found: list[Message] = []
        now = 0.0
        while self.arrived and len(found) < limit:
            if found:
                if self.arrived[0].backout_count or found[0].backout_count:
                    break
                if self._expire_at[0] != math.inf:
                    now = now or time.monotonic()
                    if self._expire_at[0] <= now:
                        break
            self._expire_at.popleft()
            found.append(self.arrived.popleft())
        self.given += len(found)
        return found

    def lose(self, error: EntrepotError) -> None:
        self.arrived.clear()
        self._expire_at.clear()
        super().lose(error)

    def resize(self, read_ahead: int) -> None:
        """Let so many come before they are asked for, from the next ones on."""
        self._read_ahead = read_ahead
        self.credit_step = max(read_ahead // 2, 1)

    def begin(self, limit: int | None) -> None:
        """The server has agreed to hold so many; None: it does not know how."""
        self.limit = limit or 0
        self.granted = min(self._read_ahead, self.limit)

    def more(self) -> int:
        """How many to ask for now: half of what is read ahead or more, or any when none would come else."""
        ahead = self.granted - self.given
        if ahead > self._read_ahead - self.credit_step:
            return 0
        more = min(self._read_ahead - ahead, self.limit - self.granted + self.settled)
        self.granted += more
        return more
