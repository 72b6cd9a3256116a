# SPDX-License-Identifier: Apache-2.0
"""Backup, restore, media recovery and archive: what they promise is on the medium, and nothing stays open."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from entrepot.disk import lock_folder
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import SETTINGS, create
from entrepot.engine.media import archive, backup, recover_queue, restore
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import BackupDamaged, InvalidArgument, LogNotLinear, ObjectNotFound, QueueManagerExists
from entrepot.message import Message
from hosted import Host
from open_files import open_files

from .medium import Medium

LINEAR = LogSettings(kind="linear", segment_bytes=64 * 1024, primary=2, secondary=2)
CIRCULAR = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=2)


def opened(path: Path, log: LogSettings = LINEAR) -> Host:
    create(path, name="QM", log=log)
    host = Host(path)
    host.define(LocalQueue(name="Q"), replace=False)
    return host


def put(host: Host, *heads: bytes) -> None:
    for head in heads:
        host.put("Q", Message(head * 20_000), persistent=True)


def heads(path: Path) -> list[bytes]:
    with contextlib.closing(Host(path)) as host:
        return [message.body[:1] for message in host.browse("Q", None, None, 100)[0]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A stopped queue manager, `qm`, with messages in runs and in several segments, and its `backup`."""
    with contextlib.closing(opened(tmp_path / "qm")) as host:
        put(host, b"a", b"b", b"c", b"d", b"e")
        host.checkpoint()
        host.checkpoint()
        put(host, b"f")
        backup(host, tmp_path / "backup")
        put(host, b"g")
    return tmp_path


def below(paths: set[str], folder: str) -> set[str]:
    return {path for path in paths if path.startswith(f"{folder}/")}


# --- what is on the medium -------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["saved", "new/deep/saved"])
def test_a_backup_is_durable_before_it_counts_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    with contextlib.closing(opened(tmp_path / "qm")) as host:
        put(host, b"a", b"b", b"c", b"d")
        host.checkpoint()
        host.checkpoint()
        medium = Medium(tmp_path, monkeypatch)
        backup(host, tmp_path / folder)
        assert below(medium.at_risk_when[f"{folder}/{SETTINGS}"], folder) == {f"{folder}/{SETTINGS}.new"}
        assert {path for path in medium.at_risk() if not path.startswith("qm/")} == set()
    restore(tmp_path / folder, tmp_path / "again")
    assert heads(tmp_path / "again") == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("folder", ["restored", "new/deep/restored"])
