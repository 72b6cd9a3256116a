# SPDX-License-Identifier: Apache-2.0
"""Build what is published from a clean clone, install it as users do, and see that it works.

    PYTHONPATH=tools python -m package                               all of it; `make package` does this
    PYTHONPATH=tools python -m package --python 3.13 --no-extras     one interpreter, with tests
    PYTHONPATH=tools python -m package --extra amqp --no-tests       one extra

What is committed is what is packaged. The sdist has all files of the
repository. From it come a wheel for each interpreter that pyproject.toml
declares and this machine has, and one as a machine without a compiler makes
it. Each is installed into an environment of its own, which runs the examples
and tells its form; one per interpreter runs tests against what is installed.
Extras are installed one by one, by the first interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .interpreters import declared, find

ROOT = Path(__file__).parents[2]
GENERATED = ("PKG-INFO", "setup.cfg", "src/entrepot.egg-info/")
"""What the sdist has beyond the repository."""
TESTED = ("tests/unit", "tests/contract", "tests/simulation", "tests/examples", "--ignore", "tests/unit/tools")
"""The tools are not installed."""
TEST_PROCESSES = os.cpu_count() or 1
_SPARK = {"bench", "spark", "test"}
"""Extras with which examples on Spark run."""
ORDERS = """
import sys, entrepot
with entrepot.connect(sys.argv[1]) as connection:
    for queue in ("ORDERS", "LARGE"):
        connection.mqsc(f"DEFINE QLOCAL({queue})")
    for crates in (b"42", b"120"):
        connection.put("ORDERS", crates, persistent=True, properties={"region": "EU"})
