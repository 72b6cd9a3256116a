# SPDX-License-Identifier: Apache-2.0
"""The coordinator's verbs on a host: durable when they return, and what they show an operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from conftest import host_of
from entrepot import Connection, Message
from entrepot.engine.coordinator import HostCoordinator
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import Unit

SHOP = "postgresql://db/shop"
ROWS = "sqlite:////rows.db"


@pytest.fixture
def coordinator(connection: Connection) -> HostCoordinator:
    found = HostCoordinator(host_of(connection))
    assert isinstance(found, HostCoordinator)
    return found


def begun(connection: Connection) -> tuple[Unit, str, list[Branch]]:
    """A unit with a message, and a branch for it."""
    unit, name = HostCoordinator(host_of(connection)).begin()
    host_of(connection).put("Q", Message(b"x"), persistent=True, unit=unit)
    return unit, name, [Branch(SHOP, f"{name}-0", 700)]


@contextmanager
def after_a_kill(place: Any) -> Iterator[Connection]:
    killed = place.killed()
    try:
        yield killed.open()
    finally:
        killed.close()


def bodies(connection: Connection) -> list[bytes]:
    return [message.body for message in connection.browse("Q")]


def test_a_decision_is_on_disk_when_it_returns(
    place: Any, connection: Connection, coordinator: HostCoordinator
) -> None:
    unit, name, branches = begun(connection)
    coordinator.decide(unit, branches)
    assert unit.state.value == "committed"
    with after_a_kill(place) as restarted:
        assert bodies(connection) == bodies(restarted) == [b"x"]
        assert HostCoordinator(host_of(restarted)).outcomes([name]) == ["committed"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_resolve_is_on_disk_when_it_returns(
    place: Any, connection: Connection, coordinator: HostCoordinator, commit: bool
) -> None:
    unit, name, branches = begun(connection)
    coordinator.prepare(unit, [*branches, Branch(ROWS, "", 4711)])
    assert coordinator.undecided(ROWS) == [(name, 4711)]
    coordinator.resolve(name, commit=commit)
    with after_a_kill(place) as restarted:
        assert bodies(connection) == bodies(restarted) == [b"x"] * commit
        assert HostCoordinator(host_of(restarted)).outcomes([name]) == ["committed" if commit else "unknown"]
        assert HostCoordinator(host_of(restarted)).undecided(ROWS) == []


@pytest.mark.parametrize(("counted", "count"), [(True, 1), (False, 0)])
def test_a_unit_that_is_backed_out_counts_its_gets_unless_it_was_forgiven(
    connection: Connection, coordinator: HostCoordinator, counted: bool, count: int
) -> None:
    connection.put("Q", b"got", persistent=True)
    unit, name = coordinator.begin()
    assert host_of(connection).get("Q", unit=unit) is not None
    coordinator.prepare(unit, [Branch(ROWS, "", 4711)], counted=counted)
    coordinator.resolve(name, commit=False)
    (message,) = connection.browse("Q")
    assert message.backout_count == count


def test_what_is_not_settled_is_shown_with_its_age_and_its_parts(timed: Any) -> None:
    connection = timed.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    coordinator = HostCoordinator(host_of(connection))
    unit, name, branches = begun(connection)
    coordinator.prepare(unit, [*branches, Branch(ROWS, "", 4711), Branch("", f"{name}-9")])
    timed.clock.advance(60)
    (row,) = coordinator.report()
    assert row == {
        "transaction_id": name.encode().hex(),
        "global_unit": name,
        "state": "prepared",
        "user": "",
        "age_s": 60.0,
        "branches": [
            {"resource": SHOP, "branch_id": f"{name}-0", "state": "prepared"},
            {"resource": ROWS, "branch_id": "", "state": "committed or not: ask it"},
        ],
    }


def test_decisions_are_shown_until_they_are_finished(connection: Connection, coordinator: HostCoordinator) -> None:
    unit, name, branches = begun(connection)
    coordinator.decide(unit, branches)
    (row,) = coordinator.report()
    assert (row["state"], row["age_s"], row["global_unit"]) == ("committed", None, name)
    assert row["branches"] == [{"resource": SHOP, "branch_id": f"{name}-0", "state": "unfinished"}]
    assert [each.branch for each in coordinator.unfinished(SHOP)] == branches
    coordinator.finish(name, [f"{name}-0"])
    assert coordinator.report() == []


def test_an_operators_word_and_a_branch_that_ended_otherwise_are_shown_until_forgotten(
    place: Any, connection: Connection, coordinator: HostCoordinator
) -> None:
    unit, name, branches = begun(connection)
    coordinator.decide(unit, branches)
    coordinator.met_otherwise(name, f"{name}-0", "backed out")
    host_of(connection).prepare(host_of(connection).begin(), b"\xff")
    coordinator.resolve_heuristically(b"\xff", commit=False)
    with after_a_kill(place) as restarted:
        reports = [coordinator.report(), HostCoordinator(host_of(restarted)).report()]
    for report in reports:
        otherwise, word = report
        assert (otherwise["state"], otherwise["global_unit"]) == ("heuristic: backed out", name)
        assert otherwise["branches"] == [{"resource": SHOP, "branch_id": f"{name}-0", "state": "backed out"}]
        assert (word["state"], word["transaction_id"], word["global_unit"]) == ("heuristic: backed out", "ff", "")
        assert word["branches"] == []
    coordinator.forget(b"\xff")
    coordinator.forget(name.encode())
    assert coordinator.report() == []


def test_an_age_that_is_not_known_is_not_shown(connection: Connection, coordinator: HostCoordinator) -> None:
    host = host_of(connection)
    host.prepare(host.begin(), b"foreign")
    host.manager.global_units.since.clear()  # as with units that an older version has prepared
    (row,) = coordinator.report()
    assert (row["age_s"], row["user"], row["branches"]) == (None, "", [])
