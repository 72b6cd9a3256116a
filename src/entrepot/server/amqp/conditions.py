# SPDX-License-Identifier: Apache-2.0
"""What went wrong, in AMQP's words; docs/AMQP.md has the same table."""

from __future__ import annotations

from entrepot import errors
from entrepot.errors import EntrepotError

DECODE_ERROR = "amqp:decode-error"
FORCED = "amqp:connection:forced"
FRAMING_ERROR = "amqp:connection:framing-error"
INTERNAL_ERROR = "amqp:internal-error"
INVALID_FIELD = "amqp:invalid-field"
MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
NOT_ALLOWED = "amqp:not-allowed"
NOT_FOUND = "amqp:not-found"
NOT_IMPLEMENTED = "amqp:not-implemented"
PRECONDITION_FAILED = "amqp:precondition-failed"
RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
RESOURCE_LOCKED = "amqp:resource-locked"
ROLLBACK = "amqp:transaction:rollback"
TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
UNAUTHORIZED = "amqp:unauthorized-access"
UNKNOWN_ID = "amqp:transaction:unknown-id"

# The first that fits; so a class stands before the one it derives from.
_CONDITIONS: tuple[tuple[type[EntrepotError], str], ...] = (
    (errors.QueueNotFound, NOT_FOUND),
    (errors.ObjectNotFound, NOT_FOUND),
    (errors.AliasBroken, NOT_FOUND),
    (errors.TransmissionQueueMissing, NOT_FOUND),
    (errors.InvalidName, NOT_FOUND),
    (errors.SecurityError, UNAUTHORIZED),
    (errors.QueueFull, RESOURCE_LIMIT_EXCEEDED),
    (errors.SpillFailed, RESOURCE_LIMIT_EXCEEDED),
    (errors.LogFull, RESOURCE_LIMIT_EXCEEDED),
    (errors.DiskFull, RESOURCE_LIMIT_EXCEEDED),
    (errors.TooManyUncommitted, RESOURCE_LIMIT_EXCEEDED),
    (errors.TooManyConnections, RESOURCE_LIMIT_EXCEEDED),
    (errors.UserLimitReached, RESOURCE_LIMIT_EXCEEDED),
    (errors.HeartbeatMissed, RESOURCE_LIMIT_EXCEEDED),
    (errors.MessageTooLong, MESSAGE_SIZE_EXCEEDED),
    (errors.FrameTooLong, FRAMING_ERROR),
    (errors.ProtocolError, FRAMING_ERROR),
    (errors.WrongQueueKind, NOT_ALLOWED),
    (errors.PutInhibited, PRECONDITION_FAILED),
    (errors.GetInhibited, PRECONDITION_FAILED),
    (errors.PersistentNotAllowed, PRECONDITION_FAILED),
    (errors.QueueInUse, PRECONDITION_FAILED),
    (errors.DistributionFailed, PRECONDITION_FAILED),
    (errors.SubscriptionNotFound, NOT_FOUND),
    (errors.SubscriptionInUse, RESOURCE_LOCKED),
    (errors.SubscriptionDiffers, PRECONDITION_FAILED),
    (errors.PublishInhibited, NOT_ALLOWED),
    (errors.SubscribeInhibited, NOT_ALLOWED),
    (errors.DurabilityNotAllowed, NOT_ALLOWED),
    (errors.PublicationFailed, RESOURCE_LIMIT_EXCEEDED),
    (errors.InvalidTopic, INVALID_FIELD),
    (errors.ContentFilterSyntaxError, INVALID_FIELD),
    (errors.SelectorError, INVALID_FIELD),
    (errors.SettingError, INVALID_FIELD),
    (errors.UnitOfWorkError, ROLLBACK),
    (errors.ChannelError, FORCED),
    (errors.QueueManagerFailed, FORCED),
    (errors.QueueManagerStopped, FORCED),
)
_DESCRIPTION_CHARACTERS_MAX = 1000


class Refusal(Exception):
    """Something that AMQP has a condition for and our verbs have no error; stays inside this room."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(condition, description)
        self.condition = condition
        self.description = description


def refusal_of(error: EntrepotError) -> Refusal:
    """One of our errors as a partner hears it."""
    condition = next((name for kind, name in _CONDITIONS if isinstance(error, kind)), INTERNAL_ERROR)
    return Refusal(condition, str(error)[:_DESCRIPTION_CHARACTERS_MAX])
