# SPDX-License-Identifier: Apache-2.0
"""One simple element of the model, ready to be read and written in one code page and byte order.

Every field can be read from its bytes and written to them. Integers and floats
that need no more than that also have a code of Python's `struct`, so that a run
of fields is unpacked at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from entrepot.models.cwf import dates, numbers, strings
from entrepot.models.cwf.byte_orders import ByteOrders, Endian
from entrepot.models.cwf.logical_values import (
    as_boolean,
    as_bytes,
    as_decimal,
    as_float,
    as_text,
    digits_of,
    finisher,
    logical_value,
    scaler,
    unscaler,
)
from entrepot.models.cwf.numbers import Read, Write
from entrepot.models.cwf.strings import CodePage
from entrepot.models.logical import DATE_FORMATS, NUMBERS, CwfField, CwfFormat, Simple, ValueType

LENGTH_MAX = 2**31 - 1
REST_OF_MESSAGE = -1
"""As a length: everything up to the end of the message."""

STORAGES = ("string", "binary", "integer", "packed", "external", "float", "hexfloat", "boolean")

_STRUCT_CODES = {(1, True): "b", (1, False): "B", (2, True): "h", (2, False): "H", (4, True): "i", (4, False): "I",
                 (8, True): "q", (8, False): "Q"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """What a message brings along: its code page and byte orders; and the defaults of the format."""

    page: CodePage
    orders: ByteOrders
    format: CwfFormat


@dataclass(frozen=True, slots=True)
class FieldCodec:
    """A field's reader and writer."""

    size: int | None
    """In bytes; None where it depends on the message."""
    read: Read
    write: Write
    code: str = ""
    """The field's code in `struct`, when the value needs nothing else."""
    endian: Endian | None = None
    text: tuple[bytes, str] | None = None
    """Padding and code page of text that stands at the left, when the value needs nothing else."""


def field_codec(simple: Simple, field: CwfField, setting: Setting) -> FieldCodec:
    """
    Raises:
        ValueError: The model says what cannot be; says what.
    """
    storage = storage_of(simple, field)
    wanted = simple.type
    codec: FieldCodec
    if storage == "binary":
        codec = _binary(field)
    elif storage == "boolean":
        codec = _boolean(field, setting)
    elif storage == "string":
        codec = _text(simple, field, setting)
    elif wanted in DATE_FORMATS:
        codec = _date(simple, field, storage, setting)
    else:
        codec = _number(wanted, field, storage, setting)
    return codec if field.null_policy == "none" else _nullable(codec, simple, field, storage, setting)


def storage_of(simple: Simple, field: CwfField) -> str:
    """How it is stored: what the model says, but BLOBs and booleans are themselves where it says no more than string.

    Raises:
        ValueError: The type cannot be stored so.
    """
    storage, wanted = field.storage, simple.type
    if storage == "string" and wanted is ValueType.BINARY:
        return "binary"
    if storage == "string" and wanted is ValueType.BOOLEAN:
        return "boolean"
    possible: tuple[ValueType, ...]
    if storage == "binary":
        possible = (ValueType.BINARY,)
    elif storage == "boolean":
        possible = (ValueType.BOOLEAN,)
    elif storage == "string":
        possible = (ValueType.STRING, *NUMBERS, *DATE_FORMATS)
    elif storage in ("packed", "external"):
        possible = (*NUMBERS, *DATE_FORMATS)
    elif storage == "integer":
        possible = (*NUMBERS, ValueType.DATETIME)
    elif storage in ("float", "hexfloat"):
        possible = (ValueType.FLOAT, ValueType.DECIMAL)
    else:
        raise ValueError(f"storage {storage!r} is none of {', '.join(STORAGES)}")
    if wanted not in possible:
        raise ValueError(f"a {wanted.value} cannot be stored as {storage}")
    return storage


def _fixed(field: CwfField, storage: str) -> int:
    """The length of a field that must have one."""
    if field.length_from:
        raise ValueError(f"only strings and binary take their length from another member, not {storage}")
    if not 1 <= field.length <= LENGTH_MAX:
        raise ValueError(f"length {field.length} is not from 1 to {LENGTH_MAX}")
    return field.length


def _varying(field: CwfField) -> bool:
    if field.length_from or field.length == REST_OF_MESSAGE:
        return True
    if not 1 <= field.length <= LENGTH_MAX:
        raise ValueError(f"length {field.length} is not from 1 to {LENGTH_MAX}, and no member gives it")
    return False


# --- one function for each way of storing ------------------------------------------------------------------------


