# SPDX-License-Identifier: Apache-2.0
"""`python examples/demo` runs the demo; `--help` says what it can be told."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from entrepot.cli import output
from entrepot.errors import EntrepotError

sys.path[0] = str(Path(__file__).resolve().parents[1])  # the folder that has the package, not the package's own

from demo.story import demo  # noqa: E402

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(demo)


def main() -> None:
    try:
        app(prog_name="python examples/demo")
    except EntrepotError as error:
        output.complain(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
