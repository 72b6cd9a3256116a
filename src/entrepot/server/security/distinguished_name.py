# SPDX-License-Identifier: Apache-2.0
"""Whom a certificate names, as text, and the patterns that fit it.

    CN=app7,OU=Orders,O="Port, Inc"      a name
    CN=app*,O=Port                       a pattern

A pattern fits when each of its parts fits a part of the name, in any
order; the name may have more. As in MQ, commas or semicolons separate,
letters count alike in both cases, `*` stands for any characters, and
quotation marks or a backslash take a separator's meaning away. A name
that we write never needs quotation marks: it has backslashes (RFC 4514),
so that nobody gets more parts by a comma in his common name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import eq

from entrepot.errors import InvalidSetting
from entrepot.server.security.profiles import glob

Part = tuple[str, str]
"""An attribute in upper case, and its value."""

_ANY = ""
"""Where a pattern has an asterisk; everywhere else a pattern's value has one character."""

_SPECIAL = frozenset(',;+"\\<>=*')
_SAME = {"S": "ST", "SP": "ST", "MAIL": "E", "EMAILADDRESS": "E", "USERID": "UID", "POSTALCODE": "PC"}

_MQ_ORDER = ("SERIALNUMBER", "E", "UID", "CN", "T", "OU", "DC", "O", "STREET", "L", "ST", "PC", "C")
"""Which attributes make a pattern more specific than which others."""

_ATTRIBUTE = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+)=")
_HEX = re.compile(r"[0-9A-Fa-f]{2}(?:\\[0-9A-Fa-f]{2})*")


@dataclass(frozen=True, slots=True)
class _Character:
    text: str
    literal: bool
    """Whether a backslash stood before it."""


def render(parts: Iterable[Part]) -> str:
    """A name as text that parses into the same parts again, whatever the values hold."""
    return ",".join(f"{attribute}={_escaped(value)}" for attribute, value in parts)


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[Part, ...]:
    """The parts of a name; an empty text has none.

    Raises:
        InvalidSetting: It is none.
    """
    return tuple((attribute, "".join(item.text for item in value)) for attribute, value in _split(text))


def fits(pattern: str, name: str) -> bool:
    """Whether each part of a pattern fits another part of the name; an empty pattern fits no name.

    Raises:
        InvalidSetting: It is no pattern, or no name.
    """
    wanted = parse_pattern(pattern)
    present = [(attribute, value.casefold()) for attribute, value in parse(name)]
    choices = [
        [at for at, (other, text) in enumerate(present) if other == attribute and glob(value, tuple(text), _ANY, eq)]
        for attribute, value in wanted
    ]
    return bool(wanted) and _can_be_paired(choices)


@lru_cache(maxsize=1024)
def parse_pattern(pattern: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The parts of a pattern: attributes, and what their values must be, character by character.

    Raises:
        InvalidSetting: It is none, and a rule with it would never do what its author thinks.
    """
    return tuple((attribute, _wanted(value)) for attribute, value in _split(pattern))


def rank(pattern: str) -> tuple[tuple[int, int, int], ...]:
    """A sort key: of two patterns that fit a name, the lower one is the more specific.

    MQ goes through the attributes in a fixed order; the first one that only
    one pattern has, or has with fewer wildcards, decides.
    """
    parts = parse_pattern(pattern)
    by_attribute = [[value for name, value in parts if name == attribute] for attribute in _MQ_ORDER]
    by_attribute.append([value for name, value in parts if name not in _MQ_ORDER])
    return tuple(
        (-len(values), sum(value.count(_ANY) for value in values), -sum(map(len, values))) for values in by_attribute
    )


def _wanted(value: Iterable[_Character]) -> tuple[str, ...]:
    wanted: list[str] = []
    for item in value:
        if item.text == "*" and not item.literal:
            wanted.append(_ANY)
        else:
            wanted.extend(item.text.casefold())
    return tuple(wanted)


def _can_be_paired(choices: Sequence[Sequence[int]]) -> bool:
    """Whether each wanted part can have a part of the name to itself: two OUs want two OUs."""
    taken: dict[int, int] = {}

    def place(wanted: int, tried: set[int]) -> bool:
        for at in choices[wanted]:
            if at not in tried:
                tried.add(at)
                if at not in taken or place(taken[at], tried):
                    taken[at] = wanted
                    return True
        return False

    return all(place(wanted, set()) for wanted in range(len(choices)))


# --- text to parts and back -----------------------------------------------------------------------


def _split(text: str) -> list[tuple[str, list[_Character]]]:
    parts: list[tuple[str, list[_Character]]] = []
    at = 0
    while text:
        found = _ATTRIBUTE.match(text, at)
        if found is None:
            raise _no_name(text)
        value, at = _value(text, found.end())
        attribute = found[1].upper()
        parts.append((_SAME.get(attribute, attribute), value))
        if at == len(text):
            break
        at += 1
    return parts


def _value(text: str, at: int) -> tuple[list[_Character], int]:
    """A value and where it ends; spaces around it count only when they are quoted or escaped."""
    value: list[_Character] = []
    kept = 0
    quoted = False
    while at < len(text) and (quoted or text[at] not in ",;+"):
        character = text[at]
        at += 1
        if character == '"':
            quoted = not quoted
            kept = len(value)
        elif character == "\\":
            literal, at = _after_backslash(text, at)
            value += [_Character(one, literal=True) for one in literal]
            kept = len(value)
        elif quoted or value or not character.isspace():
            value.append(_Character(character, literal=False))
            kept = len(value) if quoted or not character.isspace() else kept
    if quoted:
        raise _no_name(text)
    return value[:kept], at


def _after_backslash(text: str, at: int) -> tuple[str, int]:
    found = _HEX.match(text, at)
    if found is not None:
        # The bytes of one or more characters, as RFC 4514 writes what cannot be printed.
        return bytes.fromhex(found[0].replace("\\", "")).decode(errors="replace"), found.end()
    if at == len(text):
        raise _no_name(text)
    return text[at], at + 1


def _escaped(value: str) -> str:
    last = len(value) - 1
    return "".join(_escape(character, at_the_edge=at in (0, last)) for at, character in enumerate(value))


def _escape(character: str, *, at_the_edge: bool) -> str:
    if not character.isprintable():
        return "".join(f"\\{byte:02x}" for byte in character.encode(errors="replace"))
    return "\\" + character if character in _SPECIAL or (at_the_edge and character in " #") else character


def _no_name(text: str) -> InvalidSetting:
    return InvalidSetting("distinguished name", text, "parts such as CN=app1,OU=Orders,O=Port")
