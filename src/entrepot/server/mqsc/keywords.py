# SPDX-License-Identifier: Apache-2.0
"""One table per kind of object: MQ's keyword, our field, and the form of its value.

A new kind is one more entry of `OBJECT_KINDS`; reading, DISPLAY, dump and
every error message follow from it. Queues and what goes with them are here,
the others in channel_keywords.py, security_keywords.py and topic_keywords.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from entrepot import limits
from entrepot.engine.definitions import (
    AliasQueue,
    Definition,
    LocalQueue,
    ManagerAttributes,
    ModelQueue,
    NameList,
    Process,
    RemoteQueue,
    require_own_name,
)
from entrepot.errors import InvalidSetting
from entrepot.server.mqsc.channel_keywords import CHANNEL, LISTENER
from entrepot.server.mqsc.forms import ENABLED, YES, Form, Integer, Name, Names, Switch, Text, Words
from entrepot.server.mqsc.object_kind import ANYWHERE_WITHOUT_EFFECT, COUNT_MAX, DESCR, Attribute, ObjectKind, words
from entrepot.server.mqsc.security_keywords import AUTHREC, CHLAUTH
from entrepot.server.mqsc.topic_keywords import SUBSCRIPTION, TOPIC

BUFFER_BYTES_MAX = 2**62
"""More than any machine has: the retained publications are never on disk alone."""


def _low_not_above_high(queue: LocalQueue | ModelQueue) -> tuple[str, str, str] | None:
    low, high = queue.depth_low_percent, queue.depth_high_percent
    return ("QDEPTHLO", str(low), f"at most QDEPTHHI, which is {high}") if low > high else None


_GET = Attribute("GET", "get_enabled", ENABLED)
_QUEUE = (
    DESCR,
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

_QUEUE_WITHOUT_EFFECT = ANYWHERE_WITHOUT_EFFECT | words(
    "ACCTQ CAPEXPRY CFSTRUCT CLCHNAME CLUSNL CLUSTER CLWLPRTY CLWLRANK CLWLUSEQ DEFBIND DEFPRESP DEFREADA DEFSOPT"
    " DISTL IMGRCOVQ INDXTYPE MONQ NOSHARE NPMCLASS OTEL OTELPCTL PROPCTL QSVCIEV QSVCINT RETINTVL SCOPE SHARE STATQ"
    " STGCLASS TARGTYPE TPIPE"
)
_QMGR_WITHOUT_EFFECT = ANYWHERE_WITHOUT_EFFECT | words(
    "ACCTCONO ACCTINT ACCTMQI ACCTQ ACTIVREC ACTVCONO ACTVTRC ADOPTCTX AUTHOREV CCSID CERTLABL CHAD CHADEV CHADEXIT"
    " CHLEV CLWLDATA CLWLEXIT CLWLLEN CLWLMRUC CLWLUSEQ CMDEV CONFIGEV CONNAUTH DEFCLXQ IMGINTVL IMGLOGLN"
    " IMGRCOVO IMGRCOVQ IMGSCHED INHIBTEV IPADDRV LOCALEV LOGGEREV MARKINT MAXHANDS MAXPROPL MONACLS MONCHL MONQ"
    " PSCLUS PSMODE PSNPMSG PSNPRES PSRTYCNT PSSYNCPT REMOTEEV REPOS REPOSNL REVDNS ROUTEREC SCHINIT SCMDSERV"
    " SSLCRLNL SSLCRYP SSLEV SSLFIPS SSLRKEYC STATACLS STATCHL STATINT STATMQI STATQ STRSTPEV SUITEB"
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
                DESCR,
                Attribute("DEADQ", "dead_letter_queue", Name()),
                Attribute("DEFXMITQ", "default_transmission_queue", Name()),
                Attribute("MAXMSGL", "body_bytes_max", Integer(0, limits.BODY_BYTES_MAX)),
                Attribute("MAXUMSGS", "uncommitted_max", Integer(1, COUNT_MAX)),
                Attribute("TRIGINT", "trigger_interval_ms", Integer(0, COUNT_MAX)),
                Attribute("PERFMEV", "performance_events", ENABLED),
                Attribute("SSLKEYR", "tls_folder", Text(256)),
                # MQ keeps it in an AUTHINFO object, of which there would be only one here.
                Attribute("CHCKCLNT", "password_check", Words({w: w for w in ("NONE", "OPTIONAL", "REQUIRED")})),
                Attribute("CHLAUTH", "channel_rules_enabled", ENABLED),
                Attribute("PARENT", "parent", Name()),
                # Ours: what one user may hold at a time, and all users together.
                Attribute("USRUOWB", "user_uncommitted_bytes_max", Integer(0, BUFFER_BYTES_MAX)),
                Attribute("USRPREP", "user_prepared_max", Integer(0, COUNT_MAX)),
                Attribute("MAXPREP", "prepared_max", Integer(0, COUNT_MAX)),
                Attribute("USRPERMQ", "user_permanent_queues_max", Integer(0, COUNT_MAX)),
                Attribute("USRTEMPQ", "user_temporary_queues_max", Integer(0, COUNT_MAX)),
                Attribute("USRDSUB", "user_durable_subscriptions_max", Integer(0, COUNT_MAX)),
                Attribute("USRCLAIM", "user_claims_max", Integer(0, COUNT_MAX)),
                Attribute("MAXCLAIM", "claims_max", Integer(0, COUNT_MAX)),
                Attribute("USRWAIT", "user_waiting_max", Integer(0, COUNT_MAX)),
                Attribute("USRCONN", "user_connections_max", Integer(0, COUNT_MAX)),
                Attribute("UOWAGE", "unit_age_s_max", Integer(0, COUNT_MAX)),
            ),
            without_effect=_QMGR_WITHOUT_EFFECT,
            only_one=True,
        ),
        ObjectKind(
            LocalQueue,
            "local queue",
            "QUEUE",
            (
                *_STORED_QUEUE,
                Attribute("DEFTYPE", "dynamic", _LOCAL_QUEUE_ORIGIN, alterable=False),
                Attribute("OWNER", "owner", Form(), shown_only=True),
            ),
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
                DESCR,
                Attribute("APPLTYPE", "application_type", Text(48)),
                Attribute("APPLICID", "application_id", Text(256)),
                Attribute("ENVRDATA", "environment_data", Text(128)),
                Attribute("USERDATA", "user_data", Text(128)),
            ),
            synonyms=("PRO", "PROC"),
            without_effect=ANYWHERE_WITHOUT_EFFECT,
        ),
        ObjectKind(
            NameList,
            "name list",
            "NAMELIST",
            (DESCR, Attribute("NAMES", "names", Names(limits.DISTRIBUTION_MAX))),
            synonyms=("NL",),
            without_effect=ANYWHERE_WITHOUT_EFFECT | {"NLTYPE"},
        ),
        CHANNEL,
        LISTENER,
        TOPIC,
        SUBSCRIPTION,
        CHLAUTH,
        AUTHREC,
    )
}

QUEUE_KINDS = tuple(kind for kind in OBJECT_KINDS.values() if kind.is_queue)

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
    require_own_name(definition)
    where = f"{kind.word}({getattr(definition, kind.name_field)})"
    belonging = kind.attributes_of(definition)
    for attribute in kind.attributes:
        value = getattr(definition, attribute.field)
        if not attribute.form.fits(value):
            raise InvalidSetting(f"{attribute.keyword} of {where}", repr(value), attribute.form.expected)
        if attribute not in belonging and value != getattr(kind.definition(name=definition.name), attribute.field):
            types = " or ".join(attribute.variants)
            raise InvalidSetting(f"{attribute.keyword} of {where}", repr(value), f"nothing, it belongs to {types}")
    for rule in kind.rules:
        if broken := rule(definition):
            keyword, text, expected = broken
            raise InvalidSetting(f"{keyword} of {where}", text, expected)
