# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from entrepot.engine.definitions import AliasQueue, LocalQueue, ManagerAttributes, NameList, Process
from entrepot.engine.objects import Objects
from entrepot.engine.waiting import Waiter, Waiters
from entrepot.errors import InvalidName, QueueNotFound


class StubQueue:
    def __init__(self, number: int, definition: LocalQueue) -> None:
        self.number = number
        self.definition = definition
        self.waiters = Waiters()
        self.forgotten = False

    def redefine(self, definition: LocalQueue) -> None:
        self.definition = definition

    def forget(self) -> None:
        self.forgotten = True


@pytest.fixture
def objects() -> Objects:
    made: Any = Objects(ManagerAttributes(name="QM1"), StubQueue)  # type: ignore[arg-type]
    made.put(LocalQueue(name="Q"))
    return made  # type: ignore[no-any-return]


def test_objects_are_found_by_kind_and_name(objects: Objects) -> None:
    objects.put(Process(name="Q"))
    objects.put(NameList(name="Q", names=("Q",)))
    assert [type(objects.find(kind, "Q")) for kind in ("QLOCAL", "PROCESS", "NAMELIST")] == [
        LocalQueue,
        Process,
        NameList,
    ]
    assert objects.find("QALIAS", "Q") is None
    assert objects.find("QMGR", "QM1") is objects.manager
    assert len(list(objects)) == 3


def test_changed_definition_reaches_routes_that_were_found_before(objects: Objects) -> None:
    assert objects.route("Q").put_enabled
    objects.put(LocalQueue(name="Q", put_enabled=False))
    assert not objects.route("Q").put_enabled
    assert objects.route("Q") is objects.route("Q")


def test_definition_is_stored_by_what_differs_from_the_defaults(objects: Objects) -> None:
    definition = LocalQueue(name="NEW", depth_max=7)
    record = objects.record(definition)
    assert record.attributes == {"name": "NEW", "depth_max": 7}
    objects.restore(record)
    assert objects.find("QLOCAL", "NEW") == definition
    assert objects.queues["NEW"].number == record.number == 2
    assert objects.number_next == 3


def test_queue_keeps_its_number_and_nobody_else_gets_it(objects: Objects) -> None:
    first = objects.queues["Q"]
    objects.put(LocalQueue(name="Q", depth_max=1))
    assert objects.queues["Q"] is first
    objects.remove("QLOCAL", "Q")
    objects.put(LocalQueue(name="Q"))
    assert objects.queues["Q"].number > first.number
    assert first.number not in objects.queues_by_number


def test_removed_queue_lets_its_readers_and_files_go(objects: Objects) -> None:
    queue: Any = objects.queues["Q"]
    waiter = Waiter(None, None, lambda: None)
    queue.waiters.add(waiter)
    objects.remove("QLOCAL", "Q")
    assert isinstance(waiter.error, QueueNotFound)
    assert queue.forgotten
    with pytest.raises(QueueNotFound):
        objects.route("Q")


def test_leaving_queue_cannot_be_used(objects: Objects) -> None:
    objects.put(AliasQueue(name="A", target="Q"))
    objects.route("Q")
    objects.begin_leaving("Q")
    for name in ("Q", "A"):
        with pytest.raises(Exception, match="Q"):
            objects.route(name)
    objects.end_leaving("Q")
    assert objects.route("A").queue is objects.queues["Q"]


@pytest.mark.parametrize("name", [["Q"], {}, None, 5, b"Q"])
def test_what_is_no_name_leads_nowhere(objects: Objects, name: Any) -> None:
    with pytest.raises(InvalidName):
        objects.route(name)
