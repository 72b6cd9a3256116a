# SPDX-License-Identifier: Apache-2.0
"""Messages and models that mean harm: each is refused soon, with a path and an offset, and takes no memory to speak of.

Every case has the error it must be refused with, and words of the problem, so that another refusal is no refusal.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import (
    CodePageUnknown,
    EntrepotError,
    MessageTooComplex,
    MessageUnreadable,
    MessageUnwritable,
    ModelInvalid,
)
from entrepot.models.copybook import read_copybook
from entrepot.models.domains import find_domain
from entrepot.models.mrm import MessageFormat, _compile
from entrepot.models.mxsd import load_mxsd, read_mxsd
from entrepot.models.notation import read_notation
from entrepot.models.swift import validate
from entrepot.models.tree import Element, Folder
from folding import for_each
from golden.models.swift_messages import framed, mt543

from .readers import (
    COUNTED_SEED,
    DATES_SEED,
    DLH_SEED,
    MIME_SEED,
    MRM_XML_SEED,
    NUMBERS_SEED,
    READERS,
    RFH2_SEED,
    rfh2,
    walk,
)

SOON_S = 6.0
DEEP = 100_000
MANY = 200_000
UNREADABLE, COMPLEX, NO_PAGE, INVALID = MessageUnreadable, MessageTooComplex, CodePageUnknown, ModelInvalid
HUGE = 2**31 - 1

Attack = tuple[str, str, bytes, type[EntrepotError], str]
"""Format, what is done to it, the bytes, the error, and words of its problem."""

BOMB = b'<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx">%b]><a>&x9;</a>' % b"".join(
    b'<!ENTITY x%d "%b">' % (level, b"&x%d;" % (level - 1) * 10 if level > 1 else b"&x;" * 10) for level in range(1, 10)
)


def _nested_parts(depth: int, innermost: bytes) -> bytes:
    """Parts in parts, of which the innermost has no end."""
    edges = [b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(depth)]
    ends = [b"\r\n--b%d--" % n for n in reversed(range(depth - 1))]
    return b"".join(edges) + innermost + b"".join(ends)


# --- XML and its kin -----------------------------------------------------------------------------------

ATTACKS: list[Attack] = []
for _name in ("XML", "XMLNS", "XMLNSC", "SOAP", "MRM XML"):
    ATTACKS += [
        (_name, "document type", b"<!DOCTYPE a><a/>", UNREADABLE, "DOCTYPE"),
        (_name, "entity bomb", BOMB, UNREADABLE, "DOCTYPE"),
        (_name, "entity bomb in UTF-16", BOMB.decode().encode("utf-16"), UNREADABLE, "DOCTYPE"),
        (_name, "file as entity", b"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>", UNREADABLE,
         "DOCTYPE"),
        (_name, "unknown entities", b"<a>" + b"&x;" * MANY + b"</a>", UNREADABLE, "(?i)entity"),
        (_name, "depth", b"<a>" * DEEP + b"</a>" * DEEP, COMPLEX, "depth|deep"),
        (_name, "depth without end", b"<a>" * DEEP, COMPLEX, "depth|deep"),
        (_name, "cut", b"<a>" + b"<b>text</b>" * 9 + b"</", UNREADABLE, "offset 10[24]: (unclosed|expected)"),
        (_name, "cut in an attribute", b"<a x='" + b"y" * 1_000_000, UNREADABLE, "unclosed|AttValue"),
        (_name, "cut in a comment", b"<a><!--" + b"-" * 1_000_000, UNREADABLE, "offset [79]: "),
        (_name, "no character", b"<a>\x00</a>", UNREADABLE, "offset 3: "),
        (_name, "no UTF-8", b"<a>\xff\xfe</a>", UNREADABLE, "offset 3: "),
        (_name, "same attributes", b"<a " + b"x='1' " * MANY + b"/>", UNREADABLE, "(?i)attribute"),
        (_name, "two documents", b"<a/>" * MANY, UNREADABLE, "offset 4: "),
    ]  # fmt: skip
_DECLARED = b" ".join(b'xmlns:a%d="%d"' % (n, n) for n in range(5_000))
for _name in ("XMLNS", "XMLNSC"):
    ATTACKS.append((_name, "namespaces", b"<a " + _DECLARED + b"><b/><b/></a>", COMPLEX, "namespaces"))
_SOAP = b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"%b><s:Body>%b</s:Body></s:Envelope>'
ATTACKS += [
    ("SOAP", "namespaces", _SOAP % (b" " + _DECLARED, b"<b/>"), COMPLEX, "namespaces"),
    ("SOAP", "depth in the Body", _SOAP % (b"", b"<a>" * DEEP + b"</a>" * DEEP), COMPLEX, "depth|deep"),
    ("SOAP", "Bodies", _SOAP % (b"", b"</s:Body><s:Body>" * MANY), UNREADABLE, "Body"),
    ("SOAP", "no SOAP", b"<" + b"a" * 40_000 + b"/>", UNREADABLE, "document element is a"),
]
ATTACKS += [
    ("MRM XML", "unknown elements", MRM_XML_SEED.replace(b"</Order>", b"<x/>" * MANY + b"</Order>"), UNREADABLE, "x"),
    ("MRM XML", "huge number", MRM_XML_SEED.replace(b">2<", b">" + b"9" * 1_000_000 + b"<"), UNREADABLE, "999"),
    ("MRM XML", "huge exponent", MRM_XML_SEED.replace(b"9.90", b"1E+999999999"), UNREADABLE, "1E"),
    ("MRM XML", "no date", MRM_XML_SEED.replace(b"02-29", b"02-31"), UNREADABLE, "2024-02-31"),
    # --- JSON ---
    ("JSON", "depth of arrays", b"[" * DEEP + b"]" * DEEP, COMPLEX, "deeper"),
    ("JSON", "depth of objects", b'{"a":' * DEEP + b"1" + b"}" * DEEP, COMPLEX, "deeper"),
    ("JSON", "depth that Python allows", b"[" * 450 + b"]" * 450, COMPLEX, "deeper"),
    ("JSON", "depth without end", b"[" * DEEP, COMPLEX, "deeper"),
    ("JSON", "cut", b'{"a": [1, 2', UNREADABLE, "offset 11: "),
    ("JSON", "cut in a string", b'{"a": "' + b"x" * 1_000_000, UNREADABLE, "offset 6: "),
    ("JSON", "commas", b"[" + b"," * MANY + b"]", UNREADABLE, "offset 1: "),
    ("JSON", "huge integer", b"[" + b"9" * 100_000 + b"]", UNREADABLE, "digits"),
    ("JSON", "huge exponent", b"[1e999999999]", UNREADABLE, "1e999999999|large|range|FLOAT"),
    ("JSON", "no number", b"[NaN]", UNREADABLE, "NaN"),
    ("JSON", "lone surrogate", b'["\\ud800"]', UNREADABLE, "surrogate|U\\+D800|ud800"),
    ("JSON", "no UTF-8", b'["\xff"]', UNREADABLE, "offset 2: "),
    ("JSON", "lone value", b"1", UNREADABLE, "neither"),
    # --- MIME ---
    ("MIME", "no blank line", b"A: b\r\n" * MANY, UNREADABLE, "no header that tells"),
    ("MIME", "no colon", b"nonsense " * MANY + b"\r\n\r\nx", UNREADABLE, "no name and colon"),
    ("MIME", "no closing boundary", MIME_SEED[:-20], UNREADABLE, "edge|boundary"),
    ("MIME", "boundary is never there", MIME_SEED.replace(b"=edge", b"=else"), UNREADABLE, "else|boundary"),
    ("MIME", "boundaries", MIME_SEED.replace(b"--edge--", b"--edge\r\n" * 20_000), UNREADABLE, "boundary"),
    ("MIME", "depth of a huge part", _nested_parts(30, b"x" * 10_000_000), UNREADABLE, "boundary"),
    ("MIME", "depth", _nested_parts(DEEP // 10, b""), COMPLEX, "inside each other"),
    # --- headers ---
    ("MQMD", "cut", READERS["MQMD"].seeds[0][:-1], UNREADABLE, "bytes"),
    ("MQMD", "nothing", b"", UNREADABLE, "0 bytes"),
    (
        "MQMD",
        "version",
        READERS["MQMD"].seeds[0].replace(b"\x02\0\0\0", b"\xff\xff\xff\x7f", 1),
        UNREADABLE,
        "2147483647",
    ),
    ("MQMD", "no identifier", b"XX  " + READERS["MQMD"].seeds[0][4:], UNREADABLE, "58582020"),
    ("MQDLH", "cut", DLH_SEED[:-1], UNREADABLE, "bytes"),
    ("MQDLH", "no text", DLH_SEED.replace(b"Q ", b"\xff ", 1), UNREADABLE, "ff"),
    ("MQRFH2", "huge length", RFH2_SEED[:8] + struct.pack("<i", HUGE) + RFH2_SEED[12:], UNREADABLE, "2147483647"),
    ("MQRFH2", "negative length", RFH2_SEED[:8] + b"\xff" * 4 + RFH2_SEED[12:], UNREADABLE, "-1"),
    ("MQRFH2", "huge value", RFH2_SEED[:36] + struct.pack("<i", HUGE) + RFH2_SEED[40:], UNREADABLE, "2147483647"),
    ("MQRFH2", "negative value", RFH2_SEED[:36] + b"\xff" * 4 + RFH2_SEED[40:], UNREADABLE, "-1"),
    ("MQRFH2", "depth", rfh2(b"<a>" * DEEP + b"</a>" * DEEP), COMPLEX, "inside each other"),
    ("MQRFH2", "document type", rfh2(b"<!DOCTYPE a><a/>"), UNREADABLE, "no XML"),
    ("MQRFH2", "entity bomb", rfh2(BOMB), UNREADABLE, "no XML"),
    ("MQRFH2", "unknown code page", RFH2_SEED[:32] + struct.pack("<i", 99999) + RFH2_SEED[36:], NO_PAGE, "99999"),
    ("MQRFH2", "no hexadecimal", rfh2(b'<u><a dt="bin.hex">' + b"zz" * MANY + b"</a></u>"), UNREADABLE, "bin.hex"),
    ("MQRFH2", "huge number", rfh2(b'<u><a dt="i8">' + b"9" * MANY + b"</a></u>"), UNREADABLE, "i8"),
    ("MQRFH2", "cut folder", rfh2(b"<usr><a>"), UNREADABLE, "no end"),
    ("headers", "flood", (DLH_SEED.replace(b"MQHRF2", b"MQDEAD") * MANY)[:20_000_000], COMPLEX, "headers"),
    ("headers", "announced and not there", DLH_SEED + b"nothing", UNREADABLE, "bytes"),
    ("headers", "cut", DLH_SEED + RFH2_SEED[:50], UNREADABLE, "bytes"),
    ("headers", "negative code page", DLH_SEED.replace(b"\xb8\x04\0\0", b"\xfb\xff\xff\xff") + b"x", UNREADABLE, "-5"),
    # --- CWF ---
    ("CWF counts", "huge count", struct.pack(">i", HUGE) + COUNTED_SEED[4:], UNREADABLE, "left"),
    ("CWF counts", "negative count", b"\xff" * 4 + COUNTED_SEED[4:], UNREADABLE, "-1"),
    ("CWF counts", "huge length", COUNTED_SEED[:16] + struct.pack(">i", HUGE) + b"hello", UNREADABLE, "left|bytes"),
    ("CWF counts", "negative length", COUNTED_SEED[:16] + b"\xff" * 4 + b"hello", UNREADABLE, "-1"),
    ("CWF counts", "bad digit", COUNTED_SEED.replace(b"\x00\x99\x9c", b"\x00\xa9\x9c"), UNREADABLE, "(?i)a9"),
    ("CWF counts", "bad sign", COUNTED_SEED.replace(b"\x00\x99\x9c", b"\x00\x99\x99"), UNREADABLE, "9999"),
    ("CWF counts", "cut", COUNTED_SEED[:-1], UNREADABLE, "left|bytes"),
    ("CWF counts", "more behind", COUNTED_SEED + b"x" * 1_000_000, UNREADABLE, "goes on"),
    (
        "CWF numbers",
        "bad zoned digit",
        NUMBERS_SEED.replace(b"0042", b"00x2"),
        UNREADABLE,
        "ZONED, offset 4: .*byte 3, X'78'",
    ),
    (
        "CWF numbers",
        "bad zoned sign",
        NUMBERS_SEED.replace(b"0042", b"004\xff"),
        UNREADABLE,
        "ZONED, offset 4: .*byte 4, X'FF'",
    ),
    (
        "CWF numbers",
        "no separate sign",
        NUMBERS_SEED.replace(b"-007", b"0007"),
        UNREADABLE,
        "SEPARATE, offset 8: .*no sign",
    ),
    (
        "CWF numbers",
        "blanks for a number",
        NUMBERS_SEED.replace(b"0042", b"    "),
        UNREADABLE,
        "ZONED, offset 4: .*byte 1, X'20'",
    ),
    (
        "CWF dates",
        "no day of the year",
        DATES_SEED.replace(b"\x06\x0c", b"\x99\x9c"),
        UNREADABLE,
        "DAY, offset 0: .*999",
    ),
    ("CWF dates", "no day", DATES_SEED.replace(b"20040229", b"20030229", 1), UNREADABLE, "TEXT.*day"),
    ("CWF dates", "no time", DATES_SEED.replace(b"235959", b"256060"), UNREADABLE, "AT.*hour"),
    ("CWF dates", "no nibbles", b"\xff" * 4 + DATES_SEED[4:], UNREADABLE, "(?i)ff"),
    ("CWF choice", "no boolean", b"S\x00\x01\x23\x4c\0\0\0\x07", UNREADABLE, "07"),
    ("CWF choice", "cut", b"S\x00\x01", UNREADABLE, "offset 1: .*2 left"),
    ("CWF copybook", "cut", READERS["CWF copybook"].seeds[0][:-1], UNREADABLE, "TRAILER, offset 68: .*1 left"),
    ("CWF copybook", "noise", b"\xff" * 500, UNREADABLE, "ORDER_ID, offset 0: "),
    ("CWF synchronized", "cut", READERS["CWF synchronized"].seeds[0][:7], UNREADABLE, "TOTAL, offset 4: .*3 left"),
    # --- TDS ---
    ("TDS all", "delimiters", b"*" * MANY, UNREADABLE, "offset 1: N is missing"),
    ("TDS all", "repeats", b"x*" + b"a/1;" * MANY + b"*1", UNREADABLE, "M.I, offset 37: there may be 9"),
    ("TDS all", "cut", b"x*a/1", UNREADABLE, "offset 5: B is missing"),
    ("TDS all", "huge number", b"x*a/" + b"9" * 100_000 + b"*1", UNREADABLE, "999"),
    ("TDS all", "huge exponent", b"x*a/1*1E+999999999", UNREADABLE, "1E"),
    ("TDS tagged", "unknown tags", b"a:1" + b"*z:1" * MANY, UNREADABLE, "offset 4: M expects"),
    ("TDS tagged", "repeats", b"a:1" + b"*b:1*c:1" * MANY, UNREADABLE, "offset 76: B may be here"),
    ("TDS tagged", "separators", b"a" + b":" * MANY + b"*", UNREADABLE, "offset 200001: "),
    ("TDS tagged", "cut", b"a:1*b:2", UNREADABLE, "offset 7: C .*missing"),
    ("TDS tagged fixed", "repeats", b"a12" * MANY, UNREADABLE, "offset 15: A may be here 5"),
    ("TDS tagged fixed", "cut", b"a12a3", UNREADABLE, "A.2., offset 4: "),
    ("TDS encoded", "huge length", b"a999xyz", UNREADABLE, "999"),
    ("TDS encoded", "no length", b"a-01xyz", UNREADABLE, "-01"),
    ("TDS encoded", "repeats", b"a000" * MANY, UNREADABLE, "offset 20: A may be here 5"),
    ("TDS variable", "delimiters", b"*" * MANY, UNREADABLE, "offset 5: .*should end"),
    ("TDS variable", "cut", b"one*2", UNREADABLE, "M.B, offset 4: "),
    ("TDS pattern", "no match", b"a" * MANY, UNREADABLE, "offset 4: N is missing"),
    ("TDS pattern", "huge number", b"abc" + b"9" * MANY, UNREADABLE, "999"),
    ("TDS fixed", "cut", b"422024022", UNREADABLE, "M.D, offset 2: "),
    ("TDS fixed", "no date", b"4220240231", UNREADABLE, "20240231"),
    ("TDS fixed", "repeats", b"4220240229" + b"abc" * MANY, UNREADABLE, "offset 22: .*should end"),
    ("TDS quoted", "quotes", b"'" * (MANY + 1), UNREADABLE, "never closed"),
    ("TDS quoted", "escapes", b"?" * (MANY + 1), UNREADABLE, "offset 200000: .*nothing behind"),
    ("TDS orders", "lines", b"\n" * MANY, UNREADABLE, "offset 0: customer is missing"),
    ("TDS records", "noise", b"\xff" * MANY, UNREADABLE, "offset 0: .*nothing in code page"),
]
# --- SWIFT ---
for _number, _seed in (
    ("103", READERS["SWIFT MT103"]),
    ("543", READERS["SWIFT MT543"]),
    ("940", READERS["SWIFT MT940"]),
):
    _name = f"SWIFT MT{_number}"
    ATTACKS += [
        (_name, "cut", _seed.seeds[0][:-30], UNREADABLE, "a block should begin here"),
        (_name, "no text", _seed.seeds[0][: _seed.seeds[0].index(b"{4:")], UNREADABLE, "Block4, offset 76: .*missing"),
        (_name, "braces", b"{1:" * DEEP, UNREADABLE, "Block4, offset 300000: .*missing"),
        (_name, "text without end", _seed.seeds[0].replace(b"\r\n-}", b""), UNREADABLE,
         "Block4 has no end|block 4 has no end"),
        (_name, "unknown fields", framed(_number, ["99Z:x"] * MANY), UNREADABLE, "99Z"),
        (_name, "fields", framed(_number, ["20:X"] * MANY), UNREADABLE, "Block4, offset 8[18]: .*field 20"),
        (_name, "colons", framed(_number, [":" * MANY]), UNREADABLE, "Block4, offset 81: "),
        (_name, "another type", _seed.seeds[0].replace(b"{2:I" + _number.encode(), b"{2:I999"), UNREADABLE, "999"),
    ]  # fmt: skip
ATTACKS += [
    ("SWIFT MT543", "sequences without end", framed("543", ["16R:GENL"] * MANY), UNREADABLE, "GENL, offset 92: "),
    (
        "SWIFT MT543",
        "sequences that end twice",
        mt543().replace(b"16S:GENL", b"16S:GENL\r\n:16S:GENL"),
        UNREADABLE,
        "16S",
    ),
]


def test_attacks_have_names_of_their_own() -> None:
    named = [(name, what) for name, what, *_ in ATTACKS]
    assert len(set(named)) == len(named)
    # A BLOB may be any bytes, so nothing can be wrong with them; what is wrong with its tree is below.
    assert {name for name, _ in named} == set(READERS) - {"BLOB"}


@for_each(("name", "body", "error", "words"), [
    pytest.param(name, body, error, words, id=f"{name}, {what}") for name, what, body, error, words in ATTACKS
])  # fmt: skip
def test_hostile_message_is_refused_soon(name: str, body: bytes, error: type[EntrepotError], words: str) -> None:
    reader = READERS[name]
    for seed in reader.seeds:
        reader.read(seed)
    begun = time.process_time()
    with pytest.raises(error, match=words) as refused:
        reader.read(body)
    assert time.process_time() - begun < SOON_S
    wrong = refused.value
    assert type(wrong) is error
    assert len(str(wrong)) < 2_000
    if isinstance(wrong, MessageUnreadable | MessageTooComplex):
        assert wrong.path
        assert 0 <= wrong.offset <= len(body)
        assert f"offset {wrong.offset}" in str(wrong)


# --- trees that cannot be written ------------------------------------------------------------------------


def _deep(name: str) -> Folder:
    found = find_domain(name)
    assert found is not None
    folder = Folder(found)
    place: Element = folder
    for _ in range(2_000):
        place = place.add("Data" if place is folder else "a")
    return folder


@pytest.mark.parametrize("name", ["XML", "XMLNS", "XMLNSC", "SOAP", "JSON", "MIME", "MQRFH2"])
def test_tree_deeper_than_any_message_is_not_written(name: str) -> None:
    folder = _deep(name)
    begun = time.process_time()
    with pytest.raises(MessageUnwritable) as refused:
        folder.render()
    assert time.process_time() - begun < SOON_S
    assert refused.value.path


@pytest.mark.parametrize("value", ["text", 1, 1.5])
def test_blob_of_anything_but_bytes_is_not_written(value: Any) -> None:
    found = find_domain("BLOB")
    assert found is not None
    folder = Folder(found)
    folder.add("BLOB", value)
    with pytest.raises(MessageUnwritable, match="BLOB"):
        folder.render()


# --- models ------------------------------------------------------------------------------------------


def _yaml(text: str) -> None:
    loaded = read_notation(text, "m.yaml")
    for format_name in loaded.formats:
        for message in loaded.messages:
            _compile(MessageFormat(loaded, message, format_name))


def _copybook(text: str) -> None:
    loaded = read_copybook(text, "m.cpy")
    for message in loaded.messages:
        _compile(MessageFormat(loaded, message, "CWF1"))


def _mxsd(text: str) -> None:
    loaded = read_mxsd(text.encode(), "nowhere/m.mxsd")
    for format_name in loaded.formats:
        for message in loaded.messages:
            _compile(MessageFormat(loaded, message, format_name))


def _schema(inner: str) -> str:
    return f'<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema">{inner}</xsd:schema>'


def _element(inner: str, name: str = "M") -> str:
    return (
        f'<xsd:element name="{name}"><xsd:complexType><xsd:sequence>{inner}</xsd:sequence></xsd:complexType>'
        "</xsd:element>"
    )


_TYPES = "set: s\nformats: {X: xml}\n"
_NINES = "9" * 5000
_NEXT = [*(f"T{n}" for n in range(1, 40)), "string"]
"""Types that each use the next one twice: 2⁴⁰ elements in all."""
_DOUBLING = "".join(f"  T{n}:\n    - a: {name}\n    - b: {name}\n" for n, name in enumerate(_NEXT))
_DOUBLING_XSD = "".join(
    f'<xsd:complexType name="T{n}"><xsd:sequence><xsd:element name="a" type="{name}"/>'
    f'<xsd:element name="b" type="{name}"/></xsd:sequence></xsd:complexType>'
    for n, name in enumerate([*_NEXT[:-1], "xsd:string"])
)
_LEVELS = "".join(f"{' ' * 11}{level:02} G{level} OCCURS 999 TIMES.\n" for level in range(2, 12))

MODELS: list[tuple[Callable[[str], None], str, str, str]] = [
    (_yaml, "aliases", "a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(50)), "alias|anchor"),
    (_yaml, "depth", "messages:\n  M:\n" + "".join(f"{'  ' * n}    - a{n}:\n" for n in range(400)), "deep|nest"),
    (_yaml, "depth of brackets", "messages: " + "[" * DEEP, "deep|nest"),
    (_yaml, "depth of braces", "messages: " + "{a: " * DEEP, "deep|nest"),
    (_yaml, "types that use themselves", _TYPES + "types:\n  T:\n    - a: T\nmessages:\n  M:\n    - a: T\n",
     "itself|T"),
    (_yaml, "types that double", f"{_TYPES}types:\n{_DOUBLING}messages:\n  M:\n    - a: T0\n", "more than"),
    (_yaml, "huge occurs", _TYPES + "messages:\n  M:\n    - a[99999999999]: string\n", "99999999999"),
    (_yaml, "cut", "messages: {M: [", "this is no YAML"),
    (_yaml, "tabs", "messages:\n\tM: []\n", ":2:1: this is no YAML"),
    (_yaml, "noise", "\x00\x01\x02", "control characters"),
    (_yaml, "python object", "messages: !!python/object/apply:os.system ['true']\n", "tag|!!python"),
    (_yaml, "pattern that never ends", "formats: {T: {kind: tds, separation: use data pattern}}\nmessages:\n  M:\n"
     "    - a: string\n      tds: {pattern: '(a+)+b'}\n", "for ever"),
    (_yaml, "long date pattern", _TYPES + f"messages:\n  M:\n    - a: date\n      format: {'yyyyMMdd' * 50_000}\n",
     "longer"),
    (_yaml, "too large", "# " + "x" * (17 * 1024 * 1024), "more than"),
    (_copybook, "repeats", "       01 R.\n          05 A OCCURS 99999999999 TIMES PIC X.\n", "99999999999"),
    (_copybook, "long picture", "       01 R.\n          05 A PIC X(99999999999).\n", "PIC|X\\(|picture"),
    (_copybook, "many digits", "       01 R.\n          05 A PIC " + "9" * 100_000 + ".\n",
     ":2:20: a number has at most 31 digits"),
    (_copybook, "redefines itself", "       01 R.\n          05 A PIC X.\n          05 B REDEFINES B PIC X.\n", "B"),
    (_copybook, "open literal", "       01 R.\n          05 A PIC X VALUE '" + "x" * 40 + "\n" * 10,
     ":2:28: a literal begins here"),
    (_copybook, "cut", "       01 R.\n          05 A PIC", ":2:19: .*picture is expected"),
    (_copybook, "nothing", "", "no data description"),
    (_copybook, "lines", "\n" * 300_000, "lines"),
    (_copybook, "noise", "\x00\xff" * 1000, ":1:1: a level number"),
    (_mxsd, "document type", "<!DOCTYPE a>" + _schema(""), "DOCTYPE"),
    (_mxsd, "entity bomb", BOMB.decode(), "DOCTYPE|[Ee]ntity"),
    (_mxsd, "depth", "<a>" * DEEP, "depth in document"),
    (_mxsd, "depth of groups", _schema(_element("<xsd:sequence>" * 240 + "</xsd:sequence>" * 240)), "deep|depth"),
    (_mxsd, "types that double", _schema(_DOUBLING_XSD + '<xsd:element name="M" type="T0"/>'), "more than"),
    (_mxsd, "type of itself", _schema('<xsd:complexType name="T"><xsd:sequence><xsd:element name="a" type="T"/>'
     '</xsd:sequence></xsd:complexType><xsd:element name="M" type="T"/>'), "itself|T"),
    (_mxsd, "huge occurs", _schema(_element(f'<xsd:element name="a" type="xsd:string" maxOccurs="{_NINES}"/>')),
     "maxOccurs '999"),
    (_mxsd, "unknown type", _schema(_element('<xsd:element name="a" type="Nowhere"/>')), "Nowhere"),
    (_mxsd, "cut", _schema(_element(""))[:-10], "this is no XML"),
    (_mxsd, "no schema", "<a/>", "no XML Schema"),
]  # fmt: skip


@for_each(("load", "text", "words"), [
    pytest.param(load, text, words, id=f"{load.__name__[1:]}, {what}") for load, what, text, words in MODELS
])  # fmt: skip
def test_hostile_model_is_refused_soon(load: Callable[[str], None], text: str, words: str) -> None:
    begun = time.process_time()
    with pytest.raises(ModelInvalid, match=words) as refused:
        load(text)
    assert time.process_time() - begun < SOON_S
    wrong = refused.value
    assert str(wrong).split(": ", 1)[1].startswith(f"{wrong.file}:{wrong.line}:{wrong.column}: ")
    assert wrong.line >= 1
    assert len(str(wrong)) < 2_000


def test_repeats_in_repeats_fit_into_no_message() -> None:
    text = "       01 R.\n" + _LEVELS + " " * 13 + "12 A PIC X.\n"
    codec = _compile(MessageFormat(read_copybook(text, "m.cpy"), "R", "CWF1"))
    begun = time.process_time()
    with pytest.raises(MessageUnreadable, match="bytes"):
        codec.parse(b"x" * 1_000_000, 819, 273)
    assert time.process_time() - begun < SOON_S


@pytest.mark.parametrize("lines", [["20:X" + "\r\n" * MANY], ["20:" + "x" * MANY], ["20:X", "20:X"] * (MANY // 10)])
def test_swift_text_that_is_lax_is_not_valid(lines: list[str]) -> None:
    begun = time.process_time()
    problems = validate(framed("103", lines))
    assert time.process_time() - begun < SOON_S
    assert problems
    assert "20" in problems[0]


def test_schemas_that_include_each_other_are_read_once(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.xsd").write_text(
            _schema(f'<xsd:include schemaLocation="{other}.xsd"/>' + _element("", name.upper()))
        )
    assert set(load_mxsd(tmp_path / "a.xsd").messages) == {"A", "B"}


# --- memory ------------------------------------------------------------------------------------------

DANGEROUS = [index for index, (_, what, *_) in enumerate(ATTACKS) if any(
    word in what for word in ("bomb", "depth", "huge", "flood", "repeats", "delimiters", "fields", "entities")
)]  # fmt: skip
GROWTH_MIB_MAX = 150

_CHILD = """
import json, mmap, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
from hostile.test_hostile_models import ATTACKS, DANGEROUS, READERS
from entrepot.errors import EntrepotError
for reader in READERS.values():
    for seed in reader.seeds:
        reader.read(seed)
size = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (size + %d * 1024 * 1024,) * 2)
for index in DANGEROUS:
    name, what, body, error, _ = ATTACKS[index]
    try:
        READERS[name].read(body)
        print(name, what, "was read")
    except error:
        pass
    except BaseException as wrong:
        print(name, what, type(wrong).__name__, wrong)
print("done", len(DANGEROUS))
"""


def test_hostile_messages_are_refused_in_little_memory() -> None:
    """Where a process has only so much memory, none of them is refused for another reason than its own."""
    paths = [str(Path(__file__).parents[1])]
    child = subprocess.run(
        [sys.executable, "-c", _CHILD % GROWTH_MIB_MAX, json.dumps(paths)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "MALLOC_ARENA_MAX": "1"}, check=False,
    )  # fmt: skip
    assert child.stdout.split("\n")[:-1] == [f"done {len(DANGEROUS)}"], child.stderr[-2000:]


def test_walk_brings_everything() -> None:
    """What is left for later would not be attacked at all."""
    read = READERS["XMLNSC"].read(b"<a><b><c>1</c></b></a>")
    assert walk(read).first("a").first("b")._children  # type: ignore[union-attr]
