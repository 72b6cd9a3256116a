# SPDX-License-Identifier: Apache-2.0
"""What head, mark and files of an audit log say of each other, and how damage is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot import private_file
from entrepot.errors import AuditDamaged, AuditFailed
from entrepot.server.security import audit_chain
from entrepot.server.security.audit import AuditLog, records, verify

FILE, HEAD, MARK, FULL = "audit.jsonl", "audit-head.json", "audit-mark.json", "audit-0001.jsonl"
LOOKS: tuple[Callable[[Path], Any], ...] = (verify, AuditLog.open)


def fill(folder: Path, count: int, bytes_max: int = 100_000) -> None:
    log = AuditLog.open(folder, now=lambda: 1_777_777_777.125, bytes_max=bytes_max)
    for _ in range(count):
        log.write("put", user="alice")
    log.close()


def change(path: Path, alter: Callable[[dict[str, Any]], None]) -> None:
    """Alter a head or a mark, as somebody who can write the file would."""
    content = json.loads(path.read_bytes())
    alter(content)
    path.write_text(json.dumps(content))


def damage(folder: Path, look: Callable[[Path], Any] = verify) -> tuple[str, int, str]:
    """Which file and line is named, and what is wrong with it."""
    with pytest.raises(AuditDamaged) as caught:
        look(folder)
    return Path(caught.value.file).name, caught.value.line, caught.value.problem


# --- files that are missing -------------------------------------------------------------------------


@pytest.mark.parametrize("look", [*LOOKS, lambda folder: list(records(folder))])
def test_a_full_file_that_is_missing_is_named(folder: Path, look: Callable[[Path], Any]) -> None:
    fill(folder, 3, bytes_max=1)
    (folder / "audit-0002.jsonl").unlink()
    assert damage(folder, look) == ("audit-0002.jsonl", 1, "the file is missing")


@pytest.mark.parametrize("look", LOOKS)
def test_a_log_that_was_removed_with_its_head_is_missed_by_the_mark(folder: Path, look: Callable[[Path], Any]) -> None:
    fill(folder, 1)
    (folder / HEAD).unlink()
    (folder / FILE).unlink()
    assert damage(folder, look) == (HEAD, 1, "the file is missing")


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("bytes_max", [100_000, 1])
def test_lines_without_head_and_mark_are_damage(folder: Path, look: Callable[[Path], Any], bytes_max: int) -> None:
    fill(folder, 1, bytes_max)
    (folder / HEAD).unlink()
    (folder / MARK).unlink()
    assert damage(folder, look) == (HEAD, 1, "the file is missing")


@pytest.mark.parametrize("look", LOOKS)
def test_a_full_file_without_head_and_mark_is_damage_though_it_was_emptied(
    folder: Path, look: Callable[[Path], Any]
) -> None:
    fill(folder, 1, bytes_max=1)
    (folder / FULL).write_bytes(b"")
    (folder / HEAD).unlink()
    (folder / MARK).unlink()
    assert damage(folder, look) == (HEAD, 1, "the file is missing")


def test_a_death_before_the_first_head_leaves_a_log_that_begins(folder: Path) -> None:
    for name, content in ((FILE, b""), (MARK, audit_chain.ChainMark().encode())):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    assert verify(folder) == 0
    fill(folder, 1)
    assert verify(folder) == 1


@pytest.mark.parametrize("look", LOOKS)
def test_a_current_file_that_is_missing_behind_full_ones_is_found(folder: Path, look: Callable[[Path], Any]) -> None:
    fill(folder, 2, bytes_max=1)
    fill(folder, 1)
    (folder / FILE).unlink()
    assert damage(folder, look)[2].endswith("lines are missing behind it")


@pytest.mark.parametrize("look", LOOKS)
def test_full_files_that_the_head_knows_and_the_folder_has_not_are_missed(
    folder: Path, look: Callable[[Path], Any]
) -> None:
    fill(folder, 2, bytes_max=1)
    for number in (1, 2):
        (folder / audit_chain.full_name(number)).unlink()
    assert damage(folder, look)[0] == FILE


# --- places that head and mark know -----------------------------------------------------------------


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("place", ["forced", "written"])
def test_a_mark_with_another_chain_is_found_where_the_log_ends(
    folder: Path, look: Callable[[Path], Any], place: str
) -> None:
    fill(folder, 2)
    change(folder / MARK, lambda mark: mark[place].update(chain="f" * 64))
    assert damage(folder, look) == (MARK, 1, "its chain is not that of line 2")


@pytest.mark.parametrize("name", [HEAD, MARK])
def test_a_place_that_is_between_two_lines_of_no_log_is_found(folder: Path, name: str) -> None:
    fill(folder, 2)
    size = (folder / FILE).stat().st_size
    change(folder / name, lambda content: content.get("forced", content).update(bytes=size - 1))
    assert damage(folder) == (FILE, 2, "it is not where head and mark say")


def test_what_is_missing_is_counted(folder: Path) -> None:
    fill(folder, 5)
    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    (folder / FILE).write_bytes(b"".join(lines[:2]))
    assert damage(folder) == (FILE, 2, "3 lines are missing behind it")


def test_lines_that_are_only_missing_since_another_boot_are_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog.open(folder)
    log.write("put")
    log.force()
    log.write("put")
    mark = (folder / MARK).read_bytes()
    log.close()
    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    (folder / HEAD).unlink()
    audit_chain.write_head(folder, audit_chain.ChainHead())
    (folder / MARK).write_bytes(mark)
    (folder / FILE).write_bytes(lines[0])
    assert damage(folder) == (FILE, 1, "1 lines are missing behind it")
    monkeypatch.setattr(audit_chain, "boot", lambda: "another")
    assert verify(folder) == 1
    assert audit_chain.end(folder).lost_lines == 1


def test_a_log_that_lost_nothing_says_so(folder: Path) -> None:
    fill(folder, 2)
    assert audit_chain.end(folder) == audit_chain.ChainEnd(audit_chain.end(folder).head, torn_bytes=0, lost_lines=0)
    (folder / MARK).unlink()
    change(folder / HEAD, lambda head: head.pop("marked"))
    assert audit_chain.end(folder).lost_lines == 0


# --- lines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 20])
def test_an_unfinished_line_of_a_full_file_is_damage_of_that_file(folder: Path, cut: int) -> None:
    fill(folder, 2, bytes_max=1)
    content = (folder / FULL).read_bytes()
    (folder / FULL).write_bytes(content[:-cut])
    assert damage(folder) == (FULL, 1, "it is not the line that was written here")


def test_an_unfinished_last_line_is_told_with_its_number(folder: Path) -> None:
    fill(folder, 2)
    with (folder / FILE).open("ab") as file:
        file.write(b'{"n":3')
    assert damage(folder) == (FILE, 3, "it is unfinished")
    assert audit_chain.end(folder).torn_bytes == 6
    assert len(list(records(folder))) == 2


def test_a_line_that_is_no_json_is_named_by_its_number(folder: Path) -> None:
    fill(folder, 2)
    with (folder / FILE).open("ab") as file:
        file.write(b"nonsense\n")
    assert damage(folder, lambda folder: list(records(folder))) == (FILE, 3, "it is no JSON")


def test_lines_before_the_head_were_checked_when_it_was_written(folder: Path) -> None:
    """A log of gigabytes is opened at once; `verify` reads it all."""
    fill(folder, 2)
    content = bytearray((folder / FILE).read_bytes())
    content[10] ^= 1
    (folder / FILE).write_bytes(content)
    assert audit_chain.end(folder).head.lines == 2
    assert damage(folder)[:2] == (FILE, 1)


# --- bounds and forms -------------------------------------------------------------------------------


def test_a_file_is_full_when_it_has_reached_its_length(folder: Path) -> None:
    fill(folder, 1)
    length = (folder / FILE).stat().st_size
    for bytes_max, is_full in ((length, True), (length + 1, False)):
        other = folder.with_name(f"other{bytes_max}")
        other.mkdir(mode=0o700)
        fill(other, 1, bytes_max)
        assert (other / FULL).exists() == is_full


def test_a_mark_is_two_sectors_long_whatever_it_says(folder: Path) -> None:
    """It is written over in one go, and nothing of an older one is left behind it."""
    far = audit_chain.ChainHead(file=9_999_999, line=2**62, bytes=2**62, lines=2**62)
    assert len(audit_chain.ChainMark(written=far, forced=far, boot="b" * 36).encode()) == 1024
    fill(folder, 1)
    assert (folder / MARK).stat().st_size == 1024


def test_places_of_a_log_are_counted_in_lines_and_bytes(folder: Path) -> None:
    fill(folder, 2, bytes_max=1)
    fill(folder, 3)
    size = (folder / FILE).stat().st_size
    head = audit_chain.end(folder).head
    assert (head.file, head.line, head.lines, head.bytes) == (3, 3, 5, size)


def test_a_head_that_cannot_be_read_is_no_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folder, 1)
    monkeypatch.setattr(private_file, "_BYTES_MAX", 10)
    for look in LOOKS:
        with pytest.raises(AuditFailed, match=r"audit-head\.json"):
            look(folder)


def test_a_machine_that_does_not_tell_its_boot_has_an_empty_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_chain, "_BOOT", folder / "nowhere")
    assert audit_chain.boot() == ""
    fill(folder, 1)
    assert verify(folder) == 1
