# SPDX-License-Identifier: Apache-2.0
"""XPath of Route tables as ESQL. What an expression means is XPath 1.0's word, not ours."""

from __future__ import annotations

import re

import pytest

from entrepot.errors import EsqlInvalid
from entrepot.esql import EsqlRun, compile_condition
from entrepot.flows.xpath import is_xpath, to_esql
from entrepot.message import Message
from entrepot.models import parse_message
from folding import for_each

ORDER = (
    b'<order id="7" kind="web"><item sku="a"><price>5</price></item><item sku="b"><price>150</price></item>'
    b"<name>abc</name><empty/><flag>0</flag><other-name>it's</other-name></order>"
)


def _is_true(xpath: str, body: bytes = ORDER, *, domain: str = "XMLNSC", **namespaces: str) -> bool:
    condition = compile_condition(to_esql(xpath, namespaces=namespaces))
    run = EsqlRun(parse_message(Message(body, priority=4), domain=domain))
    run.mode = ""
    answer = condition.run(run)
    assert answer is not None, "XPath has no unknown"
    return answer


@for_each(
    ("xpath", "expected"),
    [
        # A comparison with nodes is true when it is for one of them.
        ("$Root/XMLNSC/order/item/price > 100", True),
        ("$Root/XMLNSC/order/item/price < 100", True),
        ("$Root/XMLNSC/order/item/price > 1000", False),
        ("100 < $Root/XMLNSC/order/item/price", True),
        ("$Root/XMLNSC/order/item/price = 150.0", True),
        ("$Root/XMLNSC/order/item/price = '150'", True),
        ("$Root/XMLNSC/order/item/price = '150.0'", False),
        ("$Root/XMLNSC/order/item/price != 5", True),
        ("not($Root/XMLNSC/order/item/price != 5)", False),
        # What is missing fulfils nothing, neither = nor !=.
        ("$Root/XMLNSC/order/nothing = ''", False),
        ("$Root/XMLNSC/order/nothing != ''", False),
        ("$Root/XMLNSC/order/nothing > 0", False),
        ("not($Root/XMLNSC/order/nothing > 0)", True),
        ("$Root/XMLNSC/order/nothing", False),
        ("$Root/XMLNSC/order/empty", True),
        # Text that is no number is NaN.
        ("$Root/XMLNSC/order/name > 1", False),
        ("$Root/XMLNSC/order/name != 1", False),
        ("number($Root/XMLNSC/order/name) != 1", True),
        # Positions and predicates.
        ("$Root/XMLNSC/order/item[1]/price = 150", False),
        ("$Root/XMLNSC/order/item[2]/price = 150", True),
        ("$Root/XMLNSC/order/item[position()=2]/price = 150", True),
        ("$Root/XMLNSC/order/item[last()]/price = 150", True),
        ("$Root/XMLNSC/order/item[9]/price > 0", False),
        ("$Root/XMLNSC/order/item[@sku='b']/price = 150", True),
        ("$Root/XMLNSC/order/item[@sku='a']/price = 150", False),
        ("$Root/XMLNSC/order/item[price > 100 and @sku = 'b']", True),
        ("$Root/XMLNSC/order/item[price > 100][@sku = 'a']", False),
        ("$Root/XMLNSC/order[name = 'abc']/item[2]/price = 150", True),
        # Attributes, any name, names with signs in them.
        ("$Root/XMLNSC/order/@id = 7", True),
        ("$Root/XMLNSC/order/@kind = 'shop'", False),
        ("$Root/XMLNSC/*/name = 'abc'", True),
        ("$Root/XMLNSC/order/*/price = 5", True),
        ('$Root/XMLNSC/order/other-name = "it\'s"', True),
        # and, or, not, brackets.
        ("$Body/order/name = 'abc' and $Body/order/@id = 7", True),
        ("$Body/order/name = 'x' or $Body/order/@id = 7 and false()", False),
        ("($Body/order/name = 'x' or $Body/order/@id = 7) and true()", True),
        # Functions.
        ("contains($Root/XMLNSC/order/name, 'b')", True),
        ("contains($Root/XMLNSC/order/nothing, 'b')", False),
        ("not(contains($Root/XMLNSC/order/nothing, 'b'))", True),
        ("starts-with($Root/XMLNSC/order/name, 'ab')", True),
        ("string-length($Root/XMLNSC/order/name) = 3", True),
        ("count($Root/XMLNSC/order/item) = 2", True),
        ("count($Root/XMLNSC/order/item/price) > 2", False),
        ("sum($Root/XMLNSC/order/item/price) = 155", True),
        ("concat($Body/order/name, '-', $Body/order/@id) = 'abc-7'", True),
        ("substring($Body/order/name, 2, 1) = 'b'", True),
        ("substring-before('2024-05', '-') = '2024'", True),
        ("substring-after('2024-05', '/') = ''", True),
        ("boolean($Body/order/flag)", True),
        ("boolean(number($Body/order/flag))", False),
        ("round(2.5) = 3 and round(-2.5) = -2 and floor(-1.5) = -2 and ceiling(1.2) = 2", True),
        ("5 div 2 = 2.5 and 5 mod 2 = 1 and 2 * 3 - 1 = 5", True),
        # Two paths.
        ("$Root/XMLNSC/order/item/price = $Root/XMLNSC/order/item/price", True),
        ("$Root/XMLNSC/order/@id = $Root/XMLNSC/order/item/price", False),
        # Other trees, and sequences as maps have them.
        ("$Root/MQMD/Priority >= 4", True),
        ("$InputRoot/MQMD/Priority > 6", False),
        ("$LocalEnvironment/Destination/RouterList", False),
        ("$Root/XMLNSC/order/name = ('x', 'abc')", True),
        ("$Root/XMLNSC/order/@id = (1, 2)", False),
    ],
)
def test_a_route_condition_is_what_xpath_says(xpath: str, expected: bool) -> None:
    assert is_xpath(xpath) or "$" not in xpath
    assert _is_true(xpath) is expected


