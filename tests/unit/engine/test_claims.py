# SPDX-License-Identifier: Apache-2.0
"""Claims below all bindings: their records, what an earlier release has left, and how many there may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from entrepot.engine.claims import Claims, require_name, require_prefix, require_status, status_form
from entrepot.engine.definitions import CLAIMS_QUEUE, ClaimRecord, LocalQueue
from entrepot.errors import Fenced, InvalidArgument, LimitExceeded, NotAuthorized, UserLimitReached
from entrepot.limits import CLAIM_NAME_CHARACTERS_MAX, CLAIM_STATUS_BYTES_MAX, EPOCH_MAX, EPOCH_STEP_MAX
from entrepot.message import Message
from hosted import Host

from .simulated import Simulated


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


# --- the rules of a name ----------------------------------------------------------------------


@pytest.fixture
def simulated() -> Simulated:
    return Simulated()


def claims_of(simulated: Simulated, **attributes: int) -> Claims:
    manager = simulated.manager
    manager.administration.alter(msgspec.structs.replace(manager.objects.manager, **attributes))
    manager.force()
    return manager.claims


@pytest.mark.parametrize("verb", ["claim", "retire"])
def test_an_epoch_may_rise_by_a_step_and_what_was_refused_is_not_counted(simulated: Simulated, verb: str) -> None:
    claims, ann = claims_of(simulated, user_claims_max=1), Worker("ann")
    raise_to = getattr(claims, verb)
    with pytest.raises(LimitExceeded):
        raise_to(ann, "ann/1", EPOCH_STEP_MAX + 1)
    raise_to(ann, "ann/2", EPOCH_STEP_MAX)
    with pytest.raises(LimitExceeded):
        raise_to(ann, "ann/2", 2 * EPOCH_STEP_MAX + 1)
    raise_to(ann, "ann/2", 2 * EPOCH_STEP_MAX)


def test_a_number_that_was_given_out_for_a_prefix_may_be_claimed_below_it(simulated: Simulated) -> None:
    claims, ann = claims_of(simulated), Worker("ann")
    for step in range(1, 4):
        claims.claim(ann, "ann/high", step * EPOCH_STEP_MAX)
    given, _ = claims.next_epoch(ann, "ann/")
    assert given == 3 * EPOCH_STEP_MAX + 1
    with pytest.raises(LimitExceeded):
        claims.claim(ann, "ann/low", given + EPOCH_STEP_MAX + 1)
    claims.claim(ann, "ann/low", given)
    with pytest.raises(LimitExceeded):
        claims.claim(ann, "annex", given)


def test_numbers_are_above_all_that_was_claimed_or_given_around_the_prefix(simulated: Simulated) -> None:
    claims, ann = claims_of(simulated), Worker("a")
    assert claims.next_epoch(ann, "a/b/")[0] == 1
    claims.claim(ann, "a/b/1", 5)
    claims.claim(ann, "a/c", 50)
    assert [claims.next_epoch(ann, "a/b/")[0] for _ in range(2)] == [6, 7]
    assert claims.next_epoch(ann, "a/")[0] == 51
    assert claims.next_epoch(ann, "a/b/")[0] == 52, "the wider prefix includes it"


def test_no_number_is_above_the_highest_epoch(simulated: Simulated) -> None:
    claims, ann = claims_of(simulated), Worker("ann")
    claims.claim(ann, "ann/1", 1)
    for epoch, is_given in ((EPOCH_MAX - 1, True), (EPOCH_MAX, False)):
        simulated.manager.administration.redefine(ClaimRecord(name="ann/1", epoch=epoch, user="ann"))
        simulated.manager.force()
        claims = simulated.kill_and_start().manager.claims
        if is_given:
            assert claims.next_epoch(ann, "ann/")[0] == EPOCH_MAX
        else:
            with pytest.raises(LimitExceeded):
                claims.next_epoch(ann, "ann/")


def test_a_higher_epoch_fences_the_holder_and_begins_anew(simulated: Simulated) -> None:
    claims, first, second = claims_of(simulated), Worker("ann"), Worker("ann")
    claims.claim(first, "ann/1", 1, b'{"at":1}')
    claims.instruct(first, "ann/", "stop")
    simulated.clock.advance(10)
    assert claims.claim(second, "ann/1", 2)[0] == "", "the order was for another"
    assert (first.fenced is not None, second.fenced) == (True, None)
    (shown,) = claims.all(second)
    assert (shown.epoch, shown.connected, shown.status, shown.order) == (2, True, {}, "")
    assert shown.since == shown.renewed_at == simulated.clock.now()


def test_a_renewal_keeps_what_was_said_until_something_new_is_said(simulated: Simulated) -> None:
    claims, ann = claims_of(simulated), Worker("ann")
    claims.claim(ann, "ann/1", 1, b'{"at":1}')
    since = simulated.clock.now()
    simulated.clock.advance(10)
    claims.claim(ann, "ann/1", 1)
    assert (claims.all(ann)[0].status, claims.all(ann)[0].since) == ({"at": 1}, since)
    assert claims.all(ann)[0].renewed_at == since + 10
    claims.claim(ann, "ann/1", 1, b'{"at":2}')
    assert claims.all(ann)[0].status == {"at": 2}


def test_the_same_epoch_is_free_only_when_its_holder_has_left(simulated: Simulated) -> None:
    claims, first, second = claims_of(simulated), Worker("ann"), Worker("ann")
    claims.claim(first, "ann/1", 1)
    with pytest.raises(Fenced):
        claims.claim(second, "ann/1", 1)
    claims.leave(first)
    assert not claims.all(second)[0].connected
    claims.claim(second, "ann/1", 1)
    assert first.fenced is None
    claims.leave(first)
    assert claims.all(second)[0].connected, "it is another's by now"


def test_a_client_that_came_back_is_known_by_its_token(simulated: Simulated) -> None:
    claims, first, again = claims_of(simulated), Worker("ann"), Worker("ann")
    first.token = again.token = b"token"
    claims.claim(first, "ann/1", 1)
    claims.claim(again, "ann/1", 1)
    assert first.fenced is not None, "two may not act at once"


def test_a_retired_epoch_fences_only_those_below_it(simulated: Simulated) -> None:
    claims, ann = claims_of(simulated), Worker("ann")
    claims.claim(ann, "ann/1", 3, b'{"at":1}')
    assert claims.retire(ann, "ann/1", 3) is not None, "the claim itself is not on disk yet"
    assert ann.fenced is None
    claims.retire(ann, "ann/1", 4)
    assert ann.fenced is not None
    assert (claims.all(ann)[0].epoch, claims.all(ann)[0].status) == (4, {})


def test_what_is_on_disk_is_not_written_again_and_survives_a_power_cut(simulated: Simulated) -> None:
    claims, ann = claims_of(simulated), Worker("ann")
    _, settlement = claims.claim(ann, "ann/1", 7)
    assert settlement is not None
    simulated.manager.force()
    assert settlement.done
    assert claims.claim(ann, "ann/1", 7)[1] is None
    claims = simulated.power_cut_and_start().manager.claims
    with pytest.raises(Fenced):
        claims.claim(ann, "ann/1", 6)
    assert claims.claim(ann, "ann/1", 7)[1] is None


def test_orders_reach_only_names_that_were_claimed_since_the_start(simulated: Simulated) -> None:
    claims, ann = claims_of(simulated), Worker("ann")
    claims.claim(ann, "ann/1", 1)
    claims.retire(ann, "ann/2", 1)
    assert claims.instruct(ann, "ann/", "stop") == 1
    assert claims.claim(ann, "ann/1", 1)[0] == "stop"
    bob = Worker("bob")
    claims.claim(bob, "bob/1", 1)
    with pytest.raises(NotAuthorized):
        claims.instruct(ann, "", "all stop")
    assert claims.claim(bob, "bob/1", 1)[0] == ""


def test_a_user_sees_only_what_it_may_claim_and_prefixes_are_no_claims(simulated: Simulated) -> None:
    claims, ann, root = claims_of(simulated), Worker("ann"), Worker("root")
    root.administrator = True
    claims.next_epoch(ann, "ann/")
    for name in ("bob/1", "ann/2", "ann/1"):
        claims.claim(root, name, 1)
    assert [claim.name for claim in claims.all(ann)] == ["ann/1", "ann/2"]
    assert [claim.name for claim in claims.all(root, "b")] == ["bob/1"]
    assert len(claims.all(root)) == 3


def test_names_orders_and_states_are_bounded(simulated: Simulated) -> None:
    longest = "x" * CLAIM_NAME_CHARACTERS_MAX
    assert (require_name("x"), require_name(longest), require_prefix("")) == ("x", longest, "")
    for wrong in ("", longest + "x", "a\nb", 7):
        with pytest.raises(InvalidArgument):
            require_name(wrong)
    assert claims_of(simulated).instruct(Worker(""), "", longest) == 0
    for order in (longest + "x", "a\nb", 7):
        with pytest.raises(InvalidArgument):
            claims_of(simulated).instruct(Worker(""), "", order)  # type: ignore[arg-type]


def test_a_state_is_a_mapping_of_so_many_bytes_at_most() -> None:
    full = b'{"a":"' + b"x" * (CLAIM_STATUS_BYTES_MAX - 8) + b'"}'
    assert require_status(full) == full
    assert (status_form(None), require_status(b"")) == (b"", b"")
    for wrong in (full.replace(b"}", b" }"), b"[1]", b"{"):
        with pytest.raises(InvalidArgument):
            require_status(wrong)
    with pytest.raises(InvalidArgument):
        status_form({"a": object()})
