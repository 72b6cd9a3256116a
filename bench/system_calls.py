# SPDX-License-Identifier: Apache-2.0
"""Checks a durability claim against the kernel's view: which system calls really happen before a put returns.

The traced trial calls `mark` after every put; in strace's output a marker
is an access() to a path that does not exist. A put counts as forced when a
write and, after it, a completed sync stand between its marker and the one
before. Tracing slows everything down, so traced trials are never timed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MARKER = "/entrepot-bench-marker"
_WRITES = "write,writev,pwrite64,pwritev,pwritev2"
_SYNCS = "fsync,fdatasync,msync,sync_file_range,sync"
_LINE = re.compile(r"^\d+\s+(?:<\.\.\. )?(\w+)")


@dataclass(frozen=True, slots=True)
class Forces:
    puts: int
    forced_puts: int
    """Puts that a sync preceded, out of `puts`; only meaningful with one committer."""
    syncs: int

    @property
    def per_put(self) -> float:
        return self.syncs / self.puts if self.puts else 0.0


def mark() -> None:
    os.access(MARKER, os.F_OK)


def tracing(output: Path) -> list[str]:
    """The command line that goes before the one to trace."""
    return ["strace", "-f", "-qq", "-o", str(output), "-e", f"trace=?access,?faccessat,?faccessat2,{_WRITES},{_SYNCS}"]


def read(output: Path) -> Forces:
    """Count from the first marker, which ends the warm-up, to the last."""
    puts = forced_puts = syncs = syncs_at_marker = 0
    begun = written = forced = False
    for line in output.read_text(errors="replace").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        if MARKER in line:
            if "resumed" in line:
                continue
            if begun:
                puts += 1
                forced_puts += forced
            begun, written, forced = True, False, False
            syncs_at_marker = syncs
        elif not begun:
            continue
        elif found[1] in _WRITES.split(","):
            written = True
            if "DSYNC" in line and "unfinished" not in line:
                syncs += 1
                forced = True
        elif found[1] in _SYNCS.split(",") and "unfinished" not in line:
            syncs += 1
            forced = forced or written
    return Forces(puts, forced_puts, syncs_at_marker)
