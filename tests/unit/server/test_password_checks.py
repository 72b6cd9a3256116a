# SPDX-License-Identifier: Apache-2.0
"""Whose password is hashed next, counted in hashes and not in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from entrepot.server import password_checks
from entrepot.server.password_checks import PasswordChecks
from entrepot.server.security.users import Users
from entrepot.testing import VirtualClock

RIGHT = {"ann": "ann's", "bob": "bob's"}


class CountedUsers:
    """Knows passwords, remembers proofs as `Users` does, and writes down what it has hashed."""

    def __init__(self) -> None:
        self.hashed: list[tuple[str, str]] = []
        self.proven: set[tuple[str, str]] = set()

    def is_proven(self, name: str, password: str) -> bool:
        return (name, password) in self.proven

    def verify(self, name: str, password: str) -> bool:
        self.hashed.append((name, password))
        if RIGHT.get(name) == password:
            self.proven.add((name, password))
        return RIGHT.get(name) == password


class Door:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.users = CountedUsers()
        self.checks = PasswordChecks(cast(Users, self.users), self.clock.now)

    async def flood(self, count: int, address: str, name: Callable[[int], str]) -> list[asyncio.Task[bool]]:
        """Wrong passwords that all wait before anybody else comes."""
        tasks = [
            asyncio.create_task(self.checks.verify(address, name(number), f"wrong {number}")) for number in range(count)
        ]
        await asyncio.sleep(0)
        return tasks

    async def hashes_until_in(self, address: str, user: str) -> int:
        before = len(self.users.hashed)
        assert await self.checks.verify(address, user, RIGHT[user])
        return len(self.users.hashed) - before


def run(work: Callable[[Door], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        await work(Door())

    asyncio.run(inside())


@pytest.mark.parametrize("attacker", ["10.0.0.1", "10.9.9.9"])
def test_under_300_wrong_passwords_a_valid_user_gets_in_after_a_few_hashes(attacker: str) -> None:
    async def work(door: Door) -> None:
        flood = await door.flood(300, attacker, lambda _: "mallory")
        assert await door.hashes_until_in("10.0.0.1", "ann") <= 2 * password_checks.HASHES_AT_ONCE + 2
        assert await door.hashes_until_in("10.0.0.1", "ann") == 0, "what was proven is not hashed again"
        assert not any(await asyncio.gather(*flood))

    run(work)


def test_a_flood_under_a_valid_name_or_many_names_is_turned_behind_those_with_a_good_record() -> None:
    async def work(door: Door) -> None:
        assert await door.hashes_until_in("10.0.0.1", "ann") == 1
        flood = await door.flood(300, "10.9.9.9", lambda number: f"name {number}")
        flood += await door.flood(300, "10.9.9.9", lambda _: "ann")
        assert await door.hashes_until_in("10.0.0.1", "ann") == 0
        door.users.proven.clear()  # as after a change of the password
        assert await door.hashes_until_in("10.0.0.1", "ann") <= 2 * password_checks.HASHES_AT_ONCE + 2
        assert await door.hashes_until_in("10.0.0.2", "bob") <= 2 * password_checks.HASHES_AT_ONCE + 4
        assert not any(await asyncio.gather(*flood))

    run(work)


def test_many_connections_of_one_user_cost_one_hash_or_two() -> None:
    async def work(door: Door) -> None:
        assert all(await asyncio.gather(*(door.checks.verify("10.0.0.1", "ann", RIGHT["ann"]) for _ in range(500))))
        assert len(door.users.hashed) <= password_checks.HASHES_AT_ONCE

    run(work)


def test_answers_to_an_address_that_goes_on_guessing_take_longer_and_a_minute_forgets_it() -> None:
    async def work(door: Door) -> None:
        assert door.checks.failure_delay_s("10.9.9.9") == password_checks.FAILURE_DELAY_S
        await asyncio.gather(*await door.flood(40, "10.9.9.9", lambda _: "ann"))
        assert door.checks.failure_delay_s("10.9.9.9") == 4 * password_checks.FAILURE_DELAY_S
        await asyncio.gather(*await door.flood(400, "10.9.9.9", lambda _: "ann"))
        assert door.checks.failure_delay_s("10.9.9.9") == password_checks.FAILURE_DELAY_S_MAX
        assert door.checks.failure_delay_s("10.0.0.1") == password_checks.FAILURE_DELAY_S
        door.clock.advance(61)
        assert door.checks.failure_delay_s("10.9.9.9") == password_checks.FAILURE_DELAY_S

    run(work)


def test_records_and_lanes_of_floods_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_checks, "_RECORDS_MAX", 100)

    async def work(door: Door) -> None:
        for number in range(300):
            await door.checks.verify(f"10.0.{number // 250}.{number % 250}", f"name {number}", "wrong")
        assert len(door.checks._bad) <= 100
        for number in range(300):
            RIGHT[f"user {number}"] = "x"
            assert await door.checks.verify(f"10.1.{number // 250}.{number % 250}", f"user {number}", "x")
        assert len(door.checks._good) <= 100
        assert not any(turns._addresses for turns in door.checks._turns)

    run(work)


def test_so_many_passwords_are_hashed_at_once_and_the_next_when_one_is_done() -> None:
    async def work(door: Door) -> None:
        loop = asyncio.get_running_loop()
        hashing: list[asyncio.Future[bool]] = []

        def begin(*_: Any) -> asyncio.Future[bool]:
            hashing.append(loop.create_future())
            return hashing[-1]

        loop.run_in_executor = begin  # type: ignore[method-assign, assignment]
        flood = await door.flood(5, "10.9.9.9", lambda number: f"name {number}")
        for done in range(5):
            assert len(hashing) == min(done + password_checks.HASHES_AT_ONCE, 5)
            hashing[done].set_result(False)
            await asyncio.wait([flood[done]])
        assert not any(await asyncio.gather(*flood))

    run(work)