def _binary(field: CwfField) -> FieldCodec:
    if _varying(field):
        return FieldCodec(None, bytes, as_bytes)
    length = field.length

    def write(value: Any) -> bytes:
        raw = value if value.__class__ is bytes else as_bytes(value)
        if len(raw) != length:
            raise ValueError(f"it has {len(raw)} bytes, and the model says {length}")
        return raw

    return FieldCodec(length, bytes, write)


def _boolean(field: CwfField, setting: Setting) -> FieldCodec:
    true, false = setting.format.boolean_true, setting.format.boolean_false
    if field.length and field.length < len(true):
        # The values are big-endian numbers of four bytes; a shorter field has their last bytes.
        true, false = true[-field.length :], false[-field.length :]
    if len(true) != len(false) or not true or true == false or field.length not in (0, len(true)):
        raise ValueError("the format's values for true and false do not fit the length")

    def read(raw: bytes) -> bool:
        if raw == true:
            return True
        if raw == false:
            return False
        raise ValueError(f"X'{raw.hex().upper()}' is neither true nor false")

    return FieldCodec(len(true), read, lambda value: true if as_boolean(value) else false)


def _text(simple: Simple, field: CwfField, setting: Setting) -> FieldCodec:
    page, wanted = setting.page, simple.type
    if field.justify not in ("left", "right", "none"):
        raise ValueError(f"justification {field.justify!r} is none of left, right, none")
    pad = strings.pad_bytes(field.padding, page)
    size: int | None = field.length
    if field.length_unit not in ("bytes", "characters"):
        raise ValueError(f"length unit {field.length_unit!r} is none of bytes, characters")
    if _varying(field):
        size = None
    elif field.length_unit == "characters":
        size = field.length * page.unit or None
    read = strings.text_reader(page, pad, field.justify)
    write: Write
    if size is not None:
        write = strings.text_writer(page, size, pad, field.justify)
    else:
        write = lambda value: page.encode(as_text(value))  # noqa: E731
    if wanted is ValueType.STRING:
        return FieldCodec(size, read, write, text=(pad, page.codec) if size and field.justify == "left" else None)
    if wanted in DATE_FORMATS:
        pattern = dates.date_pattern(wanted, field.format, simple.format)
        return FieldCodec(
            size, dates.date_text_reader(read, pattern, wanted), dates.date_text_writer(write, pattern, wanted)
        )
    return FieldCodec(size, _number_text(read, wanted, field.decimals), write)


def _number_text(read: Read, wanted: ValueType, decimals: int) -> Read:
    if decimals:
        raise ValueError("a number that is stored as a string has its decimal point in it: decimals must be 0")
    return lambda raw: logical_value(read(raw), wanted)


def _date(simple: Simple, field: CwfField, storage: str, setting: Setting) -> FieldCodec:
    wanted, length = simple.type, _fixed(field, storage)
    if storage == "integer":
        if length not in (4, 8):
            raise ValueError("a time in binary has 4 bytes (seconds since 1970) or 8 (milliseconds)")
        endian = setting.orders.integer
        return FieldCodec(length, dates.counted_reader(endian, length), dates.counted_writer(endian, length))
    pattern = dates.date_pattern(wanted, field.format, simple.format)
    if storage == "packed":
        dates.check_packed(pattern, length)
        endian = setting.orders.packed
        return FieldCodec(
            length,
            dates.packed_date_reader(endian, pattern, wanted),
            dates.packed_date_writer(length, endian, pattern, wanted),
        )
    pad = strings.pad_bytes("0", setting.page)
    read = dates.date_text_reader(setting.page.decode, pattern, wanted)
    write = strings.text_writer(setting.page, length, pad, "right")
    return FieldCodec(length, read, dates.date_text_writer(write, pattern, wanted))


def _number(wanted: ValueType, field: CwfField, storage: str, setting: Setting) -> FieldCodec:
    length, decimals = _fixed(field, storage), field.decimals
    if storage in ("float", "hexfloat"):
        return _float(wanted, length, storage, setting)
    if wanted is ValueType.INTEGER and decimals > 0:
        raise ValueError(f"an integer has no {decimals} decimals: make it a decimal")
    if abs(decimals) > 40:
        raise ValueError(f"{decimals} decimals are too many")
    if storage == "integer":
        return _integer(wanted, field, length, setting)
    if length > 32:
        raise ValueError(f"length {length} is more than the 32 that a number may have")
    finish, digits = finisher(wanted, decimals), digits_of(decimals)
    if storage == "packed":
        endian = setting.orders.packed
        return FieldCodec(
            length,
            numbers.packed_reader(endian, field.signed, finish),
            numbers.packed_writer(length, endian, field.signed, digits),
        )
    form = zoned_format(field, length, setting.page)
    return FieldCodec(length, numbers.zoned_reader(form, finish), numbers.zoned_writer(form, digits))


