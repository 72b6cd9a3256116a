# SPDX-License-Identifier: Apache-2.0
"""The embedded binding: a host, and the verbs that a connection needs beyond those of a host."""

from __future__ import annotations

import getpass
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from entrepot.errors import EntrepotError, Fenced, QueueFull, RequestTimedOut, SpillFailed
from entrepot.message import Message, PutInUnit
from entrepot.mqsc import Answer, dump, run_script
from entrepot.queues import media
from entrepot.queues.batch_get import get_up_to
from entrepot.queues.batch_put import put_all
from entrepot.queues.claims import Claim
from entrepot.queues.coordinator import HostCoordinator
from entrepot.queues.criteria import Criteria
from entrepot.queues.host import Host
from entrepot.queues.queue_manager import QueueManager
from entrepot.queues.retrying import retry_later
from entrepot.queues.settlement import Settlement
from entrepot.queues.unit_of_work import Unit, UnitState
from entrepot.recovery_log.record import Branch
from entrepot.security.originators import RecordedOriginators

_FULL_RETRY_S = 0.005
_ABANDON_S = 0.5
_LAST_VERBS = ("remove_temporary", "leave_subscription", "abandon", "back_out_if_active", "close")
"""What a connection still has to do when it is fenced."""

Answered = TypeVar("Answered")


class EmbeddedHost(Host):
    """What `channels.client.Client` is for the other bindings."""

    opened = 1
    """Its one connection never breaks."""

    on_close: Callable[[], None] | None = None
    """What has to end before it does."""

    def _restarted(self, manager: QueueManager) -> None:
        # A program that opens a folder has its messages of others, too, and they cause no more here than at a server.
        manager.objects.originators = RecordedOriginators(manager.objects, self.path)

    def close(self) -> None:
        if self.on_close is not None:
            self.on_close()
        super().close()

    @property
    def coordinator(self) -> HostCoordinator:
        return HostCoordinator(self)

    def mqsc(self, script: str, source: str) -> list[Answer]:
        return run_script(script, self, source)

    @property
    def manager_name(self) -> str:
        return self.settings.name

    def dump(self) -> str:
        return dump(self)

    def back_up(self, destination: Path) -> dict[str, Any]:
        report: dict[str, Any] = msgspec.to_builtins(media.backup(self, destination))
        return report

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
    ) -> Message:
        del opened  # it is always the same
        message_id = self.put(name, message, persistent=persistent, priority=priority)
        reply = self.get(reply_queue, Criteria(correlation_id=message_id), wait_s=timeout_s)
        if reply is None:
            raise RequestTimedOut(name, timeout_s)
        return reply

    def put_many(self, unit: Unit, puts: Sequence[PutInUnit], *, answered: bool = False) -> list[bytes]:
        del answered  # it always is
        with self.lock:
            message_ids = put_all(self.manager, unit, puts)
        if any(message.delay_s for _, _, _, message in puts):
            self.wake_housekeeper()
        return message_ids

    def get_many(
        self, name: str, limit: int, criteria: Criteria | None, *, unit: Unit, wait_s: float = 0.0
    ) -> list[Message]:
        first = self.get(name, criteria, unit=unit, wait_s=wait_s)
        if first is None:
            return []
        with self.lock:
            return get_up_to(self.manager, name, criteria, unit, limit, got=[first])

    def put_without_answer(
        self, name: str | Sequence[str], message: Message, *, persistent: bool | None, priority: int | None
    ) -> bytes:
        return self.put(name, message, persistent=persistent, priority=priority)

    def pipeline(self) -> EmbeddedPipeline:
        return EmbeddedPipeline(self)

    def consume(self, name: str, criteria: Criteria | None, read_ahead: int, units: set[Any]) -> EmbeddedIncoming:
        del read_ahead  # nothing is far away here
        return EmbeddedIncoming(self, name, criteria, units)

    def retry(self, unit: Unit, delay_s: float) -> None:
        """See `retry_later`."""
        with self.lock:
            retry_later(self.manager, unit, delay_s)
        self.wake_housekeeper()

    def reject(self, unit: Unit, reason: str) -> None:
        """See `Consequences.reject`; if neither queue takes them, its messages return as tried."""
        try:
            self.durably(lambda: self.manager.consequences.reject(unit, reason))
        except EntrepotError:
            self.back_out_if_active(unit)
            raise

    def abandon(self, unit: Unit) -> None:
        """Back out a unit whose loop was left, maybe by the garbage collector while this very thread has the lock."""
        if self.lock.acquire(timeout=_ABANDON_S):
            self.lock.release()
            self.back_out_if_active(unit)
        else:
            threading.Thread(target=self.back_out_if_active, args=(unit,), daemon=True).start()

    def back_out_if_active(self, unit: Unit, *, counted: bool = True) -> None:
        with self.lock:
            if unit.state is UnitState.ACTIVE and self.failure is None:
                self.manager.back_out(unit, counted=counted)

    def reader(self, name: str, criteria: Criteria | None, read_ahead: int) -> EmbeddedReader:
        del read_ahead
        return EmbeddedReader(self, name, criteria)

    def claimant(self, units: set[Any], application: str) -> Any:
        """A `ClaimedHost`."""
        return ClaimedHost(self, EmbeddedHolder(self, units, application))


