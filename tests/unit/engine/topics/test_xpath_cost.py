# SPDX-License-Identifier: Apache-2.0
"""The bound on an expression's work: small for what is usual, and true for what is meant to harm."""

from __future__ import annotations

import time

import pytest

from entrepot.engine.topics import Content, compile_filter
from entrepot.engine.topics.xpath_cost import WORK_MAX, UnknownSyntax, bound_of, steps_max
from folding import for_each

FLAT = b"<a>" + b"<b><c>x</c></b>" * 40_000 + b"</a>"
DEEP = b"<a>" * 200 + b"<b>x</b>" * 20_000 + b"</a>" * 200
ATTRIBUTES = b"<a>" + b"<b c='1' d='2'/>" * 40_000 + b"</a>"
TEXT = b"<a>" + b"x" * 4_000_000 + b"</a>"
NAMES = b"<a " + b" ".join(b"xmlns:n%d='u%d'" % (n, n) for n in range(2_000)) + b">" + b"<b/>" * 20_000 + b"</a>"


@pytest.mark.parametrize(
    "expression",
    [
        "/order[total > 100]",
        "//b[c = 'x']",
        "//b[c[. = 'x']]/@id",
        "/a/b[1]/c = 'x' or /a/b[2]/c = 'y'",
        "/order//item",
        "count(//item) > 3",
        "contains(/order/note, 'urgent')",
    ],
)
def test_usual_conditions_are_allowed_for_large_documents(expression: str) -> None:
    assert steps_max(bound_of(expression), 400_000, 8, 4_000_000) <= WORK_MAX


@pytest.mark.parametrize(
    "expression", ["//order//item", "//a | //b", "//a[. = //b]", "//a[../b]", "//a/following::b", "//a[b > c]"]
)
def test_costly_conditions_are_allowed_for_small_documents(expression: str) -> None:
    assert steps_max(bound_of(expression), 300, 8, 10_000) <= WORK_MAX


@for_each("body", [FLAT, DEEP, ATTRIBUTES, TEXT, NAMES], ids=["flat", "deep", "attributes", "text", "names"])
@for_each(
    "expression",
    [
        "count(//*//*)",
        "count(//a//b)",
        "count(//*[count(//*) > 0])",
        "count(//*[.//*[.//* = 'y']])",
        "count(//* | //@*)",
        "count(//*/following::*)",
        "count(//*/following-sibling::*/preceding-sibling::*)",
        "count(//*[../* = 'y'])",
        "count(//*/..)",
        "count(//*/ancestor::*)",
        "count(//*[namespace-uri() = 'y'])",
        "//* = //*[. = 'y']",
        "//@* < //@*",
        "//*[. = 'x'] != //*[. = 'x']",
        "(//*)//*[. = 'y']",
        "(//*)[. = (//*)[. = 'y']]",
        "//*[contains(string(/), 'y')]",
        "//*[contains(., 'y')]",
        "//*[id(.)]",
        "translate(/, '" + "abcdefghij" * 40 + "', '') = 'a'",
        "concat(" + ", ".join("/" * 300) + ") = 'a'",
        " or ".join(["//*[. = 'y']"] * 60),
        "//*" + "[. = 'x' or . != 'x']" * 40,
        "/*" + "/*/.." * 30,
        "count(/*/*/..//*)",
        "//*[position() = last()]//*",
    ],
)
def test_what_is_meant_to_harm_takes_no_long_time(body: bytes, expression: str) -> None:
    content = Content(body)
    filter_ = compile_filter(f"xpath:{expression}")
    content.matches(compile_filter("xpath:/a"))
    begun = time.process_time()
    content.matches(filter_)
    assert time.process_time() - begun < 10


def test_a_bound_grows_with_the_ways_of_looking_elsewhere() -> None:
    def degree(expression: str) -> int:
        return max(nodes for nodes, _, _ in bound_of(expression))

    assert [degree(each) for each in ("/a/b", "//a[b]", "//a//b", "//a[//b]", "//a[//b[//c]]")] == [1, 1, 2, 2, 3]


def test_nesting_has_an_end() -> None:
    with pytest.raises(UnknownSyntax, match="brackets"):
        bound_of("(" * 60 + "1" + ")" * 60)
