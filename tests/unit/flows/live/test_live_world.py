# SPDX-License-Identifier: Apache-2.0
"""What a flow sends to its queue manager and its databases, and with which unit of work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from entrepot.client.blocking import Connection, connect
from entrepot.errors import DatabaseFailed
from entrepot.flows.flow_world import Output
from entrepot.flows.journey import Journey
from entrepot.flows.live.live_world import LiveWorld
from entrepot.message import Message

from .staged import Stage

KEY = b"k" * 24
OTHER = b"o" * 24
MIB = 1024 * 1024


class Databases:
    """What a `LiveWorld` asks of its databases."""

    def __init__(self) -> None:
        self.used = True
        self.has_own_work = False
        self.told: list[Any] = []
        self.problem: Exception | None = None

    def begin(self, unit: object, *, careful: bool) -> None:
        self.told.append(("begin", unit, careful))

    def require_sound(self) -> None:
        if self.problem is not None:
            raise self.problem

    def commit(self) -> None:
        self.told.append("commit")

    def back_out(self) -> None:
        self.told.append("back out")

    def finish_now(self, source: str) -> None:
        self.told.append(("finish", source))


@pytest.fixture
def connection(stage: Stage) -> Iterator[Connection]:
    """The instance's own."""
    with connect(stage.url) as connection:
        yield connection


@pytest.fixture
def traced() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def world(connection: Connection, traced: list[tuple[str, str]]) -> LiveWorld:
    return LiveWorld(connection, None, lambda destination, text: traced.append((destination, text)))


@pytest.fixture
def sent(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """How many messages each frame had, and whether it was answered."""
    sent: list[tuple[int, bool]] = []
    original = connection.calls.put_many

    def put_many(unit: Any, puts: Any, *, answered: bool = False) -> list[bytes]:
        sent.append((len(puts), answered))
        return original(unit, puts, answered=answered)

    monkeypatch.setattr(connection.calls, "put_many", put_many)
    return sent


def _journey(world: LiveWorld, *outputs: Output) -> Journey:
    journey = Journey(Message(b""), world)
    journey.outputs.extend(outputs)
    return journey


# --- outputs ----------------------------------------------------------------------------------------------------


def test_outputs_are_sent_together_and_seen_with_the_commit(
    stage: Stage, connection: Connection, world: LiveWorld, sent: list[tuple[int, bool]]
) -> None:
    queue = stage.queue()
    with connection.unit_of_work() as unit:
        world.begin(unit)
        for number in range(3):
            world.accept(_journey(world, Output(queue, Message(b"%d" % number, persistent=True))))
        assert sent == []
        world.settle()
        assert stage.bodies(queue) == []
    assert stage.bodies(queue) == ["0", "1", "2"]
    assert sent == [(3, False)]


def test_nothing_is_sent_when_there_is_nothing_and_nothing_of_an_earlier_unit(
    stage: Stage, connection: Connection, world: LiveWorld, sent: list[tuple[int, bool]]
) -> None:
    queue = stage.queue()
    world.begin(connection.unit_of_work())
    world.accept(_journey(world, Output(queue, Message(b"given back"))))
    with connection.unit_of_work() as unit:
        world.begin(unit)
        world.settle()
    assert sent == []
    assert stage.bodies(queue) == []


@pytest.mark.parametrize("begun", ["never", "once", "after a frame"])
def test_more_than_a_mebibyte_of_outputs_is_sent_at_once(
    stage: Stage, connection: Connection, world: LiveWorld, sent: list[tuple[int, bool]], begun: str
) -> None:
    queue = stage.queue()
    unit = connection.unit_of_work()
    world._unit = unit
    if begun != "never":
        world.begin(unit)
    if begun == "after a frame":
        world.accept(_journey(world, Output(queue, Message(bytes(MIB + 1)))))
        sent.clear()
    world.accept(_journey(world, Output(queue, Message(bytes(MIB)))))
    assert sent == [], "a mebibyte may wait"
    world.accept(_journey(world, Output(queue, Message(b"x"))))
    assert sent == [(2, False)]
    unit.back_out()


def test_outputs_are_put_one_by_one_where_each_is_to_be_answered(
    stage: Stage, connection: Connection, world: LiveWorld, sent: list[tuple[int, bool]]
) -> None:
    queue = stage.queue()
    assert not world.careful
    world.careful = True
    with connection.unit_of_work() as unit:
        world.begin(unit)
        journey = Journey(Message(b""), world)
        journey.put(Output(queue, Message(b"in the unit", persistent=True, priority=7)))
        world.put_now(Output(queue, Message(b"at once", persistent=True, priority=3)))
        assert stage.bodies(queue) == ["at once"]
        world.accept(journey)
        world.settle()
    came = [(message.body, message.persistent, message.priority) for message in stage.messages(queue)]
    assert sorted(came) == [(b"at once", True, 3), (b"in the unit", True, 7)]
    assert sent == []


def test_message_ids_have_24_bytes_and_come_once(connection: Connection, world: LiveWorld) -> None:
    another = LiveWorld(connection, None, lambda *_: None)
    ids = [each.new_message_id() for each in (world, another) for _ in range(300)]
    assert {len(each) for each in ids} == {24}
    assert len(set(ids)) == 600


# --- databases --------------------------------------------------------------------------------------------------


@pytest.fixture
def databases() -> Databases:
    return Databases()


@pytest.fixture
def storing(connection: Connection, databases: Any) -> LiveWorld:
    return LiveWorld(connection, databases, lambda *_: None)


def test_databases_hear_whose_unit_it_is(connection: Connection, storing: LiveWorld, databases: Databases) -> None:
    coordinated = connection.global_unit_of_work()
    storing.begin(connection.unit_of_work())
    storing.careful = True
    storing.begin(coordinated)
    assert databases.told == [("begin", None, False), ("begin", coordinated, True)]
    coordinated.back_out()


def test_databases_are_committed_backed_out_and_finished_when_the_flow_is(
    storing: LiveWorld, databases: Databases
) -> None:
    storing.commit_databases()
    storing.back_out_databases()
    storing.finish_database("LEDGER")
    assert databases.told == ["commit", "back out", ("finish", "LEDGER")]


def test_each_message_is_asked_whether_it_has_used_a_database(
    world: LiveWorld, storing: LiveWorld, databases: Databases
) -> None:
    assert storing.database_used()
    storing.next_message()
    assert not storing.database_used()
    databases.used = True
    assert storing.database_used()
    assert not world.database_used(), "a flow without databases"


@pytest.mark.parametrize("own_work", [False, True])
def test_a_database_that_commits_by_itself_does_so_after_the_queue_manager_has_answered(
    connection: Connection, storing: LiveWorld, databases: Databases, sent: list[tuple[int, bool]], own_work: bool
) -> None:
    databases.has_own_work = own_work
    with connection.unit_of_work() as unit:
        storing.begin(unit)
        storing.settle()
    assert sent == ([(0, True)] if own_work else [])


def test_a_unit_that_a_database_has_undone_is_not_sound(
    world: LiveWorld, storing: LiveWorld, databases: Databases
) -> None:
    storing.require_sound()
    world.require_sound()
    databases.problem = DatabaseFailed("undone", sqlstate="25P02")
    with pytest.raises(DatabaseFailed, match="undone"):
        storing.require_sound()


# --- trace ------------------------------------------------------------------------------------------------------


def test_what_nodes_trace_is_written(world: LiveWorld, traced: list[tuple[str, str]]) -> None:
    world.trace("/file", "text")
    assert traced == [("/file", "text")]
