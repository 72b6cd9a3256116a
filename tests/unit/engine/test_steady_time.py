# SPDX-License-Identifier: Apache-2.0
"""Expiries and delays take as long as they should, whatever happens to the wall clock."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from entrepot.engine.checkpointing import CheckpointTaker
from entrepot.engine.definitions import LocalQueue, SubscriptionDefinition
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.record import FORMAT_VERSION
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import lay_out, restart
from entrepot.engine.retrying import retry_later
from entrepot.engine.settings import ManagerSettings
from entrepot.engine.steady_time import STEP_S_MIN, STEPS_MAX, SteadyTime
from entrepot.message import Message
from entrepot.testing import SimulatedDisk, VirtualClock

DAY_S = 86400.0
HOUR_S = 3600.0
JUMPS = (DAY_S, -DAY_S, 0.0, 90.0, -90.0)
SETTINGS = ManagerSettings(
    name="QM",
    manager_id=b"m" * 12,
    format_version=FORMAT_VERSION,
    created=0.0,
    log=LogSettings(segment_bytes=64 * 1024, primary=2, secondary=2),
)


class World:
    """A queue manager whose wall clock is set now and then."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.disk = SimulatedDisk(random.Random(1))
        lay_out(self.disk, self.clock, SETTINGS)
        self.manager: QueueManager
        self.checkpoints: CheckpointTaker
        self.start()
        self.settle(self.manager.administration.define(LocalQueue(name="Q"), replace_existing=False))

    def start(self) -> None:
        self.manager, self.checkpoints, *_ = restart(self.disk, self.clock, SETTINGS)

    def kill(self) -> None:
        """The process dies; everything it has written is there."""
        self.manager.log.close()
        self.start()

    def settle(self, _: object = None) -> None:
        self.manager.force()

    def jump(self, seconds: float) -> None:
        self.clock.jump(seconds)
        self.manager.follow_clock()  # as the housekeeper does several times a second

    def put(self, name: str = "Q", **limits: float) -> bytes:
        message_id, settlement = self.manager.put(name, Message(b"x", **limits), persistent=True)  # type: ignore[arg-type]
        self.settle(settlement)
        return message_id

    def get(self) -> Message | None:
        message, settlement = self.manager.get("Q")
        self.settle(settlement)
        return message

    @property
    def is_there(self) -> bool:
        self.manager.timers.tick()
        return bool(self.manager.browse("Q", None, None, 10)[0])


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.manager.log.close()


@pytest.mark.parametrize("kill", [False, True], ids=["running", "killed in between"])
def test_an_expiry_takes_its_time_whatever_the_clock_does(world: World, kill: bool) -> None:
    for jump in JUMPS:
        for before_s, after_s in ((10.0, HOUR_S - 10), (HOUR_S - 10, 10.0)):
            world.put(expiry_s=HOUR_S)
            world.clock.advance(before_s)
            world.jump(jump)
            if kill:
                world.kill()
            world.clock.advance(after_s - STEP_S_MIN)
            assert world.is_there, (jump, before_s)
            world.clock.advance(2 * STEP_S_MIN)
            assert not world.is_there, (jump, before_s)
            assert world.get() is None


@pytest.mark.parametrize("kill", [False, True], ids=["running", "killed in between"])
def test_a_delay_takes_its_time_whatever_the_clock_does(world: World, kill: bool) -> None:
    for jump in JUMPS:
        world.put(delay_s=HOUR_S)
        world.clock.advance(10.0)
        world.jump(jump)
        if kill:
            world.kill()
        world.clock.advance(HOUR_S - 10 - STEP_S_MIN)
        assert world.get() is None, jump
        world.clock.advance(2 * STEP_S_MIN)
        assert world.get() is not None, jump


def test_a_message_that_was_returned_for_later_comes_in_its_time_whatever_the_clock_does(world: World) -> None:
    for jump in JUMPS:
        world.put()
        world.jump(jump)
        unit = world.manager.begin()
        assert world.manager.get("Q", unit=unit)[0] is not None
        retry_later(world.manager, unit, HOUR_S)
        world.jump(-jump)
        world.clock.advance(HOUR_S - STEP_S_MIN)
        assert world.get() is None, jump
        world.clock.advance(2 * STEP_S_MIN)
        assert world.get() is not None, jump


def test_messages_put_before_between_and_after_jumps_all_keep_their_time(world: World) -> None:
    begin = world.clock.elapsed()
    for jump in (*JUMPS, *JUMPS):
        world.put(expiry_s=HOUR_S)
        world.clock.advance(60)
        world.jump(jump)
    world.checkpoints.take()
    world.checkpoints.take()
    world.kill()
    world.clock.advance(HOUR_S - (world.clock.elapsed() - begin) - 1)
    for left in range(10, 0, -1):
        assert len(world.manager.browse("Q", None, None, 100)[0]) == left
        world.clock.advance(60)
    assert not world.is_there


