# SPDX-License-Identifier: Apache-2.0
"""Authority records and channel rules, from the script to the definition."""

from __future__ import annotations

import pytest

from entrepot.engine.definitions import AuthorityRecord, ChannelRule, authority_key, rule_key
from entrepot.errors import MqscCommandFailed
from entrepot.server.mqsc import Answer, require_ok, run_script
from entrepot.server.mqsc.security_keywords import AUTHREC, authorities_of, expanded

from .in_memory import InMemoryManager


@pytest.fixture
def manager() -> InMemoryManager:
    return InMemoryManager()


def run(manager: InMemoryManager, text: str) -> Answer:
    answers = run_script(text, manager)
    require_ok(answers)
    return answers[-1]


def failure(manager: InMemoryManager, text: str) -> MqscCommandFailed:
    (answer,) = run_script(text, manager)
    assert isinstance(answer.error, MqscCommandFailed), answer.lines
    return answer.error


def authorities(manager: InMemoryManager) -> dict[str, tuple[str, ...]]:
    """Who may do what: user or group, and words."""
    records = [record for record in manager.definitions() if isinstance(record, AuthorityRecord)]
    return {record.principal or record.group: record.authorities for record in records}


def rules(manager: InMemoryManager) -> list[ChannelRule]:
    return [rule for rule in manager.definitions() if isinstance(rule, ChannelRule)]


# --- authority records -------------------------------------------------------------------------


def test_each_user_and_group_gets_a_record(manager: InMemoryManager) -> None:
    answer = run(
        manager, "SET AUTHREC PROFILE(ORDERS.*) OBJTYPE(QUEUE) PRINCIPAL('ann','bob') GROUP('staff') AUTHADD(PUT,GET)"
    )
    shared = {"profile": "ORDERS.*", "object_type": "QUEUE", "authorities": ("PUT", "GET")}
    assert list(manager.definitions()) == [
        AuthorityRecord(name="QUEUE/ORDERS.*/ann/", principal="ann", **shared),
        AuthorityRecord(name="QUEUE/ORDERS.*/bob/", principal="bob", **shared),
        AuthorityRecord(name="QUEUE/ORDERS.*//staff", group="staff", **shared),
    ]
    assert answer.lines[0] == "Authority of user ann for QUEUE ORDERS.*: PUT, GET."
    assert answer.lines[2] == "Authority of group staff for QUEUE ORDERS.*: PUT, GET."


def test_add_and_remove_change_what_is_there(manager: InMemoryManager) -> None:
    one = "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann')"
    run(manager, f"{one} AUTHADD(PUT, GET, PUT)")
    run(manager, f"{one} AUTHADD(BROWSE) AUTHRMV(PUT)")
    assert authorities(manager) == {"ann": ("GET", "BROWSE")}
    run(manager, f"{one} AUTHRMV(ALL) AUTHADD(INQ)")
    assert authorities(manager) == {"ann": ("INQ",)}
    run(manager, f"{one} AUTHRMV(ALL)")
    assert authorities(manager) == {"ann": ()}


def test_record_that_allows_nothing_can_be_made_on_purpose(manager: InMemoryManager) -> None:
    run(manager, "SET AUTHREC PROFILE(SECRET) OBJTYPE(QUEUE) GROUP('staff') AUTHADD(NONE)")
    assert authorities(manager) == {"staff": ()}


@pytest.mark.parametrize("object_type", ["QMGR", "QUEUE", "CHANNEL", "TOPIC"])
def test_groups_of_authorities_mean_what_goes_with_the_type(manager: InMemoryManager, object_type: str) -> None:
    run(manager, f"SET AUTHREC PROFILE(SELF) OBJTYPE({object_type}) PRINCIPAL('ann') AUTHADD(ALLMQI,ALLADM)")
    run(manager, f"SET AUTHREC PROFILE(SELF) OBJTYPE({object_type}) PRINCIPAL('bob') AUTHADD(ALL)")
    assert authorities(manager) == {"ann": authorities_of(object_type), "bob": authorities_of(object_type)}
    assert expanded(object_type, "NONE") == expanded(object_type, "SETALL") == ()


