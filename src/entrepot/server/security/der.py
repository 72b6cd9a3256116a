# SPDX-License-Identifier: Apache-2.0
"""The subject of a certificate out of its bytes, for when the ssl module hands over nothing else.

Only as much of X.509 as leads to the subject:

    Certificate ::= SEQUENCE { tbsCertificate SEQUENCE {
        version [0] (optional), serialNumber, signature, issuer, validity, subject, ... } ... }
    subject ::= SEQUENCE OF SET OF SEQUENCE { type OBJECT IDENTIFIER, value string }
"""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.server.security.distinguished_name import Part

_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x12: "ascii", 0x1C: "utf-32-be",
              0x1E: "utf-16-be"}  # fmt: skip
"""The kinds of strings: UTF8, Printable, T61, IA5, Numeric, Universal and BMP."""

ATTRIBUTES = {
    "2.5.4.3": "CN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.12": "T",
    "2.5.4.17": "PC",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "E",
}


class NoCertificate(ValueError):
    """These bytes are none."""


def subject(certificate: bytes) -> list[list[Part]]:
    """The groups of parts of the subject, in the order of the certificate.

    Raises:
        NoCertificate: The bytes are no certificate.
    """
    outermost = list(_elements(certificate))
    if len(outermost) != 1:
        raise NoCertificate
    content = list(_elements(_inside(outermost[0], _SEQUENCE)))
    fields = list(_elements(_inside(content[0], _SEQUENCE))) if content else []
    at = 5 if fields and fields[0][0] == _VERSION else 4
    if len(fields) <= at:
        raise NoCertificate
    return [
        [_part(_inside(pair, _SEQUENCE)) for pair in _elements(_inside(group, _SET))]
        for group in _elements(_inside(fields[at], _SEQUENCE))
    ]


def _part(pair: bytes) -> Part:
    elements = list(_elements(pair))
    if len(elements) != 2:
        raise NoCertificate
    name = _object_identifier(_inside(elements[0], _OID))
    tag, value = elements[1]
    try:
        return ATTRIBUTES.get(name, name), value.decode(_ENCODINGS[tag])
    except (KeyError, UnicodeDecodeError):
        raise NoCertificate from None


def _object_identifier(content: bytes) -> str:
    numbers = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] & 0x80 or len(content) > 64:
        raise NoCertificate
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and contents of elements that follow one another."""
    at = 0
    while at < len(content):
        if at + 2 > len(content):
            raise NoCertificate
        tag, size = content[at], content[at + 1]
        at += 2
        if size & 0x80:
            size_bytes = size & 0x7F
            if not 1 <= size_bytes <= 4:
                raise NoCertificate
            # Where bytes of the size are missing, so is all that it counts: that is refused below.
            size = int.from_bytes(content[at : at + size_bytes], "big")
            at += size_bytes
        if at + size > len(content):
            raise NoCertificate
        yield tag, content[at : at + size]
        at += size


def _inside(element: tuple[int, bytes], tag: int) -> bytes:
    if element[0] != tag:
        raise NoCertificate
    return element[1]
