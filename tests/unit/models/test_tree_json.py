# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import InvalidArgument
from entrepot.models.blob import BLOB
from entrepot.models.element_types import NAME, NAME_VALUE, XMLNSC_ATTRIBUTE
from entrepot.models.tree import Element, Folder, Root
from entrepot.models.tree_json import tree_from_json, tree_text, tree_to_json
from entrepot.models.tree_state import DEPTH_MAX
from entrepot.models.values import Bits, Interval
from folding import for_each


def order() -> Element:
    tree = Element("order")
    tree.add("number", 7, XMLNSC_ATTRIBUTE)
    tree.add("id", "it's", NAME_VALUE)
    tree.add("price", Decimal("9.90"), NAME_VALUE)
    tree.add("note", None, NAME_VALUE)
    return tree


def test_an_order_as_json() -> None:
    assert tree_to_json(order()) == {
        "name": "order",
        "children": [
            {"name": "number", "type": "INTEGER", "value": 7, "kind": "0x03000100"},
            {"name": "id", "type": "CHARACTER", "value": "it's"},
            {"name": "price", "type": "DECIMAL", "value": "9.90"},
            {"name": "note"},
        ],
    }


def test_an_order_as_text() -> None:
    assert tree_text(order()).splitlines() == [
        "(0x01000000:Folder):order = (",
        "  (0x03000100:Attribute):number = 7 (INTEGER)",
        "  (0x03000000:Field):id = 'it''s' (CHARACTER)",
        "  (0x03000000:Field):price = 9.90 (DECIMAL)",
        "  (0x03000000:Field):note = NULL",
        ")",
    ]


@for_each(
    ("value", "name", "written", "text"),
    [
        (True, "BOOLEAN", True, "TRUE"),
        (1, "INTEGER", 1, "1"),
        (44.72, "FLOAT", 44.72, "4.472E+1"),
        (0.0, "FLOAT", 0.0, "0E+0"),
        (float("inf"), "FLOAT", "inf", "INF"),
        (Decimal("1E+3"), "DECIMAL", "1E+3", "1000"),
        (b"\x00\xff", "BLOB", "00FF", "X'00FF'"),
        (Bits("0101"), "BIT", "0101", "B'0101'"),
        (date(2026, 1, 31), "DATE", "2026-01-31", "DATE '2026-01-31'"),
        (time(1, 2, 3), "TIME", "01:02:03", "TIME '01:02:03'"),
        (time(1, 2, 3, tzinfo=UTC), "GMTTIME", "01:02:03+00:00", "GMTTIME '01:02:03'"),
        (
            datetime(2026, 1, 31, 1, 2, 3, 400),
            "TIMESTAMP",
            "2026-01-31T01:02:03.000400",
            "TIMESTAMP '2026-01-31 01:02:03.000400'",
        ),
        (
            datetime(2026, 1, 31, tzinfo=UTC),
            "GMTTIMESTAMP",
            "2026-01-31T00:00:00+00:00",
            "GMTTIMESTAMP '2026-01-31 00:00:00'",
        ),
        (
            Interval("YEAR TO MONTH", 18),
            "INTERVAL",
            {"qualifier": "YEAR TO MONTH", "months": 18, "seconds": "0"},
            "INTERVAL '1-06' YEAR TO MONTH",
        ),
    ],
)
def test_every_type_keeps_its_name_and_value(value: Any, name: str, written: Any, text: str) -> None:
    tree = Element("x", value, NAME_VALUE)
    assert tree_to_json(tree) == {"name": "x", "type": name, "value": written}
    back = tree_from_json(tree_to_json(tree))
    assert (type(back.value), back.value, back.kind) == (type(value), value, NAME_VALUE)
    assert tree_text(tree) == f"(0x03000000:Field):x = {text} ({name})"


def test_exact_json_keeps_a_name_with_a_value_apart_from_a_name_value() -> None:
    tree = Element("x", "v", NAME)
    assert "kind" not in tree_to_json(tree)
    assert tree_to_json(tree, exact=True)["kind"] == "0x01000000"
    assert tree_from_json(tree_to_json(tree, exact=True)).kind == NAME


def test_folders_come_back_as_folders_below_a_root() -> None:
    root = Root()
    root.append(Folder(BLOB)).add("BLOB", b"\x01", NAME_VALUE)
    back = tree_from_json(tree_to_json(root))
    assert isinstance(back, Root)
    folder = back.first("BLOB")
    assert isinstance(folder, Folder)
    assert folder.get("BLOB") == b"\x01"


@for_each(
    ("tree", "complaint"),
    [
        ([], "element below nothing"),
        ({}, "name below nothing"),
        ({"name": "{x"}, "name below nothing"),
        ({"name": "a", "valeu": 1}, "key of a"),
        ({"name": "a", "value": 1}, "type of a"),
        ({"name": "a", "type": "TEXT", "value": "x"}, "type of a"),
        ({"name": "a", "type": "INTEGER", "value": "1"}, "value of a"),
        ({"name": "a", "type": "INTEGER", "value": True}, "value of a"),
        ({"name": "a", "type": "DECIMAL", "value": 1.5}, "value of a"),
        ({"name": "a", "type": "DECIMAL", "value": "1,5"}, "value of a"),
        ({"name": "a", "type": "BLOB", "value": "0"}, "value of a"),
        ({"name": "a", "type": "BIT", "value": "2"}, "value of a"),
        ({"name": "a", "type": "DATE", "value": "31.1.2026"}, "value of a"),
        ({"name": "a", "type": "GMTTIME", "value": "01:02:03"}, "value of a"),
        ({"name": "a", "type": "INTERVAL", "value": []}, "value of a"),
        ({"name": "a", "kind": "attribute"}, "kind of a"),
        ({"name": "a", "kind": "0x123456789"}, "kind of a"),
        ({"name": "a", "domain": "NONE"}, "domain of a"),
        ({"name": "a", "children": {}}, "children of a"),
        ({"name": "a", "children": [{"name": 5}]}, "name below a"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_path(tree: object, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        tree_from_json(tree)


def test_a_tree_without_end_is_refused() -> None:
    tree: dict[str, Any] = {"name": "x"}
    for _ in range(DEPTH_MAX):
        tree = {"name": "x", "children": [tree]}
    with pytest.raises(InvalidArgument, match="levels"):
        tree_from_json(tree)


VALUES = st.one_of(
    st.none(), st.text(max_size=8), st.integers(), st.booleans(), st.binary(max_size=8), st.floats(allow_nan=False),
    st.decimals(allow_nan=False), st.dates(), st.datetimes(), st.times(), st.datetimes(timezones=st.just(UTC)),
    st.text("01", max_size=8).map(Bits),
)  # fmt: skip
TREES = st.recursive(
    st.tuples(st.text("abc", min_size=1, max_size=3), VALUES, st.just([])),
    lambda below: st.tuples(st.text("abc", min_size=1, max_size=3), VALUES, st.lists(below, max_size=3)),
    max_leaves=8,
)


def build(shape: Any) -> Element:
    name, value, below = shape
    element = Element(name, value, NAME if value is None else NAME_VALUE)
    for each in below:
        element.append(build(each))
    return element


@settings(max_examples=50)
@given(TREES)
def test_every_tree_survives_json(shape: Any) -> None:
    written = tree_to_json(build(shape), exact=True)
    assert tree_to_json(tree_from_json(written), exact=True) == written
