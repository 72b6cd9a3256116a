# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

from entrepot.recovery_log import record
from entrepot.recovery_log.record import FORMAT_VERSION, FRAME_HEAD_BYTES, Group, Put, RecordType

from .pages import DOCS, blocks, table_rows

PAGE = DOCS / "RECOVERY_LOG.md"


def _example() -> bytes:
    """The example's bytes; each line has to say its own offset."""
    data = b""
    (block,) = blocks(PAGE, "hex")
    for line in block.splitlines():
        found = re.fullmatch(r"(\d+) +((?:[0-9a-f]{2} )+) +\S.*", line)
        assert found is not None, line
        assert int(found[1]) == len(data), line
        data += bytes.fromhex(found[2])
    return data


SEED = record.group_seed(1, 1)


def _decode(data: bytes, position: int, seed: int = 0) -> tuple[record.Record, int]:
    head = data[position : position + FRAME_HEAD_BYTES]
    length, kind, crc = record.parse_head(head, position)
    payload = data[position + FRAME_HEAD_BYTES : position + FRAME_HEAD_BYTES + length]
    record.check(head, payload, crc, seed)
    return record.decode(kind, payload), position + FRAME_HEAD_BYTES + length


def test_example_is_what_the_code_reads() -> None:
    data = _example()
    group, position = _decode(data, 0)
    put, end = _decode(data, position, SEED)
    assert isinstance(group, Group)
    assert isinstance(put, Put)
    assert (group.body_bytes, group.incarnation, group.serial, group.time) == (end - position, 1, 1, 1.7e9)
    assert (put.unit, put.targets, put.message.body) == (0, [(5, 7)], b"42 crates")
    assert (put.message.priority, put.message.user, put.message.application) == (4, "kim", "orders.py")
    assert end == len(data)


def test_example_is_what_the_code_writes() -> None:
    data = _example()
    group, position = _decode(data, 0)
    put, _ = _decode(data, position, SEED)
    assert isinstance(group, Group)
    assert record.frame_group(group, 0) + b"".join(record.frame(put, position, SEED)) == data


def test_page_lists_every_type_of_record() -> None:
    said = {(cells[0], cells[1]) for cells in table_rows(PAGE, 4) if cells[0].isdecimal() and cells[1].isupper()}
    assert said == {(str(int(kind)), kind.name) for kind in RecordType}


def test_page_says_the_version_of_the_format() -> None:
    assert f"**Format version\n{FORMAT_VERSION}.**" in PAGE.read_text()
