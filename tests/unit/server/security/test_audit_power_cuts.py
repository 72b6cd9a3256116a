# SPDX-License-Identifier: Apache-2.0
"""What the audit log promises about power cuts, and which files it leaves open."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from entrepot import private_file
from entrepot.errors import AuditDamaged, AuditFailed
from entrepot.server.security import audit_chain
from entrepot.server.security.audit import AuditLog, records, verify
from entrepot.testing import VirtualClock
from open_files import open_files

from .power_cuts import Left, PowerCuts, restore

FILE, HEAD, MARK = "audit.jsonl", "audit-head.json", "audit-mark.json"
REFUSALS_WRITTEN = 100


@pytest.fixture
def reboot(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    boots = itertools.count()
    return lambda: monkeypatch.setattr(audit_chain, "boot", partial("boot {}".format, next(boots)))


def survivors(left: Left, folder: Path) -> list[str]:
    """The objects of the lines that a power cut left, once the log has been opened again and closed."""
    again = restore(left, folder)
    AuditLog.open(again).close()
    assert verify(again) == len(list(records(again)))
    return [record["object"] for record in records(again) if "object" in record]


@pytest.mark.parametrize("bytes_max", [100_000, 300, 1])
def test_whenever_the_power_fails_the_log_goes_on_with_every_line_that_was_forced(
    folder: Path, cuts: PowerCuts, reboot: Callable[[], None], bytes_max: int
) -> None:
    log = AuditLog.open(folder, bytes_max=bytes_max)
    for number in range(4):
        log.write("put", object=f"{number}")
        if number % 2:
            log.force()
            cuts.promises = number + 1
    log.close()
    reboot()
    for number, left in enumerate(list(cuts.left)):
        objects = survivors(left, folder.with_name(f"left{number}"))
        assert objects == ["0", "1", "2", "3"][: len(objects)], left
        assert len(objects) >= left.promises, left


def test_a_new_file_keeps_its_name_though_the_head_could_not_be_written(
    folder: Path, cuts: PowerCuts, reboot: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog.open(folder, bytes_max=300)

    def full(*_: object) -> None:
        raise AuditFailed(str(folder / HEAD), "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(audit_chain, "write_head", full)
        log.write("put", object="0")
        log.write("put", object="1")
        with pytest.raises(AuditFailed):
            log.write("put", object="2")
    log.write("put", object="3")
    log.force()
    outcomes = list(cuts.outcomes())
    log.close()
    reboot()
    for number, left in enumerate(outcomes):
        assert survivors(left, folder.with_name(f"left{number}")) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("promise", [AuditLog.force, AuditLog.close])
def test_refusals_that_were_counted_are_forced_with_the_rest(
    folder: Path, cuts: PowerCuts, reboot: Callable[[], None], promise: Callable[[AuditLog], None]
) -> None:
    log = AuditLog.open(folder, now=VirtualClock().now)
    for _ in range(REFUSALS_WRITTEN + 3):
        log.write("connect", address="10.0.0.7", verdict="refused")
    promise(log)
    outcomes = list(cuts.outcomes())
    log.close()
    reboot()
    for number, left in enumerate(outcomes):
        again = restore(left, folder.with_name(f"left{number}"))
        assert [record["count"] for record in records(again) if "count" in record] == [3]
        assert verify(again) == REFUSALS_WRITTEN + 1


def test_after_close_the_head_knows_the_last_line(folder: Path) -> None:
    log = AuditLog.open(folder, now=VirtualClock().now)
    for _ in range(REFUSALS_WRITTEN + 3):
        log.write("connect", address="10.0.0.7", verdict="refused")
    log.close()
    (folder / MARK).write_bytes(audit_chain.ChainMark().encode())
    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    (folder / FILE).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(AuditDamaged, match="1 lines are missing"):
        verify(folder)


def test_a_torn_line_stays_cut_off_when_the_power_fails_again(
    folder: Path, cuts: PowerCuts, reboot: Callable[[], None]
) -> None:
    log = AuditLog.open(folder)
    log.write("put", object="0")
    log.close()
    with (folder / FILE).open("ab") as file:
        file.write(b'{"n":2,"ti')
    reboot()
    cuts.left.clear()
    AuditLog.open(folder).close()
    reboot()
    for number, left in enumerate(list(cuts.left)):
        assert survivors(left, folder.with_name(f"left{number}")) == ["0"]


# --- forces that fail -------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [FILE, MARK])
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), OSError("the disk is gone")])
def test_a_force_that_failed_once_is_never_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: OSError
) -> None:
    """The second one might succeed though the lines are gone."""

    def force(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(failing):
            raise error

    log = AuditLog.open(folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", force)
        with pytest.raises(AuditFailed, match=private_file.reason(error)):
            log.force()
    for again in (lambda: log.write("put"), log.force, log.close):
        with pytest.raises(AuditFailed, match=private_file.reason(error)):
            again()


def test_a_mark_that_cannot_be_written_ends_the_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog.open(folder)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(AuditFailed, match="No space left"):
            log.write("put")
    with pytest.raises(AuditFailed, match="its mark cannot be written: No space left"):
        log.write("put")
    with pytest.raises(AuditFailed):
        log.close()


def test_half_a_line_that_cannot_be_taken_back_ends_the_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog.open(folder)

    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", broken)
        patched.setattr(os, "ftruncate", broken)
        with pytest.raises(AuditFailed, match="Input/output"):
            log.write("put")
    with pytest.raises(AuditFailed, match="after a failed write: Input/output"):
        log.write("put")
    with pytest.raises(AuditFailed):
        log.close()


# --- files that cannot be put aside -----------------------------------------------------------------


def failing_rename(target: str, failures: list[str]) -> Callable[[Path, Path], Path]:
    """Path.rename on a disk that fails once where a file is to get this name."""
    rename = Path.rename

    def renamed(self: Path, to: Path) -> Path:
        if Path(to).name == target and failures:
            raise OSError(5, failures.pop())
        return rename(self, to)

    return renamed


def test_a_full_file_that_cannot_be_put_aside_is_tried_again_with_the_next_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog.open(folder, bytes_max=1)
    monkeypatch.setattr(Path, "rename", failing_rename("audit-0001.jsonl", ["Input/output error"]))
    with pytest.raises(AuditFailed, match="Input/output"):
        log.write("put")
    assert open_files(folder) == [MARK, FILE]
    log.write("put")
    assert (folder / "audit-0001.jsonl").read_bytes().count(b"\n") == 2
    log.close()
    assert verify(folder) == 2


def test_a_new_file_that_gets_no_name_leaves_the_full_one_in_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog.open(folder, bytes_max=1)
    monkeypatch.setattr(Path, "rename", failing_rename(FILE, ["Input/output error"]))
    with pytest.raises(AuditFailed, match="Input/output"):
        log.write("put")
    assert open_files(folder) == [MARK, FILE]
    assert not (folder / "audit-0001.jsonl").exists()
    for again in (lambda: log.write("put"), log.close):
        with pytest.raises(AuditFailed, match="could not be put aside"):
            again()
    assert open_files(folder) == []
    assert verify(folder) == 1


def test_what_a_death_left_of_a_new_file_is_in_nobodys_way(folder: Path) -> None:
    (folder / f".{FILE}.new").write_bytes(b"half of")
    log = AuditLog.open(folder, bytes_max=1)
    log.write("put")
    log.close()
    assert verify(folder) == 1


# --- open files -------------------------------------------------------------------------------------


def test_a_log_has_two_files_open_however_many_it_has_filled(folder: Path) -> None:
    log = AuditLog.open(folder, bytes_max=1)
    for _ in range(3):
        log.write("put")
        assert open_files(folder) == [MARK, FILE]
    log.close()
    assert open_files(folder) == []


def test_closing_a_log_twice_closes_no_file_of_others(folder: Path) -> None:
    log = AuditLog.open(folder)
    log.close()
    others = [os.open(folder / FILE, os.O_RDONLY) for _ in range(8)]
    log.close()
    assert open_files(folder) == [FILE] * 8
    for descriptor in others:
        os.close(descriptor)


def test_a_log_that_cannot_be_opened_leaves_no_file_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    for module, name in ((audit_chain, "end"), (os, "fdatasync"), (audit_chain, "write_head")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, broken)
            with pytest.raises(AuditFailed, match=r"audit\.jsonl.*Input/output error"):
                AuditLog.open(folder)
        assert open_files(folder) == [], name


def test_a_damaged_log_leaves_no_file_open(folder: Path) -> None:
    AuditLog.open(folder).close()
    (folder / HEAD).unlink()
    (folder / FILE).write_bytes(b"forged\n")
    with pytest.raises(AuditDamaged):
        AuditLog.open(folder)
    assert open_files(folder) == []


def test_a_log_that_another_one_writes_leaves_no_file_open(folder: Path) -> None:
    log = AuditLog.open(folder)
    with pytest.raises(AuditFailed, match="another process"):
        AuditLog.open(folder)
    assert open_files(folder) == [MARK, FILE]
    log.close()
