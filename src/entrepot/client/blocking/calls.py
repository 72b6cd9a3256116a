# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/calls.py by tools/blocking: change that one.
"""The verbs of a queue manager as a client asks them, over any line: what a connection and its parts stand on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from entrepot.client.blocking.transport import Transport
from entrepot.client.options import Sender
from entrepot.client.protocol import NOT_ASKED, is_repeatable
from entrepot.client.read_ahead import HeldAhead, ReadAhead, RemoteUnit, ended_with
from entrepot.client.requests import queue_name, wanted
from entrepot.engine.criteria import Criteria
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    EntrepotError,
    Fenced,
    SecurityError,
    UnitBackedOut,
)
from entrepot.message import Message, PutInUnit
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

Result = TypeVar("Result")
Ahead = TypeVar("Ahead", bound=ReadAhead)
Place = tuple[int, int]
"""Where a browse goes on."""

_FOREVER = float("inf")


class Calls:
    """One client's verbs; messages and criteria go in and out as they are."""

    def __init__(self, line: Transport) -> None:
        self.line = line
        self.core = line.core

    # --- asking ---------------------------------------------------------------------------------

    def ask(self, verb: int, request: Any) -> Any:
        """Ask and wait for the answer; what may be repeated is asked again when the connection breaks."""
        deadline = _FOREVER
        while True:
            try:
                return self.line.call(verb, request)
            except ConnectionLost:
                now = time.monotonic()
                if not self.line.mends_itself or now >= deadline or not is_repeatable(verb, request):
                    raise
                deadline = min(deadline, now + self.line.reconnect_s)

    def do_in(self, unit: RemoteUnit, step: Callable[[], Result], *, urgent: bool = True) -> Result:
        """Take a step in a unit of work that is active, on its own connection."""
        if self.line.is_closed:
            raise ConnectionClosed()
        self.core.require_active(unit)
        try:
            return self.line.do(step, urgent=urgent)
        except (ConnectFailed, SecurityError, Fenced) as error:
            self.core.is_out_of_reach(unit, error)
            raise

    def _number_of(self, unit: RemoteUnit) -> int:
        """What a step names a unit by; it may have ended while a connection was waited for."""
        self.core.require_active(unit)
        return self.core.require_unit(unit)

    def ask_in(self, unit: RemoteUnit | None, verb: int, request: Callable[[int], Any]) -> Any:
        """Ask something that may belong to a unit of work; a broken connection has backed that out."""
        slot = self.line.slot()
        if unit is None:
            self.line.do(lambda: self.core.ask(verb, request(0), slot))
        else:
            self.do_in(unit, lambda: self.core.ask(verb, request(self._number_of(unit)), slot))
        return self._answer_in(unit, slot)

    def _answer_in(self, unit: RemoteUnit | None, slot: Any) -> Any:
        try:
            return self.line.answer(slot)
        except ConnectionLost as error:
            if unit is None:
                raise
            unit.state = UnitState.BACKED_OUT
            raise UnitBackedOut(unit.number, error.problem) from error

    # --- put ------------------------------------------------------------------------------------

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None = None,
        priority: int | None = None,
        unit: RemoteUnit | None = None,
        wait_s: float = 0.0,
    ) -> bytes:
        """Put a message. In a unit of work far away a refusal is told when that commits, unless it waits for room."""
        core = self.core
        while unit is None:
            opened = core.opened
            message_id, frame = core.put(name, message, persistent, priority, 0, wait_s)
            if self.line.call(Verb.PUT, frame, opened=opened) is not NOT_ASKED:
                return message_id  # else it has an id of a connection that is gone
        slot = self.line.slot() if wait_s or self.line.is_near else None

        def step() -> bytes:
            message_id, frame = core.put(name, message, persistent, priority, self._number_of(unit), wait_s)
            if slot is None:
                core.tell(Verb.PUT, frame)
            else:
                core.ask(Verb.PUT, frame, slot)
            unit.messages += 1
            return message_id

        message_id = self.do_in(unit, step, urgent=slot is not None)
        if slot is not None:
            self._answer_in(unit, slot)
        return message_id

    def put_many(self, unit: RemoteUnit, puts: Sequence[PutInUnit], *, answered: bool = False) -> list[bytes]:
        """Put messages in a unit of work. A refusal is told when that commits or, if `answered`, now.

        Raises:
            MessageTooLong: The channel would not take one of them; nothing was sent.
        """
        core = self.core
        slot = self.line.slot() if answered or self.line.is_near else None

        def step() -> list[bytes]:
            number = self._number_of(unit)
            message_ids = core.put_many(number, puts, slot)
            unit.messages += len(puts)
            return message_ids

        message_ids = self.do_in(unit, step, urgent=answered)
        if slot is not None:
            self._answer_in(unit, slot)
        return message_ids

    def put_bodies(
        self, unit: RemoteUnit, name: str, bodies: Sequence[bytes], persistent: bool | None, sender: Sender
    ) -> list[bytes]:
        """`put_many` for messages that differ in their bodies only."""
        core = self.core
        if self.line.is_near:
            user, application = sender
            return self.put_many(
                unit,
                [(name, persistent, None, Message(body, user=user, application=application)) for body in bodies],
            )

        def step() -> list[bytes]:
            message_ids = core.gather_bodies(self._number_of(unit), name, bodies, persistent, sender)
            unit.messages += len(bodies)
            return message_ids

        return self.do_in(unit, step, urgent=False)

    def put_unanswered(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None,
        priority: int | None,
        wait_s: float = 0.0,
        urgent: bool = True,
    ) -> bytes:
        """Send a put; should it be refused, the next `synchronize` tells."""
        core = self.core
        while True:
            opened = core.opened
            message_id, frame = core.put(name, message, persistent, priority, 0, wait_s)
            if self.line.tell(Verb.PUT, frame, opened=opened, urgent=urgent):
                return message_id  # else it has an id of a connection that is gone

    def synchronize(self) -> None:
        """Return when all puts that wanted no answer are where they belong.

        Raises:
            EntrepotError: The first that was refused; the others were carried out.
        """
        self.ask(Verb.SYNCHRONIZE, verbs.Empty())

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
    ) -> Message | None:
        """Put a request and get its reply with one verb.

        `opened` is the connection that has made the reply queue. None: it has
        broken, and the reply queue is gone with it; nothing was put.

        Raises:
            RequestTimedOut: No reply came in time.
        """
        self.core.require_fitting(message)
        frame = verbs.Request(queue_name(name), reply_queue, timeout_s, persistent, priority, message)
        reply: Any = self.line.call(Verb.REQUEST, frame, opened=opened)
        return None if reply is NOT_ASKED else reply

    # --- get and browse -------------------------------------------------------------------------

    def get(
        self,
        name: str,
        criteria: Criteria | None = None,
        *,
        unit: RemoteUnit | None = None,
        wait_s: float = 0.0,
    ) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""
        deadline = time.monotonic() + wait_s
        queue, which = queue_name(name), wanted(criteria)

        def request(number: int) -> verbs.Get:
            return verbs.Get(queue, number, wait_s, which)

        while True:
            try:
                message: Message | None = self.ask_in(unit, Verb.GET, request)
                return message
            except ConnectionLost as error:
                # Outside of a unit of work nothing persistent was lost: asking again is safe.
                wait_s = max(deadline - time.monotonic(), 0.0)
                if self.line.is_closed:
                    raise ConnectionClosed() from error
                if not self.line.mends_itself:
                    raise

    def get_many(
        self, name: str, limit: int, criteria: Criteria | None, *, unit: RemoteUnit, wait_s: float = 0.0
    ) -> list[Message]:
        """Up to `limit` messages at once; only the first is waited for."""
        queue, which = queue_name(name), wanted(criteria)
        answer = self.ask_in(unit, Verb.GET_MANY, lambda number: verbs.GetMany(queue, number, limit, wait_s, which))
        messages: list[Message] = answer.messages
        return messages

    def get_group(
        self, name: str, criteria: Criteria, *, unit: RemoteUnit, wait_s: float = 0.0
    ) -> list[Message] | None:
        """All messages of the next whole group."""
        queue = queue_name(name)
        selector = None if criteria.selector is None else criteria.selector.text
        answer = self.ask_in(unit, Verb.GET_GROUP, lambda number: verbs.GetGroup(queue, number, wait_s, selector))
        return answer.messages or None

    def browse(
        self, name: str, criteria: Criteria | None, place: Place | None, limit: int
    ) -> tuple[list[Message], Place | None]:
        """Up to `limit` messages behind a place, left where they are, and the place to go on from."""
        answer = self.ask(Verb.BROWSE, verbs.BrowsePayload(queue_name(name), place, limit, wanted(criteria)))
        return answer.messages, answer.place

    # --- units of work --------------------------------------------------------------------------

    def begin(self) -> RemoteUnit:
        """A unit of work; the queue manager hears of it with its first verb.

        Raises:
            ConnectionClosed, Fenced
        """
        if self.line.is_closed:
            raise ConnectionClosed()
        self.core.require_unfenced()
        return self.core.begin_unit()

    def commit(self, unit: RemoteUnit, *, counted: bool = True) -> None:
        """Let everything happen; see `UnitOfWork.commit`."""
        self.end(
            unit,
            UnitState.COMMITTED,
            lambda number: (Verb.COMMIT, verbs.Commit(number, unit.deliveries, counted)),
        )

    def prepare(self, unit: RemoteUnit, transaction_id: bytes) -> None:
        """Leave the outcome to a coordinator."""
        self.end(
            unit,
            UnitState.PREPARED,
            lambda number: (Verb.PREPARE, verbs.Prepare(number, transaction_id, unit.deliveries)),
        )

    def end(self, unit: RemoteUnit, ended: UnitState, verb: Callable[[int], tuple[int, Any]]) -> None:
        """End a unit by a verb that has to be answered; its state says afterwards what is known."""
        if unit.behind:
            self._follow(unit)
        core, slot = self.core, self.line.slot()

        def step() -> bool:
            was_used = unit.used
            number = self._number_of(unit)
            if was_used or ended is not UnitState.COMMITTED:
                core.ask(*verb(number), slot)
                return True
            return False  # nothing was done in it

        asked = self.do_in(unit, step)
        try:
            if asked:
                self.line.answer(slot)
        except EntrepotError as error:
            ended_with(unit, error, unit_active=slot.unit_active)
            if unit.state is UnitState.BACKED_OUT:
                self.give_back(unit)
            raise
        except BaseException:
            unit.state = UnitState.UNKNOWN  # whoever waited for it was interrupted
            raise
        unit.state = ended
        for ahead in unit.aheads:
            if ahead.unit is unit:
                ahead.settled, ahead.unit = ahead.given, None

    def begin_commit(self, unit: RemoteUnit) -> None:
        """Ask for a commit, uncounted; see `UnitOfWork.begin_commit`."""
        if unit.behind:
            self._follow(unit)
        core, slot = self.core, self.line.slot()

        def step() -> None:
            was_used = unit.used
            number, used = self._number_of(unit), unit.deliveries
            if not was_used:
                unit.state = UnitState.COMMITTED  # nothing was done in it
                return
            unit.state, unit.asked = UnitState.ENDING, slot
            unit.left = [(ahead, ahead.given) for ahead in unit.aheads if ahead.unit is unit]
            for ahead, _ in unit.left:
                ahead.unit = None  # what it gives from now on is the next unit's
            core.ask(Verb.COMMIT, verbs.Commit(number, used, False), slot)

        self.do_in(unit, step)

    def finish_commit(self, unit: RemoteUnit) -> None:
        """Wait for a commit that is on its way; see `UnitOfWork.finish_commit`."""
        if unit.state is not UnitState.ENDING:
            if unit.problem is not None:
                raise unit.problem
            return
        slot = unit.asked
        try:
            self.line.answer(slot)
        except EntrepotError as error:
            unit.problem = error
            ended_with(unit, error, unit_active=False)
            self._undo(unit, is_active=slot.unit_active)
            raise
        except BaseException:
            unit.state = UnitState.UNKNOWN  # whoever waited for it was interrupted
            raise
        unit.state = UnitState.COMMITTED
        for ahead, given in unit.left:
            ahead.settled = max(ahead.settled, given)

    def _undo(self, unit: RemoteUnit, *, is_active: bool) -> None:
        """A commit that was on its way has failed: what the unit had comes again, before what is read ahead."""
        if is_active:  # at the server, which would take a second one: but the next unit has waited long enough
            unit.state = UnitState.ACTIVE
            self.back_out(unit, counted=False)
        for ahead, _ in unit.left:
            if ahead.unit is None:  # else that unit stops it when it is backed out
                self.stop_holding(ahead)

    def _follow(self, unit: RemoteUnit) -> None:
        """Wait for those units whose messages came before its own.

        Raises:
            UnitBackedOut: One of them has not been committed, so this one was backed out, too, uncounted.
        """
        behind, unit.behind = unit.behind, []
        for before in behind:
            with contextlib.suppress(EntrepotError):
                self.finish_commit(before)
            if before.state is not UnitState.COMMITTED and unit.state is UnitState.ACTIVE:
                self.back_out(unit, counted=False)
                problem = f"the unit of work before it was not committed ({before.state.value})"
                raise UnitBackedOut(unit.number, problem) from before.problem

    def back_out(
        self, unit: RemoteUnit, *, counted: bool = True, delay_s: float = 0.0, rejected: str | None = None
    ) -> None:
        """Let nothing happen; see `UnitOfWork.back_out` and `UnitOfWork.reject`."""
        if self.line.is_closed:
            raise ConnectionClosed()
        core, slot = self.core, self.line.slot()

        def step() -> bool:
            core.require_active(unit)
            unit.state = UnitState.BACKED_OUT
            if not unit.used or unit.opened != core.opened:
                return False
            used = unit.deliveries if delay_s or rejected is not None or not counted else []
            core.ask(Verb.BACK_OUT, verbs.BackOut(unit.number, counted, used, delay_s, rejected), slot)
            return True

        core.require_active(unit)
        if not self.line.do_if_connected(step):
            unit.state = UnitState.BACKED_OUT  # the server has done so when the connection broke
            return
        with contextlib.suppress(ConnectionLost, Fenced):  # it is backed out all the same
            self.line.answer(slot)
        self.give_back(unit)

    def tell_back_out(self, unit: RemoteUnit, *, counted: bool) -> None:
        """Back out a unit without waiting for that; part of a step."""
        if unit.state is UnitState.ACTIVE:
            unit.state = UnitState.BACKED_OUT
            if unit.used and unit.opened == self.core.opened:
                self.core.tell(Verb.BACK_OUT, verbs.BackOut(unit.number, counted))

    def give_back(self, unit: RemoteUnit) -> None:
        """A unit was backed out: what it had comes again, before what was read ahead behind it."""
        for ahead in unit.aheads:
            if ahead.unit is unit or ahead.unit is None:
                self.stop_holding(ahead)

    # --- what comes ahead -----------------------------------------------------------------------

    def hear_all(self) -> None:
        """Return when all that was there when this was asked is here: the server answers in order."""
        with contextlib.suppress(ConnectionLost):  # then whoever reads ahead knows
            self.ask(Verb.HEARTBEAT, verbs.Empty())

    def open_ahead(self, open_it: Callable[[Any], Ahead]) -> tuple[Ahead, Any]:
        """Open a consumer by a step that asks for it; what was opened, and the server's answer."""
        slot = self.line.slot()
        ahead = self.line.do(lambda: open_it(slot))
        try:
            return ahead, self.line.answer(slot)
        except BaseException:
            self.line.do_if_connected(partial(self._drop_ahead, ahead))
            raise

    def _drop_ahead(self, ahead: ReadAhead) -> None:
        if self.forget_ahead(ahead):
            self.core.tell(Verb.STOP_CONSUMING, verbs.ConsumerPayload(ahead.number))

    def forget_ahead(self, ahead: ReadAhead) -> bool:
        """Let nothing more come to a consumer here; True when the server has to be told. Part of a step."""
        is_open = self.core.consumers.pop(ahead.number, None) is not None
        ahead.lose(ConnectionLost(self.core.peer, "the consumer was closed"))
        return is_open

    def stop_holding(self, ahead: HeldAhead) -> None:
        """Let no more come. What a unit has stays with it; the rest is on its queue again when this returns."""
        core, slot = self.core, self.line.slot()

        def step() -> bool:
            if not self.forget_ahead(ahead):
                return False
            frame = verbs.ConsumerPayload(ahead.number)
            unit, ahead.unit = ahead.unit, None
            if unit is not None and unit.state is UnitState.ACTIVE:
                frame = verbs.ConsumerPayload(ahead.number, ahead.given, unit.number)
            core.ask(Verb.STOP_CONSUMING, frame, slot)
            return True

        if self.line.do_if_connected(step):
            with contextlib.suppress(ConnectionLost, Fenced):  # the server has given back what was not a unit's
                self.line.answer(slot)
        else:
            self.forget_ahead(ahead)
