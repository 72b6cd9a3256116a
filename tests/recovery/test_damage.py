# SPDX-License-Identifier: Apache-2.0
"""Torn tails are cut, to the byte; damage is named, never skipped."""

from __future__ import annotations

import contextlib
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from entrepot.engine.folder import read_settings
from entrepot.engine.recovery_log import reader as reader_module
from entrepot.engine.recovery_log import record as record_module
from entrepot.engine.recovery_log.checkpoint import read_checkpoint
from entrepot.engine.recovery_log.group import Group
from entrepot.engine.recovery_log.reader import LoggedRecord, LogReader
from entrepot.engine.recovery_log.record import Record, Run
from entrepot.engine.recovery_log.run import RunStore, run_path
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, segment_path
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import restart
from entrepot.engine.settings import ManagerSettings
from entrepot.errors import CheckpointDamaged, FormatUnsupported, LogDamaged, RecoveryError, RunDamaged
from entrepot.message import Message
from entrepot.testing import SimulatedDisk, VirtualClock
from hosted import Host
from recovery.workload import Script, body, new_manager, recovered

TAIL_BYTES = 64 * 1024
BORDER_BYTES = 40
ONE_SEGMENT = LogSettings(segment_bytes=128 * 1024, primary=4, secondary=4)


class StoppedManager:
    """The files of a queue manager that was killed when it was idle, on a disk in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings: ManagerSettings = read_settings(path)
        self.disk = SimulatedDisk(Random(1))
        for folder in ("log", "runs"):
            self.disk.make_folder(folder)
        for file in sorted(path.rglob("*")):
            if file.is_file() and file.name not in ("lock", "manager.json"):
                self.disk.put(str(file.relative_to(path)), file.read_bytes())
        self.log = self.disk.contents(segment_path(0))
        self.records = list(self.reader().records(0))
        self.end = self._end()
        self.positions = [logged.position for logged in self.records]
        self.groups = [logged.position for logged in self.records if isinstance(logged.record, Group)]

    def reader(self) -> LogReader:
        return LogReader(self.disk, self.settings.log, self.settings.manager_id)

    def _end(self) -> int:
        reader = self.reader()
        list(reader.records(0))
        return reader.end_position

    def ends(self) -> list[int]:
        """Where each record ends."""
        return [record.position for record in self.records[1:]] + [self.end]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> StoppedManager:
    """More than 64 KiB of log in one segment, none of it in a checkpoint, and the idle mark at its end."""
    path = tmp_path_factory.mktemp("damage") / "qm"
    new_manager(path, ONE_SEGMENT)
    host = Host(path)
    for number in range(40):
        host.put("A", Message(body(number % 3)), persistent=True)
        if number % 4 == 0:
            host.get("A")
    with host._lock:
        host._manager.group_commit.mark()
    killed = path.parent / "killed"
    shutil.copytree(path, killed)
    host.close()
    manager = StoppedManager(killed)
    assert manager.end > TAIL_BYTES
    return manager


def tail_records(manager: StoppedManager, start: int) -> list[LoggedRecord]:
    return list(manager.reader().records(start))


def begin_before(manager: StoppedManager, position: int) -> int:
    """The start of the group before that of a position, so that not the whole log is read each time."""
    return manager.groups[max(bisect_right(manager.groups, position) - 2, 0)]


def garbage(size: int) -> bytes:
    return Random(size).randbytes(size)


BEHIND = ["zeros", "garbage", "an earlier lap"]


@pytest.mark.parametrize("behind", BEHIND)
def test_a_tail_torn_anywhere_leaves_exactly_the_whole_records(stopped: StoppedManager, behind: str) -> None:
    """At every byte around the borders of records, where the reader decides, and at some in between."""
    begin = stopped.end - TAIL_BYTES
    borders = {cut for end in stopped.ends() for cut in range(end - BORDER_BYTES, end + BORDER_BYTES)}
    cuts = sorted({*range(begin, stopped.end, 29), *(cut for cut in borders if begin <= cut < stopped.end)})
    assert len(cuts) > 3000
    require_whole_records(stopped, behind, cuts)


@pytest.mark.torture
@pytest.mark.parametrize("behind", BEHIND)
def test_a_tail_torn_at_any_byte_leaves_exactly_the_whole_records(stopped: StoppedManager, behind: str) -> None:
    require_whole_records(stopped, behind, range(stopped.end - TAIL_BYTES, stopped.end))


def require_whole_records(stopped: StoppedManager, behind: str, cuts: Iterable[int]) -> None:
    """What lies behind the cut is what a file may hold there: nothing yet, anything, or the lap before."""
    whole = stopped.log
    size = len(whole)
    filler = {
        "zeros": bytes(size),
        "garbage": garbage(size),
        # The same records, but from elsewhere in the stream: whole, with good CRCs, and not from here.
        "an earlier lap": whole[HEAD_PAGE_BYTES:] + whole[:HEAD_PAGE_BYTES],
    }[behind]
    ends = stopped.ends()
    try:
        for cut in cuts:
            offset = HEAD_PAGE_BYTES + cut
            torn = whole[:offset] + filler[offset:]
            stopped.disk.put(segment_path(0), torn)
            start = begin_before(stopped, cut)
            reader = stopped.reader()
            found = [logged.position for logged in reader.records(start)]
            # A record whose missing bytes are what stands there anyway is whole.
            while offset < size and torn[offset] == whole[offset]:
                offset += 1
            first = bisect_left(stopped.positions, start)
            last = bisect_right(ends, offset - HEAD_PAGE_BYTES)
            assert found == stopped.positions[first:last], f"cut at {cut}"
    finally:
        stopped.disk.put(segment_path(0), whole)


def test_after_a_torn_tail_the_queue_manager_starts_twice_with_the_same_messages(
    stopped: StoppedManager, tmp_path: Path
) -> None:
    for cut in range(stopped.end - TAIL_BYTES, stopped.end, 1031):
        path = tmp_path / str(cut)
        shutil.copytree(stopped.path, path)
        log = path / segment_path(0)
        data = log.read_bytes()
        log.write_bytes(data[: HEAD_PAGE_BYTES + cut] + bytes(len(data) - HEAD_PAGE_BYTES - cut))
        assert recovered(path) == recovered(path)
        shutil.rmtree(path)


def flips(data: bytes, begin: int, end: int, random: Random) -> Iterator[tuple[int, bytes]]:
    for offset in range(begin, end):
        flipped = bytearray(data)
        flipped[offset] ^= 1 << random.randrange(8)
        yield offset, bytes(flipped)


def undetected_in_log(stopped: StoppedManager, begin: int, end: int) -> list[int]:
    """Offsets in the log at which a flipped bit does not stop the start, or is named elsewhere."""
    whole = stopped.log
    ends = stopped.ends()
    missed = []
    try:
        for offset, flipped in flips(whole, HEAD_PAGE_BYTES + begin, HEAD_PAGE_BYTES + end, Random(3)):
            stopped.disk.put(segment_path(0), flipped)
            position = offset - HEAD_PAGE_BYTES
            try:
                tail_records(stopped, begin_before(stopped, position))
            except LogDamaged as damage:
                place = damage.offset - HEAD_PAGE_BYTES
                record_end = next(end for end in ends if end > place)
                if damage.segment.endswith(segment_path(0)) and place <= position < record_end:
                    continue
            except Exception:
                pass
            missed.append(position)
    finally:
        stopped.disk.put(segment_path(0), whole)
    return missed


def proven_end(stopped: StoppedManager) -> int:
    """How far the log says that it was forced.

    What lies behind it may be torn: at least the mark that says so, on a slow machine a note that came with it.
    """
    reader = stopped.reader()
    list(reader.records(0))
    assert stopped.end - reader.forced_position < 1024
    return reader.forced_position


def test_a_bit_flipped_in_any_byte_of_the_log_refuses_the_start_and_names_the_place(stopped: StoppedManager) -> None:
    end = proven_end(stopped)
    assert undetected_in_log(stopped, end - 8 * 1024, end) == []
    assert undetected_in_log(stopped, 0, 4 * 1024) == []


@pytest.mark.torture
def test_a_bit_flipped_in_every_single_byte_of_the_log(stopped: StoppedManager) -> None:
    assert undetected_in_log(stopped, 0, proven_end(stopped)) == []


def test_with_the_crc_skipped_flipped_bits_go_unnoticed(
    stopped: StoppedManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the test above."""
    monkeypatch.setattr(reader_module, "check", lambda *_: None)
    assert undetected_in_log(stopped, 0, 4 * 1024) != []