def test_authority_of_mq_that_means_nothing_here_gives_nothing(manager: InMemoryManager) -> None:
    answer = run(manager, "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT,PASSALL)")
    assert answer.warnings == ("PASSALL: accepted without effect",)
    assert authorities(manager) == {"ann": ("PUT",)}


@pytest.mark.parametrize("profile", ["", "PROFILE(SELF)", "PROFILE('self')", "PROFILE(TEST)"])
def test_there_is_one_queue_manager_whatever_it_is_called(manager: InMemoryManager, profile: str) -> None:
    run(manager, f"SET AUTHREC {profile} OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)")
    assert manager.find("AUTHREC", authority_key("QMGR", "", "ann", "")) is not None


def test_other_queue_manager_has_its_own_records(manager: InMemoryManager) -> None:
    error = failure(manager, "SET AUTHREC PROFILE(QM2) OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)")
    assert (error.column, error.problem) == (13, "QM2 is another queue manager, this one is TEST")


def test_nothing_can_be_taken_from_or_deleted_of_nobody(manager: InMemoryManager) -> None:
    run(manager, "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)")
    for words in ("SET AUTHREC", "DELETE AUTHREC"):
        tail = " AUTHRMV(PUT)" if words.startswith("SET") else ""
        error = failure(manager, f"{words} PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann', 'bob'){tail}")
        assert error.column == len(words) + 2
        assert error.problem == "there is no authority of user bob for QUEUE Q (DISPLAY AUTHREC lists them)"
    assert authorities(manager) == {"ann": ("PUT",)}


def test_delete_takes_the_record_and_no_other(manager: InMemoryManager) -> None:
    run(manager, "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') GROUP('ann','staff') AUTHADD(PUT)")
    run(manager, "DELETE AUTHREC PROFILE(Q) OBJTYPE(QUEUE) GROUP('ann')")
    assert [record.name for record in manager.definitions()] == ["QUEUE/Q/ann/", "QUEUE/Q//staff"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ["", "A.*", "A.*", "B"]),
        ("PROFILE(A*)", ["A.*", "A.*"]),
        ("PROFILE('A.*') PRINCIPAL('ann')", ["A.*"]),
        ("OBJTYPE(QMGR)", [""]),
        ("OBJTYPE(ALL) GROUP(*)", ["A.*"]),
        ("WHERE(AUTHLIST CT GET)", ["A.*", "B"]),
        ("ALL WHERE(PRINCIPAL EQ 'ann')", ["", "A.*", "B"]),
    ],
)
def test_display_selects_records(manager: InMemoryManager, words: str, expected: list[str]) -> None:
    run(
        manager,
        """SET AUTHREC PROFILE(A.*) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET)
           SET AUTHREC PROFILE(A.*) OBJTYPE(QUEUE) GROUP('staff') AUTHADD(PUT)
           SET AUTHREC PROFILE(B) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(ALL)
           SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)""",
    )
    assert [row["PROFILE"] for row in run(manager, f"DISPLAY AUTHREC {words}").rows] == expected


def test_display_shows_the_whole_record_unless_keywords_choose(manager: InMemoryManager) -> None:
    run(manager, "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT) DESCR('for ann')")
    (row,) = run(manager, "DISPLAY AUTHREC").rows
    assert row == {
        "PROFILE": "Q",
        "OBJTYPE": "QUEUE",
        "PRINCIPAL": "ann",
        "GROUP": "",
        "AUTHLIST": ["PUT"],
        "DESCR": "for ann",
    }
    assert run(manager, "DISPLAY AUTHREC AUTHLIST").rows == ({"PROFILE": "Q", "AUTHLIST": ["PUT"]},)
    assert run(manager, "DISPLAY AUTHREC PROFILE(X)").lines == ["No AUTHREC matches."]


