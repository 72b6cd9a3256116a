# SPDX-License-Identifier: Apache-2.0
"""The trigger monitor: starts the program that a queue with triggering wants.

A queue with triggering puts a trigger message on its initiation queue. Of
that message the monitor uses the name of the queue and nothing else: what
is started is what the PROCESS of that queue says at that moment, without a
shell, and only if the queue triggers and its INITQ is the monitor's. So a
message on the initiation queue starts nothing that an administrator has not
defined. The program learns about its queue by environment variables:

    ENTREPOT_QUEUE  ENTREPOT_TRIGGER_DATA  ENTREPOT_USER_DATA  ENTREPOT_ENVIRONMENT_DATA

A program that cannot be started leaves the trigger message on the
dead-letter queue with the reason, and the monitor goes on. A monitor that
is no administrator needs GET on the initiation queue, DSP on the queues and
on the queue manager, and PUT on the dead-letter queue.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from entrepot.clock import Clock, SystemClock
from entrepot.engine.definitions import DEAD_LETTER_QUEUE, INITIATION_QUEUE, require_name
from entrepot.engine.reports import undeliverable
from entrepot.errors import EntrepotError, InvalidName, MqscError
from entrepot.message import Message, PropertyValue

_LOGGER = logging.getLogger("entrepot")

APPLICATION_CANNOT_BE_STARTED = 265
"""MQFB_APPL_CANNOT_BE_STARTED"""


class DisplayAnswer(Protocol):
    """What DISPLAY answers."""

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]: ...


class AdministrativeConnection(Protocol):
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

    def mqsc(self, script: str) -> Sequence[DisplayAnswer]: ...


@dataclass(frozen=True, slots=True)
class TriggeredProgram:
    """A program to be started for a queue; every word of it is from a definition."""

    queue: str
    process: str
    command: str
    trigger_data: str = ""
    user_data: str = ""
    environment_data: str = ""


def start_process(program: TriggeredProgram) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, and do not wait for it.

    Raises:
        ValueError, OSError: It has no command line, or cannot be started; nothing runs.
    """
    command = shlex.split(program.command)
    if not command:
        raise ValueError(f"process {program.process!r} has no command line (APPLICID)")
    about = {
        "ENTREPOT_QUEUE": program.queue,
        "ENTREPOT_TRIGGER_DATA": program.trigger_data,
        "ENTREPOT_USER_DATA": program.user_data,
        "ENTREPOT_ENVIRONMENT_DATA": program.environment_data,
    }
    # The words are an administrator's, from DEFINE PROCESS, and no shell reads them.
    # A session of its own: Ctrl-C for the monitor must not end the programs.
    return subprocess.Popen(  # noqa: S603
        command, env={**os.environ, **about}, stdin=subprocess.DEVNULL, start_new_session=True
    )


class TriggerMonitor:
    """Waits on an initiation queue and starts the programs of the queues that its messages name.

    `start` gets each program; without it the process is started here.
    What it returns is waited for if it is a process, so that none stays behind
    as a zombie while the monitor runs.
    """

    def __init__(
        self,
        connection: AdministrativeConnection,
        queue: str = INITIATION_QUEUE,
        start: Callable[[TriggeredProgram], object] | None = None,
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
            child = self._start(self._program_of(message))
        except (OSError, ValueError, MqscError, InvalidName) as error:
            self.failed += 1
            self._bury(message, str(error))
            return
        self.started += 1
        if isinstance(child, subprocess.Popen):
            self._children.append(child)

    def _program_of(self, message: Message) -> TriggeredProgram:
        """What the definitions say is to be started for the queue that a trigger message names.

        Raises:
            ValueError, InvalidName, MqscError: Nothing, and why.
        """
        # A name has no quotes, so it cannot say more in a command than itself.
        name = require_name("queue", message.properties.get("queue"))
        queue = self._displayed(f"DISPLAY QLOCAL('{name}') PROCESS INITQ TRIGGER TRIGTYPE TRIGDATA")
        # Triggering at a depth is switched off when it has happened.
        triggers = queue["TRIGGER"] == "YES" or queue["TRIGTYPE"] == "DEPTH"
        if not triggers or queue["TRIGTYPE"] == "NONE":
            raise ValueError(f"queue {name} has no triggering")
        initiation_queue = str(queue["INITQ"])
        if not initiation_queue or self._resolved(initiation_queue) != self._resolved(self._queue):
            raise ValueError(f"queue {name} has INITQ({initiation_queue}), not {self._queue}")
        if not queue["PROCESS"]:
            raise ValueError(f"queue {name} has no PROCESS")
        process = self._displayed(f"DISPLAY PROCESS('{queue['PROCESS']}') APPLICID USERDATA ENVRDATA")
        return TriggeredProgram(
            name,
            str(queue["PROCESS"]),
            str(process["APPLICID"]),
            str(queue["TRIGDATA"]),
            str(process["USERDATA"]),
            str(process["ENVRDATA"]),
        )

    def _resolved(self, queue: str) -> str:
        """The queue itself, or what it is an alias for."""
        return str(self._displayed(f"DISPLAY QUEUE('{queue}') TARGET").get("TARGET", queue))

    def _displayed(self, command: str) -> Mapping[str, Any]:
        rows = self._connection.mqsc(command)[0].rows
        if not rows:
            raise ValueError(f"{command} shows nothing")
        return rows[0]

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
