# SPDX-License-Identifier: Apache-2.0
"""Simple types of XML Schema: what each built-in type and facet means in a model."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from entrepot.models.logical import Simple, ValueType


@dataclass(frozen=True, slots=True)
class SimpleType:
    """A value with what its physical defaults follow from."""

    simple: Simple
    size: int | None = None
    scale: int = 0
    cwf_bytes: int | None = None
    """What the toolkit gives an integer or float of this type."""


_TEXT = (
    "string normalizedString token language Name NCName NMTOKEN NMTOKENS ID IDREF IDREFS ENTITY ENTITIES anyURI QName "
    "NOTATION duration anySimpleType"
)
_INTEGERS = {
    "integer": None, "nonPositiveInteger": None, "negativeInteger": None, "nonNegativeInteger": None,
    "positiveInteger": None, "long": 8, "unsignedLong": 8, "int": 4, "unsignedInt": 4, "short": 2, "unsignedShort": 2,
    "byte": 1, "unsignedByte": 1,
}  # fmt: skip
_PARTS_OF_DATES = {
    "gYear": "yyyy",
    "gYearMonth": "yyyy-MM",
    "gMonth": "'--'MM",
    "gMonthDay": "'--'MM-dd",
    "gDay": "'---'dd",
}

BUILTIN: dict[str, SimpleType] = {name: SimpleType(Simple(ValueType.STRING)) for name in _TEXT.split()}
BUILTIN |= {name: SimpleType(Simple(ValueType.INTEGER), cwf_bytes=size) for name, size in _INTEGERS.items()}
BUILTIN |= {name: SimpleType(Simple(ValueType.DATE, form)) for name, form in _PARTS_OF_DATES.items()}
BUILTIN |= {
    "boolean": SimpleType(Simple(ValueType.BOOLEAN)),
    "decimal": SimpleType(Simple(ValueType.DECIMAL)),
    "float": SimpleType(Simple(ValueType.FLOAT), cwf_bytes=4),
    "double": SimpleType(Simple(ValueType.FLOAT), cwf_bytes=8),
    "hexBinary": SimpleType(Simple(ValueType.BINARY)),
    "date": SimpleType(Simple(ValueType.DATE)),
    "time": SimpleType(Simple(ValueType.TIME)),
    "dateTime": SimpleType(Simple(ValueType.DATETIME)),
}

IGNORED_FACETS = frozenset(
    ("minLength", "minInclusive", "maxInclusive", "minExclusive", "maxExclusive", "whiteSpace", "annotation",
     "explicitTimezone")
)  # fmt: skip
"""Facets that only validate, and that a model of ours has no place for."""


def with_facets(base: SimpleType, facets: list[tuple[str, str]]) -> SimpleType:
    """A type restricted by facets.

    Raises:
        ValueError: A facet's value is impossible, or its pattern is not supported.
    """
    simple, size, scale = base.simple, base.size, base.scale
    values: list[str] = []
    patterns: list[str] = []
    for name, value in facets:
        if name in ("length", "maxLength"):
            size = _number(name, value)
            if simple.type in (ValueType.STRING, ValueType.BINARY):
                simple = replace(simple, length_max=size)
        elif name == "totalDigits":
            size = _number(name, value)
        elif name == "fractionDigits":
            scale = _number(name, value)
        elif name == "enumeration":
            values.append(value)
        elif name == "pattern":
            patterns.append(python_pattern(value))
        elif name not in IGNORED_FACETS:
            raise ValueError(f"the facet {name} is not supported")
    if values:
        simple = replace(simple, values=tuple(values))
    if patterns:
        pattern = "|".join(patterns)
        if simple.pattern:
            # Both must match: that of the type it restricts, and its own.
            pattern = rf"(?=(?:{simple.pattern})\Z)(?:{pattern})"
        simple = replace(simple, pattern=pattern)
    return replace(base, simple=simple, size=size, scale=min(scale, size or scale))


def _number(name: str, value: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", value.strip()):
        raise ValueError(f"the facet {name} is {value!r}, not a number")
    return int(value)


_ESCAPES = {"i": "[A-Za-z_:]", "I": "[^A-Za-z_:]", "c": r"[-.0-9:A-Z_a-z]", "C": r"[^-.0-9:A-Z_a-z]"}
_IN_CLASS = {"i": "A-Za-z_:", "c": r"\-.0-9:A-Z_a-z"}
_CATEGORIES = {"L": "A-Za-z", "Lu": "A-Z", "Ll": "a-z", "N": "0-9", "Nd": "0-9", "IsBasicLatin": r"\x00-\x7f"}


def python_pattern(pattern: str) -> str:
    r"""A pattern of XML Schema as Python's regular expressions have it.

    ^ and $ mean themselves there, and \i, \c and \p{...} mean classes, which are taken for their ASCII part.

    Raises:
        ValueError: It subtracts classes or names a category that is not known here.
    """
    out: list[str] = []
    in_class = False
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character == "\\" and position < len(pattern):
            escaped = pattern[position]
            position += 1
            if escaped in "pP":
                end = pattern.find("}", position)
                name = pattern[position + 1 : end]
                if end < 0 or name not in _CATEGORIES or (escaped == "P" and in_class):
                    raise ValueError(f"the category in the pattern {pattern!r} is not supported")
                position = end + 1
                negated = "^" if escaped == "P" else ""
                out.append(_CATEGORIES[name] if in_class else f"[{negated}{_CATEGORIES[name]}]")
            elif escaped in _ESCAPES:
                if in_class and escaped not in _IN_CLASS:
                    raise ValueError(f"\\{escaped} in a class of the pattern {pattern!r} is not supported")
                out.append(_IN_CLASS[escaped] if in_class else _ESCAPES[escaped])
            else:
                out.append("\\" + escaped)
        elif in_class:
            if character == "[":
                raise ValueError(f"the pattern {pattern!r} subtracts a class, which is not supported")
            in_class = character != "]"
            out.append(character)
        else:
            in_class = character == "["
            out.append("\\" + character if character in "^$" else character)
    translated = "".join(out)
    try:
        re.compile(translated)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"the pattern {pattern!r} is not supported: {error}") from None
    return translated
