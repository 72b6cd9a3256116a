# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors.flows import CodePageUnknown, MessageTooComplex, MessageUnreadable, MessageUnwritable, ModelError
from entrepot.models.element_types import JSON_ARRAY, JSON_OBJECT, JSON_VALUE, NAME
from entrepot.models.json import JSON
from entrepot.models.tree import Element, Folder
from entrepot.models.values import Bits, Interval
from folding import for_each


def shape(element: Element) -> Any:
    return (element.key, element.kind, element.value, *(shape(child) for child in element.children))


def tree(body: bytes, **of: Any) -> Any:
    (data,) = Folder(JSON, body, **of).children
    return shape(data)


def written(*children: Element, kind: int = JSON_OBJECT, **of: Any) -> bytes:
    new = Folder(JSON, **of)
    data = new.add("Data", None, kind)
    for child in children:
        data.append(child)
    return new.render()


# --- reading ------------------------------------------------------------------------------------------


def test_objects_arrays_and_values_become_elements() -> None:
    assert tree(b'{"id": 7, "lines": [{"sku": "A"}, null, []], "open": true, "empty": {}}') == (
        "Data",
        JSON_OBJECT,
        None,
        ("id", JSON_VALUE, 7),
        (
            "lines",
            JSON_ARRAY,
            None,
            ("Item", JSON_OBJECT, None, ("sku", JSON_VALUE, "A")),
            ("Item", JSON_VALUE, None),
            ("Item", JSON_ARRAY, None),
        ),
        ("open", JSON_VALUE, True),
        ("empty", JSON_OBJECT, None),
    )


def test_an_array_may_stand_at_the_top() -> None:
    assert tree(b"[1, [2]]") == (
        "Data",
        JSON_ARRAY,
        None,
        ("Item", JSON_VALUE, 1),
        ("Item", JSON_ARRAY, None, ("Item", JSON_VALUE, 2)),
    )


@for_each(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("12345678901234567890123", 12345678901234567890123),
        ("1.0", 1.0),
        ("1e2", 100.0),
        ("-1.5E-3", -0.0015),
        ("true", True),
        ("false", False),
        ("null", None),
        ('""', ""),
        (r'"\"\\\/\b\f\n\r\t\u20ac\ud83d\ude00"', '"\\/\b\f\n\r\t\u20ac\U0001f600'),
    ],
)
def test_each_value_has_its_type(text: str, value: Any) -> None:
    found = Folder(JSON, b"[" + text.encode() + b"]").get("Data", "Item")
    assert found == value
    assert type(found) is type(value)


def test_a_name_that_comes_twice_stays_twice_and_in_order() -> None:
    body = b'{"a":1,"b":2,"a":3}'
    read = Folder(JSON, body)
    data = read.children[0]
    assert [(child.key, child.value) for child in data] == [("a", 1), ("b", 2), ("a", 3)]
    data.changed(structure=True)
    assert read.render() == body


@for_each("name", ["", "{", "{x", "{n}a", "*", "a b", "\u20ac", "}"])
def test_any_text_is_a_name(name: str) -> None:
    read = Folder(JSON, json.dumps({name: {"x": 1}}).encode())
    found = read.children[0].children[0]
    assert found.key == name
    assert isinstance(found.name, str)
    read.children[0].changed(structure=True)
    assert json.loads(read.render()) == {name: {"x": 1}}


@for_each(
    ("encoding", "ccsid"),
    [
        ("utf-8", 1208),
        ("utf-8-sig", 1208),
        ("utf-8", 0),
        ("utf-16-be", 0),
        ("utf-16-le", 0),
        ("utf-32-be", 0),
        ("utf-32-le", 0),
        ("utf-16", 0),
        ("utf-16", 1200),
        ("utf-16-le", 1202),
        ("latin-1", 819),
        ("cp500", 500),
    ],
)
def test_a_body_is_read_in_its_code_page(encoding: str, ccsid: int) -> None:
    assert Folder(JSON, '{"a":"\xe9"}'.encode(encoding), ccsid=ccsid).get("Data", "a") == "\xe9"


