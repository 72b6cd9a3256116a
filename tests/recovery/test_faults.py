# SPDX-License-Identifier: Apache-2.0
"""A disk that fails, fills or writes short at any of its calls: no false acknowledgement, ever."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.recovery_log import writer
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import DiskFull, EntrepotError, LogFull, QueueManagerFailed
from entrepot.message import Message
from entrepot.testing import Fault, FaultyDisk, PlannedFaults
from hosted import Host
from recovery.workload import SMALL_LOG, Script, body, in_process, new_manager, recovered, run_script

SCRIPT = Script(40)
CHANGING = frozenset({"create", "write", "force", "truncate", "rename", "remove", "force_folder"})
GROWING = frozenset({"create", "write"})
# Of all calls of a kind; `make torture` takes every one.
SAMPLES = 45


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults") / "base"
    new_manager(path)
    return path


def calls(base: Path, tmp_path: Path, operations: frozenset[str]) -> int:
    """How many calls of these kinds a whole run makes."""
    path = tmp_path / "dry"
    shutil.copytree(base, path)

    def work(report: Callable[[int], None]) -> None:
        counted = Counting(operations)
        run_script(path, SCRIPT, FaultyDisk(path, counted))(lambda _: None)
        report(counted.count)

    count, _ = in_process(work)
    shutil.rmtree(path)
    return count


class Counting:
    def __init__(self, operations: frozenset[str]) -> None:
        self.operations = operations
        self.count = 0

    def before(self, operation: str, path: str, size: int) -> int | None:
        self.count += operation in self.operations
        return None


def spread(total: int) -> list[int]:
    return sorted({1 + index * (total - 1) // (SAMPLES - 1) for index in range(SAMPLES)})


def run_with(base: Path, path: Path, fault: Fault, *, retry: bool) -> tuple[int, str]:
    """Run the script on a disk with this fault: how many steps were acknowledged, and how it went."""
    shutil.copytree(base, path)

    def work(report: Callable[[int], None]) -> None:
        disk = FaultyDisk(path, PlannedFaults(fault))
        try:
            host = Host(path, disk=disk)
        except DiskFull:
            if not retry:
                raise
            host = Host(path, disk=disk)
        for number, step in enumerate(SCRIPT.steps, start=1):
            for _ in range(1000 if retry else 1):
                try:
                    step(host)
                    break
                except EntrepotError as error:
                    if not retry:
                        raise
                    assert error.outcome == "not_done"
                    assert error.retryable
                    time.sleep(0.06)
            else:
                raise AssertionError("it never recovered")
            report(number)
        report(len(SCRIPT.steps) + 1)

    acknowledged, _ = in_process(work)
    return acknowledged, "done" if acknowledged > len(SCRIPT.steps) else "stopped"


def require_no_false_acknowledgement(base: Path, tmp_path: Path, faults: Iterable[Fault]) -> None:
    """Run the script into each fault: what was acknowledged is there after a restart, and at most one step more."""
    for fault in faults:
        path = tmp_path / f"at-{fault.at}"
        acknowledged, _ = run_with(base, path, fault, retry=False)
        acknowledged = min(acknowledged, len(SCRIPT.steps))
        assert recovered(path) in SCRIPT.states[acknowledged : acknowledged + 2], f"at {fault.at}"
        shutil.rmtree(path)


@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
def test_an_input_output_error_anywhere_stops_without_a_false_acknowledgement(
    base: Path, tmp_path: Path, for_ever: bool
) -> None:
    points = spread(calls(base, tmp_path, CHANGING))
    faults = [Fault(at=at, error_number=errno.EIO, operations=CHANGING, for_ever=for_ever) for at in points]
    require_no_false_acknowledgement(base, tmp_path, faults)


def test_a_full_disk_anywhere_is_survived_without_a_restart(base: Path, tmp_path: Path) -> None:
    total = calls(base, tmp_path, GROWING)
    for at in spread(total):
        path = tmp_path / f"at-{at}"
        fault = Fault(at=at, error_number=errno.ENOSPC, operations=GROWING)
        _, how = run_with(base, path, fault, retry=True)
        assert how == "done", f"at {at}"
        assert recovered(path) == SCRIPT.states[-1], f"at {at}"
        shutil.rmtree(path)


def test_a_disk_that_stays_full_acknowledges_nothing_it_has_not_stored(base: Path, tmp_path: Path) -> None:
    points = spread(calls(base, tmp_path, GROWING))
    faults = [Fault(at=at, error_number=errno.ENOSPC, operations=GROWING, for_ever=True) for at in points]
    require_no_false_acknowledgement(base, tmp_path, faults)


def test_short_writes_anywhere_change_nothing(base: Path, tmp_path: Path) -> None:
    total = calls(base, tmp_path, frozenset({"write"}))
    for at in spread(total):
        path = tmp_path / f"at-{at}"
        fault = Fault(at=at, error_number=None, operations=frozenset({"write"}), part=0.3)
        _, how = run_with(base, path, fault, retry=False)
        assert how == "done", f"at {at}"
        assert recovered(path) == SCRIPT.states[-1], f"at {at}"
        shutil.rmtree(path)


@pytest.mark.torture
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
def test_every_call_fails(base: Path, tmp_path: Path, number: int, for_ever: bool) -> None:
    operations = CHANGING if number == errno.EIO else GROWING
    points = range(1, calls(base, tmp_path, operations) + 1)
    faults = [Fault(at=at, error_number=number, operations=operations, for_ever=for_ever) for at in points]
    require_no_false_acknowledgement(base, tmp_path, faults)


def test_after_a_failed_force_nothing_is_acknowledged_any_more(base: Path, tmp_path: Path) -> None:
    path = tmp_path / "qm"
    shutil.copytree(base, path)
    fault = Fault(at=6, error_number=errno.EIO, operations=frozenset({"force"}))
    host = Host(path, disk=FaultyDisk(path, PlannedFaults(fault)))
    outcomes = []
    for number in range(8):
        try:
            host.put("A", Message(body(number)), persistent=True)
            outcomes.append("done")
        except EntrepotError as error:
            outcomes.append(error.outcome)
    failed = outcomes.index("unknown")
    assert outcomes[failed + 1 :] == ["not_done"] * (7 - failed)
    with pytest.raises(QueueManagerFailed, match="Start it again"):
        host.get("A")
    host.close()


def test_retrying_a_failed_force_would_acknowledge_again(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the test above."""
    write_group = writer.RecoveryLog.write_group

    def again(self: writer.RecoveryLog, group: writer.WriteGroup, *, force: bool) -> None:
        try:
            write_group(self, group, force=force)
        except EntrepotError:
            write_group(self, group, force=force)

    monkeypatch.setattr(writer.RecoveryLog, "write_group", again)
    with pytest.raises(ValueError, match="not in list"):
        test_after_a_failed_force_nothing_is_acknowledged_any_more(base, tmp_path)


