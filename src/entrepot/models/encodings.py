# SPDX-License-Identifier: Apache-2.0
"""MQ's encoding numbers: in which order the bytes of numbers lie.

    546 = 0x222  integers, packed decimals and IEEE floats reversed: PCs, most Linux
    273 = 0x111  all of them as written: Unix on POWER and SPARC
    785 = 0x311  as written, but floats as System/390 has them

Each hexadecimal digit tells about one kind of number. A digit of 0 says that it
is unknown; asking for that kind of number is then an error.
"""

from __future__ import annotations

from entrepot.errors import MessageUnreadable

NATIVE = 546
"""What our own queue manager writes."""

_STRUCTS = {1: ">", 2: "<"}


def struct_order(encoding: int, domain: str = "MQMD", offset: int = 0) -> str:
    """`<` or `>`, as `struct` wants it, for the integers of a header.

    Raises:
        MessageUnreadable: The encoding does not say.
    """
    try:
        return _STRUCTS[encoding & 0xF]
    except (KeyError, TypeError):
        problem = f"{encoding!r} does not say how binary integers are written; 546, 273 and 785 do"
        raise MessageUnreadable(domain, "Encoding", offset, problem) from None
