# SPDX-License-Identifier: Apache-2.0
"""`python -m mutants`: run a campaign, or go on with one, and say which bugs no test noticed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import yaml

from .operators import shown
from .reach import Near, Reach, find_out
from .rooms import ROOMS, ROOT
from .sample import Mutant, chosen
from .trial import Result, run

_KILLED_PERCENT_MIN = 95
_NO_REASON = "NONE GIVEN: write a test that notices, or a reason in survivors.yaml"
_REASONS = Path(__file__).parent / "survivors.yaml"


class Results:
    """What is known of mutants, on disk: a campaign that was interrupted goes on, and only survivors run again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._killed: dict[str, str] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                if row["verdict"] == "killed":
                    self._killed[row["fingerprint"]] = row["by"]

    def known(self, mutant: Mutant) -> bool:
        return mutant.fingerprint in self._killed

    def add(self, mutant: Mutant, result: Result) -> None:
        row = {"name": mutant.name, "fingerprint": mutant.fingerprint, "room": mutant.room.name, **result._asdict()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--room", choices=[room.name for room in ROOMS], help="only those of the sample")
    parser.add_argument("--only", default="", help="mutants whose name contains this, instead of a sample")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--results", type=Path, default=ROOT / "mutants-results.jsonl")
    parser.add_argument("--reach", type=Path, default=ROOT / "mutants-reach.jsonl", help="remove it to have it new")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long its tests may take in all, without the bug"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    options = parser.parse_args(arguments)
    mutants = chosen(10**6 if options.only else options.count, options.seed, options.only)
    if options.room:
        mutants = [mutant for mutant in mutants if mutant.room.name == options.room]
    if options.list:
        for mutant in mutants:
            print(mutant.name, *shown(mutant.path.read_bytes(), mutant.mutation), sep="\n  ")
        return 0
    reach = _reach(options.reach, options.processes)
    for test in reach.failed:
        print(f"{test} fails without a mutant, and takes no part")
    near = partial(reach.near, seconds_max=options.seconds)
    return _campaign(mutants, Results(options.results), near, options.processes)


def _reach(path: Path, processes: int) -> Reach:
    if path.exists():
        return Reach(path)
    print("all tests once without a mutant, to see which reaches what", flush=True)
    return find_out(path, processes)


def _campaign(mutants: list[Mutant], results: Results, near: Callable[[Mutant], Near], processes: int) -> int:
    to_run = [mutant for mutant in mutants if not results.known(mutant)]
    print(f"{len(mutants)} mutants, {len(mutants) - len(to_run)} known to be killed")
    survivors = []
    began = time.monotonic()
    with ThreadPoolExecutor(processes) as pool:
        running = {pool.submit(run, mutant, near(mutant)): mutant for mutant in to_run}
        for number, future in enumerate(as_completed(running), 1):
            mutant, result = running[future], future.result()
            results.add(mutant, result)
            if result.verdict == "survived":
                survivors.append(mutant)
            minutes = (time.monotonic() - began) / 60
            left = minutes / number * (len(to_run) - number)
            print(
                f"{number}/{len(to_run)} {minutes:.0f} min, {left:.0f} to go: "
                f"{result.verdict} {mutant.name} {result.by}",
                flush=True,
            )
    return _report(mutants, survivors)


def _report(mutants: list[Mutant], survivors: list[Mutant]) -> int:
    reasons: dict[str, str] = yaml.safe_load(_REASONS.read_text()) or {}
    print()
    total, survived = (Counter(mutant.room.name for mutant in group) for group in (mutants, survivors))
    for room in ROOMS:
        print(f"{room.name:14} {total[room.name] - survived[room.name]:4} of {total[room.name]:4} killed")
    for mutant in sorted(survivors, key=lambda mutant: mutant.name):
        print(f"\nsurvived: {mutant.name} (line {mutant.mutation.line})")
        print(*shown(mutant.path.read_bytes(), mutant.mutation), sep="\n")
        print(f"reason: {reasons.get(mutant.name, _NO_REASON)}")
    killed = len(mutants) - len(survivors)
    percent = 100 * killed / len(mutants) if mutants else 100
    print(f"\n{killed} of {len(mutants)} mutants killed, {percent:.1f} %; {_KILLED_PERCENT_MIN} % are wanted")
    unexplained = [mutant for mutant in survivors if mutant.name not in reasons]
    return 1 if percent < _KILLED_PERCENT_MIN or unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
