# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec

from entrepot.engine.definitions import (
    AliasQueue,
    Channel,
    Definition,
    LocalQueue,
    ManagerAttributes,
    ModelQueue,
    RemoteQueue,
    Topic,
)
from entrepot.server.security.authority import needed_for
from entrepot.server.security.targets import rights_on_targets

DEFINED: list[tuple[Definition, set[tuple[str, str]]]] = [
    (LocalQueue(name="Q"), set()),
    (LocalQueue(name="Q", stream_queue="S", backout_queue="B"), {("S", "PUT"), ("B", "PUT")}),
    (ModelQueue(name="M", stream_queue="S"), {("S", "PUT")}),
    (AliasQueue(name="A", target="T"), {("T", "PUT"), ("T", "GET"), ("T", "BROWSE")}),
    (AliasQueue(name="A", target="T", get_enabled=False), {("T", "PUT")}),
    (AliasQueue(name="A", target="T", put_enabled=False), {("T", "GET"), ("T", "BROWSE")}),
    (AliasQueue(name="A"), set()),
    (AliasQueue(name="A", target="T", put_enabled=False, get_enabled=False), set()),
    (RemoteQueue(name="R", remote_queue="X", remote_manager="QM2"), {("QM2", "PUT")}),
    (RemoteQueue(name="R", remote_queue="X", remote_manager="QM1", transmission_queue="W"), {("W", "PUT")}),
    (RemoteQueue(name="R", remote_queue="SYSTEM.X", remote_manager="QM1"), {("SYSTEM.X", "PUT")}),
    (RemoteQueue(name="R", remote_queue="X", remote_manager="QM2", transmission_queue="W"), {("W", "PUT")}),
    (RemoteQueue(name="R", remote_queue="X", remote_manager="QM1"), {("X", "PUT")}),
    (RemoteQueue(name="QM3", remote_manager="QM2"), {("QM2", "PUT")}),
    (RemoteQueue(name="R", remote_queue="SYSTEM.X", remote_manager="QM2"), {("QM2", "PUT"), ("SYSTEM.X", "PUT")}),
    (Channel(name="C", channel_type="SDR", transmission_queue="W"), {("W", "GET")}),
    (Topic(name="T", durable_model="M", nondurable_model="N"), {("M", "GET"), ("N", "GET")}),
    (
        ManagerAttributes(name="QM1", dead_letter_queue="D", default_transmission_queue="W"),
        {("D", "PUT"), ("W", "PUT")},
    ),
]


def fields(definition: Definition) -> set[str]:
    return set(msgspec.structs.asdict(definition))


def test_a_definition_takes_of_its_definer_what_it_grants() -> None:
    for definition, rights in DEFINED:
        assert set(rights_on_targets(definition, fields(definition), "QM1")) == rights, definition


def test_a_change_of_other_attributes_takes_nothing_more() -> None:
    for definition, _ in DEFINED:
        assert list(rights_on_targets(definition, {"description", "default_priority"}, "QM1")) == [], definition


def test_opening_an_alias_that_was_inhibited_takes_what_it_grants_from_then_on() -> None:
    alias = AliasQueue(name="A", target="T", get_enabled=False)
    assert list(rights_on_targets(alias, {"put_enabled"}, "QM1")) == [("T", "PUT")]
    remote = RemoteQueue(name="R", remote_queue="X", remote_manager="QM2")
    assert list(rights_on_targets(remote, {"put_enabled"}, "QM1")) == [("QM2", "PUT")]


def test_what_triggers_programs_takes_an_administrator() -> None:
    for kind in ("QLOCAL", "QMODEL"):
        for verb in ("DEFINE", "ALTER"):
            assert needed_for(verb, kind, {"description", "trigger_enabled", "trigger_depth"}) is not None
            for field in ("process", "initiation_queue", "trigger_data"):
                assert needed_for(verb, kind, {field}) is None, (verb, kind, field)
