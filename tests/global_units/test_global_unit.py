# SPDX-License-Identifier: Apache-2.0
"""What a program sees of a global unit of work, by every binding."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from entrepot.client.blocking import Connection, connect
from entrepot.engine.databases import points, recovery
from entrepot.engine.databases.branch import OneTimeBranch
from entrepot.engine.databases.points import BETWEEN_COMMITS, DECIDED, PREPARED
from entrepot.engine.databases.resource import OnePhase, Resource, resource_name, resource_of
from entrepot.engine.databases.sqlite import SQLite
from entrepot.engine.folder import create
from entrepot.errors import (
    DatabaseUnavailable,
    DatabaseWorkEnded,
    GlobalUnitInDoubt,
    InvalidArgument,
    OnePhaseTwice,
    PrepareFailed,
    QueueFull,
    TwoPhaseUnavailable,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.testing.postgres import Postgres
from entrepot.testing.servers import ServerThread
from global_units.conftest import define, depth, new_postgres, prepared, rows
from global_units.crash import SMALL_LOG

INSERT = text("INSERT INTO orders VALUES (:body)")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path}/rows.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (body text PRIMARY KEY)"))
    yield engine
    engine.dispose()


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let something happen when a point is reached."""

    def plan(point: str, work: Any) -> None:
        monkeypatch.setattr(points, "reached", lambda reached: work() if reached == point else None)

    return plan


def move(connection: Connection, *engines: Engine) -> Any:
    """One order becomes a row in each database and a message on DONE."""
    with connection.global_unit_of_work(*engines) as unit:
        order = unit.get("ORDERS", wait_s=60)
        assert order is not None
        for engine, table in zip(engines, ("orders", "audit"), strict=False):
            unit.database(engine).execute(text(f"INSERT INTO {table} VALUES (:body)"), {"body": order.body.decode()})
        unit.put("DONE", order.body, persistent=True)
    return unit


# --- together or not at all --------------------------------------------------------------------------


def test_a_unit_commits_messages_and_rows_together(connection: Connection, engine: Engine) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    unit = move(connection, engine)
    assert (unit.state, unit.unfinished) == ("committed", [])
    assert rows(engine) == ["one"]
    assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (0, 1)
    assert prepared(engine) == []


def test_an_exception_backs_out_everything(connection: Connection, engine: Engine) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    with pytest.raises(ZeroDivisionError), connection.global_unit_of_work(engine) as unit:
        unit.get("ORDERS", wait_s=60)
        unit.database(engine).execute(INSERT, {"body": "one"})
        unit.put("DONE", b"one", persistent=True)
        raise ZeroDivisionError
    assert unit.state == "backed out"
    assert rows(engine) == []
    assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (1, 0)


def test_two_databases_of_one_server_take_part(connection: Connection, engine: Engine, other_engine: Engine) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    move(connection, engine, other_engine)
    assert rows(engine) == rows(engine, "audit") == ["one"]
    assert connection._coordinator.unfinished(resource_name(engine.url)) == []


def test_a_unit_may_be_ended_by_hand(connection: Connection, engine: Engine) -> None:
    with connection.global_unit_of_work(engine) as unit:
        unit.databases()[0].execute(INSERT, {"body": "by hand"})
        unit.put("DONE", b"x", persistent=True)
        unit.commit()
        with pytest.raises(UnitFinished):
            unit.commit()
        with pytest.raises(UnitFinished):
            unit.back_out()
    assert rows(engine) == ["by hand"]
    with connection.global_unit_of_work(engine) as unit:
        unit.databases()[0].execute(INSERT, {"body": "not at all"})
        unit.back_out()
    assert rows(engine) == ["by hand"]


def test_all_verbs_of_a_unit_are_there(connection: Connection, engine: Engine) -> None:
    for number in range(3):
        connection.put("ORDERS", b"%d" % number, persistent=True)
    connection.put("ORDERS", b"g", persistent=True, group_id=b"G", sequence=1, last_in_group=True)
    with connection.global_unit_of_work(engine) as unit:
        assert len(unit.get_many("ORDERS", 2)) == 2
        assert unit.get("ORDERS") is not None
        assert len(unit.get_group("ORDERS") or []) == 1
    assert unit.state == "committed"
    assert depth(connection, "ORDERS") == 0


def test_a_unit_without_rows_is_a_plain_one(connection: Connection, engine: Engine) -> None:
    with connection.global_unit_of_work(engine) as unit:
        unit.put("DONE", b"x", persistent=True)
    assert depth(connection, "DONE") == 1


