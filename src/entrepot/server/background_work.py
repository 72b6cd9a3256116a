# SPDX-License-Identifier: Apache-2.0
"""Work of a session that takes long and touches nothing of the queue manager: done on a thread beside the loop.

To read a selector of ten thousand characters takes a tenth of a second, and
to ask the conditions of many subscribers about one publication may take
longer. There is one thread for all of it, which shares Python's lock with
the loop; so these sessions wait for each other, and all others do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from entrepot.engine.publishing import PREFIX as TOPIC_PREFIX
from entrepot.engine.publishing import Verdicts
from entrepot.message import Message
from entrepot.selectors import compile_selector

if TYPE_CHECKING:
    from entrepot.server.session import Session


def judge(session: Session, name: str, message: Message, then: Callable[[], None]) -> bool:
    """Ask the subscribers of a topic whether they want a publication, if that takes long.

    False if it does not; else `then` follows, and the session's next verbs after it.
    """
    publishing = session.engine.manager.publishing
    with session.registry.host.lock:
        work = publishing.judgement(name[len(TOPIC_PREFIX) :], message)
    if work is None:
        return False

    def judged(verdicts: Verdicts | None) -> None:
        publishing.know(message, verdicts or {})
        then()
        publishing.know(None, {})

    _beside(session, work, judged)
    return True


def compile_first(session: Session, selector: str, then: Callable[[], None]) -> None:
    """Read a long selector, and go on; what is wrong with it is remembered, and told when it is asked for again."""
    _beside(session, partial(compile_selector, selector), lambda _: then())


def _beside(session: Session, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
    session.block()

    def done(future: asyncio.Future[Any]) -> None:
        if not session.closed and not future.cancelled():
            error = future.exception()
            if isinstance(error, MemoryError):
                raise error  # to the loop's handler
            try:
                then(None if error is not None else future.result())
            finally:
                session.unblock()

    session.registry.loop.run_in_executor(session.registry.judging, work).add_done_callback(done)
