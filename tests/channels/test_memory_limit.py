# SPDX-License-Identifier: Apache-2.0
"""A server under a limit of its address space: it refuses, goes on, and keeps what it has acknowledged."""

from __future__ import annotations

import contextlib
import random
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import entrepot
from entrepot.errors import EntrepotError, MemoryShort
from entrepot.server.memory_watch import EXIT_OUT_OF_MEMORY

MIB = 1024 * 1024
CLIENTS = 4


def attack(folder: Path, limit_mib: int, seed: int) -> bool:
    """One round; whether the server was still there at its end. It is never killed by a signal, and never hangs."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit_mib * MIB, limit_mib * MIB))

    command = [sys.executable, "-m", "entrepot.cli.main", "qm", "start", str(folder), "--json"]
    acknowledged: list[bytes] = []
    refused: list[EntrepotError] = []

    def fill(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        with contextlib.suppress(EntrepotError), entrepot.connect(f"unix:{folder}", reconnect_s=0) as client:
            client.mqsc(f"DEFINE QLOCAL(Q{number}) BUFFER(2000000000) MAXDEPTH(999999999) REPLACE")
            unit = client.unit_of_work()
            for count in range(10_000):
                kind = chance.randrange(3)
                body = b"%d/%d " % (number, count) + bytes(chance.choice([100, 10_000, 500_000, 3_900_000]))
                try:
                    if kind == 0:
                        client.put(f"Q{number}", body, persistent=True)
                        acknowledged.append(body[:20])
                    elif kind == 1:
                        client.put(f"Q{number}", body, persistent=False)
                    else:
                        unit.put(f"Q{number}", body)
                except MemoryShort as error:
                    refused.append(error)
                    if len(refused) > 3 * CLIENTS:
                        return

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=limit) as server:
        assert server.stdout is not None
        if not server.stdout.readline():
            assert server.wait(60) > 0, "it may be too little to start with, which is told"
            return False
        clients = [threading.Thread(target=fill, args=(number,)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(120)
            assert not client.is_alive(), "the server hangs"
        there = server.poll() is None
        if there:
            assert refused
            with entrepot.connect(f"unix:{folder}", reconnect_s=0) as client:
                client.get("Q1")
            server.terminate()
        code = server.wait(60)
        assert code in (0, EXIT_OUT_OF_MEMORY), f"it ended with {code}"
    with entrepot.connect(f"embedded:{folder}") as host:
        found = {message.body[:20] for number in range(CLIENTS) for message in host.browse(f"Q{number}")}
    lost = set(acknowledged) - found
    assert len(lost) <= 1, "only what the get above has got may be missing"
    return there


def test_a_server_short_of_memory_refuses_and_goes_on(folder: Path) -> None:
    assert attack(folder, 640, 1)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(26))
def test_rounds_under_a_memory_limit(folder: Path, seed: int) -> None:
    attack(folder, 380 + 20 * seed, seed)
