# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mutants import trial
from mutants.__main__ import Results, _campaign
from mutants.hook.mutant_marks import blocks, marked
from mutants.operators import OPERATORS, Mutation, mutations, shown
from mutants.reach import Near, Reach
from mutants.rooms import ROOMS, ROOT, Room
from mutants.sample import Mutant, all_mutants, chosen

SOURCE = b'''
class Store:
    def save(self, count):
        """Text is left alone."""
        if count >= 10:
            raise ValueError(f"{count + 1} are too many")
        self.write(count + 1)
        self.file.force()
        LOGGER.info("saved %d", 7)
        return (count or self.most) == (3 if self.quick and self.sure else 4)
'''


def planted(operator: str) -> list[str]:
    return [
        " ".join(line[2:] for line in shown(SOURCE, mutation) if line.startswith("+"))
        for mutation in mutations(SOURCE)
        if mutation.operator == operator
    ]


def test_each_operator_plants_its_bug() -> None:
    assert planted("removed force") == ["pass"]
    assert planted("removed call") == ["pass"]
    assert planted("swapped order") == ["self.file.force() self.write(count + 1)"]
    assert planted("off by one") == ["if count > 10:", "self.write(count + 0)"]
    assert planted("dropped check") == [
        "if False:",
        "return ((count)) == (3 if self.quick and self.sure else 4)",
        "return (count or self.most) == (3 if (self.quick) else 4)",
    ]
    assert "if count >= 11:" in planted("wrong constant")


def test_words_for_people_are_no_place_for_a_bug() -> None:
    lines = {mutation.line for mutation in mutations(SOURCE)}
    assert lines.isdisjoint({4, 6, 9})


def test_every_mutant_is_python_and_has_a_name_of_its_own() -> None:
    every = all_mutants()
    assert len({mutant.name for mutant in every}) == len(every) > 4000
    for mutant in every[::97]:
        ast.parse(mutant.source)


def test_a_sample_is_the_same_for_the_same_seed_and_has_something_of_everything() -> None:
    sample = chosen(120, seed=1)
    assert [mutant.name for mutant in sample] == [mutant.name for mutant in chosen(120, seed=1)]
    assert {mutant.room.name for mutant in sample} == {room.name for room in ROOMS}
    assert {mutant.mutation.operator for mutant in sample} == set(OPERATORS)


def test_a_process_and_its_children_import_the_mutant(tmp_path: Path) -> None:
    mutated = tmp_path / "limits.py"
    mutated.write_text("PLANTED = True\n")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tools" / "mutants" / "hook"),
        "ENTREPOT_MUTANT": f"entrepot.limits={mutated}",
    }
    asked = "import entrepot.limits as m; assert m.PLANTED and m.__file__.endswith('src/entrepot/limits.py')"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {asked!r}], check=True); {asked}"
    subprocess.run([sys.executable, "-c", parent], env=environment, check=True)


MODULE = Room("trial", ("limits.py",))
TOLD = """
def told(often):
    'Why.'
    for _ in range(often):
        if often > 1:
            yield 1
        else:
            yield 2
    try:
        pass
    finally:
        yield 3
"""


def test_marks_say_which_blocks_were_reached() -> None:
    spans = [(block[0].lineno, block[-1].end_lineno) for block in blocks(ast.parse(TOLD))]
    reached = bytearray(10 + len(spans))
    namespace: dict[str, Any] = {"__reached__": reached}
    exec(marked(TOLD, "told.py", 10), namespace)
    assert namespace["told"].__doc__ == "Why."
    assert list(namespace["told"](1)) == [2, 3]
    lines = {spans[number - 10][0] for number, mark in enumerate(reached) if mark}
    assert lines == {3, 5, 8, 10, 12}
    assert len(spans) == 6, "all but the line of the 1"


def mutant() -> Mutant:
    path = MODULE.files()[0]
    source = path.read_bytes()
    return Mutant(MODULE, path, Mutation("wrong constant", "", 1, 1, len(source), len(source), b"\nPLANTED = True\n"))


def test_tests_near_a_mutant_are_its_own_and_then_the_shortest(tmp_path: Path) -> None:
    lane = next(mutant for mutant in all_mutants() if mutant.path.name == "lane.py")
    rows = [
        {"test": "tests/a/test_a.py::long", "seconds": 9.0, "reached": list(range(2000))},
        {"test": "tests/a/test_a.py::endless", "seconds": 999.0, "reached": list(range(2000))},
        {"test": "tests/a/test_a.py::short", "seconds": 1.0, "reached": list(range(2000))},
        {"test": "tests/b/test_lane.py::own", "seconds": 2.0, "reached": list(range(2000))},
        {"test": "tests/b/test_lane.py::elsewhere", "seconds": 2.0, "reached": []},
        {"test": "tests/b/test_lane.py::broken", "seconds": 2.0, "reached": list(range(2000)), "failed": True},
    ]
    head = {"modules": {lane.module: [0, 2000, "other"]}}
    path = tmp_path / "reach.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (head, *rows)))
    near = Reach(path).near(lane, 60.0)
    assert [test.partition("::")[2] for test in near.tests] == ["own", "short", "long"]
    assert [test.partition("::")[2] for test in near.far] == ["endless", "elsewhere", "broken"]


def test_a_mutant_is_killed_by_a_test_that_notices_and_survives_one_that_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noticing = Near(["tests/unit/tools/noticing.py::test_nothing_is_planted"], [])
    blind = Near(["tests/unit/tools/noticing.py::test_blind"], noticing.tests)
    killed = trial.run(mutant(), noticing)
    assert killed[:2] == ("killed", f"FAILED {noticing.tests[0]}")
    assert trial.run(mutant(), blind)[:2] == ("survived", "1 tests")
    assert trial.run(mutant(), Near([], [])).by == "no test reaches it"
    results = tmp_path / "results.jsonl"
    nears = iter([noticing, blind])
    assert _campaign([mutant(), mutant()], Results(results), lambda _: next(nears), processes=1) == 1
    assert "1 of 2 mutants killed, 50.0 %" in capsys.readouterr().out
    assert Results(results).known(mutant())
    assert _campaign([mutant()], Results(results), lambda _: blind, processes=1) == 0
