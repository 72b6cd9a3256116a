# SPDX-License-Identifier: Apache-2.0
"""A server of its own: the queue manager runs as a process, and three workers share what is asked."""

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import entrepot


def work(url: str) -> int:
    """Answer what is asked until an empty request comes; how many there were."""
    answered = 0
    with entrepot.connect(url) as connection, connection.consume("QUOTES", read_ahead=5, wait_s=60) as requests:
        for request in requests:
            if not request.body:
                break
            connection.reply(request, b"%d euros" % (int(request.body.split()[0]) * 12))
            answered += 1
    return answered


def entrepot_command(*words: str) -> None:
    command = [sys.executable, "-m", "entrepot.cli.main", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


with tempfile.TemporaryDirectory() as folder:
    entrepot_command("qm", "create", f"{folder}/qm")
    entrepot_command("qm", "start", f"{folder}/qm", "--detach")
    url = f"unix:{folder}/qm"
    with entrepot.connect(url) as connection, ThreadPoolExecutor() as threads:
        connection.mqsc("DEFINE QLOCAL(QUOTES)")
        workers = [threads.submit(work, url) for _ in range(3)]
        for crates in range(1, 31):
            reply = connection.request("QUOTES", b"%d crates" % crates, timeout_s=60)
        print(f"{crates} crates cost {reply.body.decode()}")
        for _ in workers:
            connection.put("QUOTES", b"")
        print("answered:", sum(worker.result() for worker in workers))
    entrepot_command("qm", "stop", f"{folder}/qm")
