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


class Near(NamedTuple):
    """The tests to try on a mutant, nearest first, and all others that are known."""

    tests: Sequence[str]
    far: Sequence[str]


class Reach:
    """What each test reached when all of them ran last, as a file says."""

    def __init__(self, path: Path) -> None:
        with path.open() as file:
            head: dict[str, Any] = json.loads(next(file))
            rows = [json.loads(line) for line in file]
        self._rows = [row for row in rows if not row.get("failed")]
        self.failed: list[str] = [row["test"] for row in rows if row.get("failed")]
        """Tests that fail without a mutant: their verdict means nothing."""
        self._modules: dict[str, list[Any]] = head["modules"]
        self._reaching: dict[int, list[int]] = {}
        for place, row in enumerate(self._rows):
            for block in row["reached"]:
                self._reaching.setdefault(block, []).append(place)

    def near(self, mutant: Mutant, seconds_max: float) -> Near:
        """Where to look for a test that notices."""
        places = sorted({place for block in self._blocks(mutant) for place in self._reaching.get(block, [])})
        own = f"/test_{mutant.path.stem}"
        rows = sorted((self._rows[place] for place in places), key=lambda row: (own not in row["test"], row["seconds"]))
        chosen: list[str] = []
        seconds = 0.0
        for row in rows:
            seconds += row["seconds"]
            if seconds > seconds_max and chosen:
                break
            chosen.append(row["test"])
        return Near(chosen, sorted({row["test"] for row in self._rows} - set(chosen)) + self.failed)

    def _blocks(self, mutant: Mutant) -> Sequence[int]:
        """The mutant's block; all of its module, when that has changed since."""
        first, count, fingerprint = self._modules.get(mutant.module, (0, 0, ""))
        if fingerprint != _fingerprint(mutant.path):
            return range(first, first + count)
        return [first + _block_at(mutant.path, mutant.mutation.line)]


def find_out(path: Path, processes: int) -> Reach:
    """Run all tests once, and write down what each reaches."""
    modules = _modules()
    table = {
        "first": {name: first for name, (first, _, _) in modules.items()},
        "blocks": sum(count for _, count, _ in modules.values()),
    }
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - PostgreSQL, which has a user of its own, finds its way through it
        (Path(folder) / "table.json").write_text(json.dumps(table))
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-n", str(processes), "--dist", "loadgroup"]
        command += ["-p", "mutant_tests", "-m", "not torture", "--timeout", "900", "tests"]
        environment = {**os.environ, "PYTHONPATH": str(HOOK), "MUTANT_MARKS": folder, "TMPDIR": folder}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603 - our own tests
        rows = [text for part in sorted(Path(folder).glob("reached-*.jsonl")) for text in part.read_text().splitlines()]
    path.write_text("\n".join([json.dumps({"modules": modules}), *rows]) + "\n")
    return Reach(path)


def _modules() -> dict[str, tuple[int, int, str]]:
    """The number of each module's first block, how many it has, and what it was then."""
    found = {}
    first = 0
    for path in sorted({path for room in ROOMS for path in room.files()}):
        count = len(list(blocks(ast.parse(path.read_bytes()))))
        found[module_name(path)] = first, count, _fingerprint(path)
        first += count
    return found


def _block_at(path: Path, line: int) -> int:
    """Which block of a module a line is in: the smallest that has it."""
    spans = {
        number: (block[0].lineno, block[-1].end_lineno or 0)
        for number, block in enumerate(blocks(ast.parse(path.read_bytes())))
    }
    around = {number: last - first for number, (first, last) in spans.items() if first <= line <= last}
    return min(around, key=lambda number: around[number])


def _fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
