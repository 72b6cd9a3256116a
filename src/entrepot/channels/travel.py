# SPDX-License-Identifier: Apache-2.0
"""A message on its way from one queue manager to the next: how it leaves, how it arrives, what if it cannot.

Whoever put it still counts as its sender at the other end. Its time of put
stays the first one, its expiry goes on running, and reports about it find
their way back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec.structs import replace

from entrepot import checks, limits
from entrepot.engine.completion import complete
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.reports import undeliverable
from entrepot.engine.routes import Route
from entrepot.engine.topics import TOPIC_CHARACTERS_MAX
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError, InvalidArgument
from entrepot.message import Message, Report
from entrepot.server import message_checks

TRANSMISSION_MESSAGE_WRONG = 271
"""MQFB_XMIT_Q_MSG_ERROR: what stands on a transmission queue does not say where it wants to go."""
TOO_LONG_FOR_CHANNEL = 2218
"""MQRC_MSG_TOO_BIG_FOR_CHANNEL"""

_EXPIRY_LEAST_S = 0.001
_TEXT_CHARACTERS_CERTAIN = limits.TEXT_BYTES_MAX // 4
"""So few cannot have too many bytes."""


class DeliveryProblem(NamedTuple):
    """Why a message cannot go where it wants."""

    reason: int
    what: str

    @classmethod
    def of(cls, error: EntrepotError) -> DeliveryProblem:
        return cls(error.reason or 0, error.what)


def leaving(message: Message, manager: str) -> Message:
    """A message as it leaves this queue manager for the next."""
    if message.reply_to and not message.reply_to_manager:
        message = replace(message, reply_to_manager=manager)  # or replies would stay at the other end
    if message.delay_s or message.backout_count:
        message = replace(message, delay_s=0.0, backout_count=0)  # it has waited already
    if message.expiry_s is not None and message.expiry_s < _EXPIRY_LEAST_S:
        message = replace(message, expiry_s=_EXPIRY_LEAST_S)  # its last moment; it expires at the other end
    return message


def destination(message: Message, here: str) -> str:
    """The name that leads to a message's target from this queue manager."""
    if message.target_manager in ("", here):
        return message.target_queue
    return f"{message.target_queue}@{message.target_manager}"


def checked_message(message: Message, channel_user: str) -> Message:
    """A message from another queue manager within our limits; whose it is the other one has settled.

    What it causes here takes the authority of the channel's user, since any user can be claimed elsewhere. Its
    time of put is not for others to say, but for `plan_arrival` to be told.

    Raises:
        InvalidArgument: The other end is no queue manager of ours.
    """
    message_checks.priority(message.priority)
    if not math.isfinite(message.put_time):
        raise InvalidArgument("put_time", str(message.put_time), "seconds since 1970")
    user, application = message.user, message.application
    if len(user) + len(application) > _TEXT_CHARACTERS_CERTAIN:
        checks.text("user", user)
        checks.text("application", application)
    arrived = message_checks.checked_message(message, user=user, application=application)
    arrived = replace(arrived, authorized_as=channel_user)
    if not message.topic:
        return arrived
    if len(message.topic) > TOPIC_CHARACTERS_MAX:
        raise InvalidArgument("topic", checks.shortened(message.topic), f"at most {TOPIC_CHARACTERS_MAX} characters")
    return replace(arrived, topic=message.topic)


def find_route(manager: QueueManager, name: str) -> Route:
    """Where a message from another queue manager goes.

    Raises:
        EntrepotError: Nowhere.
    """
    manager.group_commit.require_running()
    return manager.objects.route(name)


def plan_arrival(manager: QueueManager, unit: Unit, route: Route, name: str, message: Message, put_time: float) -> None:
    """Let a message arrive when the unit commits, put when and by whom it was put first.

    Raises:
        QueueFull, PutInhibited, MessageTooLong, PersistentNotAllowed: Nothing was planned.
    """
    unit.require_room(len(message.body))
    completed = complete(manager, route, name, message, message.persistent, message.priority)
    expiry_s = message.expiry_s
    if expiry_s is not None:
        expiry_s += completed.put_time - put_time  # the rest counts from now, whatever other clocks say
    manager.plan(unit, route.queue, replace(completed, put_time=put_time, expiry_s=expiry_s))


def plan_undeliverable(
    manager: QueueManager, unit: Unit, message: Message, name: str, problem: DeliveryProblem, put_time: float
) -> bool:
    """Let what cannot be delivered go to the dead-letter queue with the unit; False when it is to be discarded.

    Whoever asked for a report of it gets one.

    Raises:
        EntrepotError: The dead-letter queue does not take it. Nothing was planned.
    """
    discard = bool(message.report & Report.DISCARD)
    if not discard:
        dead = undeliverable(message, name, problem.reason, problem.what, manager.clock.now())
        dead_letter_queue = manager.objects.manager.dead_letter_queue
        plan_arrival(manager, unit, manager.objects.route(dead_letter_queue), dead_letter_queue, dead, put_time)
    if message.report & Report.EXCEPTION:
        manager.consequences.plan_report(unit, message, problem.reason)
    return not discard
