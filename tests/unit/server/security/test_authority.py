# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.definitions import AuthorityRecord
from entrepot.errors import NotAuthorized
from entrepot.server.security import authority as authority_module
from entrepot.server.security.authority import WORDS, Authority, RequiredAuthority, needed_for
from entrepot.server.security.profiles import matches_name
from folding import for_each

NOBODY: frozenset[str] = frozenset()


def record(
    profile: str, words: str, *, principal: str = "", group: str = "", object_type: str = "QUEUE"
) -> AuthorityRecord:
    return AuthorityRecord(
        name=f"{object_type} {profile} {principal} {group}",
        profile=profile,
        object_type=object_type,  # type: ignore[arg-type]
        principal=principal,
        group=group,
        authorities=tuple(words.split()),
    )


def allowed(records: list[AuthorityRecord], name: str, groups: frozenset[str] = NOBODY) -> set[str]:
    authority = Authority(records)
    return {word for word in WORDS if authority.allows("fred", groups, "QUEUE", name, word)}


@for_each(
    ("profiles", "name", "words"),
    [
        # MQ's own example: only the most specific profile counts, not both.
        ({"AB.*": "PUT", "AB.C*": "GET"}, "AB.CD", {"GET"}),
        ({"AB.*": "PUT", "AB.C*": "GET"}, "AB.XY", {"PUT"}),
        ({"**": "PUT", "AB.*": "GET", "AB.CD": "BROWSE"}, "AB.CD", {"BROWSE"}),
        ({"**": "PUT", "AB.*": "GET", "AB.CD": "BROWSE"}, "AB.CE", {"GET"}),
        ({"**": "PUT", "AB.*": "GET", "AB.CD": "BROWSE"}, "X", {"PUT"}),
        ({"**": "PUT GET", "SECRET": ""}, "SECRET", set()),
        ({"AB.?D": "PUT", "AB.*D": "GET"}, "AB.CD", {"PUT"}),
        ({"AB.**": "PUT", "AB.*": "GET"}, "AB.CD", {"GET"}),
        ({"AB.**": "PUT", "AB.*": "GET"}, "AB.C.D", {"PUT"}),
        ({"*.CD": "PUT", "AB.*": "GET"}, "AB.CD", {"GET"}),
        ({"AB.**": "PUT", "AB": "GET"}, "AB", {"GET"}),
        ({"ab.cd": "PUT"}, "AB.CD", set()),
        ({"": "PUT"}, "AB.CD", set()),
        ({}, "AB.CD", set()),
    ],
)
def test_most_specific_profile_of_a_user_counts_alone(profiles: dict[str, str], name: str, words: set[str]) -> None:
    records = [record(profile, given_words, principal="fred") for profile, given_words in profiles.items()]
    assert allowed(records, name) == words
    assert allowed(list(reversed(records)), name) == words


def test_user_and_groups_add_up_each_by_its_own_most_specific_profile() -> None:
    records = [
        record("AB.*", "PUT", principal="fred"),
        record("AB.CD", "GET", group="ops"),
        record("**", "BROWSE", group="ops"),
        record("**", "INQ", group="audit"),
        record("AB.CD", "SET", group="strangers"),
        record("AB.CD", "DSP", principal="ops"),
    ]
    assert allowed(records, "AB.CD") == {"PUT"}
    assert allowed(records, "AB.CD", frozenset({"ops"})) == {"PUT", "GET"}
    assert allowed(records, "AB.CD", frozenset({"ops", "audit"})) == {"PUT", "GET", "INQ"}
    assert allowed(records, "XY", frozenset({"ops", "audit"})) == {"BROWSE", "INQ"}


def test_records_of_one_type_say_nothing_of_another() -> None:
    authority = Authority([record("A", "DSP", principal="fred", object_type="CHANNEL")])
    assert authority.allows("fred", NOBODY, "CHANNEL", "A", "DSP")
    assert not authority.allows("fred", NOBODY, "QUEUE", "A", "DSP")


