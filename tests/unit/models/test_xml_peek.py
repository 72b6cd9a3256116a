# SPDX-License-Identifier: Apache-2.0
"""A peek answers what the whole body would answer, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.flows import MessageUnreadable
from entrepot.models.domains import find_domain
from entrepot.models.tree import Element, Folder
from entrepot.models.xml import peek as xml_peek
from folding import for_each

PAD = b"<pad>" + b"x" * 20_000 + b"</pad>"
NOTHING = (False, None)


def folder(body: bytes, domain: str = "XMLNSC", **settings: Any) -> Folder:
    found = find_domain(domain)
    assert found is not None
    return Folder(found, body, **settings)


def peek(head: bytes, *keys: str, domain: str = "XMLNSC", end: bytes = b"</a>", **settings: Any) -> tuple[bool, Any]:
    read = folder(head + PAD + end, domain, **settings)
    answer = read.peek(keys)
    assert read._children is None
    return answer


@for_each("domain", ["XMLNSC", "XMLNS", "XML"])
@for_each(
    ("head", "keys", "answer"),
    [
        (b"<a><b>1</b><c>2</c>", ("a", "b"), (True, "1")),
        (b"<a><b>1</b><c>2</c>", ("a", "c"), (True, "2")),
        (b"<a><b/><c>2</c>", ("a", "b"), (True, "")),
        (b"<a> <b> </b> <c>2</c>", ("a", "b"), (True, " ")),
        (b"<a><b>1</b><b>2</b>", ("a", "b"), (True, "1")),
        (b"<a><b><c>1</c><d>2</d></b>", ("a", "b", "d"), (True, "2")),
        (b"<a><b><c>1</c></b>", ("a", "b"), (True, None)),
        (b"<a><b><c>1</c></b>", ("a",), (True, None)),
        (b"<a b='1'><b>2</b>", ("a", "b"), (True, "1")),
        (b"<a b='1'><c>2</c>", ("a", "b", "c"), NOTHING),
        (b"<a><b>1</b>", ("a", "pad"), NOTHING),
        (b"<a><b>1</b>", ("a", "z"), NOTHING),
        (b"<a><b>1</b>", ("z", "b"), NOTHING),
        (b"<a><b>1</b>", ("a", "*"), NOTHING),
        (b"<a><b>1</b>", ("a", ""), NOTHING),
        (b"<a><b>1</b>", (), NOTHING),
        (b"<?xml version='1.0' encoding='UTF-8'?><a><b>\xc3\xa9</b>", ("a", "b"), (True, "\xe9")),
        (b"<?xml version='1.0' encoding='ISO-8859-1'?><a><b>\xe9</b>", ("a", "b"), NOTHING),
        (b"<a><!-- c --><b>1</b>", ("a", "b"), NOTHING),
        (b"<a><b><![CDATA[1]]></b>", ("a", "b"), NOTHING),
        (b"<a><b>&lt;</b>", ("a", "b"), NOTHING),
        (b"<a><b>1/></b>", ("a", "b"), (True, "1/>")),
        (b"<a><b>1</c>", ("a", "b"), NOTHING),
        (b"<a><b>\xff</b>", ("a", "b"), NOTHING),
        (b"<!DOCTYPE a><a><b>1</b>", ("a", "b"), NOTHING),
        (b"<a><b " + b"x" * 3000 + b"='1'>1</b>", ("a", "b"), NOTHING),
    ],
)
def test_a_peek_tells_what_it_knows(domain: str, head: bytes, keys: tuple[str, ...], answer: tuple[bool, Any]) -> None:
    assert peek(head, *keys, domain=domain) == answer


def test_namespaces_are_known_where_the_domain_knows_them() -> None:
    head = b'<p:a xmlns:p="n"><p:b>1</p:b><c>2</c>'
    assert peek(head, "{n}a", "{n}b", end=b"</p:a>") == (True, "1")
    assert peek(head, "{n}a", "c", domain="XMLNS", end=b"</p:a>") == (True, "2")
    assert peek(head, "p:a", "p:b", domain="XML", end=b"</p:a>") == NOTHING


def test_a_nil_element_is_left_to_the_whole_body() -> None:
    head = b'<a xmlns:x="http://www.w3.org/2001/XMLSchema-instance"><b x:nil="true"/><c>1</c>'
    assert peek(head, "a", "b") == NOTHING


def test_other_code_pages_are_left_to_the_whole_body() -> None:
    assert peek(b"<a><b>\xe9</b>", "a", "b", ccsid=819) == NOTHING
    assert peek(b"<a><b>1</b>", "a", "b", ccsid=819) == (True, "1")


def test_the_beginning_is_read_once() -> None:
    read = folder(b"<a><b>1</b><c>2</c>" + PAD + b"</a>")
    read.peek(("a", "b"))
    before = read.peeked
    assert read.peek(("a", "c")) == (True, "2")
    assert read.peeked is before


def test_short_bodies_are_left_alone() -> None:
    read = folder(b"<a><b>1</b></a>")
    assert read.peek(("a", "b")) == NOTHING
    assert read.first("a") is not None
    assert read.peek(("a", "b")) == NOTHING


def test_a_body_that_is_broken_further_on_is_still_refused() -> None:
    read = folder(b"<a><b>1</b>" + PAD + b"</z>")
    assert read.peek(("a", "b")) == (True, "1")
    with pytest.raises(MessageUnreadable):
        read.first("a")


NAMES = st.sampled_from(["a", "b", "c", "long_name"])
TEXTS = st.text(alphabet="x <>/&!?\"'=:\u20ac-", max_size=12)


def written(tree: Any) -> str:
    name, attributes, content = tree
    inside = content if isinstance(content, str) else None
    start = "".join(f' {key}="{value}"' for key, value in attributes.items())
    if inside is not None:
        return f"<{name}{start}>{inside}</{name}>"
    return f"<{name}{start}>{''.join(written(child) for child in content)}</{name}>"


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


TREES: Any = st.recursive(
    st.tuples(NAMES, st.just({}), TEXTS.map(escaped)),
    lambda below: st.tuples(
        NAMES,
        st.dictionaries(NAMES, st.text(alphabet="x/>", max_size=5), max_size=2),
        st.lists(below, max_size=6),
    ),
    max_leaves=25,
)


@settings(max_examples=80)
@given(
    tree=TREES,
    prefix=st.integers(20, 200),
    keys=st.lists(NAMES, min_size=1, max_size=4),
    mixed=st.sampled_from(["", " ", "t"]),
)
@pytest.mark.parametrize("domain", ["XMLNSC", "XMLNS"])
def test_a_peek_equals_the_whole_body(domain: str, tree: Any, prefix: int, keys: list[str], mixed: str) -> None:
    body = f"<a>{mixed}{written(tree)}{written(tree)}</a>".encode()
    keys = ["a", *keys]
    before = xml_peek.BODY_BYTES_MIN, xml_peek.PREFIX_BYTES
    xml_peek.BODY_BYTES_MIN, xml_peek.PREFIX_BYTES = 0, (prefix,)
    try:
        known, value = folder(body, domain).peek(tuple(keys))
    finally:
        xml_peek.BODY_BYTES_MIN, xml_peek.PREFIX_BYTES = before
    if known:
        place: Element | None = folder(body, domain)
        for key in keys:
            assert place is not None
            place = place.first(key)
        assert place is not None
        assert place.value == value
