# SPDX-License-Identifier: Apache-2.0
"""`entrepot mqsc`: administration commands from a file, from the command line, or in a conversation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Reachable
from entrepot.errors import EntrepotError

if TYPE_CHECKING:
    from entrepot.server.mqsc import Answer

    CarryOut = Callable[[str, str], list[Answer]]
    """Runs a script, given its text and what it is called."""

_TABLE_COLUMNS_MAX = 8
_LAST_WORDS = ("end", "quit", "exit")


def mqsc(
    path: Reachable,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE|-", help="A script; - is standard input."),
    ] = None,
    commands: Annotated[
        list[str] | None,
        typer.Option("--execute", "-e", metavar="COMMAND", help="A command; several are possible."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only look for errors; nothing is carried out.")] = False,
    json: Json = False,
) -> None:
    """Run MQSC commands; a command that fails stops no other one, and the exit code is 1 then.

    Without FILE and -e, a terminal gets a prompt, and anything else is read as a script.
    """
    if commands and file is not None:
        raise typer.BadParameter("give FILE or -e, not both")
    if check:
        _check(_scripts(file, commands), json)
        return
    with opening.connected(path) as connection:
        if not commands and file is None and sys.stdin.isatty():
            answers = converse(connection.administration.mqsc, connection.administration.manager_name, input)
        else:
            answers = _run(_scripts(file, commands), connection.administration.mqsc)
        failed = _tell(answers, json)
    if failed:
        raise typer.Exit(1)


def _scripts(file: Path | None, commands: list[str] | None) -> list[tuple[str, str]]:
    """Pairs of source name and text."""
    if commands:
        return [(f"-e {number}", text) for number, text in enumerate(commands, start=1)]
    try:
        if file is None or str(file) == "-":
            return [("-", sys.stdin.buffer.read().decode())]
        return [(str(file), file.read_text(encoding="utf-8"))]
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"the script is no UTF-8 text: byte {error.start} is wrong") from None
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None


def _run(scripts: Iterable[tuple[str, str]], carry_out: CarryOut) -> Iterator[Answer]:
    for source, text in scripts:
        yield from carry_out(text, source)


def converse(carry_out: CarryOut, name: str, read: Callable[[str], str]) -> Iterator[Answer]:
    """Answers to what a person types, line by line, until END or the end of input."""
    from contextlib import suppress

    with suppress(ImportError):
        import readline  # noqa: F401 - input() has editing and history with it

    output.note("MQSC commands, for instance DISPLAY QUEUE(*) CURDEPTH; END or Ctrl-D ends.")
    lines: list[str] = []
    while True:
        try:
            line = read("   + " if lines else f"{name}> ")
        except EOFError:
            return
        if not lines and line.strip().lower() in _LAST_WORDS:
            return
        lines.append(line)
        if not line.rstrip().endswith(("+", "-")) or line.lstrip().startswith("*"):
            yield from _run([("-", "\n".join(lines))], carry_out)
            lines = []


def _tell(answers: Iterable[Answer], json: bool) -> int:
    """Show answers as they come; how many commands failed."""
    failed = total = 0
    collected = []
    for answer in answers:
        total += 1
        failed += not answer.ok
        if json:
            collected.append(_as_json(answer))
        else:
            _show(answer)
    if json:
        output.print_json(collected)
    elif failed:
        output.note(f"{failed} of {total} commands failed.")
    return failed


def _show(answer: Answer) -> None:
    columns = list(dict.fromkeys(keyword for row in answer.rows for keyword in row))
    if 0 < len(columns) <= _TABLE_COLUMNS_MAX:
        output.table(columns, ([_cell(row.get(column, "")) for column in columns] for row in answer.rows))
    else:
        for line in answer.output:
            output.say(line)
    for warning in answer.warnings:
        output.note(f"Warning: {warning}")
    for error in answer.errors:
        output.complain(error)


def _cell(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) else value


def _as_json(answer: Answer) -> dict[str, Any]:
    return {
        "command": answer.command,
        "line": answer.line,
        "ok": answer.ok,
        "output": answer.output,
        "rows": answer.rows,
        "warnings": answer.warnings,
        "errors": [_error_as_json(error) for error in answer.errors],
    }


def _error_as_json(error: EntrepotError) -> dict[str, Any]:
    place = {key: getattr(error, key) for key in ("source", "line", "column") if hasattr(error, key)}
    return {
        "error": type(error).__name__,
        "code": error.code,
        "problem": getattr(error, "problem", error.what),
        **place,
    }


def _check(scripts: Iterable[tuple[str, str]], json: bool) -> None:
    from entrepot.server.mqsc import check_script

    errors = [error for source, text in scripts for error in check_script(text, source)]
    if json:
        output.print_json([_error_as_json(error) for error in errors])
    for error in () if json else errors:
        output.complain(error)
    if errors:
        raise typer.Exit(1)
    if not json:
        output.say("No errors found; nothing was carried out.")
