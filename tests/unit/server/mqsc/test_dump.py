# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.engine.definitions import (
    AliasQueue,
    AuthorityRecord,
    Channel,
    ChannelRule,
    Definition,
    Listener,
    LocalQueue,
    ManagerAttributes,
    NameList,
    Process,
    SubscriptionDefinition,
    Topic,
    authority_key,
    rule_key,
    system_objects,
)
from entrepot.errors import InvalidSetting
from entrepot.server.mqsc import dump, require_ok, run_script
from entrepot.server.mqsc.addresses import AddressPattern, ConnectionName, ListenerAddress, PeerPattern
from entrepot.server.mqsc.forms import (
    Form,
    Hex,
    Integer,
    Name,
    Names,
    NumberOrWord,
    ProfileForm,
    SeveralWords,
    Switch,
    Text,
    Texts,
    Words,
)
from entrepot.server.mqsc.keywords import OBJECT_KINDS
from entrepot.server.mqsc.object_kind import ObjectKind
from entrepot.server.mqsc.security_keywords import authorities_of
from entrepot.server.mqsc.topic_keywords import ContentFilterForm, SelectorForm, TopicNameForm

from .in_memory import InMemoryManager

NAMES = st.from_regex(r"[A-Za-z0-9._/%]{1,48}", fullmatch=True)
SUBSCRIPTION_NAMES = st.text(st.characters(codec="utf-8") | st.sampled_from("' *+-;("), min_size=1).filter(
    str.isprintable
)
TOPICS = st.sampled_from(["a", "/", "price/Gold", "it's", "a b/ c", "x" * 200, "a/" * 60])
TOPIC_PATTERNS = TOPICS | st.sampled_from(["#", "+/a/#", "a/*", "?%*"])
PATTERNS = st.from_regex(r"[A-Za-z0-9._/%*?]{1,48}", fullmatch=True)


def values_of(form: Form) -> st.SearchStrategy[Any]:
    match form:
        case Integer(lowest, highest, unit):
            return st.integers(lowest, highest).map(lambda number: number * unit)
        case Words():
            return st.sampled_from(list(form.meanings.values()))
        case Switch():
            return st.booleans()
        case Name():
            return st.just("") | NAMES
        case Names():
            return st.lists(NAMES, max_size=30).map(tuple)
        case Text(characters_max):
            return texts(characters_max)
        case Texts(texts_max, characters_max):
            return st.lists(texts(characters_max).filter(bool), max_size=min(texts_max, 5), unique=True).map(tuple)
        case ProfileForm():
            return PATTERNS
        case SeveralWords(words):
            return st.lists(st.sampled_from(words), unique=True).map(tuple)
        case ListenerAddress():
            return st.sampled_from(["0.0.0.0", "::1", "localhost"])
        case ConnectionName():
            return st.sampled_from(["", "h(1414)", "h", "h(1),10.0.0.1(2)", "unix:/tmp/it's here"])
        case AddressPattern():
            return st.sampled_from(["", "*", "unix", "10.0.0.1-20", "192.168.*", "10.0.0.0/8", "::1"])
        case PeerPattern():
            return st.sampled_from(["", "CN=app*,O=Port", 'O="Port, Inc"', "CN=it's"])
        case NumberOrWord(lowest, highest, meanings, parts):
            numbers = st.integers(lowest, highest).map(lambda number: number if parts == 1 else number / parts)
            return numbers | st.sampled_from(list(meanings.values()))
        case Hex(bytes_max):
            return st.binary(max_size=bytes_max).map(bytes.hex)
        case TopicNameForm():
            return TOPICS
        case SelectorForm():
            return st.sampled_from(["", "a > 1", "region = 'it''s' AND " + "amount > 1 AND " * 30 + "b LIKE '%x'"])
        case ContentFilterForm():
            return st.sampled_from(["", "xpath:/order[total > 100]", 'xpath:/a[b = "it\'s"]'])
    raise AssertionError(form)


def texts(characters_max: int) -> st.SearchStrategy[str]:
    # Signs that mean something in a script are worth more tries than others.
    signs = st.sampled_from("' \"+-*;(),aA\t") | st.characters(exclude_characters="\r\n", codec="utf-8")
    return st.text(signs, max_size=characters_max).filter(lambda text: not text or text.strip(" "))


