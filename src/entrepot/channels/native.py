# SPDX-License-Identifier: Apache-2.0
"""The native protocol's side of a server: frames become verbs of a session, and their outcomes frames.

A table leads from verb to method. Until its first frame has been admitted a
connection has no session, a small frame limit and a deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Protocol

from entrepot import checks
from entrepot.channels import vetting
from entrepot.channels.admission import Admission, Caller
from entrepot.channels.claiming import CLAIMING, SessionHolder
from entrepot.channels.coordination import COORDINATION
from entrepot.channels.desk import Desk, Identity
from entrepot.channels.gate import Gate
from entrepot.channels.judging import compile_first
from entrepot.channels.link import Link
from entrepot.channels.native_consumers import NativeConsumers
from entrepot.channels.open_subscriptions import subscribe, unsubscribe
from entrepot.channels.putting import PUTTING
from entrepot.channels.session import Session
from entrepot.channels.waiting_get import WaitingGet
from entrepot.channels.waiting_group import WaitingGroup
from entrepot.errors import (
    EntrepotError,
    Fenced,
    FrameUnreadable,
    HandshakeTimedOut,
    HeartbeatMissed,
    ProtocolError,
    RequestTimedOut,
    UnknownVerb,
    VersionUnsupported,
    WrongManager,
)
from entrepot.limits import CONSUMER_CREDIT_MAX, KIB, UNITS_PER_CONNECTION_MAX, WAITING_PER_CONNECTION_MAX
from entrepot.message import Message
from entrepot.mqsc import Answer
from entrepot.queues.browsing import browse
from entrepot.queues.criteria import Criteria
from entrepot.queues.definitions import Channel
from entrepot.queues.search import Search, SearchPaused
from entrepot.queues.unit_of_work import Unit
from entrepot.selectors import NotCompiledYet, ready_selector
from entrepot.wire import verbs
from entrepot.wire.codec import decode_asked
from entrepot.wire.error_form import to_wire
from entrepot.wire.frame import HANDSHAKE_FRAME_BYTES_MAX, VERSION, FrameReader, frame_bytes_max, read_buffer
from entrepot.wire.verbs import MAGIC, Verb

_ANSWER_BYTES = 512 * KIB
"""When an answer has this much, no more messages join it: with one more it still fits into the longest frame."""
_BROWSE_MESSAGES_MAX = 1000

_FENCED_S = 2.0
"""How long a partner that is fenced may ask and be refused, so that it knows what became of what it said before."""
_HEARD_FROM_THE_FENCED = (Verb.HEARTBEAT, Verb.GOODBYE)

_NOTHING = verbs.Empty()


class ChannelEnd(Protocol):
    """The receiving end of a channel between queue managers."""

    def handle(self, verb: int, number: int, payload: Any) -> None: ...

    def lost(self) -> None: ...


ReceiverFactory = Callable[["NativeLink", verbs.ChannelHello, Channel, Identity], ChannelEnd]


class NativeLink(Link):
    """One accepted connection."""

    __slots__ = (
        "_asked", "_consumers", "_deadline", "_errors", "_is_stranger", "_leases", "_make_receiver", "_outstanding",
        "_syncing", "_units", "_unread_bytes", "admission", "caller", "channel", "gate", "handshake_s", "holder",
        "identity", "receiver", "session",
    )  # fmt: skip

    def __init__(
        self,
        desk: Desk,
        admission: Admission,
        gate: Gate,
        make_receiver: ReceiverFactory | None = None,
        handshake_s: float = 10.0,
    ) -> None:
        super().__init__(desk, decode_asked)
        # Who is not known yet is not read much of at a time, either.
        self.reader = FrameReader(read_buffer()[:HANDSHAKE_FRAME_BYTES_MAX])
        self.caller: Caller | None = None
        """Who has passed the gate."""
        self.admission = admission
        self.gate = gate
        self.handshake_s = handshake_s
        self.identity: Identity | None = None
        self.session: Session | None = None
        self.channel = Channel(name="")
        self.receiver: ChannelEnd | None = None
        self.holder: SessionHolder | None = None
        """As what it has claimed something, if it has."""
        self._make_receiver = make_receiver
        self._units: dict[int, Unit] = {}
        self._errors: dict[int, EntrepotError] = {}
        """What went wrong with verbs that wanted no answer, by unit; 0 is outside of any."""
        self._asked: dict[int, WaitingGet | WaitingGroup] = {}
        self._leases: dict[int, Unit] = {}
        self._consumers = NativeConsumers(self)
        self._outstanding = 0
        self._syncing: list[int] = []
        self._unread_bytes = 0
        self._deadline: Any = None
        self._is_stranger = False

    # --- the beginning --------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        caller = Caller.of(transport)
        if not self._enter(caller):
            self.closed = True
            transport.abort()
            return
        self.caller = caller
        self._is_stranger = True
        self.address = caller.address
        self.desk.links.add(self)
        self._deadline = self.desk.loop.call_later(self.handshake_s, self._too_slow)

    def _enter(self, caller: Caller) -> bool:
        if not self.gate.enter(caller.address):
            self.admission.turned_away(caller, "connections of the listener")
            return False
        if not self.admission.meet(caller):
            self.gate.leave(caller.address)
            return False
        return True

    def _end_handshake(self) -> None:
        """The partner is admitted, or gone."""
        if self._is_stranger and self.caller is not None:
            self._is_stranger = False
            self.admission.part(self.caller)

    def _too_slow(self) -> None:
        self.close(HandshakeTimedOut(self.address, self.handshake_s))

    def _admit(self, verb: int, number: int, hello: Any) -> None:
        if verb not in (Verb.HELLO, Verb.CHANNEL_HELLO):
            raise FrameUnreadable(f"the first frame must be HELLO, not {Verb(verb).name}")
        if hello.magic != MAGIC:
            raise FrameUnreadable("this is not Entrepot's protocol")
        if hello.version != VERSION:
            raise VersionUnsupported(hello.version, VERSION)
        self.hold()
        self._deadline.cancel()
        self._deadline = None
        task = self.desk.loop.create_task(self._admission(verb, number, hello))
        task.add_done_callback(self._admission_ended)

    def _admission_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.close()
            raise task.exception()  # type: ignore[misc]  # to the loop's handler, which logs it

    async def _admission(self, verb: int, number: int, hello: Any) -> None:
        between_managers = verb == Verb.CHANNEL_HELLO
        if self.caller is None or self.closed:
            return
        try:
            identity = await self.admission.admit(
                self.caller,
                kind="RCVR" if between_managers else "SVRCONN",
                channel=hello.channel,
                user=hello.user,
                password=hello.password,
                application=hello.manager if between_managers else hello.application,
            )
        except EntrepotError as error:
            self._refuse(number, error)
            return
        if self.closed:
            self.admission.leave(identity)
            return
        self.identity = identity
        self._end_handshake()
        try:
            self._require_manager(hello.target if between_managers else hello.manager)
            self.channel = self.admission.channel_of(identity)
            self.reader.widen(read_buffer(), frame_bytes_max(self.channel.body_bytes_max))
            if between_managers:
                if self._make_receiver is None:
                    raise UnknownVerb(verb)
                self.receiver = self._make_receiver(self, hello, self.channel, identity)
            else:
                self._open(number, hello, identity)
        except EntrepotError as error:
            self._refuse(number, error)
            return
        self.resume()

    def _require_manager(self, wanted: str) -> None:
        name = self.desk.host.settings.name
        if wanted and wanted != name:
            raise WrongManager(self.address, wanted, name)

    def _open(self, number: int, hello: verbs.Hello, identity: Identity) -> None:
        application = checks.text("application", hello.application)
        self.session = session = Session(self.desk, identity, application, "NATIVE")
        session.on_unblocked, session.on_replaced = self.resume, self.close
        host = self.desk.host
        heartbeat_s = self.channel.heartbeat_s
        self.send(
            Verb.WELCOME,
            number,
            verbs.Welcome(
                VERSION,
                host.settings.name,
                session.number,
                heartbeat_s,
                self.channel.body_bytes_max,
                identity.user,
                host.manager.incarnation,
                host.manager.message_id_head(session.number),
                self.desk.succession.follow(session, hello.before),
            ),
        )

    def _refuse(self, number: int, error: EntrepotError) -> None:
        if not self.closed:
            self.send(Verb.FAILED, number, verbs.Failed(to_wire(error)))
            self.close()

    @property
    def heartbeat_s(self) -> float:
        """How often the partner has to say something; 0 is never, as while we do not listen to it."""
        admitted = self.session is not None or self.receiver is not None
        return self.channel.heartbeat_s if admitted and not self.is_deaf else 0.0

    def reassure(self) -> None:
        """While a verb holds up the partner's heartbeats too, tell it that we live; and see whether it reads."""
        if self.session is not None and self.is_deaf and self.channel.heartbeat_s:
            self.send(Verb.ALIVE, 0, _NOTHING)
        unread_bytes = self.transport.get_write_buffer_size() if self.unread else 0
        if unread_bytes < self._unread_bytes:
            self.heard = self.desk.loop.time()
        self._unread_bytes = unread_bytes

    # --- the end ----------------------------------------------------------------------------------

    def fence(self, error: Fenced) -> None:
        """Somebody has taken the partner's place: tell it why, answer what was carried out before, and end."""
        if self.session is None or self.session.closed:
            return
        if not self.closed:
            self.send(Verb.CLOSING, 0, verbs.Closing(to_wire(error)))
            self.desk.loop.call_later(_FENCED_S, self.close)
        self.session.fence(error)

    def close(self, error: EntrepotError | None = None) -> None:
        if isinstance(error, HeartbeatMissed):
            self._consumers.see_all()
        super().close(error)

    def on_lost(self, problem: Exception | None) -> None:
        if isinstance(problem, TimeoutError):
            self._consumers.see_all()
        if self._deadline is not None:
            self._deadline.cancel()
        if self.receiver is not None:
            self.receiver.lost()
        if self.session is not None:
            self.session.close()
        if self.holder is not None:
            with self.desk.host.lock:
                self.desk.host.manager.claims.leave(self.holder)
        if self.identity is not None:
            self.admission.leave(self.identity)
            self.identity = None
        if self.caller is not None:
            self._end_handshake()
            self.desk.links.discard(self)
            self.gate.leave(self.caller.address)
            self.caller = None

    # --- frames -----------------------------------------------------------------------------------

    @property
    def is_blocked(self) -> bool:
        return self.unread or (self.session is not None and self.session.blocked)

    def on_frame(self, verb: int, number: int, payload: Any) -> None:
        if self.receiver is not None:
            self.receiver.handle(verb, number, payload)
            return
        if self.session is None:
            self._admit(verb, number, payload)
            return
        method = self._VERBS.get(verb)
        if method is None:
            raise UnknownVerb(verb)
        if self.session.fenced is not None and verb not in _HEARD_FROM_THE_FENCED:
            self._answer(number, self.session.fenced)
            return
        try:
            method(self, number, payload)
        except ProtocolError:
            raise
        except NotCompiledYet as text:
            compile_first(self.session, text.text, partial(self.late, verb, number, payload))
        except EntrepotError as error:
            self._answer(number, error)
        if self.session.blocked:
            self.hold()

    def _answer(self, number: int, error: EntrepotError | None, value: Any = None, unit: int = 0) -> None:
        if error is not None and error.outcome == "not_done" and self.session is not None:
            error = self.session.fenced or error  # a unit that is not there any more, for instance
        if number:
            if error is None:
                self.send(Verb.DONE, number, verbs.Done(value))
            else:
                self.send(Verb.FAILED, number, verbs.Failed(to_wire(error)))
        elif error is not None:
            self._keep(error, unit)

    def _keep(self, error: EntrepotError, unit: int) -> None:
        """A verb that wanted no answer has failed; the end of its unit tells."""
        if len(self._errors) > UNITS_PER_CONNECTION_MAX:
            # To forget one would let its unit commit without what was refused.
            self.close(FrameUnreadable(f"more than {UNITS_PER_CONNECTION_MAX} units of work with errors"))
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
            assert self.session is not None
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
        assert session is not None
        try:
            vetting.require_names(frame.queue)
            message = vetting.vetted(frame.message, user=session.identity.user, application=session.application)
            priority = None if frame.priority is None else vetting.priority(frame.priority)
            wait_s = vetting.wait(frame.wait_s) if frame.wait_s else 0.0
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
        assert self.session is not None
        vetting.require_names(frame.queue)
        wanted = None if frame.wanted is None else self._criteria(frame.wanted)
        self._begin_get(number, frame.queue, frame.unit, vetting.wait(frame.wait_s), wanted, self._got)

    def _begin_get(
        self,
        number: int,
        queue: str,
        unit: int,
        wait_s: float,
        criteria: Criteria | None,
        got: Callable[..., None],
        search: Search | None = None,
    ) -> None:
        assert self.session is not None
        self._require_number(number)
        own = self._unit(unit) if unit else None
        waits = partial(self._asked.__setitem__, number)
        self.session.get(queue, criteria, own, wait_s, partial(got, number), waits=waits, search=search)

    def _require_number(self, number: int) -> None:
        if not number or number in self._asked:
            raise FrameUnreadable(f"{number} is still being asked, or 0")
        if len(self._asked) + len(self._leases) >= WAITING_PER_CONNECTION_MAX:
            raise FrameUnreadable(f"more than {WAITING_PER_CONNECTION_MAX} gets at a time, or not acknowledged")

    def _got(self, number: int, message: Message | None, lease: Unit | None, error: EntrepotError | None) -> None:
        self._asked.pop(number, None)
        if error is not None:
            self._answer(number, error)
            return
        if lease is not None:
            self._leases[number] = lease
        self.send_message(Verb.MESSAGE, number, verbs.MessageAnswer(lease is not None, message))

    def _acknowledge(self, number: int, frame: verbs.OfNumber) -> None:
        assert self.session is not None
        lease = self._leases.pop(frame.asked, None)
        if lease is not None:
            self.session.accept([lease], partial(self._answer, number))
        elif number:
            self._answer(number, None)

    def _cancel(self, number: int, frame: verbs.OfNumber) -> None:
        waiting = self._asked.get(frame.asked)
        if waiting is not None:
            waiting.cancel()
        self._answer(number, None)

    def _request(self, number: int, frame: verbs.Request) -> None:
        session = self.session
        assert session is not None
        self._require_number(number)
        vetting.require_names(frame.queue)
        vetting.require_names(frame.reply_queue)
        timeout_s = checks.seconds("timeout_s", frame.timeout_s, positive=True)
        session.require("QUEUE", frame.reply_queue, "GET")
        with self.desk.host.lock:
            self.desk.engine.manager.readable(frame.reply_queue)  # or nothing is put
        message = vetting.vetted(frame.message, user=session.identity.user, application=session.application)

        def was_put(message_id: bytes, error: EntrepotError | None) -> None:
            if error is not None:
                self._answer(number, error)
                return
            if self.closed:
                return  # nobody would get the reply
            wanted = Criteria(correlation_id=message_id)
            try:
                self._begin_get(number, frame.reply_queue, 0, timeout_s, wanted, replied)
            except ProtocolError as misused:
                self.close(misused)

        def replied(number: int, reply: Message | None, lease: Unit | None, error: EntrepotError | None) -> None:
            if reply is None and error is None:
                error = RequestTimedOut(frame.queue, timeout_s)
            self._got(number, reply, lease, error)

        session.put(
            frame.queue,
            message,
            was_put,
            persistent=frame.persistent,
            priority=vetting.priority(frame.priority),
        )

    def _get_many(self, number: int, frame: verbs.GetMany) -> None:
        """The first may be waited for; what else is there comes with it."""
        vetting.require_names(frame.queue)
        criteria = self._criteria(frame.wanted)
        limit = checks.whole_number("limit", frame.limit, 1, CONSUMER_CREDIT_MAX)
        wait_s = vetting.wait(frame.wait_s)
        unit = self._unit(frame.unit)
        if unit is None:
            raise FrameUnreadable("GET_MANY without a unit of work")
        search = self.desk.engine.search_for(criteria)

        def got(number: int, message: Message | None, _: Unit | None, error: EntrepotError | None) -> None:
            self._asked.pop(number, None)
            if error is not None:
                self._answer(number, error)
                return
            messages = [message] if message is not None else []
            size = message.about_bytes() if message is not None else 0
            manager = self.desk.engine.manager
            # Once something was got, nothing that goes wrong may keep it from the reader.
            with suppress(EntrepotError, SearchPaused), self.desk.host.lock:
                while messages and len(messages) < limit and size < _ANSWER_BYTES:
                    more, _settlement = manager.get(frame.queue, criteria, unit, search)
                    if more is None:
                        break
                    messages.append(more)
                    size += more.about_bytes()
            self.send(Verb.MESSAGES, number, verbs.MessagesAnswer(messages))

        self._begin_get(number, frame.queue, frame.unit, wait_s, criteria, got, search)

    def _get_group(self, number: int, frame: verbs.GetGroup) -> None:
        session = self.session
        assert session is not None
        self._require_number(number)
        vetting.require_names(frame.queue)
        criteria = self._criteria(verbs.Wanted(selector=frame.selector, whole_group=True))
        wait_s = vetting.wait(frame.wait_s)
        session.require("QUEUE", frame.queue, "GET")
        unit = self._unit(frame.unit)
        if criteria is None or unit is None:
            raise FrameUnreadable("GET_GROUP without a unit of work")

        def got(messages: list[Message], error: EntrepotError | None) -> None:
            self._asked.pop(number, None)
            if error is not None:
                self._answer(number, error)
            else:
                self.send(Verb.MESSAGES, number, verbs.MessagesAnswer(messages))

        waiting = session.get_group(frame.queue, criteria, unit, wait_s, got)
        if waiting.is_waiting:
            self._asked[number] = waiting

    def _browse(self, number: int, frame: verbs.Browse) -> None:
        assert self.session is not None
        vetting.require_names(frame.queue)
        self.session.require("QUEUE", frame.queue, "BROWSE")
        limit = min(checks.whole_number("limit", frame.limit, 1, 2**31), _BROWSE_MESSAGES_MAX)
        criteria, place = self._criteria(frame.wanted), frame.place
        manager = self.desk.engine.manager
        look_through = partial(browse, manager, limit=limit, bytes_max=_ANSWER_BYTES, turn=manager.turn)

        def look() -> None:
            nonlocal place
            try:
                with self.desk.host.lock:
                    found, place, more = look_through(frame.queue, criteria, place)
            except EntrepotError as error:
                self._answer(number, error)
                return
            if more and not found:
                raise SearchPaused
            self.send(Verb.MESSAGES, number, verbs.MessagesAnswer(found, place))

        self.session.search(look)

    def _commit(self, number: int, frame: verbs.Commit) -> None:
        assert self.session is not None
        problem = self._errors.pop(frame.unit, None) if self._errors else None
        if frame.used and (problem is None or not frame.counted):
            too_many = self._consumers.enlist(frame.used, partial(self._begun, frame.unit))
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
        if error is not None and number and self.session is not None and unit in self.session.units:
            self._units[named] = unit
            self.send(Verb.FAILED, number, verbs.Failed(to_wire(error), unit_active=True))
        else:
            self._answer(number, error)

    def _back_out(self, number: int, frame: verbs.BackOut) -> None:
        assert self.session is not None
        self._errors.pop(frame.unit, None)
        if frame.used and not frame.counted:
            # If the unit has no room for them, they stay with their consumers and return as tried.
            self._consumers.enlist(frame.used, partial(self._begun, frame.unit))
        unit = self._units.pop(frame.unit, None)
        if unit is not None:
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
        self._consumers.open(frame, self._criteria(frame.wanted), partial(self._answer, number))

    def _stop_consuming(self, number: int, frame: verbs.OfConsumer) -> None:
        problem = self._consumers.stop(frame, partial(self._begun, frame.unit))
        if problem is not None:
            self._keep(problem, frame.unit)
        self._answer(number, None)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._consumers.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._consumers.resume()

    # --- administration ---------------------------------------------------------------------------

    def _mqsc(self, number: int, frame: verbs.Mqsc) -> None:
        assert self.session is not None
        self.session.mqsc(frame.script, frame.source, partial(self._administered, number))

    def _administered(self, number: int, answers: list[Answer] | None, error: EntrepotError | None) -> None:
        if error is not None or answers is None:
            self._answer(number, error)
            return
        forms = [
            (each.command, each.line, each.output, each.rows, [to_wire(e) for e in each.errors], each.warnings)
            for each in answers
        ]
        self.send(Verb.ANSWERS, number, verbs.Answers(forms))

    def _dynamic(self, number: int, frame: verbs.Dynamic) -> None:
        assert self.session is not None
        self.session.make_dynamic(frame.model, frame.pattern, lambda name, error: self._answer(number, error, name))

    def _manage(self, number: int, frame: verbs.Manage) -> None:
        assert self.session is not None
        self.session.manage(frame.what, frame.arguments, lambda value, error: self._answer(number, error, value))

    def _goodbye(self, number: int, _: verbs.Empty) -> None:
        self._answer(number, None)
        self.close()

    _VERBS: ClassVar[dict[int, Callable[..., None]]] = {
        Verb.PUT: _put,
        Verb.GET: _get,
        Verb.REQUEST: _request,
        Verb.GET_MANY: _get_many,
        Verb.GET_GROUP: _get_group,
        Verb.BROWSE: _browse,
        Verb.COMMIT: _commit,
        Verb.BACK_OUT: _back_out,
        Verb.CONSUME: _consume,
        Verb.CREDIT: lambda link, number, frame: link._consumers.credit(frame, partial(link._answer, number)),
        Verb.STOP_CONSUMING: _stop_consuming,
        Verb.RETURN: lambda link, number, frame: link._consumers.give_back(number, frame),
        Verb.ACKNOWLEDGE: _acknowledge,
        Verb.CANCEL: _cancel,
        Verb.SYNCHRONIZE: _synchronize,
        Verb.MQSC: _mqsc,
        Verb.DYNAMIC: _dynamic,
        Verb.MANAGE: _manage,
        Verb.SUBSCRIBE: lambda link, number, frame: subscribe(link.session, frame, partial(link._answer, number)),
        Verb.UNSUBSCRIBE: lambda link, number, frame: unsubscribe(link.session, frame, partial(link._answer, number)),
        Verb.HEARTBEAT: lambda link, number, _: link.send(Verb.ALIVE, number, _NOTHING),
        Verb.GOODBYE: _goodbye,
        **COORDINATION,
        **CLAIMING,
        **PUTTING,
    }
