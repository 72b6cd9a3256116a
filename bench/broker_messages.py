# SPDX-License-Identifier: Apache-2.0
"""Messages like those that the broker document measured with: 30 fields, and padding in the last one.

Ten short strings, ten floating point numbers and ten integers, then the
padding; for its complex Compute nodes a stack of 20 elements, for its nested
SELECT invoices with their items.
"""

from __future__ import annotations

SIZES = (1024, 4096, 16384, 65536)
STACK = 20


def _padded(head: str, tail: str, size: int) -> bytes:
    return (head + "x" * max(size - len(head) - len(tail), 1) + tail).encode()


def fields() -> list[tuple[str, str | float | int]]:
    """Names and values of the 30 fields."""
    strings: list[tuple[str, str | float | int]] = [(f"A{n}", f"string-{n:05d}") for n in range(1, 11)]
    floats: list[tuple[str, str | float | int]] = [(f"B{n}", n * 1.25) for n in range(1, 11)]
    integers: list[tuple[str, str | float | int]] = [(f"C{n}", n * 1001) for n in range(1, 11)]
    return strings + floats + integers


def flat(size: int) -> bytes:
    """30 fields below CSIM, and the padding."""
    text = "".join(f"<{name}>{value}</{name}>" for name, value in fields())
    return _padded(f"<CSIM>{text}<Padding>", "</Padding></CSIM>", size)


def stack(size: int) -> bytes:
    """What the complex Compute nodes read: 20 elements of a component and a queue."""
    elements = "".join(
        f"<Element><COMPONENT>component-{n:03d}</COMPONENT><QUEUE>QUEUE.{n:03d}</QUEUE></Element>"
        for n in range(1, STACK + 1)
    )
    head = f"<CSIM><TestCase><Stack><ProcessingPath>{elements}</ProcessingPath></Stack></TestCase><Padding>"
    return _padded(head, "</Padding></CSIM>", size)


def invoices(size: int) -> bytes:
    """What the nested SELECT reads: 30 fields in two invoices, one of them of the Shop itself."""
    items = (("Book", "12.50", "2"), ("Pencil", "0.20", "3"), ("Gift", "0.00", "1"))
    lines = "".join(
        f"<Item><Description>{name}</Description><Price>{price}</Price><Quantity>{count}</Quantity></Item>"
        for name, price, count in items
    )
    customers = "".join(
        f"<Invoice><Initial>K</Initial><Initial>A</Initial><Surname>{surname}</Surname>"
        f"<Balance>81.00</Balance>{lines}</Invoice>"
        for surname in ("Braithwaite", "Shop")
    )
    return _padded(f"<CSIM><Data>{customers}</Data><Padding>", "</Padding></CSIM>", size)
