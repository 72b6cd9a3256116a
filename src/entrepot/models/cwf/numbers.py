# SPDX-License-Identifier: Apache-2.0
"""Numbers as COBOL stores them: binary, packed, zoned, and System/390's hexadecimal floats.

    -12345.67  packed, 2 decimals    12 34 56 7D
    -1234567   zoned, EBCDIC         F1 F2 F3 F4 F5 F6 D7
    -1234567   zoned, ASCII          "123456w", or "123456P" with EBCDIC's signs
    -118.625   hexadecimal float     C2 76 A0 00

Each function makes a reader (bytes to value) or a writer (value to bytes) that
raises ValueError with a reason. Readers of decimals give the digits to `finish`,
writers take digits from it, so that INTEGER, DECIMAL and FLOAT share them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from entrepot.models.cwf.byte_orders import Endian

Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]
Finish = Callable[[bool, str], Any]
"""Whether it is negative and its digits, to the value."""
Digits = Callable[[Any], tuple[bool, str]]
"""A value, to whether it is negative and its digits without leading zeros or point."""

NEGATIVE_NIBBLES = "db"
SIGN_NIBBLES = "abcdef"


# --- binary ----------------------------------------------------------------------------------------------------


def binary_reader(endian: Endian, signed: bool, scaled: Callable[[int], Any]) -> Read:
    return lambda raw: scaled(int.from_bytes(raw, endian, signed=signed))


def binary_writer(length: int, endian: Endian, signed: bool, unscaled: Callable[[Any], int]) -> Write:
    low, high = (-(1 << 8 * length - 1), (1 << 8 * length - 1) - 1) if signed else (0, (1 << 8 * length) - 1)

    def write(value: Any) -> bytes:
        number = unscaled(value)
        if not low <= number <= high:
            raise ValueError(f"{value} is not from {low} to {high}, which is what {length} bytes hold")
        return number.to_bytes(length, endian, signed=signed)

    return write


# --- packed ----------------------------------------------------------------------------------------------------


def packed_reader(endian: Endian, signed: bool, finish: Finish) -> Read:
    backwards = endian == "little"

    def read(raw: bytes) -> Any:
        text = (raw[::-1] if backwards else raw).hex()
        digits, sign = text[:-1], text[-1]
        if not digits.isdigit() or sign not in SIGN_NIBBLES:
            raise ValueError(_packed_problem(text))
        negative = sign in NEGATIVE_NIBBLES
        if negative and not signed and digits.strip("0"):
            raise ValueError(f"X'{text.upper()}' is negative, and the model says that it has no sign")
        return finish(negative, digits)

    return read


def _packed_problem(text: str) -> str:
    shown = text.upper() if len(text) <= 40 else f"{text[:40].upper()}..."
    for place, nibble in enumerate(text[:-1], 1):
        if not nibble.isdigit():
            return f"X'{shown}' is not packed: half-byte {place} is {nibble.upper()} and no digit"
    return f"X'{shown}' is not packed: it ends with {text[-1].upper()} and not with a sign from A to F"


def packed_writer(length: int, endian: Endian, signed: bool, digits_of: Digits) -> Write:
    places = 2 * length - 1
    backwards = endian == "little"

    def write(value: Any) -> bytes:
        negative, digits = digits_of(value)
        if len(digits) > places:
            raise ValueError(f"{value} has more than {places} digits")
        if negative and not signed:
            raise ValueError(f"{value} is negative, and the model says that it has no sign")
        raw = bytes.fromhex(digits.zfill(places) + ("d" if negative else "c" if signed else "f"))
        return raw[::-1] if backwards else raw

    return write


def packed_digits(raw: bytes, endian: Endian) -> str:
    """All digits of a packed number, for dates.

    Raises:
        ValueError: It is not packed, or negative.
    """
    text = (raw[::-1] if endian == "little" else raw).hex()
    if not text[:-1].isdigit() or text[-1] not in SIGN_NIBBLES:
        raise ValueError(_packed_problem(text))
    if text[-1] in NEGATIVE_NIBBLES:
        raise ValueError(f"X'{text.upper()}' is negative, and no date is")
    return text[:-1]


# --- zoned -----------------------------------------------------------------------------------------------------


def _overpunched(positive: bytes, negative: bytes) -> dict[int, tuple[bool, str]]:
    """What a byte with a digit and a sign means."""
    signs = {byte: (False, str(digit)) for digit, byte in enumerate(positive)}
    return signs | {byte: (True, str(digit)) for digit, byte in enumerate(negative)}


_PLAIN = b"0123456789"
_ZONED_EBCDIC = {
    zone << 4 | digit: (zone in (0xB, 0xD), str(digit)) for zone in range(0xA, 0x10) for digit in range(10)
}
_ZONED_ASCII = _overpunched(b"{ABCDEFGHI", b"}JKLMNOPQR") | _overpunched(_PLAIN, b"pqrstuvwxy")

_TO_ASCII = bytes(byte - 0xC0 if 0xF0 <= byte <= 0xF9 else 0xFF for byte in range(256))
_TO_EBCDIC = bytes(byte + 0xC0 if 0x30 <= byte <= 0x39 else byte for byte in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonedFormat:
    """How one external decimal is written: the same for reading and writing it."""

    length: int
    sign: str
    signed: bool
    ebcdic: bool
    ebcdic_sign: bool
    """Signs in digits look like EBCDIC's when written in ASCII."""
    justify: str
    padding: bytes

    @property
    def leading(self) -> bool:
        return self.sign.startswith("leading")

    @property
    def separate(self) -> bool:
        return self.signed and self.sign.endswith("separate")

    @property
    def signs(self) -> tuple[bytes, bytes]:
        """Plus and minus."""
        return (b"\x4e", b"\x60") if self.ebcdic else (b"+", b"-")

    @property
    def zero_padded(self) -> bool:
        return self.padding == (b"\xf0" if self.ebcdic else b"0")


