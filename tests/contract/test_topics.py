# SPDX-License-Identifier: Apache-2.0
"""Publish and subscribe, by every binding, blocking and asyncio: one test serves both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import entrepot.aio
from conftest import SMALL_LOG, let_tester_in
from entrepot import Message
from entrepot.client.blocking import Connection, connect
from entrepot.engine.definitions import Topic
from entrepot.engine.folder import create
from entrepot.errors import (
    ContentFilterSyntaxError,
    EntrepotError,
    GetInhibited,
    InvalidArgument,
    InvalidName,
    InvalidTopic,
    MessageTooLong,
    PublicationFailed,
    PublishInhibited,
    QueueNotFound,
    SelectorSyntaxError,
    SubscriptionDiffers,
    SubscriptionInUse,
    SubscriptionNotFound,
)
from entrepot.testing.servers import ServerThread
from folding import for_each

DEAD_LETTERS = "SYSTEM.DEAD.LETTER.QUEUE"
REACHES = ("ALL", "ALLDUR", "ALLAVAIL")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped queue manager QM1 with queues Q, R and SMALL, and topics on which little is allowed."""
    path = tmp_path_factory.mktemp("topics") / "QM1"
    create(path, log=SMALL_LOG)
    with connect(f"embedded:{path}") as connection:
        connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(R)\nDEFINE QLOCAL(SMALL) MAXDEPTH(1)")
        host: Any = connection.calls.line._host
        host.define(Topic(name="SHUT", topic="shut", publish="DISABLED"), replace=False)
        for reach in REACHES:
            host.define(
                Topic(
                    name=reach,
                    topic=reach.lower(),
                    persistent_reach=reach,  # type: ignore[arg-type]
                    nonpersistent_reach=reach,  # type: ignore[arg-type]
                    use_dead_letter_queue="NO",
                ),
                replace=False,
            )
    let_tester_in(path)
    return path


class Waiting:
    """Something of the asyncio edge with the verbs of its blocking twin."""

    def __init__(self, runner: asyncio.Runner, twin: Any) -> None:
        self._runner = runner
        self._twin = twin

    def _wait(self, result: Any) -> Any:
        if isawaitable(result):

            async def limited() -> Any:
                return await asyncio.wait_for(result, 120)

            result = self._runner.run(limited())
        return Waiting(self._runner, result) if type(result).__module__.startswith("entrepot.client.aio") else result

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._twin, name)
        if not callable(found):
            return found
        return lambda *arguments, **options: self._wait(found(*arguments, **options))

    def __iter__(self) -> Iterator[Message]:
        try:
            while True:
                yield self._wait(self._twin.__anext__())
        except StopAsyncIteration:
            return

    def __enter__(self) -> Any:
        self._wait(self._twin.__aenter__())
        return self

    def __exit__(self, *reason: Any) -> None:
        self._wait(self._twin.__aexit__(*reason))


Open = Callable[[], Any]


@pytest.fixture(params=["blocking", "asyncio"])
def open_connection(request: pytest.FixtureRequest, url: str) -> Iterator[Open]:
    """Opens as many connections as a test wants."""
    opened: list[Any] = []
    with asyncio.Runner() as runner:

        def open_one() -> Any:
            if request.param == "blocking":
                one: Any = connect(url, application="tests")
            else:
                one = Waiting(runner, runner.run(entrepot.aio.connect(url, application="tests")))
            opened.append(one)
            return one

        try:
            yield open_one
        finally:
            for one in reversed(opened):
                one.close()


@pytest.fixture
def connection(open_connection: Open) -> Any:
    return open_connection()


@pytest.fixture
def other(open_connection: Open, connection: Any) -> Any:
    """A second connection to the same queue manager."""
    return open_connection()


def all_of(subscription: Any, wait_s: float = 0.0) -> list[Message]:
    return list(iter(lambda: subscription.get(wait_s=wait_s), None))


def bodies(subscription: Any, wait_s: float = 0.0) -> list[bytes]:
    return [message.body for message in all_of(subscription, wait_s)]


def on_queue(connection: Any, queue: str) -> list[Message]:
    return list(iter(lambda: connection.get(queue), None))


