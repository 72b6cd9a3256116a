# SPDX-License-Identifier: Apache-2.0
"""What the demo's flows stand on: a queue manager in a process of its own, and a database in a file.

Nothing has to be installed for either. The queue manager can be killed and
started again; in the end everything that lies on its queues and in the
database is read, for the verdict.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from demo import sender
from demo.orders import number_of_correlation
from demo.verdict import EMPTY, LEDGER, NEWS, OUTCOMES, REFUSED, Seen
from entrepot.cli import opening
from entrepot.cli.serving import start_server, stop_server
from entrepot.client.blocking import Connection, connect
from entrepot.errors import ChannelError
from entrepot.message import Message

FLOWS = ("orders", "backoffice", "confirm")
SOURCE = "SHOP"
_FOLDER = Path(__file__).parent / "flow"
_SEGMENT_BYTES = 8 * 1024 * 1024
_NUMBER = re.compile(rb"<number>(\d+)</number>")
_CENTS = re.compile(rb"<cents>(\d+)</cents>")
_POLL_S = 0.01
_FILE_NAME = re.compile(r"^\S*/(?=[^/\s]+:\d+: )")


def flow_path(name: str) -> Path:
    """A file of the demo's flows."""
    return _FOLDER / name


class World:
    """A queue manager DEMO and a database shop.db in a folder; a context manager that stops what runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "DEMO"
        self.database = folder / "shop.db"
        self.pid = 0

    @property
    def url(self) -> str:
        return f"unix:{self.path}"

    @property
    def databases(self) -> dict[str, str]:
        return {SOURCE: f"sqlite:///{self.database}"}

    def __enter__(self) -> World:
        from entrepot.engine.folder import create
        from entrepot.engine.recovery_log.settings import LogSettings

        create(self.path, name="DEMO", log=LogSettings(segment_bytes=_SEGMENT_BYTES))
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            database.executescript(flow_path("shop.sql").read_text(encoding="utf-8"))
        self.start()
        with self.connected() as connection:
            connection.mqsc(flow_path("queues.mqsc").read_text(encoding="utf-8"))
            sender.prepare(connection)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ChannelError):
            if opening.owner(self.path) is not None:
                stop_server(self.path, immediate=True)

    def start(self) -> None:
        """Start the queue manager; returns when programs can connect."""
        self.pid = start_server(self.path)

    def kill(self) -> None:
        """SIGKILL to the queue manager's process; returns when it is dead."""
        os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        while opening.owner(self.path) is not None:
            time.sleep(_POLL_S)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Connection]:
        with connect(self.url, application="demo") as connection:
            yield connection

    # --- what is there ------------------------------------------------------------------------

    def depths(self, connection: Connection) -> dict[str, int]:
        """How many messages lie on each queue."""
        rows = connection.mqsc("DISPLAY QSTATUS(*) CURDEPTH")[0].rows
        return {str(row["QUEUE"]): int(str(row["CURDEPTH"])) for row in rows}

    def read_all(self) -> dict[str, list[Seen]]:
        """Every order at every place, as often as it is there."""
        with self.connected() as connection:
            found = {queue: _orders_on(connection, queue) for queue in (*OUTCOMES, *NEWS, *EMPTY)}
        found[LEDGER] = [Seen(number, cents) for number, cents in self._ledger()]
        return found

    def refusals(self) -> dict[int, str]:
        """The orders that were set aside, and why."""
        with self.connected() as connection:
            return {
                number_of_correlation(message.correlation_id): _reason(message)
                for message in connection.browse(REFUSED)
            }

    def _ledger(self) -> list[tuple[int, int]]:
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as database:
            return list(database.execute("SELECT number, cents FROM ledger"))

    # --- units of work in doubt ---------------------------------------------------------------

    def recover(self) -> list[str]:
        """Use the database once more, which ends what a kill has left there; units that are in doubt all the same."""
        from sqlalchemy import NullPool, create_engine

        engine = create_engine(self.databases[SOURCE], poolclass=NullPool)
        with self.connected() as connection:
            with connection.global_unit_of_work(engine):
                pass
            return self.in_doubt(connection)

    def in_doubt(self, connection: Connection) -> list[str]:
        """Units that were prepared and wait for what SQLite did."""
        rows = connection.administration.in_doubt()
        return [str(row["global_unit"]) for row in rows if row["state"] == "prepared"]


def _orders_on(connection: Connection, queue: str) -> list[Seen]:
    return [_seen(message) for message in connection.browse(queue)]


def _seen(message: Message) -> Seen:
    number, cents = _NUMBER.search(message.body), _CENTS.search(message.body)
    # An order as its sender wrote it may be in any form, or in none.
    told = number_of_correlation(message.correlation_id)
    return Seen(int(number[1]) if number else told, int(cents[1]) if cents else None)


def _reason(message: Message) -> str:
    """What the flow has said, without the folder of the file that it names."""
    return _FILE_NAME.sub("", str(message.properties.get("entrepot_error", "")))


def total(depths: Mapping[str, int], queues: Sequence[str]) -> int:
    """How many messages lie on some queues together."""
    return sum(depths.get(queue, 0) for queue in queues)
