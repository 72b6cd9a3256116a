# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.channels.channel_state import ChannelState, InDoubtBatch, Role
from entrepot.channels.receiver import Receiver
from entrepot.channels.sender import SenderChannel, Status
from entrepot.engine.definitions import SYNCHRONIZATION_QUEUE, AliasQueue, LocalQueue, ManagerAttributes, RemoteQueue
from entrepot.errors import ChannelNotAvailable, QueueFull, SequenceMismatch
from entrepot.message import Feedback, Message, MessageType, Report
from entrepot.server.wire.codec import encode
from entrepot.server.wire.verbs import ChannelEndOfBatch, ChannelMessage, Payload, Verb
from recovery.channel_pair import CHANNEL, Cut, Pair, copy_pair, new_pair, run

DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
Work = Callable[[Pair], Awaitable[Any]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("channels") / "template"
    new_pair(path, receiver={"retry_count": 3, "retry_ms": 20})
    return path


@pytest.fixture
def with_pair(template: Path, tmp_path: Path) -> Callable[[Work], None]:
    return lambda work: run(copy_pair(template, tmp_path / "pair"), work)


def dead(pair: Pair) -> list[Message]:
    return pair.b.browse(DEAD, None, None, 100)[0]


async def paused(pair: Pair) -> None:
    # In every turn of the loop: the pauses are short, and who sleeps meanwhile can miss them.
    await pair.until(lambda: [row["STATUS"] for row in pair.receivers.status()] == ["PAUSED"], every_s=0)


async def sent(pair: Pair) -> None:
    await pair.until(lambda: pair.depth() == 0 and not pair.a.in_doubt(), "all sent")


# --- destinations --------------------------------------------------------------------------------


def test_names_lead_where_they_lead_at_the_receiving_end(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.b.define(AliasQueue(name="ALIAS", target="Q"), replace=False)
        pair.b.define(LocalQueue(name="C", usage="XMITQ"), replace=False)
        pair.b.define(RemoteQueue(name="FAR", remote_queue="DEEP", remote_manager="C"), replace=False)
        pair.a.define(LocalQueue(name="C", usage="XMITQ"), replace=False)
        pair.put(1, destination="ALIAS@B")
        pair.put(2, destination="FAR@B")
        pair.channel.start()
        await sent(pair)
        assert pair.got() == [1]
        (passing,) = pair.b.browse("C", None, None, 10)[0]
        assert (passing.body, passing.target_queue, passing.target_manager) == (b"2", "DEEP", "C")

    with_pair(work)


def test_messages_for_a_third_queue_manager_pass_through(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        # At A all that is not for A goes by way of B.
        pair.a.alter(ManagerAttributes(name="A", default_transmission_queue="B"))
        pair.b.define(LocalQueue(name="C", usage="XMITQ"), replace=False)
        pair.a.put("DEEP@C", Message(b"1", report=Report.ARRIVAL, reply_to="R"), persistent=True)
        pair.channel.start()
        await sent(pair)
        (passing,) = pair.b.browse("C", None, None, 10)[0]
        assert (passing.target_queue, passing.target_manager) == ("DEEP", "C")
        assert passing.reply_to_manager == "A"
        assert pair.b.queue_status("Q")["CURDEPTH"] == 0
        assert dead(pair) == []

    with_pair(work)


def test_arrival_is_reported_where_the_message_really_arrives(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.b.define(LocalQueue(name="A", usage="XMITQ"), replace=False)
        message_id = pair.a.put("Q@B", Message(b"1", report=Report.ARRIVAL, reply_to="R"), persistent=True)
        pair.channel.start()
        await sent(pair)
        (report,) = pair.b.browse("A", None, None, 10)[0]
        assert (report.type, report.feedback) == (MessageType.REPORT, Feedback.ARRIVAL)
        assert (report.correlation_id, report.target_queue, report.target_manager) == (message_id, "R", "A")

    with_pair(work)


# --- what cannot be delivered --------------------------------------------------------------------


def test_undeliverable_messages_keep_their_reason_and_the_rest_goes_on(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.b.define(LocalQueue(name="SHORT", body_bytes_max=1), replace=False)
        pair.b.define(LocalQueue(name="SHUT", put_enabled=False), replace=False)
        destinations = ("NOWHERE@B", "SHORT@B", "SHUT@B", "Q@C", f"{SYNCHRONIZATION_QUEUE}@B")
        pair.a.alter(ManagerAttributes(name="A", default_transmission_queue="B"))
        for number, destination in enumerate(destinations):
            pair.put(10 + number, destination=destination)
        pair.put(1)
        pair.channel.start()
        await sent(pair)
        assert pair.got() == [1]
        found = [(m.properties["dead_letter_queue"], m.properties["dead_letter_reason"]) for m in dead(pair)]
        assert found == list(zip(destinations, (2085, 2030, 2051, 2196, 2035), strict=True))
        assert [int(message.body) for message in dead(pair)] == [10, 11, 12, 13, 14]
        assert all(message.persistent for message in dead(pair))

    with_pair(work)


def test_a_full_queue_is_waited_for(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.b.define(LocalQueue(name="SMALL", depth_max=2), replace=False)
        pair.put(1, 2, 3, 4, destination="SMALL@B")
        pair.channel.start()
        await paused(pair)
        pair.b.define(LocalQueue(name="SMALL", depth_max=10), replace=True)
        await sent(pair)
        assert pair.got("SMALL") == [1, 2, 3, 4]
        assert dead(pair) == []
        assert [row["STATUS"] for row in pair.receivers.status()] == ["RUNNING"]

    with_pair(work)


def test_a_full_queue_is_not_waited_for_for_ever(with_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    once_more, tries = Receiver._once_more, 0

    def counted(self: Receiver, *arguments: Any) -> None:
        nonlocal tries
        tries += 1
        once_more(self, *arguments)

    monkeypatch.setattr(Receiver, "_once_more", counted)

    async def work(pair: Pair) -> None:
        pair.b.define(LocalQueue(name="SMALL", depth_max=2), replace=False)
        pair.put(*range(30), destination="SMALL@B")
        pair.put(30)
        pair.channel.start()
        await sent(pair)
        # As often as RETRY says for the batch, not for each message.
        assert tries == 3
        assert pair.got("SMALL") == [0, 1]
        assert pair.got() == [30]
        assert [int(message.body) for message in dead(pair)] == list(range(2, 30))
        assert {message.properties["dead_letter_reason"] for message in dead(pair)} == {2053}

    with_pair(work)


def test_a_connection_that_breaks_while_a_full_queue_is_waited_for_leaves_nothing(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.b.define(LocalQueue(name="SMALL", depth_max=1), replace=False)
        pair.put(1, 2, destination="SMALL@B")
        pair.channel.start()
        await paused(pair)
        pair.wires[-1].cut()
        await pair.stopped(Status.RETRYING)
        await pair.until(lambda: pair.b.queue_status("SMALL")["UNCOM"] == 0, every_s=0)
        await sent(pair)
        assert pair.got("SMALL") == [1]
        assert [int(message.body) for message in dead(pair)] == [2]

    with_pair(work)


def test_reports_and_discards_as_the_sender_wished(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.b.define(LocalQueue(name="A", usage="XMITQ"), replace=False)
        both = Report.EXCEPTION | Report.DISCARD
        for number, report in enumerate((Report.EXCEPTION, both, Report.DISCARD)):
            message = Message(b"%d" % number, report=report, reply_to="R", message_id=b"%d" % number)
            pair.a.put("NOWHERE@B", message, persistent=True)
        pair.channel.start()
        await sent(pair)
        assert [message.body for message in dead(pair)] == [b"0"]
        reports = pair.b.browse("A", None, None, 10)[0]
        assert [(report.correlation_id, report.feedback) for report in reports] == [(b"0", 2085), (b"1", 2085)]
        assert {(report.target_queue, report.target_manager) for report in reports} == {("R", "A")}

    with_pair(work)


def test_a_persistent_message_that_nobody_takes_stops_the_channel_and_is_not_lost(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.b.define(LocalQueue(name=DEAD, depth_max=0), replace=True)
        pair.put(1)
        pair.put(2, destination="NOWHERE@B")
        pair.channel.start()
        await pair.stopped()
        assert isinstance(pair.channel.problem, QueueFull)
        assert pair.channel.problem.queue == DEAD
        assert pair.depth() == 2
        assert pair.got() == []
        pair.b.define(LocalQueue(name=DEAD, depth_max=10), replace=True)
        pair.channel.start()
        await sent(pair)
        assert pair.got() == [1]
        assert len(dead(pair)) == 1

    with_pair(work)


def test_a_fast_message_that_nobody_takes_is_discarded_and_counted(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(1, destination="NOWHERE@B", persistent=False)
        pair.channel.start()
        await sent(pair)
        await pair.until(lambda: dead(pair))
        pair.b.define(LocalQueue(name="FULL", depth_max=0), replace=False)
        pair.b.alter(ManagerAttributes(name="B", dead_letter_queue="FULL"))
        pair.put(2, destination="NOWHERE@B", persistent=False)
        pair.put(3)
        await pair.delivered(1)
        assert pair.got() == [3]
        assert [row["DISCARDED"] for row in pair.receivers.status()] == [1]

    with_pair(work)


class OnlyQ:
    """Lets the channel's user put on Q."""

    def allows(self, user: str, groups: frozenset[str], object_type: str, name: str, what: str) -> bool:
        return (user, object_type, name, what) == ("mca", "QUEUE", "Q", "PUT")


def test_the_channels_user_needs_authority(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        refused: list[str] = []
        pair.desk_b.judge = OnlyQ()
        pair.desk_b.refused = lambda identity, error: refused.append(error.object)
        pair.b.define(LocalQueue(name="SECRET"), replace=False)
        pair.b.define(LocalQueue(name="C", usage="XMITQ"), replace=False)
        pair.a.alter(ManagerAttributes(name="A", default_transmission_queue="B"))
        pair.put(1)
        pair.put(2, destination="SECRET@B")
        pair.put(3, destination="Q@C")  # by name allowed, but not by way of C
        pair.channel.start()
        await sent(pair)
        assert pair.got() == [1]
        assert [message.properties["dead_letter_reason"] for message in dead(pair)] == [2035, 2035]
        assert refused == ["SECRET", "C"]

    with_pair(work)


# --- connections ---------------------------------------------------------------------------------


def test_a_second_connection_takes_the_place_of_a_half_dead_one(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        older = pair.wires[0]
        pair.put(*range(5))
        await pair.delivered(5)
        # The sender's side is gone, and the receiver does not know it yet.
        older.carry = lambda frame, to: None  # type: ignore[method-assign]
        pair.channel.stop(force=True)
        pair.put(5)
        pair.channel.start()
        await pair.delivered(6)
        assert len(pair.receivers.status()) == 1
        assert pair.got() == list(range(6))

    with_pair(work)


def test_what_an_older_connection_still_says_does_not_count(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        kept: list[tuple[bytes, Any]] = []
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        older = pair.wires[0]
        older.carry = lambda frame, to: kept.append((frame, to))  # type: ignore[method-assign]
        pair.put(*range(5))
        await pair.until(lambda: any(frame[4] == Verb.CHANNEL_END_OF_BATCH for frame, _ in kept))
        pair.channel.stop(force=True)
        pair.channel.start()
        await pair.delivered(5)
        for frame, to in kept:
            to.read(frame)  # as if the network had kept it all this time
        await asyncio.sleep(0.05)
        assert pair.got() == list(range(5))
        pair.put(5)
        await pair.delivered(6)

    with_pair(work)


def test_a_new_connection_waits_for_the_commit_of_the_older_one(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.b.force_s = 1.0  # a slow disk, for which a thread forces
        forced = pair.b.want_force
        pair.b.want_force = lambda: None  # type: ignore[method-assign]
        pair.cuts = [Cut(Verb.CHANNEL_END_OF_BATCH, 1, after=True)]
        pair.put(*range(5))
        pair.channel.start()
        await pair.until(lambda: len(pair.wires) == 2, "the sender is back")
        await asyncio.sleep(0.02)
        assert pair.frames[Verb.CHANNEL_WELCOME] == 1
        pair.b.want_force = forced  # type: ignore[method-assign]
        forced()
        await pair.delivered(5)
        assert pair.got() == list(range(5))
        assert pair.frames[Verb.CHANNEL_MESSAGE] == 5

    with_pair(work)


class Stranger(SenderChannel):
    """Was restored from a backup, or bears another's name."""

    def _remembered(self) -> tuple[InDoubtBatch | None, ChannelState]:
        return None, ChannelState(Role.SENDER, CHANNEL, "B", 7, b"7" * 16)


def test_a_stranger_with_another_history_does_not_push_the_sender_out(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.put(1)
        pair.channel.start()
        await pair.delivered(1)
        stranger = Stranger(pair.desk_a, pair.channel.definition, open_connection=pair.dial)
        stranger.start()
        await pair.until(lambda: stranger.state is Status.STOPPED)
        assert isinstance(stranger.problem, SequenceMismatch)
        pair.put(2)
        await pair.delivered(2)
        assert len([wire for wire in pair.wires if not wire.cut_off]) == 1

    with_pair(work)


def test_a_stopped_channel_lets_nobody_in(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        pair.receivers.stopped.add(CHANNEL)
        pair.receivers.close(CHANNEL, ChannelNotAvailable(CHANNEL, "an operator has stopped it"))
        pair.put(1)
        await pair.stopped(Status.RETRYING)
        await asyncio.sleep(0.3)
        assert pair.got() == []
        assert "operator" in str(pair.channel.problem)
        pair.receivers.stopped.clear()
        await pair.delivered(1)

    with_pair(work)


@pytest.mark.parametrize(
    ("verb", "payload"),
    [
        (Verb.CHANNEL_MESSAGE, ChannelMessage(2, Message(b"", target_queue="Q"))),
        (Verb.CHANNEL_MESSAGE, ChannelMessage(1, Message(b"", target_queue=""))),
        (Verb.CHANNEL_MESSAGE, ChannelMessage(0, Message(b"", target_queue="Q", persistent=True))),
        (Verb.CHANNEL_MESSAGE, ChannelMessage(1, Message(b"", target_queue="Q", priority=77))),
        (Verb.CHANNEL_END_OF_BATCH, ChannelEndOfBatch(b"x" * 16, 0)),
        (Verb.CHANNEL_CONFIRM, ChannelEndOfBatch(b"x" * 16, 0)),
    ],
)
def test_what_makes_no_sense_ends_the_connection_and_changes_nothing(
    with_pair: Any, verb: Verb, payload: Payload
) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        pair.wires[0].ends[0].write(encode(verb, 0, payload))
        await pair.stopped(Status.RETRYING)
        assert pair.got() == []
        pair.put(1)
        await pair.delivered(1)

    with_pair(work)


@pytest.mark.parametrize(
    "end", [ChannelEndOfBatch(b"x" * 16, 2), ChannelEndOfBatch(b"x" * 16, 0), ChannelEndOfBatch(b"x" * 15, 1)]
)
def test_a_batch_that_ends_with_another_message_than_the_last_is_not_committed(
    with_pair: Any, end: ChannelEndOfBatch
) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        wire = pair.wires[0].ends[0]
        arrived = ChannelMessage(1, Message(b"1", target_queue="Q", target_manager="B", persistent=True))
        wire.write(encode(Verb.CHANNEL_MESSAGE, 0, arrived) + encode(Verb.CHANNEL_END_OF_BATCH, 0, end))
        await pair.stopped(Status.RETRYING)
        assert pair.got() == []
        pair.put(2)
        await pair.delivered(1)
        assert pair.got() == [2]

    with_pair(work)


def test_a_batch_longer_than_agreed_is_refused(with_pair: Any) -> None:
    async def work(pair: Pair) -> None:
        pair.channel.start()
        await pair.stopped(Status.RUNNING)
        for number in range(1, 52):
            message = Message(b"%d" % number, target_queue="Q", persistent=True)
            pair.wires[0].ends[0].write(encode(Verb.CHANNEL_MESSAGE, 0, ChannelMessage(number, message)))
        await pair.stopped(Status.RETRYING)
        assert "more than the agreed 50" in str(pair.channel.problem)
        await pair.until(lambda: pair.b.queue_status("Q")["UNCOM"] == 0)

    with_pair(work)