def eventually(condition: Callable[[], object], within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it has not come to pass"
        time.sleep(0.005)


# --- publish and subscribe ----------------------------------------------------------------------------


def test_a_publication_reaches_who_has_subscribed_to_its_topic(connection: Any, other: Any) -> None:
    with connection.subscribe("price/gold") as gold, connection.subscribe("price/tin") as tin:
        message_id = other.publish(
            "price/gold", b"42", correlation_id=b"c", properties={"currency": "EUR"}, priority=7, expiry_s=60
        )
        (message,) = all_of(gold)
        assert (message.body, message.topic, message.message_id) == (b"42", "price/gold", message_id)
        assert (message.correlation_id, message.properties, message.priority) == (b"c", {"currency": "EUR"}, 7)
        assert (message.application, message.persistent, message.retained) == ("tests", False, False)
        assert message.expiry_s is not None and 0 < message.expiry_s <= 60
        assert all_of(tin) == []


def test_what_nobody_has_subscribed_to_is_nowhere(connection: Any) -> None:
    assert connection.publish("a", b"unheard", persistent=True)
    with connection.subscribe("a") as subscription:
        assert all_of(subscription) == []


def test_publications_come_in_order(connection: Any) -> None:
    with connection.subscribe("a/#") as subscription:
        for number in range(20):
            connection.publish(f"a/{number % 3}", b"%d" % number, persistent=number % 2 == 0)
        assert bodies(subscription) == [b"%d" % number for number in range(20)]


def test_a_waiting_get_has_it_at_once(connection: Any) -> None:
    with connection.subscribe("a") as subscription:
        begun = time.monotonic()
        connection.publish("a", b"late", delay_s=0.05)
        early = subscription.get()
        assert early is None or time.monotonic() - begun > 0.05, "unless the machine is that busy"
        assert (early or subscription.get(wait_s=60)).body == b"late"
        assert subscription.get(wait_s=0.01) is None


TOPICS = ("a", "a/b", "a/b/c", "a/c", "ab", "b", "a/", "/a", "+a")


PATTERNS: tuple[tuple[str, str, list[str]], ...] = (
    ("a", "TOPIC", ["a"]),
    ("a/+", "TOPIC", ["a/b", "a/c", "a/"]),
    ("+", "TOPIC", ["a", "ab", "b", "+a"]),
    ("a/#", "TOPIC", ["a", "a/b", "a/b/c", "a/c", "a/"]),
    ("#", "TOPIC", list(TOPICS)),
    ("#/c", "TOPIC", ["a/b/c", "a/c"]),
    ("+/b/#", "TOPIC", ["a/b", "a/b/c"]),
    ("+a", "TOPIC", ["+a"]),
    ("a*", "TOPIC", []),
    ("a*", "CHAR", ["a", "a/b", "a/b/c", "a/c", "ab", "a/"]),
    ("a?", "CHAR", ["ab", "a/"]),
    ("*/c", "CHAR", ["a/b/c", "a/c"]),
    ("+", "CHAR", []),
)


def test_wildcards(connection: Any) -> None:
    opened = [connection.subscribe(pattern, wildcards=scheme) for pattern, scheme, _ in PATTERNS]
    for topic in TOPICS:
        connection.publish(topic, b"")
    for subscription, (pattern, scheme, expected) in zip(opened, PATTERNS, strict=True):
        assert [message.topic for message in all_of(subscription)] == expected, (pattern, scheme)


def test_each_subscriber_has_each_publication_once(connection: Any, other: Any) -> None:
    with connection.subscribe("a/b") as one, connection.subscribe("a/+") as two, other.subscribe("#") as three:
        for number in range(5):
            connection.publish("a/b", b"%d" % number, persistent=number % 2 == 0)
        for subscription in (one, two, three):
            assert bodies(subscription) == [b"0", b"1", b"2", b"3", b"4"]
        assert len({subscription.queue for subscription in (one, two, three)}) == 3


def test_a_selector_lets_through_what_it_is_true_for(connection: Any) -> None:
    with (
        connection.subscribe("orders", selector="region = 'EU' AND amount > 100") as large,
        connection.subscribe("orders", selector="region = 'EU'") as european,
    ):
        for region, amount in (("EU", 50), ("EU", 150), ("US", 500)):
            connection.publish("orders", f"{region}{amount}".encode(), properties={"region": region, "amount": amount})
        connection.publish("orders", b"says nothing")
        assert bodies(large) == [b"EU150"]
        assert bodies(european) == [b"EU50", b"EU150"]


def test_a_content_filter_lets_through_what_it_is_true_for(connection: Any) -> None:
    with (
        connection.subscribe("orders", content="xpath:/order[total > 100]") as large,
        connection.subscribe("orders", content="xpath:/order[total > 100]", selector="region = 'EU'") as both,
    ):
        for total in (50, 150):
            for region in ("EU", "US"):
                body = f"<order><total>{total}</total></order>".encode()
                connection.publish("orders", body, properties={"region": region})
        connection.publish("orders", b"no XML at all")
        found = [message.properties["region"] for message in all_of(large)]
        assert found == ["EU", "US"]
        assert [message.properties["region"] for message in all_of(both)] == ["EU"]


def test_several_subscriptions_of_one_connection_may_ask_the_same(connection: Any) -> None:
    with connection.subscribe("a") as one, connection.subscribe("a") as two:
        assert one.name != two.name
        connection.publish("a", b"both")
        assert (bodies(one), bodies(two)) == ([b"both"], [b"both"])


def test_a_subscription_that_was_closed_gets_nothing_more(connection: Any) -> None:
    subscription = connection.subscribe("a")
    queue = subscription.queue
    subscription.close()
    subscription.close()
    connection.publish("a", b"")
    with pytest.raises(QueueNotFound):
        connection.get(queue)


def test_a_publication_that_is_too_long_reaches_nobody(connection: Any) -> None:
    connection.mqsc("ALTER QMGR MAXMSGL(40000)")
    with connection.subscribe("a") as subscription:
        with pytest.raises(MessageTooLong):
            connection.publish("a", b"x" * 40_001)
        assert all_of(subscription) == []


def test_a_topic_may_refuse_publications(connection: Any) -> None:
    for topic in ("shut", "shut/below"):
        with pytest.raises(PublishInhibited, match="SHUT"):
            connection.publish(topic, b"")


# --- retained -----------------------------------------------------------------------------------------


def test_what_is_retained_waits_for_those_who_come_later(connection: Any, other: Any) -> None:
    with connection.subscribe("state/#") as early:
        message_id = connection.publish("state/door", b"open", retain=True, persistent=True, properties={"by": "me"})
        (live,) = all_of(early)
    assert (live.retained, live.message_id) == (False, message_id)
    for subscriber in (connection, other):
        with subscriber.subscribe("state/door") as late:
            (kept,) = all_of(late)
            assert (kept.body, kept.retained, kept.message_id) == (b"open", True, message_id)
            assert (kept.topic, kept.properties) == ("state/door", {"by": "me"})


def test_what_is_newer_takes_the_place_of_what_was_retained(connection: Any) -> None:
    for number in range(5):
        connection.publish("a", b"%d" % number, retain=True, persistent=number % 2 == 0)
    connection.publish("a", b"not kept")
    with connection.subscribe("a") as subscription:
        assert bodies(subscription) == [b"4"]


def test_a_wildcard_brings_all_that_is_retained_in_order_of_arrival(connection: Any) -> None:
    for topic in ("s/b", "s/a", "t", "s/c/d", "s/b"):
        connection.publish(topic, topic.encode(), retain=True)
    with connection.subscribe("s/#") as subscription:
        connection.publish("s/new", b"new")
        assert bodies(subscription) == [b"s/a", b"s/c/d", b"s/b", b"new"]


def test_conditions_hold_for_what_is_retained_too(connection: Any) -> None:
    for number in range(3):
        connection.publish(f"s/{number}", b"<n>%d</n>" % number, retain=True, properties={"n": number})
    with connection.subscribe("s/+", selector="n > 0", content="xpath:/n[. < 2]") as subscription:
        assert bodies(subscription) == [b"<n>1</n>"]


def test_who_wants_only_what_is_new_gets_nothing_that_was_retained(connection: Any) -> None:
    connection.publish("a", b"old", retain=True)
    with connection.subscribe("a", new_only=True) as subscription:
        connection.publish("a", b"new", retain=True)
        assert [(message.body, message.retained) for message in all_of(subscription)] == [(b"new", False)]


def test_a_durable_subscription_gets_what_is_retained_once(connection: Any) -> None:
    connection.publish("a", b"kept", retain=True, persistent=True)
    for expected in ([b"kept"], []):
        with connection.subscribe("a", durable="D") as subscription:
            assert bodies(subscription) == expected


def test_retaining_in_a_unit_of_work_that_backs_out_changes_nothing(connection: Any) -> None:
    connection.publish("a", b"kept", retain=True)
    unit = connection.unit_of_work()
    unit.publish("a", b"never", retain=True)
    unit.back_out()
    with connection.unit_of_work() as unit:
        unit.publish("b", b"kept too", retain=True, persistent=True)
    with connection.subscribe("#") as subscription:
        assert bodies(subscription) == [b"kept", b"kept too"]


# --- durable subscriptions ----------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["orders/+", None], ids=["by name and topic", "by name"])
def test_a_durable_subscription_collects_while_it_is_closed(connection: Any, other: Any, topic: str | None) -> None:
    with connection.subscribe("orders/+", durable="D") as subscription:
        assert (subscription.name, subscription.durable) == ("D", True)
        other.publish("orders/1", b"1", persistent=True)
        assert bodies(subscription) == [b"1"]
    other.publish("orders/2", b"2", persistent=True)
    other.publish("orders/3", b"3")
    with other.subscribe(topic, durable="D") as subscription:
        found = all_of(subscription)
        assert [(message.body, message.persistent) for message in found] == [(b"2", True), (b"3", False)]
        other.publish("orders/4", b"4")
        assert bodies(subscription) == [b"4"]


def test_what_was_not_got_stays_with_a_durable_subscription(connection: Any) -> None:
    with connection.subscribe("a", durable="D") as subscription:
        for number in range(4):
            connection.publish("a", b"%d" % number, persistent=True)
        assert subscription.get().body == b"0"
        with connection.unit_of_work() as unit:
            assert unit.get(subscription.queue).body == b"1"
        unit = connection.unit_of_work()
        assert unit.get(subscription.queue).body == b"2"
        unit.back_out()
    with connection.subscribe("a", durable="D") as subscription:
        assert [(message.body, message.backout_count) for message in all_of(subscription)] == [(b"2", 1), (b"3", 0)]


def test_a_durable_subscription_belongs_to_one_reader(connection: Any, other: Any) -> None:
    with connection.subscribe("a", durable="D") as subscription:
        connection.publish("a", b"", persistent=True)
        for who in (connection, other):
            with pytest.raises(SubscriptionInUse, match="D"):
                who.subscribe("a", durable="D")
        with pytest.raises(SubscriptionInUse):
            other.unsubscribe("D")
        assert len(all_of(subscription)) == 1
    other.subscribe("a", durable="D").close()


def test_nobody_ends_a_subscription_under_its_reader(connection: Any) -> None:
    """Not even its reader: it has to close it first."""
    with connection.subscribe("a", durable="D") as subscription:
        connection.publish("a", b"kept", persistent=True)
        with pytest.raises(SubscriptionInUse):
            connection.unsubscribe("D")
        assert bodies(subscription) == [b"kept"]
        connection.publish("a", b"kept too", persistent=True)
        assert bodies(subscription) == [b"kept too"]
    connection.unsubscribe("D")


DIFFERENT: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("b", {}, "topic"),
    ("a", {"selector": "n = 2"}, "selector"),
    ("a", {}, "selector"),
    ("a", {"selector": "n = 1", "content": "xpath:/a"}, "content"),
    ("a", {"selector": "n = 1", "wildcards": "CHAR"}, "wildcards"),
    ("a", {"selector": "n = 1", "shared": True}, "shared"),
    ("a", {"selector": "n = 1", "queue": "Q"}, "destination"),
)


