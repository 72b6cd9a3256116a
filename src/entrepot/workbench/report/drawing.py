# SPDX-License-Identifier: Apache-2.0
"""Series drawn by matplotlib as small SVG panels, the same bytes for the same numbers.

Panels are about as wide as a phone, so that a page sets them side by side
or one below the other and never has to shrink them. Text stays text, with
the page's font and colours: `_adopt` puts the page's variables in place of
colours and drops what only a file of its own would need.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any
from zlib import crc32

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import Affine2D

from entrepot.workbench.report.appearance import FAINT, INK, PAPER, RULE, Look, variable_of_colour
from entrepot.workbench.report.blocks import Panel
from entrepot.workbench.report.wording import number

WIDTH = 384
HEIGHT = 264
WIDE = 792
_POINTS_PER_INCH = 72
_FONT_SIZE = 10.5
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "entrepot",
    "font.family": "DejaVu Sans",
    "font.size": _FONT_SIZE,
    "axes.edgecolor": FAINT.light,
    "axes.labelcolor": INK.light,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": RULE.light,
    "grid.linewidth": 0.7,
    "text.color": INK.light,
    "xtick.color": FAINT.light,
    "ytick.color": FAINT.light,
    "xtick.labelcolor": INK.light,
    "ytick.labelcolor": INK.light,
    "figure.facecolor": "none",
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True, slots=True)
class Series:
    """One system's values; `hollow` is published and has no line between its points unless they are many."""

    look: Look
    marker: str
    xs: Sequence[float]
    ys: Sequence[float]
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """One system's values over the categories; None where it has none, and `marked` where a trial was marked."""

    look: Look
    marker: str
    values: Sequence[float | None]
    lows: Sequence[float | None] = ()
    highs: Sequence[float | None] = ()
    hollow: bool = False
    marked: Sequence[bool] = ()


@dataclass(frozen=True, slots=True)
class Course:
    """One trial against time."""

    look: Look
    seconds: Sequence[float]
    sent: Sequence[float]
    received: Sequence[float]
    depths: Sequence[float | None] = field(default=())


@dataclass(frozen=True, slots=True)
class Range:
    """One row of a forest: a ratio, its interval, and how far single points lie apart."""

    title: str
    label: str
    """The ratio in words, at the end of the row."""
    value: float
    low: float
    high: float
    least: float
    most: float


def lines(
    title: str, x_title: str, y_title: str, series: Sequence[Series], log_x: bool, log_y: bool, diagonal: bool = False
) -> Panel:
    """Values against a parameter, with interval bars."""
    with _figure(WIDTH, HEIGHT) as figure:
        axes = figure.subplots()
        if diagonal:
            end = max((value for one in series for value in (*one.xs, *one.ys)), default=1.0)
            axes.plot([0, end], [0, end], color=FAINT.light, linewidth=0.9, linestyle=(0, (2, 3)), zorder=1)
        for one in series:
            _line(axes, one)
        _scale_x(axes, [x for one in series for x in one.xs], log_x, binary=x_title.endswith("bytes"))
        _scale_y(axes, log_y)
        axes.set_xlabel(x_title)
        _y_title(axes, y_title)
        _place(figure, [axes], bottom=40)
        return _panel(figure, title, f"{title}: {y_title} against {x_title}")


def _line(axes: Axes, one: Series) -> None:
    order = sorted(range(len(one.xs)), key=lambda place: one.xs[place])
    xs, ys = [one.xs[place] for place in order], [one.ys[place] for place in order]
    fill = PAPER.light if one.hollow or one.look.hollow else one.look.light
    has_line = not one.hollow and len(xs) > 1
    if one.lows:
        below = [one.ys[place] - one.lows[place] for place in order]
        above = [one.highs[place] - one.ys[place] for place in order]
        axes.errorbar(xs, ys, [below, above], fmt="none", ecolor=one.look.light, elinewidth=1.1, capsize=2.5, zorder=2)
    axes.plot(
        xs,
        ys,
        color=one.look.light,
        linewidth=1.6 if has_line else 0,
        linestyle=(0, (4, 2)) if one.look.dashed else "-",
        marker=one.marker,
        markersize=6.5 if one.hollow else 5,
        markerfacecolor=fill,
        markeredgecolor=one.look.light,
        markeredgewidth=1.3,
        zorder=4 if one.hollow else 3,
        clip_on=False,
    )