def zoned_meanings(form: ZonedFormat) -> dict[int, tuple[bool, str]]:
    """Bytes that hold a digit and a sign: whether it is negative, and the digit."""
    return _ZONED_EBCDIC if form.ebcdic else _ZONED_ASCII


def zoned_reader(form: ZonedFormat, finish: Finish) -> Read:
    ebcdic, leading, padding = form.ebcdic, form.leading, form.padding
    plus, minus = form.signs
    strip = None if form.zero_padded else bytes.rstrip if form.justify == "left" else bytes.lstrip

    def digits_of(part: bytes, raw: bytes) -> str:
        plain = part.translate(_TO_ASCII) if ebcdic else part
        if not plain.isdigit():
            raise ValueError(_zoned_problem(raw, form))
        return plain.decode("ascii")

    def unsigned(raw: bytes) -> Any:
        return finish(False, digits_of(raw if strip is None else strip(raw, padding), raw))

    def separate(raw: bytes) -> Any:
        number = raw if strip is None else strip(raw, padding)
        sign, rest = (number[:1], number[1:]) if leading else (number[-1:], number[:-1])
        if sign not in (plus, minus):
            raise ValueError(f"X'{raw[:40].hex().upper()}' has no sign where one should be")
        return finish(sign == minus, digits_of(rest if strip is None else strip(rest, padding), raw))

    meanings = zoned_meanings(form)

    def overpunched(raw: bytes) -> Any:
        number = raw if strip is None else strip(raw, padding)
        meaning = meanings.get(number[0 if leading else -1]) if number else None
        if meaning is None:
            raise ValueError(_zoned_problem(raw, form))
        negative, digit = meaning
        if len(number) == 1:
            return finish(negative, digit)
        if leading:
            return finish(negative, digit + digits_of(number[1:], raw))
        return finish(negative, digits_of(number[:-1], raw) + digit)

    return unsigned if not form.signed else separate if form.separate else overpunched


