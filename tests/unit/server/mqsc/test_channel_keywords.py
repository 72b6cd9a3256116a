# SPDX-License-Identifier: Apache-2.0
"""Channels and listeners, from the script to the definition."""

from __future__ import annotations

import pytest

from entrepot.engine.definitions import Channel, Listener
from entrepot.errors import MqscCommandFailed
from entrepot.server.mqsc import Answer, check_script, require_ok, run_script
from folding import for_each

from .in_memory import InMemoryManager

SENDER = Channel(name="TO.B", channel_type="SDR", connection_name="b(1414)", transmission_queue="B")
CLIENTS = Channel(name="APP", user="app")
RECEIVER = Channel(name="FROM.B", channel_type="RCVR")


@pytest.fixture
def manager() -> InMemoryManager:
    return InMemoryManager(SENDER, CLIENTS, RECEIVER, Listener(name="L"))


def only(manager: InMemoryManager, text: str) -> Answer:
    (answer,) = run_script(text, manager)
    assert answer.ok, answer.lines
    return answer


def failure(manager: InMemoryManager, text: str) -> MqscCommandFailed:
    (answer,) = run_script(text, manager)
    assert isinstance(answer.error, MqscCommandFailed), answer.lines
    return answer.error


def test_define_makes_a_sender_with_all_its_attributes() -> None:
    manager = InMemoryManager()
    only(
        manager,
        """DEFINE CHANNEL(TO.B) TRPTYPE(TCP) CONNAME('b.example(1414),c(1415)') XMITQ(B) DESCR('To B') BATCHSZ(10) +
           BATCHINT(20) BATCHLIM(30) HBINT(40) DISCINT(50) SHORTTMR(1) SHORTRTY(2) LONGTMR(3) LONGRTY(4) +
           NPMSPEED(NORMAL) MAXMSGL(1000) USERID('us') SEQWRAP(1000) SSLCIPH(TLS_AES_256_GCM_SHA384) +
           SSLPEER('CN=b*') CHLTYPE(SDR)""",
    )
    assert manager.find("CHANNEL", "TO.B") == Channel(
        name="TO.B",
        description="To B",
        channel_type="SDR",
        connection_name="b.example(1414),c(1415)",
        transmission_queue="B",
        batch_size=10,
        batch_interval_ms=20,
        batch_bytes_max=30 * 1024,
        heartbeat_s=40,
        disconnect_s=50,
        short_retry_s=1,
        short_retry_count=2,
        long_retry_s=3,
        long_retry_count=4,
        nonpersistent_fast=False,
        body_bytes_max=1000,
        remote_user="us",
        sequence_wrap=1000,
        tls="TLS_AES_256_GCM_SHA384",
        tls_peer="CN=b*",
    )


def test_define_makes_the_other_types_by_short_words() -> None:
    manager = InMemoryManager()
    script = """
        DEF CHL(APP) CHLTYPE(SVRCONN) MAXINST(5) MAXINSTC(2) MCAUSER('app') SSLCAUTH(OPTIONAL)
        DEF CHL(FROM.B) CHLTYPE(RCVR) MRRTY(3) MRTMR(200) MCAUSER('mover') NPMSPEED(FAST)
        DEF LSTR(L) PORT(0) IPADDR('::') CONTROL(MANUAL) BACKLOG(7) TRPTYPE(TCP) PROTOCOL(AMQP) TLS(YES) +
            CHANNEL(APP) MAXCONN(10) MAXCONNA(3) HSTIMEOUT(4)
    """
    require_ok(run_script(script, manager))
    assert list(manager.definitions()) == [
        Channel(name="APP", instances_max=5, instances_per_address_max=2, user="app", tls_client_required=False),
        Channel(name="FROM.B", channel_type="RCVR", retry_count=3, retry_ms=200, user="mover"),
        Listener(
            name="L",
            port=0,
            address="::",
            control="MANUAL",
            backlog=7,
            protocol="AMQP",
            tls=True,
            channel="APP",
            connections_max=10,
            connections_per_address_max=3,
            handshake_s=4,
        ),
    ]


