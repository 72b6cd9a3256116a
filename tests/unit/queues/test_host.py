# SPDX-License-Identifier: Apache-2.0
"""The engine among threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from entrepot import Connection
from entrepot.disk import SystemDisk
from entrepot.errors import DiskFailed, QueueManagerFailed
from entrepot.recovery_log.group import Group
from entrepot.recovery_log.reader import LogReader


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
    assert connection.host.queue_status("C")["CURDEPTH"] == len(expected)
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
    assert connection.host.queue_status("Q")["CURDEPTH"] == 0


def test_checkpoints_run_beside_the_verbs(connection: Connection) -> None:
    done = threading.Event()

    def checkpoint() -> None:
        while not done.is_set():
            connection.host.checkpoint()

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
    while not connection.host.queue_status("Q")["IPPROCS"]:
        time.sleep(0.001)
    with connection.host._lock:
        connection.host._manager.fail(DiskFailed("/", "I/O error"))
    thread.join()
    assert isinstance(results[0], QueueManagerFailed)
    for verb in (
        lambda: connection.put("Q", b""),
        lambda: connection.get("Q"),
        lambda: connection.browse("Q"),
        connection.unit_of_work,
        lambda: connection.resolve(b"x", commit=True),
    ):
        with pytest.raises(QueueManagerFailed):
            verb()
    connection.close()


def test_status_tells_how_the_queue_manager_is_doing(connection: Connection) -> None:
    connection.put("Q", b"")
    connection.unit_of_work().prepare(b"x")
    status = connection.host.status()
    assert (status["name"], status["state"], status["messages"], status["in_doubt"]) == ("QM1", "running", 1, 1)
    assert status["starts"] == 1


def test_a_quiet_queue_manager_closes_its_log_with_a_mark(connection: Connection) -> None:
    """Damage to the last group is told from a torn write of it by the mark alone."""
    connection.put("Q", b"the last", persistent=True)
    log = connection.host._manager.log
    end = log.forced_position
    while log.appended_position == end:
        time.sleep(0.001)
    settings = connection.host.settings
    reader = LogReader(SystemDisk(connection.host.path), settings.log, settings.manager_id)
    last = list(reader.records(0))[-1]
    assert isinstance(last.record, Group)
    assert (last.position, last.record.body_bytes, last.record.forced_position) == (end, 0, end)


def test_close_may_be_repeated(place: Any) -> None:
    host = place.open().host
    host.close()
    host.close()
    assert place.open().host.status()["starts"] == 2
