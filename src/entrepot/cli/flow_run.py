# SPDX-License-Identifier: Apache-2.0
"""`entrepot flow run`, `stop` and `status`: flows at work, on Spark or in processes here, and what they do."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.cli import opening, output
from entrepot.cli.arguments import Json, Reachable, pair
from entrepot.errors import EntrepotError

if TYPE_CHECKING:
    from entrepot.flows.definition import FlowDefinition
    from entrepot.flows.live.supervision import SupervisedFlow

_WATCH_S = 1.0
_NO_GROUP = "default"
_PRELOADED = ("entrepot.flows.live.instance", "entrepot.flows.nodes.mq", "entrepot.flows.nodes.compute", "lxml.etree")
"""What every instance needs, imported once before its process is forked."""

FlowPath = Annotated[
    list[Path], typer.Argument(metavar="FLOW...", help="Flows: our YAML, or IBM's .msgflow; each becomes a job.")
]
Databases = Annotated[
    list[str] | None,
    typer.Option(
        "--database", metavar="NAME=URL", help="A data source and its SQLAlchemy URL; without NAME= for all others."
    ),
]


def database_pair(text: str) -> tuple[str, str]:
    """NAME=URL, or a URL alone for every data source that is not named."""
    name, equals, url = text.partition("=")
    if not equals or "://" in name:
        name, url = "", text
    if "://" not in url:
        raise typer.BadParameter(f"{text!r} is no data source; write ORDERS=postgresql+psycopg://host/db")
    return name, url


def run(
    path: Reachable,
    flows: FlowPath,
    instances: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Tasks for each flow; what the flow says unless given.")
    ] = None,
    group: Annotated[str, typer.Option(help="The execution group; the same flow may run in several.")] = _NO_GROUP,
    database: Databases = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master, such as spark://host:7077; on this machine unless given.")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="In processes of this machine, without Spark and Java; for development.")
    ] = False,
    spark: Annotated[
        list[str] | None, typer.Option("--spark", metavar="KEY=VALUE", help="A setting of Spark's own.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Messages that may share a unit of work.")] = 100,
    message_timeout: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="End the process that a message keeps for longer; 0: never."),
    ] = 300.0,
    start_timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long its instances may take to begin.")
    ] = 60.0,
    trace: Annotated[str, typer.Option(metavar="FILE", help="Write the user trace to FILE.0, FILE.1 ...")] = "",
    statistics: Annotated[bool, typer.Option("--statistics", help="Account for every node, too.")] = False,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Stop when the input queues have been empty for a second.")
    ] = False,
    project: Annotated[
        list[Path] | None,
        typer.Option("--project", metavar="FOLDER", help="Where a .msgflow finds what it refers to; may be repeated."),
    ] = None,
    java: Annotated[
        list[str] | None,
        typer.Option(
            "--java", metavar="CLASS=MODULE:FUNCTION", help="The Python that stands for a JavaCompute's class."
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A promoted or user-defined property of the flows."),
    ] = None,
    json: Json = False,
) -> None:
    """Let flows work on queues, until Ctrl-C or `entrepot flow stop`.

    Where no server runs in the folder yet, one is started, and stopped in the end. A flow that runs already is taken
    over: the old run finishes its units of work, and is fenced after that.
    """
    from entrepot.flows import load_flow
    from entrepot.flows.live.readiness import require_ready
    from entrepot.flows.subflows import set_properties

    if local and (master or spark):
        raise typer.BadParameter("--local runs without Spark, so --master and --spark mean nothing with it")
    stand_ins = dict(pair(text, "a class", "com.shop.Price=shop:price") for text in java or ())
    values = dict(pair(text, "a property", "queue=ORDERS") for text in properties or ())
    definitions = [load_flow(flow, projects=project or (), java=stand_ins) for flow in flows]
    if values:
        definitions = [set_properties(definition, values) for definition in definitions]
    databases = dict(map(database_pair, database or ()))
    wanted = sum(instances or definition.instances for definition in definitions)
    with _served(path) as url, _stopping() as asked:
        begun = time.monotonic()
        # Before Spark takes its seconds to start.
        with opening.connected(url) as connection:
            for definition in definitions:
                require_ready(definition, databases, connection)
        with _progress(json) as tell, contextlib.ExitStack() as stack:
            settings = dict(pair(text, "a setting", "spark.executor.memory=512m") for text in spark or ())
            prepare = _processes() if local else stack.enter_context(_on_spark(master, settings, wanted, tell))
            running = []
            for definition in definitions:
                tell(f"starting {definition.name}")
                live = prepare(
                    definition,
                    url,
                    instances=instances,
                    group=group,
                    databases=databases,
                    batch_max=batch,
                    message_s_max=message_timeout,
                    node_statistics=statistics,
                    user_trace=trace,
                )
                running.append(stack.enter_context(live))
            for live in running:
                live.wait_until_running(start_timeout)
            tell("")
            _say_started(running, time.monotonic() - begun, json)
            _watch(running, asked, until_empty=until_empty, quiet=json)
            for live in running:
                live.stop()
            report = [row for live in running for row in live.status()]
        for live in running:
            if not asked.is_set():
                live.wait(0)
    if json:
        output.print_json({"instances": report})
    else:
        _print_status(report)


def stop(
    path: Reachable,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The flow.")],
    group: Annotated[str, typer.Option(help="Only this execution group.")] = "",
    wait: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for its end.")] = 30.0,
    json: Json = False,
) -> None:
    """Let every instance of a flow finish its unit of work and end; fence those that do not end in time.

    What a fenced instance has not committed is on its queues again, and nothing that it does counts any more. The
    Spark that runs it ends its process within a few seconds. Exit code 1 if an instance had to be fenced.
    """
    from entrepot.flows.live.deployment import ATTEMPTS_MAX

    prefix = f"flow/{name}/{group}/" if group else f"flow/{name}/"
    with opening.connected(path) as connection:
        before = [claim for claim in connection.claims(prefix) if claim.connected]
        deadline = time.monotonic() + wait
        left = before
        while left:
            connection.instruct(prefix, "stop")
            left = [claim for claim in connection.claims(prefix) if claim.connected]
            if time.monotonic() >= deadline:
                break
            time.sleep(0.05)
        for claim in left:
            connection.retire(claim.name, (claim.epoch // ATTEMPTS_MAX + 1) * ATTEMPTS_MAX)
    if json:
        output.print_json({"flow": name, "stopped": len(before) - len(left), "fenced": len(left)})
    elif not before:
        output.say(f"No instance of {name} runs.")
    else:
        output.say(f"{len(before) - len(left)} of {len(before)} instances of {name} have stopped.")
    if left and not json:
        output.say(f"{len(left)} did not end within {wait:g} s and had to be fenced: its work is backed out.")
    if left:
        raise typer.Exit(1)


def status(
    path: Reachable,
    name: Annotated[str, typer.Argument(metavar="NAME", help="One flow; all unless given.")] = "",
    json: Json = False,
) -> None:
    """Tell which flows run on a queue manager, and what their instances have done."""
    from entrepot.flows.live.supervision import claims_as_data

    with opening.connected(path) as connection:
        rows = claims_as_data(connection.claims(f"flow/{name}/" if name else "flow/"))
    if json:
        output.print_json({"instances": rows})
    else:
        _print_status(rows)


# --- who runs it ---------------------------------------------------------------------------------


def _processes() -> Callable[..., SupervisedFlow]:
    from entrepot.flows.live.local_processes import LocalFlow

    return LocalFlow


@contextlib.contextmanager
def _on_spark(
    master: str | None, settings: dict[str, str], instances: int, tell: Callable[[str], None]
) -> Iterator[Callable[..., SupervisedFlow]]:
    """Spark for as long as flows run."""
    from entrepot.spark.live.live_flow import LiveFlow
    from entrepot.spark.starting.session import close_session, open_context

    context = open_context(
        master,
        app="entrepot flow run",
        settings=settings,
        light=True,
        long_tasks=instances,
        preload=_PRELOADED,
        on_progress=tell,
    )

    def prepare(flow: FlowDefinition, url: str, **options: Any) -> LiveFlow:
        return LiveFlow(context, flow, url, **options)

    try:
        yield prepare
    finally:
        close_session(context)


# --- while it runs --------------------------------------------------------------------------------


@contextlib.contextmanager
def _served(path: Path | str) -> Iterator[str]:
    """The URL of a server: the one that runs, or one for as long as the flows do."""
    if isinstance(path, str):
        yield path
        return
    from entrepot.cli.serving import start_server, stop_server
    from entrepot.engine.folder import read_settings

    read_settings(path)
    if opening.serves(path):
        yield f"unix:{path}"
        return
    start_server(path)
    try:
        yield f"unix:{path}"
    finally:
        stop_server(path)


@contextlib.contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Set when the flows are to end."""
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("starting") as line:
        if quiet:
            line.stop()
        begun = time.monotonic()

        def tell(what: str) -> None:
            if what:
                line.update(f"{what} ({time.monotonic() - begun:.1f} s)")
            else:
                line.stop()

        yield tell


