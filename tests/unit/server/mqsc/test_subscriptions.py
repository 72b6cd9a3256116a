# SPDX-License-Identifier: Apache-2.0
"""Topics and subscriptions defined, altered, displayed and deleted."""

from __future__ import annotations

import pytest

from entrepot.engine.definitions import (
    AuthorityRecord,
    Definition,
    LocalQueue,
    SubscriptionDefinition,
    Topic,
    authority_key,
)
from entrepot.errors import MqscCommandFailed
from entrepot.server.mqsc import Answer, require_ok, run_script
from entrepot.server.security.authority import RequiredAuthority, needed_for
from folding import for_each

from .in_memory import InMemoryManager

GOLD = SubscriptionDefinition(
    name="gold",
    topic="price/gold",
    destination="Q",
    selector="a > 1",
    user="ann",
    type="API",
    created=1_700_000_000.0,
    expiry_s=60.0,
    priority=5,
)
MANAGED = SubscriptionDefinition(
    name="its own", topic="price/*", wildcards="CHAR", managed=True, destination="SYSTEM.MANAGED.1"
)
PROXY = SubscriptionDefinition(name="proxy", topic="#", destination="X", type="PROXY", durable=False)
PRICES = Topic(name="PRICES", topic="price", default_priority=4)


@pytest.fixture
def manager() -> InMemoryManager:
    return InMemoryManager(
        LocalQueue(name="Q"), Topic(name="SYSTEM.BASE.TOPIC"), PRICES, Topic(name="ALL"), GOLD, MANAGED, PROXY
    )


def only(manager: InMemoryManager, text: str) -> Answer:
    (answer,) = run_script(text, manager)
    assert answer.ok, answer.lines
    return answer


def made(text: str, kind: str, name: str, manager: InMemoryManager | None = None) -> Definition | None:
    manager = manager or InMemoryManager()
    require_ok(run_script(text, manager))
    return manager.find(kind, name)


# --- topics -----------------------------------------------------------------------------------------


def test_define_makes_a_topic_with_all_its_attributes() -> None:
    script = """
        DEFINE TOPIC(t) TOPICSTR('price/Gold') DESCR('Gold') PUB(DISABLED) SUB(ENABLED) DURSUB(NO) DEFPSIST(YES) +
               DEFPRTY(7) PMSGDLV(ALL) NPMSGDLV(ALLDUR) USEDLQ(NO) PUBSCOPE(QMGR) SUBSCOPE(ALL) WILDCARD(BLOCK) +
               MDURMDL(D) MNDURMDL(N) TYPE(LOCAL) NOREPLACE
    """
    assert made(script, "TOPIC", "T") == Topic(
        name="T",
        topic="price/Gold",
        description="Gold",
        publish="DISABLED",
        subscribe="ENABLED",
        durable="NO",
        default_persistent="YES",
        default_priority=7,
        persistent_reach="ALL",
        nonpersistent_reach="ALLDUR",
        use_dead_letter_queue="NO",
        publication_scope="QMGR",
        subscription_scope="ALL",
        wildcard="BLOCK",
        durable_model="D",
        nondurable_model="N",
    )


def test_topic_asks_its_parent_unless_it_says_more() -> None:
    assert made("DEF TOPIC(T) TOPICSTR('a')", "TOPIC", "T") == Topic(name="T", topic="a")
    words = "PUB(asparent) SUB(ASPARENT) DEFPRTY(asparent) PMSGDLV(ASPARENT)"
    assert made(f"DEF TOPIC(T) TOPICSTR('a') {words}", "TOPIC", "T") == Topic(name="T", topic="a")


def test_topic_is_altered_copied_and_deleted(manager: InMemoryManager) -> None:
    require_ok(
        run_script(
            "ALTER TOPIC(PRICES) DEFPRTY(ASPARENT) PUB(DISABLED); DEFINE TOPIC(GOLD) TOPICSTR('gold') LIKE(PRICES)",
            manager,
        )
    )
    assert manager.find("TOPIC", "GOLD") == Topic(name="GOLD", topic="gold", publish="DISABLED")
    assert only(manager, "DELETE TOPIC(PRICES)").lines == ["Topic object PRICES deleted."]
    assert manager.find("TOPIC", "PRICES") is None


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("DEFPRTY EQ ASPARENT", ["ALL", "SYSTEM.BASE.TOPIC"]),
        ("DEFPRTY NE ASPARENT", ["PRICES"]),
        ("DEFPRTY GT 3", ["PRICES"]),
        ("DEFPRTY LE 3", []),
        ("DEFPRTY EQ 4", ["PRICES"]),
        ("DEFPRTY NE 4", ["ALL", "SYSTEM.BASE.TOPIC"]),
        ("DEFPRTY LK AS*", ["ALL", "SYSTEM.BASE.TOPIC"]),
        ("TOPICSTR EQ 'price'", ["PRICES"]),
        ("PUB EQ ASPARENT", ["ALL", "PRICES", "SYSTEM.BASE.TOPIC"]),
    ],
)
def test_where_selects_topics(manager: InMemoryManager, condition: str, names: list[str]) -> None:
    assert [row["TOPIC"] for row in only(manager, f"DIS TOPIC(*) WHERE({condition})").rows] == names


