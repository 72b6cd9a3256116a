# SPDX-License-Identifier: Apache-2.0
"""Every error Entrepot raises on purpose, in one tree.

    EntrepotError            code, outcome, retryable, advice
    ├ SettingError           a setting, name or argument is wrong
    ├ ChannelError           the way to the queue manager
    │ └ ProtocolError        the other end is not understood; closes the connection
    ├ QueueingError          a queue refuses a verb
    │ ├ SelectorError        a selector cannot be understood
    │ └ UnitOfWorkError      a unit of work cannot go on
    ├ MqscError              a command of the administration language
    ├ SecurityError          somebody may not, or is not who he says
    └ RecoveryError          the disk, the recovery log, the checkpoint

`outcome` answers the caller's question "may I do it again?": `not_done`
(nothing happened), `done` (it happened, and something else went wrong) or
`unknown`. `reason` is MQ's number for the same thing, where MQ has one.
Errors cross processes, so they pickle; docs/ERRORS.md lists them all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, dataclass_transform

Outcome = Literal["not_done", "done", "unknown"]


@dataclass_transform(eq_default=False)
class EntrepotError(Exception):
    """The root: `except EntrepotError` catches what Entrepot raises on purpose, and no bug."""

    code: ClassVar[str] = "E00"
    reason: ClassVar[int | None] = None
    outcome: ClassVar[Outcome] = "not_done"
    retryable: ClassVar[bool] = False
    text: ClassVar[str] = ""
    hint: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(eq=False, repr=False)(cls)

    def _values(self) -> dict[str, Any]:
        # The root itself is no dataclass, only what derives from it.
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._values().values())

    @property
    def advice(self) -> str:
        """What the reader of this error can do about it."""
        return self.hint.format(**self._values())

    @property
    def what(self) -> str:
        """What went wrong, without name, code and advice."""
        return self.text.format(**self._values())

    def __str__(self) -> str:
        number = f" {self.reason}" if self.reason else ""
        return f"{type(self).__name__} [{self.code}{number}]: {self.what}. {self.advice}".rstrip()


# --- settings -----------------------------------------------------------------------------


class SettingError(EntrepotError):
    code = "S00"


class InvalidSetting(SettingError):
    key: str
    value: str
    expected: str
    code = "S01"
    reason = 2046
    text = "{key} cannot be {value}"
    hint = "Expected: {expected}."


class LimitExceeded(SettingError):
    key: str
    value: int
    limit: int
    code = "S02"
    text = "{key} is {value}, the limit is {limit}"
    hint = "Stay within the limit; limits.py lists them all."


class InvalidName(SettingError):
    kind: str
    name: str
    code = "S03"
    reason = 2085
    text = "{name!r} is no valid name for a {kind}"
    hint = "A name has 1 to 48 characters out of A-Z a-z 0-9 . _ / %."


class InvalidArgument(SettingError):
    argument: str
    problem: str
    expected: str
    code = "S04"
    text = "argument {argument}: {problem}"
    hint = "Expected: {expected}."


class InvalidUrl(SettingError):
    url: str
    code = "S05"
    text = "{url!r} does not say where the queue manager is"
    hint = "Use embedded:PATH for a queue manager in this process."


class NoServer(SettingError):
    command: str
    code = "S06"
    text = "{command} needs the queue manager to run as a server"
    hint = "Start it with entrepot qm start."


# --- channels -----------------------------------------------------------------------------


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
    text = "{peer} has said nothing for {silent_s:.0f} s"
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
    text = "{peer} did not say who it is within {seconds:.0f} s"
    hint = "Connect again; a client says HELLO at once."


class ListenerUnsafe(ChannelError):
    listener: str
    address: str
    code = "C11"
    reason = 2035
    text = "listener {listener} would be open to the network at {address}, and nobody could show who he is"
    hint = (
        "Add a user with entrepot qm user add, or a certificate authority (ca.pem) and TLS(YES);"
        " or listen at 127.0.0.1."
    )


class AddressInUse(ChannelError):
    address: str
    problem: str
    code = "C12"
    text = "cannot listen at {address}: {problem}"
    hint = "Choose another PORT or IPADDR, or stop who listens there."


class QueueManagerQuiescing(ChannelError):
    name: str
    problem: str
    code = "C13"
    reason = 2161
    retryable = True
    text = "queue manager {name} ends this connection: {problem}"
    hint = "Connect again later."


class ProtocolError(ChannelError):
    code = "C20"


class FrameUnreadable(ProtocolError):
    problem: str
    code = "C24"
    text = "the other end does not keep to the protocol: {problem}"
    hint = "The connection is closed. Both ends must speak what docs/WIRE.md says."


class FrameTooLong(ProtocolError):
    frame_bytes: int
    frame_bytes_max: int
    code = "C21"
    text = "a frame of {frame_bytes} bytes, the limit is {frame_bytes_max}"
    hint = "The connection is closed. Stay within MAXMSGL of the channel."


class UnknownVerb(ProtocolError):
    verb: int
    code = "C22"
    text = "verb {verb} means nothing here"
    hint = "The connection is closed. Both ends must speak what docs/WIRE.md says."


class VersionUnsupported(ProtocolError):
    theirs: int
    ours: int
    code = "C23"
    text = "the other end speaks version {theirs} of the protocol, this one {ours}"
    hint = "Install matching versions of Entrepot."


# --- queueing -----------------------------------------------------------------------------


class QueueingError(EntrepotError):
    code = "Q00"


class QueueNotFound(QueueingError):
    queue: str
    code = "Q01"
    reason = 2085
    text = "there is no queue {queue}"
    hint = "Define it with DEFINE QLOCAL({queue}), or list the queues with DISPLAY QUEUE(*)."


class QueueFull(QueueingError):
    queue: str
    depth_max: int
    code = "Q02"
    reason = 2053
    retryable = True
    text = "queue {queue} holds its maximum of {depth_max} messages"
    hint = "Get messages from it, or raise the limit with ALTER QLOCAL({queue}) MAXDEPTH(...)."


class MessageTooLong(QueueingError):
    queue: str
    body_bytes: int
    body_bytes_max: int
    code = "Q03"
    reason = 2030
    text = "the message has {body_bytes} bytes, {queue} takes {body_bytes_max}"
    hint = "Split the message, or raise MAXMSGL of {queue}."


class PutInhibited(QueueingError):
    queue: str
    code = "Q04"
    reason = 2051
    retryable = True
    text = "puts to {queue} are inhibited"
    hint = "Wait until an administrator sets PUT(ENABLED)."


class GetInhibited(QueueingError):
    queue: str
    code = "Q05"
    reason = 2016
    retryable = True
    text = "gets from {queue} are inhibited"
    hint = "Wait until an administrator sets GET(ENABLED)."


class WrongQueueKind(QueueingError):
    queue: str
    kind: str
    verb: str
    code = "Q06"
    reason = 2045
    text = "{queue} is a {kind}: it does not {verb}"
    hint = "Name a local queue, or an alias of one."


class AliasBroken(QueueingError):
    queue: str
    target: str
    code = "Q07"
    reason = 2082
    text = "alias {queue} leads to {target}, which is missing or an alias itself"
    hint = "Define {target} as a local, model or remote queue, or alter TARGET of {queue}."


class TransmissionQueueMissing(QueueingError):
    queue: str
    transmission_queue: str
    manager: str
    code = "Q08"
    reason = 2196
    text = "no transmission queue {transmission_queue} for messages to {manager} (put to {queue})"
    hint = "Define it with DEFINE QLOCAL({transmission_queue}) USAGE(XMITQ)."


class QueueExists(QueueingError):
    queue: str
    code = "Q09"
    reason = 2100
    text = "a queue {queue} exists already"
    hint = "Use DEFINE ... REPLACE, ALTER it, or choose another name."


class QueueNotEmpty(QueueingError):
    queue: str
    depth: int
    code = "Q10"
    reason = 2055
    text = "queue {queue} still holds {depth} messages"
    hint = "Get them, CLEAR QLOCAL({queue}), or delete with PURGE."


class QueueInUse(QueueingError):
    queue: str
    problem: str
    code = "Q11"
    reason = 2042
    retryable = True
    text = "queue {queue} is in use: {problem}"
    hint = "Let the units of work and waiting gets on it end first."


class PersistentNotAllowed(QueueingError):
    queue: str
    code = "Q12"
    reason = 2048
    text = "{queue} is a temporary dynamic queue and takes no persistent message"
    hint = "Put it nonpersistently, or use a permanent queue."


class ObjectNotFound(QueueingError):
    kind: str
    name: str
    code = "Q13"
    reason = 2085
    text = "there is no {kind} {name}"
    hint = "Define it with DEFINE {kind}({name})."


class DistributionFailed(QueueingError):
    failures: tuple[tuple[str, str], ...]
    code = "Q14"
    reason = 2136
    text = "nothing was put, because of {failures}"
    hint = "Mend or leave out the queues named."


class RequestTimedOut(QueueingError):
    queue: str
    timeout_s: float
    code = "Q15"
    reason = 2033
    outcome = "unknown"
    text = "no reply to the request on {queue} within {timeout_s} s"
    hint = "The request may still be served; a late reply is discarded."


class ObjectExists(QueueingError):
    kind: str
    name: str
    code = "Q16"
    reason = 2100
    text = "a {kind} {name} exists already"
    hint = "Use DEFINE ... REPLACE, ALTER it, or choose another name."


class SpillFailed(QueueingError):
    queue: str
    problem: str
    code = "Q17"
    reason = 2102
    retryable = True
    text = "queue {queue} is past its memory buffer and its messages cannot go to disk: {problem}"
    hint = "Free disk space or get messages; gets go on."


class SelectorError(QueueingError):
    code = "Q20"


class SelectorSyntaxError(SelectorError):
    selector: str
    column: int
    problem: str
    code = "Q21"
    reason = 2459
    text = "selector, column {column}: {problem}"

    @property
    def advice(self) -> str:
        return f"\n  {self.selector}\n  {' ' * (self.column - 1)}^"


class UnitOfWorkError(QueueingError):
    code = "U00"


class UnitFinished(UnitOfWorkError):
    unit: int
    state: str
    code = "U01"
    reason = 2072
    text = "unit of work {unit} is {state}"
    hint = "Begin another with connection.unit_of_work()."


class TooManyUncommitted(UnitOfWorkError):
    unit: int
    limit: int
    what_of: str
    code = "U02"
    reason = 2024
    text = "unit of work {unit} has reached its limit of {limit} uncommitted {what_of}"
    hint = "Commit in smaller units, or raise MAXUMSGS with ALTER QMGR."


class UnitBackedOut(UnitOfWorkError):
    unit: int
    because: str
    code = "U03"
    reason = 2003
    retryable = True
    text = "unit of work {unit} was backed out: {because}"
    hint = "Nothing of it happened; do it again."


class UnitNotInDoubt(UnitOfWorkError):
    transaction_id: str
    code = "U04"
    reason = 2072
    text = "no prepared unit of work has the transaction id {transaction_id}"
    hint = "List those in doubt with entrepot qm indoubt list."


class TransactionIdInUse(UnitOfWorkError):
    transaction_id: str
    code = "U05"
    text = "the transaction id {transaction_id} names another prepared unit of work"
    hint = "Resolve that one first, or prepare under another id."


# --- administration -----------------------------------------------------------------------


class MqscError(EntrepotError):
    code = "A00"


class MqscSyntaxError(MqscError):
    source: str
    line: int
    column: int
    problem: str
    line_text: str
    code = "A01"
    text = "{source}, line {line}, column {column}: {problem}"

    @property
    def advice(self) -> str:
        return f"\n  {self.line_text}\n  {' ' * (self.column - 1)}^"


class MqscCommandFailed(MqscError):
    source: str
    line: int
    column: int
    problem: str
    code = "A02"
    text = "{source}, line {line}, column {column}: {problem}"


class MqscScriptFailed(MqscError):
    failures: tuple[MqscError, ...]
    code = "A03"
    outcome = "unknown"

    @property
    def what(self) -> str:
        return f"{len(self.failures)} commands failed:\n" + "\n".join(str(failure) for failure in self.failures)

    hint = "\nThe other commands were carried out."


# --- permission ---------------------------------------------------------------------------


class SecurityError(EntrepotError):
    code = "P00"


class NotAuthorized(SecurityError):
    user: str
    object: str
    authority: str
    code = "P01"
    reason = 2035
    # The same words whether or not there is such an object: who may not use it need not know.
    text = "{user} has no {authority} authority for {object}"
    hint = "An administrator can give it with SET AUTHREC."


class AuthenticationFailed(SecurityError):
    code = "P02"
    reason = 2035
    # No field and one text: an unknown user, a wrong password and a rule must not be told apart from outside.
    text = "the connection was not accepted"
    hint = "Check user, password, certificate and channel; the queue manager's audit log has the cause."


class FileNotPrivate(SecurityError):
    file: str
    problem: str
    code = "P03"
    text = "{file} is not private: {problem}"
    hint = "Make it a regular file of the user who runs the queue manager, and for nobody else (chmod 600)."


class CertificateUnusable(SecurityError):
    file: str
    problem: str
    code = "P04"
    text = "{file} cannot be used for TLS: {problem}"
    hint = "TLS needs PEM files: cert.pem with the certificate, key.pem with its key and no password, ca.pem to trust."


class AuditFailed(SecurityError):
    file: str
    problem: str
    code = "P05"
    retryable = True
    text = "the audit log {file} cannot be written: {problem}"
    hint = "Free disk space or mend the disk; until then administration is refused, as nobody could tell who did it."


class AuditDamaged(SecurityError):
    file: str
    line: int
    problem: str
    code = "P06"
    text = "{file}, line {line}: {problem}"
    hint = "The audit log is not what was written. Keep its files as evidence and move them away; a new one begins."


class AddressBlocked(SecurityError):
    address: str
    code = "P07"
    reason = 2035
    text = "connections from {address} are not accepted"
    hint = "An administrator can lift it with SET CHLAUTH."


class SecurityFileUnusable(SecurityError):
    file: str
    problem: str
    code = "P08"
    text = "{file} cannot be used: {problem}"
    hint = "Nothing was changed. Mend the file or put back a copy of it; without it nobody has a password."


# --- recovery -----------------------------------------------------------------------------


class RecoveryError(EntrepotError):
    code = "R00"


class LogFull(RecoveryError):
    used_bytes: int
    code = "R01"
    reason = 2102
    retryable = True
    text = "the recovery log has no room beyond its {used_bytes} bytes in use"
    hint = "Free disk space; gets and back-outs go on, and puts again once a checkpoint has succeeded."


class LogDamaged(RecoveryError):
    segment: str
    offset: int
    problem: str
    code = "R02"
    reason = 2101
    text = "{segment}, offset {offset}: {problem}"
    hint = "Valid records follow the damage, so nothing was cut. Restore a backup with entrepot qm restore."


class CheckpointDamaged(RecoveryError):
    file: str
    offset: int
    problem: str
    code = "R03"
    reason = 2101
    text = "{file}, offset {offset}: {problem}"
    hint = "Rebuild from a linear log with entrepot qm recover, or restore a backup with entrepot qm restore."


class RunDamaged(RecoveryError):
    file: str
    offset: int
    problem: str
    code = "R04"
    reason = 2101
    text = "{file}, offset {offset}: {problem}"
    hint = "Rebuild its queue from a linear log with entrepot qm recover, or restore a backup with entrepot qm restore."


class FormatUnsupported(RecoveryError):
    file: str
    version: int
    supported: int
    code = "R05"
    text = "{file} has format version {version}, this Entrepot reads {supported}"
    hint = "Open it with the Entrepot that wrote it."


class DiskFull(RecoveryError):
    path: str
    code = "R06"
    reason = 2102
    retryable = True
    text = "no space left on the disk of {path}"
    hint = "Free disk space and do it again; no restart is needed."


class DiskFailed(RecoveryError):
    path: str
    problem: str
    code = "R07"
    reason = 2101
    outcome = "unknown"
    text = "the disk failed at {path}: {problem}"
    hint = (
        "The queue manager has stopped, because what the disk holds is no longer known. Mend the disk and start again."
    )


class QueueManagerFailed(RecoveryError):
    because: str
    code = "R08"
    reason = 2162
    text = "the queue manager has stopped after a failure: {because}"
    hint = "Start it again; committed work is recovered from the log."


class QueueManagerStopped(RecoveryError):
    name: str
    code = "R15"
    reason = 2162
    text = "the queue manager {name} has been stopped"
    hint = "Connect again to start it; committed work is safe."


class QueueManagerNotFound(RecoveryError):
    path: str
    problem: str
    code = "R09"
    reason = 2058
    text = "no queue manager at {path}: {problem}"
    hint = "Create one with entrepot qm create {path}."


class QueueManagerExists(RecoveryError):
    path: str
    code = "R10"
    text = "{path} is not empty"
    hint = "Choose a new or empty folder; nothing was changed."


class QueueManagerInUse(RecoveryError):
    path: str
    owner: str
    code = "R11"
    retryable = True
    text = "the queue manager at {path} is running already ({owner})"
    hint = "Stop that process first: one process at a time owns the data."


class UnsafeFolder(RecoveryError):
    path: str
    problem: str
    code = "R12"
    text = "{path} is not safe to use: {problem}"
    hint = "Only its owner may read a queue manager's folder (chmod 700), and it holds no symbolic link."


class LogNotLinear(RecoveryError):
    path: str
    what_for: str
    code = "R13"
    text = "{path} has a circular log, which cannot serve {what_for}"
    hint = "Create the queue manager with --log linear, or restore a backup."


class LogIncomplete(RecoveryError):
    path: str
    position: int
    code = "R14"
    text = "the log at {path} no longer reaches back to position {position}"
    hint = "Put the archived segments back, or start from a later backup."