def test_a_durable_subscription_stays_what_it_is(connection: Any) -> None:
    connection.subscribe("a", durable="D", selector="n = 1").close()
    connection.publish("a", b"kept", properties={"n": 1})
    for topic, options, attribute in DIFFERENT:
        with pytest.raises(SubscriptionDiffers) as refused:
            connection.subscribe(topic, durable="D", **options)
        assert refused.value.attribute == attribute
    with connection.subscribe("a", durable="D", selector="n = 1") as subscription:
        assert bodies(subscription) == [b"kept"]


def test_unsubscribe_discards_what_was_collected(connection: Any, other: Any) -> None:
    with connection.subscribe("a", durable="D") as subscription:
        queue = subscription.queue
    connection.publish("a", b"discarded", persistent=True)
    other.unsubscribe("D")
    with pytest.raises(SubscriptionNotFound):
        connection.subscribe(durable="D")
    with pytest.raises(SubscriptionNotFound):
        connection.unsubscribe("D")
    with pytest.raises(QueueNotFound):
        connection.get(queue)
    connection.publish("a", b"unheard", persistent=True)
    with connection.subscribe("a", durable="D") as subscription:
        assert all_of(subscription) == []


def test_durable_names_are_any_text(connection: Any) -> None:
    for name in ("Ä ö/ü's", "x" * 1024):
        with connection.subscribe("a", durable=name) as subscription:
            connection.publish("a", b"1")
            assert len(all_of(subscription)) == 1
        connection.unsubscribe(name)