def test_display_shows_a_topic_under_mq_keywords(manager: InMemoryManager) -> None:
    assert only(manager, "DIS TOPIC(PRICES) TOPICSTR DEFPRTY PUB").rows == (
        {"TOPIC": "PRICES", "TOPICSTR": "price", "DEFPRTY": 4, "PUB": "ASPARENT"},
    )
    answer = only(manager, "DIS TOPIC(*) TYPE(LOCAL) CLUSTER")
    assert [row["TOPIC"] for row in answer.rows] == ["ALL", "PRICES", "SYSTEM.BASE.TOPIC"]
    assert len(answer.warnings) == 2


# --- subscriptions ----------------------------------------------------------------------------------


def test_define_makes_a_subscription_with_all_its_attributes() -> None:
    script = """
        DEFINE SUB('My "gold": it''s') TOPICSTR('price/Gold*') WSCHEMA(CHAR) DEST(Q) DESTQMGR(QM2) +
               DESTCLAS(PROVIDED) SELECTOR('region = ''EU''') CONTENT('xpath:/order[total > 100]') PUBPRTY(ASQDEF) +
               DESTCORL('00aF') USERDATA('x') EXPIRY(15) SUBSCOPE(QMGR) SHARED(YES) DESCR('Gold') REPLACE
    """
    name = 'My "gold": it\'s'
    assert made(script, "SUB", name) == SubscriptionDefinition(
        name=name,
        description="Gold",
        topic="price/Gold*",
        wildcards="CHAR",
        destination="Q",
        destination_manager="QM2",
        selector="region = 'EU'",
        content="xpath:/order[total > 100]",
        priority=-2,
        correlation_id="00aF",
        user_data="x",
        expiry_s=1.5,
        scope="QMGR",
        shared=True,
    )


def test_name_without_quotes_is_folded_and_other_names_are_kept() -> None:
    script = "DEF SUB(gold) TOPICSTR(a) DESTCLAS(MANAGED); DEF SUB('gold') TOPICSTR('a') DESTCLAS(MANAGED)"
    manager = InMemoryManager()
    require_ok(run_script(script, manager))
    assert list(manager.definitions()) == [
        SubscriptionDefinition(name="GOLD", topic="A", managed=True),
        SubscriptionDefinition(name="gold", topic="a", managed=True),
    ]


@pytest.mark.parametrize(
    ("said", "topic"),
    [
        ("TOPICOBJ(PRICES) TOPICSTR('gold/#')", "price/gold/#"),
        ("TOPICOBJ(PRICES)", "price"),
        ("TOPICOBJ(PRICES) TOPICSTR('/gold')", "price//gold"),
        ("TOPICOBJ(SYSTEM.BASE.TOPIC) TOPICSTR('gold')", "gold"),
        ("TOPICOBJ(PRICES) LIKE('gold')", "price"),
        ("TOPICOBJ('') TOPICSTR('gold')", "gold"),
        ("LIKE('gold')", "price/gold"),
        ("LIKE('gold') TOPICSTR('b')", "b"),
    ],
)
def test_topic_object_stands_before_the_topic(manager: InMemoryManager, said: str, topic: str) -> None:
    found = made(f"DEFINE SUB('s') {said} DEST(Q)", "SUB", "s", manager)
    assert isinstance(found, SubscriptionDefinition)
    assert found.topic == topic


def test_like_copies_what_a_subscription_is_about_and_not_how_it_came_to_be(manager: InMemoryManager) -> None:
    assert made("DEFINE SUB('s') LIKE('gold') PUBPRTY(ASPUB)", "SUB", "s", manager) == SubscriptionDefinition(
        name="s", topic="price/gold", destination="Q", selector="a > 1", expiry_s=60.0
    )
    assert made("DEFINE SUB('t') LIKE('its own')", "SUB", "t", manager) == SubscriptionDefinition(
        name="t", topic="price/*", wildcards="CHAR", managed=True
    )


def test_alter_changes_only_what_it_names(manager: InMemoryManager) -> None:
    found = made("ALTER SUB('gold') EXPIRY(UNLIMITED) PUBPRTY(3) SELECTOR(' ')", "SUB", "gold", manager)
    assert found == SubscriptionDefinition(
        name="gold",
        topic="price/gold",
        destination="Q",
        user="ann",
        type="API",
        created=1_700_000_000.0,
        priority=3,
    )


