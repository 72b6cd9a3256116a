# SPDX-License-Identifier: Apache-2.0
"""A system under measurement: how it is started, what it promises, and the clients that its users would use.

A system is made and started in the process that leads a trial. Its clients
are made in processes that were forked from that one, one client a thread;
so a system holds settings, ports and pids, and neither threads nor
connections. All calls of a client block. A new system is one file with one
class here, one line in systems/__init__.py, and the conformance test
(tests/workbench/test_conformance.py) finds it there.
"""

from __future__ import annotations

import importlib.util
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

from entrepot.errors import LoadUnsuitable
from entrepot.workbench.quality import Quality

Ability = Literal["queues", "requests", "topics", "sessions", "connections", "calls", "flows"]
REPLY_S = 30.0
"""How long a requester waits before it calls a reply lost."""


class SystemSender(Protocol):
    """Puts on one queue, or publishes on one topic."""

    def send(self, bodies: Sequence[bytes]) -> None:
        """Send, and return when all are as safe as the quality's contract says.

        Recoverable: each message by itself. Transactional: all in one unit of
        work. Express: the message has left, and its answer may be under way; see
        `flush`. A form that is answered has waited for it.
        """

    def flush(self) -> None:
        """Return when the server has everything that was sent."""

    def close(self) -> None: ...


class SystemReceiver(Protocol):
    """Gets from one queue, or from one subscription."""

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        """Bodies in the order in which they came, at least one; none when the time is over."""

    def commit(self) -> None:
        """Everything received so far is done with, as safely as the contract says; nothing to do for express."""

    def close(self) -> None: ...


class Requester(Protocol):
    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        """The reply to this request and to no other; None when none came in time."""

    def close(self) -> None: ...


class Replier(Protocol):
    def serve(self, ready: Callable[[], None]) -> None:
        """Answer each request with its own body until the process ends; `ready` once requests can come."""


class SystemCaller(Protocol):
    """One application's calls, each of which can be timed by itself; used by one thread, in this order."""

    def connect(self) -> None: ...

    def open(self) -> None:
        """Get ready to read the queue."""

    def put(self, body: bytes, *, in_unit: bool) -> None: ...

    def get(self, *, in_unit: bool) -> bytes | None:
        """The next message without waiting for one."""

    def commit(self) -> None: ...

    def back_out(self) -> None: ...

    def close(self) -> None:
        """Undo `open`."""

    def disconnect(self) -> None: ...


class TaskRequester(Protocol):
    """A requester for asyncio: thousands of them live on one event loop."""

    async def open_queue(self) -> None:
        """Make the queue of its own for replies, if it is to have one."""

    async def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        """As `Requester.request`."""

    async def close(self) -> None: ...


class System(ABC):
    """A server in a folder of its own, reachable from this machine only."""

    name: ClassVar[str]
    """As `--system` names it."""
    title: ClassVar[str]
    """As reports name it, with the client: `RabbitMQ, pika`."""
    commands: ClassVar[tuple[str, ...]] = ()
    """Programs that have to be installed."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Debian's packages that bring them."""
    modules: ClassVar[tuple[str, ...]] = ()
    """Python modules of the client; the extra `bench` brings them."""
    abilities: ClassVar[frozenset[Ability]]
    contracts: ClassVar[Mapping[Quality, str]]
    """What it promises for each quality that it offers, in one sentence that stands beside every figure."""
    answered_contract: ClassVar[str] = ""
    """What express messages are promised where senders wait for each answer; empty when it has no such form."""
    is_answered: ClassVar[bool] = False
    """Whether this is that form. Otherwise express messages are sent without waiting, as the client does it best."""
    warm_up_s: ClassVar[float] = 1.0
    """How long it needs under load until its speed is its own (a JVM compiles, a cache fills)."""
    one_process: ClassVar[bool] = False
    """It lives inside of its application, so all clients of a trial are threads of the leader, and so is the server."""
    keeps_messages: ClassVar[bool] = True
    """Whether a message without a waiting receiver stays on its queue."""
    start_s: ClassVar[float] = 2.0
    """How long a start takes, for the estimate of the time that is left."""

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        """`options` are a point's effective parameters; a system takes what concerns it (`binding`, queue limits …).

        Raises:
            LoadUnsuitable: It does not offer this quality.
        """
        if quality not in self.contracts:
            raise LoadUnsuitable(self.name, f"{quality} messages", f"it offers {', '.join(self.contracts)}")
        self.folder = folder
        self.quality = quality
        self.options: Mapping[str, Any] = options or {}

    @classmethod
    def absent(cls) -> str:
        """What is missing here and how to get it; empty when the system can run."""
        commands = [command for command in cls.commands if shutil.which(command) is None]
        modules = [module for module in cls.modules if importlib.util.find_spec(module) is None]
        if commands:
            return f"{', '.join(commands)} not installed: entrepot bench peers install {cls.name}"
        if modules:
            return f"Python module {', '.join(modules)} not installed: pip install 'entrepot[bench]'"
        return ""

    @abstractmethod
    def start(self) -> None:
        """Return when clients can connect; bind loopback ports only, write below `folder` only."""

    @abstractmethod
    def stop(self) -> None:
        """End every process of the server; nothing to do when it never started."""

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """The processes whose CPU time and writes are the server's."""

    @abstractmethod
    def version(self) -> str:
        """Of the server and of the client library."""

    def settings(self) -> dict[str, str]:
        """What was set otherwise than it comes, and what that favours."""
        return {}

    def is_alive(self) -> bool:
        """Whether all of `pids` still run; a trial whose server died is a failure, not a figure."""
        return all(is_running(pid) for pid in self.pids)

    @abstractmethod
    def create_queues(self, names: Sequence[str]) -> None:
        """Empty queues, deep enough for any trial unless `options` limit them."""

    def create_topics(self, names: Sequence[str]) -> None:  # noqa: B027 - most systems have nothing to do
        """Where topics have to exist before they are used."""

    @abstractmethod
    def depth(self, queue: str) -> int | None:
        """How many messages wait there; None when the system cannot tell. Called once a second by the sampler."""

    @abstractmethod
    def sender(self, queue: str) -> SystemSender: ...

    @abstractmethod
    def receiver(self, queue: str) -> SystemReceiver: ...

    def requester(self, requests: str, number: int) -> Requester:
        """A client that puts on `requests` and waits for the reply; `number` is unique among requesters."""
        raise NotImplementedError

    def replier(self, requests: str) -> Replier:
        raise NotImplementedError

    async def task_requester(self, requests: str, number: int) -> TaskRequester:
        """A requester for asyncio, connected; for systems with the ability `connections`."""
        raise NotImplementedError

    def caller(self, queue: str) -> SystemCaller:
        """For systems with the ability `calls`; not connected yet."""
        raise NotImplementedError

    def publisher(self, topic: str) -> SystemSender:
        raise NotImplementedError

    def subscriber(self, topic: str, number: int) -> SystemReceiver:
        """A subscription that exists when this returns, durable if the quality is persistent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
