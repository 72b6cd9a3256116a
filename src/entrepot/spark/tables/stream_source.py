# SPDX-License-Identifier: Apache-2.0
"""Queues read as streams: each batch knows exactly which messages it has, and has the same after any crash.

In mode consume an offset lists the messages of its batch, by place and id.
Order of delivery does not matter then: what comes before others because of
its priority, or back to its old place because a unit was backed out, is simply
in a later batch. The messages are taken off when Spark asks for the batch
behind theirs, since only then it is through with them.

In mode browse an offset says how far each lane of a queue has been seen.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from entrepot.client.blocking import Connection
from entrepot.message import Message
from entrepot.spark.tables.options import ReadingOptions
from entrepot.spark.tables.payload import PayloadColumns
from entrepot.spark.tables.places import LaneStretch, Spot, extents, messages_within, pages_within
from entrepot.spark.tables.reaching import forget, reach, surely
from entrepot.spark.tables.rows import cut_for_spark
from entrepot.spark.tables.source import Stretch, wanted, with_payload

if TYPE_CHECKING:
    import pyarrow as pa

_REMOVED_AT_A_TIME = 1_000


class Page(msgspec.Struct, array_like=True, frozen=True):
    """Some messages that stand near each other."""

    queue: str
    before: Spot
    last: Spot
    messages: list[tuple[bytes, int]]
    """Message id and mark: ids that applications make up need not be unique."""


def mark_of(message: Message) -> int:
    """What tells a message from another one under the same id."""
    return zlib.crc32(message.body, int(message.put_time * 1_000_000) & 0xFFFFFFFF)


def encode_pages(pages: Sequence[Page]) -> str:
    """Pages as an offset carries them: ids that the queue manager has made take a few bytes each."""
    return base64.b64encode(zlib.compress(msgspec.msgpack.encode(pages), 1)).decode()


def decode_pages(text: str) -> list[Page]:
    return msgspec.msgpack.decode(zlib.decompress(base64.b64decode(text)), type=list[Page]) if text else []


@dataclass
class Pages(InputPartition):
    """What one task of a consuming stream reads."""

    text: str


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What both modes share."""

    def __init__(self, options: ReadingOptions, payload: PayloadColumns | None) -> None:
        self.options = options
        self.payload = payload
        self.criteria = wanted(options.selector)
        self.targets: dict[str, list[LaneStretch]] | None = None
        """How far the queues reached when a query began that is to end there."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's name
        return ReadMaxRows(self.options.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        self.targets = surely(self.options.url, self._reach)

    def _reach(self, connection: Connection) -> dict[str, list[LaneStretch]]:
        return {name: extents(connection, name) for name in self.options.names(connection)}

    def _within_targets(self, queue: str, extent: LaneStretch) -> LaneStretch:
        if self.targets is None:
            return extent
        last = next((each.last for each in self.targets.get(queue, ()) if each.lane == extent.lane), 0)
        return LaneStretch(extent.lane, extent.first, min(extent.last, last))

    def _rows_max(self, limit: ReadLimit | None) -> int:
        if isinstance(limit, ReadAllAvailable):
            return 2**62
        return limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.messages_max

    def stop(self) -> None:
        forget(self.options.url)


class ConsumingReader(_StreamReader):
    """Takes messages off, each in exactly one batch."""

    def __init__(self, options: ReadingOptions, payload: PayloadColumns | None) -> None:
        super().__init__(options, payload)
        self._removed = -1
        """The last batch whose messages this process has taken off."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        return {"batch": 0, "messages": ""}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        # The sink has had all of `start`, or Spark would not ask what comes behind it.
        self.commit(start)
        known = {item for page in decode_pages(start["messages"]) for item in page.messages}
        rows_max = self._rows_max(limit)
        bytes_max = 2**62 if isinstance(limit, ReadAllAvailable) else self.options.bytes_max
        found = surely(self.options.url, lambda connection: self._planned(connection, known, rows_max, bytes_max))
        return {"batch": start["batch"] + 1, "messages": encode_pages(found)} if found else start

    def _planned(
        self, connection: Connection, known: set[tuple[bytes, int]], rows_left: int, bytes_left: int
    ) -> list[Page]:
        planned: list[Page] = []
        for queue, reached in self._reach(connection).items():
            for extent in reached:
                inside = self._within_targets(queue, extent)
                for before, last, messages in pages_within(connection, queue, inside, self.criteria):
                    chosen: list[tuple[bytes, int]] = []
                    for message in messages:
                        item = (message.message_id, mark_of(message))
                        if item in known:
                            continue
                        if rows_left <= 0 or (bytes_left <= 0 and (planned or chosen)):
                            break
                        chosen.append(item)
                        rows_left -= 1
                        bytes_left -= len(message.body)
                    if chosen:
                        planned.append(Page(queue, before, last, chosen))
                    if rows_left <= 0 or bytes_left <= 0:
                        return planned
        return planned

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start["batch"] == end["batch"]:
            return []
        pages = decode_pages(end["messages"])
        parts = max(1, min(self.options.partitions, len(pages)))
        edges = [len(pages) * part // parts for part in range(parts + 1)]
        return [Pages(encode_pages(pages[low:high])) for low, high in pairwise(edges)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        connection = reach(self.options.url)
        for page in decode_pages(partition.text):
            for piece in cut_for_spark(self._messages(connection, page)):
                yield with_payload(page.queue, piece, self.payload)

    def _messages(self, connection: Connection, page: Page) -> Iterator[Message]:
        listed = dict.fromkeys(page.messages)
        stretch = LaneStretch(page.last[0], page.before[1], page.last[1])
        for message in messages_within(connection, page.queue, stretch, self.criteria):
            if (message.message_id, mark_of(message)) in listed:
                yield message

    def commit(self, end: dict[str, Any]) -> None:
        """Take the messages of a batch off their queues; those that are gone already are."""
        if end["batch"] <= self._removed:
            return
        for page in decode_pages(end["messages"]):
            for at in range(0, len(page.messages), _REMOVED_AT_A_TIME):
                chunk = page.messages[at : at + _REMOVED_AT_A_TIME]
                surely(self.options.url, partial(remove, queue=page.queue, items=chunk))
        self._removed = end["batch"]


def remove(connection: Connection, queue: str, items: Sequence[tuple[bytes, int]]) -> None:
    """Take messages off a queue, and no other ones that have the same ids."""
    others: set[bytes] = set()
    while True:
        unit = connection.unit_of_work()
        with unit:
            wrong = _got_another(unit, queue, [item for item in items if item[0] not in others])
            if wrong is None:
                return
            unit.back_out()
        others.add(wrong)


def _got_another(unit: Any, queue: str, items: Sequence[tuple[bytes, int]]) -> bytes | None:
    for message_id, mark in items:
        message = unit.get(queue, message_id=message_id)
        if message is not None and mark_of(message) != mark:
            return message_id
    return None


class BrowsingReader(_StreamReader):
    """Looks at what arrives, and leaves it there."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        return {}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        rows_max = self._rows_max(limit)
        return surely(self.options.url, lambda connection: self._seen(connection, start, rows_max))

    def _seen(self, connection: Connection, start: dict[str, Any], rows_left: int) -> dict[str, Any]:
        seen = {queue: dict(lanes) for queue, lanes in start.items()}
        for queue, reached in self._reach(connection).items():
            lanes = seen.setdefault(queue, {})
            for extent in reached:
                inside = self._within_targets(queue, _behind(extent, lanes))
                for _, last, messages in pages_within(connection, queue, inside, None):
                    lanes[str(last[0])] = last[1]
                    rows_left -= len(messages)
                    if rows_left <= 0:
                        return seen
        return {queue: lanes for queue, lanes in seen.items() if lanes}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found: list[InputPartition] = []
        for queue, lanes in end.items():
            for lane, last in lanes.items():
                first = start.get(queue, {}).get(lane, 0)
                if last > first:
                    stretch = LaneStretch(int(lane), first, last)
                    found += [Stretch(queue, part) for part in stretch.split(self.options.partitions)]
        return found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        connection = reach(self.options.url)
        seen = messages_within(connection, partition.queue, partition.extent, self.criteria)
        for piece in cut_for_spark(seen):
            yield with_payload(partition.queue, piece, self.payload)


def _behind(extent: LaneStretch, lanes: dict[str, int]) -> LaneStretch:
    return LaneStretch(extent.lane, max(extent.first, lanes.get(str(extent.lane), 0)), extent.last)
