# SPDX-License-Identifier: Apache-2.0
"""Batches of records become the columns that the tree of each record would give, and errors are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.message import Message
from entrepot.models import MessageFormat, find_set
from entrepot.models.cwf import CwfCodec, cells, columns
from entrepot.models.logical import StructureMember
from entrepot.spark.tables import payload as payloads
from entrepot.spark.tables import record_arrays
from entrepot.spark.tables.payload import RECORDS_MIN, PayloadColumns
from entrepot.workbench.broker.messages import MESSAGE, SET, formats
from unit.models.cwf_models import BINARY, DECIMAL, FLOAT, INTEGER, STRING, choice, codec_of, group, simple, tree
from unit.models.test_copybook_golden import GOLDEN, read_bytes
from unit.models.test_cwf_round_trips import CCSIDS, ENCODINGS, messages
from unit.spark.record_models import Dice, first_difference, payload_of, random_members, random_messages

SLOW = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def random_difference(seed: int) -> str:
    random = Dice(seed)
    members, makers = random_members(random)
    return first_difference(payload_of(*members), random_messages(random, makers, 60))


def damaged(bodies: list[bytes], seed: int, count: int = 40) -> Iterator[bytes]:
    """Some of the bodies, as they are or with one byte changed, cut or doubled."""
    random = Random(seed)
    for _ in range(count):
        body = random.choice(bodies)
        at = random.randrange(len(body))
        changed = bytes([random.choice([random.randrange(256), body[at] ^ 1, body[at - 1]])])
        yield random.choice(
            [body, body[:at] + changed + body[at + 1 :], body[:at] + changed + body[at + 1 :], body[:at]]
        )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_random_records_of_random_models_become_what_their_trees_have(seed: int) -> None:
    assert not random_difference(seed)


@SLOW
@given(messages(), CCSIDS, ENCODINGS, st.integers(0, 2**32))
def test_aligned_and_counted_members_too(
    message: tuple[list[StructureMember], list[tuple[str, Any]]], ccsid: int, encoding: int, seed: int
) -> None:
    members, pairs = message
    body = codec_of(*members).render(tree(*pairs), ccsid, encoding)
    records = [Message(one, ccsid=ccsid, encoding=encoding) for one in damaged([body], seed)] if body else []
    assert not first_difference(payload_of(*members), records)


@pytest.mark.parametrize("name", ["warehouse_order", "synchronized_parts"])
def test_golden_records_and_damaged_ones_become_what_their_trees_have(name: str) -> None:
    payload = PayloadColumns.load(str(GOLDEN / f"{name}.cpy"), "", "")
    ccsid, encoding, body = read_bytes(GOLDEN / f"{name}.hex")
    for seed in range(20):
        records = [Message(one, ccsid=ccsid, encoding=encoding) for one in damaged([body], seed)]
        assert not first_difference(payload, records)


@pytest.mark.parametrize("name", ["tds_orders", "tds_records"])
def test_damaged_tds_messages_become_what_their_trees_have(name: str) -> None:
    payload = PayloadColumns.load(str(GOLDEN / f"{name}.yaml"), "", "")
    body = (GOLDEN / f"{name}.bin").read_bytes()
    for seed in range(5):
        assert not first_difference(payload, [Message(one) for one in damaged([body], seed)])


@pytest.mark.parametrize("format_name", ["CWF1", "TDS1", "XML1"])
def test_damaged_messages_of_each_format_become_what_their_trees_have(format_name: str) -> None:
    body = formats(400)[format_name]
    payload = PayloadColumns(MessageFormat(find_set(SET), MESSAGE, format_name))
    for seed in range(5):
        assert not first_difference(payload, [Message(one) for one in damaged([body], seed)])


def test_swift_messages_become_what_their_trees_have() -> None:
    body = (GOLDEN / "swift_mt103.bin").read_bytes()
    payload = PayloadColumns.load("SWIFT", "MT103", "")
    assert not first_difference(payload, [Message(one) for one in damaged([body], 1, 12)])


# --- what is read at once, and what is not ---------------------------------------------------------------


def columns_of(*members: StructureMember) -> columns.RecordColumns | None:
    return codec_of(*members).columns(819, 273)


def test_most_records_need_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = PayloadColumns.load(str(GOLDEN / "synchronized_parts.cpy"), "", "")
    ccsid, encoding, body = read_bytes(GOLDEN / "synchronized_parts.hex")
    monkeypatch.delattr(PayloadColumns, "read")
    monkeypatch.delattr(CwfCodec, "parse")
    values, errors = payload.arrays([Message(body, ccsid=ccsid, encoding=encoding)] * 50)
    assert errors.null_count == len(values) == 50
    assert values.null_count == 0


def test_a_bad_record_is_read_by_itself_and_its_neighbours_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = payload_of(simple("A", DECIMAL, "packed", 2, decimals=1))
    asked: list[Message] = []
    read = PayloadColumns.read
    monkeypatch.setattr(PayloadColumns, "read", lambda self, message: asked.append(message) or read(self, message))
    good, bad, other = (Message(body, encoding=273) for body in (b"\x12\x3d", b"\x1a\x0c", b"\x00\x5c"))
    values, errors = payload.arrays([good] * 30 + [bad] + [other] * 30)
    assert asked == [bad]
    assert [str(row and row["A"]) for row in values.to_pylist()] == ["-12.3"] * 30 + ["None"] + ["0.5"] * 30
    assert [place for place, error in enumerate(errors.to_pylist()) if error] == [30]


@pytest.mark.parametrize(
    "members",
    [
        [simple("N", INTEGER, "integer", 1), simple("A", STRING, "string", 2, occurs_most=3, count_from="N")],
        [simple("N", INTEGER, "integer", 1), simple("A", STRING, "string", length_from="N")],
        [simple("A", BINARY, "binary", -1)],
        [simple("A", STRING, "string", 1, occurs_least=0, occurs_most=None)],
        [simple("A", STRING, "string", 1), simple("a", STRING, "string", 1)],
        [group("", simple("A", STRING, "string", 1), most=2)],
        [group("G", simple("A", STRING, "string", 1), simple("B", INTEGER, "integer", 2, alignment=2), most=2),
         group("H", simple("C", INTEGER, "integer", 2, alignment=2), simple("D", STRING, "string", 1), most=2)],
    ],
)  # fmt: skip
def test_records_without_a_fixed_layout_have_no_columns(members: list[StructureMember]) -> None:
    assert columns_of(*members) is None


def test_records_of_a_fixed_layout_have_columns_in_each_code_page() -> None:
    codec = codec_of(
        simple("A", STRING, "string", 3), choice(simple("B", FLOAT, "float", 4), simple("C", BINARY, "binary", 6))
    )
    for ccsid in (819, 1208, 500, 1141, 932, 1200):
        found = codec.columns(ccsid, 785)
        assert found is not None
        assert found.size == 9
    assert codec.columns(99_999, 785) is None


def test_few_records_many_pieces_and_several_settings_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = payload_of(simple("A", INTEGER, "integer", 2))
    monkeypatch.setattr(payloads, "BATCH_BYTES_MAX", 10)
    for count in (0, 1, RECORDS_MIN - 1, RECORDS_MIN, 3 * RECORDS_MIN + 1):
        records = [
            Message(number.to_bytes(2, "little" if number % 3 else "big"), encoding=546 if number % 3 else 273)
            for number in range(count)
        ]
        values, errors = payload.arrays(records)
        assert [row["A"] for row in values.to_pylist()] == list(range(count))
        assert errors.null_count == count


def test_a_long_record_is_read_in_segments() -> None:
    members = [
        simple(f"A{number}", STRING, "string", size) for number, size in enumerate([100, 2000, 300, 300, 5, 600])
    ]
    body = b"".join(bytes([65 + number]) * size for number, size in enumerate([100, 2000, 300, 300, 5, 600]))
    assert not first_difference(payload_of(*members), [Message(body)] * 20)


# --- mistakes that these tests must find -----------------------------------------------------------------


def _changed(table: Any, place: int, value: int) -> Any:
    other = table.copy()
    other[place] = value
    return other


def _plant(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    raw, holds, add = columns._ItemPlaces.raw, columns._Enumeration.holds, cells._Total.add
    plants: dict[str, Callable[[], None]] = {
        "B is plus": lambda: monkeypatch.setattr(cells, "_MINUS", _changed(cells._MINUS, 0x1B, 0)),
        "9 is a sign": lambda: monkeypatch.setattr(cells, "_LAST_DIGIT", np.where(np.arange(256) & 15 == 7,
                                                   np.arange(256) >> 4, cells._LAST_DIGIT).astype(np.uint8)),
        "A is a digit": lambda: monkeypatch.setattr(cells, "_PAIRS", np.array([
            10 * (byte >> 4) + (byte & 15) for byte in range(256)], np.uint8)),
        "19 digits fit": lambda: monkeypatch.setattr(cells, "_DIGITS_MAX", 40),
        "one byte off": lambda: monkeypatch.setattr(columns._ItemPlaces, "raw", lambda place, offset, kind: raw(
            place, max(offset - 1, place.start), kind)),
        "nulls are lost": lambda: monkeypatch.setattr(cells, "_nullable_reader", lambda read, stored: read),
        "absent is zero": lambda: monkeypatch.setattr(record_arrays, "_valid", lambda nulls: None),
        "any alternative fits": lambda: monkeypatch.setattr(columns._Enumeration, "holds", lambda rule, place: holds(
            rule, place) | True),
        "a digit less": lambda: monkeypatch.setattr(cells._Total, "add", lambda total, digits, power, left: add(
            total, digits, power if left else 10 if power == 100 else power // 10 or 1, left) if left != 3 else None),
        "padding stays": lambda: monkeypatch.setattr(record_arrays, "_padded", lambda cells, items: False),
    }  # fmt: skip
    plants[bug]()


@pytest.mark.parametrize(
    "bug",
    ["B is plus", "9 is a sign", "A is a digit", "19 digits fit", "one byte off", "nulls are lost", "absent is zero",
     "any alternative fits", "a digit less", "padding stays"],
)  # fmt: skip
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    _plant(monkeypatch, bug)

    def fails(seed: int) -> bool:
        try:
            return bool(random_difference(seed))
        except (AssertionError, ValueError):
            return True

    assert any(fails(seed) for seed in range(400))