def _zoned_problem(raw: bytes, form: ZonedFormat) -> str:
    meanings = zoned_meanings(form)
    digits = range(0xF0, 0xFA) if form.ebcdic else range(0x30, 0x3A)
    signed = -1 if not form.signed or form.separate else 0 if form.leading else len(raw) - 1
    shown = raw[:40].hex().upper()
    for place, byte in enumerate(raw):
        if not (byte in meanings if place == signed else byte in digits):
            kind = "digit with a sign" if place == signed else "digit"
            return f"X'{shown}' is no external decimal: byte {place + 1}, X'{byte:02X}', is no {kind}"
    return f"X'{shown}' is no external decimal"


def zoned_writer(form: ZonedFormat, digits_of: Digits) -> Write:
    length, leading, separate = form.length, form.leading, form.separate
    room = length - separate
    zeros = form.zero_padded
    plus, minus = form.signs

    def write(value: Any) -> bytes:
        negative, digits = digits_of(value)
        if len(digits) > room:
            raise ValueError(f"{value} has more than {room} digits")
        if negative and not form.signed:
            raise ValueError(f"{value} is negative, and the model says that it has no sign")
        raw = (digits.zfill(room) if zeros else digits or "0").encode("ascii")
        if form.ebcdic:
            raw = raw.translate(_TO_EBCDIC)
        if separate:
            sign = minus if negative else plus
            raw = sign + raw if leading else raw + sign
        elif form.signed:
            raw = _overpunch(raw, negative, form)
        if len(raw) < length:
            fill = form.padding * (length - len(raw))
            raw = raw + fill if form.justify == "left" else fill + raw
        return raw

    return write


def _overpunch(raw: bytes, negative: bool, form: ZonedFormat) -> bytes:
    byte = raw[0] if form.leading else raw[-1]
    digit = byte & 0xF
    if form.ebcdic:
        signed = (0xD0 if negative else 0xC0) | digit
    elif form.ebcdic_sign:
        signed = (b"}JKLMNOPQR" if negative else b"{ABCDEFGHI")[digit]
    else:
        signed = 0x70 | digit if negative else byte
    return bytes((signed,)) + raw[1:] if form.leading else raw[:-1] + bytes((signed,))


# --- System/390 floats -------------------------------------------------------------------------------------------


# What the first byte says: sign and a power of 16. The fraction behind it is taken as a whole number here.
_SCALES = {
    length: [
        (-1.0 if byte & 0x80 else 1.0) * 2.0 ** (4 * ((byte & 0x7F) - 64) - 8 * (length - 1)) for byte in range(256)
    ]
    for length in (4, 8)
}


def read_hexfloat(raw: bytes) -> float:
    """A hexadecimal float of 4 or 8 bytes: sign, exponent of 16 from 64 on, fraction."""
    return int.from_bytes(raw[1:], "big") * _SCALES[len(raw)][raw[0]]


def write_hexfloat(value: float, length: int) -> bytes:
    """The nearest hexadecimal float.

    Raises:
        ValueError: It is too large, infinite or no number.
    """
    if not math.isfinite(value):
        raise ValueError(f"System/390 has no {value}")
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    if value == 0:
        return bytes((sign,)) + bytes(length - 1)
    bits = 8 * (length - 1)
    mantissa, exponent = math.frexp(abs(value))
    power = -(-exponent // 4)
    fraction = round(math.ldexp(mantissa, bits + exponent - 4 * power))
    if fraction >> bits:
        fraction >>= 4
        power += 1
    if power > 63:
        raise ValueError(f"{value} is too large for a System/390 float")
    if power < -64:
        # Below the least power the fraction begins with zeros, as far as it goes.
        power = -64
        fraction = round(math.ldexp(mantissa, bits + exponent - 4 * power))
    return bytes((sign | power + 64,)) + fraction.to_bytes(length - 1, "big")
