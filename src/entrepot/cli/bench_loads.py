# SPDX-License-Identifier: Apache-2.0
"""`entrepot bench send|receive|roundtrip|open-loop|publish`: one load, with parameters of one's own.

The parameters are those that NSTL's tool and the other documents name, and
the answer is NSTL's four lines: messages, time, messages per second, bytes
per second.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.cli import output
from entrepot.cli.arguments import Json

if TYPE_CHECKING:
    from entrepot.workbench.measuring.record import TrialRecord

System = Annotated[str, typer.Option("--system", "-s", help="One system; `entrepot bench systems` shows them.")]
Quality = Annotated[str, typer.Option("--quality", "-q", help="express, recoverable, transactional or global_unit.")]
Bytes = Annotated[int, typer.Option("--bytes", "-b", min=8, max=100_000_000, help="Of each message.")]
Seconds = Annotated[float, typer.Option("--seconds", min=0.1, help="How long the load lasts at most.")]
Messages = Annotated[int, typer.Option("--messages", "-n", min=1, help="How many each thread sends at most.")]
Threads = Annotated[int, typer.Option("--threads", "-t", min=1, max=500, help="Clients at once, a process each.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Messages in one unit of work.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Where a server is to listen; 0: on a free port.")]
Out = Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="Keep the raw observations there.")]


def send(
    system: System = "entrepot-unix",
    quality: Quality = "express",
    message_bytes: Bytes = 1000,
    messages: Messages = 30_000,
    threads: Threads = 1,
    batch: Batch = 1,
    seconds: Seconds = 5.0,
    port: Port = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Fill an empty queue as fast as the system answers."""
    given = {"message_bytes": message_bytes, "threads": threads, "batch": batch}
    _measure("send", system, quality, given | {"port": port}, seconds, out, json, messages)


def receive(
    system: System = "entrepot-unix",
    quality: Quality = "express",
    message_bytes: Bytes = 1000,
    messages: Messages = 30_000,
    threads: Threads = 1,
    batch: Batch = 1,
    port: Port = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Empty a queue that was filled before."""
    given = {"message_bytes": message_bytes, "threads": threads, "batch": batch}
    _measure("receive", system, quality, given | {"port": port}, 5.0, out, json, messages)


def roundtrip(
    system: System = "entrepot-unix",
    quality: Quality = "express",
    message_bytes: Bytes = 2048,
    applications: Annotated[int, typer.Option("--apps", "-a", min=1, max=500, help="Driving applications.")] = 4,
    workers: Annotated[int, typer.Option("--workers", min=1, max=100, help="Threads that answer.")] = 4,
    rate: Annotated[int, typer.Option("--rate", min=0, help="Requests an hour and application; 0: no think time.")] = 0,
    seconds: Seconds = 5.0,
    port: Port = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Send requests and wait for their replies."""
    given = {
        "message_bytes": message_bytes,
        "apps": applications,
        "workers": workers,
        "rate_per_app_hour": rate,
    }
    _measure("round-trip", system, quality, given | {"port": port}, seconds, out, json)


def open_loop(
    system: System = "entrepot-unix",
    quality: Quality = "express",
    message_bytes: Bytes = 64,
    rate: Annotated[
        int, typer.Option("--rate", "-r", min=1, help="Messages a second, whatever the system does.")
    ] = 1000,
    arrivals: Annotated[str, typer.Option("--arrivals", help="constant, poisson or trace.")] = "constant",
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="Moments in seconds, one a line.")
    ] = None,
    senders: Annotated[int, typer.Option("--senders", min=1, max=200)] = 1,
    receivers: Annotated[int, typer.Option("--receivers", min=1, max=200)] = 1,
    seconds: Seconds = 5.0,
    port: Port = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Send on a schedule; latency counts from the moment at which a message was meant to be sent."""
    if arrivals not in ("constant", "poisson", "trace"):
        raise typer.BadParameter("constant, poisson or trace", param_hint="--arrivals")
    if (arrivals == "trace") != (trace is not None):
        raise typer.BadParameter("--arrivals trace and --trace FILE belong together")
    if trace is not None:
        _require_trace(trace)
    given = {
        "message_bytes": message_bytes,
        "rate_per_s": rate,
        "arrivals": arrivals,
        "trace": str(trace.resolve()) if trace else "",
        "senders": senders,
        "receivers": receivers,
    }
    _measure("open-loop", system, quality, given | {"port": port}, seconds, out, json)


def publish(
    system: System = "entrepot-unix",
    quality: Quality = "express",
    message_bytes: Bytes = 1000,
    publishers: Annotated[int, typer.Option("--publishers", min=1, max=500)] = 1,
    subscribers: Annotated[int, typer.Option("--subscribers", min=1, max=1000)] = 1,
    topics: Annotated[int, typer.Option("--topics", min=1, max=1000, help="Spread over so many topics.")] = 1,
    seconds: Seconds = 5.0,
    port: Port = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Publish to topics; every subscriber has to get everything."""
    given = {"message_bytes": message_bytes, "senders": publishers, "receivers": subscribers, "topics": topics}
    _measure("publish", system, quality, given | {"port": port}, seconds, out, json)


