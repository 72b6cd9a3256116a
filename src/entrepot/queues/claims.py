# SPDX-License-Identifier: Apache-2.0
"""Claims: who acts under a name, so that a worker which was given up cannot go on beside its successor.

A claim is a name and an epoch. Who comes with a higher epoch fences whoever
holds the name, and no lower one ever gets it back, not even after a
restart: the highest epoch of each name is a persistent message on
SYSTEM.CLAIMS.QUEUE, found by its correlation id, so that log, checkpoints
and backups have it like any other.

    {"kind": "NAME", "name": "flow/orders/1", "epoch": 7, "user": "app"}

Who holds what, and the orders that were given, are in memory only
(docs/decisions/0019-claims.md).
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from entrepot import checks
from entrepot.errors import EntrepotError, Fenced, InvalidArgument, LimitExceeded, NotAuthorized
from entrepot.limits import (
    CLAIM_NAME_CHARACTERS_MAX,
    CLAIM_STATUS_BYTES_MAX,
    CLAIMS_PER_USER_MAX,
    DEPTH_MAX,
    EPOCH_MAX,
)
from entrepot.message import Message
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import CLAIMS_QUEUE
from entrepot.queues.settlement import Settlement
from entrepot.queues.unit_of_work import Unit, UnitState

if TYPE_CHECKING:
    from entrepot.queues.queue_manager import QueueManager

_LOGGER = logging.getLogger("entrepot")

FORMAT = "CLAIM"
_KEY_BYTES = 24
_NO_STATUS = b"{}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A name, and who acts under it."""

    name: str
    epoch: int
    """No lower one may act under the name any more."""
    connected: bool
    """Whether somebody holds it just now."""
    user: str
    """Whose name it is; besides him only administrators may claim it."""
    application: str = ""
    since: float = 0.0
    """When it was taken, in seconds since 1970; 0.0: not since the queue manager was started."""
    renewed_at: float = 0.0
    status: dict[str, Any] = field(default_factory=dict)
    """What its holder has said of itself with the last renewal."""
    order: str = ""
    """What its holder hears with the next renewal."""


class Holder(Protocol):
    """A connection, as far as claims know it."""

    user: str
    administrator: bool
    application: str
    token: bytes
    """The same for all connections that one client makes after another; empty: it cannot be told."""

    def fence(self, error: Fenced) -> None:
        """Let it do nothing more; called under the engine's lock."""


class _State(msgspec.Struct, frozen=True):
    """What is remembered for good."""

    kind: Literal["NAME", "PREFIX"]
    name: str
    epoch: int
    user: str

    @property
    def key(self) -> bytes:
        return hashlib.sha256(f"{self.kind}\n{self.name}".encode()).digest()[:_KEY_BYTES]


class _Known:
    """A name or a prefix in memory."""

    __slots__ = (
        "_durable", "_unit", "application", "epoch", "holder", "order", "renewed_at", "since", "status", "user",
    )  # fmt: skip

    def __init__(self, user: str, epoch: int = 0) -> None:
        self.user = user
        self.epoch = epoch
        self._durable = epoch
        self._unit: tuple[Unit, int] | None = None
        self.holder: Holder | None = None
        self.application = ""
        self.since = 0.0
        self.renewed_at = 0.0
        self.status = _NO_STATUS
        self.order = ""

    @property
    def is_durable(self) -> bool:
        """Whether a restart would find its epoch."""
        if self._unit is not None and self._unit[0].state is UnitState.COMMITTED:
            self._durable, self._unit = max(self._durable, self._unit[1]), None
        return self._durable >= self.epoch

    def written_by(self, unit: Unit) -> None:
        """A unit of work that brings the epoch to disk is on its way."""
        self._unit = (unit, self.epoch)


