# SPDX-License-Identifier: Apache-2.0
"""Both forms pass the same tests (docs/decisions/0036-compiled-forms.md).

Which form runs is decided when modules are imported, so the one in pure
Python needs processes of its own. They run the tests nearest to what is
compiled; `make torture` runs all tests in pure Python.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from entrepot.compiled import compiled, form

ROOT = Path(__file__).parents[2]
NEAREST = (
    "unit/client",
    *(f"contract/test_{name}.py" for name in ("consuming", "put_many")),
    *(f"unit/models/test_{name}.py" for name in ("assembling", "cwf", "tds")),
    *(f"unit/engine/test_{name}.py" for name in ("entry", "express", "group_commit", "lane", "queue", "restart")),
    *(
        f"unit/server/test_{name}.py"
        for name in ("native_connection", "native_consumers", "native_flow", "native_units")
    ),
    *(
        f"simulation/test_simulation.py::test_a_thousand_seeds_lose_nothing_and_bring_nothing_twice[{seed}]"
        for seed in range(3)
    ),
)
"""What is run again, below tests/, in one process: each would import and collect for itself."""


def pure(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python without compiled modules, and without what tells it that it is part of a run of tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment | {"ENTREPOT_PURE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(bool(os.environ.get("ENTREPOT_PURE")), reason="the form in pure Python was asked for")
@pytest.mark.skipif("CC" in os.environ, reason="the compiler was chosen, perhaps none")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_the_compiled_form_runs_where_there_is_a_compiler() -> None:
    """A module that cannot be compiled or imported is replaced without a word; here it is noticed."""
    modules = [path.stem for path in (ROOT / "src/entrepot/compiled").glob("*.pyx")]
    assert [name for name in modules if compiled(name) is None] == []
    assert form() == "compiled"


def test_the_form_in_pure_python_runs_where_it_is_asked_for() -> None:
    shown = pure(
        "-c",
        "from entrepot.compiled import form\n"
        "from entrepot.engine.entry import QueuedMessage\n"
        "print(form(), QueuedMessage.__module__)",
    )
    assert shown.stdout == "pure Python entrepot.engine.entry\n", shown.stderr


@pytest.mark.skipif(form() == "pure Python", reason="all tests of this run are in pure Python")
def test_the_nearest_tests_pass_in_pure_python() -> None:
    ended = pure(
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not torture",
        *(f"tests/{name}" for name in NEAREST),
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    assert re.search(r"^\d+ passed", ended.stdout, re.MULTILINE), ended.stdout[-2000:]
