# SPDX-License-Identifier: Apache-2.0
"""One timer for all senders of a queue manager, so that thousands of idle ones cost next to nothing."""

from __future__ import annotations

import asyncio
from typing import Protocol

_BEAT_S = 0.5


class HeartbeatMember(Protocol):
    def beat(self, now: float) -> None:
        """Some time has passed; `now` is the loop's."""


class HeartbeatTimer:
    """Beats for its members twice a second, as long as there are any."""

    def __init__(self, loop: asyncio.AbstractEventLoop, beat_s: float = _BEAT_S) -> None:
        self._loop = loop
        self._beat_s = beat_s
        self._members: set[HeartbeatMember] = set()
        self._timer: asyncio.TimerHandle | None = None

    def join(self, member: HeartbeatMember) -> None:
        self._members.add(member)
        if self._timer is None:
            self._timer = self._loop.call_later(self._beat_s, self._beat)

    def leave(self, member: HeartbeatMember) -> None:
        self._members.discard(member)

    def _beat(self) -> None:
        self._timer = None
        now = self._loop.time()
        for member in list(self._members):
            member.beat(now)
        if self._members:
            self._timer = self._loop.call_later(self._beat_s, self._beat)

    def stop(self) -> None:
        self._members.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
