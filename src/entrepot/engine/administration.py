# SPDX-License-Identifier: Apache-2.0
"""What an administrator does: define, alter, delete, clear and look."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from entrepot.engine.definitions import (
    BASE_TOPIC,
    SYNCHRONIZATION_QUEUE,
    Definition,
    LocalQueue,
    ModelQueue,
    QueueDefinition,
    SubscriptionDefinition,
    Topic,
    is_fleeting,
    require_name,
    require_own_name,
    system_objects,
)
from entrepot.engine.objects import dynamic_quota, why_not_deletable
from entrepot.engine.queue import Queue
from entrepot.engine.recovery_log.record import DeleteRecord
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Take
from entrepot.errors import (
    EntrepotError,
    GetInhibited,
    InvalidArgument,
    ObjectExists,
    ObjectNotFound,
    QueueExists,
    QueueInUse,
)

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager

_RECORD_BYTES = 1024
_CLEAR_AT_ONCE = 1000


class ObjectAdministration:
    """Changes to objects; each is true once its settlement is done."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._dynamic_next = 0

    def define(self, definition: Definition, *, replace_existing: bool) -> Settlement | None:
        """Create an object, or with `replace_existing` give an existing one this definition."""
        require_own_name(definition)
        existing = self._existing(definition)
        if isinstance(definition, Topic):
            self._manager.publishing.require_definable(definition)
        if existing is not None and (not replace_existing or existing.kind != definition.kind):
            if isinstance(definition, QueueDefinition):
                raise QueueExists(definition.name)
            raise ObjectExists(definition.kind, definition.name)
        if isinstance(definition, SubscriptionDefinition):
            publishing = self._manager.publishing
            return publishing.define(definition) if existing is None else publishing.alter(definition)
        return self.redefine(definition)

    def _existing(self, definition: Definition) -> Definition | None:
        """What has the name already."""
        if isinstance(definition, QueueDefinition):
            return self._manager.objects.queue_definitions.get(definition.name)
        return self._manager.objects.find(definition.kind, definition.name)

    def define_missing(self) -> list[Settlement]:
        """Give a queue manager that was made by an earlier release the system objects of this one.

        Queues that we rely on come back even when somebody has deleted them.
        Channels and rules do not: an administrator who took a rule away meant it.
        """
        before_channels = SYNCHRONIZATION_QUEUE not in self._manager.objects.queue_definitions
        missing = [
            definition
            for definition in system_objects()
            if (before_channels or isinstance(definition, QueueDefinition | Topic))
            and self._existing(definition) is None
        ]
        # In their order, the synchronization queue last: a crash in between must not keep a rule away for ever.
        return [settlement for definition in missing if (settlement := self.redefine(definition)) is not None]

    def alter(self, definition: Definition) -> Settlement | None:
        """Give an existing object this definition."""
        if self._manager.objects.find(definition.kind, definition.name) is None:
            raise ObjectNotFound(definition.kind, definition.name)
        if isinstance(definition, SubscriptionDefinition):
            return self._manager.publishing.alter(definition)
        if isinstance(definition, Topic):
            self._manager.publishing.require_definable(definition)
        return self.redefine(definition)

    def redefine(self, definition: Definition) -> Settlement | None:
        self._manager.group_commit.require_running()
        queue = self._manager.objects.queues.get(definition.name)
        reordered = isinstance(definition, LocalQueue) and queue and queue.definition.delivery != definition.delivery
        if reordered and queue is not None and queue.depth:
            raise QueueInUse(definition.name, "its delivery sequence changes only while it is empty")
        if is_fleeting(definition):
            self._defined(definition, 0)
            return None
        record = self._manager.objects.record(definition)
        if isinstance(definition, LocalQueue) and queue is None:
            self._manager.objects.number_next += 1
        self._manager.require_room(_RECORD_BYTES + 16 * len(str(record)), reserved=True)
        return self._manager.group_commit.promise(
            [record], partial(self._defined, definition, record.number), lambda error: error
        )

    def _defined(self, definition: Definition, number: int) -> None:
        self._manager.objects.put(definition, number)
        if not isinstance(definition, LocalQueue):
            return
        queue = self._manager.objects.queues[definition.name]
        if not definition.get_enabled:
            for waiter in queue.waiters.all():
                waiter.give_up(GetInhibited(definition.name))
        if definition.trigger_type == "FIRST":
            self.trigger_waiting(queue)

    def trigger_waiting(self, queue: Queue) -> None:
        """Trigger for messages that were there before triggering was switched on, or before a restart."""
        if queue.definition.trigger_enabled and queue.available and not queue.waiters:
            self._manager.consequences.trigger(queue, self._manager.steady.now())

    def delete(self, kind: str, name: str, *, purge: bool) -> Settlement | None:
        """Remove an object; a queue with messages only with `purge`."""
        if self._manager.objects.find(kind, name) is None:
            raise ObjectNotFound(kind, name)
        if kind == SubscriptionDefinition.kind:
            return self._manager.publishing.unsubscribe(name)
        if name == BASE_TOPIC and kind == Topic.kind:
            raise InvalidArgument("topic", f"{BASE_TOPIC} is the root of all topics", "another topic object")
        queue = self._manager.objects.queues.get(name) if kind == LocalQueue.kind else None
        if queue is not None:
            problem = why_not_deletable(queue, purge=purge)
            if problem is not None:
                raise problem
            self.clear_all(queue)
        self._manager.require_room(_RECORD_BYTES, reserved=True)
        if queue is not None:
            # A message that came between now and the force would be acknowledged and then lost.
            self._manager.objects.begin_leaving(name)
        return self._manager.group_commit.promise(
            [DeleteRecord(kind, name)], partial(self._deleted, kind, name), partial(self._not_deleted, kind, name)
        )

    def _deleted(self, kind: str, name: str) -> None:
        if kind == LocalQueue.kind:
            self._manager.objects.end_leaving(name)
        if self._manager.objects.find(kind, name) is not None:
            self._manager.objects.remove(kind, name)

    def _not_deleted(self, kind: str, name: str, error: EntrepotError) -> EntrepotError:
        # A channel or process may have the name of a queue that is still on its way out.
        if kind == LocalQueue.kind:
            self._manager.objects.end_leaving(name)
        return error

    def clear_some(self, name: str) -> tuple[int, Settlement | None]:
        """Remove the next messages of a local queue, until none is left: all at once would keep others waiting."""
        queue = self._manager.objects.queues.get(name)
        if queue is None:
            raise ObjectNotFound("QLOCAL", name)
        problem = why_not_deletable(queue, purge=True)
        if problem is not None:
            raise problem
        return self._clear_some(queue)

    def clear_all(self, queue: Queue) -> Settlement | None:
        """Remove all messages of a queue that is about to go."""
        settlement = None
        while True:
            count, last = self._clear_some(queue)
            settlement = last or settlement
            if not count:
                return settlement

    def _clear_some(self, queue: Queue) -> tuple[int, Settlement | None]:
        for sleeping in list(queue.sleeping.values()):
            del queue.sleeping[sleeping.key]
            try:
                queue.add(sleeping)
            except OSError:
                continue  # it stands there all the same
        own = self._manager.internal_unit()
        while len(own.takes) < _CLEAR_AT_ONCE and (entry := queue.next(None)) is not None:
            queue.lock(entry)
            own.takes.append(Take(queue, entry))
        count = len(own.takes)
        return count, self._manager.commit_or_undo(own, delivered=False) if count else None

    def make_dynamic(
        self, model: str, pattern: str, owner: str = "", *, limited: bool = False
    ) -> tuple[str, Settlement | None]:
        """Create a queue after a model; `*` in the pattern becomes something unique."""
        local = self.dynamic(model, pattern, owner)
        if not owner:
            return local.name, self.redefine(local)
        # Counted now, not only when its record is on disk: many may be asked for at once.
        quotas, holding = self._manager.quotas, (dynamic_quota(local), owner, local.name)
        quotas.hold(*holding, limited=limited)
        try:
            return local.name, self.redefine(local)
        except EntrepotError:
            quotas.let_go(*holding)
            raise

    def dynamic(self, model: str, pattern: str, owner: str = "") -> LocalQueue:
        """What a queue after a model is like."""
        definition = self._manager.objects.queue_definitions.get(model)
        if not isinstance(definition, ModelQueue):
            raise ObjectNotFound("QMODEL", model)
        self._dynamic_next += 1
        name = require_name("queue", pattern.replace("*", f"{self._manager.incarnation:04X}{self._dynamic_next:08X}"))
        if name in self._manager.objects.queue_definitions:
            raise QueueExists(name)
        shared = {field: getattr(definition, field) for field in definition.__struct_fields__}
        kind = shared.pop("dynamic_kind")
        return LocalQueue(**{**shared, "name": name}, dynamic=kind, owner=owner)

    def remove_temporary(self, name: str) -> None:
        """The connection that had this temporary queue has gone; so do its messages."""
        queue = self._manager.objects.queues.get(name)
        if queue is not None and queue.definition.dynamic == "TEMPORARY":
            self._manager.objects.remove(LocalQueue.kind, name)

    def queue_status(self, name: str) -> dict[str, int | float | str]:
        """How a local queue is doing, under MQSC's keywords."""
        queue = self._manager.objects.queues.get(name)
        if queue is None:
            raise ObjectNotFound("QLOCAL", name)
        first = queue.oldest()
        return {
            "CURDEPTH": queue.depth,
            "IPPROCS": len(queue.waiters),
            "UNCOM": queue.reserved + queue.uncommitted_gets,
            "MSGAGE": round(self._manager.steady.now() - self._manager.steady.of(first), 3) if first else 0,
            "DELAYED": len(queue.sleeping),
            "MEMORY": queue.memory_bytes,
            "RUNS": queue.run_count,
        }
