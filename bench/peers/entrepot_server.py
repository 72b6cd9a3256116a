# SPDX-License-Identifier: Apache-2.0
"""Entrepot's own server, through its client channel (TCP) and through its standard binding (a Unix socket).

Nonpersistent drivers use `request`, with the temporary reply queue that it
makes. Persistent drivers do what the document's do: put in a unit of work,
commit, and get the reply by correlation id from one common queue in another
unit; a worker gets and replies in one unit of work, so that a crash at any
moment leaves either the request or the reply, and never both.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from peers.system import ONE_WAY, REPLY_S, REQUESTS, Producer, System, Trips, drive_blocking
from processes import LOOPBACK, Server, accepts, free_port, script

REPLIES = "REPLIES"
CHANNEL = "APP"
USER = "bench"
"""As whom clients over TCP act, who show no password: a channel of the loopback may say so."""
AT_ONCE = 100
READ_AHEAD = 1000
WORKER_READ_AHEAD = 10
"""As the peers' workers do, ours let requests come and do not wait for an answer to a nonpersistent reply."""
WAIT_S = 1.0
_DEEP = "MAXDEPTH(999999999)"


class QueueManager:
    """A server process over a folder of its own, with a listener on a free port of the loopback."""

    def __init__(self, folder: Path, name: str = "BENCH") -> None:
        self.path = folder / name.lower()
        self.name = name
        self.port = free_port()

    def start(self) -> None:
        subprocess.run(
            [script("entrepot"), "qm", "create", str(self.path), "--name", self.name], check=True, capture_output=True
        )
        command = [script("entrepot"), "qm", "start", str(self.path)]
        self._server = Server(command, self.path.with_suffix(".log"))
        self._server.wait_until((self.path / "socket").exists)
        self.mqsc(
            f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SVRCONN) MCAUSER('{USER}')",
            f"SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('{USER}') AUTHADD(ALLMQI)",
            f"SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('{USER}') AUTHADD(ALLMQI)",
            f"DEFINE LISTENER(L) PORT({self.port}) IPADDR('{LOOPBACK}') MAXCONN(1000000) MAXCONNA(1000000)",
            "START LISTENER(L)",
        )
        self._server.wait_until(lambda: accepts(self.port))

    def stop(self) -> None:
        if hasattr(self, "_server"):
            self._server.stop()

    @property
    def pid(self) -> int:
        return self._server.pid

    @property
    def unix_url(self) -> str:
        return f"unix:{self.path}"

    @property
    def tcp_url(self) -> str:
        return f"mq://{LOOPBACK}:{self.port}/{self.name}?channel={CHANNEL}"

    def mqsc(self, *commands: str) -> None:
        import entrepot

        with entrepot.connect(self.unix_url) as connection:
            connection.mqsc("\n".join(commands))

    def define_queues(self, *names: str) -> None:
        self.mqsc(*(f"DEFINE QLOCAL({name}) {_DEEP}" for name in names))

    def __enter__(self) -> QueueManager:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class EntrepotTcp(System):
    name = "entrepot-tcp"
    title = "entrepot, client channel"
    nonpersistent_contract = "memory; dies with the server"
    persistent_contract = (
        "every unit of work on disk before its commit returns, forces shared by those that wait; request got and"
        " reply put are one unit of work: no loss and nothing twice"
    )

    def start(self) -> None:
        self._manager = QueueManager(self.folder)
        self._manager.start()
        self._manager.define_queues(REQUESTS, REPLIES, ONE_WAY)

    def stop(self) -> None:
        if hasattr(self, "_manager"):
            self._manager.stop()

    @property
    def url(self) -> str:
        return self._manager.tcp_url

    @property
    def pids(self) -> list[int]:
        return [self._manager.pid]

    def version(self) -> str:
        return f"entrepot {metadata.version('entrepot')}"

    def settings(self) -> dict[str, Any]:
        reply = "common, by correlation id" if self.persistent else "temporary, one per driver, as `request` makes it"
        return {"url": self.url.partition(":")[0], "reply queue": reply}

    def connect(self) -> Any:
        import entrepot

        return entrepot.connect(self.url)

    def drive(self, number: int, trips: Trips) -> int:  # noqa: ARG002 - a correlation id needs no number
        connection = self.connect()

        def nonpersistent(body: bytes) -> bytes | None:
            return bytes(connection.request(REQUESTS, body, timeout_s=REPLY_S, persistent=False).body)

        def persistent(body: bytes) -> bytes | None:
            with connection.unit_of_work() as unit:
                message_id = unit.put(REQUESTS, body, persistent=True, reply_to=REPLIES)
            with connection.unit_of_work() as unit:
                reply = unit.get(REPLIES, correlation_id=message_id, wait_s=REPLY_S)
            return None if reply is None else bytes(reply.body)

        drive_blocking(persistent if self.persistent else nonpersistent, trips)
        return 0

    def work(self, ready: Callable[[], None]) -> None:
        connection = self.connect()
        ready()
        if not self.persistent:
            serve(connection)
        while True:
            _serve_persistent(connection)

    def producer(self) -> Producer:
        return _Producer(self.connect())

    def consume(self, see: Callable[[bytes], None], ready: Callable[[], None]) -> None:
        connection = self.connect()
        ready()
        for message in connection.consume(ONE_WAY, read_ahead=READ_AHEAD):
            see(message.body)


class EntrepotUnix(EntrepotTcp):
    name = "entrepot-unix"
    title = "entrepot, standard binding"

    @property
    def url(self) -> str:
        return self._manager.unix_url


def serve(connection: Any) -> None:
    """Answer nonpersistent requests for ever."""
    for request in connection.consume(REQUESTS, read_ahead=WORKER_READ_AHEAD):
        connection.reply(request, request.body)


def _serve_persistent(connection: Any) -> None:
    with connection.unit_of_work() as unit:
        request = unit.get(REQUESTS, wait_s=WAIT_S)
        if request is not None:
            unit.put(request.reply_to, request.body, correlation_id=request.message_id, persistent=True)


class _Producer:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def send(self, bodies: Sequence[bytes]) -> None:
        with self._connection.pipeline() as pipeline:
            for body in bodies:
                pipeline.put(ONE_WAY, body, persistent=False)

    def flush(self) -> None:
        """The end of a pipeline means that the server has it."""
