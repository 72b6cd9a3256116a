# SPDX-License-Identifier: Apache-2.0
"""The limits of an instance's own process, in processes that are really ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.flows.live import worker_process
from entrepot.flows.live.worker_process import WorkerProcess
from entrepot.spark.starting import quick_daemon
from entrepot.spark.starting.quick_daemon import DAEMON
from unit.flows.live.stepped import Stepped, SteppedTime

PATIENCE_S = 60.0

KEEPS_THE_LOCK = """
import itertools
from entrepot.flows.live.worker_process import WorkerProcess

process = WorkerProcess(0.2, is_own=True)
process.begin_message()
print("begun", flush=True)
sum(itertools.repeat(0))  # in C, for ever, and with Python's own lock
"""

FORKS = """
import os, time
from entrepot.flows.live import worker_process
from entrepot.flows.live.worker_process import WorkerProcess

worker_process._LOOK_S = 0.05
worker_process._FINISH_S = 0.1
if os.fork() == 0:
    process = WorkerProcess(is_own=True)
    print(os.getpid(), flush=True)
    while not process.is_orphan:
        time.sleep(0.01)
    print("orphan", flush=True)
    while True:
        pass
time.sleep(3600)
"""


def test_a_message_that_never_returns_to_python_ends_its_process_and_says_where_it_stood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(DAEMON, raising=False)
    finished = subprocess.run(
        [sys.executable, "-c", KEEPS_THE_LOCK], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert finished.stdout == "begun\n"
    assert finished.returncode == 1
    assert "Timeout" in finished.stderr
    assert 'File "<string>"' in finished.stderr


def test_a_process_whose_parent_is_killed_ends() -> None:
    parent = subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.wait()
        assert parent.stdout.read() == "orphan\n", "the end of its output is the child's end"
        deadline = time.monotonic() + PATIENCE_S
        while Path(f"/proc/{child}").exists() and _state(child) != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


def test_a_process_that_is_not_an_instances_own_is_left_alone() -> None:
    process = WorkerProcess(0.001)
    process.begin_message()
    process.allow_time(0.001)
    time.sleep(0.01)
    assert not process.is_orphan
    process.close()


def test_a_parent_that_is_gone_before_the_first_look_is_missed_and_one_further_up_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    monkeypatch.setenv(DAEMON, str(gone.pid))
    assert quick_daemon.parent_at_start() == gone.pid
    monkeypatch.setenv(DAEMON, "1")  # it lives, and is not our parent
    assert quick_daemon.parent_at_start() == os.getppid()
    monkeypatch.delenv(DAEMON)
    assert quick_daemon.parent_at_start() == os.getppid()


# --- the same without processes that end ------------------------------------------------------------------------


class Alarm:
    """Stands in for `faulthandler`: notes when the process would end, and how."""

    def __init__(self, clock: SteppedTime) -> None:
        self._clock = clock
        self.ends_at_s: float | None = None
        self.armed: list[tuple[bool, Any]] = []

    def dump_traceback_later(self, left_s: float, **options: Any) -> None:
        self.ends_at_s = self._clock.passed_s + left_s
        self.armed.append((options["exit"], options["file"]))

    def cancel_dump_traceback_later(self) -> None:
        self.ends_at_s = None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    clock = SteppedTime()
    monkeypatch.setattr(worker_process, "time", clock)
    return clock


@pytest.fixture
def alarm(clock: SteppedTime, monkeypatch: pytest.MonkeyPatch) -> Alarm:
    alarm = Alarm(clock)
    monkeypatch.setattr(worker_process, "faulthandler", alarm)
    return alarm


@pytest.fixture
def process(alarm: Alarm) -> Iterator[WorkerProcess]:
    process = WorkerProcess(10.0, is_own=True)
    yield process
    process.close()


def test_a_process_ends_when_a_message_takes_longer_than_it_may(process: WorkerProcess, alarm: Alarm) -> None:
    process.begin_message()
    assert alarm.ends_at_s == pytest.approx(10.0 + 1.0, abs=0.01), "and a second, in which it is not armed again"
    assert alarm.armed == [(True, sys.__stderr__)]


def test_each_message_has_the_whole_time_though_the_alarm_moves_once_a_second(
    process: WorkerProcess, alarm: Alarm, clock: SteppedTime
) -> None:
    for _ in range(40):
        process.begin_message()
        assert alarm.ends_at_s is not None
        assert alarm.ends_at_s >= clock.passed_s + 10.0 - 0.001
        clock.advance(0.1)
    assert len(alarm.armed) <= 5


def test_a_node_that_waits_long_by_its_own_word_moves_the_end_and_one_that_waits_shortly_does_not(
    process: WorkerProcess, alarm: Alarm, clock: SteppedTime
) -> None:
    process.begin_message()
    process.allow_time(100.0)
    assert alarm.ends_at_s == pytest.approx(100.0 + 30.0 + 1.0, abs=0.01)
    clock.advance(5.0)
    process.allow_time(20.0)
    assert alarm.ends_at_s == pytest.approx(131.0, abs=0.01)
    process.begin_message()
    assert alarm.ends_at_s == pytest.approx(5.0 + 11.0, abs=0.01), "the next message has no more than any other"


def test_a_process_that_lets_go_is_not_ended_any_more(process: WorkerProcess, alarm: Alarm) -> None:
    process.begin_message()
    process.close()
    assert alarm.ends_at_s is None


@pytest.mark.parametrize(("message_s_max", "is_own"), [(10.0, False), (0.0, True)])
def test_without_a_limit_or_a_process_of_its_own_nothing_is_armed(
    alarm: Alarm, message_s_max: float, is_own: bool
) -> None:
    process = WorkerProcess(message_s_max, is_own=is_own)
    process.begin_message()
    process.allow_time(100.0)
    process.close()
    assert alarm.armed == []


def test_a_process_without_standard_error_writes_to_its_descriptor(
    process: WorkerProcess, alarm: Alarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)
    process.begin_message()
    assert alarm.armed == [(True, 2)]


def test_where_other_processes_cannot_be_seen_the_parent_is_the_one_the_kernel_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quick_daemon, "Path", lambda _: SimpleNamespace(exists=lambda: False))
    for daemon in ("", str(os.getppid())):
        monkeypatch.setenv(DAEMON, daemon)
        assert quick_daemon.parent_at_start() == os.getppid()
    monkeypatch.delenv(DAEMON)
    assert quick_daemon.parent_at_start() == os.getppid()


def _watches() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "parent watch"]


def test_the_watch_over_the_parent_ends_with_the_process_and_keeps_nobody_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_process, "_LOOK_S", 3600.0)
    before = _watches()
    process = WorkerProcess(is_own=True)
    (watch,) = (thread for thread in _watches() if thread not in before)
    assert watch.daemon
    process.close()
    watch.join(10.0)
    assert not watch.is_alive()
    assert not process.is_orphan


def test_an_orphan_has_ten_seconds_to_end_its_unit_of_work(clock: SteppedTime, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[tuple[int, float]] = []
    played = SimpleNamespace(
        getppid=lambda: next(parents),
        getpid=os.getpid,
        environ={},
        _exit=lambda code: ended.append((code, clock.passed_s)),
    )
    parents = iter([7, 7, 1])
    monkeypatch.setattr(worker_process, "os", played)
    monkeypatch.setattr(worker_process, "threading", Stepped(clock))
    process = WorkerProcess(is_own=True)
    process._watch_parent()
    assert process.is_orphan
    assert ended == [(1, pytest.approx(1.0 + 10.0, abs=0.01))]