@for_each(
    ("text", "column", "problem"),
    [
        ("DEF CHL(C)", 5, "DEFINE CHANNEL needs CHLTYPE: SVRCONN or SDR or RCVR"),
        ("DEF CHL(C) CHLTYPE(RQSTR)", 20, "CHLTYPE takes SVRCONN or SDR or RCVR, not RQSTR"),
        ("DEF CHL(C) XMITQ(X) CHLTYPE(SVRCONN)", 12, "XMITQ does not go with CHLTYPE(SVRCONN): it belongs to SDR"),
        ("DEF CHL(C) CHLTYPE(SDR) MAXINST(1)", 25, "MAXINST does not go with CHLTYPE(SDR): it belongs to SVRCONN"),
        ("ALT CHL(C) CHLTYPE(RCVR) USERID(A)", 26, "USERID does not go with CHLTYPE(RCVR): it belongs to SDR"),
        ("DEF CHL(C) CHLTYPE(SVRCONN) TRPTYPE(LU62)", 37, "TRPTYPE takes only TCP, not LU62"),
        ("DEF CHL(C) CHLTYPE(SVRCONN) SCYEXIT('lib(f)')", 37, "SCYEXIT takes only ' ', not lib(f)"),
        (
            "DEF CHL(C) CHLTYPE(SDR) CONNAME('h(70000)')",
            33,
            "CONNAME takes 'host(port)' in quotes, several with commas between them, or 'unix:PATH', not h(70000)",
        ),
        ("DEF LSTR(L) PORT(65536)", 18, "PORT takes a whole number from 0 to 65535, not 65536"),
        (
            "DEF LSTR(L) IPADDR(' ')",
            20,
            "IPADDR takes an address or host name, such as 127.0.0.1; 0.0.0.0 or :: is every one, not  ",
        ),
        ("DEF LSTR(L) HBINT(5)", 13, "HBINT belongs to CHANNEL, not to LISTENER"),
        ("DIS CHL(*) TYPE(SDRR)", 12, "TYPE of CHANNEL takes SVRCONN, SDR, RCVR or ALL (did you mean SDR?)"),
        ("DIS CHL(*) CONNAME(A)", 12, "CONNAME stands alone in DISPLAY; WHERE(CONNAME EQ ...) selects"),
    ],
)
def test_wrong_word_is_named_where_it_stands(text: str, column: int, problem: str) -> None:
    (error,) = check_script(f"\n{text}", "script.mqsc")
    assert error.what == f"script.mqsc, line 2, column {column}: {problem}"


def test_password_is_refused_with_the_place_where_it_belongs() -> None:
    (error,) = check_script("DEF CHL(C) CHLTYPE(SDR) CONNAME(H) XMITQ(X) USERID('us') PASSWORD('it')")
    assert "column 58: a password does not belong in a script" in error.what
    assert "the queue manager's credentials file" in error.what


@pytest.mark.parametrize("missing", ["CONNAME", "XMITQ"])
def test_sender_needs_to_know_its_way(missing: str) -> None:
    said = {"CONNAME": "CONNAME('b(1414)')", "XMITQ": "XMITQ(B)"}
    del said[missing]
    error = failure(InMemoryManager(), f"DEFINE CHANNEL(TO.B) CHLTYPE(SDR) {' '.join(said.values())}")
    assert error.column == 16
    assert f"{missing} of CHANNEL(TO.B) cannot be missing" in error.problem


def test_alter_may_repeat_the_type_and_not_change_it(manager: InMemoryManager) -> None:
    only(manager, "ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MAXINST(3)")
    assert manager.find("CHANNEL", "APP") == Channel(name="APP", user="app", instances_max=3)
    error = failure(manager, "ALTER CHANNEL(APP) CHLTYPE(SDR)")
    assert (error.column, error.problem) == (20, "APP is a channel of CHLTYPE(SVRCONN), not CHLTYPE(SDR)")


def test_alter_refuses_what_the_type_of_the_channel_does_not_have(manager: InMemoryManager) -> None:
    error = failure(manager, "ALTER CHANNEL(APP) HBINT(5) +\n  XMITQ(X)")
    assert (error.line, error.column) == (2, 3)
    assert error.problem == "XMITQ does not go with APP, whose CHLTYPE is SVRCONN: it belongs to SDR"
    assert manager.find("CHANNEL", "APP") == CLIENTS


def test_alter_cannot_take_a_senders_way_from_it(manager: InMemoryManager) -> None:
    assert "XMITQ of CHANNEL(TO.B) cannot be missing" in failure(manager, "ALTER CHANNEL(TO.B) XMITQ(' ')").problem


