# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.channels.initiator import ChannelInitiator
from entrepot.channels.sender import Status
from entrepot.engine.definitions import CHANNEL_INITIATION_QUEUE, SYNCHRONIZATION_QUEUE, Channel, LocalQueue
from entrepot.errors import ChannelInDoubt, ChannelNotAvailable, ObjectNotFound
from entrepot.server.wire.verbs import Verb
from recovery.channel_pair import CHANNEL, Cut, Pair


def opened(pair: Pair) -> ChannelInitiator:
    initiator = ChannelInitiator(pair.desk_a, open_connection=pair.dial)
    initiator.open()
    if CHANNEL in initiator.senders:
        pair.channel = initiator.senders[CHANNEL]
    return initiator


def triggered(pair: Pair, **changes: Any) -> None:
    queue = pair.a.find("QLOCAL", "B")
    assert isinstance(queue, LocalQueue)
    options = {"trigger_enabled": True, "trigger_data": CHANNEL, "initiation_queue": CHANNEL_INITIATION_QUEUE}
    pair.a.define(replace(queue, **(options | changes)), replace=True)


def state(initiator: ChannelInitiator) -> Status | None:
    return initiator.senders[CHANNEL].state if CHANNEL in initiator.senders else None


async def is_remembered(pair: Pair, initiator: ChannelInitiator, order: str) -> None:
    await pair.until(lambda: initiator._orders.get(CHANNEL, "") == order and not initiator._writing, order)


@pytest.mark.parametrize("trigger_data", [CHANNEL, ""])
def test_a_message_starts_its_channel(with_pair: Any, trigger_data: str) -> None:
    async def work(pair: Pair) -> None:
        triggered(pair, trigger_data=trigger_data)
        initiator = opened(pair)
        assert initiator.status() == []
        pair.put(1)
        await pair.delivered(1)
        assert [row["STATUS"] for row in initiator.status()] == ["RUNNING"]
        # And again after it has ended.
        initiator.stop(CHANNEL, inactive=True)
        await pair.until(lambda: state(initiator) is Status.INACTIVE)
        pair.put(2)
        await pair.delivered(2)
        await initiator.close()

    with_pair(work)


def test_a_message_that_was_there_before_starts_its_channel_too(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(1)
        triggered(pair)
        initiator = opened(pair)
        await pair.delivered(1)
        await initiator.close()

    with_pair(work)


def test_a_stopped_channel_is_not_triggered_even_after_a_restart(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        triggered(pair)
        initiator = opened(pair)
        initiator.stop(CHANNEL)
        await is_remembered(pair, initiator, "STOPPED")
        pair.put(1)
        await asyncio.sleep(0.05)
        assert state(initiator) is Status.STOPPED
        await initiator.close()
        await pair.crash("a")
        initiator = opened(pair)
        pair.put(2)
        await asyncio.sleep(0.05)
        assert pair.got() == []
        initiator.start(CHANNEL)
        await pair.delivered(2)
        await is_remembered(pair, initiator, "STARTED")
        await initiator.close()

    with_pair(work)


def test_a_channel_that_ran_runs_again_after_a_restart(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        initiator = opened(pair)  # no trigger
        initiator.start(CHANNEL)
        await is_remembered(pair, initiator, "STARTED")
        await initiator.close()
        await pair.crash("a")
        initiator = opened(pair)
        pair.put(1)
        await pair.delivered(1)
        initiator.stop(CHANNEL, inactive=True)
        await is_remembered(pair, initiator, "")
        await initiator.close()
        await pair.crash("a")
        initiator = opened(pair)
        assert initiator.senders == {}
        await initiator.close()

    with_pair(work)


def test_a_batch_in_doubt_starts_its_channel_after_a_restart(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(*range(3))
        pair.cuts = [Cut(Verb.CHANNEL_CONFIRM, 1, after=False)]
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        assert pair.a.in_doubt()
        await pair.crash("a")
        initiator = opened(pair)
        await pair.delivered(3)
        assert pair.got() == [0, 1, 2]
        await initiator.close()

    with_pair(work)


def test_orders_leave_nothing_behind(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        initiator = opened(pair)
        for _ in range(5):
            initiator.start(CHANNEL)
            initiator.stop(CHANNEL, force=True)
            initiator.start(CHANNEL)
            await asyncio.sleep(0.01)
            initiator.stop(CHANNEL, force=True, inactive=True)
        await is_remembered(pair, initiator, "")
        assert pair.depth(SYNCHRONIZATION_QUEUE) == 0
        await initiator.close()

    with_pair(work)


def test_operators_reach_both_kinds_of_ends(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        initiator = opened(pair)
        pair.a.define(Channel(name="CLIENTS"), replace=False)
        with pytest.raises(ObjectNotFound):
            initiator.start("NONE")
        with pytest.raises(ChannelNotAvailable):
            initiator.start("CLIENTS")
        assert "answers" in await initiator.ping(CHANNEL)
        pair.put(*range(3))
        pair.cuts = [Cut(Verb.CHANNEL_CONFIRM, 1, after=False)]
        initiator.start(CHANNEL)
        await pair.until(lambda: state(initiator) is Status.RETRYING, every_s=0)
        initiator.stop(CHANNEL)
        with pytest.raises(ChannelInDoubt):
            await initiator.reset(CHANNEL, 1)
        await initiator.resolve(CHANNEL, commit=True)
        initiator.start(CHANNEL)
        await pair.until(lambda: state(initiator) is Status.RUNNING)
        other = ChannelInitiator(pair.desk_b, receivers=pair.receivers)
        other.open()
        assert [row["CHLTYPE"] for row in other.status()] == ["RCVR"]
        other.stop(CHANNEL)
        await pair.until(lambda: state(initiator) is Status.RETRYING, every_s=0)
        await is_remembered(pair, other, "STOPPED")
        await other.close()
        again = ChannelInitiator(pair.desk_b, receivers=pair.receivers)
        again.open()
        assert pair.receivers.stopped == {CHANNEL}
        again.start(CHANNEL)
        with pytest.raises(ChannelNotAvailable):
            await again.resolve(CHANNEL, commit=True)
        pair.put(3)
        await pair.until(lambda: pair.got() == [0, 1, 2, 3])
        await again.close()
        await initiator.close()

    with_pair(work)


def test_an_altered_definition_counts_from_the_next_start(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        initiator = opened(pair)
        initiator.start(CHANNEL)
        await pair.until(lambda: state(initiator) is Status.RUNNING)
        definition = pair.a.find("CHANNEL", CHANNEL)
        assert isinstance(definition, Channel)
        pair.a.alter(replace(definition, batch_size=2))
        assert initiator.senders[CHANNEL].status()["BATCHSZ"] == 50
        initiator.stop(CHANNEL)
        initiator.start(CHANNEL)
        await pair.until(lambda: state(initiator) is Status.RUNNING)
        assert initiator.senders[CHANNEL].status()["BATCHSZ"] == 2
        await initiator.close()

    with_pair(work)


def test_a_trigger_for_no_channel_harms_nobody(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        triggered(pair, trigger_data="NONE")
        initiator = opened(pair)
        pair.put(1)
        await asyncio.sleep(0.02)
        initiator.start(CHANNEL)
        await pair.delivered(1)
        await initiator.close()

    with_pair(work)
