# SPDX-License-Identifier: Apache-2.0
"""Where a run took place; results of different machines must not be compared."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import sqlite3
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("entrepot", "crc32c", "msgspec", "litequeue", "persist-queue")


def describe(folder: Path) -> dict[str, Any]:
    return {
        "host": platform.node(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average_1_min": os.getloadavg()[0],
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: _version(name) for name in _PACKAGES},
        "commit": _commit(folder),
        "source": source(),
        "file_system": _file_system(folder),
    }


def source() -> dict[str, str]:
    """Which entrepot is measured: where it lies, and a digest of its files."""
    found = importlib.util.find_spec("entrepot")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return {"folder": str(package), "sha256": digest.hexdigest()}


def resident_mib(field: str = "VmRSS") -> float:
    """This process's memory; VmHWM is the most it ever had."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _cpu() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.processor()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit(folder: Path) -> str:
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout.strip()


def _file_system(folder: Path) -> dict[str, str]:
    """The mount that the folder lies on: the longest mount point above it."""
    best: list[str] = []
    for line in Path("/proc/mounts").read_text().splitlines():
        fields = line.split()
        if folder.is_relative_to(fields[1]) and (not best or len(fields[1]) >= len(best[1])):
            best = fields
    return {"device": best[0], "mount": best[1], "kind": best[2], "options": best[3]} if best else {}
