# SPDX-License-Identifier: Apache-2.0
"""What a message set knows about the target of a map: its leaves, and the types that values have to have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from entrepot.flows.xpath import esql_name, esql_text
from entrepot.models.logical import MessageModel, MessageSet, Simple, Structure, StructureMember, ValueType
from entrepot.models.message_sets import find_set

_CASTS: Mapping[ValueType, str] = {
    ValueType.INTEGER: "INTEGER",
    ValueType.DECIMAL: "DECIMAL",
    ValueType.FLOAT: "FLOAT",
    ValueType.BOOLEAN: "BOOLEAN",
    ValueType.DATE: "DATE",
    ValueType.TIME: "TIME",
    ValueType.DATETIME: "TIMESTAMP",
}
"""What a value is cast to on its way; a string or bytes may be copied as they are."""


def find_model(name: str, message: str, sets: Sequence[MessageSet] = ()) -> MessageModel:
    """A message of a set: of a flow's own sets first, then of the shipped ones.

    Raises:
        ModelNotFound: There is no such set.
        ValueError: The set has no such message.
    """
    message_set = next((each for each in sets if each.name == name), None) or find_set(name)
    if message not in message_set.messages:
        known = ", ".join(message_set.messages) or "none"
        raise ValueError(f"the message set {name} has no message {message!r}; there are {known}")
    return message_set.messages[message]


def members_of(structure: Structure) -> list[StructureMember]:
    """The members that the tree shows; groups without a name are looked through."""
    found: list[StructureMember] = []
    for member in structure.members:
        if member.name or not isinstance(member.content, Structure):
            found.append(member)
        else:
            found += members_of(member.content)
    return found


def step_of(member: StructureMember) -> str:
    """A member's name as a step of an ESQL path."""
    namespace, brace, name = member.name.rpartition("}")
    if not brace:
        return esql_name(name)
    return f"{{{esql_text(namespace[1:])}}}:{esql_name(name)}"


def cast_of(member: StructureMember) -> str:
    """The type that a value of a member is cast to; nothing when it may stay as it is."""
    return _CASTS.get(member.content.type, "") if isinstance(member.content, Simple) else ""


def find_member(model: MessageModel | None, steps: Sequence[str]) -> StructureMember | None:
    """The member that a path leads to; None when the model does not know it."""
    structure = None if model is None else model.structure
    found: StructureMember | None = None
    for step in steps:
        if structure is None:
            return None
        name = step.partition("[")[0].strip('"')
        found = next((member for member in members_of(structure) if member.name.rpartition("}")[2] == name), None)
        if found is None:
            return None
        structure = found.content if isinstance(found.content, Structure) else None
    return found
