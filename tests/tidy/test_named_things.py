# SPDX-License-Identifier: Apache-2.0
"""What a page names is there: files, commands, options, make targets, error codes, verbs."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import typer

import entrepot
from entrepot import errors
from entrepot.cli.main import app
from entrepot.errors import EntrepotError
from folding import for_each

from .pages import DOCS, PAGES, ROOT, SOURCE, blocks, code_spans, commands, page_name

EACH_PAGE = for_each("page", PAGES, ids=page_name)

ERRORS: dict[str, type[EntrepotError]] = {
    name: error for name, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, EntrepotError)
}
CODES = {error.code: name for name, error in ERRORS.items()}

A_FILE = re.compile(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|toml|lark|json))")
MADE_AT_RUN_TIME = {"bench/results/", "manager.json", "trial.json"}


# --- files -------------------------------------------------------------------------------------


@EACH_PAGE
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [link for link in links if not link.startswith("https://")]
    assert [link for link in local if not (page.parent / link).exists()] == []


@EACH_PAGE
def test_files_that_a_page_names_exist(page: Path) -> None:
    asked = {span for span in code_spans(page) if A_FILE.fullmatch(span)} - MADE_AT_RUN_TIME
    assert sorted(name for name in asked if not _exists(name)) == []


def _exists(name: str) -> bool:
    places = [ROOT, DOCS, SOURCE, *(path for path in SOURCE.iterdir() if path.is_dir()), Path(entrepot.__file__).parent]
    return any((place / name).exists() for place in places)


@EACH_PAGE
def test_modules_and_members_that_a_drawing_names_exist(page: Path) -> None:
    drawings = "\n".join(blocks(page, "text"))
    modules = [f"/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*.py")]
    named = re.findall(r"(?<![\w/.:-])(?:\w+/)*\w+\.py\b", drawings)
    assert [name for name in named if not any(module.endswith(f"/{name}") for module in modules)] == []
    bodies = _class_bodies()
    members = re.findall(r"\b([A-Z][a-z]\w+)\.([a-z_]+)\b", drawings)
    assert [pair for pair in members if pair[0] in bodies and pair[1] not in bodies[pair[0]]] == []


def test_paths_in_source_comments_and_advice_exist() -> None:
    named = {
        match
        for path in SOURCE.rglob("*.py")
        for match in re.findall(r"\b(?:docs|tests|examples|bench)/[\w./-]+\.(?:md|py)", path.read_text())
    }
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


# --- commands ----------------------------------------------------------------------------------


@cache
def _commands() -> Any:
    return typer.main.get_command(app)


def _find_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words lead to, and those that are left."""
    command = _commands()
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            return None, words
        command, words = command.commands[words[0]], words[1:]
    return command, words


def _problem(line: str) -> str:
    """What is wrong with an `entrepot ...` line, or nothing."""
    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        return f"{line}: {error}"
    words = [word for word in words if word != "..."]
    command, rest = _find_command(words)
    if command is None:
        return f"{line}: no command {rest[0]}"
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "--version"}
    unknown = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known]
    return f"{line}: no option {unknown[0]}" if unknown else ""


@EACH_PAGE
def test_commands_that_a_page_names_exist(page: Path) -> None:
    lines = [line for line in commands(page) if re.match(r"entrepot [a-z]", line)]
    assert [problem for line in lines if (problem := _problem(line))] == []


@for_each("name", sorted(ERRORS))
def test_commands_that_an_error_advises_exist(name: str) -> None:
    advised = re.findall(r"entrepot (?:[a-z-]+ ?)+", ERRORS[name].hint)
    # Behind the command the sentence goes on, so its longest beginning that is one has to be a whole command.
    for line in advised:
        command, _ = _find_command(line.split()[1:])
        assert command is not None, line
        assert not hasattr(command, "commands"), f"{line} is only the beginning of a command"


def _make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_makefile_has_the_targets_of_the_house() -> None:
    assert _make_targets() == {"help", "run", "test", "check", "fix", "bench", "parts", "torture", "mutants", "package"}


@EACH_PAGE
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    named = {match for line in commands(page) for match in re.findall(r"^make ([a-z]+)", line)}
    assert named - _make_targets() == set()


# --- errors and verbs --------------------------------------------------------------------------


@EACH_PAGE
def test_error_codes_that_a_page_names_exist_and_fit(page: Path) -> None:
    text = page.read_text()
    wrong = [code for code in re.findall(r"\[([SCQUTAPREGDFXJ]\d\d)(?: \d+)?\]", text) if code not in CODES]
    pairs = re.findall(r"`?(\w+)`?\s+\[([SCQUTAPREGDFXJ]\d\d)(?: \d+)?\]", text)
    for name, code in pairs:
        if name in ERRORS and ERRORS[name].code != code:
            wrong.append(f"{name} is {ERRORS[name].code}, not {code}")
        elif name not in ERRORS and name[0].isupper():
            wrong.append(f"{name} is no error")
    assert wrong == []


@EACH_PAGE
def test_members_that_a_page_names_exist(page: Path) -> None:
    """`Connection.mqsc`, `GroupCommit.begin`: a class of ours, and something in its body."""
    spans = {span for span in code_spans(page) if re.fullmatch(r"[A-Z][a-z]\w+\.\w+", span)} - NOT_OURS
    bodies = _class_bodies()
    missing = []
    for span in sorted(spans):
        name, _, member = span.partition(".")
        if not re.search(rf"\b{member}\b", bodies.get(name, "")):
            missing.append(span)
    assert missing == []


@cache
def _class_bodies() -> dict[str, str]:
    """The text of each class, with that of the classes it derives from."""
    bodies: dict[str, str] = {}
    parents: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                bodies[node.name] = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                parents[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
    return {name: body + "".join(bodies.get(base, "") for base in parents[name]) for name, body in bodies.items()}


NOT_OURS = {"Root.MQMD", "QueueRequestor.request"}