"""
"""What examples/spark reads."""


class Failed(Exception):
    """What is published would not work."""


class Packaging:
    """All steps, in a folder that is removed at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clone = folder / "clone"
        self._begun = time.monotonic()
        self._environments = 0
        self.sdist: Path
        self.unpacked: Path
        self.project: dict[str, object] = {}

    def tell(self, words: str) -> None:
        seconds = int(time.monotonic() - self._begun)
        print(f"{seconds // 60:3}:{seconds % 60:02}  {words}", flush=True)

    # --- building ---------------------------------------------------------------------------------

    def make_sdist(self) -> None:
        """Build the sdist from a clean clone, and compare it with what the repository has."""
        run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(self._clone)])
        if run(["git", "status", "--porcelain"], cwd=ROOT).strip():
            self.tell("note: what is not committed is not packaged")
        settings = tomllib.loads((self._clone / "pyproject.toml").read_text())
        self.project = settings["project"]
        builder = self._environment(sys.executable, *settings["build-system"]["requires"])
        build = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
        run([str(builder / "bin/python"), "-c", build, str(self._folder)], cwd=self._clone)
        self._remove(builder)
        [self.sdist] = self._folder.glob("*.tar.gz")
        with tarfile.open(self.sdist) as archive:
            archive.extractall(self._folder / "sdist", filter="data")
        [self.unpacked] = (self._folder / "sdist").iterdir()
        self._compare(run(["git", "ls-files"], cwd=self._clone).splitlines())

    def _compare(self, tracked: Sequence[str]) -> None:
        packed = {path.relative_to(self.unpacked).as_posix() for path in self.unpacked.rglob("*") if path.is_file()}
        packed = {name for name in packed if not name.startswith(GENERATED)}
        if packed != set(tracked):
            raise Failed(f"the sdist and the repository differ in {sorted(packed ^ set(tracked))}; see MANIFEST.in")
        self.tell(f"{self.sdist.name} has all {len(tracked)} files of the repository")

    def make_wheel(self, interpreter: str, *, compiler: bool = True) -> Path:
        """Build a wheel from the sdist; it has all compiled modules, or none."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        environment = {} if compiler else {"CC": shutil.which("false") or "false"}
        run(
            [interpreter, *PIP, "wheel", "--no-deps", "-w", str(folder), str(self.sdist)],
            cwd=self._folder,
            environment=environment,
        )
        [wheel] = folder.glob("*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        sources = {path.stem for path in (self.unpacked / "src/entrepot/compiled").glob("*.pyx")}
        modules = {Path(name).name.split(".")[0] for name in names if name.endswith(".so")}
        if not sources or modules != (sources if compiler else set()):
            raise Failed(f"{wheel.name} has the compiled modules {sorted(modules)}, of {sorted(sources)}")
        if extra := [name for name in names if not name.startswith(("entrepot", "pyspark_entrepot"))]:
            raise Failed(f"{wheel.name} has what does not belong to it: {extra}")
        if left := [name for name in names if name.endswith((".c", ".pyx", ".pxd"))]:
            raise Failed(f"{wheel.name} has sources of compiled modules: {left}")
        how = f"with {len(modules)} compiled modules" if compiler else "as it is built without a compiler"
        self.tell(f"{wheel.name}, {how}, {wheel.stat().st_size:,} bytes")
        return wheel

    # --- installing -------------------------------------------------------------------------------

    def _environment(self, interpreter: str, *requirements: str) -> Path:
        self._environments += 1
        path = self._folder / f"environment-{self._environments}"
        run([interpreter, "-m", "venv", str(path)])
        run([str(path / "bin/python"), *PIP, "install", *requirements], cwd=self._folder)
        return path

    def _remove(self, environment: Path) -> None:
        shutil.rmtree(environment)

    def check_installed(
        self, interpreter: str, wheel: Path, form: str, extra: str = "", *, tests: bool = False
    ) -> None:
        """Install a wheel into a clean environment, run the examples there, and tests if they are wanted."""
        java = "" if not _SPARK & {extra} or _has_java() else ",java"
        environment = self._environment(interpreter, f"{wheel}[{extra}{java}]" if extra else str(wheel))
        run([str(environment / "bin/python"), *PIP, "check"])
        self._check_form(environment, form, {})
        if form == "compiled":
            self._check_form(environment, "pure Python", {"ENTREPOT_PURE": "1"})
        count = self._run_examples(environment)
        told = f"[{extra}]" if extra else "without extras"
        self.tell(f"{_version_of(interpreter)} {told}: {form}, {count} examples run")
        if extra in _SPARK:
            self._run_spark_example(environment)
        if extra == "spark":
            self._run_demo(environment, wheel)
        if tests:
            self._run_tests(environment, interpreter)
        self._remove(environment)

    def _check_form(self, environment: Path, wanted: str, variables: Mapping[str, str]) -> None:
        entrepot = str(environment / "bin/entrepot")
        with tempfile.TemporaryDirectory() as folder:
            run([entrepot, "qm", "create", f"{folder}/qm1"], environment=variables)
            run([entrepot, "qm", "start", f"{folder}/qm1", "--detach"], environment=variables)
            try:
                found = json.loads(run([entrepot, "qm", "status", f"{folder}/qm1", "--json"]))["form"]
            finally:
                run([entrepot, "qm", "stop", f"{folder}/qm1", "--immediate"])
        if found != wanted:
            raise Failed(f"the form in {environment.name} is {found}, not {wanted}")

    def _run_examples(self, environment: Path) -> int:
        """All programs of examples/ itself; tests/examples compares what they print."""
        programs = sorted((self.unpacked / "examples").glob("*.py"))
        for program in programs:
            with tempfile.TemporaryDirectory() as folder:
                if not run([str(environment / "bin/python"), str(program)], cwd=Path(folder)):
                    raise Failed(f"{program.name} has printed nothing")
        return len(programs)

    def _run_spark_example(self, environment: Path) -> None:
        """A queue as a table, against a server: its words are not printed elsewhere, so its answer is compared here."""
        entrepot = str(environment / "bin/entrepot")
        program = self.unpacked / "examples/spark/orders_as_table.py"
        with tempfile.TemporaryDirectory() as folder:
            run([entrepot, "qm", "create", f"{folder}/qm1"])
            run([entrepot, "qm", "start", f"{folder}/qm1", "--detach"])
            try:
                run([str(environment / "bin/python"), "-c", ORDERS, f"unix:{folder}/qm1"])
                printed = run([str(environment / "bin/python"), str(program), f"unix:{folder}/qm1"], cwd=Path(folder))
            finally:
                run([entrepot, "qm", "stop", f"{folder}/qm1", "--immediate"])
        if printed.strip() != "{'EU': 162}":
            raise Failed(f"{program.name} has printed {printed!r}")
        self.tell(f"{program.name} ends well")

    def _run_demo(self, environment: Path, wheel: Path) -> None:
        """What `make run` shows."""
        python = str(environment / "bin/python")
        run([python, *PIP, "install", f"{wheel}[sql]"])
        with tempfile.TemporaryDirectory() as folder:
            run([python, str(self.unpacked / "examples/demo")], cwd=Path(folder))
        self.tell("[spark,sql]: the demo ends well")

    def _run_tests(self, environment: Path, interpreter: str) -> None:
        """The tests of the sdist, with what is installed; only that is on their path."""
        python = str(environment / "bin/python")
        where = run([python, "-c", "import entrepot; print(entrepot.__file__)"], cwd=self.unpacked).strip()
        if not Path(where).is_relative_to(environment):
            raise Failed(f"tests would run {where}, and not what is installed")
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(TEST_PROCESSES), "--dist", "loadfile"]
        command += ["-m", "not torture", "--timeout", "400", *TESTED]
        shown = run([python, *command], cwd=self.unpacked)
        self.tell(f"{_version_of(interpreter)} tests: {shown.strip().splitlines()[-1]}")


PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def run(command: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run a command; what it printed.

    Raises:
        Failed: It did not end well.
    """
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ENTREPOT_PURE")}
    ended = subprocess.run(
        command, cwd=cwd, env=own | dict(environment or {}), capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        raise Failed(
            f"{' '.join(command)}\nended with {ended.returncode}:\n{ended.stdout[-4000:]}{ended.stderr[-4000:]}"
        )
    return ended.stdout


def _version_of(interpreter: str) -> str:
    return run([interpreter, "--version"]).strip()


def _has_java() -> bool:
    return shutil.which("java") is not None


def main() -> int:
    parser = argparse.ArgumentParser(prog="package")
    parser.add_argument("--python", action="append", metavar="VERSION", help="such as 3.13; all that are declared")
    parser.add_argument("--extra", action="append", metavar="NAME", help="all that there are")
    parser.add_argument("--no-extras", action="store_true")
    parser.add_argument("--no-tests", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            package(
                Packaging(Path(folder)), asked.python, [] if asked.no_extras else asked.extra, tests=not asked.no_tests
            )
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 1
    return 0


def package(packaging: Packaging, versions: Sequence[str] | None, extras: Sequence[str] | None, *, tests: bool) -> None:
    packaging.make_sdist()
    wanted = versions or declared(packaging.unpacked / "pyproject.toml")
    found = {version: interpreter for version in wanted if (interpreter := find(version)) is not None}
    missing = [version for version in wanted if version not in found]
    wheels = {version: packaging.make_wheel(interpreter) for version, interpreter in found.items()}
    if not wheels:
        raise Failed(f"there is none of the interpreters {', '.join(wanted)}")
    first, interpreter = next(iter(found.items()))
    bare = packaging.make_wheel(interpreter, compiler=False)
    packaging.check_installed(interpreter, bare, "pure Python")
    for version, each in found.items():
        packaging.check_installed(each, wheels[version], "compiled")
    for extra in packaging.project["optional-dependencies"] if extras is None else extras:  # type: ignore[attr-defined]
        packaging.check_installed(interpreter, wheels[first], "compiled", extra)
    for version, each in found.items() if tests else ():
        packaging.check_installed(each, wheels[version], "compiled", "test", tests=True)
    packaging.tell("done" + (f", without Python {', '.join(missing)}: not found here" if missing else ""))


if __name__ == "__main__":
    sys.exit(main())
