# SPDX-License-Identifier: Apache-2.0
"""Where messages stand on a queue, found by looking alone: how far it reaches, and its messages piece by piece.

A place is (lane, number): lanes by priority, the highest first, and numbers
in the order of arrival. A browse starts behind a place, so the last number of
a lane is found by halving, in some forty looks, however deep the queue is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.client.blocking import Connection
    from entrepot.engine.criteria import Criteria

Spot = tuple[int, int]
_NUMBER_MAX = 2**62
AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class LaneStretch:
    """A stretch of one lane: all places behind `first` up to `last`, which belongs to it."""

    lane: int
    first: int
    last: int

    def split(self, parts: int) -> list[LaneStretch]:
        """Parts of equal length; numbers are given to all queues in turn, so their messages are about equal."""
        length = self.last - self.first
        parts = max(1, min(parts, length))
        edges = [self.first + length * part // parts for part in range(parts + 1)]
        return [LaneStretch(self.lane, low, high) for low, high in pairwise(edges)]


def extents(connection: Connection, queue: str) -> list[LaneStretch]:
    """How far a queue reaches right now, lane by lane; what comes later lies behind it."""
    found: list[LaneStretch] = []
    place: Spot | None = None
    while (next_place := _next(connection, queue, place)) is not None:
        lane, first = next_place
        last = _last(connection, queue, lane, first)
        found.append(LaneStretch(lane, first - 1, last))
        place = (lane, _NUMBER_MAX)
    return found


def _next(connection: Connection, queue: str, place: Spot | None) -> Spot | None:
    """The place of the first message behind another one."""
    found, at = connection.browse_page(queue, None, place, 1)
    return at if found and at is not None else None


def _last(connection: Connection, queue: str, lane: int, first: int) -> int:
    step = 1024
    low, high = first, first + step
    while _is_beyond(connection, queue, lane, high):
        low, step = high, step * 2
        high = low + step
    while low < high:
        middle = (low + high) // 2
        if _is_beyond(connection, queue, lane, middle):
            low = middle + 1
        else:
            high = middle
    return low


def _is_beyond(connection: Connection, queue: str, lane: int, number: int) -> bool:
    """Whether the lane has a message behind a number."""
    place = _next(connection, queue, (lane, number))
    return place is not None and place[0] == lane


def pages_within(
    connection: Connection, queue: str, extent: LaneStretch, criteria: Criteria | None
) -> Iterator[tuple[Spot, Spot, list[Message]]]:
    """The messages of a stretch that meet the criteria, in pieces, each with the place before it and its last one."""
    place: Spot = (extent.lane, extent.first)
    end: Spot = (extent.lane, extent.last)
    limit = AT_A_TIME
    while place < end:
        found, after = connection.browse_page(queue, criteria, place, limit)
        if not found or after is None:
            return  # nothing matches behind this place, here or further on
        if after <= end:
            yield place, after, found
            place = after
        elif limit > 1:
            # It went too far, and does not tell the places of those between.
            limit = max(1, min(limit, len(found)) // 2)
        else:
            return


def messages_within(
    connection: Connection, queue: str, extent: LaneStretch, criteria: Criteria | None
) -> Iterator[Message]:
    """The messages of a stretch that meet the criteria, left where they are."""
    for _, _, found in pages_within(connection, queue, extent, criteria):
        yield from found
