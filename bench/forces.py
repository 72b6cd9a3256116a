# SPDX-License-Identifier: Apache-2.0
"""How often a running server forces its disk, as the kernel sees it.

strace is attached to the server for the length of a visit, which slows it
down; so such a visit is never timed, only its forces are set against its
round trips. A server that forces less often than it acknowledges either
shares forces among many or promises less than it seems to.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

ATTACH_S = 1.0
SYNCS = "fsync,fdatasync,msync,sync_file_range,sync"
_LINE = re.compile(r"^\d+\s+(\d+\.\d+) (?:<\.\.\. )?(\w+)(.*)$", re.MULTILINE)


def is_traceable() -> bool:
    return shutil.which("strace") is not None


class ForceCount:
    """Watches processes from now until `stop`."""

    def __init__(self, pids: Sequence[int], output: Path) -> None:
        self._output = output
        command = ["strace", "-f", "-qq", "-ttt", "-o", str(output), "-e", f"trace={SYNCS},pwritev2"]
        for pid in pids:
            command += ["-p", str(pid)]
        self._tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(ATTACH_S)

    def stop(self, begun: float, ended: float) -> int:
        """Stop watching; returns the forces that ended between two readings of the monotonic clock."""
        self._tracer.send_signal(signal.SIGINT)
        self._tracer.wait()
        offset = time.time() - time.perf_counter()
        return sum(
            begun + offset <= float(when) < ended + offset
            for when, name, rest in _LINE.findall(self._output.read_text(errors="replace"))
            if _is_force(name, rest)
        )


def _is_force(name: str, rest: str) -> bool:
    """Whether a line of strace tells that a force has ended; a call cut in two has two lines."""
    if "unfinished" in rest:
        return False
    return name in SYNCS.split(",") or "DSYNC" in rest
