# SPDX-License-Identifier: Apache-2.0
"""A full disk refuses what needs space. Gets, back-outs, checkpoints and starts go on; nothing is lost or doubled."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from entrepot import limits
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.record import FORMAT_VERSION
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import lay_out, restart
from entrepot.engine.settings import ManagerSettings
from entrepot.engine.settlement import Settlement
from entrepot.errors import DiskFull, EntrepotError, LogFull, SpillFailed
from entrepot.message import Message
from entrepot.testing import SimulatedDisk, VirtualClock
from hosted import Host

LOG = LogSettings(segment_bytes=256 * 1024, primary=2, secondary=2)
DISK_BYTES = 20 * 1024 * 1024
BODY = b"x" * 4000
UNIT = 20
SETTINGS = ManagerSettings(
    name="QM",
    manager_id=b"m" * 12,
    format_version=FORMAT_VERSION,
    created=0.0,
    log=LogSettings(segment_bytes=64 * 1024, primary=2, secondary=2),
)


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, so that filling it harms nothing else."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(place)]
    if request.param == "ext4":
        image = tmp_path / "image"
        image.touch()
        os.truncate(image, DISK_BYTES)
        if subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=False, capture_output=True).returncode:
            pytest.skip("no ext4 can be made here")
        command = ["mount", "-o", "loop", str(image), str(place)]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if mounted.returncode:
        pytest.skip(f"{request.param} cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(host: Host, queue: str = "Q", persistent: bool = True) -> list[int]:
    """Put until the disk refuses for good; the numbers that were acknowledged."""
    put: list[int] = []
    number = refused = 0
    while refused < 5:
        try:
            host.put(queue, Message(b"%d:" % number + BODY), persistent=persistent)
            put.append(number)
        except (LogFull, DiskFull, SpillFailed):
            refused += 1
        number += 1
    return put


def take_the_rest(place: Path) -> None:
    """Another program takes every block that is left."""
    with contextlib.suppress(OSError), (place / "another").open("ab", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def drain(host: Host, most: int, after_each: Callable[[], None]) -> list[int]:
    """Get and commit in units, as many as there are or `most`; none of the verbs may be refused."""
    got: list[int] = []
    while len(got) < most:
        unit = host.begin()
        messages = [message for _ in range(UNIT) if (message := host.get("Q", unit=unit)) is not None]
        if not messages:
            host.back_out(unit)
            break
        host.commit(unit)
        got += [int(message.body.partition(b":")[0]) for message in messages]
        after_each()
    return got


def new_host(place: Path) -> Host:
    create(place / "qm", name="QM", log=LOG)
    host = Host(place / "qm")
    host.define(LocalQueue(name="Q", depth_max=1_000_000, buffer_bytes=64 * 1024), replace=False)
    return host


@pytest.mark.parametrize("greedy", [False, True], ids=["full", "another program takes what is freed"])
def test_a_full_disk_is_drained_by_gets_with_kills_and_starts_in_between(small_disk: Path, greedy: bool) -> None:
    host = new_host(small_disk)
    put = fill(host)
    host.close()
    assert len(put) * len(BODY) > DISK_BYTES // 3
    others = (lambda: take_the_rest(small_disk)) if greedy else (lambda: None)
    take_the_rest(small_disk)
    got: list[int] = []
    while len(got) < len(put):
        before = len(got)
        got += drained_by_a_process_that_is_killed(small_disk, len(put) // 4, greedy=greedy)
        assert len(got) > before
    assert got == put
    with contextlib.closing(Host(small_disk / "qm")) as host:
        assert drain(host, 1, others) == []


def drained_by_a_process_that_is_killed(place: Path, most: int, *, greedy: bool) -> list[int]:
    """The numbers of what was committed; the process ends with SIGKILL while a unit is open."""
    words = [sys.executable, str(Path(__file__)), str(place), str(most), str(int(greedy))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    assert result.returncode == -signal.SIGKILL, result.stderr
    return [int(word) for word in result.stdout.split()]


def test_back_outs_and_checkpoints_go_on_while_the_disk_is_full(small_disk: Path) -> None:
    with contextlib.closing(new_host(small_disk)) as host:
        put = fill(host)
        take_the_rest(small_disk)
        for _ in range(30):
            unit = host.begin()
            assert host.get("Q", unit=unit) is not None
            host.back_out(unit)
            host.checkpoint()
        assert drain(host, len(put), lambda: None) == put


def test_puts_are_taken_again_when_there_is_space(small_disk: Path) -> None:
    with contextlib.closing(new_host(small_disk)) as host:
        put = fill(host)
        take_the_rest(small_disk)
        drain(host, len(put) // 2, lambda: None)
        (small_disk / "another").unlink()
        host.checkpoint()
        host.checkpoint()
        for number in range(200):
            host.put("Q", Message(b"%d:" % (1_000_000 + number) + BODY), persistent=True)
        rest = drain(host, len(put) + 200, lambda: None)
    assert rest == put[-(len(rest) - 200) :] + list(range(1_000_000, 1_000_200))


def test_messages_that_stay_do_not_keep_others_from_being_got(small_disk: Path) -> None:
    """The oldest message is only in the log and nobody gets it; the log must be let go all the same."""
    with contextlib.closing(new_host(small_disk)) as host:
        host.define(LocalQueue(name="OLD"), replace=False)
        host.put("OLD", Message(b"stays"), persistent=True)
        put = fill(host)
        take_the_rest(small_disk)
        assert drain(host, len(put), lambda: None) == put
        kept = host.get("OLD")
    assert kept is not None
    assert kept.body == b"stays"


def test_a_start_on_a_disk_that_another_program_has_filled(small_disk: Path) -> None:
    with contextlib.closing(new_host(small_disk)) as host:
        for number in range(100):
            host.put("Q", Message(b"%d:" % number + BODY), persistent=True)
    for _ in range(3):
        take_the_rest(small_disk)
        with contextlib.closing(Host(small_disk / "qm")) as host, pytest.raises(EntrepotError):
            for _ in range(1000):
                host.put("Q", Message(BODY), persistent=False)
                host.put("Q", Message(b"9999:" + BODY), persistent=True)
    with contextlib.closing(Host(small_disk / "qm")) as host:
        assert drain(host, 100, lambda: None) == list(range(100))


class FullDisk:
    """Refuses from the `at`-th call on whatever needs space that a file does not have already."""

    def __init__(self, disk: SimulatedDisk, at: int) -> None:
        self._disk = disk
        self._at = at

    def before(self, operation: str, path: str, size: int) -> int | None:
        needs = operation in ("create", "allocate") or (operation == "write" and size > self._size(path))
        self._at -= needs
        if needs and self._at < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return None

    def _size(self, path: str) -> int:
        if path.startswith("log/spare-"):
            return SETTINGS.log.segment_bytes  # it is called a segment since, and was whole before
        return len(self._disk.contents(path)) if self._disk.exists(path) else 0


class Engine:
    """A queue manager on a simulated disk that takes checkpoints when the log is full, as a host does."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self._start()

    def _start(self) -> None:
        restarted = restart(self.disk, VirtualClock(), SETTINGS, reserve_bytes=SETTINGS.log.segment_bytes)
        self.manager, self._checkpoints = restarted.manager, restarted.checkpoints

    def crash(self, *, power_cut: bool) -> None:
        self.disk.power_cut() if power_cut else self.disk.kill()
        self._start()

    def durably(self, verb: Callable[[], Settlement | None]) -> None:
        for _ in range(2):
            try:
                settlement = verb()
                break
            except LogFull:
                self._checkpoints.take()
        else:
            settlement = verb()
        self.manager.force()
        if settlement is not None and settlement.error is not None:
            raise settlement.error

    def put(self, number: int) -> None:
        self.durably(lambda: self.manager.put("Q", Message(b"%d:" % number + BODY), persistent=True)[1])

    def get_some(self) -> list[int]:
        unit = self.manager.begin()
        messages = [message for _ in range(7) if (message := self.manager.get("Q", unit=unit)[0]) is not None]
        self.durably(lambda: self.manager.commit(unit))
        return [int(message.body.partition(b":")[0]) for message in messages]


