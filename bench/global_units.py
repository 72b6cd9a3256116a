# SPDX-License-Identifier: Apache-2.0
"""Receivers that get a persistent message and write a row: what a global unit of work costs beside its parts.

So many threads of one process get messages of 2 KB from one queue of an
embedded queue manager. `global` writes each into a table of PostgreSQL in the
same unit of work; `local` only gets and commits; `database` only writes and
commits, without messages: CSIRO's receivers (`entrepot bench list 'csiro/*'`)
beside the two things that they do. PostgreSQL runs on the same machine and disk, with
fsync on, so all three share the device. A trial is a fresh process and a
fresh queue manager; all kinds at all numbers of receivers run once in a
repetition, in random order, and ratios are taken within a repetition.
"""

from __future__ import annotations

import random
import threading
import time
from itertools import product
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine

import trial
from contenders import BODY_BYTES
from entrepot.client.blocking import Connection, connect
from entrepot.workbench.systems.unit_database import POSTGRESQL, UnitDatabase, choose
from figures import Figure, Outcome

RECEIVERS = (1, 15, 20)
KINDS = ("local", "global", "database")
CONTRACTS = {
    "local": "get and commit: fdatasync of the recovery log before each commit returns",
    "global": (
        "get, INSERT, commit of both: PREPARE forced by PostgreSQL, decision forced by fdatasync of the recovery log,"
        " COMMIT PREPARED forced by PostgreSQL, before each commit returns"
    ),
    "database": "INSERT and commit: WAL forced by PostgreSQL (fsync=on, synchronous_commit=on) before each returns",
}
_INSERT = text("INSERT INTO rows (body) VALUES (:body)")


def throughput(
    kind: str, receivers: int, url: str, messages: int, warm_up_s: float, window_s: float, folder: str
) -> dict[str, Any]:
    """Units of work per second, over a window in which all receivers run and none finds its queue empty."""
    engine = create_engine(url, pool_size=receivers + 2)
    with engine.begin() as database:
        database.execute(text("DROP TABLE IF EXISTS rows"))
        database.execute(text("CREATE TABLE rows (number bigserial PRIMARY KEY, body bytea)"))
    ends: list[list[float]] = [[] for _ in range(receivers)]
    errors: list[BaseException] = []
    dry_at = [float("inf")] * receivers
    stopped = False
    with connect(f"embedded:{Path(folder) / 'manager'}") as connection:
        if kind != "database":
            _fill(connection, messages)

        def receive(number: int) -> None:
            try:
                while not stopped:
                    if not _one(kind, connection, engine):
                        dry_at[number] = time.perf_counter()
                        return
                    ends[number].append(time.perf_counter())
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=receive, args=(number,)) for number in range(receivers)]
        for thread in threads:
            thread.start()
        time.sleep(warm_up_s)
        begun = time.perf_counter()
        while time.perf_counter() < begun + window_s and min(dry_at) == float("inf") and not errors:
            time.sleep(0.01)
        ended = min(time.perf_counter(), *dry_at)
        stopped = True
        for thread in threads:
            thread.join()
        with engine.connect() as database:
            rows = database.scalar(text("SELECT count(*) FROM rows"))
    engine.dispose()
    if errors:
        raise errors[0]
    done = sum(map(len, ends))
    # A rate of units that did not do what they should would be a lie.
    assert rows == (0 if kind == "local" else done), (rows, done)
    counted = sum(begun <= end < ended for mine in ends for end in mine)
    if counted == 0:
        raise RuntimeError(f"{kind} with {receivers} receivers: no unit within the window; give it more messages")
    return {"rate_per_s": counted / (ended - begun), "units": counted, "window_s": ended - begun}


def _fill(connection: Connection, messages: int) -> None:
    connection.mqsc("DEFINE QLOCAL(Q) MAXDEPTH(999999999)")
    body = bytes(BODY_BYTES)
    for begin in range(0, messages, 1000):
        with connection.unit_of_work() as unit:
            for _ in range(min(1000, messages - begin)):
                unit.put("Q", body, persistent=True)


def _one(kind: str, connection: Connection, engine: Engine) -> bool:
    """One unit of work; False when there was no message."""
    if kind == "database":
        with engine.begin() as database:
            database.execute(_INSERT, {"body": bytes(BODY_BYTES)})
        return True
    if kind == "local":
        with connection.unit_of_work() as unit:
            return unit.get("Q") is not None
    with connection.global_unit_of_work(engine) as both:
        message = both.get("Q")
        if message is None:
            return False
        both.database(engine).execute(_INSERT, {"body": message.body})
    return True


def measure(*, quick: bool = False) -> Outcome:
    repetitions = 1 if quick else 5
    settings = {
        "body_bytes": BODY_BYTES,
        "receivers": RECEIVERS,
        "repetitions": repetitions,
        "messages": 3_000 if quick else 40_000,
        "warm_up_s": 0.3 if quick else 2.0,
        "window_s": 1.0 if quick else 10.0,
    }
    trials: list[dict[str, Any]] = []
    with trial.scratch_folder() as folder:
        postgres = UnitDatabase(folder / "postgres", choose(POSTGRESQL))
        try:
            postgres.start()
            for repetition in range(repetitions):
                plan = list(product(KINDS, RECEIVERS))
                random.shuffle(plan)
                for kind, receivers in plan:
                    with trial.scratch_folder() as own:
                        found = trial.run(
                            "global_units:throughput",
                            kind=kind,
                            receivers=receivers,
                            url=postgres.url,
                            folder=str(own),
                            **{key: settings[key] for key in ("messages", "warm_up_s", "window_s")},
                        )
                    trials.append({"repetition": repetition, "kind": kind, "receivers": receivers} | found)
        finally:
            postgres.stop()
    return Outcome("global_units", "Global units of work: get + INSERT", _figures(trials), settings, trials)


def _figures(trials: list[dict[str, Any]]) -> list[Figure]:
    rates: dict[tuple[str, int], list[float]] = {}
    for each in sorted(trials, key=lambda each: each["repetition"]):
        rates.setdefault((each["kind"], each["receivers"]), []).append(each["rate_per_s"])
    figures = []
    for receivers in RECEIVERS:
        for kind in KINDS:
            name = f"{kind}, {receivers} receivers, units/s"
            figures.append(Figure(name, rates[kind, receivers], CONTRACTS[kind]))
        for part in ("local", "database"):
            ratios = [
                both / alone for both, alone in zip(rates["global", receivers], rates[part, receivers], strict=True)
            ]
            figures.append(Figure(f"global / {part}, {receivers} receivers", ratios, CONTRACTS["global"]))
    return figures
