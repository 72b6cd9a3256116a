# SPDX-License-Identifier: Apache-2.0
"""What the native protocol's verbs mean for one connection: requests become verbs of a session, outcomes answers.

It knows no bytes. Its partner is a connection that encodes what it is sent,
or a client in this very process that takes it as it is. Which method
or function carries out a verb is found by the verb's name, when this is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Protocol

from entrepot import checks
from entrepot.engine.browsing import browse
from entrepot.engine.criteria import Criteria
from entrepot.engine.search import Search, SearchPaused
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import Waiter
from entrepot.errors import (
    EntrepotError,
    Fenced,
    FrameUnreadable,
    ProtocolError,
    RequestTimedOut,
    UnknownVerb,
)
from entrepot.limits import CONSUMER_CREDIT_MAX, KIB, UNITS_PER_CONNECTION_MAX, WAITING_PER_CONNECTION_MAX
from entrepot.message import Message
from entrepot.selectors import NotCompiledYet, ready_selector
from entrepot.server import claiming, coordination, message_checks, putting
from entrepot.server.background_work import compile_first
from entrepot.server.claiming import SessionClaimHolder
from entrepot.server.mqsc import Answer
from entrepot.server.native_consumers import NativeConsumers
from entrepot.server.open_subscriptions import subscribe, unsubscribe
from entrepot.server.session import Session
from entrepot.server.waiting_get import Got, WaitingGet
from entrepot.server.waiting_group import WaitingGroup
from entrepot.server.wire import verbs
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.verbs import Verb

_ANSWER_BYTES = 512 * KIB
"""When an answer has this much, no more messages join it: with one more it still fits into the longest frame."""
_BROWSE_MESSAGES_MAX = 1000
_TIMEOUT_S_USUAL = 86_400.0
_FOR_THE_FENCED = frozenset(verb for verb, definition in verbs.ASKED.items() if definition.for_fenced)
_NOTHING = verbs.Empty()


class ConversationPeer(Protocol):
    """Who asks, and takes answers."""

    closed: bool

    def send(self, verb: int, number: int, payload: Any) -> None:
        """Answer, or say something unasked."""

    def send_message(self, verb: int, number: int, payload: Any) -> None:
        """The same for a payload whose last field is a message, which may be long."""

    def close(self, error: EntrepotError | None = None) -> None:
        """End the connection; an error is told first."""

    def hold(self) -> None:
        """Ask nothing more before the session is unblocked."""

    def late(self, verb: int, number: int, payload: Any) -> None:
        """A verb that had to wait can be handled now."""

    def postpone(self, verb: int, number: int, payload: Any) -> None:
        """Handle this when the session is unblocked, before all that comes behind it."""

    def give_way(self) -> None:
        """Let others come before the next verb."""

    def fence(self, error: Fenced) -> None:
        """Somebody else acts in the partner's place."""

    def open_outlet(self, stream: Any, numbered: Any) -> None:
        """Let the compiled form send the stream's messages as bytes, where there is one."""


