# SPDX-License-Identifier: Apache-2.0
"""What a host does while time passes: senders and readers that wait, the housekeeper, and the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import SMALL_LOG
from entrepot.engine import host as host_module
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import EntrepotError, QueueManagerStopped
from entrepot.message import Message
from entrepot.testing import FaultyDisk, VirtualClock
from hosted import Host

PATIENCE_S = 60.0


class FakeTime:
    """Time that passes only in `sleep`."""

    perf_counter = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.while_asleep: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(seconds)  # the housekeeper's
            return
        self.now += seconds
        self.slept.append(seconds)
        self.while_asleep()


class FullRuns:
    """A disk that takes the log and nothing else while a test says so."""

    full = False

    def before(self, operation: str, path: str, size: int) -> int | None:
        if self.full and operation in ("write", "force", "rename") and not path.startswith("log"):
            raise OSError(28, "No space left on device", path)
        return None


class Bench:
    """A queue manager with the queue Q, whose clock stands."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock, self.disk = path, VirtualClock(), FullRuns()
        create(path, name="QM", log=SMALL_LOG, clock=self.clock)
        self.host = Host(path, disk=FaultyDisk(path, self.disk), clock=self.clock)
        self.host.define(LocalQueue(name="Q"), replace=False)

    def put(self, body: bytes = b"", *, persistent: bool = False, **attributes: Any) -> bytes:
        return self.host.put("Q", Message(body, **attributes), persistent=persistent)

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.host.browse("Q", None, None, 100)[0]]

    def status(self) -> tuple[object, object, object]:
        shown = self.host.queue_status("Q")
        return shown["CURDEPTH"], shown["UNCOM"], shown["IPPROCS"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "QM")
    yield bench
    bench.disk.full = False
    bench.host.close()


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Time as the host sees it."""
    passing = FakeTime()
    monkeypatch.setattr(host_module, "time", passing)
    return passing


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# --- readers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wait_s", "waits"), [(-1.0, False), (0.0, False), (0.001, True), (0.5, True), (1.0, True)])
def test_a_reader_waits_if_it_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, wait_s: float, waits: bool
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(bench.host, "get_when_it_comes", lambda *arguments: waited.append(arguments[3]))
    bench.host.get("Q", wait_s=wait_s)
    assert waited == [wait_s] * waits
    bench.put(b"there")
    assert bench.host.get("Q", wait_s=wait_s) is not None
    assert waited == [wait_s] * waits, "what is there is got at once"


@pytest.mark.parametrize("persistent", [False, True])
def test_a_reader_that_is_interrupted_leaves_its_message_to_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, persistent: bool
) -> None:
    bench.put(b"unseen", persistent=persistent)

    def interrupt(verb: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(bench.host, "durably", interrupt)
        with pytest.raises(KeyboardInterrupt):
            bench.host.get_when_it_comes("Q", None, bench.host.private_unit(), PATIENCE_S)
    assert bench.status() == (1, 0, 0)
    message = bench.host.get("Q")
    assert message is not None
    assert (message.body, message.backout_count) == (b"unseen", 0)


def test_a_reader_that_waits_on_a_queue_that_is_shut_is_told(bench: Bench) -> None:
    ended: list[object] = []

    def read() -> None:
        try:
            bench.host.get("Q", wait_s=PATIENCE_S)
        except EntrepotError as error:
            ended.append(type(error).__name__)

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: bench.status()[2])
    bench.host.alter(LocalQueue(name="Q", get_enabled=False))
    reader.join(PATIENCE_S)
    assert ended == ["GetInhibited"]


# --- the housekeeper -----------------------------------------------------------------------------


def test_the_housekeeper_ends_delays_and_expiries(bench: Bench) -> None:
    bench.put(b"late", delay_s=3600)
    bench.put(b"short", expiry_s=3600)
    assert bench.bodies() == [b"short"]
    bench.clock.advance(3600)
    bench.host.wake_housekeeper()
    until(lambda: bench.host.queue_status("Q")["CURDEPTH"] == 1 and bench.bodies() == [b"late"])


def test_the_housekeeper_forces_what_an_expiry_wrote(bench: Bench) -> None:
    bench.put(b"short", expiry_s=3600, persistent=True)
    bench.clock.advance(3600)
    bench.host.wake_housekeeper()
    until(lambda: bench.status() == (0, 0, 0))


def test_the_housekeeper_notices_that_the_clock_was_set(bench: Bench) -> None:
    count = bench.host.manager.steady.count
    bench.clock.jump(-7200)
    bench.host.wake_housekeeper()
    until(lambda: bench.host.manager.steady.count > count)


# --- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_a_close_answers_everyone_who_waits_for_the_log(bench: Bench, full: bool) -> None:
    bench.disk.full = full
    with bench.host.lock:
        _, settlement = bench.host.manager.put("Q", Message(b"promised"), persistent=True)
    unit = bench.host.begin()
    bench.host.put("Q", Message(b"not committed"), persistent=True, unit=unit)
    bench.host.close()
    assert settlement is not None
    assert (settlement.done, settlement.error) == (True, None)
    with pytest.raises(QueueManagerStopped):
        bench.put()
    assert unit.state is UnitState.ACTIVE
    bench.disk.full = False
    bench.host = Host(bench.path)
    assert bench.bodies() == [b"promised"]


def test_a_queue_is_cleared_of_what_it_has_and_can_be_purged(bench: Bench) -> None:
    for number in range(5):
        bench.put(b"%d" % number, persistent=number % 2 == 0)
    assert bench.host.clear("Q") == 5
    assert bench.host.clear("Q") == 0
    bench.put()
    bench.host.delete(LocalQueue.kind, "Q", purge=True)
    assert bench.host.find(LocalQueue.kind, "Q") is None
