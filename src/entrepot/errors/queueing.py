# SPDX-License-Identifier: Apache-2.0
"""A queue or a unit of work refuses a verb."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


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


class DeliverySettled(QueueingError):
    code = "Q19"
    text = "this message is not at hand any more: it was settled or returned"
    hint = "Say ack, retry or reject once, before the loop asks for the next message and before it is left."


class BodyUnreadable(QueueingError):
    wanted: str
    problem: str
    code = "Q22"
    reason = 2110
    text = "the body cannot be read as {wanted}: {problem}"
    hint = "The message is set aside as it came; correct its sender, or the annotation of the handler."


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


class MemoryShort(QueueingError):
    manager: str
    code = "Q18"
    reason = 2071
    retryable = True
    text = "queue manager {manager} is short of memory and takes no messages or connections"
    hint = "Get messages, end connections, or give its process more memory; it goes on by itself."


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
