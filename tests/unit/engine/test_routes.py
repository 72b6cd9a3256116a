# SPDX-License-Identifier: Apache-2.0
"""Where names lead: aliases, models, remote definitions, transmission queues."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import host_of
from entrepot import Connection, Message
from entrepot.client.blocking.connecting import connected_to
from entrepot.errors import (
    AliasBroken,
    GetInhibited,
    InvalidName,
    MessageTooLong,
    ObjectNotFound,
    PersistentNotAllowed,
    PutInhibited,
    QueueExists,
    QueueNotFound,
    TransmissionQueueMissing,
    WrongQueueKind,
)


def take(connection: Connection, queue: str) -> Message:
    message = connection.get(queue)
    assert message is not None
    return message


# --- aliases ----------------------------------------------------------------------------------


def test_alias_leads_to_its_target_with_its_own_defaults(connection: Connection) -> None:
    connection.mqsc("DEFINE QALIAS(A) TARGET(Q) DEFPSIST(YES) DEFPRTY(7)")
    connection.put("A", b"by alias")
    assert [message.body for message in connection.browse("A")] == [b"by alias"]
    message = take(connection, "Q")
    assert (message.persistent, message.priority) == (True, 7)
    connection.put("Q", b"by name")
    assert take(connection, "A").priority == 0


def test_alias_may_inhibit_what_its_target_allows(connection: Connection) -> None:
    connection.mqsc("DEFINE QALIAS(A) TARGET(Q) PUT(DISABLED) GET(DISABLED)")
    with pytest.raises(PutInhibited):
        connection.put("A", b"")
    with pytest.raises(GetInhibited):
        connection.get("A")
    connection.put("Q", b"")
    connection.mqsc("ALTER QALIAS(A) PUT(ENABLED) GET(ENABLED)\nALTER QLOCAL(Q) PUT(DISABLED)")
    with pytest.raises(PutInhibited):
        connection.put("A", b"")
    assert connection.get("A") is not None


def test_limits_of_the_target_hold_for_the_alias(connection: Connection) -> None:
    connection.mqsc("DEFINE QALIAS(A) TARGET(Q)\nALTER QLOCAL(Q) MAXMSGL(3)")
    with pytest.raises(MessageTooLong):
        connection.put("A", b"long")


@pytest.mark.parametrize("target", ["MISSING", "A", "OTHER", "SYSTEM.DEFAULT.MODEL.QUEUE"])
def test_broken_alias_says_so(connection: Connection, target: str) -> None:
    connection.mqsc(f"DEFINE QALIAS(OTHER) TARGET(Q)\nDEFINE QALIAS(A) TARGET({target})")
    for verb in (lambda: connection.put("A", b""), lambda: connection.get("A"), lambda: connection.browse("A")):
        with pytest.raises(AliasBroken) as caught:
            verb()
        assert target in str(caught.value)


def test_alias_follows_a_new_target(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(Q2)\nDEFINE QALIAS(A) TARGET(Q)")
    connection.put("A", b"1")
    connection.mqsc("ALTER QALIAS(A) TARGET(Q2)")
    connection.put("A", b"2")
    assert (take(connection, "Q").body, take(connection, "Q2").body) == (b"1", b"2")


# --- models and dynamic queues ----------------------------------------------------------------


def test_model_holds_no_messages_itself(connection: Connection) -> None:
    with pytest.raises(WrongQueueKind):
        connection.put("SYSTEM.DEFAULT.MODEL.QUEUE", b"")
    with pytest.raises(WrongQueueKind):
        connection.get("SYSTEM.DEFAULT.MODEL.QUEUE")


def test_temporary_queue_goes_with_its_connection(place: Any) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QMODEL(M) MAXDEPTH(2) DEFPRTY(3)")
    other = connected_to(host_of(connection), leave=lambda: None)
    name = connection.dynamic_queue("M", "TEMP.*")
    other.put(name, b"1")
    assert take(other, name).priority == 3
    with pytest.raises(PersistentNotAllowed):
        other.put(name, b"", persistent=True)
    assert host_of(connection).find("QLOCAL", name).depth_max == 2
    host_of(connection).remove_temporary([name])
    with pytest.raises(QueueNotFound):
        other.put(name, b"")


def test_closing_the_connection_drops_its_temporary_queues(place: Any) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    host = host_of(connection)
    name = connection.dynamic_queue()
    connection.put(name, b"")
    assert host.find("QLOCAL", name) is not None
    connection.mqsc(f"ALTER QLOCAL({name}) MAXDEPTH(7)")
    killed = place.killed()
    again = killed.open()
    assert host_of(again).find("QLOCAL", name) is None, "a log knows nothing of temporary queues"
    killed.close()
    place.close()
    assert host_of(place.open()).find("QLOCAL", name) is None


def test_permanent_dynamic_queue_stays(place: Any) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QMODEL(M) DEFTYPE(PERMDYN)")
    name = connection.dynamic_queue("M", "PERM.*")
    connection.put(name, b"kept", persistent=True)
    connection = place.reopen()
    assert take(connection, name).body == b"kept"
    assert connection.dynamic_queue("M", "PERM.*") != name


def test_wrong_dynamic_queue_is_refused(connection: Connection) -> None:
    with pytest.raises(ObjectNotFound):
        connection.dynamic_queue("Q")
    with pytest.raises(ObjectNotFound):
        connection.dynamic_queue("MISSING")
    with pytest.raises(InvalidName):
        connection.dynamic_queue(pattern="bad name")
    with pytest.raises(InvalidName):
        connection.dynamic_queue(pattern="x" * 40 + "*")
    with pytest.raises(QueueExists):
        connection.dynamic_queue(pattern="Q")


def test_files_of_a_temporary_queue_go_with_it(place: Any, small_runs: int) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QMODEL(M) BUFFER(2000)")
    name = connection.dynamic_queue("M")
    for _ in range(100):
        connection.put(name, b"x" * 500)
    assert place.files("runs")
    host_of(connection).remove_temporary([name])
    assert place.files("runs") == []


# --- remote definitions -----------------------------------------------------------------------


@pytest.fixture
def linked(connection: Connection) -> Connection:
    """With a transmission queue to QM2."""
    connection.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ) DEFPSIST(YES) DEFPRTY(2)")
    return connection


def test_remote_definition_leads_to_the_transmission_queue(linked: Connection) -> None:
    linked.mqsc("DEFINE QREMOTE(FAR) RNAME(ORDERS) RQMNAME(QM2) DEFPRTY(6)")
    linked.put("FAR", b"order")
    message = take(linked, "QM2")
    assert (message.body, message.target_queue, message.target_manager) == (b"order", "ORDERS", "QM2")
    assert (message.persistent, message.priority) == (False, 6)


def test_full_name_leads_to_the_transmission_queue_of_that_manager(linked: Connection) -> None:
    linked.put("ORDERS@QM2", b"")
    message = take(linked, "QM2")
    assert (message.target_queue, message.target_manager, message.persistent) == ("ORDERS", "QM2", True)
    linked.put("Q@QM1", b"home")
    linked.put("Q@", b"home")
    assert [take(linked, "Q").target_queue for _ in range(2)] == ["", ""]


def test_alias_may_lead_to_a_remote_definition(linked: Connection) -> None:
    linked.mqsc("DEFINE QREMOTE(FAR) RNAME(ORDERS) RQMNAME(QM2)\nDEFINE QALIAS(A) TARGET(FAR) DEFPRTY(9)")
    linked.put("A", b"")
    message = take(linked, "QM2")
    assert (message.target_queue, message.priority) == ("ORDERS", 9)
    linked.mqsc("ALTER QREMOTE(FAR) PUT(DISABLED)")
    with pytest.raises(PutInhibited):
        linked.put("A", b"")


@pytest.mark.parametrize("inhibited", ["QREMOTE(FAR)", "QLOCAL(QM2)"])
def test_remote_definition_and_its_transmission_queue_may_inhibit(linked: Connection, inhibited: str) -> None:
    linked.mqsc(f"DEFINE QREMOTE(FAR) RNAME(ORDERS) RQMNAME(QM2)\nALTER {inhibited} PUT(DISABLED)")
    with pytest.raises(PutInhibited):
        linked.put("FAR", b"")


def test_nobody_reads_from_afar(linked: Connection) -> None:
    linked.mqsc("DEFINE QREMOTE(FAR) RNAME(ORDERS) RQMNAME(QM2)")
    for name in ("FAR", "ORDERS@QM2"):
        with pytest.raises(WrongQueueKind):
            linked.get(name)
        with pytest.raises(WrongQueueKind):
            linked.browse(name)


def test_queue_manager_alias_names_another_manager(linked: Connection) -> None:
    linked.mqsc("DEFINE QREMOTE(BRANCH) RQMNAME(QM2)\nDEFINE QREMOTE(DETOUR) RQMNAME(QM9) XMITQ(QM2)")
    linked.put("ORDERS@BRANCH", b"")
    assert take(linked, "QM2").target_manager == "QM2"
    linked.put("ORDERS@DETOUR", b"")
    assert take(linked, "QM2").target_manager == "QM9"
    with pytest.raises(WrongQueueKind):
        linked.put("BRANCH", b"")


def test_queue_manager_alias_may_lead_home(connection: Connection) -> None:
    connection.mqsc("DEFINE QREMOTE(ME) RQMNAME(QM1)\nDEFINE QREMOTE(NEAR) RNAME(Q) RQMNAME(QM1)")
    connection.put("Q@ME", b"1")
    connection.put("NEAR", b"2")
    assert [take(connection, "Q").body for _ in range(2)] == [b"1", b"2"]


def test_names_that_lead_in_a_circle_are_refused(connection: Connection) -> None:
    connection.mqsc(
        """DEFINE QREMOTE(ME) RQMNAME(QM1)
        DEFINE QREMOTE(X) RNAME(X) RQMNAME(ME)
        DEFINE QREMOTE(Y) RNAME(Y) RQMNAME(QM1)"""
    )
    for name in ("X", "Y", "X@ME"):
        with pytest.raises(QueueNotFound):
            connection.put(name, b"")


def test_default_transmission_queue_serves_all_other_managers(linked: Connection) -> None:
    linked.mqsc("ALTER QMGR DEFXMITQ(QM2)")
    linked.put("ORDERS@QM77", b"")
    assert take(linked, "QM2").target_manager == "QM77"


@pytest.mark.parametrize("definition", ["RQMNAME(QM3)", "RQMNAME(QM2) XMITQ(MISSING)", "RQMNAME(QM2) XMITQ(Q)"])
def test_missing_transmission_queue_is_told(linked: Connection, definition: str) -> None:
    linked.mqsc(f"DEFINE QREMOTE(FAR) RNAME(ORDERS) {definition}")
    with pytest.raises(TransmissionQueueMissing):
        linked.put("FAR", b"")
    with pytest.raises(TransmissionQueueMissing):
        linked.put("ORDERS@QM3", b"")
