# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable

import pytest

from conftest import host_of
from entrepot import Connection
from entrepot.engine.definitions import DEAD_LETTER_QUEUE, SubscriptionDefinition
from entrepot.engine.put_authority import queues_asked
from entrepot.engine.system_queues import INTERNAL_QUEUES
from entrepot.errors import DistributionFailed, EntrepotError, InternalQueue, NotAuthorized
from entrepot.message import Message, Report

FIRST_BODY = b"forged"


def depth(connection: Connection, queue: str) -> int:
    return int(host_of(connection).queue_status(queue)["CURDEPTH"])  # type: ignore[attr-defined]


@pytest.fixture(params=[*sorted(INTERNAL_QUEUES), "STARTS", "BEHIND"])
def internal(connection: Connection, request: pytest.FixtureRequest) -> str:
    """Every queue that only the queue manager writes to, initiation queues and the target of an alias of one too."""
    connection.mqsc("""
        DEFINE QLOCAL(STARTS); DEFINE QLOCAL(BEHIND); DEFINE QALIAS(BY.ALIAS) TARGET(BEHIND)
        DEFINE QLOCAL(W1) INITQ(STARTS); DEFINE QLOCAL(W2) INITQ(BY.ALIAS)
        DEFINE QLOCAL(R)
    """)
    name: str = request.param
    if host_of(connection).find("QLOCAL", name) is None:  # type: ignore[attr-defined]
        connection.mqsc(f"DEFINE QLOCAL({name})")
    return name


def test_no_way_leads_a_message_to_an_internal_queue(connection: Connection, internal: str) -> None:
    connection.mqsc(f"""
        DEFINE QALIAS(ALIAS) TARGET({internal})
        DEFINE NAMELIST(SEVERAL) NAMES(Q, {internal})
        DEFINE QREMOTE(HOME) RNAME({internal}) RQMNAME(QM1)
        DEFINE QREMOTE(ME) RQMNAME(QM1)
        DEFINE QLOCAL(COPIES) STREAMQ({internal})
        DEFINE QLOCAL(MUST) STREAMQ({internal}) STRMQOS(MUSTDUP)
        DEFINE QLOCAL(FAILS) BOQNAME({internal}) BOTHRESH(1)
    """)
    before = depth(connection, internal)
    for name in (internal, f"{internal}@QM1", f"{internal}@ME", "ALIAS", "HOME", "MUST"):
        with pytest.raises(InternalQueue):
            connection.put(name, FIRST_BODY)
        with pytest.raises(InternalQueue), connection.unit_of_work() as unit:
            unit.put(name, FIRST_BODY, persistent=True)
    for several in (["Q", internal], ["ALIAS"], "SEVERAL"):
        with pytest.raises(DistributionFailed, match="only the queue manager"):
            connection.put(several, FIRST_BODY)  # type: ignore[arg-type]
    connection.put("COPIES", FIRST_BODY)
    connection.put("R", FIRST_BODY, reply_to=internal, report=Report.ARRIVAL | Report.WITH_DATA)
    connection.put("FAILS", FIRST_BODY)
    for _ in range(2):
        with connection.unit_of_work() as unit:
            unit.get("FAILS")
            unit.back_out()
    with pytest.raises(EntrepotError):
        connection.mqsc(f"DEFINE SUB('s') TOPICSTR('t') DEST({internal})")
    with pytest.raises(InternalQueue):
        connection.subscribe("t", queue=internal)
    connection.publish("t", FIRST_BODY)
    assert depth(connection, internal) == before
    assert depth(connection, DEAD_LETTER_QUEUE) == 2, "the report and what failed"


def test_a_dead_letter_queue_that_is_internal_takes_nothing(connection: Connection, internal: str) -> None:
    connection.mqsc(f"ALTER QMGR DEADQ({internal})")
    before = depth(connection, internal)
    connection.put("R", FIRST_BODY, reply_to="NOWHERE", report=Report.ARRIVAL | Report.WITH_DATA)
    assert depth(connection, internal) == before


def test_a_subscription_whose_queue_becomes_an_initiation_queue_gets_no_more(connection: Connection) -> None:
    connection.mqsc("DEFINE SUB('s') TOPICSTR('t') DEST(Q)")
    connection.publish("t", b"1")
    connection.mqsc("DEFINE QLOCAL(W) INITQ(Q)")
    connection.publish("t", b"2")
    assert (depth(connection, "Q"), depth(connection, DEAD_LETTER_QUEUE)) == (1, 1)


