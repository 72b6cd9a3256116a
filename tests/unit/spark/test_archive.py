# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conftest import Place
from entrepot.errors import ArchiveUnreadable, QueueNotFound
from entrepot.message import MessageType
from entrepot.spark.replaying.archive import archive_queue, is_parquet, message_files, read_message
from entrepot.spark.tables.rows import QUEUE_SCHEMA, messages_of


def test_an_archived_queue_is_parquet_with_every_message_and_stays_as_it_is(place: Place, tmp_path: Path) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q)")
    for number in range(30):
        connection.put("Q", b"%d" % number, priority=number % 2, properties={"n": number}, persistent=True)
    expected = list(connection.browse("Q"))
    place.close()
    path = tmp_path / "q.parquet"
    assert archive_queue(f"embedded:{place.path}", "Q", path) == 30
    table = pq.read_table(path)
    assert table.schema == QUEUE_SCHEMA
    assert [message.body for message in messages_of(table)] == [message.body for message in expected]
    assert [message.properties for message in messages_of(table)] == [message.properties for message in expected]
    assert is_parquet(path)
    assert archive_queue(f"embedded:{place.path}", "Q", path, selector="n >= 28") == 2


def test_a_queue_that_is_not_there_leaves_no_file(place: Place, tmp_path: Path) -> None:
    with pytest.raises(QueueNotFound):
        archive_queue(f"embedded:{place.path}", "NONE", tmp_path / "none.parquet")
    assert list(tmp_path.glob("*none*")) == []


def test_files_are_messages_and_what_lies_beside_tells_about_them(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(b"<a/>")
    (tmp_path / "a.xml.json").write_text(
        '{"queue": "Q", "correlation_id": "c0ffee", "type": 1, "format": "MQSTR", "properties": {"n": 1, "ok": true}}'
    )
    (tmp_path / "b.json").write_bytes(b'{"a": 1}')
    (tmp_path / ".hidden").write_bytes(b"")
    assert [file.name for file in message_files(tmp_path)] == ["a.xml", "b.json"]
    queue, message = read_message(tmp_path, tmp_path / "a.xml")
    assert (queue, message.body, message.correlation_id, message.type) == (
        "Q",
        b"<a/>",
        b"\xc0\xff\xee",
        MessageType.REQUEST,
    )
    assert message.properties == {"n": 1, "ok": True}
    _, alone = read_message(tmp_path, tmp_path / "b.json")
    assert alone.message_id == read_message(tmp_path, tmp_path / "b.json")[1].message_id
    assert alone.message_id != message.message_id


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        ("[1]", "json"),
        ('{"colour": "red"}', "no message has 'colour'"),
        ('{"priority": "high"}', "not a whole number"),
        ('{"message_id": "xyz"}', "hexadecimal"),
        ("{", "JSONDecodeError"),
    ],
)
def test_what_lies_beside_a_file_and_tells_nonsense_is_refused(tmp_path: Path, beside: str, told: str) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "a.json").write_text(beside)
    with pytest.raises(ArchiveUnreadable, match=told):
        read_message(tmp_path, tmp_path / "a")


def test_nothing_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnreadable, match="no such file"):
        message_files(tmp_path / "none")
    with pytest.raises(ArchiveUnreadable, match="empty"):
        message_files(tmp_path)