def test_replace_keeps_what_the_queue_manager_decided(manager: InMemoryManager) -> None:
    found = made("DEFINE SUB('gold') TOPICSTR('price/gold') DEST(Q) REPLACE", "SUB", "gold", manager)
    assert found == SubscriptionDefinition(
        name="gold", topic="price/gold", destination="Q", user="ann", type="API", created=1_700_000_000.0
    )


@for_each(
    ("text", "column", "problem"),
    [
        ("ALTER SUB('none') DEST(Q)", 11, "there is no SUB none"),
        ("ALTER SUB(gold) DEST(Q)", 11, "there is no SUB GOLD"),
        ("DELETE SUB('none')", 12, "there is no SUB none"),
        ("ALTER SUB('gold') DEST('')", 19, "DEST of SUB(gold) cannot be missing. Expected: the queue for its"),
        ("ALTER SUB('its own') DEST(Q)", 22, "DEST does not go with its own, whose DESTCLAS is MANAGED"),
        ("ALTER SUB('its own') DESTQMGR(Q)", 22, "DESTQMGR does not go with its own"),
        ("DEFINE SUB('s') LIKE('its own') DEST(Q)", 33, "DEST does not go with s, whose DESTCLAS is MANAGED"),
        ("ALTER SUB('proxy') DEST(Q)", 11, "proxy belongs to another queue manager"),
        ("DEFINE SUB('proxy') TOPICSTR('#') DEST(Q) REPLACE", 12, "proxy belongs to another queue manager"),
        ("DEFINE SUB('s') TOPICOBJ(NONE) DEST(Q)", 26, "there is no TOPIC NONE"),
        ("DEFINE SUB('s') TOPICOBJ(SYSTEM.BASE.TOPIC) DEST(Q)", 12, "TOPICSTR of SUB(s) cannot be missing"),
        ("DEFINE SUB('s') LIKE('its own') TOPICSTR('a%b')", 33, "column 2: % stands only before *, ? or another %"),
        ("DEFINE SUB('s') LIKE('none')", 22, "there is no SUB none"),
        ("DEFINE SUB('gold') TOPICSTR('price/gold') DEST(Q)", 12, "a SUB gold exists already"),
        (
            "DEFINE SUB('gold') DEST(Q) TOPICSTR('other') REPLACE",
            28,
            "gold has TOPICSTR('price/gold'), which REPLACE cannot change (DELETE it first)",
        ),
        (
            "DEFINE SUB('gold') TOPICSTR('price/gold') DESTCLAS(MANAGED) REPLACE",
            43,
            "gold has DESTCLAS(PROVIDED), which REPLACE cannot change",
        ),
        ("DEFINE SUB('its own') TOPICSTR('price/*') DESTCLAS(MANAGED) REPLACE", 12, "its own has WSCHEMA(CHAR)"),
        ("DEFINE TOPIC(PRICES) TOPICSTR('other') REPLACE", 22, "PRICES has TOPICSTR('price')"),
        ("DEFINE TOPIC(T) TOPICSTR(' ')", 17, "TOPICSTR of TOPIC(T) cannot be nothing. Expected: a topic"),
        ("DEFINE TOPIC(SYSTEM.BASE.TOPIC) TOPICSTR('a') REPLACE", 33, "SYSTEM.BASE.TOPIC is the root of all topics"),
    ],
)
def test_command_that_does_not_suit_the_objects_changes_nothing(
    manager: InMemoryManager, text: str, column: int, problem: str
) -> None:
    before = dict(manager.objects)
    (answer,) = run_script(text, manager)
    assert isinstance(answer.error, MqscCommandFailed)
    assert answer.error.column == column
    assert problem in answer.error.problem
    assert manager.objects == before


def test_display_shows_a_subscription_under_mq_keywords(manager: InMemoryManager) -> None:
    assert only(manager, "DISPLAY SUB('gold')").rows == (
        {
            "SUB": "gold",
            "TOPICSTR": "price/gold",
            "WSCHEMA": "TOPIC",
            "DESCR": "",
            "SELECTOR": "a > 1",
            "CONTENT": "",
            "DESTCLAS": "PROVIDED",
            "DEST": "Q",
            "DESTQMGR": "",
            "DESTCORL": "",
            "PUBPRTY": 5,
            "USERDATA": "",
            "EXPIRY": 600,
            "SUBSCOPE": "ALL",
            "SHARED": "NO",
            "VARUSER": "FIXED",
            "DURABLE": "YES",
            "SUBTYPE": "API",
            "SUBUSER": "ann",
            "CRDATE": "2023-11-14",
            "CRTIME": "22.13.20",
        },
    )


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("(*)", ["gold", "its own", "proxy"]),
        ("('its*')", ["its own"]),
        ("(*) SUBTYPE(API)", ["gold"]),
        ("(*) SUBTYPE(ALL) DURABLE(YES)", ["gold", "its own"]),
        ("(*) DURABLE(NO) DEST", ["proxy"]),
        ("(*) WHERE(EXPIRY EQ UNLIMITED)", ["its own", "proxy"]),
        ("(*) WHERE(EXPIRY LT 601)", ["gold"]),
        ("(*) WHERE(PUBPRTY EQ aspub)", ["its own", "proxy"]),
        ("(*) WHERE(DESTCLAS EQ MANAGED)", ["its own"]),
        ("(*) WHERE(TOPICSTR LK 'price/*')", ["gold", "its own"]),
        ("(*) WHERE(CRDATE GE 2023-01-01)", ["gold"]),
        ("(*) WHERE(SUBUSER EQ 'ann')", ["gold"]),
    ],
)
def test_display_selects_subscriptions(manager: InMemoryManager, said: str, names: list[str]) -> None:
    assert [row["SUB"] for row in only(manager, f"DISPLAY SUB{said}").rows] == names


