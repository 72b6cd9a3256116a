# SPDX-License-Identifier: Apache-2.0
"""The receiving ends of a queue manager's channels: one at a time for each sender, and what operators do to them."""

from __future__ import annotations

import logging
from functools import partial

from entrepot.channels.attempt import attempted
from entrepot.channels.channel_state import ChannelState, Role, all_states, change_state
from entrepot.channels.receiver import Receiver, ReplyingConnection
from entrepot.engine.definitions import Channel, require_name
from entrepot.errors import ChannelInDoubt, ChannelNotAvailable, EntrepotError, WrongManager
from entrepot.server.session_registry import Identity, SessionRegistry
from entrepot.server.wire.verbs import ChannelHello

_LOGGER = logging.getLogger("entrepot")


class Receivers:
    """The receiving ends of one queue manager's channels, one at a time for each sender."""

    def __init__(self, registry: SessionRegistry) -> None:
        self.registry = registry
        self._running: dict[tuple[str, str], Receiver] = {}
        self._committing: dict[tuple[str, str], Receiver] = {}
        """Whose connection has gone while the log was still to be forced for it."""
        self._refused: dict[tuple[str, str], bytes] = {}
        """Senders whose history is not ours, with the batch they were in doubt about."""
        self.stopped: set[str] = set()
        """Channels that an operator has closed."""

    def accept(
        self, link: ReplyingConnection, hello: ChannelHello, definition: Channel, identity: Identity
    ) -> Receiver:
        """The receiver for a connection that has been admitted; it answers the sender's first frame.

        A second connection of the same sender takes the place of the first: a
        half-dead connection must not keep the channel from healing.

        Raises:
            ChannelNotAvailable, WrongManager, InvalidName: The connection is to be refused.
        """
        here = self.registry.host.settings.name
        require_name("queue manager", hello.manager)
        if definition.name in self.stopped:
            raise ChannelNotAvailable(definition.name, "an operator has stopped it")
        if hello.target and hello.target != here:
            raise WrongManager(link.address, hello.target, here)
        if hello.sequence_wrap != definition.sequence_wrap:
            problem = f"SEQWRAP is {definition.sequence_wrap} at {here} and {hello.sequence_wrap} at {hello.manager}"
            raise ChannelNotAvailable(definition.name, problem)
        return Receiver(self.registry, link, hello, definition, identity, self)

    def enter(self, receiver: Receiver) -> None:
        """A receiver has agreed with its sender."""
        older = self._running.get(receiver.key)
        if older is not None:
            problem = "another connection of the same sender has taken over"
            older.end(ChannelNotAvailable(receiver.definition.name, problem))
        self._refused.pop(receiver.key, None)
        self._running[receiver.key] = receiver

    def refuse(self, receiver: Receiver) -> None:
        self._refused[receiver.key] = receiver.hello.in_doubt_batch

    def leave(self, receiver: Receiver) -> None:
        if self._running.get(receiver.key) is receiver:
            del self._running[receiver.key]
        if receiver.is_committing:
            self._committing[receiver.key] = receiver

    def settled(self, receiver: Receiver) -> None:
        if self._committing.get(receiver.key) is receiver:
            del self._committing[receiver.key]

    def committing(self, key: tuple[str, str]) -> Receiver | None:
        """Whoever is about to change what this end remembers."""
        running = self._running.get(key)
        return running if running is not None and running.is_committing else self._committing.get(key)

    def close(self, channel: str, error: EntrepotError) -> None:
        """End all connections of a channel; senders are told why."""
        for receiver in [each for each in self._running.values() if each.definition.name == channel]:
            receiver.end(error)

    async def reset(self, channel: str, sequence: int) -> None:
        """Expect a sequence number next, from senders that were refused or, if none was, from all that are not here.

        Senders that are connected have agreed with us, so they are left alone.

        Raises:
            ChannelInDoubt: A sender was in doubt when it was refused; that has to be resolved first. Nothing was
                changed.
        """
        manager = self.registry.engine.manager
        with self.registry.host.lock:
            states = [s for s in all_states(manager) if s.role is Role.RECEIVER and s.channel == channel]
        known = {(state.channel, state.partner): state for state in states}
        for key in self._refused:
            if key[0] == channel:
                known.setdefault(key, ChannelState(Role.RECEIVER, *key))
        chosen = {key: state for key, state in known.items() if key not in self._running}
        refused = {key: state for key, state in chosen.items() if key in self._refused}
        for key in refused:
            if self._refused[key]:
                raise ChannelInDoubt(channel, f"{self._refused[key].hex()} at {key[1]}")
        await self._reset(sequence, list((refused or chosen).values()))
        for key in refused:
            self._refused.pop(key, None)

    async def _reset(self, sequence: int, states: list[ChannelState]) -> None:
        manager = self.registry.engine.manager
        for before in states:
            after = before.reset_to(sequence, manager.clock.now())
            unit = manager.internal_unit()
            end = partial(manager.commit, unit)
            try:
                await attempted(self.registry, change_state(manager, unit, before, after, end))
            except EntrepotError:
                self.registry.engine.back_out(unit)
                raise
            _LOGGER.warning("channel %s: reset from %s to %s", before.channel, before, after)

    def status(self) -> list[dict[str, int | float | str]]:
        """Rows for DISPLAY CHSTATUS."""
        return [receiver.status() for receiver in self._running.values()]
