# SPDX-License-Identifier: Apache-2.0
"""Redis streams with redis-py: XADD, XREADGROUP and XACK.

A queue is a stream with one consumer group for all receivers; what is done
with is acknowledged and deleted, so the length of the stream is the depth.
A receiver that closes leaves what it had as idle for an hour, and receivers
that begin or find nothing claim what has been idle for half a minute. A
topic is a stream with a group for each subscriber; its publisher trims what
all of them are done with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import redis

from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.redis_server import (
    UNANSWERED_MAX,
    RedisRequester,
    RedisSender,
    RedisServer,
    execute,
    new_name,
)
from entrepot.workbench.systems.system import Replier, Requester, SystemReceiver, SystemSender

GROUP = "workers"
TRIM_EVERY = 1000
_BODY = b"b"
_REPLY_TO = b"r"
_CORRELATION = b"c"
_RETURNED = "returned"
_IDLE_MS = 30_000
_RETURNED_IDLE_MS = 3_600_000
_EXPRESS = "memory alone; read without acknowledgement (NOACK) and deleted, so gone if the reader fails"


class RedisStreams(RedisServer):
    name = "redis-streams"
    title = "Redis streams, redis-py"
    abilities = frozenset({"queues", "requests", "topics", "sessions"})
    contracts = {
        Quality.EXPRESS: f"{_EXPRESS}; sent in a pipeline, up to {UNANSWERED_MAX} answers behind the sender",
        Quality.RECOVERABLE: "each XADD is forced to the append-only file before it is answered; a message is pending"
        " until its receiver acknowledges it, which is forced too",
        Quality.TRANSACTIONAL: "MULTI … EXEC: what a unit sends is appended and forced as one; what it receives is"
        " acknowledged as one, which is no part of the unit that sends",
    }

    answered_contract = f"{_EXPRESS}; each command is answered before the next is sent"

    def give_back(self, client: Any) -> None:
        for stream in client.scan_iter(_type="stream"):
            for group in client.xinfo_groups(stream):
                _give_back(client, stream, group["name"], None)

    def settings(self) -> dict[str, str]:
        return super().settings() | {
            "receiving": "XREADGROUP, up to 100 (a unit of work: its size); XACK and XDEL in one write",
            "topics": f"a consumer group for each subscriber; what all have read is trimmed every {TRIM_EVERY}",
            "requests": "a stream of replies for each requester; correlation id as a field",
        }

    def create_queues(self, names: Sequence[str]) -> None:
        with contextlib.closing(self.client()) as client:
            for name in names:
                client.delete(name)
                client.xgroup_create(name, GROUP, id="0", mkstream=True)

    def depth(self, queue: str) -> int | None:
        """What is not acknowledged, so what receivers have in their hands counts."""
        with contextlib.closing(self.client()) as client:
            return int(client.xlen(queue))

    def sender(self, queue: str) -> SystemSender:
        return _StreamSender(self.client(), queue, waits=self.sender_waits, is_unit=self._is_unit)

    @property
    def _is_unit(self) -> bool:
        return self.quality is Quality.TRANSACTIONAL

    def receiver(self, queue: str) -> SystemReceiver:
        return _StreamReceiver(self, queue, GROUP, deletes=True)

    def publisher(self, topic: str) -> SystemSender:
        return _StreamPublisher(self.client(), topic, waits=self.sender_waits, is_unit=self._is_unit)

    def subscriber(self, topic: str, number: int) -> SystemReceiver:
        group = f"S{number}"
        with contextlib.closing(self.client()) as client, contextlib.suppress(redis.ResponseError):
            # One that is there already is durable, and goes on where it was.
            client.xgroup_create(topic, group, id="$", mkstream=True)
        return _StreamReceiver(self, topic, group, deletes=False)

    def requester(self, requests: str, number: int) -> Requester:
        return _StreamRequester(self.client(), requests, f"{requests}:replies:{number}")

    def replier(self, requests: str) -> Replier:
        return _StreamReplier(self.client(), requests, is_acknowledged=self.quality.is_persistent)


def _give_back(client: Any, stream: Any, group: Any, consumer: str | None) -> None:
    """Make what is pending as idle as if its reader had been gone for an hour."""
    start = "-"
    while pending := client.xpending_range(stream, group, start, "+", 1000, consumername=consumer):
        ids = [entry["message_id"] for entry in pending]
        client.xclaim(stream, group, _RETURNED, 0, ids, idle=_RETURNED_IDLE_MS, justid=True)
        start = f"({ids[-1].decode()}"


def _wait_ms(timeout_s: float) -> int:
    """To Redis, 0 means for ever."""
    return max(int(timeout_s * 1000), 1)


class _StreamSender(RedisSender):
    def _commands(self, bodies: Sequence[bytes]) -> list[Sequence[Any]]:
        return [("XADD", self._place, "*", _BODY, body) for body in bodies]


class _StreamPublisher(_StreamSender):
    _until_trim = TRIM_EVERY

    def send(self, bodies: Sequence[bytes]) -> None:
        super().send(bodies)
        self._until_trim -= len(bodies)
        if self._until_trim <= 0:
            self._until_trim = TRIM_EVERY
            # What trimming asks would get the answers that are still under way.
            self.flush()
            self._trim()

    def _trim(self) -> None:
        """Forget what every subscriber is done with; without this the stream grows for ever."""
        needed = []
        for group in self._client.xinfo_groups(self._place):
            pending = self._client.xpending(self._place, group["name"])
            needed.append(pending["min"] if pending["pending"] else group["last-delivered-id"])
        if needed:
            self._client.xtrim(self._place, minid=min(needed, key=_order), approximate=True)


def _order(entry_id: bytes) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number)


class _StreamReceiver:
    def __init__(self, system: RedisStreams, stream: str, group: str, *, deletes: bool) -> None:
        self._client = system.client()
        self._stream = stream
        self._group = group
        self._deletes = deletes
        self._is_acknowledged = system.quality.is_persistent
        self._at_once = system.received_at_once()
        self._consumer = new_name()
        self._uncommitted: list[bytes] = []
        self._claimed = self._claim() if self._is_acknowledged else []

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        if not self._claimed:
            entries = self._read(timeout_s)
            if entries or not self._is_acknowledged:
                return self._take(entries)
            self._claimed = self._claim()
        entries, self._claimed = self._claimed[: self._at_once], self._claimed[self._at_once :]
        return self._take(entries)

    def _read(self, timeout_s: float) -> list[Any]:
        found = self._client.xreadgroup(
            self._group,
            self._consumer,
            {self._stream: ">"},
            count=self._at_once,
            block=_wait_ms(timeout_s),
            noack=not self._is_acknowledged,
        )
        return list(found[0][1]) if found else []

    def _claim(self) -> list[Any]:
        """What others had and have not touched for a while; few, so they are read in one go."""
        claimed: list[Any] = []
        start = b"0-0"
        while True:
            start, entries, *_ = self._client.xautoclaim(self._stream, self._group, self._consumer, _IDLE_MS, start)
            claimed += entries
            if start == b"0-0":
                return claimed

    def _take(self, entries: list[Any]) -> list[bytes]:
        ids = [entry_id for entry_id, _ in entries]
        if self._is_acknowledged:
            self._uncommitted += ids
        elif ids and self._deletes:
            self._client.xdel(self._stream, *ids)
        return [fields[_BODY] for _, fields in entries]

    def commit(self) -> None:
        if not self._uncommitted:
            return
        ids, self._uncommitted = self._uncommitted, []
        commands: list[Sequence[Any]] = [("XACK", self._stream, self._group, *ids)]
        if self._deletes:
            commands.append(("XDEL", self._stream, *ids))
        execute(self._client, commands, is_unit=True)

    def close(self) -> None:
        if self._is_acknowledged:
            # Without a server, there is nothing to give back now; the next start does it.
            with contextlib.suppress(redis.ConnectionError):
                _give_back(self._client, self._stream, self._group, self._consumer)
                self._client.xgroup_delconsumer(self._stream, self._group, self._consumer)
        self._client.close()


class _StreamRequester(RedisRequester):
    """Reads a stream of its own from where it was, and deletes what it has read."""

    _read_up_to = b"0-0"

    def _ask(self, correlation: bytes, body: bytes) -> None:
        self._client.xadd(self._requests, {_BODY: body, _REPLY_TO: self._replies, _CORRELATION: correlation})

    def _next_reply(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        found = self._client.xread({self._replies: self._read_up_to}, count=1, block=_wait_ms(timeout_s))
        if not found:
            return None
        self._read_up_to, reply = found[0][1][0]
        self._client.xdel(self._replies, self._read_up_to)
        return reply[_CORRELATION], reply[_BODY]


class _StreamReplier:
    """Takes one request at a time; the reply and the end of the request are one unit."""

    def __init__(self, client: Any, requests: str, *, is_acknowledged: bool) -> None:
        self._client = client
        self._requests = requests
        self._is_acknowledged = is_acknowledged
        self._consumer = new_name()

    def serve(self, ready: Callable[[], None]) -> None:
        ready()
        source = {self._requests: ">"}
        while True:
            found = self._client.xreadgroup(
                GROUP, self._consumer, source, count=1, block=0, noack=not self._is_acknowledged
            )
            entry_id, request = found[0][1][0]
            execute(self._client, self._answer(entry_id, request), is_unit=True)

    def _answer(self, entry_id: bytes, request: dict[bytes, bytes]) -> list[Sequence[Any]]:
        reply = (_BODY, request[_BODY], _CORRELATION, request[_CORRELATION])
        answer: list[Sequence[Any]] = [
            ("XADD", request[_REPLY_TO], "*", *reply),
            ("XDEL", self._requests, entry_id),
        ]
        if self._is_acknowledged:
            answer.append(("XACK", self._requests, GROUP, entry_id))
        return answer
