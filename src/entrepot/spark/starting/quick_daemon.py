# SPDX-License-Identifier: Apache-2.0
"""The process that Spark's Python workers are forked from, ready a second earlier.

Spark puts pyspark as a zip file before everything else on the path of its
workers, and what Python imports from there it compiles anew each time. Here,
where the same pyspark is installed, its compiled form is taken instead. What
every worker is going to import is imported here, once for all of them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from pathlib import Path

PRELOAD = "ENTREPOT_PRELOAD"
"""The variable that names the modules, with commas between them."""
DAEMON = "ENTREPOT_DAEMON"
"""The variable in which workers find this process's number, and so see when it is gone."""


def parent_at_start() -> int:
    """The process that has forked this worker, also if it is gone already."""
    daemon, parent = int(os.environ.get(DAEMON) or 0), os.getppid()
    # One that is told and lives, and is not the parent, is that of a process further up.
    return daemon if daemon and daemon != parent and not Path(f"/proc/{daemon}").exists() else parent


def _without_zip(path: list[str]) -> list[str]:
    return [entry for entry in path if not entry.endswith("/pyspark.zip")]


def _preload(names: str) -> None:
    for name in filter(None, names.split(",")):
        # A worker that needs it will say that it is missing; others can do without.
        with contextlib.suppress(ImportError):
            import_module(name)


if __name__ == "__main__":
    sys.path[:] = _without_zip(sys.path)
    _preload(os.environ.get(PRELOAD, ""))
    os.environ[DAEMON] = str(os.getpid())

    from pyspark.daemon import manager

    manager()