def test_a_full_disk_lets_gets_and_back_outs_go_on(tmp_path: Path) -> None:
    """With a checkpoint that cannot be written the log fills; its last part is kept for gets."""
    path = tmp_path / "qm"
    log = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=1, checkpoint_bytes=40_000)
    create(path, log=log)
    full = Switch()
    host = Host(path, disk=FaultyDisk(path, full))
    host.define(LocalQueue(name="A"), replace=False)
    full.on = True
    stored = 0
    with pytest.raises((LogFull, DiskFull)) as caught:
        while True:
            host.put("A", Message(body(1)), persistent=True)
            stored += 1
    assert caught.value.retryable
    assert "space" in str(caught.value)
    assert stored > 20
    unit = host.begin()
    assert host.get("A", unit=unit) is not None
    host.back_out(unit)
    for _ in range(10):
        assert host.get("A") is not None
    unit = host.begin()
    assert host.get("A", unit=unit) is not None
    host.commit(unit)
    full.on = False
    deadline = time.monotonic() + 60
    while True:
        try:
            host.put("A", Message(body(1)), persistent=True)
            break
        except (LogFull, DiskFull):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    host.close()
    with contextlib.closing(Host(path)) as host:
        assert host.queue_status("A")["CURDEPTH"] == stored - 11 + 1


class Switch:
    """No file but what the log has already takes anything while it is on."""

    def __init__(self) -> None:
        self.on = False

    def before(self, operation: str, path: str, size: int) -> int | None:
        kept = "segment-" in path or "spare-" in path
        growing = operation == "create" or (operation == "write" and not kept)
        if self.on and growing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return None


# --- real file systems: root only -------------------------------------------------------------


@contextlib.contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    folder.mkdir()
    done = subprocess.run(["mount", *arguments, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_really_full_file_system_is_survived_without_a_restart(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1500k", "tmpfs") as small:
        create(
            small / "qm", log=LogSettings(segment_bytes=128 * 1024, primary=3, secondary=8, checkpoint_bytes=200_000)
        )
        host = Host(small / "qm")
        host.define(LocalQueue(name="A"), replace=False)
        filler = small / "filler"
        filler.write_bytes(b"x" * 500_000)
        stored = 0
        with pytest.raises((LogFull, DiskFull)):
            while True:
                host.put("A", Message(body(2)), persistent=True)
                stored += 1
        for _ in range(5):
            assert host.get("A") is not None
        filler.unlink()
        deadline = time.monotonic() + 60
        while True:
            try:
                host.put("A", Message(body(2)), persistent=True)
                break
            except (LogFull, DiskFull):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        host.close()
        with contextlib.closing(Host(small / "qm")) as host:
            assert host.queue_status("A")["CURDEPTH"] == stored - 5 + 1


_SHUTDOWN = 0x8004587D
_WITHOUT_LOG_FLUSH = 2


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_power_cuts_on_a_real_file_system_lose_no_acknowledged_message(tmp_path: Path, kind: str) -> None:
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    image = tmp_path / "image"
    for cycle in range(100):
        with image.open("wb") as file:
            file.truncate(320 * 1024 * 1024)
        subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True)
        with mounted(tmp_path / f"cut-{cycle}", "-o", "loop", str(image)) as folder:
            new_manager(folder / "qm", SMALL_LOG)
            acknowledged, _ = in_process(lambda report: _run_and_cut(folder, cycle, report))  # noqa: B023
        with mounted(tmp_path / f"after-{cycle}", "-o", "loop", str(image)) as folder:
            assert recovered(folder / "qm") in SCRIPT.states[acknowledged:], f"cycle {cycle}"


def _run_and_cut(folder: Path, cycle: int, report: Callable[[int], None]) -> None:
    host = Host(folder / "qm")
    for number, step in enumerate(SCRIPT.steps, start=1):
        step(host)
        report(number)
        if number == cycle % len(SCRIPT.steps):
            descriptor = os.open(folder, os.O_RDONLY)
            flag = ctypes.c_uint32(_WITHOUT_LOG_FLUSH)
            libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
            assert libc.ioctl(descriptor, _SHUTDOWN, ctypes.byref(flag)) == 0
            os._exit(0)
