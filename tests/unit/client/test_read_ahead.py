# SPDX-License-Identifier: Apache-2.0
"""Messages that come to a client before they are asked for: credit, expiry, and what a broken connection leaves."""

from __future__ import annotations

import pytest

from entrepot.client import read_ahead
from entrepot.client.protocol import ClientCore
from entrepot.client.read_ahead import HeldAhead, ReadAhead
from entrepot.errors import ConnectionLost, GetInhibited
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.verbs import Verb
from entrepot.testing.clock import VirtualClock

from .cores import Slot, bodies, new_core, said, texts


@pytest.fixture
def core() -> ClientCore:
    return new_core()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    clock = VirtualClock()
    monkeypatch.setattr(read_ahead.time, "monotonic", clock.now)
    return clock


def held(credit: int, limit: int | None = 1000) -> HeldAhead:
    ahead = HeldAhead(1, "Q", None, credit, 1)
    ahead.begin(limit)
    return ahead


# --- consumers -----------------------------------------------------------------------------------


def test_a_consumer_tells_of_what_was_used_in_steps_of_half_its_credit(core: ClientCore) -> None:
    ahead = core.consume("Q", None, 10, Slot())
    core.take()
    told = []
    for ahead.given in range(1, 11):
        if core.used(ahead):
            told += [(frame.used, frame.more) for _, _, frame in said(core)]
    assert told == [(5, 5), (10, 5)]


def test_an_idle_consumer_tells_of_everything_once(core: ClientCore) -> None:
    ahead = core.consume("Q", None, 10, Slot())
    core.take()
    assert not core.used(ahead, idle=True)
    ahead.given = 1
    assert core.used(ahead, idle=True)
    assert [(frame.consumer, frame.used, frame.more) for _, _, frame in said(core)] == [(ahead.number, 1, 1)]
    assert not core.used(ahead, idle=True)


def test_settling_and_returning_tell_of_all_before(core: ClientCore) -> None:
    ahead = core.consume("Q", None, 10, Slot())
    core.take()
    ahead.given = 2
    core.settle(ahead, Slot())
    core.return_at_hand(ahead, 1.5, "no use", Slot())
    credit, returned = (frame for _, _, frame in said(core))
    assert (credit.used, credit.more) == (3, 3)
    assert (returned.delivery, returned.more, returned.delay_s, returned.rejected) == (4, 1, 1.5, "no use")
    assert [core.stop_frame(ahead, tried=tried).tried for tried in (True, False)] == [5, 0]


def test_consumers_have_numbers_of_their_own_and_get_what_is_theirs(core: ClientCore) -> None:
    first, second = core.consume("Q", None, 3, Slot()), core.hold("R", None, 4, Slot())
    frames = [frame for _, _, frame in said(core)]
    assert [(frame.queue, frame.credit, frame.held, frame.together) for frame in frames] == [
        ("Q", 3, False, True),
        ("R", 4, True, True),
    ]
    core.handle(Verb.DELIVERY, 0, verbs.DeliveryPayload(second.number, 1, Message(b"r1")))
    core.handle(Verb.DELIVERIES, 0, verbs.Deliveries(first.number, 1, texts("q1", "q2")))
    core.handle(Verb.DELIVERY, 0, verbs.DeliveryPayload(99, 1, Message(b"too late")))
    core.handle(Verb.DELIVERIES, 0, verbs.Deliveries(99, 1, texts("too", "late")))
    assert (bodies(list(first.arrived)), bodies(list(second.arrived))) == ("q1 q2", "r1")


def test_a_consumer_that_failed_can_use_what_has_come_and_is_woken(core: ClientCore) -> None:
    ahead = core.consume("Q", None, 3, Slot())
    woken: list[int] = []
    ahead.wake = lambda: woken.append(1)
    core.handle(Verb.DELIVERY, 0, verbs.DeliveryPayload(ahead.number, 1, Message(b"1", persistent=True)))
    failed = verbs.ConsumerFailed(ahead.number, to_wire(GetInhibited("Q")))
    core.handle(Verb.CONSUMER_FAILED, 0, failed)
    core.handle(Verb.CONSUMER_FAILED, 0, verbs.ConsumerFailed(99, to_wire(GetInhibited("Q"))))
    assert len(woken) == 2
    assert isinstance(ahead.error, GetInhibited) and not ahead.is_lost
    assert [message.body for message in (ahead.next(), ahead.next()) if message] == [b"1"]


