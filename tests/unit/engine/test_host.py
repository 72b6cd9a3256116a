# SPDX-License-Identifier: Apache-2.0
"""The engine among threads."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SMALL_LOG, host_of
from entrepot import Connection
from entrepot.compiled import form
from entrepot.disk import SystemDisk
from entrepot.engine import host as host_module
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.group import Group
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.errors import DiskFailed, DiskFull, EntrepotError, QueueManagerFailed
from entrepot.message import Message
from entrepot.testing import FaultyDisk
from hosted import Host


def together(*actions: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_concurrent_units_are_all_or_nothing(place: Any) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)\nDEFINE QLOCAL(C)")

    def work(part: int) -> None:
        for number in range(25):
            unit = connection.unit_of_work()
            for queue in ("A", "B"):
                unit.put(queue, b"%d" % (part * 100 + number), persistent=True)
            unit.put("C", b"")
            if number % 5:
                unit.commit()
            else:
                unit.back_out()

    together(*(lambda part=part: work(part) for part in range(8)))
    expected = sorted(part * 100 + number for part in range(8) for number in range(25) if number % 5)
    killed = place.killed()
    for one in (connection, killed.open()):
        for queue in ("A", "B"):
            found = [int(message.body) for message in one.browse(queue)]
            assert sorted(found) == expected
            for part in range(8):
                mine = [number for number in found if number // 100 == part]
                assert mine == sorted(mine), "each thread's messages keep their order"
    assert host_of(connection).queue_status("C")["CURDEPTH"] == len(expected)
    killed.close()


def test_persistent_messages_move_between_queues_without_loss_or_duplicate(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(OUT)")
    for number in range(200):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 0)

    def move(part: int) -> None:
        turn = 0
        while True:
            turn += 1
            unit = connection.unit_of_work()
            message = unit.get("Q", wait_s=0.3)
            if message is None:
                unit.back_out()
                return
            unit.put("OUT", message.body, persistent=message.persistent)
            if (turn + part) % 7 == 0:
                unit.back_out()
            else:
                unit.commit()

    together(*(lambda part=part: move(part) for part in range(6)))
    assert sorted(int(message.body) for message in connection.browse("OUT")) == list(range(200))
    assert host_of(connection).queue_status("Q")["CURDEPTH"] == 0


def test_checkpoints_run_beside_the_verbs(connection: Connection) -> None:
    done = threading.Event()

    def checkpoint() -> None:
        while not done.is_set():
            connection.administration.checkpoint()

    def verbs() -> None:
        for number in range(300):
            connection.put("Q", b"%d" % number, persistent=True)
            if number >= 50:
                message = connection.get("Q")
                assert message is not None
                assert message.body == b"%d" % (number - 50)
        done.set()

    together(checkpoint, verbs)
    assert [message.body for message in connection.browse("Q")] == [b"%d" % number for number in range(250, 300)]


def test_failed_disk_stops_every_verb_and_wakes_every_reader(connection: Connection) -> None:
    results: list[object] = []

    def wait() -> None:
        try:
            results.append(connection.get("Q", wait_s=60))
        except QueueManagerFailed as error:
            results.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while not host_of(connection).queue_status("Q")["IPPROCS"]:
        time.sleep(0.001)
    with connection.calls.line._lock:
        host_of(connection)._manager.fail(DiskFailed("/", "I/O error"))
    thread.join()
    assert isinstance(results[0], QueueManagerFailed)
    for verb in (
        lambda: connection.put("Q", b""),
        lambda: connection.get("Q"),
        lambda: connection.browse("Q"),
        lambda: connection.resolve(b"x", commit=True),
    ):
        with pytest.raises(QueueManagerFailed):
            verb()
    connection.close()


def test_status_tells_how_the_queue_manager_is_doing(connection: Connection) -> None:
    connection.put("Q", b"")
    connection.unit_of_work().prepare(b"x")
    status = connection.administration.status()
    assert (status["name"], status["state"], status["messages"], status["in_doubt"]) == ("QM1", "running", 1, 1)
    assert (status["starts"], status["form"]) == (1, form())


def test_a_quiet_queue_manager_closes_its_log_with_a_mark(connection: Connection) -> None:
    """Damage to the last group is told from a torn write of it by the mark alone."""
    connection.put("Q", b"the last", persistent=True)
    host = host_of(connection)
    log = host._manager.log
    end = log.forced_position

    def is_marked() -> bool:
        with host.lock:  # the mark is on disk when its writer lets the lock go, and not before
            return log.appended_position != end

    while not is_marked():
        time.sleep(0.001)
    settings = host.settings
    reader = LogReader(SystemDisk(host.path), settings.log, settings.manager_id)
    last = list(reader.records(0))[-1]
    assert isinstance(last.record, Group)
    assert (last.position, last.record.body_bytes, last.record.forced_position) == (end, 0, end)


def test_close_may_be_repeated(place: Any) -> None:
    host = host_of(place.open())
    host.close()
    host.close()
    assert host_of(place.open()).status()["starts"] == 2


# --- what a start takes and an end lets go ------------------------------------------------------


class Faults:
    """Lets a test look at, or refuse, what the disk is asked for."""

    def __init__(self, before: Callable[[str, str], object] = lambda operation, path: None) -> None:
        self.look = before

    def before(self, operation: str, path: str, size: int) -> int | None:
        self.look(operation, path)
        return None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create(tmp_path / "QM", name="QM", log=SMALL_LOG)
    return tmp_path / "QM"


def test_the_lock_is_free_while_the_log_is_forced(folder: Path) -> None:
    """Others go on meanwhile; were it held, nobody could ever release it again."""
    held: list[str] = []
    faults = Faults()
    host = Host(folder, disk=FaultyDisk(folder, faults))

    def look(operation: str, path: str) -> None:
        if operation == "force" and path.startswith("log/"):
            if not host.lock.acquire(timeout=10):
                held.append(path)
            host.lock.release()

    faults.look = look
    host.define(LocalQueue(name="Q"), replace=False)
    faults.look = lambda operation, path: None
    assert held == []
    host.close()


class Held:
    """What this process has of a queue manager that it had not before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = set(threading.enumerate())

    @property
    def threads(self) -> set[str]:
        return {thread.name for thread in set(threading.enumerate()) - self._before}

    @property
    def files(self) -> set[str]:
        found = set()
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):
                found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        return {name for name in found if name.startswith(str(self._folder))}


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), KeyboardInterrupt()])
def test_a_start_that_failed_lets_the_folder_go(folder: Path, error: BaseException) -> None:
    def fail(operation: str, path: str) -> None:
        raise error

    held = Held(folder)
    with pytest.raises((EntrepotError, KeyboardInterrupt)):
        Host(folder, disk=FaultyDisk(folder, Faults(fail)))
    assert (held.files, held.threads) == (set(), set())
    Host(folder).close()


