# SPDX-License-Identifier: Apache-2.0
"""AMQP's types as bytes, both ways.

    decode(b"\\xa1\\x02hi") == ("hi", 4)
    encode("hi") == b"\\xa1\\x02hi"

What Python has no type for has one here. All widths of whole numbers are
read as `int`; to write one of a certain width, say so (`UInt(5)`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

_DEPTH_MAX = 32
# Elements of no width cost a sender nothing, but us.
_EMPTY_ELEMENTS_MAX = 4096


class Malformed(Exception):
    """Bytes that are not AMQP's; stays inside this room."""


class Symbol(str):
    __slots__ = ()


class UByte(int):
    __slots__ = ()


class UShort(int):
    __slots__ = ()


class UInt(int):
    __slots__ = ()


class ULong(int):
    __slots__ = ()


class Byte(int):
    __slots__ = ()


class Int(int):
    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970."""

    __slots__ = ()


class Character(str):
    __slots__ = ()


class Decimal(bytes):
    """A decimal floating point number, as it came: nobody here counts with it."""

    __slots__ = ()


class Symbols(tuple[str, ...]):
    """An array of symbols, AMQP's form of several where one is expected."""

    __slots__ = ()


class Described(NamedTuple):
    descriptor: Any
    value: Any


# --- decoding -----------------------------------------------------------------------------------


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The value that begins at a place, and the place behind it.

    Raises:
        Malformed: There is no whole value of a known type.
    """
    try:
        return DECODERS[data[at]](data, at + 1, 0)
    except (IndexError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise Malformed(str(error)) from error


def decode_all(data: bytes) -> Any:
    """The one value that bytes hold."""
    value, end = decode(data)
    if end != len(data):
        raise Malformed(f"{len(data) - end} bytes behind the value")
    return value


_Decoder = Callable[[bytes, int, int], tuple[Any, int]]


def _unknown(data: bytes, at: int, _depth: int) -> tuple[Any, int]:
    raise Malformed(f"no type has the code {data[at - 1]:#04x}")


def _constant(value: Any) -> _Decoder:
    return lambda _data, at, _depth: (value, at)


def _fixed(form: str, kind: Callable[[Any], Any] | None = None) -> _Decoder:
    packed = struct.Struct(form)
    unpack_from, size = packed.unpack_from, packed.size
    if kind is None:
        return lambda data, at, _depth: (unpack_from(data, at)[0], at + size)
    return lambda data, at, _depth: (kind(unpack_from(data, at)[0]), at + size)


def _bytes(data: bytes, at: int, size: int) -> bytes:
    end = at + size
    if end > len(data):
        raise Malformed(f"{size} bytes announced, {len(data) - at} there")
    return data[at:end]


def _wide(data: bytes, at: int) -> int:
    return int.from_bytes(_bytes(data, at, 4), "big")


def _boolean(data: bytes, at: int, _depth: int) -> tuple[bool, int]:
    if data[at] > 1:
        raise Malformed(f"a boolean of {data[at]}")
    return data[at] == 1, at + 1


def _character(data: bytes, at: int, _depth: int) -> tuple[Character, int]:
    number = _wide(data, at)
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise Malformed(f"no character has the number {number}")
    return Character(chr(number)), at + 4


def _binary8(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise Malformed("binary beyond the end")
    return data[at + 1 : end], end


def _binary32(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
    value = _bytes(data, at + 4, _wide(data, at))
    return value, at + 4 + len(value)


def _string8(data: bytes, at: int, _depth: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise Malformed("string beyond the end")
    return data[at + 1 : end].decode(), end


def _string32(data: bytes, at: int, depth: int) -> tuple[str, int]:
    value, at = _binary32(data, at, depth)
    return value.decode(), at


def _symbol8(data: bytes, at: int, depth: int) -> tuple[Symbol, int]:
    value, at = _binary8(data, at, depth)
    return Symbol(value.decode("ascii")), at


def _symbol32(data: bytes, at: int, depth: int) -> tuple[Symbol, int]:
    value, at = _binary32(data, at, depth)
    return Symbol(value.decode("ascii")), at


def _uuid(data: bytes, at: int, _depth: int) -> tuple[UUID, int]:
    return UUID(bytes=_bytes(data, at, 16)), at + 16


def _decimal(size: int) -> _Decoder:
    return lambda data, at, _depth: (Decimal(_bytes(data, at, size)), at + size)


def _described(data: bytes, at: int, depth: int) -> tuple[Described, int]:
    if depth > _DEPTH_MAX:
        raise Malformed("nested too deep")
    descriptor, at = DECODERS[data[at]](data, at + 1, depth + 1)
    value, at = DECODERS[data[at]](data, at + 1, depth + 1)
    return Described(descriptor, value), at


def _items(data: bytes, at: int, end: int, count: int, depth: int) -> list[Any]:
    if end > len(data) or count > end - at:
        raise Malformed(f"{count} items in {end - at} bytes")
    if depth > _DEPTH_MAX:
        raise Malformed("nested too deep")
    items: list[Any] = []
    append = items.append
    for _ in range(count):
        code = data[at]
        if code == 0x40:
            append(None)
            at += 1
        else:
            value, at = DECODERS[code](data, at + 1, depth + 1)
            append(value)
    if at != end:
        raise Malformed("items and their size disagree")
    return items


def _list8(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    end = at + 1 + data[at]
    return _items(data, at + 2, end, data[at + 1], depth), end


def _list32(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    end = at + 4 + _wide(data, at)
    return _items(data, at + 8, end, _wide(data, at + 4), depth), end


def _mapped(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise Malformed("a map with half a pair")
    # A key that cannot be one raises TypeError, which `decode` turns into Malformed.
    return dict(zip(items[::2], items[1::2], strict=True))


def _map8(data: bytes, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    items, at = _list8(data, at, depth)
    return _mapped(items), at


def _map32(data: bytes, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    items, at = _list32(data, at, depth)
    return _mapped(items), at


def _array8(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    end = at + 1 + data[at]
    return _elements(data, at + 2, end, data[at + 1], depth), end


def _array32(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    end = at + 4 + _wide(data, at)
    return _elements(data, at + 8, end, _wide(data, at + 4), depth), end


def _elements(data: bytes, at: int, end: int, count: int, depth: int) -> list[Any]:
    if end > len(data) or at >= end:
        raise Malformed("an array beyond the end")
    if depth > _DEPTH_MAX:
        raise Malformed("nested too deep")
    descriptor, described = None, data[at] == 0
    if described:
        descriptor, at = DECODERS[data[at + 1]](data, at + 2, depth + 1)
    decoder = DECODERS[data[at]]
    at += 1
    if count > max(end - at, _EMPTY_ELEMENTS_MAX):
        raise Malformed(f"{count} elements in {end - at} bytes")
    items: list[Any] = []
    for _ in range(count):
        value, at = decoder(data, at, depth + 1)
        items.append(Described(descriptor, value) if described else value)
    if at != end:
        raise Malformed("elements and their size disagree")
    return items


DECODERS: list[_Decoder] = [_unknown] * 256
"""By type code: takes the bytes, the place behind the code and the depth. Only `decode` tidies up errors."""
for _code, _decoder in {
    0x00: _described,
    0x40: _constant(None),
    0x41: _constant(True),
    0x42: _constant(False),
    0x43: _constant(0),
    0x44: _constant(0),
    0x45: lambda _data, at, _depth: ([], at),
    0x50: _fixed(">B"),
    0x51: _fixed(">b"),
    0x52: _fixed(">B"),
    0x53: _fixed(">B"),
    0x54: _fixed(">b"),
    0x55: _fixed(">b"),
    0x56: _boolean,
    0x60: _fixed(">H"),
    0x61: _fixed(">h"),
    0x70: _fixed(">I"),
    0x71: _fixed(">i"),
    0x72: _fixed(">f"),
    0x73: _character,
    0x74: _decimal(4),
    0x80: _fixed(">Q"),
    0x81: _fixed(">q"),
    0x82: _fixed(">d"),
    0x83: _fixed(">q", Timestamp),
    0x84: _decimal(8),
    0x94: _decimal(16),
    0x98: _uuid,
    0xA0: _binary8,
    0xA1: _string8,
    0xA3: _symbol8,
    0xB0: _binary32,
    0xB1: _string32,
    0xB3: _symbol32,
    0xC0: _list8,
    0xC1: _map8,
    0xD0: _list32,
    0xD1: _map32,
    0xE0: _array8,
    0xF0: _array32,
}.items():
    DECODERS[_code] = _decoder


# --- encoding -----------------------------------------------------------------------------------

NULL = b"\x40"
_LONG = struct.Struct(">q")
_DOUBLE = struct.Struct(">d")
_SIZE_AND_COUNT = struct.Struct(">II")


def encode(value: Any) -> bytes:
    """A value as bytes; a plain `int` is written as AMQP's int or, if it is too large for that, long."""
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        raise TypeError(f"AMQP has no {type(value).__name__}")
    return encoder(value)


