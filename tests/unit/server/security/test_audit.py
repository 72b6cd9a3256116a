# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot import private_file
from entrepot.errors import AuditDamaged, AuditFailed, FileNotPrivate
from entrepot.server.security import audit as audit_module
from entrepot.server.security import audit_chain
from entrepot.server.security.audit import AuditLog, records, verify
from entrepot.testing import VirtualClock


@contextmanager
def opened(folder: Path, **more: object) -> Iterator[AuditLog]:
    log = AuditLog.open(folder, **more)  # type: ignore[arg-type]
    try:
        yield log
    finally:
        log.close()


def fill(folder: Path, count: int, **more: object) -> None:
    with opened(folder, **more) as log:
        for number in range(count):
            log.write("put", user="alice", object=f"Q{number}", verdict="allowed")


def killed(folder: Path) -> Path:
    """What a SIGKILL now would leave."""
    copy = folder.with_name(f"{folder.name}.killed{len(list(folder.parent.iterdir()))}")
    shutil.copytree(folder, copy)
    return copy


# --- what is written --------------------------------------------------------------------------------


def test_lines_tell_what_happened_and_carry_their_chain(folder: Path) -> None:
    with opened(folder, now=lambda: 1_777_777_777.125) as log:
        log.write("connect", user="alice", address="10.0.0.7", channel="APP", verdict="allowed")
        log.write("put", user="alice", object="ORDERS", verdict="refused", reason="no PUT authority")
    lines = (folder / "audit.jsonl").read_bytes().splitlines()
    first = (
        b'{"n":1,"time":"2026-05-03T03:09:37.125Z","event":"connect","user":"alice","address":"10.0.0.7",'
        b'"channel":"APP","verdict":"allowed"}'
    )
    chain = hashlib.sha256(b"0" * 64 + first).hexdigest()
    assert lines[0] == first[:-1] + f',"chain":"{chain}"}}'.encode()
    text = lines[1][: lines[1].index(b',"chain"')] + b"}"
    assert json.loads(lines[1])["chain"] == hashlib.sha256(chain.encode() + text).hexdigest()
    assert [record["event"] for record in records(folder)] == ["connect", "put"]
    assert verify(folder) == 2


def test_files_are_private(folder: Path) -> None:
    fill(folder, 1)
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "audit.jsonl": 0o600,
        "audit-head.json": 0o600,
        "audit-mark.json": 0o600,
    }


def test_a_line_is_in_the_file_when_write_returns(folder: Path) -> None:
    with opened(folder) as log:
        log.write("connect", user="alice")
        assert (folder / "audit.jsonl").read_bytes().count(b"\n") == 1


@pytest.mark.parametrize(
    "nasty",
    ['x\r\n{"n":2,"event":"forged"}', "\0\x1b[2J\x7f\x85\u2028\u202e", "\ud800 alone", '","verdict":"allowed', "é" * 3],
)
def test_whatever_a_stranger_calls_himself_stays_in_its_line(folder: Path, nasty: str) -> None:
    with opened(folder) as log:
        log.write("connect", user=nasty, verdict="refused")
        log.write(nasty)
    content = (folder / "audit.jsonl").read_bytes()
    assert content.count(b"\n") == 2
    assert all(0x20 <= byte < 0x7F or byte == 0x0A for byte in content)
    found = list(records(folder))
    assert found[0]["user"] == nasty
    assert found[0]["verdict"] == "refused"
    assert verify(folder) == 2


def test_long_values_are_cut(folder: Path) -> None:
    with opened(folder) as log:
        log.write("connect", user="\u20ac" * 1_000_000)
    assert (folder / "audit.jsonl").stat().st_size < 10_000


def test_a_field_that_does_not_exist_cannot_be_written(folder: Path) -> None:
    with opened(folder) as log, pytest.raises(AssertionError):
        log.write("connect", password="secret")  # type: ignore[call-arg]
    assert b"secret" not in (folder / "audit.jsonl").read_bytes()


