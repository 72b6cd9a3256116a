# SPDX-License-Identifier: Apache-2.0
"""Links by which a partner looks at a queue and leaves it as it is: sources of the distribution mode `copy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from entrepot.engine.browsing import browse
from entrepot.engine.search import SearchPaused
from entrepot.errors import EntrepotError
from entrepot.limits import MIB
from entrepot.server.amqp.conditions import Refusal, refusal_of
from entrepot.server.amqp.engine import Pointer, delivery_settle, delivery_updated, lib, link_credit
from entrepot.server.amqp.sending_link import SendingLink

if TYPE_CHECKING:
    from entrepot.server.amqp.conversation import AmqpConversation

_AT_ONCE = 16
_BYTES_AT_ONCE = 1 * MIB
_POLL_S = 0.2
"""How often a partner that has seen everything is told of what is new; nobody waits for a browse in a hurry."""


class BrowsingLink(SendingLink):
    """A partner that looks from the first message to the last, then at those that come."""

    __slots__ = ("_more", "_place", "_pumping", "_timer")

    def __init__(self, conversation: AmqpConversation, pointer: Pointer) -> None:
        super().__init__(conversation, pointer)
        self._place: tuple[int, int] | None = None
        self._timer: Any = None
        self._more = False
        """Whether there may be more, but the turn is over."""
        self._pumping = False

    def ready(self) -> None:
        session = self.conversation.session
        session.require("QUEUE", self.name, "BROWSE")
        with session.registry.host.lock:
            session.engine.manager.readable(self.name)
        self.open()

    def pump(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pumping:
            self._pumping = True
            self.conversation.session.engine.in_turns(self._go_on)

    def _go_on(self) -> None:
        """A step of the search.

        Raises:
            SearchPaused: It has to go on in a later turn of the loop.
        """
        self._more = False
        self.conversation.guarded(self._step)
        if self._more:
            raise SearchPaused
        self._pumping = False

    def _step(self) -> None:
        engine = self.conversation.session.engine
        while self.is_open and not self.stalled and (credit := link_credit(self.pointer)) > 0:
            try:
                with engine.host.lock:
                    messages, self._place, self._more = browse(
                        engine.manager,
                        self.name,
                        self.criteria,
                        self._place,
                        min(credit, _AT_ONCE),
                        bytes_max=_BYTES_AT_ONCE,
                        turn=engine.manager.turn,
                    )
                for message in messages:
                    self.send(message)
            except EntrepotError as error:
                self.detach(refusal_of(error))
                return
            except Refusal as refusal:
                self.detach(refusal)
                return
            if not messages:
                if not self._more:
                    self._seen_all()
                return
        self._more = False

    def _seen_all(self) -> None:
        if lib.pn_link_get_drain(self.pointer):
            lib.pn_link_drained(self.pointer)
            self.conversation.wants_flush()
        else:
            loop = self.conversation.session.registry.loop
            self._timer = loop.call_later(_POLL_S, self.conversation.guarded, self.pump)

    def on_delivery(self, delivery: Pointer) -> None:
        # Whatever the partner thinks of it, the message is where it was.
        if delivery_updated(delivery):
            delivery_settle(delivery)
            self.conversation.wants_flush()

    def end(self) -> None:
        super().end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