def encode_list(fields: list[bytes]) -> bytes:
    """A list of encoded fields; those that are null at its end are left out."""
    while fields and fields[-1] == NULL:
        fields.pop()
    return _encode_items(fields)


def _encode_items(fields: list[bytes]) -> bytes:
    body = b"".join(fields)
    size = len(body)
    if size == 0:
        return b"\x45"
    if size < 255 and len(fields) < 256:
        return b"\xc0" + bytes((size + 1, len(fields))) + body
    return b"\xd0" + _SIZE_AND_COUNT.pack(size + 4, len(fields)) + body


def encode_map(parts: list[bytes]) -> bytes:
    """A map of encoded keys and values, one behind the other."""
    body = b"".join(parts)
    size = len(body)
    if size < 255 and len(parts) < 256:
        return b"\xc1" + bytes((size + 1, len(parts))) + body
    return b"\xd1" + _SIZE_AND_COUNT.pack(size + 4, len(parts)) + body


def encode_described(code: int, value: bytes) -> bytes:
    """An encoded value under one of AMQP's own descriptors."""
    return b"\x00\x53" + bytes((code,)) + value


def encode_binary(value: bytes) -> bytes:
    size = len(value)
    return (b"\xa0" + bytes((size,)) if size < 256 else b"\xb0" + size.to_bytes(4, "big")) + value


