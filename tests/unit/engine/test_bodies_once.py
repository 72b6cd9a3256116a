# SPDX-License-Identifier: Apache-2.0
"""A publication's body is stored once and is in memory once, however many subscribers have it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import MEMORY, host_of
from entrepot import Connection, Message
from entrepot.engine.definitions import LocalQueue, SubscriptionDefinition
from entrepot.engine.entry import QueuedMessage

SUBSCRIBERS = 100
BODY_BYTES = 64 * 1024
BODY = bytes(range(256)) * (BODY_BYTES // 256)
# What may come on top: keys and queues of all subscribers, and all that a message is beside its body.
REST_BYTES = 100 * SUBSCRIBERS


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """How large files are does not depend on the disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as path:
        yield Path(path)


def alike(number: int) -> dict[str, Any]:
    return {}


def varied(number: int) -> dict[str, Any]:
    """Ten kinds of subscribers who get different messages."""
    return {"priority": number % 10}


Variant = Callable[[int], dict[str, Any]]
EVERY_VARIANT = pytest.mark.parametrize("variant", [alike, varied])


def subscribe_all(connection: Connection, variant: Variant) -> list[str]:
    """A hundred durable subscribers, each with a queue of its own."""
    host: Any = host_of(connection)
    names = [f"Q{number:03}" for number in range(SUBSCRIBERS)]
    for number, name in enumerate(names):
        host.define(LocalQueue(name=name), replace=False)
        host.define(SubscriptionDefinition(name=name, topic="a/#", destination=name, **variant(number)), replace=False)
    return names


def messages(connection: Connection, names: list[str]) -> list[Message]:
    manager = host_of(connection).manager  # type: ignore[attr-defined]
    found: list[QueuedMessage] = []
    for name in names:
        queue = manager.objects.queues[name]
        found += queue.after(None)
    return [entry.message for entry in found]


def log_bytes(connection: Connection) -> int:
    return int(host_of(connection).manager.log.appended_position)  # type: ignore[attr-defined]


def run_bytes(place: Any) -> int:
    return sum(path.stat().st_size for path in (place.path / "runs").glob("*.*"))


def require_body_once(found: list[Message]) -> None:
    assert len(found) == SUBSCRIBERS
    assert len({id(message.body) for message in found}) == 1


def require_once(found: list[Message], variant: Variant) -> None:
    """Who gets the same message has the same object, and all have the same body."""
    require_body_once(found)
    assert len({id(message) for message in found}) == len({str(variant(n)) for n in range(SUBSCRIBERS)})


@EVERY_VARIANT
def test_the_log_has_a_body_once(place: Any, variant: Variant) -> None:
    connection = place.open()
    names = subscribe_all(connection, variant)
    before = log_bytes(connection)
    connection.publish("a", BODY, persistent=True, retain=True)
    assert BODY_BYTES < log_bytes(connection) - before < BODY_BYTES + REST_BYTES
    require_once(messages(connection, names), variant)
    # And in a unit of work with others, where the same body comes twice.
    before = log_bytes(connection)
    with connection.unit_of_work() as unit:
        unit.publish("a/b", BODY, persistent=True)
        unit.put("Q000", b"between", persistent=True)
        unit.publish("a/c", BODY, persistent=True)
    assert log_bytes(connection) - before < 2 * (BODY_BYTES + REST_BYTES)


@EVERY_VARIANT
def test_after_a_kill_a_body_is_in_memory_once(place: Any, variant: Variant) -> None:
    connection = place.open()
    names = subscribe_all(connection, variant)
    connection.publish("a", BODY, persistent=True)
    again = place.killed().open()
    require_once(messages(again, names), variant)
    again.close()


@EVERY_VARIANT
@pytest.mark.parametrize("body_bytes", [1_000, BODY_BYTES, 200_000])
def test_runs_have_a_body_once(place: Any, variant: Variant, body_bytes: int) -> None:
    connection = place.open()
    names = subscribe_all(connection, variant)
    before = run_bytes(place)
    connection.publish("a", b"x" * body_bytes, persistent=True)
    # The first only counts it as old, the second moves it from the log to a run.
    connection.administration.checkpoint()
    connection.administration.checkpoint()
    assert body_bytes < run_bytes(place) - before < body_bytes + 3 * REST_BYTES
    require_once(messages(connection, names), variant)
    again = place.reopen()
    assert host_of(again).manager.runs
    require_body_once(messages(again, names))


@EVERY_VARIANT
def test_runs_have_several_bodies_once_each(place: Any, variant: Variant) -> None:
    connection = place.open()
    names = subscribe_all(connection, variant)
    before = run_bytes(place)
    for number in range(5):
        connection.publish("a", b"%d" % number * 2_000, persistent=True)
    connection.administration.checkpoint()
    connection.administration.checkpoint()
    # A frame of a run may end between two who share a body, so now and then there is one more.
    assert run_bytes(place) - before < 7 * 2_000 + 5 * 3 * REST_BYTES
    again = place.reopen()
    assert len({id(message.body) for message in messages(again, names)}) <= 7
    for name in names:
        assert sorted(message.body[:1] for message in iter(lambda name=name: again.get(name), None)) == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]


def test_a_run_goes_when_its_last_reader_has_read(place: Any) -> None:
    connection = place.open()
    names = subscribe_all(connection, alike)
    connection.publish("a", BODY, persistent=True)
    connection.administration.checkpoint()
    connection.administration.checkpoint()
    for name in names[:-1]:
        assert connection.get(name) is not None
    connection.administration.checkpoint()
    again = place.killed().open()
    assert [message.body for message in messages(again, names)] == [BODY]
    again.close()
    assert connection.get(names[-1]) is not None
    connection.administration.checkpoint()
    connection.administration.checkpoint()
    assert run_bytes(place) == 0


def test_what_one_reader_does_with_its_message_does_not_reach_the_others(place: Any) -> None:
    """Backout counts and removals are each subscriber's own, though the message is one object."""
    connection = place.open()
    names = subscribe_all(connection, alike)
    connection.publish("a", BODY, persistent=True)
    unit = connection.unit_of_work()
    assert unit.get(names[0]).backout_count == 0
    unit.back_out()
    assert connection.get(names[1]) is not None
    again = place.killed().open()
    for checkpoints in range(3):
        depths = [host_of(again).queue_status(name)["CURDEPTH"] for name in names[:3]]
        assert depths == [1, 0, 1], checkpoints
        host_of(again).checkpoint()
    counts = [message.backout_count for name in names[:3] for message in again.browse(name)]
    assert counts == [1, 0]
    again.close()


def test_memory_of_a_queue_counts_its_share_of_a_body_and_comes_back_to_nothing(place: Any) -> None:
    connection = place.open()
    names = subscribe_all(connection, varied)
    connection.publish("a", BODY, persistent=True)
    for opened in (connection, place.killed().open()):
        counted = sum(host_of(opened).queue_status(name)["MEMORY"] for name in names)
        assert counted < 20 * BODY_BYTES
        for name in names:
            assert opened.get(name) is not None
            assert host_of(opened).queue_status(name)["MEMORY"] == 0
        opened.close()
