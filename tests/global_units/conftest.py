# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL for each test process, and queue managers to go with it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine

from entrepot.client.blocking import Connection, connect
from entrepot.engine.folder import create
from entrepot.testing.postgres import Postgres
from entrepot.testing.servers import ServerThread
from global_units.crash import SMALL_LOG


@contextmanager
def new_postgres(prepared_max: int = 64) -> Iterator[Postgres]:
    """Not in pytest's own folders, which are private to who runs the tests."""
    folder = Path(tempfile.mkdtemp(prefix="entrepot-postgres-"))
    try:
        with Postgres(folder, prepared_max=prepared_max) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with new_postgres() as running:
        yield running


@pytest.fixture
def engine(postgres: Postgres) -> Iterator[Engine]:
    """An engine with an empty table; nothing may be left prepared behind a test."""
    engine = create_engine(postgres.url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS orders"))
        connection.execute(text("CREATE TABLE orders (body text PRIMARY KEY)"))
    yield engine
    left = prepared(engine)
    for name in left:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"ROLLBACK PREPARED '{name}'")
    engine.dispose()
    assert left == []


@pytest.fixture
def other_engine(postgres: Postgres, engine: Engine) -> Iterator[Engine]:
    """A second way to the same server: to a global unit it is another database."""
    other = create_engine(postgres.url, connect_args={"application_name": "other"})
    with other.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS audit"))
        connection.execute(text("CREATE TABLE audit (body text PRIMARY KEY)"))
    yield other
    other.dispose()


@pytest.fixture(params=["embedded", "unix", "mq"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connection]:
    """A connection by each binding, with queues ORDERS and DONE."""
    path = tmp_path / "QM1"
    create(path, log=SMALL_LOG)
    if request.param == "embedded":
        with connect(f"embedded:{path}") as found:
            define(found)
            yield found
        return
    with ServerThread(path) as server, connect(server.unix_url) as found:
        define(found)
        if request.param == "unix":
            yield found
            return
        open_to_app(found)
        with connect(f"mq://127.0.0.1:{server.port('L')}/QM1?channel=APP") as remote:
            yield remote


@pytest.fixture
def successor(connection: Connection, tmp_path: Path) -> Iterator[Connection]:
    """Another connection to the same queue manager, which may take anybody's place."""
    scheme = "embedded" if connection.is_near else "unix"
    with connect(f"{scheme}:{tmp_path}/QM1") as found:
        yield found


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Connection]:
    create(tmp_path / "QM1", log=SMALL_LOG)
    with connect(f"embedded:{tmp_path}/QM1") as found:
        define(found)
        yield found


def define(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(ORDERS) REPLACE\nDEFINE QLOCAL(DONE) REPLACE")


def open_to_app(connection: Connection) -> None:
    """Let `app` in, who may put and get and nothing else."""
    connection.mqsc(
        """
        DEFINE LISTENER(L) PORT(0) IPADDR('127.0.0.1')
        START LISTENER(L)
        DEFINE CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('app')
        ALTER QMGR CHLAUTH(DISABLED)
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT, PREPARE)
        SET AUTHREC PROFILE('flow/*') OBJTYPE(CLAIM) PRINCIPAL('app') AUTHADD(SET)
        SET AUTHREC PROFILE('**') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT, GET, BROWSE)
        """
    )


def prepared(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(text("SELECT gid FROM pg_prepared_xacts")).all())


def rows(engine: Engine, table: str = "orders") -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(text(f"SELECT body FROM {table} ORDER BY body")).all())


def depth(connection: Connection, queue: str) -> int:
    return len(list(connection.browse(queue)))