def test_a_unit_without_messages_commits_its_rows(connection: Connection, engine: Engine) -> None:
    with connection.global_unit_of_work(engine) as unit:
        unit.database(engine).execute(INSERT, {"body": "alone"})
    assert rows(engine) == ["alone"]


def test_transaction_ids_are_never_used_twice(tmp_path: Path, engine: Engine) -> None:
    seen = set()
    create(tmp_path / "QM1", log=SMALL_LOG)
    for _ in range(3):
        with connect(f"embedded:{tmp_path}/QM1") as connection:
            for _ in range(2):
                with connection.global_unit_of_work(engine) as unit:
                    seen.add(unit.transaction_id)
                    assert unit.transaction_id.startswith(connection._coordinator.prefix())
    assert len(seen) == 6


# --- what goes wrong before the decision ---------------------------------------------------------------


def test_a_database_that_does_not_prepare_backs_out_all(
    connection: Connection, engine: Engine, other_engine: Engine
) -> None:
    with engine.begin() as database:
        database.execute(text("ALTER TABLE orders ADD CONSTRAINT late UNIQUE (body) DEFERRABLE INITIALLY DEFERRED"))
        database.execute(text("ALTER TABLE orders DROP CONSTRAINT orders_pkey"))
        database.execute(INSERT, {"body": "one"})
    connection.put("ORDERS", b"one", persistent=True)
    with pytest.raises(PrepareFailed) as failed:
        move(connection, engine, other_engine)
    assert failed.value.resource == resource_name(engine.url)
    assert "late" in failed.value.problem
    assert rows(engine) == ["one"]
    assert rows(engine, "audit") == []
    assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (1, 0)


def test_a_refused_put_backs_out_the_rows(connection: Connection, engine: Engine) -> None:
    connection.put("DONE", b"full", persistent=True)
    with pytest.raises(QueueFull), connection.global_unit_of_work(engine) as unit:
        unit.database(engine).execute(INSERT, {"body": "one"})
        for _ in range(6000):
            unit.put("DONE", b"x", persistent=True)
    assert rows(engine) == []
    assert depth(connection, "DONE") == 1


def test_a_program_that_commits_by_itself_is_told(connection: Connection, engine: Engine) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    with pytest.raises(DatabaseWorkEnded), connection.global_unit_of_work(engine) as unit:
        unit.get("ORDERS", wait_s=60)
        unit.database(engine).execute(INSERT, {"body": "one"})
        unit.database(engine).commit()
    assert unit.state == "backed out"
    assert depth(connection, "ORDERS") == 1


def test_an_engine_that_the_unit_does_not_have_is_refused(
    embedded: Connection, engine: Engine, other_engine: Engine
) -> None:
    with embedded.global_unit_of_work(engine) as unit, pytest.raises(InvalidArgument):
        unit.database(other_engine)
    with pytest.raises(InvalidArgument):
        embedded.global_unit_of_work("postgresql://nowhere")  # type: ignore[arg-type]


def test_a_database_that_is_down_is_told_at_the_start(embedded: Connection) -> None:
    gone = create_engine("postgresql+psycopg://ent:secret@127.0.0.1:9/postgres")
    with pytest.raises(DatabaseUnavailable) as failed:
        embedded.global_unit_of_work(gone)
    assert "secret" not in str(failed.value)
    assert pickle.loads(pickle.dumps(failed.value)).resource == failed.value.resource
    with pytest.raises(DatabaseUnavailable):  # and again, not only the first time
        embedded.global_unit_of_work(gone)


def test_autocommit_is_refused(embedded: Connection, postgres: Postgres) -> None:
    engine = create_engine(postgres.url, isolation_level="AUTOCOMMIT")
    with pytest.raises(TwoPhaseUnavailable):
        embedded.global_unit_of_work(engine)
    engine.dispose()


def test_postgresql_without_prepared_transactions_is_refused(embedded: Connection) -> None:
    with new_postgres(prepared_max=0) as postgres:
        engine = create_engine(postgres.url)
        with pytest.raises(TwoPhaseUnavailable) as failed:
            embedded.global_unit_of_work(engine)
        engine.dispose()
    assert "max_prepared_transactions" in failed.value.advice


# --- what goes wrong behind the decision -----------------------------------------------------------------


def test_a_branch_that_somebody_else_has_committed_is_done(
    connection: Connection, engine: Engine, at_point: Any
) -> None:
    resource = resource_of(engine)
    connection.put("ORDERS", b"one", persistent=True)
    coordinator = connection._coordinator
    at_point(DECIDED, lambda: recovery.recover(resource, coordinator, coordinator.prefix()))
    unit = move(connection, engine)
    assert unit.unfinished == []
    assert rows(engine) == ["one"]
    assert coordinator.unfinished(resource.name) == []