@st.composite
def definitions_of(draw: st.DrawFn, kind: ObjectKind) -> Definition:
    variant = {kind.variant_field: draw(values_of(kind.variant.form))} if kind.variant else {}
    attributes = kind.attributes_of(kind.definition(name="X", **variant))
    settable = [attribute for attribute in attributes if not attribute.shown_only]
    fields = {each.field: draw(values_of(each.form)) for each in settable if draw(st.booleans())} | variant
    if not {"depth_low_percent", "depth_high_percent"}.isdisjoint(fields):
        low, high = sorted(draw(st.tuples(st.integers(0, 100), st.integers(0, 100))))
        fields |= {"depth_low_percent": low, "depth_high_percent": high}
    return made_whole(kind.definition(name=draw(NAMES), **fields), draw)


def made_whole(definition: Definition, draw: st.DrawFn) -> Definition:
    """The definition with what it cannot be without, and the name that goes with it."""
    changed: dict[str, Any] = {}
    match definition:
        case Channel(channel_type="SDR"):
            changed = {
                "connection_name": definition.connection_name or "h(1)",
                "transmission_queue": definition.transmission_queue or "X",
            }
        case Topic():
            changed = {"topic": definition.topic or "a"}
        case SubscriptionDefinition():
            changed = {
                "name": draw(SUBSCRIPTION_NAMES),
                "topic": draw(TOPIC_PATTERNS),
                "destination": "" if definition.managed else definition.destination or "Q",
                "destination_manager": "" if definition.managed else definition.destination_manager,
            }
        case AuthorityRecord():
            kind = definition.object_type
            changed = {
                "profile": "" if kind == "QMGR" else definition.profile or "**",
                "principal": "" if definition.group else definition.principal or "ann",
                "authorities": draw(st.lists(st.sampled_from(authorities_of(kind)), unique=True).map(tuple)),
            }
            key = (kind, changed["profile"], changed["principal"], definition.group)
            changed["name"] = authority_key(*key)
        case ChannelRule():
            blocking = definition.rule in ("BLOCKADDR", "BLOCKUSER")
            source = "MAP" if blocking else definition.user_source
            needs = {"ADDRESSMAP": "address", "BLOCKADDR": "address", "USERMAP": "client_user"}
            needs |= {"SSLPEERMAP": "tls_peer", "BLOCKUSER": "users"}
            least = {"address": "*", "client_user": "ann", "tls_peer": "CN=ann", "users": ("ann",)}
            need = needs[definition.rule]
            changed = {
                "profile": "*" if definition.rule == "BLOCKADDR" else definition.profile or "C",
                "user_source": source,
                "user": (definition.user or "bob") if source == "MAP" and not blocking else "",
                need: getattr(definition, need) or least[need],
            }
            rule = msgspec.structs.replace(definition, **changed)
            matched = {"address": rule.address, "client_user": rule.client_user, "tls_peer": rule.tls_peer}
            changed["name"] = rule_key(rule.rule, rule.profile, **matched)
    return msgspec.structs.replace(definition, **changed)


DEFINITIONS = st.one_of([definitions_of(kind) for kind in OBJECT_KINDS.values() if not kind.only_one])


def copied(manager: InMemoryManager) -> InMemoryManager:
    copy = InMemoryManager(name="COPY")
    require_ok(run_script(dump(manager), copy))
    return copy


@given(definitions_of(OBJECT_KINDS["QMGR"]), st.lists(DEFINITIONS, max_size=4))
def test_dump_makes_equal_objects_at_a_new_manager(attributes: Definition, objects: list[Definition]) -> None:
    manager = InMemoryManager()
    manager.alter(attributes)
    for definition in objects:
        manager.define(definition, replace=True)
    copy = copied(manager)
    assert msgspec.structs.replace(copy.attributes, name=attributes.name) == attributes
    temporary = {name for name, one in manager.objects.items() if getattr(one, "dynamic", "") == "TEMPORARY"}
    assert copy.objects == {name: one for name, one in manager.objects.items() if name not in temporary}


