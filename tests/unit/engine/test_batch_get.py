# SPDX-License-Identifier: Apache-2.0
"""Many gets in one go give what as many single ones give, whatever stands in between."""

from __future__ import annotations

import time
from typing import Any

import pytest

from conftest import host_of
from entrepot import Connection, Message
from entrepot.engine.batch_get import get_up_to
from entrepot.engine.criteria import Criteria
from entrepot.errors import GetInhibited, QueueFull, TooManyUncommitted
from entrepot.message import Report


@pytest.fixture
def connection(place: Any) -> Connection:
    connection: Connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(BACK)")
    for number in range(6):
        connection.put("Q", b"%d" % number, message_id=b"%d" % number)
    return connection


def got(messages: list[Message]) -> list[tuple[bytes, int]]:
    return [(message.body, message.backout_count) for message in messages]


def status(connection: Connection, what: str) -> int:
    return int(str(host_of(connection).queue_status("Q")[what]))


def test_what_was_given_back_comes_first_and_counted(connection: Connection) -> None:
    tried = connection.unit_of_work()
    assert got([tried.get("Q"), tried.get("Q")]) == [(b"0", 0), (b"1", 0)]
    tried.back_out()
    with connection.unit_of_work() as unit:
        assert got(unit.get_many("Q")) == [(b"0", 1), (b"1", 1), (b"2", 0), (b"3", 0), (b"4", 0), (b"5", 0)]
        assert status(connection, "UNCOM") == 6
    assert (status(connection, "CURDEPTH"), status(connection, "UNCOM"), status(connection, "MEMORY")) == (0, 0, 0)


def test_what_another_unit_has_is_passed_over_and_what_it_gave_back_is_counted(connection: Connection) -> None:
    holding, tried = connection.unit_of_work(), connection.unit_of_work()
    assert holding.get("Q", message_id=b"2") is not None
    assert tried.get("Q", message_id=b"4") is not None
    tried.back_out()  # it stands in its old place, between the others
    with connection.unit_of_work() as unit:
        assert got(unit.get_many("Q")) == [(b"0", 0), (b"1", 0), (b"3", 0), (b"4", 1), (b"5", 0)]
        unit.back_out()
    holding.back_out()
    assert [message.body for message in connection.browse("Q")] == [b"%d" % number for number in range(6)]


def test_what_a_stream_has_sent_from_the_middle_is_passed_over(connection: Connection) -> None:
    manager = host_of(connection)._manager
    sent = manager.internal_unit()
    sent.counted = False
    assert manager.get("Q", Criteria(message_id=b"3"), sent)[0] is not None
    unit = manager.begin()
    assert [one.body for one in get_up_to(manager, "Q", None, unit, 99)] == [b"0", b"1", b"2", b"4", b"5"]
    manager.back_out(unit)
    manager.back_out(sent)


def test_what_failed_too_often_moves_away_and_its_neighbours_come(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) BOTHRESH(1) BOQNAME(BACK)")
    tried = connection.unit_of_work()
    assert tried.get("Q", message_id=b"3") is not None
    tried.back_out()
    with connection.unit_of_work() as unit:
        assert [body for body, _ in got(unit.get_many("Q"))] == [b"0", b"1", b"2", b"4", b"5"]
    assert [message.body for message in connection.browse("BACK")] == [b"3"]


def test_what_expires_is_told_its_time_and_what_has_expired_does_not_come(place: Any, connection: Connection) -> None:
    connection.put("Q", b"long", expiry_s=1000)
    connection.put("Q", b"short", expiry_s=0.001)
    connection.put("Q", b"last")

    time.sleep(0.01)
    with connection.unit_of_work() as unit:
        *_, long, last = unit.get_many("Q")
    assert (long.body, last.body) == (b"long", b"last")
    assert long.expiry_s is not None
    assert 0 < long.expiry_s < 1000


def test_higher_priorities_come_first(connection: Connection) -> None:
    for priority in (9, 5, 9, 5):
        connection.put("Q", b"of %d" % priority, priority=priority)
    with connection.unit_of_work() as unit:
        found = [message.body for message in unit.get_many("Q")]
    assert found == [b"of 9", b"of 9", b"of 5", b"of 5", *(b"%d" % number for number in range(6))]


def test_a_unit_takes_no_more_than_it_may(connection: Connection) -> None:
    connection.mqsc("ALTER QMGR MAXUMSGS(4)")
    unit = connection.unit_of_work()
    assert len(unit.get_many("Q", 4)) == 4
    with pytest.raises(TooManyUncommitted):
        unit.get_many("Q", 1)
    unit.back_out()
    larger = connection.unit_of_work()
    assert [message.body for message in larger.get_many("Q", 5)] == [b"0", b"1", b"2", b"3"]
    with pytest.raises(TooManyUncommitted):
        larger.get_many("Q", 5)
    assert status(connection, "UNCOM") == 4
    larger.commit()
    assert [message.body for message in connection.browse("Q")] == [b"4", b"5"], "what was not seen is still there"


@pytest.mark.parametrize("limit", [1, 3])
def test_an_error_behind_the_first_message_ends_the_batch_and_comes_at_the_next_call(
    connection: Connection, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = host_of(connection)._manager
    real, calls = manager.get, []

    def get(name: str, criteria: Criteria | None = None, unit: Any = None, search: Any = None) -> Any:
        calls.append(name)
        if len(calls) > limit:
            raise GetInhibited(name)
        return real(name, criteria, unit, search)

    monkeypatch.setattr(manager, "get", get)
    unit = connection.unit_of_work()
    any_of_them = "1 = 1"  # with a selector every message takes the long way
    assert [message.body for message in unit.get_many("Q", 5, selector=any_of_them)] == [b"0", b"1", b"2"][:limit]
    with pytest.raises(GetInhibited):
        unit.get_many("Q", 5, selector=any_of_them)
    unit.commit()
    assert status(connection, "CURDEPTH") == 6 - limit


def test_a_batch_of_puts_is_in_its_unit_as_a_whole_or_not_at_all(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(SMALL) MAXDEPTH(3)")
    with connection.unit_of_work() as unit:
        unit.put("SMALL", b"before")
        with pytest.raises(QueueFull):
            unit.put_many("SMALL", [b"1", b"2", b"3"])
        unit.put_many("SMALL", [b"1", b"2"])
    assert [message.body for message in connection.browse("SMALL")] == [b"before", b"1", b"2"]


@pytest.mark.parametrize(("body_bytes", "count"), [(1, 1), (2, 2), (3, 3), (100, 6)])
def test_bodies_have_a_bound_that_only_the_last_exceeds(connection: Connection, body_bytes: int, count: int) -> None:
    manager = host_of(connection)._manager
    unit = manager.begin()
    assert len(get_up_to(manager, "Q", None, unit, 99, body_bytes)) == count
    manager.back_out(unit)


def test_a_report_of_delivery_is_made_for_each(connection: Connection) -> None:

    connection.mqsc("DEFINE QLOCAL(REPLIES)")
    connection.put("Q", b"told", report=Report.DELIVERY, reply_to="REPLIES")
    with connection.unit_of_work() as unit:
        assert len(unit.get_many("Q")) == 7
    assert len(list(connection.browse("REPLIES"))) == 1
