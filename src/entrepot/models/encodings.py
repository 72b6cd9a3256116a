# SPDX-License-Identifier: Apache-2.0
"""MQ's encoding numbers: in which order the bytes of numbers lie.

    546 = 0x222  integers, packed decimals and IEEE floats reversed: PCs, most Linux
    273 = 0x111  all of them as written: Unix on POWER and SPARC
    785 = 0x311  as written, but floats as System/390 has them

Each hexadecimal digit tells about one kind of number. A digit of 0 says that
nobody knows; asking for that kind of number is then an error.
"""

from __future__ import annotations

from typing import Literal

from entrepot.errors import MessageUnreadable

ByteOrder = Literal["big", "little"]
FloatFormat = Literal["ieee_big", "ieee_little", "s390"]

NATIVE = 546
"""What our own queue manager writes."""
UNIX = 273
S390 = 785

_ORDERS: dict[int, ByteOrder] = {1: "big", 2: "little"}
_FLOATS: dict[int, FloatFormat] = {1: "ieee_big", 2: "ieee_little", 3: "s390"}
_STRUCTS = {1: ">", 2: "<"}


def integer_order(encoding: int) -> ByteOrder:
    """The byte order of binary integers, and of UTF-16 text in code page 1200.

    Raises:
        MessageUnreadable: The encoding does not say.
    """
    try:
        return _ORDERS[encoding & 0xF]
    except (KeyError, TypeError):
        raise _unsaid(encoding, "binary integers") from None


def decimal_order(encoding: int) -> ByteOrder:
    """The byte order of packed decimals.

    Raises:
        MessageUnreadable: The encoding does not say.
    """
    try:
        return _ORDERS[encoding >> 4 & 0xF]
    except (KeyError, TypeError):
        raise _unsaid(encoding, "packed decimals") from None


def float_format(encoding: int) -> FloatFormat:
    """How floating-point numbers are written.

    Raises:
        MessageUnreadable: The encoding does not say, or says Tandem's.
    """
    try:
        return _FLOATS[encoding >> 8 & 0xF]
    except (KeyError, TypeError):
        raise _unsaid(encoding, "floating-point numbers") from None


def struct_order(encoding: int, domain: str = "MQMD", offset: int = 0) -> str:
    """`<` or `>`, as `struct` wants it, for the integers of a header.

    Raises:
        MessageUnreadable: The encoding does not say.
    """
    try:
        return _STRUCTS[encoding & 0xF]
    except (KeyError, TypeError):
        raise _unsaid(encoding, "binary integers", domain, offset) from None


def _unsaid(encoding: object, what: str, domain: str = "binary", offset: int = 0) -> MessageUnreadable:
    problem = f"{encoding!r} does not say how {what} are written; 546, 273 and 785 do"
    return MessageUnreadable(domain, "Encoding", offset, problem)
