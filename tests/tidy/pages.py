# SPDX-License-Identifier: Apache-2.0
"""The pages people read, and what the tests take out of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "entrepot"
DOCS = ROOT / "docs"

# The report is written by a program, and names files of runs.
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "report"),
]


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def code_spans(page: Path) -> list[str]:
    """What stands in backticks within a line."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", prose)


def commands(page: Path) -> list[str]:
    """Every command line a page shows, in backticks or after a prompt."""
    shown = [line.removeprefix("$ ") for line in page.read_text().splitlines() if line.startswith("$ ")]
    return [*shown, *code_spans(page)]


def table_rows(page: Path, columns: int) -> Iterator[list[str]]:
    """The cells of every table row with so many columns, head and rule lines included."""
    for line in page.read_text().splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == columns:
                yield cells


def project_files() -> list[Path]:
    """Every file that is, or is about to be, under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:  # an unpacked archive
        folders = ("src", "tests", "docs", "examples", "bench", ".ci")
        paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
        paths += [path for path in ROOT.iterdir() if path.is_file()]
    return sorted(path for path in paths if path.is_file())
