# SPDX-License-Identifier: Apache-2.0
"""What `connection.reader` reads from at the end of a channel: messages that came ahead of their units of work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from entrepot.channels.client_core import HeldAhead, RemoteUnit, wanted
from entrepot.errors import ConnectionLost, UnitBackedOut
from entrepot.message import Message
from entrepot.queues.criteria import Criteria
from entrepot.queues.unit_of_work import UnitState

if TYPE_CHECKING:
    from entrepot.channels.client import Client


class Reader:
    """Survives its connection. All that it has handed out belongs to one unit of work, until that ends."""

    def __init__(self, client: Client, name: str, criteria: Criteria | None, read_ahead: int) -> None:
        self._client = client
        self._name = name
        self._criteria = criteria
        self._read_ahead = read_ahead
        self._ahead: HeldAhead | None = None
        self._ended = False

    def get(self, unit: RemoteUnit, limit: int, wait_s: float) -> list[Message]:
        """The next messages, as gets in the unit would bring them; none when none comes within `wait_s`."""
        deadline = time.monotonic() + wait_s
        asked = False
        while not self._ended:
            if self._read_ahead == 1:
                message = self._client.get(self._name, self._criteria, unit=unit, wait_s=wait_s)
                return [] if message is None else [message]
            ahead = self._opened(unit)
            if ahead is None:
                continue
            messages = self._client.hand_out(ahead, unit, limit)
            if messages:
                return messages
            if ahead.is_lost:
                self._ahead = None
                asked = False
            elif ahead.has_expired:
                self._stop()
                asked = False
            elif (error := ahead.error) is not None:
                self._stop()
                raise error
            elif asked:
                return []
            else:
                self._client.wait_for_more(ahead, deadline)
                asked = time.monotonic() >= deadline
        self._stop()  # closed by another thread, maybe while this one was opening it again
        return []

    def look_ahead(self, count: int) -> None:
        """Let so many come before they are asked for, from the next ones on."""
        if self._read_ahead > 1 and count != self._read_ahead:
            self._read_ahead = max(count, 2)
            if self._ahead is not None:
                self._ahead.resize(self._read_ahead)

    def _opened(self, unit: RemoteUnit) -> HeldAhead | None:
        """Where messages come; None when the connection has broken once more, or nothing is read ahead by it."""
        if self._ahead is None:
            try:
                self._ahead = self._client.begin_holding(self._name, wanted(self._criteria), self._read_ahead)
            except ConnectionLost as error:
                if unit.used and unit.state is UnitState.ACTIVE:
                    unit.state = UnitState.BACKED_OUT
                    raise UnitBackedOut(unit.number, error.problem) from error
                if not self._client.mends_itself:
                    raise
                return None
            if not self._ahead.limit:
                # An older server does not know of such consumers, and would not let their messages go with a unit.
                self._read_ahead = 1
                self._stop()
        return self._ahead

    def _stop(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._client.stop_holding(ahead)

    def close(self) -> None:
        """Let no more come; what a unit of work has stays with it, the rest is on its queue again."""
        if not self._ended:
            self._ended = True
            self._stop()
