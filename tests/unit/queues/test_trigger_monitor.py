# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import pytest

from entrepot.clock import Clock
from entrepot.errors import GetInhibited, QueueFull
from entrepot.message import Message, PropertyValue
from entrepot.queues.definitions import LocalQueue, Process
from entrepot.queues.reports import trigger_message
from entrepot.queues.trigger_monitor import TriggerMonitor, start_process


class FakeConnection:
    """Queues in memory, as much of a connection as the monitor needs."""

    def __init__(self, *waiting: Message) -> None:
        self.waiting = deque(waiting)
        self.dead: list[tuple[str, Mapping[str, PropertyValue] | None]] = []
        self.full = False
        self.asked = threading.Event()

    def get(self, queue: str, *, wait_s: float = 0.0) -> Message | None:
        assert queue == "INITQ"
        self.asked.set()
        if self.waiting:
            return self.waiting.popleft()
        time.sleep(min(wait_s, 0.001))
        return None

    def put(
        self,
        queue: str,
        body: bytes,
        *,
        persistent: bool | None = None,
        message_id: bytes = b"",
        correlation_id: bytes = b"",
        format: str = "",  # noqa: A002 - MQ's word
        properties: Mapping[str, PropertyValue] | None = None,
    ) -> bytes:
        if self.full:
            raise QueueFull(queue, 1)
        assert persistent
        self.dead.append((queue, properties))
        return b"id"


class FixedClock(Clock):
    def now(self) -> float:
        return 1234.5


def trigger(command: str, **process: str) -> Message:
    queue = LocalQueue(name="ORDERS", process="SHIP", trigger_data="quick")
    return trigger_message(queue, Process(name="SHIP", application_id=command, **process))


def monitor(connection: FakeConnection) -> TriggerMonitor:
    return TriggerMonitor(connection, "INITQ", dead_letter_queue="DEAD", clock=FixedClock())


def wait_until_ended(monitor: TriggerMonitor) -> None:
    deadline = time.monotonic() + 60
    while monitor.running:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_process_starts_with_its_queue_in_the_environment_and_is_reaped(tmp_path: Path) -> None:
    names = ["ENTREPOT_QUEUE", "ENTREPOT_TRIGGER_DATA", "ENTREPOT_USER_DATA", "ENTREPOT_ENVIRONMENT_DATA"]
    script = (
        "import os, sys, pathlib; pathlib.Path(sys.argv[1]).write_text('|'.join(os.environ[n] for n in sys.argv[2:]))"
    )
    command = shlex.join([sys.executable, "-c", script, str(tmp_path / "out"), *names])
    serving = monitor(FakeConnection(trigger(command, user_data="u; rm -rf /", environment_data="$HOME")))
    serving.run(once=True)
    wait_until_ended(serving)
    assert (tmp_path / "out").read_text() == "ORDERS|quick|u; rm -rf /|$HOME"
    assert (serving.started, serving.failed) == (1, 0)


def test_no_shell_reads_the_command_line(tmp_path: Path) -> None:
    serving = monitor(FakeConnection(trigger(f"{sys.executable} -c pass ; touch {tmp_path / 'trap'}")))
    serving.run(once=True)
    wait_until_ended(serving)
    assert not (tmp_path / "trap").exists()


@pytest.mark.parametrize("command", ["/nowhere/at/all", "", "  ", "'unclosed", "nul\0byte"])
def test_what_cannot_start_goes_to_the_dead_letter_queue_and_the_next_is_served(command: str) -> None:
    connection = FakeConnection(trigger(command), trigger(shlex.join([sys.executable, "-c", "pass"])))
    serving = monitor(connection)
    serving.run(once=True)
    wait_until_ended(serving)
    assert (serving.started, serving.failed) == (1, 1)
    ((queue, properties),) = connection.dead
    assert queue == "DEAD"
    assert properties is not None
    assert properties["application_id"] == command
    assert properties["dead_letter_queue"] == "INITQ"
    assert properties["dead_letter_reason"] == 265
    assert properties["dead_letter_problem"]
    assert properties["dead_letter_time"] == 1234.5


def test_full_dead_letter_queue_does_not_end_the_monitor() -> None:
    connection = FakeConnection(trigger(""), trigger(""))
    connection.full = True
    serving = monitor(connection)
    serving.run(once=True)
    assert serving.failed == 2


def test_own_way_of_starting_is_used() -> None:
    started: list[Message] = []
    message = trigger("anything")
    serving = TriggerMonitor(FakeConnection(message), "INITQ", started.append)
    serving.run(once=True)
    assert started == [message]
    assert serving.running == 0


def test_stop_from_another_thread_ends_it() -> None:
    connection = FakeConnection()
    serving = TriggerMonitor(connection, "INITQ", poll_s=0.01)
    thread = threading.Thread(target=serving.run)
    thread.start()
    assert connection.asked.wait(60)
    serving.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_errors_of_the_queue_end_it() -> None:
    class Inhibited(FakeConnection):
        def get(self, queue: str, *, wait_s: float = 0.0) -> Message | None:
            raise GetInhibited(queue)

    with pytest.raises(GetInhibited):
        monitor(Inhibited()).run()


def test_programs_outlive_an_interrupt_of_the_monitor() -> None:
    process = start_process(
        trigger(shlex.join([sys.executable, "-c", "import os; assert os.getsid(0) == os.getpid()"]))
    )
    assert process.wait(60) == 0
