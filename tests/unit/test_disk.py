# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from entrepot.disk import (
    BLOCK_BYTES,
    BUFFERS_PER_WRITE_MAX,
    Buffer,
    SystemDisk,
    SystemFile,
    block_memory,
    lock_folder,
    unsafe,
)


@pytest.fixture
def disk(tmp_path: Path) -> SystemDisk:
    return SystemDisk(tmp_path)


def test_buffers_are_written_one_after_the_other(disk: SystemDisk) -> None:
    file = disk.open("file", create=True)
    file.write(3, [b"abc", bytearray(b"def"), memoryview(b"ghi"), b""])
    file.force()
    assert file.read(0, 100) == b"\0\0\0abcdefghi"
    assert file.read(4, 2) == b"bc"
    assert file.read(100, 5) == b""
    assert file.size() == 12
    file.truncate(5)
    assert file.size() == 5
    file.close()


def test_more_buffers_than_one_call_takes_are_written(disk: SystemDisk) -> None:
    file = disk.open("file", create=True)
    count = 2 * BUFFERS_PER_WRITE_MAX + 5
    file.write(0, [b"%04d" % number for number in range(count)])
    assert file.read(0, 10**6) == b"".join(b"%04d" % number for number in range(count))
    file.close()


@pytest.mark.parametrize("step", [1, 2, 5])
def test_short_writes_go_on_where_they_ended(disk: SystemDisk, step: int) -> None:
    class Short(SystemFile):
        def write_some(self, offset: int, buffers: Sequence[Buffer]) -> int:
            joined = b"".join(bytes(buffer) for buffer in buffers)[:step]
            return super().write_some(offset, [joined])

    file = Short(os.open(disk.describe("file"), os.O_RDWR | os.O_CREAT, 0o600))
    file.write(2, [b"abc", b"", b"defgh", b"i"])
    assert file.read(0, 100) == b"\0\0abcdefghi"
    file.close()


def test_files_are_private_and_links_are_not_followed(disk: SystemDisk, tmp_path: Path) -> None:
    disk.open("file", create=True).close()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match=r"symbolic links|symlink"):
        disk.open("link")
    with pytest.raises(FileNotFoundError):
        disk.open("missing")


def test_names_come_and_go(disk: SystemDisk, tmp_path: Path) -> None:
    disk.make_folder("folder/below")
    disk.make_folder("folder/below")
    assert (tmp_path / "folder" / "below").stat().st_mode & 0o077 == 0
    for name in ("b", "a"):
        disk.open(f"folder/{name}", create=True).close()
    assert disk.names("folder") == ["a", "b", "below"]
    disk.rename("folder/a", "folder/c")
    disk.remove("folder/b")
    disk.force_folder("folder")
    assert disk.names("folder") == ["below", "c"]
    assert disk.exists("folder/c")
    assert not disk.exists("folder/a")
    assert disk.describe("folder/c") == str(tmp_path / "folder" / "c")


def test_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first = lock_folder(tmp_path)
    assert first is not None
    assert lock_folder(tmp_path) is None
    assert (tmp_path / "lock").read_text() == f"process {os.getpid()}"
    os.close(first)
    second = lock_folder(tmp_path)
    assert second is not None
    os.close(second)


def test_folder_is_safe_when_only_its_owner_can_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    assert unsafe(folder) is None
    folder.chmod(0o750)
    assert unsafe(folder) == "its mode is 750"
    folder.chmod(0o700)
    (folder / "file").write_text("")
    assert unsafe(folder / "file") == "it is no folder"
    (folder / "below").mkdir()
    (folder / "below" / "link").symlink_to("/etc")
    assert unsafe(folder) == "below/link is a symbolic link"
    (tmp_path / "link").symlink_to(folder)
    assert unsafe(tmp_path / "link") == "it is a symbolic link"
    with pytest.raises(FileNotFoundError):
        unsafe(tmp_path / "missing")


def test_connections_cannot_take_the_disk_s_descriptors(tmp_path: Path) -> None:
    # In a process of its own, because the limit is the process's.
    script = """
import os, resource, sys
from entrepot.disk import DESCRIPTORS, SystemDisk
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
disk = SystemDisk(sys.argv[1])
DESCRIPTORS.keep(4)
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
files = [disk.open(f"f{number}", create=True) for number in range(3)]
assert disk.names("") == ["f0", "f1", "f2"]
disk.force_folder("")
for file in files:
    file.close()
files = [disk.open(f"f{number}", create=True) for number in range(4)]  # what was lent has come back
try:
    disk.open("f0")
except OSError as error:
    print(error.errno)
"""
    finished = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert finished.stderr == ""
    assert int(finished.stdout) == errno.EMFILE


# --- blocks -----------------------------------------------------------------------------------


def blocks(disk: SystemDisk, count: int = 3) -> SystemFile:
    file = disk.open("blocks", create=True)
    assert isinstance(file, SystemFile)
    file.write(0, [b"-" * (count * BLOCK_BYTES)])
    return file


def test_blocks_and_other_writes_and_reads_of_one_file_see_each_other(disk: SystemDisk) -> None:
    file = blocks(disk)
    memory = block_memory(2 * BLOCK_BYTES)
    memory[:] = b"a" * len(memory)
    file.write_blocks(BLOCK_BYTES, memory)
    assert file.read(BLOCK_BYTES - 1, 3) == b"-aa"
    file.write(BLOCK_BYTES - 1, [b"bcd"])
    file.write_blocks(2 * BLOCK_BYTES, memory[:BLOCK_BYTES])
    assert file.read(BLOCK_BYTES - 2, 6) == b"-bcdaa"
    assert Path(disk.describe("blocks")).read_bytes()[2 * BLOCK_BYTES :] == b"a" * BLOCK_BYTES
    file.close()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_direct_writes_are_refused_blocks_are_written_and_forced(
    disk: SystemDisk, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    forces = []

    class Forcing(SystemFile):
        def force(self) -> None:
            forces.append(1)
            super().force()

    def refuse(self: SystemFile, direct: bool) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(SystemFile, "_be_direct", refuse)
    file = Forcing(os.open(disk.describe("file"), os.O_RDWR | os.O_CREAT, 0o600))
    for letter in (b"a", b"b"):
        file.write_blocks(0, memoryview(letter * BLOCK_BYTES))
        assert file.read(0, 2 * BLOCK_BYTES) == letter * BLOCK_BYTES
    assert len(forces) == 2
    file.close()


def test_a_short_write_of_blocks_goes_on_and_forces(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = blocks(disk)
    whole = os.pwritev
    monkeypatch.setattr(SystemFile, "_be_direct", lambda *_: None)
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, offset, *_: whole(fd, [parts[0][:100]], offset))
    file.write_blocks(0, memoryview(b"c" * 2 * BLOCK_BYTES))
    assert file.read(0, 3 * BLOCK_BYTES) == b"c" * 2 * BLOCK_BYTES + b"-" * BLOCK_BYTES
    file.close()


def test_a_failed_write_of_blocks_is_not_tried_in_another_way(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = blocks(disk)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", fail)
        with pytest.raises(OSError, match="Input/output"):
            file.write_blocks(0, block_memory(BLOCK_BYTES))
    file.close()
