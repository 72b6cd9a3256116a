# SPDX-License-Identifier: Apache-2.0
"""A server whose descriptors are used up by connections: it turns others away, and everything else goes on."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
from pathlib import Path

import entrepot
from entrepot.errors import EntrepotError

LIMIT = 256


def test_connections_cannot_stop_a_queue_manager_by_taking_all_descriptors(folder: Path) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))

    command = [sys.executable, "-m", "entrepot.cli.main", "qm", "start", str(folder), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lower) as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        try:
            connection = entrepot.connect(f"unix:{folder}")
            connection.mqsc("DEFINE QLOCAL(DEEP) BUFFER(20000) MAXDEPTH(100000)")
            with contextlib.ExitStack() as crowd:
                port = int(connection.mqsc("DISPLAY LSSTATUS(TCP) PORT")[0].rows[0]["PORT"])
                for number in range(2 * LIMIT):
                    stranger = crowd.enter_context(socket.socket(socket.AF_UNIX if number % 2 else socket.AF_INET))
                    with contextlib.suppress(OSError):
                        stranger.connect(str(folder / "socket") if number % 2 else ("127.0.0.1", port))
                # Runs, segments and checkpoints all need files.
                with connection.pipeline() as pipeline:
                    for _ in range(400):
                        pipeline.put("DEEP", bytes(20_000), persistent=True)
                for _ in range(3):
                    connection.administration.manage("checkpoint")  # type: ignore[attr-defined]
                with contextlib.suppress(EntrepotError):
                    entrepot.connect(f"unix:{folder}", reconnect_s=0).close()
                for _ in range(400):
                    assert connection.get("DEEP") is not None
            connection.close()
            with entrepot.connect(f"unix:{folder}", reconnect_s=30) as again:
                again.put("DEEP", b"x", persistent=True)
        finally:
            server.terminate()
            _, complaints = server.communicate(timeout=60)
        assert server.returncode == 0
        assert b"turned away" in complaints