@pytest.mark.parametrize(("score", "expected"), [("95", True), ("80", False), ('"95"', True), ("null", False)])
def test_numbers_of_json_compare_as_numbers(score: str, expected: bool) -> None:
    assert _is_true("$Root/JSON/Data/score > 80", f'{{"score":{score}}}'.encode(), domain="JSON") is expected


def test_prefixes_come_from_the_table_of_namespaces() -> None:
    body = b'<o:order xmlns:o="urn:o"><o:id>1</o:id><id>2</id></o:order>'
    assert _is_true("$Root/XMLNSC/p:order/p:id = 1", body, p="urn:o")
    assert not _is_true("$Root/XMLNSC/p:order/p:id = 2", body, p="urn:o")
    assert _is_true("$Root/XMLNSC/p:order/id = 2", body, p="urn:o")
    assert _is_true("$Root/XMLNSC/*:order/*:id = 1", body)


@pytest.mark.parametrize(
    "text",
    ["Root.XMLNSC.order.amount > 100", "Root.XMLNSC.order.price = '$Root/a'", "Body.x IS NULL", "TRUE"],
)
def test_esql_is_not_taken_for_xpath(text: str) -> None:
    assert not is_xpath(text)


@for_each(
    ("xpath", "told"),
    [
        ("$Root//price", "//"),
        ("$Root/XMLNSC//price", "//"),
        ("$Root/XMLNSC/order/../x", "parents"),
        ("/order/price > 1", "begin with $Root or $Body"),
        ("normalize-space($Root/XMLNSC/order/name) = 'x'", "normalize-space()"),
        ("matches($Root/XMLNSC/order/name, 'x')", "matches()"),
        ("$Root/ancestor::x", "ancestor"),
        ("$Root/a | $Root/b", "|"),
        ("$Order/a = 1", "$Order"),
        ("$Root/p:a = 1", "prefix p"),
        ("$Root/XMLNSC/order/*[2] = 1", "position of *"),
        ("$Root/XMLNSC/order/item[@sku='a'][1]", "only be the first"),
        ("$Root/XMLNSC/order/item[", "ends too early"),
        ("$Root/XMLNSC/order/a ~ 1", "character 22"),
        ("$Root/XMLNSC/order/a = 1 1", "character 26"),
        ("(" * 60 + "$Root/a" + ")" * 60, "deep"),
        ("$Root/" + "a/" * 3_000 + "a", "4000 characters"),
        ("contains($Root/a)", "1 arguments"),
        ("price > 1 and $Root/a", "where it starts"),
    ],
)
def test_what_is_not_supported_is_named(xpath: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        to_esql(xpath)


def test_whatever_is_translated_compiles() -> None:
    # A name that ESQL reserves, one with a quote, one that looks like a number of ours.
    for path in ("$Root/XMLNSC/a/ITEM = 1", "$Root/XMLNSC/a/xp_1/xp_1 = 1", "$Root/XMLNSC/a/WHEN/FROM"):
        try:
            compile_condition(to_esql(path))
        except EsqlInvalid as error:
            pytest.fail(f"{path}: {error}")
