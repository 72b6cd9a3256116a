# SPDX-License-Identifier: Apache-2.0
"""Messages that the queue manager writes itself: reports, triggers, events, and undeliverable ones."""

from __future__ import annotations

from msgspec.structs import replace

from entrepot.engine.definitions import LocalQueue, Process
from entrepot.message import Message, MessageType, Report


def report_on(message: Message, feedback: int) -> Message:
    """What the sender asked to be told, for its reply-to queue."""
    passed = message.report & Report.PASS_CORRELATION_ID
    return Message(
        message.body if message.report & Report.WITH_DATA else b"",
        message_id=message.message_id if message.report & Report.PASS_MESSAGE_ID else b"",
        correlation_id=message.correlation_id if passed else message.message_id,
        persistent=message.persistent,
        priority=message.priority,
        type=MessageType.REPORT,
        feedback=feedback,
        format=message.format if message.report & Report.WITH_DATA else "",
        user=message.user,
        authorized_as=message.authorized_as,
    )


def reply_route(message: Message) -> str:
    """The name to which replies and reports for a message go."""
    return f"{message.reply_to}@{message.reply_to_manager}" if message.reply_to_manager else message.reply_to


def trigger_message(definition: LocalQueue, process: Process | None) -> Message:
    """Tells the trigger monitor which program to start."""
    return Message(
        b"",
        type=MessageType.DATAGRAM,
        format="TRIGGER",
        properties={
            "queue": definition.name,
            "process": definition.process,
            "trigger_data": definition.trigger_data,
            "application_type": process.application_type if process else "",
            "application_id": process.application_id if process else "",
            "environment_data": process.environment_data if process else "",
            "user_data": process.user_data if process else "",
        },
    )


def depth_event(definition: LocalQueue, event: str, depth: int) -> Message:
    """Tells whoever watches that a queue has become high, low or full."""
    return Message(
        b"",
        format="EVENT",
        properties={
            "event": event,
            "queue": definition.name,
            "depth": depth,
            "depth_max": definition.depth_max,
        },
    )


def undeliverable(message: Message, queue: str, reason: int, problem: str, time: float) -> Message:
    """The message as the dead-letter or backout queue keeps it: unchanged, and with the reason."""
    properties = dict(message.properties)
    properties.update(
        dead_letter_queue=queue,
        dead_letter_reason=reason,
        dead_letter_problem=problem,
        dead_letter_time=time,
    )
    return replace(message, properties=properties, report=message.report & ~_CONFIRMATIONS, expiry_s=None)


_CONFIRMATIONS = Report.ARRIVAL | Report.DELIVERY

BACKOUT_THRESHOLD_REACHED = 2362
"""MQRC_BACKOUT_THRESHOLD_REACHED"""
REJECTED_BY_READER = 65536
"""MQFB_APPL_FIRST: a reason that only the application knows"""
