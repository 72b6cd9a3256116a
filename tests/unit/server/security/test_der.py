# SPDX-License-Identifier: Apache-2.0
"""Certificates made by hand, of no more than what leads to the subject."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.server.security.der import NoCertificate, subject
from folding import for_each

SEQUENCE, SET, INTEGER, OID, VERSION = 0x30, 0x31, 0x02, 0x06, 0xA0
UTF8, NUMERIC, PRINTABLE, T61, IA5, UNIVERSAL, BMP = 0x0C, 0x12, 0x13, 0x14, 0x16, 0x1C, 0x1E
COMMON_NAME, COUNTRY = b"\x55\x04\x03", b"\x55\x04\x06"


def element(tag: int, *contents: bytes, size_bytes: int = 0) -> bytes:
    """An element with its length in the short form, or in the long one with so many bytes."""
    content = b"".join(contents)
    if not size_bytes and len(content) < 128:
        return bytes([tag, len(content)]) + content
    size_bytes = size_bytes or 2
    return bytes([tag, 0x80 | size_bytes]) + len(content).to_bytes(size_bytes, "big") + content


def pair(value: bytes = b"app7", *, tag: int = UTF8, oid: bytes = COMMON_NAME, **tags: int) -> bytes:
    return element(tags.get("of_pair", SEQUENCE), element(tags.get("of_oid", OID), oid), element(tag, value))


def certificate(*pairs: bytes, fields_more: int = 1, version: bool = True, **tags: int) -> bytes:
    """A subject with one group of these pairs, between what stands before it and so many fields behind it."""
    names = element(tags.get("of_names", SEQUENCE), element(tags.get("of_group", SET), *(pairs or [pair()])))
    fields = [element(INTEGER, b"\x07"), *[element(SEQUENCE)] * 3, names, *[element(SEQUENCE)] * fields_more]
    if version:
        fields.insert(0, element(VERSION, element(INTEGER, b"\x02")))
    inner = element(tags.get("of_fields", SEQUENCE), *fields)
    return element(tags.get("of_all", SEQUENCE), inner, element(SEQUENCE))


@pytest.mark.parametrize("version", [True, False])
@pytest.mark.parametrize("fields_more", [0, 1, 3])
def test_the_subject_is_found_with_and_without_a_version_and_whatever_follows(version: bool, fields_more: int) -> None:
    assert subject(certificate(version=version, fields_more=fields_more)) == [[("CN", "app7")]]


def test_parts_of_one_group_stay_together() -> None:
    country = pair(b"NL", tag=PRINTABLE, oid=COUNTRY)
    assert subject(certificate(pair(), country)) == [[("CN", "app7"), ("C", "NL")]]


@pytest.mark.parametrize("place", ["of_all", "of_fields", "of_names", "of_group"])
def test_an_element_of_another_kind_is_refused_at_every_level(place: str) -> None:
    with pytest.raises(NoCertificate):
        subject(certificate(**{place: 0x04}))


@pytest.mark.parametrize("place", ["of_pair", "of_oid"])
def test_a_part_of_another_kind_is_refused(place: str) -> None:
    with pytest.raises(NoCertificate):
        subject(certificate(pair(**{place: 0x04})))


@pytest.mark.parametrize("wrong", [0x04, 0x02, 0x30])
def test_a_value_that_is_no_text_is_refused(wrong: int) -> None:
    with pytest.raises(NoCertificate):
        subject(certificate(pair(tag=wrong)))


@for_each(
    ("tag", "content", "text"),
    [
        (UTF8, "Zoë €".encode(), "Zoë €"),
        (PRINTABLE, b"app 7", "app 7"),
        (IA5, b"a@b", "a@b"),
        (NUMERIC, b"42", "42"),
        (T61, b"Zo\xeb", "Zoë"),
        (BMP, b"\0Z\x20\xac", "Z€"),
        (UNIVERSAL, b"\0\0\0Z\0\1\xf6\0", "Z😀"),
    ],
)
def test_every_kind_of_text_is_read(tag: int, content: bytes, text: str) -> None:
    assert subject(certificate(pair(content, tag=tag))) == [[("CN", text)]]


@for_each(("tag", "content"), [(UTF8, b"\xff"), (PRINTABLE, b"\x80"), (BMP, b"\0"), (UNIVERSAL, b"\0\0\0")])
def test_text_that_is_not_of_its_kind_is_refused(tag: int, content: bytes) -> None:
    with pytest.raises(NoCertificate):
        subject(certificate(pair(content, tag=tag)))


@for_each(
    ("oid", "name"),
    [
        (b"\x55\x04\x03", "CN"),
        (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19", "DC"),
        (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01", "E"),
        (b"\x00", "0.0"),
        (b"\x27", "0.39"),
        (b"\x28", "1.0"),
        (b"\x4f", "1.39"),
        (b"\x50", "2.0"),
        (b"\x78", "2.40"),
        (b"\x88\x37\x03", "2.999.3"),
        (b"\x2a\x81\x00", "1.2.128"),
        (b"\x2a\x7f", "1.2.127"),
        (b"\x2a" + b"\x01" * 63, "1.2" + ".1" * 63),
    ],
)
def test_object_identifiers_are_names_or_numbers(oid: bytes, name: str) -> None:
    assert subject(certificate(pair(oid=oid))) == [[(name, "app7")]]


@for_each("oid", [b"", b"\x80", b"\x55\x04\x83", b"\x2a" + b"\x01" * 64])
def test_what_is_no_object_identifier_is_refused(oid: bytes) -> None:
    with pytest.raises(NoCertificate):
        subject(certificate(pair(oid=oid)))


@pytest.mark.parametrize("size_bytes", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [0, 1, 127, 128, 255])
def test_lengths_may_have_up_to_four_bytes(size_bytes: int, length: int) -> None:
    value = element(UTF8, b"x" * length, size_bytes=size_bytes)
    part = element(SEQUENCE, element(OID, COMMON_NAME), value)
    assert subject(certificate(part)) == [[("CN", "x" * length)]]


@pytest.mark.parametrize("length", [*range(8), 126, 127])
def test_lengths_below_128_are_one_byte(length: int) -> None:
    part = element(SEQUENCE, element(OID, COMMON_NAME), bytes([UTF8, length]), b"x" * length)
    assert subject(certificate(part)) == [[("CN", "x" * length)]]


def broken_value(*content: int) -> bytes:
    """A certificate whose only value is these bytes, its own length included."""
    return certificate(element(SEQUENCE, element(OID, COMMON_NAME), bytes(content)))


@for_each(
    "content",
    [
        [UTF8],  # no length
        [UTF8, 1],  # no content
        [UTF8, 2, 0x41],  # too little
        [UTF8, 0x80, 0, 0],  # of no known length
        [UTF8, 0x81],  # no length in the long form
        [UTF8, 0x82, 0],  # half a length
        [UTF8, 0x82, 0, 1],  # a length, and no content
        [UTF8, 0x85, 0, 0, 0, 0, 1, 0x41],  # a length of five bytes
    ],
)
def test_a_length_that_leads_beyond_the_end_is_refused(content: list[int]) -> None:
    with pytest.raises(NoCertificate):
        subject(broken_value(*content))


@for_each(
    "wrong",
    [
        b"",
        certificate() * 2,
        certificate() + b"\0",
        element(SEQUENCE),
        element(SEQUENCE, element(SEQUENCE)),
        element(SEQUENCE, element(SEQUENCE, element(INTEGER, b"\x07"), *[element(SEQUENCE)] * 3)),
        element(SEQUENCE, element(SEQUENCE, element(VERSION), element(INTEGER), *[element(SEQUENCE)] * 3)),
        certificate(element(SEQUENCE, element(OID, COMMON_NAME))),
        certificate(element(SEQUENCE, element(OID, COMMON_NAME), element(UTF8, b"a"), element(UTF8, b"b"))),
    ],
)
def test_what_has_too_few_or_too_many_parts_is_refused(wrong: Any) -> None:
    with pytest.raises(NoCertificate):
        subject(wrong)


def test_a_certificate_may_name_nobody() -> None:
    fields = [element(INTEGER, b"\x07"), *[element(SEQUENCE)] * 5]
    assert subject(element(SEQUENCE, element(SEQUENCE, *fields))) == []
