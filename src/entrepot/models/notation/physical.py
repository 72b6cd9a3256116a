# SPDX-License-Identifier: Apache-2.0
"""Physical properties in the notation: which keys there are, what they may say, and what follows when they say nothing.

The keys are the fields of logical.py's dataclasses, so a property that is
added there can be written here at once.
"""

from __future__ import annotations

import re
from dataclasses import Field, fields, replace
from typing import Any

from entrepot.models.logical import (
    DATE_FORMATS,
    NUMBERS,
    CwfField,
    CwfFormat,
    Format,
    Kind,
    Separation,
    TdsField,
    TdsFormat,
    TdsStructure,
    ValueType,
    XmlField,
    XmlFormat,
)
from entrepot.models.notation.mistakes import described, nearest, wrong
from entrepot.models.tds.mnemonics import resolve
from entrepot.yaml_places import Scalar, Table, Written

Given = dict[str, Any]
"""Properties that were written, by their names."""

FORMATS: dict[Kind, type[CwfFormat] | type[TdsFormat] | type[XmlFormat]] = {
    Kind.CWF: CwfFormat,
    Kind.TDS: TdsFormat,
    Kind.XML: XmlFormat,
}
FIELDS: dict[Kind, type[CwfField] | type[TdsField] | type[XmlField]] = {
    Kind.CWF: CwfField,
    Kind.TDS: TdsField,
    Kind.XML: XmlField,
}

_WORDS: dict[tuple[type, str], tuple[str, ...]] = {
    (CwfField, "storage"): (
        "string", "binary", "integer", "packed", "external", "float", "hexfloat", "boolean", "structure",
    ),
    (CwfField, "length_unit"): ("bytes", "characters"),
    (CwfField, "sign"): ("trailing", "leading", "trailing separate", "leading separate"),
    (CwfField, "justify"): ("left", "right"),
    (CwfField, "null_policy"): ("none", "fill", "literal", "logical"),
    (CwfField, "alignment"): ("0", "1", "2", "4", "8"),
    (CwfFormat, "alignment"): ("1", "2", "4", "8"),
    (TdsField, "justify"): ("left", "right"),
    (TdsField, "null_policy"): ("empty", "literal", "none"),
    (TdsStructure, "suppress_absent"): ("never", "end"),
    (TdsFormat, "trim"): ("none", "left", "right", "both"),
    (XmlFormat, "encode_null"): ("empty", "absent", "nil"),
}  # fmt: skip
"""What a property may say, where that is one of a few words."""

MNEMONICS = frozenset(
    ("delimiter", "group_indicator", "group_terminator", "tag_separator", "repeat_delimiter", "tag", "padding",
     "null_value", "escape", "quote", "reserved", "decimal_point")
)  # fmt: skip
"""Where <CR><LF> means the characters themselves."""

STRUCTURE_DEFAULTS = ("separation", "encoded_length", "encoded_extra", "suppress_absent", "observe_length")
"""What a TDS format may say for all structures, because TdsFormat itself has no place for it."""

_PATTERNS = frozenset({(TdsField, "pattern")})


# --- reading properties -------------------------------------------------------------------------


def keys(owner: type) -> dict[str, Field[Any]]:
    """The properties of a dataclass of logical.py."""
    found = _keys.get(owner)
    if found is None:
        found = _keys[owner] = {each.name: each for each in fields(owner)}
    return found


_keys: dict[type, dict[str, Field[Any]]] = {}


def read_given(owners: tuple[type, ...], table: Written, what: str, also: tuple[str, ...] = ()) -> dict[type, Given]:
    """What a table says of the properties of some dataclasses, each with its own."""
    if not isinstance(table, Table):
        wrong(table, f"{what} are written {{key: value, ...}}, not {described(table)}")
    found: dict[type, Given] = {owner: {} for owner in owners}
    for key, node in table:
        if key.text in also:
            continue
        for owner in owners:
            if key.text in keys(owner):
                found[owner][key.text] = read_property(owner, key.text, node)
                break
        else:
            known = [*also, *(name for owner in owners for name in keys(owner))]
            wrong(key, f"{what} have no key {key.text!r}{nearest(key.text, known)}")
    return found


def read_property(owner: type, name: str, node: Written) -> Any:
    """One property, checked against what it may say."""
    declared = str(keys(owner)[name].type)
    if declared.startswith("Mapping"):
        if not isinstance(node, Table):
            wrong(node, f"{name} is a mapping such as {{shop: http://shop}}, not {described(node)}")
        return {key.text: text_of(value, name) for key, value in node}
    if declared.endswith("| None") and isinstance(node, Scalar) and node.is_empty:
        return None
    text = text_of(node, name)
    words = _WORDS.get((owner, name))
    if words is not None and text not in words:
        wrong(node, f"{name} cannot be {text!r}{nearest(text, words)}")
    if declared == "Separation":
        return _separation(text, node)
    if declared.startswith("int"):
        return read_integer(text, node, name, -99 if name == "decimals" else 0)
    if declared == "bool":
        return read_flag(text, node, name)
    if declared == "bytes":
        return _bytes(text, node, name)
    if name in MNEMONICS:
        return resolve(text)
    if (owner, name) in _PATTERNS:
        check_pattern(text, node)
    return text


def text_of(node: Written, name: str) -> str:
    if not isinstance(node, Scalar) or node.is_empty:
        wrong(node, f"{name} needs a value, not {described(node)}")
    return node.text


