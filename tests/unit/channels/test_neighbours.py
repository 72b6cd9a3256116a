# SPDX-License-Identifier: Apache-2.0
"""Parent and children of a queue manager, by the messages that they would send each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from entrepot.channels import neighbours as neighbours_module
from entrepot.channels.neighbours import Neighbours, _WantedTopics
from entrepot.engine.definitions import (
    INTERMANAGER_CONTROL,
    INTERMANAGER_PUBLICATIONS,
    LocalQueue,
    SubscriptionDefinition,
)
from entrepot.message import Message
from unit.server.guests import House, Work

Inside = Callable[[Work], None]
DEAD = "SYSTEM.DEAD.LETTER.QUEUE"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours_module, "_RETRY_S", 0.001)


@asynccontextmanager
async def opened(house: House, *, parent: str = "") -> AsyncIterator[Neighbours]:
    """This queue manager with ways to HQ and EAST, and perhaps a parent."""
    for name in ("HQ", "EAST"):
        if house.host.find("QLOCAL", name) is None:
            house.host.define(LocalQueue(name=name, usage="XMITQ"), replace=False)
    set_parent(house, parent)
    neighbours = Neighbours(house.registry)
    neighbours.open()
    yield neighbours
    neighbours.close()


def set_parent(house: House, parent: str) -> None:
    attributes = house.host.manager_attributes()
    house.host.alter(msgspec.structs.replace(attributes, parent=parent))


def told(house: House, neighbour: str) -> list[_WantedTopics]:
    """What waits for a neighbour on its transmission queue."""
    found = house.host.browse(neighbour, None, None, 99)[0]
    assert {message.target_queue for message in found} <= {INTERMANAGER_CONTROL}
    return [msgspec.msgpack.decode(message.body, type=_WantedTopics) for message in found]


def kinds(house: House, neighbour: str) -> list[str]:
    return [wishes.kind for wishes in told(house, neighbour)]


async def heard(house: House, neighbour: str, kind: str, *topics: str, answer_wanted: bool = False) -> None:
    """A neighbour has told something."""
    wishes = _WantedTopics(kind, neighbour, [("TOPIC", topic) for topic in topics], answer_wanted)  # type: ignore[arg-type]
    message = Message(msgspec.msgpack.encode(wishes))
    await asyncio.to_thread(house.host.put, INTERMANAGER_CONTROL, message, persistent=True)


def proxies(house: House, neighbour: str) -> set[str]:
    rows = (
        each for each in house.host.definitions() if isinstance(each, SubscriptionDefinition) and each.type == "PROXY"
    )
    return {row.topic for row in rows if row.destination_manager == neighbour}


def rows(neighbours: Neighbours) -> list[tuple[str, str]]:
    return [(str(row["TYPE"]), str(row["QMNAME"])) for row in neighbours.status()]


# --- what is wanted here ---------------------------------------------------------------------------


def test_a_parent_is_told_everything_when_the_queue_manager_starts_and_is_asked_back(inside: Inside) -> None:
    async def work(house: House) -> None:
        await asyncio.to_thread(house.mqsc, "DEFINE SUB(S) TOPICSTR('prices/#') DEST(Q)")
        async with opened(house, parent="HQ") as neighbours:
            await house.until(lambda: told(house, "HQ"))
            assert told(house, "HQ") == [_WantedTopics("ALL", "QM1", [("TOPIC", "prices/#")], True)]
            assert rows(neighbours) == [("LOCAL", "QM1"), ("PARENT", "HQ")]

    inside(work)


def test_changes_are_told_one_by_one_and_never_after_the_end(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with opened(house, parent="HQ"):
            await asyncio.to_thread(house.mqsc, "DEFINE SUB(S) TOPICSTR('a') DEST(Q)")
            await house.until(lambda: kinds(house, "HQ") == ["ALL", "ADD"])
            await asyncio.to_thread(house.mqsc, "DEFINE SUB(S2) TOPICSTR('a') DEST(R)")
            await asyncio.to_thread(house.mqsc, "DELETE SUB(S)\nDELETE SUB(S2)")
            await house.until(lambda: "REMOVE" in kinds(house, "HQ"))
            assert [wishes.patterns for wishes in told(house, "HQ")][-1] == [("TOPIC", "a")]
        before = kinds(house, "HQ")
        await asyncio.to_thread(house.mqsc, "DEFINE SUB(S) TOPICSTR('b') DEST(Q)")
        await asyncio.sleep(0)
        assert kinds(house, "HQ") == before

    inside(work)


def test_another_parent_is_told_and_the_one_before_is_left(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with opened(house, parent="HQ") as neighbours:
            await heard(house, "HQ", "ADD", "prices")
            await house.until(lambda: proxies(house, "HQ") == {"prices"})
            neighbours.refresh()
            set_parent(house, "EAST")
            neighbours.refresh()
            await house.until(lambda: "ALL" in kinds(house, "EAST") and not proxies(house, "HQ"))
            assert [kind for kind in kinds(house, "HQ") if kind != "REMOVE"] == ["ALL", "LEAVE"]
            assert rows(neighbours) == [("LOCAL", "QM1"), ("PARENT", "EAST")]

    inside(work)


def test_who_cannot_be_told_in_part_is_told_everything_later(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.host.define(LocalQueue(name="HQ", usage="XMITQ", put_enabled=False), replace=False)
        async with opened(house, parent="HQ"):
            assert told(house, "HQ") == []
            house.host.define(LocalQueue(name="HQ", usage="XMITQ"), replace=True)
            await house.until(lambda: told(house, "HQ"))
            assert (told(house, "HQ")[0].kind, told(house, "HQ")[0].answer_wanted) == ("ALL", True)

    inside(work)


# --- what neighbours want --------------------------------------------------------------------------


def test_wishes_of_a_child_become_proxies_and_go_with_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with opened(house) as neighbours:
            steps: list[tuple[str, tuple[str, ...], set[str]]] = [
                ("ALL", ("a", "b"), {"a", "b"}),
                ("ADD", ("b", "c"), {"a", "b", "c"}),
                ("REMOVE", ("a", "z"), {"b", "c"}),
                ("ALL", ("c", "d"), {"c", "d"}),
            ]
            for kind, topics, expected in steps:
                await heard(house, "EAST", kind, *topics)
                await house.until(lambda expected=expected: proxies(house, "EAST") == expected)
            assert rows(neighbours) == [("LOCAL", "QM1"), ("CHILD", "EAST")]
            await heard(house, "EAST", "LEAVE")
            await house.until(lambda: not proxies(house, "EAST"))
            assert rows(neighbours) == [("LOCAL", "QM1")]

    inside(work)


@pytest.mark.parametrize("answer_wanted", [True, False])
def test_who_asks_is_told_what_is_wanted_here_but_not_what_it_wants_itself(inside: Inside, answer_wanted: bool) -> None:
    async def work(house: House) -> None:
        await asyncio.to_thread(house.mqsc, "DEFINE SUB(S) TOPICSTR('here') DEST(Q)")
        async with opened(house):
            await heard(house, "EAST", "ALL", "there", answer_wanted=answer_wanted)
            await house.until(lambda: proxies(house, "EAST") == {"there"})
            await house.until(lambda: ("ALL" in kinds(house, "EAST")) == answer_wanted)
            wanted = [wishes.patterns for wishes in told(house, "EAST") if wishes.kind in ("ALL", "ADD")]
            assert wanted == [[("TOPIC", "here")]] * answer_wanted

    inside(work)


def test_children_are_told_everything_after_a_restart(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with opened(house):
            await heard(house, "EAST", "ALL", "a")
            await house.until(lambda: proxies(house, "EAST"))
        assert "ALL" not in kinds(house, "EAST")
        async with opened(house) as neighbours:
            await house.until(lambda: "ALL" in kinds(house, "EAST"))
            assert rows(neighbours) == [("LOCAL", "QM1"), ("CHILD", "EAST")]

    inside(work)


def test_what_nobody_understands_goes_to_the_dead_letter_queue_and_the_rest_goes_on(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with opened(house):
            await asyncio.to_thread(house.host.put, INTERMANAGER_CONTROL, Message(b"nonsense"), persistent=True)
            await heard(house, "EAST", "ALL", "a")
            await house.until(lambda: proxies(house, "EAST") == {"a"} and house.depth(DEAD) == 1)

    inside(work)


# --- publications ----------------------------------------------------------------------------------


def test_publications_of_neighbours_are_published_here_and_what_was_here_before_is_not(inside: Inside) -> None:
    async def work(house: House) -> None:
        await asyncio.to_thread(house.mqsc, "DEFINE SUB(S) TOPICSTR('prices') DEST(Q)")
        async with opened(house):
            for body, route in ((b"new", "HQ"), (b"came back", "QM1,HQ"), (b"next", "")):
                message = Message(body, topic="prices", properties={neighbours_module.ROUTE: route} if route else {})
                await asyncio.to_thread(house.host.put, INTERMANAGER_PUBLICATIONS, message, persistent=True)
            await house.until(lambda: house.depth("Q") == 2 and house.depth(INTERMANAGER_PUBLICATIONS) == 0)
            found = house.host.browse("Q", None, None, 9)[0]
            assert [(each.body, dict(each.properties)) for each in found] == [(b"new", {}), (b"next", {})]

    inside(work)


@pytest.mark.parametrize("is_late", [True, False])
def test_a_queue_that_cannot_be_read_for_a_while_is_read_again(inside: Inside, is_late: bool) -> None:
    async def work(house: House) -> None:
        inhibit, allow = (f"ALTER QLOCAL({INTERMANAGER_CONTROL}) GET({word})" for word in ("DISABLED", "ENABLED"))
        if not is_late:
            await asyncio.to_thread(house.mqsc, inhibit)
        async with opened(house):
            if is_late:
                await asyncio.to_thread(house.mqsc, inhibit)
            await heard(house, "EAST", "ALL", "a")
            assert proxies(house, "EAST") == set()
            await asyncio.to_thread(house.mqsc, allow)
            await house.until(lambda: proxies(house, "EAST") == {"a"})

    inside(work)


def test_who_has_closed_reads_and_tells_nothing(inside: Inside) -> None:
    async def work(house: House) -> None:
        async with opened(house):
            pass
        await heard(house, "EAST", "ALL", "a")
        await asyncio.sleep(0)
        assert (proxies(house, "EAST"), house.depth(INTERMANAGER_CONTROL)) == (set(), 1)

    inside(work)
