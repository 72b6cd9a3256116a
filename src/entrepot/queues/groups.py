# SPDX-License-Identifier: Apache-2.0
"""Groups: messages that belong together, in a sequence with an end."""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.queues.entry import AVAILABLE, QueuedMessage


class Groups:
    """The groups on one queue, those of their messages that went to disk included."""

    def __init__(self) -> None:
        self._members: dict[bytes, dict[int, tuple[int, bool, QueuedMessage | None]]] = {}
        """By group id, then by key: sequence, last in group, and the entry or None when it is on disk."""

    def add(self, entry: QueuedMessage) -> None:
        message = entry.message
        members = self._members.setdefault(message.group_id, {})
        members[entry.key] = (message.sequence, message.last_in_group, entry)

    def spilled(self, entry: QueuedMessage) -> None:
        message = entry.message
        self._members[message.group_id][entry.key] = (message.sequence, message.last_in_group, None)

    def remove(self, entry: QueuedMessage) -> None:
        group_id = entry.message.group_id
        members = self._members.get(group_id)
        if members is not None:
            members.pop(entry.key, None)
            if not members:
                del self._members[group_id]

    def is_on_disk(self, group_id: bytes) -> bool:
        """Whether any message of the group has to be fetched first."""
        return any(entry is None for _, _, entry in self._members.get(group_id, {}).values())

    def members(self, group_id: bytes) -> Iterator[QueuedMessage]:
        """The available messages of a group that are in memory, in sequence."""
        members = (entry for _, _, entry in self._members.get(group_id, {}).values() if entry is not None)
        available = [entry for entry in members if entry.state == AVAILABLE]
        return iter(sorted(available, key=lambda entry: (entry.message.sequence, entry.key)))

    def is_whole(self, group_id: bytes) -> bool:
        """Whether every message from 1 to the last is available."""
        there = [
            (sequence, last)
            for sequence, last, entry in self._members.get(group_id, {}).values()
            if entry is None or entry.state == AVAILABLE
        ]
        end = next((sequence for sequence, last in there if last), None)
        return end is not None and {sequence for sequence, _ in there} >= set(range(1, end + 1))