@for_each(
    ("body", "offset"),
    [
        (b"", 0),
        (b" ", 1),
        (b"1", 0),
        (b'"text"', 0),
        (b"null", 0),
        (b"{", 1),
        (b"[1,]", 3),
        (b"[1] x", 4),
        (b"[1][2]", 3),
        (b'{"a" 1}', 5),
        (b'{"a":1,}', 7),
        (b"{'a':1}", 1),
        (b"[01]", 2),
        (b"[+1]", 1),
        (b"[1.]", 2),
        (b'["\x01"]', 2),
        (b'["\\x"]', 2),
        ('["\xe9", x]'.encode(), 7),
        (b'["\xff"]', 2),
        (b"[NaN]", None),
        (b"[Infinity]", None),
        (b"[-Infinity]", None),
        (b"[1e999]", None),
        (b"[" + b"9" * 5000 + b"]", None),
        (b'["\\ud800"]', None),
        (b'{"\\udc00":1}', None),
        (b"<a/>", 0),
    ],
)
def test_what_is_no_json_is_refused_with_its_offset(body: bytes, offset: int | None) -> None:
    read = Folder(JSON, body)
    with pytest.raises(MessageUnreadable) as caught:
        read.load()
    assert caught.value.path.startswith("JSON")
    assert offset is None or abs(caught.value.offset - offset) <= 1
    assert read._children is None