def read_integer(text: str, node: Written, name: str, least: int = 0, most: int = 0x7FFFFFFF) -> int:
    if not re.fullmatch(r"-?\d{1,10}", text, re.ASCII) or not least <= int(text) <= most:
        wrong(node, f"{name} is a whole number of at least {least}, not {text[:60]!r}")
    return int(text)


def read_flag(text: str, node: Written, name: str) -> bool:
    flags = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() not in flags:
        wrong(node, f"{name} is true or false, not {text[:60]!r}")
    return flags[text.lower()]


def check_pattern(text: str, node: Written) -> None:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        wrong(node, f"{text[:60]!r} is no regular expression: {error}")


def _separation(text: str, node: Written) -> Separation:
    wanted = text.lower().replace("_", " ").replace("-", " ")
    for separation in Separation:
        if wanted == separation.value:
            return separation
    return wrong(node, f"separation cannot be {text[:60]!r}{nearest(text, [each.value for each in Separation])}")


def _bytes(text: str, node: Written, name: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        return wrong(node, f"{name} is bytes in hexadecimal such as 0x00000001, not {text[:60]!r}")


def check_date_format(text: str, node: Written) -> None:
    from entrepot.models.dates.patterns import compile_pattern

    try:
        compile_pattern(text)
    except ValueError as error:
        wrong(node, f"{text[:60]!r} is no pattern of dates or times: {error}")


def structure_without(around: TdsStructure | None, defaults: Given) -> TdsStructure:
    """What a structure is that says nothing: what its format says, or for a group what stands around it."""
    if around is not None:
        return replace(around, group_indicator="", group_terminator="")
    return TdsStructure(**defaults)


# --- what follows from the type -------------------------------------------------------------------

_STORAGE = {
    ValueType.STRING: "string",
    ValueType.INTEGER: "integer",
    ValueType.DECIMAL: "packed",
    ValueType.FLOAT: "float",
    ValueType.BOOLEAN: "boolean",
    ValueType.BINARY: "binary",
    ValueType.DATE: "string",
    ValueType.TIME: "string",
    ValueType.DATETIME: "string",
}
_INTEGER_DIGITS = 10
"""So many digits can a number of four bytes have."""
_DECIMAL_DIGITS = 19


def derive(
    physical: Format, value_type: ValueType | None, size: int | None, scale: int, logical_format: str, given: Given
) -> CwfField | TdsField | XmlField:
    """How a format writes a member: what was given, and for the rest what follows from the type.

    `value_type` is None for a structure; `size` is what stands in the brackets of string(12).
    """
    if isinstance(physical, CwfFormat):
        return replace(_cwf(physical, value_type, size, scale, logical_format, given), **given)
    if isinstance(physical, TdsFormat):
        return replace(_tds(value_type, size, scale, logical_format, given), **given)
    return XmlField(**given)


def _cwf(
    physical: CwfFormat, value_type: ValueType | None, size: int | None, scale: int, logical: str, given: Given
) -> CwfField:
    if value_type is None:
        return CwfField("structure")
    storage = given.get("storage") or _STORAGE[value_type]
    pattern = given.get("format") or logical
    default_digits = _INTEGER_DIGITS if value_type is ValueType.INTEGER else _DECIMAL_DIGITS
    width = size or 0
    if value_type in DATE_FORMATS:
        width = default_digits = format_width(pattern or DATE_FORMATS[value_type])
    # A pattern whose width varies gives no length; the model's compiler then asks for one.
    digits = width or default_digits
    length = _cwf_length(storage, width, digits) if digits else 0
    if storage == "boolean":
        length = len(physical.boolean_true)
    number = storage in ("integer", "packed", "external")
    right = storage == "external"
    padding = "0" if right else "0x00" if storage == "binary" else physical.padding
    return CwfField(
        storage,
        length,
        decimals=scale if number else 0,
        justify="right" if right else "left",
        padding=padding,
        format=pattern if value_type in DATE_FORMATS else "",
    )


def _cwf_length(storage: str, width: int, digits: int) -> int:
    """Bytes of a member; `width` is 0 where the model gives no size, and `digits` is then a usual one."""
    if storage == "integer":
        # COBOL's rule: up to 4 digits in 2 bytes, up to 9 in 4, more in 8.
        return 4 if not width else 2 if width <= 4 else 4 if width <= 9 else 8
    if storage == "packed":
        return (digits + 2) // 2
    if storage == "external":
        return digits
    if storage in ("float", "hexfloat"):
        return 8
    return width if storage in ("string", "binary") else 0


def _tds(value_type: ValueType | None, size: int | None, scale: int, logical: str, given: Given) -> TdsField:
    if value_type is None:
        return TdsField()
    if value_type in DATE_FORMATS:
        pattern = given.get("format") or logical
        return TdsField(length=format_width(pattern or DATE_FORMATS[value_type]), format=pattern)
    number = value_type in NUMBERS
    # 9,2 is written 1234567.89: its digits and the point.
    length = (size or 0) + (1 if scale and size else 0)
    return TdsField(length=length, justify="right" if number else "left", padding="0" if number else " ")


def format_width(pattern: str) -> int:
    """How many characters a date written by a pattern has; 0 when that varies."""
    width = 0
    for literal, run, other in re.findall(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|.", pattern + " ", re.DOTALL):
        del other
        if run:
            if run[0] in "EGIzZTtUX" or (run[0] == "M" and len(run) > 2) or (len(run) == 1 and run[0] != "e"):
                return 0
            width += len(run)
        else:
            width += len(literal.replace("''", "'")) if literal else 1
    return width - 1