# --- shared subscriptions -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["durable", "name"])
def test_of_a_shared_subscription_each_publication_goes_to_one_reader(connection: Any, other: Any, how: str) -> None:
    with (
        connection.subscribe("a", **{how: "S"}, shared=True) as one,
        other.subscribe("a", **{how: "S"}, shared=True) as two,
    ):
        assert one.queue == two.queue
        for number in range(20):
            connection.publish("a", b"%d" % number, persistent=True)
        found = []
        for _ in range(10):
            found += [one.get().body, two.get().body]
        assert found == [b"%d" % number for number in range(20)]
        assert (one.get(), two.get()) == (None, None)


def test_a_shared_subscription_ends_with_its_last_reader(connection: Any, other: Any) -> None:
    one = connection.subscribe("a", name="S", shared=True)
    two = other.subscribe(name="S", shared=True)
    queue = one.queue
    one.close()
    connection.publish("a", b"for two")
    assert bodies(two) == [b"for two"]
    connection.publish("a", b"goes with the last")
    two.close()
    with pytest.raises(QueueNotFound):
        connection.get(queue)
    with pytest.raises(SubscriptionNotFound):
        connection.subscribe(name="S", shared=True)


def test_one_connection_may_read_a_shared_subscription_twice(connection: Any) -> None:
    one = connection.subscribe("a", name="S", shared=True)
    two = connection.subscribe("a", name="S", shared=True)
    connection.publish("a", b"1")
    connection.publish("a", b"2")
    assert one.get().body == b"1"
    one.close()
    assert two.get().body == b"2"
    two.close()
    with pytest.raises(SubscriptionNotFound):
        connection.subscribe(name="S", shared=True)


@pytest.mark.parametrize("options", [{"durable": "S"}, {"name": "S"}], ids=["durable", "not durable"])
def test_readers_that_come_at_once_are_all_counted(url: str, options: Any) -> None:
    async def test() -> None:
        async with await entrepot.aio.connect(url) as connection:
            opened = await asyncio.gather(*(connection.subscribe("a", shared=True, **options) for _ in range(5)))
            for number, subscription in enumerate(opened):
                await connection.publish("a", b"%d" % number)
                message = await subscription.get()
                assert message is not None
                assert message.body == b"%d" % number
                await subscription.close()
            if "durable" in options:
                await connection.unsubscribe("S")
            with pytest.raises(SubscriptionNotFound):
                await connection.subscribe(shared=True, **options)

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_shared_durable_subscription_outlives_its_readers(connection: Any, other: Any) -> None:
    one = connection.subscribe("a", durable="S", shared=True)
    two = other.subscribe("a", durable="S", shared=True)
    with pytest.raises(SubscriptionInUse):
        connection.unsubscribe("S")
    one.close()
    with pytest.raises(SubscriptionInUse):
        connection.unsubscribe("S")
    two.close()
    connection.publish("a", b"collected")
    with connection.subscribe(durable="S", shared=True) as subscription:
        assert bodies(subscription) == [b"collected"]
    connection.unsubscribe("S")


def test_a_name_alone_does_not_share(connection: Any, other: Any) -> None:
    with connection.subscribe("a", name="N") as subscription:
        assert subscription.name == "N"
        with pytest.raises(SubscriptionInUse):
            other.subscribe("a", name="N")
        with pytest.raises(SubscriptionDiffers):
            other.subscribe("a", name="N", shared=True)
        with pytest.raises(SubscriptionDiffers):
            other.subscribe("a", durable="N")


