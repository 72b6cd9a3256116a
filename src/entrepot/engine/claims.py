# SPDX-License-Identifier: Apache-2.0
"""Claims: who acts under a name, so that a worker which was given up cannot go on beside its successor.

A claim is a name and an epoch. A claim with a higher epoch fences the
present holder of the name, and no lower one ever gets it back, not even
after a restart: the highest epoch of each name is a record of the log like
a definition (`ClaimRecord`), which no put and no command can write.
Claiming a name takes SET authority for it (OBJTYPE(CLAIM)), and raises its
epoch by a bounded step, so that no user can use up the epochs of others.

Holders and the orders that were given are in memory only
(docs/decisions/0019-claims.md, 0027-limits-per-user.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from entrepot import checks
from entrepot.engine.definitions import CLAIMS_QUEUE, ClaimRecord, LocalQueue
from entrepot.engine.quotas import CLAIMS
from entrepot.engine.settlement import Settlement
from entrepot.errors import EntrepotError, Fenced, InvalidArgument, LimitExceeded, NotAuthorized
from entrepot.limits import (
    CLAIM_NAME_CHARACTERS_MAX,
    CLAIM_STATUS_BYTES_MAX,
    DEPTH_MAX,
    EPOCH_MAX,
    EPOCH_STEP_MAX,
)

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

_LOGGER = logging.getLogger("entrepot")

AUTHORITY = "SET"
"""What claiming, retiring, instructing and numbering take, for the name or the prefix."""
_NO_STATUS = b"{}"
_RECORD_BYTES = 4096
_EPOCH_BELIEVED_MAX = 2**53
"""No earlier release got here by counting; what it has beyond was claimed to spend the epochs of others."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A name, and who acts under it."""

    name: str
    epoch: int
    """No lower one may act under the name any more."""
    connected: bool
    """Whether somebody holds it just now."""
    user: str
    """The user who claimed it last."""
    application: str = ""
    since: float = 0.0
    """When it was taken, in seconds since 1970; 0.0: not since the queue manager was started."""
    renewed_at: float = 0.0
    status: dict[str, Any] = field(default_factory=dict)
    """What its holder has said of itself with the last renewal."""
    order: str = ""
    """What its holder hears with the next renewal."""


class ClaimHolder(Protocol):
    """A connection, as far as claims know it."""

    user: str
    administrator: bool
    application: str
    token: bytes
    """The same for all connections that one client makes after another; empty: it cannot be told."""

    def may_claim(self, name: str) -> bool:
        """Whether the user has authority for a name, or for names that begin so."""

    def fence(self, error: Fenced) -> None:
        """Let it do nothing more; called under the engine's lock."""


class _StoredClaims(msgspec.Struct, frozen=True):
    """What an earlier release has left on its queue."""

    kind: Literal["NAME", "PREFIX"]
    name: str
    epoch: int
    user: str


class _ClaimEntry:
    """A name in memory."""

    __slots__ = (
        "application", "durable", "epoch", "given", "holder", "order", "renewed_at", "since", "status", "user",
    )  # fmt: skip

    def __init__(self, user: str, epoch: int = 0, given: int = 0) -> None:
        self.user = user
        self.epoch = epoch
        """The highest that was claimed or retired."""
        self.given = given
        """The highest number that was given for all names that begin so."""
        self.durable = (epoch, given)
        """What a restart would find."""
        self.holder: ClaimHolder | None = None
        self.application = ""
        self.since = 0.0
        self.renewed_at = 0.0
        self.status = _NO_STATUS
        self.order = ""


