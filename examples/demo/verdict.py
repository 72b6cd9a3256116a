# SPDX-License-Identifier: Apache-2.0
"""What the demo claims, checked: every order exactly once at every place where it has to be, and nowhere else.

A place is a queue, a subscriber's queue or the ledger. For each of them it is
known by the orders' numbers what has to be there and what it has to cost;
`judge` compares that with everything that was read in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from demo.orders import REGIONS, OrderBook

LEDGER = "ledger"
REFUSED = "ORDERS.REFUSED"
CONFIRMED = "CONFIRMED"
PRICED = tuple(f"PRICED.{region}" for region in REGIONS)
OUTCOMES = (*PRICED, CONFIRMED, REFUSED)
"""Every order ends at one of these."""
NEWS = (*(f"NEWS.{region}" for region in REGIONS), "NEWS.LARGE")
EMPTY = ("ORDERS", "BACKOFFICE", "ANSWERS", "LATE", "UNASKED")
"""Nothing may be left here."""
PLACES = (*OUTCOMES, LEDGER, *NEWS, *EMPTY)


class Seen(msgspec.Struct, frozen=True):
    """An order that was found somewhere."""

    number: int
    cents: int | None = None
    """What it costs, where the place says that."""


class PlaceVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One place; all lists are empty when it is as it has to be."""

    place: str
    expected: int
    found: int
    lost: list[int]
    """Orders that have to be here and are not."""
    twice: list[int]
    foreign: list[int]
    """Orders that do not belong here, or that nobody has sent."""
    wrong: list[int]
    """Orders that cost something else than they should."""

    @property
    def holds(self) -> bool:
        return not (self.lost or self.twice or self.foreign or self.wrong)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """All places, and all outcomes taken together."""

    lost: list[int]
    """Orders without an outcome."""
    twice: list[int]
    """Orders with more than one."""
    places: list[PlaceVerdict]

    @property
    def holds(self) -> bool:
        return not (self.lost or self.twice) and all(place.holds for place in self.places)


def judge(book: OrderBook, found: Mapping[str, Sequence[Seen]]) -> Verdict:
    """Compare what was read with what the orders ask for."""
    expected = expectations(book)
    outcomes = Counter(seen.number for place in OUTCOMES for seen in found.get(place, ()))
    return Verdict(
        lost=[number for number in book.numbers if not outcomes[number]],
        twice=sorted(number for number, times in outcomes.items() if times > 1),
        places=[_compare(place, expected[place], found.get(place, ())) for place in PLACES],
    )


def expectations(book: OrderBook) -> dict[str, dict[int, int]]:
    """For each place the orders that have to be there, and what they cost."""
    expected: dict[str, dict[int, int]] = {place: {} for place in PLACES}
    for order in map(book.order, book.numbers):
        if order.flaw:
            expected[REFUSED][order.number] = order.cents
            continue
        places = [LEDGER, f"NEWS.{order.region}"]
        places += [CONFIRMED, "NEWS.LARGE"] if order.is_large else [f"PRICED.{order.region}"]
        for place in places:
            expected[place][order.number] = order.cents
    return expected


def _compare(place: str, expected: Mapping[int, int], found: Sequence[Seen]) -> PlaceVerdict:
    count = Counter(seen.number for seen in found)
    return PlaceVerdict(
        place=place,
        expected=len(expected),
        found=len(found),
        lost=sorted(expected.keys() - count.keys()),
        twice=sorted(number for number, times in count.items() if times > 1),
        foreign=sorted(count.keys() - expected.keys()),
        wrong=sorted(
            {seen.number for seen in found if seen.cents not in (None, expected.get(seen.number, seen.cents))}
        ),
    )


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in ascending order, neighbours as a range: 1–12, 14, 16–20."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{low}–{high}" if low < high else str(low) for low, high in spans) or "none"
