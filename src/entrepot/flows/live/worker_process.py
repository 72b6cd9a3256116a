# SPDX-License-Identifier: Apache-2.0
"""The process of an instance: it ends when a message keeps it too long, and when whoever started it is gone.

Alone, it would still be given messages by its queue manager: so a thread
looks whether its parent is the one that it began with. Spark's workers are
forked by a daemon of pyspark, which the JVM has started; those of
`local_processes` by the program that runs the flow.

Code in C may keep Python's own lock for ever, and then neither that thread
nor a signal's handler runs. The thread of `faulthandler` needs no lock: it
writes where the process stands to standard error, Spark's log, and ends it. Nothing is lost
by that: the queue manager backs out what was open, and counts a try.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
import time
from typing import Any

from entrepot.flows.live.deployment import MESSAGE_S_MAX
from entrepot.flows.live.instance import InstanceProcess

_LOGGER = logging.getLogger("entrepot")

_REARM_S = 1.0
"""The deadline moves with each message, the thread that enforces it only after so long."""
_SPARE_S = 30.0
"""What a message has left at least when a node has waited as long as it may."""
_LOOK_S = 1.0
_FINISH_S = 10.0
"""How long an instance without a parent may still take to end its unit of work."""


class WorkerProcess(InstanceProcess):
    """Limits of the process; nothing is enforced unless it is an instance's own."""

    def __init__(self, message_s_max: float = MESSAGE_S_MAX, *, is_own: bool = False, parent: int = 0) -> None:
        self._message_s_max = message_s_max if is_own else 0.0
        self._is_own = is_own
        self._rearm_at = 0.0
        self._ends_at = 0.0
        self.is_orphan = False
        """The process that started this one is gone."""
        self._closed = threading.Event()
        if is_own:
            self._parent = parent or os.getppid()
            threading.Thread(target=self._watch_parent, name="parent watch", daemon=True).start()

    def begin_message(self) -> None:
        """The time of another message begins, or of something else that has an end."""
        if not self._message_s_max:
            return
        now = time.monotonic()
        self._ends_at = now + self._message_s_max
        if now >= self._rearm_at:
            self._arm(now)

    def allow_time(self, seconds: float) -> None:
        """A node is about to wait for so long at most, by its own word."""
        now = time.monotonic()
        if self._message_s_max and now + seconds + _SPARE_S > self._ends_at:
            self._ends_at = now + seconds + _SPARE_S
            self._arm(now)

    def _arm(self, now: float) -> None:
        self._rearm_at = now + _REARM_S
        # Until it is armed again a message's time may have begun a second later than it thinks.
        left_s = max(self._ends_at - now, 0.0) + _REARM_S
        faulthandler.dump_traceback_later(left_s, exit=True, file=_log_file())

    def _watch_parent(self) -> None:
        while os.getppid() == self._parent:
            if self._closed.wait(_LOOK_S):
                return
        self.is_orphan = True
        _LOGGER.warning("whoever has started process %d is gone: it ends", os.getpid())
        time.sleep(_FINISH_S)
        os._exit(1)

    def close(self) -> None:
        self._closed.set()
        if self._message_s_max:
            faulthandler.cancel_dump_traceback_later()


def _log_file() -> Any:
    """Standard error as the process began with it; a user's function may have put something else in its place."""
    return sys.__stderr__ if sys.__stderr__ is not None else 2