@pytest.mark.parametrize("profile", ["", "QM1", "SELF", "**"])
def test_the_queue_manager_needs_no_profile(profile: str) -> None:
    authority = Authority([record(profile, "CONNECT", principal="fred", object_type="QMGR")])
    assert authority.allows("fred", NOBODY, "QMGR", "QM1", "CONNECT")
    assert not authority.allows("fred", NOBODY, "QMGR", "QM1", "DSP")
    assert not authority.allows("bob", NOBODY, "QMGR", "QM1", "CONNECT")


def test_administrators_may_everything_and_a_user_called_mqm_nothing() -> None:
    authority = Authority([record("**", "", group="mqm")])
    assert authority.allows("root", frozenset({"mqm"}), "QUEUE", "X", "PUT")
    assert not authority.allows("mqm", NOBODY, "QUEUE", "X", "PUT")


def test_nobody_has_no_authority_by_an_empty_record() -> None:
    assert not Authority([record("**", "PUT")]).allows("", NOBODY, "QUEUE", "X", "PUT")


def test_a_refusal_reads_the_same_whatever_exists() -> None:
    authority = Authority([record("MINE", "PUT", principal="fred")])
    texts = []
    for name in ("THERE", "NOT.THERE"):
        with pytest.raises(NotAuthorized) as caught:
            authority.require("fred", NOBODY, "QUEUE", name, "GET")
        texts.append(str(caught.value).replace(name, "NAME"))
        assert caught.value.reason == 2035
    assert texts[0] == texts[1]
    authority.require("fred", NOBODY, "QUEUE", "MINE", "PUT")


# --- answers are kept ---------------------------------------------------------------------------


def test_a_known_answer_is_one_look_into_a_dict() -> None:
    authority = Authority([record("**", "PUT", principal="fred")])
    authority.allows("fred", NOBODY, "QUEUE", "Q", "PUT")
    calls: list[str] = []

    def profile(frame: object, event: str, argument: object) -> None:
        if "call" in event:
            calls.append(event)

    sys.setprofile(profile)
    try:
        authority.allows("fred", NOBODY, "QUEUE", "Q", "PUT")
    finally:
        sys.setprofile(None)
    # allows itself, dict.get, and our own sys.setprofile(None).
    assert calls == ["call", "c_call", "c_call"]


def test_changed_definitions_count_at_once() -> None:
    authority = Authority([record("**", "PUT", principal="fred")])
    assert authority.allows("fred", NOBODY, "QUEUE", "Q", "PUT")
    authority.changed([record("Q", "", principal="fred")])
    assert not authority.allows("fred", NOBODY, "QUEUE", "Q", "PUT")
    authority.changed()
    assert not authority.allows("fred", NOBODY, "QUEUE", "Q", "PUT")


def test_answers_for_other_groups_are_other_answers() -> None:
    authority = Authority([record("**", "PUT", group="ops")])
    assert authority.allows("fred", frozenset({"ops"}), "QUEUE", "Q", "PUT")
    assert not authority.allows("fred", NOBODY, "QUEUE", "Q", "PUT")


def test_names_of_strangers_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority_module, "_ANSWERS_MAX", 10)
    authority = Authority([record("Q5", "PUT", principal="fred")])
    for number in range(100):
        assert authority.allows("fred", NOBODY, "QUEUE", f"Q{number}", "PUT") == (number == 5)
    assert len(authority._answers) <= 10


def test_a_taken_authority_is_not_remembered_by_a_thread_that_asked_before() -> None:
    authority = Authority()
    granting = [record("**", "PUT", principal="fred")]
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            authority.allows("fred", NOBODY, "QUEUE", "Q", "PUT")

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            authority.changed(granting)
            authority.changed([])
            assert not authority.allows("fred", NOBODY, "QUEUE", "Q", "PUT")
    finally:
        stop.set()
        for thread in threads:
            thread.join()


PROFILES = st.sampled_from(["**", "A.**", "A.*", "A.B", "A.?", "*.B", "*", "B", "**.B"])


@given(
    st.lists(st.tuples(PROFILES, st.sampled_from(["", "PUT", "GET", "PUT GET"])), max_size=6),
    st.sampled_from(["A", "B", "A.B", "A.C", "A.B.C", "C.B"]),
    st.sampled_from(["PUT", "GET"]),
)
def test_nothing_is_allowed_that_no_fitting_record_allows(pairs: list[tuple[str, str]], name: str, word: str) -> None:
    records = [record(profile, words, principal="fred") for profile, words in pairs]
    fitting = [each for each in records if matches_name(each.profile, name)]
    answer = Authority(records).allows("fred", NOBODY, "QUEUE", name, word)
    if answer:
        assert any(word in each.authorities for each in fitting)
    if fitting and all(word in each.authorities for each in fitting):
        assert answer


