# SPDX-License-Identifier: Apache-2.0
"""The subscriptions of a connection: what may be asked for, and what is left when it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.errors import (
    InvalidArgument,
    InvalidName,
    LimitExceeded,
    NotAuthorized,
    SelectorSyntaxError,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from entrepot.limits import SUBSCRIPTION_NAME_CHARACTERS_MAX
from entrepot.server import open_subscriptions
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb
from folding import for_each

from .guests import Guest, House, Work

Inside = Callable[[Work], None]


async def subscribe(guest: Guest, name: str = "", topic: str = "prices/#", **options: Any) -> tuple[str, str]:
    """A subscription's name, and its queue's."""
    done = await guest.ask(Verb.SUBSCRIBE, 9, verbs.Subscribe(name, topic, **options))
    return done.value[0], done.value[1]


async def leave(guest: Guest, name: str, *, end: bool = False) -> None:
    await guest.ask(Verb.UNSUBSCRIBE, 9, verbs.Unsubscribe(name, end))


def names(house: House) -> set[str]:
    return {each.name for each in house.host.definitions() if isinstance(each, SubscriptionDefinition)}


def test_a_subscription_may_have_the_longest_name_and_any_that_can_be_printed(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for name in ("S", "two words, ümlaut", "x" * SUBSCRIPTION_NAME_CHARACTERS_MAX):
            assert (await subscribe(guest, name, durable=True))[0] == name
        assert len(names(house)) == 3

    inside(work)


def test_what_cannot_be_subscribed_is_refused_and_nothing_is_made(inside: Inside) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"name": "x" * (SUBSCRIPTION_NAME_CHARACTERS_MAX + 1)}, InvalidName),
        ({"name": "a\nb"}, InvalidName),
        ({"name": "a\0"}, InvalidName),
        ({"name": "a\0", "topic": ""}, InvalidName),  # which would only be looked for
        ({"queue": "two words"}, InvalidName),
        ({"queue": "two words@QM2"}, InvalidName),
        ({"wildcards": "REGEX"}, InvalidArgument),
        ({"selector": "colour ="}, SelectorSyntaxError),
    ]

    async def work(house: House) -> None:
        guest = await house.admitted()
        for options, error in wrong:
            with pytest.raises(error):
                await subscribe(guest, **({"name": "S", "durable": True} | options))
        assert names(house) == set()
        with pytest.raises(InvalidName):
            await leave(guest, "x" * (SUBSCRIPTION_NAME_CHARACTERS_MAX + 1), end=True)

    inside(work)


def test_a_connection_has_so_many_subscriptions_and_no_more(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_subscriptions, "SUBSCRIPTIONS_PER_CONNECTION_MAX", 3)

    async def work(house: House) -> None:
        guest, other = await house.admitted(), await house.admitted()
        opened = [await subscribe(guest) for _ in range(3)]
        with pytest.raises(LimitExceeded):
            await subscribe(guest)
        await subscribe(other)
        await leave(guest, opened[0][0])
        await subscribe(guest)
        assert len(names(house)) == 4

    inside(work)


def test_a_shared_subscription_stays_open_until_it_was_left_as_often_as_it_was_opened(inside: Inside) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        for _ in range(3):
            await subscribe(guest, "S", shared=True)
        for left in range(3):
            assert names(house) == {"S"}, left
            with pytest.raises(SubscriptionInUse):
                await leave(guest, "S", end=True)
            await leave(guest, "S")
        assert names(house) == set()
        await leave(guest, "S")  # which is not open
        with pytest.raises(SubscriptionNotFound):
            await leave(guest, "S", end=True)

    inside(work)


@for_each("durable", [True, False])
def test_what_a_connection_has_open_is_left_when_it_goes(inside: Inside, durable: bool) -> None:
    async def work(house: House) -> None:
        guest = await house.admitted()
        name, queue = await subscribe(guest, "S" if durable else "", durable=durable)
        if durable:
            with pytest.raises(SubscriptionInUse):
                await subscribe(await house.admitted(), "S", durable=True)
        guest.wire.lose()
        assert (name in names(house), house.host.find("QLOCAL", queue) is not None) == (durable, durable)
        other = await house.admitted()
        if durable:
            await subscribe(other, "S", durable=True)
            await leave(other, "S")
            await leave(other, "S", end=True)
        assert names(house) == set()

    inside(work)


def test_who_may_subscribe_may_read_the_queue_that_was_made_for_it_while_it_is_open(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("SET AUTHREC PROFILE('SYSTEM.BASE.TOPIC') OBJTYPE(TOPIC) PRINCIPAL('ann') AUTHADD(SUB)")
        ann = await house.admitted("ann")
        name, queue = await subscribe(ann, "S", durable=True)
        assert await ann.get(queue) is None
        await leave(ann, name)
        with pytest.raises(NotAuthorized):
            await ann.get(queue)
        await leave(ann, name, end=True)

    inside(work)


def test_without_the_right_nothing_is_subscribed_and_whether_there_is_something_is_not_told(inside: Inside) -> None:
    async def work(house: House) -> None:
        ann, root = await house.admitted("ann"), await house.admitted()
        await subscribe(root, "THERE", durable=True)
        await leave(root, "THERE")
        for name in ("THERE", "NOT.THERE"):
            for ask in (lambda name=name: subscribe(ann, name, ""), lambda name=name: leave(ann, name, end=True)):
                with pytest.raises(NotAuthorized):
                    await ask()
        with pytest.raises(NotAuthorized):
            await subscribe(ann)
        assert names(house) == {"THERE"}
        await leave(root, "THERE", end=True)

    inside(work)


def test_a_name_that_can_be_none_is_refused_before_anybody_asks_for_rights(inside: Inside) -> None:
    async def work(house: House) -> None:
        ann = await house.admitted("ann")
        refused: list[Any] = []
        house.registry.refused = lambda *what: refused.append(what)
        for ask in (subscribe(ann, "a\0"), subscribe(ann, "a\0", ""), leave(ann, "a\0", end=True)):
            with pytest.raises(InvalidName):
                await ask
        assert refused == []

    inside(work)
