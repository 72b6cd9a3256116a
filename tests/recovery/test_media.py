# SPDX-License-Identifier: Apache-2.0
"""Backup while running, restore, restore to a time, media recovery of a queue, archive."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from entrepot import limits
from entrepot.cli.serving import _LOG
from entrepot.daemon.server import SOCKET
from entrepot.engine import media
from entrepot.engine.backup_files import file_names
from entrepot.engine.databases.registered import FILE as RESOURCES
from entrepot.engine.databases.registered import RegisteredResources
from entrepot.engine.definitions import KINDS, LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.media import archive, backup, recover_queue, restore
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import (
    BackupDamaged,
    InvalidArgument,
    LogDamaged,
    LogIncomplete,
    LogNotLinear,
    ObjectNotFound,
    QueueManagerExists,
    QueueManagerInUse,
    QueueManagerNotFound,
    RunDamaged,
)
from entrepot.message import Message
from entrepot.server.mqsc import require_ok, run_script
from entrepot.server.mqsc.dump import dump
from entrepot.server.security.audit_chain import FILE as AUDIT
from entrepot.server.security.audit_chain import HEAD as AUDIT_HEAD
from entrepot.server.security.credentials import FILE as CREDENTIALS
from entrepot.server.security.credentials import Credentials
from entrepot.server.security.users import FILE as USERS
from entrepot.server.security.users import Users
from entrepot.testing.clock import VirtualClock
from hosted import Host

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


ONE_OF_EVERYTHING = """
ALTER QMGR DEADQ(B) SSLKEYR('tls')
DEFINE QMODEL(M) DEFTYPE(PERMDYN)
DEFINE QALIAS(AL) TARGET(A)
DEFINE QREMOTE(R) RNAME(X) RQMNAME(QM2) XMITQ(XQ)
DEFINE QLOCAL(XQ) USAGE(XMITQ)
DEFINE PROCESS(P) APPLICID('/bin/true')
DEFINE NAMELIST(N) NAMES(A,B)
DEFINE CHANNEL(TO.QM2) CHLTYPE(SDR) CONNAME('localhost(1414)') XMITQ(XQ)
DEFINE LISTENER(L) TRPTYPE(TCP) PORT(1414)
SET AUTHREC PROFILE('A') OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(PUT,GET)
SET CHLAUTH('X*') TYPE(ADDRESSMAP) ADDRESS('127.0.0.1') USERSRC(CHANNEL)
DEFINE TOPIC(T) TOPICSTR('prices')
DEFINE SUB(S) TOPICSTR('prices/#') DEST(A)
"""


def one_of_everything(path: Path) -> Host:
    """A queue manager that has an object of each kind, and each kind of private file."""
    host = open_new(path)
    require_ok(run_script(ONE_OF_EVERYTHING, host))
    assert {kind.kind for kind in map(type, host.definitions())} | {"QMGR"} == set(KINDS)
    users = Users.load(path)
    users.add("alice", "her long password", ["clerks"])
    users.save()
    credentials = Credentials.load(path)
    credentials.set_password("TO.QM2", "its password")
    credentials.save()
    resources = RegisteredResources.load(path)
    resources.add("SHOP", "sqlite:///shop.db")
    resources.save()
    (path / "tls").mkdir(mode=0o700)
    for private in ("tls/key.pem", "of-a-later-release.json"):
        (path / private).touch(mode=0o600)
        (path / private).write_text(f"secret {private}")
    return host


def private_files(path: Path) -> dict[str, bytes]:
    state = ("checkpoint", "log", "runs")
    return {name: (path / name).read_bytes() for name in file_names(path) if name.partition("/")[0] not in state}


def test_a_restored_queue_manager_has_every_object_and_private_file(tmp_path: Path) -> None:
    with contextlib.closing(one_of_everything(tmp_path / "qm")) as host:
        put(host, "A", range(3))
        objects = dump(host)
        report = backup(host, tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "new")
    expected = private_files(tmp_path / "qm")
    assert {"users.json", "credentials.json", "resources.json", "tls/key.pem", "of-a-later-release.json"} < set(
        expected
    )
    assert private_files(tmp_path / "new") == private_files(tmp_path / "backup") == expected
    assert report.files == len(file_names(tmp_path / "backup"))
    for copy in (tmp_path / "backup", tmp_path / "new"):
        for file in copy.rglob("*"):
            assert file.stat().st_mode & 0o777 == (0o700 if file.is_dir() else 0o600), file
    with contextlib.closing(Host(tmp_path / "new")) as host:
        assert dump(host) == objects
    assert numbers_on(tmp_path / "new", "A") == [0, 1, 2]


def test_what_a_backup_leaves_out_belongs_to_one_folder_or_process(tmp_path: Path) -> None:
    left_out = ("lock", SOCKET, _LOG, AUDIT, AUDIT_HEAD, "audit-0001.jsonl", ".users.json.new")
    for name in (*left_out, USERS, CREDENTIALS, RESOURCES):
        (tmp_path / name).touch()
    assert set(file_names(tmp_path)) == {USERS, CREDENTIALS, RESOURCES}


def test_a_backup_has_the_bodies_that_queues_share(tmp_path: Path) -> None:
    names = ("A", "B")
    with contextlib.closing(open_new(tmp_path / "qm")) as host:
        for name in names:
            host.alter(LocalQueue(name=name, depth_max=1_000_000, buffer_bytes=65536))
        for number in range(3 * limits.RUN_BYTES // 60_000):
            host.put(names, Message(b"%d:" % number + b"x" * 60_000), persistent=True)
        backup(host, tmp_path / "backup")
    assert list((tmp_path / "backup" / "runs").glob("*.bodies"))
    restore(tmp_path / "backup", tmp_path / "new")
    assert numbers_on(tmp_path / "new", "A") == numbers_on(tmp_path / "new", "B") == numbers_on(tmp_path / "qm", "A")


def test_a_damaged_backup_is_reported_whichever_file_is_damaged(tmp_path: Path) -> None:
    with contextlib.closing(one_of_everything(tmp_path / "qm")) as host:
        put(host, "A", range(100))
        host.checkpoint()
        backup(host, tmp_path / "backup")
    for name in [*file_names(tmp_path / "backup"), "backup.json"]:
        file = tmp_path / "backup" / name
        content = file.read_bytes()
        for damaged in (content[:-1], bytes([*content[:-2], content[-2] ^ 1, content[-1]]), None):
            file.unlink() if damaged is None else file.write_bytes(damaged)
            if (name, damaged) == ("backup.json", None):
                continue  # as in a backup of an earlier release, see below
            with pytest.raises((BackupDamaged, QueueManagerNotFound)):
                restore(tmp_path / "backup", tmp_path / "new")
            assert not (tmp_path / "new" / "manager.json").exists()
        file.write_bytes(content)
    # The same folder will do once the backup is whole.
    assert restore(tmp_path / "backup", tmp_path / "new").messages == 100


def test_a_backup_of_an_earlier_release_is_restored_with_a_warning(tmp_path: Path) -> None:
    with contextlib.closing(open_new(tmp_path / "qm")) as host:
        put(host, "A", range(5))
        backup(host, tmp_path / "backup")
    (tmp_path / "backup" / "backup.json").unlink()
    report = restore(tmp_path / "backup", tmp_path / "new")
    assert not report.verified
    assert "has no list of its files" in report.warnings[0]
    assert numbers_on(tmp_path / "new", "A") == list(range(5))


def test_an_interrupted_backup_or_restore_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with contextlib.closing(open_new(tmp_path / "qm")) as host:
        put(host, "A", range(5))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(media, "write_settings", interrupt)
            backup(host, tmp_path / "backup")
        with pytest.raises(QueueManagerNotFound):
            restore(tmp_path / "backup", tmp_path / "new")
        backup(host, tmp_path / "backup")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(media, "write_settings", interrupt)
        restore(tmp_path / "backup", tmp_path / "new")
    with pytest.raises(QueueManagerNotFound):
        Host(tmp_path / "new")
    restore(tmp_path / "backup", tmp_path / "new")
    assert numbers_on(tmp_path / "new", "A") == list(range(5))
    with pytest.raises(QueueManagerExists):
        restore(tmp_path / "backup", tmp_path / "new")


def test_a_backup_into_the_queue_managers_own_folder_is_refused(tmp_path: Path) -> None:
    with contextlib.closing(open_new(tmp_path / "qm")) as host, pytest.raises(InvalidArgument):
        backup(host, tmp_path / "qm" / "backup")


HOUR_S = 3600.0


def with_clock_that_ran_ahead(path: Path, backup_path: Path) -> tuple[float, int]:
    """Messages 0 to 3: the clock was an hour ahead for message 1; a time after 2 and before 3, and the end before 1."""
    clock = VirtualClock()
    create(path, name="QM", log=LINEAR)
    with contextlib.closing(Host(path, clock=clock)) as host:
        host.define(LocalQueue(name="A"), replace=False)
        backup(host, backup_path)
        put(host, "A", range(1))
        host.checkpoint()
        before = host.manager.log.forced_position
        clock.jump(HOUR_S)
        put(host, "A", range(1, 2))
        clock.jump(-HOUR_S + 60)
        put(host, "A", range(2, 3))
        clock.advance(60)
        until = clock.now()
        clock.advance(60)
        put(host, "A", range(3, 4))
    return until, before


def test_a_clock_that_ran_ahead_does_not_end_a_restore_to_a_time_early(tmp_path: Path) -> None:
    until, _ = with_clock_that_ran_ahead(tmp_path / "qm", tmp_path / "backup")
    report = restore(tmp_path / "backup", tmp_path / "new", log_from=tmp_path / "qm", until_time=until)
    assert numbers_on(tmp_path / "new", "A") == [0, 1, 2]
    assert report.is_ambiguous
    assert "names more than one place" in report.warnings[0]
    assert [round(step.before - step.after) for step in report.clock_went_back] == [HOUR_S - 60]
    assert report.last_group == datetime.fromtimestamp(until - 60, UTC).isoformat()


def test_a_restore_to_a_position_is_exact_whatever_the_clock_did(tmp_path: Path) -> None:
    _, before = with_clock_that_ran_ahead(tmp_path / "qm", tmp_path / "backup")
    report = restore(tmp_path / "backup", tmp_path / "new", log_from=tmp_path / "qm", until_position=before)
    assert (report.log_position, report.is_ambiguous) == (before, False)
    assert numbers_on(tmp_path / "new", "A") == [0]
    with pytest.raises(InvalidArgument, match="to_position"):
        restore(tmp_path / "backup", tmp_path / "none", log_from=tmp_path / "qm", until_position=1 << 40)


def test_a_time_before_the_backup_is_reported(tmp_path: Path) -> None:
    until, _ = with_clock_that_ran_ahead(tmp_path / "qm", tmp_path / "backup")
    report = restore(tmp_path / "backup", tmp_path / "new", log_from=tmp_path / "qm", until_time=until - HOUR_S)
    assert report.is_ambiguous
    assert "this is the state of the backup" in report.warnings[0]
    assert numbers_on(tmp_path / "new", "A") == []


def test_a_log_that_ends_before_its_backup_is_refused(tmp_path: Path) -> None:
    """An old copy of the log, written over the backup's own, would cut off what the backup has."""
    with contextlib.closing(open_new(tmp_path / "qm")) as host:
        put(host, "A", range(3))
        host.checkpoint()
        shutil.copytree(tmp_path / "qm" / "log", tmp_path / "old")
        put(host, "A", range(3, 6))
        host.checkpoint()
        put(host, "A", range(6, 9))
        backup(host, tmp_path / "backup")
    with pytest.raises((LogIncomplete, LogDamaged)):
        restore(tmp_path / "backup", tmp_path / "new", log_from=tmp_path / "old")
