# SPDX-License-Identifier: Apache-2.0
"""The consumers of one native connection, by the numbers that its client gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from entrepot import checks
from entrepot.engine.criteria import Criteria
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError, FrameUnreadable, ProtocolError
from entrepot.limits import CONSUMER_CREDIT_MAX, WAITING_PER_CONNECTION_MAX
from entrepot.message import Message
from entrepot.server import message_checks
from entrepot.server.stream import Stream, enlist
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import LONG_BODY_BYTES
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.verbs import Verb

if TYPE_CHECKING:
    from entrepot.server.conversation import Conversation, ConversationPeer
    from entrepot.server.session import Done


_PLAIN_NUMBER_MAX = 2**63
"""A client may number its consumers as it likes; those beyond this, or below 0, have no compiled form."""


class NativeConsumers:
    """Verbs about consumers become verbs of their streams, and what these deliver becomes frames."""

    __slots__ = ("_conversation", "_streams")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._streams: dict[int, Stream] = {}

    def open(
        self, frame: verbs.Consume, criteria: Criteria | None, done: Callable[[EntrepotError | None, int | None], None]
    ) -> None:
        session = self._conversation.session
        message_checks.require_names(frame.queue)
        if frame.consumer in self._streams or len(self._streams) >= WAITING_PER_CONNECTION_MAX:
            raise FrameUnreadable(f"consumer {frame.consumer} is there already, or one too many")
        credit = checks.whole_number("credit", frame.credit, 0, CONSUMER_CREDIT_MAX)
        numbered = _Numbered(self._conversation.partner, frame.consumer, together=frame.together)
        failed = partial(self._failed, frame.consumer)
        stream = session.stream(frame.queue, criteria, numbered.deliver, failed, held=frame.held)
        self._streams[frame.consumer] = stream
        if not frame.held and 0 <= frame.consumer < _PLAIN_NUMBER_MAX:
            self._conversation.partner.open_outlet(stream, numbered)
        done(None, stream.limit if frame.held else None)
        stream.grant(min(credit, stream.limit))

    def credit(self, frame: verbs.Credit, done: Done) -> None:
        stream = self._streams.get(frame.consumer)
        if stream is None:
            done(None)
            return
        more = frame.more
        if not 0 <= more <= CONSUMER_CREDIT_MAX:
            checks.whole_number("more", more, 0, CONSUMER_CREDIT_MAX)
        if not stream.allows(frame.used, more):
            raise FrameUnreadable(f"credit for {more} more, beyond {CONSUMER_CREDIT_MAX} or what may be held")
        if frame.seen:
            stream.see(frame.seen)
        stream.used(frame.used, done)
        stream.grant(more)

    def give_back(self, number: int, frame: verbs.ReturnPayload) -> None:
        """One delivery returns or is rejected; what goes wrong with those before it is told later, as of CREDIT."""
        done, used = partial(self._conversation._answer, number), partial(self._conversation._answer, 0)
        stream = self._streams.get(frame.consumer)
        if stream is None:
            done(None)
            return
        stream.require_returnable(frame.delivery)
        more = checks.whole_number("more", frame.more, 0, CONSUMER_CREDIT_MAX)
        delay_s = checks.seconds("delay_s", frame.delay_s)
        problem = None if frame.rejected is None else checks.text("reason", frame.rejected)
        if not stream.allows(frame.delivery, more):
            raise FrameUnreadable(f"credit for {more} more, beyond {CONSUMER_CREDIT_MAX}")
        if problem is not None:
            stream.reject(frame.delivery, problem, used, done)
        else:
            stream.give_back(frame.delivery, delay_s, used)
            done(None)
        stream.grant(more)

    def stop(self, frame: verbs.ConsumerPayload, begin: Callable[[], Unit]) -> EntrepotError | None:
        """End a consumer; what a unit of work has used of it stays with that. Returns why it could not."""
        problem = self.enlist([(frame.consumer, frame.used)], begin) if frame.unit else None
        stream = self._streams.pop(frame.consumer, None)
        if stream is not None:
            stream.close(tried=min(frame.tried, stream.delivered))
        return problem

    def enlist(self, used: Iterable[tuple[int, int]], begin: Callable[[], Unit]) -> EntrepotError | None:
        """Let what was used leave with a unit of work; returns why it cannot, having moved nothing.

        Raises:
            FrameUnreadable: It names what is not there.
        """
        try:
            enlist(self._streams, used, begin)
        except ProtocolError:
            raise
        except EntrepotError as error:
            return error
        return None

    def _failed(self, consumer: int, error: EntrepotError | None) -> None:
        assert error is not None
        self._conversation.partner.send(Verb.CONSUMER_FAILED, 0, verbs.ConsumerFailed(consumer, to_wire(error)))

    def see_all(self) -> None:
        """The partner has fallen silent: what it was sent may be seen by now, and its word of that be lost."""
        for stream in self._streams.values():
            stream.see(stream.delivered)

    def pause(self) -> None:
        """The partner does not read what it is sent."""
        for stream in self._streams.values():
            stream.pause()

    def resume(self) -> None:
        for stream in list(self._streams.values()):
            stream.resume()


class _Numbered:
    """Numbers what a stream delivers."""

    __slots__ = ("_delivered", "_number", "_partner", "_together")

    def __init__(self, partner: ConversationPeer, number: int, *, together: bool) -> None:
        self._partner = partner
        self._number = number
        self._together = together
        self._delivered = 0

    def deliver(self, messages: list[Message]) -> None:
        if len(messages) == 1:
            self._delivered += 1
            delivery = verbs.DeliveryPayload(self._number, self._delivered, messages[0])
            self._partner.send_message(Verb.DELIVERY, 0, delivery)
            return
        if not self._together:
            for message in messages:
                self._deliver_one(message)
            return
        batch: list[Message] = []
        size = 0
        for message in messages:
            body_bytes = len(message.body)
            if batch and size + body_bytes > LONG_BODY_BYTES:
                self._deliver_batch(batch)
                batch, size = [], 0
            batch.append(message)
            size += body_bytes
        self._deliver_batch(batch)

    def _deliver_one(self, message: Message) -> None:
        self._delivered += 1
        self._partner.send_message(Verb.DELIVERY, 0, verbs.DeliveryPayload(self._number, self._delivered, message))

    def _deliver_batch(self, batch: list[Message]) -> None:
        if len(batch) == 1:
            self._deliver_one(batch[0])  # which may be long, and is not copied then
            return
        first = self._delivered + 1
        self._delivered += len(batch)
        self._partner.send(Verb.DELIVERIES, 0, verbs.Deliveries(self._number, first, batch))
