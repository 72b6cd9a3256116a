# SPDX-License-Identifier: Apache-2.0
"""Single branches of the compiled lane, compared with the general way; see test_lane.py for scripts at random."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import Fenced, LogFull
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.verbs import Verb

from .guests import put
from .twins import IS_COMPILED, WHY_NOT, Twins, live_twice

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason=WHY_NOT)

Alike = Callable[[Callable[[Twins], Awaitable[None]]], None]


@pytest.fixture
def alike(tmp_path: Path) -> Alike:
    """Run a test's coroutine with both houses, and see that they end alike."""
    return lambda work: live_twice(tmp_path, work)


def many(queue: str, *bodies: bytes, unit: int = 0, persistent: bool | None = False, **fields: Any) -> verbs.PutMany:
    """A frame of puts, each with an id of its own."""
    return verbs.PutMany(
        unit, [(queue, persistent, None, Message(body, message_id=b"id " + body[:20], **fields)) for body in bodies]
    )


def request(queue: str = "Q", body: bytes = b"ask", *, timeout_s: float = 1000.0, **fields: Any) -> verbs.Request:
    return verbs.Request(queue, "R", timeout_s, False, None, Message(body, **fields))


def kinds(heard: list[Any]) -> list[Verb]:
    return [Verb(frame[0]) for frame in heard]


COMMIT = (Verb.COMMIT, verbs.Commit(1))
SYNC = (Verb.SYNCHRONIZE, verbs.Empty())


# --- requests -----------------------------------------------------------------------------------


def test_units_end_while_a_request_waits(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        await twins.tell(0, (Verb.REQUEST, request()))
        await twins.tell(0, (Verb.REQUEST, request()), lane=True)
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"in unit", unit=1)))
        assert kinds(await twins.tell(0, COMMIT)) == [Verb.DONE]
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"another", unit=2)))
        assert kinds(await twins.tell(0, (Verb.BACK_OUT, verbs.BackOut(2)))) == [Verb.DONE]
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"a third", unit=3, persistent=True)))
        assert kinds(await twins.tell(0, (Verb.PREPARE, verbs.Prepare(3, b"x")))) == [Verb.DONE]
        assert kinds(await twins.tell(0, (Verb.RESOLVE, verbs.Resolve(b"x", True)))) == [Verb.DONE]

    alike(work)


# --- units of work ------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_a_unit_takes_no_more_places_of_a_queue_than_there_are_by_two_names(alike: Alike, persistent: bool) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "SMALL", "ALIAS")
        puts = [(name, persistent, None, Message(b"x")) for name in ("SMALL", "SMALL", "ALIAS", "ALIAS")]
        heard = await twins.tell(0, (Verb.PUT_MANY, verbs.PutMany(1, puts)))
        assert kinds(heard) == [Verb.FAILED]
        await twins.tell(0, COMMIT)

    alike(work)


# --- frames that nobody should say --------------------------------------------------------------


@pytest.mark.parametrize("consumer", [-(2**63), -1, 2**63, 2**64 - 1])
def test_a_consumer_may_have_any_number(alike: Alike, consumer: int) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(0, (Verb.PUT, put("Q", b"standing", persistent=False)))
        await twins.tell(0, (Verb.CONSUME, verbs.Consume("Q", consumer, 10, None, False, True)))
        await twins.tell(0, (Verb.PUT, put("Q", b"arriving", persistent=False)))
        await twins.tell(0, (Verb.PUT, put("Q", b"forced", persistent=True)))
        await twins.tell(0, (Verb.CREDIT, verbs.Credit(consumer, 3, 3), False))

    alike(work)


@pytest.mark.parametrize("unit", [0, 1])
def test_a_long_frame_of_puts_is_refused(alike: Alike, unit: int) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        await twins.tell(0, (Verb.PUT, put("Q", b"before", persistent=False)), lane=True)
        heard = await twins.tell(0, (Verb.PUT_MANY, many("Q", b"a" * 40_000, b"b" * 40_000, unit=unit), False))
        assert kinds(heard) == [Verb.CLOSING]
        assert [message.body for message in twins.slow.messages()["Q"]] == [b"before"]

    alike(work)


