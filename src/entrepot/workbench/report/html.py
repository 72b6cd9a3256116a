# SPDX-License-Identifier: Apache-2.0
"""Blocks as one HTML page that needs nothing else: no script, no font, no picture from elsewhere.

Everything passes `tag` or `escape`; a string becomes markup only as
`HtmlText`, so text of a scenario or an error can never become an element.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import groupby

from entrepot.workbench.report import appearance
from entrepot.workbench.report.blocks import (
    Badge,
    Block,
    BulletList,
    Cell,
    CodeBlock,
    CodeLines,
    Column,
    Drawing,
    FactList,
    Hyperlink,
    Inline,
    LegendEntry,
    Paragraph,
    Section,
    Strong,
    TableBlock,
    Text,
    Tiles,
)

_VOID = {"meta"}
_CLOSED = {"path", "line"}
"""Of SVG: these have no children and close themselves."""
BADGES: dict[Badge, str] = {
    "measured": "measured",
    "partly": "partly measured",
    "reduced": "reduced",
    "failed": "failed",
    "missing": "not measured",
}


class HtmlText(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> HtmlText:
    return text if isinstance(text, HtmlText) else HtmlText(html.escape(text))


def join(parts: Sequence[str]) -> HtmlText:
    return HtmlText("".join(escape(part) for part in parts))


def tag(name: str, /, *inside: str, **attributes: str | bool) -> HtmlText:
    """`tag("td", "a < b", class_="x")`: children and attributes are escaped, unless they are Markup."""
    written = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            written.append(attribute)
        elif value is not False and value != "":
            written.append(f'{attribute}="{html.escape(str(value))}"')
    if name in _CLOSED:
        return HtmlText(f"<{' '.join(written)}/>")
    opened = f"<{' '.join(written)}>"
    return HtmlText(opened if name in _VOID else f"{opened}{join(inside)}</{name}>")


def render_page(title: str, intro: Sequence[Text], blocks: Sequence[Block]) -> str:
    style = files(__package__).joinpath("page.css").read_text("utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", HtmlText(appearance.variables() + style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the report", class_="skip", href="#summary"),
        tag("header", tag("h1", title), *(tag("p", inline(text)) for text in intro), class_="top"),
        tag("div", _contents(blocks), tag("main", *(_block(block) for block in blocks)), class_="columns"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def inline(text: Text) -> HtmlText:
    return join([_inline(part) for part in ([text] if isinstance(text, str) else text)])


def _inline(part: Inline) -> HtmlText:
    match part:
        case CodeBlock():
            return tag("code", part.text)
        case Strong():
            return tag("strong", part.text)
        case Hyperlink():
            return tag("a", part.text, href=part.target)
    return escape(part)


def _contents(blocks: Sequence[Block]) -> HtmlText:
    def entries(inside: Sequence[Block]) -> Iterator[HtmlText]:
        for block in inside:
            if isinstance(block, Section) and block.contents == "yes":
                below = list(entries(block.blocks))
                link = tag("a", block.short or block.title, href=f"#{block.anchor}")
                yield tag("li", link, *([tag("ol", *below)] if below else []))

    return tag(
        "nav", tag("h2", "Contents"), tag("ol", *entries(blocks)), class_="contents", aria_label="Table of contents"
    )


def _block(block: Block) -> HtmlText:
    match block:
        case Paragraph():
            return tag("p", inline(block.text), class_="" if block.kind == "plain" else block.kind)
        case BulletList():
            return tag("ul", *(tag("li", inline(item)) for item in block.items))
        case FactList():
            return tag("dl", *(tag("div", tag("dt", name), tag("dd", inline(text))) for name, text in block.pairs))
        case CodeLines():
            return tag("pre", tag("code", block.text), tabindex="0")
        case Tiles():
            return _tiles(block)
        case TableBlock():
            return _table(block)
        case Drawing():
            return _drawing(block)
        case Section():
            return _section(block)


def _tiles(block: Tiles) -> HtmlText:
    return tag(
        "div",
        *(
            tag("div", tag("b", tile.value), tag("span", tile.label), tag("small", tile.detail), class_="tile")
            for tile in block.tiles
        ),
        class_="tiles",
    )


def _section(section: Section) -> HtmlText:
    badge = [tag("span", BADGES[section.badge], class_=f"badge {section.badge}")] if section.badge else []
    words = [tag("span", word, class_="shows") for word in section.extra]
    title = tag(f"h{section.level}", section.title)
    aside = [tag("span", section.aside, class_="became")] if section.aside else []
    inside = [_block(block) for block in section.blocks]
    if section.fold == "no":
        return tag("section", title, *badge, *words, *aside, *inside, id=section.anchor, class_=f"level{section.level}")
    return tag(
        "details",
        tag("summary", title, *badge, *words, *aside),
        *inside,
        id=section.anchor,
        class_=f"level{section.level}",
        open=section.fold == "open",
    )


def _table(table: TableBlock) -> HtmlText:
    head = [tag("tr", *(_column(column) for column in table.columns))]
    if any(column.group for column in table.columns):
        head.insert(0, tag("tr", *_groups(table.columns)))
    starts = _group_starts(table.columns)
    body = [
        tag("tr", *(_cell(cell, table.columns[place], place in starts) for place, cell in enumerate(row)))
        for row in table.rows
    ]
    notes = [
        tag("ol", *(tag("li", tag("b", sign), " ", note) for sign, note in table.notes), class_="notes")
        if table.notes
        else HtmlText("")
    ]
    box = tag(
        "div",
        tag("table", tag("caption", table.caption), tag("thead", *head), tag("tbody", *body)),
        class_="box",
        tabindex="0",
        role="region",
        aria_label=table.caption,
    )
    return tag("div", box, *notes, class_="table")


def _groups(columns: Sequence[Column]) -> Iterator[HtmlText]:
    for group, members in groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        if group:
            yield tag("th", group, scope="colgroup", colspan=str(width), class_="group first")
        else:
            yield tag("td", colspan=str(width))


def _group_starts(columns: Sequence[Column]) -> set[int]:
    return {
        place
        for place, column in enumerate(columns)
        if column.group and (place == 0 or columns[place - 1].group != column.group)
    }


def _column(column: Column) -> HtmlText:
    detail = [tag("small", column.detail)] if column.detail else []
    return tag("th", column.title, *detail, scope="col", class_="number" if column.numeric else "")


def _cell(cell: Cell, column: Column, is_first: bool) -> HtmlText:
    marks = [tag("sup", " ".join(cell.marks))] if cell.marks else []
    detail = [tag("small", cell.detail)] if cell.detail else []
    classes = ["number"] if column.numeric else []
    classes += [cell.kind] if cell.kind != "value" else []
    classes += ["first"] if is_first else []
    inside = (inline(cell.text), *marks, *detail)
    if column.heads_row:
        return tag("th", *inside, scope="row", class_=" ".join(classes))
    return tag("td", *inside, class_=" ".join(classes))


def _drawing(drawing: Drawing) -> HtmlText:
    legend = tag("ul", *(_entry(entry) for entry in drawing.legend), class_="legend") if drawing.legend else ""
    panels = [
        tag(
            "div",
            *([tag("p", panel.title)] if panel.title else []),
            HtmlText(panel.svg),
            class_=_panel_class(panel.wide),
        )
        for panel in drawing.panels
    ]
    return tag("figure", tag("figcaption", drawing.caption), legend, tag("div", *panels, class_="panels"))


def _panel_class(wide: bool) -> str:
    return "panel wide" if wide else "panel"


def _entry(entry: LegendEntry) -> HtmlText:
    style = f"stroke:{entry.colour};fill:{'var(--paper)' if entry.hollow else entry.colour}"
    stroke = f"stroke:{entry.colour};stroke-width:2" + (";stroke-dasharray:4 3" if entry.line == "dashed" else "")
    drawn = [] if entry.line == "none" else [tag("line", x1="-13", x2="13", y1="0", y2="0", style=stroke)]
    drawn += [tag("path", d=entry.glyph, style=f"{style};stroke-width:1.6")] if entry.glyph else []
    glyph = tag("svg", *drawn, viewBox="-14 -9 28 18", width="28", height="18", class_="glyph", aria_hidden="true")
    return tag("li", glyph, entry.title)
