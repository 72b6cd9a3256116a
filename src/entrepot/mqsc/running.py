# SPDX-License-Identifier: Apache-2.0
"""What runs: the commands that act on channels, listeners and connections, and what DISPLAY can say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from entrepot.mqsc.forms import Form, Integer, Words
from entrepot.mqsc.object_kind import COUNT_MAX, words


@dataclass(frozen=True, slots=True)
class Running:
    """A noun of DISPLAY whose rows the queue manager makes while it runs."""

    label: str
    name_keyword: str
    keywords: frozenset[str]
    """MQ's and ours; a queue manager may give more, or leave some out."""
    synonyms: tuple[str, ...] = ()
    kind: str = ""
    """The kind of the objects it is about; nothing for connections, which nobody defines."""


RUNNING = {
    "CHSTATUS": Running(
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
    "LSSTATUS": Running(
        "status of listener",
        "LISTENER",
        words("LISTENER STATUS PID PORT IPADDR BACKLOG CONTROL PROTOCOL TLS CONNS"),
        kind="LISTENER",
    ),
    "CONN": Running(
        "connection",
        "CONN",
        words("CONN CHANNEL CONNAME USERID APPLTAG UOWSTATE UOWSTDA QUEUES PROTOCOL"),
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
)


def operation_of(verb: str, noun: str) -> Operation | None:
    return next((operation for operation in OPERATIONS if operation.verb == verb and noun in operation.nouns), None)
