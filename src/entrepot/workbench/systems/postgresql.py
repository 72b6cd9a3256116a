# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL as a queue, with psycopg: a table for each queue, read with SKIP LOCKED.

A waiting client asks again, at first after half a millisecond and later after ten.
NOTIFY would be the other way: it takes one lock for the whole server at
each commit, so that four senders of recoverable messages reached half the
rate here, and the time to the receiver was the same. A request has a
correlation id, and its reply is found by it in a table that all requesters
have in common. There are no topics.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format

from entrepot.errors import SystemFailed
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.postgresql_server import PostgreSqlServer
from entrepot.workbench.systems.system import REPLY_S, Replier, Requester, SystemReceiver, SystemSender

READ_AT_ONCE = 100
ASK_AGAIN_S_MIN = 0.0005
ASK_AGAIN_S_MAX = 0.01
COUNTED_MAX = 10_000

UNANSWERED_MAX = 256
"""As many answers may be under way to a sender that does not wait for them; JetStream's has as many."""

_EXPRESS = (
    "unlogged tables and no wait for the log: all messages are gone when the server fails; received up to 100 at a"
    " time, and gone if the reader fails"
)
_REPLIES = "workbench_replies"
_TALLY = "workbench_tally"


class PostgreSql(PostgreSqlServer):
    name = "postgresql"
    title = "PostgreSQL with SKIP LOCKED, psycopg"
    abilities = frozenset({"queues", "requests", "sessions"})
    contracts = {
        Quality.EXPRESS: f"{_EXPRESS}; sent in libpq's pipeline mode, up to {UNANSWERED_MAX} answers behind the sender",
        Quality.RECOVERABLE: "each insert is a commit, whose log is forced before it returns (those at one time share a"
        " force); what was received is deleted by a commit that is forced likewise",
        Quality.TRANSACTIONAL: "all inserts of a unit are one commit, and so are all deletes; the log is forced before"
        " it returns",
        Quality.GLOBAL: "received messages and a change in another table are one local commit, because queue and"
        " database are one resource: no two-phase commit is needed, and none is measured",
    }

    answered_contract = f"{_EXPRESS}; each insert is answered before the next is sent"

    def start(self) -> None:
        super().start()
        unlogged = self._unlogged()
        with contextlib.closing(self.connect()) as connection:
            connection.execute(
                sql.SQL(
                    "CREATE {} TABLE IF NOT EXISTS {} (correlation bigint PRIMARY KEY, body bytea NOT NULL)"
                ).format(unlogged, sql.Identifier(_REPLIES))
            )
            connection.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (receiver bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
                    " received bigint NOT NULL) WITH (fillfactor = 50)"
                ).format(sql.Identifier(_TALLY))
            )

    def _unlogged(self) -> sql.SQL:
        return sql.SQL("" if self.quality.is_persistent else "UNLOGGED")

    def settings(self) -> dict[str, str]:
        return {
            "waiting": "asks again after 0.5 ms to 10 ms, because NOTIFY halves the rate of durable senders",
            "autovacuum": "every second and per table from 5,000 dead rows, so that a queue's dead rows stay few",
            "synchronous_commit": "on" if self.quality.is_persistent else "off",
            "max_connections": "500 instead of 100",
            "sending": "one INSERT for each recoverable message; otherwise one for all messages of a call",
            "depth": f"counted up to {COUNTED_MAX}; beyond that, youngest minus oldest number",
        }

    def create_queues(self, names: Sequence[str]) -> None:
        with contextlib.closing(self.connect()) as connection:
            for name in names:
                table = sql.Identifier(name)
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
                connection.execute(
                    sql.SQL(
                        "CREATE {} TABLE {} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL,"
                        " correlation bigint) WITH (autovacuum_vacuum_scale_factor = 0,"
                        " autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0)"
                    ).format(self._unlogged(), table)
                )

    def depth(self, queue: str) -> int | None:
        """What is committed, so what a unit of work has received counts until its commit."""
        table = sql.Identifier(queue)
        with contextlib.closing(self.connect()) as connection:
            ends = sql.SQL("SELECT min(id), max(id) FROM {}").format(table)
            oldest, youngest = connection.execute(ends).fetchone() or (None, None)
            if oldest is None:
                return 0
            # To count a deep table takes as long as to read it; numbers have gaps, but few.
            if youngest - oldest >= COUNTED_MAX:
                return int(youngest - oldest + 1)
            count = sql.SQL("SELECT count(*) FROM {} WHERE id >= %s").format(table)
            found = connection.execute(count, (oldest,)).fetchone()
            return int(found[0]) if found else 0

    def sender(self, queue: str) -> SystemSender:
        if self.quality is Quality.RECOVERABLE:
            return _EachSender(self.connect(), queue)
        if self.quality is Quality.EXPRESS and not self.is_answered:
            return _PipelineSender(self.connect(), queue)
        return _UnitSender(self.connect(), queue)

    def receiver(self, queue: str) -> SystemReceiver:
        if self.quality is Quality.EXPRESS:
            return _PostgresReceiver(self.connect(), queue, READ_AT_ONCE)
        at_once = 1 if self.quality is Quality.RECOVERABLE else int(self.options.get("batch") or 1)
        if self.quality is Quality.GLOBAL:
            return _TallyingReceiver(self.connect(), queue, at_once)
        return _PostgresUnitReceiver(self.connect(), queue, at_once)

    def requester(self, requests: str, number: int) -> Requester:  # noqa: ARG002 - a random correlation id is unique
        return _PostgresRequester(self.connect(), requests)

    def replier(self, requests: str) -> Replier:
        return _PostgresReplier(self.connect(), requests)


