# SPDX-License-Identifier: Apache-2.0
"""A second opinion on a history, by another way than `recovery.checker`.

The first checker tries all outcomes of operations that nobody knows the end
of, and takes those that explain most. This one searches nothing: it asks
each message for evidence. A message that was seen was put; one that is still
there was not taken; one that is gone was taken by the only one who tried.
The counting is SQL over tables, so that the two share no code but the words.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from recovery.checker import Operation, Standing

_TABLES = """
CREATE TABLE operation (id INTEGER PRIMARY KEY, actor, outcome, takes_from, happened);
CREATE TABLE put (operation, queue, message);
CREATE TABLE got (operation, queue, message);
CREATE TABLE left_over (place INTEGER PRIMARY KEY, queue, message);
CREATE INDEX put_by_message ON put (queue, message);
CREATE INDEX got_by_message ON got (queue, message);
CREATE INDEX left_by_message ON left_over (queue, message);
CREATE INDEX put_by_operation ON put (operation);
CREATE INDEX got_by_operation ON got (operation);
"""

_PUT_EVIDENCE = """
SELECT
    EXISTS (SELECT 1 FROM got WHERE queue = p.queue AND message = p.message AND operation != :id)
      OR EXISTS (SELECT 1 FROM left_over WHERE queue = p.queue AND message = p.message) AS seen,
    (SELECT max(coalesce(happened, 0.5)) FROM put JOIN operation ON id = operation
     WHERE queue = p.queue AND message = p.message AND operation != :id) AS others,
    EXISTS (SELECT 1 FROM operation WHERE outcome = 'unknown' AND takes_from = p.queue) AS doubtful
FROM put AS p WHERE operation = :id
"""
_GET_EVIDENCE = """
SELECT
    NOT EXISTS (SELECT 1 FROM left_over WHERE queue = g.queue AND message = g.message) AS missing,
    (SELECT max(coalesce(happened, 0.5)) FROM got JOIN operation ON id = operation
     WHERE queue = g.queue AND message = g.message AND operation != :id) AS others,
    EXISTS (SELECT 1 FROM operation WHERE outcome = 'unknown' AND takes_from = g.queue) AS doubtful
FROM got AS g WHERE operation = :id
"""
# `others` is 1 where another operation has done it, 0.5 where one may have. `doubtful`: a get that died may have taken
# the message, so that its absence proves nothing.

_ACCOUNTS = """
WITH message AS (
    SELECT queue, message FROM put UNION SELECT queue, message FROM got UNION SELECT queue, message FROM left_over
)
SELECT queue,
    (SELECT count(*) FROM put JOIN operation ON id = operation
     WHERE put.queue = m.queue AND put.message = m.message AND happened) AS created,
    (SELECT count(*) FROM got JOIN operation ON id = operation
     WHERE got.queue = m.queue AND got.message = m.message AND happened) AS gone,
    (SELECT count(*) FROM left_over WHERE queue = m.queue AND message = m.message) AS remaining,
    (SELECT count(*) FROM put WHERE queue = m.queue AND message = m.message) AS attempts,
    (SELECT count(*) FROM got WHERE queue = m.queue AND message = m.message) AS reads
FROM message AS m
"""


def problems(operations: Sequence[Operation], drained: Iterable[Standing], ordered: Iterable[str] = ()) -> set[str]:
    """What is wrong with a history, by the first checker's words for it; empty when all is well."""
    database = sqlite3.connect(":memory:")
    try:
        _load(database, operations, drained)
        _decide(database)
        found = _accounts(database)
        for queue in ordered:
            found |= _order(database, queue)
        return found
    finally:
        database.close()


