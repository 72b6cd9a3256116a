# SPDX-License-Identifier: Apache-2.0
"""What we tell Spark, and why.

Spark as it comes listens on all addresses without authentication, forks
processes for every checkpoint, and lets cancelled Python tasks run on for
seconds. A caller's settings always come before these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path

from entrepot.errors import InvalidSetting
from entrepot.spark.starting.quick_daemon import PRELOAD

LOOPBACK = "127.0.0.1"
ATTEMPTS = 4
"""How often a task may be tried before its job fails."""

_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
# The longest path of a Unix socket is 107 bytes, and Spark's names take 42 of them.
_SOCKET_FOLDER_BYTES_MAX = 107 - 42

_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Over TCP every Python task waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # So long a cancelled task's Python process may run on before it is killed.
    "spark.python.task.killTimeout": "50ms",
    "spark.sql.execution.arrow.maxBytesPerBatch": "1MB",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    # Otherwise each micro-batch forks some twenty processes to look after its checkpoint's files.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def local_master(long_tasks: int = 0, *, attempts: int = ATTEMPTS) -> str:
    """The master for this machine alone: a slot for each task that runs for ever, and one for each CPU besides.

    A slot is a thread that waits for a Python process; idle ones cost next to nothing. `attempts` is how often a task
    may be tried: here it counts in the master's name alone, and Spark does not look at spark.task.maxFailures.
    """
    return f"local[{long_tasks + max(2, os.cpu_count() or 1)},{attempts}]"


def require_master(master: str) -> None:
    """Refuse what Spark would not know as a master."""
    if not _MASTER.fullmatch(master):
        expected = "local[SLOTS,ATTEMPTS], spark://HOST:PORT, yarn or k8s://HOST:PORT"
        raise InvalidSetting("master", master, expected)


def stays_here(master: str) -> bool:
    """Whether all of Spark's processes are on this machine and can talk by its loopback interface."""
    if not master.startswith("spark://"):
        return master.startswith("local")
    hosts = [address.rpartition(":")[0].strip("[]") for address in master.removeprefix("spark://").split(",")]
    return all(_is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def all_settings(
    master: str, app: str, own: Mapping[str, str], folder: Path, preload: Sequence[str] = ()
) -> dict[str, str]:
    """Everything a session is started with; `own` are the caller's, `folder` a private one."""
    chosen = {**_ALWAYS, "spark.task.maxFailures": str(ATTEMPTS)}
    if stays_here(master):
        chosen |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
        chosen |= _sockets(folder)
        chosen["spark.python.daemon.module"] = "entrepot.spark.starting.quick_daemon"
        chosen[f"spark.executorEnv.{PRELOAD}"] = ",".join(preload)
    if master.startswith("local") and not master.startswith("local-cluster"):
        # Other users of the machine can reach the loopback interface too. Here Spark makes up the secret itself.
        chosen["spark.authenticate"] = "true"
    return {**chosen, **own, "spark.master": master, "spark.app.name": app}


def _sockets(folder: Path) -> dict[str, str]:
    if len(os.fsencode(folder)) > _SOCKET_FOLDER_BYTES_MAX:
        return {"spark.python.unix.domain.socket.enabled": "false"}
    return {"spark.python.unix.domain.socket.dir": str(folder)}