def test_table_knows_all_authorities() -> None:
    attribute = AUTHREC.attribute("AUTHLIST")
    assert attribute is not None
    for object_type in ("QMGR", "QUEUE", "CHANNEL", "TOPIC"):
        assert attribute.form.fits(authorities_of(object_type))


# --- channel rules -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "SET CHLAUTH('APP.*') TYPE(ADDRESSMAP) ADDRESS('10.0.*') MCAUSER('app') DESCR('ours')",
            ChannelRule(
                name="ADDRESSMAP/APP.*/10.0.*//", profile="APP.*", address="10.0.*", user="app", description="ours"
            ),
        ),
        (
            "SET CHLAUTH(APP) TYPE(USERMAP) CLNTUSER('ann') ADDRESS(unix) USERSRC(CHANNEL) ACTION(ADD)",
            ChannelRule(
                name="USERMAP/APP/unix/ann/",
                profile="APP",
                rule="USERMAP",
                client_user="ann",
                address="unix",
                user_source="CHANNEL",
            ),
        ),
        (
            "SET CHLAUTH(APP) TYPE(SSLPEERMAP) SSLPEER('CN=ann,O=Port') USERSRC(NOACCESS) WARN(NO) SSLCERTI(' ')",
            ChannelRule(
                name="SSLPEERMAP/APP///CN=ann,O=Port",
                profile="APP",
                rule="SSLPEERMAP",
                tls_peer="CN=ann,O=Port",
                user_source="NOACCESS",
            ),
        ),
        (
            "SET CHLAUTH(*) TYPE(BLOCKUSER) USERLIST('*MQADMIN', 'root')",
            ChannelRule(name="BLOCKUSER/*///", profile="*", rule="BLOCKUSER", users=("*MQADMIN", "root")),
        ),
        (
            "SET CHLAUTH(*) TYPE(BLOCKADDR) ADDRESS('10.0.0.0/8')",
            ChannelRule(name="BLOCKADDR/*/10.0.0.0%2F8//", profile="*", rule="BLOCKADDR", address="10.0.0.0/8"),
        ),
    ],
)
def test_set_makes_a_rule_of_every_type(manager: InMemoryManager, text: str, rule: ChannelRule) -> None:
    answer = run(manager, text)
    assert rules(manager) == [rule]
    assert answer.lines == [f"Channel rules of type {rule.rule} for {rule.profile} changed."]


def test_rule_that_matches_the_same_is_replaced_only_when_told(manager: InMemoryManager) -> None:
    one = "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('10.*')"
    run(manager, f"{one} MCAUSER('a') DESCR('old')")
    error = failure(manager, f"{one} MCAUSER('b')")
    assert error.column == 13
    assert "a rule of type ADDRESSMAP for APP that matches the same exists already" in error.problem
    run(manager, f"{one} USERSRC(NOACCESS) ACTION(REPLACE)")
    (rule,) = rules(manager)
    assert (rule.user_source, rule.user, rule.description) == ("NOACCESS", "", "")


def test_users_to_block_are_one_list_for_a_profile(manager: InMemoryManager) -> None:
    one = "SET CHLAUTH('*') TYPE(BLOCKUSER)"
    run(manager, f"{one} USERLIST('a', 'b') DESCR('kept')")
    run(manager, f"{one} USERLIST('b', 'c') ACTION(ADD)")
    assert [(rule.users, rule.description) for rule in rules(manager)] == [(("a", "b", "c"), "kept")]
    run(manager, f"{one} USERLIST('a') ACTION(REMOVE)")
    assert [(rule.users, rule.description) for rule in rules(manager)] == [(("b", "c"), "kept")]
    assert "with this USERLIST" in failure(manager, f"{one} USERLIST('b', 'z') ACTION(REMOVE)").problem
    run(manager, f"{one} USERLIST('d') ACTION(REPLACE)")
    assert [rule.users for rule in rules(manager)] == [("d",)]
    run(manager, f"{one} USERLIST('d') ACTION(REMOVE)")
    assert rules(manager) == []


