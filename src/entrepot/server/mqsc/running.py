# SPDX-License-Identifier: Apache-2.0
"""What runs: the commands that act on channels, connections and topics, and what DISPLAY can say of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from entrepot.engine.topics import parse_pattern
from entrepot.server.mqsc.display import matches
from entrepot.server.mqsc.forms import YES, Form, Integer, Words
from entrepot.server.mqsc.object_kind import COUNT_MAX, words
from entrepot.server.mqsc.topic_keywords import SUBSCRIPTION_TYPES, TopicPatternForm


@dataclass(frozen=True, slots=True)
class StatusNoun:
    """A noun of DISPLAY whose rows the queue manager makes while it runs."""

    label: str
    name_keyword: str
    keywords: frozenset[str]
    """MQ's and ours; a queue manager may give more, or leave some out."""
    synonyms: tuple[str, ...] = ()
    kind: str = ""
    """The kind of the objects it is about; nothing for connections, which nobody defines."""
    selected_by: Literal["name", "id", "topic", ""] = "name"
    """What stands in the noun's parentheses: a name, an id in letters of either case, topics, or nothing."""
    selectors: Mapping[str, Words] = field(default_factory=dict)
    """Words that select when they have a value."""

    def selection(self, said: str) -> Callable[[str], bool]:
        """Whether a name is meant by what stands in the noun's parentheses."""
        match self.selected_by:
            case "name":
                return partial(matches, said)
            case "id":
                return lambda name: matches(said.upper(), name.upper())
            case "topic":
                topics = TopicPatternForm().parse(said)
                return parse_pattern(topics).matches if topics else lambda topic: not topic
        return lambda _: True


RUNNING = {
    "CHSTATUS": StatusNoun(
        "status of channel",
        "CHANNEL",
        words(
            "CHANNEL CHLTYPE STATUS CONNAME XMITQ RQMNAME CURSEQNO LSTSEQNO CURLUWID LSTLUWID INDOUBT MSGS BATCHES"
            " BATCHSZ BYTSSENT BYTSRCVD CHSTADA CHSTATI HBINT MCAUSER RAPPLTAG SHORTRTS LONGRTS STOPREQ SUBSTATE"
            " CURMSGS NPMSPEED"
        ),
        synonyms=("CHS",),
        kind="CHANNEL",
    ),
    "LSSTATUS": StatusNoun(
        "status of listener",
        "LISTENER",
        words("LISTENER STATUS PID PORT IPADDR BACKLOG CONTROL PROTOCOL TLS CONNS"),
        kind="LISTENER",
    ),
    "CONN": StatusNoun(
        "connection",
        "CONN",
        words("CONN CHANNEL CONNAME USERID APPLTAG UOWSTATE UOWSTDA QUEUES PROTOCOL"),
        selected_by="id",
    ),
    "TPSTATUS": StatusNoun(
        "status of topic",
        "TOPICSTR",
        words(
            "TOPICSTR ADMIN PUB SUB DEFPSIST DEFPRTY DURSUB PMSGDLV NPMSGDLV RETAINED PUBCOUNT SUBCOUNT"
            " MDURMDL MNDURMDL PUBSCOPE SUBSCOPE USEDLQ"
        ),
        synonyms=("TPS",),
        selected_by="topic",
    ),
    "SBSTATUS": StatusNoun(
        "status of subscription",
        "SUB",
        words("SUB TOPICSTR DURABLE SUBTYPE NUMMSGS DEST ACTCONN SUBUSER LMSGDATE LMSGTIME RESMDATE RESMTIME"),
        kind="SUB",
        selectors={"DURABLE": YES, "SUBTYPE": SUBSCRIPTION_TYPES},
    ),
    "PUBSUB": StatusNoun(
        "publish/subscribe with queue manager",
        "QMNAME",
        words("QMNAME TYPE STATUS"),
        selected_by="",
        selectors={"TYPE": Words({word: word for word in ("LOCAL", "PARENT", "CHILD")})},
    ),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A command that acts on something that runs."""

    verb: str
    nouns: tuple[str, ...]
    options: Mapping[str, Form] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    channel_types: tuple[str, ...] = ("SVRCONN", "SDR", "RCVR")
    """The types of channels that it is of use for."""


OPERATIONS = (
    Operation("START", ("CHANNEL", "LISTENER")),
    Operation(
        "STOP",
        ("CHANNEL",),
        {
            "MODE": Words({"QUIESCE": False, "FORCE": True}),
            "STATUS": Words({"STOPPED": False, "INACTIVE": True}),
        },
    ),
    Operation("STOP", ("LISTENER", "CONN")),
    Operation("RESET", ("CHANNEL",), {"SEQNUM": Integer(1, COUNT_MAX)}, channel_types=("SDR", "RCVR")),
    Operation(
        "RESOLVE",
        ("CHANNEL",),
        {"ACTION": Words({"COMMIT": True, "BACKOUT": False})},
        required=("ACTION",),
        channel_types=("SDR",),
    ),
    Operation("PING", ("CHANNEL",), channel_types=("SDR",)),
    Operation("CLEAR", ("TOPICSTR",), {"CLRTYPE": Words({"RETAINED": True})}, required=("CLRTYPE",)),
)


def operation_of(verb: str, noun: str) -> Operation | None:
    return next((operation for operation in OPERATIONS if operation.verb == verb and noun in operation.nouns), None)
