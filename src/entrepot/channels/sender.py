# SPDX-License-Identifier: Apache-2.0
"""The sending end of a channel: takes messages from a transmission queue to another queue manager.

    INACTIVE → STARTING → BINDING → RUNNING → STOPPING → STOPPED
                  ↑           ↓        ↓
                  └─────── RETRYING ←──┘

Here is its life: connections come and go, and with each the two ends
compare what they remember before a message moves. What happens while they
are connected is `transfer`'s affair.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from entrepot.channels.attempt import attempt, attempted
from entrepot.channels.batch import Outgoing
from entrepot.channels.channel_state import (
    ChannelState,
    InDoubtBatch,
    Role,
    SequenceMark,
    change_state,
    find_doubt,
    judge,
    read_state,
)
from entrepot.channels.dialler import Dial, GiveUp
from entrepot.channels.heartbeat_timer import HeartbeatTimer
from entrepot.channels.probe import probe
from entrepot.channels.retry_schedule import RetrySchedule
from entrepot.channels.started import started
from entrepot.channels.terms import Terms
from entrepot.channels.transfer import Ledger, Transfer
from entrepot.engine.definitions import Channel
from entrepot.engine.settlement import Settlement
from entrepot.errors import (
    ChannelInDoubt,
    ChannelNotAvailable,
    ConnectionLost,
    EntrepotError,
    FrameUnreadable,
    HandshakeTimedOut,
    HeartbeatMissed,
    ProtocolError,
    QueueingError,
    SequenceMismatch,
    UnknownVerb,
    VersionUnsupported,
)
from entrepot.server.framed_connection import FramedConnection
from entrepot.server.session_registry import SessionRegistry
from entrepot.server.wire.codec import encode_parts
from entrepot.server.wire.error_form import from_wire
from entrepot.server.wire.frame import VERSION
from entrepot.server.wire.verbs import MAGIC, ChannelHello, ChannelMessage, ChannelWelcome, Empty, Verb

_LOGGER = logging.getLogger("entrepot")
_HANDSHAKE_S = 10.0
_STEADY_S = 10.0
"""A connection that has lasted so long was no failed attempt."""
_NOTHING = Empty()

Credentials = Callable[[Channel], tuple[str, str]]
"""As whom a channel presents itself, and the password."""


class Status(enum.StrEnum):
    """MQ's words."""

    INACTIVE = "INACTIVE"
    STARTING = "STARTING"
    BINDING = "BINDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


class SenderConnection(FramedConnection):
    """A sender's connection."""

    __slots__ = ("_channel",)

    def __init__(self, registry: SessionRegistry, channel: SenderChannel) -> None:
        super().__init__(registry)
        self._channel = channel

    def on_frame(self, verb: int, number: int, payload: Any) -> None:  # noqa: ARG002
        self._channel.on_frame(self, verb, payload)

    def on_lost(self, problem: Exception | None) -> None:
        self._channel.on_lost(self, problem)

    def send_messages(self, messages: Sequence[Outgoing]) -> None:
        """Send some messages with one write."""
        frames: list[bytes] = []
        for sequence, message in messages:
            frames += encode_parts(Verb.CHANNEL_MESSAGE, 0, ChannelMessage(sequence, message))
        if frames:
            self.transport.writelines(frames)

    # Unlike others, go on reading while the partner does not: it confirms, and shows that it is alive.

    def pause_writing(self) -> None:
        self.unread = True

    def resume_writing(self) -> None:
        self.unread = False
        self._channel.on_writable(self)