class Claims:
    """All claims of a queue manager; for the engine's lock, like everything that it has."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._names: dict[str, _Known] = {}
        self._given: dict[str, _Known] = {}
        """The highest number that was given out for each prefix."""
        self._of_user: Counter[str] = Counter()
        self._loaded = False

    def claim(self, holder: Holder, name: str, epoch: int, status: bytes = b"") -> tuple[str, Settlement | None]:
        """Take the right to act under a name, or renew it; returns the order that was given to it.

        Whoever held it with a lower epoch is fenced at once. With an epoch that
        was never claimed, it counts when the settlement is done.

        Raises:
            Fenced: Somebody has it with a higher epoch, or with this one on another connection.
            NotAuthorized: The name is another user's.
        """
        name, epoch = require_name(name), require_epoch(epoch)
        known = self._own(name, holder, "claim")
        if epoch < known.epoch or (epoch == known.epoch and not _may_renew(known.holder, holder)):
            raise Fenced(name, epoch, known.epoch)
        before, now = known.epoch, self._manager.clock.now()
        former, known.holder, known.epoch = known.holder, holder, epoch
        if former is not holder:
            known.since, known.application = now, holder.application
            if former is not None:
                self._fence(former, Fenced(name, before, epoch))
        if epoch > before:
            known.since, known.order, known.status = now, "", _NO_STATUS
        known.renewed_at = now
        known.status = status or known.status
        return known.order, self._secure("NAME", name, known)

    def retire(self, holder: Holder, name: str, epoch: int) -> Settlement | None:
        """Let nobody below an epoch act under a name any more; who does so now is fenced at once.

        Raises:
            NotAuthorized: The name is another user's.
        """
        name, epoch = require_name(name), require_epoch(epoch)
        known = self._own(name, holder, "retire")
        if epoch > known.epoch:
            before, known.epoch = known.epoch, epoch
            former, known.holder = known.holder, None
            known.order = ""
            known.status = _NO_STATUS  # it was said by somebody who does not act any more
            if former is not None:
                self._fence(former, Fenced(name, before, epoch))
        return self._secure("NAME", name, known)

    def next_epoch(self, holder: Holder, prefix: str) -> tuple[int, Settlement | None]:
        """A number that is higher than all that were ever claimed, retired or given out under a prefix."""
        prefix = require_prefix(prefix)
        self._require_ready()
        highest = max((known.epoch for name, known in self._names.items() if name.startswith(prefix)), default=0)
        for other, known in self._given.items():
            if other.startswith(prefix) or prefix.startswith(other):
                highest = max(highest, known.epoch)
        if highest >= EPOCH_MAX:
            raise LimitExceeded(f"epochs under {prefix!r}", highest + 1, EPOCH_MAX)
        given = self._given.get(prefix)
        if given is None:
            given = self._given[prefix] = self._new(holder)
        given.epoch = highest + 1
        return given.epoch, self._secure("PREFIX", prefix, given)

    def instruct(self, holder: Holder, prefix: str, order: str) -> int:
        """Give an order to all that were claimed since the start and begin with a prefix; returns how many that are.

        Raises:
            NotAuthorized: One of them is another user's. Nobody has heard anything.
        """
        prefix = require_prefix(prefix)
        if not isinstance(order, str) or len(order) > CLAIM_NAME_CHARACTERS_MAX or not order.isprintable():
            expected = f"at most {CLAIM_NAME_CHARACTERS_MAX} printable characters"
            raise InvalidArgument("order", checks.shortened(order), expected)
        self._require_ready()
        found = [known for name, known in self._names.items() if name.startswith(prefix) and known.since]
        for known in found:
            _require_own(holder, known, prefix, "instruct")
        for known in found:
            known.order = order
        return len(found)

    def all(self, holder: Holder, prefix: str = "") -> list[Claim]:
        """What begins with a prefix, in the order of names; of others' names an administrator alone is told."""
        prefix = require_prefix(prefix)
        self._require_ready()
        return [
            _shown(name, known)
            for name, known in sorted(self._names.items())
            if name.startswith(prefix) and (holder.administrator or known.user == holder.user)
        ]

    def leave(self, holder: Holder) -> None:
        """A connection has ended: nobody holds what it held, and who comes back with the same epoch may have it."""
        for known in self._names.values():
            if known.holder is holder:
                known.holder = None

    def _fence(self, holder: Holder, error: Fenced) -> None:
        self.leave(holder)
        holder.fence(error)

    # --- whose they are -----------------------------------------------------------------------

    def _own(self, name: str, holder: Holder, authority: str) -> _Known:
        """What is known of a name, if somebody may act under it."""
        self._require_ready()
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = self._new(holder)
        _require_own(holder, known, name, authority)
        return known

    def _new(self, holder: Holder) -> _Known:
        if self._of_user[holder.user] >= CLAIMS_PER_USER_MAX:
            raise LimitExceeded(f"claims of {holder.user}", CLAIMS_PER_USER_MAX + 1, CLAIMS_PER_USER_MAX)
        self._of_user[holder.user] += 1
        return _Known(holder.user)

    # --- on the queue -------------------------------------------------------------------------

    def _secure(self, kind: Literal["NAME", "PREFIX"], name: str, known: _Known) -> Settlement | None:
        """Bring an epoch to disk unless it is there; who fences is answered only then."""
        if known.is_durable:
            return None
        manager = self._manager
        state = _State(kind, name, known.epoch, known.user)
        unit = manager.internal_unit()
        unit.counted = False
        try:
            # What a write that is under way has put is not there yet. It stays, and the highest counts.
            while manager.get(CLAIMS_QUEUE, Criteria(correlation_id=state.key), unit)[0] is not None:
                pass
            stored = Message(msgspec.json.encode(state), correlation_id=state.key, format=FORMAT)
            manager.put(CLAIMS_QUEUE, stored, persistent=True, unit=unit)
        except EntrepotError:
            manager.back_out(unit)
            raise
        settlement = manager.commit_or_undo(unit)
        known.written_by(unit)
        return settlement

    def _require_ready(self) -> None:
        """Read what the queue has, once: from then on memory knows it better."""
        self._manager.group_commit.require_running()
        if self._loaded:
            return
        for state in self._stored():
            shelf = self._names if state.kind == "NAME" else self._given
            if state.name not in shelf:
                shelf[state.name] = _Known(state.user, state.epoch)
                self._of_user[state.user] += 1
            elif state.epoch > shelf[state.name].epoch:
                shelf[state.name] = _Known(state.user, state.epoch)
        self._loaded = True

    def _stored(self) -> Iterator[_State]:
        for message in self._manager.browse(CLAIMS_QUEUE, None, None, DEPTH_MAX)[0]:
            try:
                yield msgspec.json.decode(message.body, type=_State)
            except msgspec.MsgspecError as error:
                # Somebody has put it there by hand; it cannot lower what others say.
                _LOGGER.warning("message %s on %s is no claim: %s", message.message_id.hex(), CLAIMS_QUEUE, error)


