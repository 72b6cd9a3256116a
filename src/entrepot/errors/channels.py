# SPDX-License-Identifier: Apache-2.0
"""The way to the queue manager, and between queue managers."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class ChannelError(EntrepotError):
    code = "C00"


class ConnectionClosed(ChannelError):
    code = "C01"
    reason = 2018
    text = "this connection is closed"
    hint = "Connect again with entrepot.connect(...)."


class ConnectFailed(ChannelError):
    peer: str
    problem: str
    code = "C02"
    reason = 2538
    retryable = True
    text = "no queue manager answers at {peer}: {problem}"
    hint = "Start it with entrepot qm start, or check address and port."


class ConnectionLost(ChannelError):
    peer: str
    problem: str
    code = "C03"
    reason = 2009
    outcome = "unknown"
    retryable = True
    text = "the connection to {peer} broke: {problem}"
    hint = "The verb may have happened or not. Look before you do it again, or use units of work."


class HeartbeatMissed(ChannelError):
    peer: str
    silent_s: float
    code = "C04"
    reason = 2009
    text = "{peer} has been silent for {silent_s:.0f} s"
    hint = "Its units of work were backed out. Look whether it still runs."


class ChannelNotAvailable(ChannelError):
    channel: str
    problem: str
    code = "C05"
    reason = 2537
    retryable = True
    text = "channel {channel} is not available: {problem}"
    hint = "Look at it with DISPLAY CHANNEL({channel}) and DISPLAY CHSTATUS({channel})."


class WrongManager(ChannelError):
    peer: str
    wanted: str
    found: str
    code = "C06"
    reason = 2058
    text = "{peer} is queue manager {found}, not {wanted}"
    hint = "Mend the URL or the channel's CONNAME."


class SequenceMismatch(ChannelError):
    channel: str
    ours: str
    theirs: str
    code = "C07"
    text = "channel {channel}: this end has {ours}, the other end has {theirs}"
    hint = (
        "One end has lost or restored its history. Find out which messages are missing or would come twice,"
        " then RESET CHANNEL({channel}) SEQNUM(1) at both ends."
    )


class ChannelInDoubt(ChannelError):
    channel: str
    batch: str
    code = "C08"
    outcome = "unknown"
    text = "channel {channel} is in doubt about batch {batch}"
    hint = "It resolves itself with the next connection; else RESOLVE CHANNEL({channel}) ACTION(COMMIT or BACKOUT)."


class TooManyConnections(ChannelError):
    what_of: str
    limit: int
    code = "C09"
    reason = 2025
    retryable = True
    text = "{what_of} has its maximum of {limit} connections"
    hint = "Close some, or raise MAXINST of the channel or MAXCONN of the listener."


class HandshakeTimedOut(ChannelError):
    peer: str
    seconds: float
    code = "C10"
    text = "{peer} did not identify itself within {seconds:.0f} s"
    hint = "Connect again; a client says HELLO at once."


class ListenerUnsafe(ChannelError):
    listener: str
    address: str
    code = "C11"
    reason = 2035
    text = "listener {listener} would be open to the network at {address}, and clients there could not be identified"
    hint = (
        "Add a user with entrepot qm user add, or a certificate authority (ca.pem) and TLS(YES);"
        " or listen at 127.0.0.1."
    )


class AddressInUse(ChannelError):
    address: str
    problem: str
    code = "C12"
    text = "cannot listen at {address}: {problem}"
    hint = "Choose another PORT or IPADDR, or stop the program that listens there."


class QueueManagerQuiescing(ChannelError):
    name: str
    problem: str
    code = "C13"
    reason = 2161
    retryable = True
    text = "queue manager {name} ends this connection: {problem}"
    hint = "Connect again later."


class Fenced(ChannelError):
    name: str
    epoch: int
    current: int
    code = "C14"
    text = "another connection acts as {name}: its epoch is {current}, this one's {epoch}"
    hint = "Nothing more is done for this connection, and what it left open was backed out. Let this worker end."


class ProtocolError(ChannelError):
    code = "C20"


class FrameUnreadable(ProtocolError):
    problem: str
    code = "C24"
    text = "the other end does not keep to the protocol: {problem}"
    hint = "The connection is closed. Both ends must speak what docs/WIRE.md says."


class ForeignProtocol(ProtocolError):
    protocol: str
    code = "C25"
    text = "the other end speaks {protocol}, not Entrepot's protocol"
    hint = "Check address and port: TLS wants mqs:// and a listener with TLS, AMQP a listener of its own."


class FrameTooLong(ProtocolError):
    frame_bytes: int
    frame_bytes_max: int
    code = "C21"
    text = "a frame of {frame_bytes} bytes, the limit is {frame_bytes_max}"
    hint = "The connection is closed. Stay within MAXMSGL of the channel."


class UnknownVerb(ProtocolError):
    verb: int
    code = "C22"
    text = "verb {verb} is unknown or not allowed here"
    hint = "The connection is closed. Both ends must speak what docs/WIRE.md says."


class VersionUnsupported(ProtocolError):
    theirs: int
    ours: int
    code = "C23"
    text = "the other end speaks version {theirs} of the protocol, this one {ours}"
    hint = "Install matching versions of Entrepot."
