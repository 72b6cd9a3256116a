# SPDX-License-Identifier: Apache-2.0
"""Publications that go straight to streams that wait lead where the general way leads."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue, SubscriptionDefinition
from entrepot.engine.publishing import hand_to_stream
from entrepot.engine.waiting import StandingWaiter, Waiter
from entrepot.message import Message

from .simulated import Simulated

QUEUES = ("Q1", "Q2", "Q3")


class World:
    """A queue manager with subscribers of one topic, served one way."""

    def __init__(self, *, flat: bool) -> None:
        self.simulated = Simulated()
        self.manager: Any = self.simulated.manager
        self.manager.publishing.flat = flat
        self.readers: list[Waiter] = []
        for name in QUEUES:
            self.manager.administration.define(LocalQueue(name=name, depth_max=6), replace_existing=False)
            self.manager.force()
            self.manager.publishing.define(SubscriptionDefinition(name=name, topic="t", destination=name))
        self.manager.force()

    def publish(self, message: Message, persistent: bool) -> str:
        try:
            self.manager.put("topic:t", message, persistent=persistent)
        except Exception as error:
            return type(error).__name__
        self.manager.force()
        return ""

    def wait(self, queue: str, kind: str, credit: int) -> None:
        unit = self.manager.internal_unit()
        unit.counted = kind == "counted"
        criteria = Criteria(correlation_id=b"c") if kind == "keyed" else None
        if kind == "once":
            waiter: Waiter = Waiter(criteria, unit, lambda: None)
        else:
            waiter = StandingWaiter(criteria, unit, lambda: None)
            waiter.credit = credit
        self.readers.append(waiter)
        message, _ = self.manager.get(queue, criteria, unit)
        if message is None:
            self.manager.wait(queue, waiter)
        else:
            waiter.serve(message)

    def back_out(self, number: int) -> None:
        if self.readers:
            unit = self.readers[number % len(self.readers)].unit
            given = self.manager.internal_unit()
            assert unit is not None
            given.takes, unit.takes = unit.takes, []
            self.manager.back_out(given)

    def ask_by_id(self, queue: str) -> None:
        """From now on the queue has an index by message id."""
        self.manager.get(queue, Criteria(message_id=b"i"), self.manager.internal_unit())

    def watch(self, queue: str) -> None:
        definition = self.manager.objects.queue_definitions[queue]
        self.manager.administration.define(
            msgspec.structs.replace(definition, depth_high_event=True), replace_existing=True
        )
        self.manager.force()

    def state(self) -> Any:
        found = []
        for name in QUEUES:
            queue = self.manager.objects.queues[name]
            messages = [_seen(entry) for entry in queue.after(None)]
            waiting = [self.readers.index(waiter) for waiter in queue.waiters.all()]
            indexes = (queue._by_message_id or {}, queue._by_correlation_id)
            indexed = [sorted(map(len, index.values())) for index in indexes]
            found.append((messages, queue.depth, queue.reserved, queue.uncommitted_gets, waiting, indexed))
        return found, [(_of(waiter), [_seen(take.entry) for take in waiter.unit.takes]) for waiter in self.readers]


def _seen(entry: Any) -> Any:
    shared = None if entry.shared is None else entry.shared.count
    return entry.key, entry.backouts, entry.state, shared, entry.message.body, entry.message.correlation_id


def _of(waiter: Waiter) -> Any:
    if isinstance(waiter, StandingWaiter):
        return waiter.credit, [message.body for message in waiter.arrived]
    return None if waiter.message is None else waiter.message.body


messages = st.builds(
    Message,
    st.sampled_from([b"", b"x" * 10]),
    message_id=st.sampled_from([b"i", b"j"]),
    correlation_id=st.sampled_from([b"", b"c"]),
    expiry_s=st.sampled_from([None, None, None, 30.0]),
    group_id=st.sampled_from([b"", b"", b"", b"g"]),
)
queues = st.sampled_from(QUEUES)
steps = st.one_of(
    st.tuples(st.just("publish"), messages, st.sampled_from([False, False, False, True])),
    st.tuples(st.just("wait"), queues, st.sampled_from(["stream", "stream", "stream", "counted", "keyed", "once"]),
              st.integers(1, 3)),
    st.tuples(st.just("back_out"), st.integers(0, 9)),
    st.tuples(st.just("ask_by_id"), queues),
    st.tuples(st.just("watch"), queues),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_both_ways_lead_to_the_same_state(script: list[Any]) -> None:
    flat, general = World(flat=True), World(flat=False)
    for what, *arguments in script:
        assert getattr(flat, what)(*arguments) == getattr(general, what)(*arguments)
        assert flat.state() == general.state()


def test_a_stream_that_waits_has_a_publication_without_detours() -> None:
    world = World(flat=True)
    world.wait("Q1", "stream", 1)
    queue = world.manager.objects.queues["Q1"]
    assert hand_to_stream(queue, 7, Message(b"x"), None)
    assert not hand_to_stream(queue, 8, Message(b"x"), None), "its credit is used up"
    assert [take.entry.key for take in world.readers[0].unit.takes] == [7]  # type: ignore[union-attr]