def bars(title: str, categories: Sequence[str], y_title: str, groups: Sequence[Bars]) -> Panel:
    """Values side by side; the axis begins at nought, since the eye compares lengths."""
    wide = len(categories) * len(groups) > 14
    with _figure(WIDE if wide else WIDTH, HEIGHT) as figure:
        axes = figure.subplots()
        width = min(0.84 / max(1, len(groups)), 0.26)
        for place, group in enumerate(groups):
            shift = (place - (len(groups) - 1) / 2) * width
            for category in range(len(categories)):
                _bar(axes, group, category, category + shift, width)
        axes.set_xticks(range(len(categories)), categories)
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.55, len(categories) - 0.45)
        _scale_y(axes, log=False)
        _y_title(axes, y_title)
        _place(figure, [axes], bottom=24)
        return _panel(figure, title, f"{title}: {y_title} by {', '.join(categories)}", wide)


def _bar(axes: Axes, group: Bars, category: int, x: float, width: float) -> None:
    value = group.values[category]
    if value is None:
        if group.marked and group.marked[category]:
            axes.plot([x], [0], marker="x", markersize=6, color=group.look.light, clip_on=False, zorder=4)
        return
    colour = group.look.light
    fill = PAPER.light if group.hollow or group.look.hollow else colour
    axes.bar([x], [value], width * 0.86, color=fill, edgecolor=colour, linewidth=1.0, zorder=2)
    if group.lows and group.lows[category] is not None and group.highs[category] is not None:
        low, high = group.lows[category] or 0.0, group.highs[category] or 0.0
        if high > low:
            axes.plot([x, x], [low, high], color=INK.light, linewidth=1.1, zorder=3)
    # Light within, so that its shape shows on its own bar, in black and white too.
    axes.plot(
        [x],
        [value],
        group.marker,
        markersize=5.5,
        markerfacecolor=PAPER.light,
        markeredgecolor=colour,
        markeredgewidth=1.2,
        clip_on=False,
        zorder=4,
    )


def over_time(title: str, course: Course) -> Panel:
    """Sending and receiving rate, and below them the messages that wait."""
    depths = [depth for depth in course.depths if depth is not None]
    with _figure(WIDTH, HEIGHT + 70 if depths else HEIGHT - 40) as figure:
        if depths:
            upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
            known = [(x, y) for x, y in zip(course.seconds, course.depths, strict=True) if y is not None]
            lower.fill_between([x for x, _ in known], [y for _, y in known], color=RULE.light, linewidth=0)
            lower.plot([x for x, _ in known], [y for _, y in known], color=course.look.light, linewidth=1.3)
            _scale_y(lower, log=False)
            _y_title(lower, "messages waiting")
        else:
            upper = lower = figure.subplots()
        upper.plot(course.seconds, course.sent, color=course.look.light, linewidth=1.6)
        upper.plot(course.seconds, course.received, color=INK.light, linewidth=1.3, linestyle=(0, (3, 2)))
        _scale_y(upper, log=False)
        _y_title(upper, "msg/s")
        lower.set_xlabel("second")
        lower.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _place(figure, [upper, lower] if depths else [upper], bottom=40)
        return _panel(figure, title, f"{title}: sending rate, receiving rate and waiting messages by the second")


def forest(title: str, rows: Sequence[Range], look: Look, marker: str, hollow: bool) -> Panel:
    """Ratios on a logarithmic axis with a line at 1; thin: single points, thick: the interval of the mean."""
    with _figure(WIDTH, 42 + 37 * len(rows)) as figure:
        axes = figure.subplots()
        fill = PAPER.light if hollow else look.light
        across = axes.get_yaxis_transform()
        for place, row in enumerate(rows):
            y = len(rows) - 1 - place
            axes.plot([1.0, 1.0], [y - 0.34, y + 0.12], color=INK.light, linewidth=1.0, zorder=1)
            axes.plot([row.least, row.most], [y, y], color=look.light, linewidth=1.0, zorder=2)
            axes.plot([row.low, row.high], [y, y], color=look.light, linewidth=3.6, zorder=3)
            axes.plot(
                [row.value], [y], marker, markersize=7, markerfacecolor=fill, markeredgecolor=look.light, zorder=4
            )
            axes.text(-0.03, y + 0.26, row.title, transform=across, va="bottom")
            axes.text(1.03, y + 0.26, row.label, transform=across, va="bottom", ha="right")
        axes.set_yticks([])
        axes.set_ylim(-0.5, len(rows) - 0.2)
        axes.spines["left"].set_visible(False)
        ends = [value for row in rows for value in (row.least, row.most, row.low, row.high) if value > 0]
        _log_axis(axes, min(ends), max(ends))
        axes.grid(visible=True, axis="x")
        _place(figure, [axes], left=18, bottom=22, top=4)
        return _panel(figure, title, f"{title}: {', '.join(f'{row.title} {row.label}' for row in rows)}")


def _log_axis(axes: Axes, least: float, most: float) -> None:
    axes.set_xscale("log")
    low, high = min(least * 0.8, 0.5), max(most * 1.25, 2.0)
    axes.set_xlim(low, high)
    steps = (1.0,) if high / low > 3000 else (1.0, 3.0) if high / low > 300 else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=steps))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}×"))


