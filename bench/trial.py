# SPDX-License-Identifier: Apache-2.0
"""Runs one trial in a fresh process and a fresh folder, so that no trial inherits another's heap, threads or files.

The child is this file with `module:function` and its arguments as JSON; its
answer is the last line it prints. Folders lie beside the suite, on the
repository's file system, because /tmp may be memory.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCRATCH = HERE / ".scratch"
TIMEOUT_S = 900


class TrialFailed(Exception):
    """A trial ended without an answer; its number would be a guess."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A fresh folder on the repository's file system, removed at the end."""
    SCRATCH.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=SCRATCH))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(function: str, *, prefix: Sequence[str] = (), ends_by_kill: bool = False, **arguments: Any) -> dict[str, Any]:
    """Call `module:function` in a fresh process, below `prefix` when given, and return its answer."""
    command = [*prefix, sys.executable, str(HERE / "trial.py"), function, json.dumps(arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if ended.returncode != (-signal.SIGKILL if ends_by_kill else 0):
        raise TrialFailed(f"{function}({arguments}) ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def resident_mib(field: str = "VmRSS") -> float:
    """This process's memory; VmHWM is the most it ever had."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def answer(result: dict[str, Any]) -> None:
    """What the child prints last."""
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    answer(getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2])))
