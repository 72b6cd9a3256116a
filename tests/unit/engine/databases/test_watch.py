# SPDX-License-Identifier: Apache-2.0
"""The queue manager looks after the databases of its file: how often, what it tells, and when it ends."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.engine.databases import recovery, watch
from entrepot.engine.databases.registered import FILE, RegisteredResources
from entrepot.engine.databases.watch import ResourceWatch
from entrepot.errors import ConnectionLost, ExtraMissing, QueueManagerFailed, QueueManagerStopped, SecurityFileUnusable
from unit.engine.databases.by_hand import HandThread, Threads


class Databases:
    """Stands in for recovery at databases."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.errors: list[Exception | None] = []
        """What the next ones meet."""
        self.meanwhile: Callable[[], object] = lambda: None

    def recover(self, resource: Any, _: object, prefix: str) -> None:
        assert prefix == "entrepot-00-"
        self.asked.append(resource)
        self.meanwhile()
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    @property
    def names(self) -> list[str]:
        return [resource.name for resource in self.asked]


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> Databases:
    databases = Databases()
    monkeypatch.setattr(recovery, "recover", databases.recover)
    return databases


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    threads = Threads()
    monkeypatch.setattr(watch, "threading", threads.module())
    return threads


@pytest.fixture
def file(tmp_path: Path) -> RegisteredResources:
    """Two databases."""
    resources = RegisteredResources.load(tmp_path)
    resources.add("A", "sqlite:////a.db")
    resources.add("B", "sqlite:////b.db")
    resources.save()
    return resources


@pytest.fixture
def watching(tmp_path: Path, threads: Threads, caplog: pytest.LogCaptureFixture) -> ResourceWatch:
    caplog.set_level(logging.INFO, "entrepot")
    return ResourceWatch(tmp_path, SimpleNamespace(prefix=lambda: "entrepot-00-"), every_s=7.0)


def lost(problem: str) -> ConnectionLost:
    return ConnectionLost("mq://there", problem)


def test_every_database_is_asked_in_every_round(
    file: RegisteredResources, watching: ResourceWatch, databases: Databases
) -> None:
    watching.one_round()
    watching.one_round()
    assert databases.names == ["sqlite:////a.db", "sqlite:////b.db"] * 2
    assert databases.asked[0] is databases.asked[2], "with the engine that there is"


def test_a_change_of_the_file_is_noticed(
    file: RegisteredResources, watching: ResourceWatch, databases: Databases
) -> None:
    watching.one_round()
    file.remove("B")
    file.add("A", "sqlite:////other.db")
    file.save()
    watching.one_round()
    assert databases.names[2:] == ["sqlite:////other.db"]


def test_a_problem_is_told_once_and_so_is_its_end(
    file: RegisteredResources, watching: ResourceWatch, databases: Databases, caplog: pytest.LogCaptureFixture
) -> None:
    databases.errors = [lost("down"), None, lost("down"), None, lost("starting"), None]
    for _ in range(5):
        watching.one_round()
    told = [(record.levelname, record.getMessage().partition(";")[0]) for record in caplog.records]
    assert [(level, "down" in text, "starting" in text) for level, text in told] == [
        ("WARNING", True, False),
        ("WARNING", False, True),
        ("INFO", False, False),
    ]
    assert told[-1][1] == "resource A can be reached again"
    assert len(databases.asked) == 10, "one that is down keeps nobody from the others"


def test_a_problem_is_told_again_after_a_change_of_the_file(
    file: RegisteredResources, watching: ResourceWatch, databases: Databases, caplog: pytest.LogCaptureFixture
) -> None:
    databases.errors = [lost("down"), None, lost("down")]
    watching.one_round()
    file.add("C", "sqlite:////c.db")
    file.save()
    watching.one_round()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_a_file_that_cannot_be_used_is_told_and_read_again(
    tmp_path: Path,
    file: RegisteredResources,
    watching: ResourceWatch,
    databases: Databases,
    threads: Threads,
    caplog: pytest.LogCaptureFixture,
) -> None:
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_text("no resources")
    with pytest.raises(SecurityFileUnusable):
        watching.one_round()
    threads.in_pause = lambda: len(threads.pauses) == 2 and (tmp_path / FILE).write_bytes(content)
    databases.errors = [QueueManagerStopped("QM1")]
    watching.start()
    threads.run()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [f"resource {FILE}"]
    assert len(databases.asked) == 1


@pytest.mark.parametrize("end", [QueueManagerStopped("QM1"), QueueManagerFailed("no disk")])
def test_the_watch_ends_with_its_queue_manager(
    file: RegisteredResources, watching: ResourceWatch, databases: Databases, threads: Threads, end: Exception
) -> None:
    databases.errors = [None, None, None, end]
    watching.start()
    threads.run()
    assert (len(databases.asked), threads.pauses) == (4, [7.0])


def test_the_watch_ends_between_two_databases(
    file: RegisteredResources, watching: ResourceWatch, databases: Databases, threads: Threads
) -> None:
    databases.meanwhile = watching.close
    watching.start()
    threads.run()
    assert (databases.names, threads.pauses) == (["sqlite:////a.db"], [])


def test_the_watch_ends_in_a_pause(
    file: RegisteredResources, watching: ResourceWatch, databases: Databases, threads: Threads
) -> None:
    threads.in_pause = watching.close
    watching.start()
    threads.run()
    assert (len(databases.asked), threads.pauses) == (2, [7.0])


def test_close_waits_for_the_thread_and_the_process_does_not(watching: ResourceWatch, threads: Threads) -> None:
    watching.close()
    watching.start()
    (thread,) = threads.started
    assert isinstance(thread, HandThread)
    assert (thread.daemon, thread.joined) == (True, [])
    watching.close()
    assert len(thread.joined) == 1


def test_databases_need_sqlalchemy(
    file: RegisteredResources, watching: ResourceWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy.exc", None)
    with pytest.raises(ExtraMissing):
        watching.one_round()


def test_only_a_folder_with_a_file_is_watched(tmp_path: Path) -> None:
    assert not ResourceWatch.is_wanted(tmp_path)
    (tmp_path / FILE).touch()
    assert ResourceWatch.is_wanted(tmp_path)
