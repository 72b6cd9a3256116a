# SPDX-License-Identifier: Apache-2.0
"""A queue manager as a process of its own: start, look, use, stop, start again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import entrepot
from entrepot.cli.serving import open_log
from entrepot.compiled import form
from entrepot.server.security import audit

from .conftest import Complaint, Shell


@pytest.fixture
def serving(shell: Shell, qm: Path) -> Iterator[Path]:
    """The queue manager of `qm`, as a server in the background."""
    shell("qm", "start", qm, "--detach")
    yield qm
    shell("qm", "stop", qm, "--immediate")


def pid_of(shell: Shell, qm: Path) -> int:
    return int(shell.json("qm", "status", qm)["pid"])


def test_status_tells_the_form_of_the_server_and_not_of_the_command(
    shell: Shell, qm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTREPOT_PURE", "1")
    shell("qm", "start", qm, "--detach")
    monkeypatch.delenv("ENTREPOT_PURE")
    try:
        assert shell.json("qm", "status", qm)["form"] == "pure Python"
        assert re.search(r"^form +pure Python$", shell("qm", "status", qm).stdout, re.MULTILINE)
    finally:
        shell("qm", "stop", qm, "--immediate")
    # Stopped, it is started for a moment by the command itself.
    assert shell.json("qm", "status", qm)["form"] == form()


def runs(pid: int) -> bool:
    # One that has ended and was not waited for has no command line any more.
    command_line = Path(f"/proc/{pid}/cmdline")
    return command_line.exists() and command_line.read_bytes() != b""


def until(reached: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_it_runs_in_the_background_until_it_is_stopped(shell: Shell, qm: Path) -> None:
    started = shell.json("qm", "start", qm, "--detach")
    assert (started["name"], started["state"]) == ("QM1", "running")
    assert runs(started["pid"])
    found = shell.json("qm", "status", qm)
    assert (found["state"], found["pid"]) == ("running", started["pid"])
    shell("put", qm, "Q", "persistent", "--persistent")
    shell("put", qm, "Q", "nonpersistent")
    assert shell.json("qm", "stop", qm) == {"name": "QM1", "state": "stopped"}
    assert shell.json("qm", "status", qm)["state"] == "stopped"
    until(lambda: not runs(started["pid"]), "its process has ended")
    shell("qm", "start", qm, "--detach")
    assert "persistent" in shell("get", qm, "Q").stdout
    shell("qm", "stop", qm)


def test_commands_reach_the_server_that_runs(shell: Shell, serving: Path) -> None:
    shell("mqsc", serving, "-e", "DEFINE QLOCAL(ORDERS)")
    shell("put", serving, "ORDERS", "10 crates")
    with entrepot.connect(f"unix:{serving}") as connection:
        assert [message.body for message in connection.browse("ORDERS")] == [b"10 crates"]
    assert "10 crates" in shell("browse", serving, "ORDERS").stdout
    assert "10 crates" in shell("get", serving, "ORDERS").stdout
    shell("qm", "checkpoint", serving)


def test_a_second_start_says_who_has_it(shell: Shell, serving: Path, complaint: Complaint) -> None:
    pid = pid_of(shell, serving)
    for options in ((), ("--detach",)):
        said = complaint("qm", "start", serving, *options)
        assert "QueueManagerInUse" in said
        assert str(pid) in said
    assert pid_of(shell, serving) == pid, "the first one goes on"


def test_stopping_what_does_not_run_is_no_error(shell: Shell, qm: Path) -> None:
    assert "was not running" in shell("qm", "stop", qm).stdout


def test_what_a_killed_server_left_is_no_obstacle(shell: Shell, qm: Path) -> None:
    shell("qm", "start", qm, "--detach")
    shell("put", qm, "Q", "kept", "--persistent")
    pid = pid_of(shell, qm)
    os.kill(pid, signal.SIGKILL)
    until(lambda: shell.json("qm", "status", qm, "--files-only")["state"] == "stopped", "its lock is free")
    assert (qm / "socket").is_socket(), "it had no time to tidy up"
    assert shell.json("qm", "status", qm)["messages"] >= 1
    shell("qm", "start", qm, "--detach")
    assert pid_of(shell, qm) != pid
    assert "kept" in shell("get", qm, "Q").stdout
    shell("qm", "stop", qm)


def test_a_server_that_cannot_start_says_why(shell: Shell, serving: Path, tmp_path: Path, complaint: Complaint) -> None:
    other = tmp_path / "QM2"
    shell("qm", "create", other)
    shell("mqsc", serving, "-e", "DEFINE LISTENER(TCP) PORT(0)")
    shell("mqsc", serving, "-e", "START LISTENER(TCP)")
    with entrepot.connect(f"unix:{serving}") as connection:
        port = connection.mqsc("DISPLAY LSSTATUS(TCP) PORT")[0].rows[0]["PORT"]
    said = complaint("qm", "start", other, "--detach", "--port", port)
    assert "AddressInUse" in said
    assert "has not started" in said
    assert shell.json("qm", "status", other, "--files-only")["state"] == "stopped"


def test_a_stop_lets_an_open_unit_end(shell: Shell, qm: Path) -> None:
    shell("qm", "start", qm, "--detach")
    client = entrepot.connect(f"unix:{qm}", reconnect_s=0)
    unit = client.unit_of_work()
    unit.put("Q", b"in the end", persistent=True)
    assert client.in_doubt() == []  # the unit has reached the server
    said: list[str] = []
    stopping = threading.Thread(target=lambda: said.append(Shell()("qm", "stop", qm).stderr))
    stopping.start()
    time.sleep(0.5)
    assert stopping.is_alive()
    unit.commit()
    stopping.join(60)
    assert not stopping.is_alive()
    assert "It waits up to 10 s for units of work to end" in said[0]
    assert "connection" in said[0]
    client.close()
    assert "in the end" in shell("get", qm, "Q").stdout


def test_an_immediate_stop_does_not(shell: Shell, qm: Path) -> None:
    shell("qm", "start", qm, "--detach")
    client = entrepot.connect(f"unix:{qm}", reconnect_s=0)
    unit = client.unit_of_work()
    unit.put("Q", b"never", persistent=True)
    assert client.in_doubt() == []
    shell("qm", "stop", qm, "--immediate")
    client.close()
    stopped = [line for line in (qm / audit.FILE).read_text().splitlines() if "stopped" in line]
    assert "immediate" in stopped[-1], "no time was left for the unit"
    assert "No message on Q" in shell("get", qm, "Q").output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(shell: Shell, qm: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "entrepot.cli.main", "qm", "start", str(qm)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert "Queue manager QM1 runs" in server.stdout.readline()
    shell("put", qm, "Q", "kept", "--persistent")
    server.send_signal(number)
    output, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors
    assert "Traceback" not in output + errors
    assert not (qm / "socket").exists()
    assert "kept" in shell("get", qm, "Q").stdout


def test_it_listens_at_the_port_of_the_command_line(shell: Shell, qm: Path) -> None:
    shell("qm", "start", qm, "--detach", "--port", 0)
    with entrepot.connect(f"unix:{qm}") as connection:
        rows = connection.mqsc("DISPLAY LSSTATUS(*)")[0].rows
    assert [(row["LISTENER"], row["IPADDR"]) for row in rows] == [("COMMAND.LINE", "127.0.0.1")]
    shell("qm", "stop", qm)


def test_the_log_of_a_server_is_for_its_user_alone_also_one_that_was_for_all(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("before\n")
    path.chmod(0o644)
    with open_log(path) as log:
        log.write(b"after\n")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "before\nafter\n"
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic"):
        open_log(tmp_path / "link")
