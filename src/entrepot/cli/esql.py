# SPDX-License-Identifier: Apache-2.0
"""`entrepot esql`: check ESQL programs before they are deployed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import esql_run, output
from entrepot.cli.arguments import Json

if TYPE_CHECKING:
    from entrepot.esql.checker import CheckOptions
    from entrepot.esql.mistakes import Mistake
    from entrepot.esql.syntax import SourceFile

app = typer.Typer(help="Check ESQL programs, see what they become, and try them on messages.", no_args_is_help=True)


@app.command()
def check(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER...", help="Programs; folders give all *.esql.")],
    allow_eval: Annotated[bool, typer.Option("--allow-eval", help="Let programs use EVAL.")] = False,
    json: Json = False,
) -> None:
    """Look for everything that is wrong in ESQL programs, with line and column; exit code 1 if there is anything.

    All files are one project: a routine in one may be called from another, by schema and PATH. A file without
    modules and routines is taken as the body of a Compute node.
    """
    from entrepot.esql.checker import CheckOptions

    files = _files(paths)
    found = _check(files, CheckOptions(allow_eval=allow_eval))
    if json:
        output.print_json({"files": [str(file) for file in files], "mistakes": [_fields(mistake) for mistake in found]})
    else:
        _tell(files, found)
    if any(not mistake.is_warning for mistake in found):
        raise typer.Exit(1)


def _files(paths: list[Path]) -> list[Path]:
    """Every program, once, in order."""
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*.esql") if file.is_file())
            if not inside:
                raise typer.BadParameter(f"{path} has no *.esql in it")
            files.update(dict.fromkeys(inside))
        elif path.exists():
            files[path] = None
        else:
            raise typer.BadParameter(f"{path}: there is no such file or folder")
    return list(files)


def _check(paths: list[Path], options: CheckOptions) -> list[Mistake]:
    """What is wrong in a project; files that cannot be read as ESQL hide nothing of the others."""
    from entrepot.errors import EsqlInvalid
    from entrepot.esql.checker import check as check_project
    from entrepot.esql.checker import check_statements
    from entrepot.esql.mistakes import Mistake
    from entrepot.esql.parsing import parse_file, parse_statements

    found: list[Mistake] = []
    sources: list[SourceFile] = []
    whole = True
    for path in paths:
        name = str(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            whole = False
            line = error.object.count(b"\n", 0, error.start) + 1
            column = error.start - error.object.rfind(b"\n", 0, error.start)
            found.append(Mistake(name, line, column, f"the byte {error.object[error.start]:#04x} is no UTF-8"))
            continue
        try:
            try:
                sources.append(parse_file(text, name))
            except EsqlInvalid:
                if esql_run.ROUTINE.search(text) is not None:
                    raise
                found += check_statements(parse_statements(text, name), name, text, options)
        except EsqlInvalid as error:
            whole = False
            found += [
                Mistake(file, line, column, problem, excerpt=excerpt)
                for file, line, column, problem, excerpt in error.mistakes
            ]
    checked = check_project(sources, options)
    if not whole:
        # A routine may be missing only because its file could not be read.
        checked = [mistake for mistake in checked if not _is_absence(mistake)]
    return sorted([*found, *checked])


def _is_absence(mistake: Mistake) -> bool:
    return mistake.problem.startswith(("there is no function", "there is no procedure", "PATH names"))


def _fields(mistake: Mistake) -> dict[str, object]:
    return {
        "file": mistake.file,
        "line": mistake.line,
        "column": mistake.column,
        "severity": mistake.severity,
        "problem": mistake.problem,
        "excerpt": mistake.excerpt,
    }


def _tell(files: list[Path], found: list[Mistake]) -> None:
    from rich.text import Text

    out = output.console()
    for mistake in found:
        style = "bold yellow" if mistake.is_warning else "bold red"
        place = f"{mistake.file}:{mistake.line}:{mistake.column}: "
        out.print(Text.assemble(output.safe(place), (f"{mistake.severity}: ", style), output.safe(mistake.problem)))
        if mistake.excerpt:
            out.print(Text(output.safe(mistake.excerpt), style="dim"))
    warnings = sum(mistake.is_warning for mistake in found)
    mistakes = len(found) - warnings
    summary = f"{_count(len(files), 'file')}: {_count(mistakes, 'mistake')}, {_count(warnings, 'warning')}."
    output.say(summary, "bold red" if mistakes else "green")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


app.command()(esql_run.show)
app.command()(esql_run.run)
