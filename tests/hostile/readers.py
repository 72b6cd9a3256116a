# SPDX-License-Identifier: Apache-2.0
"""Every format that reads bytes of strangers: how it reads, how it writes, and good messages to begin with."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from entrepot.errors import CodePageUnknown, EntrepotError, MessageUnreadable, MessageUnwritable
from entrepot.message import Message
from entrepot.models.assembling import parse_message, render_message
from entrepot.models.copybook import load_copybook
from entrepot.models.cwf import compile_cwf
from entrepot.models.domains import find_domain
from entrepot.models.headers.mqdlh import write_mqdlh
from entrepot.models.headers.mqmd import write_mqmd
from entrepot.models.logical import MessageSet
from entrepot.models.message_sets import find_set, load_set
from entrepot.models.mrm import Codec, _compile
from entrepot.models.mrm import MessageFormat as Wanted
from entrepot.models.notation import read_notation
from entrepot.models.tree import Element, Folder
from golden.models.swift_messages import mt103, mt543, mt940
from unit.models import cwf_models as cwf
from unit.models import tds_models as tds
from unit.models.test_copybook_golden import read_bytes

GOLDEN = Path(__file__).parents[1] / "golden" / "models"
LATIN, UTF8, EBCDIC = 819, 1208, 500
BIG, LITTLE, ZOS = 273, 546, 785


@dataclass(frozen=True)
class Reader:
    """One format."""

    read: Callable[[bytes], Element]
    """The tree, all of it; raises EntrepotError."""
    write: Callable[[Element], bytes]
    """The bytes of a tree that was read; raises EntrepotError."""
    seeds: tuple[bytes, ...]
    settles: bool = False
    """Writing puts some fields right, so that only what was written once comes back as it is."""


def walk(element: Element) -> Element:
    """Bring all that was left for later."""
    pending = [element]
    while pending:
        pending.extend(pending.pop().children)
    return element


def shape(element: Element) -> Any:
    """A tree to be compared; floats and decimals by their text, because NaN is not equal to itself."""
    value = element.value
    exact = (type(value).__name__, str(value) if isinstance(value, float) else value)
    return (element.key, element.kind, exact, [shape(child) for child in element.children])


def require_read_and_written_alike(reader: Reader, body: bytes) -> None:
    """A message is refused at a place of it, or its tree is written and read again as it was."""
    try:
        tree = reader.read(body)
    except MessageUnreadable as error:
        assert 0 <= error.offset <= len(body)
        assert error.path
        return
    except EntrepotError:
        return
    expected = shape(tree)
    try:
        written = reader.write(tree)
    except MessageUnwritable as error:
        assert error.path
        return
    except CodePageUnknown:
        return
    again = reader.read(written)
    if reader.settles:
        assert reader.write(again) == written
    else:
        assert shape(again) == expected


# --- domains -----------------------------------------------------------------------------------------


def domain(name: str, *seeds: bytes, ccsid: int = UTF8, encoding: int = LITTLE) -> Reader:
    def read(body: bytes) -> Element:
        found = find_domain(name)
        assert found is not None
        return walk(Folder(found, body, ccsid=ccsid, encoding=encoding))

    def write(element: Element) -> bytes:
        assert isinstance(element, Folder)
        element.changed(structure=True)
        return element.render()

    return Reader(read, write, seeds)


XML_SEEDS = (
    b'<?xml version="1.0"?><a x="1"><b>\xc3\xa9</b><![CDATA[x]]><!-- c --><?p i?></a>',
    b'<s:e xmlns:s="urn:s" xmlns="urn:d"><s:b n="&lt;&amp;&#65;"><row>1</row><row/> tail </s:b></s:e>',
    b"<r>" + b"".join(b"<i k='%d'>v%d</i>" % (n, n) for n in range(12)) + b"</r>",
)
SOAP_SEEDS = (
    b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Header/><s:Body><m>1</m></s:Body></s:Envelope>',
    b'<?xml version="1.0"?><Envelope xmlns="http://www.w3.org/2003/05/soap-envelope" xmlns:q="urn:q" q:v="1"><Header>'
    b'<q:t role="x">a</q:t></Header><Body q:i="2"><Fault xmlns:p="urn:p"><p:w/></Fault></Body></Envelope>',
)
JSON_SEEDS = (
    b'{"a": [1, -2.5, 1e3, true, null, "\\u00e9\\n", {"b": {}}], "c": "\xc3\xa9", "a": 2}',
    b'[[], [1, [2]], {"k": ""}]',
)
MIME_SEED = (
    b"MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=edge\r\n\r\nbefore\r\n--edge\r\n"
    b"Content-Type: text/plain\r\n\r\nhello\r\n--edge\r\nContent-ID: <x>\r\n\r\n\x00\xff\r\n--edge--\r\nafter"
)


def rfh2(*folders: bytes, following: bytes = b"MQSTR   ") -> bytes:
    """An MQRFH2 put together by hand."""
    padded = [folder + b" " * (-len(folder) % 4) for folder in folders]
    values = b"".join(struct.pack("<i", len(folder)) + folder for folder in padded)
    return struct.pack("<4siiii8sii", b"RFH ", 2, 36 + len(values), 546, 1208, following, 0, 1208) + values


RFH2_SEED = rfh2(
    b"<mcd><Msd>xmlnsc</Msd></mcd>",
    b'<usr><a dt="i4">7</a><b dt="bin.hex">00ff</b><c xml:space="x"/><d><e>\xc3\xa9</e></d></usr>',
)


def _chain(body: bytes) -> Element:
    message = Message(body, format="MQDEAD", ccsid=UTF8, encoding=LITTLE)
    return walk(parse_message(message, domain="BLOB").root)


def _write_chain(root: Element) -> bytes:
    for folder in root.children:
        if folder.key in ("MQDLH", "MQRFH2"):
            folder.changed(structure=True)
    return render_message(root).body  # type: ignore[arg-type]


DLH_SEED = write_mqdlh({"Reason": 2053, "DestQName": "Q", "Format": "MQHRF2", "Encoding": 546, "CodedCharSetId": 1208})

# --- models ------------------------------------------------------------------------------------------


def coded(codec: Callable[[], Codec], *seeds: bytes, ccsid: int = UTF8, encoding: int = LITTLE) -> Reader:
    compiled = cache(codec)

    def read(body: bytes) -> Element:
        message = Element("M")
        message.fill(compiled().parse(body, ccsid, encoding))
        return walk(message)

    return Reader(read, lambda message: compiled().render(message, ccsid, encoding), seeds)


def of_set(message_set: Callable[[], MessageSet], message: str, format_name: str) -> Callable[[], Codec]:
    return lambda: _compile(Wanted(message_set(), message, format_name))


def _copybook(name: str) -> tuple[Callable[[], Codec], int, int, bytes]:
    message_set = cache(lambda: load_copybook(GOLDEN / f"{name}.cpy"))
    return lambda: compile_cwf(message_set(), next(iter(message_set().messages)), "CWF1"), *read_bytes(
        GOLDEN / f"{name}.hex"
    )


def counted() -> Codec:
    """OCCURS DEPENDING ON, with a length that another field gives."""
    item = cwf.group(
        "ITEM",
        cwf.simple("SKU", cwf.STRING, "string", 3),
        cwf.simple("PRICE", cwf.DECIMAL, "packed", 3, decimals=2),
        most=None,
        count_from="COUNT",
    )
    return cwf.codec_of(
        cwf.simple("COUNT", cwf.INTEGER, "integer", 4),
        item,
        cwf.simple("L", cwf.INTEGER, "integer", 4),
        cwf.simple("NOTE", cwf.STRING, "string", length_from="L"),
    )


COUNTED_SEED = b"\0\0\0\2" + b"abc\x00\x99\x9c" + b"xyz\x01\x00\x0d" + b"\0\0\0\5hello"


def numbers() -> Codec:
    return cwf.codec_of(
        cwf.simple("PACKED", cwf.DECIMAL, "packed", 4, decimals=2),
        cwf.simple("ZONED", cwf.INTEGER, "external", 4),
        cwf.simple("SEPARATE", cwf.INTEGER, "external", 4, sign="leading separate"),
        cwf.simple("BINARY", cwf.INTEGER, "integer", 2),
        cwf.simple("FLOAT", cwf.FLOAT, "float", 8),
        cwf.simple("HEXFLOAT", cwf.FLOAT, "hexfloat", 8),
    )


NUMBERS_SEED = b"\x00\x12\x34\x5c" + b"0042" + b"-007" + b"\xff\xfe" + struct.pack(">d", 1.5) + b"\x41\x18" + b"\0" * 6


def dates() -> Codec:
    return cwf.codec_of(
        cwf.simple("DAY", cwf.DATE, "packed", 4, format="yyyyDDD"),
        cwf.simple("TEXT", cwf.DATE, "string", 8, format="yyyyMMdd"),
        cwf.simple("AT", cwf.TIME, "string", 6, format="HHmmss"),
        cwf.simple("STAMP", cwf.DATETIME, "string", 14, format="yyyyMMddHHmmss"),
    )


DATES_SEED = b"\x20\x04\x06\x0c" + b"20040229" + b"235959" + b"20040229000000"


def redefined() -> Codec:
    return cwf.codec_of(
        cwf.simple("KIND", cwf.STRING, "string", 1),
        cwf.choice(
            cwf.simple("SUM", cwf.DECIMAL, "packed", 4, decimals=2),
            cwf.simple("PAIR", cwf.INTEGER, "integer", 4),
        ),
        cwf.simple("END", cwf.BOOLEAN, "boolean", 4),
    )


def tds_all() -> Codec:
    item = tds.group("I", tds.simple("S"), tds.simple("N", "integer"), most=9, separation=tds.ALL, delimiter="/",
                     repeat_delimiter=";")  # fmt: skip
    return tds.codec(tds.simple("A"), item, tds.simple("B", "decimal"), separation=tds.ALL, delimiter="*")


def tds_tagged() -> Codec:
    group = tds.group("", tds.simple("B", tag="b"), tds.simple("C", "integer", tag="c"), least=0, most=9)
    return tds.codec(tds.simple("A", tag="a"), group, separation=tds.TAGGED, delimiter="*", tag_separator=":")


def tds_tagged_fixed() -> Codec:
    return tds.codec(tds.simple("A", "integer", tag="a", length=2, most=5), separation=tds.TAGGED_FIXED, tag_length=1)


def tds_encoded() -> Codec:
    return tds.codec(tds.simple("A", tag="a", most=5), separation=tds.ENCODED, tag_length=1, encoded_length=3)


def tds_variable() -> Codec:
    return tds.codec(tds.simple("A"), tds.simple("B", length=2), tds.simple("C", most=3),
                     separation=tds.VARIABLE, delimiter="*")  # fmt: skip


def tds_pattern() -> Codec:
    return tds.codec(tds.simple("A", pattern="[a-z]{1,4}"), tds.simple("N", "integer", pattern="[0-9]+", most=3),
                     separation=tds.PATTERN)  # fmt: skip


def tds_fixed() -> Codec:
    return tds.codec(tds.simple("A", "integer", length=2), tds.simple("D", "date", length=8, format="yyyyMMdd"),
                     tds.simple("B", length=3, least=0, most=4), separation=tds.FIXED)  # fmt: skip


def tds_quoted() -> Codec:
    return tds.codec(tds.simple("A"), tds.simple("B"), separation=tds.ALL, delimiter="*",
                     tds={"quote": "'", "escape": "?"})  # fmt: skip


MRM_XML = """
set: orders
formats: {XML1: xml}
messages:
  Order:
    - id: string
    - count: integer
    - price?: decimal
    - placed?: date
    - line*:
        - sku: string
        - n?: integer
