# SPDX-License-Identifier: Apache-2.0
"""Fuzzing with coverage guidance: every reader of strangers' bytes meets millions of inputs.

    PYTHONPATH=tests python -m fuzz --runs 10000000           all targets; `make torture` does this
    PYTHONPATH=tests python -m fuzz --runs 100000 selector    one of them
    PYTHONPATH=tests python -m fuzz selector FILE             one input once more, as a finding tells
    PYTHONPATH=tests python -m fuzz --keep --runs 100000      add to the corpus what reaches new code

atheris (extra `fuzz`) changes inputs and watches which lines of ours they
reach. A target is a process of its own, since its first finding ends it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from .corpus import read_corpus, write_corpus
from .target import Target
from .targets import all_targets, targets_of

FINDINGS = Path("fuzz-findings")
SEED_PREFIX = "seed-"
INPUT_SECONDS_MAX = 60
"""An input that takes longer is a finding; a busy machine takes part of that for itself."""
MEMORY_MIB_MAX = 3000
KEPT_MAX = 25
KEPT_BYTES_MAX = 3000
"""For each target, with `--keep`: all of the corpus has less than 300 KB."""


@dataclass(frozen=True)
class Outcome:
    """What a campaign of one target has found."""

    target: str
    executions: int
    seconds: float
    finding: str
    """Empty, or how it ended and what to do to see it again."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--runs", type=int, default=100_000, help="executions in all")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", action="store_true", help="add to the corpus what reaches new code")
    parser.add_argument("--inside", nargs=2, metavar=("FAMILY", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", metavar="TARGET", help="targets, or one target and a file")
    asked = parser.parse_args()
    if asked.inside:
        family, folder = asked.inside
        fuzz(family, asked.words[0], asked.runs, folder)
    if len(asked.words) == 2 and Path(asked.words[1]).is_file():
        return run_once(asked.words[0], Path(asked.words[1]))
    return campaign(asked.words, asked.runs, asked.processes, keep=asked.keep)


def run_once(name: str, file: Path) -> int:
    """Read one input, without atheris."""
    _, target = all_targets()[name]
    target.run(file.read_bytes())
    print(f"{name}: {file} is read or refused")
    return 0


def campaign(names: list[str], runs: int, processes: int, *, keep: bool) -> int:
    """Fuzz all targets, each for about the same time; 1 if there was a finding."""
    targets = all_targets()
    chosen = {name: targets[name] for name in names or targets}
    speed = sum(target.per_second for _, target in chosen.values())

    def fuzz_one(family: str, target: Target) -> Outcome:
        outcome = _in_child(family, target, runs * target.per_second // speed, keep=keep)
        print(f"{outcome.target:24} {outcome.executions:12,} {outcome.executions / outcome.seconds:12,.0f}", flush=True)
        return outcome

    print(f"{'target':24} {'executions':>12} {'per second':>12}")
    with ThreadPoolExecutor(processes) as pool:
        outcomes = list(pool.map(lambda each: fuzz_one(*each), chosen.values()))
    findings = [outcome.finding for outcome in outcomes if outcome.finding]
    print(f"{'all':24} {sum(outcome.executions for outcome in outcomes):12,} executions, {len(findings)} findings")
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


def _in_child(family: str, target: Target, runs: int, *, keep: bool) -> Outcome:
    name = target.name
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate((*target.seeds, *read_corpus(name))):
            (Path(folder) / f"{SEED_PREFIX}{number:04}").write_bytes(seed)
        begun = time.monotonic()
        command = [sys.executable, "-m", "fuzz", "--inside", family, folder, "--runs", str(runs), name]
        printed = subprocess.run(command, capture_output=True, text=True, errors="replace").stderr
        seconds = time.monotonic() - begun
        if keep:
            _keep(name, Path(folder))
    counts = re.findall(r"^#(\d+)|^stat::number_of_executed_units: (\d+)", printed, re.MULTILINE)
    executions = max((int(first or second) for first, second in counts), default=0)
    came_through = re.search(r"^Done \d+ runs", printed, re.MULTILINE)
    return Outcome(name, executions, seconds, "" if came_through else _explained(name, printed))


def _explained(name: str, printed: str) -> str:
    written = re.search(r"Test unit written to (\S+)", printed)
    advice = f"Run it again: PYTHONPATH=tests {sys.executable} -m fuzz {name} {written[1]}" if written else ""
    traceback = re.search(r"=== Uncaught Python exception: ===\n(.*?)\n(?:==\d+==|INFO)", printed, re.DOTALL)
    return f"--- {name}\n{traceback[1] if traceback else printed[-3000:]}\n{advice}"


def _keep(name: str, folder: Path) -> None:
    """Add some of what atheris has found worth keeping beside the seeds, from the smallest to the largest."""
    kept = read_corpus(name)
    room_bytes = KEPT_BYTES_MAX - sum(map(len, kept))
    found = [path.read_bytes() for path in folder.iterdir() if not path.name.startswith(SEED_PREFIX)]
    for each in sorted(found, key=len)[:: max(1, len(found) // KEPT_MAX)]:
        if each and len(kept) < KEPT_MAX and len(each) <= room_bytes:
            kept.append(each)
            room_bytes -= len(each)
    if kept:
        write_corpus(name, kept)


def fuzz(family: str, name: str, runs: int, folder: str) -> NoReturn:
    """Fuzz one target in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["entrepot"]):
        target = targets_of(family)[name]
        for seed in target.seeds:  # some modules are imported when they are needed
            target.run(seed)
    FINDINGS.mkdir(exist_ok=True)
    options = [
        f"-runs={runs}",
        f"-max_len={target.bytes_max}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-artifact_prefix={FINDINGS}/{name}-",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, folder], target.run)
    atheris.Fuzz()
    raise AssertionError("libFuzzer ends the process")


if __name__ == "__main__":
    sys.exit(main())