def test_recovery_leaves_units_alone_that_are_active(connection: Connection, engine: Engine, at_point: Any) -> None:
    resource = resource_of(engine)
    connection.put("ORDERS", b"one", persistent=True)
    coordinator = connection._coordinator
    left: set[str] = set()
    at_point(PREPARED, lambda: left.update(recovery.recover(resource, coordinator, coordinator.prefix())))
    unit = move(connection, engine)
    assert left == {unit.transaction_id}
    assert (unit.unfinished, rows(engine)) == ([], ["one"])


def test_recovery_that_did_not_is_noticed(connection: Connection, engine: Engine, at_point: Any) -> None:
    """The mistake that the test before would notice: a branch of an active unit is backed out."""
    resource = resource_of(engine)
    at_point(PREPARED, lambda: [resource.roll_back(name) for name in resource.prepared("entrepot-")])
    connection.put("ORDERS", b"one", persistent=True)
    unit = move(connection, engine)
    assert [each.problem for each in unit.unfinished] == ["it is backed out there"]
    assert rows(engine) == []


def test_a_branch_that_was_backed_out_by_hand_is_a_heuristic_outcome(
    embedded: Connection, engine: Engine, at_point: Any
) -> None:
    resource = resource_of(engine)
    at_point(DECIDED, lambda: [resource.roll_back(name) for name in resource.prepared("entrepot-")])
    embedded.put("ORDERS", b"one", persistent=True)
    unit = move(embedded, engine)
    coordinator = embedded._coordinator
    recovery.recover(resource, coordinator, coordinator.prefix())
    (row,) = embedded.administration.in_doubt()
    assert (row["global_unit"], row["state"]) == (unit.transaction_id, "heuristic: backed out")
    embedded.administration.forget(unit.transaction_id.encode())
    assert embedded.administration.in_doubt() == []


