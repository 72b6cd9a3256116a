# SPDX-License-Identifier: Apache-2.0
"""The queue manager itself ends what applications have left at databases that it knows."""

from __future__ import annotations

import itertools
import logging
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import Engine
from typer.testing import CliRunner

from entrepot.cli.main import app
from entrepot.client.blocking import Connection, connect
from entrepot.engine.databases import watch
from entrepot.engine.databases.registered import FILE, RegisteredResources
from entrepot.engine.databases.resource import resource_of
from entrepot.engine.databases.watch import ResourceWatch
from entrepot.engine.folder import create
from entrepot.errors import FileNotPrivate, InvalidArgument, InvalidName, SecurityFileUnusable
from entrepot.testing.postgres import Postgres
from entrepot.testing.servers import ServerThread
from global_units.conftest import define, prepared, rows
from global_units.crash import SMALL_LOG


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look every moment rather than every few seconds."""
    monkeypatch.setitem(ResourceWatch.__init__.__kwdefaults__, "every_s", 0.05)


@pytest.fixture
def path(tmp_path: Path, postgres: Postgres) -> Path:
    """A queue manager that knows the database."""
    create(tmp_path / "QM1", log=SMALL_LOG)
    with connect(f"embedded:{tmp_path}/QM1") as connection:
        define(connection)
    resources = RegisteredResources.load(tmp_path / "QM1")
    resources.add("SHOP", postgres.url)
    resources.save()
    return tmp_path / "QM1"


def leave_two(connection: Connection, engine: Engine) -> None:
    """One branch that was decided and one that was not, and nobody who goes on with them."""
    coordinator = connection._coordinator
    resource = resource_of(engine)
    for decided in (True, False):
        unit, transaction_id = coordinator.begin()
        branch = resource.open(f"{transaction_id}-0")
        branch.connection.execute(text("INSERT INTO orders VALUES (:body)"), {"body": f"decided: {decided}"})
        branch.prepare()
        if decided:
            coordinator.decide(unit, [branch.form])
        else:
            connection.calls.back_out(unit)
        branch.leave()


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_server_recovers_by_itself(path: Path, engine: Engine) -> None:
    with ServerThread(path) as server, connect(server.unix_url) as connection:
        leave_two(connection, engine)
        until(lambda: prepared(engine) == [])
        until(lambda: connection.administration.in_doubt() == [])
    assert rows(engine) == ["decided: True"]


def test_an_embedded_queue_manager_does_too(path: Path, engine: Engine) -> None:
    with connect(f"embedded:{path}") as connection:
        leave_two(connection, engine)
        until(lambda: prepared(engine) == [])
        until(lambda: connection.administration.in_doubt() == [])
    assert rows(engine) == ["decided: True"]


def test_it_recovers_what_an_earlier_start_has_left(tmp_path: Path, path: Path, engine: Engine) -> None:
    (path / FILE).rename(tmp_path / FILE)
    with connect(f"embedded:{path}") as connection:
        leave_two(connection, engine)
        assert len(prepared(engine)) == 2
    (tmp_path / FILE).rename(path / FILE)
    with ServerThread(path):
        until(lambda: prepared(engine) == [])
    assert rows(engine) == ["decided: True"]


def test_a_database_that_is_down_is_told_once_and_found_again(
    path: Path, engine: Engine, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "entrepot")
    with connect(f"embedded:{path}") as connection:
        leave_two(connection, engine)
        until(lambda: prepared(engine) == [])
        postgres.kill()
        try:
            until(lambda: "resource SHOP: " in caplog.text)
            time.sleep(0.3)
        finally:
            postgres.start()
        engine.dispose()
        until(lambda: "resource SHOP can be reached again" in caplog.text)
    told = [record.getMessage() for record in caplog.records if "resource SHOP: " in record.getMessage()]
    # Not with every round, but when it is another problem: gone, refused, starting up, not yet accepting.
    assert all(one != another for one, another in itertools.pairwise(told))


# --- the file and the command line ---------------------------------------------------------------


def test_resources_are_kept_in_a_private_file(path: Path) -> None:
    assert stat.S_IMODE((path / FILE).stat().st_mode) == 0o600
    (path / FILE).chmod(0o644)
    with pytest.raises(FileNotPrivate):
        RegisteredResources.load(path)
    (path / FILE).chmod(0o600)
    (path / FILE).write_text('{"SHOP": 7}')
    with pytest.raises(SecurityFileUnusable):
        RegisteredResources.load(path)


def test_wrong_resources_are_refused(path: Path) -> None:
    resources = RegisteredResources.load(path)
    with pytest.raises(InvalidArgument) as refused:
        resources.add("X", "no url, but a secret")
    assert "secret" not in str(refused.value)
    with pytest.raises(InvalidName):
        resources.add("not a name", "postgresql://db/shop")
    with pytest.raises(InvalidArgument):
        resources.remove("NOBODY")
    with pytest.raises(TypeError):
        resources.__reduce__()


def test_resources_by_the_command_line(tmp_path: Path) -> None:
    create(tmp_path / "QM1", log=SMALL_LOG)
    shell = CliRunner()

    def said(*words: str, stdin: str | None = None) -> str:
        result = shell.invoke(app, ["qm", "resource", words[0], str(tmp_path / "QM1"), *words[1:]], input=stdin)
        assert result.exit_code == 0, result.output
        return result.output

    assert "added" in said("add", "SHOP", "-", stdin="postgresql+psycopg://ann:secret@db/shop\n")
    listed = said("list")
    assert "postgresql://ann@db/shop" in listed
    assert "secret" not in listed
    assert '"SHOP"' in said("list", "--json")
    assert "removed" in said("remove", "SHOP")
    assert said("list", "--json").strip() == "[]"


def test_without_a_file_nothing_is_watched(tmp_path: Path) -> None:
    assert not ResourceWatch.is_wanted(tmp_path)
    assert watch.FILE == FILE
