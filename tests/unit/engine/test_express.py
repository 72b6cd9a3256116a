# SPDX-License-Identifier: Apache-2.0
"""The flat way leads where the general way leads, or does nothing."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.engine import express
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.unit_of_work import Unit
from entrepot.engine.waiting import StandingWaiter, Waiter
from entrepot.errors import DiskFull, QueueManagerFailed, TooManyUncommitted
from entrepot.message import Message, MessageType
from entrepot.testing.faults import Fault, PlannedFaults

from .simulated import Simulated

IDS = [b"", b"a", b"b"]


@dataclass
class World:
    """A queue manager with readers, all of whose puts go one way."""

    flat: bool
    simulated: Simulated = field(default_factory=Simulated)
    readers: list[Waiter] = field(default_factory=list)
    flat_puts: int = 0

    def __post_init__(self) -> None:
        self.manager.administration.define(LocalQueue(name="SMALL", depth_max=3), replace_existing=False)
        self.manager.force()
        for name in ("Q", "SMALL"):
            self.manager.objects.route(name)

    @property
    def manager(self) -> Any:
        return self.simulated.manager

    def wait(self, queue: str, correlation_id: bytes | None, kind: str) -> None:
        criteria = None if correlation_id is None else Criteria(correlation_id=correlation_id)
        unit = self.manager.internal_unit() if kind != "bare" else None
        if unit is not None:
            unit.private = kind == "private"
            unit.counted = kind == "counted"
        if kind == "standing":
            waiter: Waiter = StandingWaiter(criteria, unit, lambda: None)
            waiter.credit = 2
        else:
            waiter = Waiter(criteria, unit, lambda: None)
        self.readers.append(waiter)
        message, waiter.settlement = self.manager.get(queue, criteria, unit)
        if message is None:
            self.manager.wait(queue, waiter)
        else:
            waiter.serve(message) if kind == "standing" else setattr(waiter, "message", message)

    def put(self, queue: str, message: Message, persistent: bool | None, priority: int | None) -> str:
        manager = self.manager
        message = msgspec.structs.replace(message, user="u", application="app")
        if self.flat and express.is_plain(message) and (route := express.route_for(manager, queue)) is not None:
            before = self.state()
            message_id = message.message_id or manager.new_message_id()
            if persistent:
                settlement = express.put_durably(manager, route, message, message_id, priority, "u", "app")
                done = settlement is not None
            else:
                done = express.put(manager, route, message, message_id, persistent, priority, "u", "app")
            if done:
                self.flat_puts += 1
                manager.force()
                return ""
            assert self.state() == before, "it was for the general way, and something was done"
        try:
            manager.put(queue, message, persistent=persistent, priority=priority)
        except Exception as error:
            return type(error).__name__
        manager.force()
        return ""

    def settle(self, number: int) -> None:
        """A reader has used what it has got."""
        unit = self.readers[number % len(self.readers)].unit if self.readers else None
        if unit is None:
            return
        if self.flat and express.settle(unit.takes):
            unit.takes.clear()
        taken = self.manager.internal_unit()
        taken.takes, unit.takes = unit.takes, []
        self.manager.commit(taken)
        self.manager.force()

    def state(self) -> Any:
        """All that can be seen of it; message ids and keys need not be the same."""
        found = []
        for name in ("Q", "SMALL"):
            queue = self.manager.objects.queues[name]
            messages = [_seen(message) for message in self.manager.browse(name, None, None, 1000)[0]]
            waiting = [self.readers.index(waiter) for waiter in queue.waiters.all()]
            found.append((messages, queue.depth, queue.reserved, queue.uncommitted_gets, sorted(waiting)))
        readers = [(_of(waiter), _held(waiter.unit)) for waiter in self.readers]
        return found, readers


def _seen(message: Message) -> Any:
    return msgspec.structs.replace(message, message_id=b"")


def _of(waiter: Waiter) -> Any:
    if isinstance(waiter, StandingWaiter):
        return waiter.credit, [_seen(message) for message in waiter.arrived]
    return None if waiter.message is None else _seen(waiter.message)


def _held(unit: Unit | None) -> Any:
    if unit is None:
        return None
    return [(take.queue.number, take.entry.backouts, _seen(take.entry.message)) for take in unit.takes]


messages = st.builds(
    Message,
    st.sampled_from([b"", b"x" * 10]),
    message_id=st.sampled_from(IDS),
    correlation_id=st.sampled_from(IDS),
    type=st.sampled_from(MessageType),
    expiry_s=st.sampled_from([None, None, 0.5, 30.0]),
    reply_to=st.sampled_from(["", "Q"]),
    group_id=st.sampled_from([b"", b"", b"", b"g"]),
    properties=st.sampled_from([{}, {}, {}, {"a": 1}]),
)
steps = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(["Q", "Q", "SMALL"]), messages,
              st.sampled_from([None, False, False, True]), st.sampled_from([None, 0, 9])),
    st.tuples(st.just("wait"), st.sampled_from(["Q", "SMALL"]), st.sampled_from([None, None, b"a", b"b"]),
              st.sampled_from(["bare", "private", "counted", "standing"])),
    st.tuples(st.just("settle"), st.integers(0, 9)),
    st.tuples(st.just("pass"), st.sampled_from([0.1, 1.0])),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_both_ways_lead_to_the_same_state(script: list[Any]) -> None:
    flat, general = World(flat=True), World(flat=False)
    for what, *arguments in script:
        if what == "pass":
            for world in (flat, general):
                world.simulated.clock.advance(arguments[0])
                world.manager.timers.tick()
        else:
            assert getattr(flat, what)(*arguments) == getattr(general, what)(*arguments)
        assert flat.state() == general.state()


def test_plain_messages_go_the_flat_way_to_readers_and_onto_queues() -> None:
    world = World(flat=True)
    world.put("Q", Message(b"stands"), False, None)
    world.wait("SMALL", b"a", "private")
    world.wait("SMALL", None, "standing")
    world.put("SMALL", Message(b"for anybody", correlation_id=b"c"), None, 3)
    assert world.flat_puts == 2


@pytest.mark.parametrize(
    "special",
    [
        {"properties": {"a": 1}}, {"delay_s": 1.0}, {"group_id": b"g"}, {"report": 256}, {"retained": True},
        {"feedback": 1}, {"format": "X"}, {"reply_to_manager": "M"}, {"sequence": 2}, {"last_in_group": True},
        {"ccsid": 1}, {"encoding": 1}, {"message_id": b"x" * 129}, {"correlation_id": b"x" * 129},
        {"reply_to": "x" * 49}, {"expiry_s": 0.0}, {"expiry_s": -1.0}, {"expiry_s": float("nan")}, {"expiry_s": 1e300},
        {"delay_s": float("nan")},
    ],
)  # fmt: skip
def test_what_has_to_be_vetted_is_not_plain(special: Any) -> None:
    """The flat way vets nothing, so whatever a stranger may get wrong is for the general way."""
    assert express.is_plain(Message(b""))
    assert not express.is_plain(Message(b"", **special))


@pytest.mark.parametrize(
    "changed",
    [
        {"put_enabled": False}, {"depth_max": 1}, {"trigger_enabled": True}, {"depth_high_event": True},
        {"stream_queue": "SMALL"}, {"body_bytes_max": 3}, {"default_persistent": True},
    ],
)  # fmt: skip
def test_a_queue_that_asks_for_more_is_for_the_general_way(changed: Any) -> None:
    world = World(flat=True)
    world.put("Q", Message(b"first"), False, None)
    definition = msgspec.structs.replace(world.manager.objects.queue_definitions["Q"], **changed)
    world.manager.administration.define(definition, replace_existing=True)
    world.manager.force()
    world.manager.objects.route("Q")
    route = express.route_for(world.manager, "Q")
    unit = world.manager.begin()
    if route is not None and "body_bytes_max" in changed:
        assert express.put_durably(world.manager, route, Message(b"more"), b"i", None, "u", "app") is None
    if route is not None:
        assert not express.put(world.manager, route, Message(b"more"), b"i", None, None, "u", "app")
    if set(changed) & {"put_enabled", "depth_max", "stream_queue", "body_bytes_max"}:
        assert not express.plan(world.manager, unit, [("Q", False, None, Message(b"more"))], "u", "app")
    assert (unit.puts, world.manager.objects.queues["Q"].reserved) == ([], 0)


def test_messages_that_readers_were_not_all_asked_about_come_before_others() -> None:
    world = World(flat=True)
    world.manager.objects.queues["Q"].unoffered.append((None, 0))
    assert express.route_for(world.manager, "Q") is None


@pytest.mark.parametrize("special", [{"persistent": True}, {"group_id": b"g"}, {"report": 2048, "reply_to": "Q"}])
def test_what_has_consequences_does_not_leave_by_the_flat_way(special: Any) -> None:
    world = World(flat=True)
    unit = world.manager.begin()
    for each in (Message(b"plain"), Message(b"special", **special)):
        world.manager.put("Q", each, persistent=each.persistent)
    world.manager.force()
    for _ in range(2):
        world.manager.get("Q", None, unit)
    assert not express.settle(unit.takes)
    assert [take.entry.message.body for take in unit.takes] == [b"plain", b"special"]


def test_a_watched_queue_hears_of_what_leaves() -> None:
    world = World(flat=True)
    world.put("Q", Message(b"x"), False, None)
    unit = world.manager.begin()
    world.manager.get("Q", None, unit)
    world.manager.objects.queues["Q"].watched = True
    assert not express.settle(unit.takes)


def test_a_unit_takes_all_planned_messages_or_none() -> None:
    world = World(flat=True)
    unit = world.manager.begin()
    one = ("SMALL", None, None, Message(b"x"))
    queue = world.manager.objects.queues["SMALL"]
    assert not express.plan(world.manager, unit, [one] * 4, "u", "app"), "there is room for three"
    assert (unit.puts, queue.reserved) == ([], 0)
    unit.limit = 1
    with pytest.raises(TooManyUncommitted):
        express.plan(world.manager, unit, [one] * 2, "u", "app")
    assert (unit.puts, unit.body_bytes, queue.reserved) == ([], 0, 0)
    unit.limit = 3
    assert express.plan(world.manager, unit, [one] * 3, "u", "app")
    assert (len(unit.puts), unit.body_bytes, queue.reserved) == (3, 3, 3)
    world.manager.commit(unit)
    assert (queue.depth, queue.reserved) == (3, 0)


def test_a_durable_put_is_there_when_it_is_forced_and_not_before() -> None:
    world = World(flat=True)
    manager = world.manager
    route = express.route_for(manager, "Q")
    position = manager.log.appended_position
    settlement = express.put_durably(manager, route, Message(b"kept"), b"i", 4, "u", "a")
    queue = manager.objects.queues["Q"]
    assert (settlement.done, queue.depth, queue.reserved) == (False, 0, 1)
    manager.force()
    assert (settlement.done, settlement.error, queue.depth, queue.reserved) == (True, None, 1, 0)
    assert [entry.log_position for entry in manager.young.values()] == [position], "checkpoints go by it"
    world.simulated.power_cut_and_start()
    assert [(each.body, each.message_id, each.priority) for each in world.simulated.messages()] == [(b"kept", b"i", 4)]


def test_a_durable_put_that_the_disk_refuses_gives_up_its_place() -> None:
    world = World(flat=True)
    manager = world.manager
    route = express.route_for(manager, "Q")
    settlement = express.put_durably(manager, route, Message(b"refused"), b"i", None, "u", "a")
    no_space = Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"}))
    world.simulated.disk.faults = PlannedFaults(no_space)
    manager.force()
    queue = manager.objects.queues["Q"]
    assert isinstance(settlement.error, DiskFull)
    assert (queue.depth, queue.reserved) == (0, 0)


def test_a_temporary_queue_takes_nothing_persistent_by_the_flat_way() -> None:
    world = World(flat=True)
    name, _ = world.manager.administration.make_dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "T.*")
    world.manager.objects.route(name)
    route = express.route_for(world.manager, name)
    assert express.put_durably(world.manager, route, Message(b""), b"i", None, "u", "a") is None


def test_persistent_messages_planned_by_the_flat_way_survive() -> None:
    world = World(flat=True)
    unit = world.manager.begin()
    assert express.plan(
        world.manager, unit, [("Q", True, 4, Message(b"kept")), ("Q", False, 4, Message(b"not"))], "u", "a"
    )
    world.manager.commit(unit)
    world.manager.force()
    world.simulated.power_cut_and_start()
    assert [(each.body, each.user, each.priority) for each in world.simulated.messages()] == [(b"kept", "u", 4)]


def test_a_queue_manager_that_has_failed_does_nothing_by_the_flat_way() -> None:
    world = World(flat=True)
    unit = world.manager.begin()
    world.manager.fail(QueueManagerFailed("test"))
    assert express.route_for(world.manager, "Q") is None
    assert not express.plan(world.manager, unit, [("Q", False, None, Message(b""))], "u", "a")
