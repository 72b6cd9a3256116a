# SPDX-License-Identifier: Apache-2.0
"""Programs as shops write them, each with messages and what must come out; derived by hand.

`corpus/NAME.esql` is a project, `corpus/NAME.yaml` has its cases; running.py says how they are written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from entrepot.errors import EntrepotError
from entrepot.models.assembling import render_message
from entrepot.models.message_sets import load_set, register_set
from folding import for_each

from .running import Outcome, body_of, paths, program_of, run_case, shown

CORPUS = Path(__file__).parent / "corpus"
PROJECTS = sorted(path.stem for path in CORPUS.glob("*.yaml"))
CASES_MIN = 60

register_set(load_set(CORPUS / "models" / "branch.yaml"))


def _project(name: str) -> dict[str, Any]:
    project: dict[str, Any] = yaml.safe_load((CORPUS / f"{name}.yaml").read_text())
    return project


CASES = [
    pytest.param(name, {**project, **case}, id=f"{name}-{case['says']}")
    for name in PROJECTS
    for project in [_project(name)]
    for case in project["cases"]
]


def test_every_program_has_cases_and_there_are_enough() -> None:
    used = set(PROJECTS) | {Path(other).stem for name in PROJECTS for other in _project(name).get("with", [])}
    assert {path.stem for path in CORPUS.glob("*.esql")} == used
    assert len(CASES) >= CASES_MIN


@for_each(("name", "case"), CASES)
def test_program_does_what_its_case_says(name: str, case: dict[str, Any]) -> None:
    files = [f"{name}.esql", *case.get("with", [])]
    program = program_of({file: (CORPUS / file).read_text() for file in files})
    module = program.module(case.get("module", next(iter(program.modules))))
    outcome = Outcome()
    bodies: list[str] = []
    failure: EntrepotError | None = None
    try:
        for _ in range(case.get("times", 1)):
            outcome = run_case(module, case)
        bodies = [body_of(assembly) for _, assembly in outcome.outputs]
    except EntrepotError as error:
        if "fails" not in case:
            raise
        failure = error
    _check_failure(case.get("fails"), failure)
    if "gives" in case:
        assert len(outcome.outputs) == len(case["gives"])
        for (terminal, assembly), body, expected in zip(outcome.outputs, bodies, case["gives"], strict=True):
            assert terminal == expected.get("terminal", "out")
            if "body" in expected:
                assert body == expected["body"]
            if "local" in expected:
                assert paths(assembly.local_environment) == expected["local"]
            if "properties" in expected:
                assert dict(render_message(assembly.root).properties) == expected["properties"]
            for path, value in expected.get("tree", {}).items():
                assert (path, shown(assembly.root.get(*path.split(".")))) == (path, value)
    if "environment" in case:
        assert paths(outcome.environment) == case["environment"]
    if "answer" in case:
        assert outcome.answer is case["answer"]
    if "reports" in case:
        assert [list(report) for report in outcome.reports] == case["reports"]
    for number, word in case.get("report_words", {}).items():
        assert word in outcome.reports[number][2]
    for query, rows in case.get("rows", {}).items():
        assert outcome.connection is not None
        assert [list(row) for row in outcome.connection.execute(query)] == rows


def _check_failure(expected: dict[str, Any] | None, failure: EntrepotError | None) -> None:
    if expected is None:
        return
    assert failure is not None, "the program is to fail"
    assert failure.code == expected["code"], str(failure)
    if "says" in expected:
        assert expected["says"] in failure.what
    if "line" in expected:
        assert getattr(failure, "place", "").endswith(f".esql:{expected['line']}")
    if "state" in expected:
        assert getattr(failure, "state", "") == expected["state"]
