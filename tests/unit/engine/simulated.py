# SPDX-License-Identifier: Apache-2.0
"""A queue manager on a simulated disk, to be killed and started again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from entrepot.engine.checkpointing import CheckpointPlan
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.recovery_log.record import FORMAT_VERSION
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, segment_path
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import Restarted, lay_out, restart
from entrepot.engine.settings import ManagerSettings
from entrepot.message import Message
from entrepot.testing import SimulatedDisk, VirtualClock


class Simulated:
    """One queue, Q; no faults unless a test wants some."""

    def __init__(self, seed: int = 1, log: LogSettings | None = None) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self.clock = VirtualClock()
        self.settings = ManagerSettings(
            name="QM",
            manager_id=bytes(range(12)),
            format_version=FORMAT_VERSION,
            created=0.0,
            log=log or LogSettings(segment_bytes=64 * 1024, primary=3, secondary=2),
        )
        lay_out(self.disk, self.clock, self.settings)
        self.restarted: Restarted = self.start()
        self.manager.administration.define(LocalQueue(name="Q"), replace_existing=False)
        self.manager.force()

    @property
    def manager(self) -> QueueManager:
        return self.restarted.manager

    def start(self) -> Restarted:
        self.restarted = restart(self.disk, self.clock, self.settings)
        return self.restarted

    def kill_and_start(self) -> Restarted:
        self.disk.kill()
        return self.start()

    def power_cut_and_start(self) -> Restarted:
        self.disk.power_cut()
        return self.start()

    def put(self, body: bytes) -> None:
        self.manager.put("Q", Message(body), persistent=True)
        self.manager.force()

    def messages(self) -> list[Message]:
        return self.manager.browse("Q", None, None, 1000)[0]

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages()]

    def reader(self) -> LogReader:
        return LogReader(self.disk, self.settings.log, self.settings.manager_id)

    def overwrite(self, position: int, data: bytes) -> None:
        """Change the log behind the queue manager's back, within one segment."""
        number, offset = divmod(position, self.settings.log.payload_bytes)
        content = bytearray(self.disk.contents(segment_path(number)))
        begin = HEAD_PAGE_BYTES + offset
        content[begin : begin + len(data)] = data
        self.disk.put(segment_path(number), bytes(content))


def checkpoint_during_which(world: Simulated, happen: Callable[[], object]) -> CheckpointPlan:
    """A checkpoint beside which the engine goes on: something happens after its runs were written."""
    plan = world.restarted.checkpoints.begin()
    plan.write_runs()
    happen()
    if world.manager.log.appended_position > world.manager.log.forced_position:
        world.manager.force()
    plan.install()
    plan.write()
    world.restarted.checkpoints.finish(plan)
    return plan
