# SPDX-License-Identifier: Apache-2.0
"""The commands of the language: their words, and what is left of them once they are understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from entrepot.mqsc.display import Condition
from entrepot.mqsc.keywords import LATER_KINDS, OBJECT_KINDS, ObjectKind, words
from entrepot.mqsc.syntax import Value


@dataclass(frozen=True, slots=True)
class Define:
    kind: ObjectKind
    name: Value
    changes: dict[str, Any]
    like: Value | None
    replace: bool


@dataclass(frozen=True, slots=True)
class Alter:
    kind: ObjectKind
    name: Value
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    kind: ObjectKind
    name: Value
    purge: bool


@dataclass(frozen=True, slots=True)
class Clear:
    name: Value


@dataclass(frozen=True, slots=True)
class Display:
    noun: str
    kinds: tuple[ObjectKind, ...]
    name: Value
    keywords: tuple[Value, ...]
    """What to show; nothing means that the name decides."""
    everything: bool
    condition: Condition | None


@dataclass(frozen=True, slots=True)
class Ping:
    pass


@dataclass(frozen=True, slots=True)
class End:
    pass


Command = Define | Alter | Delete | Clear | Display | Ping | End


@dataclass(frozen=True, slots=True)
class Verb:
    nouns: tuple[str, ...]
    synonyms: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


_NAMED = tuple(kind.word for kind in OBJECT_KINDS.values() if not kind.only_one)
VERBS = {
    "DEFINE": Verb(_NAMED, ("DEF",), ("LIKE", "REPLACE", "NOREPLACE")),
    "ALTER": Verb(tuple(OBJECT_KINDS), ("ALT",)),
    # MQ gives DELETE no synonym: DEL would be too near to DEF.
    "DELETE": Verb(_NAMED, (), ("PURGE", "NOPURGE")),
    "DISPLAY": Verb((*OBJECT_KINDS, "QUEUE", "QSTATUS"), ("DIS",), ("ALL", "WHERE", "TYPE")),
    "CLEAR": Verb(("QLOCAL",)),
    "PING": Verb(("QMGR",)),
    "START": Verb((*OBJECT_KINDS, *LATER_KINDS), ("STA",)),
    "STOP": Verb((*OBJECT_KINDS, *LATER_KINDS)),
    "END": Verb((), ("EXIT", "QUIT")),
}
VERBS_ELSEWHERE = words("ARCHIVE BACKUP MOVE PURGE RECOVER REFRESH REF RESET RESOLVE RESUME RVERIFY SET SUSPEND")
"""MQ's other commands: known, so that nobody is asked whether he meant something else."""

VERB_WORDS = {word: name for name, verb in VERBS.items() for word in (name, *verb.synonyms)}
NOUN_WORDS = {
    "QUEUE": "QUEUE",
    "Q": "QUEUE",
    "QSTATUS": "QSTATUS",
    "QS": "QSTATUS",
    **{word: kind.word for kind in OBJECT_KINDS.values() for word in (kind.word, *kind.synonyms)},
    **{word: later for later, synonyms in LATER_KINDS.items() for word in (later, *synonyms)},
}

KEYWORDS = frozenset(
    [word for kind in OBJECT_KINDS.values() for word in kind.words]
    + [option for verb in VERBS.values() for option in verb.options]
)
"""Every keyword that some command knows."""