"""
MRM_XML_SEED = (
    b"<Order><id>a</id><count>2</count><price>9.90</price><placed>2024-02-29</placed>"
    b"<line><sku>x</sku><n>1</n></line><line><sku>y</sku></line></Order>"
)


def _swift() -> MessageSet:
    return find_set("SWIFT")


def _tds_set(name: str) -> Callable[[], MessageSet]:
    return cache(lambda: load_set(GOLDEN / f"{name}.yaml"))


def _readers() -> dict[str, Reader]:
    warehouse = _copybook("warehouse_order")
    parts = _copybook("synchronized_parts")
    return {
        "XML": domain("XML", *XML_SEEDS),
        "XMLNS": domain("XMLNS", *XML_SEEDS),
        "XMLNSC": domain("XMLNSC", *XML_SEEDS),
        "SOAP": domain("SOAP", *SOAP_SEEDS),
        "JSON": domain("JSON", *JSON_SEEDS),
        "BLOB": domain("BLOB", b"bytes"),
        "MIME": domain("MIME", MIME_SEED),
        "MQMD": domain("MQMD", write_mqmd({}), write_mqmd({"Version": 1, "UserIdentifier": "ann"})),
        "MQRFH2": domain("MQRFH2", RFH2_SEED, rfh2()),
        "MQDLH": domain("MQDLH", DLH_SEED),
        "headers": Reader(_chain, _write_chain, (DLH_SEED + RFH2_SEED + b"<rest/>",), settles=True),
        "CWF counts": coded(counted, COUNTED_SEED, ccsid=LATIN, encoding=BIG),
        "CWF numbers": coded(numbers, NUMBERS_SEED, ccsid=LATIN, encoding=ZOS),
        "CWF dates": coded(dates, DATES_SEED, ccsid=LATIN, encoding=BIG),
        "CWF choice": coded(redefined, b"S\x00\x01\x23\x4c\0\0\0\1", ccsid=LATIN, encoding=BIG),
        "CWF copybook": coded(warehouse[0], warehouse[3], ccsid=warehouse[1], encoding=warehouse[2]),
        "CWF synchronized": coded(parts[0], parts[3], ccsid=parts[1], encoding=parts[2]),
        "TDS all": coded(tds_all, b"x*a/1;b/2*1.5"),
        "TDS tagged": coded(tds_tagged, b"a:1*b:2*c:3*b:4*c:5"),
        "TDS tagged fixed": coded(tds_tagged_fixed, b"a12a34"),
        "TDS encoded": coded(tds_encoded, b"a003xyza000"),
        "TDS variable": coded(tds_variable, b"one*22three*four*five"),
        "TDS pattern": coded(tds_pattern, b"abc123"),
        "TDS fixed": coded(tds_fixed, b"4220240229abcdef"),
        "TDS quoted": coded(tds_quoted, b"'a*b'*c?*d"),
        "TDS orders": coded(of_set(_tds_set("tds_orders"), "Orders", "TDS1"), (GOLDEN / "tds_orders.bin").read_bytes()),
        "TDS records": coded(
            of_set(_tds_set("tds_records"), "Records", "TDS1"), (GOLDEN / "tds_records.bin").read_bytes()
        ),
        "MRM XML": coded(of_set(cache(lambda: read_notation(MRM_XML)), "Order", "XML1"), MRM_XML_SEED),
        "SWIFT MT103": coded(of_set(_swift, "MT103", "TDS1"), mt103()),
        "SWIFT MT543": coded(of_set(_swift, "MT543", "TDS1"), mt543()),
        "SWIFT MT940": coded(of_set(_swift, "MT940", "TDS1"), mt940()),
    }


READERS = _readers()
