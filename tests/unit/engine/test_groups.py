# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.engine.entry import AVAILABLE, LOCKED, QueuedMessage
from entrepot.engine.groups import Groups
from entrepot.message import Message


def member(key: int, sequence: int, *, last: bool = False, group: bytes = b"g") -> QueuedMessage:
    return QueuedMessage(key, 1, Message(b"", group_id=group, sequence=sequence, last_in_group=last))


def group_of(*entries: QueuedMessage) -> Groups:
    groups = Groups()
    for entry in entries:
        groups.add(entry)
    return groups


def test_group_is_whole_with_everything_from_one_to_the_last() -> None:
    groups = group_of(member(1, 3, last=True), member(2, 1))
    assert not groups.is_whole(b"g")
    groups.add(member(3, 2))
    assert groups.is_whole(b"g")
    assert [entry.key for entry in groups.members(b"g")] == [2, 3, 1]
    assert not groups.is_whole(b"other")


def test_group_without_its_last_message_is_never_whole() -> None:
    assert not group_of(member(1, 1), member(2, 2)).is_whole(b"g")


def test_duplicates_do_not_stand_in_for_what_is_missing() -> None:
    groups = group_of(member(1, 1), member(2, 1), member(3, 3, last=True))
    assert not groups.is_whole(b"g")
    groups.add(member(4, 2))
    assert groups.is_whole(b"g")
    assert [entry.key for entry in groups.members(b"g")] == [1, 2, 4, 3]


def test_message_that_a_unit_has_is_there_for_that_unit_only() -> None:
    first, last = member(1, 1), member(2, 2, last=True)
    groups = group_of(first, last)
    first.state = LOCKED
    assert not groups.is_whole(b"g")
    assert groups.is_whole(b"g", {1})
    assert [entry.key for entry in groups.members(b"g")] == [2]
    first.state = AVAILABLE
    assert groups.is_whole(b"g")


def test_rest_of_a_group_follows_what_a_reader_has() -> None:
    first, second, last = member(1, 1), member(2, 2), member(3, 3, last=True)
    groups = group_of(first, second, last)
    groups.remove(first)
    assert groups.is_whole(b"g")
    second.state = LOCKED
    assert not groups.is_whole(b"g"), "another reader is at it"
    groups.remove(second)
    groups.remove(last)
    groups.add(member(4, 2, last=True))
    assert not groups.is_whole(b"g"), "a new group of the same name begins from scratch"


def test_group_that_lost_a_message_is_not_whole() -> None:
    first, last = member(1, 1), member(2, 2, last=True)
    groups = group_of(first, last)
    groups.drop(first)
    assert not groups.is_whole(b"g")
    groups.remove(first)
    assert not groups.is_whole(b"g")
    groups.add(first)
    assert groups.is_whole(b"g")


def test_messages_on_disk_belong_to_their_group() -> None:
    first, last = member(1, 1), member(2, 2, last=True)
    groups = group_of(first, last)
    assert not groups.is_on_disk(b"g")
    groups.spilled(first)
    assert groups.is_on_disk(b"g")
    assert groups.is_whole(b"g")
    assert [entry.key for entry in groups.members(b"g")] == [2]
    groups.add(first)
    assert not groups.is_on_disk(b"g")
    groups.add_on_disk(3, member(3, 1, group=b"h").message)
    assert groups.is_on_disk(b"h")
