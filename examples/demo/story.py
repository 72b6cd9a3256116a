# SPDX-License-Identifier: Apache-2.0
"""`python examples/demo`: flows on Spark, killed on the way, and proof that every order was dealt with exactly once.

Orders arrive on a queue as XML, COBOL records and SWIFT payments. Flows on
Spark read, price, enter, announce and route them, ask three desks about large
ones and gather the answers. A task and the queue manager are killed meanwhile.
In the end everything is read and compared (verdict). Exit code 1 if the
claim does not hold.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from demo.telling import Telling
from entrepot.cli import output
from entrepot.cli.arguments import Json

if TYPE_CHECKING:
    from demo.orders import OrderBook
    from demo.run import Run
    from demo.verdict import Verdict
    from demo.world import World


def demo(
    orders: Annotated[int, typer.Option(min=100, max=1_000_000, help="How many orders.")] = 8000,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the queue manager's folder and the database, to look around in them.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the main job: orders through flows on Spark, with kills on the way, and each dealt with exactly once."""
    folder = Path(tempfile.mkdtemp(prefix="entrepot-demo-"))
    try:
        story = Story(folder, orders, quiet=json)
        verdict = story.tell()
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if json:
        kept = {"path": str(folder / "DEMO")} if keep else {}
        output.print_json({"holds": verdict.holds, **story.facts, "verdict": verdict, **kept})
    elif keep:
        output.say(f"\nEverything is kept: entrepot browse {folder / 'DEMO'} CONFIRMED --limit 5")
    if not verdict.holds:
        raise typer.Exit(1)


class Story:
    """The demo from its first line to its last; with `quiet` only `facts` are gathered."""

    def __init__(self, folder: Path, orders: int, *, quiet: bool) -> None:
        self._folder = folder
        self._orders = orders
        self._telling = Telling(quiet=quiet)
        self.facts: dict[str, Any] = {"orders": orders}

    def tell(self) -> Verdict:
        from demo.orders import OrderBook
        from demo.verdict import judge
        from demo.world import World

        begin = time.perf_counter()
        _require_installed()
        book = OrderBook(self._orders)
        with World(self._folder) as world:
            self._introduce(world, book)
            self._run_flows(world, book)
            self.facts["in_doubt"] = world.recover()
            found = world.read_all()
            refusals = world.refusals()
        verdict = judge(book, found)
        self.facts["refused"] = {str(number): reason for number, reason in sorted(refusals.items())}
        self.facts["seconds"] = round(time.perf_counter() - begin, 1)
        self._telling.refusals(book, refusals)
        self._telling.conclude(verdict, self.facts)
        return verdict

    # --- the chapters -------------------------------------------------------------------------

    def _introduce(self, world: World, book: OrderBook) -> None:
        telling = self._telling
        telling.chapter("A queue manager and a database", f"made in {self._folder}; process {world.pid} serves queues")
        first = [book.order(number) for number in (3, 1, 2)]
        for order in first:
            telling.line(f"{order.form:<9} {output.safe(repr(order.body()[:84])[2:-1])}")
        telling.line(f"{self._orders:,} persistent orders in these three forms; {len(book.refused)} have a flaw.")

    def _run_flows(self, world: World, book: OrderBook) -> None:
        from demo.run import Run
        from entrepot.spark.starting.session import close_session, open_context

        telling = self._telling
        telling.chapter("Spark", "local, four tasks that stay: orders ×2, backoffice, confirm")
        begun = time.perf_counter()
        with telling.waiting() as tell:
            context = open_context(
                app="entrepot demo", light=True, long_tasks=Run.TASKS, preload=Run.PRELOADED, on_progress=tell
            )
            try:
                with Run(world, book, context) as run:
                    run.start(tell)
                    tell("")
                    self.facts["start_s"] = round(time.perf_counter() - begun, 1)
                    telling.line(f"All of them run {self.facts['start_s']} s after Spark was asked for.")
                    self._watch(run)
            finally:
                close_session(context)

    def _watch(self, run: Run) -> None:
        telling = self._telling
        telling.chapter("Orders arrive", "and flows work on them")
        with telling.progress(run.totals) as show:
            run.watch(show, telling.event)
        self.facts |= run.facts
        telling.line(
            f"Through with all in {run.facts['work_s']} s, kills included: {run.facts['orders_per_s']:,} orders/s; "
            f"{run.facts['orders_per_s_best']:,}/s in the best second."
        )
        if run.facts["sender_interruptions"]:
            telling.line(
                f"The sender was cut off {run.facts['sender_interruptions']}×, "
                "and went on from the place that it keeps on a queue."
            )


def _require_installed() -> None:
    """Tell what is missing before anything begins.

    Raises:
        ExtraMissing
    """
    from importlib.util import find_spec

    from entrepot.errors import ExtraMissing
    from entrepot.spark.starting.launching import spark_home

    spark_home()
    if find_spec("sqlalchemy") is None:
        raise ExtraMissing("the demo's database", "sql")
