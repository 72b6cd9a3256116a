# SPDX-License-Identifier: Apache-2.0
"""One field in many records at once, by numpy: the same values as the field's codec reads one by one.

    C2 76 A0 00 | 12 34 56 7D | ...    raw: an array of the field's bytes, one item a record
                    ▼
    values, nulls, unreadable, doubtful

NumberCells, booleans, BLOBs and text in ASCII characters are read without a loop
in Python. What numpy cannot do as the codec does it (dates, numbers in text,
hexadecimal floats, code pages of several bytes) is read by the codec itself,
once for each different content. `doubtful` is what only a reading of the whole
record can decide: a number beyond 64 bits. Needs numpy (extra `spark`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrepot.models.cwf.byte_orders import Endian
from entrepot.models.cwf.fields import FieldCodec, Setting, null_bytes, storage_of, zoned_format
from entrepot.models.cwf.numbers import NEGATIVE_NIBBLES, SIGN_NIBBLES, ZonedFormat, zoned_meanings
from entrepot.models.cwf.steps import PROBLEMS
from entrepot.models.cwf.strings import CodePage, pad_bytes
from entrepot.models.logical import CwfField, Simple, ValueType

Array = NDArray[Any]
Mask = NDArray[np.bool_]

_DIGITS_MAX = 18
"""So many digits always fit into 64 bits."""
_SCALE_MAX = 18
_INT64_MAX = 2**63 - 1
_EXACT_MAX = 2**53
"""Up to here a whole number is a float without loss, so dividing by a power of ten rounds once."""
_EXACT_SCALE_MAX = 22
_WRONG = 0xFF
_ASCII = bytes(range(128)) + b"\xff" * 128


@dataclass(slots=True, kw_only=True)
class Cells:
    """The values of a field, record after record; where one is null or unreadable, the value has no meaning."""

    nulls: Mask | None = None
    unreadable: Mask | None = None
    doubtful: Mask | None = None


@dataclass(slots=True, kw_only=True)
class NumberCells(Cells):
    """64-bit integers, floats or booleans, as the array's type says; decimals as integers, `scale` digits behind."""

    values: Array
    scale: int = 0


@dataclass(slots=True, kw_only=True)
class BlobCells(Cells):
    """Bytes, each as long as the others."""

    width: int
    data: Array
    """Their bytes, one behind the other."""


@dataclass(slots=True, kw_only=True)
class TextCells(Cells):
    """ASCII text, each as long as the others, with padding that is still to be taken off; and all other texts."""

    width: int
    data: Array
    """Their bytes, one behind the other."""
    padding: str
    """Nothing where it stays."""
    left: bool
    """The text is on the left, and its padding behind it."""
    others: dict[int, str] = field(default_factory=dict)
    """Texts with other characters, by their place; padding is off."""


@dataclass(slots=True, kw_only=True)
class ValueCells(Cells):
    """Values as the tree has them."""

    values: list[Any]


ReadCells = Callable[[Array], Cells]
"""From an array of a field's bytes, of type V and its length, to what they mean."""


def cells_reader(simple: Simple, physical: CwfField, codec: FieldCodec, setting: Setting) -> ReadCells:
    """The reader of a field of fixed length whose codec was made, so that its model is right."""
    read = None if physical.null_policy == "logical" else _direct_reader(simple, physical, codec, setting)
    if read is None:
        # Nulls are the codec's matter then.
        return _each_reader(codec)
    if physical.null_policy == "none":
        return read
    assert codec.size is not None
    stored = null_bytes(codec.size, physical, storage_of(simple, physical), setting.page)
    return _nullable_reader(read, stored)


