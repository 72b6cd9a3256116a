# SPDX-License-Identifier: Apache-2.0
"""ESQL as a language of content filters."""

from __future__ import annotations

import pytest

from entrepot.engine.topics.content_filter import Content, compile_filter
from entrepot.errors import ContentFilterSyntaxError
from entrepot.esql.content_filter import STEPS_MAX, EsqlFilter, EsqlLanguage

ORDER = b"<order><total>250</total><item>a</item><item>b</item></order>"


def takes(expression: str, body: bytes) -> bool:
    document = EsqlLanguage().parse(body)
    return document is not None and EsqlLanguage().compile(expression).matches(document)


@pytest.mark.parametrize(
    ("expression", "taken"),
    [
        ("Body.order.total > 100", True),
        ("Body.order.total > 1000", False),
        ("Root.XMLNSC.order.item[2] = 'b'", True),
        ("Body.order.none = 1", False),
        ("EXISTS(Body.order.item[])", True),
        ("Body.order.total BETWEEN 200 AND 300 AND Body.order.item LIKE 'a%'", True),
        ("(SELECT COUNT(*) FROM Body.order.item[] AS I) = 2", True),
    ],
)
def test_xml_is_taken_or_not(expression: str, taken: bool) -> None:
    assert takes(expression, ORDER) is taken


def test_json_is_read_as_json() -> None:
    assert takes("Root.JSON.Data.order.total > 100", b' {"order": {"total": 101}}')
    assert takes("Body.Data.Item[2] = 7", b"[1, 7]")


def test_xml_with_a_byte_order_mark_is_xml() -> None:
    assert takes("Body.order.total = 250", b"\xef\xbb\xbf" + ORDER)


def test_a_body_that_is_neither_is_no_document() -> None:
    assert EsqlLanguage().parse(b"hello") is None
    assert EsqlLanguage().parse(b"") is None


@pytest.mark.parametrize("body", [b"<order><total>", b'{"order": ', b"<", b"{"])
def test_a_broken_body_is_not_taken(body: bytes) -> None:
    assert takes("Body.order.total > 100", body) is False


def test_an_error_while_it_is_asked_means_no() -> None:
    assert takes("CAST(Body.order.item AS INTEGER) = 1", ORDER) is False
    assert takes("1 / 0 = 1", ORDER) is False


def test_unknown_means_no() -> None:
    assert takes("Body.order.none > 1 OR Body.order.none <= 1", ORDER) is False


def test_a_filter_that_asks_too_much_means_no() -> None:
    many = b"<o>" + b"<i>1</i>" * 400 + b"</o>"
    assert STEPS_MAX < 400**2
    assert takes("(SELECT COUNT(*) FROM Body.o.i[] AS A, Body.o.i[] AS B) > 0", many) is False


@pytest.mark.parametrize(
    ("expression", "column"),
    [("Body.order.total >", 24), ("Body.order.total = = 1", 25), ("", 6), ("Nowhere.order = 1", 6)],
)
def test_what_is_no_condition_is_told_with_its_place(expression: str, column: int) -> None:
    with pytest.raises(ContentFilterSyntaxError) as caught:
        EsqlLanguage().compile(expression)
    assert caught.value.column == column
    assert caught.value.expression == f"esql:{expression}"


def test_a_statement_is_no_condition() -> None:
    with pytest.raises(ContentFilterSyntaxError):
        EsqlLanguage().compile("SET Root.XMLNSC.a = 1")


def test_a_database_is_out_of_reach() -> None:
    assert takes("EXISTS(SELECT T.a FROM Database.t AS T)", ORDER) is False


def test_topics_find_the_language_by_its_name() -> None:
    found = compile_filter("esql:Body.order.total > 100")
    assert isinstance(found, EsqlFilter)
    assert (found.language, found.text) == ("esql", "esql:Body.order.total > 100")
    assert Content(ORDER).matches(found) is True
    assert Content(b"<order><total>1</total></order>").matches(found) is False
    assert Content(b"plain text").matches(found) is False


def test_topics_tell_a_mistake_with_its_place_in_the_whole_filter() -> None:
    with pytest.raises(ContentFilterSyntaxError) as caught:
        compile_filter("esql:Body.order.total >")
    assert caught.value.column == 24
