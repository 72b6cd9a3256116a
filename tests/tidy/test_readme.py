# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from entrepot.server.mqsc import check_script
from folding import for_each

from .pages import PAGES, ROOT, SOURCE, blocks, page_name

README = ROOT / "README.md"


def test_readme_pasted_in_order_works(tmp_path: Path) -> None:
    """All blocks, one after the other in one folder, as a reader does it.

    What installs, and what takes minutes, is left to other tests; a flow is checked here, and run in tests/spark.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])

    def run(command: str, **options: Any) -> str:
        finished = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200,
            check=False, **options,
        )  # fmt: skip
        assert finished.returncode == 0, f"{command}: {finished.stdout} {finished.stderr}"
        return finished.stdout

    done = []
    try:
        for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL):
            if language == "python":
                assert run(f"{sys.executable} -", input=text) == "b'504 euros'\n"
            elif language == "mqsc":
                run("entrepot mqsc ./qm1 -", input=text)
            elif language == "console":
                for command in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
                    if command.startswith(("make ", "python3 -m pip ")):
                        continue
                    if command.startswith("entrepot flow run "):
                        command = "entrepot flow check orders.yaml"
                    run(command.replace("1414", port))
                    done.append(command.split()[1])
        assert "42 crates" in run("entrepot browse ./qm1 ORDERS")
    finally:
        subprocess.run(["entrepot", "qm", "stop", "./qm1"], cwd=tmp_path, env=environment, check=False, timeout=100)
    assert {"qm", "mqsc", "put", "flow", "browse"} <= set(done)


def test_readme_names_extras_that_there_are() -> None:
    (extras,) = re.findall(r"pip install '\.\[([a-z,]+)\]'", README.read_text())
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)


def test_readme_goes_from_one_sentence_to_the_licence() -> None:
    """In this order: what it is, commands, an example, the journey, rooms, measuring, limits, licence."""
    parts = [
        "# Entrepot\n\n", "```console\n", "$ make run", "$ make test", "```python\n", "## The journey of a message\n",
        "## Rooms\n", "## How to measure\n", "## Limits\n", "## Licence\n",
    ]  # fmt: skip
    text = README.read_text()
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


def test_readme_names_every_room() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    listed = set(re.findall(r"`(\w+)/`", README.read_text().partition("## Rooms")[2].partition("\n## ")[0]))
    assert rooms - listed == set()


def test_readme_example_and_readme_are_short() -> None:
    (example,) = blocks(README, "python")
    assert len(example.splitlines()) <= 15
    assert len(README.read_text().splitlines()) < 150


@for_each("page", PAGES, ids=page_name)
def test_mqsc_of_a_page_has_no_mistake(page: Path) -> None:
    assert [str(error) for script in blocks(page, "mqsc") for error in check_script(script, page_name(page))] == []
