# SPDX-License-Identifier: Apache-2.0
"""A queue manager, an application and PostgreSQL in processes of their own, and SIGKILL for any of them at any step."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from entrepot.client.blocking import Connection, connect
from entrepot.daemon.server import Server, new_event_loop
from entrepot.engine.databases import points
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import ConnectFailed, EntrepotError
from entrepot.testing.postgres import Postgres, kill_all

# Copied for every kill, so it has to be small.
SMALL_LOG = LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4)
COUNT = 3
REPETITIONS = 20
"""Of each kill in a long campaign: not a test each, since every process of a run would make them, run or not."""
HEAL_S = 60.0
MANAGER, APPLICATION, POSTGRES = "queue manager", "application", "PostgreSQL"
Plant = Callable[[], None]


class Violated(AssertionError):
    """A row without its message, a message without its row, or something left for ever."""


@dataclass(frozen=True)
class Kill:
    """Who dies when a point is reached for the `count`-th time."""

    victims: tuple[str, ...]
    point: str
    count: int = 2

    def __str__(self) -> str:
        return f"{' and '.join(self.victims)} {self.point} {self.count}"


# --- in the children -----------------------------------------------------------------------------


def _fork(work: Callable[[], None]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def _serve(path: Path) -> None:
    async def run() -> None:
        server = await Server.start(path)
        await server.stopped()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run())


@dataclass(frozen=True)
class SQLiteFile:
    """A database that nobody can kill, in the place of PostgreSQL."""

    path: Path
    pids: tuple[int, ...] = ()
    is_running: bool = True

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def start(self) -> None:
        pass


Database = Postgres | SQLiteFile


def engines_of(postgres: Database) -> list[Engine]:
    """Two databases, as far as a global unit knows; or one, which commits in one phase."""
    if isinstance(postgres, SQLiteFile):
        return [create_engine(postgres.url)]
    return [create_engine(postgres.url), create_engine(postgres.url, connect_args={"application_name": "other"})]


def _work(path: Path, postgres: Database, kill: Kill | None, manager_pid: int) -> None:
    """Move every order, until all have moved."""
    if kill is not None:
        _plan(kill, postgres, manager_pid)
    engines = engines_of(postgres)
    deadline = time.monotonic() + HEAL_S
    with _connect(path, deadline) as connection:
        while time.monotonic() < deadline:
            try:
                if not _move(connection, engines) and len(list(connection.browse("DONE"))) == COUNT:
                    return
            except IntegrityError as error:
                raise Violated(f"a row is there whose message has not moved: {error}") from error
            except (EntrepotError, SQLAlchemyError):
                time.sleep(0.05)
    raise Violated("the application did not come to its end")


def _connect(path: Path, deadline: float) -> Connection:
    """Connect to a queue manager that may be about to start."""
    while True:
        try:
            return connect(f"unix:{path}", reconnect_s=20)
        except ConnectFailed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _move(connection: Connection, engines: Sequence[Engine]) -> bool:
    with connection.global_unit_of_work(*engines) as unit:
        order = unit.get("ORDERS", wait_s=0.1)
        if order is None:
            return False
        for engine, table in zip(engines, ("orders", "audit"), strict=False):
            unit.database(engine).execute(text(f"INSERT INTO {table} VALUES (:body)"), {"body": order.body.decode()})
        unit.put("DONE", order.body, persistent=True)
    return True


def _plan(kill: Kill, postgres: Database, manager_pid: int) -> None:
    left = kill.count

    def reached(point: str) -> None:
        nonlocal left
        if point != kill.point:
            return
        left -= 1
        if left:
            return
        if MANAGER in kill.victims:
            os.kill(manager_pid, signal.SIGKILL)
        if POSTGRES in kill.victims:
            kill_all(postgres.pids)
        if APPLICATION in kill.victims:
            os.kill(os.getpid(), signal.SIGKILL)

    points.reached = reached


# --- the world -----------------------------------------------------------------------------------


def lay_out(path: Path) -> None:
    create(path, log=SMALL_LOG)
    with connect(f"embedded:{path}") as connection:
        connection.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QLOCAL(DONE)")
        for number in range(COUNT):
            connection.put("ORDERS", b"order %d" % number, persistent=True)


def lay_out_tables(engine: Engine) -> None:
    with engine.begin() as connection:
        for table in ("orders", "audit"):
            connection.execute(text(f"DROP TABLE IF EXISTS {table}"))
            connection.execute(text(f"CREATE TABLE {table} (body text PRIMARY KEY)"))


class World:
    """All three, restarted when they die."""

    def __init__(
        self,
        path: Path,
        postgres: Database,
        kill: Kill | None,
        plant: Plant | None = None,
        manager: Plant | None = None,
    ) -> None:
        """`plant` happens in both children; `manager` in the queue manager's first life only."""
        self._path = path
        self._postgres = postgres
        self._plant = plant
        self.deaths = 0
        self._manager = self._start_manager(manager)
        self._application = self._start_application(kill)

    def _start_manager(self, extra: Plant | None = None) -> int:
        def work() -> None:
            for plant in (self._plant, extra):
                if plant is not None:
                    plant()
            _serve(self._path)

        return _fork(work)

    def _start_application(self, kill: Kill | None = None) -> int:
        def work() -> None:
            if self._plant is not None:
                self._plant()
            _work(self._path, self._postgres, kill, self._manager)

        return _fork(work)

    def run(self) -> None:
        """Until the application has done its work.

        Raises:
            Violated: It could not.
        """
        deadline = time.monotonic() + HEAL_S + 5
        try:
            while True:
                status = _status(self._application)
                if status == 0:
                    return
                if status is not None and status > 0:
                    raise Violated("the application has failed; see what it printed")
                if not self._postgres.is_running:
                    self.deaths += 1
                    self._postgres.start()
                if _status(self._manager) is not None:
                    self.deaths += 1
                    self._manager = self._start_manager()
                if status is not None:
                    self.deaths += 1
                    self._application = self._start_application()
                if time.monotonic() > deadline:
                    raise Violated("it did not heal")
                time.sleep(0.005)
        finally:
            for pid in (self._application, self._manager):
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
            if not self._postgres.is_running:
                self._postgres.start()