class Conversation:
    """One partner's verbs, from its admission on."""

    __slots__ = (
        "_asked",
        "_errors",
        "_leases",
        "_outstanding",
        "_syncing",
        "_units",
        "consumers",
        "holder",
        "partner",
        "registry",
        "session",
        "waiting_max",
    )  # fmt: skip

    def __init__(self, partner: ConversationPeer, session: Session) -> None:
        self.partner = partner
        self.session = session
        self.registry = session.registry
        self.holder: SessionClaimHolder | None = None
        """As what it has claimed something, if it has."""
        self.consumers = NativeConsumers(self)
        self._units: dict[int, Unit] = {}
        self._errors: dict[int, EntrepotError] = {}
        """What went wrong with verbs that wanted no answer, by unit; 0 is outside of any."""
        self._asked: dict[int, WaitingGet | WaitingGroup] = {}
        self._leases: dict[int, Unit] = {}
        self.waiting_max = WAITING_PER_CONNECTION_MAX
        self._outstanding = 0
        self._syncing: list[int] = []

    def handle(self, verb: int, number: int, payload: Any) -> None:
        """Do what the partner asks; `number` is its answer's, 0 where none is wanted.

        Raises:
            ProtocolError: It has asked what no client asks; nothing was done.
        """
        method = self._VERBS.get(verb)
        if method is None:
            raise UnknownVerb(verb)
        session = self.session
        if session.fenced is not None and verb not in _FOR_THE_FENCED:
            self._answer(number, session.fenced)
            return
        try:
            method(self, number, payload)
        except ProtocolError:
            raise
        except NotCompiledYet as text:
            compile_first(session, text.text, partial(self.partner.late, verb, number, payload))
        except EntrepotError as error:
            self._answer(number, error)
        if session.blocked:
            self.partner.hold()

    def lost(self) -> None:
        """The partner has gone."""
        self.session.close()
        if self.holder is not None:
            with self.registry.host.lock:
                self.registry.host.manager.claims.leave(self.holder)

    def _answer(self, number: int, error: EntrepotError | None, value: Any = None, unit: int = 0) -> None:
        if error is not None and error.outcome == "not_done":
            error = self.session.fenced or error  # a unit that is not there any more, for instance
        if number:
            if error is None:
                self.partner.send(Verb.DONE, number, verbs.DonePayload(value))
            else:
                self.partner.send(Verb.FAILED, number, verbs.Failed(to_wire(error)))
        elif error is not None:
            self._keep(error, unit)

    def _keep(self, error: EntrepotError, unit: int) -> None:
        """A verb that wanted no answer has failed; the end of its unit tells."""
        if len(self._errors) > UNITS_PER_CONNECTION_MAX:
            # To forget one would let its unit commit without what was refused.
            self.partner.close(FrameUnreadable(f"more than {UNITS_PER_CONNECTION_MAX} units of work with errors"))
            return
        # Its traceback would keep the frame in memory, and the message in it.
        error.__traceback__ = error.__context__ = error.__cause__ = None
        self._errors.setdefault(unit, error)

    def _unit(self, number: int) -> Unit | None:
        """The unit that a frame means; a unit begins with the first frame that names it."""
        if not number:
            return None
        unit = self._units.get(number)
        if unit is None:
            if len(self._units) >= UNITS_PER_CONNECTION_MAX:
                raise FrameUnreadable(f"more than {UNITS_PER_CONNECTION_MAX} units of work at a time")
            unit = self._units[number] = self.session.begin()
        return unit

    def _begun(self, number: int) -> Unit:
        """The same, where there has to be one."""
        unit = self._unit(number)
        if unit is None:
            raise FrameUnreadable("something was used without a unit of work")
        return unit

    def _put(self, number: int, frame: verbs.Put) -> None:
        session = self.session
        if frame.unit or frame.wait_s:
            pass  # not by the flat way
        elif frame.persistent:
            self._outstanding += 1
            if session.put_durably(frame.queue, frame.message, frame.priority, partial(self._was_put, number, 0)):
                return
            self._outstanding -= 1
        else:
            message_id = session.put_plain(frame.queue, frame.message, frame.persistent, frame.priority)
            if message_id:
                if number:
                    self.partner.send(Verb.DONE, number, verbs.DonePayload(message_id))
                return
        try:
            message_checks.require_names(frame.queue)
            message = message_checks.checked_message(
                frame.message, user=session.identity.user, application=session.application
            )
            priority = None if frame.priority is None else message_checks.priority(frame.priority)
            wait_s = message_checks.wait(frame.wait_s) if frame.wait_s else 0.0
            unit = self._unit(frame.unit) if frame.unit else None
        except ProtocolError:
            raise
        except EntrepotError as error:
            self._answer(number, error, unit=frame.unit)
            return
        self._outstanding += 1
        done = partial(self._was_put, number, frame.unit)
        session.put(
            frame.queue,
            message,
            done,
            persistent=frame.persistent,
            priority=priority,
            unit=unit,
            wait_s=wait_s,
            aside=number != 0,
        )

    def _was_put(self, number: int, unit: int, message_id: bytes, error: EntrepotError | None) -> None:
        self._outstanding -= 1
        self._answer(number, error, message_id, unit)
        if self._syncing and not self._outstanding:
            self._synchronized()

    def _synchronize(self, number: int, _: verbs.Empty) -> None:
        """Answer when all that was put before is where it belongs, with the first error among it."""
        self._syncing.append(number)
        if not self._outstanding:
            self._synchronized()

    def _synchronized(self) -> None:
        error = self._errors.pop(0, None)
        for number in self._syncing:
            self._answer(number, error)
        self._syncing.clear()

    def _get(self, number: int, frame: verbs.Get) -> None:
        message_checks.require_names(frame.queue)
        wanted = None if frame.wanted is None else self._criteria(frame.wanted)
        got = partial(self._got, number)
        self._begin_get(number, frame.queue, frame.unit, message_checks.wait(frame.wait_s), wanted, got)

    def _begin_get(
        self,
        number: int,
        queue: str,
        unit: int,
        wait_s: float,
        criteria: Criteria | None,
        got: Got,
        search: Search | None = None,
    ) -> None:
        self._require_number(number)
        own = self._unit(unit) if unit else None
        waits = partial(self._asked.__setitem__, number)
        self.session.get(queue, criteria, own, wait_s, got, waits=waits, search=search)

    def _require_number(self, number: int) -> None:
        if not number or number in self._asked:
            raise FrameUnreadable(f"{number} is still being asked, or 0")
        if len(self._asked) + len(self._leases) >= self.waiting_max:
            raise FrameUnreadable(f"more than {self.waiting_max} gets at a time, or not acknowledged")

    def _got(self, number: int, message: Message | None, lease: Unit | None, error: EntrepotError | None) -> None:
        self._asked.pop(number, None)
        if error is not None:
            self._answer(number, error)
            return
        if lease is not None:
            self._leases[number] = lease
        self.partner.send_message(Verb.MESSAGE, number, verbs.MessageAnswer(lease is not None, message))

    def _acknowledge(self, number: int, frame: verbs.NumberPayload) -> None:
        lease = self._leases.pop(frame.asked, None)
        if lease is not None:
            self.session.accept([lease], partial(self._answer, number))
        elif number:
            self._answer(number, None)

    def _cancel(self, number: int, frame: verbs.NumberPayload) -> None:
        waiting = self._asked.get(frame.asked)
        if waiting is not None:
            waiting.cancel()
        self._answer(number, None)

    def _request(self, number: int, frame: verbs.Request) -> None:
        session = self.session
        self._require_number(number)
        message_checks.require_names(frame.reply_queue)
        timeout_s = frame.timeout_s
        if not 0 < timeout_s < _TIMEOUT_S_USUAL:
            timeout_s = checks.seconds("timeout_s", timeout_s, positive=True)
        session.require("QUEUE", frame.reply_queue, "GET")
        replied = partial(self._replied, number, frame.queue, timeout_s)

        def waits(message_id: bytes) -> Waiter:
            waiting = WaitingGet(session, frame.reply_queue, Criteria(correlation_id=message_id), None, replied)
            waiting.begin(timeout_s)
            self._asked[number] = waiting
            return waiting.waiter

        session.count_waiting()
        if session.put_plain(frame.queue, frame.message, frame.persistent, frame.priority, waits, frame.reply_queue):
            return
        message_checks.require_names(frame.queue)
        with self.registry.host.lock:
            self.registry.engine.manager.readable(frame.reply_queue)  # or nothing is put
        message = message_checks.checked_message(
            frame.message, user=session.identity.user, application=session.application
        )

        def was_put(message_id: bytes, error: EntrepotError | None) -> None:
            if error is not None:
                self._answer(number, error)
                return
            if self.partner.closed:
                return  # nobody would get the reply
            wanted = Criteria(correlation_id=message_id)
            try:
                self._begin_get(number, frame.reply_queue, 0, timeout_s, wanted, replied)
            except ProtocolError as misused:
                self.partner.close(misused)

        session.put(
            frame.queue,
            message,
            was_put,
            persistent=frame.persistent,
            priority=message_checks.priority(frame.priority),
        )

    def _replied(
        self,
        number: int,
        queue: str,
        timeout_s: float,
        reply: Message | None,
        lease: Unit | None,
        error: EntrepotError | None,
    ) -> None:
        if reply is None and error is None:
            error = RequestTimedOut(queue, timeout_s)
        self._got(number, reply, lease, error)

    def _get_many(self, number: int, frame: verbs.GetMany) -> None:
        """The first may be waited for; what else is there comes with it."""
        message_checks.require_names(frame.queue)
        criteria = self._criteria(frame.wanted)
        limit = checks.whole_number("limit", frame.limit, 1, CONSUMER_CREDIT_MAX)
        wait_s = message_checks.wait(frame.wait_s)
        unit = self._unit(frame.unit)
        if unit is None:
            raise FrameUnreadable("GET_MANY without a unit of work")
        search = self.registry.engine.search_for(criteria)

        def got(message: Message | None, _: Unit | None, error: EntrepotError | None) -> None:
            self._asked.pop(number, None)
            if error is not None:
                self._answer(number, error)
                return
            messages = [message] if message is not None else []
            size = message.about_bytes() if message is not None else 0
            manager = self.registry.engine.manager
            # Once something was got, nothing that goes wrong may keep it from the reader.
            with suppress(EntrepotError, SearchPaused), self.registry.host.lock:
                while messages and len(messages) < limit and size < _ANSWER_BYTES:
                    more, _settlement = manager.get(frame.queue, criteria, unit, search)
                    if more is None:
                        break
                    messages.append(more)
                    size += more.about_bytes()
            self.partner.send(Verb.MESSAGES, number, verbs.MessagesAnswer(messages))

        self._begin_get(number, frame.queue, frame.unit, wait_s, criteria, got, search)

    def _get_group(self, number: int, frame: verbs.GetGroup) -> None:
        session = self.session
        self._require_number(number)
        message_checks.require_names(frame.queue)
        criteria = self._criteria(verbs.Wanted(selector=frame.selector, whole_group=True))
        wait_s = message_checks.wait(frame.wait_s)
        session.require("QUEUE", frame.queue, "GET")
        unit = self._unit(frame.unit)
        if criteria is None or unit is None:
            raise FrameUnreadable("GET_GROUP without a unit of work")

        def got(messages: list[Message], error: EntrepotError | None) -> None:
            self._asked.pop(number, None)
            if error is not None:
                self._answer(number, error)
            else:
                self.partner.send(Verb.MESSAGES, number, verbs.MessagesAnswer(messages))

        waiting = session.get_group(frame.queue, criteria, unit, wait_s, got)
        if waiting.is_waiting:
            self._asked[number] = waiting

    def _browse(self, number: int, frame: verbs.BrowsePayload) -> None:
        message_checks.require_names(frame.queue)
        self.session.require("QUEUE", frame.queue, "BROWSE")
        limit = min(checks.whole_number("limit", frame.limit, 1, 2**31), _BROWSE_MESSAGES_MAX)
        criteria, place = self._criteria(frame.wanted), frame.place
        manager = self.registry.engine.manager
        look_through = partial(browse, manager, limit=limit, bytes_max=_ANSWER_BYTES, turn=manager.turn)

        def look() -> None:
            nonlocal place
            try:
                with self.registry.host.lock:
                    found, place, more = look_through(frame.queue, criteria, place)
            except EntrepotError as error:
                self._answer(number, error)
                return
            if more and not found:
                raise SearchPaused
            self.partner.send(Verb.MESSAGES, number, verbs.MessagesAnswer(found, place))

        self.session.search(look)

    def _commit(self, number: int, frame: verbs.Commit) -> None:
        problem = self._errors.pop(frame.unit, None) if self._errors else None
        if frame.used and (problem is None or not frame.counted):
            too_many = self.consumers.enlist(frame.used, partial(self._begun, frame.unit))
            problem = problem or too_many
        unit = self._units.pop(frame.unit, None)
        if unit is None:
            # Nothing was done in it; if all its verbs were refused, that has to be told.
            self._answer(number, problem)
            return
        if problem is not None:
            # A put that nobody waited for was refused: all or nothing.
            self.session.back_out(unit, counted=frame.counted)
            self._answer(number, problem)
            return
        self.session.commit(unit, partial(self._committed, number, frame.unit, unit), counted=frame.counted)

    def _committed(self, number: int, named: int, unit: Unit, error: EntrepotError | None) -> None:
        if error is not None and number and unit in self.session.units:
            self._units[named] = unit
            self.partner.send(Verb.FAILED, number, verbs.Failed(to_wire(error), unit_active=True))
        else:
            self._answer(number, error)

    def _back_out(self, number: int, frame: verbs.BackOut) -> None:
        delay_s = checks.seconds("delay_s", frame.delay_s)
        problem = None if frame.rejected is None else checks.text("reason", frame.rejected)
        self._errors.pop(frame.unit, None)
        if frame.used:
            # If the unit has no room for them, they stay with their consumers and return as tried.
            self.consumers.enlist(frame.used, partial(self._begun, frame.unit))
        unit = self._units.pop(frame.unit, None)
        if unit is not None and problem is not None:
            self.session.reject_unit(unit, problem, partial(self._answer, number))
            return
        if unit is not None and delay_s:
            self.session.retry(unit, delay_s)
        elif unit is not None:
            self.session.back_out(unit, counted=frame.counted)
        self._answer(number, None)

    def _criteria(self, wanted: verbs.Wanted | None) -> Criteria | None:
        if wanted is None:
            return None
        for name in ("message_id", "correlation_id", "group_id"):
            value = getattr(wanted, name)
            if value is not None:
                checks.wanted_identifier(name, value)
        return Criteria(
            message_id=wanted.message_id,
            correlation_id=wanted.correlation_id,
            group_id=wanted.group_id,
            selector=None if wanted.selector is None else ready_selector(wanted.selector),
            whole_group=wanted.whole_group,
        )

    # --- consumers --------------------------------------------------------------------------------

    def _consume(self, number: int, frame: verbs.Consume) -> None:
        self.consumers.open(frame, self._criteria(frame.wanted), partial(self._answer, number))

    def _credit(self, number: int, frame: verbs.Credit) -> None:
        self.consumers.credit(frame, partial(self._answer, number))

    def _return(self, number: int, frame: verbs.ReturnPayload) -> None:
        self.consumers.give_back(number, frame)

    def _stop_consuming(self, number: int, frame: verbs.ConsumerPayload) -> None:
        problem = self.consumers.stop(frame, partial(self._begun, frame.unit))
        if problem is not None:
            self._keep(problem, frame.unit)
        self._answer(number, None)

    # --- publish/subscribe ------------------------------------------------------------------------

    def _subscribe(self, number: int, frame: verbs.Subscribe) -> None:
        subscribe(self.session, frame, partial(self._answer, number))

    def _unsubscribe(self, number: int, frame: verbs.Unsubscribe) -> None:
        unsubscribe(self.session, frame, partial(self._answer, number))

    # --- administration ---------------------------------------------------------------------------

    def _mqsc(self, number: int, frame: verbs.Mqsc) -> None:
        self.session.mqsc(frame.script, frame.source, partial(self._administered, number))

    def _administered(self, number: int, answers: list[Answer] | None, error: EntrepotError | None) -> None:
        if error is not None or answers is None:
            self._answer(number, error)
            return
        forms = [
            (each.command, each.line, each.output, each.rows, [to_wire(e) for e in each.errors], each.warnings)
            for each in answers
        ]
        self.partner.send(Verb.ANSWERS, number, verbs.Answers(forms))

    def _dynamic(self, number: int, frame: verbs.Dynamic) -> None:
        self.session.make_dynamic(frame.model, frame.pattern, lambda name, error: self._answer(number, error, name))

    def _manage(self, number: int, frame: verbs.Manage) -> None:
        self.session.manage(frame.what, frame.arguments, lambda value, error: self._answer(number, error, value))

    def _heartbeat(self, number: int, _: verbs.Empty) -> None:
        self.partner.send(Verb.ALIVE, number, _NOTHING)

    def _goodbye(self, number: int, _: verbs.Empty) -> None:
        self._answer(number, None)
        self.partner.close()

    _VERBS: ClassVar[dict[int, Callable[..., None]]]


def _carried_out_by(verb: Verb) -> Callable[..., None]:
    """What is called like the verb: a method of the conversation, or a function of one of the modules beside it."""
    name = f"_{verb.name.lower()}"
    found = [vars(place)[name] for place in (Conversation, claiming, coordination, putting) if name in vars(place)]
    assert len(found) == 1, f"{name}: {len(found)} of them"
    method: Callable[..., None] = found[0]
    return method


Conversation._VERBS = {
    verb: _carried_out_by(verb) for verb, definition in verbs.ASKED.items() if definition.in_conversation
}
