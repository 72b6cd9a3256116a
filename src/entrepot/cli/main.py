# SPDX-License-Identifier: Apache-2.0
"""`entrepot`: all commands, and the one place where errors become advice.

Every module of this room is light to import; what a command needs beyond
that it imports when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup, TyperOption

from entrepot.cli import (
    bench,
    browse,
    dump,
    esql,
    flow,
    get,
    log,
    model,
    mqsc,
    output,
    publish,
    put,
    qm,
    report,
    subscribe,
    trigger_monitor,
)
from entrepot.errors import EntrepotError

_BROKEN_PIPE = 141
"""The exit code that shells use for a broken pipe."""


def _leave_out_types_of_flags() -> None:
    # Typer writes <bool> behind every flag, as if one had to be given.
    shown = getattr(TyperOption, "display_type_rich", None)
    if shown is not None:
        TyperOption.display_type_rich = lambda self, **given: None if self.is_flag else shown(self, **given)  # type: ignore[method-assign]


_leave_out_types_of_flags()


class Commands(TyperGroup):
    """The root of all commands: what goes wrong on purpose leaves it as a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
            return answer
        except EntrepotError as error:
            output.complain(error)
        except BrokenPipeError:
            # Python flushes once more at its end, which must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_BROKEN_PIPE) from None
        except OSError as error:
            output.complain_of_system(error)
        raise typer.Exit(1)


_HELP = """Queues that never lose a message.

A first session:

\b
  entrepot qm create ./qm1
  entrepot mqsc ./qm1 -e "DEFINE QLOCAL(ORDERS)"
  entrepot put ./qm1 ORDERS "42 crates" --property region=EU
  entrepot browse ./qm1 ORDERS
  entrepot get ./qm1 ORDERS

Publish and subscribe, while a server runs:

\b
  entrepot qm start ./qm1 --detach
  entrepot subscribe ./qm1 "prices/#" --durable desk-7 --wait 0
  entrepot publish ./qm1 prices/ibm "231.50" --retain
  entrepot subscribe ./qm1 --durable desk-7

PATH is a queue manager's folder; one command at a time can have it.

Every command answers in JSON with --json. Exit code 0 is success, 1 a failure, 2 wrong usage,
3 success with a warning that needs a decision.
"""

app = typer.Typer(
    name="entrepot",
    cls=Commands,
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)

_MESSAGES = "Messages"
_ADMINISTRATION = "Administration"
_MODELS = "Models and ESQL"
_FLOWS = "Message flows"
_WORKBENCH = "The workbench"

app.command("put", rich_help_panel=_MESSAGES)(put.put)
app.command("get", rich_help_panel=_MESSAGES)(get.get)
app.command("browse", rich_help_panel=_MESSAGES)(browse.browse)
app.command("publish", rich_help_panel=_MESSAGES)(publish.publish)
app.command("subscribe", rich_help_panel=_MESSAGES)(subscribe.subscribe)
app.command("unsubscribe", rich_help_panel=_MESSAGES)(subscribe.unsubscribe)
app.add_typer(qm.app, name="qm", rich_help_panel=_ADMINISTRATION)
app.command("mqsc", rich_help_panel=_ADMINISTRATION)(mqsc.mqsc)
app.command("dump", rich_help_panel=_ADMINISTRATION)(dump.dump)
app.add_typer(log.app, name="log", rich_help_panel=_ADMINISTRATION)
app.command("trigger-monitor", rich_help_panel=_ADMINISTRATION)(trigger_monitor.trigger_monitor)
app.add_typer(model.app, name="model", rich_help_panel=_MODELS)
app.add_typer(esql.app, name="esql", rich_help_panel=_MODELS)
app.add_typer(flow.app, name="flow", rich_help_panel=_FLOWS)
app.add_typer(bench.app, name="bench", rich_help_panel=_WORKBENCH)
app.command("report", rich_help_panel=_WORKBENCH)(report.report)


_INTERRUPTED = 130


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from entrepot.compiled import form

        sys.stdout.write(f"entrepot {version('entrepot')} ({form()})\n")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Tell the version and stop.")
    ] = False,
) -> None:
    # The help text is the Typer's own; this callback only carries the option.
    del version


def main() -> None:
    """The entry point of the `entrepot` command."""
    try:
        app()
    except KeyboardInterrupt:
        # Typer catches it around a command, but not while it deals with another error.
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