# --- a queue of one's own -----------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [None, "D"])
def test_publications_may_go_to_any_queue(connection: Any, durable: str | None) -> None:
    connection.put("Q", b"before")
    with connection.subscribe("a", queue="Q", durable=durable) as subscription:
        assert subscription.queue == "Q"
        connection.publish("a", b"1", persistent=True)
    connection.publish("a", b"2", persistent=True)
    expected = [(b"before", False), (b"1", True)] + ([(b"2", True)] if durable else [])
    if durable:
        connection.unsubscribe(durable)
    # It is nobody's queue but its owner's: no subscription takes it away.
    assert [(message.body, message.persistent) for message in on_queue(connection, "Q")] == expected


def test_several_subscriptions_may_lead_to_one_queue(connection: Any) -> None:
    with connection.subscribe("a", queue="Q"), connection.subscribe("+", queue="Q"):
        connection.publish("a", b"twice")
    assert [message.body for message in on_queue(connection, "Q")] == [b"twice", b"twice"]


def test_a_destination_has_to_be_there(connection: Any) -> None:
    with pytest.raises(QueueNotFound):
        connection.subscribe("a", queue="NOPE")
    with pytest.raises(QueueNotFound):
        connection.subscribe("a", queue="NOPE", durable="D")
    with pytest.raises(SubscriptionNotFound):
        connection.subscribe(durable="D")


# --- units of work ------------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_publications_of_a_unit_come_with_its_commit(connection: Any, persistent: bool) -> None:
    with connection.subscribe("a", durable="D") as durable, connection.subscribe("+") as fleeting:
        with connection.unit_of_work() as unit:
            for number in range(5):
                unit.publish("a", b"%d" % number, persistent=persistent)
            assert (all_of(durable), all_of(fleeting)) == ([], [])
        assert bodies(durable) == bodies(fleeting) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("persistent", [False, True])
def test_publications_of_a_unit_that_backs_out_reach_nobody(connection: Any, persistent: bool) -> None:
    with connection.subscribe("a", durable="D") as durable, connection.subscribe("a") as fleeting:
        with pytest.raises(ZeroDivisionError), connection.unit_of_work() as unit:
            unit.publish("a", b"never", persistent=persistent)
            _ = 1 / 0
        assert (all_of(durable), all_of(fleeting)) == ([], [])
        connection.publish("a", b"after", persistent=persistent)
        assert bodies(durable) == bodies(fleeting) == [b"after"]


@pytest.mark.parametrize("commit", [True, False])
def test_publication_put_and_get_happen_together(connection: Any, commit: bool) -> None:
    connection.put("Q", b"order", persistent=True)
    with connection.subscribe("orders", durable="D") as subscription:
        unit = connection.unit_of_work()
        order = unit.get("Q")
        unit.publish("orders", order.body + b" is there", persistent=True)
        unit.put("R", order.body + b" to do", persistent=True)
        if commit:
            unit.commit()
        else:
            unit.back_out()
        eventually(lambda: connection.mqsc("DISPLAY QSTATUS(Q) UNCOM")[0].rows[0]["UNCOM"] == 0)
        assert bodies(subscription) == ([b"order is there"] if commit else [])
        assert [message.body for message in on_queue(connection, "R")] == ([b"order to do"] if commit else [])
        assert [message.body for message in on_queue(connection, "Q")] == ([] if commit else [b"order"])


def test_a_prepared_publication_waits_for_its_coordinator(connection: Any) -> None:
    with connection.subscribe("a") as subscription:
        for name, commit in ((b"1", True), (b"2", False)):
            unit = connection.unit_of_work()
            unit.publish("a", name, persistent=True)
            unit.prepare(name)
            assert all_of(subscription) == []
            connection.resolve(name, commit=commit)
            assert bodies(subscription) == ([name] if commit else [])


def test_a_subscription_that_comes_after_a_publication_and_before_its_commit_goes_without(connection: Any) -> None:
    unit = connection.unit_of_work()
    unit.publish("a", b"addressed already", persistent=True)
    # By a channel a put of a unit travels when something is waited for.
    unit.get("Q")
    with connection.subscribe("a") as subscription:
        unit.commit()
        assert all_of(subscription) == []


def test_a_subscription_may_end_while_a_unit_has_something_for_it(connection: Any) -> None:
    with connection.subscribe("a") as stays:
        goes = connection.subscribe("a")
        unit = connection.unit_of_work()
        unit.publish("a", b"", persistent=True)
        unit.get("Q")
        goes.close()
        unit.commit()
        assert len(all_of(stays)) == 1


# --- persistence --------------------------------------------------------------------------------------


def test_a_persistent_publication_dies_with_a_subscription_that_does(connection: Any) -> None:
    with (
        connection.subscribe("a") as fleeting,
        connection.subscribe("a", durable="D") as durable,
        connection.subscribe("a", queue="Q"),
    ):
        connection.publish("a", b"", persistent=True)
        assert [message.persistent for message in all_of(fleeting)] == [False]
        assert [message.persistent for message in all_of(durable)] == [True]
        assert [message.persistent for message in on_queue(connection, "Q")] == [True]


