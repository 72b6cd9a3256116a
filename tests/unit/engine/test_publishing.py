# SPDX-License-Identifier: Apache-2.0
"""Publications in the engine: topic objects, plans, what subscribers' messages are like, and what survives."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conftest import MEMORY, host_of
from entrepot import Connection, Message
from entrepot.engine import publishing
from entrepot.engine.definitions import BASE_TOPIC, RETAINED_QUEUE, SubscriptionDefinition, Topic
from entrepot.engine.entry import QueuedMessage
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.retained import Retained
from entrepot.errors import (
    DiskFull,
    DurabilityNotAllowed,
    InvalidArgument,
    InvalidTopic,
    LogFull,
    ObjectExists,
    ObjectNotFound,
    PublicationFailed,
    PublishInhibited,
    QueueInUse,
    SelectorSyntaxError,
    SubscribeInhibited,
    SubscriptionDiffers,
    SubscriptionInUse,
    SubscriptionNotFound,
    TopicObjectTaken,
)

DEAD_LETTERS = "SYSTEM.DEAD.LETTER.QUEUE"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """These tests are not about disks."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as path:
        yield Path(path)


def engine(connection: Connection) -> QueueManager:
    manager: QueueManager = host_of(connection).manager  # type: ignore[attr-defined]
    return manager


def define(connection: Connection, *definitions: Any, replace: bool = True) -> None:
    for definition in definitions:
        host_of(connection).define(definition, replace=replace)  # type: ignore[attr-defined]


def subscription(name: str, topic: str = "a", queue: str = "Q", **attributes: Any) -> SubscriptionDefinition:
    return SubscriptionDefinition(name=name, topic=topic, destination=queue, **attributes)


def entries(connection: Connection, queue: str = "Q") -> list[QueuedMessage]:
    found = engine(connection).objects.queues[queue]
    return list(found.after(None))


def drain(connection: Connection, queue: str = "Q") -> list[Message]:
    return list(iter(lambda: connection.get(queue), None))


def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body for message in drain(connection, queue)]


def retained(connection: Connection, pattern: str = "#") -> list[bytes]:
    with connection.subscribe(pattern) as opened:
        return bodies(connection, opened.queue)


# --- topic objects ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "above", "below"),
    [
        ("publish", "DISABLED", "ENABLED"),
        ("subscribe", "DISABLED", "ENABLED"),
        ("durable", "NO", "YES"),
        ("default_persistent", "YES", "NO"),
        ("default_priority", 7, 0),
        ("persistent_reach", "ALL", "ALLAVAIL"),
        ("nonpersistent_reach", "ALLDUR", "ALL"),
        ("use_dead_letter_queue", "NO", "YES"),
        ("publication_scope", "QMGR", "ALL"),
        ("subscription_scope", "QMGR", "ALL"),
        ("durable_model", "M1", "M2"),
        ("nondurable_model", "M1", "M2"),
    ],
)
def test_attributes_come_from_the_nearest_topic_object_that_says_anything(
    connection: Connection, attribute: str, above: Any, below: Any
) -> None:
    def says(topic: str) -> tuple[Any, str]:
        ruling = engine(connection).objects.subscribers.ruling(topic)
        return getattr(ruling.topic, attribute), ruling.sources[attribute]

    base = host_of(connection).find("TOPIC", BASE_TOPIC)  # type: ignore[attr-defined]
    at_first = (getattr(base, attribute), BASE_TOPIC)
    assert says("a/b/c") == at_first
    define(
        connection,
        Topic(name="A", topic="a", **{attribute: above}),
        Topic(name="AB", topic="a/b"),
        Topic(name="ABC", topic="a/b/c", **{attribute: below}),
    )
    assert [says(topic) for topic in ("a", "a/x/y", "a/b", "a/b/x")] == [(above, "A")] * 4
    assert [says(topic) for topic in ("a/b/c", "a/b/c/d")] == [(below, "ABC")] * 2
    assert [says(topic) for topic in ("", "b", "aa", "/a")] == [at_first] * 4
    define(connection, replace(base, **{attribute: below}), Topic(name="A", topic="a"))
    assert says("a/b") == (below, BASE_TOPIC)
    host_of(connection).delete("TOPIC", "ABC", purge=False)  # type: ignore[attr-defined]
    assert says("a/b/c") == (below, BASE_TOPIC)


def test_the_names_of_the_topic_objects_on_the_way_are_known(connection: Connection) -> None:
    define(connection, Topic(name="AB", topic="a/b"))
    ruling = engine(connection).objects.subscribers.ruling
    assert ruling("a/b/c").names == ("AB", BASE_TOPIC)
    assert ruling("a").names == (BASE_TOPIC,)


