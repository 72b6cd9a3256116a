# SPDX-License-Identifier: Apache-2.0
"""The tables of authority records and channel rules, and the words for what somebody may do."""

from __future__ import annotations

from entrepot import limits
from entrepot.engine.definitions import AuthorityRecord, ChannelRule
from entrepot.server.mqsc.addresses import AddressPattern, PeerPattern
from entrepot.server.mqsc.channel_keywords import PEER_CHARACTERS_MAX, USER_CHARACTERS_MAX
from entrepot.server.mqsc.forms import ProfileForm, SeveralWords, Text, Texts, Words
from entrepot.server.mqsc.object_kind import ANYWHERE_WITHOUT_EFFECT, DESCR, Attribute, ObjectKind, words

MESSAGING_AUTHORITIES = {
    "QMGR": ("CONNECT", "INQ", "SET", "PREPARE"),
    "QUEUE": ("PUT", "GET", "BROWSE", "INQ", "SET"),
    "CHANNEL": (),
    "TOPIC": ("PUB", "SUB"),
    "CLAIM": ("SET",),
}
"""What an application may do with objects of a type: ALLMQI."""

ADMINISTRATION_AUTHORITIES = {
    "QMGR": ("DSP", "CRT", "CHG", "DLT", "CTRL"),
    "QUEUE": ("DSP", "CRT", "CHG", "DLT", "CLR"),
    "CHANNEL": ("DSP", "CRT", "CHG", "DLT", "CTRL"),
    "TOPIC": ("DSP", "CRT", "CHG", "DLT", "CLR", "CTRL"),
    "CLAIM": (),
}
"""What an administrator may do with objects of a type: ALLADM."""

AUTHORITY_GROUPS = ("ALL", "ALLMQI", "ALLADM", "NONE")
AUTHORITIES_WITHOUT_EFFECT = words("ALTUSR CTRLX PASSALL PASSID RESUME SETALL SETID SYSTEM")
"""MQ's authorities for what nobody needs an authority for here, or nobody can do."""

ENTITIES_MAX = 100
USERS_MAX = 100
ADDRESSES_MAX = 256

_TYPES = tuple(MESSAGING_AUTHORITIES)
_ALL = tuple(
    dict.fromkeys(
        word
        for table in (MESSAGING_AUTHORITIES, ADMINISTRATION_AUTHORITIES)
        for object_type in _TYPES
        for word in table[object_type]
    )
)
AUTHORITY_WORDS = SeveralWords((*_ALL, *AUTHORITY_GROUPS, *sorted(AUTHORITIES_WITHOUT_EFFECT)))
"""What AUTHADD and AUTHRMV take."""


def authorities_of(object_type: str) -> tuple[str, ...]:
    """All that somebody may be allowed to do with objects of a type."""
    return (*MESSAGING_AUTHORITIES[object_type], *ADMINISTRATION_AUTHORITIES[object_type])


def expanded(object_type: str, word: str) -> tuple[str, ...]:
    """The authorities that a word of a script means."""
    if word == "ALL":
        return authorities_of(object_type)
    if word == "ALLMQI":
        return MESSAGING_AUTHORITIES[object_type]
    if word == "ALLADM":
        return ADMINISTRATION_AUTHORITIES[object_type]
    return () if word in AUTHORITIES_WITHOUT_EFFECT | {"NONE"} else (word,)


def _authorities_fit(record: AuthorityRecord) -> tuple[str, str, str] | None:
    known = authorities_of(record.object_type)
    unfit = [word for word in record.authorities if word not in known]
    return ("AUTHLIST", unfit[0], f"some of {', '.join(known)} for a {record.object_type}") if unfit else None


def _one_entity(record: AuthorityRecord) -> tuple[str, str, str] | None:
    if bool(record.principal) != bool(record.group):
        return None
    return ("PRINCIPAL", record.principal or "missing", "either a user or a group")


def _profile_fits(record: AuthorityRecord) -> tuple[str, str, str] | None:
    if record.object_type == "QMGR":
        return ("PROFILE", record.profile, "nothing: there is one queue manager") if record.profile else None
    if not profile_fits(record.object_type, record.profile):
        return ("PROFILE", record.profile, ProfileForm().expected)
    return None if record.profile else ("PROFILE", "missing", f"the {record.object_type}s it is for")


def profile_fits(object_type: str, profile: str) -> bool:
    """Whether a profile can name objects of a type; claims have any text for a name."""
    return object_type == "CLAIM" or not profile or ProfileForm().fits(profile)


