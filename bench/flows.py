# SPDX-License-Identifier: Apache-2.0
"""The broker document's flows on Spark, queue to queue through the server, beside what it published.

Targets: ten times the published rate of a single flow, fifty times for
aggregation, two hundred times for MT543. Processor time per message is the
instances' and the queue manager's together, beside the document's.
"""

from __future__ import annotations

import csv
import statistics
from functools import cache
from pathlib import Path
from typing import Any

from entrepot.workbench.broker.cases import Case, cases
from figures import Figure, Outcome, at_least
from flow_stage import Stage
from trial import scratch_folder

SOURCE = "wbimb-hpux-v5"
TIMES = {"aggregation": 50, "swift_mt543": 200}
TIMES_OTHERS = 10
SECONDS = 2.5
COUNT_MIN, COUNT_MAX = 1_000, 60_000
BYTES_MAX = 120 * 1024 * 1024
REPEATS = 2
CONTRACT = {
    False: "nonpersistent, unit of work; dies with the queue manager",
    True: "persistent; forced before each commit",
}
COORDINATED = "; coordinated with the database"
SKIPPED = ("instances_4", "instances_8", "execution_groups_4", "execution_groups_8")
"""More copies than this machine has processors. Two copies have no target: the document's rate is two copies', too."""
QUICK = ("trivial", "compute_simple", "filter", "database_read", "aggregation", "publication_10", "route_to_label_1")


def measure(*, quick: bool = False, names: tuple[str, ...] = ()) -> Outcome:
    chosen = [
        case
        for case in cases().values()
        if case.name not in SKIPPED and (not names or case.name in names) and (not quick or case.name in QUICK)
    ]
    figures: list[Figure] = []
    trials: list[dict[str, Any]] = []
    with scratch_folder() as folder, Stage(folder) as stage:
        for case in chosen:
            for database in _databases(case):
                for size in case.sizes:
                    for persistent in (False, True):
                        found = _repeated(stage, case, size, persistent, database, quick)
                        trials += [each | {"database": database} for each in found]
                        figures.append(_figure(case, size, persistent, database, found))
    return Outcome(
        "flows",
        "message flows on Spark local[2], queue to queue through the server, two instances where there is one flow",
        figures,
        {"seconds": SECONDS, "repeats": 1 if quick else REPEATS},
        trials,
    )


def _databases(case: Case) -> list[str]:
    return ["postgresql", "sqlite"] if case.database else [""]


def _repeated(
    stage: Stage, case: Case, size: int, persistent: bool, database: str, quick: bool
) -> list[dict[str, Any]]:
    """The first trial is short and tells how many messages the others need."""
    databases = {"BROKER": getattr(stage, database)()} if database else {}
    # SQLite lets one writer in at a time, so a second instance would only wait.
    instances = 1 if database == "sqlite" else 2
    count = COUNT_MIN
    found = []
    for _ in range(1 if quick else REPEATS + 1):
        trial = stage.run(case, size, count, persistent=persistent, databases=databases, instances=instances)
        found.append(trial)
        wanted = int(trial["rate_per_s"] * SECONDS)
        count = max(COUNT_MIN, min(wanted, COUNT_MAX, BYTES_MAX // (size * max(case.subscribers, 1))))
    return found if quick else found[1:]


def _figure(case: Case, size: int, persistent: bool, database: str, found: list[dict[str, Any]]) -> Figure:
    qos = "persistent" if persistent else "nonpersistent"
    was = published()
    rate = was.get((case.table, qos, size, "throughput"))
    times = TIMES.get(case.name, TIMES_OTHERS)
    cpu = statistics.median(trial["flow_cpu_ms"] + trial["server_cpu_ms"] for trial in found)
    cpu_then = was.get((case.table, qos, size, "cpu_per_message"))
    note = f"{cpu:.2f} CPU ms/message"
    if cpu_then is not None:
        note += f" (published {cpu_then:g})"
    if rate is not None:
        median = statistics.median(trial["rate_per_s"] for trial in found)
        note += f"; {median / rate:.1f} × the published {rate:g}/s"
    else:
        note += "; not published"
    contract = CONTRACT[persistent] + (COORDINATED if database and case.name != "database_read" else "")
    label = f"{case.name}{', ' + database if database else ''}, {size // 1024} KB, {qos} msg/s"
    return Figure(
        label,
        [trial["rate_per_s"] for trial in found],
        contract,
        at_least(rate * times) if rate is not None and not case.name.endswith("_2") else None,
        note,
    )


@cache
def published() -> dict[tuple[str, str, int, str], float]:
    """(table, persistence, bytes, metric) → value, for one instance where the document has several."""
    found: dict[tuple[str, str, int, str], float] = {}
    with Path(__file__).with_name("published.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["source"] == SOURCE and row["message_bytes"]:
                key = (row["table"], row["qos"], int(row["message_bytes"]), row["metric"])
                found[key] = float(row["value"])
    return found
