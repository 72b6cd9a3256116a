# SPDX-License-Identifier: Apache-2.0
"""The receiving end of a channel: batches from another queue manager are put on their queues, once.

A batch is one unit of work here: its messages arrive, and what this end
remembers moves on, with the same force of the log; then it is confirmed.
If the connection breaks before the end of the batch nothing has happened.
If it breaks after, the sender learns from our memory that it has.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from entrepot.channels import travel
from entrepot.channels.attempt import attempt
from entrepot.channels.channel_state import (
    BATCH_ID_BYTES,
    ChannelState,
    Role,
    SequenceMark,
    change_state,
    judge,
    read_state,
    sequence_after,
)
from entrepot.channels.started import started
from entrepot.channels.travel import DeliveryProblem
from entrepot.engine.definitions import Channel
from entrepot.engine.unit_of_work import Unit, UnitState
from entrepot.errors import (
    ChannelError,
    EntrepotError,
    FrameUnreadable,
    InvalidArgument,
    ProtocolError,
    RecoveryError,
    SequenceMismatch,
    UnitOfWorkError,
    UnknownVerb,
)
from entrepot.message import Message
from entrepot.server.session import Session
from entrepot.server.session_registry import Identity, SessionRegistry
from entrepot.server.wire.frame import VERSION, frame_bytes_max
from entrepot.server.wire.verbs import (
    ChannelConfirm,
    ChannelEndOfBatch,
    ChannelHello,
    ChannelMessage,
    ChannelWelcome,
    Empty,
    Payload,
    Verb,
)

if TYPE_CHECKING:
    from entrepot.channels.receivers import Receivers

_LOGGER = logging.getLogger("entrepot")
_NOTHING = Empty()
_FAST_AT_ONCE = 1000


class ReplyingConnection(Protocol):
    """What a receiver needs of its connection."""

    reader: Any
    address: str

    def send(self, verb: int, number: int, payload: Payload) -> None: ...

    def close(self, error: EntrepotError | None = None) -> None: ...

    def hold(self) -> None: ...

    def resume(self) -> None: ...


class _Arrival(NamedTuple):
    """A message that wants to get somewhere."""

    message: Message
    name: str
    put_time: float
    in_batch: bool


class Receiver:
    """One connection of a sender; on the loop's thread only."""

    __slots__ = (
        "_attempts",
        "_bytes",
        "_committing",
        "_fast_unit",
        "_given_up",
        "_holding",
        "_link",
        "_messages",
        "_receivers",
        "_retry",
        "_session",
        "_since",
        "_unit",
        "_waiting",
        "batches",
        "closed",
        "definition",
        "discarded",
        "fast",
        "hello",
        "memory",
        "messages",
        "on_settled",
        "registry",
        "sequence",
    )  # fmt: skip

    def __init__(
        self,
        registry: SessionRegistry,
        link: ReplyingConnection,
        hello: ChannelHello,
        definition: Channel,
        identity: Identity,
        receivers: Receivers,
    ) -> None:
        self.registry = registry
        self.definition = definition
        self.hello = hello
        self.closed = False
        self.batches = self.messages = self._bytes = 0
        self.discarded = 0
        """Nonpersistent messages that neither their queue nor the dead-letter queue took."""
        self.fast = definition.nonpersistent_fast and hello.nonpersistent_fast
        self.memory = ChannelState(Role.RECEIVER, definition.name, hello.manager)
        self.sequence = 0
        """Of the last message that has come, committed or not."""
        self._link = link
        self._receivers = receivers
        self._session = Session(registry, identity, f"{hello.channel} from {hello.manager}", "CHANNEL")
        self._fast_unit: Unit | None = None
        self._since = registry.engine.manager.clock.now()
        self._unit: Unit | None = None
        self._messages = 0
        """Messages in the unit."""
        self._committing: Unit | None = None
        self.on_settled: list[Callable[[], None]] = []
        """Whoever waits for the end of the commit under way."""
        self._holding = False
        self._waiting: deque[tuple[int, Any]] | None = deque()
        """Frames that came while something had to be waited for; None when nothing has."""
        self._attempts = 0
        self._given_up: set[str] = set()
        """Queues that were waited for in vain during this batch."""
        self._retry: Any = None
        link.reader.frame_bytes_max = frame_bytes_max(definition.body_bytes_max)
        self._meet()

    @property
    def key(self) -> tuple[str, str]:
        return self.definition.name, self.hello.manager

    @property
    def is_committing(self) -> bool:
        return self._committing is not None and self._committing.state is UnitState.ENDING

    # --- the beginning --------------------------------------------------------------------------

    def _meet(self) -> None:
        """Tell the sender what we remember; not before an older connection's last batch is settled."""
        if self.closed:
            return
        committing = self._receivers.committing(self.key)
        if committing is not None:
            committing.on_settled.append(self._meet)
            return
        manager = self.registry.engine.manager
        hello = self.hello
        try:
            with self.registry.host.lock:
                self.memory = read_state(manager, Role.RECEIVER, *self.key)
        except EntrepotError as error:
            self.end(error)
            return
        self.sequence = self.memory.sequence
        before = SequenceMark(hello.sequence, hello.batch)
        in_doubt = SequenceMark(hello.in_doubt_sequence, hello.in_doubt_batch) if hello.in_doubt_batch else None
        agreed = judge(before, in_doubt, self.memory.mark) != "mismatch"
        if agreed:
            # The older connection ends before the answer: what it has not read yet never counts.
            self._receivers.enter(self)
        definition = self.definition
        self._link.send(
            Verb.CHANNEL_WELCOME,
            0,
            ChannelWelcome(
                VERSION,
                self.registry.host.settings.name,
                self.memory.sequence,
                self.memory.batch,
                definition.body_bytes_max,
                definition.heartbeat_s,
                definition.batch_size,
                self.fast,
            ),
        )
        if not agreed:
            self._receivers.refuse(self)
            theirs = f"{before}, in doubt {in_doubt}" if in_doubt else str(before)
            mismatch = SequenceMismatch(definition.name, str(self.memory), f"{theirs} at {hello.manager}")
            _LOGGER.error("%s: %s", self.registry.host.settings.name, mismatch)
            self.end(mismatch)
            return
        self._go_on()

    # --- frames ---------------------------------------------------------------------------------

    def handle(self, verb: int, number: int, payload: Any) -> None:  # noqa: ARG002
        """A frame has come.

        Raises:
            ProtocolError: It makes no sense here; the connection is to be closed.
        """
        if self.closed:
            return
        if self._waiting is not None:
            self._waiting.append((verb, payload))
            return
        self._serve(verb, payload)

    def _serve(self, verb: int, payload: Any) -> None:
        if verb == Verb.CHANNEL_MESSAGE:
            self._message(payload)
        elif verb == Verb.CHANNEL_END_OF_BATCH:
            self._end_of_batch(payload)
        elif verb == Verb.CHANNEL_PING:
            self._link.send(Verb.ALIVE, 0, _NOTHING)
        elif verb == Verb.GOODBYE:
            self.end(None)
        else:
            raise UnknownVerb(verb)

    def _wait(self) -> None:
        """Keep frames back; the sender feels it as a connection that takes no more."""
        self._waiting = deque()
        self._holding = True
        self._link.hold()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        while waiting:
            if self.closed:
                return
            try:
                self._serve(*waiting.popleft())
            except ProtocolError as error:
                self.end(error)
                return
            if self._waiting is not None:
                self._waiting.extend(waiting)
                return
        if self._holding:
            self._holding = False
            self._link.resume()

    # --- messages -------------------------------------------------------------------------------

    def _message(self, payload: ChannelMessage) -> None:
        message = payload.message
        target = message.target_queue, message.target_manager
        try:
            arrived = travel.checked_message(message, self._session.identity.user)
        except InvalidArgument as error:
            raise FrameUnreadable(error.what) from None
        if not target[0] or (payload.sequence == 0 and (message.persistent or not self.fast)):
            raise FrameUnreadable("a message without a target, or a persistent one outside of the batch")
        if payload.sequence:
            self._next(payload.sequence)
        self.messages += 1
        self._bytes += len(message.body)
        name = travel.destination(message, self.registry.host.settings.name)
        self._deliver(_Arrival(arrived, name, message.put_time, payload.sequence != 0))

    def _next(self, sequence: int) -> None:
        expected = sequence_after(self.sequence, self.hello.sequence_wrap)
        if sequence != expected:
            raise FrameUnreadable(f"message {sequence} came where {expected} was to come")
        self.sequence = sequence
        if self._unit is None:
            self._unit = self.registry.engine.manager.internal_unit()
            self._messages = 0
        self._messages += 1
        if self._messages > self.definition.batch_size:
            raise FrameUnreadable(f"a batch of more than the agreed {self.definition.batch_size} messages")

    def _deliver(self, arrival: _Arrival) -> None:
        """Put a message where it wants to go, or wait for room there, or find it another place."""
        name = arrival.name
        try:
            self._authorize(name)
            self._plan(arrival)
            if self._given_up:
                self._given_up.discard(name)
        except (ChannelError, RecoveryError, UnitOfWorkError) as error:
            self.end(error)  # not the message's fault
        except EntrepotError as error:
            if error.retryable and name not in self._given_up and self._attempts < self.definition.retry_count:
                self._attempts += 1
                self._wait_for_room(arrival)
                return
            if error.retryable:
                self._given_up.add(name)
            self._bury(arrival, DeliveryProblem.of(error))
        self._attempts = 0

    def _authorize(self, name: str) -> None:
        """Refuse what the channel's user may not do; outside of the engine's lock, because refusals are written down.

        Raises:
            NotAuthorized
        """
        self._session.require_put(name)

    def _plan(self, arrival: _Arrival) -> None:
        manager = self.registry.engine.manager
        unit = self._unit_of(arrival)
        with self.registry.host.lock:
            route = travel.find_route(manager, arrival.name)
            travel.plan_arrival(manager, unit, route, arrival.name, arrival.message, arrival.put_time)

    def _unit_of(self, arrival: _Arrival) -> Unit:
        """The batch's unit of work or, for messages outside of it, one that ends with this turn of the loop."""
        if arrival.in_batch:
            assert self._unit is not None
            return self._unit
        if self._fast_unit is not None and len(self._fast_unit.puts) >= _FAST_AT_ONCE:
            self._put_fast()
        if self._fast_unit is None:
            self._fast_unit = self.registry.engine.manager.internal_unit()
            self.registry.loop.call_soon(self._put_fast)
        return self._fast_unit

    def _put_fast(self) -> None:
        unit, self._fast_unit = self._fast_unit, None
        if unit is None or self.registry.host.failure is not None:
            return
        manager = self.registry.engine.manager
        try:
            self.registry.engine.run(lambda: manager.commit_or_undo(unit), _ignored)
        except EntrepotError as error:
            self.discarded += len(unit.puts)
            _LOGGER.warning("channel %s: nonpersistent messages discarded: %s", self.definition.name, error)

    def _wait_for_room(self, arrival: _Arrival) -> None:
        if self._waiting is None:
            self._wait()
        self._retry = self.registry.loop.call_later(self.definition.retry_ms / 1000, self._once_more, arrival)

    def _once_more(self, arrival: _Arrival) -> None:
        self._retry = None
        if self.closed:
            return
        # The sender must not take our patience for death.
        self._link.send(Verb.ALIVE, 0, _NOTHING)
        self._deliver(arrival)
        if self._retry is None and not self.closed:
            self._go_on()

    def _bury(self, arrival: _Arrival, problem: DeliveryProblem) -> None:
        manager = self.registry.engine.manager
        name = arrival.name if "@" in arrival.name else f"{arrival.name}@{self.registry.host.settings.name}"
        _LOGGER.warning("channel %s: no delivery to %s: %s", self.definition.name, name, problem.what)
        unit = self._unit_of(arrival)
        try:
            with self.registry.host.lock:
                travel.plan_undeliverable(manager, unit, arrival.message, name, problem, arrival.put_time)
        except EntrepotError as error:
            if arrival.message.persistent:
                # It may not be lost, and cannot stay: let the sender keep it.
                self.end(error)
            else:
                self.discarded += 1

    # --- the end of a batch -----------------------------------------------------------------------

    def _end_of_batch(self, payload: ChannelEndOfBatch) -> None:
        unit = self._unit
        if unit is None or self._committing is not None:
            raise FrameUnreadable("the end of a batch that has not begun")
        if payload.sequence != self.sequence or len(payload.batch) != BATCH_ID_BYTES:
            raise FrameUnreadable(f"a batch ends with message {payload.sequence}, the last was {self.sequence}")
        now = self.registry.engine.manager.clock.now()
        after = self.memory.followed_by(self.hello.manager, SequenceMark(payload.sequence, payload.batch), now)
        self._unit = None
        self._given_up.clear()
        self._commit(unit, after)

    def _commit(self, unit: Unit, after: ChannelState) -> None:
        """Let the batch happen together with our memory of it, then tell the sender."""
        manager = self.registry.engine.manager
        self._committing = unit
        commit = change_state(manager, unit, self.memory, after, partial(manager.commit, unit))
        attempt(self.registry, commit, partial(self._committed, unit, after))

    def _committed(self, unit: Unit, after: ChannelState, error: EntrepotError | None) -> None:
        self._committing = None
        self._receivers.settled(self)
        waiting, self.on_settled = self.on_settled, []
        for call in waiting:
            self.registry.loop.call_soon(call)
        if error is not None:
            _LOGGER.warning("channel %s: batch not committed: %s", self.definition.name, error)
            self.registry.engine.back_out(unit)
            self.end(error)
            return
        self.memory = after
        self.batches += 1
        if not self.closed:
            self._link.send(Verb.CHANNEL_CONFIRM, 0, ChannelConfirm(after.batch, after.sequence))

    # --- the end ----------------------------------------------------------------------------------

    def end(self, error: EntrepotError | None) -> None:
        """Close the connection; the sender is told why."""
        if not self.closed:
            self.lost()
            self._link.close(error)

    def lost(self) -> None:
        """The connection has gone: what came of a batch that has not ended never happened."""
        if self.closed:
            return
        self.closed = True
        if self._retry is not None:
            self._retry.cancel()
        self._waiting = None
        self._receivers.leave(self)
        self._put_fast()
        unit, self._unit = self._unit, None
        for each in (unit, self._committing):
            if each is not None and self.registry.host.failure is None:
                self.registry.engine.back_out(each)  # does nothing to one that the log is about to have
        self._session.close()

    def status(self) -> dict[str, int | float | str]:
        """A row for DISPLAY CHSTATUS."""
        return {
            "CHANNEL": self.definition.name,
            "CHLTYPE": "RCVR",
            "STATUS": "PAUSED" if self._retry is not None else "RUNNING",
            "CONNAME": self._link.address,
            "RQMNAME": self.hello.manager,
            "CURSEQNO": self.sequence,
            "LSTSEQNO": self.memory.sequence,
            "LSTLUWID": self.memory.batch.hex(),
            "CURMSGS": self._messages if self._unit is not None else 0,
            "INDOUBT": "NO",
            "MSGS": self.messages,
            "BATCHES": self.batches,
            "BYTSRCVD": self._bytes,
            "NPMSPEED": "FAST" if self.fast else "NORMAL",
            "MCAUSER": self._session.identity.user,
            **started(self._since),
            "DISCARDED": self.discarded,
        }


def _ignored(_: EntrepotError | None) -> None:
    """A nonpersistent message is there at once, so there is nothing to wait for."""
