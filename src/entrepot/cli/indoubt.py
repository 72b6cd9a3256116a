# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm indoubt`: prepared units of work whose coordinator has not told the outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Manager, hex_identifier

app = typer.Typer(help="List and resolve units of work that are in doubt.", no_args_is_help=True)

TransactionId = Annotated[
    bytes, typer.Argument(parser=hex_identifier, metavar="TRANSACTION_ID", help="Hex digits, as listed.")
]


@app.command("list")
def list_(path: Manager, json: Json = False) -> None:
    """List the transaction ids of units in doubt, oldest first."""
    with opening.connected(path) as connection:
        found = [transaction_id.hex() for transaction_id in connection.in_doubt()]
    if json:
        output.print_json(found)
        return
    for transaction_id in found:
        output.say(transaction_id)
    if not found:
        output.note("No unit of work is in doubt.")


@app.command()
def commit(path: Manager, transaction_id: TransactionId, json: Json = False) -> None:
    """Let a unit in doubt happen."""
    _resolve(path, transaction_id, committed=True, json=json)


@app.command()
def backout(path: Manager, transaction_id: TransactionId, json: Json = False) -> None:
    """Let a unit in doubt not happen."""
    _resolve(path, transaction_id, committed=False, json=json)


def _resolve(path: Path, transaction_id: bytes, *, committed: bool, json: bool) -> None:
    with opening.connected(path) as connection:
        connection.resolve(transaction_id, commit=committed)
    outcome = "committed" if committed else "backed out"
    if json:
        output.print_json({"transaction_id": transaction_id.hex(), "outcome": outcome})
        return
    output.say(f"Unit of work {transaction_id.hex()} {outcome}.")
