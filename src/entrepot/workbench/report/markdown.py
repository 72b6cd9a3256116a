# SPDX-License-Identifier: Apache-2.0
"""Blocks as Markdown with GitHub's tables; figures, which are drawings, stay in the HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from entrepot.workbench.report import blocks

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")


def render_markdown(title: str, intro: Sequence[blocks.Text], inside: Sequence[blocks.Block]) -> str:
    parts = [f"# {escape(title)}", *(inline(text) for text in intro)]
    for block in inside:
        parts.extend(_block(block))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """A newline would end a table's row or a heading, so it becomes a space."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def inline(text: blocks.Text) -> str:
    return escape(text) if isinstance(text, str) else "".join(_inline(part) for part in text)


def _inline(part: blocks.Inline) -> str:
    match part:
        case blocks.CodeBlock():
            return f"`{part.text.replace('`', '´').replace('|', '¦')}`"
        case blocks.Strong():
            return f"**{escape(part.text)}**"
        case blocks.Hyperlink():
            return f"[{escape(part.text)}]({part.target})"
    # The spaces at either end part it from its neighbours.
    return f"{' ' * part[:1].isspace()}{escape(part)}{' ' * (len(part) > 1 and part[-1:].isspace())}"


def _block(block: blocks.Block) -> Iterator[str]:
    match block:
        case blocks.Paragraph():
            yield inline(block.text) if block.kind != "warning" else f"> {inline(block.text)}"
        case blocks.BulletList():
            yield "\n".join(f"- {inline(item)}" for item in block.items)
        case blocks.FactList():
            yield "\n".join(f"- **{escape(name)}**: {inline(text)}" for name, text in block.pairs)
        case blocks.CodeLines():
            yield f"```{block.language}\n{block.text}\n```"
        case blocks.Tiles():
            yield "\n".join(
                f"- **{escape(tile.value)}** {escape(tile.label)}"
                + (f" ({escape(tile.detail)})" if tile.detail else "")
                for tile in block.tiles
            )
        case blocks.TableBlock():
            yield from _table(block)
        case blocks.Drawing():
            return
        case blocks.Section():
            yield from _section(block)


def _section(section: blocks.Section) -> Iterator[str]:
    yield f'<a id="{section.anchor}"></a>\n\n{"#" * section.level} {escape(section.title)}'
    beside = [word for word in (*section.extra, section.aside) if word]
    if beside:
        yield f"*{escape(' · '.join(beside))}*"
    for block in section.blocks:
        yield from _block(block)


def _table(table: blocks.TableBlock) -> Iterator[str]:
    yield f"**{escape(table.caption)}**"
    titles = [
        escape(f"{column.group}: {column.title}" if column.group and column.group != column.title else column.title)
        + (f" ({escape(column.detail)})" if column.detail else "")
        for column in table.columns
    ]
    lines = [_row(titles), _row(["---:" if column.numeric else "---" for column in table.columns])]
    lines += [_row([_cell(cell) for cell in row]) for row in table.rows]
    yield "\n".join(lines)
    if table.notes:
        yield "\n".join(f"- <sup>{escape(sign)}</sup> {escape(note)}" for sign, note in table.notes)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: blocks.Cell) -> str:
    text = inline(cell.text)
    text = f"**{text}**" if cell.kind == "best" else text
    return (
        text
        + (f"<sup>{escape(' '.join(cell.marks))}</sup>" if cell.marks else "")
        + (f" ({escape(cell.detail)})" if cell.detail else "")
    )