class SenderChannel:
    """One channel; on the loop's thread only."""

    __slots__ = (
        "_after_stop",
        "_backoff",
        "_bound_by",
        "_credentials",
        "_give_up",
        "_heartbeat_timer",
        "_link",
        "_open_connection",
        "_pinged",
        "_retry",
        "_since",
        "_transfer",
        "_up_since",
        "definition",
        "ledger",
        "on_change",
        "problem",
        "registry",
        "state",
    )  # fmt: skip

    def __init__(
        self,
        registry: SessionRegistry,
        definition: Channel,
        *,
        open_connection: Dial,
        credentials: Credentials = lambda definition: (definition.remote_user, ""),
        heartbeat_timer: HeartbeatTimer | None = None,
        on_change: Callable[[SenderChannel], None] = lambda _: None,
    ) -> None:
        self.registry = registry
        self.definition = definition
        self.state = Status.INACTIVE
        self.on_change = on_change
        """Told of every new state."""
        self.problem: EntrepotError | None = None
        """What went wrong last."""
        self.ledger = Ledger(definition.name, self._settled)
        self._open_connection = open_connection
        self._credentials = credentials
        self._heartbeat_timer = heartbeat_timer or HeartbeatTimer(registry.loop)
        self._backoff = RetrySchedule(definition)
        self._link: SenderConnection | None = None
        self._transfer: Transfer | None = None
        self._give_up: GiveUp | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._after_stop = Status.STOPPED
        self._since = self._up_since = self._pinged = self._bound_by = 0.0

    @property
    def name(self) -> str:
        return self.definition.name

    # --- what operators do ------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to run; a channel that runs already goes on.

        Raises:
            ChannelNotAvailable: It is about to stop.
        """
        if self.state is Status.STOPPING:
            raise ChannelNotAvailable(self.name, "it is stopping")
        if self.state in (Status.INACTIVE, Status.STOPPED, Status.RETRYING):
            self._cancel()
            self._backoff = RetrySchedule(self.definition)
            self._since = self.registry.engine.manager.clock.now()
            self._bind()

    def stop(self, *, force: bool = False, inactive: bool = False) -> None:
        """Stop after the batch under way, or with `force` at once; an `inactive` channel may be triggered again."""
        self._after_stop = Status.INACTIVE if inactive else Status.STOPPED
        if self.state is Status.RUNNING and self._transfer is not None and not force:
            self._enter(Status.STOPPING)
            self._transfer.finish()
        elif self.state is not Status.STOPPING or force:
            self._drop()
            self._enter(self._after_stop)

    async def reset(self, sequence: int) -> None:
        """Let the next message have this number, whatever was before; the other end has to be reset too.

        Raises:
            ChannelNotAvailable: It runs.
            ChannelInDoubt: First it must be known what became of the last batch. Nothing was changed.
        """
        self._require_idle()
        manager = self.registry.engine.manager
        doubt, before = self._remembered()
        if doubt is not None:
            raise ChannelInDoubt(self.name, doubt.after.batch.hex())
        after = before.reset_to(sequence, manager.clock.now())
        unit = manager.internal_unit()
        try:
            await self._attempted(change_state(manager, unit, before, after, partial(manager.commit, unit)))
        except EntrepotError:
            self.registry.engine.back_out(unit)
            raise
        self.ledger.memory = after
        _LOGGER.warning("channel %s: reset from %s to %s", self.name, before, after)

    async def resolve(self, *, commit: bool) -> None:
        """Decide about the batch in doubt in the receiver's place.

        If the receiver has it and we back out, its messages come twice; if it
        has not and we commit, they are lost. Either way both ends must be
        reset afterwards, as they will not agree.

        Raises:
            ChannelNotAvailable: It runs, or is not in doubt.
        """
        self._require_idle()
        doubt, _ = self._remembered()
        if doubt is None:
            raise ChannelNotAvailable(self.name, "it is not in doubt")
        in_doubt = self.registry.engine.manager.in_doubt
        await self._attempted(lambda: in_doubt.resolve(doubt.transaction_id, commit=commit))
        self.ledger.doubt = None
        self.ledger.memory = doubt.after if commit else doubt.before
        word = "committed" if commit else "backed out"
        _LOGGER.warning("channel %s: an operator has %s batch %s", self.name, word, doubt.after.batch.hex())

    async def ping(self) -> str:
        """Try the way to the other end, without sending a message; what there is to tell.

        Raises:
            ChannelError, SecurityError: Why it cannot be used.
        """
        if self._transfer is not None:
            return f"{self._transfer.partner} is connected by channel {self.name}"
        begun = self.registry.loop.time()
        doubt, memory = self._remembered()
        hello = self._hello(memory, doubt)
        welcome = await probe(self.registry, self.definition, self._open_connection, hello, timeout_s=_HANDSHAKE_S)
        self._require_agreement(memory, doubt, welcome)
        took_ms = 1000 * (self.registry.loop.time() - begun)
        return f"{welcome.manager} answers by channel {self.name} after {took_ms:.1f} ms"

    def _require_idle(self) -> None:
        if self._link is not None or self.state not in (Status.INACTIVE, Status.STOPPED, Status.RETRYING):
            raise ChannelNotAvailable(self.name, f"it is {self.state}; stop it first")

    async def _attempted(self, verb: Callable[[], Settlement | None]) -> None:
        self.ledger.begin()
        try:
            await attempted(self.registry, verb)
        finally:
            self.ledger.end()

    # --- meeting the other end ----------------------------------------------------------------------

    def _bind(self) -> None:
        self._enter(Status.STARTING)
        if not self.ledger.is_settled:
            return  # `_settled` comes back here
        try:
            self.ledger.doubt, self.ledger.memory = self._remembered()
        except EntrepotError as error:
            self.fail(error)
            return
        self._enter(Status.BINDING)
        self._bound_by = self.registry.loop.time() + _HANDSHAKE_S
        self._heartbeat_timer.join(self)
        # Not always the first place first: it may be the one that accepts and refuses.
        self._give_up = self._open_connection(
            self.definition, self._backoff.attempts, lambda: SenderConnection(self.registry, self), self._dialled
        )

    def _settled(self) -> None:
        if self.state is Status.STARTING:
            self._bind()

    def _remembered(self) -> tuple[InDoubtBatch | None, ChannelState]:
        manager = self.registry.engine.manager
        with self.registry.host.lock:
            manager.group_commit.require_running()
            doubt = find_doubt(manager, self.name)
            return doubt, doubt.before if doubt is not None else read_state(manager, Role.SENDER, self.name)

    def _dialled(self, link: FramedConnection | None, error: EntrepotError | None) -> None:
        self._give_up = None
        if link is None or link.closed:
            self.fail(error or ConnectionLost(self.definition.connection_name, "it closed at once"))
            return
        assert isinstance(link, SenderConnection)
        self._link = link
        self._bound_by = self.registry.loop.time() + _HANDSHAKE_S
        link.send(Verb.CHANNEL_HELLO, 0, self._hello(self.ledger.memory, self.ledger.doubt))

    def _hello(self, memory: ChannelState, doubt: InDoubtBatch | None) -> ChannelHello:
        definition = self.definition
        user, password = self._credentials(definition)
        in_doubt = doubt.after.mark if doubt is not None else SequenceMark(0, b"")
        return ChannelHello(
            MAGIC,
            VERSION,
            definition.name,
            self.registry.host.settings.name,
            memory.partner,
            user,
            password,
            memory.sequence,
            memory.batch,
            in_doubt.sequence,
            in_doubt.batch,
            definition.batch_size,
            definition.heartbeat_s,
            definition.nonpersistent_fast,
            definition.sequence_wrap,
        )

    def _require_agreement(self, memory: ChannelState, doubt: InDoubtBatch | None, welcome: ChannelWelcome) -> bool:
        """Whether the batch in doubt has been committed by the other end.

        Raises:
            SequenceMismatch: The two ends do not share their history.
        """
        theirs = SequenceMark(welcome.sequence, welcome.batch)
        verdict = judge(memory.mark, doubt.after.mark if doubt is not None else None, theirs)
        if verdict == "mismatch" or (memory.partner and memory.partner != welcome.manager):
            ours = str(memory) if doubt is None else f"{memory}, in doubt {doubt.after.mark}"
            raise SequenceMismatch(self.name, ours, f"{theirs} at {welcome.manager}")
        return verdict == "committed"

    def _welcome(self, link: SenderConnection, welcome: ChannelWelcome) -> None:
        if self._transfer is not None:
            raise FrameUnreadable("a second welcome")
        if welcome.version != VERSION:
            raise VersionUnsupported(welcome.version, VERSION)
        doubt = self.ledger.doubt
        try:
            committed = self._require_agreement(self.ledger.memory, doubt, welcome)
        except SequenceMismatch as error:
            self.fail(error, for_good=True)
            return
        terms = Terms.of(self.definition).with_receiver(welcome)
        self._transfer = Transfer(self, link, welcome.manager, terms)
        if doubt is None:
            self._run()
            return
        resolve = partial(self.registry.engine.manager.in_doubt.resolve, doubt.transaction_id, commit=committed)
        self.ledger.begin()
        attempt(self.registry, resolve, partial(self._decided, link, doubt.after if committed else doubt.before))

    def _decided(self, link: SenderConnection, memory: ChannelState, error: EntrepotError | None) -> None:
        """The batch that was in doubt is so no more, or the log did not take it."""
        if error is None:
            self.ledger.doubt = None
            self.ledger.memory = memory
        if link is self._link:
            if error is None:
                self._run()
            else:
                self.fail(error)
        self.ledger.end()

    def _run(self) -> None:
        assert self._transfer is not None
        self._up_since = self.registry.loop.time()
        self._enter(Status.RUNNING)
        self._transfer.pump()

    # --- the connection ---------------------------------------------------------------------------------

    def on_frame(self, link: SenderConnection, verb: int, payload: Any) -> None:
        """The receiver says something."""
        if link is not self._link:
            return
        try:
            self._hear(link, verb, payload)
        except ProtocolError as error:
            link.close(error)
            self.fail(error)

    def _hear(self, link: SenderConnection, verb: int, payload: Any) -> None:
        if verb == Verb.CHANNEL_CONFIRM and self._transfer is not None:
            self._transfer.confirmed(payload)
            self._backoff.reset()
        elif verb == Verb.CHANNEL_WELCOME:
            self._welcome(link, payload)
        elif verb in (Verb.CLOSING, Verb.FAILED):
            error = from_wire(payload.error)
            self.fail(error, for_good=_is_for_good(error))
        elif verb != Verb.ALIVE:
            raise UnknownVerb(verb)

    def on_lost(self, link: SenderConnection, problem: Exception | None) -> None:
        """The connection has gone."""
        if link is self._link:
            self.fail(ConnectionLost(link.address or self.definition.connection_name, str(problem or "it closed")))

    def on_writable(self, link: SenderConnection) -> None:
        """The receiver reads again."""
        if link is self._link and self._transfer is not None and self.state is Status.RUNNING:
            self._transfer.pump()

    def beat(self, now: float) -> None:
        """Heartbeats, and the end of a channel that nobody needs just now."""
        if self.state is Status.BINDING and now >= self._bound_by:
            self.fail(HandshakeTimedOut(self.definition.connection_name, _HANDSHAKE_S))
            return
        link, transfer = self._link, self._transfer
        if link is None or transfer is None:
            return
        heartbeat_s = transfer.terms.heartbeat_s
        if heartbeat_s and now - max(link.heard, self._pinged) >= heartbeat_s:
            if self._pinged > link.heard:
                link.transport.abort()
                self.fail(HeartbeatMissed(transfer.partner, now - link.heard))
                return
            self._pinged = now
            link.send(Verb.CHANNEL_PING, 0, _NOTHING)
        disconnect_s = self.definition.disconnect_s
        if disconnect_s and transfer.is_idle and now - transfer.last >= disconnect_s and transfer.stop_waiting():
            self._after_stop = Status.INACTIVE
            self.finished()

    # --- the end ----------------------------------------------------------------------------------------

    def finished(self) -> None:
        """Nothing is under way: end in peace."""
        if self._link is not None:
            self._link.send(Verb.GOODBYE, 0, _NOTHING)
        self._drop()
        self._enter(self._after_stop)

    def fail(self, error: EntrepotError, *, for_good: bool = False) -> None:
        """The connection cannot be used; try again later, unless only an operator can help."""
        lasted_s = self.registry.loop.time() - self._up_since if self.state is Status.RUNNING else 0.0
        stopping = self.state is Status.STOPPING
        self.problem = error
        self._drop()
        if stopping:
            self._enter(self._after_stop)
        elif self.registry.host.failure is not None:
            self._enter(Status.INACTIVE)
        elif for_good:
            _LOGGER.error("channel %s has stopped: %s", self.name, error)
            self._enter(Status.STOPPED)
        else:
            if lasted_s >= _STEADY_S:
                self._backoff.reset()
            self._try_later(error)

    def _try_later(self, error: EntrepotError) -> None:
        pause_s = self._backoff.pause_s()
        if pause_s is None:
            _LOGGER.error("channel %s has stopped, out of retries: %s", self.name, error.what)
            self._enter(Status.STOPPED)
            return
        if self._backoff.attempts == 1:
            _LOGGER.warning("channel %s tries again: %s", self.name, error.what)
        self._retry = self.registry.loop.call_later(pause_s, self._retried)
        self._enter(Status.RETRYING)

    def _retried(self) -> None:
        self._retry = None
        self._bind()

    def _cancel(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._give_up is not None:
            self._give_up()
            self._give_up = None

    def _drop(self) -> None:
        """Let go of the connection."""
        self._cancel()
        self._heartbeat_timer.leave(self)
        link, self._link = self._link, None
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            transfer.close()
        if link is not None:
            link.close()

    def _enter(self, state: Status) -> None:
        if state is not self.state:
            self.state = state
            self.on_change(self)

    def status(self) -> dict[str, int | float | str]:
        """A row for DISPLAY CHSTATUS."""
        ledger, transfer = self.ledger, self._transfer
        batch = transfer.batch if transfer is not None else None
        terms = transfer.terms if transfer is not None else Terms.of(self.definition)
        return {
            "CHANNEL": self.name,
            "CHLTYPE": "SDR",
            "STATUS": str(self.state),
            "CONNAME": self.definition.connection_name,
            "XMITQ": self.definition.transmission_queue,
            "RQMNAME": transfer.partner if transfer is not None else ledger.memory.partner,
            "CURSEQNO": batch.sequence if batch is not None else ledger.memory.sequence,
            "CURLUWID": batch.id.hex() if batch is not None else "",
            "LSTSEQNO": ledger.memory.sequence,
            "LSTLUWID": ledger.memory.batch.hex(),
            "CURMSGS": batch.messages if batch is not None else 0,
            "INDOUBT": "YES" if ledger.doubt is not None else "NO",
            "MSGS": ledger.messages,
            "BATCHES": ledger.batches,
            "BATCHSZ": terms.batch_size,
            "BYTSSENT": ledger.body_bytes,
            "HBINT": terms.heartbeat_s,
            "NPMSPEED": "FAST" if terms.fast else "NORMAL",
            "SHORTRTS": self._backoff.short_left,
            "LONGRTS": self._backoff.long_left,
            "STOPREQ": "YES" if self.state is Status.STOPPING else "NO",
            **started(self._since),
            "PROBLEM": str(self.problem or ""),
        }


def _is_for_good(error: EntrepotError) -> bool:
    """Whether trying again would only meet the same: a message stands in the way, or a lost history."""
    return isinstance(error, SequenceMismatch | QueueingError)
