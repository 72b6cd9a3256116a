# SPDX-License-Identifier: Apache-2.0
"""The limits of an instance's own process, in processes that are really ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from entrepot.spark.live import worker_process
from entrepot.spark.live.worker_process import WorkerProcess
from entrepot.spark.starting.quick_daemon import DAEMON

PATIENCE_S = 60.0

KEEPS_THE_LOCK = """
import itertools
from entrepot.spark.live.worker_process import WorkerProcess

process = WorkerProcess(0.2, is_own=True)
process.begin_message()
print("begun", flush=True)
sum(itertools.repeat(0))  # in C, for ever, and with Python's own lock
"""

FORKS = """
import os, time
from entrepot.spark.live import worker_process
from entrepot.spark.live.worker_process import WorkerProcess

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
    assert worker_process._parent_at_start() == gone.pid
    monkeypatch.setenv(DAEMON, "1")  # it lives, and is not our parent
    assert worker_process._parent_at_start() == os.getppid()
    monkeypatch.delenv(DAEMON)
    assert worker_process._parent_at_start() == os.getppid()
