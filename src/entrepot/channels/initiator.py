# SPDX-License-Identifier: Apache-2.0
"""All channels of a queue manager: which run, which wait for a message, which an operator has stopped.

A message on a transmission queue with TRIGGER, INITQ(SYSTEM.CHANNEL.INITQ)
and TRIGDATA(channel) starts its channel. After a restart those run again
that ran before or have a batch in doubt. What an operator has stopped
stays so: his order is a message on SYSTEM.CHANNEL.SYNCQ.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Literal

from entrepot.channels.attempt import attempt
from entrepot.channels.channel_state import ChannelState, Role, all_states, change_state, channels_in_doubt
from entrepot.channels.dialler import Dial, Dialler
from entrepot.channels.heartbeat_timer import HeartbeatTimer
from entrepot.channels.receivers import Receivers
from entrepot.channels.sender import Credentials, SenderChannel, Status
from entrepot.engine.definitions import CHANNEL_INITIATION_QUEUE, Channel
from entrepot.engine.waiting import Waiter
from entrepot.errors import ChannelNotAvailable, EntrepotError, ObjectNotFound
from entrepot.message import Message
from entrepot.server.session_registry import SessionRegistry

_LOGGER = logging.getLogger("entrepot")

Order = Literal["", "STARTED", "STOPPED"]
_ORDERS: dict[Status, Order] = {Status.INACTIVE: "", Status.STOPPED: "STOPPED"}
"""What to remember for the next start; whatever else a channel does, it is started."""


class ChannelInitiator:
    """Keeps all channels by name; on the loop's thread only."""

    def __init__(
        self,
        registry: SessionRegistry,
        *,
        open_connection: Dial | None = None,
        credentials: Credentials = lambda definition: (definition.remote_user, ""),
        receivers: Receivers | None = None,
    ) -> None:
        self.registry = registry
        self.receivers = receivers or Receivers(registry)
        self.senders: dict[str, SenderChannel] = {}
        self._dialler = Dialler()
        self._open_connection = open_connection or self._dialler.dial
        self._credentials = credentials
        self._heartbeat_timer = HeartbeatTimer(registry.loop)
        self._orders: dict[str, Order] = {}
        """As they are on disk."""
        self._writing: set[str] = set()
        self._waiter: Waiter | None = None
        self._closed = False

    def open(self) -> None:
        """Run again what ran before, and watch for triggers.

        Raises:
            EntrepotError: The queues of channels cannot be read.
        """
        manager = self.registry.engine.manager
        with self.registry.host.lock:
            orders = [state for state in all_states(manager) if state.role is Role.ORDER]
            in_doubt = channels_in_doubt(manager)
        self._orders = {state.channel: state.order for state in orders}
        self.receivers.stopped = {name for name, order in self._orders.items() if order == "STOPPED"}
        wanted = in_doubt | {name for name, order in self._orders.items() if order == "STARTED"}
        for name in sorted(wanted):
            # In doubt but stopped: the operator is there already, and decides.
            if self._orders.get(name) != "STOPPED":
                self._start_quietly(name)
        self._watch()

    # --- what operators do ------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """START CHANNEL: run a sender, or let a receiver's senders in again.

        Raises:
            ObjectNotFound: There is no such channel.
            ChannelNotAvailable: It is stopping, or for clients.
        """
        definition = self._definition(name)
        if definition.channel_type == "RCVR":
            self.receivers.stopped.discard(name)
            self._remember(name)
            return
        self._sender(definition).start()

    def stop(self, name: str, *, force: bool = False, inactive: bool = False) -> None:
        """STOP CHANNEL: a sender after its batch, or with `force` at once; a receiver ends its connections.

        Raises:
            ObjectNotFound, ChannelNotAvailable: There is no such channel between queue managers.
        """
        definition = self._definition(name)
        if definition.channel_type == "SDR":
            self._sender(definition).stop(force=force, inactive=inactive)
            return
        if not inactive:
            self.receivers.stopped.add(name)
        self._remember(name)
        self.receivers.close(name, ChannelNotAvailable(name, "an operator has stopped it"))

    async def reset(self, name: str, sequence: int) -> None:
        """RESET CHANNEL SEQNUM, at whichever end this is.

        Raises:
            ChannelInDoubt, ChannelNotAvailable, ObjectNotFound: Nothing was changed.
        """
        definition = self._definition(name)
        if definition.channel_type == "SDR":
            await self._sender(definition).reset(sequence)
        else:
            await self.receivers.reset(name, sequence)

    async def resolve(self, name: str, *, commit: bool) -> None:
        """RESOLVE CHANNEL ACTION.

        Raises:
            ChannelNotAvailable, ObjectNotFound: Nothing was changed.
        """
        await self._sender(self._definition(name)).resolve(commit=commit)

    async def ping(self, name: str) -> str:
        """PING CHANNEL; what there is to tell.

        Raises:
            ChannelError, SecurityError: Why the channel cannot be used.
        """
        return await self._sender(self._definition(name)).ping()

    def status(self) -> list[dict[str, int | float | str]]:
        """Rows for DISPLAY CHSTATUS; a channel that has nothing to tell has none, as in MQ."""
        told = [each for each in self.senders.values() if each.state is not Status.INACTIVE or each.ledger.batches]
        return [sender.status() for sender in told] + self.receivers.status()

    def _definition(self, name: str) -> Channel:
        with self.registry.host.lock:
            definition = self.registry.engine.manager.objects.channels.get(name)
        if definition is None:
            raise ObjectNotFound("CHANNEL", name)
        if definition.channel_type == "SVRCONN":
            raise ChannelNotAvailable(name, "it is for clients, not between queue managers")
        return definition

    def _sender(self, definition: Channel) -> SenderChannel:
        if definition.channel_type != "SDR":
            raise ChannelNotAvailable(definition.name, "only a sender (SDR) can do that")
        sender = self.senders.get(definition.name)
        if sender is None:
            sender = SenderChannel(
                self.registry,
                definition,
                open_connection=self._open_connection,
                credentials=self._credentials,
                heartbeat_timer=self._heartbeat_timer,
                on_change=self._changed,
            )
            if self._orders.get(definition.name) == "STOPPED":
                sender.state = Status.STOPPED
            self.senders[definition.name] = sender
        elif sender.state in (Status.INACTIVE, Status.STOPPED):
            sender.definition = definition  # altered meanwhile; what runs goes on by the old one
        return sender

    # --- triggers ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._waiter = waiter = Waiter(None, None, self.registry.engine.waker(self._triggered))
        self.registry.engine.wait(CHANNEL_INITIATION_QUEUE, waiter)

    def _triggered(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or self._closed:
            return
        if waiter.error is not None:
            _LOGGER.warning(
                "%s: no channels are triggered any more: %s", self.registry.host.settings.name, waiter.error
            )
            return
        if waiter.message is not None:
            self._serve(waiter.message)
        try:
            self._watch()
        except EntrepotError as error:
            _LOGGER.warning("%s: no channels are triggered any more: %s", self.registry.host.settings.name, error)

    def _serve(self, message: Message) -> None:
        name = str(message.properties.get("trigger_data", ""))
        queue = str(message.properties.get("queue", ""))
        if not name:
            # As in MQ: then it is the channel that serves the queue.
            with self.registry.host.lock:
                channels = list(self.registry.engine.manager.objects.channels.values())
            senders = (each for each in channels if each.channel_type == "SDR" and each.transmission_queue == queue)
            name = next((each.name for each in senders), "")
        if self._orders.get(name) != "STOPPED":
            self._start_quietly(name)

    def _start_quietly(self, name: str) -> None:
        """Start a sender that nobody asked for by name, unless it runs or is not to run."""
        try:
            sender = self._sender(self._definition(name))
            if sender.state is Status.INACTIVE:
                sender.start()
        except EntrepotError as error:
            _LOGGER.warning("channel %s was triggered: %s", name, error)

    # --- orders -----------------------------------------------------------------------------------

    def _changed(self, sender: SenderChannel) -> None:
        if not self._closed and self.registry.host.failure is None:
            self._remember(sender.name)

    def _order(self, name: str) -> Order:
        """What is to be remembered of a channel."""
        sender = self.senders.get(name)
        if sender is not None:
            return _ORDERS.get(sender.state, "STARTED")
        return "STOPPED" if name in self.receivers.stopped else ""

    def _remember(self, name: str) -> None:
        """Bring an order to disk, one at a time for each channel; nobody waits for it."""
        wanted = self._order(name)
        before = self._orders.get(name, "")
        if wanted == before or name in self._writing:
            return
        manager = self.registry.engine.manager
        unit = manager.internal_unit()
        after = ChannelState(Role.ORDER, name, time=manager.clock.now(), order=wanted) if wanted else None
        change = change_state(manager, unit, ChannelState(Role.ORDER, name), after, partial(manager.commit, unit))
        self._writing.add(name)
        attempt(
            self.registry, change, partial(self._remembered, name, wanted, lambda: self.registry.engine.back_out(unit))
        )

    def _remembered(self, name: str, order: Order, undo: Callable[[], None], error: EntrepotError | None) -> None:
        self._writing.discard(name)
        if error is not None:
            undo()
            _LOGGER.warning("channel %s: its state will be forgotten with the next restart: %s", name, error)
            return
        if order:
            self._orders[name] = order
        else:
            self._orders.pop(name, None)
        self._remember(name)

    # --- the end ----------------------------------------------------------------------------------

    async def close(self) -> None:
        """The queue manager stops: let go of all connections; what runs now runs again after the next start."""
        self._closed = True
        if self._waiter is not None:
            self.registry.engine.stop_waiting(self._waiter)
            self._waiter = None
        for sender in self.senders.values():
            sender.stop(force=True, inactive=True)
        self._heartbeat_timer.stop()
        await self._dialler.close()
