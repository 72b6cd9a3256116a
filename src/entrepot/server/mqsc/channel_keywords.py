# SPDX-License-Identifier: Apache-2.0
"""The tables of channels and listeners."""

from __future__ import annotations

from entrepot import limits
from entrepot.engine.definitions import Channel, Listener
from entrepot.server.mqsc.addresses import PORT_MAX, ConnectionName, ListenerAddress, PeerPattern
from entrepot.server.mqsc.forms import YES, Integer, Name, Text, Words
from entrepot.server.mqsc.object_kind import ANYWHERE_WITHOUT_EFFECT, COUNT_MAX, DESCR, Attribute, ObjectKind, words

USER_CHARACTERS_MAX = 64
PEER_CHARACTERS_MAX = 1024

_SECONDS_MAX = 999_999
_CLIENT = ("SVRCONN",)
_SENDER = ("SDR",)
_RECEIVER = ("RCVR",)
_BETWEEN_MANAGERS = ("SDR", "RCVR")
_INWARD = ("SVRCONN", "RCVR")

_KILOBYTE = 1024
_COUNT = Integer(0, COUNT_MAX)

# An exit of MQ's may be what keeps intruders out: to accept it and never call it would be to let them in.
_EXITS = dict.fromkeys(("SCYEXIT", "SENDEXIT", "RCVEXIT", "MSGEXIT", "MREXIT"), "")


def _sender_knows_its_way(channel: Channel) -> tuple[str, str, str] | None:
    if channel.channel_type != "SDR":
        return None
    if not channel.connection_name:
        return ("CONNAME", "missing", "where the other queue manager is, as a SDR needs to know")
    if not channel.transmission_queue:
        return ("XMITQ", "missing", "the transmission queue, as a SDR needs one to send from")
    return None


CHANNEL = ObjectKind(
    Channel,
    "channel",
    "CHANNEL",
    (
        Attribute(
            "CHLTYPE",
            "channel_type",
            Words({word: word for word in ("SVRCONN", "SDR", "RCVR")}),
            alterable=False,
            required=True,
        ),
        DESCR,
        Attribute("CONNAME", "connection_name", ConnectionName(), variants=_SENDER),
        Attribute("XMITQ", "transmission_queue", Name(), variants=_SENDER),
        Attribute("BATCHSZ", "batch_size", Integer(1, 9999), variants=_BETWEEN_MANAGERS),
        Attribute("BATCHINT", "batch_interval_ms", _COUNT, variants=_SENDER),
        Attribute("BATCHLIM", "batch_bytes_max", Integer(0, 999_999, _KILOBYTE), variants=_SENDER),
        Attribute("HBINT", "heartbeat_s", Integer(0, _SECONDS_MAX)),
        Attribute("DISCINT", "disconnect_s", Integer(0, _SECONDS_MAX), variants=_SENDER),
        Attribute("SHORTTMR", "short_retry_s", _COUNT, variants=_SENDER),
        Attribute("SHORTRTY", "short_retry_count", _COUNT, variants=_SENDER),
        Attribute("LONGTMR", "long_retry_s", _COUNT, variants=_SENDER),
        Attribute("LONGRTY", "long_retry_count", _COUNT, variants=_SENDER),
        Attribute("NPMSPEED", "nonpersistent_fast", Words({"FAST": True, "NORMAL": False}), variants=_BETWEEN_MANAGERS),
        Attribute("MAXMSGL", "body_bytes_max", Integer(0, limits.BODY_BYTES_MAX)),
        Attribute("MAXINST", "instances_max", _COUNT, variants=_CLIENT),
        # MQ counts the instances of one client; we tell clients apart by their address.
        Attribute("MAXINSTC", "instances_per_address_max", _COUNT, variants=_CLIENT),
        Attribute("MCAUSER", "user", Text(USER_CHARACTERS_MAX), variants=_INWARD),
        Attribute("USERID", "remote_user", Text(USER_CHARACTERS_MAX), variants=_SENDER),
        Attribute("SEQWRAP", "sequence_wrap", Integer(100, COUNT_MAX), variants=_BETWEEN_MANAGERS),
        Attribute("MRRTY", "retry_count", _COUNT, variants=_RECEIVER),
        Attribute("MRTMR", "retry_ms", _COUNT, variants=_RECEIVER),
        Attribute("SSLCIPH", "tls", Text(32)),
        Attribute("SSLCAUTH", "tls_client_required", Words({"REQUIRED": True, "OPTIONAL": False}), variants=_INWARD),
        Attribute("SSLPEER", "tls_peer", PeerPattern(PEER_CHARACTERS_MAX)),
    ),
    synonyms=("CHL",),
    without_effect=ANYWHERE_WITHOUT_EFFECT
    | words(
        "BATCHHB CERTLABL CHLTABLE COMPHDR COMPMSG CONVERT DEFCDISP KAINT LOCLADDR MCANAME MCATYPE MODENAME MONCHL"
        " MRDATA MSGDATA PROPCTL RCVDATA SCYDATA SENDDATA SHARECNV SPLPROT STATCHL TPNAME USEDLQ"
    ),
    fixed={"TRPTYPE": "TCP", "PUTAUT": "DEF", **_EXITS},
    refused={
        "PASSWORD": "a password does not belong in a script, where anybody may read it:"
        " put it into the queue manager's credentials file"
    },
    variant_field="channel_type",
    selectors={"TYPE": "CHLTYPE", "CHLTYPE": "CHLTYPE"},
    rules=(_sender_knows_its_way,),
)

LISTENER = ObjectKind(
    Listener,
    "listener",
    "LISTENER",
    (
        DESCR,
        Attribute("PORT", "port", Integer(0, PORT_MAX)),
        Attribute("IPADDR", "address", ListenerAddress()),
        Attribute("CONTROL", "control", Words({"QMGR": "QMGR", "MANUAL": "MANUAL"})),
        Attribute("BACKLOG", "backlog", _COUNT),
        # The others are ours; MQ has an AMQP service of its own, and sets limits for the whole machine.
        Attribute("PROTOCOL", "protocol", Words({"NATIVE": "NATIVE", "AMQP": "AMQP"})),
        Attribute("TLS", "tls", YES),
        Attribute("CHANNEL", "channel", Name()),
        Attribute("MAXCONN", "connections_max", Integer(1, COUNT_MAX)),
        Attribute("MAXCONNA", "connections_per_address_max", Integer(1, COUNT_MAX)),
        Attribute("HSTIMEOUT", "handshake_s", Integer(1, 3600)),
    ),
    synonyms=("LSTR",),
    without_effect=ANYWHERE_WITHOUT_EFFECT | words("ADAPTER COMMANDS LOCLNAME NTBNAMES SESSIONS SOCKET TPNAME"),
    fixed={"TRPTYPE": "TCP"},
)