def _may_renew(held_by: Holder | None, holder: Holder) -> bool:
    # A client that has connected again is known by its token: we may not have noticed yet that it was gone.
    return held_by is None or held_by is holder or (bool(holder.token) and held_by.token == holder.token)


def _require_own(holder: Holder, known: _Known, name: str, authority: str) -> None:
    if known.user != holder.user and not holder.administrator:
        raise NotAuthorized(holder.user, name, authority)


def _shown(name: str, known: _Known) -> Claim:
    return Claim(
        name,
        known.epoch,
        known.holder is not None,
        known.user,
        known.application,
        known.since,
        known.renewed_at,
        msgspec.json.decode(known.status, type=dict[str, Any]),
        known.order,
    )


# --- what applications hand us --------------------------------------------------------------------


def require_name(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= CLAIM_NAME_CHARACTERS_MAX or not value.isprintable():
        expected = f"1 to {CLAIM_NAME_CHARACTERS_MAX} printable characters"
        raise InvalidArgument("name", checks.shortened(value), expected)
    return value


def require_prefix(value: object) -> str:
    """How names begin; empty: any."""
    return value if isinstance(value, str) and not value else require_name(value)


def require_epoch(value: object) -> int:
    return checks.whole_number("epoch", value, 1, EPOCH_MAX)


def status_form(value: object) -> bytes:
    """What a holder says of itself, as it is kept; None is nothing new."""
    if value is None:
        return b""
    try:
        form = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArgument("status", str(error), "a mapping that JSON can write") from error
    return require_status(form)


def require_status(form: bytes) -> bytes:
    """The same, of what came from elsewhere."""
    if len(form) > CLAIM_STATUS_BYTES_MAX:
        raise InvalidArgument("status", f"{len(form)} bytes", f"at most {CLAIM_STATUS_BYTES_MAX} bytes of JSON")
    try:
        if form:
            msgspec.json.decode(form, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidArgument("status", str(error), "a mapping, as JSON") from error
    return form
