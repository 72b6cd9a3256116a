# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from entrepot import private_file
from entrepot.errors import FileNotPrivate, SecurityFileUnusable
from open_files import open_files


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "secrets.json"


def test_what_was_written_is_read_and_private(path: Path) -> None:
    stamp = private_file.replace(path, b"one")
    assert private_file.read(path) == (b"one", stamp)
    assert path.stat().st_mode & 0o7777 == 0o600
    assert os.listdir(path.parent) == [path.name]


def test_a_missing_file_is_empty(path: Path) -> None:
    assert private_file.read(path) == (b"", private_file.ABSENT)
    assert private_file.stamp(path) == private_file.ABSENT


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_umask_does_not_matter(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        private_file.replace(path, b"one")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o700, 0o610, 0o601, 0o4600])
def test_a_file_open_to_others_is_refused(path: Path, mode: int) -> None:
    private_file.replace(path, b"one")
    path.chmod(mode)
    with pytest.raises(FileNotPrivate, match=f"its mode is {mode:o}.*chmod 600"):
        private_file.read(path)


def test_a_file_that_only_its_owner_may_read_is_private(path: Path) -> None:
    private_file.replace(path, b"one")
    path.chmod(0o400)
    assert private_file.read(path)[0] == b"one"


def test_a_symbolic_link_is_refused_wherever_it_leads(path: Path) -> None:
    private_file.replace(path.with_name("elsewhere"), b"one")
    path.symlink_to("elsewhere")
    with pytest.raises(FileNotPrivate, match="symbolic link"):
        private_file.read(path)


def test_a_file_of_somebody_else_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_file.replace(path, b"one")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(FileNotPrivate, match="another user"):
        private_file.read(path)


def test_what_is_no_regular_file_is_refused_and_not_waited_for(path: Path) -> None:
    path.mkdir()
    with pytest.raises(FileNotPrivate):
        private_file.read(path)
    path.rmdir()
    os.mkfifo(path, 0o600)
    with pytest.raises(FileNotPrivate, match="no regular file"):
        private_file.read(path)


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_file.replace(path, b"one")

    def full(descriptor: int, content: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SecurityFileUnusable, match="No space left"):
        private_file.replace(path, b"two")
    assert path.read_bytes() == b"one"
    assert os.listdir(path.parent) == [path.name]


def test_a_failed_force_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_file.replace(path, b"one")

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(SecurityFileUnusable, match="Input/output error"):
        private_file.replace(path, b"two")
    assert path.read_bytes() == b"one"


def test_what_a_crash_left_is_in_nobodys_way(path: Path) -> None:
    path.with_name(f".{path.name}.new").write_bytes(b"half of")
    private_file.replace(path, b"two")
    assert path.read_bytes() == b"two"


def test_content_is_forced_before_it_gets_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(os, "fsync", lambda descriptor: (steps.append("force"), fsync(descriptor))[1])
    monkeypatch.setattr(Path, "rename", lambda self, target: (steps.append("rename"), rename(self, target))[1])
    private_file.replace(path, b"one")
    assert steps == ["force", "rename", "force"]


def test_two_who_change_the_same_file_do_not_lose_a_change(path: Path) -> None:
    known = private_file.replace(path, b"one")
    with private_file.alone(path, known):
        private_file.replace(path, b"two")
    assert open_files(path.parent) == [], "else the next one would wait for ever"
    with pytest.raises(SecurityFileUnusable, match="meanwhile"), private_file.alone(path, known):
        pytest.fail("this one knows an old file")


def test_short_writes_go_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content)[:3]))
    private_file.replace(path, b"ten bytes!")
    assert path.read_bytes() == b"ten bytes!"