def test_nothing_is_heard_behind_what_breaks_the_protocol(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        await twins.tell(0, (Verb.PUT, put("Q", b"before", persistent=False)), lane=True)
        broken = bytearray(encode(Verb.PUT_MANY, 0, many("Q", b"one", b"two")))
        broken[-1] = 0xC1  # no value of MessagePack
        behind = encode(Verb.PUT, 0, put("R", b"behind", persistent=False))
        for twin in twins.twins:
            (await twin.guest(0)).say_bytes(bytes(broken) + behind)
        await twins.quiet()
        assert kinds(twins.compare_heard(in_order=True)[0]) == [Verb.CLOSING]
        assert twins.slow.messages()["R"] == []

    alike(work)


def test_a_frame_with_something_behind_its_puts_is_refused(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        whole = encode(Verb.PUT_MANY, 0, many("Q", b"one", b"two"))
        longer = (len(whole) - 3).to_bytes(4, "little") + whole[4:] + b"\xc0"
        for twin in twins.twins:
            (await twin.guest(0)).say_bytes(longer)
        await twins.quiet()
        assert kinds(twins.compare_heard(in_order=True)[0]) == [Verb.CLOSING]
        twins.compare_state()

    alike(work)


def test_nothing_is_heard_once_too_much_went_wrong(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        wrong = [(Verb.PUT_MANY, many("NOWHERE", b"x", unit=unit), False) for unit in range(1, 1001)]
        await twins.tell(0, *wrong, (Verb.PUT, put("NOWHERE"), False))
        last = verbs.PutMany(0, [(queue, False, None, Message(b"x", message_id=b"y")) for queue in ("Q", "NOWHERE")])
        heard = await twins.tell(0, (Verb.PUT_MANY, last, False), (Verb.PUT, put("R", b"behind", persistent=False)))
        assert kinds(heard) == [Verb.CLOSING]
        assert twins.slow.messages()["R"] == []

    alike(work)


# --- puts ---------------------------------------------------------------------------------------


def consume(queue: str = "Q", credit: int = 100, consumer: int = 1, *, together: bool = True) -> tuple[Verb, Any]:
    return Verb.CONSUME, verbs.Consume(queue, consumer, credit, None, False, together)


def credit(used: int, more: int, consumer: int = 1) -> tuple[Verb, Any, bool]:
    return Verb.CREDIT, verbs.Credit(consumer, used, more), False


def bodies(heard: list[Any]) -> list[bytes]:
    return [frame[2].message.body for frame in heard if frame[0] == Verb.DELIVERY]


NAMES = [b"%02d" % number for number in range(40)]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_puts_of_a_frame_go_to_the_one_reader_as_far_as_its_credit_goes(
    alike: Alike, together: bool, persistent: bool
) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(1, consume(credit=17, together=together))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", *NAMES, persistent=persistent), False), lane=True)
        assert [queue.depth for queue in (twins.fast.manager.objects.queues["Q"],)] == [40]
        heard = await twins.tell(1, credit(16, 30), lane=None if persistent else True)
        assert bodies(heard) == NAMES[17:]
        await twins.tell(1, credit(40, 1))

    alike(work)


def test_puts_of_a_frame_take_turns_with_two_readers(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(1, consume(credit=3))
        await twins.tell(1, consume(credit=20, consumer=2))
        heard = await twins.tell(1, (Verb.PUT_MANY, many("Q", *NAMES[:10]), False), lane=True, in_order=False)
        assert [frame[2].consumer for frame in heard].count(1) == 3

    alike(work)


def test_long_puts_of_a_frame_are_delivered_in_several(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(1, consume())
        for _ in range(2):
            await twins.tell(0, (Verb.PUT_MANY, many("Q", b"a" * 30_000, b"b" * 30_000, b"c"), False), lane=True)
        await twins.tell(1, credit(6, 0))
        await twins.tell(0, (Verb.PUT_MANY, many("FIFO", b"a" * 30_000, b"b" * 30_000), False))
        await twins.tell(0, (Verb.PUT_MANY, many("FIFO", b"c" * 30_000, b"d" * 30_000), False), lane=True)
        assert len(bodies(await twins.tell(1, consume("FIFO", consumer=2)))) == 4

    alike(work)


@pytest.mark.parametrize("priorities", [(0, 0, 9, 0), (9, 0), (None, 4, 0)])
@pytest.mark.parametrize("queue", ["Q", "FIFO"])
def test_puts_of_a_frame_stand_by_their_priority(alike: Alike, queue: str, priorities: tuple[int | None, ...]) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, queue)
        for number in range(2):
            puts = [
                (queue, False, priority, Message(b"%d %d" % (number, at), message_id=b"id %d %d" % (number, at)))
                for at, priority in enumerate(priorities)
            ]
            await twins.tell(0, (Verb.PUT_MANY, verbs.PutMany(0, puts), False))
        assert len(bodies(await twins.tell(1, consume(queue)))) == 2 * len(priorities)

    alike(work)


@pytest.mark.parametrize("persistent", [False, True, None])
def test_a_queue_is_filled_to_its_last_place_and_no_further(alike: Alike, persistent: bool | None) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "SMALL")
        await twins.tell(1, (Verb.PUT_MANY, many("SMALL", b"kept", unit=1)))
        await twins.tell(0, (Verb.PUT_MANY, many("SMALL", b"one", b"two", b"three", persistent=persistent), False))
        heard = await twins.tell(0, SYNC)
        assert kinds(heard) == [Verb.FAILED]
        assert kinds(await twins.tell(0, (Verb.PUT, put("SMALL", b"four", persistent=persistent)))) == [Verb.FAILED]
        await twins.tell(1, COMMIT)
        assert len(twins.slow.messages()["SMALL"]) == 3

    alike(work)


@pytest.mark.parametrize("reads", [False, True])
def test_the_time_of_a_message_in_a_frame_of_many_is_watched(alike: Alike, reads: bool) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        if reads:
            await twins.tell(1, consume(credit=1))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", *NAMES[:3], expiry_s=5.0), False))
        await twins.advance(6.0)
        twins.compare_state()
        assert twins.slow.manager.objects.queues["Q"].depth == (1 if reads else 0)
        await twins.tell(0, (Verb.GET, verbs.Get("Q")))

    alike(work)


def test_a_queue_past_its_buffer_goes_to_disk(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "TIGHT")
        for number in range(4):
            names = [b"%d %d" % (number, at) for at in range(3)]
            await twins.tell(0, (Verb.PUT_MANY, many("TIGHT", *names), False))
            await twins.tell(0, (Verb.PUT, put("TIGHT", b"%d kept" % number, persistent=True)))
        assert len(bodies(await twins.tell(1, consume("TIGHT")))) == 16

    alike(work)


def test_all_priorities_of_a_queue_share_its_buffer(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        for priority in (9, 4):
            await twins.tell(0, (Verb.PUT, put("TIGHT", b"x", persistent=False, priority=priority)))
        await twins.tell(0, (Verb.GET_MANY, verbs.GetMany("TIGHT", 1, 9)), COMMIT)
        for priority in (9, 4, 9):
            await twins.tell(0, (Verb.PUT, put("TIGHT", b"x" * 1000, persistent=False, priority=priority)))
        assert twins.slow.state()["queues"]["TIGHT"]["back"] != [0, 0]

    alike(work)


def test_a_persistent_put_stands_before_what_came_while_it_was_forced(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(
            0, (Verb.PUT, put("Q", b"first", persistent=True)), (Verb.PUT, put("Q", b"second", persistent=False)),
            lane=True,
        )  # fmt: skip
        await twins.tell(0, (Verb.PUT, put("Q", b"third", persistent=False)), lane=True)
        assert bodies(await twins.tell(1, consume())) == [b"first", b"second", b"third"]

    alike(work)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_correlated_put_is_found_by_its_correlation_id(alike: Alike, persistent: bool) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        for _ in range(2):
            await twins.tell(0, (Verb.PUT, put("Q", b"x", persistent=persistent, correlation_id=b"c")), lane=True)
        wanted = verbs.Get("Q", 0, 0.0, verbs.Wanted(correlation_id=b"c"))
        assert (await twins.tell(1, (Verb.GET, wanted)))[0][2].message.body == b"x"
        await twins.tell(1, consume())
        await twins.tell(0, (Verb.PUT, put("Q", b"y", persistent=persistent, correlation_id=b"c")), lane=True)
        await twins.vanish(1)
        assert len(twins.slow.messages()["Q"]) == (3 if persistent else 0)

    alike(work)


def test_a_queue_that_was_read_by_message_id_is_so_afterwards(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        find = verbs.Get("Q", 0, 0.0, verbs.Wanted(message_id=b"id 00"))
        await twins.tell(0, (Verb.GET, find))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", *NAMES[:3]), False), lane=True)
        await twins.tell(0, (Verb.PUT, put("Q", b"kept", persistent=True, message_id=b"kept")), lane=True)
        assert (await twins.tell(0, (Verb.GET, find)))[0][2].message.body == b"00"
        await twins.tell(1, consume())
        await twins.tell(0, (Verb.PUT, put("Q", b"more", persistent=True, message_id=b"more")), lane=True)
        await twins.tell(0, (Verb.PUT, put("Q", b"last", persistent=False, message_id=b"last")), lane=True)
        await twins.tell(1, credit(2, 0), lane=True)
        await twins.tell(1, credit(5, 0))

    alike(work)


@pytest.mark.parametrize(
    "change",
    ["PUT(DISABLED)", "MAXDEPTH(0)", "MAXMSGL(1)", "TRIGGER INITQ(INIT) PROCESS(PROG)", "STREAMQ(COPY)",
     "DEFPSIST(YES)", "DEFPRTY(7)", "MSGDLVSQ(FIFO)", "BUFFER(0)"],
)  # fmt: skip
@pytest.mark.parametrize("persistent", [False, True, None])
def test_a_changed_definition_counts_from_the_next_put_on(alike: Alike, change: str, persistent: bool | None) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(0, (Verb.PUT, put("Q", b"before", persistent=persistent)))
        if "MSGDLVSQ" in change:  # which changes only while it is empty
            await twins.tell(0, (Verb.GET_MANY, verbs.GetMany("Q", 9, 9)), (Verb.COMMIT, verbs.Commit(9)))
        for twin in twins.twins:
            twin.house.mqsc(f"ALTER QLOCAL(Q) {change}")
        await twins.tell(0, (Verb.PUT, put("Q", b"after", persistent=persistent)))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"more", b"last", persistent=persistent), False))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"in unit", unit=1, persistent=persistent)))
        await twins.tell(0, COMMIT)

    alike(work)


