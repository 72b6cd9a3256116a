# SPDX-License-Identifier: Apache-2.0
"""How many may stand at a listener, in all and from one address, before anything is known about them."""

from __future__ import annotations

from collections import Counter


class ConnectionLimiter:
    """Counts connections; who finds it full is turned away without a word, because words cost memory."""

    def __init__(self, connections_max: int, per_address_max: int, within: ConnectionLimiter | None = None) -> None:
        self._connections_max = connections_max
        self._per_address_max = per_address_max
        self._within = within
        """What all listeners share: the process has only so many descriptors."""
        self.is_closed = False
        """Whether nobody comes in, because memory is short."""
        self.connections = 0
        self.turned_away = 0
        self._from: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Whether one more may come in; if so, it has to `leave`."""
        full = self.connections >= self._connections_max or self._from[address] >= self._per_address_max
        if full or self.is_closed or (self._within is not None and not self._within.enter(address)):
            self.turned_away += 1
            return False
        self.connections += 1
        self._from[address] += 1
        return True

    def leave(self, address: str) -> None:
        if self._within is not None:
            self._within.leave(address)
        self.connections -= 1
        self._from[address] -= 1
        if not self._from[address]:
            del self._from[address]
