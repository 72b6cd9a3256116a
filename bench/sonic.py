# SPDX-License-Identifier: Apache-2.0
"""The shapes of the comparison of SonicMQ with MQSeries (2000), through the JMS-like view of a connection.

One to one: each sender has a destination and a receiver of its own. One to
many, many to one, many to many: all share one destination. On a topic every
receiver gets every message, and with many to many each client sends and
receives on one connection; on a queue one receiver gets it. As in the
document each client is one connection, messages are sent as fast as
possible, receipt is asynchronous (a listener) and acknowledged automatically,
and persistent publications go to durable subscriptions. Clients are threads
of a few processes. A sender pauses while its share of 1,000 messages is under
way at its destination (MQSeries had queues of 1,000, SonicMQ of 1 MB), or of
2,500 deliveries in all.

bench/reference/sonicmq_2000.csv has the published figures. They stand beside
ours for the shape of the curves: another century's machine and network, other
languages, so neither is the other's equal. One to one on queues was not
published.

    python bench/sonic.py --pairs 1 100 --style queue      some visits, with the published figures beside them
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import random
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import neighbours
import trial
from capacity import allow_files
from figures import Figure, Outcome, readable
from load import Applications, Gate
from peers.entrepot_server import QueueManager
from tallies import HEAD, PAUSE_S, Tallies, faults, note, observe
from topics import shares

PAIRS = (1, 100, 250)
MANY = 50
BODY_BYTES = (100, 1000)
PROCESSES = 2
"""For the senders, and as many for the receivers."""
UNDER_WAY_MAX = 1000
DELIVERIES_UNDER_WAY_MAX = 2_500
"""Of all senders: so few that they are reached during the warm-up, or senders would only be filling a backlog."""
FILES = 2000
PUBLISHED = trial.HERE / "reference" / "sonicmq_2000.csv"
HARDWARE = (
    "published in 2000: server with 4 × 550 MHz Xeon and 3 × 7,200 rpm SCSI disks in RAID 0, write cache off; 5 client"
    " machines of 2 × 500 MHz; 100 Mbit/s; Windows NT 4"
)
CONTRACTS = {
    False: "memory; each message is answered for before the next is sent, and acknowledged after its callback",
    True: "on disk before send returns; acknowledged on disk after its callback, before the next; durable subscribers",
}


class Case(NamedTuple):
    shape: str
    style: str
    """topic or queue"""
    senders: int
    receivers: int
    body_bytes: int
    persistent: bool

    def __str__(self) -> str:
        clients = f"{self.senders} to {self.receivers}"
        return f"{self.shape}, {self.style}, {clients}, {self.body_bytes:,} bytes, {self.persistence}"

    @property
    def persistence(self) -> str:
        return "persistent" if self.persistent else "nonpersistent"

    @property
    def paired(self) -> bool:
        return self.shape == "one-to-one"

    @property
    def conversing(self) -> bool:
        """Whether each client sends and receives."""
        return (self.shape, self.style) == ("many-to-many", "topic")

    def audience(self, sender: int) -> range:
        return range(sender, sender + 1) if self.paired else range(self.receivers)

    def audiences(self) -> list[range]:
        return [self.audience(sender) for sender in range(self.senders)]

    def destination(self, client: int) -> str:
        name = f"D{client if self.paired else 0}"
        return name if self.style == "queue" else f"topic:{name}"

    @property
    def window(self) -> int:
        """How many messages of one sender may be under way."""
        at_destination = 1 if self.paired else self.senders
        copies = self.receivers if self.style == "topic" and not self.paired else 1
        return max(2, min(UNDER_WAY_MAX // at_destination, DELIVERIES_UNDER_WAY_MAX // (self.senders * copies)))


def cases(pairs: tuple[int, ...] = PAIRS, sizes: tuple[int, ...] = BODY_BYTES) -> list[Case]:
    shapes = [("one-to-one", style, count, count) for style in ("topic", "queue") for count in pairs]
    shapes += [
        ("one-to-many", "topic", 1, MANY),
        ("one-to-many", "queue", 1, MANY),
        ("many-to-one", "queue", MANY, 1),
        ("many-to-many", "topic", MANY, MANY),
        ("many-to-many", "queue", MANY, MANY),
    ]
    return [Case(*shape, size, kept) for shape, size, kept in itertools.product(shapes, sizes, (False, True))]


def published() -> dict[Case, dict[str, float]]:
    """The figures of the document; a few are missing in it."""
    found = {}
    with PUBLISHED.open(newline="") as lines:
        for row in csv.DictReader(lines):
            senders, receivers, size = (int(row.pop(name)) for name in ("senders", "receivers", "body_bytes"))
            kept = row.pop("qos") == "persistent"
            case = Case(row.pop("shape"), row.pop("style"), senders, receivers, size, kept)
            found[case] = {name: float(value) for name, value in row.items() if value}
    return found


def visit(case: list[Any], warm_up_s: float, window_s: float, folder: str) -> dict[str, Any]:
    """One case: rates of senders and receivers, CPU time, memory, and what is missing."""
    allow_files(FILES)
    wanted = Case(*case)
    gate = Gate(warm_up_s, window_s)
    tallies = Tallies(wanted.senders, wanted.receivers, shared=wanted.style == "queue")
    with QueueManager(Path(folder)) as manager, Applications(gate) as applications:
        if wanted.style == "queue":
            manager.define_queues(*{wanted.destination(client) for client in range(wanted.senders)})
        if wanted.conversing:
            for numbers in shares(wanted.senders, 2 * PROCESSES):
                applications.start(_send, manager.unix_url, tallies, wanted, numbers)
        else:
            for numbers in shares(wanted.receivers, PROCESSES):
                applications.start(_receive, manager.unix_url, tallies, wanted, numbers)
            # What is published before anybody has subscribed is gone.
            applications.gather()
            for numbers in shares(wanted.senders, PROCESSES):
                applications.start(_send, manager.unix_url, tallies, wanted, numbers)
        applications.gather()
        found = observe(tallies, gate, applications, [manager.pid], _send)
        return found | tallies.drain(wanted.audiences())


def _receive(url: str, tallies: Tallies, case: Case, numbers: range, gate: Gate) -> None:
    import entrepot

    for number in numbers:
        _listen(entrepot.connect(url), tallies, case, number)
    gate.arrive()
    threading.Event().wait()


def _listen(connection: Any, tallies: Tallies, case: Case, number: int) -> None:
    """A session whose own thread calls us with each message."""
    from entrepot.jms import Acknowledge, Session

    session, destination, see = Session(connection, Acknowledge.AUTO), case.destination(number), tallies.see(number)
    durable = case.style == "topic" and case.persistent
    consumer = session.durable_consumer(destination, f"R{number}") if durable else session.consumer(destination)
    consumer.listen(lambda message: see(message.body))


def _send(url: str, tallies: Tallies, case: Case, numbers: range, gate: Gate) -> None:
    import entrepot
    from entrepot.jms import Acknowledge, Session

    connections = [entrepot.connect(url) for _ in numbers]
    if case.conversing:
        for connection, number in zip(connections, numbers, strict=True):
            _listen(connection, tallies, case, number)
    sessions = [Session(connection, Acknowledge.AUTO) for connection in connections]
    problems: list[BaseException] = []
    threads = [
        threading.Thread(target=_send_one, args=(session, tallies, case, number, problems), daemon=True)
        for session, number in zip(sessions, numbers, strict=True)
    ]
    gate.wait()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    if case.conversing:
        # Our listeners still have something to see, and end with this process.
        tallies.settle(case.audiences())


def _send_one(session: Any, tallies: Tallies, case: Case, number: int, problems: list[BaseException]) -> None:
    tail, destination = os.urandom(case.body_bytes - HEAD.size), case.destination(number)

    def send(messages: range) -> None:
        session.send(destination, HEAD.pack(number, messages.start) + tail, persistent=case.persistent)

    try:
        # Many threads that look at the tallies every half millisecond would do nothing else.
        pause_s = PAUSE_S * max(1, case.senders // 10)
        tallies.produce(number, case.audience(number), send, at_once=1, window=case.window, pause_s=pause_s)
    except BaseException as error:
        problems.append(error)
        tallies.stop()


def measure(*, quick: bool) -> Outcome:
    if quick:
        return run(cases((1, 250), BODY_BYTES[:1]), 1, 0.5, 1.0)
    return run(cases(), 3, 1.0, 4.0)


def run(wanted: list[Case], repetitions: int, warm_up_s: float, window_s: float) -> Outcome:
    trials: list[dict[str, Any]] = []
    order = random.Random(2002)
    for repetition in range(repetitions):
        for case in order.sample(wanted, len(wanted)):
            with trial.scratch_folder() as folder:
                found = trial.run("sonic:visit", case=case, warm_up_s=warm_up_s, window_s=window_s, folder=str(folder))
            trials.append({"repetition": repetition, "case": case} | found)
    known = published()
    figures = neighbours.figures(trials)
    for case in wanted:
        mine = [found for found in trials if found["case"] == case]
        contract = CONTRACTS[case.persistent]
        for field, metric in (("sent_per_s", "sent"), ("seen_per_s", "received")):
            beside = "; ".join(
                f"{system} {readable(known[case][key])}"
                for system, key in (("SonicMQ", f"sonicmq_{metric}"), ("MQSeries", f"mqseries_{metric}"))
                if key in known.get(case, {})
            )
            words = f"beside it, of 2000: {beside}. " if beside else "not published. "
            rates = [found[field] for found in mine]
            figures.append(Figure(f"{case}: {metric}_per_s", rates, contract, note=words + note(mine)))
    settings = {
        "repetitions": repetitions,
        "warm_up_s": warm_up_s,
        "window_s": window_s,
        "client": "entrepot.jms, AUTO, listeners, one connection for each client, over the Unix socket",
        "processes": 2 * PROCESSES,
        "published": HARDWARE,
    }
    title = "SonicMQ's shapes (published figures are of other hardware, and no comparison)"
    return Outcome("sonic", title, figures + faults(trials), settings, trials)


def table(outcome: Outcome) -> Table:
    """Our figures with the published ones beside them."""
    shown = Table(title=f"{outcome.title}\n{HARDWARE}", title_justify="left")
    for header in ("case", "sent/s", "received/s", "SonicMQ sent", "received", "MQSeries sent", "received"):
        shown.add_column(header, justify="left" if header == "case" else "right")
    known = published()
    medians = {figure.name: figure.median for figure in outcome.figures}
    for case in dict.fromkeys(found["case"] for found in outcome.trials):
        of_2000 = known.get(case, {})
        names = ("sonicmq_sent", "sonicmq_received", "mqseries_sent", "mqseries_received")
        rates = (medians[f"{case}: sent_per_s"], medians[f"{case}: received_per_s"])
        beside = (readable(of_2000[name]) if name in of_2000 else "–" for name in names)
        shown.add_row(str(case), *map(readable, rates), *beside)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description="Visit some cases once each; figures of 2000 stand beside.")
    parser.add_argument("--shape", choices=sorted({case.shape for case in cases()}))
    parser.add_argument("--style", choices=("topic", "queue"))
    parser.add_argument("--pairs", type=int, nargs="+", default=list(PAIRS))
    parser.add_argument("--bytes", type=int, nargs="+", default=list(BODY_BYTES))
    parser.add_argument("--persistence", choices=("persistent", "nonpersistent"))
    parser.add_argument("--window", type=float, default=4.0, metavar="SECONDS")
    arguments = parser.parse_args()
    wanted = [
        case
        for case in cases(tuple(arguments.pairs), tuple(arguments.bytes))
        if arguments.shape in (None, case.shape)
        and arguments.style in (None, case.style)
        and arguments.persistence in (None, case.persistence)
    ]
    begun = time.monotonic()
    outcome = run(wanted, 1, 0.5, arguments.window)
    console = Console(width=max(Console().width, 140))
    console.print(table(outcome))
    missing, swapped = (sum(found[field] for found in outcome.trials) for field in ("missing_or_twice", "out_of_order"))
    elapsed_s = time.monotonic() - begun
    console.print(f"{len(wanted)} visits in {elapsed_s:.0f} s; missing or twice: {missing}, out of order: {swapped}")


if __name__ == "__main__":
    main()