class _Patience:
    """Between two questions that found nothing: longer and longer, so that idle clients cost the server little."""

    def __init__(self, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._pause_s = ASK_AGAIN_S_MIN

    def wait(self) -> bool:
        """Whether to ask again."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(self._pause_s * 1.5, ASK_AGAIN_S_MAX)
        return True


def _take(queue: str, columns: str) -> sql.Composed:
    # As an array, the subquery runs once; IN may become a join that locks more rows than the limit says.
    return sql.SQL(
        "DELETE FROM {table} WHERE id = ANY(ARRAY(SELECT id FROM {table} ORDER BY id FOR UPDATE SKIP LOCKED LIMIT %s))"
        " RETURNING id, {columns}"
    ).format(table=sql.Identifier(queue), columns=sql.SQL(columns))


class _UnitSender:
    """One statement for all messages of a call; outside a larger unit of work a statement is one itself."""

    def __init__(self, connection: psycopg.Connection[Any], queue: str) -> None:
        self._connection = connection
        self._insert = sql.SQL("INSERT INTO {} (body) SELECT unnest(%b::bytea[])").format(sql.Identifier(queue))

    def send(self, bodies: Sequence[bytes]) -> None:
        self._connection.execute(self._insert, (list(bodies),), prepare=True)

    def flush(self) -> None:
        """Every statement was answered already."""

    def close(self) -> None:
        self._connection.close()


class _PipelineSender:
    """One statement and one commit for each call, whose answer is read when UNANSWERED_MAX are under way.

    By way of libpq's own calls: what psycopg's pipeline() sends is committed
    by its sync(), which also waits for all answers, so nothing would be under
    way while the next message is made.
    """

    _NAME = b"put"
    _BYTEA_ARRAY = 1001

    def __init__(self, connection: psycopg.Connection[Any], queue: str) -> None:
        self._connection = connection
        self._libpq = connection.pgconn
        insert = sql.SQL("INSERT INTO {} (body) SELECT unnest($1)").format(sql.Identifier(queue))
        self._libpq.prepare(self._NAME, insert.as_bytes(connection), [self._BYTEA_ARRAY])
        self._dump = Transformer(connection).get_dumper([b""], PyFormat.BINARY).dump
        # Few enough answers are under way to fit into the kernel's buffers, so neither side can block the other.
        self._libpq.nonblocking = 0
        self._libpq.enter_pipeline_mode()
        self._unanswered = 0

    def send(self, bodies: Sequence[bytes]) -> None:
        self._libpq.send_query_prepared(self._NAME, [self._dump(list(bodies))], [Format.BINARY])
        self._libpq.pipeline_sync()
        self._unanswered += 1
        if self._unanswered >= UNANSWERED_MAX:
            self.flush()

    def flush(self) -> None:
        while self._unanswered:
            # The statement's result, the end of its results, and the end of its commit.
            for wanted in (ExecStatus.COMMAND_OK, None, ExecStatus.PIPELINE_SYNC):
                result = self._libpq.get_result()
                if (None if result is None else result.status) != wanted:
                    problem = self._libpq.get_error_message() if result is None else result.get_error_message()
                    raise SystemFailed("postgresql", f"answered with an error: {problem}")
            self._unanswered -= 1

    def close(self) -> None:
        if self._libpq.status == ConnStatus.OK:
            self.flush()
        self._connection.close()


class _EachSender:
    def __init__(self, connection: psycopg.Connection[Any], queue: str) -> None:
        self._connection = connection
        self._insert = sql.SQL("INSERT INTO {} (body) VALUES (%b)").format(sql.Identifier(queue))

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._connection.execute(self._insert, (body,), prepare=True)

    def flush(self) -> None:
        """Every statement was answered already."""

    def close(self) -> None:
        self._connection.close()


class _PostgresReceiver:
    """Each taking is a commit."""

    def __init__(self, connection: psycopg.Connection[Any], queue: str, at_once: int) -> None:
        self._connection = connection
        self._at_once = at_once
        self._take = _take(queue, "body")
        self._cursor = connection.cursor(binary=True)

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        patience = _Patience(timeout_s)
        while True:
            rows = self._cursor.execute(self._take, (self._at_once,), prepare=True).fetchall()
            if rows:
                return [body for _, body in sorted(rows)]
            if not patience.wait():
                return []

    def commit(self) -> None:
        """Done already."""

    def close(self) -> None:
        self._connection.close()


class _PostgresUnitReceiver(_PostgresReceiver):
    """What was taken since the last commit is one unit of work; closing backs it out."""

    def __init__(self, connection: psycopg.Connection[Any], queue: str, at_once: int) -> None:
        connection.autocommit = False
        super().__init__(connection, queue, at_once)

    def commit(self) -> None:
        self._connection.commit()


class _TallyingReceiver(_PostgresUnitReceiver):
    """Counts each message in a row of its own, in the same unit of work."""

    def __init__(self, connection: psycopg.Connection[Any], queue: str, at_once: int) -> None:
        super().__init__(connection, queue, at_once)
        tally = sql.Identifier(_TALLY)
        insert = sql.SQL("INSERT INTO {} (received) VALUES (0) RETURNING receiver").format(tally)
        row = connection.execute(insert).fetchone()
        assert row is not None, "RETURNING gives the row that was inserted"
        connection.commit()
        self._receiver = row[0]
        self._count = sql.SQL("UPDATE {} SET received = received + 1 WHERE receiver = %s").format(tally)

    def receive(self, timeout_s: float) -> Sequence[bytes]:
        bodies = super().receive(timeout_s)
        for _ in bodies:
            self._connection.execute(self._count, (self._receiver,), prepare=True)
        return bodies


class _PostgresRequester:
    def __init__(self, connection: psycopg.Connection[Any], requests: str) -> None:
        self._connection = connection
        self._cursor = connection.cursor(binary=True)
        self._correlations = itertools.count(secrets.randbits(62))
        self._ask = sql.SQL("INSERT INTO {} (body, correlation) VALUES (%b, %b)").format(sql.Identifier(requests))
        self._find = sql.SQL("DELETE FROM {} WHERE correlation = %b RETURNING body").format(sql.Identifier(_REPLIES))

    def request(self, body: bytes, timeout_s: float = REPLY_S) -> bytes | None:
        correlation = next(self._correlations)
        self._connection.execute(self._ask, (body, correlation), prepare=True)
        patience = _Patience(timeout_s)
        while patience.wait():
            found = self._cursor.execute(self._find, (correlation,), prepare=True).fetchone()
            if found is not None:
                return bytes(found[0])
        return None

    def close(self) -> None:
        self._connection.close()


class _PostgresReplier:
    """Takes one request at a time; the end of the request and its reply are one statement, and so one unit of work."""

    def __init__(self, connection: psycopg.Connection[Any], requests: str) -> None:
        self._connection = connection
        self._answer = sql.SQL(
            "WITH request AS ({take}) INSERT INTO {replies} (correlation, body) SELECT correlation, body FROM request"
        ).format(take=_take(requests, "correlation, body"), replies=sql.Identifier(_REPLIES))

    def serve(self, ready: Callable[[], None]) -> None:
        cursor = self._connection.cursor()
        ready()
        while True:
            patience = _Patience(REPLY_S)
            while cursor.execute(self._answer, (1,), prepare=True).rowcount == 0 and patience.wait():
                pass