@pytest.mark.parametrize("depth", [401, 900, 100_000])
@pytest.mark.parametrize("pattern", [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_documents_are_refused(depth: int, pattern: tuple[bytes, bytes]) -> None:
    start, end = pattern
    with pytest.raises((MessageTooComplex, MessageUnreadable)) as caught:
        Folder(JSON, start * depth + b"1" * (start != b"[") + end * depth).load()
    assert type(caught.value) is MessageTooComplex


def test_documents_at_the_limit_are_read_and_written() -> None:
    body = b"[" * 400 + b"]" * 400
    read = Folder(JSON, body)
    read.children[0].changed(structure=True)
    assert read.render() == body


def test_wide_documents_are_no_deep_ones() -> None:
    body = json.dumps([{"a": [n]} for n in range(1000)], separators=(",", ":")).encode()
    read = Folder(JSON, body)
    read.children[0].changed(structure=True)
    assert read.render() == body


def test_an_unknown_code_page_is_said() -> None:
    with pytest.raises(CodePageUnknown):
        Folder(JSON, b"{}", ccsid=99999).load()


# --- writing ------------------------------------------------------------------------------------------


def test_the_first_message_of_the_manual() -> None:
    assert written(Element("Message", "Hello World")) == b'{"Message":"Hello World"}'


@for_each(
    ("value", "text"),
    [
        ("x", '"x"'),
        ('"\\/\b\f\n\r\t\x00\x1f', r'"\"\\\/\b\f\n\r\t\u0000\u001f"'),
        ("\u20ac\U0001f600", '"\u20ac\U0001f600"'),
        ("\ud800", r'"\ud800"'),
        (7, "7"),
        (-12345678901234567890, "-12345678901234567890"),
        (True, "true"),
        (False, "false"),
        (44.72, "4.472E+1"),
        (1.0, "1.0E+0"),
        (0.0, "0.0E+0"),
        (1e-7, "1.0E-7"),
        (Decimal("0.480"), "0.480"),
        (Decimal("5"), "5.0"),
        (b"\x0a\xff", '"0AFF"'),
        (Bits("011"), '"011"'),
        (datetime.date(2003, 12, 24), '"2003-12-24"'),
        (datetime.time(10, 0), '"10:00:00.000000"'),
        (datetime.datetime(2003, 12, 24, 10, 0, 0, 5), '"2003-12-24 10:00:00.000005"'),
        (datetime.datetime(33, 4, 3), '"0033-04-03 00:00:00.000000"'),
        (datetime.datetime(2003, 12, 24, 10, tzinfo=datetime.UTC), '"2003-12-24 10:00:00.000000"'),
        (Interval("MINUTE", seconds=Decimal(5400)), '"90"'),
    ],
)
def test_each_type_is_written_as_the_manual_says(value: Any, text: str) -> None:
    assert written(Element("a", value)) == f'{{"a":{text}}}'.encode()
    json.loads(text)


def test_null_is_a_value_and_an_empty_object_is_none() -> None:
    assert written(Element("a", None, JSON_VALUE), Element("b", None, NAME), Element("c", None, JSON_ARRAY)) == (
        b'{"a":null,"b":{},"c":[]}'
    )
    assert written() == b"{}"
    assert written(kind=JSON_ARRAY) == b"[]"


def test_names_of_array_items_are_not_written() -> None:
    assert written(Element("Item", 1), Element("other", "x"), Element("", None, JSON_VALUE), kind=JSON_ARRAY) == (
        b'[1,"x",null]'
    )


def test_names_lose_their_namespace() -> None:
    assert written(Element("{urn:x}a", 1)) == b'{"a":1}'


def test_characters_that_the_code_page_lacks_are_escaped() -> None:
    assert written(Element("\u20ac", "\xe9\U0001f600"), ccsid=819) == b'{"\\u20ac":"\\u00e9\\ud83d\\ude00"}'
    assert written(Element("a", "\xe9"), ccsid=819) == b'{"a":"\xe9"}'


def both() -> Element:
    given = Element("a", 1)
    given.add("b", 2)
    return given


@pytest.mark.parametrize(
    ("child", "problem"),
    [
        (Element("a", float("nan")), "NaN"),
        (Element("a", float("inf")), "INF"),
        (Element("a", Decimal("NaN")), "NaN"),
        (Element("a", [1]), "list"),
        (both(), "value and children"),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_path(child: Element, problem: str) -> None:
    with pytest.raises(MessageUnwritable) as caught:
        written(child)
    assert caught.value.path == "JSON.Data.a"
    assert problem in caught.value.problem


@pytest.mark.parametrize("children", [[], [Element("data")], [Element("Data"), Element("Data")], [Element("Data", 1)]])
def test_at_the_top_there_is_data_and_nothing_else(children: list[Element]) -> None:
    new = Folder(JSON)
    for child in children:
        new.append(child.copy())
    with pytest.raises(MessageUnwritable):
        new.render()


def test_a_tree_too_deep_is_refused() -> None:
    new = Folder(JSON)
    place = new.add("Data")
    for _ in range(500):
        place = place.add("a")
    with pytest.raises(MessageUnwritable, match="deeper"):
        new.render()


# --- laziness -----------------------------------------------------------------------------------------


def test_unchanged_bytes_come_back_as_the_same_object() -> None:
    body = b' { "a" : [ 1.50 , "\\u0041" ] } '
    read = Folder(JSON, body)
    assert read.get("Data", "a", "Item") == 1.5
    assert read.render() is body


def test_levels_are_made_when_they_are_looked_at() -> None:
    read = Folder(JSON, b'{"a":{"b":{"c":1}}}')
    a = read.children[0].first("a")
    assert a is not None
    assert a._children is None
    assert not a.is_leaf()
    assert a.first("b") is a.children[0]
    a.set_value(None)
    assert read.render() == b'{"a":{"b":{"c":1}}}'


def test_a_changed_value_is_written() -> None:
    read = Folder(JSON, b'{"a": {"b": 1}, "c": [2]}')
    place = read.children[0].first("a")
    assert place is not None
    place.children[0].set_value("x/y")
    assert read.render() == b'{"a":{"b":"x\\/y"},"c":[2]}'


def test_a_copy_shares_nothing() -> None:
    read = Folder(JSON, b'{"a":{"b":1}}')
    twin = read.children[0].copy()
    assert type(twin) is Element
    twin.children[0].children[0].set_value(2)
    assert read.get("Data", "a", "b") == 1


# --- round trips --------------------------------------------------------------------------------------

VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text("ab{}/\u20ac", max_size=4), below, max_size=4),
    max_leaves=20,
)


@settings(max_examples=100)
@given(value=st.lists(VALUES, max_size=4) | st.dictionaries(st.text("ab{}/", max_size=4), VALUES, max_size=4))
def test_what_was_read_is_written_with_the_same_meaning(value: Any) -> None:
    body = json.dumps(value).encode()
    read = Folder(JSON, body)
    read.changed(structure=True)
    once = read.render()
    # 0 and -0 are one number; the text of -0.0 is not.
    assert json.loads(once) == value
    again = Folder(JSON, once)
    assert [shape(child) for child in again.children] == [shape(child) for child in read.children]
    again.changed(structure=True)
    assert again.render() == once


@settings(max_examples=200)
@given(body=st.binary(max_size=40) | st.text('[]{}",:0123.eE-+\\utrfalsn ', max_size=40).map(str.encode))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for ccsid in (0, 500, 1200, 1208):
        read = Folder(JSON, body, ccsid=ccsid)
        try:
            read.load()
        except ModelError:
            continue
        read.changed(structure=True)
        again = Folder(JSON, read.render(), ccsid=ccsid)
        assert [shape(child) for child in again.children] == [shape(child) for child in read.children]