# --- many at a time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("read_ahead", [1, 7, 100])
def test_a_subscription_can_be_consumed(connection: Any, read_ahead: int) -> None:
    with connection.subscribe("a", durable="D") as subscription:
        for number in range(30):
            connection.publish("a", b"%d" % number, persistent=number % 2 == 0)
        with subscription.consume(read_ahead=read_ahead) as consumption:
            for number in range(30):
                assert consumption.get(wait_s=60).body == b"%d" % number
            assert consumption.get(wait_s=0.05) is None
        with subscription.consume(read_ahead=read_ahead, wait_s=0.05) as consumption:
            assert list(consumption) == []
    with connection.subscribe(durable="D") as subscription:
        assert all_of(subscription) == []


def test_what_a_consumer_has_not_used_stays_with_a_durable_subscription(connection: Any) -> None:
    with connection.subscribe("a", durable="D") as subscription:
        for number in range(10):
            connection.publish("a", b"%d" % number, persistent=True)
        consumption = subscription.consume(read_ahead=5)
        for number in range(3):
            assert consumption.get(wait_s=60).body == b"%d" % number
        consumption.settle()
        consumption.close()
    with connection.subscribe(durable="D") as subscription:
        assert bodies(subscription, wait_s=0.05) == [b"%d" % number for number in range(3, 10)]


def test_a_pipeline_publishes(url: str) -> None:
    with connect(url) as connection, connection.subscribe("a/#") as subscription:
        with connection.pipeline() as pipeline:
            for number in range(50):
                pipeline.publish(f"a/{number}", b"%d" % number, persistent=number % 2 == 0, retain=number == 7)
        assert bodies(subscription) == [b"%d" % number for number in range(50)]
        with connection.subscribe("a/#") as late:
            assert bodies(late) == [b"7"]
        with pytest.raises(PublishInhibited), connection.pipeline() as pipeline:
            pipeline.publish("a", b"before")
            pipeline.publish("shut", b"")
            pipeline.publish("a", b"behind")
        assert bodies(subscription) == [b"before", b"behind"]
        with pytest.raises(InvalidTopic):
            connection.pipeline().publish("a/#", b"")


# --- wrong arguments ----------------------------------------------------------------------------------


@for_each(
    ("topic", "column"),
    [(None, 1), (7, 1), (b"a", 1), ("", 1), ("#", 1), ("a/+/b", 3), ("a\0b", 2), ("x" * 10_241, 10_241)],
    ids=["None", "number", "bytes", "empty", "hash", "plus", "NUL", "long"],
)
def test_a_wrong_topic_is_told_with_its_column(connection: Any, topic: Any, column: int) -> None:
    with connection.subscribe("#") as subscription:
        with pytest.raises(InvalidTopic) as refused:
            connection.publish(topic, b"")
        assert refused.value.column == column
        with connection.unit_of_work() as unit:
            with pytest.raises(InvalidTopic):
                unit.publish(topic, b"", persistent=True)
            unit.publish("right", b"")
        assert [message.topic for message in all_of(subscription)] == ["right"]


WRONG: tuple[tuple[Any, dict[str, Any], type[EntrepotError], str], ...] = (
    (7, {}, InvalidTopic, "str"),
    ("", {}, InvalidTopic, "at least one"),
    ("a\0", {}, InvalidTopic, "column 2"),
    ("x" * 10_241, {}, InvalidTopic, "column 10241"),
    ("a/" * 100 + "a", {}, InvalidTopic, "levels"),
    ("a%", {"wildcards": "CHAR"}, InvalidTopic, "column 2"),
    ("a", {"wildcards": "REGEX"}, InvalidArgument, "TOPIC or CHAR"),
    ("a", {"selector": "n ="}, SelectorSyntaxError, "n ="),
    ("a", {"selector": 7}, SelectorSyntaxError, "str"),
    ("a", {"content": "xpath:/a["}, ContentFilterSyntaxError, "column"),
    ("a", {"content": "sql:1"}, ContentFilterSyntaxError, "xpath"),
    ("a", {"content": "no language"}, ContentFilterSyntaxError, "column 1"),
    ("a", {"shared": True}, InvalidArgument, "name"),
    ("a", {"shared": 1, "name": "N"}, InvalidArgument, "shared"),
    ("a", {"durable": "D", "name": "N"}, InvalidArgument, "durable"),
    ("a", {"durable": ""}, InvalidName, "subscription"),
    ("a", {"durable": "x" * 1025}, InvalidName, "subscription"),
    ("a", {"durable": "a\nb"}, InvalidName, "subscription"),
    ("a", {"name": ""}, InvalidName, "subscription"),
    ("a", {"new_only": "yes"}, InvalidArgument, "new_only"),
    ("a", {"queue": 7}, InvalidArgument, "queue"),
    ("a", {"colour": "red"}, InvalidArgument, "colour"),
    (None, {}, InvalidArgument, "topic"),
    (None, {"name": "NOPE"}, SubscriptionNotFound, "NOPE"),
    (None, {"durable": "NOPE"}, SubscriptionNotFound, "NOPE"),
)


def test_a_wrong_subscription_is_not_made(connection: Any) -> None:
    for topic, options, error, told in WRONG:
        with pytest.raises(error, match=told):
            connection.subscribe(topic, **options)
    connection.publish("a", b"", persistent=True)
    assert on_queue(connection, DEAD_LETTERS) == []


def test_wrong_arguments_of_other_verbs(connection: Any) -> None:
    with pytest.raises(InvalidArgument):
        connection.subscribe("a", shared=True)
    with pytest.raises(InvalidArgument):
        connection.publish("a", b"", retain="yes")
    with pytest.raises(InvalidArgument):
        connection.publish("a", "text")
    with pytest.raises(InvalidArgument):
        connection.publish("a", b"", colour="red")
    with pytest.raises(InvalidName):
        connection.unsubscribe("")


