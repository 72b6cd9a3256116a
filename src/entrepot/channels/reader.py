# SPDX-License-Identifier: Apache-2.0
"""What `connection.reader` reads from at the end of a channel: messages that came ahead of their units of work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from entrepot.channels.client_core import HeldAhead, RemoteUnit, wanted
from entrepot.errors import ConnectionLost, InvalidArgument, UnitBackedOut
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
        self._unit: RemoteUnit | None = None
        """The last one that it was asked for."""
        self._ended = False

    def get(self, unit: RemoteUnit, wait_s: float) -> Message | None:
        """The next message, as a get in the unit would bring it, or None when none comes within `wait_s`."""
        if self._read_ahead == 1:
            return self._client.get(self._name, self._criteria, unit=unit, wait_s=wait_s)
        self._require_alone(unit)
        deadline = time.monotonic() + wait_s
        asked = False
        while not self._ended:
            ahead = self._opened(unit)
            if ahead is None:
                continue
            self._unit = unit
            message = self._client.hand_out(ahead, unit)
            if message is not None:
                return message
            if ahead.is_lost:
                self._ahead = None
                asked = False
            elif (error := ahead.error) is not None:
                self._stop()
                raise error
            elif asked:
                return None
            else:
                self._client.wait_for_more(ahead, deadline)
                asked = time.monotonic() >= deadline
        return None

    def _require_alone(self, unit: RemoteUnit) -> None:
        """Its messages leave in their order, so two units cannot have some each."""
        other = self._unit
        if other is not None and other is not unit and other.state is UnitState.ACTIVE and self._ahead in other.aheads:
            raise InvalidArgument("unit", "another one has messages of this reader", "that one, until it ends")

    def _opened(self, unit: RemoteUnit) -> HeldAhead | None:
        """Where messages come; None when the connection has broken once more."""
        if self._ahead is None:
            try:
                self._ahead = self._client.begin_holding(self._name, wanted(self._criteria), self._read_ahead)
            except ConnectionLost as error:
                if unit.used and unit.state is UnitState.ACTIVE:
                    unit.state = UnitState.BACKED_OUT
                    raise UnitBackedOut(unit.number, error.problem) from error
                if not self._client.mends_itself:
                    raise
        return self._ahead

    def _stop(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._client.stop_holding(ahead, self._unit)

    def close(self) -> None:
        """Let no more come; what a unit of work has stays with it, the rest is on its queue again."""
        if not self._ended:
            self._ended = True
            self._stop()
