# SPDX-License-Identifier: Apache-2.0
"""Redis lists with redis-py: LPUSH to send, and two ways to receive.

Express pops (BLMPOP): a popped message is gone if its reader fails. The
persistent qualities use the reliable queue of the Redis manual: BLMOVE puts
a message on a list of the receiver's own, from which it is removed when it
is done with, or goes back. Express topics are Redis's pub/sub; otherwise
each subscriber has a list, and a script pushes to all of them at once.
Redis has no descriptor beside a value, so name of the reply list and
correlation id go before the body.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.redis_server import (
    READ_AT_ONCE,
    UNANSWERED_MAX,
    RedisRequester,
    RedisSender,
    RedisServer,
    execute,
    new_name,
)
from entrepot.workbench.systems.system import REPLY_S, Replier, Requester, SystemReceiver, SystemSender

_TAKEN = ":taken:"
_FAN_OUT = """
for _, list in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    for _, body in ipairs(ARGV) do redis.call('LPUSH', list, body) end
end
"""
_PUBSUB_LIMIT_BYTES = 1 << 30
_EXPRESS = "memory alone; a popped message is gone if its reader fails, and a publication without a subscriber is lost"


class RedisLists(RedisServer):
    name = "redis-lists"
    title = "Redis lists, redis-py"
    abilities = frozenset({"queues", "requests", "topics", "sessions"})
    contracts = {
        Quality.EXPRESS: f"{_EXPRESS}; sent in a pipeline, up to {UNANSWERED_MAX} answers behind the sender",
        Quality.RECOVERABLE: "each LPUSH is forced to the append-only file before it is answered; a message stays on"
        " its receiver's own list until it is done with",
        Quality.TRANSACTIONAL: "MULTI … EXEC: what a unit sends is appended and forced as one; what it receives is on"
        " the receiver's own list until one command removes all of it, which is no part of the unit that sends",
    }

    answered_contract = f"{_EXPRESS}; each command is answered before the next is sent"

    def give_back(self, client: Any) -> None:
        for taken in client.scan_iter(match=f"*{_TAKEN}*", count=1000):
            _give_back(client, taken.decode().partition(_TAKEN)[0], taken)

    def settings(self) -> dict[str, str]:
        return super().settings() | {
            "receiving": "BLMOVE and LMOVE, as many in one write as were there before; express BLMPOP, up to 100",
            "client-output-buffer-limit": "1 GiB for subscribers instead of 32 MiB, so that a slow one is not cut off",
            "requests": "a list of replies for each requester; correlation id before the body",
        }

    def start(self) -> None:
        super().start()
        with contextlib.closing(self.client()) as client:
            client.config_set("client-output-buffer-limit", f"pubsub {_PUBSUB_LIMIT_BYTES} 0 0")

    def create_queues(self, names: Sequence[str]) -> None:
        with contextlib.closing(self.client()) as client:
            for name in names:
                client.delete(name, *client.scan_iter(match=f"{name}{_TAKEN}*", count=1000))

    def depth(self, queue: str) -> int | None:
        with contextlib.closing(self.client()) as client:
            return int(client.llen(queue))

    def sender(self, queue: str) -> SystemSender:
        is_express = self.quality is Quality.EXPRESS
        sender = _ExpressSender if is_express else _ListSender
        is_unit = self.quality is Quality.TRANSACTIONAL
        return sender(self.client(), queue, waits=self.sender_waits, is_unit=is_unit)

    def receiver(self, queue: str) -> SystemReceiver:
        if self.quality is Quality.EXPRESS:
            return _Popper(self.client(), queue, self.received_at_once())
        return _Mover(self.client(), queue, self.received_at_once())

    def publisher(self, topic: str) -> SystemSender:
        publisher = _FanOut if self.quality.is_persistent else _ListPublisher
        return publisher(self.client(), topic, waits=self.sender_waits)

    def subscriber(self, topic: str, number: int) -> SystemReceiver:
        if not self.quality.is_persistent:
            return _ListSubscriber(self.client(), topic)
        client = self.client()
        own = f"{topic}:subscriber:{number}"
        client.sadd(_subscribers(topic), own)
        return _Mover(client, own, self.received_at_once())

    def requester(self, requests: str, number: int) -> Requester:
        return _ListRequester(self.client(), requests, f"{requests}:replies:{number}")

    def replier(self, requests: str) -> Replier:
        return _ListReplier(self.client(), requests, moves=self.quality.is_persistent)


def _subscribers(topic: str) -> str:
    return f"{topic}:subscribers"


def _give_back(client: Any, queue: str, taken: Any) -> None:
    """The youngest goes back first, so that all come again in their order."""
    while client.lmove(taken, queue, "LEFT", "RIGHT") is not None:
        pass


class _ListSender(RedisSender):
    def _commands(self, bodies: Sequence[bytes]) -> list[Sequence[Any]]:
        return [("LPUSH", self._place, body) for body in bodies]


class _ExpressSender(RedisSender):
    def _commands(self, bodies: Sequence[bytes]) -> list[Sequence[Any]]:
        # One command for the batch, which costs less than a pipeline of as many.
        return [("LPUSH", self._place, *bodies)]


class _Popper:
    def __init__(self, client: Any, queue: str, at_once: int) -> None:
        self._client = client
        self._queue = queue
        self._at_once = at_once

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        # One command waits and takes what is there, up to a batch.
        taken = self._client.blmpop(_wait_s(timeout_s), 1, self._queue, direction="RIGHT", count=self._at_once)
        return [] if taken is None else list(taken[1])

    def commit(self) -> None:
        """What was popped is gone already."""

    def close(self) -> None:
        self._client.close()


class _Mover:
    """Asks for twice as many messages as long as it gets all, and waits for one when there was none."""

    def __init__(self, client: Any, queue: str, at_once: int) -> None:
        self._client = client
        self._queue = queue
        self._at_once = at_once
        self._wanted = 1
        self._taken = f"{queue}{_TAKEN}{new_name()}"

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        if self._wanted == 1:
            body = self._client.blmove(self._queue, self._taken, _wait_s(timeout_s), "RIGHT", "LEFT")
            self._wanted = 1 if body is None else min(2, self._at_once)
            return [] if body is None else [body]
        command = ("LMOVE", self._queue, self._taken, "RIGHT", "LEFT")
        answers = execute(self._client, [command] * self._wanted, is_unit=False)
        bodies = [body for body in answers if body is not None]
        self._wanted = min(2 * self._wanted, self._at_once) if len(bodies) == self._wanted else 1
        return bodies or self.receive(timeout_s)

    def commit(self) -> None:
        # Nothing is on this list that has not been received.
        self._client.unlink(self._taken)

    def close(self) -> None:
        # Without a server, there is nothing to give back now; the next start does it.
        with contextlib.suppress(redis.ConnectionError):
            _give_back(self._client, self._queue, self._taken)
        self._client.close()


class _ListPublisher(RedisSender):
    def _commands(self, bodies: Sequence[bytes]) -> list[Sequence[Any]]:
        return [("PUBLISH", self._place, body) for body in bodies]


class _FanOut(RedisSender):
    def __init__(self, client: Any, topic: str, *, waits: bool) -> None:
        super().__init__(client, topic, waits=waits)
        self._push = client.register_script(_FAN_OUT)

    def send(self, bodies: Sequence[bytes]) -> None:
        # All of them at once: a script is one command to the append-only file too.
        self._push(keys=[_subscribers(self._place)], args=bodies)


class _ListSubscriber:
    def __init__(self, client: Any, topic: str) -> None:
        self._client = client
        self._pubsub = client.pubsub(ignore_subscribe_messages=True)
        self._pubsub.subscribe(topic)
        # The server's answer; only then does the subscription exist.
        self._pubsub.get_message(timeout=REPLY_S)

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        deadline = time.monotonic() + timeout_s
        bodies: list[bytes] = []
        while len(bodies) < READ_AT_ONCE:
            # Wait for the first; then take what is there.
            left_s = 0.0 if bodies else max(deadline - time.monotonic(), 0.0)
            message = self._pubsub.get_message(timeout=left_s)
            if message is not None:
                bodies.append(message["data"])
            elif left_s == 0:
                break
        return bodies

    def commit(self) -> None:
        """There is nothing that could be acknowledged."""

    def close(self) -> None:
        self._pubsub.close()
        self._client.close()


class _ListRequester(RedisRequester):
    def _ask(self, correlation: bytes, body: bytes) -> None:
        self._client.lpush(self._requests, b"%b %b %b" % (self._replies.encode(), correlation, body))

    def _next_reply(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        taken = self._client.brpop([self._replies], timeout=_wait_s(timeout_s))
        if taken is None:
            return None
        correlation, _, body = taken[1].partition(b" ")
        return correlation, body


class _ListReplier:
    """Takes one request at a time; with `moves`, the reply and the end of the request are one unit."""

    def __init__(self, client: Any, requests: str, *, moves: bool) -> None:
        self._client = client
        self._requests = requests
        self._moves = moves
        self._taken = f"{requests}{_TAKEN}{new_name()}"

    def serve(self, ready: Callable[[], None]) -> None:
        ready()
        while True:
            if self._moves:
                request = self._client.blmove(self._requests, self._taken, 0, "RIGHT", "LEFT")
            else:
                request = self._client.brpop([self._requests], timeout=0)[1]
            replies, _, rest = request.partition(b" ")
            if self._moves:
                execute(self._client, [("LPUSH", replies, rest), ("UNLINK", self._taken)], is_unit=True)
            else:
                self._client.lpush(replies, rest)


def _wait_s(timeout_s: float) -> float:
    """To Redis, 0 means for ever, and a millisecond is the least."""
    return max(timeout_s, 0.001)
