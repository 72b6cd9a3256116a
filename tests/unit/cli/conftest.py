# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing
from typer.testing import CliRunner, Result

import entrepot
from entrepot.cli.main import app

SMALL = ("--segment-bytes", "128KiB", "--primary", "3")


class Shell:
    """Types commands and hands back what was printed."""

    def __init__(self) -> None:
        self._runner = CliRunner()

    def __call__(self, *words: object, code: int = 0, stdin: str | bytes | None = None) -> Result:
        """Run a command and insist on its exit code."""
        result = self._runner.invoke(app, [str(word) for word in words], input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    def json(self, *words: object, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code).stdout)

    def lines(self, *words: object, code: int = 0) -> list[Any]:
        """The JSON lines of a command."""
        return [json.loads(line) for line in self(*words, "--json", code=code).stdout.splitlines()]


@pytest.fixture(scope="session", autouse=True)
def _commands_made_once() -> Iterator[None]:
    """Typer makes all commands anew for each one that is typed, which takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command), raising=False)
        yield


@pytest.fixture
def shell() -> Shell:
    return Shell()


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory, _commands_made_once: None) -> Path:
    """Queue managers to be copied."""
    folder = tmp_path_factory.mktemp("cli")
    shell = Shell()
    shell("qm", "create", folder / "QM1", *SMALL)
    shell("qm", "create", folder / "LINEAR", "--log", "linear", *SMALL)
    for name in ("QM1", "LINEAR"):
        shell("mqsc", folder / name, "-e", "DEFINE QLOCAL(Q)")
    return folder


@pytest.fixture
def qm(templates: Path, tmp_path: Path) -> Path:
    """A small queue manager with a queue Q."""
    return Path(shutil.copytree(templates / "QM1", tmp_path / "QM1"))


@pytest.fixture
def linear(templates: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(templates / "LINEAR", tmp_path / "LINEAR"))


def fill(path: Path, count: int) -> None:
    """Put so many messages of 3,000 bytes on Q; each is different, as the log stores what a unit repeats only once."""
    with entrepot.connect(f"embedded:{path}") as connection:
        for number in range(count):
            connection.put("Q", b"%04d" % number + b"x" * 2996, persistent=True)


@pytest.fixture
def not_a_manager(tmp_path: Path) -> Path:
    path = tmp_path / "attic"
    path.mkdir(mode=0o700)
    (path / "lamp").write_text("dusty")
    return path


Complaint = Callable[..., str]


@pytest.fixture
def complaint(shell: Shell) -> Complaint:
    """What a failing command says on standard error, without line breaks and the frame of usage errors."""

    def complain(*words: object, code: int = 1) -> str:
        return " ".join(shell(*words, code=code).stderr.replace("│", " ").split())

    return complain
