# SPDX-License-Identifier: Apache-2.0
"""A folder is made, checked and owned; whatever is wrong with it gets a clear answer, and it is left as it was."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from entrepot.disk import SystemDisk
from entrepot.engine.folder import SETTINGS, create, read_settings, settings_text, write_settings
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.record import FORMAT_VERSION
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import restart
from entrepot.engine.settings import ManagerSettings
from entrepot.errors import (
    DiskFailed,
    EntrepotError,
    FolderNotWritable,
    FormatUnsupported,
    InvalidName,
    InvalidSetting,
    QueueManagerExists,
    QueueManagerInUse,
    QueueManagerNotFound,
    UnsafeFolder,
)
from entrepot.testing import SimulatedDisk, VirtualClock
from hosted import Host
from open_files import open_files

from .medium import Medium

LOG = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=1)


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create(tmp_path / "QM1", log=LOG)
    return tmp_path / "QM1"


def test_new_folder_belongs_to_its_owner_alone(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    settings = read_settings(folder)
    assert (settings.name, settings.log) == ("QM1", LOG)


def test_an_empty_folder_that_was_there_belongs_to_its_owner_alone_too(tmp_path: Path) -> None:
    (tmp_path / "QM1").mkdir()
    (tmp_path / "QM1").chmod(0o755)
    create(tmp_path / "QM1", log=LOG)
    assert stat.S_IMODE((tmp_path / "QM1").stat().st_mode) == 0o700


def test_name_may_differ_from_the_folder(tmp_path: Path) -> None:
    assert create(tmp_path / "any thing", name="QM7", log=LOG).name == "QM7"
    assert read_settings(tmp_path / "any thing").name == "QM7"


def test_wrong_name_or_setting_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidName):
        create(tmp_path / "no name", log=LOG)
    with pytest.raises(InvalidName):
        create(tmp_path / "QM1", name="x" * 49, log=LOG)
    with pytest.raises(InvalidSetting):
        create(tmp_path / "QM1", log=LogSettings(segment_bytes=5))
    assert tree(tmp_path) == []


def test_folder_that_is_not_empty_is_left_alone(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    before = tree(tmp_path)
    for path in (tmp_path / "full", folder):
        with pytest.raises(QueueManagerExists):
            create(path, name="QM1", log=LOG)
    assert tree(tmp_path) == before


def test_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderNotWritable, match="a file stands where a folder should be"):
        create(tmp_path / "file", log=LOG)
    with pytest.raises(QueueManagerNotFound, match="Not a directory"):
        Host(tmp_path / "file")


def test_a_place_without_files_is_refused_with_its_true_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reasons = {
        Path("/proc/qm"): "no files can be made in /proc",
        tmp_path / "file" / "qm": "a file stands where a folder should be",
        tmp_path / ("x" * 300): "the path is too long",
    }
    for path, reason in reasons.items():
        with pytest.raises(FolderNotWritable) as caught:
            create(path, name="QM1", log=LOG)
        assert caught.value.problem == reason


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.EROFS, "its file system is read-only"), (errno.EACCES, "permission denied"), (errno.EIO, "")],
)
def test_what_the_system_refuses_is_told_apart_from_a_failing_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(FolderNotWritable if reason else DiskFailed) as caught:
        create(tmp_path / "qm", name="QM1", log=LOG)
    assert reason in str(caught.value)


def test_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(QueueManagerNotFound):
        Host(tmp_path / "nowhere")
    with pytest.raises(QueueManagerNotFound):
        read_settings(tmp_path / "nowhere")


def break_mode(folder: Path) -> None:
    folder.chmod(0o755)


def break_inside(folder: Path) -> None:
    (folder / "log" / "link").symlink_to("/etc/passwd")


def break_file(folder: Path) -> None:
    (folder / "checkpoint").rename(folder / "elsewhere")
    (folder / "checkpoint").symlink_to(folder / "elsewhere")


@pytest.mark.parametrize("harm", [break_mode, break_inside, break_file])
def test_unsafe_folder_is_refused(folder: Path, harm: Callable[[Path], None]) -> None:
    harm(folder)
    with pytest.raises(UnsafeFolder) as caught:
        Host(folder)
    assert "chmod 700" in caught.value.advice


def test_link_to_a_folder_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(UnsafeFolder, match="symbolic link"):
        Host(tmp_path / "link")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_folder_is_told(folder: Path) -> None:
    folder.chmod(0o000)
    try:
        with pytest.raises(EntrepotError):
            Host(folder)
        with pytest.raises(EntrepotError):
            read_settings(folder)
    finally:
        folder.chmod(0o700)


def test_settings_survive_a_power_cut() -> None:
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        for number in range(2):
            settings = ManagerSettings(
                name="QM", manager_id=b"m" * 12, format_version=FORMAT_VERSION, created=float(number), log=LOG
            )
            write_settings(disk, settings)
            disk.power_cut()
            assert bytes(disk.contents("manager.json")) == settings_text(settings), seed


class PowerCutAt:
    """The power is cut before one of the operations; at 0, never."""

    def __init__(self, at: int) -> None:
        self.count = 0
        self._at = at

    def before(self, operation: str, path: str, size: int) -> int | None:
        self.count += 1
        if self.count == self._at:
            raise KeyboardInterrupt
        return None


def made_until(at: int, seed: int, folder: Path) -> SimulatedDisk:
    """A queue manager's disk after a power cut before an operation of its making; after all of them at 0."""
    disk = SimulatedDisk(Random(seed))
    disk.faults = PowerCutAt(at)
    with contextlib.suppress(KeyboardInterrupt):
        create(folder / f"{at}-{seed}", name="QM", log=LOG, disk=disk, clock=VirtualClock())
    disk.faults = None
    disk.power_cut()
    return disk


