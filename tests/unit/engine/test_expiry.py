# SPDX-License-Identifier: Apache-2.0
"""Messages are of use until their time has come, to the moment."""

from __future__ import annotations

import pytest

from entrepot.engine.criteria import Criteria
from entrepot.engine.waiting import Waiter
from entrepot.errors import LogFull
from entrepot.message import Feedback, Message, Report

from .simulated import Simulated


@pytest.fixture
def simulated() -> Simulated:
    return Simulated()


def put(simulated: Simulated, expiry_s: float, *, persistent: bool = False) -> None:
    simulated.manager.put("Q", Message(b"short", expiry_s=expiry_s), persistent=persistent)
    simulated.manager.force()


def depth(simulated: Simulated) -> int:
    return simulated.manager.objects.queues["Q"].depth


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(("passed_s", "is_there"), [(9.0, True), (9.75, True), (10.0, False), (10.25, False)])
def test_a_message_is_there_until_its_last_moment(
    simulated: Simulated, persistent: bool, passed_s: float, is_there: bool
) -> None:
    put(simulated, 10, persistent=persistent)
    simulated.clock.advance(passed_s)
    assert bool(simulated.bodies()) is is_there
    message, _ = simulated.manager.get("Q")
    assert (message is not None) is is_there
    if message is not None:
        assert message.expiry_s == 10 - passed_s


def test_a_message_that_comes_back_in_its_last_moment_is_given_to_the_next_reader(simulated: Simulated) -> None:
    put(simulated, 10)
    unit = simulated.manager.begin()
    assert simulated.manager.get("Q", None, unit)[0] is not None
    waiter = Waiter(None, None, lambda: None)
    simulated.manager.wait("Q", waiter)
    simulated.clock.advance(9.5)
    simulated.manager.back_out(unit)
    assert waiter.message is not None


def refuse(size: int, *, reserved: bool) -> None:
    raise LogFull(0)


def tick(simulated: Simulated) -> None:
    simulated.manager.timers.tick()
    simulated.manager.force()


def test_an_expiry_that_the_log_has_no_room_for_is_tried_again_a_second_later(
    simulated: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(simulated, 10, persistent=True)
    simulated.clock.advance(10)
    monkeypatch.setattr(simulated.manager.log, "require_room", refuse)
    tick(simulated)
    assert simulated.manager.timers.next_due == simulated.manager.steady.now() + 1
    monkeypatch.undo()
    tick(simulated)
    assert (depth(simulated), simulated.bodies()) == (1, [])
    simulated.clock.advance(1)
    tick(simulated)
    assert depth(simulated) == 0
    assert simulated.kill_and_start().manager.get("Q")[0] is None


def test_a_full_log_is_asked_once_a_second_and_no_more(simulated: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse_and_count(size: int, *, reserved: bool) -> None:
        asked.append(size)
        raise LogFull(0)

    put(simulated, 10, persistent=True)
    simulated.clock.advance(10)
    monkeypatch.setattr(simulated.manager.log, "require_room", refuse_and_count)
    for second in range(1, 6):
        for _ in range(3):
            tick(simulated)
        assert len(asked) == second
        simulated.clock.advance(1)


def test_an_expiry_that_the_log_refused_keeps_no_place_and_leaves_the_group_as_it_was(
    simulated: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = Message(b"", expiry_s=10, group_id=b"g", sequence=1, report=Report.EXPIRATION, reply_to="Q")
    simulated.manager.put("Q", message, persistent=True)
    simulated.manager.force()
    simulated.clock.advance(10)
    monkeypatch.setattr(simulated.manager.log, "require_room", refuse)
    tick(simulated)
    with pytest.raises(LogFull):
        simulated.manager.get("Q", Criteria(group_id=b"g"))
    assert simulated.manager.administration.queue_status("Q")["UNCOM"] == 0
    monkeypatch.undo()
    assert simulated.manager.get("Q", Criteria(group_id=b"g"))[0] is None
    simulated.manager.force()
    assert [message.feedback for message in simulated.messages()] == [Feedback.EXPIRATION]


def test_a_message_that_a_unit_has_does_not_expire_under_it(simulated: Simulated) -> None:
    put(simulated, 10, persistent=True)
    unit = simulated.manager.begin()
    message, _ = simulated.manager.get("Q", None, unit)
    simulated.clock.advance(11)
    simulated.manager.timers.tick()
    simulated.manager.force()
    assert (message is not None, depth(simulated)) == (True, 1)
    simulated.manager.commit(unit)
    simulated.manager.force()
    assert depth(simulated) == 0


def test_an_expired_message_leaves_no_place_taken(simulated: Simulated) -> None:
    put(simulated, 10, persistent=True)
    simulated.clock.advance(10)
    simulated.manager.timers.tick()
    assert simulated.manager.administration.queue_status("Q")["UNCOM"] == 1, "until the log has it"
    simulated.manager.force()
    status = simulated.manager.administration.queue_status("Q")
    assert (status["CURDEPTH"], status["UNCOM"], status["MEMORY"]) == (0, 0, 0)
