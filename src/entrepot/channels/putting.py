# SPDX-License-Identifier: Apache-2.0
"""Many puts in one frame, at a server: what a flow sends with a unit of work costs one look at the frame.

It belongs to `NativeLink`, whose table leads here. The first put that is
refused ends the frame; the answer tells, or else the commit of its unit,
which is backed out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from entrepot.channels import vetting
from entrepot.channels.judging import judge
from entrepot.errors import EntrepotError, FrameUnreadable
from entrepot.message import Message
from entrepot.queues.publishing import PREFIX as TOPIC_PREFIX
from entrepot.queues.unit_of_work import Unit
from entrepot.wire import verbs
from entrepot.wire.verbs import Verb

if TYPE_CHECKING:
    from entrepot.channels.native import NativeLink
    from entrepot.channels.session import Session


def _put_many(link: NativeLink, number: int, frame: verbs.PutMany) -> None:
    session = link.session
    assert session is not None
    if not frame.unit:
        raise FrameUnreadable("PUT_MANY belongs to no unit of work")
    unit = link._unit(frame.unit)
    assert unit is not None
    _put_rest(link, session, number, frame, unit, 0, None)


def _put_rest(
    link: NativeLink,
    session: Session,
    number: int,
    frame: verbs.PutMany,
    unit: Unit,
    first: int,
    judged: Message | None,
) -> None:
    """Put the messages of a frame from the `first` on, which was `judged` if its subscribers have been asked."""
    user, application = session.identity.user, session.application
    try:
        for index in range(first, len(frame.puts)):
            queue, persistent, priority, message = frame.puts[index]
            vetting.require_names(queue)
            vetting.priority(priority)
            message = judged or vetting.vetted(message, user=user, application=application)
            if queue.startswith(TOPIC_PREFIX) and judged is None:
                session.require_put(queue)
                # Once more from here, when its subscribers have been asked.
                rest = partial(_put_rest, link, session, number, frame, unit, index, message)
                if judge(session, queue, message, rest):
                    return
            judged = None
            session.put_in_unit(queue, message, persistent, priority, unit)
    except EntrepotError as error:
        link._answer(number, error, unit=frame.unit)
        return
    if number:
        # Who asks wants to know of all that was put before, too.
        link._answer(number, link._errors.get(frame.unit))


PUTTING: dict[int, Any] = {Verb.PUT_MANY: _put_many}
