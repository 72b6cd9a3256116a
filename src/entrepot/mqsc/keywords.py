# SPDX-License-Identifier: Apache-2.0
"""One table per kind of object: MQ's keyword, our field, and the form of its value.

A new kind is one more entry of `OBJECT_KINDS`; reading, DISPLAY, dump and
every error message follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from entrepot import limits
from entrepot.errors import InvalidSetting
from entrepot.mqsc.forms import ENABLED, YES, Form, Integer, Name, Names, RowValue, Switch, Text, Words
from entrepot.queues.definitions import (
    AliasQueue,
    Definition,
    LocalQueue,
    ManagerAttributes,
    ModelQueue,
    NameList,
    Process,
    RemoteQueue,
    require_name,
)


def words(text: str) -> frozenset[str]:
    """A set of keywords, written as a line of them."""
    return frozenset(text.split())


COUNT_MAX = 999_999_999
"""MQ's highest value for counts and intervals."""

BUFFER_BYTES_MAX = 1024 * 1024 * limits.MIB


@dataclass(frozen=True, slots=True)
class Attribute:
    keyword: str
    field: str
    form: Form
    synonyms: tuple[str, ...] = ()
    alterable: bool = True
    """False for what is settled when the object comes to be: ALTER refuses it, LIKE does not copy it."""

    @property
    def words(self) -> tuple[str, ...]:
        """All words by which a script can call it."""
        off = (self.form.off,) if isinstance(self.form, Switch) else ()
        return (self.keyword, *self.synonyms, *off)

    def write(self, value: Any) -> str:
        """The attribute as a script says it."""
        if isinstance(self.form, Switch):
            return self.form.on if value else self.form.off
        return f"{self.keyword}({self.form.write(value)})"


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """What MQSC needs to know about a kind of object."""

    definition: type[Definition]
    label: str
    """Its name in a sentence."""
    name_keyword: str
    """Before its name in what DISPLAY shows."""
    attributes: tuple[Attribute, ...]
    synonyms: tuple[str, ...] = ()
    without_effect: frozenset[str] = frozenset()
    """MQ's attributes that are accepted, with a warning, and mean nothing here."""
    status: tuple[str, ...] = ()
    """What DISPLAY can show beyond the definition, out of the object's status."""
    only_one: bool = False
    """The queue manager: no name in parentheses, no DEFINE and no DELETE."""
    startable: bool = False
    rules: tuple[Callable[[Any], tuple[str, str, str] | None], ...] = ()
    """What must hold between attributes; a broken rule returns keyword, value and what was expected."""

    @property
    def word(self) -> str:
        return self.definition.kind

    @property
    def is_queue(self) -> bool:
        return self.name_keyword == "QUEUE"

    @property
    def holds_messages(self) -> bool:
        return "CURDEPTH" in self.status

    @property
    def words(self) -> tuple[str, ...]:
        """All keywords that go with it."""
        own = (word for attribute in self.attributes for word in attribute.words)
        return (*own, *self.status, *self.without_effect)

    def attribute(self, word: str) -> Attribute | None:
        return next((attribute for attribute in self.attributes if word in attribute.words), None)

    def row(self, definition: Definition) -> dict[str, RowValue]:
        """The whole definition under MQ's keywords."""
        row: dict[str, RowValue] = {self.name_keyword: definition.name}
        if self.is_queue:
            row["TYPE"] = self.word
        for attribute in self.attributes:
            row[attribute.keyword] = attribute.form.show(getattr(definition, attribute.field))
        return row


def _low_not_above_high(queue: LocalQueue | ModelQueue) -> tuple[str, str, str] | None:
    low, high = queue.depth_low_percent, queue.depth_high_percent
    return ("QDEPTHLO", str(low), f"at most QDEPTHHI, which is {high}") if low > high else None


