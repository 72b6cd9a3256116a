# SPDX-License-Identifier: Apache-2.0
"""Folders that earlier releases have left behind, killed in the middle of their work."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from conftest import host_of
from entrepot import Connection, connect
from entrepot.disk import SystemDisk
from entrepot.engine import media
from entrepot.engine.folder import read_settings
from entrepot.engine.recovery_log.segment import SegmentHead, head_page, read_head_page, segment_numbers, segment_path
from entrepot.errors import LogDamaged

DATA = Path(__file__).parent / "data"


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(DATA / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    for below in ("QM", "QM/log", "QM/runs"):
        (folder / below).chmod(0o700)
    return folder / "QM"


def heads(path: Path) -> dict[int, SegmentHead]:
    """What the head page of each segment says."""
    settings, disk = read_settings(path), SystemDisk(path)
    found = {}
    for number in segment_numbers(disk):
        file = disk.open(segment_path(number))
        found[number] = read_head_page(
            disk, segment_path(number), file, settings.manager_id, number, settings.log.segment_bytes
        )
        file.close()
    return found


def contents(connection: Connection) -> dict[str, list[bytes]]:
    return {queue: [message.body for message in connection.browse(queue)] for queue in ("ORDERS", "DONE", "ONE", "TWO")}


FORMAT_2 = {
    "ORDERS": [b"order %d" % number for number in range(6, 30)],
    "DONE": [b"order %d" % number for number in range(5)],
    "ONE": [b"shared " * 100, b"the last whole one"],
    "TWO": [b"shared " * 100],
}
"""On both folders of format 2: a prepared unit holds order 5, and the last put was torn."""


def test_a_folder_of_format_1_is_read_and_goes_on(tmp_path: Path) -> None:
    """Made by the release before topics: messages in a run and in the log, a prepared unit, an open one, a kill."""
    unpack("format-1", tmp_path)
    for _ in range(2):
        with connect(f"embedded:{tmp_path / 'QM'}") as connection:
            assert connection.in_doubt() == [b"tx-1"]
            bodies = [message.body for message in connection.browse("ORDERS")]
            assert bodies == [b"order 1", *(b"order %d" % number for number in range(3, 30))]
            assert [message.body for message in connection.browse("DONE")] == [
                b"order %d" % number for number in range(20, 30)
            ]
    with connect(f"embedded:{tmp_path / 'QM'}") as connection:
        connection.resolve(b"tx-1", commit=True)
        connection.subscribe("orders/#", durable="registry").close()
        connection.publish("orders/new", b"topics came with format 2", persistent=True, retain=True)
        assert connection.get("A", selector="n = 5").body == b"order 5"  # type: ignore[union-attr]
    with connect(f"embedded:{tmp_path / 'QM'}") as connection:
        assert [message.body for message in connection.browse("DONE")][-1] == b"prepared"
        registry = connection.subscribe(durable="registry").get()
        assert registry is not None and registry.topic == "orders/new"


@pytest.mark.parametrize("kind", ["circular", "linear"])
def test_a_folder_of_format_2_is_read_and_goes_on_in_a_segment_with_a_salt(kind: str, tmp_path: Path) -> None:
    """Made by the release before salts: shared bodies, a prepared unit, old bytes in the log, a torn end, a kill."""
    path = unpack(f"format-2-{kind}", tmp_path)
    before = max(heads(path))
    for _ in range(3):
        with connect(f"embedded:{path}") as connection:
            assert connection.in_doubt() == [b"tx-1"]
            assert contents(connection) == FORMAT_2
    head = heads(path)[before + 1]
    assert head.salt
    payload_bytes = read_settings(path).log.payload_bytes
    assert before * payload_bytes < head.continues < (before + 1) * payload_bytes
    with connect(f"embedded:{path}") as connection:
        connection.put("TWO", b"new", persistent=True)
        connection.resolve(b"tx-1", commit=True)
    with connect(f"embedded:{path}") as connection:
        assert contents(connection) == FORMAT_2 | {
            "DONE": [*FORMAT_2["DONE"], b"prepared"],
            "TWO": [*FORMAT_2["TWO"], b"new"],
        }


def add_segment(path: Path, continues: int) -> None:
    """As a first start with salts makes it before it writes anything else."""
    settings = read_settings(path)
    number = max(heads(path)) + 1
    page = head_page(settings.manager_id, number, settings.log.segment_bytes, SegmentHead(bytes(32), continues))
    (path / segment_path(number)).write_bytes(page.ljust(settings.log.segment_bytes, b"\0"))


def test_a_start_killed_right_after_it_left_format_2_changes_nothing(tmp_path: Path) -> None:
    """The new segment is there, and the checkpoint is still the old one."""
    started = unpack("format-2-circular", tmp_path / "started")
    with connect(f"embedded:{started}"):
        continues = heads(started)[max(heads(started))].continues
    path = unpack("format-2-circular", tmp_path)
    add_segment(path, continues)
    for _ in range(2):
        with connect(f"embedded:{path}") as connection:
            assert contents(connection) == FORMAT_2


def test_a_segment_that_continues_another_log_is_not_gone_on_with(tmp_path: Path) -> None:
    path = unpack("format-2-circular", tmp_path)
    add_segment(path, 200_000)
    with pytest.raises(LogDamaged, match="does not continue"):
        connect(f"embedded:{path}")


def test_media_recovery_and_restore_read_over_the_end_of_format_2(tmp_path: Path) -> None:
    path = unpack("format-2-linear", tmp_path)
    # The rebuilding itself is the first start with salts.
    assert media.recover_queue(path, "ORDERS") == 25
    for number in range(3):
        with connect(f"embedded:{path}") as connection:
            connection.put("TWO", b"%d" % number, persistent=True)
            if number == 0:
                media.backup(host_of(connection), tmp_path / "backup")
    assert media.recover_queue(path, "TWO") == 4
    media.restore(tmp_path / "backup", tmp_path / "restored", log_from=path)
    for folder in (path, tmp_path / "restored"):
        with connect(f"embedded:{folder}") as connection:
            assert contents(connection) == FORMAT_2 | {"TWO": [*FORMAT_2["TWO"], b"0", b"1", b"2"]}


def test_a_restore_to_a_place_before_the_salts_goes_on_with_salts(tmp_path: Path) -> None:
    path = unpack("format-2-linear", tmp_path)
    backup = tmp_path / "backup"
    shutil.copytree(path, backup)
    with connect(f"embedded:{path}") as connection:
        connection.put("TWO", b"too late", persistent=True)
    last = max(heads(backup))
    end = heads(path)[last + 1].continues
    media.restore(backup, tmp_path / "restored", log_from=path, until_position=end)
    for _ in range(2):
        with connect(f"embedded:{tmp_path / 'restored'}") as connection:
            assert contents(connection) == FORMAT_2
    assert heads(tmp_path / "restored")[last + 1].continues == end
    assert heads(tmp_path / "restored")[last + 1].salt != heads(path)[last + 1].salt
