# SPDX-License-Identifier: Apache-2.0
"""ESQL's database interface over Python's own: any DB-API connection, such as sqlite3's or psycopg's.

SqlDatabase(sqlite3.connect("shop.db"))                         one data source
SqlDatabase({"SHOP": psycopg.connect(...), "": sqlite3...})     several, by name
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from entrepot.errors import DatabaseFailed
from entrepot.models.values import Bits, Interval

_SQLITE_STATES = {
    "IntegrityError": "23000",
    "OperationalError": "HY000",
    "ProgrammingError": "42000",
    "DataError": "22000",
    "NotSupportedError": "0A000",
}


_CONNECTION_FAILED = "08006"


class SqlDatabase:
    """Runs SQL text with `?` on DB-API connections. Units of work are their owner's, except COMMIT and ROLLBACK."""

    def __init__(self, connections: Any) -> None:
        self._connections: dict[str, Any] = dict(connections) if isinstance(connections, Mapping) else {"": connections}

    def query(self, source: str, text: str, values: Sequence[Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        cursor = self._run(source, text, values)
        try:
            if cursor.description is None:
                return (), ()
            names = [column[0] for column in cursor.description]
            return names, [tuple(_received(value) for value in row) for row in cursor.fetchall()]
        except Exception as error:
            raise _failure(error) from error
        finally:
            cursor.close()

    def execute(self, source: str, text: str, values: Sequence[Any]) -> int:
        cursor = self._run(source, text, values)
        count: int = cursor.rowcount
        cursor.close()
        return count

    def call(
        self, source: str, name: str, values: Sequence[Any], directions: Sequence[str], returns: bool
    ) -> tuple[Any, Sequence[Any], Sequence[Any]]:
        """A stored procedure or function, called as PostgreSQL has it: outputs come back as one row."""
        if returns:
            ins = [value for value, direction in zip(values, directions, strict=True) if direction != "OUT"]
            _, rows = self.query(source, f"SELECT {name}({', '.join('?' for _ in ins)})", ins)
            return (rows[0][0] if rows else None), values, ()
        _, rows = self.query(source, f"CALL {name}({', '.join('?' for _ in values)})", values)
        outs = iter(rows[0] if rows else ())
        given = [
            value if direction == "IN" else next(outs, None)
            for value, direction in zip(values, directions, strict=True)
        ]
        return None, given, ()

    def finish(self, source: str, commit: bool) -> None:
        connection = self._connection(source)
        try:
            connection.commit() if commit else connection.rollback()
        except Exception as error:
            raise _failure(error) from error

    def _connection(self, source: str) -> Any:
        connection = self._connections.get(source)
        if connection is None and len(self._connections) == 1 and not source:
            connection = next(iter(self._connections.values()))
        if connection is None:
            known = ", ".join(sorted(name or "(the default)" for name in self._connections))
            raise DatabaseFailed(f"there is no data source {source!r}; there is {known}", sqlstate="08001", number=2321)
        return connection

    def _run(self, source: str, text: str, values: Sequence[Any]) -> Any:
        connection = self._connection(source)
        module = sys.modules[type(connection).__module__.partition(".")[0]]
        style = getattr(module, "paramstyle", "qmark")
        cursor = connection.cursor()
        try:
            cursor.execute(_marked(text, style), [_sent(value, style) for value in values])
        except Exception as error:
            cursor.close()
            raise _failure(error) from error
        return cursor


def _marked(text: str, style: str) -> str:
    """Question marks as the driver wants them; those inside of quotes and comments are not ours."""
    if style == "qmark":
        return text
    written: list[str] = []
    position, quote = 0, ""
    while position < len(text):
        character = text[position]
        if quote:
            if text.startswith(quote, position):
                written.append(quote)
                position += len(quote)
                quote = ""
                continue
        elif character in "'\"":
            quote = character
            written.append(character)
            position += 1
            continue
        elif text.startswith("--", position) or text.startswith("/*", position):
            quote = "\n" if character == "-" else "*/"
            written.append(text[position : position + 2])
            position += 2
            continue
        elif character == "?":
            written.append("%s")
            position += 1
            continue
        written.append("%%" if character == "%" else character)
        position += 1
    return "".join(written)


def _sent(value: Any, style: str) -> Any:
    if isinstance(value, Bits):
        return value.digits
    if isinstance(value, Interval):
        return str(value.seconds if not value.months else value.months)
    if style == "qmark" and type(value).__name__ in ("Decimal", "datetime", "date", "time"):
        # sqlite3 keeps no decimals and dates; text sorts and compares as they do.
        return str(value)
    return value


def _received(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _failure(error: Exception) -> DatabaseFailed:
    """What a driver raised, with the SQLSTATE that the database gave or the standard has for it."""
    if isinstance(error, DatabaseFailed):
        return error
    state = getattr(error, "sqlstate", None) or _SQLITE_STATES.get(type(error).__name__, "HY000")
    native = getattr(error, "sqlite_errorcode", 0) or 0
    if hasattr(error, "sqlstate") and error.sqlstate is None and type(error).__name__ == "OperationalError":
        state = _CONNECTION_FAILED  # psycopg: what no server has said is about the way to it
    return DatabaseFailed(str(error).strip() or type(error).__name__, sqlstate=state, native_error=native, number=2322)
