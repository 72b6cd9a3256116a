# SPDX-License-Identifier: Apache-2.0
"""The folder of a backup or a restore: begun once, again where it was interrupted, and never over something else."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from entrepot.disk import lock_folder
from entrepot.engine import backup_files
from entrepot.engine.backup_files import (
    MANIFEST,
    UNFINISHED,
    begin,
    copy,
    copy_verified,
    file_names,
    finish,
    read_manifest,
    write_manifest,
)
from entrepot.engine.folder import SETTINGS
from entrepot.errors import BackupDamaged, QueueManagerExists, QueueManagerInUse
from open_files import open_files

from .medium import Medium


@pytest.fixture(autouse=True)
def lenient() -> Iterator[None]:
    """What is private has to be so whatever the umask is."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# --- the folder ------------------------------------------------------------------------------------


def test_a_folder_that_is_begun_is_private_and_says_that_it_is_unfinished(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)
    for folder in (tmp_path / "new" / "deep", tmp_path / "empty"):
        os.close(begin(folder))
        assert names(folder) == ["lock", "log", "runs", UNFINISHED]
        assert mode(folder) == mode(folder / "log") == mode(folder / "runs") == 0o700
        assert mode(folder / "lock") == mode(folder / UNFINISHED) == 0o600


def test_what_is_something_else_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir(mode=0o755)
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "whole").mkdir(mode=0o755)
    for name in (UNFINISHED, SETTINGS):
        (tmp_path / "whole" / name).touch()
    before = names(tmp_path)
    for name in ("file", "full", "whole"):
        with pytest.raises(QueueManagerExists):
            begin(tmp_path / name)
    assert names(tmp_path) == before
    assert mode(tmp_path / "full") == mode(tmp_path / "whole") == 0o755
    assert (tmp_path / "file").read_text() == "mine"


def test_an_unfinished_folder_is_begun_again_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").touch()
    os.close(begin(tmp_path / "new"))
    (tmp_path / "new" / "log" / "segment").touch()
    (tmp_path / "new" / "checkpoint").touch()
    (tmp_path / "new" / "tls").symlink_to(tmp_path / "elsewhere")
    os.close(begin(tmp_path / "new"))
    assert names(tmp_path / "new") == ["lock", "log", "runs", UNFINISHED]
    assert (tmp_path / "elsewhere" / "precious").exists()


def test_a_folder_that_another_is_making_is_refused(tmp_path: Path) -> None:
    descriptor = begin(tmp_path / "new")
    with pytest.raises(QueueManagerInUse, match=f"process {os.getpid()}"):
        begin(tmp_path / "new")
    os.close(descriptor)
    os.close(begin(tmp_path / "new"))


def test_a_folder_that_could_not_be_begun_is_free_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.close(begin(tmp_path / "new"))

    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(OSError):
        begin(tmp_path / "new")
    descriptor = lock_folder(tmp_path / "new")
    assert descriptor is not None
    os.close(descriptor)


def test_that_a_folder_is_finished_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.close(begin(tmp_path / "new"))
    medium = Medium(tmp_path, monkeypatch)
    finish(tmp_path / "new")
    assert medium.at_risk() == set()
    assert not (tmp_path / "new" / UNFINISHED).exists()


# --- its files -------------------------------------------------------------------------------------


def test_a_copy_is_its_owners_alone_and_comes_with_its_size_and_checksum(tmp_path: Path) -> None:
    content = os.urandom(3 * 1024 * 1024 + 1)
    (tmp_path / "source").write_bytes(content)
    (tmp_path / "open").write_bytes(content * 2)
    (tmp_path / "open").chmod(0o666)
    for target in (tmp_path / "new" / "deep" / "copy", tmp_path / "new" / "deep" / "beside", tmp_path / "open"):
        assert copy(tmp_path / "source", target) == (len(content), crc32c(content))
        assert target.read_bytes() == content
        assert mode(target) == 0o600
    assert mode(tmp_path / "new" / "deep") == 0o700


def test_a_copy_is_private_while_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").write_bytes(b"secret")
    modes = []
    monkeypatch.setattr(os, "fchmod", lambda descriptor, _: modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode)))
    copy(tmp_path / "source", tmp_path / "copy")
    assert modes == [0o600]


def test_a_copy_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        copy(tmp_path / "source", tmp_path / "link")
    assert (tmp_path / "victim").read_bytes() == b"old"


def test_links_are_no_files_of_a_backup(tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    for name in ("users.json", "tls/key.pem", "lock", "checkpoint.new"):
        (tmp_path / name).touch()
    for link in ("link", "tls/link"):
        (tmp_path / link).symlink_to(tmp_path / "users.json")
    assert file_names(tmp_path) == ["tls/key.pem", "users.json"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small backup with its list."""
    folder = tmp_path / "saved"
    (folder / "tls").mkdir(parents=True)
    (folder / "users.json").write_bytes(b"users")
    (folder / "tls" / "key.pem").write_bytes(b"key")
    assert write_manifest(folder, 4711, 1.5, b"settings") == len(b"users" + b"key" + b"settings")
    (folder / SETTINGS).write_bytes(b"settings")
    return folder


def test_the_list_has_every_file_and_the_settings_and_is_private(saved: Path) -> None:
    manifest = read_manifest(saved)
    assert manifest is not None
    assert (manifest.log_position, manifest.time) == (4711, 1.5)
    contents = {"users.json": b"users", "tls/key.pem": b"key", SETTINGS: b"settings"}
    assert manifest.files == {name: (len(content), crc32c(content)) for name, content in contents.items()}
    assert mode(saved / MANIFEST) == 0o600


def test_a_list_that_nobody_understands_is_damage_and_none_is_none(saved: Path) -> None:
    text = (saved / MANIFEST).read_bytes()
    for damaged in (text[:-1], text.replace(b'"version":1', b'"version":2')):
        (saved / MANIFEST).write_bytes(damaged)
        with pytest.raises(BackupDamaged):
            read_manifest(saved)
    (saved / MANIFEST).unlink()
    assert read_manifest(saved) is None


def test_everything_is_copied_but_the_settings(saved: Path, tmp_path: Path) -> None:
    for number, manifest in enumerate((read_manifest(saved), None)):
        copy_verified(saved, tmp_path / f"{number}", manifest)
        assert names(tmp_path / f"{number}") == ["tls", "tls/key.pem", "users.json"]
        assert (tmp_path / f"{number}" / "tls" / "key.pem").read_bytes() == b"key"


@pytest.mark.parametrize("name", ["users.json", "tls/key.pem", SETTINGS])
def test_a_file_that_is_not_as_listed_is_damage(saved: Path, tmp_path: Path, name: str) -> None:
    content = (saved / name).read_bytes()
    for damaged in (content[:-1], content + b"x", content[:-1] + b"!", None):
        (saved / name).unlink() if damaged is None else (saved / name).write_bytes(damaged)
        with pytest.raises(BackupDamaged) as caught:
            copy_verified(saved, tmp_path / "copy", read_manifest(saved))
        assert str(saved / name) in str(caught.value)


def test_no_file_stays_open(saved: Path, tmp_path: Path) -> None:
    copy_verified(saved, tmp_path / "copy", read_manifest(saved))
    with contextlib.suppress(BackupDamaged):
        backup_files.copy_verified(saved, tmp_path / "none", None)
    assert open_files(tmp_path) == []
