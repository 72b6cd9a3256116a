# SPDX-License-Identifier: Apache-2.0
"""Redis with redis-py: a list of requests, and a list of replies for each driver.

Redis has no descriptor beside a value, so name of the reply list and
correlation id go before the body. The commands are the pair that every
tutorial shows, LPUSH and BRPOP; one connection per client without a pool in
between, which is redis-py at its fastest.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import redis

from peers.system import ONE_WAY, REPLY_S, REQUESTS, Producer, System, Trips, drive_blocking
from processes import LOOPBACK, Server, accepts, free_port

AT_ONCE = 100


class Redis(System):
    name = "redis"
    title = "Redis, redis-py"
    commands = ("redis-server",)
    nonpersistent_contract = "memory; no append-only file, no snapshot; a popped message is gone if its reader fails"

    def start(self) -> None:
        self._port = free_port()
        command = ["redis-server", "--port", str(self._port), "--bind", LOOPBACK, "--dir", str(self.folder)]
        self._server = Server([*command, "--appendonly", "no", "--save", ""], self.folder / "log")
        self._server.wait_until(lambda: accepts(self._port))

    def stop(self) -> None:
        if hasattr(self, "_server"):
            self._server.stop()

    @property
    def pids(self) -> list[int]:
        return [self._server.pid]

    def version(self) -> str:
        found = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
        return f"{found.stdout.strip()}; redis-py {metadata.version('redis')}"

    def settings(self) -> dict[str, Any]:
        return {"appendonly": "no", "save": "", "reply list": "one per driver", "client": "single_connection_client"}

    def client(self) -> Any:
        return redis.Redis(LOOPBACK, self._port, single_connection_client=True)

    def drive(self, number: int, trips: Trips) -> int:
        driver = _Driver(self.client(), f"REPLIES.{number}")
        drive_blocking(driver.round_trip, trips)
        return driver.unexpected

    def work(self, ready: Callable[[], None]) -> None:
        client = self.client()
        client.ping()
        ready()
        while True:
            taken = client.brpop([REQUESTS], timeout=0)
            reply_to, rest = taken[1].split(b" ", 1)
            client.lpush(reply_to, rest)

    def producer(self) -> Producer:
        return _Producer(self.client())

    def consume(self, see: Callable[[bytes], None], ready: Callable[[], None]) -> None:
        client = self.client()
        client.ping()
        ready()
        while True:
            # One command waits and takes what is there, up to a batch.
            _, bodies = client.blmpop(0, 1, ONE_WAY, direction="RIGHT", count=AT_ONCE)
            for body in bodies:
                see(body)


class _Driver:
    def __init__(self, client: Any, reply_list: str) -> None:
        self._client = client
        self._reply_list = reply_list
        self._numbers = itertools.count()
        self.unexpected = 0

    def round_trip(self, body: bytes) -> bytes | None:
        correlation = b"%d" % next(self._numbers)
        self._client.lpush(REQUESTS, b"%b %b %b" % (self._reply_list.encode(), correlation, body))
        while True:
            taken = self._client.brpop([self._reply_list], timeout=REPLY_S)
            if taken is None:
                return None
            found, reply = taken[1].split(b" ", 1)
            if found == correlation:
                return bytes(reply)
            self.unexpected += 1


class _Producer:
    def __init__(self, client: Any) -> None:
        self._client = client

    def send(self, bodies: Sequence[bytes]) -> None:
        # One command for the batch, which costs less than a pipeline of as many.
        self._client.lpush(ONE_WAY, *bodies)

    def flush(self) -> None:
        """Every batch was answered already."""