def test_each_blocked_address_is_a_rule(manager: InMemoryManager) -> None:
    one = "SET CHLAUTH('*') TYPE(BLOCKADDR)"
    run(manager, f"{one} ADDRLIST('10.0.0.1', '10.0.0.2')")
    run(manager, f"{one} ADDRLIST('10.0.0.2', '10.0.0.3')")
    run(manager, f"{one} ADDRLIST('10.0.0.1') ACTION(REMOVE)")
    assert [rule.address for rule in rules(manager)] == ["10.0.0.2", "10.0.0.3"]


def test_remove_takes_the_rule_that_matches_the_same(manager: InMemoryManager) -> None:
    run(manager, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('10.*') MCAUSER('a')")
    run(manager, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('11.*') MCAUSER('a')")
    run(manager, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('10.*') ACTION(REMOVE)")
    assert [rule.address for rule in rules(manager)] == ["11.*"]
    error = failure(manager, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('10.*') ACTION(REMOVE)")
    assert error.problem == "there is no rule of type ADDRESSMAP for APP with this ADDRESS (DISPLAY CHLAUTH lists them)"


def test_removeall_takes_the_rules_of_a_type_and_a_profile(manager: InMemoryManager) -> None:
    run(
        manager,
        """SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('10.*') MCAUSER('a')
           SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('11.*') MCAUSER('a')
           SET CHLAUTH(APP) TYPE(USERMAP) CLNTUSER('x') MCAUSER('a')
           SET CHLAUTH(B) TYPE(ADDRESSMAP) ADDRESS('10.*') MCAUSER('a')
           SET CHLAUTH(APP) TYPE(ADDRESSMAP) ACTION(REMOVEALL)""",
    )
    assert [(rule.profile, rule.rule) for rule in rules(manager)] == [("APP", "USERMAP"), ("B", "ADDRESSMAP")]
    error = failure(manager, "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ACTION(REMOVEALL)")
    assert error.problem == "there is no rule of type ADDRESSMAP for APP (DISPLAY CHLAUTH lists them)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("(*)", ["ADDRESSMAP", "BLOCKUSER", "USERMAP"]),
        ("(*) TYPE(ALL)", ["ADDRESSMAP", "BLOCKUSER", "USERMAP"]),
        ("(*) TYPE(USERMAP)", ["USERMAP"]),
        ("('APP*')", ["USERMAP"]),
        ("(APP) CLNTUSER('a*')", ["USERMAP"]),
        ("(*) WHERE(USERSRC EQ NOACCESS)", ["ADDRESSMAP"]),
        ("(*) WHERE(USERLIST CT 'x')", ["BLOCKUSER"]),
        ("(NONE)", []),
    ],
)
def test_display_selects_rules(manager: InMemoryManager, words: str, expected: list[str]) -> None:
    run(
        manager,
        """SET CHLAUTH(APP) TYPE(USERMAP) CLNTUSER('ann') MCAUSER('app')
           SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('x')
           SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)""",
    )
    rows = run(manager, f"DISPLAY CHLAUTH{words}").rows
    assert [row["TYPE"] for row in rows] == expected


def test_display_shows_what_the_type_of_a_rule_has(manager: InMemoryManager) -> None:
    run(manager, "SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('x')")
    (row,) = run(manager, "DISPLAY CHLAUTH('*')").rows
    assert row == {"CHLAUTH": "*", "TYPE": "BLOCKUSER", "DESCR": "", "USERLIST": ["x"]}


def test_rules_are_named_after_what_they_match() -> None:
    assert rule_key("USERMAP", "A/B", client_user="50%") == "USERMAP/A%2FB//50%25/"
