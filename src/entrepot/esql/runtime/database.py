# SPDX-License-Identifier: Apache-2.0
"""Databases at run time: rows as elements, errors as SQLSTATE and its kin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from entrepot.errors import DatabaseFailed, EsqlRunError
from entrepot.esql.runtime.run import Database, EsqlRun
from entrepot.esql.syntax import Routine
from entrepot.models.element_types import NAME_VALUE
from entrepot.models.tree import Element

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")


def sql_name(name: str, *, quoted: bool = False) -> str:
    """A column or table as SQL; in double quotes where it was, or has to be."""
    if not quoted and _PLAIN_NAME.fullmatch(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def identifier(name: Any) -> str:
    """A table's name that the program has computed, safe inside of SQL."""
    if type(name) is not str or not name or "\x00" in name:
        raise EsqlRunError(f"a table's name is CHARACTER, not {name!r}", number=2321)
    return sql_name(name)


def _database(run: EsqlRun) -> Database:
    if run.database is None:
        raise EsqlRunError("the node has no database: give it a data source", number=2321)
    return run.database


def query_rows(
    run: EsqlRun, source: str, text: str, values: Sequence[Any], keys: tuple[tuple[str, ...] | None, ...]
) -> Iterator[tuple[Element, ...]]:
    """The rows of a SELECT: for each one element a table, its columns as children.

    `keys` has the columns that were asked of each table; None for all of them.
    """
    database = _database(run)
    try:
        names, rows = database.query(run.source(source), text, values)
    except DatabaseFailed as error:
        run.failed(error)
        return
    run.succeeded()
    for row in rows:
        yield tuple(_elements(row, names, keys))


def _elements(row: Sequence[Any], names: Sequence[str], keys: tuple[tuple[str, ...] | None, ...]) -> Iterator[Element]:
    start = 0
    for wanted in keys:
        columns = names[start:] if wanted is None else wanted
        element = Element("row")
        element.fill([Element(name, value, NAME_VALUE) for name, value in zip(columns, row[start:], strict=False)])
        start += max(len(columns), 1)
        yield element


def query_value(run: EsqlRun, source: str, text: str, values: Sequence[Any]) -> Any:
    """An aggregate that the database computes."""
    database = _database(run)
    try:
        _, rows = database.query(run.source(source), text, values)
    except DatabaseFailed as error:
        run.failed(error)
        return None
    run.succeeded()
    return rows[0][0] if rows else None


def execute(run: EsqlRun, source: str, text: str, values: Sequence[Any]) -> None:
    """INSERT, UPDATE, DELETE."""
    database = _database(run)
    try:
        rows = database.execute(run.source(source), text, values)
    except DatabaseFailed as error:
        run.failed(error)
        return
    run.succeeded(rows)


def passthru(run: EsqlRun, source: str, text: Any, values: Sequence[Any]) -> list[Element]:
    """PASSTHRU: the database's own language; rows as a list."""
    if type(text) is not str:
        raise EsqlRunError(f"PASSTHRU takes a text, not {text!r}", number=2321)
    database = _database(run)
    try:
        names, rows = database.query(run.source(source), text, values)
    except DatabaseFailed as error:
        run.failed(error)
        return []
    run.succeeded()
    return [next(_elements(row, names, (None,))) for row in rows]


def finish(run: EsqlRun, source: str, commit: bool) -> None:
    """COMMIT and ROLLBACK."""
    database = _database(run)
    try:
        database.finish(run.source(source), commit)
    except DatabaseFailed as error:
        run.failed(error)
        return
    run.succeeded()


def stored_procedure(routine: Routine) -> Callable[..., Any]:
    """A procedure that lives in a database, called as a routine of the program."""
    directions = tuple(parameter.direction for parameter in routine.parameters)
    name = routine.external or routine.name

    def call(run: EsqlRun, *arguments: Any, source: str = "") -> Any:
        database = _database(run)
        try:
            value, given, _ = database.call(
                run.source(source), name, arguments, directions, routine.returns is not None
            )
        except DatabaseFailed as error:
            run.failed(error)
            value, given = None, arguments
        else:
            run.succeeded()
        outs = [argument for argument, direction in zip(given, directions, strict=True) if direction != "IN"]
        return (value, *outs) if outs else value

    return call
