# SPDX-License-Identifier: Apache-2.0
"""A client that comes back: what its last connection held is free before the next one reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

from .guests import Guest, House, Work, greeting

Inside = Callable[[Work], None]


async def welcomed(house: House, before: bytes = b"", **hello: Any) -> tuple[Guest, bytes]:
    """A guest, and the token of its session."""
    guest = house.guest(uid=None if "user" in hello else -1)
    welcome = await guest.ask(Verb.HELLO, 1, greeting(before=before, **hello))
    return guest, welcome.token


def test_what_the_session_before_held_is_free_when_the_next_is_welcomed(inside: Inside) -> None:
    async def work(house: House) -> None:
        first, token = await welcomed(house)
        await first.put("Q", b"1", persistent=True)
        assert await first.get("Q", unit=5) is not None
        assert house.held("Q") == 1
        second, _ = await welcomed(house, token)
        assert house.held("Q") == 0
        found = await second.get("Q", unit=5)
        assert found is not None and found.backout_count == 1
        await first.until(lambda: first.wire.lost)

    inside(work)


def test_who_waits_on_the_connection_before_gets_no_answer_but_its_end(inside: Inside) -> None:
    async def work(house: House) -> None:
        first, token = await welcomed(house)
        first.say(Verb.GET, 7, verbs.Get("Q", 0, 60.0))
        await welcomed(house, token)
        await first.until(lambda: first.wire.lost)
        assert [verb for verb, number, _ in first.frames() if number == 7] == []

    inside(work)


def test_only_the_token_of_a_session_of_the_same_user_ends_it(inside: Inside) -> None:
    async def work(house: House) -> None:
        first, token = await welcomed(house)
        await welcomed(house, b"")
        await welcomed(house, bytes(16))
        await welcomed(house, token[:-1])
        await welcomed(house, token, channel="APP", user="ann", password="ann's password")
        assert not first.wire.closing
        assert len(house.registry.sessions) == 5

    inside(work)


def test_a_token_is_good_for_one_session_and_each_has_its_own(inside: Inside) -> None:
    async def work(house: House) -> None:
        tokens = [(await welcomed(house))[1] for _ in range(3)]
        assert len(set(tokens)) == 3
        assert {len(token) for token in tokens} == {16}
        await welcomed(house, tokens[0])
        await welcomed(house, tokens[0])
        assert len(house.registry.sessions) == 4

    inside(work)
