# SPDX-License-Identifier: Apache-2.0
"""Group commit as threads see it: shared forces, no answer before its force, and nobody forgotten."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from entrepot.disk import SystemDisk, SystemFile
from entrepot.engine import host as host_module
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import DiskFailed, DiskFull, EntrepotError, LogFull, QueueManagerFailed
from entrepot.message import Message
from entrepot.testing import FaultyDisk
from hosted import Host

THREADS = 16
SMALL_LOG = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=6)
PATIENCE_S = 60.0


class GatedForces:
    """Forces of the log stop at a gate until the test opens it; then they may be slow, or fail."""

    def __init__(self) -> None:
        self.count = 0
        """How many forces of the log have begun."""
        self.delays_ms: Callable[[], float] = lambda: 0.0
        self.error_number: int | None = None
        self.refused_writes: int | None = None
        self._open = threading.Event()
        self._open.set()
        self._arrived = threading.Semaphore(0)

    def before(self, operation: str, path: str, size: int) -> int | None:
        if not path.startswith("log/"):
            return None
        if operation == "write" and self.refused_writes is not None:
            raise OSError(self.refused_writes, os.strerror(self.refused_writes), path)
        if operation == "force":
            self.count += 1
            self._arrived.release()
            assert self._open.wait(PATIENCE_S)
            time.sleep(self.delays_ms() / 1000)
            if self.error_number is not None:
                raise OSError(self.error_number, os.strerror(self.error_number), path)
        return None

    def close(self) -> None:
        self._open.clear()
        while self._arrived.acquire(blocking=False):
            pass

    def await_arrival(self) -> None:
        assert self._arrived.acquire(timeout=PATIENCE_S)

    def open(self) -> None:
        self._open.set()


class Running:
    """A queue manager with a queue Q, on a disk whose forces the test controls."""

    def __init__(self, path: Path, log: LogSettings = SMALL_LOG) -> None:
        create(path, name="QM", log=log)
        self.path = path
        self.forces = GatedForces()
        self.host = Host(path, disk=FaultyDisk(path, self.forces))
        self.host.define(LocalQueue(name="Q"), replace=False)

    def pending(self) -> int:
        return len(self.host._manager.group_commit._pending)

    def bodies_after_kill(self) -> set[bytes]:
        """What a SIGKILL now would leave on Q."""
        killed = self.path.with_suffix(".killed")
        shutil.copytree(self.path, killed)
        with contextlib.closing(Host(killed)) as host:
            return {message.body for message in host.browse("Q", None, None, 100_000)[0]}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "qm")
    yield running
    running.forces.open()
    running.forces.error_number = None
    running.host.close()


class Crew:
    """Threads that do one thing each, and how it ended for them."""

    def __init__(self, work: Callable[[int], object], threads: int = THREADS) -> None:
        self.results: dict[int, object] = {}
        self._threads = [threading.Thread(target=self._run, args=(work, n), daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, work: Callable[[int], object], number: int) -> None:
        try:
            self.results[number] = work(number)
        except EntrepotError as error:
            self.results[number] = error

    def join(self, timeout_s: float = PATIENCE_S) -> list[object]:
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        assert not any(thread.is_alive() for thread in self._threads), "a thread was forgotten"
        return [self.results[number] for number in range(len(self._threads))]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.001)


def ends_within(seconds: float, work: Callable[[], None]) -> bool:
    """Whether `work` ends in time; in a process of its own, because a thread that hangs cannot be stopped."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return True
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def put(host: Host, body: bytes) -> bytes:
    return host.put("Q", Message(body), persistent=True)


# --- shared forces ----------------------------------------------------------------------------


def test_sixteen_committers_share_their_forces(running: Running) -> None:
    running.forces.delays_ms = lambda: 5.0
    before = running.forces.count
    Crew(lambda number: [put(running.host, b"%d/%d" % (number, turn)) for turn in range(20)]).join()
    forces = running.forces.count - before
    assert forces < THREADS * 20 / 2  # a sixth, unless the machine is busy
    assert running.host.queue_status("Q")["CURDEPTH"] == THREADS * 20


