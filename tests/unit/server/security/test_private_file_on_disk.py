# SPDX-License-Identifier: Apache-2.0
"""What is left of a private file after a power cut or a failure, and which files stay open."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from entrepot import private_file
from entrepot.errors import FileNotPrivate, SecurityFileUnusable
from entrepot.server.security.credentials import Credentials
from entrepot.server.security.users import Users
from open_files import open_files

from .power_cuts import PowerCuts, restore


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "secrets.json"


def test_whenever_the_power_fails_the_old_file_or_the_new_one_is_left_whole(path: Path, cuts: PowerCuts) -> None:
    private_file.replace(path, b"one")
    assert {left.content(path.name) for left in cuts.left} == {None, b"one"}
    cuts.left.clear()
    private_file.replace(path, b"two")
    assert {left.content(path.name) for left in cuts.left} == {b"one", b"two"}


def test_a_file_that_was_replaced_outlives_a_power_cut(path: Path, cuts: PowerCuts) -> None:
    for content in (b"one", b"two"):
        private_file.replace(path, content)
        assert {left.files for left in cuts.outcomes()} == {((path.name, content),)}


def test_users_are_on_disk_when_they_are_saved(folder: Path, cuts: PowerCuts) -> None:
    users = Users(folder)
    users.add("alice", "secret")
    users.save()
    for number, left in enumerate(list(cuts.outcomes())):
        assert Users.load(restore(left, folder.with_name(f"left{number}"))).names() == ("alice",)


def test_credentials_are_on_disk_when_they_are_saved(folder: Path, cuts: PowerCuts) -> None:
    credentials = Credentials(folder)
    credentials.set_password("TO.QM2", "secret")
    credentials.save()
    for number, left in enumerate(list(cuts.outcomes())):
        assert Credentials.load(restore(left, folder.with_name(f"left{number}"))).channels() == ("TO.QM2",)


def test_a_forced_folder_keeps_its_names(path: Path, cuts: PowerCuts) -> None:
    path.touch()
    assert any(left.content(path.name) is None for left in cuts.outcomes())
    private_file.force_folder(path.parent)
    assert all(left.content(path.name) == b"" for left in cuts.outcomes())


def test_a_file_that_gets_no_name_is_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_file.replace(path, b"one")

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", broken)
        with pytest.raises(SecurityFileUnusable, match="Input/output error"):
            private_file.replace(path, b"two")
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == b"one"


def test_a_failure_that_python_found_itself_is_told_by_its_text() -> None:
    assert private_file.reason(OSError(28, "No space left on device")) == "No space left on device"
    assert private_file.reason(OSError("the disk is gone")) == "the disk is gone"


# --- open files -------------------------------------------------------------------------------------


def test_nothing_stays_open(path: Path) -> None:
    stamp = private_file.replace(path, b"one")
    private_file.read(path)
    private_file.require_private(path)
    private_file.force_folder(path.parent)
    with private_file.alone(path, stamp):
        assert open_files(path.parent) == [path.parent.name]
    assert open_files(path.parent) == []


@pytest.mark.parametrize("call", [private_file.read, private_file.require_private])
def test_a_file_that_is_refused_does_not_stay_open(path: Path, call: Callable[[Path], object]) -> None:
    private_file.replace(path, b"one")
    path.chmod(0o644)
    with pytest.raises(FileNotPrivate):
        call(path)
    assert open_files(path.parent) == []


@pytest.mark.parametrize("failing", ["write", "fsync", "fchmod", "rename"])
def test_a_file_that_cannot_be_replaced_does_not_stay_open(
    path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, failing, broken)
    with pytest.raises(SecurityFileUnusable):
        private_file.replace(path, b"two")
    assert open_files(path.parent) == []


def test_a_folder_that_cannot_be_forced_does_not_stay_open(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output"):
        private_file.force_folder(path.parent)
    assert open_files(path.parent) == []


def test_a_change_that_comes_too_late_leaves_the_folder_to_others(path: Path) -> None:
    private_file.replace(path, b"one")
    with pytest.raises(SecurityFileUnusable, match="meanwhile"), private_file.alone(path, private_file.ABSENT):
        pytest.fail("this one knows no file")
    assert open_files(path.parent) == []


def test_while_one_changes_a_file_no_other_process_does(path: Path) -> None:
    other = os.open(path.parent, os.O_RDONLY)
    with private_file.alone(path, private_file.ABSENT), pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


# --- bounds and refusals ----------------------------------------------------------------------------


def test_a_file_up_to_the_limit_is_read_and_a_longer_one_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_file, "_BYTES_MAX", 3)
    private_file.replace(path, b"one")
    assert private_file.read(path)[0] == b"one"
    private_file.replace(path, b"four")
    with pytest.raises(SecurityFileUnusable, match="it has 4 bytes"):
        private_file.read(path)


def test_a_missing_file_is_told_from_one_that_cannot_be_opened(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        private_file.require_private(path)
    beneath = path / "not a folder"
    path.touch(mode=0o600)
    with pytest.raises(NotADirectoryError):
        private_file.open_private(beneath, os.O_RDONLY)
    with pytest.raises(FileNotPrivate, match="Not a directory"):
        private_file.stamp(beneath)


def test_a_file_is_only_made_where_one_was_asked_for(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        private_file.open_private(path, os.O_RDWR)
    os.close(private_file.open_private(path, os.O_RDWR, create=True))
    assert path.stat().st_mode & 0o7777 == 0o600


def test_a_new_file_is_private_before_anything_is_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    monkeypatch.setattr(os, "fchmod", lambda descriptor, mode: modes.append(os.fstat(descriptor).st_mode & 0o7777))
    before = os.umask(0)
    try:
        private_file.replace(path, b"one")
    finally:
        os.umask(before)
    assert modes == [0o600]


def test_a_private_file_is_not_inherited_by_programs(path: Path) -> None:
    descriptor = private_file.open_private(path, os.O_RDWR, create=True)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)


def test_a_folder_that_is_missing_cannot_be_changed_alone(path: Path) -> None:
    with pytest.raises(SecurityFileUnusable, match="No such file"), private_file.alone(path / "x", private_file.ABSENT):
        pytest.fail("there is no folder")
