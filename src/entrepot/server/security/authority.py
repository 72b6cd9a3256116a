# SPDX-License-Identifier: Apache-2.0
"""What a user may do with which objects: MQ's object authority manager, in memory.

For a user himself, and for each of his groups, the record whose profile
fits the object's name most specifically counts, and no other; what he may
do is all that these records allow together. So a record for a single
queue that allows nothing closes it to a group that `**` lets in.
A system queue is opened only by a profile that names it, as
`SYSTEM.DEAD.LETTER.QUEUE` and `SYSTEM.FLOW.**` do and `**` does not; all
profiles let it be displayed. Administrators, the group mqm, may do
everything.

The question is asked for every message, so answers are kept until the
definitions change: a known one costs a look into a dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from entrepot.engine.definitions import AuthorityRecord
from entrepot.engine.system_queues import STATE_QUEUES, is_closed
from entrepot.errors import NotAuthorized
from entrepot.server.security.profiles import matches_name, matches_text, rank
from entrepot.server.security.users import ADMINISTRATORS

ObjectType = Literal["QMGR", "QUEUE", "CHANNEL", "TOPIC", "CLAIM"]

ALL_MQI = ("CONNECT", "PUT", "GET", "BROWSE", "INQ", "SET", "PREPARE", "PUB", "SUB")
ALL_ADM = ("DSP", "CRT", "CHG", "DLT", "CLR", "CTRL")
WORDS = frozenset((*ALL_MQI, *ALL_ADM))

_ANSWERS_MAX = 100_000
"""Beyond it all are forgotten: names come from outside, and must not fill the memory."""


@dataclass(frozen=True, slots=True)
class _Grant:
    profile: str
    words: frozenset[str]


_Entity = tuple[str, str, str]
"""Object type, "user" or "group", and the name."""


class Authority:
    """Answers whether somebody may; safe to ask from several threads."""

    def __init__(self, records: Iterable[AuthorityRecord] = ()) -> None:
        self._grants: dict[_Entity, Sequence[_Grant]] = _arrange(records)
        self._answers: dict[tuple[str, frozenset[str], str, str, str], bool] = {}

    def allows(self, user: str, groups: frozenset[str], object_type: str, name: str, what: str) -> bool:
        """Whether a user with these groups has an authority; `name` of the queue manager itself does not matter."""
        known = self._answers.get((user, groups, object_type, name, what))
        return self._decide(user, groups, object_type, name, what) if known is None else known

    def require(self, user: str, groups: frozenset[str], object_type: str, name: str, what: str) -> None:
        """Ask before looking whether there is such an object, so that a refusal does not tell.

        Raises:
            NotAuthorized: Nothing was done.
        """
        if not self.allows(user, groups, object_type, name, what):
            raise NotAuthorized(user, name, what)

    def require_command(
        self, user: str, groups: frozenset[str], verb: str, kind: str, name: str, changed: Iterable[str] = ()
    ) -> None:
        """The same for an MQSC command; `needed_for` has the rules.

        Raises:
            NotAuthorized: Nothing was done.
        """
        need = needed_for(verb, kind, changed)
        if need is None:
            if ADMINISTRATORS not in groups:
                raise NotAuthorized(user, name, "administrator")
            return
        self.require(user, groups, need.object_type, name, need.word)

    def changed(self, records: Iterable[AuthorityRecord] | None = None) -> None:
        """Forget every answer; with `records`, these count from now on."""
        # In this order, while `_decide` reads in the other one: an answer from old records never joins the new.
        if records is not None:
            self._grants = _arrange(records)
        self._answers = {}

    def _decide(self, user: str, groups: frozenset[str], object_type: str, name: str, what: str) -> bool:
        answers = self._answers
        grants = self._grants
        entities = [(object_type, "user", user), *((object_type, "group", group) for group in groups)]
        closed = object_type == "QUEUE" and what != "DSP" and is_closed(name)
        answer = ADMINISTRATORS in groups or (
            not (what == "GET" and object_type == "QUEUE" and name in STATE_QUEUES)
            and any(
                what in _most_specific(grants.get(entity, ()), object_type, name, closed=closed) for entity in entities
            )
        )
        if len(answers) >= _ANSWERS_MAX:
            answers.clear()
        answers[user, groups, object_type, name, what] = answer
        return answer


def _arrange(records: Iterable[AuthorityRecord]) -> dict[_Entity, Sequence[_Grant]]:
    """The grants of each user and group, the most specific profile first."""
    merged: dict[_Entity, dict[str, frozenset[str]]] = {}
    for record in records:
        # There is one queue manager, so the profile of a record about it says nothing.
        profile = "**" if record.object_type == "QMGR" else record.profile
        for what, who in (("user", record.principal), ("group", record.group)):
            if who:
                grants = merged.setdefault((record.object_type, what, who), {})
                grants[profile] = grants.get(profile, frozenset()).union(record.authorities)
    return {
        entity: [_Grant(profile, grants[profile]) for profile in sorted(grants, key=lambda text: (rank(text), text))]
        for entity, grants in merged.items()
    }


def _most_specific(grants: Sequence[_Grant], object_type: str, name: str, *, closed: bool) -> frozenset[str]:
    for grant in grants:
        if closed and not _names_system_queues(grant.profile):
            continue
        # A profile without wildcards fits its own name only, so the order alone puts it before the generic ones.
        # Names of claims have no qualifiers, so `*` is any characters there.
        fits = matches_text if object_type == "CLAIM" else matches_name
        if object_type == "QMGR" or fits(grant.profile, name):
            return grant.words
    return frozenset()


def _names_system_queues(profile: str) -> bool:
    """Whether a profile says which of the system's queues it means: `SYSTEM.FLOW.**` does, `SYSTEM.**` does not."""
    first, _, rest = profile.partition(".")
    second = rest.partition(".")[0]
    return first == "SYSTEM" and bool(second) and "*" not in second and "?" not in second


