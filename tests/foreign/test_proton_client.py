# SPDX-License-Identifier: Apache-2.0
"""Apache Qpid Proton's Python client, unmodified, against our AMQP side."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proton import ConnectionException, Delivery, Described, Message, symbol, ulong
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import (
    AtLeastOnce,
    AtMostOnce,
    Container,
    Copy,
    Filter,
    LinkOption,
    Selector,
)
from proton.utils import BlockingConnection, LinkDetached, SendException

from entrepot.message import Message as OurMessage

from .amqp_server import AmqpServer


@pytest.fixture
def client(server: AmqpServer) -> Iterator[BlockingConnection]:
    connection = BlockingConnection(server.url, timeout=60)
    yield connection
    connection.close()


def eventually(what: Callable[[], bool], client: BlockingConnection | None = None, within_s: float = 60.0) -> bool:
    """Whether something becomes true; a client that blocks says what it has to say only when it is asked to."""
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            return False
        if client is None:
            time.sleep(0.005)
        else:
            client.container.timeout = 0.01
            client.container.process()
    return True


def body_of(message: Message) -> Any:
    """Its body. Proton shows the memory of a binary one, which is gone once the message is."""
    body = message.body
    return bytes(body) if isinstance(body, memoryview) else body


def put(server: AmqpServer, queue: str, *bodies: bytes, **fields: Any) -> None:
    for body in bodies:
        persistent = fields.pop("persistent", False)
        server.host.put(queue, OurMessage(body, **fields), persistent=persistent)


# --- sending ------------------------------------------------------------------------------------


def test_accepted_message_is_on_its_queue(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    sent = client.create_sender(queue).send(Message(body=b"order", durable=True))
    assert sent.remote_state == Delivery.ACCEPTED
    message = server.host.get(queue)
    assert message is not None
    assert (message.body, message.persistent, message.user) == (b"order", True, "guest")


@pytest.mark.parametrize("form", ["{}", "queue://{}", "/queue/{}", "{}@QM1"])
def test_addresses_of_a_queue(server: AmqpServer, client: BlockingConnection, queue: str, form: str) -> None:
    client.create_sender(form.format(queue)).send(Message(body=b"1"))
    assert server.depth(queue) == 1


def test_settled_messages_arrive(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    sender = client.create_sender(queue, options=AtMostOnce())
    for number in range(1000):
        sender.send(Message(body=str(number)))
    sender.close()
    assert eventually(lambda: server.depth(queue) == 1000, client)


def test_anonymous_relay_reads_the_address_of_the_message(
    server: AmqpServer, client: BlockingConnection, queue: str
) -> None:
    sender = client.create_sender(None)
    sender.send(Message(body=b"1", address=queue))
    assert server.depth(queue) == 1
    with pytest.raises(SendException):
        sender.send(Message(body=b"2", address="NO.SUCH.QUEUE"))
    with pytest.raises(SendException):
        sender.send(Message(body=b"2"))


def test_unknown_queue_is_not_found(client: BlockingConnection) -> None:
    with pytest.raises(LinkDetached) as caught:
        client.create_sender("NO.SUCH.QUEUE")
    assert caught.value.condition == "amqp:not-found"
    assert "there is no queue NO.SUCH.QUEUE" in str(caught.value)


def test_who_may_not_is_not_authorized(client: BlockingConnection) -> None:
    for attach in (client.create_sender, client.create_receiver):
        with pytest.raises(LinkDetached) as caught:
            attach("SECRET")
        assert caught.value.condition == "amqp:unauthorized-access"


def test_full_queue_rejects(server: AmqpServer, client: BlockingConnection) -> None:
    sender = client.create_sender("SMALL")
    sender.send(Message(body=b"1"))
    sender.send(Message(body=b"2"))
    rejected = _rejection(server, "SMALL", Message(body=b"3"))
    assert rejected[0] == "amqp:resource-limit-exceeded"
    server.mqsc("CLEAR QLOCAL(SMALL)")


def test_message_that_is_too_long_is_rejected(server: AmqpServer) -> None:
    condition, description = _rejection(server, "TINY", Message(body=b"x" * 2000))
    assert condition == "amqp:link:message-size-exceeded"
    assert "1000" in description


def test_message_that_cannot_be_kept_is_rejected(server: AmqpServer, queue: str) -> None:
    condition, _ = _rejection(server, queue, Message(body=b"x", properties={"amqp_subject": "mine"}))
    assert condition == "amqp:invalid-field"


def _rejection(server: AmqpServer, queue: str, message: Message) -> tuple[str, str]:
    found: list[tuple[str, str]] = []

    class Sender(MessagingHandler):
        def on_start(self, event: Any) -> None:
            event.container.create_sender(event.container.connect(server.url), queue)

        def on_sendable(self, event: Any) -> None:
            if not found and event.sender.credit:
                event.sender.send(message)
                found.append(("", ""))

        def on_rejected(self, event: Any) -> None:
            condition = event.delivery.remote.condition
            found[0] = (condition.name, condition.description)
            event.connection.close()

        def on_accepted(self, event: Any) -> None:
            event.connection.close()

    Container(Sender()).run()
    return found[0]


def test_large_message_travels_in_many_frames(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    body = bytes(range(256)) * (5 * 4096)
    client.create_sender(queue).send(Message(body=body, durable=True))
    receiver = client.create_receiver(queue)
    assert body_of(receiver.receive(timeout=60)) == body
    receiver.accept()
    assert eventually(lambda: server.depth(queue) == 0, client)


def test_message_beyond_the_links_limit_ends_the_link(client: BlockingConnection) -> None:
    sender = client.create_sender("TINY")
    assert sender.link.remote_max_message_size > 1000
    with pytest.raises((LinkDetached, SendException)):
        sender.send(Message(body=b"x" * (3 * 1024 * 1024)))


# --- receiving ----------------------------------------------------------------------------------


def test_settled_receiver_gets_and_forgets(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    put(server, queue, b"1", b"2")
    put(server, queue, b"3", persistent=True)
    receiver = client.create_receiver(queue, options=AtMostOnce())
    assert [body_of(receiver.receive(timeout=60)) for _ in range(3)] == [b"1", b"2", b"3"]
    assert eventually(lambda: server.depth(queue) == 0, client)


@pytest.mark.parametrize("persistent", [True, False])
def test_message_leaves_when_it_is_accepted(
    server: AmqpServer, client: BlockingConnection, queue: str, persistent: bool
) -> None:
    put(server, queue, b"1", persistent=persistent)
    receiver = client.create_receiver(queue, options=AtLeastOnce())
    assert body_of(receiver.receive(timeout=60)) == b"1"
    assert server.depth(queue) == 1
    receiver.accept()
    assert eventually(lambda: server.depth(queue) == 0, client)


def test_many_messages_keep_their_order(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    put(server, queue, *(str(number).encode() for number in range(2000)))
    receiver = client.create_receiver(queue, credit=100)
    got = []
    for _ in range(2000):
        got.append(int(body_of(receiver.receive(timeout=60))))
        receiver.accept()
    assert got == list(range(2000))
    assert eventually(lambda: server.depth(queue) == 0, client)


def test_released_message_returns_untried(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    put(server, queue, b"1", persistent=True)
    receiver = client.create_receiver(queue)
    receiver.receive(timeout=60)
    receiver.release(delivered=False)
    message = receiver.receive(timeout=60)
    assert (body_of(message), message.delivery_count) == (b"1", 0)
    receiver.accept()


def test_modified_message_returns_with_a_count(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    put(server, queue, b"1", persistent=True)
    receiver = client.create_receiver(queue)
    assert receiver.receive(timeout=60).first_acquirer
    receiver.fetcher.unsettled[0].local.failed = True
    receiver.release(delivered=True)
    message = receiver.receive(timeout=60)
    assert (message.delivery_count, message.first_acquirer) == (1, False)
    receiver.accept()
    assert eventually(lambda: server.depth(queue) == 0, client)


def test_rejected_message_moves_to_the_backout_queue(
    server: AmqpServer, client: BlockingConnection, queue: str
) -> None:
    put(server, queue, b"poison", persistent=True)
    receiver = client.create_receiver(queue)
    receiver.receive(timeout=60)
    receiver.reject()
    assert eventually(lambda: server.depth(queue) == 0, client)
    moved = server.host.get("BACKOUT", wait_s=60)
    assert moved is not None
    assert (moved.body, moved.properties["dead_letter_queue"]) == (b"poison", queue)


def test_rejected_message_moves_to_the_dead_letter_queue(server: AmqpServer, client: BlockingConnection) -> None:
    server.mqsc("DEFINE QLOCAL(WITHOUT.BACKOUT) REPLACE")
    put(server, "WITHOUT.BACKOUT", b"poison")
    receiver = client.create_receiver("WITHOUT.BACKOUT")
    receiver.receive(timeout=60)
    receiver.settle(Delivery.REJECTED)
    assert eventually(lambda: server.depth("WITHOUT.BACKOUT") == 0, client)
    moved = server.host.get("SYSTEM.DEAD.LETTER.QUEUE", wait_s=60)
    assert moved is not None
    assert moved.body == b"poison"


def test_undeliverable_here_counts_as_rejected(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    put(server, queue, b"1")
    receiver = client.create_receiver(queue)
    receiver.receive(timeout=60)
    delivery = receiver.fetcher.unsettled[0]
    delivery.local.undeliverable = True
    delivery.local.failed = True
    receiver.settle(Delivery.MODIFIED)
    assert eventually(lambda: server.depth(queue) == 0, client)
    moved = server.host.get("BACKOUT", wait_s=60)
    assert moved is not None
    assert moved.body == b"1"


def test_unsettled_message_returns_when_its_reader_goes(server: AmqpServer, queue: str) -> None:
    put(server, queue, b"1", persistent=True)
    first = BlockingConnection(server.url, timeout=60)
    first.create_receiver(queue).receive(timeout=60)
    first.close()
    second = BlockingConnection(server.url, timeout=60)
    receiver = second.create_receiver(queue)
    assert receiver.receive(timeout=60).delivery_count == 1
    receiver.accept()
    second.close()


def test_closed_link_gives_back_what_was_not_settled(
    server: AmqpServer, client: BlockingConnection, queue: str
) -> None:
    put(server, queue, b"1", b"2", b"3")
    first = client.create_receiver(queue, credit=3)
    first.receive(timeout=60)
    first.accept()
    first.close()
    second = client.create_receiver(queue, credit=3)
    assert [body_of(second.receive(timeout=60)) for _ in range(2)] == [b"2", b"3"]


class ReceiverSettlesSecond(LinkOption):
    def apply(self, link: Any) -> None:
        link.rcv_settle_mode = 1


def test_receiver_that_settles_second_hears_when_the_log_has_it(server: AmqpServer, queue: str) -> None:
    put(server, queue, b"1", persistent=True)
    settled: list[bool] = []

    class Receiver(MessagingHandler):
        def __init__(self) -> None:
            super().__init__(auto_accept=False, auto_settle=False)

        def on_start(self, event: Any) -> None:
            event.container.create_receiver(
                event.container.connect(server.url), queue, options=[ReceiverSettlesSecond()]
            )

        def on_message(self, event: Any) -> None:
            event.delivery.update(Delivery.ACCEPTED)

        def on_settled(self, event: Any) -> None:
            settled.append(server.depth(queue) == 0)
            event.delivery.settle()
            event.connection.close()

    Container(Receiver()).run()
    assert settled == [True]


def test_selector_chooses(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    for colour in ("red", "blue", "red"):
        put(server, queue, colour.encode(), properties={"colour": colour})
    receiver = client.create_receiver(queue, options=Selector("colour = 'blue'"))
    assert body_of(receiver.receive(timeout=60)) == b"blue"
    receiver.accept()
    assert eventually(lambda: server.depth(queue) == 2, client)


def test_selector_by_number_of_its_descriptor(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    put(server, queue, b"1", properties={"n": 1})
    put(server, queue, b"2", properties={"n": 2})
    chosen = Filter({symbol("selector"): Described(ulong(0x0000468C00000004), "n > 1")})
    receiver = client.create_receiver(queue, options=chosen)
    assert body_of(receiver.receive(timeout=60)) == b"2"


def test_broken_selector_is_told(client: BlockingConnection, queue: str) -> None:
    with pytest.raises(LinkDetached) as caught:
        client.create_receiver(queue, options=Selector("colour = "))
    assert caught.value.condition == "amqp:invalid-field"


def test_browser_leaves_messages_where_they_are(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    put(server, queue, b"1", b"2", b"3")
    browser = client.create_receiver(queue, credit=10, options=Copy())
    assert [body_of(browser.receive(timeout=60)) for _ in range(3)] == [b"1", b"2", b"3"]
    put(server, queue, b"4")
    assert body_of(browser.receive(timeout=60)) == b"4"
    browser.close()
    assert server.depth(queue) == 4


def test_drained_link_hears_that_there_is_nothing(server: AmqpServer, queue: str) -> None:
    put(server, queue, *(b"x" for _ in range(100)))
    seen: list[Any] = []

    class Receiver(MessagingHandler):
        def __init__(self) -> None:
            super().__init__(prefetch=0)

        def on_start(self, event: Any) -> None:
            self.receiver = event.container.create_receiver(event.container.connect(server.url), queue)

        def on_link_opened(self, event: Any) -> None:
            self.receiver.drain(500)

        def on_message(self, event: Any) -> None:
            seen.append(body_of(event.message))

        def on_link_flow(self, event: Any) -> None:
            if self.receiver.drained() or not self.receiver.credit:
                seen.append("drained")
                event.connection.close()

    Container(Receiver()).run()
    assert seen == [b"x"] * 100 + ["drained"]


def test_credit_that_is_taken_back_gets_nothing(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    receiver = client.create_receiver(queue, credit=1)
    receiver.link.drain(0)
    client.wait(lambda: not receiver.link.draining() or receiver.link.credit == 0, timeout=60)
    put(server, queue, b"1")
    time.sleep(0.1)
    assert len(receiver.fetcher.incoming) == 0
    receiver.link.flow(1)
    assert body_of(receiver.receive(timeout=60)) == b"1"


# --- request and reply --------------------------------------------------------------------------


def test_reply_comes_to_a_dynamic_queue(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    replies = client.create_receiver(None, dynamic=True)
    address = replies.link.remote_source.address
    request_id = uuid.uuid4()
    client.create_sender(queue).send(Message(body="question", id=request_id, reply_to=address))

    service = BlockingConnection(server.url, timeout=60)
    requests = service.create_receiver(queue)
    request = requests.receive(timeout=60)
    assert request.id == request_id
    service.create_sender(None).send(Message(body="answer", address=request.reply_to, correlation_id=request.id))
    requests.accept()

    reply = replies.receive(timeout=60)
    assert (reply.body, reply.correlation_id) == ("answer", request_id)
    service.close()


def test_program_of_ours_answers(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    replies = client.create_receiver(None, dynamic=True)
    client.create_sender(queue).send(Message(body="question", id=ulong(7), reply_to=replies.link.remote_source.address))
    request = server.host.get(queue, wait_s=60)
    assert request is not None
    assert (request.body, request.format) == (b"question", "MQSTR")
    answer = OurMessage(b"answer", correlation_id=request.message_id, format="MQSTR")
    server.host.put(request.reply_to, answer)
    reply = replies.receive(timeout=60)
    assert (reply.body, reply.correlation_id) == ("answer", 7)


def test_dynamic_queue_goes_with_its_link(server: AmqpServer, client: BlockingConnection) -> None:
    replies = client.create_receiver(None, dynamic=True)
    address = replies.link.remote_source.address
    assert server.host.find("QLOCAL", address) is not None
    replies.close()
    assert eventually(lambda: server.host.find("QLOCAL", address) is None, client)


def test_dynamic_queue_goes_with_its_connection(server: AmqpServer) -> None:
    connection = BlockingConnection(server.url, timeout=60)
    address = connection.create_receiver(None, dynamic=True).link.remote_source.address
    connection.close()
    assert eventually(lambda: server.host.find("QLOCAL", address) is None)


# --- what a message is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    ["text", b"bytes", 5, 3.5, {"a": [1, 2]}, ["x", 1, None], uuid.UUID(int=5), symbol("s"), b"", ""],
    ids=repr,
)
def test_bodies_come_back_as_they_were(client: BlockingConnection, queue: str, body: Any) -> None:
    client.create_sender(queue).send(Message(body=body))
    receiver = client.create_receiver(queue)
    got = body_of(receiver.receive(timeout=60))
    receiver.accept()
    assert got == body
    assert isinstance(got, type(body)) or isinstance(body, bytes)


@pytest.mark.parametrize("identifier", ["text", b"\x00\xff", b"text", ulong(5), uuid.UUID(int=9), "ID:ab"], ids=repr)
def test_ids_come_back_as_they_were(client: BlockingConnection, queue: str, identifier: Any) -> None:
    client.create_sender(queue).send(Message(body=b"x", id=identifier, correlation_id=identifier))
    receiver = client.create_receiver(queue)
    got = receiver.receive(timeout=60)
    receiver.accept()
    assert got.id == identifier
    assert got.correlation_id == identifier


def test_fields_come_back_as_they_were(client: BlockingConnection, queue: str) -> None:
    sent = Message(
        body=b"x",
        durable=True,
        priority=7,
        ttl=3600,
        subject="the subject",
        content_type="text/plain",
        content_encoding="gzip",
        reply_to="ANSWERS@QM2",
        group_id="a group",
        group_sequence=5,
        reply_to_group_id="another group",
        properties={"s": "text", "n": 5, "f": 1.5, "b": True, "d": b"\x00\x01", "l": 2**40},
    )
    client.create_sender(queue).send(sent)
    receiver = client.create_receiver(queue)
    got = receiver.receive(timeout=60)
    receiver.accept()
    for field in (
        "durable", "priority", "subject", "content_type", "content_encoding", "reply_to", "group_id",
        "group_sequence", "reply_to_group_id", "properties",
    ):  # fmt: skip
        assert getattr(got, field) == getattr(sent, field), field
    assert 3590 < got.ttl <= 3600
    assert abs(got.creation_time - time.time()) < 60


def test_expired_message_is_not_delivered(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    sender = client.create_sender(queue)
    sender.send(Message(body=b"old", ttl=0.05))
    sender.send(Message(body=b"new"))
    time.sleep(0.1)
    assert client.create_receiver(queue).receive(timeout=60).body == b"new"


# --- who is there ---------------------------------------------------------------------------------


def test_user_with_the_right_password(server: AmqpServer) -> None:
    connection = BlockingConnection(
        server.url, timeout=60, user="app", password="passw0rd-of-app", allowed_mechs="PLAIN"
    )
    connection.create_sender("SECRET").send(Message(body=b"for my eyes"))
    got = server.host.get("SECRET")
    assert got is not None
    assert got.user == "app"
    connection.close()


def test_wrong_password_is_refused_after_a_pause(server: AmqpServer) -> None:
    begun = time.monotonic()
    with pytest.raises(ConnectionException):
        BlockingConnection(server.url, timeout=60, user="app", password="guess", allowed_mechs="PLAIN", reconnect=False)
    assert time.monotonic() - begun >= 1.0


def test_application_is_the_clients_container(server: AmqpServer, queue: str) -> None:
    container = Container()
    container.container_id = "order-service"
    client = BlockingConnection(server.url, timeout=60, container=container)
    client.create_sender(queue).send(Message(body=b"x"))
    message = server.host.get(queue)
    assert message is not None
    assert message.application == "order-service"
    client.close()


def test_connection_says_who_we_are(server: AmqpServer, client: BlockingConnection) -> None:
    assert client.conn.remote_container == "QM1"
    assert client.conn.remote_properties["product"] == "Entrepot"
    assert "ANONYMOUS-RELAY" in [str(each) for each in client.conn.remote_offered_capabilities]


def test_stopped_queue_manager_says_so(tmp_path: Any) -> None:
    server = AmqpServer(tmp_path / "QM1")
    connection = BlockingConnection(server.url, timeout=60)
    sender = connection.create_sender("Q")
    threading.Thread(target=server.stop).start()
    with pytest.raises(Exception, match=r"closed|Disconnected|Connection"):
        for _ in range(6000):
            sender.send(Message(body=b"x"))
            time.sleep(0.01)


# --- transactions ---------------------------------------------------------------------------------


class Transacted(MessagingHandler, TransactionHandler):
    """Runs one transaction: sends, or receives, and then commits or aborts."""

    def __init__(self, server: AmqpServer, queue: str, *, send: int = 0, receive: int = 0, commit: bool = True) -> None:
        MessagingHandler.__init__(self, auto_accept=False, prefetch=0)
        self.server, self.queue, self.send, self.receive, self.commit = server, queue, send, receive, commit
        self.outcome = ""
        self.transaction: Any = None
        self.depth_before = -1
        self.counts: list[int] = []

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(self.server.url)
        if self.send:
            self.sender = event.container.create_sender(self.connection, self.queue)
        if self.receive:
            self.receiver = event.container.create_receiver(self.connection, self.queue)
        event.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        for number in range(self.send):
            self.transaction.send(self.sender, Message(body=str(number), durable=True))
        if self.receive:
            self.receiver.flow(self.receive)
        elif self.send:
            self.finish()

    def on_message(self, event: Any) -> None:
        self.counts.append(event.message.delivery_count)
        self.transaction.accept(event.delivery)
        if len(self.counts) == self.receive:
            self.finish()

    def finish(self) -> None:
        self.depth_before = self.server.depth(self.queue)
        if self.commit:
            self.transaction.commit()
        else:
            self.transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self.outcome = "committed"
        self.connection.close()

    def on_transaction_aborted(self, event: Any) -> None:
        self.outcome = "aborted"
        self.connection.close()

    def on_transaction_commit_failed(self, event: Any) -> None:
        self.outcome = "failed"
        self.connection.close()

    def run(self) -> Transacted:
        Container(self).run()
        return self


def test_committed_puts_arrive_together(server: AmqpServer, queue: str) -> None:
    assert Transacted(server, queue, send=5).run().outcome == "committed"
    assert server.depth(queue) == 5


def test_aborted_puts_never_arrive(server: AmqpServer, queue: str) -> None:
    assert Transacted(server, queue, send=5, commit=False).run().outcome == "aborted"
    assert server.depth(queue) == 0


def test_committed_gets_are_gone(server: AmqpServer, queue: str) -> None:
    put(server, queue, b"1", b"2", b"3")
    assert Transacted(server, queue, receive=3).run().outcome == "committed"
    assert server.depth(queue) == 0


def test_aborted_gets_return_with_a_count(server: AmqpServer, queue: str) -> None:
    put(server, queue, b"1", b"2")
    put(server, queue, b"3", persistent=True)
    first = Transacted(server, queue, receive=3, commit=False).run()
    assert (first.outcome, first.counts) == ("aborted", [0, 0, 0])
    assert eventually(lambda: server.depth(queue) == 3)
    second = Transacted(server, queue, receive=3).run()
    assert (second.outcome, second.counts) == ("committed", [1, 1, 1])


def test_gets_and_puts_are_one(server: AmqpServer, queue: str) -> None:
    class Forwarding(Transacted):
        def on_start(self, event: Any) -> None:
            super().on_start(event)
            self.sender = event.container.create_sender(self.connection, "BACKOUT")

        def on_message(self, event: Any) -> None:
            self.transaction.send(self.sender, Message(body=b"forwarded"))
            super().on_message(event)

    server.mqsc("CLEAR QLOCAL(BACKOUT)")
    put(server, queue, b"1", b"2")
    assert Forwarding(server, queue, receive=2, commit=False).run().outcome == "aborted"
    assert eventually(lambda: server.depth(queue) == 2)
    assert server.depth("BACKOUT") == 0
    assert Forwarding(server, queue, receive=2).run().outcome == "committed"
    assert (server.depth(queue), server.depth("BACKOUT")) == (0, 2)
    server.mqsc("CLEAR QLOCAL(BACKOUT)")


def test_transaction_with_a_refused_put_cannot_commit(server: AmqpServer) -> None:
    server.mqsc("CLEAR QLOCAL(SMALL)")
    assert Transacted(server, "SMALL", send=3).run().outcome == "failed"
    assert server.depth("SMALL") == 0


def test_open_transaction_is_backed_out_with_its_connection(server: AmqpServer, queue: str) -> None:
    class Vanishing(Transacted):
        def finish(self) -> None:
            self.depth_before = 0
            self.connection.close()

    Vanishing(server, queue, send=5).run()
    assert server.depth(queue) == 0
    assert eventually(lambda: not server.registry.sessions)
