# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.definitions import (
    AliasQueue,
    Channel,
    Listener,
    LocalQueue,
    ModelQueue,
    NameList,
    Process,
    RemoteQueue,
    SubscriptionDefinition,
    Topic,
)
from entrepot.errors import MqscCommandFailed, MqscError, MqscScriptFailed, MqscSyntaxError, QueueExists
from entrepot.server.mqsc import require_ok, run_script
from entrepot.server.mqsc.commands import KEYWORDS, NOUN_WORDS, VERB_WORDS
from entrepot.server.mqsc.display import OPERATORS

from .in_memory import InMemoryManager


def run(manager: InMemoryManager, text: str) -> None:
    require_ok(run_script(text, manager))


def test_define_makes_a_queue_with_all_its_attributes() -> None:
    manager = InMemoryManager()
    run(
        manager,
        """
        DEFINE QLOCAL(orders) DESCR('Orders of the day') PUT(DISABLED) GET(DISABLED) DEFPSIST(YES) DEFPRTY(3) +
               MAXDEPTH(10) MAXMSGL(1000) MSGDLVSQ(FIFO) USAGE(XMITQ) BOTHRESH(3) BOQNAME(BAD) NOHARDENBO +
               TRIGGER TRIGTYPE(DEPTH) TRIGDPTH(5) TRIGMPRI(2) TRIGDATA('x') PROCESS(P) INITQ(I) +
               QDEPTHHI(90) QDEPTHLO(10) QDPHIEV(ENABLED) QDPLOEV(ENABLED) QDPMAXEV(ENABLED) +
               STREAMQ(COPY) STRMQOS(MUSTDUP) BUFFER(1048576)
        """,
    )
    assert manager.find("QLOCAL", "ORDERS") == LocalQueue(
        name="ORDERS",
        description="Orders of the day",
        put_enabled=False,
        get_enabled=False,
        default_persistent=True,
        default_priority=3,
        depth_max=10,
        body_bytes_max=1000,
        delivery="FIFO",
        usage="XMITQ",
        backout_threshold=3,
        backout_queue="BAD",
        backout_hardened=False,
        trigger_enabled=True,
        trigger_type="DEPTH",
        trigger_depth=5,
        trigger_priority=2,
        trigger_data="x",
        process="P",
        initiation_queue="I",
        depth_high_percent=90,
        depth_low_percent=10,
        depth_high_event=True,
        depth_low_event=True,
        depth_full_event=True,
        stream_queue="COPY",
        stream_required=True,
        buffer_bytes=1048576,
    )


def test_define_makes_every_other_kind_by_its_short_words() -> None:
    manager = InMemoryManager()
    run(
        manager,
        """
        DEF QM(SYSTEM.M) DEFTYPE(PERMDYN)
        DEF QA('o') TARGQ(ORDERS)
        DEF QR(R) RNAME(THERE) RQMNAME(QM2) XMITQ(X)
        DEF PRO(P) APPLTYPE(UNIX) APPLICID('/bin/run -x') ENVRDATA('&') USERDATA("it's")
        DEF NL(N) NAMES(A, 'b' C)
        """,
    )
    assert list(manager.definitions()) == [
        ModelQueue(name="SYSTEM.M", dynamic_kind="PERMANENT"),
        AliasQueue(name="o", target="ORDERS"),
        RemoteQueue(name="R", remote_queue="THERE", remote_manager="QM2", transmission_queue="X"),
        Process(name="P", application_id="/bin/run -x", environment_data="&", user_data="it's"),
        NameList(name="N", names=("A", "b", "C")),
    ]


def test_blank_and_empty_values_clear_an_attribute() -> None:
    manager = InMemoryManager(
        LocalQueue(name="A", description="x", process="P", stream_queue="S", trigger_data="y"),
        NameList(name="N", names=("A",)),
    )
    run(manager, "ALTER QL(A) DESCR(' ') PROCESS('') STREAMQ() TRIGDATA('   '); ALTER NL(N) NAMES(' ')")
    assert list(manager.definitions()) == [LocalQueue(name="A"), NameList(name="N")]


def test_alter_changes_only_what_it_names() -> None:
    manager = InMemoryManager(LocalQueue(name="A", depth_max=7, description="kept"))
    run(manager, "ALT QL(A) MAXDEPTH(8)")
    assert manager.find("QLOCAL", "A") == LocalQueue(name="A", depth_max=8, description="kept")


def test_alter_qmgr_changes_the_manager() -> None:
    manager = InMemoryManager()
    run(manager, "ALTER QMGR DEADQ(DLQ) DEFXMITQ(X) MAXMSGL(5000) MAXUMSGS(5) TRIGINT(1) PERFMEV(DISABLED) CCSID(1208)")
    attributes = manager.manager_attributes()
    assert (attributes.name, attributes.dead_letter_queue, attributes.uncommitted_max) == ("TEST", "DLQ", 5)
    assert attributes.performance_events is False


def test_replace_takes_defaults_and_not_the_old_values() -> None:
    manager = InMemoryManager(LocalQueue(name="A", depth_max=7))
    run(manager, "DEFINE QL(A) DESCR(new) REPLACE")
    assert manager.find("QLOCAL", "A") == LocalQueue(name="A", description="NEW")


def test_like_copies_another_object_but_not_how_it_came_to_be() -> None:
    manager = InMemoryManager(LocalQueue(name="A", depth_max=7, usage="XMITQ", dynamic="TEMPORARY"))
    run(manager, "DEFINE QL(B) LIKE(A) USAGE(NORMAL)")
    assert manager.find("QLOCAL", "B") == LocalQueue(name="B", depth_max=7)


