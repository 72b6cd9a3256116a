# SPDX-License-Identifier: Apache-2.0
"""A verb of the engine for somebody on the loop who cannot be refused because the log is full just now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from entrepot.engine.host import CHECKPOINTS_FOR_ROOM
from entrepot.engine.settlement import Settlement
from entrepot.errors import EntrepotError, LogFull
from entrepot.server.session_registry import SessionRegistry

Done = Callable[[EntrepotError | None], None]


def attempt(
    registry: SessionRegistry,
    verb: Callable[[], Settlement | None],
    done: Done,
    *,
    checkpoints: int = CHECKPOINTS_FOR_ROOM,
) -> bool:
    """Run a verb and call `done` exactly once, at once or later; a full log gets a checkpoint first.

    The verb may run several times, so it must change nothing when it raises LogFull. True when it has run, so that
    what is run after it comes after it in the log, too.
    """
    try:
        at_once = registry.engine.run(verb, done)
    except LogFull as error:
        if checkpoints:
            registry.checkpoint(lambda _: _again(registry, verb, done, checkpoints - 1))
        else:
            done(error)
        return False
    except EntrepotError as error:
        done(error)
        return False
    if at_once:
        done(None)
    return True


def _again(registry: SessionRegistry, verb: Callable[[], Settlement | None], done: Done, checkpoints: int) -> None:
    attempt(registry, verb, done, checkpoints=checkpoints)


async def attempted(registry: SessionRegistry, verb: Callable[[], Settlement | None]) -> None:
    """Run a verb and return when its effect is there.

    Raises:
        EntrepotError: Whatever the verb or the log says.
    """
    settled: asyncio.Future[None] = registry.loop.create_future()

    def done(error: EntrepotError | None) -> None:
        if settled.cancelled():
            return
        if error is None:
            settled.set_result(None)
        else:
            settled.set_exception(error)

    attempt(registry, verb, done)
    await settled
