# SPDX-License-Identifier: Apache-2.0
"""`entrepot esql show` and `entrepot esql run`: see what a program becomes, and what it does with a message."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.cli import output
from entrepot.cli.arguments import Json
from entrepot.errors import InvalidArgument

if TYPE_CHECKING:
    from entrepot.esql.program import EsqlModule, Program
    from entrepot.models.tree import Assembly, Element, Root

ROUTINE = re.compile(r"\bCREATE\s+(?:\w+\s+MODULE|FUNCTION|PROCEDURE)\b", re.IGNORECASE)
"""What a project has; a file without it is the body of a Compute node."""

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files with ESQL, or folders of them.")]
Module = Annotated[
    str, typer.Option("--module", "-m", help="Which module, with its schema; may be left out when there is one.")
]


def show(files: Files) -> None:
    """Print the Python that a program is compiled to.

    Statements without a module, as the broker document prints them, are taken for the Main of one.
    """
    sys.stdout.write(_program(files).source)


def run(
    message_file: Annotated[
        str, typer.Argument(metavar="MESSAGE-FILE", help="The message's body; - is standard input.")
    ],
    files: Files,
    module: Module = "",
    domain: Annotated[str, typer.Option(help="How the body is read: XMLNSC, XML, JSON, BLOB, MRM ...")] = "XMLNSC",
    model: Annotated[Path | None, typer.Option(help="A message set, for the domain MRM.")] = None,
    message: Annotated[str, typer.Option(help="Which message of the set.")] = "",
    format: Annotated[str, typer.Option("--format", help="Which physical format of the set.")] = "",  # noqa: A002
    property: Annotated[  # noqa: A002
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A user-defined property (EXTERNAL).")
    ] = None,
    database: Annotated[Path | None, typer.Option(help="A SQLite file that Database.TABLE means.")] = None,
    body: Annotated[bool, typer.Option("--body", help="Print the rendered bodies instead of the trees.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Print MQMD and Properties also as they came.")] = False,
    json: Json = False,
) -> None:
    """Run a module on a message and print the trees that come out, terminal by terminal."""
    from entrepot.message import Message
    from entrepot.models.assembling import parse_message
    from entrepot.models.message_sets import load_set, register_set

    chosen = _module(_program(files), module)
    names: dict[str, Any] = {}
    if model is not None:
        loaded = register_set(load_set(model))
        names = {
            "message_set": loaded.name,
            "message_type": message or next(iter(loaded.messages)),
            "message_format": format or next(iter(loaded.formats)),
        }
        domain = "MRM"
    assembly = parse_message(Message(_bytes(message_file)), domain=domain, **names)
    options: dict[str, Any] = {"properties": _properties(property or [])}
    if database is not None:
        import sqlite3

        from entrepot.esql.sql_database import SqlDatabase

        options["database"] = SqlDatabase(sqlite3.connect(database, isolation_level=None))
    if chosen.kind == "FILTER":
        answer = chosen.filter(assembly, **options)
        terminal = {True: "true", False: "false", None: "unknown"}[answer]
        output.print_json({"terminal": terminal}) if json else output.say(terminal)
        return
    outputs = chosen.compute(assembly, **options)
    if json:
        output.print_json([_as_json(terminal, leaving) for terminal, leaving in outputs])
    else:
        _print(outputs, bodies=body, headers=headers)


def _as_json(terminal: str, leaving: Assembly) -> dict[str, Any]:
    from entrepot.models.tree_json import tree_to_json

    return {
        "terminal": terminal,
        "Root": tree_to_json(leaving.root),
        "LocalEnvironment": tree_to_json(leaving.local_environment),
        "Environment": tree_to_json(leaving.environment),
    }


def _print(outputs: list[tuple[str, Assembly]], *, bodies: bool, headers: bool) -> None:
    from entrepot.models.assembling import render_message
    from entrepot.models.tree_json import tree_text

    if not outputs:
        output.say("Nothing came out: Main did not return TRUE, and nothing was propagated.")
    for terminal, leaving in outputs:
        if bodies:
            sys.stdout.buffer.write(render_message(leaving.root).body + b"\n")
            sys.stdout.buffer.flush()
            continue
        output.say(f"terminal {terminal}")
        for tree in (*_worth_showing(leaving.root, headers=headers), leaving.local_environment, leaving.environment):
            if tree.children:
                for line in tree_text(tree).splitlines():
                    output.say(f"  {line}")


def _worth_showing(root: Root, *, headers: bool) -> list[Element]:
    """The folders of a message; thirty untouched fields of a descriptor would hide the rest."""
    return [
        folder
        for folder in root.children
        if headers or folder.key not in ("MQMD", "Properties") or getattr(folder, "dirty", True)
    ]


def _program(files: list[Path]) -> Program:
    from entrepot.esql.program import compile_files, compile_statements, read_program

    found = [path for file in files for path in (sorted(file.rglob("*.esql")) if file.is_dir() else [file])]
    if not found:
        raise InvalidArgument("FILE", "there is no .esql file in it", "a file with ESQL, or a folder of them")
    if len(found) == 1 and ROUTINE.search(text := read_program(found[0])) is None:
        return compile_statements(text, str(found[0])).program
    return compile_files(found)


def _module(program: Program, name: str) -> EsqlModule:
    if not name and len(program.modules) == 1:
        return next(iter(program.modules.values()))
    if not name:
        known = ", ".join(sorted(program.modules)) or "none"
        raise InvalidArgument("--module", f"which module is not said; there is {known}", "the name of a module")
    return program.module(name)


def _properties(given: list[str]) -> dict[str, str]:
    pairs = [item.partition("=") for item in given]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise InvalidArgument("--property", f"{name!r} has no value", "NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _bytes(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
