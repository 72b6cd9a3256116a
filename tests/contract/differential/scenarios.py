# SPDX-License-Identifier: Apache-2.0
"""What every binding has to do alike: each scenario returns what a program could notice, and no names or times.

A put in a unit of work that is refused is told at once by the embedded binding and at the commit through a channel
(decision 11); so scenarios look at the unit as a whole there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from entrepot.message import Message, MessageType, Report

from .stages import Stage, outcome

Scenario = Callable[[Stage], Awaitable[Any]]

SCENARIOS: list[Scenario] = []


def scenario(work: Scenario) -> Scenario:
    SCENARIOS.append(work)
    return work


# --- put and get ----------------------------------------------------------------------------------


@scenario
async def a_message_is_put_as_it_is(s: Stage) -> Any:
    queue = await s.define()
    message = Message(b"whole", correlation_id=b"c", properties={"n": 1}, user="someone else")
    await s.c.put_message(queue, message, priority=3)
    async with s.c.unit_of_work() as unit:
        await unit.put_message(queue, message, priority=2)
        await unit.put_messages([(queue, None, 1, message), (queue, True, 0, message)], answered=True)
    found = await s.browse(queue)
    return [(each.body, each.correlation_id, each.properties, each.priority, each.persistent) for each in found], {
        each.user == "someone else" for each in found
    }


@scenario
async def pages_of_a_browse_follow_each_other(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 5)
    first, place = await s.c.browse_page(queue, None, None, 3)
    second, place = await s.c.browse_page(queue, None, place, 3)
    last, _ = await s.c.browse_page(queue, None, place, 3)
    return [[message.body for message in page] for page in (first, second, last)]


@scenario
async def a_message_comes_as_it_was_put(s: Stage) -> Any:
    queue = await s.define()
    sent = {
        "persistent": True, "priority": 7, "correlation_id": b"c", "group_id": b"g", "sequence": 3,
        "last_in_group": True, "type": MessageType.REPORT, "feedback": 259, "reply_to": "BACK",
        "reply_to_manager": "QM9", "format": "MQSTR", "ccsid": 500, "encoding": 273,
        "properties": {"text": "ä", "whole": 1, "real": 0.5, "flag": True, "raw": b"\0"},
    }  # fmt: skip
    message_id = await s.c.put(queue, b"body", message_id=b"mine", **sent)
    found = await s.c.get(queue)
    return message_id, found.body, found.expiry_s, found.delay_s, [getattr(found, name) for name in sent]


@scenario
async def an_empty_queue_gives_nothing(s: Stage) -> Any:
    queue = await s.define()
    return await s.c.get(queue), await s.c.get(queue, wait_s=0.005), await s.c.get(queue, message_id=b"none")


@scenario
async def bodies_of_all_kinds_and_sizes_come_whole(s: Stage) -> Any:
    queue = await s.define()
    bodies = [b"", bytearray(b"array"), memoryview(b"view"), bytes(70_000)]
    for body in bodies:
        await s.c.put(queue, body)
    return [(await s.c.get(queue)).body for _ in bodies]


@scenario
async def higher_priorities_come_first(s: Stage) -> Any:
    queue, plain = await s.define(), await s.define("F", "MSGDLVSQ(FIFO)")
    for name in (queue, plain):
        for priority in (1, 9, 5, 9):
            await s.c.put(name, b"%d" % priority, priority=priority)
    return await s.bodies(queue), await s.bodies(plain)


@scenario
async def a_queue_has_defaults(s: Stage) -> Any:
    queue = await s.define(options="DEFPSIST(YES) DEFPRTY(6)")
    await s.c.put(queue, b"")
    found = await s.c.get(queue)
    return found.persistent, found.priority


@scenario
async def unknown_queues_are_told(s: Stage) -> Any:
    return [
        await outcome(s.c.put("NOWHERE", b"")),
        await outcome(s.c.get("NOWHERE")),
        await outcome(s.browse("NOWHERE")),
        await outcome(s.c.consume("NOWHERE")),
        await outcome(s.c.put("X@NOWHERE", b"")),
    ]


@scenario
async def invalid_names_are_told(s: Stage) -> Any:
    names = ["", "a b", "X" * 49, 7, None, "@QM1", "é"]
    return [[await outcome(s.c.put(name, b"")), await outcome(s.c.get(name))] for name in names]


@scenario
async def invalid_puts_are_told(s: Stage) -> Any:
    queue = await s.define()
    wrong: list[dict[str, Any]] = [
        {"priority": 10}, {"priority": -1}, {"expiry_s": 0}, {"expiry_s": -1}, {"delay_s": -1}, {"message_id": "text"},
        {"message_id": bytes(200)}, {"sequence": 0}, {"type": 99}, {"properties": {"": 1}}, {"properties": {"x": []}},
        {"wait_s": -1}, {"persistent": "yes"}, {"format": 5}, {"unheard_of": 1}, {"report": -1},
    ]  # fmt: skip
    told = [await outcome(s.c.put(queue, b"", **options)) for options in wrong]
    return told, [await outcome(s.c.put(queue, body)) for body in ("text", None, 5)], await s.depth(queue)


@scenario
async def invalid_gets_are_told(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 1)
    wrong: list[dict[str, Any]] = [
        {"wait_s": -1}, {"wait_s": "long"}, {"message_id": "x"}, {"selector": "a ="}, {"selector": 5},
        {"whole_group": 1}, {"unheard_of": 1}, {"group_id": b""}, {"correlation_id": bytes(200)},
    ]  # fmt: skip
    return [await outcome(s.c.get(queue, **options)) for options in wrong], await s.depth(queue)


@scenario
async def inhibited_queues_are_told(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 1)
    await s.alter(queue, "PUT(DISABLED) GET(DISABLED)")
    unit = s.c.unit_of_work()
    found = [
        await outcome(s.c.put(queue, b"")),
        await outcome(s.c.get(queue)),
        await outcome(unit.get(queue)),
        await outcome(unit.get_many(queue, 5)),
        await outcome(unit.get_group(queue)),
        await outcome(s.c.consume(queue)),
    ]
    await unit.back_out()
    await s.alter(queue, "GET(ENABLED)")
    return found, await s.left(queue)


@scenario
async def a_full_queue_refuses(s: Stage) -> Any:
    queue = await s.define(options="MAXDEPTH(2)")
    await s.fill(queue, 2)
    return [
        await outcome(s.c.put(queue, b"")),
        await outcome(s.c.put(queue, b"", persistent=True, wait_s=0.01)),
        await s.depth(queue),
    ]


@scenario
async def a_put_waits_for_room(s: Stage) -> Any:
    queue, other = await s.define(options="MAXDEPTH(1)"), await s.connect()
    await s.fill(queue, 1)
    if s.tasks:
        put = asyncio.create_task(other.put(queue, b"later", wait_s=60))
        await asyncio.sleep(0.01)
        first = await s.c.get(queue)
        await put
    else:
        waiting = asyncio.create_task(asyncio.to_thread(other._target.put, queue, b"later", wait_s=60))
        await asyncio.sleep(0.01)
        first = await s.c.get(queue)
        await waiting
    return first.body, await s.bodies(queue)


@scenario
async def a_message_that_is_too_long_is_refused(s: Stage) -> Any:
    queue = await s.define(options="MAXMSGL(10)")
    async with s.c.unit_of_work() as unit:
        await unit.put(queue, bytes(10))
    return await outcome(s.c.put(queue, bytes(11))), await s.depth(queue)


@scenario
async def what_has_expired_does_not_come(s: Stage) -> Any:
    queue = await s.define()
    await s.c.put(queue, b"short", expiry_s=0.001)
    await s.c.put(queue, b"long", expiry_s=1000)
    await asyncio.sleep(0.005)
    found = await s.c.get(queue)
    return found.body, 0 < found.expiry_s < 1000, await s.c.get(queue)


@scenario
async def what_is_delayed_comes_later(s: Stage) -> Any:
    queue = await s.define()
    await s.c.put(queue, b"late", delay_s=0.3, persistent=True)
    at_once = await s.c.get(queue)
    return at_once, (await s.c.get(queue, wait_s=60)).body


@scenario
async def messages_are_chosen_by_ids(s: Stage) -> Any:
    queue = await s.define()
    for number in range(6):
        ids = {
            "message_id": b"m%d" % number,
            "correlation_id": b"c%d" % (number % 2),
            "group_id": b"g%d" % (number % 3),
        }
        await s.c.put(queue, b"%d" % number, **ids)
    return [
        (await s.c.get(queue, message_id=b"m4")).body,
        (await s.c.get(queue, correlation_id=b"c1")).body,
        (await s.c.get(queue, group_id=b"g2")).body,
        await s.c.get(queue, message_id=b"m0", correlation_id=b"c1"),
        await s.bodies(queue),
    ]


@scenario
async def messages_are_chosen_by_selectors(s: Stage) -> Any:
    queue = await s.define()
    for number in range(6):
        await s.c.put(queue, b"%d" % number, properties={"n": number, "name": f"item {number}"})
    found = [
        (await s.c.get(queue, selector="n > 2 AND n <> 4")).body,
        (await s.c.get(queue, selector="name LIKE '%5'")).body,
        await s.c.get(queue, selector="n IS NULL"),
        [message.body for message in await s.browse(queue, selector="n BETWEEN 1 AND 2")],
    ]
    return found, await s.bodies(queue)


@scenario
async def a_distribution_list_reaches_all_or_none(s: Stage) -> Any:
    first, second = await s.define("A"), await s.define("B", "MAXDEPTH(1)")
    await s.c.put([first, second, first], b"both", persistent=True)
    refused = await outcome(s.c.put([first, second], b"one"))
    return refused, await s.bodies(first), await s.bodies(second)


@scenario
async def wrong_distribution_lists_are_told(s: Stage) -> Any:
    queue = await s.define()
    lists: list[Any] = [[], [queue, "NOWHERE"], [queue, 5], b"Q", {queue: 1}]
    return [await outcome(s.c.put(each, b"")) for each in lists], await s.depth(queue)


@scenario
async def a_name_list_is_a_distribution_list(s: Stage) -> Any:
    first, second = await s.define("A"), await s.define("B")
    await s.c.mqsc(f"DEFINE NAMELIST({s.name('N')}) NAMES({first},{second})")
    await s.c.put(s.name("N"), b"both")
    return await s.bodies(first), await s.bodies(second), await outcome(s.c.get(s.name("N")))


@scenario
async def an_alias_stands_for_its_queue(s: Stage) -> Any:
    queue = await s.define()
    await s.c.mqsc(f"DEFINE QALIAS({s.name('A')}) TARGET({queue})\nDEFINE QALIAS({s.name('B')}) TARGET(NOWHERE)")
    await s.c.put(s.name("A"), b"x")
    return (
        (await s.c.get(s.name("A"))).body,
        await outcome(s.c.put(s.name("B"), b"")),
        await outcome(s.c.get(s.name("B"))),
    )


@scenario
async def a_remote_queue_gives_no_messages(s: Stage) -> Any:
    transmission = await s.define("X", "USAGE(XMITQ)")
    await s.c.mqsc(f"DEFINE QREMOTE({s.name('R')}) RNAME(THERE) RQMNAME(QM9) XMITQ({transmission})")
    await s.c.put(s.name("R"), b"far", persistent=True)
    (message,) = await s.browse(transmission)
    return await outcome(s.c.get(s.name("R"))), message.target_queue, message.target_manager


@scenario
async def reports_are_made(s: Stage) -> Any:
    queue, reports = await s.define(), await s.define("R")
    wanted = Report.ARRIVAL | Report.DELIVERY | Report.EXPIRATION | Report.WITH_DATA
    await s.c.put(queue, b"got", report=wanted, reply_to=reports, persistent=True)
    await s.c.put(queue, b"old", report=wanted, reply_to=reports, expiry_s=0.001)
    await asyncio.sleep(0.005)
    first, second = await s.c.get(queue), await s.c.get(queue)
    return first.body, second, sorted((each.feedback, each.body) for each in await s.browse(reports))


@scenario
async def a_waiting_get_gets_what_comes(s: Stage) -> Any:
    queue, other = await s.define(), await s.connect()
    found = []
    for persistent in (True, False):
        if s.tasks:
            waiting = asyncio.create_task(other.get(queue, wait_s=60))
        else:
            waiting = asyncio.create_task(asyncio.to_thread(other._target.get, queue, wait_s=60))
        await asyncio.sleep(0.01)
        await s.c.put(queue, b"came", persistent=persistent)
        found.append((await waiting).body)
    return found, await s.depth(queue)


# --- browse ---------------------------------------------------------------------------------------


@scenario
async def browsing_leaves_everything_where_it_is(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue)
    return await s.bodies(queue), await s.bodies(queue), await s.depth(queue)


@scenario
async def browsing_goes_on_beyond_what_one_answer_holds(s: Stage) -> Any:
    queue = await s.define()
    async with s.c.unit_of_work() as unit:
        await unit.put_many(queue, [b"%d" % number for number in range(620)])
    return [int(body) for body in await s.bodies(queue)] == list(range(620))


@scenario
async def browsing_passes_over_what_a_unit_has(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 3)
    async with s.c.unit_of_work() as unit:
        await unit.get(queue)
        await unit.put(queue, b"not yet")
        seen = await s.bodies(queue)
    return seen, await s.bodies(queue)


# --- units of work --------------------------------------------------------------------------------


@scenario
async def a_commit_makes_everything_happen(s: Stage) -> Any:
    source, target = await s.define("A"), await s.define("B")
    await s.fill(source, 2)
    unit = s.c.unit_of_work()
    states = [unit.state]
    got = await unit.get(source)
    await unit.put(target, got.body, persistent=True)
    before = await s.status(target)
    await unit.commit()
    states.append(unit.state)
    return states, before, await s.left(source), await s.left(target)


@scenario
async def backing_out_lets_nothing_happen(s: Stage) -> Any:
    source, target = await s.define("A"), await s.define("B")
    await s.fill(source, 3)
    unit = s.c.unit_of_work()
    await unit.get(source)
    await unit.get(source)
    await unit.put(target, b"")
    await unit.back_out()
    return unit.state, await s.left(source), await s.left(target)


@scenario
async def what_is_backed_out_uncounted_returns_unharmed(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 3)
    unit = s.c.unit_of_work()
    await unit.get_many(queue, 2)
    await unit.back_out(counted=False)
    return await s.left(queue)


@scenario
async def an_exception_backs_a_unit_out(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 2)
    try:
        async with s.c.unit_of_work() as unit:
            await unit.get(queue)
            raise KeyError
    except KeyError:
        pass
    return unit.state, await s.left(queue)


@scenario
async def a_finished_unit_refuses_every_verb(s: Stage) -> Any:
    queue = await s.define()
    found = []
    for end in ("commit", "back_out"):
        unit = s.c.unit_of_work()
        await unit.put(queue, b"x")
        await getattr(unit, end)()
        verbs = (
            unit.put(queue, b""),
            unit.get(queue),
            unit.get_many(queue),
            unit.get_group(queue),
            unit.put_many(queue, [b""]),
            unit.commit(),
            unit.back_out(),
            unit.prepare(b"x"),
        )
        found += [await outcome(verb) for verb in verbs]
    return found, await s.left(queue)


@scenario
async def an_empty_unit_ends_either_way(s: Stage) -> Any:
    first, second = s.c.unit_of_work(), s.c.unit_of_work()
    await first.commit()
    await second.back_out()
    return first.state, second.state


@scenario
async def the_next_unit_begins_while_a_commit_is_on_its_way(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 4)
    reader = s.c.reader(queue)
    first, second = s.c.unit_of_work(), s.c.unit_of_work()
    found = [message.body for message in await reader.get_many(first, 2)]
    await first.put(queue, b"of the first")
    await first.begin_commit()
    found += [message.body for message in await reader.get_many(second, 2)]
    found.append(0 <= reader.ready <= 1)  # how far the server is ahead is its own matter
    await second.back_out()
    await first.finish_commit()
    await reader.close()
    return found, first.state, second.state, sorted(await s.bodies(queue))


@scenario
async def a_commit_on_its_way_is_asked_for_once(s: Stage) -> Any:
    queue = await s.define()
    unit = s.c.unit_of_work()
    await unit.put(queue, b"x")
    await unit.begin_commit()
    refused = await outcome(unit.put(queue, b"late"))
    await unit.finish_commit()
    await unit.finish_commit()
    return refused, await outcome(unit.begin_commit()), unit.state, await s.bodies(queue)


@scenario
async def two_units_never_have_the_same_message(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 3)
    first, second = s.c.unit_of_work(), s.c.unit_of_work()
    found = [(await unit.get(queue)).body for unit in (first, second, first)]
    nothing = await second.get(queue)
    await first.back_out()
    again = [(await second.get(queue)).backout_count for _ in range(2)]
    await second.commit()
    return found, nothing, again, await s.depth(queue)


@scenario
async def a_refused_put_leaves_nothing_of_its_unit(s: Stage) -> Any:
    full, other = await s.define("F", "MAXDEPTH(1)"), await s.define("O")
    await s.fill(other, 1)

    async def work() -> None:
        async with s.c.unit_of_work() as unit:
            await unit.get(other)
            await unit.put(other, b"new")
            await unit.put(full, b"1")
            await unit.put(full, b"2")

    return await outcome(work()), await s.left(other), await s.left(full)


@scenario
async def a_unit_has_a_limit_of_messages(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue)
    await s.c.mqsc("ALTER QMGR MAXUMSGS(4)")
    try:
        unit = s.c.unit_of_work()
        first = [message.body for message in await unit.get_many(queue, 6)]
        refused = [await outcome(unit.get_many(queue, 6)), await outcome(unit.get(queue))]
        locked = await s.status(queue)
        await unit.commit()

        async def put_too_many() -> None:
            async with s.c.unit_of_work() as unit:
                await unit.put_many(queue, [b"x"] * 5)

        return first, refused, locked, unit.state, await outcome(put_too_many()), await s.left(queue)
    finally:
        await s.c.mqsc("ALTER QMGR MAXUMSGS(10000)")


@scenario
async def a_batch_loses_nothing_at_the_limit_when_it_is_committed_on_the_error(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 20)
    await s.c.mqsc("ALTER QMGR MAXUMSGS(7)")
    try:
        seen: list[bytes] = []
        unit = s.c.unit_of_work()
        for _ in range(20):
            found = await outcome(unit.get_many(queue, 3))
            if isinstance(found, tuple):
                await unit.commit()
                unit = s.c.unit_of_work()
            else:
                seen += [message.body for message in found]
        await unit.commit()
        return seen, await s.left(queue)
    finally:
        await s.c.mqsc("ALTER QMGR MAXUMSGS(10000)")


@scenario
async def many_are_got_at_once(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue)
    async with s.c.unit_of_work() as unit:
        found = [[message.body for message in await unit.get_many(queue, limit)] for limit in (1, 3, 100)]
        nothing = [await unit.get_many(queue), await unit.get_many(queue, 5, wait_s=0.005)]
    return found, nothing, await s.depth(queue)


@scenario
async def many_are_got_by_selector(s: Stage) -> Any:
    queue = await s.define()
    for number in range(6):
        await s.c.put(queue, b"%d" % number, properties={"even": number % 2 == 0})
    async with s.c.unit_of_work() as unit:
        found = [message.body for message in await unit.get_many(queue, selector="even = TRUE")]
    return found, await s.bodies(queue)


@scenario
async def a_wrong_batch_is_told(s: Stage) -> Any:
    queue = await s.define()
    unit = s.c.unit_of_work()
    found = [await outcome(unit.get_many(queue, limit)) for limit in (0, -1, "x", 10**9)]
    found += [await outcome(unit.get_many("NOWHERE")), await outcome(unit.get_group("NOWHERE"))]
    found += [await outcome(unit.put_many(queue, bodies)) for bodies in (b"x", "x", 5, [b"x", "y"])]
    found += [await outcome(unit.put_many(queue, [b"x"], message_id=b"m"))]
    await unit.back_out()
    return found, await s.depth(queue)


@scenario
async def many_are_put_at_once(s: Stage) -> Any:
    queue = await s.define()
    async with s.c.unit_of_work() as unit:
        ids = await unit.put_many(queue, [b"%d" % number for number in range(5)], persistent=True, priority=3)
    found = await s.browse(queue)
    return len(set(ids)), ids == [each.message_id for each in found], [(each.body, each.priority) for each in found]


@scenario
async def a_batch_that_is_refused_leaves_nothing(s: Stage) -> Any:
    queue, full = await s.define("A"), await s.define("F", "MAXDEPTH(3)")

    async def work() -> None:
        async with s.c.unit_of_work() as unit:
            await unit.put_many(queue, [b"1", b"2"])
            await unit.put_many(full, [b"1", b"2", b"3", b"4"])

    return await outcome(work()), await s.left(queue), await s.left(full)


@scenario
async def a_group_comes_whole(s: Stage) -> Any:
    queue = await s.define()
    for sequence in (2, 1):
        await s.c.put(queue, b"%d" % sequence, group_id=b"g", sequence=sequence)
    unit = s.c.unit_of_work()
    not_whole = [await unit.get_group(queue), await unit.get_group(queue, wait_s=0.005)]
    await s.c.put(queue, b"3", group_id=b"g", sequence=3, last_in_group=True)
    await s.c.put(queue, b"alone")
    found = [[message.body for message in await unit.get_group(queue)] for _ in range(2)]
    await unit.back_out()
    return not_whole, found, await s.left(queue)


@scenario
async def a_group_is_chosen_by_selector(s: Stage) -> Any:
    queue = await s.define()
    for group in (b"a", b"b"):
        await s.c.put(queue, group, group_id=group, properties={"name": group.decode()})
        await s.c.put(queue, group, group_id=group, sequence=2, last_in_group=True)
    async with s.c.unit_of_work() as unit:
        found = await unit.get_group(queue, selector="name = 'b'")
        wrong = await outcome(unit.get_group(queue, selector="name ="))
    return [message.body for message in found], wrong, await s.bodies(queue)


@scenario
async def a_group_that_is_too_large_locks_nothing(s: Stage) -> Any:
    queue = await s.define()
    for sequence in range(1, 7):
        await s.c.put(queue, b"%d" % sequence, group_id=b"g", sequence=sequence, last_in_group=sequence == 6)
    await s.c.mqsc("ALTER QMGR MAXUMSGS(4)")
    try:
        unit = s.c.unit_of_work()
        refused = await outcome(unit.get_group(queue))
        await unit.commit()
    finally:
        await s.c.mqsc("ALTER QMGR MAXUMSGS(10000)")
    return refused, await s.left(queue)


@scenario
async def only_messages_of_whole_groups_come_if_wanted(s: Stage) -> Any:
    queue = await s.define()
    await s.c.put(queue, b"part", group_id=b"p")
    await s.c.put(queue, b"1", group_id=b"w")
    await s.c.put(queue, b"2", group_id=b"w", sequence=2, last_in_group=True)
    return [(await s.c.get(queue, whole_group=True)).body, await s.bodies(queue)]


@scenario
async def what_failed_too_often_moves_to_the_backout_queue(s: Stage) -> Any:
    back = await s.define("B")
    queue = await s.define("Q", f"BOTHRESH(2) BOQNAME({back})")
    await s.fill(queue, 2)
    for _ in range(2):
        unit = s.c.unit_of_work()
        await unit.get(queue)
        await unit.back_out()
    async with s.c.unit_of_work() as unit:
        found = await unit.get(queue)
    await s.moved(back)
    (moved,) = await s.browse(back)
    return found.body, moved.body, moved.properties["dead_letter_reason"], await s.left(queue)


@scenario
async def without_a_backout_queue_it_becomes_a_dead_letter(s: Stage) -> Any:
    queue = await s.define("Q", "BOTHRESH(1)")
    await s.fill(queue, 2)
    unit = s.c.unit_of_work()
    await unit.get(queue)
    await unit.back_out()
    async with s.c.unit_of_work() as unit:
        found = [message.body for message in await unit.get_many(queue)]
    dead = await s.dead(queue)
    return found, dead, await s.left(queue)


@scenario
async def a_prepared_unit_waits_for_its_outcome(s: Stage) -> Any:
    queue = await s.define()
    found = []
    for commit in (True, False):
        transaction_id = s.name(str(commit)).encode()
        unit = s.c.unit_of_work()
        await unit.put(queue, b"x", persistent=True)
        await unit.prepare(transaction_id)
        found += [unit.state, transaction_id in await s.c.in_doubt(), await outcome(unit.commit())]
        again = s.c.unit_of_work()
        await again.put(queue, b"y", persistent=True)
        found += [await outcome(again.prepare(transaction_id)), again.state]
        await outcome(again.back_out())
        await s.c.resolve(transaction_id, commit=commit)
        found += [await s.left(queue), await outcome(s.c.resolve(transaction_id, commit=True))]
    return found


@scenario
async def a_log_that_wraps_refuses_nothing(s: Stage) -> Any:
    queue = await s.define()
    return [await outcome(_pair(s, queue)) for _ in range(60)], await s.depth(queue)


async def _pair(s: Stage, queue: str) -> bytes:
    await s.c.put(queue, bytes(40_000), persistent=True)
    return bytes((await s.c.get(queue)).body[:1])


@scenario
async def a_unit_that_is_larger_than_the_log_stays_active(s: Stage) -> Any:
    queue = await s.define()
    unit = s.c.unit_of_work()
    for _ in range(45):
        await unit.put(queue, bytes(60_000), persistent=True)
    refused, state = await outcome(unit.commit()), unit.state
    await unit.back_out()
    return refused, state, unit.state, await s.depth(queue)


@scenario
async def closing_a_connection_backs_out_what_is_open(s: Stage) -> Any:
    queue, other = await s.define(), await s.connect()
    await s.fill(queue, 3)
    unit = other.unit_of_work()
    await unit.get(queue)
    await unit.put(queue, b"never")
    await other.close()
    return unit.state, await s.left(queue)


@scenario
async def a_closed_connection_refuses_every_verb(s: Stage) -> Any:
    queue, other = await s.define(), await s.connect()
    await other.close()
    await other.close()

    def unit_of_work() -> Any:
        return other.unit_of_work()

    async def begin() -> None:
        unit_of_work()

    return [
        await outcome(other.put(queue, b"")),
        await outcome(other.get(queue)),
        await outcome(s.browse(queue, other)),
        await outcome(other.consume(queue)),
        await outcome(other.subscribe("a")),
        await outcome(other.mqsc("PING QMGR")),
        await outcome(other.in_doubt()),
        await outcome(other.request(queue, b"")),
        await outcome(begin()),
    ]


# --- requests, dynamic queues, administration -----------------------------------------------------


@scenario
async def a_request_is_answered(s: Stage) -> Any:
    queue = await s.define()
    with s.responder(queue):
        if s.tasks:
            reply = await s.c.request(queue, b"how much?", timeout_s=60)
        else:
            reply = await asyncio.to_thread(s.c._target.request, queue, b"how much?", timeout_s=60)
            await outcome(s.c.reply_queue())
    return reply.body, reply.type


@scenario
async def a_request_without_an_answer_times_out(s: Stage) -> Any:
    queue = await s.define()
    found = await outcome(s.c.request(queue, b"", timeout_s=0.01))
    return found, await outcome(s.c.request("NOWHERE", b"")), await outcome(s.c.request(queue, b"", timeout_s=0))


@scenario
async def a_reply_needs_somewhere_to_go(s: Stage) -> Any:
    queue, replies = await s.define(), await s.define("R")
    await s.fill(queue, 1)
    await s.c.put(queue, b"q", reply_to=replies, persistent=True)
    first, second = await s.c.get(queue), await s.c.get(queue)
    found = await outcome(s.c.reply(first, b""))
    await s.c.reply(second, b"a")
    (reply,) = await s.browse(replies)
    return found, reply.correlation_id == second.message_id, reply.persistent


@scenario
async def a_dynamic_queue_goes_with_its_connection(s: Stage) -> Any:
    other = await s.connect()
    name = await other.dynamic_queue()
    await other.put(name, b"x")
    found = [(await other.get(name)).body, await outcome(other.put(name, b"", persistent=True))]
    same = await other.reply_queue() == await other.reply_queue()
    await other.close()
    while isinstance(gone := await outcome(s.c.put(name, b"")), bytes):
        await asyncio.sleep(0.002)  # a server lets go of it when the connection has ended
    return found, same, gone, await outcome(s.c.dynamic_queue("NOWHERE"))


@scenario
async def commands_are_carried_out_and_answered(s: Stage) -> Any:
    queue = await s.define(options="DESCR('mine')")
    (answer,) = await s.c.mqsc(f"DISPLAY QLOCAL({queue}) DESCR MAXDEPTH")
    return answer.rows[0]["DESCR"], answer.rows[0]["MAXDEPTH"]


@scenario
async def wrong_commands_are_told_and_others_carried_out(s: Stage) -> Any:
    found = [
        await outcome(s.c.mqsc(script))
        for script in (
            "DEFINE NONSENSE(X)",
            "ALTER QLOCAL(NOWHERE) PUT(DISABLED)",
            f"FOO\nDEFINE QLOCAL({s.name('Q')})",
        )
    ]
    return found, await outcome(s.c.put(s.name("Q"), b"")) != b""


@scenario
async def a_queue_with_messages_is_not_deleted_without_purge(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 2)
    refused = await outcome(s.c.mqsc(f"DELETE QLOCAL({queue})"))
    await s.c.mqsc(f"CLEAR QLOCAL({queue})\nDELETE QLOCAL({queue})")
    return refused, await outcome(s.c.get(queue))


# --- topics ---------------------------------------------------------------------------------------


@scenario
async def publications_reach_subscribers(s: Stage) -> Any:
    topic = s.name("t")
    async with await s.c.subscribe(f"{topic}/+") as one, await s.c.subscribe(f"{topic}/#") as all_of_them:
        for level in ("a", "a/b", "c"):
            await s.c.publish(f"{topic}/{level}", level.encode())
        first = [(await one.get()).body, (await one.get()).body, await one.get()]
        second = [(await all_of_them.get(wait_s=1)).topic.removeprefix(topic) for _ in range(3)]
    return first, second


@scenario
async def a_publication_without_subscribers_goes_nowhere(s: Stage) -> Any:
    return isinstance(await s.c.publish(s.name("nobody"), b"x", persistent=True), bytes)


@scenario
async def a_retained_publication_waits_for_subscribers(s: Stage) -> Any:
    topic = s.name("t")
    await s.c.publish(topic, b"old", retain=True)
    await s.c.publish(topic, b"new", retain=True, persistent=True)
    async with await s.c.subscribe(topic) as first:
        found = await first.get()
    async with await s.c.subscribe(topic, new_only=True) as second:
        return found.body, found.retained, await second.get()


@scenario
async def a_durable_subscription_collects(s: Stage) -> Any:
    topic, name = s.name("t"), s.name("D")
    async with await s.c.subscribe(topic, durable=name) as opened:
        twice = await outcome(s.c.subscribe(topic, durable=name))
        facts = opened.durable, opened.name == name
    await s.c.publish(topic, b"meanwhile", persistent=True)
    async with await s.c.subscribe(durable=name) as opened:
        found = (await opened.get()).body
    await s.c.unsubscribe(name)
    return twice, facts, found, await outcome(s.c.unsubscribe(name)), await outcome(s.c.subscribe(durable=name))


@scenario
async def a_subscription_can_differ_only_if_it_ends_first(s: Stage) -> Any:
    name = s.name("D")
    await (await s.c.subscribe(s.name("a"), durable=name)).close()
    found = await outcome(s.c.subscribe(s.name("b"), durable=name))
    await s.c.unsubscribe(name)
    return found


@scenario
async def publications_are_chosen(s: Stage) -> Any:
    topic = s.name("t")
    async with await s.c.subscribe(topic, selector="n > 1") as some, await s.c.subscribe(topic) as all_of_them:
        for number in range(4):
            await s.c.publish(topic, b"%d" % number, properties={"n": number})
        found = [(await some.get()).body, (await some.get()).body, await some.get()]
        return found, (await all_of_them.get(selector="n = 2")).body


@scenario
async def publications_are_chosen_by_content(s: Stage) -> Any:
    topic = s.name("t")
    async with await s.c.subscribe(topic, content="xpath:/o[@n > 1]") as some:
        for number in range(4):
            await s.c.publish(topic, b'<o n="%d"/>' % number)
        return [(await some.get()).body, (await some.get()).body, await some.get()]


@scenario
async def wrong_topics_and_subscriptions_are_told(s: Stage) -> Any:
    return [
        await outcome(s.c.publish("a/+", b"")),
        await outcome(s.c.publish("", b"")),
        await outcome(s.c.subscribe("a", selector="n >")),
        await outcome(s.c.subscribe("a", content="nonsense")),
        await outcome(s.c.subscribe("a", wildcards="NONE")),
        await outcome(s.c.subscribe()),
        await outcome(s.c.subscribe("a", shared=True)),
        await outcome(s.c.subscribe("a", queue="NOWHERE")),
    ]


@scenario
async def a_shared_subscription_gives_each_publication_once(s: Stage) -> Any:
    topic, name, other = s.name("t"), s.name("S"), await s.connect()
    async with (
        await s.c.subscribe(topic, name=name, shared=True) as mine,
        await other.subscribe(topic, name=name, shared=True) as yours,
    ):
        for number in range(4):
            await s.c.publish(topic, b"%d" % number)
        found = [(await each.get()).body for each in (mine, yours, mine, yours)]
    return sorted(found)


@scenario
async def a_subscription_uses_a_queue_of_ours(s: Stage) -> Any:
    topic, queue = s.name("t"), await s.define()
    async with await s.c.subscribe(topic, queue=queue) as opened:
        await s.c.publish(topic, b"x")
        return opened.queue == queue, (await s.c.get(queue)).body


@scenario
async def a_unit_publishes_when_it_commits(s: Stage) -> Any:
    topic = s.name("t")
    async with await s.c.subscribe(topic) as opened:
        async with s.c.unit_of_work() as unit:
            await unit.publish(topic, b"x", persistent=True)
            before = await opened.get()
        return before, (await opened.get()).body


@scenario
async def publications_are_consumed_like_messages(s: Stage) -> Any:
    topic, seen = s.name("t"), []
    async with await s.c.subscribe(topic) as opened:
        for number in range(4):
            await s.c.publish(topic, b"%d" % number)

        async def turn(message: Any) -> bool:
            seen.append(message.body)
            if message.body == b"1":
                raise KeyError
            return False

        with contextlib.suppress(KeyError):
            await s.loop(opened, turn, wait_s=0.01)
        again = [await opened.get() for _ in range(3)]
        return seen, [(message.body, message.backout_count) for message in again]


# --- claims ---------------------------------------------------------------------------------------


@scenario
async def a_claim_is_had_and_renewed(s: Stage) -> Any:
    name, other = s.name("flow"), await s.connect()
    orders = [await other.claim(name, 1), await other.claim(name, 1, status={"n": 1})]
    (claim,) = await s.c.claims(name)
    return orders, claim.epoch, claim.connected, claim.status


@scenario
async def a_higher_epoch_fences_who_was_there(s: Stage) -> Any:
    queue, old, new, name = await s.define(), await s.connect(), await s.connect(), s.name("flow")
    await s.fill(queue, 3)
    await old.claim(name, 1)
    unit = old.unit_of_work()
    await unit.get(queue)
    await unit.put(queue, b"never", persistent=True)
    await new.claim(name, 2)
    fenced = [
        await outcome(unit.commit()),
        unit.state,
        await outcome(old.put(queue, b"")),
        await outcome(old.get(queue)),
        await outcome(old.consume(queue)),
        await outcome(old.claim(name, 1)),
    ]
    return fenced, await s.left(queue)


@scenario
async def a_fenced_loop_has_its_message_returned(s: Stage) -> Any:
    queue, old, new, name = await s.define(), await s.connect(), await s.connect(), s.name("flow")
    await s.fill(queue, 3, persistent=True)
    await old.claim(name, 1)

    async def turn(_: Any) -> bool:
        await new.claim(name, 2)
        return False

    found = await outcome(s.loop(old, turn, queue=queue, read_ahead=1))
    return found[0], [body for body, _ in await s.left(queue)]


@scenario
async def a_lower_epoch_comes_too_late(s: Stage) -> Any:
    name, first, second = s.name("flow"), await s.connect(), await s.connect()
    await first.claim(name, 5)
    return await outcome(second.claim(name, 4)), (await s.c.claims(name))[0].epoch


@scenario
async def a_name_can_be_retired(s: Stage) -> Any:
    name, other = s.name("flow"), await s.connect()
    await other.claim(name, 1)
    await s.c.retire(name, 2)
    return await outcome(other.put("NOWHERE", b"")), await outcome(s.c.claims(name + "/none"))


@scenario
async def orders_reach_who_acts_under_a_name(s: Stage) -> Any:
    name, other = s.name("flow"), await s.connect()
    await other.claim(name, 1)
    return await s.c.instruct(name, "stop"), await other.claim(name, 1)


@scenario
async def epochs_rise(s: Stage) -> Any:
    name = s.name("flow")
    first, second = await s.c.next_epoch(name), await s.c.next_epoch(name)
    return second > first


@scenario
async def wrong_claims_are_told(s: Stage) -> Any:
    return [
        await outcome(s.c.claim("", 1)),
        await outcome(s.c.claim(s.name("x"), -1)),
        await outcome(s.c.claim(s.name("x"), "1")),
        await outcome(s.c.claim(5, 1)),
        await outcome(s.c.retire("", 1)),
        await outcome(s.c.claims(5)),
    ]


# --- consume --------------------------------------------------------------------------------------


async def _consumed(
    s: Stage, queue: str, turn: Callable[[Any], Awaitable[Any]] | None = None, **options: Any
) -> list[tuple[bytes, int]]:
    """Loop until nothing comes; what was seen. A KeyError of a turn ends it."""
    seen: list[tuple[bytes, int]] = []

    async def one(message: Any) -> Any:
        seen.append((message.body, message.backout_count))
        return None if turn is None else await turn(message)

    try:
        await s.loop(s.c, one, **({"queue": queue, "wait_s": 0.01} | options))
    except KeyError:
        seen.append((b"KeyError", 0))
    return seen


def _at(body: bytes, what: str) -> Callable[[Any], Awaitable[bool]]:
    async def turn(message: Any) -> bool:
        if message.body != body:
            return False
        if what == "raise":
            raise KeyError
        return what == "break"

    return turn


@scenario
async def a_loop_to_the_end_settles_everything(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue)
    return [await _consumed(s, queue, bare=bare) for bare in (False, True)], await s.depth(queue)


@scenario
async def a_loop_is_left_by_an_exception(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue)
    return [(await _consumed(s, queue, _at(b"2", "raise"), bare=bare), await s.left(queue)) for bare in (False, True)]


@scenario
async def a_loop_is_left_by_break(s: Stage) -> Any:
    found = []
    for bare in (False, True):
        queue = await s.define(f"Q{bare}".upper())
        await s.fill(queue)
        found.append((await _consumed(s, queue, _at(b"2", "break"), bare=bare), await s.left(queue)))
    return found


@scenario
async def a_loop_with_little_read_ahead_is_left(s: Stage) -> Any:
    found = []
    for read_ahead in (1, 2, 100):
        queue = await s.define(f"Q{read_ahead}")
        await s.fill(queue)
        found.append((await _consumed(s, queue, _at(b"3", "raise"), read_ahead=read_ahead), await s.left(queue)))
    return found


@scenario
async def a_poison_message_moves_to_the_backout_queue(s: Stage) -> Any:
    back = await s.define("B")
    queue = await s.define("Q", f"BOTHRESH(2) BOQNAME({back})")
    await s.fill(queue, 3)
    seen = [await _consumed(s, queue, _at(b"1", "raise")) for _ in range(3)]
    return seen, await s.left(queue), await s.moved(back)


@scenario
async def messages_are_taken_by_hand(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue)
    consumption = await s.c.consume(queue)
    found = [(await consumption.get()).body, (await consumption.get(1)).body, (await consumption.get(1)).body]
    await consumption.close()
    return found, await consumption.get(), await s.left(queue)


@scenario
async def what_is_settled_by_hand_does_not_return(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 3)
    consumption = await s.c.consume(queue)
    await consumption.get(1)
    await consumption.settle()
    await consumption.settle()
    await consumption.close()
    await consumption.close()
    return await s.left(queue)


@scenario
async def acknowledging_settles_at_once(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue)

    async def turn(message: Any) -> bool:
        if message.body == b"2":
            await message.ack()
            raise KeyError
        return False

    return await _consumed(s, queue, turn), await s.left(queue), await s.depth(queue)


@scenario
async def a_delivery_is_settled_once(s: Stage) -> Any:
    queue, found = await s.define(), []
    await s.fill(queue, 4)
    for first in ("ack", "retry", "reject"):
        consumption = await s.c.consume(queue, read_ahead=1)
        message = await consumption.get(1)
        late = [message.ack, lambda m=message: m.retry(delay_s=1), lambda m=message: m.reject("x")]
        await (message.reject("x") if first == "reject" else getattr(message, first)())
        found.append([await outcome(verb()) for verb in late])
        after = await consumption.get(1)
        found.append(await outcome(message.ack()))
        await consumption.close()
        found.append(await outcome(after.ack()))
    return found, await s.left(queue)


@scenario
async def a_delivery_refuses_wrong_arguments(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 1)
    consumption = await s.c.consume(queue)
    message = await consumption.get(1)
    found = [await outcome(message.retry(delay_s=wrong)) for wrong in (-1, "x", None)]
    found.append(await outcome(message.reject(5)))
    await consumption.close()
    return found, await s.left(queue)


@scenario
async def retrying_returns_with_a_raised_count(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 2)

    async def turn(message: Any) -> bool:
        if message.body == b"0" and message.backout_count < 3:
            await message.retry()
        return False

    return sorted(await _consumed(s, queue, turn)), await s.depth(queue)


@scenario
async def retrying_with_a_delay_keeps_it_from_readers(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 3)

    async def turn(message: Any) -> bool:
        if message.body == b"0" and not message.backout_count:
            await message.retry(delay_s=0.4)
        return False

    first = await _consumed(s, queue, turn)
    between = await s.left(queue)
    found = await s.c.get(queue, wait_s=60)
    return first, between, (found.body, found.backout_count), await s.depth(queue)


@scenario
async def retrying_stops_at_the_threshold(s: Stage) -> Any:
    back = await s.define("B")
    queue = await s.define("Q", f"BOTHRESH(3) BOQNAME({back})")
    await s.fill(queue, 1)

    async def turn(message: Any) -> bool:
        await message.retry(delay_s=0 if message.backout_count < 2 else 3600)
        return False

    return await _consumed(s, queue, turn, wait_s=0.05), await s.left(queue), await s.moved(back)


@scenario
async def rejecting_moves_to_the_backout_queue(s: Stage) -> Any:
    back = await s.define("B")
    queue = await s.define("Q", f"BOQNAME({back})")
    await s.fill(queue, 3)

    async def turn(message: Any) -> bool:
        if message.body != b"1":
            await message.reject(f"why {message.body.decode()}")
        return False

    seen = await _consumed(s, queue, turn)
    moved = [(each.body, each.persistent, each.properties["dead_letter_problem"]) for each in await s.browse(back)]
    return seen, moved, await s.depth(queue)


@scenario
async def rejecting_without_a_backout_queue_makes_a_dead_letter(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 2)

    async def turn(message: Any) -> bool:
        await message.reject("x" * 2000)
        return False

    return await _consumed(s, queue, turn), await s.dead(queue), await s.depth(queue)


@scenario
async def what_no_queue_takes_returns_when_it_is_rejected(s: Stage) -> Any:
    queue = await s.define("Q", f"BOQNAME({s.name('NONE')})")
    await s.fill(queue, 2)
    await s.alter("SYSTEM.DEAD.LETTER.QUEUE", "PUT(DISABLED)")
    try:
        consumption = await s.c.consume(queue, read_ahead=1)
        found = await outcome((await consumption.get(1)).reject("no"))
        await consumption.close()
    finally:
        await s.alter("SYSTEM.DEAD.LETTER.QUEUE", "PUT(ENABLED)")
    return found, await s.left(queue)


@scenario
async def only_chosen_messages_are_consumed(s: Stage) -> Any:
    queue = await s.define()
    for number in range(6):
        await s.c.put(queue, b"%d" % number, properties={"even": number % 2 == 0}, persistent=True)
    seen = await _consumed(s, queue, _at(b"2", "raise"), selector="even = TRUE")
    return seen, await s.left(queue)


@scenario
async def a_queue_is_inhibited_in_the_middle_of_a_loop(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 4)

    async def turn(message: Any) -> bool:
        if message.body == b"1":
            await s.alter(queue, "GET(DISABLED)")
        return False

    found = await outcome(_consumed(s, queue, turn, read_ahead=1, wait_s=1))
    await s.alter(queue, "GET(ENABLED)")
    # Through a channel one more may be on its way when the queue is inhibited.
    return found, (await s.left(queue))[-1]


@scenario
async def wrong_consumers_are_told(s: Stage) -> Any:
    queue = await s.define()
    return [
        await outcome(s.c.consume(queue, read_ahead=0)),
        await outcome(s.c.consume(queue, read_ahead="x")),
        await outcome(s.c.consume(queue, wait_s=-1)),
        await outcome(s.c.consume(queue, selector="a =")),
        await outcome(s.c.consume(queue, unheard_of=1)),
    ]


@scenario
async def closing_the_connection_returns_what_is_at_hand(s: Stage) -> Any:
    queue, other, seen = await s.define(), await s.connect(), []
    await s.fill(queue)

    async def turn(message: Any) -> bool:
        seen.append(message.body)
        if message.body == b"2":
            await other.close()
        return message.body == b"2"

    await s.loop(other, turn, queue=queue)
    return seen, await s.left(queue)


@scenario
async def a_loop_goes_on_after_its_connection_was_closed_only_to_be_told(s: Stage) -> Any:
    queue, other = await s.define(), await s.connect()
    await s.fill(queue, 3)

    async def turn(_: Any) -> bool:
        await other.close()
        return False

    return await outcome(s.loop(other, turn, queue=queue)), await s.left(queue)


@scenario
async def nothing_that_was_handled_comes_again(s: Stage) -> Any:
    queue, other, seen = await s.define(), await s.connect(), []
    await s.fill(queue, 60)

    async def turn(message: Any) -> bool:
        seen.append(message.body)
        return len(seen) == 49

    await s.loop(other, turn, queue=queue)
    await other.close()
    return len(seen), await s.left(queue)


@scenario
async def expired_messages_are_not_consumed(s: Stage) -> Any:
    queue = await s.define()
    await s.c.put(queue, b"short", expiry_s=0.001)
    await s.c.put(queue, b"long", expiry_s=1000)
    await asyncio.sleep(0.005)
    return await _consumed(s, queue), await s.depth(queue)


@scenario
async def a_delivery_report_is_made_when_a_message_is_settled(s: Stage) -> Any:
    queue, reports = await s.define(), await s.define("R")
    for body in (b"0", b"1"):
        await s.c.put(queue, body, report=Report.DELIVERY | Report.WITH_DATA, reply_to=reports, persistent=True)
    seen = await _consumed(s, queue, _at(b"1", "raise"))
    return seen, await s.bodies(reports), await s.left(queue)


# --- what only threads have -----------------------------------------------------------------------


@scenario
async def a_reader_reads_in_units(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue)
    async with s.c.reader(queue, read_ahead=3) as reader:
        async with s.c.unit_of_work() as unit:
            first = [(await reader.get(unit, wait_s=1)).body for _ in range(2)]
        unit = s.c.unit_of_work()
        second = await reader.get(unit, wait_s=1)
        await unit.back_out()
        async with s.c.unit_of_work() as unit:
            again = await reader.get(unit, wait_s=1)
    return first, second.body, (again.body, again.backout_count), await s.left(queue)


@scenario
async def a_reader_loses_nothing_at_the_limit(s: Stage) -> Any:
    queue = await s.define()
    await s.fill(queue, 12)
    await s.c.mqsc("ALTER QMGR MAXUMSGS(5)")
    try:
        seen: list[bytes] = []
        async with s.c.reader(queue, read_ahead=4) as reader:
            unit = s.c.unit_of_work()
            for _ in range(40):
                found = await outcome(reader.get_many(unit, 3))
                if isinstance(found, tuple):
                    await unit.commit()
                    unit = s.c.unit_of_work()
                else:
                    seen += [message.body for message in found]
            await unit.commit()
        return seen, await s.left(queue)
    finally:
        await s.c.mqsc("ALTER QMGR MAXUMSGS(10000)")


@scenario
async def a_reader_wants_a_unit_of_its_connection(s: Stage) -> Any:
    queue, other = await s.define(), await s.connect()
    await s.fill(queue, 2)
    reader = s.c.reader(queue)
    unit = s.c.unit_of_work()
    reader.look_ahead(5)
    found = [await outcome(reader.get(other.unit_of_work())), (await reader.get(unit, wait_s=1)).body]
    found.append(await outcome(reader.get(s.c.unit_of_work())))
    await reader.close()
    await unit.back_out()
    return found, await s.left(queue)


@scenario
async def a_pipeline_puts_and_waits(s: Stage) -> Any:
    queue, topic = await s.define(), s.name("t")
    async with await s.c.subscribe(topic) as opened:
        async with s.c.pipeline() as pipeline:
            for number in range(5):
                await pipeline.put(queue, b"%d" % number, persistent=True)
            await pipeline.publish(topic, b"news")
        return await s.left(queue), (await opened.get()).body


@scenario
async def a_pipeline_tells_the_first_refusal(s: Stage) -> Any:
    queue = await s.define(options="MAXDEPTH(2)")
    pipeline = s.c.pipeline()
    for number in range(4):
        await pipeline.put(queue, b"%d" % number)
    await pipeline.put("NOWHERE", b"")
    return await outcome(pipeline.wait()), await outcome(pipeline.wait()), await s.left(queue)