def _status(pid: int) -> int | None:
    """How a process has ended: its exit code, minus its signal, or None while it runs."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return None if not found else os.waitstatus_to_exitcode(status)


def check(path: Path, postgres: Postgres) -> None:
    """A row exists if and only if its message has moved, and nothing is prepared for ever."""
    engine = create_engine(postgres.url)
    try:
        with connect(f"embedded:{path}") as connection, engine.connect() as database:
            done = sorted(message.body.decode() for message in connection.browse("DONE"))
            waiting = sorted(message.body.decode() for message in connection.browse("ORDERS"))
            deadline = time.monotonic() + HEAL_S
            prepared = text("SELECT gid FROM pg_prepared_xacts")
            while (left := list(database.scalars(prepared).all())) and time.monotonic() < deadline:
                with connection.global_unit_of_work(engine):
                    time.sleep(0.1)
            # What was finished is forgotten, at the latest when somebody has asked the databases once more.
            with connection.global_unit_of_work(*engines_of(postgres)):
                pass
            report = connection.administration.in_doubt()
            # Not before: the application may have ended while a decided branch still waited for a dead database.
            database.rollback()
            found = [sorted(database.scalars(text(f"SELECT body FROM {table}")).all()) for table in ("orders", "audit")]
    finally:
        engine.dispose()
    if left or waiting or report or not done == found[0] == found[1] == [f"order {each}" for each in range(COUNT)]:
        raise Violated(f"moved {done}, not moved {waiting}, rows {found}, prepared {left}, open {report}")