_DESCR = Attribute("DESCR", "description", Text(64))
_GET = Attribute("GET", "get_enabled", ENABLED)
_QUEUE = (
    _DESCR,
    Attribute("PUT", "put_enabled", ENABLED),
    Attribute("DEFPSIST", "default_persistent", YES),
    Attribute("DEFPRTY", "default_priority", Integer(0, limits.PRIORITY_MAX)),
)
_STORED_QUEUE = (
    *_QUEUE,
    _GET,
    Attribute("MAXDEPTH", "depth_max", Integer(0, limits.DEPTH_MAX)),
    Attribute("MAXMSGL", "body_bytes_max", Integer(0, limits.BODY_BYTES_MAX)),
    Attribute("MSGDLVSQ", "delivery", Words({"PRIORITY": "PRIORITY", "FIFO": "FIFO"})),
    Attribute("USAGE", "usage", Words({"NORMAL": "NORMAL", "XMITQ": "XMITQ"})),
    Attribute("BOTHRESH", "backout_threshold", Integer(0, COUNT_MAX)),
    Attribute("BOQNAME", "backout_queue", Name()),
    Attribute("HARDENBO", "backout_hardened", Switch("HARDENBO", "NOHARDENBO")),
    Attribute("TRIGGER", "trigger_enabled", Switch("TRIGGER", "NOTRIGGER")),
    Attribute("TRIGTYPE", "trigger_type", Words({word: word for word in ("FIRST", "EVERY", "DEPTH", "NONE")})),
    Attribute("TRIGDPTH", "trigger_depth", Integer(1, COUNT_MAX)),
    Attribute("TRIGMPRI", "trigger_priority", Integer(0, limits.PRIORITY_MAX)),
    Attribute("TRIGDATA", "trigger_data", Text(64)),
    Attribute("PROCESS", "process", Name()),
    Attribute("INITQ", "initiation_queue", Name()),
    Attribute("QDEPTHHI", "depth_high_percent", Integer(0, 100)),
    Attribute("QDEPTHLO", "depth_low_percent", Integer(0, 100)),
    Attribute("QDPHIEV", "depth_high_event", ENABLED),
    Attribute("QDPLOEV", "depth_low_event", ENABLED),
    Attribute("QDPMAXEV", "depth_full_event", ENABLED),
    Attribute("STREAMQ", "stream_queue", Name()),
    Attribute("STRMQOS", "stream_required", Words({"BESTEF": False, "MUSTDUP": True})),
    # Ours: MQ sizes its queue buffers for all queues at once.
    Attribute("BUFFER", "buffer_bytes", Integer(0, BUFFER_BYTES_MAX)),
)

_ANYWHERE = words("CMDSCOPE QSGDISP CUSTOM FORCE")
_QUEUE_WITHOUT_EFFECT = _ANYWHERE | words(
    "ACCTQ CAPEXPRY CFSTRUCT CLCHNAME CLUSNL CLUSTER CLWLPRTY CLWLRANK CLWLUSEQ DEFBIND DEFPRESP DEFREADA DEFSOPT"
    " DISTL IMGRCOVQ INDXTYPE MONQ NOSHARE NPMCLASS OTEL OTELPCTL PROPCTL QSVCIEV QSVCINT RETINTVL SCOPE SHARE STATQ"
    " STGCLASS TARGTYPE TPIPE"
)
_QMGR_WITHOUT_EFFECT = _ANYWHERE | words(
    "ACCTCONO ACCTINT ACCTMQI ACCTQ ACTIVREC ACTVCONO ACTVTRC ADOPTCTX AUTHOREV CCSID CERTLABL CHAD CHADEV CHADEXIT"
    " CHLAUTH CHLEV CLWLDATA CLWLEXIT CLWLLEN CLWLMRUC CLWLUSEQ CMDEV CONFIGEV CONNAUTH DEFCLXQ IMGINTVL IMGLOGLN"
    " IMGRCOVO IMGRCOVQ IMGSCHED INHIBTEV IPADDRV LOCALEV LOGGEREV MARKINT MAXHANDS MAXPROPL MONACLS MONCHL MONQ"
    " PARENT PSCLUS PSMODE PSNPMSG PSNPRES PSRTYCNT PSSYNCPT REMOTEEV REPOS REPOSNL REVDNS ROUTEREC SCHINIT SCMDSERV"
    " SSLCRLNL SSLCRYP SSLEV SSLFIPS SSLKEYR SSLRKEYC STATACLS STATCHL STATINT STATMQI STATQ STRSTPEV SUITEB"
    " TREELIFE"
)

_LOCAL_QUEUE_ORIGIN = Words(
    {"PREDEFINED": "", "PERMDYN": "PERMANENT", "TEMPDYN": "TEMPORARY"}, shown_only=frozenset({"TEMPDYN"})
)
_MODEL_QUEUE_OFFSPRING = Words({"TEMPDYN": "TEMPORARY", "PERMDYN": "PERMANENT"})

