# SPDX-License-Identifier: Apache-2.0
"""What the Database nodes of the broker document's flows talk to: a small table to read and update, and a journal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from entrepot.workbench.systems.unit_database import UnitDatabase, choose

TABLES = (
    "CREATE TABLE stock (id integer PRIMARY KEY, quantity integer)",
    "CREATE TABLE journal (id integer, text varchar(200))",
)
STOCK_ROWS = 1000
"""Few, so that all of it lies in the database's buffers: the document measures the call and not the disk."""
DATA_SOURCE = "BROKER"
"""As the flows name it."""


def fill(url: str) -> None:
    """Make the tables in a database that has none, by SQLAlchemy's URL."""
    from sqlalchemy import create_engine, text

    engine = create_engine(url)
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(text(table))
        rows = [{"id": number} for number in range(1, STOCK_ROWS + 1)]
        connection.execute(text("INSERT INTO stock VALUES (:id, 0)"), rows)
    engine.dispose()


@contextlib.contextmanager
def open_database(folder: Path, wanted: str = "") -> Iterator[UnitDatabase]:
    """PostgreSQL where it is installed, else a file of SQLite, with the tables in it.

    Raises:
        SystemAbsent: What is wanted by name is not there, or SQLAlchemy is not.
    """
    found = UnitDatabase(folder, choose(wanted, folder))
    try:
        found.start()
        fill(found.url)
        yield found
    finally:
        found.stop()
