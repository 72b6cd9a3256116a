# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from entrepot.channels.heartbeat_timer import HeartbeatTimer


class Member:
    def __init__(self) -> None:
        self.beats = 0

    def beat(self, now: float) -> None:
        self.beats += 1


def test_members_hear_it_until_they_leave_and_nobody_costs_nothing() -> None:
    async def work() -> None:
        heartbeat_timer = HeartbeatTimer(asyncio.get_running_loop(), 0.001)
        one, other = Member(), Member()
        heartbeat_timer.join(one)
        heartbeat_timer.join(other)
        while one.beats < 3:
            await asyncio.sleep(0.001)
        heartbeat_timer.leave(other)
        heard = other.beats
        heartbeat_timer.leave(one)
        await asyncio.sleep(0.01)
        assert other.beats == heard
        assert heartbeat_timer._timer is None
        heartbeat_timer.join(one)
        heard = one.beats
        while one.beats == heard:
            await asyncio.sleep(0.001)
        heartbeat_timer.stop()
        assert heartbeat_timer._timer is None

    asyncio.run(work())
