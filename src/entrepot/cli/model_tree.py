# SPDX-License-Identifier: Apache-2.0
"""How a message model looks: a tree for people, a document for programs."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from entrepot.cli import output

if TYPE_CHECKING:
    from rich.tree import Tree

    from entrepot.models.logical import MessageSet, Structure, StructureMember

ELEMENTS_SHOWN_MAX = 5000
"""More would not be read; a message whose types are used often can have many times that."""


class _ElementBudget:
    """How many elements may still be drawn."""

    def __init__(self) -> None:
        self.left = ELEMENTS_SHOWN_MAX


def draw(message_set: MessageSet, messages: list[str], formats: list[str]) -> None:
    """The set and some of its messages as a tree."""
    from rich.text import Text
    from rich.tree import Tree

    namespace = f"  {message_set.namespace}" if message_set.namespace else ""
    tree = Tree(Text(output.safe(f"{message_set.name}{namespace}"), style="bold"))
    for name in formats:
        declared = message_set.formats[name]
        tree.add(Text(output.safe(f"{name}: {declared.kind.value}{_spoken(_set_properties(declared))}"), style="dim"))
    room = _ElementBudget()
    for name in messages:
        model = message_set.messages[name]
        identifier = f"  identifier {model.identifier}" if model.identifier else ""
        title = f"{name}{identifier}{_composed(model.structure)}{_structure_words(model.structure, formats)}"
        branch = tree.add(Text(output.safe(title), style="bold"))
        _draw(branch, model.structure, formats, room)
    if room.left <= 0:
        tree.add(Text(f"... more than {ELEMENTS_SHOWN_MAX} elements; name a message with --message", style="dim"))
    output.console().print(tree)


def _draw(branch: Tree, structure: Structure, formats: list[str], room: _ElementBudget) -> None:
    from rich.text import Text

    from entrepot.models.logical import Simple

    for member in structure.members:
        room.left -= 1
        if room.left <= 0:
            return
        words = Text(output.safe(f"{_name(member)}  {_type(member)}"))
        always = ("storage",) if isinstance(member.content, Simple) else ()
        properties = {name: _set_properties(member.physical.get(name), always) for name in formats}
        physical = "".join(f"  {name}{_spoken(each)}" for name, each in properties.items() if each)
        content = member.content
        if isinstance(content, Simple):
            branch.add(words.append(output.safe(physical), style="dim"))
            continue
        physical += _structure_words(content, formats)
        _draw(branch.add(words.append(output.safe(physical), style="dim")), content, formats, room)


def _name(member: StructureMember) -> str:
    least, most = member.min_occurs, member.max_occurs
    name = member.name or "(group)"
    if (least, most) == (1, 1):
        return name
    return f"{name}[{least}..{'*' if most is None else most}]" if least != most else f"{name}[{least}]"


def _type(member: StructureMember) -> str:
    from entrepot.models.logical import Simple

    content = member.content
    if not isinstance(content, Simple):
        own = member.name[member.name.find("}") + 1 :]
        return f"{content.name if content.name != own else ''}{_composed(content)}".strip()
    size = f"({content.length_max})" if content.length_max is not None else ""
    words = [f"{content.type.value}{size}"]
    words += [f"format {content.format}"] if content.format else []
    words += [f"values {', '.join(content.values[:10])}{' ...' * (len(content.values) > 10)}"] if content.values else []
    words += [f"pattern {content.pattern}"] if content.pattern else []
    words += [f"default {member.default!r}"] if member.default is not None else []
    return "  ".join(words)


def _composed(structure: Structure) -> str:
    word = structure.composition.value
    return "" if word == "sequence" else f"  {word}"


def _structure_words(structure: Structure, formats: list[str]) -> str:
    return "".join(
        f"  {name}{_spoken(given)}" for name in formats if (given := _set_properties(structure.physical.get(name)))
    )


def _set_properties(properties: Any, always: tuple[str, ...] = ()) -> dict[str, Any]:
    """What some properties say that differs from their defaults, and what is always worth saying."""
    if properties is None:
        return {}
    found = {}
    for each in dataclasses.fields(properties):
        value = getattr(properties, each.name)
        default = each.default if each.default is not dataclasses.MISSING else {}
        if each.name in always or (value != default and value != "structure"):
            found[each.name] = value
    return found


def _spoken(properties: Mapping[str, Any]) -> str:
    from entrepot.models.tds.mnemonics import spell

    words = []
    for key, value in properties.items():
        shown = value.value if isinstance(value, enum.Enum) else value.hex() if isinstance(value, bytes) else value
        words.append(f"{key.replace('_', ' ')} {(spell(shown) or 'none') if isinstance(shown, str) else shown}")
    return f" ({', '.join(words)})" if words else ""


# --- for programs ---------------------------------------------------------------------------------------------


def as_json(message_set: MessageSet, messages: list[str], formats: list[str]) -> dict[str, Any]:
    """The set and some of its messages as JSON; types are written out where they are used, up to a limit."""
    room = _ElementBudget()
    return {
        "set": message_set.name,
        "namespace": message_set.namespace,
        "file": message_set.file,
        "formats": {
            name: {"kind": message_set.formats[name].kind.value} | _plain(_set_properties(message_set.formats[name]))
            for name in formats
        },
        "messages": {
            name: {"identifier": message_set.messages[name].identifier}
            | _structure_json(message_set.messages[name].structure, formats, room)
            for name in messages
        },
        "complete": room.left > 0,
    }


def _structure_json(structure: Structure, formats: list[str], room: _ElementBudget) -> dict[str, Any]:
    return {
        "structure": structure.name,
        "composition": structure.composition.value,
        "physical": {
            name: _plain(_set_properties(structure.physical[name])) for name in formats if name in structure.physical
        },
        "elements": list(_members_json(structure, formats, room)),
    }


def _members_json(structure: Structure, formats: list[str], room: _ElementBudget) -> Iterator[dict[str, Any]]:
    from entrepot.models.logical import Simple

    for member in structure.members:
        room.left -= 1
        if room.left <= 0:
            return
        shown: dict[str, Any] = {"name": member.name, "min": member.min_occurs, "max": member.max_occurs}
        content = member.content
        if isinstance(content, Simple):
            shown["type"] = content.type.value
            shown |= {
                key: value
                for key, value in (
                    ("format", content.format),
                    ("length_max", content.length_max),
                    ("values", list(content.values)),
                    ("pattern", content.pattern),
                    ("default", member.default),
                )
                if value not in ("", None, [])
            }
        else:
            shown |= _structure_json(content, formats, room)
            shown["structure_physical"] = shown.pop("physical")
        shown["physical"] = {
            name: _plain(_set_properties(member.physical[name])) for name in formats if name in member.physical
        }
        yield shown


def _plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value.value if isinstance(value, enum.Enum) else value.hex() if isinstance(value, bytes) else value
        for key, value in properties.items()
    }
