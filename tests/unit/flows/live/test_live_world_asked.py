# SPDX-License-Identifier: Apache-2.0
"""What a flow asks of its queue manager: states that nodes keep, facts about queues, and messages that it gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.client.blocking import Connection, connect
from entrepot.errors import MqscError
from entrepot.flows.flow_world import Output, QueueFacts
from entrepot.flows.journey import Journey
from entrepot.flows.live import live_world
from entrepot.flows.live.live_world import LiveWorld
from entrepot.message import Message, Report

from .staged import Stage
from .stepped import SteppedTime

pytestmark = pytest.mark.usefixtures("clock")

KEY = b"k" * 24
OTHER = b"o" * 24
MIB = 1024 * 1024


class Answer:
    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.rows = rows


@pytest.fixture
def connection(stage: Stage) -> Iterator[Connection]:
    """The instance's own."""
    with connect(stage.url) as connection:
        yield connection


@pytest.fixture
def world(connection: Connection) -> LiveWorld:
    return LiveWorld(connection, None, lambda *_: None)


@pytest.fixture
def commands(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked in MQSC."""
    commands: list[str] = []
    original = connection.mqsc

    def mqsc(script: str) -> Any:
        commands.append(script)
        return original(script)

    monkeypatch.setattr(connection, "mqsc", mqsc)
    return commands


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    clock = SteppedTime()
    monkeypatch.setattr(live_world, "time", clock)
    return clock


def _journey(world: LiveWorld, *outputs: Output) -> Journey:
    journey = Journey(Message(b""), world)
    journey.outputs.extend(outputs)
    return journey


def _new_store(stage: Stage) -> str:
    """The name of a queue that is not there."""
    name = stage.queue()
    stage.connection.mqsc(f"DELETE QLOCAL({name})")
    return name


# --- states -----------------------------------------------------------------------------------------------------


def test_a_state_is_kept_as_a_message_under_its_key(stage: Stage, connection: Connection, world: LiveWorld) -> None:
    store, late = _new_store(stage), _new_store(stage)
    message = Message(b"state", persistent=True, backout_count=3, reply_to="X", reply_to_manager="Y", report=1)
    with connection.unit_of_work() as unit:
        world.begin(unit)
        journey = _journey(world)
        journey.keep(store, KEY, message)
        journey.keep(store, OTHER, message, expires_s=3600.0, then=late)
        world.accept(journey)
        world.settle()
    plain, timed = stage.messages(store)
    assert (plain.body, plain.correlation_id, plain.persistent) == (b"state", KEY, True)
    assert (plain.backout_count, plain.report, plain.reply_to, plain.reply_to_manager) == (0, 0, "", "")
    assert (timed.reply_to, timed.reply_to_manager) == (late, "")
    assert timed.report & Report.EXPIRATION
    assert stage.depth(late) == 0, "where it goes when its time is over is there"


def test_a_state_whose_time_is_over_already_goes_where_it_is_to_go(
    stage: Stage, connection: Connection, world: LiveWorld
) -> None:
    store, late = _new_store(stage), _new_store(stage)
    with connection.unit_of_work() as unit:
        world.begin(unit)
        journey = _journey(world)
        journey.keep(store, KEY, Message(b"late"), expires_s=-5.0, then=late)
        world.accept(journey)
        world.settle()
    found = stage.connection.get(late, wait_s=60.0)
    assert found is not None
    assert (found.body, found.correlation_id) == (b"late", KEY)


def test_a_state_that_is_taken_twice_in_a_unit_is_got_once_and_put_back_as_it_was(
    stage: Stage, connection: Connection, world: LiveWorld
) -> None:
    store = stage.queue()
    stage.put(store, "state", correlation_id=KEY, expiry_s=3600.0, reply_to="LATE")
    with connection.unit_of_work() as unit:
        world.begin(unit)
        for _ in range(2):
            found = world.take(store, KEY)
            assert found is not None
            assert found.body == b"state"
        assert world.take(store, OTHER) is None
        world.settle()
    (kept,) = stage.messages(store)
    assert (kept.body, kept.correlation_id, kept.reply_to) == (b"state", KEY, "LATE")
    assert kept.expiry_s is not None
    assert 3000.0 < kept.expiry_s <= 3600.0


def test_a_state_that_a_message_has_taken_is_gone_for_the_next_one(
    stage: Stage, connection: Connection, world: LiveWorld
) -> None:
    store = stage.queue()
    stage.put(store, "state", correlation_id=KEY)
    with connection.unit_of_work() as unit:
        world.begin(unit)
        journey = _journey(world)
        assert journey.take(store, KEY) is not None
        assert world.is_kept(store, KEY), "until that message is through"
        world.accept(journey)
        assert world.take(store, KEY) is None
        assert not world.is_kept(store, KEY)
        world.settle()
    assert stage.bodies(store) == []


def test_a_store_that_is_not_there_keeps_nothing(stage: Stage, connection: Connection, world: LiveWorld) -> None:
    store = _new_store(stage)
    world.begin(connection.unit_of_work())
    assert world.take(store, KEY) is None
    assert not world.is_kept(store, KEY)


def test_a_state_that_another_instance_has_taken_counts_as_kept(
    stage: Stage, connection: Connection, world: LiveWorld
) -> None:
    store = stage.queue()
    stage.put(store, "state", correlation_id=KEY)
    stage.put(store, "mine", correlation_id=OTHER)
    unit = connection.unit_of_work()
    world.begin(unit)
    assert not world.is_kept(store, KEY), "nobody has taken anything"
    assert world.take(store, OTHER) is not None
    assert not world.is_kept(store, KEY), "what this unit has is not another's"
    with stage.connection.unit_of_work() as other:
        assert other.get(store, correlation_id=KEY) is not None
        assert world.is_kept(store, KEY)
        other.back_out()
    unit.back_out()
    world.begin(connection.unit_of_work())
    with stage.connection.unit_of_work() as other:
        assert other.get(store, correlation_id=KEY) is not None
        assert world.is_kept(store, KEY), "what an earlier unit had does not count any more"
        other.back_out()


@pytest.mark.parametrize(("rows", "is_kept"), [([], False), ([{}], False), ([{"UNCOM": "1"}], True)])
def test_a_queue_manager_that_tells_nothing_of_a_store_has_nothing_there(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, str]], is_kept: bool
) -> None:
    monkeypatch.setattr(world._connection, "mqsc", lambda _: [Answer(rows)])
    assert world.is_kept("STORE", KEY) is is_kept


# --- queues -----------------------------------------------------------------------------------------------------


def test_a_queue_of_the_flows_own_is_made_once_and_looked_for_again_when_something_went_wrong(
    stage: Stage, world: LiveWorld, commands: list[str]
) -> None:
    name, there = _new_store(stage), stage.queue("MAXDEPTH(7)")
    for _ in range(2):
        world.require_queues([name, there])
    assert sum(command.startswith("DEFINE") for command in commands) == 2
    row = stage.connection.mqsc(f"DISPLAY QLOCAL({name}) DEFPSIST MAXDEPTH")[0].rows[0]
    assert (row["DEFPSIST"], int(str(row["MAXDEPTH"]))) == ("YES", 999_999_999)
    assert int(str(stage.connection.mqsc(f"DISPLAY QLOCAL({there}) MAXDEPTH")[0].rows[0]["MAXDEPTH"])) == 7
    stage.connection.mqsc(f"DELETE QLOCAL({name})")
    world.forget()
    world.require_queue(name)
    assert stage.depth(name) == 0


def test_a_queue_that_is_neither_there_nor_can_be_made_is_an_error(world: LiveWorld) -> None:
    with pytest.raises(MqscError):
        world.require_queue("NO SUCH NAME")


def test_what_a_queue_says_is_believed_for_five_seconds_or_until_something_goes_wrong(
    stage: Stage, world: LiveWorld, clock: SteppedTime, commands: list[str]
) -> None:
    queue = stage.queue("BOTHRESH(3) BOQNAME(ASIDE)")
    assert world.facts(queue) == QueueFacts(3, "ASIDE", "DEAD")
    asked = len(commands)
    stage.connection.mqsc(f"ALTER QLOCAL({queue}) BOTHRESH(4) BOQNAME('')")
    clock.advance(4.9)
    assert world.facts(queue).threshold == 3
    assert len(commands) == asked
    clock.advance(0.2)
    assert world.facts(queue) == QueueFacts(4, "", "DEAD")
    stage.connection.mqsc(f"ALTER QLOCAL({queue}) BOTHRESH(5)")
    world.forget()
    assert world.facts(queue).threshold == 5


def test_where_nothing_is_said_a_message_is_tried_once(stage: Stage, world: LiveWorld) -> None:
    target = stage.queue("BOTHRESH(3)")
    stage.connection.mqsc(f"DEFINE QALIAS({target}.ALIAS) TARGET({target})")
    assert world.facts("NO.SUCH.QUEUE") == QueueFacts()
    assert world.facts(f"{target}.ALIAS") == QueueFacts(0, "", "DEAD")


@pytest.mark.parametrize("rows", [[], [{}]])
def test_a_queue_manager_that_tells_nothing_of_a_queue_is_no_error(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, str]]
) -> None:
    monkeypatch.setattr(world._connection, "mqsc", lambda _: [Answer(rows)])
    assert world.facts("QUEUE") == QueueFacts(0, "", "")


# --- gets -------------------------------------------------------------------------------------------------------


def test_a_get_is_part_of_the_unit_or_not_or_takes_nothing(
    stage: Stage, connection: Connection, world: LiveWorld
) -> None:
    queue = stage.queue()
    assert world.get(queue) is None, "not in a unit either"
    unit = connection.unit_of_work()
    world.begin(unit)
    for options, left in (({}, ["x"]), ({"transactional": False}, []), ({"browse": True}, ["x"])):
        stage.put(queue, "x")
        found = world.get(queue, **options)
        assert found is not None
        if options == {}:
            unit.back_out()
            world.begin(connection.unit_of_work())
        assert stage.bodies(queue) == left
        while stage.connection.get(queue) is not None:
            pass


def test_a_get_takes_the_message_that_is_asked_for(stage: Stage, world: LiveWorld) -> None:
    queue = stage.queue()
    for body, key in (("a", KEY), ("b", OTHER)):
        stage.put(queue, body, correlation_id=key, properties={"n": body})
    first = world.get(queue, correlation_id=OTHER, browse=True)
    second = world.get(queue, selector="n = 'b'")
    assert first is not None
    assert second is not None
    assert (first.body, second.body) == (b"b", b"b")
    assert world.get(queue, message_id=second.message_id) is None
    assert stage.bodies(queue) == ["a"]


class Waiting:
    """A unit of work on a queue that stays empty, and a flow that may be told to stop."""

    def __init__(self, clock: SteppedTime) -> None:
        self._clock = clock
        self.parts: list[float] = []
        self.asked = 0

    def get(self, queue: str, *, wait_s: float, **_: object) -> None:
        self.parts.append(wait_s)
        self._clock.advance(wait_s)

    def go_on(self) -> None:
        self.asked += 1


def test_a_get_that_waits_asks_four_times_a_second_whether_it_is_to_go_on(
    connection: Connection, clock: SteppedTime
) -> None:
    waiting: Any = Waiting(clock)
    world = LiveWorld(connection, None, lambda *_: None, go_on_waiting=waiting.go_on)
    world._unit = waiting
    assert world.get("QUEUE", wait_s=1.1) is None
    assert clock.passed_s == pytest.approx(1.1, abs=0.01)
    assert max(waiting.parts) == 0.25
    assert waiting.asked in (4, 5)


def test_a_browse_that_waits_looks_again_after_a_hundredth_of_a_second(
    stage: Stage, world: LiveWorld, clock: SteppedTime
) -> None:
    queue = stage.queue()
    clock.plan(0.5, lambda: stage.put(queue, "late"))
    found = world.get(queue, wait_s=1.0, browse=True)
    assert found is not None
    assert set(clock.slept) == {0.01}
    assert clock.passed_s == pytest.approx(0.5, abs=0.02)
