# SPDX-License-Identifier: Apache-2.0
"""Servers as child processes: what is told when they fail, and that none outlives the process that leads a trial."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from entrepot.errors import PortTaken, SystemFailed
from entrepot.workbench.systems.processes import LOOPBACK, ServerProcess, chosen_port, free_port, listens
from entrepot.workbench.systems.system import is_running

LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"


def test_a_server_that_ends_at_once_tells_the_end_of_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such disk'); raise SystemExit(3)"]
    server = ServerProcess(command, tmp_path / "log", name="somemq")
    with pytest.raises(SystemFailed, match="somemq ended with status 3 before it was ready") as caught:
        server.wait_until(lambda: False)
    assert "no such disk" in str(caught.value)


def test_a_server_is_ready_when_it_listens_itself(tmp_path: Path) -> None:
    port = free_port()
    server = ServerProcess([sys.executable, "-c", LISTEN, str(port)], tmp_path / "log")
    server.wait_until_listening(port)
    assert listens(server.pid, port)
    assert not listens(os.getpid(), port)
    server.stop()
    assert not is_running(server.pid)


def test_another_server_on_the_port_is_not_taken_for_ours(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        idle = ServerProcess(["sleep", "60"], tmp_path / "idle")
        with pytest.raises(PortTaken, match=f"port {port}"):
            idle.wait_until_listening(port)
        idle.stop()
        refused = ServerProcess([sys.executable, "-c", LISTEN, str(port)], tmp_path / "refused")
        with pytest.raises(PortTaken, match=f"port {port}"):
            refused.wait_until_listening(port)
        refused.stop()


def test_a_named_port_is_taken_or_refused() -> None:
    port = free_port()
    assert chosen_port("somemq", {"port": port}) == port
    assert chosen_port("somemq", {}) > 0
    with (
        socket.create_server((LOOPBACK, 0)) as other,
        pytest.raises(PortTaken, match=r"somemq was to listen on port \d+"),
    ):
        chosen_port("somemq", {"port": other.getsockname()[1]})


def test_a_free_port_stays_free_for_the_server_and_for_nobody_else(tmp_path: Path) -> None:
    port = free_port()
    for _ in range(2):  # it is also there when the server is started again
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((LOOPBACK, port))
        server = ServerProcess([sys.executable, "-c", LISTEN, str(port)], tmp_path / "log")
        server.wait_until_listening(port)
        server.stop()


def test_a_process_that_has_ended_listens_nowhere() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with socket.create_server((LOOPBACK, 0)) as other:
        assert not listens(gone.pid, other.getsockname()[1])


@pytest.mark.parametrize("user", ["", "daemon"])
def test_a_server_dies_with_its_leader(tmp_path: Path, user: str) -> None:
    if user and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    told = tmp_path / "pid"

    def lead() -> None:
        server = ServerProcess(["sleep", "60"], tmp_path / "log", user=user)
        server.wait_until(lambda: Path(f"/proc/{server.pid}/comm").read_text() == "sleep\n")
        told.write_text(str(server.pid))
        os.kill(os.getpid(), signal.SIGKILL)

    leader = multiprocessing.get_context("fork").Process(target=lead)
    leader.start()
    leader.join()
    pid = int(told.read_text())
    deadline = time.monotonic() + 60.0
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(pid)
