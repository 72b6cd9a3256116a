# SPDX-License-Identifier: Apache-2.0
"""Of each topic the newest retained publication stays, and no other."""

from __future__ import annotations

import pytest

from entrepot.engine import retained as retained_module
from entrepot.engine.definitions import RETAINED_QUEUE
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.retained import Retained
from entrepot.engine.topics import parse_pattern
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import LogFull
from entrepot.message import Message

from .simulated import Simulated


@pytest.fixture
def simulated() -> Simulated:
    simulated = Simulated()
    simulated.manager.administration.define_missing()
    simulated.manager.force()
    return simulated


@pytest.fixture
def manager(simulated: Simulated) -> QueueManager:
    return simulated.manager


def publish(
    manager: QueueManager, body: bytes, topic: str = "t", *, persistent: bool = False, unit: Unit | None = None
) -> None:
    manager.put(f"topic:{topic}", Message(body, retained=True), persistent=persistent, unit=unit)
    if unit is None:
        manager.force()


def kept(manager: QueueManager) -> Retained:
    return manager.publishing.retained


def found(manager: QueueManager, pattern: str = "#") -> list[bytes]:
    return [message.body for message in kept(manager).find(parse_pattern(pattern, "TOPIC"))]


def depth(manager: QueueManager) -> int:
    manager.force()
    return manager.objects.queues[RETAINED_QUEUE].depth


@pytest.mark.parametrize("persistent", [False, True])
def test_a_newer_publication_takes_the_place_of_the_older(manager: QueueManager, persistent: bool) -> None:
    for body in (b"1", b"2", b"3"):
        publish(manager, body, persistent=persistent)
    assert (found(manager), depth(manager)) == ([b"3"], 1)
    newest = kept(manager).newest("t")
    assert newest is not None
    assert newest.body == b"3"


def test_an_older_publication_that_comes_late_is_discarded(simulated: Simulated) -> None:
    manager = simulated.manager
    publish(manager, b"before all", persistent=True)
    unit = manager.begin()
    publish(manager, b"old, in doubt", persistent=True, unit=unit)
    manager.in_doubt.prepare(unit, b"x")
    manager.force()
    publish(manager, b"new", persistent=True)
    manager.in_doubt.resolve(b"x", commit=True)
    manager.force()
    assert (found(manager), depth(manager)) == ([b"new"], 1)
    assert found(simulated.power_cut_and_start().manager) == [b"new"]


def test_publications_are_found_in_the_order_of_their_coming(manager: QueueManager) -> None:
    for topic in ("b/1", "a", "b/2", "b/0"):
        publish(manager, topic.encode(), topic)
    publish(manager, b"b/1 again", "b/1")
    assert found(manager) == [b"a", b"b/2", b"b/0", b"b/1 again"]
    assert found(manager, "b/+") == [b"b/2", b"b/0", b"b/1 again"]
    assert sorted(kept(manager).topics()) == ["a", "b/0", "b/1", "b/2"]


def test_what_somebody_reads_is_not_found_and_the_next_one_takes_its_topic(manager: QueueManager) -> None:
    publish(manager, b"1")
    unit = manager.begin()
    assert manager.get(RETAINED_QUEUE, None, unit)[0] is not None
    assert (found(manager), kept(manager).newest("t"), kept(manager).topics()) == ([], None, [])
    publish(manager, b"2")
    manager.commit(unit)
    assert (found(manager), depth(manager)) == ([b"2"], 1)


@pytest.mark.parametrize("persistent", [False, True])
def test_what_was_cleared_is_gone(simulated: Simulated, persistent: bool) -> None:
    manager = simulated.manager
    publish(manager, b"1", persistent=persistent)
    count, settlement = kept(manager).clear("t")
    manager.force()
    assert (count, settlement is not None, depth(manager)) == (1, persistent, 0)
    assert kept(manager).clear("t") == kept(manager).clear("never") == (0, None)
    assert found(simulated.power_cut_and_start().manager) == []


def test_with_a_full_log_the_newer_counts_though_the_older_stays(
    simulated: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = simulated.manager
    publish(manager, b"old", persistent=True)

    def refuse(size: int, *, reserved: bool) -> None:
        raise LogFull(0)

    monkeypatch.setattr(manager.log, "require_room", refuse)
    publish(manager, b"new")
    with pytest.raises(LogFull):
        manager.put("topic:t", Message(b"refused", retained=True), persistent=True)
    assert (found(manager), depth(manager)) == ([b"new"], 2)


def test_topics_that_keep_nothing_are_forgotten(manager: QueueManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_module, "_TIDY_MIN", 3)
    for number in range(50):
        publish(manager, b"", f"t{number}")
        if number:
            assert manager.get(RETAINED_QUEUE)[0] is not None
        assert len(kept(manager)._entries) <= 2 * 2 + 3
    assert kept(manager).topics() == ["t49"]
