# SPDX-License-Identifier: Apache-2.0
"""Entrepot's server through its AMQP 1.0 listener."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from entrepot.client.options import reply_to
from entrepot.errors import QueueFull
from entrepot.message import Message, MessageType
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.entrepot_server import CHANNEL, EntrepotServer
from entrepot.workbench.systems.entrepot_system import ON_DISK, depth_max, queue_definition
from entrepot.workbench.systems.processes import free_port
from entrepot.workbench.systems.system import REPLY_S, Ability, Replier, Requester, SystemReceiver, SystemSender

if TYPE_CHECKING:
    from entrepot.workbench.systems.entrepot_amqp_client import AmqpConnection, ClientReceivingLink, ClientSendingLink

_PRIORITY = 4
_TURN_S = 1.0
_REPLIER_CREDIT = 10


class EntrepotAmqp(EntrepotServer):
    name = "entrepot-amqp"
    title = "Entrepot, AMQP 1.0"
    modules = ("cproton_ffi",)
    abilities: ClassVar[frozenset[Ability]] = frozenset({"queues", "requests", "topics", "sessions"})
    contracts: ClassVar[Mapping[Quality, str]] = {
        Quality.EXPRESS: "In memory: lost with the server; sent and delivered settled, at most once.",
        Quality.RECOVERABLE: (
            f"Each message is {ON_DISK} it is accepted, and waited for one by one; what a receiver has accepted is on"
            " disk before the server settles it, which is waited for: none lost, none twice."
        ),
        Quality.TRANSACTIONAL: (
            f"Every transaction of AMQP is {ON_DISK} its discharge is answered, at the sender and at the receiver: none"
            " lost, none twice."
        ),
    }

    answered_contract = "In memory: lost with the server; each message is accepted before the next is sent."

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, quality, options)
        self._port = 0

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self._port}"

    def start(self) -> None:
        super().start()
        self._port = free_port()
        self.manager.mqsc(f"ALTER CHANNEL({CHANNEL}) CHLTYPE(SVRCONN) HBINT(0)")
        self.manager.listen("AMQP", self._port, f"PROTOCOL(AMQP) CHANNEL({CHANNEL})")

    def version(self) -> str:
        return f"{super().version()}; qpid-proton {metadata.version('python-qpid-proton')}"

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "client": "proton's engine without its wrapper objects, on a blocking socket",
            "reply queue": "one for each requester, " + ("permanent" if self.quality.is_persistent else "temporary"),
        }

    def sender(self, queue: str) -> SystemSender:
        queue_max = depth_max(self.options) if self.limited else 0
        return _AmqpSender(self._open(), queue, self.quality, queue_max, waits=self.is_answered)

    def receiver(self, queue: str) -> SystemReceiver:
        return _AmqpReceiver(self._open(), queue, self.quality, self.read_ahead, self.unit_messages)

    def requester(self, requests: str, number: int) -> Requester:
        replies = None
        if self.quality.is_persistent:
            # A temporary queue keeps no persistent messages.
            replies = f"BENCH.REPLIES.{number}"
            self.manager.mqsc(queue_definition(replies, {}))
        return _AmqpRequester(self._open(), requests, replies, self.quality)

    def replier(self, requests: str) -> Replier:
        return _AmqpReplier(self._open, requests, self.quality)

    def publisher(self, topic: str) -> SystemSender:
        return _AmqpSender(self._open(), f"topic://{topic}", self.quality, waits=self.is_answered)

    def subscriber(self, topic: str, number: int) -> SystemReceiver:
        durable = f"S{number}" if self.quality.is_persistent else ""
        # The name of a durable subscription begins with its container's.
        connection = self._open("bench" if durable else "")
        return _AmqpReceiver(connection, f"topic://{topic}", self.quality, self.read_ahead, 1, durable)

    def _open(self, container: str = "") -> AmqpConnection:
        from entrepot.workbench.systems.entrepot_amqp_client import AmqpConnection

        return AmqpConnection(self._port, container or f"bench-{os.getpid()}-{threading.get_ident()}")


def _encoded(body: bytes, to: str, quality: Quality, **more: Any) -> bytes:
    from entrepot.server.amqp.mapping import encode_message

    return encode_message(Message(body, persistent=quality.is_persistent, priority=_PRIORITY, **more), to)


class _AmqpSender:
    def __init__(
        self, connection: AmqpConnection, address: str, quality: Quality, queue_max: int = 0, *, waits: bool
    ) -> None:
        self._connection = connection
        self._address = address
        self._quality = quality
        self._queue_max = queue_max
        # To a queue that can be full, each message has to be answered, or the server could only close the link.
        self._is_settled = quality is Quality.EXPRESS and not queue_max and not waits
        self._link = connection.sender(address, settled=self._is_settled)

    def send(self, bodies: Sequence[bytes]) -> None:
        messages = [_encoded(body, self._address, self._quality) for body in bodies]
        if self._is_settled:
            for data in messages:
                self._link.send(data)
            self._connection.write()
        elif self._quality in (Quality.EXPRESS, Quality.RECOVERABLE):
            for data in messages:
                self._send_answered(data)
        else:
            _send_in_transaction(self._connection, self._link, messages)

    def _send_answered(self, data: bytes) -> None:
        """
        Raises:
            QueueFull: There is no room for it now.
        """
        self._link.found_it_full = False
        self._link.send(data)
        self._link.await_answers()
        if self._link.found_it_full:
            raise QueueFull(self._address, self._queue_max)

    def flush(self) -> None:
        if self._is_settled:
            # What is sent settled is not answered; but an answer to this comes behind all of it.
            with self._connection.transaction():
                pass

    def close(self) -> None:
        self._connection.close()


def _send_in_transaction(connection: AmqpConnection, link: ClientSendingLink, messages: Sequence[bytes]) -> None:
    with connection.transaction() as transaction:
        for data in messages:
            link.send(data, transaction)
    link.await_answers()


def _accept(connection: AmqpConnection, link: ClientReceivingLink, done: list[Any], quality: Quality) -> None:
    """Return when the server has it, as safely as the quality asks, that these are done with."""
    if quality is Quality.RECOVERABLE:
        link.accept(done)
    elif quality is Quality.TRANSACTIONAL:
        with connection.transaction() as transaction:
            link.accept_in(done, transaction)


class _AmqpReceiver:
    def __init__(
        self,
        connection: AmqpConnection,
        address: str,
        quality: Quality,
        credit: int,
        limit: int,
        durable: str = "",
    ) -> None:
        self._connection = connection
        self._quality = quality
        self._limit = limit
        self._link = connection.receiver(address, credit, settled=quality is Quality.EXPRESS, durable=durable)
        self._open: list[Any] = []

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        taken = self._link.receive(timeout_s, self._limit)
        if self._quality.is_persistent:
            self._open += [delivery for delivery, _ in taken]
        return [message.body for _, message in taken]

    def commit(self) -> None:
        done, self._open = self._open, []
        if done:
            _accept(self._connection, self._link, done, self._quality)

    def close(self) -> None:
        self._connection.close()


class _AmqpRequester:
    def __init__(self, connection: AmqpConnection, requests: str, replies: str | None, quality: Quality) -> None:
        self._connection = connection
        self._requests = requests
        self._quality = quality
        self._sender = connection.sender(requests, settled=quality is Quality.EXPRESS)
        self._receiver = connection.receiver(replies, _REPLIER_CREDIT, settled=quality is Quality.EXPRESS)
        self._replies = self._receiver.address

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        identifier = os.urandom(24)
        data = _encoded(
            body,
            self._requests,
            self._quality,
            message_id=identifier,
            reply_to=self._replies,
            type=MessageType.REQUEST,
        )
        if self._quality is Quality.TRANSACTIONAL:
            _send_in_transaction(self._connection, self._sender, [data])
        else:
            self._sender.send(data)
            self._sender.await_answers()
        while taken := self._receiver.receive(timeout_s, 1):
            [(delivery, reply)] = taken
            _accept(self._connection, self._receiver, [delivery], self._quality)
            # One that came too late for an earlier request is of no use.
            if reply.correlation_id == identifier:
                return reply.body
        return None

    def close(self) -> None:
        self._connection.close()


class _AmqpReplier:
    def __init__(self, connect: Callable[[], AmqpConnection], requests: str, quality: Quality) -> None:
        self._connect = connect
        self._requests = requests
        self._quality = quality

    def serve(self, ready: Callable[[], None]) -> None:
        connection = self._connect()
        settled = self._quality is Quality.EXPRESS
        replies = connection.sender(None, settled=settled)
        requests = connection.receiver(self._requests, _REPLIER_CREDIT, settled=settled)
        ready()
        while True:
            for delivery, request in requests.receive(_TURN_S, 1):
                to = reply_to(request)
                data = _encoded(request.body, to, self._quality, correlation_id=request.message_id)
                if self._quality is Quality.TRANSACTIONAL:
                    with connection.transaction() as transaction:
                        replies.send(data, transaction)
                        requests.accept_in([delivery], transaction)
                    replies.await_answers()
                    continue
                replies.send(data)
                replies.await_answers()
                connection.write()
                if not settled:
                    requests.accept([delivery])
