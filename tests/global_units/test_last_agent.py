# SPDX-License-Identifier: Apache-2.0
"""SQLite decides for all, and after any crash recovery finds out from it what it has decided."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from entrepot.client.blocking import Connection, connect
from entrepot.engine.databases import points, recovery
from entrepot.engine.databases.branch import OneTimeBranch
from entrepot.engine.databases.points import LAST_COMMITTED, LEFT_TO_LAST
from entrepot.engine.databases.registered import RegisteredResources
from entrepot.engine.databases.resource import resource_name, resource_of
from entrepot.engine.databases.sqlite import SQLite
from entrepot.engine.databases.watch import ResourceWatch
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import PrepareFailed, TwoPhaseUnavailable
from entrepot.testing.servers import ServerThread
from global_units.conftest import define, depth, rows
from global_units.crash import (
    APPLICATION,
    COUNT,
    MANAGER,
    REPETITIONS,
    SMALL_LOG,
    Kill,
    Plant,
    SQLiteFile,
    Violated,
    World,
    engines_of,
    lay_out,
    lay_out_tables,
)

INSERT = text("INSERT INTO orders VALUES (:body)")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path}/rows.db", connect_args={"timeout": 60})
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (body text PRIMARY KEY)"))
    yield engine
    engine.dispose()


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Any:
    def plan(point: str, work: Callable[[], object]) -> None:
        monkeypatch.setattr(points, "reached", lambda reached: work() if reached == point else None)

    return plan


def move(connection: Connection, engine: Engine, wait_s: float = 60) -> Any:
    with connection.global_unit_of_work(engine) as unit:
        order = unit.get("ORDERS", wait_s=wait_s)
        assert order is not None
        unit.database(engine).execute(INSERT, {"body": order.body.decode()})
        unit.put("DONE", order.body, persistent=True)
    return unit


def recover(connection: Connection, engine: Engine) -> None:
    coordinator = connection._coordinator
    recovery.recover(resource_of(engine), coordinator, coordinator.prefix())


def leave_in_doubt(connection: Connection, engine: Engine, *, committed: bool, body: str = "one") -> str:
    """A unit whose driver has died on either side of the database's commit."""
    coordinator = connection._coordinator
    unit, transaction_id = coordinator.begin()
    connection.calls.put("DONE", entrepot_message(body), persistent=True, unit=unit)
    resource = resource_of(engine)
    resource.check()
    branch = resource.open(f"{transaction_id}-0")
    branch.connection.execute(INSERT, {"body": body})
    branch.prepare()
    coordinator.prepare(unit, [branch.form])
    if committed:
        branch.commit()
    else:
        branch.leave()
    return transaction_id


def entrepot_message(body: str) -> Any:
    from entrepot.message import Message

    return Message(body.encode())


def remembered(engine: Engine) -> list[tuple[str, str]]:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT transaction_id, outcome FROM entrepot_units")).all()
    return sorted((name, outcome) for name, outcome in found if name != "database")


# --- everybody dies at every step ------------------------------------------------------------------------