def _say_started(running: list[SupervisedFlow], seconds: float, json: bool) -> None:
    if json:
        output.print_json({"state": "running", "flows": [live.name for live in running]}, lines=True)
        return
    for live in running:
        output.say(f"Flow {live.name} runs, {len(live.status())} instances.")
    output.note(f"Started in {seconds:.1f} s. Ctrl-C or entrepot flow stop ends it.")


def _watch(running: list[SupervisedFlow], asked: threading.Event, *, until_empty: bool, quiet: bool) -> None:
    """Wait for an order to stop, and tell now and then what happens."""
    watched = [_Watched(live, quiet) for live in running]
    while not asked.is_set() and any(live.is_running for live in running):
        asked.wait(_WATCH_S)
        idle = True
        for each in watched:
            idle = each.look() and idle
        if until_empty and idle:
            return


class _Watched:
    """A flow of this command, and what was told of it last."""

    def __init__(self, live: SupervisedFlow, quiet: bool) -> None:
        self._live = live
        self._quiet = quiet
        self._messages = -1
        self._problems: set[str] = set()

    def look(self) -> bool:
        """Tell what is new; whether nothing happens, and nothing is the matter."""
        try:
            rows = self._live.status()
            if not self._live.is_running:
                self._live.wait(0)
        except EntrepotError as error:
            # No answer, or the flow has ended while others go on.
            self._tell_problems({error.what})
            return False
        messages = sum(int(row.get("messages", 0)) for row in rows)
        before, self._messages = self._messages, messages
        if 0 <= before < messages:
            set_aside = sum(int(row.get("set_aside", 0)) for row in rows)
            more = f", {set_aside:,} set aside" if set_aside else ""
            self._tell(f"{messages:,} messages, {(messages - before) / _WATCH_S:,.0f}/s{more}")
        problems = {str(row["problem"]) for row in rows if row.get("problem") and row["connected"]}
        self._tell_problems(problems)
        return messages == before and not problems

    def _tell_problems(self, problems: set[str]) -> None:
        for problem in sorted(problems - self._problems):
            self._tell(problem)
        if self._problems and not problems:
            self._tell("all is well again")
        self._problems = problems

    def _tell(self, what: str) -> None:
        if not self._quiet:
            output.note(f"{self._live.name}: {what}")


def _state(row: dict[str, Any]) -> str:
    """Of a name that nobody has acted under since its run began, or the queue manager was started, nothing is known."""
    if row["connected"]:
        return "running"
    return "stopped" if "messages" in row else "not begun"


def _print_status(rows: list[dict[str, Any]]) -> None:
    if not rows:
        output.say("No flow has run here.")
        return
    shown = [
        {
            "flow": str(row["name"]).removeprefix("flow/"),
            "state": _state(row),
            "messages": row.get("messages", 0),
            "outputs": row.get("outputs", 0),
            "failed": row.get("failed", 0),
            "set aside": row.get("set_aside", 0),
            "CPU s": row.get("cpu_s", 0.0),
            "problem": row.get("problem", ""),
        }
        for row in rows
    ]
    output.table(list(shown[0]), [list(each.values()) for each in shown])
    for row in rows:
        nodes = row.get("nodes")
        if nodes:
            output.table(
                ["node", "messages", "errors", "elapsed ms", "CPU ms"],
                [[name, n["messages"], n["errors"], n["elapsed_ms"], n["cpu_ms"]] for name, n in nodes.items()],
            )
