# SPDX-License-Identifier: Apache-2.0
"""One mutant on trial: the tests nearest to it, until one notices."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from .reach import HOOK, Near
from .rooms import ROOT
from .sample import Mutant

_PASSED, _NOTHING_RUN = 0, 5
"""pytest's exit codes of tests that noticed nothing."""
_TEST_S_MAX = 120
_TRIAL_S_MAX = 600
_FILE_BYTES_MAX = 1 << 30
"""A mutant that writes without end meets this before it meets the end of the disk."""
_MEMORY_BYTES_MAX = 10 << 30
"""And one that gathers without end this, before the machine has no more."""


class Result(NamedTuple):
    """What became of a mutant."""

    verdict: Literal["killed", "survived"]
    by: str
    """The test that noticed, or how it ended, or how many did not notice."""
    seconds: float


def run(mutant: Mutant, near: Near) -> Result:
    """Plant it, run the tests that are nearest, and leave nothing behind."""
    files = _files(mutant, near)
    if not files:
        return Result("survived", "no test reaches it", 0.0)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL, which has a user of its own, finds its way through it
        path = folder / mutant.path.name
        path.write_bytes(mutant.source)
        (folder / "tests.json").write_text(json.dumps({"near": near.tests, "far": near.far}))
        noticed = _noticed(files, folder, f"{mutant.module}={path}")
    seconds = round(time.monotonic() - began, 1)
    return Result("killed", noticed, seconds) if noticed else Result("survived", f"{len(near.tests)} tests", seconds)


def _files(mutant: Mutant, near: Near) -> list[str]:
    """Where those tests are, and the module's own files, which may have tests that are new."""
    own = (str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob(f"test_{mutant.path.stem}*.py"))
    known = (test.partition("::")[0] for test in near.tests)
    return [file for file in dict.fromkeys((*own, *known)) if (ROOT / file).exists()]


def _noticed(files: list[str], folder: Path, planted: str) -> str:
    environment = {**os.environ, "ENTREPOT_MUTANT": planted, "MUTANT_TESTS": str(folder / "tests.json")}
    environment |= {"PYTHONPATH": str(HOOK), "TMPDIR": str(folder), "MUTANT_OF": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "--no-header", "--tb", "no", "-rfE"]
    # By its thread, pytest-timeout also ends a process whose clean-up hangs.
    command += ["-m", "not torture", "--timeout", str(_TEST_S_MAX), "--timeout-method", "thread"]
    command += ["-p", "no:cacheprovider", "-p", "mutant_tests"]
    command += files
    limited = ["prlimit", f"--fsize={_FILE_BYTES_MAX}", f"--as={_MEMORY_BYTES_MAX}", *command]
    process = subprocess.Popen(  # noqa: S603 - our own tests
        limited, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=_TRIAL_S_MAX)
    except subprocess.TimeoutExpired:
        return ""  # a test that hangs has met its own limit before; this is a slow machine, and no verdict
    finally:
        _end_all(folder)
        process.wait()
    if process.returncode in (_PASSED, _NOTHING_RUN):
        return ""
    named = [line for line in output.decode(errors="replace").splitlines() if line.startswith(("FAILED", "ERROR"))]
    return named[0].partition(" - ")[0] if named else f"exit code {process.returncode}"


def _end_all(folder: Path) -> None:
    """End every process of the trial, also those that its mutant kept from ending.

    They are found by the trial's folder in their environment, whatever group or session they are in.
    """
    mark = f"MUTANT_OF={folder}".encode()
    for pid in _processes():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())