def test_a_database_that_dies_behind_the_decision_is_finished_later(
    connection: Connection, engine: Engine, other_engine: Engine, postgres: Postgres, at_point: Any
) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    at_point(BETWEEN_COMMITS, postgres.kill)
    try:
        unit = move(connection, engine, other_engine)
        assert unit.state == "committed"
        assert [each.resource for each in unit.unfinished] == [resource_name(engine.url)]
    finally:
        points.reached = lambda _: None
        postgres.start()
    # Beside the program, without another unit that would look first.
    deadline = time.monotonic() + 60
    while connection._coordinator.unfinished(resource_name(engine.url)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    engine.dispose()
    assert rows(engine) == rows(engine, "audit") == ["one"]


def test_the_general_way_of_two_phases_recovers_too(embedded: Connection, engine: Engine, at_point: Any) -> None:
    """What serves databases that have no module of their own, tried with one that has."""
    resource = Resource(engine)
    coordinator = embedded._coordinator
    embedded.put("ORDERS", b"one", persistent=True)
    at_point(DECIDED, lambda: recovery.recover(resource, coordinator, coordinator.prefix()))
    move(embedded, engine)
    assert rows(engine) == ["one"]
    assert embedded.administration.in_doubt() == []
    (branch,) = [resource.open(f"{coordinator.prefix()}0-0-0")]
    branch.connection.execute(INSERT, {"body": "left"})
    branch.prepare()
    branch.leave()
    assert recovery.recover(resource, coordinator, coordinator.prefix()) == set()
    assert prepared(engine) == []
    resource.roll_back(f"{coordinator.prefix()}0-0-0")  # twice does no harm


# --- one phase -------------------------------------------------------------------------------------------


def test_a_database_with_one_phase_decides_as_the_last(connection: Connection, engine: Engine, sqlite: Engine) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    with connection.global_unit_of_work(engine, sqlite) as unit:
        order = unit.get("ORDERS", wait_s=60)
        assert order is not None
        for each in (engine, sqlite):
            unit.database(each).execute(INSERT, {"body": order.body.decode()})
        unit.put("DONE", order.body, persistent=True)
    assert unit.state == "committed"
    assert rows(engine) == rows(sqlite) == ["one"]
    assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (0, 1)
    assert connection._coordinator.unfinished(resource_name(engine.url)) == []


def test_a_last_agent_that_refuses_backs_out_all(connection: Connection, engine: Engine, sqlite: Engine) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    with sqlite.begin() as database:
        database.execute(text("CREATE TABLE parent (id integer PRIMARY KEY)"))
        late = "REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED"
        database.execute(text(f"CREATE TABLE child (parent integer {late})"))
    with pytest.raises(PrepareFailed) as failed, connection.global_unit_of_work(engine, sqlite) as unit:
        unit.get("ORDERS", wait_s=60)
        unit.database(engine).execute(INSERT, {"body": "one"})
        unit.database(sqlite).exec_driver_sql("PRAGMA foreign_keys = ON")
        unit.database(sqlite).execute(INSERT, {"body": "one"})
        unit.database(sqlite).exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        unit.database(sqlite).execute(text("INSERT INTO child VALUES (7)"))
    assert failed.value.resource == resource_name(sqlite.url)
    assert unit.state == "backed out"
    assert rows(engine) == rows(sqlite) == []
    assert depth(connection, "ORDERS") == 1
    assert prepared(engine) == []


def test_two_databases_with_one_phase_are_refused(embedded: Connection, sqlite: Engine, tmp_path: Path) -> None:
    other = create_engine(f"sqlite:///{tmp_path}/other.db")
    with pytest.raises(OnePhaseTwice):
        embedded.global_unit_of_work(sqlite, other)
    other.dispose()


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last agent commits, and its answer gets lost."""

    def lose(branch: OneTimeBranch) -> None:
        branch._transaction.commit()
        raise OperationalError("COMMIT", {}, Exception("server closed the connection unexpectedly"))

    monkeypatch.setattr(OneTimeBranch, "commit", lose)


@pytest.mark.usefixtures("lossy")
def test_a_lost_last_agent_is_asked_beside_the_program(
    connection: Connection, successor: Connection, engine: Engine, sqlite: Engine
) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    with pytest.raises(GlobalUnitInDoubt), connection.global_unit_of_work(sqlite, engine) as unit:
        assert unit.get("ORDERS", wait_s=60) is not None
        for database in unit.databases():
            database.execute(INSERT, {"body": "one"})
        unit.put("DONE", b"one", persistent=True)
    deadline = time.monotonic() + 60
    while successor.administration.in_doubt() or prepared(engine):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert rows(sqlite) == rows(engine) == ["one"]
    assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (0, 1)


@pytest.mark.usefixtures("lossy")
def test_a_lost_last_agent_that_remembers_nothing_leaves_the_unit_in_doubt(
    embedded: Connection, engine: Engine, sqlite: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SQLite, "remember", OnePhase.remember)
    embedded.put("ORDERS", b"one", persistent=True)
    with pytest.raises(GlobalUnitInDoubt), embedded.global_unit_of_work(engine, sqlite) as unit:
        unit.get("ORDERS", wait_s=60)
        unit.database(engine).execute(INSERT, {"body": "one"})
        unit.database(sqlite).execute(INSERT, {"body": "one"})
    assert unit.state == "unknown"
    coordinator = embedded._coordinator
    recovery.recover(resource_of(sqlite), coordinator, coordinator.prefix())
    (row,) = embedded.administration.in_doubt()
    assert row["state"] == "prepared"
    assert {each["resource"] for each in row["branches"]} == {resource_name(engine.url), resource_name(sqlite.url)}
    assert prepared(engine) == [f"{unit.transaction_id}-0"]
    # The operator looks into the database, finds the row, and says so.
    embedded.administration.resolve(unit.transaction_id.encode(), commit=True)
    recovery.recover(resource_of(engine), coordinator, coordinator.prefix())
    assert rows(engine) == ["one"]
    assert depth(embedded, "ORDERS") == 0
    embedded.administration.forget(unit.transaction_id.encode())
    assert embedded.administration.in_doubt() == []


# --- broken connections ----------------------------------------------------------------------------------


def test_a_connection_that_breaks_before_the_decision_backs_out(
    postgres: Postgres, engine: Engine, tmp_path: Path, at_point: Any
) -> None:
    with _server(tmp_path) as server, connect(server.unix_url) as connection:
        connection.put("ORDERS", b"one", persistent=True)
        at_point(PREPARED, connection.calls.line._interrupted)  # type: ignore[attr-defined]
        with pytest.raises(UnitBackedOut):
            move(connection, engine)
        assert rows(engine) == []
        assert prepared(engine) == []
        assert depth(connection, "ORDERS") == 1


def _server(tmp_path: Path) -> ServerThread:
    create(tmp_path / "QM1", log=SMALL_LOG)
    with connect(f"embedded:{tmp_path}/QM1") as connection:
        define(connection)
    return ServerThread(tmp_path / "QM1")
