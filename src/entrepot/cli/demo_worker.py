# SPDX-License-Identifier: Apache-2.0
"""The demo's child process: owns the queue manager, takes orders and ships them, and may be killed at any moment.

    python -m entrepot.cli.demo_worker PATH ORDERS take-and-ship | ship

It writes a line to standard output for everything it was answered for, at
once and not before: "put 17 8123.25" means that order 17 is on disk, at
that reading of the system's monotonic clock. The parent knows by these
lines what must survive.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import msgspec

import entrepot
from entrepot.embedded import EmbeddedHost

COMMITTERS = 16
"""Threads that put and process at once; they share forces by group commit."""
BACKOUT_THRESHOLD = 3
ORDERS, SHIPPED, BACKOUT = "ORDERS", "SHIPPED", "ORDERS.BACKOUT"


class Order(msgspec.Struct, frozen=True):
    """What a message's body says, in JSON."""

    number: int
    crates: int


class PlannedFailure(Exception):
    """What goes wrong in real life, here on purpose."""


def fails_once(number: int) -> bool:
    """Orders whose first delivery fails; the second one succeeds."""
    return number % 100 == 50


def poison(orders: int) -> int:
    """The order that nobody can process."""
    return orders // 4 + 1


def halt_after(orders: int) -> int:
    """How many orders the first worker ships at most: it is to be killed in the middle, however late that comes."""
    return orders * 3 // 4


def tell(word: str, value: object) -> None:
    # One write for one line, so that lines of several threads do not mix and none is half written.
    os.write(1, f"{word} {value} {time.monotonic():.6f}\n".encode())


class Worker:
    def __init__(self, connection: entrepot.Connection, orders: int, *, shipped_max: int | None) -> None:
        self._connection = connection
        self._orders = orders
        self._shipped_max = shipped_max
        self._shipped = 0
        self._lock = threading.Lock()

    def define(self) -> None:
        depth = self._orders + COMMITTERS
        self._connection.mqsc(
            f"""
            DEFINE QLOCAL({ORDERS}) DEFPSIST(YES) MAXDEPTH({depth}) +
                   BOTHRESH({BACKOUT_THRESHOLD}) BOQNAME({BACKOUT}) REPLACE
            DEFINE QLOCAL({SHIPPED}) DEFPSIST(YES) MAXDEPTH({depth}) REPLACE
            DEFINE QLOCAL({BACKOUT}) DEFPSIST(YES) REPLACE
            """
        )

    def take_orders(self) -> None:
        numbers = iter(range(1, self._orders + 1))
        _together(lambda: self._put_all(numbers))

    def _put_all(self, numbers: Iterator[int]) -> None:
        while True:
            with self._lock:
                number = next(numbers, 0)
            if not number:
                return
            self._connection.put(ORDERS, msgspec.json.encode(Order(number, number % 40 + 1)), persistent=True)
            tell("put", number)

    def ship(self) -> None:
        _together(self._ship_all)

    def _ship_all(self) -> None:
        while True:
            number = 0
            try:
                with self._connection.unit_of_work() as unit:
                    message = unit.get(ORDERS)
                    if message is None:
                        return
                    number = msgspec.json.decode(message.body, type=Order).number
                    unit.put(SHIPPED, message.body, persistent=True)
                    self._stumble(number, message.backout_count)
                    self._stay_if_enough()
            except PlannedFailure:
                tell("failed", number)
                continue
            tell("shipped", number)

    def _stumble(self, number: int, backout_count: int) -> None:
        if number == poison(self._orders) or (fails_once(number) and backout_count == 0):
            raise PlannedFailure

    def _stay_if_enough(self) -> None:
        if self._shipped_max is None:
            return
        with self._lock:
            self._shipped += 1
            if self._shipped <= self._shipped_max:
                return
        # Within an open unit of work: the parent will kill us. Its end of the pipe closes if it dies itself.
        sys.stdin.read()
        os._exit(3)


def _together(work: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(COMMITTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def orders_on(connection: entrepot.Connection, queue: str) -> list[int]:
    """The order numbers on a queue, in its order."""
    return [msgspec.json.decode(message.body, type=Order).number for message in connection.browse(queue)]


def main() -> None:
    path, orders, job = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    begin = time.perf_counter()
    with entrepot.connect(f"embedded:{path}", application="demo") as connection:
        assert isinstance(connection.host, EmbeddedHost)
        restarted = connection.host.restarted
        started = {
            "seconds": time.perf_counter() - begin,
            "replayed_bytes": restarted.replayed_bytes,
            "replayed_records": restarted.replayed_records,
            "torn": restarted.torn,
        }
        first = job == "take-and-ship"
        worker = Worker(connection, orders, shipped_max=halt_after(orders) if first else None)
        if first:
            worker.define()
            worker.take_orders()
        else:
            started["found"] = {queue: orders_on(connection, queue) for queue in (ORDERS, SHIPPED, BACKOUT)}
        tell("ready", msgspec.json.encode(started).decode().replace(" ", ""))
        worker.ship()


if __name__ == "__main__":
    main()
