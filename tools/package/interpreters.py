# SPDX-License-Identifier: Apache-2.0
"""The interpreters that pyproject.toml declares, where this machine has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

_DECLARED = "Programming Language :: Python :: 3."


def declared(project: Path) -> list[str]:
    """Versions such as 3.12."""
    classifiers = tomllib.loads(project.read_text())["project"]["classifiers"]
    return ["3." + line.removeprefix(_DECLARED) for line in classifiers if line.startswith(_DECLARED)]


def find(version: str) -> str | None:
    """An interpreter that starts; None if there is none on the path, nor among those of pyenv."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [sys.executable, shutil.which(f"python{version}")]
    candidates += sorted(map(str, versions.glob(f"{version}.*/bin/python3")), reverse=True)
    return next((each for each in candidates if each and _version(each) == version), None)


def _version(interpreter: str) -> str:
    # pyenv puts commands on the path that only say that they are not there.
    command = [interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
