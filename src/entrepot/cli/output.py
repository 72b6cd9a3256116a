# SPDX-License-Identifier: Apache-2.0
"""Answers for people and for programs, and errors as advice instead of a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from entrepot.errors import EntrepotError

if TYPE_CHECKING:
    from rich.console import Console

_TABLE_PIPED_CHARACTERS = 200
"""Width of a table that no terminal limits."""


def console(*, stderr: bool = False) -> Console:
    """Where a person reads; made anew because the streams may be redirected."""
    from rich.console import Console

    plain = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not plain.is_terminal:
        plain.width = _TABLE_PIPED_CHARACTERS
    return plain


def print_json(value: object, *, lines: bool = False) -> None:
    """A value as one JSON document, or with `lines` as one line of many."""
    import msgspec

    text = msgspec.json.encode(value)
    sys.stdout.write((text if lines else msgspec.json.format(text)).decode() + "\n")


def safe(text: str) -> str:
    """Text that cannot play tricks on a terminal: control characters are spelled out, line ends stay."""
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1] for character in text
    )


def complain(error: EntrepotError) -> None:
    """Tell what went wrong, what to do about it, and under which code docs/ERRORS.md has it."""
    from rich.text import Text

    out = console(stderr=True)
    name = f" ({type(error).__name__} {error.code})"
    out.print(Text.assemble(("error: ", "bold red"), safe(error.what), (name, "dim")))
    advice = safe(error.advice)
    if advice:
        # Advice that begins with a line end is a picture: the text with a caret below.
        out.print(Text(advice[1:] if advice.startswith("\n") else f"  {advice}"))


def complain_of_system(error: OSError) -> None:
    """The same for what the operating system refuses."""
    from rich.text import Text

    place = f"{error.filename}: " if error.filename else ""
    what = safe(f"{place}{error.strerror or error}")
    console(stderr=True).print(Text.assemble(("error: ", "bold red"), what))


def note(text: str) -> None:
    """Something a person should know that is no part of the answer."""
    from rich.text import Text

    console(stderr=True).print(Text(safe(text), style="dim"))


def warn(text: str) -> None:
    """Something that was done, but perhaps not as it was meant."""
    from rich.text import Text

    console(stderr=True).print(Text.assemble(("warning: ", "bold yellow"), safe(text)))


def say(text: str, style: str = "") -> None:
    """A line of the answer, never taken for markup."""
    from rich.text import Text

    console().print(Text(safe(text), style=style))


def facts(values: Mapping[str, Any]) -> None:
    """Names and values, one to a line."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        say(f"{name.replace('_', ' '):<{width}}  {spoken(value)}")


def spoken(value: object) -> str:
    """A value as a person would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """Rows below one another; numbers stand to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    listed = [list(row) for row in rows]
    drawn = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[index], int | float) for row in listed)
        drawn.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        drawn.add_row(*(Text(safe(spoken(value))) for value in row))
    console().print(drawn)
