# SPDX-License-Identifier: Apache-2.0
"""Blocks become HTML and Markdown in which text stays text, whatever it contains."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from entrepot.workbench.report import appearance, drawing
from entrepot.workbench.report.blocks import Cell, CodeBlock, Column, Hyperlink, Paragraph, Section, Strong, TableBlock
from entrepot.workbench.report.html import render_page, tag
from entrepot.workbench.report.markdown import render_markdown
from entrepot.workbench.report.wording import described, listed, name_of, number, scale_for, slug, span, value_of
from entrepot.workbench.systems import NAMES, is_answered

NASTY = "<script>alert('&')</script> | `a` *b* _c_ \n next"
TABLE = TableBlock(
    NASTY,
    [Column("Size", numeric=False, heads_row=True), Column("unix", group="Entrepot"), Column(NASTY, group="Peers")],
    [[Cell("10"), Cell("14,000", "13,000–15,000", ["1", "a"], "best"), Cell(NASTY, kind="mark")]],
    [("1", NASTY)],
)
BLOCKS = [Section("one", NASTY, [Paragraph([NASTY, CodeBlock(NASTY), Strong(NASTY), Hyperlink(NASTY, "#one")]), TABLE])]


class Elements(HTMLParser):
    """Which elements there are, and whether each is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append((name, dict(attributes)))
        if name != "meta":
            self._open.append(name)

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append((name, dict(attributes)))

    def handle_endtag(self, name: str) -> None:
        assert self._open.pop() == name

    def handle_data(self, text: str) -> None:
        self.texts.append(text)


def test_text_never_becomes_an_element_of_the_page() -> None:
    found = Elements(render_page(NASTY, [NASTY], BLOCKS))
    assert "script" not in {name for name, _ in found.seen}
    assert NASTY in found.texts


def test_tables_have_captions_scopes_and_groups() -> None:
    found = Elements(render_page("t", [], BLOCKS)).seen
    scopes = [attributes.get("scope") for name, attributes in found if name == "th"]
    assert scopes == ["colgroup", "colgroup", "col", "col", "col", "row"]
    assert [name for name, _ in found].count("caption") == 1
    assert ("html", {"lang": "en"}) in found


def test_contents_link_to_sections_that_want_to_be_named() -> None:
    hidden = Section("two", "Hidden", [], contents="no")
    page = render_page("t", [], [*BLOCKS, hidden, Section("three", "A very long title", [], short="Short")])
    assert 'href="#one"' in page
    assert 'href="#two"' not in page
    assert '<a href="#three">Short</a>' in page


def test_attributes_are_escaped_and_empty_ones_left_out() -> None:
    assert tag("a", "x", href='"><b>', class_="") == '<a href="&quot;&gt;&lt;b&gt;">x</a>'
    assert tag("details", open=True) == "<details open></details>"
    assert tag("path", d="M0") == '<path d="M0"/>'


def test_markdown_escapes_what_would_end_a_cell_or_begin_markup() -> None:
    text = render_markdown("t", [], BLOCKS)
    row = next(line for line in text.splitlines() if line.startswith("| 10"))
    assert row.replace("\\|", "").count("|") == 4
    assert "**14,000**<sup>1 a</sup> (13,000–15,000)" in row
    assert "<script>" not in text.replace("`<script>", "")
    assert "| --- | ---: | ---: |" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(14130, "14,130"), (650, "650"), (3.416, "3.42"), (0.011713, "0.0117"), (99.96, "100"), (0, "0"), (-2.5, "-2.50")],
)
def test_numbers_have_three_digits_and_no_exponent(value: float, text: str) -> None:
    assert number(value) == text


def test_words_of_parameters_and_metrics() -> None:
    assert name_of("message_bytes") == "Message bytes"
    assert name_of("call_put_p90") == "Put, 90 %"
    assert name_of("call_back_out_p90") == "Back out, 90 %"
    assert value_of("message_bytes", "262144") == "262,144"
    assert value_of("common_reply_queue", "False") == "no"
    assert described([("quality", "express"), ("threads", "1"), ("message_bytes", "2000"), ("instances", "0")]) == (
        "express, 1 thread, 2,000 message bytes"
    )
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert slug("wmq/figure-17") == "wmq-figure-17"
    assert span(0.98, 1.02) == "0.980–1.02"
    assert scale_for("s", [0.00002, 0.00003]).unit == "µs"
    assert scale_for("msg/s", [0.001]).unit == "msg/s"


def test_every_system_has_a_colour_of_its_own_and_a_marker_of_its_own() -> None:
    looks = [appearance.look_of(name) for name in NAMES if not is_answered(name)]
    assert len({look.light for look in looks}) == len({look.dark for look in looks}) == len(looks)
    assert len({look.marker for look in looks}) == len(looks)


def test_a_form_that_waits_for_each_answer_is_hollow_in_the_colour_of_its_system() -> None:
    waits, pipelines = appearance.look_of("redis-lists-answered"), appearance.look_of("redis-lists")
    assert waits == replace(pipelines, hollow=True)
    assert appearance.short_title("redis-lists-answered") == "Redis lists, answered"


def test_a_system_that_was_added_later_always_looks_the_same() -> None:
    assert appearance.look_of("a-new-one") == appearance.look_of("a-new-one")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_of_systems_stand_out_from_the_paper(theme: str) -> None:
    paper = _luminance(getattr(appearance.PAPER, theme))
    for name in NAMES:
        own = _luminance(getattr(appearance.look_of(name), theme))
        light, dark = max(own, paper), min(own, paper)
        assert (light + 0.05) / (dark + 0.05) >= 3.0, name


def test_panel_is_text_with_the_pages_colours_and_no_names_of_its_own() -> None:
    look = appearance.look_of("rabbitmq")
    series = [drawing.Series(look, look.marker, [1, 10, 100], [5.0, 7.5, 0.727], [4, 7, 0.7], [6, 8, 0.8])]
    panel = drawing.lines("T <1>", "message bytes", "msg/s", series, log_x=True, log_y=False)
    assert panel == drawing.lines("T <1>", "message bytes", "msg/s", series, log_x=True, log_y=False)
    assert "var(--rabbitmq)" in panel.svg
    assert look.light not in panel.svg
    assert ">msg/s</text>" in panel.svg
    assert 'aria-label="T &lt;1&gt;' in panel.svg
    for unwanted in ("<metadata", "<style", "<?xml", "DOCTYPE", 'id="figure_1"', "DejaVu"):
        assert unwanted not in panel.svg
    assert len(panel.svg) < 20_000


def test_axis_labels_are_short() -> None:
    assert [drawing.short(value) for value in (0, 0.02, 1500, 20_000, 1_500_000)] == [
        "0",
        "0.02",
        "1,500",
        "20k",
        "1.5M",
    ]
    assert [drawing.short_bytes(value) for value in (50, 2048, 2_097_152, 3000)] == ["50", "2 Ki", "2 Mi", "3,000"]


def _luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