def test_the_log_goes_on_where_it_ended(folder: Path) -> None:
    for _ in range(3):
        fill(folder, 2)
    assert [record["n"] for record in records(folder)] == [1, 2, 3, 4, 5, 6]
    assert verify(folder) == 6


def test_threads_may_write_together(folder: Path) -> None:
    with opened(folder, bytes_max=10_000) as log:
        threads = [
            threading.Thread(target=lambda: [log.write("put", user="alice") for _ in range(200)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert verify(folder) == 800


def test_no_log_is_no_damage(folder: Path) -> None:
    assert verify(folder) == 0
    assert list(records(folder)) == []
    with opened(folder):
        pass
    assert verify(folder) == 0


# --- what was changed is found --------------------------------------------------------------------


def test_every_altered_byte_is_found(folder: Path) -> None:
    fill(folder, 3)
    file = folder / "audit.jsonl"
    whole = file.read_bytes()
    starts = [0, *(at + 1 for at, byte in enumerate(whole) if byte == 0x0A)]
    for at in range(len(whole)):
        altered = bytearray(whole)
        altered[at] ^= 0x01
        file.write_bytes(altered)
        with pytest.raises(AuditDamaged) as caught:
            verify(folder)
        expected = sum(start <= at for start in starts)
        assert caught.value.line == expected
        assert caught.value.file == str(file)
    file.write_bytes(whole)
    assert verify(folder) == 3


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [*lines[:2], *lines[3:]], 3),
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1),
        (lambda lines: [*lines[:3], lines[3], lines[3], lines[4]], 5),
        (lambda lines: [*lines[:2], b"\n", *lines[2:]], 3),
        (lambda lines: lines[:4], 4),
        (lambda lines: [], 0),
        (lambda lines: [*lines[:4], lines[4][:-1]], 5),
        (lambda lines: [*lines, lines[4]], 6),
    ],
    ids=["removed", "first removed", "moved", "doubled", "blank", "last removed", "all removed", "cut", "added"],
)
def test_lines_removed_moved_added_or_cut_are_found(
    folder: Path, change: Callable[[list[bytes]], list[bytes]], line: int
) -> None:
    fill(folder, 5)
    file = folder / "audit.jsonl"
    file.write_bytes(b"".join(change(file.read_bytes().splitlines(keepends=True))))
    with pytest.raises(AuditDamaged) as caught:
        verify(folder)
    assert caught.value.line == line


def test_a_log_that_lost_lines_is_not_continued(folder: Path) -> None:
    fill(folder, 5)
    file = folder / "audit.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))
    with pytest.raises(AuditDamaged, match="missing"):
        AuditLog.open(folder)


def test_a_missing_head_or_log_is_found(folder: Path) -> None:
    fill(folder, 2)
    head, log = folder / "audit-head.json", folder / "audit.jsonl"
    content = head.read_bytes()
    head.unlink()
    for look in (verify, AuditLog.open):
        with pytest.raises(AuditDamaged, match=r"audit-head\.json"):
            look(folder)
    head.write_bytes(b"{}]")
    head.chmod(0o600)
    with pytest.raises(AuditDamaged, match="no head"):
        verify(folder)
    head.write_bytes(content.replace(b'"chain":"', b'"chain":"f'))
    with pytest.raises(AuditDamaged, match="chain"):
        verify(folder)
    head.write_bytes(content)
    log.unlink()
    for look in (verify, AuditLog.open):
        with pytest.raises(AuditDamaged):
            look(folder)


def test_forged_lines_behind_a_shortened_log_are_found_before_it_goes_on(folder: Path) -> None:
    fill(folder, 5)
    file = folder / "audit.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)[:2]
    place = audit_chain.ChainHead(lines=2, line=2, chain=json.loads(lines[1])["chain"])
    for number in range(20):
        line, place = audit_chain.seal(place, b'{"n":%d,"event":"forged"}' % (number + 3))
        lines.append(line)
    file.write_bytes(b"".join(lines))
    with pytest.raises(AuditDamaged):
        verify(folder)
    with pytest.raises(AuditDamaged):
        AuditLog.open(folder)


