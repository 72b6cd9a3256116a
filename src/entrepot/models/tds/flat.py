# SPDX-License-Identifier: Apache-2.0
"""Messages without structures inside: tagged, delimited elements, each there once at most, with nothing unusual.

    A1=string-00001|B1=1.25|C1=1001

`compiled/tds.pyx` reads and writes these in one call; all other messages, and all that have something wrong, take the
general way of tagged.py.
"""

from __future__ import annotations

from typing import Any

from entrepot.compiled import compiled
from entrepot.models.logical import (
    Composition,
    Separation,
    Simple,
    Structure,
    StructureMember,
    TdsField,
    TdsFormat,
    TdsStructure,
    ValueType,
)
from entrepot.models.tds.parts import settle

_tds = compiled("tds")

_KINDS = {ValueType.STRING: "text", ValueType.INTEGER: "integer", ValueType.FLOAT: "float"}
_IN_NUMBERS = frozenset("0123456789+-.,eE")


def flat_row(structure: Structure, tds: TdsFormat, format_name: str) -> Any:
    """The compiled form of such a message; None where it is another, or Python has to serve."""
    if _tds is None or structure.composition is not Composition.SEQUENCE or not structure.members:
        return None
    settings = settle(structure.physical.get(format_name) or TdsStructure(), tds)
    if settings.separation is not Separation.TAGGED_DELIMITED or settings.indicator or settings.terminator:
        return None
    if len(settings.delimiter) != 1 or len(settings.separator) != 1 or settings.delimiter == settings.separator:
        return None
    if tds.escape or tds.quote or settings.delimiter in _IN_NUMBERS:
        return None
    fields = [_field(member, tds, format_name, observe_length=settings.observe_length) for member in structure.members]
    found = [field for field in fields if field is not None]
    tags, names = {field[0] for field in found}, {field[1] for field in found}
    if len(found) != len(fields) or len(tags) != len(found) or len(names) != len(found):
        return None
    return _tds.Row(found, settings.delimiter, settings.separator)


def _field(
    member: StructureMember, tds: TdsFormat, format_name: str, *, observe_length: bool
) -> tuple[str, str, str, bool] | None:
    """Tag, name, kind and whether it has to be there; None where an element asks for more."""
    simple, field = member.content, member.physical.get(format_name)
    if not isinstance(simple, Simple) or not isinstance(field, TdsField) or not member.name or not field.tag:
        return None
    if member.max_occurs != 1 or member.default is not None or simple.values or simple.pattern:
        return None
    if (
        field.length_from
        or field.count_from
        or field.repeat_delimiter
        or field.pattern
        or field.null_policy == "literal"
    ):
        return None
    if (field.length and observe_length) or simple.type not in _KINDS:
        return None
    is_text = simple.type is ValueType.STRING
    padded = field.padding not in ("", " ") and not field.padding.isalnum()
    if not is_text and (field.format or field.decimals or padded or tds.decimal_point != "."):
        return None
    return field.tag, member.name, _KINDS[simple.type], bool(member.min_occurs)
