# SPDX-License-Identifier: Apache-2.0
"""XPath as a condition on XML bodies, and what strangers cannot do with it."""

from __future__ import annotations

import contextlib
import pickle

import pytest

from entrepot.engine.topics import Content, compile_filter
from entrepot.engine.topics.xpath import BODY_BYTES_MAX, EXPRESSION_CHARACTERS_MAX
from entrepot.errors import ContentFilterSyntaxError
from folding import for_each

ORDER = b"""<?xml version="1.0"?>
<order id="7"><total>120</total><item>pen</item><item>ink</item><note/><n:x xmlns:n="urn:n">y</n:x></order>"""


def matches(expression: str, body: bytes = ORDER) -> bool:
    return Content(body).matches(compile_filter(f"xpath:{expression}"))


@for_each(
    "expression",
    [
        "/order[total > 100]",
        "/order/@id",
        "//item[. = 'ink']",
        " //item ",
        "item",
        "/",
        "true()",
        "total > 100 and count(item) = 2",
        "count(//item)",
        "-1",
        "string(/order/item)",
        "'text'",
        "//*[local-name() = 'x' and namespace-uri() = 'urn:n']",
        "(//item)[2] = 'ink'",
        "/order/item[last()]/preceding-sibling::item",
        "//item/.. | //none",
        "/order[item = 'pen'][not(missing)]",
        "translate(item, 'pen', 'PEN') = 'PEN'",
        "/order//text()[. = 'ink']",
        "sum(//total) * 2 = 240",
        "total div 2 = 60 and total mod 7 = 1",
        "//item[position() = 2]/self::item",
        "/order/*[3] = 'ink'",
        "not(@xml:lang)",
    ],
)
def test_an_expression_that_holds_matches(expression: str) -> None:
    assert matches(expression)


@for_each(
    "expression",
    ["/order[total > 200]", "//none", "false()", "0", "count(//none)", "number('x')", "string(/order/note)", "''", "x"],
)
def test_nothing_false_zero_nan_and_empty_do_not_match(expression: str) -> None:
    assert not matches(expression)


@pytest.mark.parametrize("expression", ["string-length(1, 2)", "count('a')", "sum(1)", "count(//a, //b)"])
def test_what_cannot_be_evaluated_does_not_match(expression: str) -> None:
    assert not matches(expression)


@for_each(
    "body",
    [
        b"",
        b"plain",
        b"<a>",
        b"<a></b>",
        b"\xff\xfe\x00",
        b'{"a": 1}',
        b"<?xml version='1.0' encoding='no-such'?><a/>",
        b"<!DOCTYPE a><a/>",
        b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
        b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a><a/>'.encode("utf-16"),
        b"<a>" + b" " * BODY_BYTES_MAX + b"</a>",
        b"<a>" * 5_000 + b"</a>" * 5_000,
    ],
    ids=lambda body: repr(body[:40]),
)
def test_a_body_that_is_not_plain_xml_matches_nothing(body: bytes) -> None:
    assert not matches("true()", body)
    assert not matches("not(/b)", body)


def test_entities_do_not_grow() -> None:
    lines = [f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 12)]
    body = f"<!DOCTYPE a [<!ENTITY e0 'ha'>{''.join(lines)}]><a b='&e11;'>&e11;</a>".encode()
    assert not matches("true()", body)


def test_other_encodings_are_read() -> None:
    assert matches("/a = 'ü'", "<?xml version='1.0' encoding='UTF-16'?><a>ü</a>".encode("utf-16"))
    assert matches("/a = 'ü'", "<?xml version='1.0' encoding='ISO-8859-1'?><a>ü</a>".encode("latin-1"))
    assert matches("/a = '<!DOCTYPE'", b"<a><![CDATA[<!DOCTYPE]]></a>")


@for_each(
    "expression, column",
    [
        ("", 7),
        ("/a[", 10),
        ("/a]", 9),
        ("a b", 9),
        ("é[", 9),
        ("'abc", 11),
        ("1) or (2", 8),
        ("\x00", 1),
        ("$x", 7),
        ("/a[b = $x]", 14),
        ("document('x')", 7),
        ("/a[ foo() ]", 11),
        ("re:test(., 'a')", 7),
        ("/a/n:b", 10),
        ("/a/n:*", 10),
        ("/a/namespace::*", 10),
        ("x" * (EXPRESSION_CHARACTERS_MAX + 1), 7 + EXPRESSION_CHARACTERS_MAX),
    ],
)
def test_what_is_not_our_xpath_is_refused_with_its_column(expression: str, column: int) -> None:
    with pytest.raises(ContentFilterSyntaxError) as caught:
        compile_filter(f"xpath:{expression}")
    assert caught.value.column == column


@pytest.mark.parametrize("expression", ["(" * 400 + "1" + ")" * 400, "a[" * 300 + "b" + "]" * 300, "-" * 999 + "1"])
def test_deep_nesting_is_refused_or_harmless(expression: str) -> None:
    with contextlib.suppress(ContentFilterSyntaxError):
        matches(expression)


def test_a_filter_tells_its_text_and_pickles() -> None:
    filter_ = pickle.loads(pickle.dumps(compile_filter("xpath: //item")))
    assert (filter_.text, filter_.language) == ("xpath: //item", "xpath")
    assert Content(ORDER).matches(filter_)
    assert "//item" in repr(filter_)
