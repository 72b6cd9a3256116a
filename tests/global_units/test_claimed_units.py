# SPDX-License-Identifier: Apache-2.0
"""Global units of work by every binding: read ahead, given back uncounted, and ended by who was fenced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine

from entrepot.client.blocking import Connection
from entrepot.engine.databases import points
from entrepot.engine.databases.branch import OneTimeBranch
from entrepot.engine.databases.points import PREPARED
from entrepot.errors import Fenced, PrepareFailed, QueueNotFound
from global_units.conftest import depth, prepared, rows

INSERT = text("INSERT INTO orders VALUES (:body)")


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Engine]:
    """It has a constraint that is looked at when it commits."""
    engine = create_engine(f"sqlite:///{tmp_path}/rows.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (body text PRIMARY KEY)"))
        connection.execute(text("CREATE TABLE parent (id integer PRIMARY KEY)"))
        late = "REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED"
        connection.execute(text(f"CREATE TABLE child (parent integer {late})"))
    yield engine
    engine.dispose()


def counts(connection: Connection, queue: str = "ORDERS") -> list[tuple[bytes, int]]:
    return sorted((message.body, message.backout_count) for message in connection.browse(queue))


def refuse(database: Any) -> None:
    """Let a SQLite database refuse its commit."""
    database.exec_driver_sql("PRAGMA foreign_keys = ON")
    database.execute(INSERT, {"body": "never"})
    database.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    database.execute(text("INSERT INTO child VALUES (7)"))


@pytest.mark.parametrize("read_ahead", [1, 10])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_reader_serves_global_units(
    connection: Connection, sqlite: Engine, engine: Engine, read_ahead: int, kind: str
) -> None:
    used = sqlite if kind == "sqlite" else engine
    for number in range(6):
        connection.put("ORDERS", b"%d" % number, persistent=number % 2 == 0)
    with connection.reader("ORDERS", read_ahead=read_ahead) as reader:
        for _ in range(2):
            with connection.global_unit_of_work(used) as unit:
                order = reader.get(unit, wait_s=60)
                assert order is not None
                unit.database(used).execute(INSERT, {"body": order.body.decode()})
                unit.put("DONE", order.body, persistent=True)
        with pytest.raises(ZeroDivisionError), connection.global_unit_of_work(used) as unit:
            unit.database(used).execute(INSERT, {"body": "never"})
            assert reader.get(unit, wait_s=60) is not None
            raise ZeroDivisionError
        with connection.global_unit_of_work(used) as unit:
            order = reader.get(unit, wait_s=60)
            assert order is not None
            assert (order.body, order.backout_count) == (b"2", 1)
        with connection.unit_of_work() as local:
            assert reader.get(local, wait_s=60) is not None
    assert rows(used) == ["0", "1"]
    assert counts(connection, "DONE") == [(b"0", 0), (b"1", 0)]
    assert counts(connection) == [(b"4", 0), (b"5", 0)]


@pytest.mark.parametrize("read_ahead", [0, 10])
@pytest.mark.parametrize("how", ["back_out", "database", "put"])
def test_messages_are_given_back_uncounted(connection: Connection, sqlite: Engine, read_ahead: int, how: str) -> None:
    for number in range(3):
        connection.put("ORDERS", b"%d" % number, persistent=True)
    reader = connection.reader("ORDERS", read_ahead=read_ahead) if read_ahead else None
    for counted, count in ((False, 0), (False, 0), (True, 1), (False, 1)):
        unit = connection.global_unit_of_work(sqlite)
        for _ in range(2):
            assert (reader.get(unit, wait_s=60) if reader else unit.get("ORDERS")) is not None
        if how == "back_out":
            unit.database(sqlite).execute(INSERT, {"body": "never"})
            unit.back_out(counted=counted)
        elif how == "database":
            refuse(unit.database(sqlite))
            with pytest.raises(PrepareFailed):
                unit.commit(counted=counted)
        else:
            unit.database(sqlite).execute(INSERT, {"body": "never"})
            with pytest.raises(Exception, match="NOWHERE") as refused:  # by itself, or as why the unit was backed out
                unit.put("NOWHERE", b"")
                unit.commit(counted=counted)
            if unit.state == "active":
                assert isinstance(refused.value, QueueNotFound)
                unit.back_out(counted=counted)
        assert unit.state == "backed out"
        assert counts(connection)[:2] == [(b"0", count), (b"1", count)]
    if reader is not None:
        reader.close()
    assert counts(connection) == [(b"0", 1), (b"1", 1), (b"2", 0)]
    assert rows(sqlite) == []
    assert connection._coordinator.outcomes([unit.transaction_id]) == ["unknown"]


def test_who_is_fenced_cannot_decide(
    connection: Connection, successor: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    connection.claim("flow/1", 1)
    monkeypatch.setattr(points, "reached", lambda at: successor.claim("flow/1", 2) if at == PREPARED else None)
    unit = connection.global_unit_of_work(engine)
    assert unit.get("ORDERS", wait_s=60) is not None
    unit.database(engine).execute(INSERT, {"body": "one"})
    unit.put("DONE", b"one", persistent=True)
    with pytest.raises(Fenced):
        unit.commit()
    assert unit.state == "backed out"
    assert (rows(engine), prepared(engine)) == ([], [])
    assert (counts(successor), depth(successor, "DONE")) == ([(b"one", 1)], 0)
    with pytest.raises(Fenced):
        connection.global_unit_of_work(engine)


def test_what_the_last_agent_has_decided_is_told_by_who_was_fenced_meanwhile(
    connection: Connection, successor: Connection, sqlite: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = OneTimeBranch.commit

    def commit_and_be_fenced(branch: OneTimeBranch) -> None:
        commit(branch)
        successor.claim("flow/1", 2)

    connection.put("ORDERS", b"one", persistent=True)
    connection.claim("flow/1", 1)
    monkeypatch.setattr(OneTimeBranch, "commit", commit_and_be_fenced)
    with connection.global_unit_of_work(sqlite) as unit:
        assert unit.get("ORDERS", wait_s=60) is not None
        unit.database(sqlite).execute(INSERT, {"body": "one"})
        unit.put("DONE", b"one", persistent=True)
    assert unit.state == "committed"
    assert rows(sqlite) == ["one"]
    assert (depth(successor, "ORDERS"), depth(successor, "DONE"), successor.in_doubt()) == (0, 1, [])
