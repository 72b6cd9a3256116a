# SPDX-License-Identifier: Apache-2.0
"""Messages like those that the broker document measured with: 30 fields, and padding in the last one.

Ten short strings, ten floating point numbers and ten integers, then the
padding; for its complex Compute nodes a stack of 20 elements, for its nested
SELECT invoices with their items, for its conversions the 30 fields in four
formats. Larger messages have more padding and nothing else, as chapter 8.2
says. Each has a mark in a field that its flows keep, whatever they do to the
rest: `QX`, two digits for the sender and eight for the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from entrepot.message import Message
from entrepot.models import register_set
from entrepot.models.headers.mqrfh2 import MQRFH2
from entrepot.models.logical import MessageFormat, MessageSet
from entrepot.models.mrm import MRM
from entrepot.models.notation import read_notation
from entrepot.models.tree import Element, Folder
from entrepot.workbench.broker.mt543 import mt543

STACK = 20
SET, MESSAGE = "broker", "CSIM"
FORMATS = {"cwf": "CWF1", "mrm_xml": "XML1", "tds": "TDS1"}
MODEL = Path(__file__).with_name("csim.yaml")
MODEL_BYTES = 4096
"""What a message in the fixed format has whose model csim.yaml is as it stands."""
_FIXED_BYTES = 10 * 12 + 10 * 8 + 10 * 4

# --- marks ---------------------------------------------------------------------------------------------

MARK_HEAD = b"QX"
"""In no message but where its mark is."""
NUMBERS_MAX = 10**8
BLANK = "QX0000000000"


def mark(sender: int, number: int) -> bytes:
    return b"QX%02d%08d" % (sender, number)


def read_mark(body: bytes) -> tuple[int, int] | None:
    """(sender, number) of what a flow made of a message; None when the mark is gone."""
    at = body.find(MARK_HEAD)
    digits = body[at + 2 : at + 12]
    if at < 0 or len(digits) < 10 or not digits.isdigit():
        return None
    return int(digits[:2]), int(digits[2:])


@dataclass(frozen=True, slots=True)
class Template:
    """A message that becomes any sender's by its mark."""

    before: bytes
    after: bytes
    format: str

    def body(self, sender: int, number: int) -> bytes:
        return self.before + mark(sender, number) + self.after


@cache
def template_of(kind: str, size: int) -> Template:
    message = message_of(kind, size)
    before, _, after = message.body.partition(BLANK.encode())
    return Template(before, after, message.format)


@cache
def message_of(kind: str, size: int) -> Message:
    """A message of a kind with a blank mark; an MT543 of any size, others not below what their fields need."""
    if kind in FORMATS:
        return Message(formats(size)[FORMATS[kind]])
    if kind == "mt543":
        return Message(mt543(size).replace(b"MUR0000000000001", b"MUR1" + BLANK.encode()))
    if kind == "tagged":
        return tagged(size)
    return Message({"flat": flat, "stack": stack, "invoices": invoices}[kind](size))


# --- XML -----------------------------------------------------------------------------------------------


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
    return _padded(f"<CSIM>{text}<Padding>{BLANK}", "</Padding></CSIM>", size)


def stack(size: int) -> bytes:
    """What the complex Compute nodes read: 20 elements of a component and a queue."""
    elements = "".join(
        f"<Element><COMPONENT>component-{n:03d}</COMPONENT><QUEUE>QUEUE.{n:03d}</QUEUE></Element>"
        for n in range(1, STACK + 1)
    )
    head = f"<CSIM><TestCase><Stack><ProcessingPath>{elements}</ProcessingPath></Stack></TestCase><Padding>{BLANK}"
    return _padded(head, "</Padding></CSIM>", size)


def invoices(size: int) -> bytes:
    """What the nested SELECT reads: 30 fields in two invoices, one of them of the Shop itself."""
    items = (("Book", "12.50", "2"), ("Pencil", "0.20", "3"), ("Gift", "0.00", "1"))
    lines = "".join(
        f"<Item><Description>{name}</Description><Price>{price}</Price><Quantity>{count}</Quantity></Item>"
        for name, price, count in items
    )
    # The statement that the flow makes has the surname and no padding, so the mark is here.
    customers = "".join(
        f"<Invoice><Initial>K</Initial><Initial>A</Initial><Surname>{surname}</Surname>"
        f"<Balance>81.00</Balance>{lines}</Invoice>"
        for surname in (BLANK, "Shop")
    )
    return _padded(f"<CSIM><Data>{customers}</Data><Padding>", "</Padding></CSIM>", size)


def tagged(size: int) -> Message:
    """With an MQRFH2 of two tags before the body."""
    header = Folder(MQRFH2, None, ccsid=1208, encoding=546)
    for name, value in (("Format", ""), ("Encoding", 546), ("CodedCharSetId", 1208)):
        header.append(Element(name, value))
    tags = header.add("usr")
    tags.add("colour", "red")
    tags.add("shape", "round")
    written = header.render()
    return Message(written + flat(size - len(written)), format="MQHRF2")


# --- the formats of the conversions --------------------------------------------------------------------


def model(size: int = MODEL_BYTES) -> MessageSet:
    """The 30 fields and as much padding as a message of that size has, and how three formats write them."""
    text = MODEL.read_text()
    was, wanted = (f"Padding: string({each - _FIXED_BYTES})" for each in (MODEL_BYTES, size))
    assert was in text
    return read_notation(text.replace(was, wanted), MODEL.name)


@cache
def formats(size: int) -> dict[str, bytes]:
    """The same message in every format, by the format's name; generic XML is XML."""
    message_set = register_set(model(size))
    message = Element("message")
    message.fill([Element(name, value) for name, value in fields()])
    message.append(Element("Padding", ""))
    found = {"XML": flat(size)}
    for name in FORMATS.values():
        codec = MRM.codec(MessageFormat(message_set, MESSAGE, name))
        message.children[-1].value = ""
        empty_bytes = _FIXED_BYTES if name == "CWF1" else len(codec.render(message, 1208, 546))
        message.children[-1].value = BLANK + "x" * (size - empty_bytes - len(BLANK))
        found[name] = codec.render(message, 1208, 546)
    return found
