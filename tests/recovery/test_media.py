# SPDX-License-Identifier: Apache-2.0
"""Backup while running, restore, restore to a time, media recovery of a queue, archive."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest

from entrepot.errors import (
    LogIncomplete,
    LogNotLinear,
    ObjectNotFound,
    QueueManagerExists,
    QueueManagerInUse,
    RunDamaged,
)
from entrepot.message import Message
from entrepot.queues.definitions import LocalQueue
from entrepot.queues.folder import create
from entrepot.queues.host import Host
from entrepot.queues.media import archive, backup, recover_queue, restore
from entrepot.recovery_log.settings import LogSettings

LINEAR = LogSettings(kind="linear", segment_bytes=64 * 1024, primary=2, secondary=2, checkpoint_bytes=60_000)
CIRCULAR = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=2, checkpoint_bytes=60_000)


def open_new(path: Path, log: LogSettings = LINEAR) -> Host:
    create(path, name="QM", log=log)
    host = Host(path)
    for name in ("A", "B"):
        host.define(LocalQueue(name=name, depth_max=1_000_000), replace=False)
    return host


def put(host: Host, queue: str, numbers: range) -> None:
    for number in numbers:
        host.put(queue, Message(b"%d:" % number + b"x" * 900), persistent=True)


def numbers_on(path: Path, queue: str) -> list[int]:
    with contextlib.closing(Host(path)) as host:
        messages, _ = host.browse(queue, None, None, 1_000_000)
        return [int(message.body.partition(b":")[0]) for message in messages]


@pytest.mark.parametrize("log", [LINEAR, CIRCULAR], ids=["linear", "circular"])
def test_a_backup_restores_to_what_was_there(tmp_path: Path, log: LogSettings) -> None:
    with contextlib.closing(open_new(tmp_path / "qm", log)) as host:
        put(host, "A", range(300))
        for _ in range(100):
            host.get("A")
        report = backup(host, tmp_path / "backup")
        put(host, "A", range(300, 310))
    assert report.copied_bytes > 0
    restored = restore(tmp_path / "backup", tmp_path / "new")
    assert restored.messages == 200
    assert numbers_on(tmp_path / "new", "A") == list(range(100, 300))


def test_a_backup_under_load_has_everything_acknowledged_before_it(tmp_path: Path) -> None:
    host = open_new(tmp_path / "qm")
    acknowledged = 0
    stop = threading.Event()

    def load() -> None:
        nonlocal acknowledged
        number = 0
        while not stop.is_set():
            put(host, "A", range(number, number + 1))
            number += 1
            acknowledged = number
            time.sleep(0.0005)  # or the queue grows faster than it is restored

    thread = threading.Thread(target=load)
    thread.start()
    for attempt in range(6):
        time.sleep(0.05)
        before = acknowledged
        backup(host, tmp_path / f"backup-{attempt}")
        after = acknowledged + 1
        restore(tmp_path / f"backup-{attempt}", tmp_path / f"new-{attempt}")
        found = numbers_on(tmp_path / f"new-{attempt}", "A")
        assert found == list(range(len(found)))
        assert before <= len(found) <= after
    stop.set()
    thread.join()
    host.close()


def test_a_restored_queue_manager_goes_on_working(tmp_path: Path) -> None:
    with contextlib.closing(open_new(tmp_path / "qm")) as host:
        put(host, "A", range(50))
        backup(host, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "new")
    with contextlib.closing(Host(tmp_path / "new")) as host:
        put(host, "A", range(50, 300))
    assert numbers_on(tmp_path / "new", "A") == list(range(300))


def test_restore_to_a_point_in_time(tmp_path: Path) -> None:
    with contextlib.closing(open_new(tmp_path / "qm")) as host:
        put(host, "A", range(20))
        backup(host, tmp_path / "backup")
        put(host, "A", range(20, 150))
        host.checkpoint()
        time.sleep(0.02)
        until = time.time()
        time.sleep(0.02)
        put(host, "A", range(150, 200))
        host.clear("A")
    report = restore(tmp_path / "backup", tmp_path / "then", log_from=tmp_path / "qm", until_time=until)
    assert report.messages == 150
    # It must hold for the next start too, which knows nothing of the time.
    assert numbers_on(tmp_path / "then", "A") == list(range(150))
    restore(tmp_path / "backup", tmp_path / "end", log_from=tmp_path / "qm")
    assert numbers_on(tmp_path / "end", "A") == []


def test_a_circular_log_cannot_restore_beyond_its_backup(tmp_path: Path) -> None:
    with contextlib.closing(open_new(tmp_path / "qm", CIRCULAR)) as host:
        backup(host, tmp_path / "backup")
    with pytest.raises(LogNotLinear, match="--log linear"):
        restore(tmp_path / "backup", tmp_path / "new", log_from=tmp_path / "qm")


def damage_runs(path: Path) -> None:
    runs = sorted((path / "runs").glob("*.run"))
    assert runs
    for run in runs:
        data = bytearray(run.read_bytes())
        data[len(data) // 2] ^= 1
        run.write_bytes(data)


def test_media_recovery_rebuilds_a_queue_from_the_linear_log(tmp_path: Path) -> None:
    path = tmp_path / "qm"
    with contextlib.closing(open_new(path)) as host:
        put(host, "A", range(120))
        put(host, "B", range(30))
        for _ in range(20):
            host.get("A")
        host.checkpoint()
        host.checkpoint()
        put(host, "A", range(120, 130))
    damage_runs(path)
    with pytest.raises(RunDamaged):
        Host(path)
    assert recover_queue(path, "A") == 110
    assert numbers_on(path, "A") == list(range(20, 130))
    assert numbers_on(path, "B") == list(range(30))


def test_media_recovery_starts_from_a_backup_when_the_log_is_archived(tmp_path: Path) -> None:
    path = tmp_path / "qm"
    with contextlib.closing(open_new(path)) as host:
        put(host, "A", range(200))
        host.checkpoint()
        host.checkpoint()
        backup(host, tmp_path / "backup")
        assert archive(path, tmp_path / "archive")
        put(host, "A", range(200, 230))
        host.checkpoint()
        host.checkpoint()
    damage_runs(path)
    with pytest.raises(LogIncomplete):
        recover_queue(path, "A")
    assert recover_queue(path, "A", backup=tmp_path / "backup") == 230
    assert numbers_on(path, "A") == list(range(230))


def test_media_recovery_of_an_unknown_queue_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "qm"
    with contextlib.closing(open_new(path)) as host:
        put(host, "A", range(5))
    with pytest.raises(ObjectNotFound):
        recover_queue(path, "NOPE")
    assert numbers_on(path, "A") == list(range(5))
    assert not (path / "rebuilding").exists()


def test_media_recovery_needs_a_stopped_queue_manager(tmp_path: Path) -> None:
    with contextlib.closing(open_new(tmp_path / "qm")), pytest.raises(QueueManagerInUse):
        recover_queue(tmp_path / "qm", "A")


def test_archived_segments_serve_a_restore_to_a_time(tmp_path: Path) -> None:
    path = tmp_path / "qm"
    with contextlib.closing(open_new(path)) as host:
        backup(host, tmp_path / "backup")
        put(host, "A", range(150))
        host.checkpoint()
        host.checkpoint()
        moved = archive(path, tmp_path / "archive")
        assert moved
        assert not any((path / "log" / name).exists() for name in moved)
    with pytest.raises(LogIncomplete):
        restore(tmp_path / "backup", tmp_path / "gap", log_from=path)
    for file in (path / "log").glob("segment-*.log"):
        (tmp_path / "archive" / file.name).write_bytes(file.read_bytes())
    restore(tmp_path / "backup", tmp_path / "new", log_from=tmp_path / "archive")
    assert numbers_on(tmp_path / "new", "A") == list(range(150))


def test_nothing_is_ever_written_over(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with contextlib.closing(open_new(tmp_path / "qm")) as host:
        with pytest.raises(QueueManagerExists):
            backup(host, tmp_path / "full")
        backup(host, tmp_path / "backup")
    with pytest.raises(QueueManagerExists):
        restore(tmp_path / "backup", tmp_path / "full")
    assert (tmp_path / "full" / "file").read_text() == "mine"
