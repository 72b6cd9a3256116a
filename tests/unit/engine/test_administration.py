# SPDX-License-Identifier: Apache-2.0
"""Define, alter, delete, clear and look, and what of it survives."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import host_of
from entrepot import Connection
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import AliasQueue, LocalQueue
from entrepot.engine.waiting import Waiter
from entrepot.errors import (
    DiskFull,
    GetInhibited,
    MqscError,
    ObjectNotFound,
    QueueExists,
    QueueInUse,
    QueueNotEmpty,
    QueueNotFound,
)


def status(connection: Connection, queue: str = "Q") -> dict[str, Any]:
    return dict(host_of(connection).queue_status(queue))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_definitions_survive(place: Any, how: str) -> None:
    connection = place.open()
    connection.mqsc(
        """DEFINE QLOCAL(Q) MAXDEPTH(7) DESCR('first')
        DEFINE QLOCAL(GONE)
        DEFINE QALIAS(A) TARGET(Q)
        DEFINE QREMOTE(R) RNAME(X) RQMNAME(QM2)
        DEFINE QMODEL(M) DEFTYPE(PERMDYN)
        DEFINE PROCESS(P) APPLICID('run')
        DEFINE NAMELIST(N) NAMES(Q, A)
        ALTER QLOCAL(Q) DESCR('second')
        ALTER QMGR MAXUMSGS(77)
        DELETE QLOCAL(GONE)"""
    )
    before = {(d.kind, d.name): d for d in host_of(connection).definitions()}
    target = place.killed() if how == "kill" else place
    place.close()
    connection = target.open()
    assert {(d.kind, d.name): d for d in host_of(connection).definitions()} == before
    assert host_of(connection).manager_attributes().uncommitted_max == 77
    assert host_of(connection).find("QLOCAL", "Q").description == "second"
    target.close()


def test_queue_names_are_shared_by_all_kinds_and_defined_once(connection: Connection) -> None:
    host = host_of(connection)
    with pytest.raises(QueueExists):
        host.define(LocalQueue(name="Q"), replace=False)
    for replace in (False, True):
        with pytest.raises(QueueExists):
            host.define(AliasQueue(name="Q", target="Q"), replace=replace)


def test_replace_keeps_the_messages(connection: Connection) -> None:
    connection.put("Q", b"kept")
    connection.mqsc("DEFINE QLOCAL(Q) MAXDEPTH(3) REPLACE")
    assert host_of(connection).find("QLOCAL", "Q").depth_max == 3  # type: ignore[union-attr]
    assert connection.get("Q") is not None


def test_alter_and_delete_need_an_object_of_that_kind(connection: Connection) -> None:
    host = host_of(connection)
    with pytest.raises(ObjectNotFound):
        host.alter(LocalQueue(name="MISSING"))
    with pytest.raises(ObjectNotFound):
        host.alter(AliasQueue(name="Q"))
    with pytest.raises(ObjectNotFound):
        host.delete("QALIAS", "Q", purge=False)
    with pytest.raises(ObjectNotFound):
        host.clear("MISSING")
    with pytest.raises(ObjectNotFound):
        host.queue_status("MISSING")


def test_lower_limits_do_not_touch_what_is_there(connection: Connection) -> None:
    for _ in range(3):
        connection.put("Q", b"long")
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1) MAXMSGL(1)")
    assert len(list(connection.browse("Q"))) == 3
    with pytest.raises(Exception, match=r"maximum of 1|takes 1"):
        connection.put("Q", b"x")


def test_delivery_sequence_changes_only_on_an_empty_queue(connection: Connection) -> None:
    connection.put("Q", b"")
    with pytest.raises(MqscError, match="delivery sequence"):
        connection.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO)")
    connection.get("Q")
    connection.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO)")
    for number, priority in enumerate((1, 9, 5)):
        connection.put("Q", b"%d" % number, priority=priority)
    assert [message.body for message in connection.browse("Q")] == [b"0", b"1", b"2"]


def test_delete_refuses_what_would_be_missed(connection: Connection) -> None:
    host = host_of(connection)
    connection.put("Q", b"", persistent=True)
    with pytest.raises(QueueNotEmpty):
        host.delete("QLOCAL", "Q", purge=False)
    unit = connection.unit_of_work()
    unit.get("Q")
    with pytest.raises(QueueInUse):
        host.delete("QLOCAL", "Q", purge=True)
    with pytest.raises(QueueInUse):
        host.clear("Q")
    unit.back_out()
    waiter = Waiter(None, None, lambda: None)
    connection.mqsc("DEFINE QLOCAL(EMPTY)")
    host._manager.wait("EMPTY", waiter)
    with pytest.raises(QueueInUse):
        host.delete("QLOCAL", "EMPTY", purge=True)
    waiter.leave()
    host.delete("QLOCAL", "EMPTY", purge=False)
    host.delete("QLOCAL", "Q", purge=True)
    with pytest.raises(QueueNotFound):
        connection.put("Q", b"")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_queue_of_the_same_name_begins_empty(place: Any, how: str) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    connection.put("Q", b"old", persistent=True)
    connection.administration.checkpoint()
    connection.put("Q", b"old too", persistent=True)
    connection.mqsc("DELETE QLOCAL(Q) PURGE\nDEFINE QLOCAL(Q)")
    connection.put("Q", b"new", persistent=True)
    target = place.killed() if how == "kill" else place
    place.close()
    connection = target.open()
    assert [message.body for message in connection.browse("Q")] == [b"new"]
    target.close()


def test_nothing_arrives_on_a_queue_whose_deletion_is_on_its_way(connection: Connection) -> None:
    manager = host_of(connection)._manager
    connection.mqsc("DEFINE QALIAS(A) TARGET(Q)")
    settlement = manager.administration.delete("QLOCAL", "Q", purge=False)
    for name in ("Q", "A"):
        with pytest.raises(Exception, match=r"no queue Q|leads to Q"):
            connection.put(name, b"would be lost", persistent=True)
    manager.force()
    assert settlement.done
    assert host_of(connection).find("QLOCAL", "Q") is None


def test_deletion_that_the_disk_refused_leaves_the_queue(connection: Connection) -> None:
    manager = host_of(connection)._manager
    settlement = manager.administration.delete("QLOCAL", "Q", purge=False)
    settlement.fail(DiskFull("/"))
    connection.put("Q", b"")
    assert connection.get("Q") is not None


def test_clear_takes_everything_for_good(place: Any) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    for number in range(2_500):
        connection.put("Q", b"", persistent=number < 3, priority=number % 2)
    assert host_of(connection).clear("Q") == 2_500
    assert host_of(connection).clear("Q") == 0
    assert place.reopen().get("Q") is None


@pytest.mark.parametrize(
    ("trigger", "messages", "reads", "triggered"),
    [("TRIGGER", 1, False, 1), ("TRIGGER", 1, True, 0), ("TRIGGER", 0, False, 0), ("NOTRIGGER", 1, False, 0)],
)
def test_triggering_that_is_switched_on_starts_a_program_only_for_messages_that_nobody_reads(
    connection: Connection, trigger: str, messages: int, reads: bool, triggered: int
) -> None:
    initiation = "SYSTEM.DEFAULT.INITIATION.QUEUE"
    for _ in range(messages):
        connection.put("Q", b"")
    waiter = Waiter(Criteria(message_id=b"another"), None, lambda: None)
    if reads:
        host_of(connection)._manager.wait("Q", waiter)
    connection.mqsc(f"ALTER QLOCAL(Q) {trigger} TRIGTYPE(FIRST) INITQ({initiation})")
    assert len(list(connection.browse(initiation))) == triggered
    waiter.leave()


def test_messages_in_the_hands_of_a_unit_start_no_program(connection: Connection) -> None:
    connection.put("Q", b"")
    with connection.unit_of_work() as unit:
        unit.get("Q")
        connection.mqsc("ALTER QLOCAL(Q) TRIGGER TRIGTYPE(FIRST) INITQ(SYSTEM.DEFAULT.INITIATION.QUEUE)")
    assert list(connection.browse("SYSTEM.DEFAULT.INITIATION.QUEUE")) == []


def test_readers_of_a_queue_that_is_shut_are_told(connection: Connection) -> None:
    waiter = Waiter(None, None, lambda: None)
    host_of(connection)._manager.wait("Q", waiter)
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(7)")
    assert waiter.error is None
    connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    assert isinstance(waiter.error, GetInhibited)
    assert status(connection)["IPPROCS"] == 0


def test_status_shows_how_a_queue_is_doing(timed: Any) -> None:
    connection = timed.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    assert status(connection) == {
        "CURDEPTH": 0,
        "IPPROCS": 0,
        "UNCOM": 0,
        "MSGAGE": 0,
        "DELAYED": 0,
        "MEMORY": 0,
        "RUNS": 0,
    }
    connection.put("Q", b"x" * 1000, priority=0)
    timed.advance(30)
    connection.put("Q", b"", priority=9)
    connection.put("Q", b"", delay_s=60)
    unit = connection.unit_of_work()
    unit.get("Q")
    unit.put("Q", b"")
    unit.put("Q", b"")
    waiter = Waiter(None, None, lambda: None)
    host_of(connection)._manager.wait("Q", waiter)
    timed.advance(12)
    shown = status(connection)
    assert (shown["CURDEPTH"], shown["IPPROCS"], shown["UNCOM"], shown["DELAYED"]) == (3, 1, 3, 1)
    assert shown["MSGAGE"] == 42, "the oldest, not the next one"
    assert shown["MEMORY"] >= 1000
    row = connection.mqsc("DISPLAY QSTATUS(Q) CURDEPTH UNCOM")[0].rows[0]
    assert {key: str(row[key]) for key in ("CURDEPTH", "UNCOM")} == {"CURDEPTH": "3", "UNCOM": "3"}
    waiter.leave()
    unit.back_out()
