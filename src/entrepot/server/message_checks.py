# SPDX-License-Identifier: Apache-2.0
"""Messages from outside are checked as arguments are: another program may have made them without our library."""

from __future__ import annotations

from msgspec.structs import replace

from entrepot import checks, limits
from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.errors import InvalidArgument, LimitExceeded
from entrepot.message import Message, MessageType

_PLAIN = Message(b"")
_INT32 = 2**31
_NAME_CHARACTERS_MAX = 2 * limits.NAME_CHARACTERS_MAX + 1


def checked_message(message: Message, *, user: str, application: str) -> Message:
    """The message as its sender may put it: fields within limits, identity and history not for it to say.

    Raises:
        InvalidArgument: The first field that is wrong.
    """
    if len(message.message_id) > limits.ID_BYTES_MAX:
        checks.identifier("message_id", message.message_id)
    if len(message.correlation_id) > limits.ID_BYTES_MAX:
        checks.identifier("correlation_id", message.correlation_id)
    if len(message.reply_to) > limits.NAME_CHARACTERS_MAX:
        checks.text("reply_to", message.reply_to)
    if message.properties:
        message = replace(message, properties=checks.properties(message.properties))
    if message.expiry_s is not None:
        checks.seconds("expiry_s", message.expiry_s, positive=True)
    if message.delay_s:
        checks.seconds("delay_s", message.delay_s)
    if message.group_id or message.sequence != 1 or message.report or message.feedback:
        _vet_rare(message)
    if (
        message.reply_to_manager or message.format or message.ccsid != _PLAIN.ccsid
        or message.encoding != _PLAIN.encoding
    ):  # fmt: skip
        _vet_texts(message)
    return replace(
        message,
        user=user,
        application=application,
        backout_count=0,
        target_queue="",
        target_manager="",
        put_time=0.0,
        topic="",
        authorized_as="",
    )


def _vet_rare(message: Message) -> None:
    checks.identifier("group_id", message.group_id)
    checks.whole_number("sequence", message.sequence, 1, 999_999_999)
    checks.whole_number("report", message.report, 0, _INT32 - 1)
    checks.whole_number("feedback", message.feedback, -_INT32, _INT32 - 1)


def _vet_texts(message: Message) -> None:
    checks.text("reply_to_manager", message.reply_to_manager)
    checks.text("format", message.format)
    checks.whole_number("ccsid", message.ccsid, -_INT32, _INT32 - 1)
    checks.whole_number("encoding", message.encoding, -_INT32, _INT32 - 1)


def priority(value: int | None) -> int | None:
    """A priority that a frame asks for."""
    return None if value is None else checks.whole_number("priority", value, 0, limits.PRIORITY_MAX)


def wait(value: float) -> float:
    """Seconds that a frame asks us to wait."""
    if value == 0:
        return 0.0
    return checks.wait("wait_s", value)


def require_names(queue: str | list[str]) -> None:
    """Refuse names that cannot be names before anybody compares them with authorities."""
    if queue.__class__ is str and len(queue) <= _NAME_CHARACTERS_MAX:
        return
    if not isinstance(queue, str) and len(queue) > limits.DISTRIBUTION_MAX:
        raise LimitExceeded("queues in a distribution list", len(queue), limits.DISTRIBUTION_MAX)
    for name in [queue] if isinstance(queue, str) else queue:
        if len(name) > _NAME_CHARACTERS_MAX and not name.startswith(TOPIC_PREFIX):
            raise InvalidArgument("queue", checks.shortened(name), "QUEUE or QUEUE@MANAGER")


__all__ = ["MessageType", "checked_message", "priority", "require_names", "wait"]