# --- words and commands -------------------------------------------------------------------------


@for_each(
    ("command", "need"),
    [
        ("DEFINE QLOCAL", RequiredAuthority("QUEUE", "CRT")),
        ("DEFINE QALIAS", RequiredAuthority("QUEUE", "CRT")),
        ("ALTER QREMOTE", RequiredAuthority("QUEUE", "CHG")),
        ("DELETE QMODEL", RequiredAuthority("QUEUE", "DLT")),
        ("DISPLAY QUEUE", RequiredAuthority("QUEUE", "DSP")),
        ("DISPLAY QSTATUS", RequiredAuthority("QUEUE", "DSP")),
        ("CLEAR QLOCAL", RequiredAuthority("QUEUE", "CLR")),
        ("ALTER QMGR", RequiredAuthority("QMGR", "CHG")),
        ("DISPLAY QMGR", RequiredAuthority("QMGR", "DSP")),
        ("PING QMGR", RequiredAuthority("QMGR", "DSP")),
        ("DEFINE CHANNEL", RequiredAuthority("CHANNEL", "CRT")),
        ("DISPLAY CHSTATUS", RequiredAuthority("CHANNEL", "DSP")),
        ("START CHANNEL", RequiredAuthority("CHANNEL", "CTRL")),
        ("STOP CHANNEL", RequiredAuthority("CHANNEL", "CTRL")),
        ("RESET CHANNEL", RequiredAuthority("CHANNEL", "CTRL")),
        ("RESOLVE CHANNEL", RequiredAuthority("CHANNEL", "CTRL")),
        ("PING CHANNEL", RequiredAuthority("CHANNEL", "CTRL")),
        ("DEFINE TOPIC", RequiredAuthority("TOPIC", "CRT")),
        ("DISPLAY LISTENER", RequiredAuthority("QMGR", "DSP")),
        ("DISPLAY AUTHREC", RequiredAuthority("QMGR", "DSP")),
        ("SET AUTHREC", None),
        ("SET CHLAUTH", None),
        ("DELETE AUTHREC", None),
        ("START LISTENER", None),
        ("DEFINE LISTENER", None),
        ("DEFINE PROCESS", None),
        ("STOP QMGR", None),
        ("PING QLOCAL", None),
        ("EXPLODE QLOCAL", None),
        ("DEFINE WHATEVER", None),
    ],
)
def test_command_needs(command: str, need: RequiredAuthority | None) -> None:
    verb, kind = command.split()
    assert needed_for(verb, kind) == need


@pytest.mark.parametrize(
    ("kind", "field"), [("CHANNEL", "user"), ("CHANNEL", "connection_name"), ("QMGR", "channel_rules_enabled")]
)
def test_what_decides_who_comes_in_takes_an_administrator(kind: str, field: str) -> None:
    assert needed_for("ALTER", kind, ["description"]) is not None
    assert needed_for("ALTER", kind, ["description", field]) is None
    assert needed_for("DEFINE", "CHANNEL", ["user"]) is None
    assert needed_for("DEFINE", "QLOCAL", ["user"]) is not None


def test_commands_are_required_of_users_and_administrators() -> None:
    authority = Authority([record("A.*", "CRT DSP", principal="fred")])
    authority.require_command("fred", NOBODY, "DEFINE", "QLOCAL", "A.B")
    authority.require_command("root", frozenset({"mqm"}), "SET", "CHLAUTH", "*")
    authority.require_command("root", frozenset({"mqm"}), "DELETE", "QLOCAL", "A.B")
    for verb, kind, name in [("DEFINE", "QLOCAL", "B"), ("DELETE", "QLOCAL", "A.B"), ("SET", "CHLAUTH", "*")]:
        with pytest.raises(NotAuthorized):
            authority.require_command("fred", NOBODY, verb, kind, name)