OBJECT_KINDS: dict[str, ObjectKind] = {
    kind.word: kind
    for kind in (
        ObjectKind(
            ManagerAttributes,
            "queue manager",
            "QMNAME",
            (
                _DESCR,
                Attribute("DEADQ", "dead_letter_queue", Name()),
                Attribute("DEFXMITQ", "default_transmission_queue", Name()),
                Attribute("MAXMSGL", "body_bytes_max", Integer(0, limits.BODY_BYTES_MAX)),
                Attribute("MAXUMSGS", "uncommitted_max", Integer(1, COUNT_MAX)),
                Attribute("TRIGINT", "trigger_interval_ms", Integer(0, COUNT_MAX)),
                Attribute("PERFMEV", "performance_events", ENABLED),
            ),
            without_effect=_QMGR_WITHOUT_EFFECT,
            only_one=True,
        ),
        ObjectKind(
            LocalQueue,
            "local queue",
            "QUEUE",
            (*_STORED_QUEUE, Attribute("DEFTYPE", "dynamic", _LOCAL_QUEUE_ORIGIN, alterable=False)),
            synonyms=("QL",),
            without_effect=_QUEUE_WITHOUT_EFFECT,
            status=("CURDEPTH", "IPPROCS"),
            rules=(_low_not_above_high,),
        ),
        ObjectKind(
            ModelQueue,
            "model queue",
            "QUEUE",
            (*_STORED_QUEUE, Attribute("DEFTYPE", "dynamic_kind", _MODEL_QUEUE_OFFSPRING)),
            synonyms=("QM",),
            without_effect=_QUEUE_WITHOUT_EFFECT,
            rules=(_low_not_above_high,),
        ),
        ObjectKind(
            AliasQueue,
            "alias queue",
            "QUEUE",
            (*_QUEUE, _GET, Attribute("TARGET", "target", Name(), synonyms=("TARGQ",))),
            synonyms=("QA",),
            without_effect=_QUEUE_WITHOUT_EFFECT,
        ),
        ObjectKind(
            RemoteQueue,
            "remote queue",
            "QUEUE",
            (
                *_QUEUE,
                Attribute("RNAME", "remote_queue", Name()),
                Attribute("RQMNAME", "remote_manager", Name()),
                Attribute("XMITQ", "transmission_queue", Name()),
            ),
            synonyms=("QR",),
            without_effect=_QUEUE_WITHOUT_EFFECT,
        ),
        ObjectKind(
            Process,
            "process",
            "PROCESS",
            (
                _DESCR,
                Attribute("APPLTYPE", "application_type", Text(48)),
                Attribute("APPLICID", "application_id", Text(256)),
                Attribute("ENVRDATA", "environment_data", Text(128)),
                Attribute("USERDATA", "user_data", Text(128)),
            ),
            synonyms=("PRO", "PROC"),
            without_effect=_ANYWHERE,
        ),
        ObjectKind(
            NameList,
            "name list",
            "NAMELIST",
            (_DESCR, Attribute("NAMES", "names", Names(limits.DISTRIBUTION_MAX))),
            synonyms=("NL",),
            without_effect=_ANYWHERE | {"NLTYPE"},
        ),
    )
}

QUEUE_KINDS = tuple(kind for kind in OBJECT_KINDS.values() if kind.is_queue)

LATER_KINDS: dict[str, tuple[str, ...]] = {
    "CHANNEL": ("CHL",),
    "LISTENER": ("LSTR",),
    "TOPIC": ("TPC",),
    "SUB": (),
    "AUTHREC": (),
}
"""Kinds of MQ that later releases bring, with their synonyms: known words, and not yet of use."""

STATUS_KEYWORDS = words("CURDEPTH IPPROCS UNCOM MSGAGE QTIME LGETDATE LGETTIME LPUTDATE LPUTTIME MONQ MEDIALOG")
"""What MQ's DISPLAY QSTATUS can show; a queue manager may give more."""


def kinds_with(word: str) -> Iterable[ObjectKind]:
    """The kinds that have an attribute of this name."""
    return (kind for kind in OBJECT_KINDS.values() if kind.attribute(word))


def require_valid(definition: Definition) -> None:
    """Refuse a definition that no script could say; the rule for objects that Python code defines.

    Raises:
        InvalidName, InvalidSetting: With MQ's keyword for the field at fault.
    """
    kind = OBJECT_KINDS[definition.kind]
    require_name(kind.word, definition.name)
    where = f"{kind.word}({definition.name})"
    for attribute in kind.attributes:
        value = getattr(definition, attribute.field)
        if not attribute.form.fits(value):
            raise InvalidSetting(f"{attribute.keyword} of {where}", repr(value), attribute.form.expected)
    for rule in kind.rules:
        if broken := rule(definition):
            keyword, text, expected = broken
            raise InvalidSetting(f"{keyword} of {where}", text, expected)
