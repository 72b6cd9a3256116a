# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.definitions import (
    KINDS,
    AuthorityRecord,
    Channel,
    ChannelRule,
    Definition,
    LocalQueue,
    ModelQueue,
    authority_key,
    founding_objects,
    require_name,
    require_own_name,
    rule_key,
    system_objects,
)
from entrepot.errors import InvalidName
from folding import for_each


@pytest.mark.parametrize("name", ["Q", "a.b_c/d%9", "x" * 48])
def test_name_of_the_allowed_characters_is_one(name: str) -> None:
    assert require_name("queue", name) == name


@for_each("name", ["", "x" * 49, "a b", "a\n", "\u00e4", "\u0661", "a*", "'a'", None, 5, b"Q", ["Q"]])
def test_anything_else_is_no_name(name: object) -> None:
    with pytest.raises(InvalidName) as caught:
        require_name("queue", name)
    assert "queue" in str(caught.value)


def test_every_kind_is_known_by_its_word() -> None:
    queues = {"QLOCAL", "QMODEL", "QALIAS", "QREMOTE"}
    others = {"PROCESS", "NAMELIST", "CHANNEL", "LISTENER", "AUTHREC", "CHLAUTH", "TOPIC", "SUB"}
    assert set(KINDS) == {"QMGR", *queues, *others}


def test_model_has_every_attribute_of_the_queues_made_from_it() -> None:
    assert set(LocalQueue.__struct_fields__) - {"dynamic", "owner"} == set(ModelQueue.__struct_fields__) - {
        "dynamic_kind"
    }


def test_new_queue_manager_has_its_system_objects() -> None:
    assert {definition.name for definition in system_objects()} >= {
        "SYSTEM.DEAD.LETTER.QUEUE",
        "SYSTEM.DEFAULT.MODEL.QUEUE",
        "SYSTEM.DEFAULT.INITIATION.QUEUE",
        "SYSTEM.ADMIN.PERFM.EVENT",
        "SYSTEM.CHANNEL.SYNCQ",
        "SYSTEM.CHANNEL.INITQ",
        "SYSTEM.DEF.SVRCONN",
        "BLOCKUSER/*///",
        "ADDRESSMAP/SYSTEM.*/*//",
    }


def test_what_a_log_is_replayed_upon_never_changes() -> None:
    """A queue more or less, and the numbers in old linear logs would mean other queues."""
    assert [(definition.kind, definition.name) for definition in founding_objects()] == [
        ("QLOCAL", "SYSTEM.DEAD.LETTER.QUEUE"),
        ("QLOCAL", "SYSTEM.DEFAULT.INITIATION.QUEUE"),
        ("QLOCAL", "SYSTEM.ADMIN.PERFM.EVENT"),
        ("QMODEL", "SYSTEM.DEFAULT.MODEL.QUEUE"),
    ]


PARTS = st.lists(st.text("a/%2F5*.", max_size=4), min_size=4, max_size=4)


@given(PARTS, PARTS)
def test_different_records_and_rules_have_different_names(one: list[str], other: list[str]) -> None:
    assert (authority_key(*one) == authority_key(*other)) == (one == other)
    keys = [rule_key("USERMAP", p[0], address=p[1], client_user=p[2], tls_peer=p[3]) for p in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


@pytest.mark.parametrize(
    "definition",
    [
        LocalQueue(name="a*"),
        Channel(name="SYSTEM.*"),
        AuthorityRecord(name="QUEUE/Q/ann/", profile="Q", object_type="QUEUE", principal="bob"),
        ChannelRule(name="ADDRESSMAP/*/*//", profile="*", address="10.*"),
    ],
)
def test_name_must_fit_what_it_names(definition: Definition) -> None:
    with pytest.raises(InvalidName):
        require_own_name(definition)


def test_system_objects_have_names_that_fit() -> None:
    for definition in system_objects():
        require_own_name(definition)
