# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from entrepot.errors import InvalidArgument
from entrepot.message import Message
from entrepot.spark.tables.payload import PayloadColumns

COPYBOOK = """\
       01  ORDER-RECORD.
           05  ORDER-ID        PIC 9(6).
           05  CUSTOMER        PIC X(8).
           05  TOTAL           PIC S9(5)V99 COMP-3.
           05  LINE-ITEM OCCURS 2 TIMES.
               10  PART        PIC X(4).
               10  QUANTITY    PIC 9(3).
"""


@pytest.fixture
def copybook(tmp_path: Path) -> str:
    path = tmp_path / "order.cpy"
    path.write_text(COPYBOOK)
    return str(path)


def message(order: bytes = b"000042") -> Message:
    # 1234.50 packed with its sign, as a mainframe does: 01 23 45 0C.
    return Message(order + b"Smith   " + b"\x01\x23\x45\x0c" + b"BOLT007" + b"NUT 120", encoding=785)


def test_a_copybook_becomes_typed_columns(copybook: str) -> None:
    payload = PayloadColumns.load(copybook, "", "")
    struct = payload.columns[0].type
    names = [struct.field(index).name for index in range(struct.num_fields)]
    assert names == ["ORDER_ID", "CUSTOMER", "TOTAL", "LINE_ITEM"]
    assert struct.field("TOTAL").type == pa.decimal128(38, 2)
    assert pa.types.is_list(struct.field("LINE_ITEM").type)
    values, errors = payload.arrays([message()])
    assert errors.to_pylist() == [None]
    assert values.to_pylist() == [
        {
            "ORDER_ID": 42,
            "CUSTOMER": "Smith",
            "TOTAL": Decimal("1234.50"),
            "LINE_ITEM": [{"PART": "BOLT", "QUANTITY": 7}, {"PART": "NUT", "QUANTITY": 120}],
        }
    ]


def test_a_bad_body_is_one_null_and_its_reason_and_no_neighbours(copybook: str) -> None:
    payload = pickle.loads(pickle.dumps(PayloadColumns.load(copybook, "", "")))
    values, errors = payload.arrays([message(b"000001"), Message(b"short"), message(b"000003")])
    assert [value and value["ORDER_ID"] for value in values.to_pylist()] == [1, None, 3]
    first, second, third = errors.to_pylist()
    assert (first, third) == (None, None)
    assert "offset" in second


def test_a_value_that_fits_no_column_is_told_of_its_own_row_alone(copybook: str) -> None:
    values, errors = PayloadColumns.load(copybook, "", "").arrays([Message(b"x", ccsid=99_999), message()])
    assert values.to_pylist()[0] is None
    assert "99999" in errors.to_pylist()[0]
    assert values.to_pylist()[1]["ORDER_ID"] == 42


def test_a_set_with_several_messages_wants_to_know_which() -> None:
    with pytest.raises(InvalidArgument, match="option messageType: SWIFT has"):
        PayloadColumns.load("SWIFT", "", "")
