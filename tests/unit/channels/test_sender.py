# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.channels.sender import SenderChannel, Status
from entrepot.engine.definitions import SYNCHRONIZATION_QUEUE, Channel, LocalQueue
from entrepot.errors import (
    ChannelInDoubt,
    ChannelNotAvailable,
    ConnectFailed,
    ConnectionLost,
    GetInhibited,
    HeartbeatMissed,
    LogFull,
    QueueFull,
    SequenceMismatch,
)
from entrepot.message import Message
from entrepot.server.wire.verbs import Verb
from recovery.channel_pair import CHANNEL, Cut, Pair

# --- messages ------------------------------------------------------------------------------------


def test_messages_arrive_in_order_and_in_batches(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(*range(23))
        pair.channel.start()
        await pair.delivered(23)
        assert pair.got() == list(range(23))
        status = pair.channel.status()
        assert (status["STATUS"], status["BATCHES"], status["MSGS"], status["LSTSEQNO"]) == ("RUNNING", 5, 23, 23)
        assert (status["RQMNAME"], status["INDOUBT"], status["PROBLEM"]) == ("B", "NO", "")

    with_pair(work, batch_size=5)


def test_the_smaller_batch_size_of_both_ends_counts(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(*range(9))
        pair.channel.start()
        await pair.delivered(9)
        assert pair.frames[Verb.CHANNEL_END_OF_BATCH] == 3

    with_pair(work, batch_size=50, receiver={"batch_size": 3})


def test_a_batch_ends_with_enough_bytes(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        unit = pair.a.begin()
        for number in range(6):
            pair.a.put("Q@B", Message(b"%d" % number + b" " * 1000), persistent=True, unit=unit)
        pair.a.commit(unit)
        pair.channel.start()
        await pair.delivered(6)
        assert pair.frames[Verb.CHANNEL_END_OF_BATCH] == 3

    with_pair(work, batch_bytes_max=2000)


def test_a_message_that_comes_to_a_waiting_channel_leaves_at_once(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        for number in range(5):
            pair.put(number)
            await pair.delivered(number + 1)
        assert pair.got() == [0, 1, 2, 3, 4]
        assert pair.channel.status()["BATCHES"] == 5

    with_pair(work)


def test_a_batch_stays_open_for_its_interval(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        begun = pair.loop.time()
        for number in range(4):
            pair.put(number)
            await asyncio.sleep(0.02)
        took_s = pair.loop.time() - begun  # on a busy machine longer than one interval
        await pair.delivered(4)
        assert 1 <= pair.channel.status()["BATCHES"] <= 1 + took_s / 0.4

    with_pair(work, batch_interval_ms=400)


def test_higher_priorities_leave_first(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(1, priority=1)
        pair.put(9, priority=9)
        pair.put(5, priority=5)
        seen: list[int] = []
        pair.channel.start()
        await pair.delivered(3)
        seen = [message.priority for message in pair.b.browse("Q", None, None, 10)[0]]
        assert seen == [9, 5, 1]

    with_pair(work, batch_size=1)


def test_descriptor_travels(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        sent = Message(
            b"x", correlation_id=b"c", reply_to="R", group_id=b"g", sequence=2, format="F", user="ann",
            application="app", properties={"colour": "red", "size": 3}, expiry_s=100.0,
        )  # fmt: skip
        message_id = pair.a.put("Q@B", sent, persistent=True, priority=7)
        put_time = pair.a.browse("B", None, None, 1)[0][0].put_time
        await asyncio.sleep(0.05)
        pair.channel.start()
        await pair.delivered_any()
        (found,) = pair.b.browse("Q", None, None, 10)[0]
        assert found.message_id == message_id
        assert found.put_time == put_time
        assert (found.user, found.application, found.priority, found.persistent) == ("ann", "app", 7, True)
        assert (found.correlation_id, found.group_id, found.sequence, found.format) == (b"c", b"g", 2, "F")
        assert found.properties == {"colour": "red", "size": 3}
        assert (found.reply_to, found.reply_to_manager) == ("R", "A")
        assert found.expiry_s is not None
        assert 40 < found.expiry_s < 99.96
        assert (found.target_queue, found.target_manager, found.backout_count) == ("", "", 0)

    with_pair(work)


def test_an_expired_message_is_not_sent(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.a.put("Q@B", Message(b"1", expiry_s=0.01), persistent=True)
        await asyncio.sleep(0.03)
        pair.put(2)
        pair.channel.start()
        await pair.delivered(1)
        assert pair.got() == [2]

    with_pair(work)


def test_fast_messages_travel_outside_of_batches(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        pair.put(*range(10), persistent=False)
        await pair.delivered(10)
        pair.put(10, persistent=False)  # to a sender that waits
        await pair.delivered(11)
        assert pair.got() == list(range(11))
        assert pair.frames[Verb.CHANNEL_END_OF_BATCH] == 0
        assert pair.channel.status()["LSTSEQNO"] == 0

    with_pair(work)


@pytest.mark.parametrize("sender_fast", [True, False])
def test_nonpersistent_messages_travel_in_batches_unless_both_ends_are_fast(with_pair: Any, sender_fast: bool) -> None:
    async def work(pair: Pair) -> None:
        pair.cuts = [Cut(Verb.CHANNEL_CONFIRM, 1, after=False), Cut(Verb.CHANNEL_MESSAGE, 9, after=False)]
        pair.put(*range(12), persistent=False)
        pair.channel.start()
        await pair.delivered(12)
        assert pair.got() == list(range(12))
        assert pair.channel.status()["LSTSEQNO"] == 12

    with_pair(work, batch_size=4, nonpersistent_fast=sender_fast, receiver={"nonpersistent_fast": not sender_fast})


def test_fast_messages_do_not_disturb_the_order_of_persistent_ones(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        for number in range(0, 60, 2):
            pair.put(number, persistent=True)
            pair.put(number + 1, persistent=False)
            await asyncio.sleep(0)
        await pair.delivered(60)
        got = pair.got()
        assert [n for n in got if n % 2 == 0] == list(range(0, 60, 2))
        assert sorted(got) == list(range(60))

    with_pair(work, batch_size=7)


def test_a_broken_connection_loses_fast_messages_at_most(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.cuts = [Cut(Verb.CHANNEL_MESSAGE, 10, after=False)]
        for number in range(0, 20, 2):
            pair.put(number, persistent=True)
            pair.put(number + 1, persistent=False)
        pair.channel.start()
        await pair.until(lambda: [n for n in pair.got() if n % 2 == 0] == list(range(0, 20, 2)))
        got = pair.got()
        assert len(set(got)) == len(got)

    with_pair(work, batch_size=50)


def test_sequence_numbers_wrap(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(*range(250))
        pair.cuts = [Cut(Verb.CHANNEL_CONFIRM, 11, after=False)]
        pair.channel.start()
        await pair.delivered(250)
        assert pair.got() == list(range(250))
        assert pair.channel.status()["LSTSEQNO"] == 50

    with_pair(work, batch_size=10, sequence_wrap=100, receiver={"sequence_wrap": 100})


def test_ends_with_different_wraps_do_not_begin(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        assert isinstance(pair.channel.problem, ChannelNotAvailable)
        assert "SEQWRAP" in str(pair.channel.problem)

    with_pair(work, sequence_wrap=100)


# --- what cannot be sent -------------------------------------------------------------------------


def test_what_cannot_be_sent_goes_to_our_dead_letter_queue_and_the_rest_goes_on(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(1)
        pair.a.put("B", Message(b"stray"), persistent=True)
        pair.a.put("Q@B", Message(b"x" * 5000), persistent=True)
        pair.put(2)
        pair.channel.start()
        await pair.delivered(2)
        assert pair.got() == [1, 2]
        await pair.until(lambda: pair.depth("SYSTEM.DEAD.LETTER.QUEUE") == 2)
        stray, long = pair.a.browse("SYSTEM.DEAD.LETTER.QUEUE", None, None, 10)[0]
        assert (stray.body, stray.properties["dead_letter_reason"]) == (b"stray", 271)
        assert long.properties["dead_letter_reason"] == 2218
        assert long.properties["dead_letter_queue"] == "Q@B"

    with_pair(work, receiver={"body_bytes_max": 4000})


def test_without_a_dead_letter_queue_a_message_that_cannot_be_sent_stops_the_channel(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        dead = pair.a.find("QLOCAL", "SYSTEM.DEAD.LETTER.QUEUE")
        assert isinstance(dead, LocalQueue)
        pair.a.define(LocalQueue(name=dead.name, depth_max=0), replace=True)
        pair.put(1)
        pair.a.put("Q@B", Message(b"x" * 5000), persistent=True)
        pair.channel.start()
        await pair.stopped()
        assert isinstance(pair.channel.problem, QueueFull)
        assert pair.depth() + len(pair.got()) == 2

    with_pair(work, receiver={"body_bytes_max": 4000})


# --- life ----------------------------------------------------------------------------------------


def test_a_channel_that_finds_nobody_tries_again(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.reachable = False
        pair.put(1)
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        assert isinstance(pair.channel.problem, ConnectFailed)
        await asyncio.sleep(0.2)
        pair.reachable = True
        await pair.delivered(1)

    with_pair(work)


def test_a_channel_out_of_retries_stops(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.reachable = False
        pair.channel.start()
        await pair.stopped()
        pair.reachable = True
        pair.put(1)
        pair.channel.start()
        await pair.delivered(1)

    with_pair(work, short_retry_count=2, long_retry_count=0)


def test_stop_ends_after_the_batch_and_start_goes_on(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(*range(200))
        pair.channel.start()
        await pair.until(lambda: pair.frames[Verb.CHANNEL_MESSAGE] > 30)
        pair.channel.stop()
        assert pair.channel.state is Status.STOPPING
        with pytest.raises(ChannelNotAvailable):
            pair.channel.start()
        await pair.stopped()
        assert not pair.a.in_doubt()
        sent = len(pair.got())
        assert 0 < sent < 200
        assert pair.depth() == 200 - sent
        pair.channel.start()
        await pair.delivered(200)
        assert pair.got() == list(range(200))

    with_pair(work, batch_size=10)


def test_an_idle_channel_stops_at_once(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        pair.channel.stop(inactive=True)
        assert pair.channel.state is Status.INACTIVE
        await pair.until(lambda: not pair.receivers.status())
        pair.put(1)
        pair.channel.start()
        await pair.delivered(1)

    with_pair(work)


def test_a_forced_stop_leaves_the_batch_in_doubt_and_start_settles_it(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        carry = pair.wires[0].carry
        pair.wires[0].carry = (  # type: ignore[method-assign]
            lambda frame, to: None if frame[4] == Verb.CHANNEL_CONFIRM else carry(frame, to)
        )
        pair.put(*range(10))
        await pair.until(lambda: len(pair.got()) == 10)
        pair.channel.stop(force=True)
        assert pair.channel.status()["INDOUBT"] == "YES"
        assert len(pair.a.in_doubt()) == 1
        with pytest.raises(ChannelInDoubt):
            await pair.channel.reset(1)
        pair.channel.start()
        await pair.delivered(10)
        assert pair.got() == list(range(10))

    with_pair(work)


def test_an_idle_channel_disconnects(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.hasten(disconnect_s=0.2)
        pair.put(1)
        pair.channel.start()
        await pair.delivered(1)
        await pair.stopped(Status.INACTIVE)
        pair.put(2)
        await asyncio.sleep(0.05)
        assert pair.channel.state is Status.INACTIVE
        pair.channel.start()
        await pair.delivered(2)

    with_pair(work)


def test_an_idle_connection_is_kept_alive_by_heartbeats(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.hasten(heartbeat_s=0.1)
        pair.channel.start()
        await pair.until(lambda: pair.frames[Verb.ALIVE] >= 2)
        assert pair.channel.state is Status.RUNNING
        assert len(pair.wires) == 1

    with_pair(work)


def test_a_partner_that_falls_silent_is_left_and_called_again(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.hasten(heartbeat_s=0.1)
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        # The network swallows everything, and nobody tells.
        wire = pair.wires[0]
        wire.carry = lambda frame, to: None  # type: ignore[method-assign]
        pair.put(*range(5))
        await pair.stopped(Status.RETRYING)
        assert isinstance(pair.channel.problem, HeartbeatMissed)
        await pair.delivered(5)
        assert pair.got() == list(range(5))

    with_pair(work)


def test_a_transmission_queue_that_gives_nothing_is_tried_again(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        queue = pair.a.find("QLOCAL", "B")
        assert isinstance(queue, LocalQueue)
        pair.a.define(LocalQueue(name="B", usage="XMITQ", get_enabled=False), replace=True)
        await pair.stopped(Status.RETRYING)
        assert isinstance(pair.channel.problem, GetInhibited)
        pair.a.define(queue, replace=True)
        pair.put(1)
        await pair.delivered(1)

    with_pair(work)


def test_ping_tells_of_the_way_to_the_other_end(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        assert "B answers" in await pair.channel.ping()
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        assert "B is connected" in await pair.channel.ping()
        pair.channel.stop()
        pair.reachable = False
        with pytest.raises(ConnectFailed):
            await pair.channel.ping()

    with_pair(work)


def test_no_connection_leaves_a_reader_or_a_lock_behind(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        for number in range(10):
            pair.put(number)
            await asyncio.sleep(0.001 * (number % 3))
            pair.wires[-1].cut()
            pair.channel.start()
        await pair.delivered(10)
        assert pair.got() == list(range(10))
        pair.channel.stop()
        await pair.stopped()
        status = pair.a.queue_status("B")
        assert (status["IPPROCS"], status["UNCOM"]) == (0, 0)
        assert pair.b.queue_status("Q")["UNCOM"] == 0
        assert pair.depth(SYNCHRONIZATION_QUEUE) <= 2

    with_pair(work)


def test_a_fast_message_that_comes_with_the_break_stays_here(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        pair.put(1, persistent=False)  # handed over; the sender will hear of it in the next turn of the loop
        pair.channel.stop(force=True)
        assert pair.depth() == 1
        pair.channel.start()
        await pair.delivered(1)

    with_pair(work)


def _full_at_first(verb: Callable[..., Any], times: int) -> Callable[..., Any]:
    left = times

    def full_or_not(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise LogFull(1)
        return verb(*arguments, **options)

    return full_or_not


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_full_log_gets_checkpoints_and_the_channel_goes_on(with_pair: Any, times: int) -> None:
    async def work(pair: Pair) -> None:
        # Three are one too many for a batch: it is backed out then, and comes again.
        doubts = pair.a.manager.in_doubt
        doubts.prepare = _full_at_first(doubts.prepare, times)  # type: ignore[method-assign]
        doubts.resolve = _full_at_first(doubts.resolve, times)  # type: ignore[method-assign]
        pair.b.manager.commit = _full_at_first(pair.b.manager.commit, times)  # type: ignore[method-assign]
        pair.put(*range(20))
        pair.channel.start()
        await pair.delivered(20)
        assert pair.got() == list(range(20))
        assert (len(pair.wires) > 1) == (times == 3)

    with_pair(work, batch_size=5)


# --- history -------------------------------------------------------------------------------------


def test_an_end_without_its_history_is_refused_by_name_until_both_are_reset(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(*range(5))
        pair.channel.start()
        await pair.delivered(5)
        pair.channel.stop()
        await pair.stopped()
        await pair.channel.reset(1)  # this end only
        pair.put(5)
        pair.channel.start()
        await pair.stopped()
        problem = pair.channel.problem
        assert isinstance(problem, SequenceMismatch)
        assert problem.ours == "sequence 0 after RESET"
        assert problem.theirs.startswith("sequence 5 of batch ")
        assert problem.theirs.endswith("at B")
        assert pair.depth() == 1
        await pair.receivers.reset(CHANNEL, 1)
        pair.channel.start()
        await pair.delivered(6)
        assert pair.got() == list(range(6))

    with_pair(work)


def test_reset_goes_on_with_any_number(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(0)
        pair.channel.start()
        await pair.delivered(1)
        with pytest.raises(ChannelNotAvailable, match="RUNNING"):
            await pair.channel.reset(7)
        pair.channel.stop()
        await pair.stopped()
        await pair.channel.reset(7)
        await pair.receivers.reset(CHANNEL, 7)
        pair.put(1)
        pair.channel.start()
        await pair.delivered(2)
        assert pair.channel.status()["LSTSEQNO"] == 7

    with_pair(work)


def test_another_queue_manager_behind_the_same_address_is_not_taken_for_the_partner(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(0)
        pair.channel.start()
        await pair.delivered(1)
        pair.channel.stop()
        await pair.stopped()
        pair.b.settings = type(pair.b.settings)(**{
            **{field: getattr(pair.b.settings, field) for field in pair.b.settings.__struct_fields__}, "name": "C",
        })  # fmt: skip
        pair.put(1)
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        assert "queue manager C, not B" in str(pair.channel.problem)
        assert pair.depth() == 1

    with_pair(work)


def test_resolve_needs_a_doubt_and_a_channel_at_rest(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        with pytest.raises(ChannelNotAvailable, match="not in doubt"):
            await pair.channel.resolve(commit=True)
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        with pytest.raises(ChannelNotAvailable, match="RUNNING"):
            await pair.channel.resolve(commit=True)

    with_pair(work)


def test_a_batch_that_an_operator_has_resolved_by_hand_is_no_longer_in_doubt(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(*range(3))
        pair.cuts = [Cut(Verb.CHANNEL_CONFIRM, 1, after=False)]
        pair.channel.start()
        await pair.stopped(Status.RETRYING)
        pair.channel.stop()
        (prepared,) = pair.a.in_doubt()
        await asyncio.to_thread(pair.a.resolve, prepared, commit=True)  # entrepot qm indoubt
        pair.put(3)
        pair.channel.start()
        await pair.delivered(4)
        assert pair.got() == [0, 1, 2, 3]

    with_pair(work)


def test_what_makes_no_sense_ends_the_connection(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        from entrepot.server.wire.codec import encode
        from entrepot.server.wire.verbs import ChannelConfirm

        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        pair.wires[0].ends[1].write(encode(Verb.CHANNEL_CONFIRM, 0, ChannelConfirm(b"x" * 16, 7)))
        await pair.stopped(Status.RETRYING)
        assert "nobody asked for" in str(pair.channel.problem)
        pair.put(1)
        await pair.delivered(1)

    with_pair(work)


def test_states_are_told(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        seen: list[str] = []
        pair.channel = SenderChannel(
            pair.desk_a,
            _definition(pair),
            open_connection=pair.dial,
            on_change=lambda channel: seen.append(channel.state),
        )
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        pair.wires[0].cut()
        await pair.stopped(Status.RETRYING)
        await pair.stopped(Status.RUNNING)
        pair.channel.stop()
        assert seen == [
            "STARTING", "BINDING", "RUNNING", "RETRYING", "STARTING", "BINDING", "RUNNING", "STOPPING", "STOPPED",
        ]  # fmt: skip
        assert isinstance(pair.channel.problem, ConnectionLost)

    with_pair(work)


def _definition(pair: Pair) -> Channel:
    definition = pair.a.find("CHANNEL", CHANNEL)
    assert isinstance(definition, Channel)
    return definition
