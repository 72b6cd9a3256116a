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
from msgspec.structs import replace

from entrepot.clock import Clock
from entrepot.engine.definitions import LocalQueue, Process
from entrepot.engine.reports import trigger_message
from entrepot.engine.trigger_monitor import TriggeredProgram, TriggerMonitor, start_process
from entrepot.errors import GetInhibited, QueueFull
from entrepot.message import Message, PropertyValue


class Answered:
    """What a command has shown."""

    def __init__(self, *rows: Mapping[str, str]) -> None:
        self.rows = rows


ORDERS = {"QUEUE": "ORDERS", "PROCESS": "SHIP", "INITQ": "INITQ", "TRIGGER": "YES", "TRIGTYPE": "FIRST"}
ORDERS |= {"TRIGDATA": "quick"}


class FakeConnection:
    """Queues and definitions in memory, as much of a connection as the monitor needs."""

    def __init__(self, command: str, *waiting: Message, user_data: str = "", environment_data: str = "") -> None:
        self.process = {"APPLICID": command, "USERDATA": user_data, "ENVRDATA": environment_data}
        self.local = dict(ORDERS)
        self.aliases = {"BY.ALIAS": "INITQ"}
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

    def mqsc(self, script: str) -> list[Answered]:
        name = script.split("'")[1]
        if script.startswith("DISPLAY QLOCAL"):
            return [Answered(self.local) if name == "ORDERS" else Answered()]
        if script.startswith("DISPLAY PROCESS"):
            assert name == self.local["PROCESS"]
            return [Answered(self.process)]
        return [Answered({"TARGET": self.aliases[name]} if name in self.aliases else {"QUEUE": name})]

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


def trigger(**words: str) -> Message:
    """A trigger message, with words of whoever could put it."""
    told = trigger_message(LocalQueue(name="ORDERS"), Process(name="P", application_id="/nowhere/forged"))
    return replace(told, properties={**told.properties, **words})


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
    connection = FakeConnection(command, trigger(), user_data="u; rm -rf /", environment_data="$HOME")
    serving = monitor(connection)
    serving.run(once=True)
    wait_until_ended(serving)
    assert (tmp_path / "out").read_text() == "ORDERS|quick|u; rm -rf /|$HOME"
    assert (serving.started, serving.failed) == (1, 0)


def test_no_shell_reads_the_command_line(tmp_path: Path) -> None:
    serving = monitor(FakeConnection(f"{sys.executable} -c pass ; touch {tmp_path / 'trap'}", trigger()))
    serving.run(once=True)
    wait_until_ended(serving)
    assert not (tmp_path / "trap").exists()


def test_what_cannot_start_goes_to_the_dead_letter_queue_and_the_next_is_served() -> None:
    for command in ("/nowhere/at/all", "", "  ", "'unclosed", "nul\0byte"):
        connection = FakeConnection(command, trigger(), trigger())
        serving = monitor(connection)
        serving.run(once=True)
        assert (serving.started, serving.failed) == (0, 2), command
        queue, properties = connection.dead[0]
        assert queue == "DEAD"
        assert properties is not None
        assert properties["dead_letter_queue"] == "INITQ"
        assert properties["dead_letter_reason"] == 265
        assert properties["dead_letter_problem"]
        assert properties["dead_letter_time"] == 1234.5


def programs(connection: FakeConnection, queue: str = "INITQ") -> list[TriggeredProgram]:
    started: list[TriggeredProgram] = []
    TriggerMonitor(connection, queue, started.append, dead_letter_queue="DEAD").run(once=True)
    return started


def test_words_of_the_message_start_nothing_and_tell_the_program_nothing() -> None:
    forged = {
        "application_id": "/bin/forged",
        "process": "FORGED",
        "trigger_data": "forged",
        "user_data": "forged",
        "environment_data": "forged",
    }
    connection = FakeConnection("/bin/ship", trigger(**forged), user_data="u", environment_data="e")
    assert programs(connection) == [TriggeredProgram("ORDERS", "SHIP", "/bin/ship", "quick", "u", "e")]


def test_only_a_queue_that_triggers_to_this_initiation_queue_starts_a_program() -> None:
    for field, value in (
        ("TRIGGER", "NO"),
        ("TRIGTYPE", "NONE"),
        ("INITQ", "OTHER"),
        ("INITQ", ""),
        ("PROCESS", ""),
    ):
        connection = FakeConnection("/bin/ship", trigger())
        connection.local[field] = value
        assert programs(connection) == [], (field, value)
        assert len(connection.dead) == 1, (field, value)


def test_a_trigger_message_that_names_no_queue_of_ours_starts_nothing() -> None:
    names = ("NONE", "", "Q') ALL; DEFINE PROCESS('P", "ORDERS'", "*", "a" * 49)
    connection = FakeConnection("/bin/ship", *(trigger(queue=name) for name in names))
    nameless = trigger()
    connection.waiting.append(replace(nameless, properties={}))
    assert programs(connection) == []
    assert len(connection.dead) == len(names) + 1


def test_a_depth_trigger_starts_though_it_has_switched_itself_off() -> None:
    connection = FakeConnection("/bin/ship", trigger())
    connection.local |= {"TRIGGER": "NO", "TRIGTYPE": "DEPTH"}
    assert len(programs(connection)) == 1


def test_initiation_queues_may_go_by_aliases() -> None:
    connection = FakeConnection("/bin/ship", trigger())
    connection.local["INITQ"] = "BY.ALIAS"
    assert len(programs(connection)) == 1


def test_full_dead_letter_queue_does_not_end_the_monitor() -> None:
    connection = FakeConnection("", trigger(), trigger())
    connection.full = True
    serving = monitor(connection)
    serving.run(once=True)
    assert serving.failed == 2


def test_stop_from_another_thread_ends_it() -> None:
    connection = FakeConnection("")
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
        monitor(Inhibited("")).run()


def test_programs_outlive_an_interrupt_of_the_monitor() -> None:
    command = shlex.join([sys.executable, "-c", "import os; assert os.getsid(0) == os.getpid()"])
    assert start_process(TriggeredProgram("ORDERS", "SHIP", command)).wait(60) == 0
