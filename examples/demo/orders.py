# SPDX-License-Identifier: Apache-2.0
"""The demo's orders: what each number wants, how it is written, and what has to become of it.

Everything follows from an order's number, so that in the end each message can
be compared with what its order asked for, whoever was killed on the way. A
few orders are wrong, each in its own way, and have to be refused.

    order_of(17).body()    ORDERXML: <order><number>17</number>...
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FORMS = ("ORDERXML", "ORDERREC", "MT103")
"""As the field Format of the message descriptor calls them."""
EBCDIC, UTF_8 = 500, 1208
BIG_ENDIAN, LITTLE_ENDIAN = 785, 546
LARGE_FROM_CENTS = 100_000

CUSTOMERS = {
    "C001": "EU",
    "C002": "EU",
    "C003": "EU",
    "C004": "US",
    "C005": "US",
    "C006": "US",
    "C007": "ASIA",
    "C008": "ASIA",
}
PRICES_CENTS = {"TEA": 250, "ROPE": 1200, "LAMP": 4990, "BISCUIT": 120, "ANCHOR": 38000, "SEXTANT": 24500, "TAR": 899}
REGIONS = ("EU", "US", "ASIA")

_ARTICLES = tuple(PRICES_CENTS)
_CUSTOMER_IDS = tuple(CUSTOMERS)
_CORRELATION = re.compile(rb"ORDER(\d{19})")
_STRANGER = "C999"


@dataclass(frozen=True, slots=True)
class Order:
    """One order as its sender means it."""

    number: int
    form: str
    customer: str
    article: str
    pieces: int
    flaw: str = ""
    """What is wrong with it; empty for most."""

    @property
    def region(self) -> str:
        return CUSTOMERS.get(self.customer, "")

    @property
    def cents(self) -> int:
        return PRICES_CENTS[self.article] * self.pieces

    @property
    def is_large(self) -> bool:
        return self.cents >= LARGE_FROM_CENTS

    @property
    def correlation_id(self) -> bytes:
        """Tells the number of an order that nobody can read."""
        return b"ORDER%019d" % self.number

    @property
    def ccsid(self) -> int:
        return EBCDIC if self.form == "ORDERREC" else UTF_8

    @property
    def encoding(self) -> int:
        return BIG_ENDIAN if self.form == "ORDERREC" else LITTLE_ENDIAN

    def body(self) -> bytes:
        """The order as bytes, flaw included."""
        return {"ORDERXML": self._xml, "ORDERREC": self._record, "MT103": self._payment}[self.form]()

    def _xml(self) -> bytes:
        text = (
            f"<order><number>{self.number}</number><customer>{self.customer}</customer>"
            f"<article>{self.article}</article><pieces>{self.pieces}</pieces></order>"
        )
        return text.removesuffix("</pieces></order>" if self.flaw == _CUT_XML else "").encode()

    def _record(self) -> bytes:
        head = f"{self.number:08}{self.customer:<4}{self.article:<8}".encode("cp500")
        if self.flaw == _CUT_RECORD:
            return head[:-3]
        return head + bytes.fromhex(f"{self.pieces:05}C")

    def _payment(self) -> bytes:
        cents = self.cents - 100 if self.flaw == _UNDERPAID else self.cents
        lines = (
            f"20:ORDER{self.number:08}",
            "23B:CRED",
            f"32A:240105EUR{cents // 100},{cents % 100:02}",
            f"50K:/{self.customer}\r\nBUYER",
            "59:/DE89370400440532013000\r\nENTREPOT",
            f"70:{self.article} {self.pieces}",
            # Field 99Z is none of an MT103's.
            "99Z:SHA" if self.flaw == _STRANGE_FIELD else "71A:SHA",
        )
        text = "".join(f"\r\n:{line}" for line in lines)
        return f"{{1:F01BANKDEFFAXXX0000000000}}{{2:I103BANKGB2LXXXXN}}{{4:{text}\r\n-}}".encode("ascii")


_CUT_XML = "XML cut off"
_CUT_RECORD = "record too short"
_STRANGE_FIELD = "field that SWIFT does not know"
_UNKNOWN_CUSTOMER = "unknown customer"
_UNDERPAID = "paid too little"
_FLAWS = (
    ("ORDERXML", _CUT_XML),
    ("ORDERREC", _CUT_RECORD),
    ("MT103", _STRANGE_FIELD),
    # What fails behind a database's work gives a whole batch back, so there is one of each of these.
    ("ORDERXML", _UNKNOWN_CUSTOMER),
    ("ORDERXML", _CUT_XML),
    ("ORDERREC", _CUT_RECORD),
    ("MT103", _STRANGE_FIELD),
    ("MT103", _UNDERPAID),
)


class OrderBook:
    """All orders of one run, from number 1 on."""

    def __init__(self, count: int) -> None:
        self.count = count
        step = count // len(_FLAWS)
        self._flaws = {step * place + step // 2: flaw for place, flaw in enumerate(_FLAWS)}

    @property
    def numbers(self) -> range:
        return range(1, self.count + 1)

    @property
    def refused(self) -> dict[int, str]:
        """The orders that are wrong, and what is."""
        return {number: flaw for number, (_, flaw) in self._flaws.items()}

    def order(self, number: int) -> Order:
        form, flaw = self._flaws.get(number, (FORMS[number % len(FORMS)], ""))
        customer = _STRANGER if flaw == _UNKNOWN_CUSTOMER else _CUSTOMER_IDS[number * 5 % len(_CUSTOMER_IDS)]
        return Order(number, form, customer, _ARTICLES[number * 3 % len(_ARTICLES)], number % 4 + 1, flaw)


def number_of_correlation(correlation_id: bytes) -> int:
    """The number of an order by its correlation id; 0 if that is none of ours."""
    found = _CORRELATION.fullmatch(correlation_id)
    return int(found[1]) if found else 0
