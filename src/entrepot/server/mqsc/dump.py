# SPDX-License-Identifier: Apache-2.0
"""A script that makes the same objects again, at this queue manager or at a new one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from entrepot.engine.definitions import (
    CHILDREN,
    AuthorityRecord,
    ChannelRule,
    Definition,
    LocalQueue,
    SubscriptionDefinition,
)
from entrepot.errors import InvalidSetting
from entrepot.server.mqsc.administered import Administered
from entrepot.server.mqsc.forms import quote
from entrepot.server.mqsc.keywords import OBJECT_KINDS, require_valid
from entrepot.server.mqsc.object_kind import ObjectKind
from entrepot.server.mqsc.syntax import BLANKS

_INDENT = " " * 7
_LINE_CHARACTERS = 72
"""MQ's advice for scripts that are to be read everywhere."""
_MANAGED_QUEUES = "SYSTEM.MANAGED."


def dump(administered: Administered) -> str:
    """All definitions as a script; only what differs from the default is said.

    Temporary dynamic queues and subscriptions that are not durable are left
    out, since they end with those who use them; so are subscriptions of other
    queue managers, which ask again, and the queues that were made for
    subscriptions, which DEFINE SUB makes anew. A comment stands for a
    subscription that no script can say.

    Raises:
        InvalidSetting: A definition that no script can say, such as a
            description with a line break.
    """
    order = list(OBJECT_KINDS)
    manager = administered.manager_attributes()
    definitions = sorted(
        (definition for definition in administered.definitions() if not _comes_by_itself(definition)),
        key=lambda definition: (order.index(definition.kind), definition.name),
    )
    commands = [_command(definition) for definition in (manager, *definitions)]
    return "\n".join([f"* The objects of queue manager {manager.name}", *filter(None, commands), ""])


def _comes_by_itself(definition: Definition) -> bool:
    match definition:
        case LocalQueue():
            return definition.dynamic == "TEMPORARY" or definition.name.startswith(_MANAGED_QUEUES)
        case SubscriptionDefinition():
            return definition.type == "PROXY" or not definition.durable
    return definition.name == CHILDREN  # they tell us again that they are


def _command(definition: Definition) -> str:
    try:
        require_valid(definition)
    except InvalidSetting as error:
        if not isinstance(definition, SubscriptionDefinition):
            raise
        # A program made it, with a selector that has a line break for instance; it must not cost us all the rest.
        return f"* SUB({quote(definition.name)}) is left out: {error.what}".replace("\n", " ")
    if isinstance(definition, SubscriptionDefinition) and definition.managed:
        definition = msgspec.structs.replace(definition, destination="", destination_manager="")
    kind = OBJECT_KINDS[definition.kind]
    attributes = list(_attributes(kind, definition))
    if isinstance(definition, AuthorityRecord):
        # Taken first and given then, so that no more is there afterwards, whatever was there before.
        given = f"AUTHADD({','.join(definition.authorities) or 'NONE'})"
        return " +\n".join(["SET AUTHREC", *attributes, f"{_INDENT}AUTHRMV(ALL)", _folded(given)])
    if isinstance(definition, ChannelRule):
        return " +\n".join([f"SET CHLAUTH({quote(definition.profile)})", *attributes, f"{_INDENT}ACTION(REPLACE)"])
    if not kind.only_one:
        head = _folded(f"DEFINE {kind.word}({quote(definition.name)})", "")
        return " +\n".join([head, *attributes, f"{_INDENT}REPLACE"])
    return " +\n".join(["ALTER QMGR", *attributes]) if attributes else ""


def _attributes(kind: ObjectKind, definition: Definition) -> Iterator[str]:
    defaults = kind.definition(name=definition.name)
    said_elsewhere = ("authorities",) if kind.nameless else (kind.name_field,)
    for attribute in kind.attributes_of(definition):
        value = getattr(definition, attribute.field)
        differs = value != getattr(defaults, attribute.field)
        is_said_here = attribute.field not in said_elsewhere and not attribute.shown_only
        if (attribute.required or differs) and is_said_here:
            yield _folded(attribute.write(value))


def _folded(text: str, indent: str = _INDENT) -> str:
    """The text over as many lines as it needs, each but the last continued."""
    width = _LINE_CHARACTERS - len(_INDENT) - 1
    pieces = []
    while len(text) > width:
        cut = _cut(text, width)
        pieces.append(indent + text[:cut])
        indent, text = _INDENT, text[cut:]
    return "+\n".join([*pieces, indent + text])


def _cut(text: str, width: int) -> int:
    """Where to break a text that is longer than `width`: after a blank or comma if there is one."""
    # Continuation with + drops blanks at the beginning of a line, so the next piece must begin with something else.
    possible = [place for place in range(1, width + 1) if text[place] not in BLANKS]
    good = [place for place in possible if text[place - 1] in " ,"]
    if good or possible:
        return (good or possible)[-1]
    # Blanks all the way; what ends them stands further on, at the latest the closing parenthesis.
    return next(place for place in range(width, len(text)) if text[place] not in BLANKS)
