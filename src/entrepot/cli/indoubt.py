# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm indoubt`: units of work that are in doubt, and an operator's decision about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Manager, hex_identifier

app = typer.Typer(help="List and resolve units of work that are in doubt.", no_args_is_help=True)


def _transaction_id(text: str) -> bytes:
    """As listed: hex digits, or the text of a global unit of ours."""
    return text.encode() if text.startswith("entrepot-") else hex_identifier(text)


TransactionId = Annotated[
    bytes,
    typer.Argument(parser=_transaction_id, metavar="TRANSACTION_ID", help="Hex digits, or entrepot-..., as listed."),
]


@app.command("list")
def list_(path: Manager, json: Json = False) -> None:
    """List prepared units, decided ones that a database does not know yet, and heuristic outcomes."""
    with opening.connected(path) as connection:
        found = connection.administration.in_doubt()
    if json:
        output.print_json(found)
        return
    for row in found:
        age = "" if row["age_s"] is None else f"  {row['age_s']:.0f} s"
        user = f"  user {row['user']}" if row["user"] else ""
        output.say(f"{row['global_unit'] or row['transaction_id']}  {row['state']}{age}{user}")
        for branch in row["branches"]:
            output.say(f"    {branch['resource']}  {branch['branch_id'] or 'one phase'}  {branch['state']}")
    if not found:
        output.note("No unit of work is in doubt.")


@app.command()
def commit(path: Manager, transaction_id: TransactionId, json: Json = False) -> None:
    """Commit a prepared unit instead of its coordinator; a heuristic outcome, remembered until forgotten."""
    _resolve(path, transaction_id, committed=True, json=json)


@app.command()
def backout(path: Manager, transaction_id: TransactionId, json: Json = False) -> None:
    """Back out a prepared unit instead of its coordinator; a heuristic outcome, remembered until forgotten."""
    _resolve(path, transaction_id, committed=False, json=json)


@app.command()
def forget(path: Manager, transaction_id: TransactionId, json: Json = False) -> None:
    """Forget a heuristic outcome, or a decision for a database that will never be seen again.

    A database that still has the unit prepared would back it out then.
    """
    with opening.connected(path) as connection:
        connection.administration.forget(transaction_id)
    _tell(transaction_id, "forgotten", json)


def _resolve(path: Path, transaction_id: bytes, *, committed: bool, json: bool) -> None:
    with opening.connected(path) as connection:
        connection.administration.resolve(transaction_id, commit=committed)
    _tell(transaction_id, "committed" if committed else "backed out", json)


def _tell(transaction_id: bytes, outcome: str, json: bool) -> None:
    if json:
        output.print_json({"transaction_id": transaction_id.hex(), "outcome": outcome})
        return
    output.say(f"Unit of work {transaction_id.hex()} {outcome}.")
