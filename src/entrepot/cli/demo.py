# SPDX-License-Identifier: Apache-2.0
"""`entrepot demo`: orders, failures, a SIGKILL in the middle, and the proof that nothing was lost or came twice.

A child process owns the queue manager (demo_worker); this one watches,
kills, starts another, and in the end reads all messages itself and
compares (demo_verdict). Exit code 1 if the claim does not hold.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json

if TYPE_CHECKING:
    from entrepot.cli.demo_verdict import Verdict

_KILL_AT = 0.45
"""The part of all orders after which the first worker is killed."""
_WORKER_S_MAX = 120.0
_FORCES_MEASURED = 100


def demo(
    orders: Annotated[int, typer.Option(min=20, max=100_000, help="How many orders.")] = 2000,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the queue manager's folder, to look around in it.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the main job: orders in units of work, failures, a SIGKILL in the middle, and nothing lost."""
    folder = Path(tempfile.mkdtemp(prefix="entrepot-demo-"))
    try:
        story = _Story(folder / "DEMO", orders, quiet=json)
        verdict = story.tell()
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if json:
        kept = {"path": str(folder / "DEMO")} if keep else {}
        output.print_json({"holds": verdict.holds, **story.facts, "verdict": verdict, **kept})
    elif keep:
        output.say(f"\nThe queue manager is kept: entrepot browse {folder / 'DEMO'} SHIPPED --limit 5")
    if not verdict.holds:
        raise typer.Exit(1)