def test_delete_and_clear_answer_with_what_they_did() -> None:
    manager = InMemoryManager(LocalQueue(name="A"), LocalQueue(name="B"))
    manager.depths = {"A": 2, "B": 1}
    answers = run_script("CLEAR QL(A); DELETE QL(A); DELETE QL(B); DELETE QL(B) PURGE; PING QMGR", manager)
    assert [answer.ok for answer in answers] == [True, True, False, True, True]
    assert answers[0].lines == [
        "Local queue A cleared of 2 messages.",
    ]
    assert answers[1].lines == [
        "Local queue A deleted.",
    ]
    assert answers[4].lines == [
        "Queue manager TEST answers.",
    ]
    assert list(manager.definitions()) == []


@pytest.mark.parametrize("word", ["SHARE", "DEFSOPT(SHARED)", "CLUSTER(' ')", "NPMCLASS(HIGH)", "CMDSCOPE(*)"])
def test_attribute_without_effect_is_accepted_with_a_warning(word: str) -> None:
    manager = InMemoryManager()
    (answer,) = run_script(f"DEFINE QLOCAL(A) {word}", manager)
    assert answer.ok
    assert answer.warnings == (f"{word.split('(')[0]}: accepted without effect",)
    assert answer.lines == ["Local queue A defined.", f"Warning: {answer.warnings[0]}"]


def test_refusal_of_the_manager_becomes_an_error_with_its_place_and_text() -> None:
    manager = InMemoryManager(LocalQueue(name="A"))
    (answer,) = run_script("\n  DEFINE QLOCAL(A)", manager, "shop.mqsc")
    assert isinstance(answer.error, MqscCommandFailed)
    assert (answer.error.line, answer.error.column) == (2, 17)
    assert "QueueExists [Q09 2100]: a queue A exists already" in answer.error.problem
    assert isinstance(answer.error.__cause__, QueueExists)
    assert str(pickle.loads(pickle.dumps(answer.error))) == str(answer.error)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("ALTER QL(NONE) PUT(ENABLED)", 10, "there is no QLOCAL NONE"),
        ("ALTER QL(O) PUT(ENABLED)", 10, "O is a QALIAS, not a QLOCAL"),
        ("DELETE QL(O)", 11, "O is a QALIAS, not a QLOCAL"),
        ("CLEAR QL(O)", 10, "O is a QALIAS, not a QLOCAL"),
        ("DEFINE QL(B) LIKE(O)", 19, "O is a QALIAS, not a QLOCAL"),
        ("DEFINE QL(B) LIKE(NONE)", 19, "there is no QLOCAL NONE"),
        ("DEFINE QL(B) QDEPTHLO(90)", 14, "QDEPTHLO of QLOCAL(B) cannot be 90. Expected: at most QDEPTHHI"),
    ],
)
def test_command_that_does_not_suit_the_objects_changes_nothing(text: str, column: int, problem: str) -> None:
    manager = InMemoryManager(AliasQueue(name="O"))
    (answer,) = run_script(text, manager)
    assert isinstance(answer.error, MqscCommandFailed)
    assert answer.error.column == column
    assert problem in answer.error.problem
    assert list(manager.definitions()) == [AliasQueue(name="O")]


def test_other_commands_run_when_one_fails() -> None:
    manager = InMemoryManager()
    answers = run_script("DEF QL(A)\nNONSENSE\nDEF QL(A)\nDEF QL(B", manager)
    assert [(answer.line, answer.ok) for answer in answers] == [(1, True), (2, False), (3, False), (4, False)]
    assert list(manager.definitions()) == [LocalQueue(name="A")]


def test_answer_has_all_errors_of_its_command() -> None:
    (answer,) = run_script("DEF QL(A) PUT(ON) GET(ON)", InMemoryManager())
    assert [error.column for error in answer.errors if isinstance(error, MqscSyntaxError)] == [15, 23]
    assert answer.error is answer.errors[0]


def test_end_ends_the_script() -> None:
    manager = InMemoryManager()
    assert len(run_script("DEF QL(A)\nend\nDEF QL(B)", manager)) == 1


def test_require_ok_raises_the_only_error_itself() -> None:
    with pytest.raises(MqscSyntaxError):
        require_ok(run_script("PING QMGR\nPONG", InMemoryManager()))


def test_require_ok_gathers_several_failures() -> None:
    with pytest.raises(MqscScriptFailed) as caught:
        require_ok(run_script("PANG\nPING QMGR\nPONG", InMemoryManager()))
    assert [type(failure) for failure in caught.value.failures] == [MqscSyntaxError, MqscSyntaxError]


WORDS = sorted({*VERB_WORDS, *NOUN_WORDS, *KEYWORDS, *OPERATORS})
SCRIPTS = st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(list("()',;+-*\n 5A")), st.text(max_size=3)))


@given(st.one_of(st.text(), SCRIPTS.map(" ".join), SCRIPTS.map("".join)))
def test_any_text_is_answered_and_never_raises(text: str) -> None:
    objects = LocalQueue(name="A"), NameList(name="A", names=("A",)), Channel(name="A"), Listener(name="A")
    topics = Topic(name="A", topic="A"), SubscriptionDefinition(name="A", topic="A", destination="A")
    for answer in run_script(text, InMemoryManager(*objects, *topics)):
        assert all(isinstance(error, MqscError) for error in answer.errors)
        assert answer.lines
