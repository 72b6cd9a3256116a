# SPDX-License-Identifier: Apache-2.0
"""Which tests reach which block of the mutated rooms, found by running all of them once.

Only a test that reaches a bug can notice it. Those that do are tried with
the module's own first and then the shortest first, as far as the time for
one mutant goes.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .hook.mutant_marks import blocks
from .rooms import ROOMS, ROOT, module_name
from .sample import Mutant

HOOK = Path(__file__).parent / "hook"
TRIAL_S_MAX = 60.0
"""How long the tests of one mutant may take in all, by what they took without it."""


class Near(NamedTuple):
    """The tests to try on a mutant, nearest first, and all others that are known."""

    tests: Sequence[str]
    far: Sequence[str]


class Reach:
    """What each test reaches, as a file says that is as old as the sources."""

    def __init__(self, path: Path) -> None:
        with path.open() as file:
            head: dict[str, Any] = json.loads(next(file))
            rows = [json.loads(line) for line in file]
        self._rows = [row for row in rows if not row.get("failed")]
        self.failed: list[str] = [row["test"] for row in rows if row.get("failed")]
        """Tests that fail without a mutant: their verdict means nothing."""
        self._first: dict[str, int] = head["first"]
        self._of_sources: str = head["sources"]
        self._reaching: dict[int, list[int]] = {}
        for place, row in enumerate(self._rows):
            for block in row["reached"]:
                self._reaching.setdefault(block, []).append(place)

    @classmethod
    def known(cls, path: Path) -> Reach | None:
        """What was found before, if the sources are still the same."""
        if not path.exists():
            return None
        reach = cls(path)
        return reach if reach._of_sources == _fingerprint() else None

    def near(self, mutant: Mutant) -> Near:
        """Where to look for a test that notices."""
        block = _block_at(mutant.path, mutant.mutation.line)
        places = self._reaching.get(self._first[mutant.module] + block, [])
        own = f"/test_{mutant.path.stem}"
        rows = sorted((self._rows[place] for place in places), key=lambda row: (own not in row["test"], row["seconds"]))
        chosen: list[str] = []
        seconds = 0.0
        for row in rows:
            seconds += row["seconds"]
            if seconds > TRIAL_S_MAX and chosen:
                break
            chosen.append(row["test"])
        return Near(chosen, sorted({row["test"] for row in self._rows} - set(chosen)) + self.failed)


def find_out(path: Path, processes: int) -> Reach:
    """Run all tests once, and write down what each reaches."""
    table = _table()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - PostgreSQL, which has a user of its own, finds its way through it
        (Path(folder) / "table.json").write_text(json.dumps(table))
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-n", str(processes), "--dist", "loadgroup"]
        command += ["-p", "mutant_tests", "-m", "not torture", "--timeout", "900", "tests"]
        environment = {**os.environ, "PYTHONPATH": str(HOOK), "MUTANT_MARKS": folder, "TMPDIR": folder}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603 - our own tests
        rows = [text for part in sorted(Path(folder).glob("reached-*.jsonl")) for text in part.read_text().splitlines()]
    head = {"sources": _fingerprint(), "first": table["first"]}
    path.write_text("\n".join([json.dumps(head), *rows]) + "\n")
    return Reach(path)


def _table() -> dict[str, Any]:
    """The number of each module's first block, and how many there are in all."""
    first: dict[str, int] = {}
    count = 0
    for path in _modules():
        first[module_name(path)] = count
        count += len(list(blocks(ast.parse(path.read_bytes()))))
    return {"first": first, "blocks": count}


def _block_at(path: Path, line: int) -> int:
    """Which block of a module a line is in: the smallest that has it."""
    spans = {
        number: (block[0].lineno, block[-1].end_lineno or 0)
        for number, block in enumerate(blocks(ast.parse(path.read_bytes())))
    }
    around = {number: last - first for number, (first, last) in spans.items() if first <= line <= last}
    return min(around, key=lambda number: around[number])


def _modules() -> list[Path]:
    return sorted({path for room in ROOMS for path in room.files()})


def _fingerprint() -> str:
    found = hashlib.sha256()
    for path in _modules():
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