KILLS = [
    Kill(victims, point)
    for point in points.LAST_AGENT
    for victims in ((MANAGER,), (APPLICATION,), (MANAGER, APPLICATION))
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("last") / "QM1"
    lay_out(path)
    return path


def live(template: Path, folder: Path, kill: Kill, plant: Plant | None = None) -> World:
    shutil.copytree(template, folder / "QM1", symlinks=True)
    (folder / "QM1").chmod(0o700)
    database = SQLiteFile(folder / "rows.db")
    (engine,) = engines_of(database)
    lay_out_tables(engine)
    world = World(folder / "QM1", database, kill, plant)
    world.run()
    check(folder / "QM1", engine)
    engine.dispose()
    return world


def check(path: Path, engine: Engine) -> None:
    """A row exists if and only if its message has moved, and the next use of the database leaves nothing in doubt."""
    with connect(f"embedded:{path}") as connection:
        with connection.global_unit_of_work(engine):
            pass
        report = connection.administration.in_doubt()
        done = sorted(message.body.decode() for message in connection.browse("DONE"))
        waiting = depth(connection, "ORDERS")
    found = rows(engine)
    if report or waiting or not done == found == [f"order {each}" for each in range(COUNT)]:
        raise Violated(f"moved {done}, rows {found}, not moved {waiting}, open {report}")


@pytest.mark.parametrize("kill", KILLS, ids=str)
def test_a_row_exists_if_and_only_if_its_message_has_moved(kill: Kill, template: Path, tmp_path: Path) -> None:
    assert live(template, tmp_path, kill).deaths == len(kill.victims)


@pytest.mark.torture
@pytest.mark.parametrize("kill", KILLS, ids=str)
def test_again_and_again(kill: Kill, template: Path, tmp_path: Path) -> None:
    for count in range(1, COUNT + 1):
        for _ in range(REPETITIONS):
            folder = tmp_path / "once"
            folder.mkdir()
            live(template, folder, Kill(kill.victims, kill.point, count))
            shutil.rmtree(folder)


# --- mistakes that these tests would notice --------------------------------------------------------------


def _remember_nothing() -> None:
    def remember(self: SQLite, *_: Any) -> int:
        return self.identity()

    SQLite.remember = remember  # type: ignore[method-assign]


def _presume_commit() -> None:
    SQLite.settle = lambda self, names: dict.fromkeys(names, True)  # type: ignore[method-assign]


def _presume_abort() -> None:
    SQLite.settle = lambda self, names: dict.fromkeys(names, False)  # type: ignore[method-assign]


PLANTED = [
    (_remember_nothing, Kill((APPLICATION,), LAST_COMMITTED)),
    (_presume_commit, Kill((APPLICATION,), LEFT_TO_LAST)),
    (_presume_abort, Kill((APPLICATION,), LAST_COMMITTED)),
]


@pytest.mark.parametrize(("plant", "kill"), PLANTED, ids=lambda each: getattr(each, "__name__", str(each)))
@pytest.mark.usefixtures("capfd")
def test_planted_mistake_is_noticed(plant: Plant, kill: Kill, template: Path, tmp_path: Path) -> None:
    with pytest.raises(Violated):
        live(template, tmp_path, kill, plant)


# --- somebody else recovers while the driver lives -------------------------------------------------------


PAUSES = """
    import os, signal, sys
    from sqlalchemy import create_engine, text
    import entrepot
    from entrepot.engine.databases import points

    url, database = sys.argv[1:]
    points.reached = lambda at: os.kill(os.getpid(), signal.SIGSTOP) if at == points.LEFT_TO_LAST else None
    engine = create_engine(database)
    with entrepot.connect(url) as connection, connection.global_unit_of_work(engine) as unit:
        assert unit.get("ORDERS", wait_s=60)
        if {writes}:
            unit.database(engine).execute(text("INSERT INTO orders VALUES ('one')"))
        else:
            unit.database(engine).execute(text("SELECT * FROM orders")).all()
        unit.put("DONE", b"one", persistent=True)
"""


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("end", [signal.SIGCONT, signal.SIGKILL])
def test_a_driver_that_was_paused_before_the_commit_is_waited_for(
    tmp_path: Path, sqlite: Engine, end: signal.Signals, writes: bool
) -> None:
    create(tmp_path / "QM1", log=SMALL_LOG)
    with ServerThread(tmp_path / "QM1") as server, connect(server.unix_url) as connection:
        define(connection)
        connection.put("ORDERS", b"one", persistent=True)
        script = textwrap.dedent(PAUSES.replace("{writes}", str(writes)))
        with subprocess.Popen([sys.executable, "-c", script, server.unix_url, str(sqlite.url)]) as driver:
            try:
                until(lambda: bool(connection.in_doubt()))
                _, status = os.waitpid(driver.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status)
                hasty = create_engine(sqlite.url, connect_args={"timeout": 0.2})
                with pytest.raises(OperationalError, match="locked"):
                    recover(connection, hasty)
                hasty.dispose()
                assert len(connection.in_doubt()) == 1
            finally:
                driver.send_signal(end)
            assert driver.wait(60) == (0 if end == signal.SIGCONT else -signal.SIGKILL)
        recover(connection, sqlite)
        happened = int(end == signal.SIGCONT)
        assert connection.in_doubt() == []
        assert len(rows(sqlite)) == (happened if writes else 0)
        assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (1 - happened, happened)


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_recovery_that_is_faster_than_the_driver_does_no_harm(
    connection: Connection, successor: Connection, sqlite: Engine, at_point: Any
) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    at_point(LAST_COMMITTED, lambda: recover(successor, sqlite))
    assert move(connection, sqlite).state == "committed"
    assert rows(sqlite) == ["one"]
    assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (0, 1)


def test_recovery_that_backs_out_before_the_driver_does_gives_messages_back(
    connection: Connection, successor: Connection, sqlite: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = OneTimeBranch.leave

    def refuse(branch: OneTimeBranch) -> None:
        raise OperationalError("COMMIT", {}, refusal)

    def leave_to_another(branch: OneTimeBranch) -> None:
        leave(branch)
        recover(successor, sqlite)

    refusal = sqlite3.OperationalError("database is locked")
    refusal.sqlite_errorname = "SQLITE_BUSY"
    for number in range(3):
        connection.put("ORDERS", b"%d" % number, persistent=True)
    with connection.reader("ORDERS", read_ahead=10) as reader:
        with monkeypatch.context() as patched:
            patched.setattr(OneTimeBranch, "commit", refuse)
            patched.setattr(OneTimeBranch, "leave", leave_to_another)
            unit = connection.global_unit_of_work(sqlite)
            assert reader.get(unit, wait_s=60) is not None
            unit.database(sqlite).execute(INSERT, {"body": "0"})
            with pytest.raises(PrepareFailed):
                unit.commit()
        assert unit.state == "backed out"
        with connection.global_unit_of_work(sqlite) as unit:
            order = reader.get(unit, wait_s=60)
            assert order is not None
            assert (order.body, order.backout_count) == (b"0", 1)
    assert rows(sqlite) == []


# --- whose units recovery may end ------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_the_next_use_ends_what_was_left(connection: Connection, sqlite: Engine, committed: bool) -> None:
    unit = leave_in_doubt(connection, sqlite, committed=committed)
    assert connection._coordinator.undecided(resource_name(sqlite.url)) != []
    with connection.global_unit_of_work(sqlite):
        pass
    assert connection._coordinator.outcomes([unit]) == ["unknown"]
    assert rows(sqlite) == ["one"] * committed
    assert depth(connection, "DONE") == committed


def test_another_database_of_the_same_name_is_not_asked(embedded: Connection, tmp_path: Path, sqlite: Engine) -> None:
    """As a relative path names another file in another folder, or the same path one on another machine."""
    unit = leave_in_doubt(embedded, sqlite, committed=True)
    sqlite.dispose()
    (tmp_path / "rows.db").rename(tmp_path / "elsewhere.db")
    with embedded.global_unit_of_work(sqlite):
        pass
    assert embedded._coordinator.outcomes([unit]) == ["in doubt"]
    sqlite.dispose()
    (tmp_path / "elsewhere.db").replace(tmp_path / "rows.db")
    recover(embedded, sqlite)
    assert (embedded.administration.in_doubt(), depth(embedded, "DONE")) == ([], 1)


def test_a_unit_whose_database_cannot_be_asked_is_left_to_an_operator(embedded: Connection, sqlite: Engine) -> None:
    coordinator = embedded._coordinator
    unit, transaction_id = coordinator.begin()
    coordinator.prepare(unit, [Branch(resource_name(sqlite.url), "")])
    with embedded.global_unit_of_work(sqlite):
        pass
    assert coordinator.outcomes([transaction_id]) == ["in doubt"]
    assert coordinator.undecided(resource_name(sqlite.url)) == []


@pytest.mark.parametrize("committed", [True, False])
def test_the_queue_manager_recovers_by_itself(
    tmp_path: Path, sqlite: Engine, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ResourceWatch.__init__.__kwdefaults__, "every_s", 0.05)
    create(tmp_path / "QM1", log=SMALL_LOG)
    resources = RegisteredResources.load(tmp_path / "QM1")
    resources.add("SHOP", str(sqlite.url))
    resources.save()
    with connect(f"embedded:{tmp_path}/QM1") as connection:
        define(connection)
        leave_in_doubt(connection, sqlite, committed=committed)
        until(lambda: connection.administration.in_doubt() == [])
        assert depth(connection, "DONE") == committed


# --- databases that cannot remember ----------------------------------------------------------------------


def _deny_tables(dbapi: sqlite3.Connection, _: object) -> None:
    dbapi.set_authorizer(lambda what, *_: sqlite3.SQLITE_DENY if what == sqlite3.SQLITE_CREATE_TABLE else 0)


def test_a_database_without_the_right_to_make_tables_works_and_is_told_about(
    connection: Connection, sqlite: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    event.listen(sqlite, "connect", _deny_tables)
    sqlite.dispose()
    for number in range(2):
        connection.put("ORDERS", b"%d" % number, persistent=True)
        assert move(connection, sqlite).state == "committed"
    assert rows(sqlite) == ["0", "1"]
    resource = resource_of(sqlite)
    assert isinstance(resource, SQLite)
    resource.check()
    assert not resource.remembers
    assert "no usable table entrepot_units" in caplog.text
    assert {record.levelno for record in caplog.records if "entrepot_units" in record.message} == {logging.WARNING}


def test_a_database_that_may_only_be_read_takes_part(embedded: Connection, tmp_path: Path, sqlite: Engine) -> None:
    with embedded.global_unit_of_work(sqlite):
        pass
    for number, url in enumerate((f"file:{tmp_path}/rows.db?mode=ro&uri=true", "/:memory:")):
        engine = create_engine(f"sqlite:///{url}".replace("//:memory:", ""))
        embedded.put("ORDERS", b"one", persistent=True)
        with embedded.global_unit_of_work(engine) as unit:
            assert unit.get("ORDERS") is not None
            assert unit.database(engine).execute(text("SELECT 1")).scalar() == 1
            unit.put("DONE", b"one", persistent=True)
        assert unit.state == "committed"
        assert depth(embedded, "DONE") == number + 1
        engine.dispose()


def test_a_table_that_somebody_drops_is_done_without(embedded: Connection, sqlite: Engine) -> None:
    for number in range(2):
        embedded.put("ORDERS", b"%d" % number, persistent=True)
    move(embedded, sqlite)
    with sqlite.begin() as database:
        database.execute(text("DROP TABLE entrepot_units"))
    assert move(embedded, sqlite).state == "committed"
    assert rows(sqlite) == ["0", "1"]


def test_autocommit_is_refused(embedded: Connection, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/rows.db", isolation_level="AUTOCOMMIT")
    with pytest.raises(TwoPhaseUnavailable, match="commits by itself"):
        embedded.global_unit_of_work(engine)
    engine.dispose()


def test_a_program_that_begins_units_by_itself_takes_part(embedded: Connection, sqlite: Engine) -> None:
    """SQLAlchemy's own recipe for units that are SQLite's rather than the driver's, and a write-ahead log."""

    def undriven(dbapi: sqlite3.Connection, _: object) -> None:
        dbapi.isolation_level = None
        dbapi.execute("PRAGMA journal_mode = WAL")

    event.listen(sqlite, "connect", undriven)
    event.listen(sqlite, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    sqlite.dispose()
    embedded.put("ORDERS", b"0", persistent=True)
    assert move(embedded, sqlite).state == "committed"
    leave_in_doubt(embedded, sqlite, committed=True)
    leave_in_doubt(embedded, sqlite, committed=False, body="two")
    recover(embedded, sqlite)
    assert (rows(sqlite), depth(embedded, "DONE")) == (["0", "one"], 2)


# --- rows do not pile up -----------------------------------------------------------------------------------


def test_a_connection_keeps_the_row_of_its_last_unit_only(connection: Connection, sqlite: Engine) -> None:
    for number in range(20):
        connection.put("ORDERS", b"%d" % number, persistent=True)
        unit = move(connection, sqlite)
    assert remembered(sqlite) == [(unit.transaction_id, "committed")]


def test_rows_of_earlier_connections_are_swept_but_not_those_in_doubt(
    tmp_path: Path, sqlite: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_ROWS_KEPT", 5)
    create(tmp_path / "QM1", log=SMALL_LOG)
    most = 0
    with connect(f"embedded:{tmp_path}/QM1") as connection:
        define(connection)
        unit = leave_in_doubt(connection, sqlite, committed=True)
        with sqlite.begin() as database:
            database.execute(text("INSERT INTO entrepot_units VALUES ('entrepot-another-1-1', 'committed')"))
        with monkeypatch.context() as patched:
            patched.setattr(recovery, "recover_last_agent", lambda *_: None)
            for number in range(20):
                with connect(f"embedded:{tmp_path}/QM1") as another:
                    another.put("ORDERS", b"%d" % number, persistent=True)
                    move(another, sqlite)
                most = max(most, len(remembered(sqlite)))
        assert (unit, "committed") in remembered(sqlite)
        assert ("entrepot-another-1-1", "committed") in remembered(sqlite), "another queue manager's"
        assert most <= 8
        recover(connection, sqlite)
        assert connection.administration.in_doubt() == []
