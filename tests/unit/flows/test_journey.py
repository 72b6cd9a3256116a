# SPDX-License-Identifier: Apache-2.0
"""What a message has brought about is gathered, and nothing of it has happened yet."""

from __future__ import annotations

import pytest

from entrepot.flows.flow_world import Output
from entrepot.flows.journey import Journey, KeptState
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message

STATE = Message(b"state")
EARLIER = Message(b"of an earlier message")


@pytest.fixture
def world() -> MemoryWorld:
    return MemoryWorld(now=0.0)


@pytest.fixture
def journey(world: MemoryWorld) -> Journey:
    return Journey(Message(b""), world)


def test_what_is_kept_is_there_until_it_is_taken(journey: Journey) -> None:
    journey.keep("store", b"key", STATE)
    assert journey.is_kept("store", b"key")
    assert not journey.is_kept("store", b"another")
    assert journey.take("store", b"key") is STATE
    assert not journey.is_kept("store", b"key")
    assert journey.take("store", b"key") is None


def test_what_an_earlier_message_kept_is_taken_once(world: MemoryWorld, journey: Journey) -> None:
    world.stores["store", b"key"] = (KeptState(EARLIER), None)
    assert journey.is_kept("store", b"key")
    assert journey.take("store", b"key") is EARLIER
    assert not journey.is_kept("store", b"key")
    assert journey.take("store", b"key") is None
    journey.keep("store", b"key", STATE)
    assert journey.take("store", b"key") is STATE


def test_what_was_never_kept_leaves_no_trace(journey: Journey) -> None:
    assert journey.take("store", b"key") is None
    assert journey.states == {}


def test_ids_under_an_open_aggregate_are_counted_from_one_behind_its_head(journey: Journey) -> None:
    journey.message_id_head = b"HEAD"
    assert [journey.new_message_id() for _ in range(2)] == [b"HEAD" + number.to_bytes(20, "big") for number in (1, 2)]


@pytest.mark.parametrize("careful", [True, False])
def test_a_message_is_put_at_once_only_where_each_put_is_to_be_answered(
    world: MemoryWorld, journey: Journey, careful: bool
) -> None:
    world.careful = careful
    output = Output("OUT", STATE)
    journey.put(output)
    assert journey.outputs == [output]
    assert len(world.queues["OUT"]) == careful


def test_a_message_is_bound_to_its_unit_by_a_get_a_careful_put_or_a_database(
    world: MemoryWorld, journey: Journey, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not journey.is_bound()
    for owner, name, value in (
        (journey, "has_got", True),
        (world, "careful", True),
        (world, "database_used", lambda: True),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            assert journey.is_bound(), name
    assert not journey.is_bound()