@given(st.lists(DEFINITIONS, max_size=4))
def test_dump_of_what_a_dump_made_is_the_same(objects: list[Definition]) -> None:
    manager = InMemoryManager(name="COPY")
    for definition in objects:
        manager.define(definition, replace=True)
    assert dump(copied(manager)) == dump(manager)


def test_dump_says_only_what_differs_from_the_default() -> None:
    manager = InMemoryManager(
        Process(name="P", application_id="/bin/run it's"),
        LocalQueue(name="lower", depth_max=7, trigger_enabled=True, backout_hardened=False),
        AliasQueue(name="ALIAS", target="lower"),
        LocalQueue(name="A"),
        NameList(name="N", names=("A", "lower")),
        LocalQueue(name="AMQ.1", dynamic="TEMPORARY"),
        LocalQueue(name="AMQ.2", dynamic="PERMANENT"),
    )
    manager.alter(ManagerAttributes(name="TEST", dead_letter_queue=""))
    assert (
        dump(manager)
        == """\
* The objects of queue manager TEST
ALTER QMGR +
       DEADQ(' ')
DEFINE QLOCAL(A) +
       REPLACE
DEFINE QLOCAL(AMQ.2) +
       DEFTYPE(PERMDYN) +
       REPLACE
DEFINE QLOCAL('lower') +
       MAXDEPTH(7) +
       NOHARDENBO +
       TRIGGER +
       REPLACE
DEFINE QALIAS(ALIAS) +
       TARGET('lower') +
       REPLACE
DEFINE PROCESS(P) +
       APPLICID('/bin/run it''s') +
       REPLACE
DEFINE NAMELIST(N) +
       NAMES(A,'lower') +
       REPLACE
"""
    )


def test_dump_says_how_channels_rules_and_authorities_came_to_be() -> None:
    manager = InMemoryManager(
        Listener(name="L", port=0),
        Channel(name="IN"),
        Channel(name="OUT", channel_type="SDR", connection_name="h(1414)", transmission_queue="X"),
        ChannelRule(
            name=rule_key("ADDRESSMAP", "IN*", address="10.*"), profile="IN*", address="10.*", user_source="NOACCESS"
        ),
        AuthorityRecord(
            name=authority_key("QUEUE", "A.**", "", "staff"), profile="A.**", group="staff", authorities=("PUT", "GET")
        ),
        AuthorityRecord(name=authority_key("QMGR", "", "ann", ""), object_type="QMGR", principal="ann"),
    )
    assert (
        dump(manager)
        == """\
* The objects of queue manager TEST
DEFINE CHANNEL(IN) +
       CHLTYPE(SVRCONN) +
       REPLACE
DEFINE CHANNEL(OUT) +
       CHLTYPE(SDR) +
       CONNAME('h(1414)') +
       XMITQ(X) +
       REPLACE
DEFINE LISTENER(L) +
       PORT(0) +
       REPLACE
SET CHLAUTH('IN*') +
       TYPE(ADDRESSMAP) +
       ADDRESS('10.*') +
       USERSRC(NOACCESS) +
       ACTION(REPLACE)
SET AUTHREC +
       OBJTYPE(QMGR) +
       PRINCIPAL('ann') +
       AUTHRMV(ALL) +
       AUTHADD(NONE)
SET AUTHREC +
       PROFILE('A.**') +
       OBJTYPE(QUEUE) +
       GROUP('staff') +
       AUTHRMV(ALL) +
       AUTHADD(PUT,GET)
"""
    )


def test_dump_takes_back_what_was_given_since() -> None:
    manager = InMemoryManager(*system_objects())
    script = "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)"
    require_ok(run_script(script, manager))
    saved, before = dump(manager), dict(manager.objects)
    later = "SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('ann'); " + script.replace("PUT", "ALL")
    require_ok(run_script(later, manager))
    assert manager.objects != before
    require_ok(run_script(saved, manager))
    assert manager.objects == before


def test_manager_with_defaults_only_needs_no_command() -> None:
    assert dump(InMemoryManager()) == "* The objects of queue manager TEST\n"


def test_system_objects_survive_a_dump() -> None:
    manager = InMemoryManager(*system_objects())
    assert copied(manager).objects == manager.objects


