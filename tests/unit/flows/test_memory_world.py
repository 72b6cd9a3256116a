# SPDX-License-Identifier: Apache-2.0
"""The world in memory: queues, topics, kept states, time, and units of work of one message each."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.errors import DatabaseFailed, NowhereToSetAside
from entrepot.flows.flow_world import TOPIC, Output, QueueFacts
from entrepot.flows.journey import Journey
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message

from .drawn import drawn, node, reads, writes


def test_puts_arrive_with_an_id_and_the_time() -> None:
    world = MemoryWorld(now=50.0)
    world.put_now(Output("A", Message(b"1")))
    world.put_now(Output(TOPIC + "t/x", Message(b"2")))
    (message,) = world.queues["A"]
    assert len(message.message_id) == 24
    assert message.put_time == 50.0
    assert [published.body for published in world.published["t/x"]] == [b"2"]


def test_messages_are_got_in_order_by_id_by_selector_and_by_browsing() -> None:
    world = MemoryWorld()
    for number in range(4):
        message = Message(b"%d" % number, correlation_id=b"%d" % (number % 2), properties={"n": number})
        world.put_now(Output("A", message))
    assert world.get("A", browse=True).body == b"0"  # type: ignore[union-attr]
    assert world.get("A", correlation_id=b"1").body == b"1"  # type: ignore[union-attr]
    assert world.get("A", selector="n > 2").body == b"3"  # type: ignore[union-attr]
    assert world.get("A", message_id=b"none") is None
    assert [message.body for message in world.queues["A"]] == [b"0", b"2"]


def test_a_flow_feeds_itself_by_its_own_queue() -> None:
    counting = drawn(
        "In -> More",
        "More.true -> Again",
        "More.false -> Done",
        In=reads(),
        More=node("Filter", condition="LENGTH(Root.MQMD.CorrelId) IS NOT NULL AND Body.n = 'go'"),
        Again=writes("NEXT"),
        Done=writes("DONE"),
        Next=reads("NEXT"),
        Last=writes("LAST"),
    )
    counting.link("Next", "Last")
    kernel, world = Kernel(counting), MemoryWorld()
    world.feed(kernel, "IN", Message(b"<n>go</n>"))
    assert len(world.queues["NEXT"]) == 1
    assert world.run_all(kernel) == 1
    assert (len(world.queues["NEXT"]), len(world.queues["LAST"])) == (0, 1)


def keeps(world: MemoryWorld, key: bytes, body: bytes, **options: Any) -> None:
    journey = Journey(Message(b""), world)
    journey.keep("STORE", key, Message(body), **options)
    world.settle(journey)


def test_a_state_is_taken_once_and_only_by_a_message_that_succeeds() -> None:
    world = MemoryWorld()
    keeps(world, b"k", b"state")
    lost = Journey(Message(b""), world)
    assert lost.take("STORE", b"k").body == b"state"  # type: ignore[union-attr]
    assert lost.take("STORE", b"k") is None
    assert world.is_kept("STORE", b"k")
    done = Journey(Message(b""), world)
    done.take("STORE", b"k")
    world.settle(done)
    assert not world.is_kept("STORE", b"k")


def test_a_state_that_expires_goes_where_it_was_told_with_its_key() -> None:
    world = MemoryWorld(now=0.0)
    keeps(world, b"later", b"2", expires_s=20, then="TIMERS")
    keeps(world, b"sooner", b"1", expires_s=10, then="TIMERS")
    keeps(world, b"gone", b"0", expires_s=5)
    world.pass_time(9)
    assert world.queues["TIMERS"] == []
    world.pass_time(11)
    assert [(message.body, message.correlation_id, message.put_time) for message in world.queues["TIMERS"]] == [
        (b"1", b"sooner", 10.0),
        (b"2", b"later", 20.0),
    ]
    assert not world.is_kept("STORE", b"gone")
    assert world.now() == 20.0


def test_what_expires_enters_the_flow_when_one_is_given() -> None:
    kernel = Kernel(drawn("In -> Out", In=reads("TIMERS", domain="BLOB"), Out=writes()))
    world = MemoryWorld(now=0.0)
    keeps(world, b"k", b"tick", expires_s=10, then="TIMERS")
    world.pass_time(30, kernel)
    assert [message.body for message in world.queues["OUT"]] == [b"tick"]


def test_actions_for_after_the_commit_run_when_the_message_has_succeeded() -> None:
    done: list[str] = []
    world = MemoryWorld()
    journey = Journey(Message(b""), world)
    journey.after_commit.append(lambda: done.append("after"))
    assert done == []
    world.settle(journey)
    assert done == ["after"]


def test_a_message_that_nobody_takes_leaves_the_world_as_it_was() -> None:
    kernel = Kernel(drawn("In -> Get -> Fail", In=reads(), Get=node("MQGet", queue="PARTS"), Fail=node("Throw")))
    world = MemoryWorld(facts={"IN": QueueFacts()})
    world.put_now(Output("PARTS", Message(b"<part/>")))
    with pytest.raises(NowhereToSetAside):
        world.feed(kernel, "IN", Message(b"<order/>", persistent=True))
    assert [message.body for message in world.queues["PARTS"]] == [b"<part/>"]


def test_without_databases_a_data_source_is_refused_by_name() -> None:
    with pytest.raises(DatabaseFailed, match="'SHOP' is not known here"):
        MemoryWorld().database.query("SHOP", "SELECT 1", ())


def test_expired_messages_are_not_brought_in() -> None:
    kernel = Kernel(drawn("In -> Out", In=reads(), Out=writes()))
    world = MemoryWorld(now=0.0)
    world.put_now(Output("IN", Message(b"<short/>", expiry_s=5)))
    world.put_now(Output("IN", Message(b"<long/>", expiry_s=50)))
    world.pass_time(10, kernel)
    assert [message.body for message in world.queues["OUT"]] == [b"<long/>"]