def test_after_a_kill_an_emptied_or_shortened_log_is_found(folder: Path) -> None:
    fill(folder, 3)
    log = AuditLog.open(folder)
    log.write("put", object="LAST")
    crashed = killed(folder)
    log.close()
    assert verify(crashed) == 4
    file = crashed / "audit.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    for left in (3, 1, 0):
        file.write_bytes(b"".join(lines[:left]))
        for look in (verify, AuditLog.open):
            with pytest.raises(AuditDamaged, match="missing"):
                look(crashed)
    file.write_bytes(b"".join(lines))
    mark = crashed / "audit-mark.json"
    content = mark.read_bytes()
    for wrong in (b"", content.replace(b'"chain":"', b'"chain":"f')):
        mark.write_bytes(wrong)
        with pytest.raises(AuditDamaged, match=r"audit-mark\.json"):
            verify(crashed)
    mark.unlink()
    for look in (verify, AuditLog.open):
        with pytest.raises(AuditDamaged, match=r"audit-mark\.json.*missing"):
            look(crashed)
    mark.write_bytes(content)
    mark.chmod(0o600)
    fill(crashed, 1)
    assert verify(crashed) == 5


def test_a_power_cut_may_take_lines_that_were_not_forced_and_no_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog.open(folder)
    for number in range(6):
        log.write("put", object=str(number))
        if number == 3:
            log.force()
    crashed = killed(folder)
    log.close()
    file = crashed / "audit.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    monkeypatch.setattr(audit_chain, "boot", lambda: "another")
    file.write_bytes(b"".join(lines[:3]))
    with pytest.raises(AuditDamaged, match="1 lines are missing"):
        verify(crashed)
    file.write_bytes(b"".join(lines[:4]))
    assert verify(crashed) == 4
    fill(crashed, 1)
    lost = next(record for record in records(crashed) if record["event"] == "audit lines lost")
    assert lost["count"] == 2
    assert verify(crashed) == 6


def test_a_log_of_an_earlier_release_has_no_mark_and_gets_one(folder: Path) -> None:
    fill(folder, 3)
    (folder / "audit-mark.json").unlink()
    head = json.loads((folder / "audit-head.json").read_bytes())
    del head["marked"]
    (folder / "audit-head.json").write_text(json.dumps(head))
    assert verify(folder) == 3
    fill(folder, 1)
    assert verify(folder) == 4
    (folder / "audit-mark.json").unlink()
    with pytest.raises(AuditDamaged):
        verify(folder)


def test_the_head_follows_every_thousand_lines(folder: Path) -> None:
    log = AuditLog.open(folder)
    for _ in range(1500):
        log.write("put")
    head = json.loads((folder / "audit-head.json").read_bytes())
    log.close()
    assert head["lines"] == 1000


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_single_change_of_a_line_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("audit")
    fill(folder, 4, bytes_max=300)
    path = data.draw(st.sampled_from(sorted(folder.glob("audit*.jsonl"))))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    cut = data.draw(st.integers(0, 3))
    put = data.draw(st.binary(max_size=3))
    changed = whole[:at] + put + whole[at + cut :]
    path.write_bytes(changed)
    if changed == whole:
        verify(folder)
    else:
        with pytest.raises(AuditDamaged):
            verify(folder)


# --- rotation -------------------------------------------------------------------------------------


def test_full_files_are_put_aside_and_the_chain_goes_on(folder: Path) -> None:
    fill(folder, 30, bytes_max=1000)
    fill(folder, 10, bytes_max=1000)
    names = sorted(path.name for path in folder.iterdir())
    assert names[:4] == ["audit-0001.jsonl", "audit-0002.jsonl", "audit-0003.jsonl", "audit-0004.jsonl"]
    assert [record["n"] for record in records(folder)] == list(range(1, 41))
    assert verify(folder) == 40
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())