def _integer(wanted: ValueType, field: CwfField, length: int, setting: Setting) -> FieldCodec:
    if length > 8:
        raise ValueError(f"length {length} is not from 1 to 8, as integers have")
    endian = setting.orders.integer
    read = numbers.binary_reader(endian, field.signed, scaler(wanted, field.decimals))
    write = numbers.binary_writer(length, endian, field.signed, unscaler(field.decimals))
    plain = wanted is ValueType.INTEGER and not field.decimals
    return FieldCodec(length, read, write, _STRUCT_CODES.get((length, field.signed), "") if plain else "", endian)


def zoned_format(field: CwfField, length: int, page: CodePage) -> numbers.ZonedFormat:
    """
    Raises:
        ValueError: The model says what cannot be; says what.
    """
    if not page.ebcdic and not page.ascii:
        raise ValueError(f"external decimals cannot be written in code page {page.ccsid}")
    if field.sign not in ("trailing", "leading", "trailing separate", "leading separate"):
        raise ValueError(f"sign {field.sign!r} is none of trailing, leading, trailing separate, leading separate")
    if field.sign.endswith("separate") and field.signed and length < 2:
        raise ValueError("a separate sign needs a byte beside the digits")
    # What a string has when the model says nothing makes no sense for digits, so it means what COBOL does.
    said_nothing = (field.justify, field.padding) == ("left", " ")
    justify, padding = ("right", "0") if said_nothing else (field.justify, field.padding)
    pad = strings.pad_bytes(padding, page)
    if len(pad) != 1:
        raise ValueError(f"padding {field.padding!r} is more than one byte")
    return numbers.ZonedFormat(
        length=length,
        sign=field.sign,
        signed=field.signed,
        ebcdic=page.ebcdic,
        ebcdic_sign=field.ebcdic_sign,
        justify=justify,
        padding=pad,
    )


def _float(wanted: ValueType, length: int, storage: str, setting: Setting) -> FieldCodec:
    if length not in (4, 8):
        raise ValueError(f"length {length} is neither 4 nor 8, as floats have")
    finish: Callable[[float], Any] = float if wanted is ValueType.FLOAT else _exact
    if storage == "hexfloat" or setting.orders.hexadecimal:
        return FieldCodec(
            length,
            lambda raw: finish(numbers.read_hexfloat(raw)),
            lambda value: numbers.write_hexfloat(as_float(value), length),
        )
    endian = setting.orders.floating
    code = "f" if length == 4 else "d"
    shape = struct.Struct((">" if endian == "big" else "<") + code)

    def write(value: Any) -> bytes:
        try:
            return shape.pack(as_float(value))
        except OverflowError:
            raise ValueError(f"{value} is too large for {length} bytes") from None

    return FieldCodec(
        length,
        lambda raw: finish(shape.unpack(raw)[0]),
        write,
        code if wanted is ValueType.FLOAT else "",
        endian,
    )


def _exact(value: float) -> Any:
    return as_decimal(value)


# --- null ----------------------------------------------------------------------------------------------------------


def _nullable(codec: FieldCodec, simple: Simple, field: CwfField, storage: str, setting: Setting) -> FieldCodec:
    read, write = codec.read, codec.write
    if field.null_policy == "logical":
        null = logical_value(field.null_value, simple.type)

        def read_logical(raw: bytes) -> Any:
            value = read(raw)
            return None if value == null else value

        return FieldCodec(codec.size, read_logical, lambda value: write(null if value is None else value))
    if field.null_policy not in ("fill", "literal"):
        raise ValueError(f"null policy {field.null_policy!r} is none of none, fill, literal, logical")
    if codec.size is None:
        raise ValueError("null by its bytes needs a fixed length")
    stored = null_bytes(codec.size, field, storage, setting.page)
    return FieldCodec(
        codec.size,
        lambda raw: None if raw == stored else read(raw),
        lambda value: stored if value is None else write(value),
    )


def null_bytes(size: int, field: CwfField, storage: str, page: CodePage) -> bytes:
    """What a field holds that is null by its bytes."""
    if field.null_policy == "fill":
        unit = strings.pad_bytes(field.null_value or field.padding, page)
        return strings.fill(unit, size)
    raw = strings.literal_bytes(field.null_value, page)
    if len(raw) > size or (len(raw) != size and storage not in ("string", "external")):
        raise ValueError(f"null value {field.null_value!r} has {len(raw)} bytes, and the field has {size}")
    padding = strings.fill(strings.pad_bytes(field.padding, page), size - len(raw))
    return raw + padding if field.justify != "right" else padding + raw