def test_a_lost_consumer_keeps_only_what_the_server_has_let_go_of() -> None:
    ahead = ReadAhead(1, "Q", None, 5, 1)
    woken: list[int] = []
    ahead.wake = lambda: woken.append(1)
    ahead.arrive([Message(b"1", persistent=True), Message(b"2"), Message(b"3", persistent=True), Message(b"4")])
    ahead.lose(ConnectionLost("p", "x"))
    found = [ahead.next() for _ in range(3)]
    assert [message and message.body for message in found] == [b"2", b"4", None]
    assert len(woken) == 2


@pytest.mark.parametrize(("credit", "step"), [(1, 1), (2, 1), (3, 1), (10, 5)])
def test_a_step_is_half_of_the_credit_and_at_least_one(credit: int, step: int) -> None:
    assert ReadAhead(1, "Q", None, credit, 1).credit_step == step
    ahead = held(100)
    ahead.resize(credit)
    assert ahead.credit_step == step


# --- held, for units of work ---------------------------------------------------------------------


def test_messages_are_handed_out_in_order_up_to_the_limit() -> None:
    ahead = held(10)
    ahead.arrive(texts("1", "2", "3", "4"))
    assert [bodies(ahead.next_few(limit)) for limit in (3, 3, 3)] == ["1 2 3", "4", ""]
    assert ahead.given == 4


def test_a_message_that_was_tried_before_comes_alone() -> None:
    ahead = held(10)
    ahead.arrive([*texts("1", "2"), *texts("tried", backout_count=1), *texts("3", "4")])
    assert [bodies(ahead.next_few(9)) for _ in range(3)] == ["1 2", "tried", "3 4"]


def test_a_message_that_has_expired_is_not_handed_out_behind_others(clock: VirtualClock) -> None:
    ahead = held(10)
    ahead.arrive([*texts("1", "2"), *texts("brief", expiry_s=5.0), *texts("long", expiry_s=50.0), *texts("3")])
    assert not ahead.has_expired
    clock.advance(5.0)
    assert bodies(ahead.next_few(9)) == "1 2"
    assert ahead.has_expired
    # The reader gives it back, for the server to decide; by itself it would be handed out.
    assert bodies(ahead.next_few(1)) == "brief"
    assert not ahead.has_expired
    assert bodies(ahead.next_few(9)) == "long 3"
    assert not ahead.has_expired


def test_expiry_counts_from_the_arrival(clock: VirtualClock) -> None:
    ahead = held(10)
    clock.advance(100.0)
    ahead.arrive(texts("1", "2", expiry_s=5.0))
    clock.advance(4.9)
    assert bodies(ahead.next_few(9)) == "1 2"


def test_a_lost_connection_takes_back_all_that_was_held(clock: VirtualClock) -> None:
    ahead = held(10)
    ahead.arrive(texts("1", "2", expiry_s=1.0))
    clock.advance(2.0)
    ahead.lose(ConnectionLost("p", "x"))
    assert ahead.is_lost and not ahead.has_expired
    assert ahead.next_few(9) == []


def test_a_reader_asks_for_more_when_half_of_what_it_reads_ahead_is_used() -> None:
    ahead = held(10)
    asked = []
    for ahead.given in range(1, 11):
        asked.append(ahead.more())
    assert asked == [0, 0, 0, 0, 5, 0, 0, 0, 0, 5]
    assert ahead.granted == 20


def test_a_reader_never_asks_for_more_than_may_be_unsettled() -> None:
    ahead = held(10, limit=12)
    ahead.given = 10
    assert ahead.more() == 2
    ahead.given = 12
    assert ahead.more() == 0
    ahead.settled = 12
    assert ahead.more() == 10


@pytest.mark.parametrize(("limit", "granted"), [(None, 0), (0, 0), (4, 4), (100, 10)])
def test_a_reader_begins_with_what_the_server_agrees_to_hold(limit: int | None, granted: int) -> None:
    ahead = held(10, limit)
    assert (ahead.granted, ahead.limit) == (granted, limit or 0)


def test_a_unit_says_how_far_it_has_used_those_that_it_has_something_of(core: ClientCore) -> None:
    unit, other = core.begin_unit(), core.begin_unit()
    aheads = [core.hold("Q", None, 5, Slot()) for _ in range(3)]
    for ahead, owner, given in zip(aheads, (unit, other, unit), (3, 4, 5), strict=True):
        ahead.unit, ahead.given = owner, given
        unit.aheads.append(ahead)
    assert unit.deliveries == [(aheads[0].number, 3), (aheads[2].number, 5)]