# --- queues that do not take it -----------------------------------------------------------------------


def test_what_a_full_queue_refuses_goes_to_the_dead_letter_queue(connection: Any) -> None:
    with (
        connection.subscribe("a", queue="SMALL", durable="D"),
        connection.subscribe("a") as fleeting,
        connection.subscribe("a", durable="E") as durable,
    ):
        for number in range(3):
            connection.publish("a", b"%d" % number, persistent=number != 2)
        assert bodies(fleeting) == bodies(durable) == [b"0", b"1", b"2"]
        assert [message.body for message in on_queue(connection, "SMALL")] == [b"0"]
        dead = on_queue(connection, DEAD_LETTERS)
        assert [(message.body, message.persistent, message.topic) for message in dead] == [
            (b"1", True, "a"),
            (b"2", False, "a"),
        ]
        for message in dead:
            assert message.properties["dead_letter_queue"] == "SMALL"
            assert message.properties["dead_letter_reason"] == 2053
            assert "SMALL" in str(message.properties["dead_letter_problem"])


@pytest.mark.parametrize("persistent", [False, True])
def test_who_must_have_it_decides_whether_the_publisher_is_told(connection: Any, persistent: bool) -> None:
    """These topics do not use the dead-letter queue."""
    for reach, durable in product(REACHES, (None, "D")):
        topic = f"{reach.lower()}/x"
        told = reach == "ALL" or (reach == "ALLDUR" and durable is not None)
        connection.put("SMALL", b"full")
        with (
            connection.subscribe(topic) as healthy,
            connection.subscribe(topic, queue="SMALL", durable=durable) as full,
        ):
            if told:
                with pytest.raises(PublicationFailed, match="SMALL") as refused:
                    connection.publish(topic, b"", persistent=persistent)
                assert [name for name, _ in refused.value.failures] == [full.name]
            else:
                connection.publish(topic, b"", persistent=persistent)
            assert len(all_of(healthy)) == (0 if told else 1)
            assert [message.body for message in on_queue(connection, "SMALL")] == [b"full"]
            connection.publish(topic, b"there is room", persistent=persistent)
            assert bodies(healthy) == [b"there is room"]
            assert [message.body for message in on_queue(connection, "SMALL")] == [b"there is room"]
        if durable:
            connection.unsubscribe(durable)
    assert on_queue(connection, DEAD_LETTERS) == []


@pytest.mark.parametrize("persistent", [False, True])
def test_a_publication_that_fails_leaves_its_unit_as_it_was_or_backs_it_out(connection: Any, persistent: bool) -> None:
    """By a channel, what a put of a unit has met is told with the commit; either way nothing of it is there."""
    connection.put("SMALL", b"full")
    with connection.subscribe("#", queue="Q"), connection.subscribe("all", queue="SMALL", durable="D"):
        unit = connection.unit_of_work()
        unit.publish("fine", b"", persistent=persistent)
        with pytest.raises(PublicationFailed):
            unit.publish("all", b"", persistent=persistent)
            unit.commit()
        if unit.state == "active":
            unit.back_out()
        assert on_queue(connection, "Q") == []
        assert len(on_queue(connection, "SMALL")) == 1
        connection.publish("all", b"", persistent=persistent)
        assert [len(on_queue(connection, queue)) for queue in ("Q", "SMALL")] == [1, 1]


def test_a_queue_that_takes_no_messages_gets_none(connection: Any) -> None:
    with connection.subscribe("a", queue="Q"), connection.subscribe("a") as subscription:
        connection.publish("a", b"1")
        connection.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
        connection.publish("a", b"2")
        connection.mqsc("ALTER QLOCAL(Q) PUT(ENABLED)")
        connection.publish("a", b"3")
        assert bodies(subscription) == [b"1", b"2", b"3"]
        assert [message.body for message in on_queue(connection, "Q")] == [b"1", b"3"]
        (dead,) = on_queue(connection, DEAD_LETTERS)
        assert (dead.body, dead.properties["dead_letter_reason"]) == (b"2", 2051)


def test_a_queue_that_gives_no_messages_collects_them(connection: Any) -> None:
    with connection.subscribe("a", durable="D") as subscription:
        queue = subscription.queue
        connection.mqsc(f"ALTER QLOCAL({queue}) GET(DISABLED)")
        connection.publish("a", b"1", persistent=True)
        with pytest.raises(GetInhibited):
            subscription.get()
        connection.mqsc(f"ALTER QLOCAL({queue}) GET(ENABLED)")
        assert bodies(subscription) == [b"1"]


def test_a_queue_that_is_gone_gets_no_more(connection: Any) -> None:
    with connection.subscribe("a", queue="Q", durable="D"), connection.subscribe("a") as subscription:
        connection.publish("a", b"1")
        connection.mqsc("DELETE QLOCAL(Q) PURGE")
        connection.publish("a", b"2", persistent=True)
        connection.mqsc("DEFINE QLOCAL(Q)")
        connection.publish("a", b"3")
        assert bodies(subscription) == [b"1", b"2", b"3"]
        (dead,) = on_queue(connection, DEAD_LETTERS)
        assert (dead.body, dead.properties["dead_letter_reason"]) == (b"2", 2085)
        assert [message.body for message in on_queue(connection, "Q")] == [b"3"]