def test_replace_and_like_keep_to_the_type(manager: InMemoryManager) -> None:
    only(manager, "DEFINE CHANNEL(TO.C) CHLTYPE(SDR) LIKE(TO.B) CONNAME('c')")
    assert manager.find("CHANNEL", "TO.C") == Channel(
        name="TO.C", channel_type="SDR", connection_name="c", transmission_queue="B"
    )
    error = failure(manager, "DEFINE CHANNEL(X) CHLTYPE(RCVR) LIKE(TO.B)")
    assert (error.column, error.problem) == (38, "TO.B is a channel of CHLTYPE(SDR), not CHLTYPE(RCVR)")
    error = failure(manager, "DEFINE CHANNEL(APP) CHLTYPE(RCVR) REPLACE")
    assert (error.column, error.problem) == (16, "APP is a channel of CHLTYPE(SVRCONN), not CHLTYPE(RCVR)")
    only(manager, "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) REPLACE")
    assert manager.find("CHANNEL", "APP") == Channel(name="APP")


def test_name_that_is_taken_is_told_with_its_kind(manager: InMemoryManager) -> None:
    problem = failure(manager, "DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)").problem
    assert "ObjectExists [Q16 2100]: a CHANNEL APP exists already" in problem


def test_display_shows_what_a_type_has_and_no_more(manager: InMemoryManager) -> None:
    (row,) = only(manager, "DISPLAY CHANNEL(APP)").rows
    assert row["MCAUSER"] == "app"
    assert row["MAXINST"] == 999_999_999
    assert not {"XMITQ", "CONNAME", "BATCHSZ", "TRPTYPE"} & row.keys()
    (row,) = only(manager, "DISPLAY CHANNEL(TO.B) BATCHLIM").rows
    assert row == {"CHANNEL": "TO.B", "CHLTYPE": "SDR", "BATCHLIM": 5000}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("(*)", ["APP", "FROM.B", "TO.B"]),
        ("(*B) ALL", ["FROM.B", "TO.B"]),
        ("(*) TYPE(SDR)", ["TO.B"]),
        ("(*) CHLTYPE(RCVR)", ["FROM.B"]),
        ("(*) TYPE(ALL)", ["APP", "FROM.B", "TO.B"]),
        ("(*) WHERE(BATCHLIM GE 5000)", ["TO.B"]),
        ("(*) WHERE(MCAUSER EQ 'app')", ["APP"]),
        ("(*) WHERE(NPMSPEED EQ FAST)", ["FROM.B", "TO.B"]),
    ],
)
def test_display_selects_channels(manager: InMemoryManager, words: str, expected: list[str]) -> None:
    assert [row["CHANNEL"] for row in only(manager, f"DISPLAY CHANNEL{words}").rows] == expected


def test_pattern_alone_shows_names_and_types(manager: InMemoryManager) -> None:
    assert only(manager, "DIS CHL(T*)").rows == ({"CHANNEL": "TO.B", "CHLTYPE": "SDR"},)
    assert only(manager, "DIS LSTR(*)").rows == ({"LISTENER": "L"},)
    assert only(manager, "DIS LSTR(L) PORT").rows == ({"LISTENER": "L", "PORT": 1414},)


def test_delete_takes_them_away(manager: InMemoryManager) -> None:
    require_ok(run_script("DELETE CHANNEL(APP); DELETE LISTENER(L)", manager))
    assert list(manager.definitions()) == [SENDER, RECEIVER]
    assert "there is no LISTENER L" in failure(manager, "DELETE LISTENER(L)").problem


def test_what_mq_scripts_say_beside_is_accepted(manager: InMemoryManager) -> None:
    answer = only(
        manager, "DEF CHL(N) CHLTYPE(SVRCONN) TRPTYPE(TCP) SCYEXIT(' ') SENDEXIT('') PUTAUT(DEF) SHARECNV(10)"
    )
    assert answer.warnings == ("SHARECNV: accepted without effect",)
    answer = only(manager, "DIS CHL(N) TRPTYPE HBINT")
    assert answer.warnings == ("TRPTYPE: without effect here, so it is not shown",)


def test_manager_has_attributes_for_security(manager: InMemoryManager) -> None:
    only(manager, "ALTER QMGR SSLKEYR('/etc/tls') CHCKCLNT(REQUIRED) CHLAUTH(DISABLED)")
    attributes = manager.manager_attributes()
    assert (attributes.tls_folder, attributes.password_check) == ("/etc/tls", "REQUIRED")
    assert attributes.channel_rules_enabled is False
    (row,) = only(manager, "DISPLAY QMGR SSLKEYR CHLAUTH CHCKCLNT").rows
    assert row == {"QMNAME": "TEST", "SSLKEYR": "/etc/tls", "CHLAUTH": "DISABLED", "CHCKCLNT": "REQUIRED"}