def test_dump_says_topics_before_subscriptions_and_leaves_out_what_comes_by_itself() -> None:
    manager = InMemoryManager(
        SubscriptionDefinition(
            name="gold",
            topic="price/gold",
            destination="Q",
            selector="a > 1\n AND b = 'it''s'",
            expiry_s=1.04,
            created=1.0,
            user="ann",
            type="API",
        ),
        SubscriptionDefinition(
            name="Its own",
            topic="price/*",
            wildcards="CHAR",
            managed=True,
            destination="SYSTEM.MANAGED.DURABLE.1",
            priority=-2,
            shared=True,
        ),
        SubscriptionDefinition(
            name="brief", topic="a", managed=True, destination="SYSTEM.MANAGED.NDURABLE.1", durable=False
        ),
        SubscriptionDefinition(name="proxy", topic="a", destination="Q", type="PROXY"),
        LocalQueue(name="SYSTEM.MANAGED.DURABLE.1", dynamic="PERMANENT"),
        LocalQueue(name="SYSTEM.MANAGED.NDURABLE.1", dynamic="TEMPORARY"),
        LocalQueue(name="Q"),
        Topic(name="PRICES", topic="price", default_priority=0, wildcard="BLOCK"),
    )
    manager.alter(ManagerAttributes(name="TEST", parent="ABOVE"))
    assert (
        dump(manager)
        == """\
* The objects of queue manager TEST
ALTER QMGR +
       PARENT(ABOVE)
DEFINE QLOCAL(Q) +
       REPLACE
DEFINE TOPIC(PRICES) +
       TOPICSTR('price') +
       DEFPRTY(0) +
       WILDCARD(BLOCK) +
       REPLACE
DEFINE SUB('Its own') +
       TOPICSTR('price/*') +
       WSCHEMA(CHAR) +
       DESTCLAS(MANAGED) +
       PUBPRTY(ASQDEF) +
       SHARED(YES) +
       REPLACE
DEFINE SUB('gold') +
       TOPICSTR('price/gold') +
       SELECTOR('a > 1  AND b = ''it''''s''') +
       DEST(Q) +
       EXPIRY(10) +
       REPLACE
"""
    )


def test_dump_changes_no_subscription_of_the_manager_it_is_of() -> None:
    manager = InMemoryManager(
        SubscriptionDefinition(name="s", topic="a", destination="Q", user="ann", type="API", created=1.0, expiry_s=0.1)
    )
    before = dict(manager.objects)
    require_ok(run_script(dump(manager), manager))
    assert manager.objects == before


def test_long_name_of_a_subscription_is_continued_within_72_columns() -> None:
    manager = InMemoryManager(SubscriptionDefinition(name="it's long " * 100, topic="a", managed=True))
    assert max(len(line) for line in dump(manager).splitlines()) <= 72
    assert copied(manager).objects == manager.objects


def test_buffer_beyond_all_memory_survives_a_dump() -> None:
    manager = InMemoryManager(LocalQueue(name="A", buffer_bytes=2**62))
    assert copied(manager).objects == manager.objects


def test_long_values_are_continued_within_72_columns() -> None:
    manager = InMemoryManager(
        NameList(name="N", names=tuple(f"QUEUE.NUMBER.{number}" for number in range(50))),
        Process(name="P", application_id="word " * 30 + "x" * 100),
    )
    assert max(len(line) for line in dump(manager).splitlines()) <= 72
    assert copied(manager).objects == manager.objects


@pytest.mark.parametrize("text", ["x" + " " * 200 + "y", "*" * 256, "+" * 256, "-" * 256, "'" * 256, "x" + " " * 255])
def test_awkward_long_values_survive_a_dump(text: str) -> None:
    manager = InMemoryManager(Process(name="P", application_id=text))
    assert copied(manager).objects == manager.objects


def test_value_that_no_script_can_say_is_refused_by_name() -> None:
    manager = InMemoryManager(LocalQueue(name="A", description="two\nlines"))
    with pytest.raises(InvalidSetting, match=r"DESCR of QLOCAL\(A\)"):
        dump(manager)
