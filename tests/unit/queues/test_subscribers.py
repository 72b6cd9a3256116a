# SPDX-License-Identifier: Apache-2.0
"""Who wants a publication is found without a look at those who do not, however many there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from entrepot.queues.definitions import LocalQueue, ManagerAttributes, Subscription
from entrepot.queues.objects import Objects
from entrepot.queues.queue import Queue
from entrepot.queues.subscribers import Plan, Subscribers

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
    objects.put(Subscription(name="C", topic="prices/77/7*", wildcards="CHAR", destination="Q", durable=False))
    yield objects
    for name in ("prices/+/77", "#", "prices/77/#", "other/#", "C"):
        objects.remove("SUB", name)


def subscription(name: str, topic: str) -> Subscription:
    return Subscription(name=name, topic=topic, destination="Q", durable=False)


def visited(subscribers: Subscribers, topic: str) -> int:
    """How many branches of the tree of subscriptions a topic passes."""
    return sum(len(list(reached)) for reached in subscribers._tree._branches_along(topic))


def names(plan: Plan) -> set[str]:
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
        objects.put(Subscription(name="NEW", topic="prices/77/77", destination="Q", durable=False, selector="n = 1"))
        assert len(objects.subscribers.plan("prices/77/77").parties) == 2
        objects.remove("SUB", "NEW")
        assert names(objects.subscribers.plan("prices/77/77")) == {"S77"}
    assert len(objects.subscribers._tree) == before