def test_a_close_lets_files_and_threads_go(folder: Path) -> None:
    held = Held(folder)
    host = Host(folder)
    host.define(LocalQueue(name="Q"), replace=False)
    host.want_force()
    host.put("Q", Message(b""), persistent=True)
    assert held.files
    assert held.threads >= {"entrepot-housekeeper", "entrepot-forcer"}
    host.close()
    assert (held.files, held.threads) == (set(), set())


# --- readers that wait --------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_a_reader_that_waited_in_vain_takes_nothing_later(connection: Connection, persistent: bool) -> None:
    host = host_of(connection)
    unit = host.begin()
    for waits_in in (None, unit):
        assert host.get("Q", unit=waits_in, wait_s=0.001) is None
        assert host.queue_status("Q")["IPPROCS"] == 0
    connection.put("Q", b"for others", persistent=persistent)
    assert unit.takes == []
    assert connection.get("Q") is not None


def test_a_reader_that_begins_to_wait_gets_what_has_come_meanwhile(connection: Connection) -> None:
    host = host_of(connection)
    for persistent in (False, True):
        connection.put("Q", b"came", persistent=persistent)
        message = host.get_when_it_comes("Q", None, host.private_unit(), 60)
        assert message is not None
        assert host.queue_status("Q")["CURDEPTH"] == 0, "it has left for good"


def test_a_reader_that_waits_is_served_by_another_thread(connection: Connection) -> None:
    found: list[Any] = []
    for persistent in (False, True):
        reader = threading.Thread(target=lambda: found.append(connection.get("Q", wait_s=60)))
        reader.start()
        while not host_of(connection).queue_status("Q")["IPPROCS"]:
            time.sleep(0.001)
        connection.put("Q", b"%d" % persistent, persistent=persistent)
        reader.join()
        assert host_of(connection).queue_status("Q")["CURDEPTH"] == 0
    assert [message.body for message in found] == [b"0", b"1"]


# --- checkpoints that fail ----------------------------------------------------------------------


def test_after_a_checkpoint_that_failed_the_next_waits_for_time_or_for_gets(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "_CHECKPOINT_RETRY_S", 3600.0)
    faults = Faults()
    host = Host(folder, disk=FaultyDisk(folder, faults))
    host.define(LocalQueue(name="Q"), replace=False)
    assert host.may_checkpoint

    def refuse(operation: str, path: str) -> None:
        if operation in ("write", "force", "rename") and "log" not in path:
            raise OSError(28, "No space left on device", path)

    faults.look = refuse
    with pytest.raises(DiskFull):
        host.checkpoint()
    assert not host.may_checkpoint
    begin, log = host.manager.log.appended_position, host.manager.log
    while log.appended_position - begin < log.reserve_bytes // 4:
        assert not host.may_checkpoint
        host.put("Q", Message(b"x" * 500), persistent=True)
    assert host.may_checkpoint
    faults.look = lambda operation, path: None
    host.checkpoint()
    host.close()