def _direct_reader(simple: Simple, physical: CwfField, codec: FieldCodec, setting: Setting) -> ReadCells | None:
    """By numpy; None where that cannot be."""
    storage, wanted = storage_of(simple, physical), simple.type
    width = codec.size
    assert width is not None
    if storage == "binary":
        return lambda raw: BlobCells(width=width, data=raw.view(np.uint8))
    if storage == "boolean":
        return _boolean_reader(width, setting)
    if storage == "string":
        return _text_reader(physical, codec, setting.page) if wanted is ValueType.STRING else None
    if wanted not in (ValueType.INTEGER, ValueType.DECIMAL, ValueType.FLOAT):
        return None
    if storage in ("float", "hexfloat"):
        if storage == "hexfloat" or setting.orders.hexadecimal or wanted is not ValueType.FLOAT:
            return None
        kind = f"{'>' if setting.orders.floating == 'big' else '<'}f{width}"
        return _float_reader(kind)
    finish = _finisher(wanted, physical.decimals)
    if finish is None:
        return None
    if storage == "integer":
        return _integer_reader(width, physical.signed, setting.orders.integer, finish)
    if storage == "packed":
        return _packed_reader(width, physical.signed, setting.orders.packed, finish)
    form = zoned_format(physical, width, setting.page)
    return _zoned_reader(form, finish) if form.zero_padded else None


def _nullable_reader(read: ReadCells, stored: bytes) -> ReadCells:
    def read_nullable(raw: Array) -> Cells:
        nulls = (_bytes_of(raw) == np.frombuffer(stored, np.uint8)).all(axis=1)
        cells = read(raw)
        cells.nulls = nulls
        # The codec does not look at the bytes of a null any further.
        cells.unreadable = None if cells.unreadable is None else cells.unreadable & ~nulls
        cells.doubtful = None if cells.doubtful is None else cells.doubtful & ~nulls
        return cells

    return read_nullable


def _each_reader(codec: FieldCodec) -> ReadCells:
    """One by one, by the codec."""
    read_one = codec.read

    def read(raw: Array) -> Cells:
        known: dict[bytes, Any] = {}
        values: list[Any] = []
        wrong: list[int] = []
        for place, content in enumerate(raw.tolist()):
            try:
                value = known[content]
            except KeyError:
                try:
                    value = known[content] = read_one(content)
                except PROBLEMS:
                    value = None
                    wrong.append(place)
            values.append(value)
        return ValueCells(values=values, unreadable=_at(wrong, len(values)))

    return read


def _at(places: list[int], count: int) -> Mask | None:
    if not places:
        return None
    mask = np.zeros(count, np.bool_)
    mask[places] = True
    return mask


def _float_reader(kind: str) -> ReadCells:
    def read(raw: Array) -> Cells:
        with np.errstate(invalid="ignore"):  # A signalling NaN is a NaN.
            return NumberCells(values=raw.view(kind).astype(np.float64))

    return read


def _bytes_of(raw: Array) -> Array:
    """A row of bytes for each item."""
    return raw.view(np.uint8).reshape(len(raw), raw.dtype.itemsize)


def _boolean_reader(width: int, setting: Setting) -> ReadCells:
    true, false = (
        np.frombuffer(value[-width:], np.uint8) for value in (setting.format.boolean_true, setting.format.boolean_false)
    )

    def read(raw: Array) -> Cells:
        content = _bytes_of(raw)
        is_true = (content == true).all(axis=1)
        return NumberCells(values=is_true, unreadable=~is_true & ~(content == false).all(axis=1))

    return read


# --- text ----------------------------------------------------------------------------------------------------