@pytest.mark.parametrize("gone", ["audit-0001.jsonl", "audit-0002.jsonl", "audit-0004.jsonl"])
def test_a_missing_file_is_found(folder: Path, gone: str) -> None:
    fill(folder, 30, bytes_max=1000)
    (folder / gone).unlink()
    with pytest.raises(AuditDamaged):
        verify(folder)


@pytest.mark.parametrize("step", range(10))
def test_a_death_during_rotation_loses_nothing(folder: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies at each change of a name or force; what is left is whole and goes on."""
    done = 0

    class Died(BaseException):
        pass

    def dying(call: Callable[..., object]) -> Callable[..., object]:
        def made(*arguments: object, **named: object) -> object:
            nonlocal done
            done += 1
            if done == step + 1:
                raise Died
            return call(*arguments, **named)

        return made

    fill(folder, 3, bytes_max=1000)
    log = AuditLog.open(folder, bytes_max=1000)
    written = 3
    with monkeypatch.context() as patched:
        for name in ("rename", "unlink"):
            patched.setattr(Path, name, dying(getattr(Path, name)))
        for name in ("fsync", "fdatasync"):
            patched.setattr(os, name, dying(getattr(os, name)))
        try:
            for _ in range(4):
                log.write("put", object="x" * 100)
                written += 1
        except Died:
            written += 1  # the line itself was written before the file was put aside
    assert done > step, "there are fewer steps than this test thinks"
    left = killed(folder)
    assert verify(left) == written
    with opened(left, bytes_max=1000) as again:
        again.write("start")
    assert verify(left) == written + 1
    os.close(log._descriptor)


# --- disks ----------------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A real disk limit: a write that crosses it is cut short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_refuses_the_line_and_leaves_no_half_of_it(folder: Path) -> None:
    with opened(folder) as log:
        log.write("put", object="A")
        size = (folder / "audit.jsonl").stat().st_size
        with files_of_at_most(size + 20):
            for _ in range(2):
                with pytest.raises(AuditFailed, match="too large"):
                    log.write("put", object="B")
            assert (folder / "audit.jsonl").stat().st_size == size
        log.write("put", object="C")
    assert [record["object"] for record in records(folder)] == ["A", "C"]
    assert verify(folder) == 2


def test_a_full_disk_when_the_log_is_opened_is_told(folder: Path) -> None:
    with files_of_at_most(0), pytest.raises(AuditFailed):
        AuditLog.open(folder)
    fill(folder, 1)
    assert verify(folder) == 1


def test_a_log_that_was_there_is_opened_on_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue manager starts on a full disk; until there is space nothing is administered."""
    fill(folder, 1)
    with monkeypatch.context() as full:

        def no_space(*_: object) -> None:
            raise AuditFailed(str(folder), "No space left on device")

        full.setattr(audit_chain, "write_head", no_space)
        log = AuditLog.open(folder)
    log.write("put", object="A")
    log.close()
    assert verify(folder) == 2


def test_after_a_failed_force_nothing_is_taken_until_it_is_opened_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    log = AuditLog.open(folder)
    log.write("put")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", broken)
        with pytest.raises(AuditFailed, match="Input/output"):
            log.force()
    for again in (lambda: log.write("put"), log.force, log.close):
        with pytest.raises(AuditFailed, match="Input/output"):
            again()
    fill(folder, 1)
    assert verify(folder) == 2


def test_lines_and_mark_are_forced_before_the_head_that_knows_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def note(descriptor: int) -> None:
        steps.append("mark" if os.readlink(f"/proc/self/fd/{descriptor}").endswith("mark.json") else "lines")

    monkeypatch.setattr(os, "fdatasync", note)
    replace = private_file.replace
    monkeypatch.setattr(private_file, "replace", lambda *given: (steps.append("head"), replace(*given))[1])
    monkeypatch.setattr(audit_module, "HEAD_EVERY_LINES", 5)
    log = AuditLog.open(folder)
    for _ in range(5):
        log.write("put")
    assert steps == ["lines", "mark", "head"] * 2
    log.write("put")
    log.force()
    assert steps[6:] == ["lines", "mark"]
    log.close()
    assert steps[-3:] == ["lines", "mark", "head"]


@pytest.mark.parametrize("torn", [b'{"n":4,"time"', b"\0" * 500, b'{"n":4}'])
def test_a_line_that_a_power_cut_tore_is_cut_off_and_told(folder: Path, torn: bytes) -> None:
    fill(folder, 3)
    with (folder / "audit.jsonl").open("ab") as file:
        file.write(torn)
    with pytest.raises(AuditDamaged, match="line 4: it is unfinished"):
        verify(folder)
    fill(folder, 1)
    assert [record["event"] for record in records(folder)] == ["put", "put", "put", "audit tail cut", "put"]
    assert str(len(torn)) in list(records(folder))[3]["reason"]
    assert verify(folder) == 5


def test_only_one_process_writes_a_log(folder: Path) -> None:
    with opened(folder, bytes_max=200) as log:
        log.write("put")
        for _ in range(3):
            with pytest.raises(AuditFailed, match="another process"):
                AuditLog.open(folder)
            log.write("put")
    fill(folder, 1)


@pytest.mark.parametrize("name", ["audit.jsonl", "audit-head.json", "audit-0001.jsonl"])
def test_files_of_others_are_refused(folder: Path, name: str) -> None:
    fill(folder, 20, bytes_max=1000)
    (folder / name).chmod(0o644)
    with pytest.raises(FileNotPrivate):
        verify(folder)
    (folder / name).chmod(0o600)
    (folder / name).rename(folder / "elsewhere")
    (folder / name).symlink_to("elsewhere")
    with pytest.raises(FileNotPrivate, match="symbolic link"):
        verify(folder)
    if name != "audit-0001.jsonl":
        with pytest.raises(FileNotPrivate):
            AuditLog.open(folder)


def test_a_closed_log_takes_nothing(folder: Path) -> None:
    log = AuditLog.open(folder)
    log.close()
    log.close()
    with pytest.raises(AuditFailed, match="closed"):
        log.write("put")


# --- floods ---------------------------------------------------------------------------------------


def test_a_flood_of_refusals_is_counted(folder: Path) -> None:
    clock = VirtualClock()
    with opened(folder, now=clock.now) as log:
        for number in range(10_000):
            log.write("connect", user=f"user{number}", address="10.0.0.7", verdict="refused")
            log.write("connect", user="alice", address="10.0.0.8", verdict="allowed") if number < 200 else None
        clock.advance(1)
        log.settle()
        log.write("connect", address="10.0.0.7", verdict="refused")
    found = list(records(folder))
    assert len(found) == 100 + 200 + 1 + 1
    (counted,) = [record for record in found if "count" in record]
    assert counted["count"] == 9_900
    assert (counted["event"], counted["address"], counted["verdict"]) == ("connect", "10.0.0.7", "refused")
    assert verify(folder) == len(found)


def test_a_refusal_may_say_so_by_its_event(folder: Path) -> None:
    with opened(folder, now=VirtualClock().now) as log:
        for _ in range(500):
            log.write("refused", address="10.0.0.7", reason="no PUT authority")
    assert len(list(records(folder))) == 101


def test_what_was_counted_is_written_at_force_and_close(folder: Path) -> None:
    clock = VirtualClock()
    log = AuditLog.open(folder, now=clock.now)
    for _ in range(150):
        log.write("connect", address="a", verdict="refused")
    log.force()
    assert [record["count"] for record in records(folder) if "count" in record] == [50]
    log.write("connect", address="a", verdict="refused")
    log.close()
    assert [record["count"] for record in records(folder) if "count" in record] == [50, 1]