def encode_string(value: str) -> bytes:
    data = value.encode()
    size = len(data)
    return (b"\xa1" + bytes((size,)) if size < 256 else b"\xb1" + size.to_bytes(4, "big")) + data


def encode_symbol(value: str) -> bytes:
    data = value.encode("ascii")
    size = len(data)
    return (b"\xa3" + bytes((size,)) if size < 256 else b"\xb3" + size.to_bytes(4, "big")) + data


def encode_uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    return b"\x52" + bytes((value,)) if value < 256 else b"\x70" + value.to_bytes(4, "big")


def encode_ulong(value: int) -> bytes:
    if value == 0:
        return b"\x44"
    return b"\x53" + bytes((value,)) if value < 256 else b"\x80" + value.to_bytes(8, "big")


def encode_timestamp(value: int) -> bytes:
    return b"\x83" + _LONG.pack(value)


def _encode_int(value: int) -> bytes:
    if -128 <= value < 128:
        return b"\x54" + (value & 0xFF).to_bytes(1, "big")
    if -(2**31) <= value < 2**31:
        return b"\x71" + (value & 0xFFFFFFFF).to_bytes(4, "big")
    return b"\x81" + _LONG.pack(value)


def _encode_symbols(value: tuple[str, ...]) -> bytes:
    names = [name.encode("ascii") for name in value]
    body = b"\xb3" + b"".join(len(name).to_bytes(4, "big") + name for name in names)
    return b"\xf0" + _SIZE_AND_COUNT.pack(len(body) + 4, len(names)) + body


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: NULL,
    bool: lambda value: b"\x41" if value else b"\x42",
    int: _encode_int,
    Int: _encode_int,
    float: lambda value: b"\x82" + _DOUBLE.pack(value),
    str: encode_string,
    Character: lambda value: b"\x73" + ord(value).to_bytes(4, "big"),
    bytes: encode_binary,
    Symbol: encode_symbol,
    Symbols: _encode_symbols,
    UByte: lambda value: b"\x50" + value.to_bytes(1, "big"),
    UShort: lambda value: b"\x60" + value.to_bytes(2, "big"),
    UInt: encode_uint,
    ULong: encode_ulong,
    Byte: lambda value: b"\x51" + value.to_bytes(1, "big", signed=True),
    Timestamp: encode_timestamp,
    UUID: lambda value: b"\x98" + value.bytes,
    list: lambda value: _encode_items([encode(item) for item in value]),
    dict: lambda value: encode_map([encode(part) for pair in value.items() for part in pair]),
    Described: lambda value: b"\x00" + encode(value.descriptor) + encode(value.value),
}