class _Profile(ProfileForm):
    """Blank for the queue manager, of which there is one; which others fit depends on the type of the object."""

    def parse(self, text: str) -> str:
        return Text(limits.CLAIM_NAME_CHARACTERS_MAX).parse(text)


AUTHREC = ObjectKind(
    AuthorityRecord,
    "authority record",
    "PROFILE",
    (
        Attribute("PROFILE", "profile", _Profile()),
        Attribute("OBJTYPE", "object_type", Words({word: word for word in _TYPES}), required=True),
        Attribute("PRINCIPAL", "principal", Text(USER_CHARACTERS_MAX)),
        Attribute("GROUP", "group", Text(USER_CHARACTERS_MAX)),
        Attribute("AUTHLIST", "authorities", SeveralWords(_ALL)),
        DESCR,
    ),
    without_effect=ANYWHERE_WITHOUT_EFFECT | words("MATCH SERVCOMP"),
    refused={"AUTHLIST": "AUTHLIST can be displayed and not set; AUTHADD and AUTHRMV change it"},
    name_field="profile",
    nameless=True,
    selectors={word: word for word in ("PROFILE", "OBJTYPE", "PRINCIPAL", "GROUP")},
    rules=(_one_entity, _profile_fits, _authorities_fit),
)

MAPS = ("ADDRESSMAP", "USERMAP", "SSLPEERMAP")
"""Types of rules that say as whom somebody acts."""
RULE_MATCHES = {
    "ADDRESSMAP": "ADDRESS",
    "USERMAP": "CLNTUSER",
    "SSLPEERMAP": "SSLPEER",
    "BLOCKUSER": "USERLIST",
    "BLOCKADDR": "ADDRESS",
}
"""Types of rules, and what each of them has to say."""


def _rule_says_whom(rule: ChannelRule) -> tuple[str, str, str] | None:
    keyword = RULE_MATCHES[rule.rule]
    attribute = CHLAUTH.attribute(keyword)
    if attribute is not None and getattr(rule, attribute.field):
        return None
    return (keyword, "missing", f"whom TYPE({rule.rule}) is about")


def _blocked_everywhere(rule: ChannelRule) -> tuple[str, str, str] | None:
    # An address is blocked before anybody knows which channel it asks for.
    if rule.rule == "BLOCKADDR" and rule.profile != "*":
        return ("CHLAUTH", rule.profile, "'*' with TYPE(BLOCKADDR)")
    return None


def _user_fits_its_source(rule: ChannelRule) -> tuple[str, str, str] | None:
    if rule.rule in MAPS and rule.user_source == "MAP" and not rule.user:
        return ("MCAUSER", "missing", "the user that USERSRC(MAP) leads to")
    if rule.user and rule.user_source != "MAP":
        return ("MCAUSER", rule.user, f"nothing with USERSRC({rule.user_source})")
    return None


CHLAUTH = ObjectKind(
    ChannelRule,
    "channel rule",
    "CHLAUTH",
    (
        Attribute("CHLAUTH", "profile", ProfileForm(), required=True),
        Attribute("TYPE", "rule", Words({word: word for word in RULE_MATCHES}), required=True),
        DESCR,
        Attribute("ADDRESS", "address", AddressPattern(), variants=(*MAPS, "BLOCKADDR")),
        Attribute("CLNTUSER", "client_user", Text(USER_CHARACTERS_MAX), variants=("USERMAP",)),
        Attribute("SSLPEER", "tls_peer", PeerPattern(PEER_CHARACTERS_MAX), variants=("SSLPEERMAP",)),
        Attribute("USERLIST", "users", Texts(USERS_MAX, USER_CHARACTERS_MAX), variants=("BLOCKUSER",)),
        Attribute(
            "USERSRC", "user_source", Words({word: word for word in ("MAP", "CHANNEL", "NOACCESS")}), variants=MAPS
        ),
        Attribute("MCAUSER", "user", Text(USER_CHARACTERS_MAX), variants=MAPS),
    ),
    without_effect=ANYWHERE_WITHOUT_EFFECT | words("MATCH"),
    # What would make a rule stricter or laxer than it is here must not pass as if it did.
    fixed={"CHCKCLNT": "ASQMGR", "SSLCERTI": "", "WARN": "NO"},
    name_field="profile",
    variant_field="rule",
    selectors={"TYPE": "TYPE", "ADDRESS": "ADDRESS", "CLNTUSER": "CLNTUSER", "SSLPEER": "SSLPEER"},
    rules=(_rule_says_whom, _blocked_everywhere, _user_fits_its_source),
)
