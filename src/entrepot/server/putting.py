# SPDX-License-Identifier: Apache-2.0
"""Many puts in one frame, at a server: what a flow sends with a unit of work costs one look at the frame.

It belongs to `Conversation`, which finds it here by its name. If a put is refused,
none of the frame's is in the unit. The answer tells, or else the commit of
the unit, which is backed out.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError, FrameUnreadable, ProtocolError
from entrepot.message import Message, PutInUnit
from entrepot.server import message_checks
from entrepot.server.background_work import judge
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode_asked
from entrepot.server.wire.verbs import Verb

if TYPE_CHECKING:
    from entrepot.server.conversation import Conversation


def _put_many(conversation: Conversation, number: int, frame: verbs.PutMany) -> None:
    if not frame.unit:
        if number:
            raise FrameUnreadable("PUT_MANY outside of a unit of work is answered by SYNCHRONIZE")
        engine = conversation.session.engine
        with engine if engine.turn is None else nullcontext():  # what all of them cause is told together
            _put_each(conversation, frame.puts)
        return
    unit = conversation._unit(frame.unit)
    assert unit is not None
    _ManyPuts(conversation, number, frame, unit).go_on(0, None)


def _put_each(conversation: Conversation, puts: list[PutInUnit]) -> None:
    """Put messages outside of any unit of work, as if each had come in a frame of its own."""
    session = conversation.session
    for index, (queue, persistent, priority, message) in enumerate(puts):
        if session.blocked:
            # One of them waits for room, and those behind it keep their order.
            conversation.partner.postpone(Verb.PUT_MANY, 0, verbs.PutMany(0, puts[index:]))
            return
        conversation._put(0, verbs.Put(queue, 0, persistent, priority, 0.0, message))


def put_rest(conversation: Conversation, payload: bytes, first: int) -> None:
    """Put what is left of a PUT_MANY outside of units of work, from an index on; those before it have been put."""
    try:
        _put_each(conversation, decode_asked(Verb.PUT_MANY, payload).puts[first:])
    except ProtocolError as error:
        conversation.partner.close(error)


class _ManyPuts:
    """The puts of one frame, on their way into a unit of work."""

    __slots__ = ("_conversation", "_frame", "_number", "_planned", "_unit")

    def __init__(self, conversation: Conversation, number: int, frame: verbs.PutMany, unit: Unit) -> None:
        self._conversation = conversation
        self._number = number
        self._frame = frame
        self._unit = unit
        self._planned = len(unit.puts)
        """How many the unit had before."""

    def go_on(self, first: int, judged: Message | None) -> None:
        """Put the messages from the `first` on, which was `judged` if its subscribers have been asked."""
        conversation, session, unit = self._conversation, self._conversation.session, self._unit
        puts = self._frame.puts
        try:
            if first == 0 and judged is None and session.plan(puts, unit):
                first = len(puts)
            for index in range(first, len(puts)):
                queue, persistent, priority, message = puts[index]
                message_checks.require_names(queue)
                message_checks.priority(priority)
                message = judged or message_checks.checked_message(
                    message, user=session.identity.user, application=session.application
                )
                if queue.startswith(TOPIC_PREFIX) and judged is None:
                    session.require_put(queue)
                    # Once more from here, when its subscribers have been asked.
                    if judge(session, queue, message, partial(self.go_on, index, message)):
                        return
                judged = None
                session.put_in_unit(queue, message, persistent, priority, unit)
        except EntrepotError as error:
            with session.registry.host.lock:
                session.engine.manager.forget_puts(unit, self._planned)
            conversation._answer(self._number, error, unit=self._frame.unit)
            return
        if self._number:
            # Who asks wants to know of all that was put before, too.
            conversation._answer(self._number, conversation._errors.get(self._frame.unit))
