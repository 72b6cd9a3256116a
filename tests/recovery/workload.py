# SPDX-License-Identifier: Apache-2.0
"""A fixed script of verbs, what it must leave behind after each step, and a process to run and kill it in."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from entrepot.clock import SystemClock
from entrepot.disk import Disk, SystemDisk
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.folder import create, read_settings
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import restart
from entrepot.errors import EntrepotError
from entrepot.message import Message
from entrepot.selectors import compile_selector
from hosted import Host

SMALL_LOG = LogSettings(segment_bytes=64 * 1024, primary=2, secondary=3, checkpoint_bytes=90_000)
QUEUES = ("A", "B")
# Larger than what fits into a segment with the rest, so that records cross from one to the next.
SIZES = (10, 700, 5_000, 30_000)

# Made here, not in each of the hundreds of processes that are killed: the first selector brings the parser with it.
NONPERSISTENT = Criteria(selector=compile_selector("JMSDeliveryMode = 'NON_PERSISTENT'"))

State = tuple[tuple[str, ...], tuple[str, ...]]
"""What stands on A and on B, by the numbers in the bodies, in order."""

Step = Callable[[Host], None]


def body(number: int) -> bytes:
    return b"%d:" % number + bytes([number % 251]) * SIZES[number % len(SIZES)]


class Script:
    """Steps that put, move, get, back out and take checkpoints; `states[n]` is right after n steps."""

    def __init__(self, steps: int) -> None:
        self.steps: list[Step] = []
        self.states: list[State] = [((), ())]
        self._number = 0
        for index in range(steps):
            self._add(index)

    def _add(self, index: int) -> None:
        a, b = (list(queue) for queue in self.states[-1])
        kind = index % 10
        if kind in (0, 1, 2, 5):
            self._number += 1
            a.append(str(self._number))
            self.steps.append(lambda host, number=self._number: _put(host, "A", number))  # type: ignore[misc]
        elif kind == 3:
            numbers = [self._number + 1, self._number + 2, self._number + 3]
            self._number += 3
            a += [str(numbers[0]), str(numbers[1])]
            b.append(str(numbers[2]))
            self.steps.append(lambda host: _put_many(host, numbers))
        elif kind in (4, 6):
            b.append(a.pop(0))
            self.steps.append(_move)
        elif kind == 7:
            self.steps.append(_take_and_back_out)
        elif kind == 8:
            if index % 20 == 8:
                self.steps.append(Host.checkpoint)
            else:
                a.pop(0)
                self.steps.append(lambda host: _get(host, "A"))
        else:
            b.pop(0)
            self.steps.append(lambda host: _get(host, "B"))
        self.states.append((tuple(a), tuple(b)))

    def run(self, host: Host, report: Callable[[int], None]) -> None:
        """Run all steps; `report` is called with their number after each was acknowledged."""
        for number, step in enumerate(self.steps, start=1):
            step(host)
            report(number)


def _put(host: Host, queue: str, number: int) -> None:
    host.put(queue, Message(body(number)), persistent=True)


def _put_many(host: Host, numbers: list[int]) -> None:
    unit = host.begin()
    for queue, number in zip("AAB", numbers, strict=True):
        host.put(queue, Message(body(number)), persistent=True, unit=unit)
    host.put("A", Message(b"nonpersistent"), persistent=False, unit=unit)
    host.commit(unit)
    # The nonpersistent one is the last of A now; it must not be in the way of what follows.
    host.get("A", NONPERSISTENT)


def _move(host: Host) -> None:
    unit = host.begin()
    message = host.get("A", unit=unit)
    assert message is not None
    host.put("B", Message(message.body), persistent=True, unit=unit)
    host.commit(unit)


def _take_and_back_out(host: Host) -> None:
    unit = host.begin()
    assert host.get("A", unit=unit) is not None
    host.put("B", Message(b"never"), persistent=True, unit=unit)
    host.back_out(unit)


def _get(host: Host, queue: str) -> None:
    assert host.get(queue) is not None


def new_manager(path: Path, log: LogSettings = SMALL_LOG) -> None:
    """A queue manager with the script's queues."""
    create(path, name="QM", log=log)
    with contextlib.closing(Host(path)) as host:
        for name in QUEUES:
            host.define(LocalQueue(name=name, buffer_bytes=60_000), replace=False)


def recovered(path: Path, disk: Disk | None = None) -> State:
    """Restart as the next start would, and what stands on the queues then, every body checked."""
    manager = restart(disk or SystemDisk(path), SystemClock(), read_settings(path)).manager
    found = []
    for name in QUEUES:
        numbers = []
        for message in manager.browse(name, None, None, 1_000_000)[0]:
            number = message.body.partition(b":")[0].decode()
            assert message.body == body(int(number)), f"the body of {number} is not what was put"
            numbers.append(number)
        found.append(tuple(numbers))
    manager.log.close()
    return found[0], found[1]


class Died(Exception):
    """The process ended on its own; how."""


def in_process(work: Callable[[Callable[[int], None]], None]) -> tuple[int, bool]:
    """Run `work` in a process of its own: the last number it reported, and whether it was killed."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read_end)
            work(lambda number: os.write(write_end, number.to_bytes(4, "big")) and None)
            status = 0
        except EntrepotError:
            status = 3
        finally:
            os._exit(status)
    os.close(write_end)
    last = 0
    for number in _numbers(read_end):
        last = number
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if not killed and os.waitstatus_to_exitcode(status) not in (0, 3):
        raise Died(f"the process ended with {os.waitstatus_to_exitcode(status)}")
    return last, killed


def _numbers(descriptor: int) -> Iterator[int]:
    with os.fdopen(descriptor, "rb") as pipe:
        while len(data := pipe.read(4)) == 4:
            yield int.from_bytes(data, "big")


def run_script(path: Path, script: Script, disk: Disk | None) -> Callable[[Callable[[int], None]], None]:
    """Work for `in_process`: open the queue manager and run the script."""

    def work(report: Callable[[int], None]) -> None:
        host = Host(path, disk=disk)
        script.run(host, report)

    return work