def test_publications_can_be_shut_off(connection: Connection) -> None:
    define(connection, Topic(name="A", topic="a", publish="DISABLED"), subscription("S", "#"))
    with pytest.raises(PublishInhibited) as refused:
        connection.publish("a/b", b"", retain=True)
    assert (refused.value.topic, refused.value.administered) == ("a/b", "A")
    connection.publish("b", b"")
    define(connection, Topic(name="A", topic="a"))
    connection.publish("a/b", b"")
    assert [message.topic for message in drain(connection)] == ["b", "a/b"]
    assert retained(connection) == []


def test_subscriptions_can_be_shut_off(connection: Connection) -> None:
    connection.subscribe("a/b", durable="BEFORE").close()
    define(connection, Topic(name="A", topic="a", subscribe="DISABLED"))
    for topic in ("a", "a/b", "a/+", "a/b/#"):
        with pytest.raises(SubscribeInhibited, match="A allows no subscriptions"):
            connection.subscribe(topic)
    for topic in ("#", "b", "+/b"):
        connection.subscribe(topic).close()
    connection.subscribe("a/b", durable="BEFORE").close()
    define(connection, Topic(name="A", topic="a", durable="NO"))
    connection.subscribe("a").close()
    with pytest.raises(DurabilityNotAllowed, match="A allows no durable"):
        connection.subscribe("a/#", durable="D")
    assert engine(connection).objects.subscriptions.keys() == {"BEFORE"}


def test_topics_say_how_persistent_and_urgent_publications_are(connection: Connection) -> None:
    define(connection, Topic(name="A", topic="a", default_persistent="YES", default_priority=6), subscription("S", "#"))
    connection.publish("a/b", b"1")
    connection.publish("a/b", b"2", persistent=False, priority=6)
    connection.publish("b", b"3")
    connection.publish("b", b"4", persistent=True, priority=9)
    found = [(message.body, message.persistent, message.priority) for message in drain(connection)]
    assert found == [(b"4", True, 9), (b"1", True, 6), (b"2", False, 6), (b"3", False, 0)]


def test_topics_say_after_which_models_queues_are_made(connection: Connection) -> None:
    """The queue lives as long as its subscription, whatever the model says."""
    connection.mqsc("DEFINE QMODEL(P) DEFTYPE(PERMDYN) MAXDEPTH(7)\nDEFINE QMODEL(T) DEFTYPE(TEMPDYN) MAXDEPTH(8)")
    define(connection, Topic(name="A", topic="a", durable_model="T", nondurable_model="P"))
    queues = engine(connection).objects.queues
    durable = queues[connection.subscribe("a", durable="D").queue].definition
    assert (durable.depth_max, durable.dynamic) == (8, "PERMANENT")
    fleeting = queues[connection.subscribe("a").queue].definition
    assert (fleeting.depth_max, fleeting.dynamic) == (7, "TEMPORARY")
    define(connection, Topic(name="A", topic="a", durable_model="NOPE"))
    with pytest.raises(ObjectNotFound, match="NOPE"):
        connection.subscribe("a", durable="E")


