# SPDX-License-Identifier: Apache-2.0
"""What `make package` stands on; the building and installing itself takes too long for a test."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from package import __main__ as package
from package.interpreters import declared, find

ROOT = Path(__file__).parents[3]
OF_ITSELF = {"LICENSE", "README.md", "pyproject.toml"}
"""What setuptools puts into every sdist."""


def test_manifest_names_every_file_and_folder_of_the_root() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no clone")
    roots = {name.split("/")[0] for name in listed.stdout.splitlines()}
    named = {word for line in (ROOT / "MANIFEST.in").read_text().splitlines() for word in line.split()[1:]}
    assert roots - named - OF_ITSELF == set()


def test_every_source_of_a_compiled_module_is_built_and_may_fail() -> None:
    modules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src/entrepot/compiled").glob("*.pyx")}
    assert {source for module in modules for source in module["sources"]} == sources
    assert [module["name"] for module in modules if not module.get("optional")] == []


def test_interpreters_are_those_that_are_declared_and_start(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nclassifiers = ["Programming Language :: Python :: 3.11", "Typing :: Typed"]\n')
    assert declared(project) == ["3.11"]
    assert find(f"{sys.version_info.major}.{sys.version_info.minor}") == sys.executable
    assert find("3.1") is None


def test_this_interpreter_is_declared() -> None:
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in declared(ROOT / "pyproject.toml")


def test_a_command_that_fails_is_told_with_what_it_printed() -> None:
    assert package.run([sys.executable, "-c", "print(1)"]) == "1\n"
    with pytest.raises(package.Failed, match="ended with 3:\nbroken"):
        package.run([sys.executable, "-c", "print('broken'); raise SystemExit(3)"])


def test_an_sdist_that_differs_from_the_repository_is_refused(tmp_path: Path) -> None:
    packaging = package.Packaging(tmp_path)
    packaging.sdist = packaging.unpacked = tmp_path
    for name in ("PKG-INFO", "kept.py", "stray.c"):
        (tmp_path / name).touch()
    with pytest.raises(package.Failed, match=r"\['forgotten.md', 'stray.c'\]"):
        packaging._compare(["kept.py", "forgotten.md"])
    packaging._compare(["kept.py", "stray.c"])