class EmbeddedHolder:
    """A connection of this process, as claims know it; whoever runs a queue manager administers it."""

    administrator = True
    token = b""

    def __init__(self, host: Host, units: Iterable[Any], application: str) -> None:
        self._host = host
        self._units = units
        """Those that the connection has open; it is the connection that adds to them."""
        self.guards: set[Unit] = set()
        """Under which it waits for messages outside of units of work."""
        self.user = current_user()
        self.application = application
        self.fenced: Fenced | None = None

    def require_unfenced(self) -> None:
        """Refuse every verb once somebody else acts in its place.

        Raises:
            Fenced
        """
        if self.fenced is not None:
            raise Fenced(self.fenced.name, self.fenced.epoch, self.fenced.current)

    def may_claim(self, name: str) -> bool:  # noqa: ARG002  # a Holder's; this one administers
        return True

    def fence(self, error: Fenced) -> None:
        self.fenced = error
        manager = self._host.manager
        units = {unit for unit in (*self._units, *self.guards) if unit.state is UnitState.ACTIVE}
        # First nobody waits under them any more, then they end: what returns must not come to their own readers.
        for queue in manager.objects.queues.values():
            for waiter in queue.waiters.all():
                if waiter.unit in units:
                    waiter.give_up(error)
        for unit in units:
            manager.back_out(unit)

    # --- claims ---------------------------------------------------------------------------------

    def claim(self, name: str, epoch: int, status: bytes) -> str:
        return self._durably(lambda: self._host.manager.claims.claim(self, name, epoch, status))

    def retire(self, name: str, epoch: int) -> None:
        self._durably(lambda: (None, self._host.manager.claims.retire(self, name, epoch)))

    def next_epoch(self, prefix: str) -> int:
        return self._durably(lambda: self._host.manager.claims.next_epoch(self, prefix))

    def instruct(self, prefix: str, order: str) -> int:
        with self._host.lock:
            return self._host.manager.claims.instruct(self, prefix, order)

    def claims(self, prefix: str) -> list[Claim]:
        with self._host.lock:
            return self._host.manager.claims.all(self, prefix)

    def leave(self) -> None:
        """The connection is closed."""
        with self._host.lock:
            self._host.manager.claims.leave(self)

    def _durably(self, verb: Callable[[], tuple[Answered, Settlement | None]]) -> Answered:
        answers: list[Answered] = []

        def run() -> Settlement | None:
            self.require_unfenced()
            answer, settlement = verb()
            answers.append(answer)
            return settlement

        self._host.durably(run)
        return answers[-1]


