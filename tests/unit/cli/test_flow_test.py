# SPDX-License-Identifier: Apache-2.0
"""`entrepot flow test`: verdicts for people, for programs and for build servers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from lxml import etree
from typer.testing import CliRunner, Result

from entrepot.cli import flow_test

EXAMPLES = Path(__file__).parents[3] / "examples" / "flows"
GOLDEN = Path(__file__).parents[2] / "golden" / "flows" / "projects"
FLOW = "flow: shop\nnodes:\n  In: {type: MQInput, queue: IN, to: Out}\n  Out: {type: MQOutput, queue: OUT}\n"
GOOD = "cases:\n  it passes on: {feed: {to: IN, body: hello}, expect: {OUT: hello}}\n"
BAD = "cases:\n  it shouts: {feed: {to: IN, body: hello}, expect: {OUT: HELLO}}\n"


def run(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.command()(flow_test.test)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(FLOW)
    (tmp_path / "shop.test.yaml").write_text(GOOD)
    return tmp_path


def test_the_example_passes() -> None:
    finished = run(EXAMPLES)
    assert finished.exit_code == 0, finished.output
    assert "3 cases, none failed." in finished.output


def test_a_flow_stands_for_the_test_file_beside_it(folder: Path) -> None:
    finished = run(folder / "shop.yaml")
    assert finished.exit_code == 0
    assert "passed" in finished.output
    assert "it passes on" in finished.output


def test_a_case_that_fails_is_told_with_its_place_and_exit_code_1(folder: Path) -> None:
    (folder / "shop.test.yaml").write_text(GOOD + BAD.removeprefix("cases:\n"))
    finished = run(folder)
    assert finished.exit_code == 1
    assert "shop.test.yaml:3:3" in finished.output
    assert "on OUT: from byte 0 on: expected 'HELLO', found 'hello'" in finished.output
    assert "2 cases, 1 failed." in finished.output
    assert run(folder, "--only", "passes").exit_code == 0


def test_for_programs_it_is_json(folder: Path) -> None:
    (folder / "shop.test.yaml").write_text(BAD)
    finished = run(folder, "--json")
    (verdict,) = json.loads(finished.output)
    assert finished.exit_code == 1
    assert (verdict["case"], verdict["passed"]) == ("it shouts", False)
    assert verdict["problems"]


def test_for_build_servers_it_is_junit(folder: Path) -> None:
    (folder / "shop.test.yaml").write_text(GOOD + BAD.removeprefix("cases:\n"))
    run(folder, "--junit", folder / "report.xml")
    root = etree.parse(folder / "report.xml").getroot()
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [False, True]


def test_a_file_that_cannot_be_read_hides_nothing_of_the_others(folder: Path) -> None:
    (folder / "a.test.yaml").write_text("casse: {}")
    (folder / "b.test.yaml").write_text(GOOD)
    finished = run(folder)
    assert finished.exit_code == 1
    assert "did you mean cases?" in finished.output
    assert "b.yaml" in finished.output
    assert "it passes on" in finished.output
    assert "3 cases, 2 failed." in finished.output


def test_no_cases_are_no_success(folder: Path) -> None:
    assert run(folder, "--only", "nothing like it").exit_code == 1
    assert run(folder / "missing.test.yaml").exit_code == 2
    (folder / "empty").mkdir()
    assert run(folder / "empty").exit_code == 2


def test_a_msgflow_is_tested_like_a_flow_of_ours_and_one_without_cases_is_told_what_it_needs(tmp_path: Path) -> None:
    projects = tmp_path / "projects"
    shutil.copytree(GOLDEN / "Requests", projects / "Requests")
    flow = projects / "Requests" / "Requests.msgflow"
    finished = run(flow)
    assert finished.exit_code == 2
    said = " ".join(finished.output.replace("│", "").split())
    assert "its cases are missing: write them to Requests.test.yaml" in said
    flow.with_name("Requests.test.yaml").write_text("cases:\n  time goes by: {pass_time: 1}\n")
    for path in (flow, projects):
        finished = run(path, "--project", GOLDEN)
        assert finished.exit_code == 0, finished.output
        assert "1 case, none failed." in finished.output
