# SPDX-License-Identifier: Apache-2.0
"""The coordinator's memory: what is active, decided, forgotten or heuristic, over checkpoints, stops and kills."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import host_of
from entrepot import Connection, Message
from entrepot.engine.coordinator import HostCoordinator
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import (
    HeuristicOutcome,
    LimitExceeded,
    NotCoordinated,
    QueueManagerStopped,
    TransactionIdInUse,
    UnitFinished,
    UnitNotInDoubt,
)

RESOURCE = "postgresql://db/shop"
HOW = pytest.mark.parametrize("how", ["stop", "kill", "checkpoint and kill"])


def opened(place: Any) -> tuple[Connection, HostCoordinator]:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q) REPLACE")
    return connection, HostCoordinator(host_of(connection))


def again(place: Any, connection: Connection, how: str) -> tuple[Connection, HostCoordinator]:
    if how.startswith("checkpoint"):
        connection.administration.checkpoint()
        connection.administration.checkpoint()
    # A kill leaves a copy, and the next one a copy of that.
    current = getattr(place, "current", place)
    if how == "stop":
        found = current.reopen()
    else:
        place.current = current.killed()
        found = place.current.open()
    return found, HostCoordinator(host_of(found))


def begun(connection: Connection, body: bytes = b"x") -> tuple[Unit, str]:
    unit, transaction_id = HostCoordinator(host_of(connection)).begin()
    host_of(connection).put("Q", Message(body), persistent=True, unit=unit)
    return unit, transaction_id


def branches(transaction_id: str, count: int = 2) -> list[Branch]:
    return [Branch(RESOURCE, f"{transaction_id}-{number}", 700 + number) for number in range(count)]


def bodies(connection: Connection) -> list[bytes]:
    return [message.body for message in connection.browse("Q")]


# --- outcomes ------------------------------------------------------------------------------------


def test_an_active_unit_is_active_until_it_ends(place: Any) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    assert transaction_id.startswith(coordinator.prefix())
    assert coordinator.outcomes([transaction_id, "entrepot-00-1-1"]) == ["active", "unknown"]
    host_of(connection).back_out(unit)
    assert coordinator.outcomes([transaction_id]) == ["unknown"]
    assert bodies(connection) == []


def test_a_unit_that_nobody_has_any_more_is_not_active(place: Any) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    host_of(connection).back_out(unit)
    del unit
    assert coordinator.outcomes([transaction_id]) == ["unknown"]
    assert len(host_of(connection).manager.global_units._active) == 0


@HOW
def test_an_undecided_unit_is_presumed_backed_out(place: Any, how: str) -> None:
    connection, _ = opened(place)
    _, transaction_id = begun(connection)
    connection, coordinator = again(place, connection, how)
    assert coordinator.outcomes([transaction_id]) == ["unknown"]
    assert bodies(connection) == []


@HOW
def test_a_decision_lives_until_every_branch_knows_it(place: Any, how: str) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    coordinator.decide(unit, branches(transaction_id))
    assert bodies(connection) == [b"x"]
    connection, coordinator = again(place, connection, how)
    assert coordinator.outcomes([transaction_id]) == ["committed"]
    assert bodies(connection) == [b"x"]
    assert [each.branch for each in coordinator.unfinished(RESOURCE)] == branches(transaction_id)
    coordinator.finish(transaction_id, [f"{transaction_id}-0", "another"])
    connection, coordinator = again(place, connection, how)
    assert [each.branch.number for each in coordinator.unfinished(RESOURCE)] == [701]
    assert coordinator.unfinished("postgresql://elsewhere/shop") == []
    coordinator.finish(transaction_id, [f"{transaction_id}-1"])
    coordinator.finish(transaction_id, [f"{transaction_id}-1"])
    connection, coordinator = again(place, connection, how)
    assert coordinator.outcomes([transaction_id]) == ["unknown"]
    assert coordinator.report() == []
    assert bodies(connection) == [b"x"]


def test_a_decision_takes_what_the_unit_got(place: Any) -> None:
    connection, coordinator = opened(place)
    connection.put("Q", b"one", persistent=True)
    unit, transaction_id = coordinator.begin()
    assert host_of(connection).get("Q", unit=unit) is not None
    coordinator.decide(unit, branches(transaction_id))
    with pytest.raises(UnitFinished):
        coordinator.decide(unit, branches(transaction_id))
    connection, _ = again(place, connection, "kill")
    assert bodies(connection) == []


def test_a_decision_without_messages_is_remembered_all_the_same(place: Any) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = coordinator.begin()
    coordinator.decide(unit, branches(transaction_id))
    _, coordinator = again(place, connection, "kill")
    assert coordinator.outcomes([transaction_id]) == ["committed"]


def test_a_decision_without_branches_is_a_plain_commit(place: Any) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    coordinator.decide(unit, [])
    assert bodies(connection) == [b"x"]
    assert coordinator.outcomes([transaction_id]) == ["unknown"]


def test_what_cannot_be_decided_is_refused_and_stays_active(place: Any) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    local = host_of(connection).begin()
    with pytest.raises(NotCoordinated):
        coordinator.decide(local, branches(transaction_id))
    with pytest.raises(NotCoordinated):
        coordinator.decide(unit, [Branch(RESOURCE, "somebody else's")])
    with pytest.raises(NotCoordinated):
        coordinator.decide(unit, [Branch(RESOURCE, f"{transaction_id}-0")] * 2)
    with pytest.raises(LimitExceeded):
        coordinator.decide(unit, branches(transaction_id, 33))
    coordinator.decide(unit, branches(transaction_id))


def test_nobody_else_prepares_under_an_id_of_ours(place: Any) -> None:
    connection, coordinator = opened(place)
    unit = host_of(connection).begin()
    with pytest.raises(TransactionIdInUse):
        host_of(connection).prepare(unit, f"{coordinator.prefix()}1-1".encode())


def test_a_stopped_queue_manager_tells_no_outcome(place: Any) -> None:
    connection, coordinator = opened(place)
    connection.close()
    with pytest.raises(QueueManagerStopped):
        coordinator.outcomes(["entrepot-00-1-1"])


# --- the last agent --------------------------------------------------------------------------------


@HOW
def test_a_prepared_global_unit_waits_for_its_last_agent(place: Any, how: str) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    coordinator.prepare(unit, [*branches(transaction_id, 1), Branch("sqlite:///rows.db", "")])
    assert coordinator.outcomes([transaction_id]) == ["in doubt"]
    connection, coordinator = again(place, connection, how)
    assert coordinator.outcomes([transaction_id]) == ["in doubt"]
    (row,) = coordinator.report()
    assert row["state"] == "prepared"
    assert [each["resource"] for each in row["branches"]] == [RESOURCE, "sqlite:///rows.db"]
    coordinator.resolve(transaction_id, commit=True)
    connection, coordinator = again(place, connection, how)
    assert bodies(connection) == [b"x"]
    assert [each.branch for each in coordinator.unfinished(RESOURCE)] == branches(transaction_id, 1)


@HOW
def test_a_last_agent_that_did_not_commit_backs_out(place: Any, how: str) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    coordinator.prepare(unit, branches(transaction_id, 1))
    coordinator.resolve(transaction_id, commit=False)
    connection, coordinator = again(place, connection, how)
    assert coordinator.outcomes([transaction_id]) == ["unknown"]
    assert bodies(connection) == []
    assert coordinator.report() == []


# --- heuristics ------------------------------------------------------------------------------------


@HOW
@pytest.mark.parametrize("commit", [True, False])
def test_an_operators_word_is_remembered_until_forgotten(place: Any, how: str, commit: bool) -> None:
    connection, coordinator = opened(place)
    unit = host_of(connection).begin()
    host_of(connection).put("Q", Message(b"x"), persistent=True, unit=unit)
    host_of(connection).prepare(unit, b"foreign")
    coordinator.resolve_heuristically(b"foreign", commit=commit)
    connection, coordinator = again(place, connection, how)
    assert bodies(connection) == ([b"x"] if commit else [])
    with pytest.raises(HeuristicOutcome) as met:
        connection.resolve(b"foreign", commit=not commit)
    assert met.value.outcome_there == ("committed" if commit else "backed out")
    (row,) = coordinator.report()
    assert row["state"] == f"heuristic: {met.value.outcome_there}"
    coordinator.forget(b"foreign")
    _, coordinator = again(place, connection, how)
    assert coordinator.report() == []


@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_agrees_is_content(place: Any, commit: bool) -> None:
    connection, coordinator = opened(place)
    host_of(connection).prepare(host_of(connection).begin(), b"foreign")
    coordinator.resolve_heuristically(b"foreign", commit=commit)
    connection.resolve(b"foreign", commit=commit)
    assert coordinator.report() == []
    with pytest.raises(UnitNotInDoubt):
        connection.resolve(b"foreign", commit=commit)


def test_a_programs_own_resolve_is_no_heuristic(place: Any) -> None:
    connection, coordinator = opened(place)
    host_of(connection).prepare(host_of(connection).begin(), b"foreign")
    connection.resolve(b"foreign", commit=True)
    assert coordinator.report() == []


@HOW
def test_an_operator_decides_for_the_branches_too(place: Any, how: str) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    coordinator.prepare(unit, branches(transaction_id))
    coordinator.resolve_heuristically(transaction_id.encode(), commit=True)
    connection, coordinator = again(place, connection, how)
    assert coordinator.outcomes([transaction_id]) == ["committed"]
    assert len(coordinator.unfinished(RESOURCE)) == 2
    assert [row["state"] for row in coordinator.report()] == ["committed", "heuristic: committed"]


@HOW
def test_a_branch_that_ended_otherwise_is_told(place: Any, how: str) -> None:
    connection, coordinator = opened(place)
    unit, transaction_id = begun(connection)
    coordinator.decide(unit, branches(transaction_id))
    coordinator.met_otherwise(transaction_id, f"{transaction_id}-0", "backed out")
    with pytest.raises(NotCoordinated):
        coordinator.met_otherwise(transaction_id, f"{transaction_id}-0", "backed out")
    _, coordinator = again(place, connection, how)
    assert [each.branch.number for each in coordinator.unfinished(RESOURCE)] == [701]
    assert [row["state"] for row in coordinator.report()] == ["committed", "heuristic: backed out"]
    coordinator.forget(transaction_id.encode())
    assert coordinator.report() == []
    with pytest.raises(NotCoordinated):
        coordinator.forget(transaction_id.encode())
