# SPDX-License-Identifier: Apache-2.0
"""NATS JetStream with nats-py: a stream is a queue, and its receivers share one durable push consumer.

Push consumers, because with nats-py they are twice as fast as fetch(). A
message stays in its stream until it is acknowledged; what a receiver had
and did not acknowledge goes to others when it closes, or after 30 s when it
dies. The server of Debian 12 (2.9) does not know `sync_interval`, so
its files are forced every two minutes and never before an acknowledgement;
a server that knows it (2.10 and later) is told to force always.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import subprocess
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Any

from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.nats_server import COMMAND, QUEUE_GROUP, Inbox, NatsConnection, NatsServer
from entrepot.workbench.systems.system import REPLY_S, Replier, Requester, SystemReceiver, SystemSender

REPLIES = "REPLIES"
UNACKNOWLEDGED_MAX = 1000
PUBLISHED_AT_ONCE = 256
ACKNOWLEDGE_S = 30.0
PUBLISH_S = 60.0
UNBOUND_S = 5.0
_SYNC_SINCE = (2, 10)


@cache
def forces_always() -> bool:
    """Whether the server that is installed can force its files before it acknowledges."""
    try:
        version = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True).stdout
    except OSError:
        return False
    found = re.search(r"v(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) >= _SYNC_SINCE


def _recoverable_contract() -> str:
    if forces_always():
        return (
            "the file is forced before each publication is acknowledged; receipts are acknowledged and forced likewise"
        )
    return (
        "WEAKER: acknowledged once in the kernel's memory, forced every 2 minutes; survives the end of the server,"
        " but a power cut takes what came since the last force"
    )


class JetStream(NatsServer):
    name = "jetstream"
    title = "NATS JetStream, nats-py on uvloop"
    abilities = frozenset({"queues", "requests", "topics", "sessions"})
    contracts = {
        Quality.EXPRESS: "a stream in the server's memory; publications are acknowledged, up to 256 behind the sender",
        Quality.RECOVERABLE: _recoverable_contract(),
    }
    answered_contract = "a stream in the server's memory; each publication is acknowledged before the next is sent"

    def _configuration(self) -> str:
        sync = ", sync_interval: always" if forces_always() else ""
        store = self.folder / "jetstream"
        # Without these a server takes no more than three quarters of the memory and of the disk that are free now.
        limits = f"max_memory_store: {8 << 30}, max_file_store: {64 << 30}"
        return super()._configuration() + f'jetstream: {{store_dir: "{store}", {limits}{sync}}}\n'

    def start(self) -> None:
        super().start()
        self._administer(lambda stream: self._make_stream(stream, REPLIES, f"{REPLIES}.*", RetentionPolicy.WORK_QUEUE))

    def settings(self) -> dict[str, str]:
        sync = "always" if forces_always() else "every 2 minutes, which this version cannot change"
        return super().settings() | {
            "storage": f"memory for express; otherwise files, forced {sync}",
            "consumers": f"push, {UNACKNOWLEDGED_MAX} unacknowledged at most; twice as fast as fetch() with nats-py",
            "acknowledgements": "each message of a queue by itself; of a topic all at once; the last with an answer",
            "requests": "a stream of requests, and one of replies with a filter a requester; correlation id in front",
        }

    def create_queues(self, names: Sequence[str]) -> None:
        self._administer(lambda stream: self._create_queues(stream, names))

    async def _create_queues(self, stream: JetStreamContext, names: Sequence[str]) -> None:
        for name in names:
            await self._make_stream(stream, name, name, RetentionPolicy.WORK_QUEUE)
            await stream.purge_stream(stream_name(name))
            await stream.add_consumer(stream_name(name), self._queue_consumer(name))

    def create_topics(self, names: Sequence[str]) -> None:
        self._administer(lambda stream: self._create_topics(stream, names))

    async def _create_topics(self, stream: JetStreamContext, names: Sequence[str]) -> None:
        for name in names:
            await self._make_stream(stream, name, name, RetentionPolicy.INTEREST)

    async def _make_stream(self, stream: JetStreamContext, name: str, subject: str, retention: RetentionPolicy) -> None:
        storage = StorageType.FILE if self.quality.is_persistent else StorageType.MEMORY
        await stream.add_stream(
            StreamConfig(name=stream_name(name), subjects=[subject], retention=retention, storage=storage)
        )

    def _administer(self, work: Callable[[JetStreamContext], Coroutine[Any, Any, Any]]) -> Any:
        link = self.link()
        try:
            return link.run(work(link.client.jetstream(timeout=PUBLISH_S)))
        finally:
            link.close()

    @staticmethod
    def _queue_consumer(queue: str) -> ConsumerConfig:
        return ConsumerConfig(
            durable_name=QUEUE_GROUP,
            deliver_subject=f"deliver.{stream_name(queue)}",
            deliver_group=QUEUE_GROUP,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACKNOWLEDGE_S,
            max_ack_pending=UNACKNOWLEDGED_MAX,
        )

    def depth(self, queue: str) -> int | None:
        """What is not acknowledged, so what receivers have in their hands counts."""
        return int(self._administer(lambda stream: _messages(stream, queue)))

    def sender(self, queue: str) -> SystemSender:
        return _JetStreamSender(self.link(), queue, waits=self.is_answered or self.quality.is_persistent)

    def receiver(self, queue: str) -> SystemReceiver:
        return _QueueReceiver(self.link(), queue, waits=self.quality.is_persistent)

    def publisher(self, topic: str) -> SystemSender:
        self.create_topics([topic])
        return self.sender(topic)

    def subscriber(self, topic: str, number: int) -> SystemReceiver:
        self.create_topics([topic])
        return _TopicReceiver(self.link(), topic, number, is_durable=self.quality.is_persistent)

    def requester(self, requests: str, number: int) -> Requester:
        return _JetStreamRequester(self.link(), requests, number, waits=self.quality.is_persistent)

    def replier(self, requests: str) -> Replier:
        return _JetStreamReplier(self.link(), requests, waits=self.quality.is_persistent)


def stream_name(name: str) -> str:
    """Names of streams may have no dots, as names of queues do."""
    return re.sub(r"[^A-Za-z0-9]", lambda found: f"_{ord(found[0]):X}", name)


async def _messages(stream: JetStreamContext, queue: str) -> int:
    return (await stream.stream_info(stream_name(queue))).state.messages


class _JetStreamSender:
    """Express does not wait for acknowledgements, but for those of PUBLISHED_AT_ONCE before."""

    def __init__(self, link: NatsConnection, subject: str, *, waits: bool) -> None:
        self._link = link
        self._stream = link.client.jetstream(timeout=PUBLISH_S)
        self._subject = subject
        self._waits = waits

    def send(self, bodies: Sequence[bytes]) -> None:
        self._link.run(self._send(bodies))

    async def _send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._link.awaited.append(await self._stream.publish_async(self._subject, body))
            if len(self._link.awaited) >= PUBLISHED_AT_ONCE:
                await self._link.settle()
        if self._waits:
            await self._link.settle()
        else:
            await asyncio.sleep(0)

    def flush(self) -> None:
        self._link.run(self._link.settle())

    def close(self) -> None:
        if self._link.client.is_connected:
            self.flush()
        self._link.close()


class _JetStreamReceiver:
    """Express acknowledges what it hands out, without waiting for an answer."""

    def __init__(
        self, link: NatsConnection, subject: str, group: str, consumer: tuple[str, str], *, waits: bool
    ) -> None:
        self._link = link
        self._stream = link.client.jetstream(timeout=PUBLISH_S)
        self._consumer = consumer
        self._waits = waits
        self._uncommitted: list[Msg] = []
        self._inbox: Inbox = link.run(link.inbox(subject, group))

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        return self._link.run(self._receive(timeout_s))

    async def _receive(self, timeout_s: float) -> list[bytes]:
        taken = await self._inbox.take(timeout_s)
        if self._waits:
            self._uncommitted += taken
        elif taken:
            await self._acknowledge(taken)
            await asyncio.sleep(0)
        return [message.data for message in taken]

    async def _acknowledge(self, messages: list[Msg]) -> None:
        for message in messages:
            await message.ack()

    def commit(self) -> None:
        if self._uncommitted:
            done, self._uncommitted = self._uncommitted, []
            self._link.run(self._commit(done))

    async def _commit(self, done: list[Msg]) -> None:
        await self._acknowledge(done[:-1])
        # The server works them off in order, so its answer to the last one is the answer to all.
        await done[-1].ack_sync(timeout=PUBLISH_S)

    def close(self) -> None:
        if self._link.client.is_connected:
            self._link.run(self._close())
        self._link.close()

    async def _close(self) -> None:
        """What was not acknowledged is for others, at once."""
        await self._inbox.subscription.drain()  # type: ignore[no-untyped-call]
        # Until the server knows that the client is gone, it delivers into the void, and again only after ACKNOWLEDGE_S.
        deadline = time.monotonic() + UNBOUND_S
        while time.monotonic() < deadline and (await self._stream.consumer_info(*self._consumer)).push_bound:
            await asyncio.sleep(0.001)
        for message in self._uncommitted + self._inbox.drain():
            await message.nak()
        await self._link.flush()


class _QueueReceiver(_JetStreamReceiver):
    def __init__(self, link: NatsConnection, queue: str, *, waits: bool) -> None:
        stream = stream_name(queue)
        super().__init__(link, f"deliver.{stream}", QUEUE_GROUP, (stream, QUEUE_GROUP), waits=waits)


class _TopicReceiver(_JetStreamReceiver):
    """A consumer of its own, which acknowledges all messages up to one."""

    def __init__(self, link: NatsConnection, topic: str, number: int, *, is_durable: bool) -> None:
        stream = stream_name(topic)
        subject = f"deliver.{stream}.{number}"
        super().__init__(link, subject, "", (stream, f"S{number}"), waits=is_durable)
        link.run(self._make_consumer(subject))

    async def _make_consumer(self, subject: str) -> None:
        stream, name = self._consumer
        if not self._waits:
            await self._forget()
        configuration = ConsumerConfig(
            durable_name=name,
            deliver_subject=subject,
            ack_policy=AckPolicy.ALL,
            ack_wait=ACKNOWLEDGE_S,
            max_ack_pending=UNACKNOWLEDGED_MAX,
        )
        await self._stream.add_consumer(stream, configuration)

    async def _forget(self) -> None:
        with contextlib.suppress(NotFoundError):
            await self._stream.delete_consumer(*self._consumer)

    async def _acknowledge(self, messages: list[Msg]) -> None:
        # A receiver that commits sends the last one by itself, and that is for all of them.
        if messages and not self._waits:
            await messages[-1].ack()

    async def _close(self) -> None:
        await super()._close()
        if not self._waits:
            await self._forget()


class _JetStreamRequester:
    """Express requests are published without an acknowledgement, because the reply is one."""

    def __init__(self, link: NatsConnection, requests: str, number: int, *, waits: bool) -> None:
        self._link = link
        self._stream = link.client.jetstream(timeout=PUBLISH_S)
        self._requests = requests
        self._waits = waits
        self._reply_to = f"{REPLIES}.{number}"
        self._correlations = itertools.count(time.time_ns())
        self._inbox: Inbox = link.run(self._listen(f"R{number}"))

    async def _listen(self, name: str) -> Inbox:
        subject = f"deliver.{self._reply_to}"
        inbox = await self._link.inbox(subject)
        configuration = ConsumerConfig(
            durable_name=name,
            deliver_subject=subject,
            filter_subject=self._reply_to,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACKNOWLEDGE_S,
        )
        await self._stream.add_consumer(REPLIES, configuration)
        return inbox

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        return self._link.run(self._request(body, timeout_s))

    async def _request(self, body: bytes, timeout_s: float) -> bytes | None:
        correlation = b"%d" % next(self._correlations)
        request = b"%b %b %b" % (self._reply_to.encode(), correlation, body)
        if self._waits:
            self._link.awaited.append(await self._stream.publish_async(self._requests, request))
            await self._link.settle()
        else:
            await self._link.publish(self._requests, [request])
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            for message in await self._inbox.take(left_s):
                # Whatever does not match is the reply to a request that was given up.
                await (message.ack_sync(timeout=PUBLISH_S) if self._waits else message.ack())
                found, _, reply = message.data.partition(b" ")
                if found == correlation:
                    return reply
        return None

    def close(self) -> None:
        self._link.close()


class _JetStreamReplier:
    """Replies first and acknowledges the request then: a replier that dies in between replies twice."""

    def __init__(self, link: NatsConnection, requests: str, *, waits: bool) -> None:
        self._link = link
        self._stream = link.client.jetstream(timeout=PUBLISH_S)
        self._requests = requests
        self._waits = waits

    def serve(self, ready: Callable[[], None]) -> None:
        self._link.run(self._serve(ready))

    async def _serve(self, ready: Callable[[], None]) -> None:
        inbox = await self._link.inbox(f"deliver.{stream_name(self._requests)}", QUEUE_GROUP)
        ready()
        while True:
            requests = await inbox.take(REPLY_S)
            answers = [message.data.split(b" ", 1) for message in requests]
            if self._waits:
                for reply_to, rest in answers:
                    self._link.awaited.append(await self._stream.publish_async(reply_to.decode(), rest))
                await self._link.settle()
            else:
                for reply_to, rest in answers:
                    await self._link.client.publish(reply_to.decode(), rest)
            for message in requests:
                await message.ack()
