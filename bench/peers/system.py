# SPDX-License-Identifier: Apache-2.0
"""What a server under measurement offers to the load: start and stop, round trips, and one way.

A system is made and started in the process that leads a trial, and its
methods `drive`, `work`, `producer` and `consume` are called in children
that were forked from it, one role a child. So a system holds nothing but
settings and pids, and a client connects in the child that uses it.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

REPLY_S = 30.0
REQUESTS = "REQUESTS"
ONE_WAY = "ONE.WAY"
TOPIC = "prices/all"

See = Callable[[int], Callable[[bytes], None]]
"""Gives, for the number of a subscriber, the function to call with each body."""

Trips = Generator[bytes, bytes | None, None]
"""Gives the bodies to send, one at a time, and is sent the reply to each, or None when none came within REPLY_S."""


def drive_blocking(round_trip: Callable[[bytes], bytes | None], trips: Trips) -> None:
    """Make the trips with a client whose calls return when they are done."""
    try:
        body = next(trips)
        while True:
            body = trips.send(round_trip(body))
    except StopIteration:
        pass


class Producer(Protocol):
    def send(self, bodies: Sequence[bytes]) -> None:
        """Send a batch, as fast as the client allows."""

    def flush(self) -> None:
        """Return when the server has everything."""


class System(ABC):
    """A server in a folder of its own, reachable from this machine only."""

    name: ClassVar[str]
    title: ClassVar[str]
    commands: ClassVar[tuple[str, ...]] = ()
    """What has to be installed; bench/peers_install knows from where."""
    nonpersistent_contract: ClassVar[str]
    persistent_contract: ClassVar[str] = ""
    """Empty when it offers nothing that compares with a forced log."""
    warm_up_s: ClassVar[float] = 1.0
    """How long it needs to reach its speed under load."""

    def __init__(self, folder: Path, *, persistent: bool = False) -> None:
        self.folder = folder
        self.persistent = persistent
        assert not persistent or self.persistent_contract

    @classmethod
    def missing(cls) -> list[str]:
        """The commands that are not installed here."""
        return [command for command in cls.commands if shutil.which(command) is None]

    @classmethod
    def contract(cls, *, persistent: bool) -> str:
        return cls.persistent_contract if persistent else cls.nonpersistent_contract

    @abstractmethod
    def start(self) -> None:
        """Return when clients can connect and the queues are there."""

    @abstractmethod
    def stop(self) -> None:
        """End every process of the server."""

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """The processes whose CPU time is the server's."""

    @abstractmethod
    def version(self) -> str:
        """Of the server and of the client library."""

    def settings(self) -> dict[str, Any]:
        """What was set otherwise than it comes, and what that favours."""
        return {}

    @abstractmethod
    def drive(self, number: int, trips: Trips) -> int:
        """Connect as the driving application with this number and make the trips.

        Returns how many replies came that answered no request of this driver.
        """

    @abstractmethod
    def work(self, ready: Callable[[], None]) -> None:
        """Serve requests until the process is ended; `ready` is called once they can come."""

    @abstractmethod
    def producer(self) -> Producer:
        """Connect as the only sender of ONE_WAY."""

    @abstractmethod
    def consume(self, see: Callable[[bytes], None], ready: Callable[[], None]) -> None:
        """Hand over each body that comes from ONE_WAY, until the process is ended; `ready` as for `work`."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Publisher(Producer, Protocol):
    def pause(self, seconds: float) -> None:
        """Wait, and let the client go on with what it has to write meanwhile."""


class TopicSystem(System):
    """A server with publish and subscribe; `publisher` and `subscribe` are called in children of their own, too."""

    @abstractmethod
    def publisher(self) -> Publisher:
        """Connect as the only publisher of TOPIC. Persistent: a batch is as safe as the contract says when sent."""

    @abstractmethod
    def subscribe(self, numbers: Sequence[int], see: See, ready: Callable[[], None], *, apart: bool) -> None:
        """Subscribe to TOPIC once for each of the numbers and hand over what comes, until the process is ended.

        All of them share one connection, or have one each if they are `apart`.
        Persistent subscriptions are durable. `ready` as for `work`.
        """