def test_topic_object_of_a_subscription_is_not_kept(manager: InMemoryManager) -> None:
    answer = only(manager, "DISPLAY SUB('gold') TOPICOBJ TOPICSTR SUBID")
    assert answer.rows == ({"SUB": "gold", "TOPICSTR": "price/gold"},)
    assert answer.warnings == (
        "TOPICOBJ: DEFINE uses it and does not keep it, so it is not shown",
        "SUBID: without effect here, so it is not shown",
    )


def test_delete_ends_a_subscription(manager: InMemoryManager) -> None:
    assert only(manager, "DELETE SUB('its own')").lines == ["Subscription its own deleted."]
    assert manager.find("SUB", "its own") is None


def test_condition_that_a_program_said_in_lines_is_shown_in_one() -> None:
    manager = InMemoryManager(
        SubscriptionDefinition(name="s", topic="a", managed=True, selector="a = 1\n  AND b = 'x'")
    )
    assert only(manager, "DISPLAY SUB('s') SELECTOR").rows == ({"SUB": "s", "SELECTOR": "a = 1   AND b = 'x'"},)


# --- the rest ---------------------------------------------------------------------------------------


def test_queue_manager_has_a_parent_or_none() -> None:
    manager = InMemoryManager()
    only(manager, "ALTER QMGR PARENT(ABOVE)")
    assert manager.attributes.parent == "ABOVE"
    assert only(manager, "DISPLAY QMGR PARENT").rows == ({"QMNAME": "TEST", "PARENT": "ABOVE"},)
    only(manager, "ALTER QMGR PARENT('')")
    assert manager.attributes.parent == ""


def test_authorities_for_topics_are_given() -> None:
    manager = InMemoryManager()
    answer = only(
        manager, "SET AUTHREC PROFILE('PRICES.**') OBJTYPE(TOPIC) PRINCIPAL('ann') AUTHADD(PUB, SUB, CTRL, RESUME)"
    )
    assert answer.warnings == ("RESUME: accepted without effect",)
    key = authority_key("TOPIC", "PRICES.**", "ann", "")
    assert manager.find("AUTHREC", key) == AuthorityRecord(
        name=key, profile="PRICES.**", object_type="TOPIC", principal="ann", authorities=("PUB", "SUB", "CTRL")
    )
    (answer,) = run_script("SET AUTHREC PROFILE(T) OBJTYPE(TOPIC) PRINCIPAL('ann') AUTHADD(PUT)", manager)
    assert "AUTHADD of a TOPIC takes PUB, SUB, DSP, CRT, CHG, DLT, CLR or CTRL, not PUT" in answer.lines[0]


@for_each(
    ("command", "need"),
    [
        ("DEFINE TOPIC", RequiredAuthority("TOPIC", "CRT")),
        ("ALTER TOPIC", RequiredAuthority("TOPIC", "CHG")),
        ("DELETE TOPIC", RequiredAuthority("TOPIC", "DLT")),
        ("DISPLAY TOPIC", RequiredAuthority("TOPIC", "DSP")),
        ("DISPLAY TPSTATUS", RequiredAuthority("TOPIC", "DSP")),
        ("CLEAR TOPIC", RequiredAuthority("TOPIC", "CLR")),
        ("DEFINE SUB", None),
        ("ALTER SUB", None),
        ("DELETE SUB", None),
        ("DISPLAY SUB", RequiredAuthority("QMGR", "DSP")),
        ("DISPLAY SBSTATUS", RequiredAuthority("QMGR", "DSP")),
        ("DISPLAY PUBSUB", RequiredAuthority("QMGR", "DSP")),
    ],
)
def test_subscriptions_take_an_administrator_and_topics_an_authority(
    command: str, need: RequiredAuthority | None
) -> None:
    verb, kind = command.split()
    assert needed_for(verb, kind) == need