def test_a_body_too_long_for_one_queue_reaches_the_others(connection: Any) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXMSGL(10)")
    with connection.subscribe("a", queue="Q"), connection.subscribe("a") as subscription:
        connection.publish("a", b"x" * 11)
        assert len(all_of(subscription)) == 1
        assert on_queue(connection, "Q") == []
        (dead,) = on_queue(connection, DEAD_LETTERS)
        assert dead.properties["dead_letter_reason"] == 2030


# --- the end of a connection --------------------------------------------------------------------------


def test_subscriptions_that_are_not_durable_end_with_their_connection(open_connection: Open, connection: Any) -> None:
    leaving = open_connection()
    queues = [leaving.subscribe("a").queue, leaving.subscribe("b/#", name="N", shared=True).queue]
    durable = leaving.subscribe("a", durable="D").queue
    connection.publish("a", b"1", persistent=True)
    leaving.close()

    def is_gone(queue: str) -> bool:
        try:
            connection.get(queue)
        except QueueNotFound:
            return True
        return False

    for queue in queues:
        eventually(lambda queue=queue: is_gone(queue))
    with pytest.raises(SubscriptionNotFound):
        connection.subscribe(name="N", shared=True)
    connection.publish("a", b"2", persistent=True)
    with connection.subscribe(durable="D") as subscription:
        assert subscription.queue == durable
        assert bodies(subscription) == [b"1", b"2"]


def test_what_a_connection_holds_in_a_unit_comes_back_to_a_durable_subscription(
    open_connection: Open, connection: Any
) -> None:
    leaving = open_connection()
    queue = leaving.subscribe("a", durable="D").queue
    connection.publish("a", b"1", persistent=True)
    assert leaving.unit_of_work().get(queue).body == b"1"
    leaving.close()
    with connection.subscribe(durable="D") as subscription:
        (message,) = [subscription.get(wait_s=60), *all_of(subscription)]
        assert (message.body, message.backout_count) == (b"1", 1)


# --- a server that starts again -----------------------------------------------------------------------


class Restarting:
    """A server that can be stopped and started again while clients are connected."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = ServerThread(folder)
        self._server.__enter__()

    def restart(self) -> None:
        self._server.stop()
        self._server = ServerThread(self._folder)
        self._server.__enter__()

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture
def restarting(folder: Path) -> Iterator[Restarting]:
    server = Restarting(folder)
    yield server
    server.stop()


@pytest.fixture(params=["blocking", "asyncio"])
def client(request: pytest.FixtureRequest, folder: Path, restarting: Restarting) -> Iterator[Any]:
    """A connection that mends itself."""
    url = f"unix:{folder}"
    with asyncio.Runner() as runner:
        if request.param == "blocking":
            client: Any = connect(url)
        else:
            client = Waiting(runner, runner.run(entrepot.aio.connect(url)))
        yield client
        client.close()


def opened(client: Any) -> int:
    """How many connections it has had."""
    return int(client.calls.core.opened)


@contextmanager
def publisher(folder: Path) -> Iterator[Connection]:
    with connect(f"unix:{folder}") as connection:
        yield connection


def test_a_durable_subscription_goes_on_over_a_restart(client: Any, restarting: Restarting, folder: Path) -> None:
    with client.subscribe("a", durable="D") as subscription:
        client.publish("a", b"1", persistent=True)
        client.publish("a", b"2", persistent=True)
        assert subscription.get().body == b"1"
        # What a reader has got leaves its queue when its next verb, or this one, says so.
        client.mqsc("PING QMGR")
        for number in (3, 4):
            restarting.restart()
            with publisher(folder) as another:
                another.publish("a", b"%d" % number, persistent=True)
        assert bodies(subscription) == [b"2", b"3", b"4"]
        with publisher(folder) as another, pytest.raises(SubscriptionInUse):
            another.subscribe(durable="D")


def test_a_subscription_that_is_not_durable_begins_anew_over_a_restart(
    client: Any, restarting: Restarting, folder: Path
) -> None:
    with client.subscribe("a") as subscription:
        client.publish("a", b"gone", retain=True, persistent=True)
        restarting.restart()
        with publisher(folder) as another:
            another.publish("a", b"nobody was there")
        assert subscription.get() is None
        with publisher(folder) as another:
            another.publish("a", b"heard")
        assert bodies(subscription) == [b"heard"]


@pytest.mark.parametrize("durable", [None, "D"], ids=["not durable", "durable"])
def test_a_consumer_goes_on_over_a_restart(
    client: Any, restarting: Restarting, folder: Path, durable: str | None
) -> None:
    subscription = client.subscribe("a", durable=durable)
    consumption = subscription.consume(read_ahead=10)
    client.publish("a", b"before", persistent=True)
    assert consumption.get(wait_s=60).body == b"before"
    client.mqsc("PING QMGR")
    restarting.restart()
    found: list[bytes] = []

    def is_back() -> bool:
        found.extend(message.body for message in iter(lambda: consumption.get(wait_s=0.1), None))
        return opened(client) == 2

    eventually(is_back)
    with publisher(folder) as another:
        another.publish("a", b"after", persistent=True)
    while b"after" not in found:
        found.append(consumption.get(wait_s=60).body)
    assert found in ([b"after"], [b"before", b"after"])
    consumption.close()
    subscription.close()
