# SPDX-License-Identifier: Apache-2.0
"""What a report says, before it is HTML or Markdown: sections, paragraphs, tables, figures.

Builders make these and know nothing of either form; `html` and `markdown`
render them and know nothing of measurements, so the two cannot disagree.
Text is plain text everywhere; only a `Panel` holds markup, which `drawing`
made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class CodeBlock:
    text: str


@dataclass(frozen=True, slots=True)
class Strong:
    text: str


@dataclass(frozen=True, slots=True)
class Hyperlink:
    text: str
    target: str
    """`#anchor` of this report, or an address."""


Inline = str | CodeBlock | Strong | Hyperlink
Text = str | Sequence[Inline]


def with_code(text: str) -> list[Inline]:
    """What stands between backticks is code; only for text of the report's own."""
    parts: list[Inline] = [CodeBlock(part) if at % 2 else part for at, part in enumerate(text.split("`"))]
    return [part for part in parts if part]


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: Text
    kind: Literal["plain", "aside", "warning"] = "plain"


@dataclass(frozen=True, slots=True)
class BulletList:
    items: Sequence[Text]


@dataclass(frozen=True, slots=True)
class FactList:
    """Names and what they are: the machine, the systems."""

    pairs: Sequence[tuple[str, Text]]


@dataclass(frozen=True, slots=True)
class CodeLines:
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure to be seen from afar, with what it is."""

    value: str
    label: str
    detail: str


@dataclass(frozen=True, slots=True)
class Tiles:
    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    group: str = ""
    """A heading over neighbours: Published, Entrepot, Peers, Ratio."""
    numeric: bool = True
    heads_row: bool = False
    """Its cells say what the row is about."""
    detail: str = ""


CellKind = Literal["value", "best", "mark", "empty"]


@dataclass(frozen=True, slots=True)
class Cell:
    text: Text
    detail: str = ""
    """A second line in small type: the interval, the name of the best peer."""
    marks: Sequence[str] = ()
    """Signs of notes: numbers are durability contracts of the whole report, letters are notes of the table."""
    kind: CellKind = "value"


EMPTY = Cell("–", kind="empty")


@dataclass(frozen=True, slots=True)
class TableBlock:
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[tuple[str, str]] = ()
    """Sign → what it says."""


def words(title: str, detail: str = "", group: str = "") -> Column:
    """A column of text."""
    return Column(title, group, numeric=False, detail=detail)


def heads(title: str, detail: str = "") -> Column:
    """A column that says what its rows are about."""
    return Column(title, numeric=False, heads_row=True, detail=detail)


def table(
    caption: str,
    columns: Iterable[Column | str],
    rows: Iterable[Iterable[Cell | str | None]],
    notes: Sequence[tuple[str, str]] = (),
) -> TableBlock:
    """A plain string is a column of numbers, or a cell; None is an empty cell."""
    cells = [[EMPTY if one is None else Cell(one) if isinstance(one, str) else one for one in row] for row in rows]
    return TableBlock(caption, [Column(one) if isinstance(one, str) else one for one in columns], cells, notes)


Line = Literal["solid", "dashed", "none"]


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One line of a legend."""

    title: str
    colour: str
    glyph: str
    """An SVG path in a box of −8…8."""
    hollow: bool = False
    line: Line = "none"


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    svg: str
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """Panels with one legend and one caption; Markdown has none of it."""

    caption: str
    panels: Sequence[Panel]
    legend: Sequence[LegendEntry] = ()


Badge = Literal["", "measured", "partly", "reduced", "failed", "missing"]
"""What became of a scenario."""
Fold = Literal["no", "open", "closed"]


@dataclass(frozen=True, slots=True)
class Section:
    anchor: str
    title: str
    blocks: Sequence[Block]
    level: int = 2
    fold: Fold = "no"
    aside: str = ""
    """Stands beside the title, also when folded: what became of it."""
    contents: Literal["yes", "no"] = "yes"
    """Whether the table of contents names it."""
    short: str = ""
    """Its name there, where the title would be too long."""
    badge: Badge = ""
    extra: Sequence[str] = ()
    """Further small words beside the title: which tables and figures it shows."""


Block = Paragraph | BulletList | FactList | CodeLines | Tiles | TableBlock | Drawing | Section