def _text_reader(physical: CwfField, codec: FieldCodec, page: CodePage) -> ReadCells | None:
    table = _ascii_table(page)
    width = codec.size
    assert width is not None
    if table is None:
        return None
    padding, left = "", physical.justify == "left"
    if physical.justify != "none":
        pad = pad_bytes(physical.padding, page)
        if len(pad) != 1 or table[pad[0]] > 0x7F or table.count(table[pad[0]]) != 1:
            return None
        padding = chr(table[pad[0]])
    translated = table != _ASCII
    read_one = codec.read

    def read(raw: Array) -> Cells:
        data: Array = raw.view(np.uint8)
        if translated:
            data = np.frombuffer(data.tobytes().translate(table), np.uint8)
        cells = TextCells(width=width, data=data, padding=padding, left=left)
        if data.max(initial=0) <= 0x7F:
            return cells
        cells.data = data.copy()
        rows = cells.data.reshape(len(raw), width)
        wrong: list[int] = []
        for place in np.flatnonzero((rows > 0x7F).any(axis=1)).tolist():
            try:
                cells.others[place] = read_one(raw[place].tobytes())
            except PROBLEMS:
                wrong.append(place)
            rows[place] = 0x20
        cells.unreadable = _at(wrong, len(raw))
        return cells

    return read


def _ascii_table(page: CodePage) -> bytes | None:
    """For each byte of a page its ASCII character, or 0xFF; None where characters have several bytes."""
    if page.codec == "utf-8":
        return _ASCII
    if page.unit != 1:
        return None
    every = bytes(range(256))
    characters = [every[byte : byte + 1].decode(page.codec, "replace") for byte in every]
    if every.decode(page.codec, "replace") != "".join(characters) or any(len(one) != 1 for one in characters):
        return None
    return bytes(ord(one) if one.isascii() else _WRONG for one in characters)


# --- numbers -------------------------------------------------------------------------------------------------

Finish = Callable[[Array, Mask | None], NumberCells]
"""Whole numbers of 64 bits, and which of them were written as negative, to the values that they stand for."""


def _finisher(wanted: ValueType, decimals: int) -> Finish | None:
    """As `logical_values.finisher` and `scaler`; None where numpy could not do the same."""
    power = -min(decimals, 0)
    scale = max(decimals, 0)
    if power > _SCALE_MAX or scale > (_EXACT_SCALE_MAX if wanted is ValueType.FLOAT else _SCALE_MAX):
        return None

    def raised(values: Array) -> tuple[Array, Mask | None]:
        """With the zeros that are not stored."""
        if not power:
            return values, None
        limit = _INT64_MAX // 10**power
        beyond = (values > limit) | (values < -limit)
        return np.where(beyond, 0, values) * 10**power, beyond

    def exact(values: Array, negative: Mask | None) -> NumberCells:
        del negative
        values, beyond = raised(values)
        return NumberCells(values=values, scale=scale, doubtful=beyond)

    def floating(values: Array, negative: Mask | None) -> NumberCells:
        whole, beyond = raised(values)
        found = whole.astype(np.float64)
        if scale:
            beyond = (whole > _EXACT_MAX) | (whole < -_EXACT_MAX)
            found /= 10.0**scale
        if negative is not None:
            found = np.where(negative, -np.abs(found), found)  # a zero may be written as negative
        return NumberCells(values=found, doubtful=beyond)

    return floating if wanted is ValueType.FLOAT else exact