def test_a_single_committer_forces_once_for_each_commit(running: Running) -> None:
    before = running.forces.count
    for turn in range(10):
        put(running.host, b"%d" % turn)
    assert running.forces.count - before == 10


def test_nobody_is_answered_before_the_force_and_others_gather_meanwhile(running: Running) -> None:
    running.forces.close()
    before = running.forces.count
    crew = Crew(lambda number: put(running.host, b"%d" % number))
    running.forces.await_arrival()
    until(lambda: running.pending() == THREADS)
    time.sleep(0.05)
    assert crew.results == {}
    assert running.host.queue_status("Q")["CURDEPTH"] == 0, "what is not forced is not visible"
    running.forces.open()
    assert all(isinstance(result, bytes) for result in crew.join())
    # One force for whoever came first, one for all who came while it was under way.
    assert running.forces.count - before == 2


def test_units_of_work_gather_like_puts(running: Running) -> None:
    def work(number: int) -> None:
        unit = running.host.begin()
        for part in range(3):
            running.host.put("Q", Message(b"%d/%d" % (number, part)), persistent=True, unit=unit)
        running.host.commit(unit)

    running.forces.close()
    before = running.forces.count
    crew = Crew(work)
    running.forces.await_arrival()
    until(lambda: running.pending() == THREADS)
    assert crew.results == {}
    running.forces.open()
    crew.join()
    assert running.forces.count - before == 2


class RememberingFile(SystemFile):
    """Knows what a power cut would leave of it: what it held when the last force that returned was begun."""

    __slots__ = ("_descriptor_of", "_durable")

    def __init__(self, descriptor: int, durable: dict[int, bytes]) -> None:
        super().__init__(descriptor)
        self._descriptor_of = os.fstat(descriptor).st_ino
        self._durable = durable

    def force(self) -> None:
        content = self.read(0, self.size())
        super().force()
        self._durable[self._descriptor_of] = content

    def write_blocks(self, offset: int, blocks: memoryview) -> None:
        super().write_blocks(offset, blocks)
        content = bytearray(self._durable.get(self._descriptor_of, b"").ljust(self.size(), b"\0"))
        content[offset : offset + len(blocks)] = blocks
        self._durable[self._descriptor_of] = bytes(content)


class RememberingDisk(SystemDisk):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.durable: dict[int, bytes] = {}

    def file(self, descriptor: int) -> SystemFile:
        return RememberingFile(descriptor, self.durable)

    def has(self, body: bytes) -> bool:
        return any(body in content for content in list(self.durable.values()))


def test_each_committer_returns_only_after_its_own_record_was_forced(tmp_path: Path) -> None:
    create(tmp_path / "qm", name="QM", log=SMALL_LOG)
    disk = RememberingDisk(tmp_path / "qm")
    with contextlib.closing(Host(tmp_path / "qm", disk=disk)) as host:
        host.define(LocalQueue(name="Q"), replace=False)

        def work(number: int) -> bool:
            bodies = [b"<%d/%d>" % (number, turn) for turn in range(15)]
            return all(put(host, body) and disk.has(body) for body in bodies)

        assert Crew(work).join() == [True] * THREADS


# --- slow forces ------------------------------------------------------------------------------


def test_slow_forces_make_larger_groups_and_lose_nothing(running: Running) -> None:
    random = Random(10)
    running.forces.delays_ms = lambda: random.uniform(20, 200)
    before = running.forces.count
    bodies = [[b"%d/%d" % (number, turn) for turn in range(4)] for number in range(THREADS)]
    Crew(lambda number: [put(running.host, body) for body in bodies[number]]).join()
    assert running.forces.count - before <= 24, "64 commits in few groups"
    running.forces.delays_ms = lambda: 0.0
    assert running.bodies_after_kill() == {body for ours in bodies for body in ours}


