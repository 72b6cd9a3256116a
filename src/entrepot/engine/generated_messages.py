# SPDX-License-Identifier: Apache-2.0
"""What one message causes: copies, reports, dead letters, triggers and events."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from entrepot.engine.completion import complete
from entrepot.engine.definitions import PERFORMANCE_EVENT_QUEUE, LocalQueue
from entrepot.engine.entry import QueuedMessage
from entrepot.engine.put_authority import require_put_of
from entrepot.engine.queue import Queue
from entrepot.engine.reports import (
    BACKOUT_THRESHOLD_REACHED,
    REJECTED_BY_READER,
    depth_event,
    reply_route,
    report_on,
    trigger_message,
    undeliverable,
)
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Take, Unit, UnitState
from entrepot.errors import EntrepotError
from entrepot.message import Feedback, Message, Report

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager


class GeneratedMessages:
    """Adds puts of the queue manager's own to the units of work that cause them."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager

    def add_to(self, unit: Unit, *, delivered: bool) -> None:
        """Copies and confirmations happen with the unit that causes them, or not at all."""
        for put in list(unit.puts):
            for queue in put.queues:
                if queue.definition.stream_queue:
                    self._plan_copy(unit, queue, put.message)
                # On a transmission queue it has not arrived yet.
                if put.message.report & Report.ARRIVAL and not put.message.target_queue:
                    self.plan_report(unit, put.message, Feedback.ARRIVAL)
        for take in unit.takes if delivered else ():
            message = take.entry.message
            if message.report & Report.DELIVERY and not message.target_queue:
                self.plan_report(unit, message, Feedback.DELIVERY)

    def _plan_copy(self, unit: Unit, queue: Queue, message: Message) -> None:
        definition = queue.definition
        copy = replace(message, report=0, reply_to="", reply_to_manager="")
        try:
            self._plan(unit, definition.stream_queue, copy)
        except EntrepotError:
            if definition.stream_required:
                raise

    def plan_report(self, unit: Unit, message: Message, feedback: int) -> None:
        if not message.reply_to:
            return
        report = report_on(message, feedback)
        name = reply_route(message)
        try:
            # It carries the sender's words, so it goes where the sender may put himself.
            require_put_of(self._manager.objects, message.authorized_as or message.user, name)
            self._plan(unit, name, report)
        except EntrepotError as error:
            self._plan_dead_letter(unit, report, name, error)

    def _plan_dead_letter(self, unit: Unit, message: Message, name: str, error: EntrepotError) -> None:
        dead = undeliverable(message, name, error.reason or 0, error.what, self._manager.clock.now())
        try:
            self._plan(unit, self._manager.objects.manager.dead_letter_queue, dead)
        except EntrepotError:
            return  # there is no place left where anybody would look for it

    def _plan(self, unit: Unit, name: str, message: Message, *, internal: bool = False) -> None:
        """Add a put of our own to a unit; `internal`: we have written the message ourselves."""
        manager = self._manager
        route = manager.objects.route(name)
        put = complete(manager, route, name, message, message.persistent, message.priority, internal=internal)
        manager.plan(unit, route.queue, put)

    def _tell(self, name: str, message: Message, *, dead_letter: bool) -> None:
        """Put a nonpersistent message of our own; if it cannot be put, there is nobody to tell."""
        own = self._manager.internal_unit()
        try:
            self._plan(own, name, message, internal=True)
        except EntrepotError as error:
            if dead_letter:
                self._plan_dead_letter(own, message, name, error)
        self._manager.commit_or_undo(own)

    def move_to_backout_queue(self, queue: Queue, entry: QueuedMessage) -> bool:
        """Move a message that failed too often out of its neighbours' way; False when that is impossible."""
        definition = queue.definition
        problem = f"backed out {entry.backouts} times, the threshold of {definition.name} is reached"
        own = self._manager.internal_unit()
        if not self._plan_move(own, definition, entry.message, problem):
            return False
        if entry.message.report & Report.EXCEPTION:
            self.plan_report(own, entry.message, BACKOUT_THRESHOLD_REACHED)
        queue.lock_unread(entry)
        own.takes.append(Take(queue, entry))
        try:
            self._manager.commit_or_undo(own, delivered=False)
        except EntrepotError:
            return False
        return True

    def reject(self, unit: Unit, problem: str) -> Settlement | None:
        """End a unit whose reader can make nothing of what it has got: move it to where somebody will look at it.

        Raises:
            QueueNotFound, QueueFull: Neither backout queue nor dead-letter queue takes it; the unit is still active.
        """
        unit.require_active()
        self._manager.forget_puts(unit, 0)  # what it was to put is not wanted any more
        try:
            for queue, entry in unit.takes:
                if not self._plan_move(unit, queue.definition, entry.message, problem, REJECTED_BY_READER):
                    # Once more, for the error.
                    self._plan(unit, self._manager.objects.manager.dead_letter_queue, entry.message)
                if entry.message.report & Report.EXCEPTION:
                    self.plan_report(unit, entry.message, REJECTED_BY_READER)
            return self._manager.commit(unit, delivered=False)
        except EntrepotError:
            if unit.state is UnitState.ACTIVE:
                self._manager.forget_puts(unit, 0)
            raise

    def _plan_move(
        self,
        unit: Unit,
        definition: LocalQueue,
        message: Message,
        problem: str,
        reason: int = BACKOUT_THRESHOLD_REACHED,
    ) -> bool:
        """To the backout queue or else to the dead-letter queue; False when neither takes it."""
        now = self._manager.clock.now()
        if definition.backout_queue:
            moved = undeliverable(message, definition.name, reason, problem, now)
            try:
                self._plan(unit, definition.backout_queue, moved)
            except EntrepotError as error:
                problem = f"{problem}; not on its backout queue: {error.what}"
            else:
                return True
        if message.report & Report.DISCARD:
            return True
        moved = undeliverable(message, definition.name, reason, problem, now)
        try:
            self._plan(unit, self._manager.objects.manager.dead_letter_queue, moved)
        except EntrepotError:
            return False
        return True

    def watch_arrival(self, queue: Queue, message: Message, *, waiting: bool) -> None:
        """`waiting`: no reader has taken it, so a program may have to be started for it."""
        definition = queue.definition
        if waiting and definition.trigger_enabled and message.priority >= definition.trigger_priority:
            now = self._manager.steady.now()
            if not queue.waiters and self._triggers(queue, now):
                self.trigger(queue, now)
        high = definition.depth_max * definition.depth_high_percent / 100
        if not queue.high_reached and queue.depth >= high:
            queue.high_reached = True
            if definition.depth_high_event:
                self._event(queue, "DEPTH_HIGH")

    def _triggers(self, queue: Queue, now: float) -> bool:
        definition = queue.definition
        kind, least = definition.trigger_type, definition.trigger_priority
        wanted = definition.trigger_depth if kind == "DEPTH" else 2
        # As in MQ, messages of too low a priority do not count.
        available = queue.available_from(least, wanted) if least else queue.available
        if kind == "FIRST":
            interval_ms = self._manager.objects.manager.trigger_interval_ms
            return available == 1 or (now - queue.trigger_time) * 1000 >= interval_ms
        return kind == "EVERY" or (kind == "DEPTH" and available >= wanted)

    def trigger(self, queue: Queue, now: float) -> None:
        definition = queue.definition
        queue.trigger_time = now
        if definition.trigger_type == "DEPTH":
            # As in MQ: the application switches it on again when it has done its work.
            definition = replace(definition, trigger_enabled=False)
            self._manager.objects.put(definition)
            # With a full log it is off until the next restart only, which harms nobody.
            with suppress(EntrepotError):
                self._manager.administration.redefine(definition)
        process = self._manager.objects.processes.get(definition.process)
        if definition.initiation_queue:
            self._tell(definition.initiation_queue, trigger_message(definition, process), dead_letter=True)

    def watch_leaving(self, queue: Queue) -> None:
        definition = queue.definition
        queue.full_told = False
        low = definition.depth_max * definition.depth_low_percent / 100
        if queue.high_reached and queue.depth <= low:
            queue.high_reached = False
            if definition.depth_low_event:
                self._event(queue, "DEPTH_LOW")

    def full(self, queue: Queue) -> None:
        # Once, not with every put that a full queue refuses.
        if queue.definition.depth_full_event and not queue.full_told:
            queue.full_told = True
            self._event(queue, "DEPTH_FULL")

    def _event(self, queue: Queue, event: str) -> None:
        if self._manager.objects.manager.performance_events and queue.definition.name != PERFORMANCE_EVENT_QUEUE:
            self._tell(PERFORMANCE_EVENT_QUEUE, depth_event(queue.definition, event, queue.depth), dead_letter=False)
