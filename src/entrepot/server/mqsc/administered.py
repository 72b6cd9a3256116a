# SPDX-License-Identifier: Apache-2.0
"""What commands act on: a queue manager, in this process or at the end of a channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from entrepot.engine.definitions import Definition, ManagerAttributes


class Administered(Protocol):
    """A queue manager as its administrator sees it."""

    def manager_attributes(self) -> ManagerAttributes: ...

    def definitions(self) -> Iterable[Definition]:
        """Every object but the queue manager itself, in any order."""

    def find(self, kind: str, name: str) -> Definition | None:
        """The object of that kind and name; queues of all kinds share one name space."""

    def define(self, definition: Definition, *, replace: bool) -> None: ...

    def alter(self, definition: Definition) -> None:
        """Put the whole new definition, or ManagerAttributes, in the old one's place."""

    def delete(self, kind: str, name: str, *, purge: bool) -> None: ...

    def clear(self, name: str) -> int:
        """Remove all messages; how many there were."""

    def clear_retained(self, topic: str) -> int:
        """Forget the publication that is kept for a topic; how many there were, 0 or 1."""

    def queue_status(self, name: str) -> Mapping[str, int | float | str]:
        """The state of a local queue under MQSC's keywords: CURDEPTH, IPPROCS, UNCOM, MSGAGE, ..."""

    # --- what runs: NoServer where nothing can ------------------------------------------------

    def start_object(self, kind: str, name: str) -> None:
        """Begin to start a CHANNEL or LISTENER, or let a stopped channel be used again."""

    def stop_object(self, kind: str, name: str, *, force: bool, inactive: bool) -> None:
        """Begin to stop a CHANNEL, LISTENER or CONN.

        `force` does not let the batch under way end. `inactive` lets the
        channel start again by itself, as when a message arrives.
        """

    def reset_channel(self, name: str, sequence: int) -> None:
        """Let the next message of a channel have this sequence number."""

    def resolve_channel(self, name: str, *, commit: bool) -> None:
        """Settle the batch that a sender is in doubt about: committed, or back on the transmission queue."""

    def ping_channel(self, name: str) -> str:
        """Try the way to the other end without sending a message; what to tell about it."""

    def running(self, noun: str) -> list[dict[str, int | float | str]]:
        """Rows for DISPLAY CHSTATUS, LSSTATUS, CONN, TPSTATUS, SBSTATUS or PUBSUB, under MQ's keywords.

        What a row is about stands under CHANNEL, LISTENER, CONN, TOPICSTR, SUB and QMNAME.
        """
