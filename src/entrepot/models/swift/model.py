# SPDX-License-Identifier: Apache-2.0
"""The rules as a message set: SWIFT written in TDS terms.

A field is a tagged element of a structure that is tagged and delimited with
`<CR><LF>:`; a sequence is a structure between the group indicator
`16R:GENL<CR><LF>:` and the terminator `<CR><LF>:16S:GENL`; a field with several
options is a choice without a name. Blocks 3 and 5 are tagged and delimited with
`}{`. The engine of models/tds reads and writes messages by this set alone; the
set names codec.py's compiler because that is quicker, offers the parts of
fields and says in which line a mistake is.
"""

from __future__ import annotations

from collections.abc import Iterable

from entrepot.models.logical import (
    Composition,
    MessageModel,
    MessageSet,
    Separation,
    Simple,
    Structure,
    StructureMember,
    TdsField,
    TdsFormat,
    TdsStructure,
    ValueType,
)
from entrepot.models.swift.blocks import field_names, row_forms
from entrepot.models.swift.field_formats import FieldFormat
from entrepot.models.swift.rules import MESSAGES, FieldRule, SequenceRule, message_rule

FORMAT = "TDS1"
_LINE = "\r\n:"


def swift_set() -> MessageSet:
    """All messages that the YAML files describe."""
    messages = {name: MessageModel(name, _message(name), name[2:]) for name in MESSAGES}
    defaults = TdsFormat(
        delimiter=_LINE,
        group_indicator=_LINE,
        tag_separator=":",
        decimal_point=",",
        boolean_true="Y",
        boolean_false="N",
    )
    return MessageSet("SWIFT", messages, {FORMAT: defaults}, compiler="entrepot.models.swift.codec:compile_swift")


def _message(name: str) -> Structure:
    text = _tagged(message_rule(name).text.members, "Block4", "{4:\r\n:", "\r\n-}")
    members = (
        _member("Block1", _row("Block1")),
        _member("Block2", _row("Block2")),
        _member("Block3", _braces("Block3"), low=0),
        _member("Block4", text),
        _member("Block5", _braces("Block5"), low=0),
        _member("BlockS", _braces("BlockS"), low=0),
    )
    return _structure(name, members, TdsStructure(Separation.FIXED_LENGTH, group_indicator="", group_terminator=""))


def _row(block: str) -> Structure:
    """Parts in a row, each known by its characters. Block 2's two forms are one row where either's own may lack."""
    forms = row_forms(block)
    order: list[str] = []
    patterns: dict[str, list[str]] = {}
    certain: dict[str, int] = {}
    for form in forms:
        at = 0
        for part, pattern, may_be_absent in form.parts:
            if part not in order:
                order.insert(at, part)
            at = order.index(part) + 1
            patterns.setdefault(part, []).append(pattern)
            certain[part] = certain.get(part, 0) + (not may_be_absent)
    members = []
    for part in order:
        pattern = "|".join(dict.fromkeys(patterns[part]))
        simple = Simple(ValueType.STRING, pattern=pattern)
        members.append(_member(part, simple, TdsField(pattern=pattern), low=int(certain[part] == len(forms))))
    layout = TdsStructure(
        Separation.DATA_PATTERN, delimiter="", group_indicator=f"{{{block[5:]}:", group_terminator="}"
    )
    return _structure(block, members, layout)


def _braces(block: str) -> Structure:
    members = [
        _member(name, Simple(ValueType.STRING), TdsField(tag=tag, null_policy="none"), low=0)
        for tag, name in field_names(block).items()
    ]
    layout = TdsStructure(
        Separation.TAGGED_DELIMITED, delimiter="}{", group_indicator=f"{{{block[5:]}:{{", group_terminator="}}",
        tag_separator=":",
    )  # fmt: skip
    return _structure(block, members, layout, Composition.UNORDERED)


def _tagged(rules: Iterable[FieldRule | SequenceRule], name: str, indicator: str, terminator: str) -> Structure:
    layout = TdsStructure(
        Separation.TAGGED_DELIMITED, delimiter=_LINE, group_indicator=indicator, group_terminator=terminator,
        tag_separator=":",
    )  # fmt: skip
    return _structure(name, [_of_rule(rule) for rule in rules], layout)


def _of_rule(rule: FieldRule | SequenceRule) -> StructureMember:
    if isinstance(rule, SequenceRule):
        if rule.letter:
            content = _tagged(rule.members, rule.name, f"16R:{rule.name}{_LINE}", f"{_LINE}16S:{rule.name}")
            return _member(rule.name, content, None, rule.occurs_min, rule.occurs_max)
        return _member(rule.name, _tagged(rule.members, rule.name, "", ""), None, rule.occurs_min, rule.occurs_max)
    assert rule.formats is not None
    options = [_field(tag, form) for tag, form in rule.formats.items()]
    if len(options) == 1:
        tag, simple = options[0]
        return _member(f"F{tag}", simple, TdsField(tag=tag), rule.occurs_min, rule.occurs_max)
    members = [_member(f"F{tag}", simple, TdsField(tag=tag)) for tag, simple in options]
    layout = TdsStructure(
        Separation.TAGGED_DELIMITED, delimiter=_LINE, group_indicator="", group_terminator="", tag_separator=":"
    )
    choice = _structure(f"F{rule.number}a", members, layout, Composition.CHOICE)
    return _member("", choice, None, rule.occurs_min, rule.occurs_max)


def _field(tag: str, form: FieldFormat) -> tuple[str, Simple]:
    return tag, Simple(ValueType.STRING, pattern=form.pattern)


def _member(
    name: str, content: Simple | Structure, field: TdsField | None = None, low: int = 1, high: int | None = 1
) -> StructureMember:
    return StructureMember(name, content, low, high, physical={FORMAT: field or TdsField()})


def _structure(
    name: str, members: Iterable[StructureMember], layout: TdsStructure, composition: Composition = Composition.SEQUENCE
) -> Structure:
    return Structure(name, tuple(members), composition, {FORMAT: layout})