def test_a_bit_flipped_in_a_segments_head_page_refuses_the_start(stopped: StoppedManager) -> None:
    whole = stopped.log
    try:
        for _, flipped in flips(whole, 0, HEAD_PAGE_BYTES, Random(4)):
            stopped.disk.put(segment_path(0), flipped)
            with pytest.raises(RecoveryError):
                tail_records(stopped, 0)
    finally:
        stopped.disk.put(segment_path(0), whole)


def undetected(data: bytes, write: Callable[[bytes], None], read: Callable[[], object], error: type) -> list[int]:
    missed = []
    for bit in range(8):
        for offset in range(len(data)):
            flipped = bytearray(data)
            flipped[offset] ^= 1 << bit
            write(bytes(flipped))
            try:
                read()
            except error:
                continue
            missed.append(offset)
    write(data)
    return missed


def checkpoint_without_room(disk: SimulatedDisk) -> tuple[bytes, Callable[[bytes], None]]:
    """The records of the checkpoint with a little of the zeros behind them, and how to write them back."""
    data = disk.contents("checkpoint")
    used = len(data.rstrip(b"\0")) + 16
    return data[:used], lambda content: disk.put("checkpoint", content + data[used:])


def test_any_bit_flipped_in_the_checkpoint_is_named(stopped: StoppedManager) -> None:
    data, write = checkpoint_without_room(stopped.disk)
    assert undetected(data, write, lambda: read_checkpoint(stopped.disk), CheckpointDamaged) == []