def test_the_log_buffer_bounds_what_gathers_behind_a_slow_force(tmp_path: Path) -> None:
    buffer_bytes = 8192
    running = Running(tmp_path / "qm", LogSettings(segment_bytes=256 * 1024, buffer_bytes=buffer_bytes))
    running.forces.close()
    crew = Crew(lambda number: put(running.host, b"%02d" % number * 1000))
    running.forces.await_arrival()
    log = running.host._manager.log
    until(lambda: log.gathered_bytes > buffer_bytes)
    time.sleep(0.05)
    assert log.gathered_bytes <= buffer_bytes + 2500, "one record more than the limit at most"
    assert running.pending() < THREADS
    running.forces.open()
    assert all(isinstance(result, bytes) for result in crew.join())
    assert len(running.bodies_after_kill()) == THREADS
    running.host.close()


def test_a_put_gets_through_when_notes_have_filled_the_buffer_during_a_checkpoints_force(tmp_path: Path) -> None:
    """Nobody waits for the checkpoint's own force, nor for the notes of gets in units of work."""

    def work() -> None:
        running = Running(tmp_path / "qm", LogSettings(segment_bytes=256 * 1024, buffer_bytes=4096))
        for _ in range(300):
            put(running.host, b"x")
        unit = running.host.begin()
        running.host.get("Q", unit=unit)
        running.forces.close()
        Crew(lambda _: running.host.checkpoint(), threads=1)
        running.forces.await_arrival()
        for _ in range(250):
            running.host.get("Q", unit=unit)
        assert running.host._manager.log.gathered_bytes > 4096
        late = Crew(lambda _: put(running.host, b"y"), threads=1)
        time.sleep(0.1)
        running.forces.open()
        late.join()

    assert ends_within(PATIENCE_S, work)


# --- closing ----------------------------------------------------------------------------------


def test_closing_while_threads_commit_keeps_everything_that_was_acknowledged(running: Running) -> None:
    running.forces.delays_ms = lambda: 3.0
    acknowledged: list[bytes] = []
    stop = threading.Event()

    def work(number: int) -> None:
        turn = 0
        while not stop.is_set():
            body = b"%d/%d" % (number, turn)
            put(running.host, body)
            acknowledged.append(body)
            turn += 1

    crew = Crew(work)
    until(lambda: len(acknowledged) > 100)
    running.host.close()
    acknowledged_by_close = set(acknowledged)
    stop.set()
    crew.join()
    with contextlib.closing(Host(running.path)) as host:
        found = [message.body for message in host.browse("Q", None, None, 100_000)[0]]
    assert acknowledged_by_close <= set(found)
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found))


def test_a_closed_queue_manager_acknowledges_nothing(running: Running) -> None:
    """Its folder may belong to another process by now."""
    running.host.close()
    with pytest.raises(EntrepotError):
        put(running.host, b"late")


def test_closing_lets_waiting_readers_go(running: Running) -> None:
    crew = Crew(lambda _: running.host.get("Q", wait_s=10 * PATIENCE_S), threads=3)
    until(lambda: running.host.queue_status("Q")["IPPROCS"] == 3)
    running.host.close()
    crew.join()


def test_closing_twice_is_harmless(running: Running) -> None:
    running.host.close()
    running.host.close()


# --- failures ---------------------------------------------------------------------------------


def test_a_failed_force_wakes_everyone_with_an_error(running: Running) -> None:
    reader = Crew(lambda _: running.host.get("Q", wait_s=10 * PATIENCE_S), threads=2)
    until(lambda: running.host.queue_status("Q")["IPPROCS"] == 2)
    running.forces.close()
    committers = Crew(lambda number: put(running.host, b"%d" % number))
    running.forces.await_arrival()
    until(lambda: running.pending() == THREADS)
    running.forces.error_number = errno.EIO
    running.forces.open()
    # Nobody knows what the disk holds, so all are told that: those under way and those who had gathered.
    assert all(isinstance(result, DiskFailed) and result.outcome == "unknown" for result in committers.join())
    assert all(isinstance(result, QueueManagerFailed) for result in reader.join())
    with pytest.raises(QueueManagerFailed):
        put(running.host, b"later")
    assert isinstance(running.host.failure, DiskFailed)
    assert running.host.status()["state"] == "failed"


