# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.server.amqp.codec import (
    Byte,
    Character,
    Described,
    Malformed,
    Symbol,
    Symbols,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode,
    decode_all,
    encode,
)
from folding import for_each

PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.uuids(),
    st.text("abc:", max_size=300).map(Symbol),
    st.integers(0, 255).map(UByte),
    st.integers(0, 2**16 - 1).map(UShort),
    st.integers(0, 2**32 - 1).map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**40), 2**40).map(Timestamp),
    st.characters(exclude_categories=["Cs"]).map(Character),
)
KEYS = st.one_of(st.text(max_size=20), st.integers(0, 2**32 - 1).map(UInt))
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(KEYS, inner, max_size=5),
        st.builds(Described, st.integers(0, 2**64 - 1).map(ULong), inner),
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_was_encoded_is_decoded(value: Any) -> None:
    assert decode_all(encode(value)) == value


@given(VALUES, st.integers(0, 500))
def test_a_value_that_is_cut_off_is_malformed(value: Any, keep: int) -> None:
    data = encode(value)
    if keep < len(data):
        with pytest.raises(Malformed):
            decode_all(data[:keep])


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_malformed(data: bytes) -> None:
    try:
        _, end = decode(data)
    except Malformed:
        return
    assert end <= len(data)


@for_each(
    ("data", "value"),
    [
        (b"\x56\x01", True),
        (b"\x50\x05", 5),
        (b"\x54\xff", -1),
        (b"\x55\x80", -128),
        (b"\x61\xff\xfe", -2),
        (b"\x72\x3f\x80\x00\x00", 1.0),
        (b"\x73\x00\x00\x00A", "A"),
        (b"\x98" + bytes(range(16)), UUID(bytes=bytes(range(16)))),
        (b"\xb1\x00\x00\x00\x02hi", "hi"),
        (b"\xe0\x05\x03\x50\x01\x02\x03", [1, 2, 3]),
        (b"\xf0\x00\x00\x00\x0a\x00\x00\x00\x02\xa3\x01a\x02bc", ["a", "bc"]),
        (b"\xe0\x05\x02\x00\x53\x01\x41", [Described(1, True), Described(1, True)]),
        (b"\xc1\x04\x02\x50\x01\x40", {1: None}),
    ],
)
def test_forms_that_others_write(data: bytes, value: Any) -> None:
    assert decode_all(data) == value


def test_symbols_are_an_array() -> None:
    assert decode_all(encode(Symbols(("PLAIN", "ANONYMOUS")))) == ["PLAIN", "ANONYMOUS"]


@for_each(
    "data",
    [
        b"",
        b"\x3f",
        b"\x56\x02",
        b"\xa1\x02\xff\xff",
        b"\x73\x00\x11\x00\x00",
        b"\x73\x00\x00\xd8\x00",
        b"\xc0\x02\x02\x40",
        b"\xc0\x03\x01\x40\x40",
        b"\xc1\x02\x01\x40",
        b"\xc1\x03\x02\x45\x40",
        b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff",
    ],
    ids=bytes.hex,
)
def test_malformed_values(data: bytes) -> None:
    with pytest.raises(Malformed):
        decode_all(data)


def test_elements_without_width_are_limited() -> None:
    with pytest.raises(Malformed, match="elements"):
        decode_all(b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x41")


def test_deep_values_are_malformed() -> None:
    value: Any = None
    for _ in range(100):
        value = [value]
    with pytest.raises(Malformed, match="deep"):
        decode_all(encode(value))
    with pytest.raises(Malformed, match="deep"):
        decode_all(b"\x00" * 5000)