COMMANDS: dict[str, Callable[..., None]] = {
    "send": send,
    "receive": receive,
    "roundtrip": roundtrip,
    "open-loop": open_loop,
    "publish": publish,
}


def _measure(
    load: str,
    system: str,
    quality: str,
    given: dict[str, Any],
    seconds: float,
    out: Path | None,
    json: bool,
    messages: int | None = None,
) -> None:
    import tempfile

    import msgspec

    from entrepot.cli.bench_watching import Watching, interruptible, require_extra

    require_extra()
    from entrepot.workbench.measuring.effort import EFFORTS
    from entrepot.workbench.quality import Quality as Qualities
    from entrepot.workbench.running.run import begin_with
    from entrepot.workbench.scenario import Point, Scenario

    if quality not in list(Qualities):
        raise typer.BadParameter(f"{quality!r} is none of {', '.join(Qualities)}", param_hint="--quality")
    parameters = {**given, "quality": quality}
    scenario = Scenario(f"ad-hoc/{load}", load, (), load, (Point(parameters, parameters),))
    effort = msgspec.structs.replace(EFFORTS["quick"], seconds=seconds, repetitions=1, system_warm_up=False)
    if messages is not None:
        effort = msgspec.structs.replace(effort, messages_max=messages, bytes_max=2**31)
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-", dir=Path.cwd()) as temporary:
        # A server that runs as a user of its own has to get there.
        Path(temporary).chmod(0o755)
        run = begin_with([scenario], [system], effort, folder=out or Path(temporary) / "run")
        with interruptible(run), Watching(run.folder, quiet=True) as watching:
            trials = run.go(watching)
        _tell(run.folder, trials[-1], json=json)


def _tell(folder: Path, trial: TrialRecord, *, json: bool) -> None:
    from entrepot.workbench.measuring.glance import glance

    found = glance(folder / "trials" / trial.trial, trial)
    if trial.status != "measured" or found is None:
        output.say(f"{trial.status}: {trial.reason}", "red")
        raise typer.Exit(1)
    figures = {
        "Total messages": f"{found.messages:,}",
        "Test time": f"{found.seconds:.3f} s",
        "Benchmark": f"{found.per_s:,.0f} messages per second",
        "Throughput": f"{found.bytes_per_s:,.0f} bytes per second",
        "Latency": ""
        if found.latency_ms_median is None
        else f"{found.latency_ms_median:.3f} ms at the median, {found.latency_ms_p99:.3f} ms at the 99th percentile",
        "Missing": f"{found.missing:,}",
        "Promise": f"{trial.title}: {trial.contract}",
        **({"Busy": trial.busy} if trial.busy else {}),
    }
    if json:
        output.print_json(
            {
                "messages": found.messages,
                "seconds": found.seconds,
                "messages_per_s": found.per_s,
                "bytes_per_s": found.bytes_per_s,
                "latency_ms_median": found.latency_ms_median,
                "latency_ms_p99": found.latency_ms_p99,
                "missing": found.missing,
                "system": trial.system,
                "contract": trial.contract,
                "others_share": trial.others_share,
                "busy": trial.busy,
            }
        )
    else:
        output.facts(figures)
    if found.missing:
        raise typer.Exit(1)


def _require_trace(path: Path) -> None:
    try:
        moments = [float(line) for line in path.read_text().split()]
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--trace") from error
    except ValueError as error:
        raise typer.BadParameter(f"{path}: {error}; one moment in seconds a line", param_hint="--trace") from error
    if len(moments) < 2 or moments != sorted(moments):
        raise typer.BadParameter(f"{path}: at least two moments, rising", param_hint="--trace")
