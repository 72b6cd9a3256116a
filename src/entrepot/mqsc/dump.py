# SPDX-License-Identifier: Apache-2.0
"""A script that makes the same objects again, at this queue manager or at a new one."""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.mqsc.administered import Administered
from entrepot.mqsc.forms import quote
from entrepot.mqsc.keywords import OBJECT_KINDS, require_valid
from entrepot.mqsc.object_kind import ObjectKind
from entrepot.mqsc.syntax import BLANKS
from entrepot.queues.definitions import AuthorityRecord, ChannelRule, Definition, LocalQueue

_INDENT = " " * 7
_LINE_CHARACTERS = 72
"""MQ's advice for scripts that are to be read everywhere."""


def dump(administered: Administered) -> str:
    """All definitions as a script; only what differs from the default is said.

    Temporary dynamic queues are left out, since they end with those who use them.

    Raises:
        InvalidSetting: A definition that no script can say, such as a
            description with a line break.
    """
    order = list(OBJECT_KINDS)
    manager = administered.manager_attributes()
    definitions = sorted(
        (definition for definition in administered.definitions() if not _is_temporary(definition)),
        key=lambda definition: (order.index(definition.kind), definition.name),
    )
    commands = [_command(definition) for definition in (manager, *definitions)]
    return "\n".join([f"* The objects of queue manager {manager.name}", *filter(None, commands), ""])


def _is_temporary(definition: Definition) -> bool:
    return isinstance(definition, LocalQueue) and definition.dynamic == "TEMPORARY"


def _command(definition: Definition) -> str:
    require_valid(definition)
    kind = OBJECT_KINDS[definition.kind]
    attributes = list(_attributes(kind, definition))
    if isinstance(definition, AuthorityRecord):
        # Taken first and given then, so that no more is there afterwards, whatever was there before.
        given = f"AUTHADD({','.join(definition.authorities) or 'NONE'})"
        return " +\n".join(["SET AUTHREC", *attributes, f"{_INDENT}AUTHRMV(ALL)", _folded(given)])
    if isinstance(definition, ChannelRule):
        return " +\n".join([f"SET CHLAUTH({quote(definition.profile)})", *attributes, f"{_INDENT}ACTION(REPLACE)"])
    if not kind.only_one:
        return " +\n".join([f"DEFINE {kind.word}({quote(definition.name)})", *attributes, f"{_INDENT}REPLACE"])
    return " +\n".join(["ALTER QMGR", *attributes]) if attributes else ""


def _attributes(kind: ObjectKind, definition: Definition) -> Iterator[str]:
    defaults = kind.definition(name=definition.name)
    said_elsewhere = ("authorities",) if kind.nameless else (kind.name_field,)
    for attribute in kind.attributes_of(definition):
        value = getattr(definition, attribute.field)
        differs = value != getattr(defaults, attribute.field)
        if (attribute.required or differs) and attribute.field not in said_elsewhere:
            yield _folded(attribute.write(value))


def _folded(text: str) -> str:
    """The text over as many lines as it needs, each but the last continued."""
    width = _LINE_CHARACTERS - len(_INDENT) - 1
    pieces = []
    while len(text) > width:
        cut = _cut(text, width)
        pieces.append(_INDENT + text[:cut])
        text = text[cut:]
    return "+\n".join([*pieces, _INDENT + text])


def _cut(text: str, width: int) -> int:
    """Where to break a text that is longer than `width`: after a blank or comma if there is one."""
    # Continuation with + drops blanks at the beginning of a line, so the next piece must begin with something else.
    possible = [place for place in range(1, width + 1) if text[place] not in BLANKS]
    good = [place for place in possible if text[place - 1] in " ,"]
    if good or possible:
        return (good or possible)[-1]
    # Blanks all the way; what ends them stands further on, at the latest the closing parenthesis.
    return next(place for place in range(width, len(text)) if text[place] not in BLANKS)
