# SPDX-License-Identifier: Apache-2.0
"""The commands that start Spark's own processes.

`spark-submit` is a chain of shell scripts around a small Java program, Spark's
launcher, which knows class path and options. We ask the launcher and start
what it says ourselves: the process is then our own child, takes options that
the scripts do not pass on, and stands there half a second earlier.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from entrepot.errors import ExtraMissing, InvalidSetting, SparkNotStarted
from entrepot.spark.starting.java import Java

DRIVER = "org.apache.spark.deploy.SparkSubmit"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"

_ANSWER_S = 60.0
# What Spark itself hides when it shows settings; a command line can be read by every user of the machine.
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential")


@cache
def _pyspark() -> Path:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ExtraMissing("Spark", "spark")
    return Path(found.origin).parent


def spark_home() -> Path:
    """Where Spark is: SPARK_HOME, or what came with the package pyspark.

    Raises:
        ExtraMissing: pyspark is not installed.
        InvalidSetting: SPARK_HOME is no Spark, or another one than pyspark talks to.
    """
    package = _pyspark()
    home = Path(os.environ.get("SPARK_HOME") or package)
    if home != package:
        (ours, theirs) = (_version(package), _version(home))
        if ours != theirs:
            problem = f"{home} ({theirs or 'no Spark'})"
            raise InvalidSetting("SPARK_HOME", problem, f"Spark {ours}, as pyspark is, or no SPARK_HOME at all")
    return home


def _version(home: Path) -> str:
    for jar in (home / "jars").glob("spark-core_*.jar"):
        return jar.stem.rpartition("-")[2]
    return ""


def spark_environment(java: Java) -> dict[str, str]:
    """The environment of Spark's processes: ours, and what the site's spark-env.sh adds."""
    home = spark_home()
    environment = {**os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(java.home)}
    loading = '. "$SPARK_HOME/bin/load-spark-env.sh" && exec env -0'
    finished = subprocess.run(  # noqa: S603
        ["bash", "-c", loading],  # noqa: S607
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_ANSWER_S,
        check=False,
    )
    if finished.returncode:
        problem = f"its environment cannot be loaded from {home / 'bin' / 'load-spark-env.sh'}"
        raise SparkNotStarted(problem, last_words(finished.stderr))
    pairs = (os.fsdecode(line).partition("=") for line in finished.stdout.split(b"\0") if b"=" in line)
    return {name: value for name, _, value in pairs}


def java_command(java: Java, environment: Mapping[str, str], main: str, arguments: Sequence[str]) -> list[str]:
    """What to start for one of Spark's main classes, by the word of Spark's own launcher."""
    (launcher,) = (spark_home() / "jars").glob("spark-launcher_*.jar")
    options = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", str(launcher), "org.apache.spark.launcher.Main"]
    finished = subprocess.run(  # noqa: S603
        [java.executable, *options, main, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_ANSWER_S,
        check=False,
    )
    # Lines for people, a line with NUL alone, then the words of the command with NUL behind each.
    command = finished.stdout.partition(b"\0\n")[2].split(b"\0")[:-1]
    if finished.returncode or not command or command[-1] == b"--usage-error":
        raise SparkNotStarted("its launcher refuses", last_words(finished.stderr or finished.stdout))
    return [os.fsdecode(word) for word in command]


def with_options(command: Sequence[str], options: Sequence[str]) -> list[str]:
    """The command with more options for the JVM, before those that the launcher gave it."""
    where = command.index("-cp")
    return [*command[:where], *options, *command[where:]]


def driver_arguments(settings: Mapping[str, str]) -> list[str]:
    """What SparkSubmit is told: all settings but secrets, which reach Spark later by the private connection."""
    shown = [(key, value) for key, value in settings.items() if not _SECRET.search(key)]
    return [*(word for key, value in shown for word in ("--conf", f"{key}={value}")), "pyspark-shell"]


def last_words(output: bytes | str, lines_max: int = 3) -> str:
    """The end of what a process has said, without the stack traces of Java, in one line."""
    text = output.decode(errors="replace") if isinstance(output, bytes) else output
    lines = [line.strip() for line in text.splitlines() if line.strip() and not re.match(r"\s+at |\t", line)]
    return " / ".join(line[:300] for line in lines[-lines_max:]) or "nothing"