def test_a_restored_queue_manager_is_durable_before_it_counts_as_one(
    root: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    medium = Medium(root, monkeypatch)
    restore(root / "backup", root / folder)
    assert below(medium.at_risk_when[f"{folder}/{SETTINGS}"], folder) == {f"{folder}/{SETTINGS}.new"}
    assert medium.at_risk() == set()
    assert heads(root / folder) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_what_a_rebuilt_checkpoint_relies_on_is_durable_before_it_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    medium = Medium(root, monkeypatch)
    assert recover_queue(root / "qm", "Q") == 7
    before = medium.at_risk_when["qm/checkpoint"]
    assert below(before, "qm/runs") == below(before, "qm/log") == set()
    assert "qm/checkpoint" not in medium.at_risk()
    assert medium.at_risk("qm/runs", "qm/log") == set()
    assert not (root / "qm" / "rebuilding").exists()
    assert heads(root / "qm") == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


@pytest.mark.parametrize("folder", ["old", "new/deep/old"])
def test_segments_are_removed_when_their_copies_are_durable(
    root: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    contents = {path.name: path.read_bytes() for path in (root / "qm" / "log").iterdir()}
    medium = Medium(root, monkeypatch)
    moved = archive(root / "qm", root / folder)
    assert moved
    for name in moved:
        assert {path for path in medium.at_risk_when[f"qm/log/{name}"] if not path.startswith("qm/")} == set()
        assert (root / folder / name).read_bytes() == contents[name]
    assert medium.at_risk() == set()
    assert (root / folder).stat().st_mode & 0o777 == 0o700
    assert heads(root / "qm") == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def test_an_archive_leaves_what_a_restart_needs_and_may_be_added_to(root: Path) -> None:
    """The segment with the checkpoint's start stays, whether or not others go."""
    first = archive(root / "qm", root / "old")
    assert archive(root / "qm", root / "old") == []
    with contextlib.closing(Host(root / "qm")) as host:
        put(host, b"h", b"i", b"j", b"k")
        host.checkpoint()
        host.checkpoint()
    second = archive(root / "qm", root / "old")
    assert second and not set(first) & set(second)
    assert sorted(path.name for path in (root / "old").iterdir()) == sorted(first + second)
    assert heads(root / "qm")[-4:] == [b"h", b"i", b"j", b"k"]


# --- what is left behind -------------------------------------------------------------------------


def restore_damaged(root: Path) -> None:
    (root / "backup" / "checkpoint").write_bytes(b"")
    with pytest.raises(BackupDamaged):
        restore(root / "backup", root / "new")


def recover_unknown(root: Path) -> None:
    with pytest.raises(ObjectNotFound):
        recover_queue(root / "qm", "NONE")


@pytest.mark.parametrize(
    "work",
    [
        lambda root: restore(root / "backup", root / "new"),
        lambda root: restore(root / "backup", root / "new", log_from=root / "qm"),
        restore_damaged,
        lambda root: recover_queue(root / "qm", "Q"),
        lambda root: recover_queue(root / "qm", "Q", backup=root / "backup"),
        lambda root: archive(root / "qm", root / "old"),
    ],
    ids=["restore", "restore with later log", "restore damaged", "recover", "recover from backup", "archive"],
)
def test_no_file_stays_open(root: Path, work: Callable[[Path], object]) -> None:
    work(root)
    assert open_files(root) == []


def test_media_recovery_that_finds_no_queue_leaves_nothing(root: Path) -> None:
    recover_unknown(root)
    assert not (root / "qm" / "rebuilding").exists()
    recover_unknown(root)  # nobody has the lock, either


def test_what_an_interrupted_media_recovery_left_is_in_nobodys_way(root: Path) -> None:
    (root / "qm" / "rebuilding" / "log").mkdir(parents=True)
    (root / "qm" / "rebuilding" / "log" / "segment-00000000.log").write_bytes(b"half")
    assert recover_queue(root / "qm", "Q") == 7
    assert not (root / "qm" / "rebuilding").exists()


def test_a_backup_lets_go_of_its_folder(tmp_path: Path) -> None:
    with contextlib.closing(opened(tmp_path / "qm")) as host:
        backup(host, tmp_path / "backup")
        descriptor = lock_folder(tmp_path / "backup")
        assert descriptor is not None
        os.close(descriptor)
        assert not (tmp_path / "backup" / "unfinished").exists()


# --- what is refused -----------------------------------------------------------------------------


def test_a_refused_backup_takes_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with contextlib.closing(opened(tmp_path / "qm")) as host:
        checkpoint = (tmp_path / "qm" / "checkpoint").read_bytes()
        put(host, b"a")
        for refused in (tmp_path / "full", tmp_path / "qm" / "inside", tmp_path / "qm"):
            with pytest.raises((QueueManagerExists, InvalidArgument)):
                backup(host, refused)
        assert (tmp_path / "qm" / "checkpoint").read_bytes() == checkpoint


def test_a_circular_log_is_refused_where_a_linear_one_is_needed(tmp_path: Path) -> None:
    with contextlib.closing(opened(tmp_path / "qm", CIRCULAR)) as host:
        put(host, b"a")
        backup(host, tmp_path / "backup")
    for work in (
        lambda: archive(tmp_path / "qm", tmp_path / "old"),
        lambda: recover_queue(tmp_path / "qm", "Q"),
        lambda: restore(tmp_path / "backup", tmp_path / "new", log_from=tmp_path / "qm"),
    ):
        with pytest.raises(LogNotLinear):
            work()
    assert not (tmp_path / "old").exists()
    assert heads(tmp_path / "qm") == [b"a"]


def test_a_restore_to_a_position_takes_every_position_of_the_backup_and_no_other(root: Path) -> None:
    end = restore(root / "backup", root / "end").log_position
    for number, position in enumerate((end + 1, -1)):
        with pytest.raises(InvalidArgument):
            restore(root / "backup", root / f"refused{number}", until_position=position)
    report = restore(root / "backup", root / "exact", until_position=end)
    assert (report.log_position, report.messages) == (end, 6)
