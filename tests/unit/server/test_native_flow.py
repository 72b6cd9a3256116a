# SPDX-License-Identifier: Apache-2.0
"""Partners that read slowly, wait for room, go away, or let others wait."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from typing import Any

import pytest

from entrepot.engine.search import STEPS_PER_TURN
from entrepot.errors import (
    ConnectionLost,
    FrameUnreadable,
    NotAuthorized,
    QueueFull,
    QueueNotFound,
)
from entrepot.message import Message
from entrepot.server import framed_connection
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.frame import HEAD
from entrepot.server.wire.verbs import Verb

from .guests import SAMPLES, House, Work, put, until

Inside = Callable[[Work], None]

# --- long answers, slow partners -----------------------------------------------------------------


def test_answers_with_many_messages_stay_short(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXMSGL(4194304)")
        guest = await house.admitted()
        for number in range(20):
            long: dict[str, Any] = {"properties": {"a": "x" * 200_000}} if number % 2 else {"body": bytes(200_000)}
            await guest.put("Q", **long)
        browsed, place = 0, None
        while True:
            guest.say(Verb.BROWSE, 9, verbs.BrowsePayload("Q", place, 1000))
            before = sum(map(len, guest.wire.written))
            _, found = await guest.answer(9)
            assert sum(map(len, guest.wire.written)) - before < 1_000_000
            if not found.messages:
                break
            browsed, place = browsed + len(found.messages), found.place
        assert browsed == 20
        got = 0
        while got < 20:
            found = await guest.ask(Verb.GET_MANY, 9, verbs.GetMany("Q", 1, 100))
            assert 1 <= len(found.messages) <= 5
            got += len(found.messages)

    inside(work)


def test_a_browse_of_long_messages_does_not_exceed_the_longest_frame(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXMSGL(4194304)")
        guest = await house.admitted()
        for _ in range(3):
            await guest.put("Q", bytes(4 * 1024 * 1024))
        found = await guest.ask(Verb.BROWSE, 9, verbs.BrowsePayload("Q", None, 50))
        assert len(found.messages) == 1

    inside(work)


def test_one_who_looks_through_a_queue_does_not_keep_others_waiting(inside: Inside) -> None:
    async def work(house: House) -> None:
        # Twelve verbs that each look at 2,000 messages: the steps of a turn are enough for half of one.
        guest, other = await house.admitted(), await house.admitted()
        for _ in range(2000):
            house.host.put("Q", Message(b""))
        wanted = verbs.Wanted(selector="colour = 'none' OR size = 1 OR size = 2")
        looks = [encode(Verb.BROWSE, number, verbs.BrowsePayload("Q", None, 5, wanted)) for number in range(100, 104)]
        looks += [encode(Verb.GET, number, verbs.Get("Q", 0, 0.0, wanted)) for number in range(104, 108)]
        looks += [
            encode(Verb.GET, 108, verbs.Get("Q", 0, 9.0, wanted)),
            encode(Verb.CANCEL, 0, verbs.NumberPayload(108)),
        ]
        looks += [encode(Verb.GET_MANY, 109, verbs.GetMany("Q", 6, 5, 0.0, wanted))]
        looks += [encode(Verb.GET_GROUP, 110, verbs.GetGroup("Q", 5, 0.0, wanted.selector))]
        guest.say_bytes(b"".join(looks))
        answered = 0
        while answered < 11:
            assert -1000 < house.host.manager.turn.left <= STEPS_PER_TURN
            before, answered = answered, len([number for _, number, _ in guest.frames() if number >= 100])
            assert answered - before <= 1, "more than one search in a turn"
            other.say(Verb.HEARTBEAT, 7, verbs.Empty())
            assert other.frames().pop()[0] == Verb.ALIVE
            await asyncio.sleep(0)

    inside(work)


def test_one_who_says_much_at_once_lets_others_have_their_turn(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        frames = [encode(Verb.PUT, 0, put("Q", number.to_bytes(4, "big"))) for number in range(3500)]
        guest.say_bytes(b"".join(frames))
        depths = [house.depth("Q")]
        while depths[-1] < 3500:
            await asyncio.sleep(0)
            depths.append(house.depth("Q"))
        assert all(after - before <= 1001 for before, after in itertools.pairwise([0, *depths]))
        found = house.host.browse("Q", None, None, 5000)[0]
        assert [int.from_bytes(message.body) for message in found] == list(range(3500))

    inside(work)


def test_who_does_not_read_is_not_read_from_and_gets_no_more(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest, sender = await house.admitted(), await house.admitted()
        guest.wire.partner_reads = False
        await guest.ask(Verb.CONSUME, 9, verbs.Consume("Q", 1, 1000))
        for _ in range(200):
            await sender.put("Q", bytes(10_000))
        # One mebibyte, and what came with it.
        assert 1_000_000 < guest.wire.unread_bytes < 2_500_000
        unread = guest.wire.unread_bytes
        guest.say(Verb.HEARTBEAT, 10, verbs.Empty())
        assert not guest.wire.reading
        for _ in range(200):
            await sender.put("Q", bytes(10_000))
        assert guest.wire.unread_bytes == unread
        assert house.depth("Q") == 400
        guest.wire.read_all()
        await guest.answer(10)
        await guest.until(lambda: len(guest.deliveries()) == 400)

    inside(work)


def test_many_gets_at_once_do_not_fill_the_memory_of_one_who_does_not_read(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest, sender = await house.admitted(), await house.admitted()
        for _ in range(100):
            await sender.put("Q", bytes(60_000))
        guest.wire.partner_reads = False
        guest.say_bytes(b"".join(encode(Verb.GET, number, verbs.Get("Q")) for number in range(10, 110)))
        assert guest.wire.unread_bytes < 2_000_000
        assert house.depth("Q") > 60
        guest.wire.read_all()
        await guest.until(lambda: house.depth("Q") == 0)

    inside(work)


def test_frames_that_came_while_nobody_listened_are_carried_out_in_their_order(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.link.hold()
        assert not guest.wire.reading
        guest.wire.reading = True  # what the kernel had handed over before
        for number in range(5):
            guest.say(Verb.PUT, 0, put("Q", bytes([number])))
        guest.wire.reading = False
        assert house.depth("Q") == 0
        guest.link.resume()
        assert guest.wire.reading
        found = house.host.browse("Q", None, None, 9)[0]
        assert [message.body[0] for message in found] == [0, 1, 2, 3, 4]

    inside(work)


def test_a_bad_frame_among_those_that_waited_ends_the_connection(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.link.hold()
        guest.wire.reading = True
        frames = [encode(Verb.PUT, 0, put("Q", b"1")), HEAD.pack(9, 8, 1) + b"\xc1", encode(Verb.PUT, 0, put("Q"))]
        guest.say_bytes(b"".join(frames))
        guest.link.resume()
        assert isinstance(await guest.farewell(), FrameUnreadable)
        assert house.depth("Q") == 1

    inside(work)


def test_a_crowded_log_lets_nobody_say_more_until_it_has_written(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.link._engine.crowded = True
        guest.say(Verb.PUT, 9, put("Q"))
        assert not guest.wire.reading
        guest.say(Verb.PUT, 10, put("Q"))
        await guest.answer(10)
        assert guest.wire.reading

    inside(work)


def test_who_does_not_read_his_farewell_is_cut_off(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framed_connection, "_FAREWELL_S", 0.02)

    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", unit=1)
        guest.wire.partner_reads = False
        guest.say(Verb.HEARTBEAT, 9, verbs.Empty())
        assert guest.wire.unread_bytes
        guest.link.close()
        assert not guest.wire.lost
        await guest.until(lambda: guest.wire.lost)
        assert house.held("Q") == 0

    inside(work)


def test_silence_does_not_count_while_we_do_not_listen(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        assert guest.link.heartbeat_s == 30
        guest.link.hold()
        assert guest.link.heartbeat_s == 0
        guest.link.heard -= 1000
        guest.link.resume()
        assert guest.link.heartbeat_s == 30
        assert house.loop.time() - guest.link.heard < 100

    inside(work)


def test_a_partner_that_goes_while_we_do_not_listen_is_noticed(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            extra = guest.wire.get_extra_info
            guest.wire.get_extra_info = lambda name, default=None: ours if name == "socket" else extra(name)  # type: ignore[method-assign]
            assert not guest.link.has_hung_up()
            guest.link.hold()
            theirs.send(b"unread")
            assert not guest.link.has_hung_up()
            theirs.close()
            assert guest.link.has_hung_up()

    inside(work)


# --- those who go --------------------------------------------------------------------------------


def test_answers_that_come_too_late_go_nowhere(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for number in range(10, 20):
            guest.say(Verb.PUT, number, put("Q", persistent=True))
        guest.say(Verb.MQSC, 20, verbs.Mqsc("DISPLAY QUEUE(*)"))
        guest.say(Verb.GET, 21, verbs.Get("R", 0, 60.0))
        guest.wire.lose()
        await guest.until(lambda: house.depth("Q") == 10)
        await asyncio.sleep(0.05)
        assert house.escaped == []

    inside(work)


def test_the_reply_to_one_who_has_gone_stays_where_it_is(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest, other = await house.admitted(), await house.admitted()
        await other.put("R", b"reply", correlation_id=b"abc", persistent=True)
        guest.say(Verb.REQUEST, 7, verbs.Request("Q", "R", 5.0, True, None, Message(b"", message_id=b"abc")))
        guest.wire.lose()
        await other.until(lambda: house.depth("Q") == 1)
        await asyncio.sleep(0.02)
        await house.until(lambda: house.held("R") == 0)
        assert (await other.get("R")).body == b"reply"  # type: ignore[union-attr]

    inside(work)


def test_a_partner_in_the_middle_of_everything_may_go_at_any_time(inside: Inside) -> None:
    async def work(house: House) -> None:
        sender = await house.admitted()
        for _ in range(10):
            await sender.put("Q", persistent=True)
        for goes in (
            lambda guest: guest.wire.lose(),
            lambda guest: guest.link.close(),
            lambda guest: guest.say_bytes(b"\xff" * 20),
        ):
            guest = await house.admitted()
            guest.say(Verb.GET, 10, verbs.Get("Q"))
            guest.say(Verb.GET, 11, verbs.Get("Q", 1))
            guest.say(Verb.PUT, 12, put("R", unit=1, persistent=True))
            guest.say(Verb.CONSUME, 13, verbs.Consume("Q", 1, 3))
            guest.say(Verb.GET, 14, verbs.Get("R", 0, 60.0))
            guest.say(Verb.GET_GROUP, 15, verbs.GetGroup("R", 1, 60.0))
            guest.say(Verb.DYNAMIC, 16, SAMPLES[Verb.DYNAMIC])
            guest.say(Verb.PUT, 17, put("Q", persistent=True))
            guest.say(Verb.MQSC, 18, verbs.Mqsc("DISPLAY QUEUE(*)"))
            goes(guest)
            await sender.until(lambda guest=guest: guest.wire.lost)  # type: ignore[misc]
            await asyncio.sleep(0.02)
            await house.until(lambda: house.held("Q") == house.held("R") == 0)
        assert house.depth("R") == 0

    inside(work)


# --- administration ------------------------------------------------------------------------------


def test_frames_behind_a_command_wait_for_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say_bytes(encode(Verb.MQSC, 9, verbs.Mqsc("DEFINE QLOCAL(NEW)")) + encode(Verb.PUT, 10, put("NEW", b"x")))
        await guest.answer(9)
        assert (await guest.answer(10))[0] == Verb.DONE

    inside(work)


def test_an_unforeseen_error_in_a_command_is_answered_and_the_connection_goes_on(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.registry.managed = lambda *_: 1 / 0
        guest = await house.admitted()
        with pytest.raises(ConnectionLost) as unknown:
            await guest.ask(Verb.MANAGE, 9, verbs.Manage("status"))
        assert unknown.value.outcome == "unknown"
        await guest.ask(Verb.HEARTBEAT, 10, verbs.Empty())
        assert [type(context["exception"]) for context in house.escaped] == [ZeroDivisionError]
        house.escaped.clear()

    inside(work)


def test_only_administrators_manage(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.registry.managed = lambda *_: pytest.fail("it was done")
        guest = await house.admitted("ann")
        for what in ("status", "checkpoint", "backup", "stop", "dump", "x" * 1000):
            with pytest.raises(NotAuthorized):
                await guest.ask(Verb.MANAGE, 9, verbs.Manage(what, {"destination": "/tmp/x"}))

    inside(work)


def test_a_put_that_nobody_waits_for_keeps_its_place_before_those_behind_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        guest, other = await house.admitted(), await house.admitted()
        await guest.put("Q", b"0")
        guest.say(Verb.PUT, 0, put("Q", b"1", wait_s=60.0))
        guest.say(Verb.PUT, 0, put("R", b"2"))
        guest.say(Verb.HEARTBEAT, 9, verbs.Empty())
        await asyncio.sleep(0.03)
        assert house.depth("R") == 0
        assert not guest.frames()
        assert (await other.get("Q")).body == b"0"  # type: ignore[union-attr]
        await guest.answer(9)
        assert (house.depth("Q"), house.depth("R")) == (1, 1)

    inside(work)


def test_a_put_that_somebody_waits_for_does_not_keep_back_the_get_that_makes_room(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        guest = await house.admitted()
        await guest.put("Q", b"0")
        guest.say(Verb.PUT, 9, put("Q", b"1", wait_s=60.0))
        assert (await guest.get("Q")).body == b"0"  # type: ignore[union-attr]
        assert (await guest.answer(9))[0] == Verb.DONE
        guest.say(Verb.PUT, 9, put("Q", b"2", wait_s=0.02))
        with pytest.raises(QueueFull):
            await guest.ask(Verb.PUT, 10, put("Q", b"2"))
        assert (await guest.answer(9))[0] == Verb.FAILED

    inside(work)


def test_puts_that_wait_for_room_are_few_at_a_time(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.server.session_put._ASIDE_MAX", 3)

    async def work(house: House) -> None:
        house.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
        guest, other = await house.admitted(), await house.admitted()
        await guest.put("Q", b"0")
        for number in range(10, 16):
            guest.say(Verb.PUT, number, put("Q", bytes([number]), wait_s=60.0))
        guest.say(Verb.HEARTBEAT, 9, verbs.Empty())
        await asyncio.sleep(0.02)
        assert not guest.frames()  # it waits behind the fourth
        got = []
        while len(got) < 7:
            await asyncio.sleep(0.001)
            message = await other.get("Q")
            got += [] if message is None else [message.body]
        assert len(set(got)) == 7
        await guest.answer(9)

    inside(work)


def test_a_publication_that_many_conditions_are_asked_about_does_not_keep_others_waiting(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest, other = await house.admitted(), await house.admitted()
        heavy = " OR ".join(f"text LIKE '%a_{letter}%'" for letter in "bcdefghijklmnop")
        for number in range(6):
            selector = f"number = {number} OR {heavy}"
            await guest.ask(Verb.SUBSCRIBE, 10, verbs.Subscribe("", "t", "Q", selector=selector))
        publication = put("topic:t", b"p", properties={"text": "a" * 5000, "number": 3})
        guest.say(Verb.PUT, 20, publication)
        assert house.depth("Q") == 0, "it was asked about on the loop"
        other.say(Verb.HEARTBEAT, 7, verbs.Empty())
        assert other.frames().pop()[0] == Verb.ALIVE
        await guest.answer(20)
        assert house.depth("Q") == 1
        many = verbs.PutMany(5, [("topic:t", None, None, publication.message)] * 3)
        guest.say(Verb.PUT_MANY, 0, many)
        await guest.ask(Verb.COMMIT, 21, verbs.Commit(5))
        assert house.depth("Q") == 4

    inside(work)


def test_puts_that_share_a_frame_keep_their_order_though_one_of_them_takes_longer(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        heavy = " OR ".join(f"text LIKE '%a_{letter}%'" for letter in "bcdefghijklmnop")
        for number in range(6):
            selector = f"number = {number} OR {heavy}"
            await guest.ask(Verb.SUBSCRIBE, 10, verbs.Subscribe("", "t", "Q", selector=selector))
        slow = put("topic:t", b"2", properties={"text": "a" * 5000, "number": 3}).message
        joined = [("Q", False, None, Message(b"1")), ("topic:t", False, None, slow), ("Q", False, None, Message(b"3"))]
        guest.say_bytes(
            encode(Verb.PUT_MANY, 0, verbs.PutMany(0, joined))
            + encode(Verb.PUT, 0, put("Q", b"4"))
            + encode(Verb.SYNCHRONIZE, 9, verbs.Empty())
        )
        assert house.depth("Q") == 1, "what comes behind the publication did not wait for it"
        await guest.answer(9)
        found = await guest.ask(Verb.BROWSE, 11, verbs.BrowsePayload("Q", None, 10))
        assert [message.body for message in found.messages] == [b"1", b"2", b"3", b"4"]

    inside(work)


def test_of_puts_that_share_a_frame_each_happens_or_is_refused_by_itself(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        joined = [(queue, True, None, Message(queue.encode())) for queue in ("Q", "NOWHERE", "R")]
        guest.say(Verb.PUT_MANY, 0, verbs.PutMany(0, joined))
        with pytest.raises(QueueNotFound, match="NOWHERE"):
            await guest.ask(Verb.SYNCHRONIZE, 9, verbs.Empty())
        assert (house.depth("Q"), house.depth("R")) == (1, 1)
        await guest.ask(Verb.SYNCHRONIZE, 10, verbs.Empty())
        guest.say(Verb.PUT_MANY, 11, verbs.PutMany(0, joined))
        assert isinstance(await guest.farewell(), FrameUnreadable)
        assert (house.depth("Q"), house.depth("R")) == (1, 1)

    inside(work)


def test_a_long_selector_is_read_beside_the_loop(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        await guest.put("Q", b"x", properties={"colour": "red"})
        for number, verb in enumerate(("get", "browse", "group", "subscribe")):
            text = f"colour = '{verb}' OR " + "size = 1 OR " * 100 + "colour = 'red'"
            wanted = verbs.Wanted(selector=text)
            say: dict[str, tuple[Verb, Any]] = {
                "browse": (Verb.BROWSE, verbs.BrowsePayload("Q", None, 5, wanted)),
                "group": (Verb.GET_GROUP, verbs.GetGroup("Q", 5, 0.0, text)),
                "subscribe": (Verb.SUBSCRIBE, verbs.Subscribe("", "t", selector=text)),
                "get": (Verb.GET, verbs.Get("Q", 6, 0.0, wanted)),
            }
            guest.say(say[verb][0], 30 + number, say[verb][1])
            assert [heard for heard in guest.frames() if heard[1] == 30 + number] == []
            assert (await guest.answer(30 + number))[0] != Verb.FAILED
            await guest.ask(Verb.BACK_OUT, 50, verbs.BackOut(5))
            await guest.ask(Verb.BACK_OUT, 50, verbs.BackOut(6))
        guest.say(Verb.GET, 40, verbs.Get("Q", 0, 0.0, verbs.Wanted(selector="size = 1 OR " * 100)))
        assert (await guest.answer(40))[0] == Verb.FAILED

    inside(work)


def test_a_verb_that_breaks_the_protocol_after_its_long_selector_ends_the_connection(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        wanted = verbs.Wanted(selector="size = 1 OR " * 100 + "size = 2")
        guest.say(Verb.GET_MANY, 3, verbs.GetMany("Q", 0, 1, wanted=wanted))
        await until(lambda: guest.wire.closing)
        assert house.escaped == []

    inside(work)
