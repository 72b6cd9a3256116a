# SPDX-License-Identifier: Apache-2.0
"""The commands of the language: their words, and what is left of them once they are understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from entrepot.engine.definitions import ChannelRule
from entrepot.server.mqsc.addresses import AddressPatterns
from entrepot.server.mqsc.channel_keywords import USER_CHARACTERS_MAX
from entrepot.server.mqsc.display import Condition
from entrepot.server.mqsc.forms import Form, Name, Texts, Words
from entrepot.server.mqsc.keywords import OBJECT_KINDS
from entrepot.server.mqsc.object_kind import ObjectKind, words
from entrepot.server.mqsc.running import OPERATIONS, RUNNING, Operation
from entrepot.server.mqsc.security_keywords import ADDRESSES_MAX, AUTHORITY_WORDS, ENTITIES_MAX
from entrepot.server.mqsc.syntax import Position, Value

Entity = tuple[str, str]
"""A user's name and a group's; one of them is empty."""


@dataclass(frozen=True, slots=True)
class DefineCommand:
    kind: ObjectKind
    name: Value
    changes: dict[str, Any]
    like: Value | None
    replace: bool
    places: dict[str, Position]
    """Where each keyword stands."""
    topic_object: Value | None = None
    """Of a subscription: the topic object whose topic comes before its own."""


@dataclass(frozen=True, slots=True)
class AlterCommand:
    kind: ObjectKind
    name: Value
    changes: dict[str, Any]
    places: dict[str, Position]
    """Where each keyword stands."""


@dataclass(frozen=True, slots=True)
class DeleteCommand:
    kind: ObjectKind
    name: Value
    purge: bool


@dataclass(frozen=True, slots=True)
class ClearCommand:
    name: Value


@dataclass(frozen=True, slots=True)
class DisplayCommand:
    noun: str
    kinds: tuple[ObjectKind, ...]
    name: Value
    keywords: tuple[Value, ...]
    """What to show; nothing means that the name decides."""
    everything: bool
    condition: Condition | None
    selected: tuple[tuple[str, str], ...] = ()
    """Keywords and the patterns that their values have to match."""


@dataclass(frozen=True, slots=True)
class SetAuthority:
    """Give to and take from users and groups."""

    profile: Value
    object_type: str
    entities: tuple[Entity, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    description: str | None
    creates: bool
    """Whether it makes records that are not there yet: it does when it adds."""


@dataclass(frozen=True, slots=True)
class DeleteAuthority:
    profile: Value
    object_type: str
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class SetRule:
    """Change the rules of one type for one profile."""

    profile: Value
    rule: str
    action: str
    rules: tuple[ChannelRule, ...]
    """What it says: one rule, or one for each address that is blocked. With REMOVE only what they match counts."""


@dataclass(frozen=True, slots=True)
class OperateCommand:
    """Start, stop or mend something that runs."""

    operation: Operation
    noun: str
    name: Value
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PingCommand:
    pass


@dataclass(frozen=True, slots=True)
class EndCommand:
    pass


Command = (
    DefineCommand
    | AlterCommand
    | DeleteCommand
    | ClearCommand
    | DisplayCommand
    | SetAuthority
    | DeleteAuthority
    | SetRule
    | OperateCommand
    | PingCommand
    | EndCommand
)


@dataclass(frozen=True, slots=True)
class CommandVerb:
    nouns: tuple[str, ...]
    synonyms: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Options that its nouns share."""
    valued: tuple[str, ...] = ()
    """Options that go with some noun and have a value, by `OPTIONS`."""

    @property
    def options(self) -> tuple[str, ...]:
        return (*self.flags, *self.valued)


_NAMED = tuple(kind.word for kind in OBJECT_KINDS.values() if not (kind.only_one or kind.is_keyed))
_ALTERABLE = tuple(kind.word for kind in OBJECT_KINDS.values() if not kind.is_keyed)

_ENTITIES = {
    "PRINCIPAL": Texts(ENTITIES_MAX, USER_CHARACTERS_MAX),
    "GROUP": Texts(ENTITIES_MAX, USER_CHARACTERS_MAX),
}
OPTIONS: dict[tuple[str, str], Mapping[str, Form]] = {
    ("DEFINE", "SUB"): {"TOPICOBJ": Name()},
    ("SET", "AUTHREC"): {**_ENTITIES, "AUTHADD": AUTHORITY_WORDS, "AUTHRMV": AUTHORITY_WORDS},
    ("SET", "CHLAUTH"): {
        "ACTION": Words({word: word for word in ("ADD", "REPLACE", "REMOVE", "REMOVEALL")}),
        "ADDRLIST": AddressPatterns(ADDRESSES_MAX),
    },
    ("DELETE", "AUTHREC"): _ENTITIES,
    **{(operation.verb, noun): operation.options for operation in OPERATIONS for noun in operation.nouns},
}
"""What a command takes beside the attributes of its object, where it has a value."""


def _verb(
    word: str, nouns: tuple[str, ...], synonyms: tuple[str, ...] = (), flags: tuple[str, ...] = ()
) -> CommandVerb:
    operated = tuple(noun for operation in OPERATIONS if operation.verb == word for noun in operation.nouns)
    valued = dict.fromkeys(option for (verb, _), forms in OPTIONS.items() if verb == word for option in forms)
    return CommandVerb((*nouns, *operated), synonyms, flags, tuple(valued))


VERBS = {
    "DEFINE": _verb("DEFINE", _NAMED, ("DEF",), ("LIKE", "REPLACE", "NOREPLACE")),
    "ALTER": _verb("ALTER", _ALTERABLE, ("ALT",)),
    # MQ gives DELETE no synonym: DEL would be too near to DEF.
    "DELETE": _verb("DELETE", (*_NAMED, "AUTHREC"), (), ("PURGE", "NOPURGE")),
    "DISPLAY": _verb("DISPLAY", (*OBJECT_KINDS, "QUEUE", "QSTATUS", *RUNNING), ("DIS",), ("ALL", "WHERE", "TYPE")),
    "SET": _verb("SET", ("AUTHREC", "CHLAUTH")),
    "CLEAR": _verb("CLEAR", ("QLOCAL",)),
    "PING": _verb("PING", ("QMGR",)),
    "START": _verb("START", (), ("STA",)),
    "STOP": _verb("STOP", ()),
    "RESET": _verb("RESET", ()),
    "RESOLVE": _verb("RESOLVE", (), ("RES",)),
    "END": _verb("END", (), ("EXIT", "QUIT")),
}
VERBS_ELSEWHERE = words("ARCHIVE BACKUP MOVE PURGE RECOVER REFRESH REF RESUME RVERIFY SUSPEND")
"""MQ's other commands: known, so that nobody is asked whether he meant something else."""

VERB_WORDS = {word: name for name, verb in VERBS.items() for word in (name, *verb.synonyms)}
NOUN_WORDS = {
    "QUEUE": "QUEUE",
    "Q": "QUEUE",
    "QSTATUS": "QSTATUS",
    "QS": "QSTATUS",
    **{word: noun for noun, running in RUNNING.items() for word in (noun, *running.synonyms)},
    **{word: kind.word for kind in OBJECT_KINDS.values() for word in (kind.word, *kind.synonyms)},
    "TOPICSTR": "TOPICSTR",
}

KEYWORDS = frozenset(
    [word for kind in OBJECT_KINDS.values() for word in (*kind.words, *kind.refused)]
    + [word for running in RUNNING.values() for word in running.keywords]
    + [option for verb in VERBS.values() for option in verb.options]
)
"""Every keyword that some command knows."""
