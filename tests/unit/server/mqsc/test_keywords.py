# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from entrepot.engine import definitions
from entrepot.engine.definitions import (
    AliasQueue,
    AuthorityRecord,
    Channel,
    ChannelRule,
    Definition,
    Listener,
    LocalQueue,
    NameList,
    Process,
    SubscriptionDefinition,
    Topic,
    authority_key,
    rule_key,
    system_objects,
)
from entrepot.errors import InvalidName, InvalidSetting
from entrepot.server.mqsc.keywords import OBJECT_KINDS, require_valid
from entrepot.server.mqsc.object_kind import ObjectKind
from folding import for_each

KEPT_BY_THE_QUEUE_MANAGER = {"clock_offset", "clock_steps"}
"""What it remembers with a definition, and no script says."""
KINDS = for_each("kind", OBJECT_KINDS.values(), ids=lambda kind: kind.word)


def test_every_kind_of_definition_has_a_table() -> None:
    assert {kind.word: kind.definition for kind in OBJECT_KINDS.values()} == definitions.KINDS


@KINDS
def test_table_names_every_field_once(kind: ObjectKind) -> None:
    fields = sorted({field.name for field in msgspec.structs.fields(kind.definition)} - KEPT_BY_THE_QUEUE_MANAGER)
    named = ["name", *(attribute.field for attribute in kind.attributes)]
    if kind.word == "SUB":
        named.remove("created")  # MQ shows a date and a time
    assert sorted(named) == fields


@KINDS
def test_keyword_has_one_meaning_in_a_kind(kind: ObjectKind) -> None:
    assert len(kind.words) == len(set(kind.words))


# Kinds that say nothing while nothing is said about them.
LEAST: dict[str, Definition] = {
    "AUTHREC": AuthorityRecord(name=authority_key("QUEUE", "Q", "ann", ""), profile="Q", principal="ann"),
    "CHLAUTH": ChannelRule(name=rule_key("ADDRESSMAP", "C", address="*"), profile="C", address="*", user="ann"),
    "SUB": SubscriptionDefinition(name="X", topic="a", managed=True),
    "TOPIC": Topic(name="X", topic="a"),
}


@KINDS
def test_default_of_every_attribute_can_be_written_and_read_back(kind: ObjectKind) -> None:
    require_valid(LEAST.get(kind.word) or kind.definition(name="X"))


@for_each("definition", system_objects(), ids=lambda definition: definition.name)
def test_system_object_is_valid(definition: Definition) -> None:
    require_valid(definition)


