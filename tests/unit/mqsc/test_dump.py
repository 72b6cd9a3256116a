# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.errors import InvalidSetting
from entrepot.mqsc import dump, require_ok, run_script
from entrepot.mqsc.forms import Form, Integer, Name, Names, Switch, Text, Words
from entrepot.mqsc.keywords import OBJECT_KINDS, ObjectKind
from entrepot.queues.definitions import (
    AliasQueue,
    Definition,
    LocalQueue,
    ManagerAttributes,
    NameList,
    Process,
    system_objects,
)

from .in_memory import InMemoryManager

NAMES = st.from_regex(r"[A-Za-z0-9._/%]{1,48}", fullmatch=True)


def values_of(form: Form) -> st.SearchStrategy[Any]:
    match form:
        case Integer(lowest, highest):
            return st.integers(lowest, highest)
        case Words():
            return st.sampled_from(list(form.meanings.values()))
        case Switch():
            return st.booleans()
        case Name():
            return st.just("") | NAMES
        case Names():
            return st.lists(NAMES, max_size=30).map(tuple)
        case Text(characters_max):
            # Signs that mean something in a script are worth more tries than others.
            signs = st.sampled_from("' \"+-*;(),aA\t") | st.characters(exclude_characters="\r\n", codec="utf-8")
            return st.text(signs, max_size=characters_max).filter(lambda text: not text or text.strip(" "))
    raise AssertionError(form)


@st.composite
def definitions_of(draw: st.DrawFn, kind: ObjectKind) -> Definition:
    chosen = [attribute for attribute in kind.attributes if draw(st.booleans())]
    fields = {attribute.field: draw(values_of(attribute.form)) for attribute in chosen}
    if not {"depth_low_percent", "depth_high_percent"}.isdisjoint(fields):
        low, high = sorted(draw(st.tuples(st.integers(0, 100), st.integers(0, 100))))
        fields |= {"depth_low_percent": low, "depth_high_percent": high}
    return kind.definition(name=draw(NAMES), **fields)


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


def test_manager_with_defaults_only_needs_no_command() -> None:
    assert dump(InMemoryManager()) == "* The objects of queue manager TEST\n"


def test_system_objects_survive_a_dump() -> None:
    manager = InMemoryManager(*system_objects())
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
