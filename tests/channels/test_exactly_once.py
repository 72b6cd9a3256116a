# SPDX-License-Identifier: Apache-2.0
"""A server that is killed again and again under load: every unit of work happened as its client was told."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

import entrepot.aio
from channels.processes import ServerProcess, until
from entrepot import Connection
from entrepot.errors import ChannelError, EntrepotError, UnitBackedOut, UnitOfWorkError

KILLS = 6
TORTURE_KILLS = 100
ACKNOWLEDGED_MIN = 100
MOVED_MIN = 10


@dataclass
class Told:
    """What clients were told of their units, by the stamp that all messages of a unit carry."""

    acknowledged: set[bytes] = field(default_factory=set)
    unknown: set[bytes] = field(default_factory=set)
    not_done: set[bytes] = field(default_factory=set)
    moves: Counter[str] = field(default_factory=Counter)
    failures: list[BaseException] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, stamp: bytes, error: EntrepotError | None) -> None:
        with self.lock:
            if error is None:
                self.acknowledged.add(stamp)
            elif error.outcome == "unknown":
                self.unknown.add(stamp)
            else:
                self.not_done.add(stamp)


def produce(connection: Connection, name: str, told: Told, stop: threading.Event) -> None:
    """Units that put the same stamp on Q and on R."""
    for number in range(1_000_000):
        if stop.is_set():
            return
        stamp = f"{name}-{number}".encode()
        error: EntrepotError | None = None
        try:
            with connection.unit_of_work() as unit:
                unit.put("Q", stamp, persistent=True)
                unit.put("R", stamp, persistent=True)
        except (ChannelError, UnitOfWorkError) as caught:
            error = caught
        told.tell(stamp, error)
        if number % 10 == 0:
            # Alone: the same promise for a put outside of any unit.
            alone = stamp + b"-alone"
            try:
                connection.put("ALONE", alone, persistent=True)
                told.tell(alone, None)
            except ChannelError as caught:
                told.tell(alone, caught)


def move(connection: Connection, told: Told, stop: threading.Event) -> None:
    """Units that take from Q and put to MOVED."""
    while not stop.is_set():
        try:
            with connection.unit_of_work() as unit:
                message = unit.get("Q", wait_s=0.2)
                if message is not None:
                    unit.put("MOVED", message.body, persistent=True)
            outcome = "done" if message is not None else "none"
        except UnitBackedOut:
            outcome = "backed out"
        except ChannelError as error:
            outcome = error.outcome
        with told.lock:
            told.moves[outcome] += 1


def produce_in_tasks(url: str, told: Told, connected: threading.Event, stop: threading.Event) -> None:
    async def produce(connection: entrepot.aio.Connection, name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            stamp = f"{name}-{number}".encode()
            error: EntrepotError | None = None
            try:
                async with connection.unit_of_work() as unit:
                    await unit.put("Q", stamp, persistent=True)
                    await unit.put("R", stamp, persistent=True)
            except (ChannelError, UnitOfWorkError) as caught:
                error = caught
            told.tell(stamp, error)

    async def main() -> None:
        async with await entrepot.aio.connect(url) as connection:
            connected.set()
            await asyncio.gather(*(produce(connection, f"task{task}") for task in range(4)))

    asyncio.run(main())


def load(process: ServerProcess, kills: int, seed: int) -> Told:
    """Producers and movers, by connections of their own and by a shared one, while the server dies."""
    chance = random.Random(seed)
    told, connected, stop = Told(), threading.Event(), threading.Event()
    own, shared = process.connect(), process.connect()
    for queue in ("Q", "R", "MOVED", "ALONE"):
        own.mqsc(f"DEFINE QLOCAL({queue}) MAXDEPTH(1000000) REPLACE")
    works = [
        lambda: produce(own, "own", told, stop),
        lambda: produce(shared, "shared1", told, stop),
        lambda: produce(shared, "shared2", told, stop),
        lambda: move(shared, told, stop),
        lambda: produce_in_tasks(process.unix_url, told, connected, stop),
    ]

    def guarded(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            told.failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        until(lambda: told.failures or connected.is_set(), "all are connected, which no server refuses yet")
        for _ in range(kills):
            # However slow the machine is, each server has done something before it dies.
            done = len(told.acknowledged)
            enough = done + ACKNOWLEDGED_MIN // kills
            until(lambda enough=enough: told.failures or len(told.acknowledged) > enough, "a server that works")
            time.sleep(chance.uniform(0.05, 0.35))
            process.restart()
        until(lambda: told.failures or told.moves["done"] > MOVED_MIN, "messages that are moved")
    finally:
        stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "somebody waits for ever"
    own.close()
    shared.close()
    if told.failures:
        raise told.failures[0]
    return told


def check(connection: Connection, told: Told) -> None:
    def found(*queues: str) -> Counter[bytes]:
        return Counter(message.body for queue in queues for message in connection.browse(queue))

    first, second, alone = found("Q", "MOVED"), found("R"), found("ALONE")
    together = {stamp for stamp in told.acknowledged if not stamp.endswith(b"-alone")}
    assert [stamp for stamp in together if (first[stamp], second[stamp]) != (1, 1)] == [], "acknowledged, not there"
    assert [stamp for stamp in told.acknowledged - together if alone[stamp] != 1] == []
    assert [stamp for stamp in told.not_done if first[stamp] or second[stamp] or alone[stamp]] == [], "not done, there"
    for stamp in told.unknown:
        assert (first[stamp], second[stamp]) in ((0, 0), (1, 1)), "a unit happens as a whole"
        assert alone[stamp] <= 1
    known = told.acknowledged | told.unknown | told.not_done
    assert (first + second + alone).keys() <= known, "nothing comes from nowhere"
    # Else the test has tested nothing.
    assert len(told.acknowledged) > ACKNOWLEDGED_MIN
    assert told.moves["done"] > MOVED_MIN
    assert told.unknown | told.not_done


def test_units_happen_as_told_though_the_server_is_killed(process: ServerProcess) -> None:
    told = load(process, KILLS, seed=1)
    with process.connect() as connection:
        check(connection, told)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(5))
def test_units_happen_as_told_in_a_long_campaign(process: ServerProcess, seed: int) -> None:
    told = load(process, TORTURE_KILLS, seed)
    with process.connect() as connection:
        check(connection, told)
