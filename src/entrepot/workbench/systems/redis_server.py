# SPDX-License-Identifier: Apache-2.0
"""A Redis server process, for lists and for streams.

redis-py is used with one connection per client and no pool in between,
which is its fastest form, and never sends a command a second time by
itself, because a message would be doubled.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import time
import uuid
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.processes import LOOPBACK, ServerProcess
from entrepot.workbench.systems.single_server import SingleServer
from entrepot.workbench.systems.system import REPLY_S

COMMAND = "redis-server"
READ_AT_ONCE = 100
UNANSWERED_MAX = 256
"""As many answers may be under way to a sender that does not wait for them; JetStream's has as many."""


class RedisServer(SingleServer):
    """Starts the server; how messages are kept in it is a subclass's affair."""

    commands = (COMMAND,)
    packages = ("redis-server",)
    modules = ("redis",)
    start_s = 0.5

    def start(self) -> None:
        super().start()
        assert self._server is not None
        # It accepts connections while it still reads its file, and refuses every command until it has.
        self._server.wait_until(self._answers)
        with contextlib.closing(self.client()) as client:
            self.give_back(client)

    def _launch(self) -> ServerProcess:
        command = [COMMAND, "--port", str(self._port), "--bind", LOOPBACK, "--dir", str(self.folder), "--save", ""]
        if self.quality.is_persistent:
            command += ["--appendonly", "yes", "--appendfsync", "always"]
        return ServerProcess(command, self.folder / "log", name=self.name)

    def _answers(self) -> bool:
        with contextlib.closing(self.client()) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:  # it still loads, or has ended
                return False

    def give_back(self, client: Any) -> None:
        """Before there are clients: what receivers of a former run had and did not finish is to be had again."""
        raise NotImplementedError

    def version(self) -> str:
        found = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
        return f"{found.stdout.strip()}; redis-py {metadata.version('redis')}"

    def settings(self) -> dict[str, str]:
        kept = "yes, appendfsync always" if self.quality.is_persistent else "no"
        return {
            "appendonly": f"{kept}; commands that come together are forced together",
            "save": "none, so that no snapshot disturbs",
            "client": "one connection without a pool, no timeout, no retry, RESP2",
        }

    def client(self) -> Any:
        """A connection of the calling thread."""
        return redis.Redis(
            LOOPBACK,
            self._port,
            single_connection_client=True,
            socket_timeout=None,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )

    @property
    def sender_waits(self) -> bool:
        return self.is_answered or self.quality.is_persistent

    def received_at_once(self) -> int:
        """A unit of work has `batch` messages, by default one; otherwise what is there is taken."""
        return int(self.options.get("batch") or 1) if self.quality is Quality.TRANSACTIONAL else READ_AT_ONCE


def execute(client: Any, commands: Sequence[Sequence[Any]], *, is_unit: bool) -> list[Any]:
    """Send commands in one write and return their answers; as MULTI … EXEC if they are a unit."""
    if len(commands) == 1:
        return [client.execute_command(*commands[0])]
    pipeline = client.pipeline(transaction=is_unit)
    for command in commands:
        pipeline.execute_command(*command)
    answers: list[Any] = pipeline.execute()
    return answers


def new_name() -> str:
    """Of a receiver; the server's own numbers of its clients begin anew when it is started again."""
    return uuid.uuid4().hex


class RedisSender:
    """Writes commands; waits for their answers at once, or only when UNANSWERED_MAX are under way.

    redis-py's own pipeline gathers commands and waits for all of their answers
    at its end. Here each call's commands leave at once, and the answers to
    earlier ones are read while later ones are on their way.
    """

    def __init__(self, client: Any, place: str, *, waits: bool, is_unit: bool = False) -> None:
        self._client = client
        self._place = place
        self._waits = waits
        self._is_unit = is_unit
        self._unanswered = 0

    def send(self, bodies: Sequence[bytes]) -> None:
        commands = self._commands(bodies)
        if self._waits:
            execute(self._client, commands, is_unit=self._is_unit)
            return
        connection = self._client.connection
        connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        self._unanswered += len(commands)
        if self._unanswered >= UNANSWERED_MAX:
            self.flush()

    def _commands(self, bodies: Sequence[bytes]) -> list[Sequence[Any]]:
        raise NotImplementedError

    def flush(self) -> None:
        """Read the answers that are under way; one that is an error is raised."""
        while self._unanswered:
            self._unanswered -= 1
            self._client.connection.read_response()

    def close(self) -> None:
        with contextlib.suppress(redis.ConnectionError):
            self.flush()
        self._client.close()


class RedisRequester:
    """Waits at a place of its own for replies; how these and requests are written is a subclass's affair."""

    def __init__(self, client: Any, requests: str, replies: str) -> None:
        self._client = client
        self._requests = requests
        self._replies = replies
        self._correlations = itertools.count(time.time_ns())

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        correlation = b"%d" % next(self._correlations)
        self._ask(correlation, body)
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            came = self._next_reply(left_s)
            if came is None:
                return None
            # Whatever does not match is the reply to a request that was given up.
            if came[0] == correlation:
                return came[1]
        return None

    def _ask(self, correlation: bytes, body: bytes) -> None:
        raise NotImplementedError

    def _next_reply(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        """Its correlation and its body."""
        raise NotImplementedError

    def close(self) -> None:
        self._client.close()
