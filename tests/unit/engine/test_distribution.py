# SPDX-License-Identifier: Apache-2.0
"""One put for many queues: all of them have it, or none."""

from __future__ import annotations

import pytest

from entrepot.engine.definitions import LocalQueue, NameList
from entrepot.engine.entry import OVERHEAD_BYTES
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import (
    DistributionFailed,
    InvalidArgument,
    InvalidName,
    LimitExceeded,
    TooManyUncommitted,
    UnitFinished,
)
from entrepot.limits import DISTRIBUTION_MAX
from entrepot.message import Message

from .simulated import Simulated


@pytest.fixture
def manager() -> QueueManager:
    """With queues A, B, C and CLOSED, which takes nothing, and the list AB."""
    manager = Simulated().manager
    for definition in (*(LocalQueue(name=name) for name in "ABC"), LocalQueue(name="CLOSED", put_enabled=False)):
        manager.administration.define(definition, replace_existing=False)
    manager.administration.define(NameList(name="AB", names=("A", "B")), replace_existing=False)
    manager.force()
    return manager


def depths(manager: QueueManager, names: str = "ABC") -> list[int]:
    return [manager.objects.queues[name].depth for name in names]


def kept_places(manager: QueueManager) -> int:
    return sum(queue.reserved for queue in manager.objects.queues.values())


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("names", [("A",), ("A", "B"), ("A", "B", "C")])
def test_queues_that_agree_share_one_id_and_one_body(
    manager: QueueManager, names: tuple[str, ...], persistent: bool
) -> None:
    message_id, _ = manager.put(names, Message(b"x" * 6000), persistent=persistent)
    manager.force()
    found = [manager.browse(name, None, None, 10)[0] for name in names]
    assert [[message.message_id for message in messages] for messages in found] == [[message_id]] * len(names)
    for name in names:
        assert manager.objects.queues[name].memory_bytes == 6000 // len(names) + OVERHEAD_BYTES


def test_a_queue_that_is_named_twice_has_the_message_once(manager: QueueManager) -> None:
    manager.put(["A", "B", "A"], Message(b""))
    assert depths(manager) == [1, 1, 0]


def test_a_list_goes_by_its_name(manager: QueueManager) -> None:
    manager.put("AB", Message(b""))
    assert depths(manager) == [1, 1, 0]


def test_a_list_has_so_many_names_and_no_more(manager: QueueManager) -> None:
    manager.put(["A"] * DISTRIBUTION_MAX, Message(b""))
    assert depths(manager) == [1, 0, 0]
    with pytest.raises(LimitExceeded):
        manager.put(["A"] * (DISTRIBUTION_MAX + 1), Message(b""))


@pytest.mark.parametrize("names", [[], (), {}, {"A": 1}, b"A", bytearray(b"A"), memoryview(b"A"), 7, None])
def test_what_is_no_list_is_refused(manager: QueueManager, names: object) -> None:
    with pytest.raises(InvalidArgument):
        manager.put(names, Message(b""))  # type: ignore[arg-type]


def test_what_is_no_name_is_refused(manager: QueueManager) -> None:
    with pytest.raises(InvalidName):
        manager.put(["A", 7], Message(b""))  # type: ignore[list-item]
    assert depths(manager) == [0, 0, 0]


@pytest.mark.parametrize("in_unit", [False, True])
def test_a_queue_that_refuses_keeps_it_from_all_and_no_place_is_kept(manager: QueueManager, in_unit: bool) -> None:
    unit = manager.begin() if in_unit else None
    with pytest.raises(DistributionFailed) as caught:
        manager.put(["A", "CLOSED", "B", "MISSING"], Message(b""), unit=unit)
    assert [name for name, _ in caught.value.failures] == ["CLOSED", "MISSING"]
    assert (depths(manager), kept_places(manager)) == ([0, 0, 0], 0)
    if unit is not None:
        assert (unit.puts, unit.body_bytes) == ([], 0)


def test_in_a_unit_all_have_it_with_the_commit(manager: QueueManager) -> None:
    unit = manager.begin()
    manager.put(["A", "B"], Message(b"four"), unit=unit)
    assert (depths(manager), kept_places(manager), unit.body_bytes) == ([0, 0, 0], 2, 4)
    manager.commit(unit)
    assert (depths(manager), kept_places(manager)) == ([1, 1, 0], 0)
    with pytest.raises(UnitFinished):
        manager.put(["A", "B"], Message(b""), unit=unit)


def test_a_unit_that_is_full_takes_no_list(manager: QueueManager) -> None:
    unit = Unit(1, 1)
    manager.put(["A", "B"], Message(b""), unit=unit)
    with pytest.raises(TooManyUncommitted):
        manager.put(["A", "B"], Message(b""), unit=unit)
    assert kept_places(manager) == 2