def started(disk: SimulatedDisk) -> QueueManager:
    settings = msgspec.json.decode(disk.contents(SETTINGS), type=ManagerSettings)
    return restart(disk, VirtualClock(), settings).manager


def test_a_queue_manager_that_was_made_survives_a_power_cut(tmp_path: Path) -> None:
    for seed in range(10):
        assert started(made_until(0, seed, tmp_path)).objects.manager.name == "QM"


def test_a_power_cut_while_one_is_made_leaves_a_whole_queue_manager_or_none(tmp_path: Path) -> None:
    faults = PowerCutAt(0)
    disk = SimulatedDisk(Random(0))
    disk.faults = faults
    create(tmp_path / "whole", name="QM", log=LOG, disk=disk, clock=VirtualClock())
    for at in range(1, faults.count + 1):
        for seed in range(3):
            disk = made_until(at, seed, tmp_path)
            if disk.exists(SETTINGS):
                assert started(disk).objects.manager.name == "QM", (at, seed)


@pytest.mark.parametrize("name", ["QM1", "new/deep/QM1"])
def test_a_new_folder_and_those_above_it_survive_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    medium = Medium(tmp_path, monkeypatch)
    create(tmp_path / name, log=LOG)
    assert medium.at_risk_when[f"{name}/{SETTINGS}"] == {f"{name}/{SETTINGS}.new"}
    assert medium.at_risk() - {f"{name}/checkpoint.new"} == set()


def test_the_file_of_the_settings_is_closed_again(folder: Path) -> None:
    write_settings(SystemDisk(folder), read_settings(folder))
    assert open_files(folder) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "5", '"text"', '{"format_version": 1}', '{"format_version": 1, "name": 5}', "\xff"]
)
def test_settings_that_are_none_are_told(folder: Path, text: str) -> None:
    (folder / SETTINGS).write_bytes(text.encode("latin-1"))
    with pytest.raises((QueueManagerNotFound, FormatUnsupported)) as caught:
        Host(folder)
    assert str(folder) in str(caught.value)


def test_missing_settings_are_told(folder: Path) -> None:
    (folder / SETTINGS).unlink()
    with pytest.raises(QueueManagerNotFound, match=r"manager\.json is missing"):
        Host(folder)


@pytest.mark.parametrize("version", [0, 99, None, "x", []])
def test_other_format_version_is_refused(folder: Path, version: object) -> None:
    settings = json.loads((folder / SETTINGS).read_text())
    settings["format_version"] = version
    (folder / SETTINGS).write_text(json.dumps(settings))
    with pytest.raises((FormatUnsupported, QueueManagerNotFound)):
        read_settings(folder)


def test_settings_without_a_format_version_are_of_none_that_we_know(folder: Path) -> None:
    settings = json.loads((folder / SETTINGS).read_text())
    del settings["format_version"]
    for version in ({}, {"format_version": None}, {"format_version": 0}):
        (folder / SETTINGS).write_text(json.dumps({**settings, **version}))
        with pytest.raises(FormatUnsupported):
            read_settings(folder)


def test_settings_of_the_log_that_cannot_be_are_told(folder: Path) -> None:
    settings = json.loads((folder / SETTINGS).read_text())
    settings["log"]["segment_bytes"] = 5
    (folder / SETTINGS).write_text(json.dumps(settings))
    with pytest.raises(QueueManagerNotFound, match=r"manager\.json is damaged"):
        read_settings(folder)


def test_failed_start_leaves_the_folder_to_the_next(folder: Path) -> None:
    kept = (folder / SETTINGS).read_bytes()
    (folder / SETTINGS).write_text("garbage")
    with pytest.raises(QueueManagerNotFound):
        Host(folder)
    (folder / SETTINGS).write_bytes(kept)
    Host(folder).close()


def test_second_process_is_refused_and_told_who_is_first(folder: Path) -> None:
    script = (
        "import sys\n"
        "from entrepot.engine.host import Host\n"
        "host = Host(sys.argv[1])\n"
        "print('running', flush=True)\n"
        "sys.stdin.read()\n"
        "host.close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "running\n"
        with pytest.raises(QueueManagerInUse) as caught:
            Host(folder)
        assert caught.value.owner == f"process {other.pid}"
        assert caught.value.retryable
        other.communicate("")
    Host(folder).close()


def test_second_host_of_one_process_is_refused(folder: Path) -> None:
    first = Host(folder)
    with pytest.raises(QueueManagerInUse):
        Host(folder)
    first.close()
    Host(folder).close()


def test_a_host_that_has_not_said_yet_who_it_is_is_another_process(folder: Path) -> None:
    first = Host(folder)
    (folder / "lock").write_text("")
    with pytest.raises(QueueManagerInUse) as caught:
        Host(folder)
    assert caught.value.owner == "another process"
    first.close()