# --- what a command needs -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequiredAuthority:
    """An authority for an object of a type."""

    object_type: ObjectType
    word: str


_OBJECT_TYPES: dict[str, ObjectType] = {
    **dict.fromkeys(("QUEUE", "QLOCAL", "QMODEL", "QALIAS", "QREMOTE", "QSTATUS"), "QUEUE"),
    **dict.fromkeys(("CHANNEL", "CHSTATUS"), "CHANNEL"),
    **dict.fromkeys(("QMGR", "QMSTATUS"), "QMGR"),
    **dict.fromkeys(("TOPIC", "TPSTATUS"), "TOPIC"),
}
# SUB is not among them: a subscription takes any topic to any queue, and asks none of those who use them,
# so only an administrator may define one by command.
_VERBS = {"DEFINE": "CRT", "ALTER": "CHG", "DELETE": "DLT", "DISPLAY": "DSP", "CLEAR": "CLR"}
_CHANNEL_VERBS = frozenset({"START", "STOP", "RESET", "RESOLVE", "PING"})

_TRIGGERING = frozenset({"process", "initiation_queue", "trigger_data"})
_FOR_ADMINISTRATORS = {
    "QLOCAL": _TRIGGERING,
    "QMODEL": _TRIGGERING,
    "QMGR": frozenset({"tls_folder", "password_check", "channel_rules_enabled"}),
    "CHANNEL": frozenset({"user", "remote_user", "connection_name", "tls", "tls_client_required", "tls_peer"}),
}
"""Attributes that decide who gets in, as whom, who is shown our password, and which programs and channels start."""


def needed_for(verb: str, kind: str, changed: Iterable[str] = ()) -> RequiredAuthority | None:
    """What a command on a kind of object takes; None means that only an administrator may.

    `changed` names the fields that a DEFINE or ALTER gives another value
    than the object had, or than a new one has by default. Whoever could
    change as whom a channel's clients act, or which program is triggered,
    could become an administrator, so such a change takes one. A DEFINE that replaces an object is an ALTER.
    """
    object_type = _OBJECT_TYPES.get(kind)
    if verb == "DISPLAY":
        # Processes, name lists, listeners, subscriptions and the rules themselves have no records of their own.
        return RequiredAuthority(object_type or "QMGR", "DSP")
    if object_type is None or not _FOR_ADMINISTRATORS.get(kind, frozenset()).isdisjoint(changed):
        return None
    if object_type == "CHANNEL" and verb in _CHANNEL_VERBS:
        return RequiredAuthority(object_type, "CTRL")
    if verb == "PING":
        return RequiredAuthority(object_type, "DSP") if object_type == "QMGR" else None
    return RequiredAuthority(object_type, _VERBS[verb]) if verb in _VERBS else None