def test_a_revoked_authority_counts_at_once(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(2, "Q")
        await twins.tell(2, (Verb.PUT, put("Q", b"allowed", persistent=False)), lane=True)
        for twin in twins.twins:
            twin.house.mqsc("SET AUTHREC OBJTYPE(QUEUE) PROFILE(Q) PRINCIPAL('ann') AUTHRMV(PUT)")
        await twins.tell(0, (Verb.PUT, put("Q", b"another's", persistent=False)))  # the lane knows the queue again
        for persistent in (False, True):
            assert kinds(await twins.tell(2, (Verb.PUT, put("Q", b"no", persistent=persistent)))) == [Verb.FAILED]
        assert kinds(await twins.tell(2, (Verb.PUT_MANY, many("Q", b"no", unit=1)))) == [Verb.FAILED]
        assert kinds(await twins.tell(2, (Verb.REQUEST, request()))) == [Verb.FAILED]

    alike(work)


def test_without_memory_the_general_way_refuses(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        for twin in twins.twins:
            twin.house.registry.memory.is_short = True
        for persistent in (False, True):
            await twins.tell(0, (Verb.PUT, put("Q", b"x" * 100, persistent=persistent)), lane=False)

    alike(work)


def test_a_clock_that_was_set_is_noticed_by_what_expires(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        twins.compares_log = False  # the step is noted with the key before the message's or with its own
        await twins.tell(1, consume(credit=3))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"in unit", unit=1, persistent=True)))
        for twin in twins.twins:
            twin.clock.jump(-100.0)
        await twins.tell(0, (Verb.PUT, put("Q", b"x", persistent=False, expiry_s=5.0)), lane=True)
        assert [[step[1] for step in twin.manager.steady.steps] for twin in twins.twins] == [[100.0], [100.0]]
        await twins.tell(0, COMMIT)
        await twins.advance(6.0)
        await twins.tell(1, (Verb.STOP_CONSUMING, verbs.ConsumerPayload(1)))

    alike(work)


