# SPDX-License-Identifier: Apache-2.0
"""A clock that is set, a day forward or back, fires nothing that waits in a flow, and delays nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest

from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message

from .test_aggregation import bodies, fan_in, fan_out, reply_to, requests
from .test_collector import definition, message
from .test_timeouts import NOW, came, control, notification, request

DAY_S = 86_400.0
JUMPS = pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S], ids=["forward", "back"])


class JumpingRehearsal(MemoryWorld):
    """A world whose wall clock may be set, while its time goes on."""

    jump_s = 0.0

    def now(self) -> float:
        return super().now() + self.jump_s


@JUMPS
def test_an_aggregate_waits_as_long_as_it_was_told(jump_s: float) -> None:
    world, back = JumpingRehearsal(now=NOW), fan_in()
    world.feed(fan_out(timeout_s=30), "IN", Message(b"<order/>", persistent=True))
    sent = requests(world)
    world.pass_time(5, back)
    world.jump_s = jump_s
    world.feed(back, "REPLIES", reply_to(sent[0], "a car"))
    world.pass_time(24, back)
    assert bodies(world, "TIMEOUT") == []
    world.pass_time(2, back)
    assert bodies(world, "TIMEOUT") == ["<seen><TAXI>a car</TAXI></seen>"]


@JUMPS
def test_a_reply_that_nobody_knows_waits_as_long_as_it_was_told(jump_s: float) -> None:
    world, back = JumpingRehearsal(now=NOW), fan_in(unknown_timeout_s=30)
    world.feed(back, "REPLIES", reply_to(Message(b"", message_id=b"stranger" * 3), "who"))
    world.pass_time(5, back)
    world.jump_s = jump_s
    world.pass_time(24, back)
    assert bodies(world, "UNKNOWN") == []
    world.pass_time(2, back)
    assert len(bodies(world, "UNKNOWN")) == 1


@JUMPS
def test_a_collection_expires_when_it_was_told(jump_s: float) -> None:
    world = JumpingRehearsal(now=NOW)
    kernel = Kernel(definition([{"terminal": "a", "quantity": 3}], collection_expiry_s=60))
    world.feed(kernel, "A", message("one"))
    world.pass_time(10, kernel)
    world.jump_s = jump_s
    world.feed(kernel, "A", message("two"))
    world.pass_time(49, kernel)
    assert world.queues["EXPIRE"] == []
    world.pass_time(2, kernel)
    (expired,) = world.queues["EXPIRE"]
    assert b"one" in expired.body and b"two" in expired.body, "the second joined the first"


@JUMPS
def test_timers_ring_at_their_intervals(jump_s: float) -> None:
    for kernel, interval_s in ((notification("automatic"), 10.0), (notification(), 7.0)):
        world = JumpingRehearsal(now=NOW)
        world.prime(kernel)
        if interval_s == 7.0:
            world.feed(control(), "IN", request(Interval=7, Count=-1))
        world.pass_time(3 * interval_s, kernel)
        world.jump_s = jump_s
        world.pass_time(3 * interval_s, kernel)
        times = [at for at, _ in came(world)]
        assert len(times) >= 6
        assert {round(later - earlier, 1) for earlier, later in pairwise(times)} == {interval_s}


@JUMPS
def test_a_start_time_is_one_of_the_clock_as_it_was_when_it_was_asked_for(jump_s: float) -> None:
    world, kernel = JumpingRehearsal(now=NOW), notification()
    world.prime(kernel)
    world.feed(control(), "IN", request(StartTime="12:01:00"))
    world.jump_s = jump_s
    world.pass_time(120, kernel)
    assert came(world) == [(60.0, "hello")]