def _both(one: Mask | None, other: Mask | None) -> Mask | None:
    """Where either is true."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _integer_reader(width: int, signed: bool, endian: Endian, finish: Finish) -> ReadCells:
    def read(raw: Array) -> Cells:
        if width in (1, 2, 4, 8):
            found = raw.view(f"{'>' if endian == 'big' else '<'}{'i' if signed else 'u'}{width}")
        else:
            # The bytes that there are become the highest of eight, and are shifted down with their sign.
            content = _bytes_of(raw)
            wide = np.zeros((len(raw), 8), np.uint8)
            wide[:, :width] = content if endian == "big" else content[:, ::-1]
            found = wide.view(">i8" if signed else ">u8").reshape(-1).astype(np.int64 if signed else np.uint64)
            found = found >> found.dtype.type(8 * (8 - width))
        beyond = found > _INT64_MAX if width == 8 and not signed else None
        cells = finish(found.astype(np.int64), None)
        cells.doubtful = _both(cells.doubtful, beyond)
        return cells

    return read


def _table(meaning: Callable[[int], int]) -> Array:
    return np.array([meaning(byte) for byte in range(256)], np.uint8)


_PAIRS = _table(lambda byte: 10 * (byte >> 4) + (byte & 15) if byte >> 4 < 10 and byte & 15 < 10 else _WRONG)
_LAST_DIGIT = _table(lambda byte: byte >> 4 if byte >> 4 < 10 and f"{byte & 15:x}" in SIGN_NIBBLES else _WRONG)
_MINUS = np.array([f"{byte & 15:x}" in NEGATIVE_NIBBLES for byte in range(256)])


class _Total:
    """A number that grows from its highest digits to its lowest."""

    def __init__(self, count: int) -> None:
        self.value = np.zeros(count, np.int64)
        self.wrong = np.zeros(count, np.bool_)
        self.beyond: Mask | None = None

    def add(self, digits: Array, power: int, left: int) -> None:
        """`digits` has `_WRONG` where there are none; so many digits are still to come behind these."""
        wrong = digits == _WRONG
        self.wrong |= wrong
        if left >= _DIGITS_MAX:
            self.beyond = _both(self.beyond, digits != 0)
        elif power == 100 and left == _DIGITS_MAX - 1:
            # The pair has the 19th digit from the end and the 18th.
            self.beyond = _both(self.beyond, digits > 9)
            self.value += np.where(digits > 9, 0, digits)
        else:
            self.value *= power
            self.value += digits

    def cells(self, negative: Mask | None, finish: Finish) -> NumberCells:
        value = self.value if negative is None else np.where(negative, -self.value, self.value)
        cells = finish(value, negative)
        cells.unreadable = self.wrong
        doubtful = _both(self.beyond, cells.doubtful)
        cells.doubtful = None if doubtful is None else doubtful & ~self.wrong
        return cells


def _packed_reader(width: int, signed: bool, endian: Endian, finish: Finish) -> ReadCells:
    def read(raw: Array) -> Cells:
        content = _bytes_of(raw)
        if endian == "little":
            content = content[:, ::-1]
        total = _Total(len(raw))
        for place in range(width - 1):
            total.add(_PAIRS[content[:, place]], 100, 2 * (width - place) - 3)
        last = content[:, width - 1]
        total.add(_LAST_DIGIT[last], 10, 0)
        negative = _MINUS[last]
        if not signed:
            # Minus zero is a zero without a sign as well.
            nonzero = total.value != 0 if total.beyond is None else (total.value != 0) | total.beyond
            total.wrong |= negative & nonzero
        return total.cells(negative, finish)

    return read


def _zoned_reader(form: ZonedFormat, finish: Finish) -> ReadCells:
    zero = 0xF0 if form.ebcdic else 0x30
    plain = _table(lambda byte: byte - zero if zero <= byte <= zero + 9 else _WRONG)
    meanings = zoned_meanings(form)
    signed_digits = _table(lambda byte: int(meanings[byte][1]) if byte in meanings else _WRONG)
    minus = np.array([byte in meanings and meanings[byte][0] for byte in range(256)])
    separate, overpunched = form.separate, form.signed and not form.separate
    sign_place = -1 if not form.signed else 0 if form.leading else form.length - 1
    digit_places = [place for place in range(form.length) if not (separate and place == sign_place)]
    plus_byte, minus_byte = (sign[0] for sign in form.signs)

    def read(raw: Array) -> Cells:
        content = _bytes_of(raw)
        total = _Total(len(raw))
        left = len(digit_places)
        negative: Mask | None = None
        for place in digit_places:
            left -= 1
            byte = content[:, place]
            total.add((signed_digits if overpunched and place == sign_place else plain)[byte], 10, left)
        if overpunched:
            negative = minus[content[:, sign_place]]
        elif separate:
            sign = content[:, sign_place]
            negative = sign == minus_byte
            total.wrong |= ~negative & (sign != plus_byte)
        return total.cells(negative, finish)

    return read