# --- readers ------------------------------------------------------------------------------------


def test_what_a_reader_gives_back_stands_before_the_rest(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(1, consume(credit=2))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", *NAMES[:6]), False), lane=True)
        await twins.tell(1, (Verb.RETURN, verbs.ReturnPayload(1, 1, 0)))
        heard = await twins.tell(1, credit(2, 10))
        assert bodies(heard) == [NAMES[0], *NAMES[2:6]]
        assert heard[0][2].message.backout_count == 1

    alike(work)


@pytest.mark.parametrize("together", [False, True])
def test_a_backlog_is_delivered_by_credit(alike: Alike, together: bool) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(1, consume(credit=0, together=together))
        for start in range(0, 200, 20):
            names = [b"%03d" % number for number in range(start, start + 20)]
            await twins.tell(0, (Verb.PUT_MANY, many("Q", *names), False), lane=True)
        for more in (1, 15, 16, 17):
            assert len(bodies(await twins.tell(1, credit(0, more), lane=True))) == more
        assert len(bodies(await twins.tell(1, credit(49, 1000), lane=True))) == 151
        await twins.tell(0, (Verb.PUT, put("Q", b"late", persistent=False)), lane=True)
        await twins.tell(1, credit(300, 100_000))

    alike(work)


def test_a_backlog_that_was_looked_at_is_delivered(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(1, consume(credit=0))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", *NAMES[:6]), False), lane=True)
        await twins.tell(0, (Verb.BROWSE, verbs.BrowsePayload("Q", None, 2)))
        assert bodies(await twins.tell(1, credit(0, 1))) == NAMES[:1]
        assert bodies(await twins.tell(1, credit(1, 9))) == NAMES[1:6]

    alike(work)


def test_too_much_credit_ends_the_connection(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.tell(1, consume(credit=10))
        await twins.tell(1, credit(0, 99_990), lane=True)
        assert kinds(await twins.tell(1, credit(0, 1))) == [Verb.CLOSING]

    alike(work)


@pytest.mark.torture  # 64 MiB, twice
@pytest.mark.parametrize(("persistent", "joined"), [(False, False), (False, True), (True, False)])
def test_a_reader_keeps_no_more_than_so_many_bytes(alike: Alike, persistent: bool, joined: bool) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(1, consume(credit=1000))
        body = b"x" * 1_000_000
        for number in range(68):
            frame = put("Q", b"%d" % number + body, persistent=persistent)
            await twins.say(0, lambda _, frame=frame: [(Verb.PUT, frame, True)])
        if joined:
            await twins.tell(0, (Verb.PUT_MANY, many("Q", *NAMES[:5], persistent=persistent), False))
        twins.compare_heard(in_order=True)
        twins.compare_state()
        assert twins.slow.streams(1)[1].waiter.among is None
        await twins.tell(1, credit(10, 0))
        assert twins.slow.streams(1)[1].waiter.among is not None

    alike(work)


def test_a_reader_that_does_not_read_gets_no_more(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(1, consume(credit=1000))
        for twin in twins.twins:
            (await twin.guest(1)).wire.partner_reads = False
        for number in range(7):
            body = b"%d" % number + b"x" * 200_000
            await twins.tell(0, (Verb.PUT, put("Q", body, persistent=number % 2 == 1)), lane=True)
        assert twins.slow.manager.objects.queues["Q"].available == 1
        for twin in twins.twins:
            (await twin.guest(1)).wire.read_all()
        await twins.quiet()
        twins.compare_heard(in_order=True)
        twins.compare_state()

    alike(work)


# --- replies ------------------------------------------------------------------------------------


async def asked(twins: Twins, *, timeout_s: float = 1000.0) -> None:
    """A request of guest 0 waits for its reply."""
    await twins.warm(0, "Q", "R")
    await twins.warm(1, "Q", "R")
    for message_id in (b"first", b"ask"):  # the first one counts the gets that wait
        await twins.tell(0, (Verb.REQUEST, request(timeout_s=timeout_s, message_id=message_id)))


def reply(*, persistent: bool = False, **fields: Any) -> tuple[Verb, Any]:
    return Verb.PUT, put("R", b"answer", persistent=persistent, correlation_id=b"ask", **fields)


@pytest.mark.parametrize("fields", [{}, {"expiry_s": 5.0}, {"properties": {"a": 1}}, {"group_id": b"g"}])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_reply_reaches_who_waits_for_it(alike: Alike, persistent: bool, fields: dict[str, Any]) -> None:
    async def work(twins: Twins) -> None:
        await asked(twins)
        await twins.tell(1, reply(persistent=persistent, **fields), lane=not fields or None)
        number = 10 + twins.slow.numbers[0]
        assert bool(twins.slow.state()["guests"][0]["leases"][1]) == persistent
        await twins.tell(0, (Verb.ACKNOWLEDGE, verbs.NumberPayload(number)))
        await twins.tell(1, reply(persistent=persistent, **fields))
        assert twins.slow.manager.objects.queues["R"].depth == 1

    alike(work)


def test_a_reply_of_the_one_who_asks_is_heard_before_its_answer(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await asked(twins)
        assert kinds(await twins.tell(0, reply(), lane=True)) == [Verb.MESSAGE, Verb.DONE]

    alike(work)


def test_a_reply_that_another_reader_may_have_is_offered_in_order(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await asked(twins)
        await twins.tell(1, consume("R"))
        await twins.tell(1, reply())
        await twins.tell(1, reply())
        assert twins.slow.manager.objects.queues["R"].depth == 1

    alike(work)


def test_a_request_that_waits_is_cancelled(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await asked(twins)
        number = 10 + twins.slow.numbers[0]
        heard = await twins.tell(0, (Verb.CANCEL, verbs.NumberPayload(number)))
        assert kinds(heard) == [Verb.FAILED, Verb.DONE]
        await twins.tell(1, reply())
        assert twins.slow.manager.objects.queues["R"].depth == 1

    alike(work)


def test_the_time_of_a_request_ends(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await asked(twins)
        await twins.say(0, lambda _: [(Verb.REQUEST, request(timeout_s=0.02), True)])
        assert twins.fast.general[-1] != Verb.REQUEST or twins.fast.general.count(Verb.REQUEST) == 1
        for twin in twins.twins:
            guest = await twin.guest(0)
            await guest.until(lambda guest=guest: any(frame[0] == Verb.FAILED for frame in guest.frames()))
        await twins.quiet()
        twins.compare_heard(in_order=True)
        twins.compare_state()

    alike(work)


def test_who_is_fenced_waits_no_longer(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await asked(twins)
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"x", unit=1, persistent=True)))
        await twins.tell(0, (Verb.CLAIM, verbs.ClaimPayload("flow/1", 1, b"one")))
        await twins.tell(1, (Verb.CLAIM, verbs.ClaimPayload("flow/1", 2, b"two")), in_order=False)
        for frame in (COMMIT, (Verb.PUT, put("Q", b"x", persistent=False)), reply()):
            await twins.tell(0, frame, lane=False)
        await twins.tell(1, reply())
        assert twins.slow.manager.objects.queues["R"].depth == 1

    alike(work)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("end", ["lost", "fenced", "expired"])
def test_a_reply_that_comes_at_the_last_moment_is_not_lost(alike: Alike, end: str, persistent: bool) -> None:
    async def work(twins: Twins) -> None:
        await asked(twins)
        verb, payload = reply(persistent=persistent, properties={"a": 1})
        for twin in twins.twins:
            guest = await twin.guest(0)
            assert guest.link.conversation is not None
            session = guest.link.conversation.session
            with twin.house.registry.engine:  # what it causes waits until its end
                (await twin.guest(1)).say(verb, 500, payload)
                twin.host._force_all()
                if end == "lost":
                    guest.wire.lose()
                elif end == "fenced":
                    session.fence(Fenced("flow/1", 1, 2))
                else:
                    for waiting in list(session.waiting):
                        waiting.expire()
        await twins.quiet()
        twins.compare_heard(in_order=end != "expired")
        twins.compare_state()
        assert twins.slow.manager.objects.queues["R"].available == (0 if end == "expired" else 1)

    alike(work)


def test_a_request_is_put_only_once_its_reply_queue_is_empty(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await asked(twins)
        await twins.tell(1, (Verb.PUT, put("R", b"waits", persistent=False, correlation_id=b"next")))
        heard = await twins.tell(0, (Verb.REQUEST, request(message_id=b"next")), lane=False)
        assert kinds(heard) == [Verb.MESSAGE]

    alike(work)


# --- units of work ------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [[True], [False], [True, False], [False, True, True], [True] * 16])
@pytest.mark.parametrize("end", ["commit", "back out", "vanish"])
def test_units_end_alike(alike: Alike, persistent: list[bool], end: str) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "FIFO")
        await twins.tell(1, consume("FIFO", credit=2))
        puts = [
            (("Q", "FIFO")[at % 2], stays, None, Message(b"%02d" % at, correlation_id=b"c"))
            for at, stays in enumerate(persistent)
        ]
        await twins.tell(0, (Verb.PUT_MANY, verbs.PutMany(1, puts)), lane=True)
        if end == "commit":
            await twins.tell(0, COMMIT, lane=any(persistent))
        elif end == "back out":
            await twins.tell(0, (Verb.BACK_OUT, verbs.BackOut(1)))
        else:
            await twins.vanish(0)

    alike(work)


def test_a_unit_of_messages_with_no_body_survives(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        twins.compares_log = False  # the general way needs one record for bodies that are the same object
        puts = [("Q", True, at, Message(b"", message_id=b"id %d" % at)) for at in range(4)]
        await twins.tell(0, (Verb.PUT_MANY, verbs.PutMany(1, puts)), COMMIT, lane=True)
        assert len(twins.slow.messages()["Q"]) == 4

    alike(work)


def test_keys_and_ids_are_given_out_under_the_lock(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        await twins.warm(1, "Q")
        manager, lock = twins.fast.manager, twins.fast.host.lock
        unlocked = []

        class Watched(type(manager)):  # type: ignore[misc]
            @property
            def key_next(self) -> int:
                return int(self.__dict__["key_next"])

            @key_next.setter
            def key_next(self, key: int) -> None:
                if not lock._is_owned():
                    unlocked.append(key)
                self.__dict__["key_next"] = key

        manager.__class__ = Watched
        await twins.tell(1, consume(credit=2))
        for persistent in (False, True):
            puts = [("Q", persistent, None, Message(b"no id"))] * 3
            await twins.tell(0, (Verb.PUT, put("Q", b"x", persistent=persistent)), lane=True)
            await twins.tell(0, (Verb.PUT_MANY, verbs.PutMany(0, puts), False), lane=True)
            await twins.tell(0, (Verb.PUT_MANY, verbs.PutMany(1, puts)), lane=True)
            await twins.tell(0, COMMIT, lane=persistent)
        await twins.tell(0, (Verb.REQUEST, request()))
        assert unlocked == []

    alike(work)


def test_one_refused_put_refuses_its_frame_and_its_unit(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"x", unit=1, persistent=True), False), lane=True)
        puts = [("Q", True, None, Message(b"y")), ("NOWHERE", True, None, Message(b"z"))]
        await twins.tell(0, (Verb.PUT_MANY, verbs.PutMany(1, puts), False))
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"z", unit=2, persistent=True), False), lane=True)
        assert kinds(await twins.tell(0, COMMIT)) == [Verb.FAILED]
        assert kinds(await twins.tell(0, (Verb.COMMIT, verbs.Commit(2)), lane=True)) == [Verb.DONE]
        assert len(twins.slow.messages()["Q"]) == 1

    alike(work)


def test_a_unit_with_a_get_that_waits_commits_without_it(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q", "R")
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"x", unit=1, persistent=True)), lane=True)
        await twins.tell(0, (Verb.GET, verbs.Get("R", 1, 1000.0)))
        assert kinds(await twins.tell(0, COMMIT)) == [Verb.MESSAGE, Verb.DONE]
        await twins.tell(1, (Verb.PUT, put("R", b"late", persistent=True)))
        assert twins.slow.manager.objects.queues["R"].available == 1

    alike(work)


def test_a_persistent_put_to_a_temporary_queue_is_refused(alike: Alike) -> None:
    async def work(twins: Twins) -> None:
        await twins.tell(0, (Verb.DYNAMIC, verbs.Dynamic("TEMPORARY", "TEMP")))
        await twins.warm(0, "TEMP")
        await twins.tell(0, (Verb.PUT, put("TEMP", b"x", persistent=False)), lane=True)
        assert kinds(await twins.tell(0, (Verb.PUT, put("TEMP", b"x", persistent=True)))) == [Verb.FAILED]
        assert kinds(await twins.tell(0, (Verb.PUT_MANY, many("TEMP", b"x", unit=1, persistent=True)))) == [Verb.FAILED]

    alike(work)


# --- a full log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["put", "joined", "unit"])
def test_a_full_log_lets_what_comes_behind_wait(alike: Alike, what: str) -> None:
    async def work(twins: Twins) -> None:
        await twins.warm(0, "Q")
        await twins.tell(0, (Verb.PUT_MANY, many("Q", b"in unit", b"too", unit=1, persistent=True)), lane=True)
        for twin in twins.twins:
            fill_log(twin)
        joined = verbs.PutMany(
            0, [("Q", persistent, None, Message(b"1", message_id=b"1")) for persistent in (False, True)]
        )
        frames = {
            "put": (Verb.PUT, put("Q", b"1", persistent=True)),
            "joined": (Verb.PUT_MANY, joined, False),
            "unit": COMMIT,
        }
        await twins.tell(0, frames[what], (Verb.PUT, put("Q", b"behind", persistent=False)), SYNC)
        assert twins.slow.messages()["Q"][-1].body == b"behind"
        await twins.tell(0, COMMIT)

    alike(work)


def fill_log(twin: Any) -> None:
    """Let the log have no room before the next checkpoint."""
    log, checkpoint = twin.manager.log, twin.host.checkpoint
    room = log.require_room

    def full(size: int, *, reserved: bool) -> None:
        raise LogFull(size)

    def checkpointed() -> None:
        log.require_room = room
        checkpoint()

    log.require_room = full
    twin.host.checkpoint = checkpointed
