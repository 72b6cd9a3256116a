# SPDX-License-Identifier: Apache-2.0
"""Publish and subscribe by Apache Qpid Proton's Python client, unmodified."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from proton import UNDESCRIBED, Array, Data, Delivery, Described, Message, Terminus, symbol
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container, DurableSubscription, Filter, LinkOption, Selector
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached, SendException

from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.message import Message as OurMessage

from .amqp_server import AmqpServer
from .test_proton_client import Transacted, body_of, eventually

_numbers = count(1)


class Capable(LinkOption):
    """Capabilities of a source or a target, as Qpid JMS sends them."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def apply(self, link: Any) -> None:
        terminus = link.target if link.is_sender else link.source
        terminus.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, *(symbol(word) for word in self.words)))


class CopyMode(LinkOption):
    def apply(self, link: Any) -> None:
        link.source.distribution_mode = Terminus.DIST_MODE_COPY


class NullSource(LinkOption):
    """What a link says that means a subscription by its name alone."""

    def apply(self, link: Any) -> None:
        link.source.type = Terminus.UNSPECIFIED


@pytest.fixture
def client(server: AmqpServer) -> Iterator[BlockingConnection]:
    connection = connect(server)
    yield connection
    connection.close()


@pytest.fixture
def topic() -> str:
    """A topic of its own for every test."""
    return f"open/test{next(_numbers)}"


def connect(server: AmqpServer, container: str = "", **options: Any) -> BlockingConnection:
    own = Container()
    if container:
        own.container_id = container
    return BlockingConnection(server.url, timeout=60, container=own, **options)


def durable(client: BlockingConnection, topic: str, name: str, *options: LinkOption, credit: int = 10) -> Any:
    return client.create_receiver(
        f"topic://{topic}", name=name, credit=credit, options=[DurableSubscription(), *options]
    )


def publish(server: AmqpServer, topic: str, *bodies: bytes, **fields: Any) -> None:
    persistent = fields.pop("persistent", False)
    for body in bodies:
        server.host.put(f"topic:{topic}", OurMessage(body, **fields), persistent=persistent)


def take(receiver: BlockingReceiver, number: int) -> list[bytes]:
    got = []
    for _ in range(number):
        got.append(body_of(receiver.receive(timeout=60)))
        receiver.accept()
    return got


def subscriptions(server: AmqpServer, topic: str) -> dict[str, SubscriptionDefinition]:
    found = [each for each in server.host.definitions() if isinstance(each, SubscriptionDefinition)]
    return {each.name: each for each in found if each.topic == topic}


def detach(client: BlockingConnection, receiver: BlockingReceiver) -> None:
    """End a link and not what it stands for, and wait until both sides know."""
    receiver.link.detach()
    client.create_sender("Q").close()  # which the server answers behind it


# --- publish and subscribe ------------------------------------------------------------------------