class Claims:
    """All claims of a queue manager; for the engine's lock, like everything that it has."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._names: dict[str, _ClaimEntry] = {}
        """Names and prefixes."""
        self._held: dict[ClaimHolder, set[str]] = {}
        self._loaded = False

    def claim(self, holder: ClaimHolder, name: str, epoch: int, status: bytes = b"") -> tuple[str, Settlement | None]:
        """Take the right to act under a name, or renew it; returns the order that was given to it.

        A holder with a lower epoch is fenced at once. With an epoch that was
        never claimed, it counts when the settlement is done.

        Raises:
            Fenced: The name is held with a higher epoch, or with this one on another connection.
            NotAuthorized: The user has no authority for the name.
            LimitExceeded: The epoch is too far above those that are known.
        """
        name, epoch = require_name(name), require_epoch(epoch)
        known = self._own(name, holder)
        if epoch < known.epoch or (epoch == known.epoch and not _may_renew(known.holder, holder)):
            raise Fenced(name, epoch, known.epoch)
        self._require_step(name, known, epoch)
        self._remember(name, known, holder)
        before, now = known.epoch, self._manager.clock.now()
        former, known.epoch = known.holder, epoch
        if former is not holder:
            if former is not None:
                self._fence(former, Fenced(name, before, epoch))
            known.holder = holder
            self._held.setdefault(holder, set()).add(name)
            known.since, known.application, known.user = now, holder.application, holder.user
        if epoch > before:
            known.since, known.order, known.status = now, "", _NO_STATUS
        known.renewed_at = now
        known.status = status or known.status
        return known.order, self._secure(name, known)

    def retire(self, holder: ClaimHolder, name: str, epoch: int) -> Settlement | None:
        """Let no epoch below this one act under a name any more; a holder with such an epoch is fenced at once.

        Raises:
            NotAuthorized: The user has no authority for the name.
            LimitExceeded: The epoch is too far above those that are known.
        """
        name, epoch = require_name(name), require_epoch(epoch)
        known = self._own(name, holder)
        self._require_step(name, known, epoch)
        self._remember(name, known, holder)
        if epoch > known.epoch:
            before, known.epoch = known.epoch, epoch
            former = known.holder
            known.order = ""
            known.status = _NO_STATUS  # it was said by a holder that does not act any more
            if former is not None:
                self._fence(former, Fenced(name, before, epoch))
        return self._secure(name, known)

    def next_epoch(self, holder: ClaimHolder, prefix: str) -> tuple[int, Settlement | None]:
        """A number that is higher than all that were ever claimed, retired or given out under a prefix.

        Raises:
            NotAuthorized: The user has no authority for names that begin so.
        """
        prefix = require_prefix(prefix)
        known = self._own(prefix, holder)
        highest = self._highest(prefix)
        if highest >= EPOCH_MAX:
            raise LimitExceeded(f"epochs under {prefix!r}", highest + 1, EPOCH_MAX)
        self._remember(prefix, known, holder)
        known.given = highest + 1
        return known.given, self._secure(prefix, known)

    def _highest(self, prefix: str) -> int:
        """The highest epoch of all names that begin so, and of all numbers that were given for them."""
        highest = 0
        for name, known in self._names.items():
            if name.startswith(prefix):
                highest = max(highest, known.epoch, known.given)
            elif prefix.startswith(name):
                highest = max(highest, known.given)
        return highest

    def instruct(self, holder: ClaimHolder, prefix: str, order: str) -> int:
        """Give an order to all that were claimed since the start and begin with a prefix; returns how many that are.

        Raises:
            NotAuthorized: The user has no authority for one of them. None has heard anything.
        """
        prefix = require_prefix(prefix)
        if not isinstance(order, str) or len(order) > CLAIM_NAME_CHARACTERS_MAX or not order.isprintable():
            expected = f"at most {CLAIM_NAME_CHARACTERS_MAX} printable characters"
            raise InvalidArgument("order", checks.shortened(order), expected)
        self._require_ready()
        found = {name: known for name, known in self._names.items() if name.startswith(prefix) and known.since}
        for name in found:
            _require_authority(holder, name)
        for known in found.values():
            known.order = order
        return len(found)

    def all(self, holder: ClaimHolder, prefix: str = "") -> list[Claim]:
        """What begins with a prefix, in the order of names, as far as the user may claim it."""
        prefix = require_prefix(prefix)
        self._require_ready()
        return [
            _shown(name, known)
            for name, known in sorted(self._names.items())
            if known.epoch and name.startswith(prefix) and (holder.administrator or holder.may_claim(name))
        ]

    def leave(self, holder: ClaimHolder) -> None:
        """A connection has ended: its names have no holder, and the same epoch may be claimed again."""
        for name in self._held.pop(holder, ()):
            if self._names[name].holder is holder:
                self._names[name].holder = None

    def _fence(self, holder: ClaimHolder, error: Fenced) -> None:
        self.leave(holder)
        holder.fence(error)

    # --- what may be ------------------------------------------------------------------------------

    def _own(self, name: str, holder: ClaimHolder) -> _ClaimEntry:
        """What is known of a name, if the holder may act under it; one that is new is not remembered yet."""
        self._require_ready()
        _require_authority(holder, name)
        return self._names.get(name) or _ClaimEntry(holder.user)

    def _require_step(self, name: str, known: _ClaimEntry, epoch: int) -> None:
        """Let an epoch rise by a bounded step, above what was claimed or what was given out for the name."""
        if epoch <= known.epoch + EPOCH_STEP_MAX:
            return
        given = max((other.given for prefix, other in self._names.items() if name.startswith(prefix)), default=0)
        limit = max(known.epoch, given) + EPOCH_STEP_MAX
        if epoch > limit:
            raise LimitExceeded(f"epoch of claim {name!r}", epoch, limit)

    def _remember(self, name: str, known: _ClaimEntry, holder: ClaimHolder) -> None:
        if name not in self._names:
            self._manager.quotas.hold(CLAIMS, holder.user, name, limited=not holder.administrator)
            self._names[name] = known

    # --- on disk ----------------------------------------------------------------------------------

    def _secure(self, name: str, known: _ClaimEntry) -> Settlement | None:
        """Bring an epoch to disk unless it is there; a claim that fences is answered only then."""
        state = (known.epoch, known.given)
        if known.durable == state:
            return None
        manager = self._manager
        record = ClaimRecord(name=name, epoch=known.epoch, given=known.given, user=known.user)
        manager.require_room(_RECORD_BYTES, reserved=True)

        def apply() -> None:
            known.durable = state
            manager.objects.put(record)

        return manager.group_commit.promise([manager.objects.record(record)], apply, lambda error: error)

    def _require_ready(self) -> None:
        """Read what the records say, once: from then on memory knows it better."""
        self._manager.group_commit.require_running()
        if self._loaded:
            return
        if "" in self._manager.objects.claims:
            self._load(self._manager.objects.claims.values())
        else:
            self.move_from_queue()

    def _load(self, records: Iterable[ClaimRecord]) -> None:
        for record in records:
            self._names[record.name] = _ClaimEntry(record.user, record.epoch, record.given)
            if record.user:
                self._manager.quotas.hold(CLAIMS, record.user, record.name, limited=False)
        self._loaded = True

    # --- from an earlier release ------------------------------------------------------------------

    def move_from_queue(self) -> list[Settlement]:
        """Take over what an earlier release kept on a queue, once and never again: others could write there.

        The record of the empty name says that it was done.
        """
        manager = self._manager
        if "" in manager.objects.claims:
            return []
        records: dict[str, ClaimRecord] = {}
        there = CLAIMS_QUEUE in manager.objects.queues
        for state in self._left_on_queue() if there else ():
            before = records.get(state.name, ClaimRecord(name=state.name, user=state.user))
            field = "epoch" if state.kind == "NAME" else "given"
            records[state.name] = replace(before, **{field: max(getattr(before, field), state.epoch)})
        records.setdefault("", ClaimRecord(name=""))
        size = _RECORD_BYTES * (len(records) + 1)
        manager.require_room(size, reserved=True)  # for all of them, or none is moved
        settlements = [settled for record in records.values() if (settled := manager.administration.redefine(record))]
        if there:
            deleted = manager.administration.delete(LocalQueue.kind, CLAIMS_QUEUE, purge=True)
            settlements += [deleted] if deleted is not None else []
        self._load(records.values())
        return settlements

    def _left_on_queue(self) -> Iterator[_StoredClaims]:
        for message in self._manager.browse(CLAIMS_QUEUE, None, None, DEPTH_MAX)[0]:
            problem: object = f"its epoch is above {_EPOCH_BELIEVED_MAX}"
            try:
                state = msgspec.json.decode(message.body, type=_StoredClaims)
                _ = require_name(state.name) if state.kind == "NAME" else require_prefix(state.name)
                if state.epoch <= _EPOCH_BELIEVED_MAX:
                    yield state
                    continue
            except (msgspec.MsgspecError, EntrepotError) as error:
                problem = error
            _LOGGER.warning("message %s on %s is no claim: %s", message.message_id.hex(), CLAIMS_QUEUE, problem)


def _may_renew(held_by: ClaimHolder | None, holder: ClaimHolder) -> bool:
    # A client that has connected again is known by its token: we may not have noticed yet that it was gone.
    return held_by is None or held_by is holder or (bool(holder.token) and held_by.token == holder.token)


def _require_authority(holder: ClaimHolder, name: str) -> None:
    if not holder.administrator and not holder.may_claim(name):
        raise NotAuthorized(holder.user, f"claim {name!r}", AUTHORITY)


def _shown(name: str, known: _ClaimEntry) -> Claim:
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
