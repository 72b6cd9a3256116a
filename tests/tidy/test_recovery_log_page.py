# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

from entrepot.engine.recovery_log import record
from entrepot.engine.recovery_log.group import GROUP_BYTES, SALT_BYTES, Group, GroupKey
from entrepot.engine.recovery_log.record import FORMAT_VERSION, FRAME_HEAD_BYTES, PutRecord, RecordType

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


KEY = GroupKey(bytes(range(SALT_BYTES)))
"""The page says that this is the salt of the example."""


def _decode(data: bytes) -> tuple[Group, PutRecord, int]:
    """The group, the record in it, and the seed of both."""
    head, payload = data[:FRAME_HEAD_BYTES], data[FRAME_HEAD_BYTES:GROUP_BYTES]
    _, _, crc = record.parse_head(head, 0)
    group, seed = KEY.parse(head, payload, crc)
    head = data[GROUP_BYTES : GROUP_BYTES + FRAME_HEAD_BYTES]
    payload = data[GROUP_BYTES + FRAME_HEAD_BYTES :]
    length, kind, crc = record.parse_head(head, GROUP_BYTES)
    assert length == len(payload)
    record.check(head, payload, crc, seed)
    put = record.decode(kind, payload)
    assert isinstance(put, PutRecord)
    return group, put, seed


def test_example_is_what_the_code_reads() -> None:
    data = _example()
    group, put, _ = _decode(data)
    assert (group.body_bytes, group.incarnation, group.serial, group.time) == (len(data) - GROUP_BYTES, 1, 1, 1.7e9)
    assert (put.unit, put.targets, put.message.body) == (0, [(5, 7)], b"42 crates")
    assert (put.message.priority, put.message.user, put.message.application) == (4, "kim", "orders.py")


def test_example_is_what_the_code_writes() -> None:
    data = _example()
    group, put, seed = _decode(data)
    assert KEY.frame(group, 0, seed) + b"".join(record.frame(put, GROUP_BYTES, seed)) == data


def test_page_lists_every_type_of_record() -> None:
    said = {(cells[0], cells[1]) for cells in table_rows(PAGE, 4) if cells[0].isdecimal() and cells[1].isupper()}
    assert said == {(str(int(kind)), kind.name) for kind in RecordType}


def test_page_says_the_version_of_the_format() -> None:
    assert f"**Format version\n{FORMAT_VERSION}.**" in PAGE.read_text()
