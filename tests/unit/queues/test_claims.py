# SPDX-License-Identifier: Apache-2.0
"""Claims below all bindings: their records, what an earlier release has left, and how many there may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from entrepot.errors import Fenced, NotAuthorized, UserLimitReached
from entrepot.message import Message
from entrepot.queues.definitions import CLAIMS_QUEUE, ClaimRecord, LocalQueue
from entrepot.queues.host import Host


class Worker:
    """A holder of claims who may claim what begins with his name."""

    administrator = False
    application = "tests"
    token = b""

    def __init__(self, user: str) -> None:
        self.user = user
        self.fenced: Fenced | None = None

    def may_claim(self, name: str) -> bool:
        return name.startswith(self.user)

    def fence(self, error: Fenced) -> None:
        self.fenced = error


@pytest.fixture
def folder(place: Any) -> Path:
    return Path(place.path)


def keep(host: Host, message: Message) -> None:
    """Put it where only an earlier release would."""
    host.durably(lambda: host.manager.put(CLAIMS_QUEUE, message, persistent=True, internal=True)[1])


def left_by_an_earlier_release(host: Host, *states: tuple[str, str, int, str]) -> None:
    """The queue as it was, and no record that says it was read."""
    host.delete(ClaimRecord.kind, "", purge=False)
    host.define(LocalQueue(name=CLAIMS_QUEUE, default_persistent=True), replace=False)
    for kind, name, epoch, user in states:
        body = msgspec.json.encode({"kind": kind, "name": name, "epoch": epoch, "user": user})
        keep(host, Message(body, format="CLAIM"))


def test_what_an_earlier_release_has_left_is_moved_to_records_and_its_queue_goes(folder: Path) -> None:
    host = Host(folder)
    left_by_an_earlier_release(
        host, ("NAME", "app/1", 7, "app"), ("NAME", "app/1", 6, "app"), ("PREFIX", "app/", 9, "")
    )
    host.close()
    for _ in range(2):
        host = Host(folder)
        assert CLAIMS_QUEUE not in host.manager.objects.queues
        claims = host.manager.claims
        with pytest.raises(Fenced):
            claims.claim(Worker("app"), "app/1", 6)
        assert host.manager.objects.claims["app/"].given == 9
        host.close()
    host = Host(folder)
    assert host.manager.claims.next_epoch(Worker("app"), "app/")[0] == 10
    host.close()


def test_a_poisoned_queue_manager_recovers_and_messages_that_come_later_are_not_believed(folder: Path) -> None:
    host = Host(folder)
    left_by_an_earlier_release(
        host, ("NAME", "zz", 2**62 - 1, "mallory"), ("PREFIX", "", 2**62, "mallory"), ("NAME", "app/1", 3, "app")
    )
    host.close()
    host = Host(folder)
    app = Worker("app")
    assert host.manager.claims.next_epoch(app, "app/")[0] == 4
    host.manager.claims.claim(app, "app/1", 4)
    host.define(LocalQueue(name=CLAIMS_QUEUE), replace=False)
    forged = msgspec.json.encode({"kind": "NAME", "name": "app/1", "epoch": 999, "user": "mallory"})
    keep(host, Message(forged))
    host.close()
    host = Host(folder)
    assert host.manager.claims.claim(app, "app/1", 4)[0] == ""
    host.close()


def test_a_user_and_all_users_have_so_many_claims_and_no_more(folder: Path) -> None:
    host = Host(folder)
    attributes = host.manager_attributes()
    host.alter(msgspec.structs.replace(attributes, user_claims_max=2, claims_max=3))
    claims, ann, bob = host.manager.claims, Worker("ann"), Worker("bob")
    claims.claim(ann, "ann/1", 1)
    claims.claim(ann, "ann/1", 2)
    claims.next_epoch(ann, "ann/")
    with pytest.raises(UserLimitReached, match=r"ann would hold 3 claims, the limit is 2.*USRCLAIM"):
        claims.claim(ann, "ann/2", 1)
    claims.claim(bob, "bob/1", 1)
    with pytest.raises(UserLimitReached, match=r"all users together.*MAXCLAIM"):
        claims.claim(bob, "bob/2", 1)
    with pytest.raises(NotAuthorized):
        claims.claim(bob, "ann/1", 3)
    assert ann.fenced is None
    host.close()
