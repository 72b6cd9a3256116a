# SPDX-License-Identifier: Apache-2.0
"""A flow as SVG: boxes from left to right in the order in which messages reach them.

The picture is one file without fonts or scripts from elsewhere. `layout` says
where everything lies; here it is written down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from entrepot.flows.definition import INPUT, OUTPUT, SUBFLOW, FlowDefinition, NodeDefinition
from entrepot.flows.drawing import detail_of, is_entrance
from entrepot.flows.layout import Box, FlowLayout, LinkLine, lay_out

_ERRORS = ("failure", "catch")
_LINE = "#5f6b7a"
_ERROR_LINE = "#b3261e"
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow."""

_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
font-family="sans-serif" role="img">
<title>{title}</title>
<defs>
<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0 8 4 0 8z" fill="{line}"/></marker>
<marker id="error" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0 8 4 0 8z" fill="{error_line}"/></marker>
</defs>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="26" font-size="16" font-weight="bold" fill="#1c232b">{title}</text>"""


def svg(flow: FlowDefinition) -> str:
    """The picture of a flow, one line of XML below the other."""
    return "\n".join(_lines(flow, lay_out(flow))) + "\n"


def _lines(flow: FlowDefinition, layout: FlowLayout) -> Iterator[str]:
    yield _HEAD.format(
        width=_number(layout.width),
        height=_number(layout.height),
        title=_text(flow.name),
        line=_LINE,
        error_line=_ERROR_LINE,
    )
    for path in layout.paths:
        yield from _path(path)
    for box in layout.boxes:
        yield from _box(flow.nodes[box.name], box)
    for path in layout.paths:
        yield from _labels(path)
    yield "</svg>"


def _path(path: LinkLine) -> Iterator[str]:
    is_error = path.link.terminal in _ERRORS
    color, marker = (_ERROR_LINE, "error") if is_error else (_LINE, "arrow")
    dashes = ' stroke-dasharray="5 3"' if path.goes_back else ""
    yield (
        f'<path d="{_drawn(path)}" fill="none" stroke="{color}" stroke-width="1.4"{dashes} '
        f'stroke-linejoin="round" marker-end="url(#{marker})"/>'
    )


def _drawn(path: LinkLine) -> str:
    (x, y), *rest = path.points
    drawn = [f"M{_number(x)} {_number(y)}"]
    for next_x, next_y in rest:
        if path.goes_back or next_y == y:
            drawn.append(f"L{_number(next_x)} {_number(next_y)}")
        else:
            middle, end = _number((x + next_x) / 2), _number(next_y)
            drawn.append(f"C{middle} {_number(y)} {middle} {end} {_number(next_x)} {end}")
        x, y = next_x, next_y
    return " ".join(drawn)


def _labels(path: LinkLine) -> Iterator[str]:
    color = _ERROR_LINE if path.link.terminal in _ERRORS else _LINE
    x, y = path.points[0]
    if path.is_first_of_terminal:
        yield _written(x + 4, y - 4, path.link.terminal, 10, color)
    if path.link.input != "in":
        x, y = path.points[-1]
        yield _written(x - 8, y - 4, path.link.input, 10, color, anchor="end")


def _box(node: NodeDefinition, box: Box) -> Iterator[str]:
    fill, stroke = _colors(node)
    frame = (
        f'x="{_number(box.x)}" y="{_number(box.y)}" width="{_number(box.width)}" height="{_number(box.height)}" rx="6"'
    )
    yield f"<g><title>{_text(_title_of(node))}</title><rect {frame} fill={quoteattr(fill)} stroke={quoteattr(stroke)}/>"
    if node.type == SUBFLOW:
        # A frame within the frame: there is more inside.
        inner = f'x="{_number(box.x + 3)}" y="{_number(box.y + 3)}" width="{_number(box.width - 6)}"'
        yield f'<rect {inner} height="{_number(box.height - 6)}" rx="4" fill="none" stroke="{stroke}"/>'
    middle = box.y + box.height / 2
    yield _written(box.x + box.width / 2, middle - 3, box.title, 13, "#1c232b", anchor="middle", weight="bold")
    yield _written(box.x + box.width / 2, middle + 13, box.subtitle, 11, "#5f6b7a", anchor="middle")
    yield "</g>"


def _colors(node: NodeDefinition) -> tuple[str, str]:
    if is_entrance(node):
        return "#e6f4ea", "#34744a"
    if node.type == OUTPUT or node.type.endswith(("Output", "Reply", "Publication")):
        return "#e8f0fe", "#3a5f9e"
    return ("#fdf6e3", "#8a6d1d") if node.type in ("Label", "RouteToLabel", INPUT) else ("#f6f7f9", "#5f6b7a")


def _title_of(node: NodeDefinition) -> str:
    detail = detail_of(node)
    return f"{node.name}: {node.type}{' ' + detail if detail else ''}"


def _written(
    x: float, y: float, text: str, size: int, color: str, *, anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f'<text x="{_number(x)}" y="{_number(y)}" font-size="{size}" font-weight="{weight}" '
        f'fill="{color}" text-anchor="{anchor}">{_text(text)}</text>'
    )


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text))


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