def test_a_queue_is_open_again_when_it_is_nobodys_initiation_queue(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(W1) INITQ(Q); DEFINE QLOCAL(W2) INITQ(Q)")
    for command in ("ALTER QLOCAL(W1) INITQ(' ')", "DELETE QLOCAL(W2)"):
        with pytest.raises(InternalQueue):
            connection.put("Q", b"x")
        connection.mqsc(command)
    connection.put("Q", b"x")


class Permitted:
    """Users who may put to some queues."""

    def __init__(self, *queues: str) -> None:
        self.queues = set(queues)

    def require_put(self, user: str, queues: Iterable[str]) -> None:
        for queue in queues:
            if queue not in self.queues:
                raise NotAuthorized(user, queue, "PUT")


def test_a_subscription_to_a_queue_lasts_as_long_as_the_right_of_its_user(connection: Connection) -> None:
    objects = host_of(connection).manager.objects  # type: ignore[attr-defined]
    objects.originators = Permitted()
    with pytest.raises(NotAuthorized):
        host_of(connection).subscribe(
            SubscriptionDefinition(name="s", topic="t", destination="Q", user="ann", type="API")
        )
    objects.originators = Permitted("Q")
    host_of(connection).subscribe(SubscriptionDefinition(name="s", topic="t", destination="Q", user="ann", type="API"))
    connection.publish("t", b"1")
    objects.originators = Permitted()
    connection.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET)")
    connection.publish("t", b"2")
    assert (depth(connection, "Q"), depth(connection, DEAD_LETTER_QUEUE)) == (1, 1)


def test_a_report_goes_where_the_recorded_user_may_put_and_else_to_the_dead_letter_queue(
    connection: Connection,
) -> None:
    connection.mqsc("DEFINE QLOCAL(REPLY)")
    objects = host_of(connection).manager.objects  # type: ignore[attr-defined]
    asked = Message(b"x", user="ann", reply_to="REPLY", report=Report.ARRIVAL | Report.WITH_DATA)
    for permitted, place in ((Permitted(), DEAD_LETTER_QUEUE), (Permitted("REPLY"), "REPLY")):
        objects.originators = permitted
        host_of(connection).put("Q", asked)
        (report,) = connection.browse(place)
        assert (report.body, report.user) == (b"x", "ann")
    objects.originators = Permitted()
    (dead,) = connection.browse(DEAD_LETTER_QUEUE)
    assert dead.properties["dead_letter_reason"] == 2035


def test_reports_about_a_message_from_elsewhere_take_the_authority_of_the_channels_user(
    connection: Connection,
) -> None:
    class Recorded(Permitted):
        users: list[str] = []

        def require_put(self, user: str, queues: Iterable[str]) -> None:
            self.users.append(user)

    host_of(connection).manager.objects.originators = Recorded()  # type: ignore[attr-defined]
    told = Message(b"x", user="boss", authorized_as="mover", reply_to="Q", report=Report.ARRIVAL)
    host_of(connection).put("Q", told)
    assert Recorded.users == ["mover"]


def test_what_a_put_is_asked_for(connection: Connection) -> None:
    connection.mqsc("""
        DEFINE QALIAS(A) TARGET(Q)
        DEFINE QLOCAL(QM2) USAGE(XMITQ); DEFINE QLOCAL(ELSEWHERE) USAGE(XMITQ)
        DEFINE QREMOTE(R) RNAME(X) RQMNAME(QM2)
        DEFINE QREMOTE(QM3) RQMNAME(QM2); DEFINE QREMOTE(ME) RQMNAME(QM1)
    """)
    objects = host_of(connection).manager.objects  # type: ignore[attr-defined]
    asked = {
        "Q": ("Q",),
        "A": ("A",),
        "R": ("R",),
        "NONE": ("NONE",),
        "Q@QM1": ("Q",),
        "R@QM1": ("R",),
        "X@QM2": ("QM2",),
        "X@QM3": ("QM3",),
        "Q@ME": ("Q",),
        "X@NOWHERE": ("NOWHERE",),
        "SYSTEM.X@QM2": ("QM2", "SYSTEM.X"),
        "SYSTEM.X": ("SYSTEM.X",),
    }
    assert {name: queues_asked(objects, name) for name in asked} == asked
    connection.mqsc("ALTER QMGR DEFXMITQ(ELSEWHERE)")
    assert queues_asked(objects, "X@NOWHERE") == ("ELSEWHERE",)
