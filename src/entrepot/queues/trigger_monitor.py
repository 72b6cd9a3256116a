# SPDX-License-Identifier: Apache-2.0
"""The trigger monitor: starts the program that a trigger message names.

A queue with triggering puts a trigger message on its initiation queue; the
monitor takes it and starts the process definition's command line, without
a shell. The program learns about its queue by environment variables:

    ENTREPOT_QUEUE  ENTREPOT_TRIGGER_DATA  ENTREPOT_USER_DATA  ENTREPOT_ENVIRONMENT_DATA

A program that cannot be started leaves the trigger message on the
dead-letter queue with the reason, and the monitor goes on.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from entrepot.clock import Clock, SystemClock
from entrepot.errors import EntrepotError
from entrepot.message import Message, PropertyValue
from entrepot.queues.definitions import DEAD_LETTER_QUEUE, INITIATION_QUEUE
from entrepot.queues.reports import undeliverable

_LOGGER = logging.getLogger("entrepot")

APPLICATION_CANNOT_BE_STARTED = 265
"""MQFB_APPL_CANNOT_BE_STARTED"""

_VARIABLES = {
    "ENTREPOT_QUEUE": "queue",
    "ENTREPOT_TRIGGER_DATA": "trigger_data",
    "ENTREPOT_USER_DATA": "user_data",
    "ENTREPOT_ENVIRONMENT_DATA": "environment_data",
}


class GetsAndPuts(Protocol):
    """What the monitor needs of a connection."""

    def get(self, queue: str, *, wait_s: float = ...) -> Message | None: ...

    def put(
        self,
        queue: str,
        body: bytes,
        *,
        persistent: bool | None = ...,
        message_id: bytes = ...,
        correlation_id: bytes = ...,
        format: str = ...,  # noqa: A002 - MQ's word
        properties: Mapping[str, PropertyValue] | None = ...,
    ) -> bytes: ...


def start_process(message: Message) -> subprocess.Popen[bytes]:
    """Start the command line that a trigger message names, in a session of its own, and do not wait for it.

    Raises:
        ValueError, OSError: It names none, or it cannot be started; nothing runs.
    """
    command = shlex.split(str(message.properties.get("application_id", "")))
    if not command:
        raise ValueError(f"process {message.properties.get('process')!r} has no command line (APPLICID)")
    named = {variable: str(message.properties.get(name, "")) for variable, name in _VARIABLES.items()}
    # The words are the administrator's own, from DEFINE PROCESS, and no shell reads them.
    # A session of its own: Ctrl-C for the monitor must not end the programs.
    return subprocess.Popen(  # noqa: S603
        command, env={**os.environ, **named}, stdin=subprocess.DEVNULL, start_new_session=True
    )


class TriggerMonitor:
    """Waits on an initiation queue and starts what its messages name.

    `start` gets each trigger message; without it the process is started here.
    What it returns is waited for if it is a process, so that none stays behind
    as a zombie while the monitor runs.
    """

    def __init__(
        self,
        connection: GetsAndPuts,
        queue: str = INITIATION_QUEUE,
        start: Callable[[Message], object] | None = None,
        *,
        dead_letter_queue: str = DEAD_LETTER_QUEUE,
        poll_s: float = 0.5,
        clock: Clock | None = None,
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._start = start or start_process
        self._dead_letter_queue = dead_letter_queue
        self._poll_s = poll_s
        """How long `stop` may take, and how soon an ended program is reaped."""
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self._children: list[subprocess.Popen[bytes]] = []
        self.started = 0
        self.failed = 0

    def run(self, *, once: bool = False) -> None:
        """Serve trigger messages until `stop`, or with `once` until none is left.

        Raises:
            EntrepotError: The initiation queue cannot be read, or the queue manager has stopped.
        """
        while not self._stopping.is_set():
            message = self._connection.get(self._queue, wait_s=0.0 if once else self._poll_s)
            self._reap()
            if message is not None:
                self._serve(message)
            elif once:
                return

    def stop(self) -> None:
        """Let `run` return soon; may be called from any thread. Programs that were started go on."""
        self._stopping.set()

    @property
    def running(self) -> int:
        """How many of the started programs have not ended yet."""
        self._reap()
        return len(self._children)

    def _serve(self, message: Message) -> None:
        try:
            child = self._start(message)
        except (OSError, ValueError) as error:
            self.failed += 1
            self._bury(message, str(error))
            return
        self.started += 1
        if isinstance(child, subprocess.Popen):
            self._children.append(child)

    def _bury(self, message: Message, problem: str) -> None:
        dead = undeliverable(message, self._queue, APPLICATION_CANNOT_BE_STARTED, problem, self._clock.now())
        _LOGGER.warning("trigger for queue %s: %s", message.properties.get("queue"), problem)
        try:
            self._connection.put(
                self._dead_letter_queue,
                dead.body,
                # A trigger message is nonpersistent, but the news of its failure should outlive this process.
                persistent=True,
                message_id=dead.message_id,
                correlation_id=dead.correlation_id,
                format=dead.format,
                properties=dead.properties,
            )
        except EntrepotError as error:
            # One lost notice must not keep the programs of other queues from being started.
            _LOGGER.warning("%s takes no message: %s", self._dead_letter_queue, error)

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]
