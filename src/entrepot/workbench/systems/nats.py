# SPDX-License-Identifier: Apache-2.0
"""NATS core with nats-py: subjects, queue groups, and its own request and reply.

Core NATS has no queues: a message goes to a subscriber that is there now,
or nowhere, without notice. So its receivers have to be there before the
first message is sent (`keeps_messages`). A queue of the workbench is a
subject whose receivers are one queue group. Replies come through one inbox
per connection, matched by a token in the subject.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as ReplyTimedOut

from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.nats_server import QUEUE_GROUP, Inbox, NatsConnection, NatsServer
from entrepot.workbench.systems.system import REPLY_S, Replier, Requester, SystemReceiver, SystemSender


class Nats(NatsServer):
    name = "nats"
    title = "NATS core, nats-py on uvloop"
    abilities = frozenset({"queues", "requests", "topics", "sessions"})
    contracts = {
        Quality.EXPRESS: "at most once and not even queued: what is sent while no receiver is there is dropped,"
        " and what a server or a receiver holds is lost with it",
    }
    answered_contract = (
        f"{contracts[Quality.EXPRESS]}; each publication waits for the server's PONG, which says that it was read"
    )
    keeps_messages = False

    def settings(self) -> dict[str, str]:
        return super().settings() | {"requests": "request() of nats-py, through the inbox of the connection"}

    def create_queues(self, names: Sequence[str]) -> None:
        """Subjects need not be made; and a new server has no receivers left over."""

    def depth(self, queue: str) -> int | None:  # noqa: ARG002 - there is no queue
        return None

    def sender(self, queue: str) -> SystemSender:
        return _NatsPublisher(self.link(), queue, waits=self.is_answered)

    def receiver(self, queue: str) -> SystemReceiver:
        return _NatsSubscriber(self.link(), queue, QUEUE_GROUP)

    def publisher(self, topic: str) -> SystemSender:
        return _NatsPublisher(self.link(), topic, waits=self.is_answered)

    def subscriber(self, topic: str, number: int) -> SystemReceiver:  # noqa: ARG002 - none of them outlives its connection
        return _NatsSubscriber(self.link(), topic, "")

    def requester(self, requests: str, number: int) -> Requester:  # noqa: ARG002 - every connection has its own inbox
        return _NatsRequester(self.link(), requests)

    def replier(self, requests: str) -> Replier:
        return _NatsReplier(self.link(), requests)


class _NatsPublisher:
    def __init__(self, link: NatsConnection, subject: str, *, waits: bool) -> None:
        self._link = link
        self._subject = subject
        self._waits = waits

    def send(self, bodies: Sequence[bytes]) -> None:
        self._link.run(self._link.publish(self._subject, list(bodies)))
        if self._waits:
            self.flush()

    def flush(self) -> None:
        self._link.run(self._link.flush())

    def close(self) -> None:
        if self._link.client.is_connected:
            self.flush()
        self._link.close()


class _NatsSubscriber:
    def __init__(self, link: NatsConnection, subject: str, group: str) -> None:
        self._link = link
        self._inbox: Inbox = link.run(link.inbox(subject, group))

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        return [message.data for message in self._link.run(self._inbox.take(timeout_s))]

    def commit(self) -> None:
        """There is nothing that could be acknowledged."""

    def close(self) -> None:
        self._link.close()


class _NatsRequester:
    def __init__(self, link: NatsConnection, subject: str) -> None:
        self._link = link
        self._subject = subject

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        try:
            reply = self._link.run(self._link.client.request(self._subject, body, timeout=timeout_s))
        except (ReplyTimedOut, NoRespondersError):
            return None
        return reply.data

    def close(self) -> None:
        self._link.close()


class _NatsReplier:
    def __init__(self, link: NatsConnection, subject: str) -> None:
        self._link = link
        self._subject = subject

    def serve(self, ready: Callable[[], None]) -> None:
        self._link.run(self._serve(ready))

    async def _serve(self, ready: Callable[[], None]) -> None:
        async def reply(message: Msg) -> None:
            await message.respond(message.data)

        await self._link.client.subscribe(self._subject, queue=QUEUE_GROUP, cb=reply)
        await self._link.flush()
        ready()
        await asyncio.Event().wait()
