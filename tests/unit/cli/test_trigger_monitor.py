# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

from .conftest import Complaint, Shell


def define(shell: Shell, qm: Path, command: str) -> None:
    quoted = command.replace("'", "''")
    shell(
        "mqsc", qm, "-e", f"DEFINE PROCESS(P) APPLICID('{quoted}') USERDATA('u')",
        "-e", "DEFINE QLOCAL(T) TRIGGER TRIGTYPE(FIRST) PROCESS(P) INITQ(SYSTEM.DEFAULT.INITIATION.QUEUE)",
    )  # fmt: skip


def test_program_is_started_for_waiting_messages(shell: Shell, qm: Path, tmp_path: Path) -> None:
    script = f"import os, pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).write_text(os.environ['ENTREPOT_QUEUE'])"
    define(shell, qm, shlex.join([sys.executable, "-c", script]))
    shell("put", qm, "T", "work")
    (started,) = shell.lines("trigger-monitor", qm, "--once")
    assert (started["queue"], started["process"]) == ("T", "P")
    deadline = time.monotonic() + 60
    while not (tmp_path / "ran").exists() or not (tmp_path / "ran").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (tmp_path / "ran").read_text() == "T"


def test_program_that_cannot_start_is_on_the_dead_letter_queue(shell: Shell, qm: Path) -> None:
    define(shell, qm, "/nowhere/at/all")
    shell("put", qm, "T", "work")
    assert "0 started, 1 failed." in shell("trigger-monitor", qm, "--once").stderr
    (dead,) = shell.lines("browse", qm, "SYSTEM.DEAD.LETTER.QUEUE")
    assert dead["properties"]["dead_letter_reason"] == 265
    assert "/nowhere/at/all" in dead["properties"]["dead_letter_problem"]


def test_unknown_initiation_queue(complaint: Complaint, qm: Path) -> None:
    assert "QueueNotFound Q01" in complaint("trigger-monitor", qm, "--queue", "NONE")
