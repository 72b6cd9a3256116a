# SPDX-License-Identifier: Apache-2.0
"""Messages compared by what they mean, each difference with its path."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from entrepot.flows.trials import differences
from entrepot.message import Message
from entrepot.models import parse_message
from folding import for_each


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<a x='1' y='2'><b/></a>", b'<?xml version="1.0"?>\n<a y="2" x="1">\n  <b></b>\n</a>'),
        ("<a>t</a>", b"<a><!-- note -->t</a>"),
        ("<p:a xmlns:p='u'/>", b"<q:a xmlns:q='u'/>"),
    ],
)
def test_documents_that_mean_the_same_do_not_differ(one: str, other: bytes) -> None:
    assert differences.of_xml(one, other) == []


@for_each(
    ("one", "other", "told"),
    [
        ("<a><b>1</b></a>", b"<a><b>2</b></a>", ["a/b: expected '1', found '2'"]),
        ("<a><b/><b x='1'/></a>", b"<a><b/><b x='2'/></a>", ["a/b[2]/@x: expected '1', found '2'"]),
        ("<a x='1'/>", b"<a/>", ["a/@x: expected '1', and it is missing"]),
        ("<a/>", b"<a x='1'/>", ["a/@x: it is too much: '1'"]),
        ("<a><b>1</b></a>", b"<a/>", ["a: the element b is missing: '1'"]),
        ("<a/>", b"<a><b/></a>", ["a: the element b is too much"]),
        ("<a><b/></a>", b"<a><c/></a>", ["a/c: expected the element b, found c"]),
        ("<a xmlns='u'/>", b"<a/>", ["a: expected the element {u}a, found a"]),
        ("<a>x<b/>y</a>", b"<a>x<b/>z</a>", ["a, behind child 1: expected 'y', found 'z'"]),
    ],
)
def test_documents_differ_at_a_path(one: str, other: bytes, told: list[str]) -> None:
    assert differences.of_xml(one, other) == told


def test_what_is_no_xml_is_told() -> None:
    assert "found is no XML" in differences.of_xml("<a/>", b"{}")[0]
    assert "expected is no XML" in differences.of_xml("a", b"<a/>")[0]


def test_an_entity_bomb_is_not_expanded() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY x "boom">]><a>&x;</a>'
    assert differences.of_xml("<a>boom</a>", bomb) != []


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({"a": 1, "b": [1, {"c": 2}]}, b'{"b": [1, {"c": 2}], "a": 1.0}', []),
        ({"a": 1}, b'{"a": 2}', ["$.a: expected 1, found 2"]),
        ({"a": [1, 2]}, b'{"a": [1]}', ["$.a[1]: expected 2, and it is missing"]),
        ({}, b'{"a": null}', ["$.a: it is too much: None"]),
        ({"a": 1}, b'{"a": true}', ["$.a: expected 1, found True"]),
        ([], b"{}", ["$: expected [], found {}"]),
    ],
)
def test_json_differs_at_a_path(one: Any, other: bytes, told: list[str]) -> None:
    assert differences.of_json(one, other) == told


TREE = parse_message(
    Message(b"<o xmlns='u' id='7'><i p='1.50'>a</i><i>b</i><flag>true</flag><e/></o>"), domain="XMLNSC"
).root


@for_each(
    ("path", "value", "told"),
    [
        ("XMLNSC.o.i", "a", []),
        ("XMLNSC.{u}o.{u}i[2]", "b", []),
        ("XMLNSC.o.i[1].@p", 1.5, []),
        ("XMLNSC.o.id", 7, []),
        ("XMLNSC.o.flag", True, []),
        ("XMLNSC.o.flag", False, ["XMLNSC.o.flag: expected False, found 'true'"]),
        ("XMLNSC.o.i[]", 2, []),
        ("XMLNSC.o.i[]", 3, ["XMLNSC.o.i[]: expected 3, found 2"]),
        ("XMLNSC.o.none", None, []),
        ("XMLNSC.o.i", None, ["XMLNSC.o.i: expected None, found 'a'"]),
        ("XMLNSC.o.i[3]", "c", ["XMLNSC.o.i[3]: expected 'c', and it is missing"]),
        ("XMLNSC.o", "x", ["XMLNSC.o: expected 'x', found '(xmlns, id, i, flag, e)'"]),
        ("MQMD.Priority", 0, []),
    ],
)
def test_a_tree_is_asked_by_paths(path: str, value: Any, told: list[str]) -> None:
    assert differences.of_tree({path: value}, TREE) == told


@pytest.mark.parametrize("path", ["XMLNSC..o", "XMLNSC.o[x]", "XMLNSC.o[].p", "."])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path"):
        differences.elements_at(TREE, path)


@for_each(
    ("expected", "found", "same"),
    [
        (1, "1.0", True),
        (1.1, Decimal("1.10"), True),
        (1, "one", False),
        ("1", 1, True),
        (b"\x01", "01", True),
        ("01", b"\x01", True),
        ("2026-01-31", date(2026, 1, 31), True),
        (1, True, False),
        ("x", None, False),
    ],
)
def test_values_are_the_same_across_types(expected: Any, found: Any, same: bool) -> None:
    assert differences.is_same(expected, found) is same


def test_bodies_part_at_a_byte() -> None:
    assert differences.of_bytes(b"abc", b"abc") == []
    assert differences.of_bytes(b"abc", b"abX")[0].startswith("from byte 2 on: expected 'c', found 'X'")
    assert "3 and 2 bytes" in differences.of_bytes(b"abc", b"ab")[0]
    assert "X'ff'" in differences.of_bytes(b"\xff", b"")[0]