@for_each(
    ("definition", "key"),
    [
        (LocalQueue(name="Q", depth_max=-1), "MAXDEPTH of QLOCAL(Q)"),
        (LocalQueue(name="Q", default_priority=10), "DEFPRTY of QLOCAL(Q)"),
        (LocalQueue(name="Q", description="two\nlines"), "DESCR of QLOCAL(Q)"),
        (LocalQueue(name="Q", description="x" * 65), "DESCR of QLOCAL(Q)"),
        (LocalQueue(name="Q", description="  "), "DESCR of QLOCAL(Q)"),
        (LocalQueue(name="Q", depth_high_percent=10), "QDEPTHLO of QLOCAL(Q)"),
        (AliasQueue(name="Q", target="no name"), "TARGET of QALIAS(Q)"),
        (NameList(name="N", names=("A", "")), "NAMES of NAMELIST(N)"),
        (Process(name="P", user_data="\r"), "USERDATA of PROCESS(P)"),
        (Channel(name="C", transmission_queue="X"), "XMITQ of CHANNEL(C)"),
        (Channel(name="C", channel_type="SDR", transmission_queue="X"), "CONNAME of CHANNEL(C)"),
        (Channel(name="C", channel_type="SDR", connection_name="h(1)"), "XMITQ of CHANNEL(C)"),
        (Channel(name="C", channel_type="RCVR", instances_max=5), "MAXINST of CHANNEL(C)"),
        (Channel(name="C", tls_peer="nobody"), "SSLPEER of CHANNEL(C)"),
        (Listener(name="L", port=65_536), "PORT of LISTENER(L)"),
        (Listener(name="L", address=""), "IPADDR of LISTENER(L)"),
        (AuthorityRecord(name="QUEUE/Q//", profile="Q"), "PRINCIPAL of AUTHREC(Q)"),
        (AuthorityRecord(name="QUEUE/Q/a/b", profile="Q", principal="a", group="b"), "PRINCIPAL of AUTHREC(Q)"),
        (AuthorityRecord(name="QUEUE//a/", principal="a"), "PROFILE of AUTHREC()"),
        (
            AuthorityRecord(name="QMGR/Q/a/", profile="Q", object_type="QMGR", principal="a"),
            "PROFILE of AUTHREC(Q)",
        ),
        (
            AuthorityRecord(name="QUEUE/Q/a/", profile="Q", principal="a", authorities=("CONNECT",)),
            "AUTHLIST of AUTHREC(Q)",
        ),
        (ChannelRule(name="ADDRESSMAP/C///", profile="C", user="a"), "ADDRESS of CHLAUTH(C)"),
        (ChannelRule(name="ADDRESSMAP/C/*//", profile="C", address="*"), "MCAUSER of CHLAUTH(C)"),
        (ChannelRule(name="BLOCKADDR/C/*//", profile="C", rule="BLOCKADDR", address="*"), "CHLAUTH of CHLAUTH(C)"),
        (ChannelRule(name="BLOCKUSER/C///", profile="C", rule="BLOCKUSER"), "USERLIST of CHLAUTH(C)"),
        (
            ChannelRule(name="ADDRESSMAP/C/*//", profile="C", address="*", user="a", user_source="NOACCESS"),
            "MCAUSER of CHLAUTH(C)",
        ),
        (Topic(name="T"), "TOPICSTR of TOPIC(T)"),
        (Topic(name="SYSTEM.BASE.TOPIC", topic="a"), "TOPICSTR of TOPIC(SYSTEM.BASE.TOPIC)"),
        (Topic(name="T", topic="a/#"), "TOPICSTR of TOPIC(T)"),
        (Topic(name="T", topic="a", default_priority=10), "DEFPRTY of TOPIC(T)"),
        (SubscriptionDefinition(name="it's", managed=True), "TOPICSTR of SUB(it's)"),
        (SubscriptionDefinition(name="s", topic="a"), "DEST of SUB(s)"),
        (SubscriptionDefinition(name="s", topic="a%b", wildcards="CHAR", managed=True), "TOPICSTR of SUB(s)"),
        (SubscriptionDefinition(name="s", topic="a", managed=True, priority=-3), "PUBPRTY of SUB(s)"),
        (SubscriptionDefinition(name="s", topic="a", managed=True, expiry_s=-1), "EXPIRY of SUB(s)"),
        (SubscriptionDefinition(name="s", topic="a", managed=True, correlation_id="ABC"), "DESTCORL of SUB(s)"),
        (SubscriptionDefinition(name="s", topic="a", managed=True, selector="a ="), "SELECTOR of SUB(s)"),
        (SubscriptionDefinition(name="s", topic="a", managed=True, selector="a = 'two\nlines'"), "SELECTOR of SUB(s)"),
        (SubscriptionDefinition(name="s", topic="a", managed=True, content="/a"), "CONTENT of SUB(s)"),
    ],
)
def test_definition_from_python_obeys_the_same_limits_as_a_script(definition: Definition, key: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        require_valid(definition)
    assert caught.value.key == key


@pytest.mark.parametrize(
    "definition",
    [
        LocalQueue(name="a b"),
        SubscriptionDefinition(name="", topic="a"),
        SubscriptionDefinition(name="a\tb", topic="a"),
    ],
)
def test_definition_from_python_needs_a_valid_name(definition: Definition) -> None:
    with pytest.raises(InvalidName):
        require_valid(definition)


def test_temporary_queue_is_valid_though_no_script_can_define_it() -> None:
    require_valid(LocalQueue(name="Q", dynamic="TEMPORARY"))
