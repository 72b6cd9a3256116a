# SPDX-License-Identifier: Apache-2.0
"""Who wants a publication is found without a look at those who do not, however many there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from entrepot.engine.definitions import BASE_TOPIC, LocalQueue, ManagerAttributes, SubscriptionDefinition, Topic
from entrepot.engine.objects import Objects
from entrepot.engine.queue import Queue
from entrepot.engine.subscribers import Interest, PublicationPlan, Subscribers
from entrepot.selectors import compile_selector

MANY = 100_000


@pytest.fixture(scope="module")
def objects() -> Objects:
    """A hundred thousand subscriptions to topics of their own, and a few with wildcards, all to one queue."""
    objects = Objects(ManagerAttributes(name="QM"), lambda number, definition: Queue(number, definition, None, None))  # type: ignore[arg-type]
    objects.put(LocalQueue(name="Q"))
    for number in range(MANY):
        objects.put(subscription(f"S{number}", f"prices/{number % 100}/{number}"))
    return objects


@pytest.fixture
def with_wildcards(objects: Objects) -> Iterator[Objects]:
    for pattern in ("prices/+/77", "#", "prices/77/#", "other/#"):
        objects.put(subscription(pattern, pattern))
    objects.put(
        SubscriptionDefinition(name="C", topic="prices/77/7*", wildcards="CHAR", destination="Q", durable=False)
    )
    yield objects
    for name in ("prices/+/77", "#", "prices/77/#", "other/#", "C"):
        objects.remove("SUB", name)


def subscription(name: str, topic: str) -> SubscriptionDefinition:
    return SubscriptionDefinition(name=name, topic=topic, destination="Q", durable=False)


def visited(subscribers: Subscribers, topic: str) -> int:
    """How many branches of the tree of subscriptions a topic passes."""
    return sum(len(list(reached)) for reached in subscribers._tree._branches_along(topic))


def names(plan: PublicationPlan) -> set[str]:
    return {member.subscriber.definition.name for party in plan.parties for member in party.members}


def test_the_work_for_a_publication_does_not_grow_with_the_subscriptions(objects: Objects) -> None:
    few = Objects(ManagerAttributes(name="QM"), lambda number, definition: Queue(number, definition, None, None))  # type: ignore[arg-type]
    few.put(LocalQueue(name="Q"))
    few.put(subscription("S77", "prices/77/77"))
    assert len(objects.subscribers.by_name) == MANY
    for each in (few, objects):
        plan = each.subscribers.plan("prices/77/77")
        assert names(plan) == {"S77"}
        assert (len(plan.parties), len(plan.parties[0].members)) == (1, 1)
        assert visited(each.subscribers, "prices/77/77") == 4
        assert names(each.subscribers.plan("prices/none")) == set()
        assert visited(each.subscribers, "prices/none") == 2


def test_wildcards_add_only_their_own(with_wildcards: Objects) -> None:
    subscribers = with_wildcards.subscribers
    wild = {"prices/+/77", "#", "prices/77/#", "C"}
    assert names(subscribers.plan("prices/77/77")) == {"S77"} | wild
    assert names(subscribers.plan("prices/78/78")) == {"S78", "#"}
    assert visited(subscribers, "prices/77/77") < 15
    # Who gets the same message under the same conditions is one party, whatever its pattern.
    assert len(subscribers.plan("prices/77/77").parties) == 1


def test_who_comes_and_goes_leaves_nothing_behind(objects: Objects) -> None:
    before = len(objects.subscribers._tree)
    for _ in range(3):
        objects.put(subscription("NEW", "prices/77/77"))
        assert names(objects.subscribers.plan("prices/77/77")) == {"S77", "NEW"}
        objects.put(
            SubscriptionDefinition(name="NEW", topic="prices/77/77", destination="Q", durable=False, selector="n = 1")
        )
        assert len(objects.subscribers.plan("prices/77/77").parties) == 2
        objects.remove("SUB", "NEW")
        assert names(objects.subscribers.plan("prices/77/77")) == {"S77"}
    assert len(objects.subscribers._tree) == before


# --- what others are told ------------------------------------------------------------------------


@pytest.fixture
def few() -> Objects:
    objects = Objects(ManagerAttributes(name="QM"), lambda number, definition: Queue(number, definition, None, None))  # type: ignore[arg-type]
    objects.put(LocalQueue(name="Q", default_priority=5))
    return objects


def test_others_are_told_when_an_interest_begins_or_ends(few: Objects) -> None:
    subscribers = few.subscribers
    told: list[tuple[Interest, bool]] = []
    subscribers.on_interest = lambda key: told.append((key, key in subscribers.interest))
    few.put(subscription("S", "a"))
    few.remove("SUB", "S")
    assert told == [(("TOPIC", "a"), True), (("TOPIC", "a"), False)]


def test_a_plan_that_was_made_before_is_not_kept(few: Objects) -> None:
    plan = few.subscribers.plan
    assert names(plan("a")) == set()
    few.put(subscription("S", "a"))
    assert names(plan("a")) == {"S"}
    few.put(subscription("S", "b"))
    assert (names(plan("a")), names(plan("b"))) == (set(), {"S"})
    few.remove("SUB", "S")
    assert names(plan("b")) == set()


def test_a_subscription_that_changes_is_counted_once(few: Objects) -> None:
    interest = few.subscribers.interest
    for _ in range(2):
        few.put(subscription("S", "a"))
        assert interest == {("TOPIC", "a"): {"": 1}}
    few.put(subscription("T", "a"))
    assert interest == {("TOPIC", "a"): {"": 2}}
    few.put(subscription("S", "b"))
    assert interest == {("TOPIC", "a"): {"": 1}, ("TOPIC", "b"): {"": 1}}
    for name in ("S", "T"):
        few.remove("SUB", name)
    assert interest == {}


def test_interest_is_counted_for_each_queue_manager_and_not_within_one(few: Objects) -> None:
    few.put(LocalQueue(name="QM2", usage="XMITQ"))
    few.put(
        SubscriptionDefinition(
            name="P", topic="a", destination="Q", destination_manager="QM2", type="PROXY", durable=False
        )
    )
    few.put(SubscriptionDefinition(name="HERE", topic="a", destination="Q", scope="QMGR", durable=False))
    assert few.subscribers.interest == {("TOPIC", "a"): {"QM2": 1}}
    few.put(subscription("S", "a"))
    few.remove("SUB", "P")
    assert few.subscribers.interest == {("TOPIC", "a"): {"": 1}}


@pytest.mark.parametrize(("priority", "shaped"), [(-1, None), (-2, 5), (0, 0), (9, 9)])
def test_a_subscription_says_with_which_priority_its_messages_come(
    few: Objects, priority: int, shaped: int | None
) -> None:
    few.put(SubscriptionDefinition(name="S", topic="a", destination="Q", durable=False, priority=priority))
    (party,) = few.subscribers.plan("a").parties
    assert party.shape.priority == shaped


def test_readers_stay_counted_when_a_subscription_changes(few: Objects) -> None:
    few.put(subscription("S", "a"))
    few.subscribers.by_name["S"].readers = 2
    few.put(subscription("S", "b"))
    assert few.subscribers.by_name["S"].readers == 2


def test_a_queue_that_takes_nothing_has_no_room(few: Objects) -> None:
    for put_enabled, depth_max in ((True, 7), (False, 0)):
        few.put(LocalQueue(name="Q", put_enabled=put_enabled, depth_max=7))
        few.put(subscription("S", "a"))
        (party,) = few.subscribers.plan("a").parties
        assert party.members[0].depth_max == depth_max


def test_selectors_of_all_subscribers_together_may_take_long(few: Objects) -> None:
    steps = number = 0
    while steps <= 2_000:
        selector = f"n = {number}" + " OR n = 1" * 200
        number += 1
        few.put(SubscriptionDefinition(name=f"S{number}", topic="a", destination="Q", durable=False, selector=selector))
        steps += compile_selector(selector).steps_max
        assert few.subscribers.plan("a").takes_long is (steps > 2_000)
    assert number > 1
    few.put(SubscriptionDefinition(name="SAME", topic="b", destination="Q", durable=False, selector=selector))
    assert not few.subscribers.plan("b").takes_long


def test_the_nearest_topic_object_that_says_anything_counts(few: Objects) -> None:
    few.put(Topic(name="A", topic="a", default_priority=7, publish="DISABLED", durable_model="M"))
    few.put(Topic(name="B", topic="a/b", default_priority=0))
    few.put(Topic(name="C", topic="a/b/c", publish="ENABLED"))
    rulings = [few.subscribers.ruling(topic) for topic in ("a", "a/b", "a/b/c", "x")]
    assert [ruling.topic.default_priority for ruling in rulings] == [7, 0, 0, 0]
    assert [ruling.topic.publish for ruling in rulings] == ["DISABLED", "DISABLED", "ENABLED", "ENABLED"]
    assert [ruling.sources["default_priority"] for ruling in rulings] == ["A", "B", "B", BASE_TOPIC]
    assert [ruling.names for ruling in rulings] == [("A",), ("B", "A"), ("C", "B", "A"), (BASE_TOPIC,)]
    assert rulings[2].topic.durable_model == "M"


@pytest.mark.parametrize(
    ("pattern", "blocked"), [("#", True), ("+/b", True), ("a/#", False), ("a/+", False), ("a/b", False)]
)
def test_a_topic_object_keeps_wildcards_above_it_away(few: Objects, pattern: str, blocked: bool) -> None:
    few.put(Topic(name="A", topic="a", wildcard="BLOCK"))
    few.put(subscription("S", pattern))
    assert names(few.subscribers.plan("a/b")) == (set() if blocked else {"S"})
    assert few.subscribers.blocks(few.subscribers.by_name["S"], "a/b") is blocked


def test_a_topic_that_stays_here_reaches_no_other_queue_manager(few: Objects) -> None:
    few.put(LocalQueue(name="QM2", usage="XMITQ"))
    few.put(
        SubscriptionDefinition(
            name="P", topic="a", destination="Q", destination_manager="QM2", type="PROXY", durable=False
        )
    )
    few.put(subscription("S", "a"))
    assert names(few.subscribers.plan("a")) == {"P", "S"}
    few.put(Topic(name="A", topic="a", publication_scope="QMGR"))
    assert names(few.subscribers.plan("a")) == {"S"}
    few.remove("TOPIC", "A")
    assert names(few.subscribers.plan("a")) == {"P", "S"}
