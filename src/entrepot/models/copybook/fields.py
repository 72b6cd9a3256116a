# SPDX-License-Identifier: Apache-2.0
"""Elementary items: which type and which CWF properties PICTURE, USAGE, SIGN and VALUE make."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from entrepot.models.copybook.entries import CopybookLiteral, DataItem
from entrepot.models.copybook.pictures import Picture
from entrepot.models.logical import CwfField, Simple, ValueType

NO_PICTURE = ("float", "double", "index", "pointer", "wide pointer")
VALUE_CHARACTERS_MAX = 65536
"""A default of LOW-VALUES or ALL is written out, so it has a limit; a longer one is left out."""


@dataclass(frozen=True, slots=True)
class CobolField:
    simple: Simple
    physical: CwfField
    default: str | None
    bytes: int


def cobol_field(entry: DataItem, usage: str, sign: str) -> CobolField:
    """
    Raises:
        ValueError: The clauses do not fit each other; says which.
    """
    what = entry.name or "FILLER"
    picture = entry.picture
    if usage in NO_PICTURE:
        if picture is not None:
            raise ValueError(f"{what} has a PICTURE, which its usage forbids")
        return _without_picture(entry, usage)
    if picture is None:
        raise ValueError(f"{what} has neither a PICTURE nor items below it")
    if picture.kind != "number" or entry.blank_when_zero:
        return _characters(entry, picture, usage)
    if entry.justified:
        raise ValueError(f"{what} is a number, and JUSTIFIED is for text")
    return _number(entry, picture, usage or "display", sign)


def _without_picture(entry: DataItem, usage: str) -> CobolField:
    if usage in ("float", "double"):
        length = 4 if usage == "float" else 8
        physical = CwfField("float", length, alignment=length if entry.synchronized else 0)
        return CobolField(Simple(ValueType.FLOAT), physical, _number_default(entry.value), length)
    if usage == "index":
        physical = CwfField("integer", 4, alignment=4 if entry.synchronized else 0)
        return CobolField(Simple(ValueType.INTEGER), physical, None, 4)
    length = 4 if usage == "pointer" else 8
    physical = CwfField("binary", length, alignment=length if entry.synchronized else 0)
    return CobolField(Simple(ValueType.BINARY), physical, None, length)


def _characters(entry: DataItem, picture: Picture, usage: str) -> CobolField:
    what = entry.name or "FILLER"
    national = picture.kind == "national"
    if usage not in ("", "display", "national") or (usage == "national" and not national):
        raise ValueError(f"{what} is text, which its usage does not fit")
    # A number that is blank when zero is edited: the sign and the point are not stored.
    length = picture.length
    physical = CwfField(
        "string",
        length,
        length_unit="characters" if national else "bytes",
        justify="right" if entry.justified else "left",
    )
    default = _text_default(entry.value, length)
    simple = Simple(ValueType.STRING, values=_enumeration(entry, default, numeric=False))
    return CobolField(simple, physical, default, length * (2 if national else 1))


def _number(entry: DataItem, picture: Picture, usage: str, sign: str) -> CobolField:
    what = entry.name or "FILLER"
    decimals, digits = picture.decimals, picture.length
    wanted = ValueType.DECIMAL if decimals > 0 else ValueType.INTEGER
    if sign and not picture.signed:
        sign = ""  # SIGN on a group is for those of its items that have a sign.
    alignment = 0
    if usage == "binary":
        if digits > 18:
            raise ValueError(f"{what} has {digits} digits, and binary numbers have at most 18")
        length = 2 if digits <= 4 else 4 if digits <= 9 else 8
        # Numbers of eight bytes are synchronized to four, as the compiler does.
        alignment = min(length, 4) if entry.synchronized else 0
        physical = CwfField("integer", length, signed=picture.signed, decimals=decimals, alignment=alignment)
    elif usage == "packed":
        length = digits // 2 + 1
        physical = CwfField("packed", length, signed=picture.signed, decimals=decimals)
    elif usage == "display":
        length = digits + sign.endswith("separate")
        physical = CwfField(
            "external",
            length,
            signed=picture.signed,
            decimals=decimals,
            sign=sign or "trailing",
            justify="right",
            padding="0",
        )
    else:
        raise ValueError(f"{what} is a number, which its usage does not fit")
    default = _number_default(entry.value)
    return CobolField(Simple(wanted, values=_enumeration(entry, default, numeric=True)), physical, default, length)


# --- values ----------------------------------------------------------------------------------------------------


def _text_default(value: CopybookLiteral | None, length: int) -> str | None:
    if value is None or (length > VALUE_CHARACTERS_MAX and value.kind not in ("text", "space")):
        return None
    if value.kind in ("text", "number"):
        if len(value.text) > length:
            raise ValueError(f"VALUE {value.text[:40]!r} is longer than {length}")
        return value.text.rstrip(" ")
    if value.kind == "space":
        return ""
    if value.kind == "zero":
        return "0" * length
    if value.kind == "low":
        return "\0" * length
    if value.kind == "all":
        return (value.text * length)[:length]
    # HIGH-VALUES and X'..' are bytes, which are other characters in each code page.
    return None


def _number_default(value: CopybookLiteral | None) -> str | None:
    if value is None or value.kind in ("space", "low", "high", "hex", "all"):
        return None
    if value.kind == "zero":
        return "0"
    if value.kind == "number":
        return value.text
    raise ValueError(f"VALUE {value.text[:40]!r} is no number")


def _enumeration(entry: DataItem, default: str | None, *, numeric: bool) -> tuple[str, ...]:
    """The values of condition names, if they look like all values that there are.

    One condition, or a range, says nothing of the others; and if the item's own
    VALUE is not among them, they are not all.
    """
    values: list[str] = []
    for first, last in entry.conditions:
        if last is not None or first.kind not in ("text", "number", "zero", "space"):
            return ()
        text = {"zero": "0", "space": ""}.get(first.kind, first.text)
        if numeric and first.kind not in ("number", "zero"):
            return ()
        values.append(text if numeric else text.rstrip(" "))
    if len(values) < 2:
        return ()
    if default is not None and not _among(default, values, numeric):
        return ()
    return tuple(dict.fromkeys(values))


def _among(default: str, values: list[str], numeric: bool) -> bool:
    if numeric:
        return Decimal(default) in [Decimal(value) for value in values]
    return default in values


def filler_value(field: CobolField) -> str:
    """What the bytes of FILLER are written with, as `CwfField.skip_value`; nothing where they are padding.

    Filler is text almost always. Numbers get their value where that needs neither
    code page nor byte order; other filler has no value that is ever read.
    """
    default, storage = field.default, field.physical.storage
    if default is None:
        return ""
    if storage == "string":
        zeros = "0x00" if default and not default.strip("\0") else default.ljust(field.physical.length)
        return zeros if default.strip(" ") else ""
    if storage == "external" and default.isdigit() and not field.physical.signed:
        return default.rjust(field.physical.length, "0")
    return "0x00" if storage in ("integer", "float") and not Decimal(default) else ""
