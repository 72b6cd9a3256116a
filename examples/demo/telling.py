# SPDX-License-Identifier: Apache-2.0
"""How the demo speaks: chapters, a live count where there is a terminal, and one table at the end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from entrepot.cli import output

if TYPE_CHECKING:
    from rich.console import Console

    from demo.orders import OrderBook
    from demo.verdict import Verdict

_SAY_EVERY_S = 5.0
"""How often somebody who has no terminal is told how far it is."""
_RANGES_CHARACTERS = 300
_ABOUT = {
    "PRICED.EU": "small, Europe",
    "PRICED.US": "small, America",
    "PRICED.ASIA": "small, Asia",
    "CONFIRMED": "large, three answers",
    "ORDERS.REFUSED": "flawed, set aside",
    "ledger": "rows in the database",
    "NEWS.EU": "news on orders/EU",
    "NEWS.US": "news on orders/US",
    "NEWS.ASIA": "news on orders/ASIA",
    "NEWS.LARGE": "large by content",
}


class Telling:
    """With `quiet` it says nothing at all."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console: Console = output.console()
        self._live: Console | None = None

    def chapter(self, title: str, rest: str, style: str = "bold") -> None:
        if not self._quiet:
            output.say(f"\n{title}{': ' * bool(rest)}{rest}", style)

    def line(self, text: str, style: str = "") -> None:
        if not self._quiet:
            output.say(f"  {text}", style)

    def event(self, text: str) -> None:
        """Something has happened while a count runs."""
        if self._quiet:
            return
        from rich.text import Text

        style = "bold red" if text.startswith("SIGKILL") else ""
        (self._live or self._console).print(Text(f"  {output.safe(text)}", style))

    @contextlib.contextmanager
    def waiting(self) -> Iterator[Callable[[str], None]]:
        """What is being waited for; an empty text ends it."""
        begun = time.monotonic()
        if self._quiet or not self._console.is_terminal:
            yield lambda what: self.line(f"{what} ({time.monotonic() - begun:.1f} s)") if what else None
            return
        with self._console.status("") as status:

            def tell(what: str) -> None:
                if what:
                    status.update(f"  {what} ({time.monotonic() - begun:.1f} s)")
                else:
                    status.stop()

            yield tell

    @contextlib.contextmanager
    def progress(self, totals: Mapping[str, int]) -> Iterator[Callable[[Mapping[str, int]], None]]:
        """A count for each name: bars in a terminal, else a line now and then."""
        if self._quiet:
            yield lambda _: None
            return
        if not self._console.is_terminal:
            yield self._now_and_then()
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            TextColumn("  {task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
        )
        with Progress(*columns, console=self._console, transient=True, refresh_per_second=8) as bars:
            tasks = {name: bars.add_task(name, total=total, rate="") for name, total in totals.items()}
            rates = _Rates()
            self._live = bars.console

            def show(counts: Mapping[str, int]) -> None:
                for name, count in counts.items():
                    bars.update(tasks[name], completed=count, rate=rates.told(name, count))

            try:
                yield show
            finally:
                self._live = None

    def _now_and_then(self) -> Callable[[Mapping[str, int]], None]:
        next_at = time.monotonic() + _SAY_EVERY_S

        def show(counts: Mapping[str, int]) -> None:
            nonlocal next_at
            if time.monotonic() >= next_at:
                next_at = time.monotonic() + _SAY_EVERY_S
                self.line(", ".join(f"{count:,} {name}" for name, count in counts.items()))

        return show

    # --- the end ------------------------------------------------------------------------------

    def refusals(self, book: OrderBook, reasons: Mapping[int, str]) -> None:
        """One order for each flaw, with what the flow said of it."""
        if self._quiet:
            return
        self.chapter("Set aside", "orders that failed three times, with what the flow said")
        wanted = book.refused
        first: dict[str, int] = {}
        for number in sorted(reasons):
            first.setdefault(wanted.get(number, "none that we know of"), number)
        output.table(("order", "flaw", "reason"), ((number, flaw, reasons[number]) for flaw, number in first.items()))
        if len(reasons) > len(first):
            self.line(f"and {len(reasons) - len(first)} more like these.")

    def conclude(self, verdict: Verdict, facts: Mapping[str, Any]) -> None:
        if self._quiet:
            return
        from demo.verdict import ranges

        self.chapter("The proof", "every message and every row read again, and compared with what was sent")
        places = [place for place in verdict.places if place.expected or not place.holds]
        output.table(
            ("place", "what", "due", "there", "lost", "twice", "wrong"),
            (
                (
                    place.place,
                    _ABOUT.get(place.place, "nothing may be left"),
                    place.expected,
                    place.found,
                    len(place.lost),
                    len(place.twice),
                    len(place.foreign) + len(place.wrong),
                )
                for place in places
            ),
        )
        for place in places:
            for problem in ("lost", "twice", "foreign", "wrong"):
                numbers = getattr(place, problem)
                if numbers:
                    self.line(f"{place.place}, {problem}: {ranges(numbers)[:_RANGES_CHARACTERS]}", "red")
        kills = len(facts["kills"])
        if verdict.holds:
            output.say(
                f"\nEvery order exactly once: {facts['orders']:,} sent, 0 lost, 0 twice, through {kills} kills, "
                f"in {facts['seconds']} s; the flows took {facts['work_s']} s of them, "
                f"{facts['orders_per_s']:,} orders/s.",
                "bold green",
            )
        else:
            output.say(
                f"\nTHE CLAIM DOES NOT HOLD: {len(verdict.lost)} lost, {len(verdict.twice)} twice. "
                "Please report this with the folder, which --keep keeps.",
                "bold red",
            )


class _Rates:
    """How fast counts grow, as text."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int, str]] = {}

    def told(self, name: str, count: int) -> str:
        now = time.monotonic()
        at, before, text = self._before.get(name, (now, count, ""))
        if name not in self._before or now - at >= 1.0:
            text = f"{(count - before) / (now - at):,.0f}/s" if now > at else ""
            self._before[name] = (now, count, text)
        return text