def test_publication_reaches_every_subscriber(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    receivers = [client.create_receiver(f"topic://{topic}", name=name) for name in "abc"]
    sent = client.create_sender(f"topic://{topic}").send(Message(body=b"105", subject="ibm", durable=True))
    assert sent.remote_state == Delivery.ACCEPTED
    for receiver in receivers:
        message = receiver.receive(timeout=60)
        # Not durable any more, as nothing on the queue of such a subscription outlives the queue manager.
        assert (body_of(message), message.subject, message.durable) == (b"105", "ibm", False)
        assert message.address == f"topic://{topic}"
        assert message.annotations == {symbol("x-opt-topic"): topic}
        receiver.accept()


@pytest.mark.parametrize("form", ["topic://{}", "topic:{}", "/topic/{}"])
def test_addresses_of_a_topic(server: AmqpServer, client: BlockingConnection, topic: str, form: str) -> None:
    receiver = client.create_receiver(form.format(topic))
    client.create_sender(form.format(topic)).send(Message(body=b"1"))
    assert take(receiver, 1) == [b"1"]


def test_plain_name_with_the_capability_topic(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    receiver = client.create_receiver(topic, options=[Capable("topic"), CopyMode()])
    client.create_sender(topic, options=Capable("topic")).send(Message(body=b"1"))
    assert take(receiver, 1) == [b"1"]
    assert receiver.link.remote_source.distribution_mode == Terminus.DIST_MODE_COPY


def test_capability_queue_means_a_queue(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    client.create_sender(queue, options=Capable("queue")).send(Message(body=b"1"))
    assert take(client.create_receiver(queue, options=Capable("queue")), 1) == [b"1"]


def test_wildcards(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    one = client.create_receiver(f"topic://{topic}/+", credit=10)
    all_ = client.create_receiver(f"topic://{topic}/#", credit=10)
    for name in (f"{topic}/ibm", f"{topic}/a/b", topic):
        publish(server, name, name.encode())
    assert take(one, 1) == [f"{topic}/ibm".encode()]
    assert take(all_, 3) == [f"{topic}/ibm".encode(), f"{topic}/a/b".encode(), topic.encode()]
    assert not eventually(lambda: bool(one.fetcher.incoming), client, 0.1)


def test_anonymous_relay_publishes(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    receiver = client.create_receiver(f"topic://{topic}")
    sender = client.create_sender(None)
    sender.send(Message(body=b"1", address=f"topic://{topic}"))
    assert take(receiver, 1) == [b"1"]
    for wrong in ("topic://open/+", "topic://", "topic://news/x"):
        with pytest.raises(SendException):
            sender.send(Message(body=b"2", address=wrong))
    sender.send(Message(body=b"3", address=f"topic://{topic}"))
    assert take(receiver, 1) == [b"3"]


def test_settled_publications_arrive(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    receiver = client.create_receiver(f"topic://{topic}", credit=100, options=AtMostOnce())
    sender = client.create_sender(f"topic://{topic}", options=AtMostOnce())
    for number in range(100):
        sender.send(Message(body=str(number)))
    sender.close()
    assert [receiver.receive(timeout=60).body for _ in range(100)] == [str(number) for number in range(100)]


def test_subscription_ends_with_its_link(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    closed, detached = (client.create_receiver(f"topic://{topic}", name=name) for name in "ab")
    assert len(subscriptions(server, topic)) == 2
    assert not closed.link.remote_source.durability
    closed.close()
    assert eventually(lambda: len(subscriptions(server, topic)) == 1, client)
    detached.link.detach()
    assert eventually(lambda: subscriptions(server, topic) == {}, client)
    assert [each.name for each in server.host.definitions() if "MANAGED.NDURABLE" in each.name] == []


def test_subscription_ends_with_its_connection(server: AmqpServer, topic: str) -> None:
    client = connect(server)
    client.create_receiver(f"topic://{topic}", name="mine")
    client.close()
    assert eventually(lambda: subscriptions(server, topic) == {})


def test_retained_publication_waits_for_subscribers(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    early = client.create_receiver(f"topic://{topic}")
    sender = client.create_sender(f"topic://{topic}")
    sender.send(Message(body=b"old", annotations={symbol("x-opt-retain"): True}, durable=True))
    sender.send(Message(body=b"kept", annotations={symbol("x-opt-retain"): True}, durable=True))
    sender.send(Message(body=b"passing", annotations={symbol("x-opt-retain"): False}))
    news = early.receive(timeout=60)
    assert symbol("x-opt-retained") not in news.annotations
    late = client.create_receiver(f"topic://{topic}", name="late")
    message = late.receive(timeout=60)
    assert body_of(message) == b"kept"
    assert message.annotations == {symbol("x-opt-topic"): topic, symbol("x-opt-retained"): True}


def test_retained_means_nothing_to_a_queue(server: AmqpServer, client: BlockingConnection, queue: str) -> None:
    client.create_sender(queue).send(Message(body=b"1", annotations={symbol("x-opt-retain"): True}))
    message = client.create_receiver(queue).receive(timeout=60)
    assert not message.annotations


def test_retain_that_is_no_boolean_is_rejected(client: BlockingConnection, topic: str) -> None:
    sender = client.create_sender(f"topic://{topic}")
    with pytest.raises(SendException):
        sender.send(Message(body=b"1", annotations={symbol("x-opt-retain"): "yes"}))
    sender.send(Message(body=b"2"))


def test_selector_chooses(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    receiver = client.create_receiver(f"topic://{topic}", options=Selector("colour = 'red'"))
    sender = client.create_sender(f"topic://{topic}")
    for colour in ("blue", "red"):
        sender.send(Message(body=colour.encode(), properties={"colour": colour}))
    assert take(receiver, 1) == [b"red"]
    answered = receiver.link.remote_source.filter
    answered.rewind()
    answered.next()
    assert answered.get_object() == {
        symbol("selector"): Described(symbol("apache.org:selector-filter:string"), "colour = 'red'")
    }


def content(expression: str) -> Filter:
    return Filter({symbol("content"): Described(symbol("entrepot:content-filter:string"), expression)})


def test_content_filter_chooses(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    receiver = client.create_receiver(f"topic://{topic}", options=content("xpath:/order[total > 100]"))
    sender = client.create_sender(f"topic://{topic}")
    for total in (50, 150):
        sender.send(Message(body=f"<order><total>{total}</total></order>".encode()))
    sender.send(Message(body=b"no XML"))
    assert take(receiver, 1) == [b"<order><total>150</total></order>"]
    assert not eventually(lambda: bool(receiver.fetcher.incoming), client, 0.1)


def test_publications_of_a_transaction_arrive_with_the_commit(server: AmqpServer, topic: str) -> None:
    client = connect(server)
    receiver = client.create_receiver(f"topic://{topic}", credit=10)
    before: list[bool] = []

    class Publishing(Transacted):
        def finish(self) -> None:
            before.append(bool(eventually(lambda: bool(receiver.fetcher.incoming), client, 0.1)))
            if self.commit:
                self.transaction.commit()
            else:
                self.transaction.abort()

    assert Publishing(server, f"topic://{topic}", send=3, commit=False).run().outcome == "aborted"
    assert Publishing(server, f"topic://{topic}", send=3).run().outcome == "committed"
    assert [receiver.receive(timeout=60).body for _ in range(3)] == ["0", "1", "2"]
    assert before == [False, False]
    assert not eventually(lambda: bool(receiver.fetcher.incoming), client, 0.1)
    client.close()


def test_publications_are_taken_in_a_transaction(server: AmqpServer, topic: str) -> None:
    client = connect(server, "taker")
    detach(client, durable(client, topic, "sub", credit=0))
    publish(server, topic, b"1", b"2")

    class Taking(Transacted):
        def on_start(self, event: Any) -> None:
            event.container.container_id = "taker"
            self.connection = event.container.connect(self.server.url)
            self.receiver = event.container.create_receiver(
                self.connection, f"topic://{topic}", name="sub", options=[DurableSubscription()]
            )
            event.container.declare_transaction(self.connection, handler=self)

        def finish(self) -> None:
            (self.transaction.commit if self.commit else self.transaction.abort)()

    assert Taking(server, topic, receive=2, commit=False).run().counts == [0, 0]
    assert Taking(server, topic, receive=2).run().counts == [1, 1]
    client.close()


# --- durable subscriptions ------------------------------------------------------------------------


def test_durable_subscription_collects_while_its_reader_is_away(server: AmqpServer, topic: str) -> None:
    first = connect(server, "c1")
    receiver = durable(first, topic, "sub")
    source = receiver.link.remote_source
    assert (source.durability, source.expiry_policy) == (Terminus.DELIVERIES, Terminus.EXPIRE_NEVER)
    assert list(subscriptions(server, topic)) == ["c1:sub"]
    publish(server, topic, b"1", persistent=True)
    message = receiver.receive(timeout=60)
    assert (body_of(message), message.durable) == (b"1", True)
    receiver.accept()
    first.close()
    publish(server, topic, b"2", b"3", persistent=True)
    second = connect(server, "c1")
    assert take(durable(second, topic, "sub"), 2) == [b"2", b"3"]
    second.close()
    assert list(subscriptions(server, topic)) == ["c1:sub"]


def test_durable_subscription_survives_a_lost_connection(server: AmqpServer, topic: str) -> None:
    lost = connect(server, "c2")
    durable(lost, topic, "sub", credit=1)
    publish(server, topic, b"1", persistent=True)
    assert eventually(lambda: bool(lost.container) and server.depth(_queue(server, "c2:sub")) == 1, lost)
    server.call(lambda: [link._transport.abort() for link in server.registry.links])
    publish(server, topic, b"2", persistent=True)
    again = connect(server, "c2")
    assert take(durable(again, topic, "sub"), 2) == [b"1", b"2"]
    again.close()


def _queue(server: AmqpServer, name: str) -> str:
    found = server.host.find("SUB", name)
    assert isinstance(found, SubscriptionDefinition)
    return found.destination


def test_detached_durable_subscription_is_resumed_on_the_same_connection(server: AmqpServer, topic: str) -> None:
    client = connect(server, "c3")
    detach(client, durable(client, topic, "sub"))
    publish(server, topic, b"1")
    assert eventually(lambda: server.depth(_queue(server, "c3:sub")) == 1, client)
    resumed = durable(client, topic, "sub")
    assert take(resumed, 1) == [b"1"]
    client.close()


def test_durable_subscription_survives_the_queue_manager(tmp_path: Any, topic: str) -> None:
    server = AmqpServer(tmp_path / "QM1")
    client = connect(server, "c4")
    durable(client, topic, "sub", Selector("n > 1"))
    client.close()
    for number in (1, 2):
        publish(server, topic, str(number).encode(), persistent=True, properties={"n": number})
    server.stop()
    server = AmqpServer(tmp_path / "QM1")
    client = connect(server, "c4")
    assert take(durable(client, topic, "sub", Selector("n > 1")), 1) == [b"2"]
    client.close()
    server.stop()


def test_closed_link_ends_its_durable_subscription(server: AmqpServer, topic: str) -> None:
    client = connect(server, "c5")
    receiver = durable(client, topic, "sub", credit=100)
    publish(server, topic, *(b"x" for _ in range(20)), persistent=True)
    take(receiver, 15)
    receiver.close()
    assert subscriptions(server, topic) == {}
    assert receiver.link.remote_condition is None
    client.close()


def test_unsubscribe_by_a_link_without_a_source(server: AmqpServer, topic: str) -> None:
    client = connect(server, "c6")
    detach(client, durable(client, topic, "sub", Selector("n = 1")))
    publish(server, topic, b"1", persistent=True, properties={"n": 1})
    found = client.create_receiver(None, name="sub", credit=0, options=NullSource())
    source = found.link.remote_source
    assert (source.address, source.durability) == (f"topic://{topic}", Terminus.DELIVERIES)
    found.close()
    assert subscriptions(server, topic) == {}
    with pytest.raises(LinkDetached) as caught:
        client.create_receiver(None, name="sub", options=NullSource())
    assert caught.value.condition == "amqp:not-found"
    client.close()


def test_link_without_a_source_reads_on(server: AmqpServer, topic: str) -> None:
    client = connect(server, "c7")
    detach(client, durable(client, topic, "sub"))
    publish(server, topic, b"1", persistent=True)
    found = client.create_receiver(None, name="sub", credit=1, options=NullSource())
    assert take(found, 1) == [b"1"]
    detach(client, found)
    assert list(subscriptions(server, topic)) == ["c7:sub"]
    client.close()


def test_administrators_subscription_is_read_by_its_name(
    server: AmqpServer, client: BlockingConnection, topic: str, queue: str
) -> None:
    server.mqsc(f"DEFINE SUB('FOR.AMQP') TOPICSTR('{topic}') DEST({queue}) VARUSER(ANY)")
    server.mqsc(f"SET AUTHREC PROFILE({queue}) OBJTYPE(QUEUE) PRINCIPAL('guest') AUTHADD(GET)")
    publish(server, topic, b"1")
    found = client.create_receiver(None, name="FOR.AMQP|global", options=NullSource())
    assert take(found, 1) == [b"1"]
    detach(client, found)
    assert list(subscriptions(server, topic)) == ["FOR.AMQP"]


def test_durable_subscription_is_its_users_and_not_its_containers(server: AmqpServer, topic: str) -> None:
    owner = connect(server, "owned")
    detach(owner, durable(owner, topic, "sub"))
    publish(server, topic, b"1", persistent=True)
    for options, condition in (
        (DurableSubscription(), "amqp:unauthorized-access"),
        (NullSource(), "amqp:not-found"),
    ):
        other = connect(server, "owned", user="app", password="passw0rd-of-app", allowed_mechs="PLAIN")
        with pytest.raises(LinkDetached) as caught:
            other.create_receiver(f"topic://{topic}", name="sub", options=[options])
        assert caught.value.condition == condition
        other.close()
    assert take(durable(owner, topic, "sub"), 1) == [b"1"], "neither ended nor drained"
    owner.close()


def test_durable_subscription_has_one_reader(server: AmqpServer, topic: str) -> None:
    first = connect(server, "c8")
    durable(first, topic, "sub")
    for options in ([DurableSubscription()], [NullSource()]):
        second = connect(server, "c8")
        with pytest.raises(LinkDetached) as caught:
            second.create_receiver(f"topic://{topic}", name="sub", options=options)
        assert caught.value.condition == "amqp:resource-locked"
        second.close()
    first.close()


@pytest.mark.parametrize("other", [Selector("n > 1"), content("xpath:/a"), Capable("topic", "shared")])
def test_durable_subscription_is_not_changed_by_attaching(server: AmqpServer, topic: str, other: LinkOption) -> None:
    client = connect(server, f"c9-{topic}")
    detach(client, durable(client, topic, "sub"))
    publish(server, topic, b"1", persistent=True)
    with pytest.raises(LinkDetached) as caught:
        durable(client, topic, "sub", other)
    assert caught.value.condition == "amqp:precondition-failed"
    client.close()
    client = connect(server, f"c9-{topic}")
    assert take(durable(client, topic, "sub"), 1) == [b"1"]
    client.close()


def test_durable_without_never_is_not_durable(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    class Durability(LinkOption):
        def apply(self, link: Any) -> None:
            link.source.durability = Terminus.DELIVERIES

    receiver = client.create_receiver(f"topic://{topic}", name="sub", options=Durability())
    assert not receiver.link.remote_source.durability
    receiver.close()
    assert subscriptions(server, topic) == {}


# --- shared subscriptions -------------------------------------------------------------------------


@pytest.mark.parametrize("is_durable", [True, False])
def test_shared_subscription_gives_each_message_once(server: AmqpServer, topic: str, is_durable: bool) -> None:
    options: list[LinkOption] = [Capable("topic", "shared", "global")]
    if is_durable:
        options.append(DurableSubscription())
    clients = [connect(server, f"s{number}") for number in range(2)]
    suffixes = ("global", "global2") if is_durable else ("global-volatile1", "global-volatile2")
    # Two links of one connection, and one of another.
    names = [(clients[0], suffixes[0]), (clients[0], suffixes[1]), (clients[1], suffixes[0])]
    receivers = [
        client.create_receiver(topic, name=f"{topic}|{suffix}", credit=10, options=options) for client, suffix in names
    ]
    assert list(subscriptions(server, topic)) == [topic]
    publish(server, topic, *(str(number).encode() for number in range(20)))
    got: list[bytes] = []

    def all_there() -> bool:
        for receiver in receivers:
            while receiver.fetcher.incoming:
                got.append(body_of(receiver.receive(timeout=60)))
                receiver.accept()
        for client in clients:
            client.container.timeout = 0.01
            client.container.process()
        return len(got) >= 20

    assert eventually(all_there)
    assert sorted(got, key=int) == [str(number).encode() for number in range(20)]
    for client in clients:
        client.close()
    assert eventually(lambda: list(subscriptions(server, topic)) == ([topic] if is_durable else []))


def test_shared_durable_subscription_ends_when_nobody_else_reads_it(server: AmqpServer, topic: str) -> None:
    clients = [connect(server) for _ in range(2)]
    options = [Capable("topic", "shared", "global"), DurableSubscription()]
    name = f"{topic}|global"
    first, second = (client.create_receiver(topic, name=name, options=options) for client in clients)
    first.close()
    assert first.link.remote_condition.name == "amqp:resource-locked"
    publish(server, topic, b"1")
    assert take(second, 1) == [b"1"]
    detach(clients[1], second)
    # As Qpid JMS unsubscribes without a client id.
    clients[0].create_receiver(None, name=name, credit=0, options=NullSource()).close()
    assert subscriptions(server, topic) == {}
    for client in clients:
        client.close()


def test_links_of_one_connection_share_and_end(server: AmqpServer, topic: str) -> None:
    client = connect(server, "s3")
    options = [Capable("topic", "shared"), DurableSubscription()]
    first, second = (client.create_receiver(topic, name=f"sub{end}", options=options) for end in ("", "|2"))
    assert list(subscriptions(server, topic)) == ["s3:sub"]
    second.close()
    assert second.link.remote_condition.name == "amqp:resource-locked"
    publish(server, topic, b"1")
    assert take(first, 1) == [b"1"]
    first.close()
    assert subscriptions(server, topic) == {}
    client.close()


def test_shared_subscription_of_a_container_is_its_own(server: AmqpServer, topic: str) -> None:
    clients = [connect(server, f"own{number}") for number in range(2)]
    for client in clients:
        client.create_receiver(topic, name="sub|volatile1", options=Capable("topic", "shared"))
    assert sorted(subscriptions(server, topic)) == ["own0:sub", "own1:sub"]
    for client in clients:
        client.close()


# --- what is refused ------------------------------------------------------------------------------


def refusal(attach: Any, *arguments: Any, **options: Any) -> tuple[str, str]:
    with pytest.raises(LinkDetached) as caught:
        attach(*arguments, **options)
    return str(caught.value.condition), str(caught.value)


def test_wrong_topics_are_told(client: BlockingConnection) -> None:
    condition, text = refusal(client.create_sender, "topic://open/+")
    assert condition == "amqp:invalid-field"
    assert "+ alone as a level is a wildcard" in text
    for attach in (client.create_sender, client.create_receiver):
        assert refusal(attach, "topic://")[0] == "amqp:invalid-field"
        assert refusal(attach, "topic://open/\u0001")[0] == "amqp:invalid-field"


def test_who_may_not_is_not_authorized(server: AmqpServer, client: BlockingConnection) -> None:
    for attach in (client.create_sender, client.create_receiver):
        assert refusal(attach, "topic://elsewhere/x")[0] == "amqp:unauthorized-access"
    assert refusal(client.create_sender, "topic://news/x")[0] == "amqp:unauthorized-access"
    assert refusal(client.create_receiver, "topic://#")[0] == "amqp:unauthorized-access"
    receiver = client.create_receiver("topic://news/x")
    app = connect(server, user="app", password="passw0rd-of-app", allowed_mechs="PLAIN")
    assert refusal(app.create_receiver, "topic://news/x")[0] == "amqp:unauthorized-access"
    app.create_sender("topic://news/x").send(Message(body=b"1"))
    assert take(receiver, 1) == [b"1"]
    app.close()


def test_durable_subscription_is_hidden_from_who_may_not_have_it(server: AmqpServer) -> None:
    guest = connect(server, "hidden")
    detach(guest, durable(guest, "news/x", "sub"))
    app = connect(server, "hidden", user="app", password="passw0rd-of-app", allowed_mechs="PLAIN")
    for name in ("sub", "none"):
        condition, text = refusal(app.create_receiver, None, name=name, options=NullSource())
        assert condition == "amqp:not-found"
        assert f"there is no subscription hidden:{name}" in text
    app.close()
    guest.close()
    assert list(subscriptions(server, "news/x")) == ["hidden:sub"]


def test_what_the_topic_object_forbids(server: AmqpServer, client: BlockingConnection) -> None:
    assert refusal(client.create_receiver, "topic://open/closed/x")[0] == "amqp:not-allowed"
    assert refusal(durable, client, "open/fleeting", "sub")[0] == "amqp:not-allowed"
    client.create_receiver("topic://open/fleeting")
    assert _rejection(server, "topic://open/closed", Message(body=b"1")) == "amqp:not-allowed"


def test_publication_that_somebody_must_have_and_cannot_is_rejected(server: AmqpServer) -> None:
    server.mqsc("CLEAR QLOCAL(SMALL)")
    server.mqsc("DEFINE SUB(FULL) TOPICSTR('open/strict/x') DEST(SMALL) REPLACE")
    publish(server, "open/strict/x", b"1", b"2")
    assert _rejection(server, "topic://open/strict/x", Message(body=b"3")) == "amqp:resource-limit-exceeded"
    server.mqsc("DELETE SUB(FULL)")
    server.mqsc("CLEAR QLOCAL(SMALL)")


def _rejection(server: AmqpServer, address: str, message: Message) -> str:
    """The condition with which a message is rejected; the message after it is taken by the same connection."""
    found: list[str] = []

    class Sender(MessagingHandler):
        def on_start(self, event: Any) -> None:
            self.connection = event.container.connect(server.url)
            event.container.create_sender(self.connection, address)

        def on_sendable(self, event: Any) -> None:
            if not found:
                found.append("")
                event.sender.send(message)

        def on_rejected(self, event: Any) -> None:
            found[0] = event.delivery.remote.condition.name
            event.container.create_sender(self.connection, "Q").send(Message(body=b"after"))

        def on_accepted(self, event: Any) -> None:
            event.connection.close()

    Container(Sender()).run()
    server.mqsc("CLEAR QLOCAL(Q)")
    return found[0]


def test_broken_filters_are_told(client: BlockingConnection, topic: str) -> None:
    for name, broken in enumerate((Selector("colour = "), content("xpath:/order["), content("cobol:MOVE"))):
        attach = client.create_receiver
        assert refusal(attach, f"topic://{topic}", name=str(name), options=broken)[0] == "amqp:invalid-field"


def test_temporary_topics_are_not_implemented(client: BlockingConnection) -> None:
    condition, text = refusal(client.create_receiver, None, dynamic=True, options=Capable("temporary-topic"))
    assert condition == "amqp:not-implemented"
    assert "no temporary topics" in text


def test_refused_link_leads_nowhere(client: BlockingConnection) -> None:
    with pytest.raises(LinkDetached) as caught:
        client.create_receiver("topic://open/closed/x")
    assert caught.value.link.remote_source.type == Terminus.UNSPECIFIED
    with pytest.raises(LinkDetached) as caught:
        client.create_sender("NO.SUCH.QUEUE")
    assert caught.value.link.remote_target.type == Terminus.UNSPECIFIED


def test_connection_says_that_there_are_topics(client: BlockingConnection) -> None:
    assert client.conn.remote_properties["topic-prefix"] == "topic://"
    assert "SHARED-SUBS" in [str(each) for each in client.conn.remote_offered_capabilities]


def test_many_subscribers_come_and_go(server: AmqpServer, client: BlockingConnection, topic: str) -> None:
    for _ in range(50):
        receiver = client.create_receiver(f"topic://{topic}")
        publish(server, topic, b"1")
        assert take(receiver, 1) == [b"1"]
        receiver.close()
    assert subscriptions(server, topic) == {}