class _Told:
    """What a worker was answered for, and when."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = {"put": [], "shipped": [], "failed": []}
        self.times: dict[str, list[float]] = {"put": [], "shipped": [], "failed": []}
        self.started: dict[str, Any] = {}

    def hear(self, line: str) -> str:
        import msgspec

        word, value, moment = line.split()
        if word == "ready":
            self.started = msgspec.json.decode(value)
        else:
            self.numbers[word].append(int(value))
            self.times[word].append(float(moment))
        return word

    def rate_per_s(self, word: str) -> float:
        times = self.times[word]
        elapsed = times[-1] - times[0] if times else 0.0
        return (len(times) - 1) / elapsed if elapsed > 0 else 0.0


class _Story:
    """The demo from its first line to its last; with `quiet` only `facts` are gathered."""

    def __init__(self, path: Path, orders: int, *, quiet: bool) -> None:
        self._path = path
        self._orders = orders
        self._quiet = quiet
        self.facts: dict[str, Any] = {"orders": orders}

    def tell(self) -> Verdict:
        from entrepot.cli import demo_worker

        begin = time.perf_counter()
        poison = demo_worker.poison(self._orders)
        self._create(demo_worker.COMMITTERS)
        before = self._until_killed(poison)
        after = self._to_the_end(before)
        at_the_end = self._read_all()
        found = after.started["found"]
        names = {"orders": demo_worker.ORDERS, "shipped": demo_worker.SHIPPED, "backout": demo_worker.BACKOUT}
        from entrepot.cli.demo_verdict import judge

        verdict = judge(
            self._orders,
            poison,
            acknowledged=set(before.numbers["shipped"]),
            in_flight_max=demo_worker.COMMITTERS,
            after_restart={key: found[name] for key, name in names.items()},
            at_the_end=at_the_end,
        )
        self.facts["seconds"] = round(time.perf_counter() - begin, 2)
        self._conclude(verdict, at_the_end)
        return verdict

    # --- the chapters -------------------------------------------------------------------------

    def _create(self, committers: int) -> None:
        from entrepot.queues.folder import create
        from entrepot.recovery_log.settings import LogSettings

        create(self._path, name="DEMO", log=LogSettings(segment_bytes=8 * 1024 * 1024))
        force_us, file_system = _force_us(self._path.parent), _file_system(self._path)
        self.facts |= {"committers": committers, "file_system": file_system, "force_us": round(force_us, 1)}
        self._chapter("A queue manager", f"created at {self._path}")
        self._line(f"One write with fdatasync takes {force_us:,.0f} µs here ({file_system}).")
        if file_system in ("tmpfs", "ramfs"):
            self._line("This file system is memory: the rates below say nothing about a disk.", "yellow")

    def _until_killed(self, poison: int) -> _Told:
        told = _Told()
        kill_at = int(self._orders * _KILL_AT)
        self._chapter("A child process owns it", f"takes {self._orders:,} orders, {self.facts['committers']} at a time")
        with _worker(self._path, self._orders, "take-and-ship") as child, self._progress() as advance:
            for line in _lines(child):
                word = told.hear(line)
                advance(word, self._orders)
                if word == "shipped" and len(told.numbers["shipped"]) == kill_at:
                    child.send_signal(signal.SIGKILL)  # and hear what it still had said
            code = child.wait()
        if code != -signal.SIGKILL:
            raise _DemoFailed(f"the first worker ended by itself with exit code {code}")
        self.facts["puts_per_s"] = round(told.rate_per_s("put"))
        self.facts["units_per_s_before_kill"] = round(told.rate_per_s("shipped"))
        self.facts["acknowledged_before_kill"] = len(told.numbers["shipped"])
        self.facts["backed_out_before_kill"] = len(told.numbers["failed"])
        self._line(f"{len(told.numbers['put']):,} persistent puts acknowledged, {self.facts['puts_per_s']:,}/s.")
        self._line(
            f"Then units of work, get ORDERS and put SHIPPED: {self.facts['units_per_s_before_kill']:,}/s; "
            f"{len(told.numbers['failed'])} failed on purpose and were backed out, "
            f"{told.numbers['failed'].count(poison)} of them order {poison}, which nobody can process."
        )
        self._chapter(
            "SIGKILL", f"after {len(told.numbers['shipped']):,} acknowledged units, with others under way", "bold red"
        )
        return told

    def _to_the_end(self, before: _Told) -> _Told:
        told = _Told()
        self._chapter("A second child restarts it", "")
        with _worker(self._path, self._orders, "ship") as child, self._progress() as advance:
            for line in _lines(child):
                word = told.hear(line)
                if word == "ready":
                    self._restarted(told.started, before)
                advance(word, self._orders)
            code = child.wait()
        if code:
            raise _DemoFailed(f"the second worker failed with exit code {code}")
        self.facts["units_per_s_after_restart"] = round(told.rate_per_s("shipped"))
        self._line(
            f"It went on to the end: {len(told.numbers['shipped']):,} units, "
            f"{self.facts['units_per_s_after_restart']:,}/s, {len(told.numbers['failed'])} backed out on purpose."
        )
        return told

    def _restarted(self, started: dict[str, Any], before: _Told) -> None:
        found = started["found"]
        shipped = len(found["SHIPPED"])
        self.facts["restart"] = {key: value for key, value in started.items() if key != "found"}
        self.facts["shipped_after_restart"] = shipped
        self._line(
            f"Recovered in {started['seconds'] * 1000:,.0f} ms: {started['replayed_records']:,} log records, "
            f"{started['replayed_bytes']:,} bytes replayed"
            + (", the torn last group cut." if started["torn"] else "; the log's end was clean.")
        )
        acknowledged = set(before.numbers["shipped"])
        gone, extra = len(acknowledged.difference(found["SHIPPED"])), len(set(found["SHIPPED"]) - acknowledged)
        self._line(
            f"{len(found['ORDERS']):,} orders wait, {shipped:,} are shipped: "
            + (f"{gone} that were acknowledged are GONE" if gone else "all that were acknowledged")
            + (f", and {extra} that the kill cut off between disk and answer." if extra else ".")
        )

    def _read_all(self) -> dict[str, list[int]]:
        from entrepot.cli import demo_worker

        with opening.connected(self._path) as connection:
            return {
                "orders": demo_worker.orders_on(connection, demo_worker.ORDERS),
                "shipped": demo_worker.orders_on(connection, demo_worker.SHIPPED),
                "backout": demo_worker.orders_on(connection, demo_worker.BACKOUT),
            }

    def _conclude(self, verdict: Verdict, at_the_end: dict[str, list[int]]) -> None:
        from entrepot.cli.demo_verdict import ranges

        self.facts["queues"] = {
            name: {"messages": len(numbers), "orders": ranges(numbers)} for name, numbers in at_the_end.items()
        }
        if self._quiet:
            return
        self._chapter("The proof", "every message read again and compared with what was put and acknowledged")
        titles = {"orders": "ORDERS", "shipped": "SHIPPED", "backout": "ORDERS.BACKOUT"}
        output.table(
            ("queue", "messages", "orders"),
            ((titles[name], len(numbers), ranges(numbers)) for name, numbers in at_the_end.items()),
        )
        checks = (
            ("orders lost", verdict.lost),
            ("orders twice", verdict.twice),
            ("orders that nobody put", verdict.unknown),
            ("orders never processed", verdict.left),
            ("orders wrongly on or off the backout queue", verdict.misplaced),
            ("acknowledged before the kill, gone after it", verdict.taken_back),
        )
        output.table(("check", "found", "which"), ((text, len(bad), ranges(bad)) for text, bad in checks))
        if verdict.invented:
            output.say(f"{verdict.invented} orders are shipped that nobody asked for and that were not in flight.")
        output.say(
            "Durability promised: no put and no commit is acknowledged before fdatasync has returned for its record.\n"
            "A SIGKILL shows that the process kept nothing to itself; make test cuts the power of a simulated disk."
        )
        rates = (
            self.facts["puts_per_s"],
            self.facts["units_per_s_after_restart"] or self.facts["units_per_s_before_kill"],
        )
        if verdict.holds:
            output.say(
                f"\nNothing lost, nothing twice: {self._orders:,} orders through a SIGKILL "
                f"in {self.facts['seconds']} s ({rates[0]:,} puts/s, {rates[1]:,} units of work/s).",
                "bold green",
            )
        else:
            output.say("\nTHE CLAIM DOES NOT HOLD. Please report this with the folder, which --keep keeps.", "bold red")

    # --- telling ------------------------------------------------------------------------------

    def _chapter(self, title: str, rest: str, style: str = "bold") -> None:
        if not self._quiet:
            output.say(f"\n{title}{': ' * bool(rest)}{rest}", style)

    def _line(self, text: str, style: str = "") -> None:
        if not self._quiet:
            output.say(f"  {text}", style)

    @contextmanager
    def _progress(self) -> Iterator[Callable[[str, int], None]]:
        """A live line for each kind of news, where there is a terminal to show it."""
        out = output.console()
        if self._quiet or not out.is_terminal:
            yield lambda _word, _total: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("  {task.description:<10}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=out, transient=True, refresh_per_second=15) as progress:
            tasks: dict[str, Any] = {}

            def advance(word: str, total: int) -> None:
                if word in ("put", "shipped"):
                    if word not in tasks:
                        tasks[word] = progress.add_task(word, total=total)
                    progress.advance(tasks[word])

            yield advance


class _DemoFailed(typer.Exit):
    """A worker did not do its part, so there is nothing to show."""

    def __init__(self, problem: str) -> None:
        super().__init__(1)
        output.console(stderr=True).print(f"error: {problem}", markup=False)


@contextmanager
def _worker(path: Path, orders: int, job: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "entrepot.cli.demo_worker", str(path), str(orders), job]
    # Our own module and our own arguments. Its standard input stays open for as long as we live.
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def _lines(child: subprocess.Popen[str]) -> Iterator[str]:
    """What a worker says, until it ends; one that hangs is ended."""
    from threading import Timer

    assert child.stdout is not None
    watch = Timer(_WORKER_S_MAX, child.terminate)
    watch.daemon = True
    watch.start()
    try:
        for line in child.stdout:
            if line.endswith("\n"):
                yield line
    finally:
        watch.cancel()


def _force_us(folder: Path) -> float:
    """How long a small write and its force take on this device, the median of some."""
    from statistics import median

    probe = folder / "probe"
    descriptor = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    times = []
    try:
        os.pwrite(descriptor, bytes(4096 * _FORCES_MEASURED), 0)
        os.fdatasync(descriptor)
        for number in range(_FORCES_MEASURED):
            begin = time.perf_counter()
            os.pwrite(descriptor, b"x" * 4096, 4096 * number)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - begin)
    finally:
        os.close(descriptor)
        probe.unlink()
    return median(times) * 1e6


def _file_system(path: Path) -> str:
    """The kind of file system that a path lies on, as the kernel calls it."""
    best, kind = "", "unknown"
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return kind
    for line in mounts.splitlines():
        _, point, name, *_ = line.split()
        if path.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, name
    return kind