def test_with_the_crc_skipped_a_damaged_checkpoint_goes_unnoticed(
    stopped: StoppedManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "check", lambda *_: None)
    data, write = checkpoint_without_room(stopped.disk)

    def read() -> None:
        with contextlib.suppress(FormatUnsupported, KeyError, UnicodeDecodeError):
            read_checkpoint(stopped.disk)

    assert undetected(data, write, read, CheckpointDamaged) != []


@pytest.fixture
def with_run(tmp_path: Path) -> tuple[Path, int]:
    """A stopped queue manager whose old messages have moved to a run, and the run's number."""
    path = tmp_path / "qm"
    new_manager(path)
    with contextlib.closing(Host(path)) as host:
        for number in range(12):
            host.put("A", Message(body(number)), persistent=True)
        host.checkpoint()
        host.checkpoint()
    _, records = read_checkpoint(StoppedManagerDisk(path))
    return path, next(record.number for record in records if isinstance(record, Run))


def StoppedManagerDisk(path: Path) -> SimulatedDisk:
    disk = SimulatedDisk(Random(2))
    for folder in ("log", "runs"):
        disk.make_folder(folder)
    for file in path.rglob("*"):
        if file.is_file():
            disk.put(str(file.relative_to(path)), file.read_bytes())
    return disk


def test_a_bit_flipped_in_any_byte_of_a_run_is_named(with_run: tuple[Path, int]) -> None:
    path, number = with_run
    disk = StoppedManagerDisk(path)
    store = RunStore(disk, read_settings(path).manager_id)
    data = disk.contents(run_path(number))
    random = Random(5)
    for offset, flipped in flips(data, 0, len(data), random):
        if offset % 5 and offset > 2000:
            continue  # long bodies are all alike
        disk.put(run_path(number), flipped)
        with pytest.raises(RunDamaged) as caught:
            store.read(number)
        assert caught.value.file.endswith(run_path(number))


def test_with_the_crc_skipped_a_damaged_run_goes_unnoticed(
    with_run: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "check", lambda *_: None)
    path, number = with_run
    disk = StoppedManagerDisk(path)
    store = RunStore(disk, read_settings(path).manager_id)
    data = disk.contents(run_path(number))
    inside = data.index(bytes([3]) * 1000) + 500  # of a body, which may be any bytes
    disk.put(run_path(number), data[:inside] + b"\4" + data[inside + 1 :])
    store.read(number)


def test_a_damaged_run_refuses_the_start_and_says_what_to_do(with_run: tuple[Path, int]) -> None:
    path, number = with_run
    file = path / run_path(number)
    data = bytearray(file.read_bytes())
    data[200] ^= 4
    file.write_bytes(data)
    with pytest.raises(RunDamaged, match="qm recover"):
        Host(path)


def test_a_missing_run_refuses_the_start(with_run: tuple[Path, int]) -> None:
    path, number = with_run
    (path / run_path(number)).unlink()
    with pytest.raises(RecoveryError, match=f"{number:08d}.run"):
        Host(path)


def test_a_missing_segment_refuses_the_start(tmp_path: Path) -> None:
    path = tmp_path / "qm"
    new_manager(path)
    host = Host(path)
    Script(35).run(host, lambda _: None)
    killed = tmp_path / "killed"
    shutil.copytree(path, killed)
    host.close()
    segments = sorted((killed / "log").glob("segment-*.log"))
    assert len(segments) >= 2
    segments[0].unlink()
    with pytest.raises(RecoveryError, match="log"):
        Host(killed)


def test_a_log_that_ends_before_what_the_checkpoint_has_seen_refuses_the_start(stopped: StoppedManager) -> None:
    """A disk that lied about a force: the checkpoint is newer than the log."""
    disk = stopped.disk.copy()
    manager = restart(disk, VirtualClock(), stopped.settings).manager
    manager.log.close()
    head, _ = read_checkpoint(disk)
    assert head.applied_position == stopped.end
    data = stopped.log
    cut = HEAD_PAGE_BYTES + stopped.end - 5000
    disk.put(segment_path(0), data[:cut] + bytes(len(data) - cut))
    with pytest.raises(LogDamaged, match="the checkpoint has seen it"):
        restart(disk, VirtualClock(), stopped.settings)


def test_records_of_every_kind_are_read_back_as_they_were_written(stopped: StoppedManager) -> None:
    assert all(isinstance(logged.record, Record) for logged in stopped.records)
    assert {type(logged.record).__name__ for logged in stopped.records} >= {
        "Group",
        "DefineRecord",
        "PutRecord",
        "RemoveRecord",
    }
