# SPDX-License-Identifier: Apache-2.0
"""The queues that persistent.py compares, each set up to put one message durably per call.

What each library offers was read in its source (persist-queue 1.1.0,
litequeue 0.9) and is checked by tracing its system calls:

- persist_queue.SQLiteQueue: WAL, SQLite's default synchronous=FULL, one
  commit per put on one shared connection behind a lock. Durable; the pragma
  is set all the same, since a SQLite may be built with another default.
- persist_queue.Queue: flushes to the kernel and renames its info file
  without any fsync, but for one per chunk of 100 puts. No setting makes a
  put durable, so it stands here with a weaker contract.
- litequeue: sets synchronous=NORMAL, which in WAL mode does not force a
  commit. Durable once its connection is told synchronous=FULL.
"""

from __future__ import annotations

import importlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from device import zeroed_file
from figures import FORCED

BODY_BYTES = 2048
BUSY_S = 60.0
Put = Callable[[], Any]


class Contender:
    """A queue in a folder; `committer` is called on the thread that will put."""

    title: ClassVar[str]
    contract: ClassVar[str] = FORCED
    rival: ClassVar[bool] = True
    """Whether the target is measured against it."""
    committers: ClassVar[tuple[int, ...]] = (1, 4, 16)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def committer(self) -> Put:
        """A function that puts one 2 KB message and returns when it is durable."""
        raise NotImplementedError

    def close(self) -> None:
        """Let everything go."""


class Entrepot(Contender):
    title = "entrepot, threads"
    rival = False
    committers = (1, 2, 4, 8, 16, 32, 64)

    def __init__(self, folder: Path) -> None:
        import entrepot

        super().__init__(folder)
        self._url = f"embedded:{folder / 'manager'}"
        self._connect = entrepot.connect
        self._connections = [entrepot.connect(self._url)]
        self._connections[0].mqsc("DEFINE QLOCAL(Q) MAXDEPTH(999999999)")

    def committer(self) -> Put:
        connection, body = self._connect(self._url), bytes(BODY_BYTES)
        self._connections.append(connection)

        def put() -> None:
            with connection.unit_of_work() as unit:
                unit.put("Q", body, persistent=True)

        return put

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class EntrepotAsync(Contender):
    """Only a title and levels: persistent.py runs its committers as tasks."""

    title = "entrepot.aio, tasks"
    rival = False
    committers = (1, 2, 4, 8, 16, 32, 64)


class BareFile(Contender):
    """What one thread gets from the device with a log of its own and no queue at all."""

    title = "bare pwrite+fdatasync"
    rival = False
    committers = (1,)

    def committer(self) -> Put:
        descriptor, body = zeroed_file(self.folder / "log", 64 * 1024 * 1024), bytes(BODY_BYTES)
        offset = 0

        def put() -> None:
            nonlocal offset
            os.pwrite(descriptor, body, offset)
            os.fdatasync(descriptor)
            offset = (offset + BODY_BYTES) % (64 * 1024 * 1024)

        return put


class PersistQueueSqlite(Contender):
    title = "persist_queue.SQLiteQueue"
    committers = (1, 4, 16, 64)

    def __init__(self, folder: Path) -> None:
        import persistqueue

        super().__init__(folder)
        self._queue = persistqueue.SQLiteQueue(str(folder), multithreading=True, timeout=BUSY_S)
        connection: Any = self._queue._putter
        connection.execute("PRAGMA synchronous=FULL")

    def committer(self) -> Put:
        body, put = bytes(BODY_BYTES), self._queue.put
        return lambda: put(body)

    def close(self) -> None:
        self._queue.close()


class PersistQueueFile(Contender):
    title = "persist_queue.Queue"
    contract = "weaker contract: no fsync but one per 100 puts"
    rival = False
    committers = (1, 4)

    def __init__(self, folder: Path) -> None:
        import persistqueue

        super().__init__(folder)
        self._queue = persistqueue.Queue(str(folder / "queue"), tempdir=str(folder))

    def committer(self) -> Put:
        body, put = bytes(BODY_BYTES), self._queue.put
        return lambda: put(body)


class LiteQueueShared(Contender):
    title = "litequeue, one connection"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._queue = self.open()

    def open(self) -> Any:
        litequeue = importlib.import_module("litequeue")  # it has no type hints

        found = litequeue.LiteQueue(str(self.folder / "queue.db"), timeout=BUSY_S)
        found.conn.execute("PRAGMA synchronous=FULL")
        return found

    def committer(self) -> Put:
        body, put = "x" * BODY_BYTES, self._queue.put
        return lambda: put(body)


class LiteQueuePerThread(LiteQueueShared):
    title = "litequeue, connection per thread"
    committers = (4, 16)

    def committer(self) -> Put:
        body, put = "x" * BODY_BYTES, self.open().put
        return lambda: put(body)


class SqliteShared(Contender):
    title = "hand-written SQLite, one connection"
    committers: ClassVar[tuple[int, ...]] = (1, 4, 16, 64)
    insert = "INSERT INTO queue (body) VALUES (?)"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._connection = self.open()
        self._connection.execute("CREATE TABLE queue (number INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        self._lock = threading.Lock()

    def open(self) -> sqlite3.Connection:
        found = sqlite3.connect(self.folder / "queue.db", timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        found.execute("PRAGMA journal_mode=WAL")
        found.execute("PRAGMA synchronous=FULL")
        return found

    def committer(self) -> Put:
        body, execute, lock = bytes(BODY_BYTES), self._connection.execute, self._lock

        def put() -> None:
            with lock:
                execute(self.insert, (body,))

        return put


class SqlitePerThread(SqliteShared):
    title = "hand-written SQLite, connection per thread"
    committers = (4, 16, 64)

    def committer(self) -> Put:
        body, execute = bytes(BODY_BYTES), self.open().execute
        return lambda: execute(self.insert, (body,))


class SqliteGrouped(SqliteShared):
    """What a determined user could write: a thread that commits for everybody who waits."""

    title = "for information: SQLite with group commit of our own"
    rival = False
    committers = (1, 16, 64)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._waiting: queue.SimpleQueue[tuple[bytes, threading.Lock]] = queue.SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        execute = self._connection.execute
        while True:
            group = [self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get())
            execute("BEGIN")
            for body, _ in group:
                execute(self.insert, (body,))
            execute("COMMIT")
            for _, ticket in group:
                ticket.release()

    def committer(self) -> Put:
        body = bytes(BODY_BYTES)

        def put() -> None:
            ticket = threading.Lock()
            ticket.acquire()
            self._waiting.put((body, ticket))
            ticket.acquire()

        return put


CONTENDERS: dict[str, type[Contender]] = {
    kind.__name__: kind
    for kind in (
        BareFile,
        Entrepot,
        EntrepotAsync,
        PersistQueueSqlite,
        PersistQueueFile,
        LiteQueueShared,
        LiteQueuePerThread,
        SqliteShared,
        SqlitePerThread,
        SqliteGrouped,
    )
}
