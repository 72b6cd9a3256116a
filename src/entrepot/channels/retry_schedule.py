# SPDX-License-Identifier: Apache-2.0
"""How long a sender waits before it tries again: ever longer, and not all channels at the same moment."""

from __future__ import annotations

from zlib import crc32

from entrepot.engine.definitions import Channel

_FIRST_S = 0.1
_SPREAD = 0.2


class RetrySchedule:
    """Pauses double from 0.1 s up to SHORTTMR, SHORTRTY times in all; then they are LONGTMR, LONGRTY times."""

    __slots__ = ("_definition", "attempts")

    def __init__(self, definition: Channel) -> None:
        self._definition = definition
        self.attempts = 0

    def reset(self) -> None:
        """The other end was reached, and all went well."""
        self.attempts = 0

    def pause_s(self) -> float | None:
        """How long to wait before the next attempt; None when there have been enough."""
        definition = self._definition
        self.attempts += 1
        if self.attempts <= definition.short_retry_count:
            doubled_s = _FIRST_S * 2 ** min(self.attempts - 1, 30)
            return self._spread(min(doubled_s, max(definition.short_retry_s, _FIRST_S)))
        if self.attempts - definition.short_retry_count <= definition.long_retry_count:
            return self._spread(max(definition.long_retry_s, _FIRST_S))
        return None

    def _spread(self, pause_s: float) -> float:
        # By the name, not by chance: thousands of channels to one partner come back one after the other,
        # and a test sees the same every time.
        share = crc32(self._definition.name.encode()) % 1000 / 1000
        return pause_s * (1 - _SPREAD * share)

    @property
    def short_left(self) -> int:
        return max(self._definition.short_retry_count - self.attempts, 0)

    @property
    def long_left(self) -> int:
        behind = max(self.attempts - self._definition.short_retry_count, 0)
        return max(self._definition.long_retry_count - behind, 0)