def _scale_x(axes: Axes, xs: Sequence[float], log: bool, binary: bool) -> None:
    values = sorted(set(xs))
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_locator(FixedLocator(_apart(values)))
        axes.margins(x=0.06)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=all(value == int(value) for value in values)))
    write = short_bytes if binary else short
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _apart(values: Sequence[float]) -> list[float]:
    """Those values whose labels do not touch on a logarithmic axis, the ends among them."""
    if len(values) < 3 or values[0] <= 0:
        return list(values)
    whole = math.log(values[-1] / values[0])
    kept = [values[0]]
    for value in values[1:-1]:
        if math.log(value / kept[-1]) / whole > 0.13 and math.log(values[-1] / value) / whole > 0.13:
            kept.append(value)
    return [*kept, values[-1]]


def _scale_y(axes: Axes, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=7))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_formatter(NullFormatter())
        _whole_decades(axes)
    else:
        axes.set_ylim(bottom=0)
        if axes.get_ylim()[1] <= 0:
            axes.set_ylim(0, 1)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def _whole_decades(axes: Axes) -> None:
    """An axis without a labelled line says nothing, so it reaches from one power of ten to another."""
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low) + 0.05), 10 ** math.ceil(math.log10(high) - 0.05))


def _y_title(axes: Axes, text: str) -> None:
    """Lies above the axis, where it can be read without turning the head."""
    axes.set_title(text, loc="left", fontsize=_FONT_SIZE, color=FAINT.light, pad=7)


def _place(figure: Figure, axes: Sequence[Axes], bottom: float, left: float | None = None, top: float = 26) -> None:
    """Margins by arithmetic: matplotlib's own layout draws everything twice to find them.

    The labels of the y axes are the only part whose width is not known; a
    digit of the font is 0.64 of its size.
    """
    width, height = figure.get_size_inches() * _POINTS_PER_INCH
    if left is None:
        labels = [short(value) for one in axes for value in one.get_yticks()]
        left = 12 + 0.64 * _FONT_SIZE * max(map(len, labels), default=1)
    gap = 0.55 if len(axes) > 1 else 0.0
    figure.subplots_adjust(left / width, bottom / height, 1 - 18 / width, 1 - top / height, hspace=gap)


def short(value: float) -> str:
    """An axis label: 20k, 1.5M, 0.02."""
    for factor, sign in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            unit = 1e3 if sign == "k" else factor
            return f"{value / unit:,.4g}{sign}"
    return f"{value:,.4g}" if abs(value) >= 1 or value == 0 else number(value, 2).rstrip("0")


def short_bytes(value: float) -> str:
    """16,384 is 16 Ki; what is no multiple stays as it is."""
    for factor, sign in ((2**20, "Mi"), (2**10, "Ki")):
        if value >= factor and value % factor == 0:
            return f"{value / factor:,.0f} {sign}"
    return short(value)


def glyph(marker: str) -> str:
    """A marker as an SVG path, for legends in HTML; y points down there."""
    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform() + Affine2D().scale(8.4, -8.4))
    written = []
    for vertices, code in path.iter_segments():
        pairs = " ".join(f"{value:.2f}" for value in vertices)
        written.append({Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}.get(code, "Z") + pairs)
        if written[-1].startswith("Z"):
            written[-1] = "Z"
    return "".join(written)


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width / _POINTS_PER_INCH, height / _POINTS_PER_INCH))
        FigureCanvasSVG(figure)
        yield figure


def _panel(figure: Figure, title: str, description: str, wide: bool = False) -> Panel:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    width, height = (round(inches * _POINTS_PER_INCH) for inches in figure.get_size_inches())
    return Panel(title, _adopt(buffer.getvalue(), width, height, description), wide)


def _adopt(svg: str, width: int, height: int, description: str) -> str:
    """Make a file's SVG part of a page: its colours, its font, no declarations, no unused names.

    Names that are used, of marker shapes and clips, begin with a digest of
    the whole and of what is said of it, so that no two panels of a page have one in common.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    used = set(re.findall(r"#([\w.-]+)", svg))
    own = f"{crc32((description + svg).encode()):08x}"
    svg = re.sub(r' id="([\w.-]+)"', lambda found: f' id="{own}{found[1]}"' if found[1] in used else "", svg)
    svg = re.sub(r"(href=\"#|url\(#)([\w.-]+)", rf"\g<1>{own}\2", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    svg = re.sub(r" font-family: [^;\"]*;?", "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    svg = svg.replace("xlink:href", "href")
    for colour, variable in variable_of_colour().items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r"<[^>]+>", lambda found: re.sub(r"(\d+\.\d\d)\d+", r"\1", found[0]), svg)
    svg = re.sub(r">\s+<", "><", svg)
    inside = svg[svg.index(">") + 1 :]
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(description)}">{inside.strip()}'
    )
