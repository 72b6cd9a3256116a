# SPDX-License-Identifier: Apache-2.0
"""`entrepot flow replay`: run a flow over an archive, and compare with another version or recorded outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.cli import output
from entrepot.cli.arguments import Json
from entrepot.cli.flow_run import Databases, database_pair

if TYPE_CHECKING:
    from entrepot.spark.replaying.differences import Model
    from entrepot.spark.replaying.replay import ReplayReport

_FIELDS_SHOWN = 30
_SAMPLES_SHOWN = 10


def replay(
    flow: Annotated[Path, typer.Argument(metavar="FLOW", help="A .yaml, .msgflow or .subflow file.")],
    archive: Annotated[
        Path, typer.Option("--archive", metavar="PATH", help="Parquet with messages, or a folder of message files.")
    ],
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FLOW", help="Another version that gets the same messages.")
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option("--recorded", metavar="PATH", help="Outputs that were kept, to compare with.")
    ] = None,
    match_by: Annotated[
        str, typer.Option("--match-by", metavar="COLUMN", help="How recorded outputs belong to messages.")
    ] = "",
    point: Annotated[
        str, typer.Option("--point", metavar="NODE", help="The input node, where there are several.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write outputs, differences and the report there.")
    ] = None,
    database: Databases = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="How bodies are compared: a message set.")
    ] = None,
    message_type: Annotated[str, typer.Option("--message", help="Which message of the set.")] = "",
    message_format: Annotated[str, typer.Option("--format", help="Which physical format of the set.")] = "",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="So many messages at most.")] = None,
    master: Annotated[str, typer.Option("--master", help="Where Spark runs: local[N], or a cluster's URL.")] = "",
    json: Json = False,
) -> None:
    """Run archived messages through a flow and tell what comes out, and what differs from before.

    Exit code 1 when something differs.
    """
    from entrepot.flows.loading import load_flow
    from entrepot.spark.replaying.replay import replay as run
    from entrepot.spark.starting.session import spark_session

    new = load_flow(flow)
    old = None if against is None else load_flow(against)
    databases = dict(map(database_pair, database or ()))
    read_as = _model(model, message_type, message_format)
    with (
        _progress(quiet=json) as tell,
        spark_session(master or None, app=f"replay {new.name}", on_progress=tell) as spark,
    ):
        report = run(
            spark,
            new,
            archive,
            against=old,
            recorded=recorded,
            match_by=match_by,
            point=point,
            out=out,
            databases=databases,
            limit=limit,
            model=read_as,
            on_progress=tell,
        )
    if json:
        output.print_json(report.as_data())
    else:
        _print(report)
    if not report.is_same:
        raise typer.Exit(1)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line that says what is going on, for as long as it does."""
    console = output.console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    with console.status("starting") as status:
        yield lambda text: status.update(output.safe(text))


def _model(path: Path | None, message_type: str, message_format: str) -> Model:
    from entrepot.spark.replaying.differences import GUESS, Model

    if path is None:
        return GUESS
    from entrepot.models.message_sets import load_set

    loaded = load_set(path)
    return Model(
        "MRM",
        loaded.name,
        message_type or next(iter(loaded.messages)),
        message_format or next(iter(loaded.formats)),
        loaded,
    )


def _print(report: ReplayReport) -> None:
    rate = report.messages / report.elapsed_s if report.elapsed_s else 0
    output.say(
        f"{report.flow}: {report.messages:,} messages, {report.outputs:,} outputs, {report.errors:,} errors"
        f" in {report.elapsed_s:.1f} s ({rate:,.0f} messages/s, {report.kernel_s:.1f} s of it in the kernel)"
    )
    if not report.against:
        output.table(
            ("Destination", "Messages", "Errors"),
            [(each.name, each.after, each.errors) for each in report.destinations],
        )
        return
    output.table(
        ("Destination", "Before", "After", "Errors"),
        [(each.name, each.before or 0, each.after, each.errors) for each in report.destinations],
    )
    if report.is_same:
        output.say(f"The same as {report.against}.", "green")
        return
    output.say(f"{report.differing:,} messages have other outputs than with {report.against}.", "bold red")
    shown = report.fields[:_FIELDS_SHOWN]
    output.table(
        ("Destination", "Field", "Messages"),
        [(each.destination, each.path, each.messages) for each in shown],
        title=f"Fields that differ{' (the most frequent)' if len(report.fields) > len(shown) else ''}",
    )
    output.table(
        ("Message", "Destination", "Field", "Before", "After"),
        [
            (each["source_message_id"][:16], each["destination"], each["path"], each["before"], each["after"])
            for each in report.samples[:_SAMPLES_SHOWN]
        ],
        title="For example",
    )
