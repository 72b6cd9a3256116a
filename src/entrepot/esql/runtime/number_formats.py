# SPDX-License-Identifier: Apache-2.0
"""Numbers as text by CAST's FORMAT.

    1234.5  #,##0.00               1,234.50
    -1234.5 $#,##0.00;($#,##0.00)  ($1,234.50)
    1234.5  #,##0.00:groupsep=.:decsep=,   1.234,50
    12345   0.###E0                1.234E4
    42      *x#,##0                xxx42

0 is a digit that is always there, # one that is there when the number has
it, and the rest is topic ak05615's: `;` before the form of negative numbers,
`,` for groups, `E` for the exponent, `'` around characters that stand for
themselves, `*` before what fills the text up to the length of the pattern.
Rounding is half to even.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from entrepot.errors.esql import CastFailed
from entrepot.esql.runtime.casts_to_numbers import cast_failed, decimal_from_float

DIGITS_MAX = 400
"""A number whose plain form is longer is refused: FLOAT ends at 309 digits, and DECIMAL has 34 that count."""

_EXACT = Context(prec=DIGITS_MAX * 2, rounding=ROUND_HALF_EVEN)
_DIGIT = frozenset("0#,.")
_OPTION = re.compile(r":(groupsep|decsep)=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Subpattern:
    """One side of the semicolon."""

    prefix: tuple[tuple[str, bool], ...]
    """Pieces of text, and whether each is quoted: a quoted + or - is no sign."""
    suffix: tuple[tuple[str, bool], ...]
    integer_min: int
    integer_max: int
    fraction_min: int
    fraction_max: int
    group: int
    """Digits of the last group before the point; 0 without groups."""
    group_others: int
    exponent_min: int
    """0 without an exponent."""
    exponent_mark: str
    exponent_sign: bool
    pad: str
    pad_after_prefix: bool
    width: int


@dataclass(frozen=True, slots=True)
class NumberFormat:
    positive: Subpattern
    negative: Subpattern | None
    group_separator: str
    decimal_separator: str


def _wrong(pattern: str, problem: str) -> CastFailed:
    return CastFailed(f"FORMAT {pattern[:100]!r}: {problem}", sqlstate="S22018", number=2595, inserts=(pattern[:100],))


@lru_cache(maxsize=512)
def compile_format(pattern: str) -> NumberFormat:
    """A number pattern, taken apart.

    Raises:
        CastFailed: The pattern has no digits, or something in it makes no sense.
    """
    if len(pattern) > DIGITS_MAX:
        raise _wrong(pattern, f"it is longer than {DIGITS_MAX} characters")
    separators = {"groupsep": ",", "decsep": "."}
    body, *options = _split_options(pattern)
    for name, characters in zip(options[::2], options[1::2], strict=True):
        separators[name.lower()] = _unquoted(characters)
    halves = _halves(body)
    if len(halves) > 2:
        raise _wrong(pattern, "it has more than one ;")
    positive = _subpattern(halves[0], pattern)
    negative = _subpattern(halves[1], pattern) if len(halves) > 1 else None
    grouped = positive.group or (negative is not None and negative.group)
    if not separators["decsep"] or (grouped and separators["decsep"] == separators["groupsep"]):
        raise _wrong(pattern, "decsep must be there and differ from groupsep")
    return NumberFormat(positive, negative, separators["groupsep"], separators["decsep"])


def _split_options(pattern: str) -> list[str]:
    found = _OPTION.search(pattern)
    if found is None:
        return [pattern]
    return [pattern[: found.start()], *_OPTION.split(pattern[found.start() :])[1:]]


def _unquoted(characters: str) -> str:
    if len(characters) > 1 and characters[0] == characters[-1] == "'":
        return characters[1:-1].replace("''", "'")
    return characters


def _halves(pattern: str) -> list[str]:
    halves = [""]
    quoted = False
    for character in pattern:
        quoted ^= character == "'"
        if character == ";" and not quoted:
            halves.append("")
        else:
            halves[-1] += character
    return halves


def _subpattern(text: str, pattern: str) -> Subpattern:
    affixes: list[list[tuple[str, bool]]] = [[], []]
    digits = exponent = mark = pad = ""
    pad_after = exponent_sign = False
    side = place = 0
    while place < len(text):
        character = text[place]
        if character == "'":
            end = text.find("'", place + 1)
            if end < 0:
                raise _wrong(pattern, "a quote is never closed")
            affixes[side].append((text[place + 1 : end] or "'", True))
            place = end + 1
        elif character == "*":
            pad = text[place + 1 : place + 2]
            if not pad:
                raise _wrong(pattern, "* stands before nothing")
            pad_after = bool(affixes[0]) and not digits
            place += 2
        elif character in _DIGIT:
            if digits:
                raise _wrong(pattern, "its digits stand in two places")
            end = place
            while end < len(text) and text[end] in _DIGIT:
                end += 1
            digits = text[place:end]
            found = re.compile(r"([eE])(\+?)(0+)").match(text, end)
            if found is not None:
                mark, exponent_sign, exponent = found[1], bool(found[2]), found[3]
                end = found.end()
            side, place = 1, end
        else:
            affixes[side].append((character, False))
            place += 1
    return _counted(digits, pattern, affixes, exponent, mark, exponent_sign, pad, pad_after, len(text))


def _counted(
    digits: str,
    pattern: str,
    affixes: list[list[tuple[str, bool]]],
    exponent: str,
    mark: str,
    exponent_sign: bool,
    pad: str,
    pad_after: bool,
    length: int,
) -> Subpattern:
    whole, _, fraction = digits.partition(".")
    if "." in fraction or "," in fraction:
        raise _wrong(pattern, "only digits stand behind the decimal point")
    groups = whole.split(",")
    plain = "".join(groups)
    if not plain and not fraction:
        raise _wrong(pattern, "it has no digits")
    if re.fullmatch("#*0*", plain) is None or re.fullmatch("0*#*", fraction) is None:
        raise _wrong(pattern, "a # stands between a 0 and the decimal point")
    return Subpattern(
        prefix=tuple(affixes[0]),
        suffix=tuple(affixes[1]),
        integer_min=plain.count("0"),
        integer_max=len(plain),
        fraction_min=fraction.count("0"),
        fraction_max=len(fraction),
        group=len(groups[-1]) if len(groups) > 1 else 0,
        group_others=len(groups[-2]) if len(groups) > 2 else len(groups[-1]),
        exponent_min=len(exponent),
        exponent_mark=mark,
        exponent_sign=exponent_sign,
        pad=pad,
        pad_after_prefix=pad_after,
        width=length - (2 if pad else 0),
    )


# --- writing -------------------------------------------------------------------------------------------


def format_number(value: Any, pattern: str) -> str:
    """A number by a pattern.

    Raises:
        CastFailed: The pattern is wrong, or the number is infinite or too long to write.
    """
    form = compile_format(pattern)
    number = decimal_from_float(value) if type(value) is float else Decimal(value)
    if not number.is_finite() or abs(number.adjusted()) > DIGITS_MAX:
        raise cast_failed(value, f"CHARACTER FORMAT {pattern!r}")
    positive = form.positive
    body = _exponential(abs(number), positive, form) if positive.exponent_min else _plain(abs(number), positive, form)
    # What rounds to zero has no sign: -0.001 by 0.00 is 0.00.
    negative = number < 0 and any(digit in "123456789" for digit in body)
    side = form.negative if negative and form.negative is not None else positive
    implied = negative and form.negative is None
    prefix, sign_shown = _affix(side.prefix, implied)
    suffix, sign_behind = _affix(side.suffix, implied)
    if implied and not sign_shown and not sign_behind:
        prefix = "-" + prefix
    return _padded(prefix, body, suffix, side)


def _affix(pieces: tuple[tuple[str, bool], ...], negative: bool) -> tuple[str, bool]:
    """The text around a number, and whether it shows the sign of a number that has no pattern of its own."""
    text = ""
    shown = False
    for piece, quoted in pieces:
        if not quoted and piece in "+-":
            shown = shown or negative
            text += "-" if negative else "+" if piece == "+" else ""
        else:
            text += piece
    return text, shown


def _padded(prefix: str, body: str, suffix: str, side: Subpattern) -> str:
    missing = side.width - len(prefix) - len(body) - len(suffix)
    if not side.pad or missing <= 0:
        return prefix + body + suffix
    filling = side.pad * missing
    return prefix + filling + body + suffix if side.pad_after_prefix else filling + prefix + body + suffix


def _plain(number: Decimal, side: Subpattern, form: NumberFormat) -> str:
    text = format(_EXACT.quantize(number, Decimal(1).scaleb(-side.fraction_max)), "f")
    whole, _, fraction = text.partition(".")
    return _grouped(whole.lstrip("0"), fraction, side, form)


def _grouped(whole: str, fraction: str, side: Subpattern, form: NumberFormat) -> str:
    whole = whole.rjust(side.integer_min, "0")
    while len(fraction) > side.fraction_min and fraction.endswith("0"):
        fraction = fraction[:-1]
    if not whole and not fraction:
        whole = "0"
    if side.group and form.group_separator:
        pieces = [whole[-side.group :]]
        rest = whole[: -side.group]
        while rest:
            pieces.append(rest[-side.group_others :])
            rest = rest[: -side.group_others]
        whole = form.group_separator.join(reversed(pieces))
    return whole + (form.decimal_separator + fraction if fraction else "")


def _exponential(number: Decimal, side: Subpattern, form: NumberFormat) -> str:
    step = side.integer_max if side.integer_max > max(side.integer_min, 1) else 0
    digits = max(side.integer_min, 1) + side.fraction_max

    def exponent_of(value: Decimal) -> int:
        if not value:
            return 0
        if step:
            return value.adjusted() // step * step
        return value.adjusted() - max(side.integer_min, 1) + 1

    exponent = exponent_of(number)
    mantissa = number.scaleb(-exponent, _EXACT)
    places = side.fraction_max if not step else max(digits - mantissa.adjusted() - 1, 0) if mantissa else 0
    mantissa = _EXACT.quantize(mantissa, Decimal(1).scaleb(-places))
    if exponent_of(mantissa.scaleb(exponent, _EXACT)) != exponent:
        # 9.996 rounded to two places has become 10.00, which is 1.00 of the next power.
        exponent = exponent_of(mantissa.scaleb(exponent, _EXACT))
        mantissa = number.scaleb(-exponent, _EXACT)
        mantissa = _EXACT.quantize(mantissa, Decimal(1).scaleb(-side.fraction_max))
    whole, _, fraction = format(mantissa, "f").partition(".")
    body = _grouped(whole.lstrip("0"), fraction, side, form)
    sign = "-" if exponent < 0 else "+" if side.exponent_sign else ""
    return f"{body}{side.exponent_mark}{sign}{str(abs(exponent)).rjust(side.exponent_min, '0')}"


# --- reading -------------------------------------------------------------------------------------------


def parse_number(text: str, pattern: str, target: str) -> Decimal:
    """A number from text by a pattern.

    Raises:
        CastFailed: The pattern is wrong, or the text does not fit it.
    """
    form = compile_format(pattern)
    body = text.strip(" ")
    for side, negative, implied in _sides(form):
        prefix, shown = _affix(side.prefix, implied)
        suffix, behind = _affix(side.suffix, implied)
        if implied and not shown and not behind:
            prefix = "-" + prefix
        number = _strip(body, prefix, suffix, side, form)
        if number is not None:
            return -number if negative else number
    raise cast_failed(text, f"{target} FORMAT {pattern!r}")


def _sides(form: NumberFormat) -> list[tuple[Subpattern, bool, bool]]:
    """The forms that a text may have: pattern, whether it means a negative number, whether by an implied sign."""
    if form.negative is not None:
        return [(form.positive, False, False), (form.negative, True, False)]
    return [(form.positive, False, False), (form.positive, True, True)]


def _strip(body: str, prefix: str, suffix: str, side: Subpattern, form: NumberFormat) -> Decimal | None:
    if side.pad and side.pad not in "0123456789" and not side.pad_after_prefix:
        body = body.lstrip(side.pad)
    if len(body) < len(prefix) + len(suffix) or not body.startswith(prefix) or not body.endswith(suffix):
        return None
    digits = body[len(prefix) : len(body) - len(suffix)]
    if side.pad and side.pad_after_prefix and side.pad not in "0123456789":
        digits = digits.lstrip(side.pad)
    if side.group and form.group_separator:
        digits = digits.replace(form.group_separator, "")
    if form.decimal_separator != ".":
        if "." in digits:
            return None
        digits = digits.replace(form.decimal_separator, ".", 1)
    exponent = r"(?:[eE][+-]?\d{1,6})?" if side.exponent_min else ""
    if len(digits) > DIGITS_MAX or re.fullmatch(rf"(?:\d+(?:\.\d*)?|\.\d+){exponent}", digits, re.ASCII) is None:
        return None
    try:
        return Decimal(digits)
    except InvalidOperation:
        return None
