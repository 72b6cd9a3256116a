# SPDX-License-Identifier: Apache-2.0
"""Publishing below all bindings: whose subscriptions are, how much goes where, and what readers count."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.engine.definitions import BASE_TOPIC, LocalQueue, SubscriptionDefinition, Topic
from entrepot.engine.entry import OVERHEAD_BYTES
from entrepot.engine.publishing import Publishing
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.subscription_owner import SubscriptionOwner
from entrepot.errors import (
    InvalidArgument,
    MessageTooLong,
    NotAuthorized,
    PublicationFailed,
    QueueNotFound,
    SubscriptionDiffers,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from entrepot.message import Message

from .simulated import Simulated

ANN, BOB, ROOT = (
    SubscriptionOwner("ann", administrator=False),
    SubscriptionOwner("bob", administrator=False),
    SubscriptionOwner("", administrator=True),
)


@pytest.fixture
def manager() -> QueueManager:
    """With the queues Q, A and B."""
    manager = Simulated().manager
    manager.administration.define_missing()
    for name in ("A", "B"):
        manager.administration.define(LocalQueue(name=name), replace_existing=False)
    manager.force()
    return manager


@pytest.fixture
def publishing(manager: QueueManager) -> Publishing:
    return manager.publishing


def subscribe(manager: QueueManager, name: str, queue: str = "Q", **attributes: Any) -> None:
    manager.publishing.define(SubscriptionDefinition(name=name, topic="t", destination=queue, **attributes))
    manager.force()


def publish(manager: QueueManager, body: bytes = b"", **attributes: Any) -> None:
    persistent = attributes.pop("persistent", None)
    manager.publishing.publish("t", Message(body, **attributes), persistent)
    manager.force()


def depths(manager: QueueManager) -> list[int]:
    return [manager.objects.queues[name].depth for name in ("Q", "A", "B")]


def kept_places(manager: QueueManager) -> int:
    return sum(queue.reserved for queue in manager.objects.queues.values())


# --- whose a subscription is ----------------------------------------------------------------------


@pytest.mark.parametrize("other", [BOB, SubscriptionOwner("", administrator=False)])
def test_only_its_owner_or_an_administrator_ends_a_subscription(
    manager: QueueManager, other: SubscriptionOwner
) -> None:
    for owner in (ANN, ROOT):
        subscribe(manager, "S", user="ann")
        with pytest.raises(NotAuthorized):
            manager.publishing.unsubscribe("S", holder=other)
        publish(manager)
        assert manager.get("Q")[0] is not None, "it goes on"
        manager.publishing.unsubscribe("S", holder=owner)
        publish(manager)
        assert depths(manager) == [0, 0, 0]


def test_a_subscription_without_an_owner_is_an_administrators(manager: QueueManager) -> None:
    subscribe(manager, "S")
    with pytest.raises(NotAuthorized):
        manager.publishing.unsubscribe("S", holder=SubscriptionOwner("", administrator=False))
    manager.publishing.unsubscribe("S", holder=ROOT)


@pytest.mark.parametrize("any_user", [False, True])
def test_others_open_a_subscription_only_if_it_is_for_any_user(manager: QueueManager, any_user: bool) -> None:
    subscribe(manager, "S", user="ann", any_user=any_user)
    wanted = SubscriptionDefinition(name="S")
    if any_user:
        manager.publishing.subscribe(wanted, holder=BOB)
    else:
        with pytest.raises(NotAuthorized):
            manager.publishing.subscribe(wanted, holder=BOB)
        manager.publishing.subscribe(wanted, holder=ANN)
    assert manager.objects.subscribers.by_name["S"].readers == 1


def test_a_subscription_that_is_open_is_not_ended(manager: QueueManager, publishing: Publishing) -> None:
    subscribe(manager, "S")
    publishing.subscribe(SubscriptionDefinition(name="S"))
    with pytest.raises(SubscriptionInUse):
        publishing.unsubscribe("S")
    publishing.leave("S")
    publishing.unsubscribe("S")
    manager.force()
    with pytest.raises(SubscriptionNotFound):
        publishing.unsubscribe("S")
    publishing.leave("S")


@pytest.mark.parametrize("shared", [False, True])
def test_several_read_a_subscription_only_if_it_is_shared(publishing: Publishing, shared: bool) -> None:
    wanted = SubscriptionDefinition(name="S", topic="t", destination="Q", shared=shared)
    publishing.subscribe(wanted)
    if shared:
        publishing.subscribe(wanted)
    else:
        with pytest.raises(SubscriptionInUse):
            publishing.subscribe(wanted)


def test_a_subscription_that_is_not_durable_ends_with_its_last_reader(manager: QueueManager) -> None:
    publishing = manager.publishing
    wanted = SubscriptionDefinition(name="S", topic="t", managed=True, durable=False, shared=True)
    queues = set(manager.objects.queues)
    for _ in range(2):
        publishing.subscribe(wanted)
    publishing.leave("S")
    assert "S" in manager.objects.subscribers.by_name
    publishing.leave("S")
    assert "S" not in manager.objects.subscribers.by_name
    assert set(manager.objects.queues) == queues, "its queue went with it"


@pytest.mark.parametrize(
    "different",
    [{"topic": "u"}, {"wildcards": "CHAR"}, {"selector": "n = 1"}, {"destination": "A"}, {"shared": True}],
)
def test_a_subscription_is_not_opened_as_something_else(publishing: Publishing, different: dict[str, Any]) -> None:
    wanted = SubscriptionDefinition(name="S", topic="t", destination="Q")
    publishing.subscribe(wanted)
    publishing.leave("S")
    with pytest.raises(SubscriptionDiffers):
        publishing.subscribe(replace(wanted, **different))
    publishing.subscribe(wanted)


# --- how much goes where --------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("queues", ["Q", "QA", "QAB"])
def test_a_body_that_several_subscribers_have_is_in_memory_once(
    manager: QueueManager, queues: str, persistent: bool
) -> None:
    for queue in queues:
        subscribe(manager, queue, queue)
    publish(manager, b"x" * 6000, persistent=persistent)
    for queue in queues:
        assert manager.objects.queues[queue].memory_bytes == 6000 // len(queues) + OVERHEAD_BYTES


def test_a_publication_has_so_many_bytes_and_no_more(manager: QueueManager) -> None:
    subscribe(manager, "S")
    manager.administration.alter(replace(manager.objects.manager, body_bytes_max=100))
    manager.force()
    publish(manager, b"x" * 100)
    with pytest.raises(MessageTooLong):
        publish(manager, b"x" * 101)
    assert depths(manager) == [1, 0, 0]


@pytest.mark.parametrize(
    ("limit", "body_bytes", "taken"),
    [
        ({"body_bytes_max": 10}, 10, 1),
        ({"body_bytes_max": 10}, 11, 0),
        ({"depth_max": 1}, 0, 1),
        ({"depth_max": 0}, 0, 0),
        ({"put_enabled": False}, 0, 0),
    ],
)
def test_what_a_queue_refuses_goes_to_the_dead_letter_queue(
    manager: QueueManager, limit: dict[str, Any], body_bytes: int, taken: int
) -> None:
    manager.administration.alter(LocalQueue(name="A", **limit))
    manager.force()
    subscribe(manager, "S")
    subscribe(manager, "LIMITED", "A")
    publish(manager, b"x" * body_bytes)
    assert depths(manager) == [1, taken, 0]
    dead = manager.objects.queues["SYSTEM.DEAD.LETTER.QUEUE"]
    assert (dead.depth, kept_places(manager)) == (1 - taken, 0)


@pytest.mark.parametrize(
    ("reach", "durable", "fails"),
    [
        ("ALL", True, True),
        ("ALL", False, True),
        ("ALLDUR", True, True),
        ("ALLDUR", False, False),
        ("ALLAVAIL", True, False),
    ],
)
def test_topics_say_who_has_to_be_reached(manager: QueueManager, reach: str, durable: bool, fails: bool) -> None:
    topic = Topic(name="T", topic="t", nonpersistent_reach=reach, use_dead_letter_queue="NO")  # type: ignore[arg-type]
    manager.administration.define(topic, replace_existing=False)
    manager.administration.alter(LocalQueue(name="A", put_enabled=False))
    manager.force()
    subscribe(manager, "S")
    subscribe(manager, "SHUT", "A", durable=durable)
    if fails:
        with pytest.raises(PublicationFailed):
            publish(manager)
    else:
        publish(manager)
    assert (depths(manager), kept_places(manager)) == ([0 if fails else 1, 0, 0], 0)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("shape", [{}, {"priority": 7}, {"user_data": "mine"}, {"correlation_id": "AA"}])
def test_messages_on_a_temporary_queue_are_not_persistent_and_keep_their_shape(
    manager: QueueManager, durable: bool, shape: dict[str, Any]
) -> None:
    wanted = SubscriptionDefinition(name="S", topic="t", managed=True, durable=durable, **shape)
    opened, _ = manager.publishing.subscribe(wanted)
    manager.force()
    publish(manager, b"body", persistent=True, correlation_id=b"publisher's", properties={"n": 1})
    (message,) = manager.browse(opened.destination, None, None, 9)[0]
    assert (message.body, message.persistent) == (b"body", durable)
    assert message.priority == shape.get("priority", 0)
    assert message.correlation_id == (b"\xaa" if "correlation_id" in shape else b"publisher's")
    assert message.properties == {"n": 1} | ({"MQSubUserData": "mine"} if "user_data" in shape else {})


def test_publications_of_a_unit_come_with_its_commit(manager: QueueManager) -> None:
    subscribe(manager, "S")
    unit = manager.begin()
    manager.publishing.publish("t", Message(b"four"), unit=unit)
    assert (depths(manager), kept_places(manager), unit.body_bytes) == ([0, 0, 0], 1, 4)
    manager.commit(unit)
    assert (depths(manager), kept_places(manager)) == ([1, 0, 0], 0)


def test_a_subscribers_conditions_decide(manager: QueueManager) -> None:
    subscribe(manager, "ONE", "Q", selector="n = 1")
    subscribe(manager, "RICH", "A", content="xpath:/order[total > 100]")
    subscribe(manager, "BOTH", "B", selector="n = 1", content="xpath:/order[total > 100]")
    for number, total in ((1, 99), (2, 101), (1, 101)):
        publish(manager, b"<order><total>%d</total></order>" % total, properties={"n": number})
    assert depths(manager) == [2, 2, 1]


def test_a_judgement_that_was_made_before_is_believed_for_that_message_only(manager: QueueManager) -> None:
    subscribe(manager, "RICH", content="xpath:/order[total > 100]")
    publishing = manager.publishing
    rich, poor = (Message(b"<order><total>%d</total></order>" % total) for total in (101, 99))
    judge = publishing.judgement("t", poor)
    assert judge is not None
    verdicts = judge()
    assert list(verdicts.values()) == [False]
    publishing.know(poor, verdicts)
    publishing.publish("t", rich)
    assert depths(manager) == [1, 0, 0], "it is another message"
    publishing.know(rich, verdicts)
    publishing.publish("t", rich)
    assert depths(manager) == [1, 0, 0]
    assert publishing.judgement("nobody", rich) is None


# --- topic objects --------------------------------------------------------------------------------


def test_a_topic_object_stays_where_it_is(manager: QueueManager) -> None:
    administration = manager.administration
    administration.define(Topic(name="T", topic="t"), replace_existing=False)
    manager.force()
    administration.define(Topic(name="T", topic="t", default_priority=3), replace_existing=True)
    for name, topic in (("T", "u"), (BASE_TOPIC, "u")):
        with pytest.raises(InvalidArgument):
            administration.alter(Topic(name=name, topic=topic))
    administration.alter(Topic(name=BASE_TOPIC, topic=""))


def test_a_subscription_to_a_queue_that_is_not_there_is_refused(manager: QueueManager) -> None:
    with pytest.raises(QueueNotFound):
        subscribe(manager, "S", "MISSING")
    assert "S" not in manager.objects.subscribers.by_name
    subscribe(manager, "P", "MISSING", destination_manager="QM2", type="PROXY")
    assert "P" in manager.objects.subscribers.by_name, "the way to another queue manager may come later"
