# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import entrepot
from entrepot.mqsc import check_script

from .pages import PAGES, ROOT, blocks, page_name

README = ROOT / "README.md"


def test_readme_example_runs_as_it_stands(tmp_path: Path) -> None:
    (example,) = blocks(README, "python")
    finished = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "b'504 euros'\n"


def test_readme_example_and_readme_are_short() -> None:
    (example,) = blocks(README, "python")
    assert len(example.splitlines()) <= 15
    assert len(README.read_text().splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_mqsc_of_a_page_has_no_mistake(page: Path) -> None:
    assert [str(error) for script in blocks(page, "mqsc") for error in check_script(script, page_name(page))] == []


def test_mqsc_of_the_readme_can_be_carried_out(tmp_path: Path) -> None:
    (script,) = blocks(README, "mqsc")
    with entrepot.connect(f"embedded:{tmp_path}/qm") as connection:
        answers = connection.mqsc(script)
    assert [answer.warnings for answer in answers if answer.warnings] == []
