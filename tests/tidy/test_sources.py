# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from .pages import ROOT, SOURCE, project_files

LINES_MAX = 700
BANNED = {"utils", "helpers", "common", "misc", "base", "core", "data", "manager"}

# Written in pieces, so that this file does not name them itself.
REGISTRIES = re.compile("|".join(rf"{name}\.{end}" for name, end in [
    ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("docker", "io"), ("ghcr", "io"), ("anaconda", "org"),
]))  # fmt: skip
MACHINE_PATHS = re.compile(r"(?<![\w.$}~/])/(?:home|root|work|opt|Users|mnt)" + r"/[\w.-]+")

PYTHON = sorted(SOURCE.rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return None


def test_every_source_file_begins_with_its_licence() -> None:
    folders = ("src", "tests", "bench", "examples", "tools")
    sources = [path for path in project_files() if path.suffix in (".py", ".lark") and _name(path).startswith(folders)]
    line = re.compile(r"(#|//) SPDX-License-Identifier: Apache-2\.0\n")
    assert [_name(path) for path in sources if not line.match(path.read_text())] == []


def test_module_names_say_what_is_inside() -> None:
    names = {path: path.stem.strip("_") for path in [*PYTHON, *(path for path in SOURCE.rglob("*") if path.is_dir())]}
    assert [_name(path) for path, name in names.items() if name in BANNED] == []


def test_modules_stay_short() -> None:
    lines = {_name(path): len(path.read_text().splitlines()) for path in PYTHON}
    assert {name: count for name, count in lines.items() if count > LINES_MAX} == {}


def test_every_module_says_what_it_is_for() -> None:
    assert [_name(path) for path in PYTHON if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    changes = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[0] == project
    assert version("entrepot") == project


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    required = [*project["dependencies"], *(line for extra in extras for line in extra)]
    names = {re.split(r"[<>=!~\[; ]", line)[0] for line in required}
    page = (ROOT / "docs/decisions/0002-dependencies.md").read_text()
    told = {name for row in re.findall(r"^\| ([\w, -]+) \|", page, re.MULTILINE) for name in row.split(", ")}
    assert names - told == set()


def test_decisions_are_numbered_and_complete() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    # Pages of work that goes on side by side arrive in any order, so there may be gaps.
    assert len({int(page.name[:4]) for page in pages}) == len(pages)
    parts = ("**Context.**", "**Choice.**", "**Price.**", "**How we would know it was wrong.**")
    assert [f"{page.name}: {part}" for page in pages for part in parts if part not in page.read_text()] == []


def test_no_file_names_a_registry_or_a_place_on_one_machine() -> None:
    found = []
    for path in project_files():
        text = _text(path)
        if text is not None:
            hits = [*REGISTRIES.findall(text), *MACHINE_PATHS.findall(text)]
            found += [f"{_name(path)}: {hit}" for hit in hits]
    assert found == []


def test_layers_hold() -> None:
    finished = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
