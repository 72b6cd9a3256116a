# SPDX-License-Identifier: Apache-2.0
"""Many puts in one frame, at a server: what a flow sends with a unit of work costs one look at the frame.

It belongs to `NativeLink`, whose table leads here. The first put that is
refused ends the frame; the answer tells, or else the commit of its unit,
which is backed out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from entrepot.channels import vetting
from entrepot.errors import EntrepotError, FrameUnreadable, ProtocolError
from entrepot.wire import verbs
from entrepot.wire.verbs import Verb

if TYPE_CHECKING:
    from entrepot.channels.native import NativeLink


def _put_many(link: NativeLink, number: int, frame: verbs.PutMany) -> None:
    session = link.session
    assert session is not None
    if not frame.unit:
        raise FrameUnreadable("PUT_MANY belongs to no unit of work")
    user, application = session.identity.user, session.application
    unit = link._unit(frame.unit)
    assert unit is not None
    try:
        for queue, persistent, priority, message in frame.puts:
            vetting.require_names(queue)
            vetting.priority(priority)
            session.put_in_unit(
                queue, vetting.vetted(message, user=user, application=application), persistent, priority, unit
            )
    except ProtocolError:
        raise
    except EntrepotError as error:
        link._answer(number, error, unit=frame.unit)
        return
    if number:
        # Who asks wants to know of all that was put before, too.
        link._answer(number, link._errors.get(frame.unit))


PUTTING: dict[int, Any] = {Verb.PUT_MANY: _put_many}
