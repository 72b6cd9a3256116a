# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

from entrepot.channels.pulse import Pulse


class Member:
    def __init__(self) -> None:
        self.beats = 0

    def beat(self, now: float) -> None:
        self.beats += 1


def test_members_hear_it_until_they_leave_and_nobody_costs_nothing() -> None:
    async def work() -> None:
        pulse = Pulse(asyncio.get_running_loop(), 0.001)
        one, other = Member(), Member()
        pulse.join(one)
        pulse.join(other)
        while one.beats < 3:
            await asyncio.sleep(0.001)
        pulse.leave(other)
        heard = other.beats
        pulse.leave(one)
        await asyncio.sleep(0.01)
        assert other.beats == heard
        assert pulse._timer is None
        pulse.join(one)
        heard = one.beats
        while one.beats == heard:
            await asyncio.sleep(0.001)
        pulse.stop()
        assert pulse._timer is None

    asyncio.run(work())
