# SPDX-License-Identifier: Apache-2.0
"""Groups: messages that belong together, in a sequence with an end."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from entrepot.engine.entry import AVAILABLE, QueuedMessage
from entrepot.message import Message


class Groups:
    """The groups on one queue, those of their messages that went to disk included."""

    def __init__(self) -> None:
        self._members: dict[bytes, dict[int, tuple[int, QueuedMessage | None]]] = {}
        """By group id, then by key: sequence, and the entry or None when it is on disk."""
        self._ends: dict[bytes, int] = {}
        """The sequence number of each group's last message, once that is known."""
        self._begun: set[bytes] = set()
        """Groups that were whole when the first message left; the rest is to follow it."""

    def __bool__(self) -> bool:
        return bool(self._members)

    def add(self, entry: QueuedMessage) -> None:
        self._add(entry.key, entry.message, entry)

    def add_on_disk(self, key: int, message: Message) -> None:
        self._add(key, message, None)

    def _add(self, key: int, message: Message, entry: QueuedMessage | None) -> None:
        self._members.setdefault(message.group_id, {})[key] = (message.sequence, entry)
        if message.last_in_group:
            self._ends[message.group_id] = message.sequence

    def spilled(self, entry: QueuedMessage) -> None:
        self._add(entry.key, entry.message, None)

    def remove(self, entry: QueuedMessage) -> None:
        """A message has gone to a reader."""
        group_id = entry.message.group_id
        members = self._members.get(group_id, {})
        if group_id not in self._begun and entry.key in members and self._covers(group_id, members):
            self._begun.add(group_id)
        self.drop(entry)

    def drop(self, entry: QueuedMessage) -> None:
        """A message goes to no reader, so its group will never be whole."""
        group_id = entry.message.group_id
        members = self._members.get(group_id)
        if members is None:
            return
        members.pop(entry.key, None)
        if not members:
            del self._members[group_id]
            self._ends.pop(group_id, None)
            self._begun.discard(group_id)

    def size(self, group_id: bytes) -> int:
        """How many messages of the group are here."""
        return len(self._members.get(group_id, ()))

    def is_on_disk(self, group_id: bytes) -> bool:
        """Whether any message of the group has to be fetched first."""
        return any(entry is None for _, entry in self._members.get(group_id, {}).values())

    def members(self, group_id: bytes) -> Iterator[QueuedMessage]:
        """The available messages of a group that are in memory, in sequence."""
        members = (entry for _, entry in self._members.get(group_id, {}).values() if entry is not None)
        available = [entry for entry in members if entry.state == AVAILABLE]
        return iter(sorted(available, key=lambda entry: (entry.message.sequence, entry.key)))

    def is_whole(self, group_id: bytes, mine: Collection[int] = ()) -> bool:
        """Whether every message from 1 to the last is available, or went before by itself.

        `mine` are the keys of messages that the asking unit of work has got; what
        another unit has got is not there.
        """
        members = self._members.get(group_id, {})
        there = {
            key: member
            for key, member in members.items()
            if member[1] is None or member[1].state == AVAILABLE or key in mine
        }
        if group_id in self._begun:
            return len(there) == len(members)
        return self._covers(group_id, there)

    def _covers(self, group_id: bytes, members: dict[int, tuple[int, QueuedMessage | None]]) -> bool:
        end = self._ends.get(group_id)
        if end is None or len(members) < end:
            return False
        return {sequence for sequence, _ in members.values()} >= set(range(1, end + 1))