def test_wildcards_above_a_topic_can_be_kept_from_it(connection: Connection) -> None:
    define(connection, Topic(name="AB", topic="a/b", wildcard="BLOCK"))
    patterns = ("#", "a/#", "a/+/c", "+/b", "a/b/#", "a/b/+", "a/b", "a/b/c")
    opened = {pattern: connection.subscribe(pattern) for pattern in patterns}
    characters = connection.subscribe("a/*", wildcards="CHAR")
    below = connection.subscribe("a/b/*", wildcards="CHAR")
    for topic in ("a/b", "a/b/c", "a/c"):
        connection.publish(topic, topic.encode(), retain=True)
    found = {pattern: bodies(connection, each.queue) for pattern, each in opened.items()}
    assert found == {
        "#": [b"a/c"],
        "a/#": [b"a/c"],
        "a/+/c": [],
        "+/b": [],
        "a/b/#": [b"a/b", b"a/b/c"],
        "a/b/+": [b"a/b/c"],
        "a/b": [b"a/b"],
        "a/b/c": [b"a/b/c"],
    }
    assert bodies(connection, characters.queue) == [b"a/c"]
    assert bodies(connection, below.queue) == [b"a/b/c"]
    # What is retained is no way around it.
    assert retained(connection, "a/#") == [b"a/c"]
    assert retained(connection, "a/b/#") == [b"a/b", b"a/b/c"]
    define(connection, Topic(name="AB", topic="a/b"))
    connection.publish("a/b/c", b"passes")
    assert bodies(connection, opened["#"].queue) == [b"passes"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_topic_objects_survive(place: Any, how: str) -> None:
    connection = place.open()
    wanted = Topic(name="A", topic="a", description="kept", publish="DISABLED", default_priority=3, wildcard="BLOCK")
    define(connection, wanted, Topic(name="GONE", topic="gone", publish="DISABLED"))
    host_of(connection).delete("TOPIC", "GONE", purge=False)  # type: ignore[attr-defined]
    again = place.reopen() if how == "stop" else place.killed().open()
    assert host_of(again).find("TOPIC", "A") == wanted
    with pytest.raises(PublishInhibited):
        again.publish("a", b"")
    again.publish("gone", b"")
    again.close()


def test_topic_objects_have_a_place_of_their_own(connection: Connection) -> None:
    host: Any = host_of(connection)
    define(connection, Topic(name="A", topic="a"))
    with pytest.raises(TopicObjectTaken, match="A already"):
        host.define(Topic(name="OTHER", topic="a"), replace=True)
    with pytest.raises(ObjectExists):
        host.define(Topic(name="A", topic="a"), replace=False)
    for verb in (lambda topic: host.define(topic, replace=True), host.alter):
        with pytest.raises(InvalidArgument, match="cannot move"):
            verb(Topic(name="A", topic="b"))
    with pytest.raises(InvalidTopic):
        host.define(Topic(name="B", topic="b/#"), replace=True)
    with pytest.raises(InvalidTopic):
        host.define(Topic(name="B", topic=""), replace=True)
    with pytest.raises(InvalidArgument, match="root"):
        host.delete("TOPIC", BASE_TOPIC, purge=True)
    with pytest.raises(ObjectNotFound):
        host.alter(Topic(name="NOPE", topic="nope"))
    with pytest.raises(ObjectNotFound):
        host.delete("TOPIC", "NOPE", purge=False)
    host.delete("TOPIC", "A", purge=False)
    host.define(Topic(name="OTHER", topic="a"), replace=False)


# --- plans ----------------------------------------------------------------------------------------


def test_a_plan_is_kept_until_something_changes_that_it_is_made_of(connection: Connection) -> None:
    subscribers = engine(connection).objects.subscribers
    define(connection, subscription("S", "a/#"))
    before = subscribers.plan("a/b")
    connection.publish("a/b", b"")
    assert subscribers.plan("a/b") is before
    changes = (
        lambda: connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(17)"),
        lambda: connection.mqsc("DEFINE QLOCAL(NEW)"),
        lambda: connection.mqsc("DELETE QLOCAL(NEW)"),
        lambda: define(connection, subscription("T", "a/b")),
        lambda: host_of(connection).delete("SUB", "T", purge=False),  # type: ignore[attr-defined]
        lambda: define(connection, Topic(name="A", topic="a")),
        lambda: host_of(connection).alter(Topic(name="A", topic="a", default_priority=3)),  # type: ignore[attr-defined]
        lambda: host_of(connection).delete("TOPIC", "A", purge=False),  # type: ignore[attr-defined]
        lambda: connection.subscribe("x").close(),
    )
    for change in changes:
        change()
        after = subscribers.plan("a/b")
        assert after is not before
        before = after


def test_publications_see_every_change_at_once(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(R)\nDEFINE QALIAS(ALIAS) TARGET(Q)")
    define(connection, subscription("S", "a", "ALIAS"))

    def where() -> list[str]:
        connection.publish("a", b"")
        return [queue for queue in ("Q", "R", DEAD_LETTERS) for _ in drain(connection, queue)]

    assert where() == ["Q"]
    connection.mqsc("ALTER QALIAS(ALIAS) TARGET(R)")
    assert where() == ["R"]
    connection.mqsc("ALTER QALIAS(ALIAS) PUT(DISABLED)")
    assert where() == [DEAD_LETTERS]
    connection.mqsc("ALTER QALIAS(ALIAS) PUT(ENABLED)\nALTER QLOCAL(R) MAXDEPTH(0)")
    assert where() == [DEAD_LETTERS]
    connection.mqsc("ALTER QLOCAL(R) MAXDEPTH(1)")
    assert where() == ["R"]
    connection.mqsc("DELETE QALIAS(ALIAS)")
    assert where() == [DEAD_LETTERS]
    connection.mqsc("DEFINE QALIAS(ALIAS) TARGET(Q)")
    define(connection, subscription("T", "+", "R"))
    assert where() == ["Q", "R"]
    host_of(connection).alter(subscription("T", "+", "R", selector="n = 1"))  # type: ignore[attr-defined]
    assert where() == ["Q"]
    host_of(connection).delete("SUB", "S", purge=False)  # type: ignore[attr-defined]
    assert where() == []


def test_a_deletion_on_its_way_to_disk_keeps_publications_away(connection: Connection) -> None:
    """One that came in between would be acknowledged and then go with the queue."""
    define(
        connection, subscription("S"), Topic(name="A", topic="a", persistent_reach="ALL", use_dead_letter_queue="NO")
    )
    manager = engine(connection)
    manager.administration.delete("QLOCAL", "Q", purge=False)
    with pytest.raises(PublicationFailed, match="Q"):
        manager.put("topic:a", Message(b""), persistent=True)
    manager.force()


def test_plans_do_not_pile_up(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.engine.subscribers._PLANS_MAX", 10)
    define(connection, subscription("S", "a/#"))
    for number in range(25):
        connection.publish(f"a/{number}", b"%d" % number)
    assert len(engine(connection).objects.subscribers._plans) <= 10
    assert bodies(connection) == [b"%d" % number for number in range(25)]


# --- what a subscriber's message is like ----------------------------------------------------------


def test_subscribers_say_what_their_messages_are_like(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) DEFPRTY(2)")
    define(
        connection,
        subscription("1"),
        subscription("2", priority=5),
        subscription("3", priority=-2),
        subscription("4", correlation_id="c0ffee"),
        subscription("5", user_data="mine"),
        subscription("6", priority=5, correlation_id="c0ffee", user_data="mine"),
    )
    body = b"one body for all"
    message_id = connection.publish("a", body, priority=7, correlation_id=b"theirs", properties={"n": 1})
    shared = [entry.message for entry in entries(connection)]
    assert len({id(message.body) for message in shared}) == 1
    found = drain(connection)
    assert {message.message_id for message in found} == {message_id}
    like = [(message.priority, message.correlation_id, message.properties) for message in found]
    mine = {"n": 1, "MQSubUserData": "mine"}
    assert sorted(like, key=str) == sorted(
        [
            (7, b"theirs", {"n": 1}),
            (5, b"theirs", {"n": 1}),
            (2, b"theirs", {"n": 1}),
            (7, b"\xc0\xff\xee", {"n": 1}),
            (7, b"theirs", mine),
            (5, b"\xc0\xff\xee", mine),
        ],
        key=str,
    )


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_variants_of_a_publication_survive(place: Any, how: str) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    names = [f"{number:02}" for number in range(20)]
    define(connection, *(subscription(name, priority=int(name) % 3, user_data=name) for name in names))
    connection.publish("a", b"body" * 1000, persistent=True)
    connection.administration.checkpoint()
    connection.publish("a", b"later" * 1000, persistent=True)
    again = place.reopen() if how == "stop" else place.killed().open()
    found = [(m.body[:5], m.priority, m.properties["MQSubUserData"]) for m in drain(again)]
    expected = [(body, int(name) % 3, name) for body in (b"bodyb", b"later") for name in names]
    assert sorted(found) == sorted(expected)
    again.close()


def test_a_message_that_was_published_under_an_id_of_its_own_keeps_it(connection: Connection) -> None:
    define(connection, subscription("S"))
    assert connection.publish("a", b"", message_id=b"mine") == b"mine"
    assert drain(connection)[0].message_id == b"mine"


# --- definitions of subscriptions -------------------------------------------------------------------


def test_subscriptions_can_be_defined_altered_and_deleted(connection: Connection) -> None:
    host: Any = host_of(connection)
    connection.mqsc("DEFINE QLOCAL(R)")
    wanted = subscription("S", "a/+", selector="n > 1", user_data="u", priority=4)
    host.define(wanted, replace=False)
    created = host.find("SUB", "S").created
    assert created > 0
    assert host.find("SUB", "S") == replace(wanted, created=created)
    with pytest.raises(ObjectExists):
        host.define(wanted, replace=False)
    host.define(replace(wanted, user_data="other"), replace=True)
    host.alter(replace(wanted, destination="R", selector="n > 2"))
    assert host.find("SUB", "S") == replace(wanted, created=created, destination="R", selector="n > 2")
    for number in range(5):
        connection.publish("a/b", b"%d" % number, properties={"n": number})
    assert (bodies(connection), bodies(connection, "R")) == ([], [b"3", b"4"])
    for attribute, value in (("topic", "b"), ("wildcards", "CHAR"), ("managed", True), ("durable", False)):
        with pytest.raises(SubscriptionDiffers) as refused:
            host.alter(replace(wanted, **{attribute: value}))
        assert refused.value.attribute == attribute
    with pytest.raises(SelectorSyntaxError):
        host.alter(replace(wanted, selector="n >"))
    with pytest.raises(ObjectNotFound):
        host.alter(subscription("NOPE"))
    host.delete("SUB", "S", purge=False)
    with pytest.raises(ObjectNotFound):
        host.delete("SUB", "S", purge=False)
    with pytest.raises(SubscriptionNotFound):
        host.unsubscribe("S")
    connection.publish("a/b", b"", properties={"n": 9})
    assert bodies(connection, "R") == []


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_durable_subscriptions_survive_and_others_do_not(place: Any, how: str) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    wanted = [
        subscription(
            "S", "s/#", selector="n > 0", content="xpath:/a", user_data="u", correlation_id="ab", scope="QMGR"
        ),
        subscription("C", "c*", wildcards="CHAR", priority=-2, expiry_s=1e9),
    ]
    define(connection, *wanted)
    managed = connection.subscribe("m", durable="M").queue
    fleeting = connection.subscribe("f").queue
    connection.publish("m", b"kept", persistent=True)
    connection.subscribe("gone", durable="GONE").close()
    connection.unsubscribe("GONE")
    before = {each.name: each for each in host_of(connection).definitions() if each.kind == "SUB" and each.durable}
    again = place.reopen() if how == "stop" else place.killed().open()
    assert {each.name: each for each in host_of(again).definitions() if each.kind == "SUB"} == before
    assert before.keys() == {"S", "C", "M"}
    queues = {name for name in engine(again).objects.queues if ".MANAGED." in name}
    assert managed in queues and fleeting not in queues and len(queues) == 1
    with again.subscribe(durable="M") as opened:
        assert bodies(again, opened.queue) == [b"kept"]
    again.close()


def test_a_subscription_with_a_queue_that_went_comes_back_without_it(place: Any) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    define(connection, subscription("S"))
    connection.mqsc("DELETE QLOCAL(Q)")
    again = place.reopen()
    again.publish("a", b"dead")
    again.mqsc("DEFINE QLOCAL(Q)")
    again.publish("a", b"alive")
    assert bodies(again) == [b"alive"]
    assert [message.properties["dead_letter_reason"] for message in drain(again, DEAD_LETTERS)] == [2085]


def test_a_content_filter_in_a_language_that_nobody_knows_any_more(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who knows what it would have let through? So all of it goes where somebody looks at it."""
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(R)")
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "compile_conditions", lambda _: None)
        define(connection, subscription("S", content="cobol:TOTAL > 100"), subscription("T", queue="R"))
    again = place.reopen()
    assert host_of(again).find("SUB", "S").content == "cobol:TOTAL > 100"
    again.publish("a", b"1", persistent=True)
    assert (bodies(again), bodies(again, "R")) == ([], [b"1"])
    (dead,) = drain(again, DEAD_LETTERS)
    assert (dead.body, dead.properties["dead_letter_queue"]) == (b"1", "Q")
    assert "cobol" in str(dead.properties["dead_letter_problem"])
    define(again, Topic(name="A", topic="a", use_dead_letter_queue="NO"))
    with pytest.raises(PublicationFailed, match="cobol"):
        again.publish("a", b"", persistent=True)
    host_of(again).alter(replace(host_of(again).find("SUB", "S"), content=""))
    again.publish("a", b"2", persistent=True)
    assert bodies(again) == [b"2"]


# --- subscriptions end ------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_a_subscription_ends_when_its_time_has_come(timed: Any, durable: bool) -> None:
    connection = timed.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    define(connection, subscription("S", durable=durable, expiry_s=10))
    timed.advance(9.9)
    connection.publish("a", b"1")
    timed.advance(0.2)
    connection.publish("a", b"2")
    assert bodies(connection) == [b"1"]
    assert host_of(connection).find("SUB", "S") is None
    assert host_of(timed.reopen()).find("SUB", "S") is None


def test_time_goes_on_while_nobody_runs(timed: Any) -> None:
    connection = timed.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    define(connection, subscription("S", expiry_s=10), subscription("T", expiry_s=100))
    timed.close()
    timed.clock.advance(50)
    again = timed.open()
    timed.advance(0)
    again.publish("a", b"")
    assert len(drain(again)) == 1
    assert host_of(again).find("SUB", "S") is None
    timed.advance(50)
    assert host_of(again).find("SUB", "T") is None


def test_another_expiry_counts_from_the_same_beginning(timed: Any) -> None:
    connection = timed.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    define(connection, subscription("S"), subscription("T", expiry_s=10))
    timed.advance(5)
    host_of(connection).alter(subscription("S", expiry_s=20))
    host_of(connection).alter(subscription("T", expiry_s=30))
    timed.advance(14.9)
    assert host_of(connection).find("SUB", "S") is not None
    timed.advance(0.2)
    assert host_of(connection).find("SUB", "S") is None
    assert host_of(connection).find("SUB", "T") is not None
    timed.advance(10)
    assert host_of(connection).find("SUB", "T") is None


def test_a_later_subscription_of_the_same_name_has_its_own_time(timed: Any) -> None:
    connection = timed.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    define(connection, subscription("S", expiry_s=10))
    timed.advance(5)
    host_of(connection).delete("SUB", "S", purge=False)
    define(connection, subscription("S", expiry_s=10))
    timed.advance(6)
    assert host_of(connection).find("SUB", "S") is not None
    timed.advance(4)
    assert host_of(connection).find("SUB", "S") is None


def test_an_expired_subscription_whose_queue_is_in_use_ends_later(timed: Any) -> None:
    connection = timed.open()
    opened = connection.subscribe("a", durable="D")
    connection.publish("a", b"", persistent=True)
    host_of(connection).alter(replace(host_of(connection).find("SUB", "D"), expiry_s=10))
    unit = connection.unit_of_work()
    unit.get(opened.queue)
    timed.advance(11)
    assert host_of(connection).find("SUB", "D") is not None
    unit.commit()
    timed.advance(61)
    assert host_of(connection).find("SUB", "D") is None
    assert opened.queue not in engine(connection).objects.queues


def test_a_queue_with_uncommitted_messages_keeps_its_subscription(connection: Connection) -> None:
    with connection.subscribe("a", durable="D") as opened:
        queue = opened.queue
    unit = connection.unit_of_work()
    unit.publish("a", b"for D", persistent=True)
    with pytest.raises(QueueInUse):
        connection.unsubscribe("D")
    unit.commit()
    assert bodies(connection, queue) == [b"for D"]
    connection.unsubscribe("D")


def test_no_room_in_the_log_ends_no_subscription_and_discards_nothing(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.subscribe("a", durable="D").close()
    connection.publish("a", b"kept", persistent=True)
    manager = engine(connection)
    sizes: list[int] = []

    def refuse(size: int, *, reserved: bool) -> None:
        """The last of several that are asked for."""
        sizes.append(size)
        if size == publishing._RECORD_BYTES:
            raise LogFull(0)

    with monkeypatch.context() as patch:
        patch.setattr(manager.log, "require_room", refuse)
        with pytest.raises(LogFull):
            connection.unsubscribe("D")
    assert sizes
    with connection.subscribe(durable="D") as opened:
        assert bodies(connection, opened.queue) == [b"kept"]


def test_no_room_for_what_is_retained_makes_no_subscription(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.publish("a", b"x" * 1000, retain=True, persistent=True)

    def refuse(size: int, *, reserved: bool) -> None:
        """There is still room for what makes room, and for nothing else."""
        if not reserved:
            raise LogFull(0)

    for options in ({"durable": "D"}, {"queue": "Q"}):
        with monkeypatch.context() as patch:
            patch.setattr(engine(connection).log, "require_room", refuse)
            with pytest.raises(LogFull):
                connection.subscribe("a", **options)  # type: ignore[arg-type]
    assert not engine(connection).objects.subscriptions
    with connection.subscribe("a", durable="D") as opened:
        assert len(drain(connection, opened.queue)) == 1


def test_a_subscription_that_the_disk_refused_is_gone(connection: Connection) -> None:
    manager = engine(connection)
    found, settlement = manager.publishing.subscribe(SubscriptionDefinition(name="D", topic="a", managed=True))
    assert settlement is not None
    _, published = manager.put("topic:a", Message(b"never"), persistent=True)
    assert published is not None
    manager.group_commit._fail_pending(DiskFull("/"))
    manager.log.discard_gathered()
    assert manager.objects.find("SUB", "D") is None
    assert found.destination not in manager.objects.queues
    with connection.subscribe("a", durable="D") as opened:
        assert drain(connection, opened.queue) == []


def test_an_end_that_the_disk_refused_changes_nothing(connection: Connection) -> None:
    connection.subscribe("a", durable="D").close()
    connection.publish("a", b"kept", persistent=True)
    manager = engine(connection)
    settlement = manager.publishing.unsubscribe("D")
    assert settlement is not None
    manager.put("topic:a", Message(b"unheard"), persistent=False)
    manager.group_commit._fail_pending(DiskFull("/"))
    manager.log.discard_gathered()
    connection.publish("a", b"heard", persistent=True)
    with connection.subscribe(durable="D") as opened:
        assert bodies(connection, opened.queue) == [b"kept", b"heard"]


def test_readers_are_counted(connection: Connection) -> None:
    publishing = engine(connection).publishing
    wanted = SubscriptionDefinition(name="S", topic="a", managed=True, durable=False, shared=True)
    queue = publishing.subscribe(wanted)[0].destination
    publishing.subscribe(wanted)
    with pytest.raises(SubscriptionInUse, match="it is open"):
        publishing.unsubscribe("S")
    publishing.leave("S")
    assert queue in engine(connection).objects.queues
    # What changes it meanwhile changes nothing about who reads it.
    publishing.alter(replace(wanted, user_data="u"))
    publishing.leave("S")
    assert queue not in engine(connection).objects.queues
    publishing.leave("S")


# --- retained ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_persistent_retained_publications_survive_and_others_do_not(place: Any, how: str) -> None:
    connection = place.open()
    for number in range(3):
        connection.publish("p", b"p%d" % number, retain=True, persistent=True)
        connection.publish("n", b"n%d" % number, retain=True)
    connection.publish("was", b"persistent", retain=True, persistent=True)
    connection.publish("was", b"is not", retain=True)
    assert sorted(retained(connection)) == [b"is not", b"n2", b"p2"]
    # Nobody waits for the older one to leave the disk; the housekeeper sees to it.
    host_of(connection)._force_all()
    again = place.reopen() if how == "stop" else place.killed().open()
    assert retained(again) == [b"p2"]
    assert engine(again).objects.queues[RETAINED_QUEUE].depth == 1
    again.publish("p", b"p3", retain=True, persistent=True)
    assert retained(again) == [b"p3"]
    again.close()


@pytest.mark.parametrize("checkpoints", [0, 1, 3])
def test_a_crash_before_the_older_one_was_removed_leaves_the_newer(
    place: Any, monkeypatch: pytest.MonkeyPatch, checkpoints: int
) -> None:
    connection = place.open()
    with monkeypatch.context() as patch:
        patch.setattr(Retained, "_discard", lambda *_: None)
        for number in range(5):
            connection.publish("a", b"%d" % number, retain=True, persistent=True, priority=9 - number)
            connection.publish("b", b"other", retain=True, persistent=True)
        for _ in range(checkpoints):
            connection.administration.checkpoint()
        crashed = place.killed()
    again = crashed.open()
    assert retained(again, "a") == [b"4"]
    assert engine(again).objects.queues[RETAINED_QUEUE].depth == 2
    again = crashed.reopen()
    assert (retained(again, "a"), engine(again).objects.queues[RETAINED_QUEUE].depth) == ([b"4"], 2)
    crashed.close()


def test_retained_publications_are_as_many_as_there_are_topics(connection: Connection) -> None:
    for number in range(50):
        connection.publish(f"t/{number % 5}", b"%d" % number, retain=True, persistent=number % 2 == 0)
    host_of(connection)._force_all()  # type: ignore[attr-defined]
    assert engine(connection).objects.queues[RETAINED_QUEUE].depth == 5
    assert retained(connection, "t/#") == [b"45", b"46", b"47", b"48", b"49"]


@pytest.mark.parametrize("persistent", [False, True])
def test_what_is_retained_can_be_cleared(place: Any, persistent: bool) -> None:
    connection = place.open()
    for topic in ("a", "a/b", "c"):
        connection.publish(topic, topic.encode(), retain=True, persistent=persistent)
    host: Any = host_of(connection)
    assert host.clear_retained("a") == 1
    assert host.clear_retained("a") == host.clear_retained("x") == 0
    assert retained(connection) == [b"a/b", b"c"]
    assert engine(connection).objects.queues[RETAINED_QUEUE].depth == 2
    connection.publish("a", b"again", retain=True, persistent=persistent)
    assert retained(connection) == [b"a/b", b"c", b"again"]
    assert host.clear_retained("a") == 1
    assert retained(place.reopen()) == ([b"a/b", b"c"] if persistent else [])


def test_clearing_that_the_log_has_no_room_for_is_told(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.publish("a", b"kept", retain=True, persistent=True)

    def refuse(size: int, *, reserved: bool) -> None:
        raise LogFull(0)

    with monkeypatch.context() as patch:
        patch.setattr(engine(connection).log, "require_room", refuse)
        with pytest.raises(LogFull):
            host_of(connection).clear_retained("a")  # type: ignore[attr-defined]
    assert retained(connection) == [b"kept"]


def test_what_is_retained_expires(timed: Any) -> None:
    connection = timed.open()
    connection.publish("a", b"short", retain=True, expiry_s=10)
    connection.publish("b", b"long", retain=True, expiry_s=100, persistent=True)
    timed.advance(5)
    with connection.subscribe("b") as opened:
        (message,) = drain(connection, opened.queue)
        assert message.expiry_s == pytest.approx(95)
    timed.advance(6)
    assert retained(connection) == [b"long"]
    timed.advance(100)
    assert retained(connection) == []
    connection.publish("a", b"new", retain=True)
    assert retained(connection) == [b"new"]


def test_a_message_of_no_topic_on_the_retained_queue_harms_nobody(place: Any) -> None:
    connection = place.open()
    host, stray = host_of(connection), Message(b"no publication")
    host.durably(lambda: host.manager.put(RETAINED_QUEUE, stray, persistent=True, internal=True)[1])
    connection.publish("a", b"one", retain=True, persistent=True)
    again = place.reopen()
    assert retained(again) == [b"one"]


def test_who_takes_a_retained_publication_off_its_queue_has_cleared_it(connection: Connection) -> None:
    connection.publish("a", b"one", retain=True, persistent=True)
    with connection.unit_of_work() as unit:
        assert unit.get(RETAINED_QUEUE) is not None
        assert retained(connection) == []
        unit.back_out()
    assert retained(connection) == [b"one"]
    assert connection.get(RETAINED_QUEUE) is not None
    assert retained(connection) == []
    connection.publish("a", b"two", retain=True, persistent=True)
    assert retained(connection) == [b"two"]


# --- limits of queues -------------------------------------------------------------------------------


def test_two_subscriptions_to_one_queue_do_not_overfill_it(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    define(connection, subscription("S"), subscription("T", "+"), subscription("U", "#", user_data="u"))
    for persistent in (True, False):
        connection.publish("a", b"", persistent=persistent)
        assert len(drain(connection)) == 2
        assert len(drain(connection, DEAD_LETTERS)) == 1


def test_a_dead_letter_queue_that_is_full_is_not_overfilled(connection: Connection) -> None:
    connection.mqsc(f"ALTER QLOCAL(Q) MAXDEPTH(0)\nALTER QLOCAL({DEAD_LETTERS}) MAXDEPTH(2)")
    define(connection, *(subscription(f"S{number}") for number in range(4)))
    with pytest.raises(PublicationFailed, match="not on the dead-letter queue"):
        connection.publish("a", b"", persistent=True)
    assert engine(connection).objects.queues[DEAD_LETTERS].depth == 0
    connection.publish("a", b"")
    assert engine(connection).objects.queues[DEAD_LETTERS].depth == 2


def test_nothing_is_reserved_by_what_has_failed(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(FULL) MAXDEPTH(0)")
    define(
        connection,
        subscription("S"),
        subscription("F", queue="FULL"),
        Topic(name="A", topic="a", use_dead_letter_queue="NO"),
    )
    with pytest.raises(PublicationFailed):
        connection.publish("a", b"", persistent=True, retain=True)
    unit = connection.unit_of_work()
    with pytest.raises(PublicationFailed):
        unit.publish("a", b"", persistent=True)
    unit.publish("b", b"")
    unit.back_out()
    assert all(queue.reserved == 0 for queue in engine(connection).objects.queues.values())


# --- units of work ----------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("checkpoints", [0, 1, 3])
def test_a_prepared_unit_with_publications_waits_over_checkpoints_and_restarts(
    place: Any, commit: bool, checkpoints: int
) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(R)")
    names = [f"S{number}" for number in range(10)]
    queues = [connection.subscribe("a", durable=name).queue for name in names]
    define(connection, subscription("U", queue="R", user_data="u"))
    connection.put("Q", b"taken", persistent=True)
    unit = connection.unit_of_work()
    unit.get("Q")
    unit.publish("a", b"x" * 10_000, persistent=True, retain=True)
    unit.publish("a", b"y" * 10_000, persistent=True)
    unit.put("Q", b"put", persistent=True)
    unit.prepare(b"T")
    for _ in range(checkpoints):
        connection.administration.checkpoint()
    if checkpoints:
        # Eleven subscribers and a retained one have two bodies between them.
        assert len((place.path / "checkpoint").read_bytes().rstrip(b"\0")) < 40_000
    crashed = place.killed()
    again = crashed.open()
    for _ in range(checkpoints):
        host_of(again).checkpoint()
        again = crashed.reopen()
    assert again.in_doubt() == [b"T"]
    assert all(entries(again, queue) == [] for queue in (*queues, "R", "Q"))
    again.resolve(b"T", commit=commit)
    expected = [b"x", b"y"] if commit else []
    shared = {id(entry.message.body) for queue in (*queues, "R") for entry in entries(again, queue)}
    assert len(shared) == len(expected)
    again = crashed.reopen()
    for queue in (*queues, "R"):
        assert [message.body[:1] for message in drain(again, queue)] == expected
    assert bodies(again) == ([b"put"] if commit else [b"taken"])
    assert retained(again) == ([b"x" * 10_000] if commit else [])
    assert all(queue.reserved == 0 for queue in engine(again).objects.queues.values())
    crashed.close()