def _load(database: sqlite3.Connection, operations: Sequence[Operation], drained: Iterable[Standing]) -> None:
    database.executescript(_TABLES)
    happened = {"ok": 1, "fail": 0, "unknown": None}
    rows = ((n, o.actor, o.outcome, o.takes_from, happened[o.outcome]) for n, o in enumerate(operations))
    database.executemany("INSERT INTO operation VALUES (?, ?, ?, ?, ?)", rows)
    for number, operation in enumerate(operations):
        database.executemany("INSERT INTO put VALUES (?, ?, ?)", _rows(number, operation.puts))
        database.executemany("INSERT INTO got VALUES (?, ?, ?)", _rows(number, operation.gets))
    database.executemany(
        "INSERT INTO left_over VALUES (?, ?, ?)", (row for n, s in enumerate(drained) for row in _rows(n, [s]))
    )


def _rows(number: int, standings: Iterable[Standing]) -> Iterable[tuple[int, str, str]]:
    return ((number, standing.queue, " ".join(map(str, standing.stamp))) for standing in standings)


def _decide(database: sqlite3.Connection) -> None:
    """Let the messages say which operations of unknown outcome happened."""
    rows = database.execute("SELECT id FROM operation WHERE outcome = 'unknown' AND takes_from = ''")
    undecided = [number for (number,) in rows]
    while undecided:
        verdicts = {number: _verdict(database, number) for number in undecided}
        if all(verdict is None for verdict in verdicts.values()):
            # Several may have taken the same messages. Whoever explains most did.
            verdicts = {max(undecided, key=lambda number: _weight(database, number)): True}
        for number, verdict in verdicts.items():
            if verdict is not None:
                database.execute("UPDATE operation SET happened = ? WHERE id = ?", (verdict, number))
                undecided.remove(number)
                break  # what is decided is evidence for the others


def _verdict(database: sqlite3.Connection, number: int) -> bool | None:
    """Whether an operation happened, or None while its messages do not say."""
    puts = database.execute(_PUT_EVIDENCE, {"id": number}).fetchall()
    gets = database.execute(_GET_EVIDENCE, {"id": number}).fetchall()
    if any(seen and not others for seen, others, _ in puts):
        return True
    if any(others == 1 or (not seen and not doubtful) for seen, others, doubtful in puts):
        return False
    if any(others == 1 or not missing for missing, others, _ in gets):
        return False
    if not gets and not any(seen for seen, _, _ in puts):
        return False  # nothing wants an explanation
    if any(not others and not doubtful for _, others, doubtful in gets):
        return True
    return None


def _weight(database: sqlite3.Connection, number: int) -> int:
    return len(database.execute(_GET_EVIDENCE, {"id": number}).fetchall())


def _accounts(database: sqlite3.Connection) -> set[str]:
    found: set[str] = set()
    lost: dict[str, int] = {}
    for queue, created, gone, remaining, attempts, reads in database.execute(_ACCOUNTS):
        if not created and (remaining or reads):
            found.add("aborted_read" if attempts else "unexpected")
        elif created > 1 or gone + remaining > created:
            found.add("duplicated")
        elif gone + remaining < created:
            lost[queue] = lost.get(queue, 0) + 1
    takes = "SELECT count(*) FROM operation WHERE outcome = 'unknown' AND takes_from = ?"
    if any(count > database.execute(takes, (queue,)).fetchone()[0] for queue, count in lost.items()):
        found.add("lost")
    return found


def _order(database: sqlite3.Connection, queue: str) -> set[str]:
    """Whether what a single reader took, and then what was left, is in each producer's order.

    Puts of unknown outcome are left out: a server that stood still may find them after later ones.
    """
    taken = """
        SELECT message FROM (
            SELECT 0 AS part, operation AS place, got.rowid AS row, message FROM got JOIN operation ON id = operation
            WHERE queue = :queue AND outcome = 'ok'
            UNION ALL SELECT 1, place, 0, message FROM left_over WHERE queue = :queue
        ) AS t
        WHERE EXISTS (SELECT 1 FROM put JOIN operation ON id = operation
                      WHERE put.queue = :queue AND put.message = t.message AND outcome = 'ok')
        ORDER BY part, place, row
    """
    last: dict[str, int] = {}
    for (message,) in database.execute(taken, {"queue": queue}):
        producer, sequence, *_ = message.split(" ")
        if int(sequence) < last.get(producer, 0):
            return {"reordered"}
        last[producer] = int(sequence)
    return set()