def test_a_unit_that_was_open_when_the_clock_was_set_keeps_its_times(world: World) -> None:
    for jump in (DAY_S, -DAY_S):
        unit = world.manager.begin()
        world.manager.put("Q", Message(b"early", expiry_s=HOUR_S), persistent=True, unit=unit)
        world.clock.advance(600)
        world.jump(jump)
        world.manager.put("Q", Message(b"late", expiry_s=HOUR_S), persistent=True, unit=unit)
        world.settle(world.manager.commit(unit))
        world.kill()
        world.clock.advance(HOUR_S - 600 + 1)
        world.manager.timers.tick()
        assert [message.body for message in world.manager.browse("Q", None, None, 10)[0]] == [b"late"]
        world.clock.advance(600)
        assert not world.is_there


def test_a_jump_that_nothing_has_noticed_yet_is_noticed_by_the_next_put(world: World) -> None:
    world.put(expiry_s=HOUR_S)
    world.clock.jump(DAY_S)
    assert world.is_there
    world.put(expiry_s=HOUR_S)
    world.kill()
    world.clock.advance(HOUR_S - 1)
    assert len(world.manager.browse("Q", None, None, 10)[0]) == 2
    world.clock.advance(2)
    assert not world.is_there


def test_the_put_time_is_what_the_wall_clock_says(world: World) -> None:
    world.jump(-DAY_S)
    world.put(expiry_s=HOUR_S)
    found = world.get()
    assert found is not None
    assert found.put_time == world.clock.now()


def test_a_reader_is_told_what_is_left(world: World) -> None:
    world.put(expiry_s=HOUR_S)
    world.clock.advance(600)
    world.jump(DAY_S)
    found = world.get()
    assert found is not None
    assert found.expiry_s == pytest.approx(HOUR_S - 600, abs=STEP_S_MIN)


def test_the_time_of_a_stop_counts_and_a_clock_set_back_meanwhile_lets_none_pass(world: World) -> None:
    world.put(expiry_s=HOUR_S)
    world.clock.advance(HOUR_S / 2)
    world.kill()
    assert world.is_there
    world.settle()  # the last time in the log
    world.clock.jump(-DAY_S)
    world.kill()
    world.clock.advance(HOUR_S / 2 - 1)
    assert world.is_there
    world.clock.advance(2)
    assert not world.is_there


def test_a_step_survives_an_alter_of_the_queue_manager_that_was_made_before_it(world: World) -> None:
    attributes = replace(world.manager.objects.manager, trigger_interval_ms=5)
    world.put(expiry_s=HOUR_S)
    world.jump(DAY_S)
    world.settle(world.manager.administration.alter(attributes))
    world.kill()
    assert world.is_there
    assert world.manager.objects.manager.trigger_interval_ms == 5


def test_a_subscription_and_its_expiry(world: World) -> None:
    wanted = SubscriptionDefinition(name="S", topic="a", destination="Q", expiry_s=HOUR_S)
    world.settle(world.manager.publishing.subscribe(wanted)[1])
    for jump in (DAY_S, -DAY_S):
        world.clock.advance(60)
        world.jump(jump)
        world.kill()
        assert "S" in world.manager.objects.subscriptions
    world.clock.advance(HOUR_S - 120 + 1)
    world.manager.timers.tick()
    assert "S" not in world.manager.objects.subscriptions


def test_no_id_is_used_again_whatever_the_clock_does(world: World) -> None:
    seen = set()
    for jump in JUMPS:
        for _ in range(3):
            seen.add(world.put())
        world.jump(jump)
        world.kill()
    assert len(seen) == 3 * len(JUMPS)


def test_a_trigger_is_repeated_after_its_interval_though_the_clock_was_set_back(world: World) -> None:
    world.settle(world.manager.administration.define(LocalQueue(name="INIT"), replace_existing=False))
    triggered = LocalQueue(name="T", trigger_enabled=True, trigger_type="FIRST", initiation_queue="INIT")
    world.settle(world.manager.administration.define(triggered, replace_existing=False))
    attributes = replace(world.manager.objects.manager, trigger_interval_ms=60_000)
    world.settle(world.manager.administration.alter(attributes))
    world.put("T")
    world.jump(-DAY_S)
    world.clock.advance(61)
    world.put("T")
    assert world.manager.objects.queues["INIT"].depth == 2


class StoppedBetweenReadings(VirtualClock):
    """The process is stopped for ten seconds between two readings, once."""

    stops = False

    def elapsed(self) -> float:
        if self.stops:
            self.stops = False
            self.advance(10)
        return super().elapsed()


def test_a_process_that_was_stopped_between_two_readings_sees_no_step() -> None:
    clock = StoppedBetweenReadings()
    steady = SteadyTime(clock)
    clock.stops = True
    assert steady.follow(1) == clock.now()
    assert steady.count == 0


def test_a_clock_that_is_set_all_the_time_costs_bounded_space() -> None:
    clock = VirtualClock()
    steady = SteadyTime(clock)
    for key in range(2 * STEPS_MAX):
        clock.jump(1.0)
        steady.follow(key)
    assert len(steady.steps) == STEPS_MAX
    assert steady.now() == pytest.approx(1_700_000_000.0)
