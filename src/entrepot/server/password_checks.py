# SPDX-License-Identifier: Apache-2.0
"""Which password is hashed next: few at a time, and a flood of wrong ones keeps no valid user out.

Hashing takes a processor for tens of milliseconds, so passwords wait. They
wait in lanes, one for each address and user. Lanes with a better record
come first; among equals the addresses take turns, and within an address its
users. A wrong password moves its lane to the end, so that a flood from one
address under one name costs the others about as many hashes as run at once.
A password that was proven meanwhile is not hashed at all.

Records are in memory, bounded, and forgotten after a minute if they are bad.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import NamedTuple

from entrepot.server.security.users import Users

HASHES_AT_ONCE = 2
"""So that a flood of passwords does not take all processors."""
FAILURE_DELAY_S = 1.0
"""How long a refused partner waits for its answer, so that guessing is slow; others are not held up."""
FAILURE_DELAY_S_MAX = 10.0
_FAILURES_FREE = 10
"""Failures of an address within `_BAD_S` before its answers take longer."""
_BAD_S = 60.0
_RECORDS_MAX = 4096
_LANES_PER_ADDRESS_MAX = 16
"""An address that tries more names at a time has one more lane for all the others."""
_OTHER_USERS = "\0other users"

_PROVEN, _PROMISING, _UNKNOWN, _FAILED = range(4)
"""What is known of a lane, the best first."""


class _Attempt(NamedTuple):
    user: str
    password: str
    verdict: asyncio.Future[bool]


_Lane = tuple[str, str]
"""Address and user."""


class PasswordChecks:
    """The passwords that wait; on the loop's thread but for the hashing itself."""

    def __init__(self, users: Users, now: Callable[[], float]) -> None:
        self._users = users
        self._now = now
        self._running = 0
        self._turns = [_Turns() for _ in range(_FAILED + 1)]
        self._good: OrderedDict[Hashable, None] = OrderedDict()
        """Addresses, users, and lanes, whose last password was right."""
        self._bad: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()
        """Addresses and lanes with wrong passwords: how many, and since when."""

    async def verify(self, address: str, user: str, password: str) -> bool:
        """Whether this is the user's password; waits for its turn to be hashed."""
        if self._users.is_proven(user, password):
            self._succeeded(address, user)
            return True
        verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._turns[self._rank((address, user))].add((address, user), _Attempt(user, password, verdict))
        self._run()
        return await verdict

    def failure_delay_s(self, address: str) -> float:
        """How long a refusal to this address takes: longer with every one within a minute."""
        failures = self._failures(address)
        return min(FAILURE_DELAY_S * max(1.0, failures / _FAILURES_FREE), FAILURE_DELAY_S_MAX)

    # --- whose turn it is -------------------------------------------------------------------------

    def _run(self) -> None:
        while self._running < HASHES_AT_ONCE and (found := self._next()) is not None:
            lane, attempt = found
            if attempt.verdict.done():
                continue  # its connection has gone
            if self._users.is_proven(attempt.user, attempt.password):
                self._settle(lane, attempt, right=True)
                continue
            self._running += 1
            hashing = asyncio.get_running_loop().run_in_executor(
                None, self._users.verify, attempt.user, attempt.password
            )
            hashing.add_done_callback(partial(self._hashed, lane, attempt))

    def _next(self) -> tuple[_Lane, _Attempt] | None:
        for rank, turns in enumerate(self._turns):
            while (lane := turns.first()) is not None:
                current = self._rank(lane)
                if current <= rank:
                    return lane, turns.take()
                # Its record has become worse while it waited.
                self._turns[current].take_over(turns, lane)
        return None

    def _hashed(self, lane: _Lane, attempt: _Attempt, done: asyncio.Future[bool]) -> None:
        self._running -= 1
        error = None if done.cancelled() else done.exception()
        if not done.cancelled() and error is None:
            self._settle(lane, attempt, right=done.result())
        elif not attempt.verdict.done():
            attempt.verdict.set_exception(error or asyncio.CancelledError())
        self._run()

    def _settle(self, lane: _Lane, attempt: _Attempt, *, right: bool) -> None:
        if right:
            self._succeeded(*lane)
        else:
            self._failed(*lane)
        if not attempt.verdict.done():
            attempt.verdict.set_result(right)

    # --- records ------------------------------------------------------------------------------------

    def _rank(self, lane: _Lane) -> int:
        address, user = lane
        if self._failures(lane):
            return _FAILED
        if lane in self._good:
            return _PROVEN
        if ("user", user) in self._good or ("address", address) in self._good:
            return _PROMISING
        return _FAILED if self._failures(address) > _FAILURES_FREE else _UNKNOWN

    def _succeeded(self, address: str, user: str) -> None:
        self._bad.pop((address, user), None)
        for key in ((address, user), ("user", user), ("address", address)):
            self._good[key] = None
            self._good.move_to_end(key)
        while len(self._good) > _RECORDS_MAX:
            self._good.popitem(last=False)

    def _failed(self, address: str, user: str) -> None:
        now = self._now()
        for key in (address, (address, user)):
            self._bad[key] = (self._failures(key) + 1, now)
            self._bad.move_to_end(key)
        while len(self._bad) > _RECORDS_MAX:
            self._bad.popitem(last=False)

    def _failures(self, key: Hashable) -> int:
        count, last = self._bad.get(key, (0, 0.0))
        return count if self._now() - last < _BAD_S else 0


class _Turns:
    """Attempts of one rank: addresses take turns, and within an address its users."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, OrderedDict[str, deque[_Attempt]]] = OrderedDict()

    def add(self, lane: _Lane, *attempts: _Attempt) -> None:
        address, user = lane
        lanes = self._addresses.setdefault(address, OrderedDict())
        if user not in lanes and len(lanes) >= _LANES_PER_ADDRESS_MAX:
            user = _OTHER_USERS
        lanes.setdefault(user, deque()).extend(attempts)

    def first(self) -> _Lane | None:
        """The lane whose turn it is; for that of several users, the user of its first attempt."""
        for address, lanes in self._addresses.items():
            attempts = next(iter(lanes.values()))
            return address, attempts[0].user
        return None

    def take(self) -> _Attempt:
        """Its first attempt; the next address and the next of its users are to follow."""
        address, lanes = self._addresses.popitem(last=False)
        user, attempts = lanes.popitem(last=False)
        attempt = attempts.popleft()
        if attempts:
            lanes[user] = attempts
        if lanes:
            self._addresses[address] = lanes
        return attempt

    def take_over(self, other: _Turns, lane: _Lane) -> None:
        """Let all of a lane that is first elsewhere wait here."""
        address, user = lane
        lanes = other._addresses[address]
        name, attempts = next(iter(lanes.items()))
        staying = deque(attempt for attempt in attempts if attempt.user != user)
        self.add(lane, *(attempt for attempt in attempts if attempt.user == user))
        if staying:
            lanes[name] = staying
        else:
            del lanes[name]
        if not lanes:
            del other._addresses[address]