def test_a_disk_that_is_full_from_any_call_on_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RUN_BYTES", 32 * 1024)
    for at in range(0, 60, 4):
        disk = SimulatedDisk(Random(at))
        lay_out(disk, VirtualClock(), SETTINGS)
        engine = Engine(disk)
        queue = LocalQueue(name="Q", depth_max=1_000_000, buffer_bytes=20_000)
        engine.durably(lambda: engine.manager.administration.define(queue, replace_existing=False))  # noqa: B023
        engine.manager.store.reserve.restock()
        disk.faults = FullDisk(disk, at)
        put: list[int] = []
        for number in range(400):
            with contextlib.suppress(LogFull, DiskFull, SpillFailed):
                engine.put(number)
                put.append(number)
        got: list[int] = []
        units = 0
        while found := engine.get_some():
            got += found
            units += 1
            if units % 5 == 0:
                # A fresh process has no faults but those of the disk, which is as full as before.
                engine.crash(power_cut=units % 2 == 0)
        assert got == put, at


def test_a_restart_keeps_the_space_that_messages_of_the_log_will_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot know whether the disk is full, and another program would take what it lets go."""
    monkeypatch.setattr(limits, "RUN_BYTES", 64 * 1024)
    disk = SimulatedDisk(Random(1))
    lay_out(disk, VirtualClock(), SETTINGS)
    engine = Engine(disk)
    queue = LocalQueue(name="Q", depth_max=1_000_000, buffer_bytes=20_000)
    engine.durably(lambda: engine.manager.administration.define(queue, replace_existing=False))
    for number in range(100):
        engine.put(number)
    reserve = engine.manager.store.reserve
    assert sum(reserve.sizes().values()) == reserve.wanted_bytes, "checkpoints have found space"
    assert engine.manager.young
    for _ in range(10):
        engine.get_some()
    engine.crash(power_cut=False)
    in_the_log = sum(len(entry.message.body) for entry in engine.manager.young.values())
    reserve = engine.manager.store.reserve
    assert sum(reserve.sizes().values()) >= SETTINGS.log.segment_bytes + in_the_log
    disk.faults = FullDisk(disk, 0)
    got = 70
    while found := engine.get_some():
        got += len(found)
    assert got == 100


def _drain_and_die(place: Path, most: int, *, greedy: bool) -> None:
    host = Host(place / "qm")
    numbers = drain(host, most, (lambda: take_the_rest(place)) if greedy else (lambda: None))
    os.write(1, " ".join(map(str, numbers)).encode())
    host.get("Q", unit=host.begin())
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _drain_and_die(Path(sys.argv[1]), int(sys.argv[2]), greedy=sys.argv[3] == "1")
