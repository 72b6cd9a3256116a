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

from entrepot.workbench.report import appearance, blocks
from entrepot.workbench.report.blocks import Block, Cell, Column, Section, TableBlock, Text

_VOID = {"meta"}
_CLOSED = {"path", "line"}
"""Of SVG: these have no children and close themselves."""
BADGES: dict[blocks.Badge, str] = {
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


def render_page(title: str, intro: Sequence[Text], inside: Sequence[Block]) -> str:
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
        tag("div", _contents(inside), tag("main", *(_block(block) for block in inside)), class_="columns"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def inline(text: Text) -> HtmlText:
    return join([_inline(part) for part in ([text] if isinstance(text, str) else text)])


def _inline(part: blocks.Inline) -> HtmlText:
    match part:
        case blocks.CodeBlock():
            return tag("code", part.text)
        case blocks.Strong():
            return tag("strong", part.text)
        case blocks.Hyperlink():
            return tag("a", part.text, href=part.target)
    return escape(part)


def _contents(inside: Sequence[Block]) -> HtmlText:
    def entries(inside: Sequence[Block]) -> Iterator[HtmlText]:
        for block in inside:
            if isinstance(block, Section) and block.contents == "yes":
                below = list(entries(block.blocks))
                link = tag("a", block.short or block.title, href=f"#{block.anchor}")
                yield tag("li", link, *([tag("ol", *below)] if below else []))

    items = tag("ol", *entries(inside))
    return tag("nav", tag("h2", "Contents"), items, class_="contents", aria_label="Table of contents")


def _block(block: Block) -> HtmlText:
    match block:
        case blocks.Paragraph():
            return tag("p", inline(block.text), class_="" if block.kind == "plain" else block.kind)
        case blocks.BulletList():
            return tag("ul", *(tag("li", inline(item)) for item in block.items))
        case blocks.FactList():
            return tag("dl", *(tag("div", tag("dt", name), tag("dd", inline(text))) for name, text in block.pairs))
        case blocks.CodeLines():
            return tag("pre", tag("code", block.text), tabindex="0")
        case blocks.Tiles():
            inside = [(tag("b", one.value), tag("span", one.label), tag("small", one.detail)) for one in block.tiles]
            return tag("div", *(tag("div", *parts, class_="tile") for parts in inside), class_="tiles")
        case TableBlock():
            return _table(block)
        case blocks.Drawing():
            return _drawing(block)
        case Section():
            return _section(block)


def _section(section: Section) -> HtmlText:
    head = [
        tag(f"h{section.level}", section.title),
        *([tag("span", BADGES[section.badge], class_=f"badge {section.badge}")] if section.badge else []),
        *(tag("span", word, class_="shows") for word in section.extra),
        *([tag("span", section.aside, class_="became")] if section.aside else []),
    ]
    inside = [_block(block) for block in section.blocks]
    level = f"level{section.level}"
    if section.fold == "no":
        return tag("section", *head, *inside, id=section.anchor, class_=level)
    is_open = section.fold == "open"
    return tag("details", tag("summary", *head), *inside, id=section.anchor, class_=level, open=is_open)


def _table(table: TableBlock) -> HtmlText:
    columns = table.columns
    head = [tag("tr", *(_column(column) for column in columns))]
    if any(column.group for column in columns):
        head.insert(0, tag("tr", *_groups(columns)))
    before = ["", *(column.group for column in columns)]
    body = [tag("tr", *(_cell(cell, columns[at], before[at]) for at, cell in enumerate(row))) for row in table.rows]
    notes = [tag("li", tag("b", sign), " ", note) for sign, note in table.notes]
    inside = tag("table", tag("caption", table.caption), tag("thead", *head), tag("tbody", *body))
    box = tag("div", inside, class_="box", tabindex="0", role="region", aria_label=table.caption)
    return tag("div", box, tag("ol", *notes, class_="notes") if notes else "", class_="table")


def _groups(columns: Sequence[Column]) -> Iterator[HtmlText]:
    for group, members in groupby(columns, key=lambda column: column.group):
        width = str(len(list(members)))
        if group:
            yield tag("th", group, scope="colgroup", colspan=width, class_="group first")
        else:
            yield tag("td", colspan=width)


def _column(column: Column) -> HtmlText:
    detail = [tag("small", column.detail)] if column.detail else []
    return tag("th", column.title, *detail, scope="col", class_="number" if column.numeric else "")


def _cell(cell: Cell, column: Column, group_before: str) -> HtmlText:
    marks = [tag("sup", " ".join(cell.marks))] if cell.marks else []
    detail = [tag("small", cell.detail)] if cell.detail else []
    classes = ["number"] if column.numeric else []
    classes += [cell.kind] if cell.kind != "value" else []
    classes += ["first"] if column.group and column.group != group_before else []
    scope = "row" if column.heads_row else ""
    name = "th" if scope else "td"
    return tag(name, inline(cell.text), *marks, *detail, scope=scope, class_=" ".join(classes))


def _drawing(drawing: blocks.Drawing) -> HtmlText:
    legend = tag("ul", *(_entry(entry) for entry in drawing.legend), class_="legend") if drawing.legend else ""
    panels = [
        tag("div", tag("p", one.title), HtmlText(one.svg), class_="panel wide" if one.wide else "panel")
        for one in drawing.panels
    ]
    return tag("figure", tag("figcaption", drawing.caption), legend, tag("div", *panels, class_="panels"))


def _entry(entry: blocks.LegendEntry) -> HtmlText:
    style = f"stroke:{entry.colour};fill:{'var(--paper)' if entry.hollow else entry.colour}"
    stroke = f"stroke:{entry.colour};stroke-width:2" + (";stroke-dasharray:4 3" if entry.line == "dashed" else "")
    drawn = [] if entry.line == "none" else [tag("line", x1="-13", x2="13", y1="0", y2="0", style=stroke)]
    drawn += [tag("path", d=entry.glyph, style=f"{style};stroke-width:1.6")] if entry.glyph else []
    glyph = tag("svg", *drawn, viewBox="-14 -9 28 18", width="28", height="18", class_="glyph", aria_hidden="true")
    return tag("li", glyph, entry.title)