def test_a_full_disk_is_told_to_everyone_in_the_group_and_forgotten(running: Running) -> None:
    running.forces.close()
    first = Crew(lambda _: put(running.host, b"first"), threads=1)
    running.forces.await_arrival()
    others = Crew(lambda number: put(running.host, b"%d" % number))
    until(lambda: running.pending() == THREADS + 1)
    write_group = running.host._manager.log.write_group

    def full_once(group: object, *, force: bool) -> None:
        running.host._manager.log.write_group = write_group  # type: ignore[method-assign]
        raise DiskFull("log")

    running.host._manager.log.write_group = full_once  # type: ignore[method-assign,assignment]
    running.forces.open()
    assert isinstance(first.join()[0], bytes)
    assert all(isinstance(result, DiskFull) and result.outcome == "not_done" for result in others.join())
    put(running.host, b"again")
    assert running.bodies_after_kill() == {b"first", b"again"}


def test_a_failure_between_two_forces_wakes_those_who_wait_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that fails may stop the queue manager just when one thread hands the forcing over to another."""
    monkeypatch.setattr(host_module, "_GROUPS_IN_A_ROW", 1)

    def work() -> None:
        running = Running(tmp_path / "qm")
        host = running.host
        lock = host._lock
        # Whoever wants the lock comes late, so that the hand-over takes long enough to meet it.
        host._lock = SlowLock(lock)  # type: ignore[assignment]

        def commit(number: int) -> None:
            while True:
                put(host, b"%d" % number)

        crew = Crew(commit)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with lock:
                if not host._forcing and len(host._followers) > 1:
                    host._manager.fail(DiskFailed("checkpoint", "planted"))
                    break
        assert all(isinstance(result, EntrepotError) for result in crew.join(PATIENCE_S / 2))

    assert ends_within(PATIENCE_S, work)


class SlowLock:
    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def acquire(self) -> bool:
        time.sleep(0.01)
        return self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_committer_who_is_interrupted_leaves_the_queue_manager_usable(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a force: the program goes on, or closes."""

    def work() -> None:
        running = Running(tmp_path / "qm")

        def interrupted_ms() -> float:
            running.forces.delays_ms = lambda: 0.0
            os.kill(os.getpid(), signal.SIGINT)
            return 300.0

        running.forces.delays_ms = interrupted_ms
        with pytest.raises(KeyboardInterrupt):
            put(running.host, b"interrupted")
        with contextlib.suppress(EntrepotError):
            put(running.host, b"after")
        running.host.close()
        with contextlib.closing(Host(running.path)) as host:
            host.browse("Q", None, None, 10)

    assert ends_within(PATIENCE_S, work)


# --- the log is full --------------------------------------------------------------------------


def test_a_message_larger_than_the_whole_log_is_refused_at_once(running: Running) -> None:
    larger = bytes(SMALL_LOG.segments_max * SMALL_LOG.segment_bytes)
    begin = time.monotonic()
    with pytest.raises(LogFull) as refused:
        put(running.host, larger)
    assert time.monotonic() - begin < 30.0
    assert refused.value.outcome == "not_done"
    put(running.host, b"smaller")
    assert running.bodies_after_kill() == {b"smaller"}


def test_a_unit_larger_than_the_whole_log_stays_active_and_can_be_backed_out(running: Running) -> None:
    unit = running.host.begin()
    for _ in range(SMALL_LOG.segments_max + 1):
        running.host.put("Q", Message(bytes(60_000)), persistent=True, unit=unit)
    with pytest.raises(LogFull):
        running.host.commit(unit)
    assert unit.state == UnitState.ACTIVE
    running.host.back_out(unit)
    assert running.host.queue_status("Q")["UNCOM"] == 0
    put(running.host, b"smaller")


def test_a_message_over_several_segments_is_taken_when_the_log_has_room(running: Running) -> None:
    body = Random(1).randbytes(200_000)
    put(running.host, body)
    assert running.bodies_after_kill() == {body}
    message = running.host.get("Q")
    assert message is not None
    assert message.body == body