class ClaimedHost:
    """A host for one connection that acts under a claim; once it is fenced, its verbs are refused.

    Whatever a unit of work does is refused from that moment on. A verb outside
    of any that another thread has just begun may still be carried out.
    """

    def __init__(self, host: EmbeddedHost, holder: EmbeddedHolder) -> None:
        self._host = host
        self.holder = holder

    def __getattr__(self, name: str) -> Any:
        """All verbs of a host that are not different here."""
        found = getattr(self._host, name)
        return partial(self._guarded, found) if callable(found) and name not in _LAST_VERBS else found

    def _guarded(self, verb: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self.holder.require_unfenced()
        try:
            return verb(*arguments, **options)
        except EntrepotError as error:
            if error.outcome == "not_done":
                self.holder.require_unfenced()  # its unit has been backed out meanwhile, for instance
            raise

    def claimant(self, units: set[Any], application: str) -> ClaimedHost:  # noqa: ARG002  # it has them already
        return self

    def put(self, *arguments: Any, wait_s: float = 0.0, **options: Any) -> Any:
        """Put as a host does; not after having waited for room longer than it may."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                return self._guarded(self._host.put, *arguments, **options)
            except (QueueFull, SpillFailed):
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_FULL_RETRY_S)

    def get(self, name: str, criteria: Criteria | None = None, *, unit: Any = None, wait_s: float = 0.0) -> Any:
        message = self._guarded(self._host.get, name, criteria, unit=unit)
        if message is not None or wait_s <= 0:
            return message
        guard = unit or self._host.private_unit()
        self.holder.guards.add(guard)
        try:
            return self._guarded(self._host.get_when_it_comes, name, criteria, guard, wait_s)
        finally:
            self.holder.guards.discard(guard)

    def back_out(self, unit: Unit, *, counted: bool = True) -> None:
        if self.holder.fenced is None or unit.state is UnitState.ACTIVE:
            self._host.back_out(unit, counted=counted)

    @property
    def coordinator(self) -> ClaimedCoordinator:
        return ClaimedCoordinator(self._host, self._guarded)

    def get_many(self, name: str, limit: int, criteria: Criteria | None, **options: Any) -> Any:
        return self._guarded(EmbeddedHost.get_many, self, name, limit, criteria, **options)

    def request(self, *arguments: Any, **options: Any) -> Any:
        return self._guarded(EmbeddedHost.request, self, *arguments, **options)

    def put_without_answer(self, *arguments: Any, **options: Any) -> Any:
        return self.put(*arguments, **options)

    def pipeline(self) -> EmbeddedPipeline:
        return EmbeddedPipeline(self)

    def consume(self, name: str, criteria: Criteria | None, read_ahead: int, units: set[Any]) -> EmbeddedIncoming:
        del read_ahead
        self.holder.require_unfenced()
        return EmbeddedIncoming(self, name, criteria, units)

    def reader(self, name: str, criteria: Criteria | None, read_ahead: int) -> EmbeddedReader:
        del read_ahead
        self.holder.require_unfenced()
        return EmbeddedReader(self, name, criteria)

    # --- claims ---------------------------------------------------------------------------------

    def claim(self, name: str, epoch: int, status: bytes) -> str:
        return self.holder.claim(name, epoch, status)

    def retire(self, name: str, epoch: int) -> None:
        self.holder.retire(name, epoch)

    def instruct(self, prefix: str, order: str) -> int:
        return int(self._guarded(self.holder.instruct, prefix, order))

    def claims(self, prefix: str) -> list[Claim]:
        found: list[Claim] = self._guarded(self.holder.claims, prefix)
        return found

    def next_epoch(self, prefix: str) -> int:
        return self.holder.next_epoch(prefix)


class ClaimedCoordinator(HostCoordinator):
    """Decides nothing more once it is fenced. What was decided before comes to its end all the same."""

    def __init__(self, host: Host, guarded: Callable[..., Any]) -> None:
        super().__init__(host)
        self._guarded = guarded

    def begin(self) -> tuple[Unit, str]:
        begun: tuple[Unit, str] = self._guarded(super().begin)
        return begun

    def decide(self, unit: Unit, branches: Sequence[Branch], *, counted: bool = True) -> None:
        self._guarded(super().decide, unit, branches, counted=counted)

    def prepare(self, unit: Unit, branches: Sequence[Branch], *, counted: bool = True) -> None:
        self._guarded(super().prepare, unit, branches, counted=counted)


class EmbeddedPipeline:
    """Each put is carried out at once; only its refusal waits, as through a channel."""

    def __init__(self, host: Host | ClaimedHost) -> None:
        self._host = host
        self._refusal: EntrepotError | None = None

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None,
        priority: int | None,
        wait_s: float,
    ) -> bytes:
        try:
            return self._host.put(name, message, persistent=persistent, priority=priority, wait_s=wait_s)
        except EntrepotError as error:
            self._refusal = self._refusal or error
            return b""

    def wait(self) -> None:
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal


class EmbeddedIncoming:
    """One message after another, each in a unit of work of its own; nothing is read ahead."""

    def __init__(self, host: EmbeddedHost | ClaimedHost, name: str, criteria: Criteria | None, units: set[Any]) -> None:
        with host.lock:
            host.manager.readable(name)
        self._host = host
        self._name = name
        self._criteria = criteria
        self._units = units
        """Those that the connection has open: it backs them out when it is closed or fenced."""
        self._unit: Unit | None = None
        self._getting = False
        self._ended = False

    def get(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""
        if self._ended:
            return None
        unit: Unit = self._host.begin()
        self._unit = unit
        self._units.add(unit)
        self._getting = True
        message: Message | None = None
        try:
            message = self._host.get(self._name, self._criteria, unit=unit, wait_s=wait_s)
        finally:
            self._getting = False
            if message is None or self._ended:  # closed meanwhile, by another thread
                self._host.back_out_if_active(unit, counted=False)
                self._units.discard(unit)
                message = None
        return message

    def done(self) -> None:
        self.ack()

    def ack(self) -> None:
        unit = self._at_hand
        self._host.commit(unit)
        self._units.discard(unit)

    def retry(self, delay_s: float) -> None:
        unit = self._at_hand
        self._host.retry(unit, delay_s)
        self._units.discard(unit)

    def reject(self, reason: str) -> None:
        unit = self._at_hand
        try:
            self._host.reject(unit, reason)
        finally:
            self._units.discard(unit)

    @property
    def _at_hand(self) -> Unit:
        assert self._unit is not None
        return self._unit

    def close(self, *, tried: bool) -> None:  # noqa: ARG002  # its unit knows
        self._ended = True
        unit = self._unit
        if unit is not None and not self._getting:
            self._units.discard(unit)
            self._host.abandon(unit)


class EmbeddedReader:
    """Gets in units of work, one by one."""

    def __init__(self, host: EmbeddedHost | ClaimedHost, name: str, criteria: Criteria | None) -> None:
        self._host = host
        self._name = name
        self._criteria = criteria
        self._ended = False

    def get(self, unit: Unit, limit: int, wait_s: float) -> list[Message]:
        """The next messages, now in the unit; none when none comes within `wait_s`."""
        if self._ended:
            return []
        if limit > 1:
            found: list[Message] = self._host.get_many(self._name, limit, self._criteria, unit=unit, wait_s=wait_s)
            return found
        message = self._host.get(self._name, self._criteria, unit=unit, wait_s=wait_s)
        return [] if message is None else [message]

    def look_ahead(self, count: int) -> None:
        """Nothing comes before it is asked for."""

    def close(self) -> None:
        self._ended = True


def current_user() -> str:
    """Who runs this process; through a channel the server finds that out itself."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # a container may run under a number that has no name
