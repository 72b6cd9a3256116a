# SPDX-License-Identifier: Apache-2.0
"""A user with PUT and GET on one queue, who knows the code and everything about a queue manager but its salts.

The log is full of message bodies, and segments are used again without being
cleared. So bodies may hold frames of the log, made for the places that they
will lie in when their segment is used for a later part of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from entrepot.engine.checkpointing import CheckpointTaker
from entrepot.engine.definitions import AuthorityRecord, LocalQueue
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.recovery_log.record import FORMAT_VERSION, DefineRecord, PutRecord, frame
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES, segment_numbers, segment_path
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import Restarted, lay_out, restart
from entrepot.engine.settings import ManagerSettings
from entrepot.errors import LogDamaged
from entrepot.message import Message
from entrepot.testing import SimulatedDisk, VirtualClock
from entrepot.testing.forgery import FORGERIES

LAPS = 6
GRANT = AuthorityRecord(
    name="QUEUE/**/principal/mallory", profile="**", principal="mallory", authorities=("CONNECT", "PUT", "GET")
)


class Victim:
    """A queue manager with a small circular log, and the verbs that the attacker has."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.clock = VirtualClock()
        self.settings = ManagerSettings(
            name="QM",
            manager_id=bytes(12),
            format_version=FORMAT_VERSION,
            created=0.0,
            log=LogSettings(segment_bytes=64 * 1024, primary=4, secondary=2, checkpoint_bytes=30_000),
        )
        lay_out(self.disk, self.clock, self.settings)
        self.restarted: Restarted = self.start(self.disk)
        self.manager.administration.define(LocalQueue(name="Q"), replace_existing=False)
        self.manager.force()
        self.payload_bytes = self.settings.log.payload_bytes
        self.put_bytes = self.body_offset = 0
        # Where a body stands in its group is always the same but for the length of the message's key.
        probe = b"probe" * 80
        before = self.position
        self.put_and_get(probe)
        self.body_offset += self._find(probe) - before - self.body_offset

    @property
    def manager(self) -> QueueManager:
        return self.restarted.manager

    @property
    def checkpoints(self) -> CheckpointTaker:
        return self.restarted.checkpoints

    @property
    def position(self) -> int:
        return self.manager.log.appended_position

    def start(self, disk: SimulatedDisk) -> Restarted:
        return restart(disk, self.clock, self.settings)

    def start_copy(self) -> Restarted:
        """What a start finds after a kill at this moment."""
        return self.start(self.disk.copy())

    def put(self, body: bytes) -> None:
        before = self.position
        self.manager.put("Q", Message(body), persistent=True)
        self.manager.force()
        put_bytes = self.position - before - len(body)
        self.body_offset += put_bytes - self.put_bytes
        self.put_bytes = put_bytes

    def put_and_get(self, body: bytes) -> None:
        self.put(body)
        self.get()

    def get(self) -> None:
        self.manager.get("Q")
        self.manager.force()
        if self.checkpoints.is_due:
            self.checkpoints.take()

    def _find(self, body: bytes) -> int:
        for number in segment_numbers(self.disk):
            found = self.disk.contents(segment_path(number)).find(body, HEAD_PAGE_BYTES)
            if found >= 0:
                return number * self.payload_bytes + found - HEAD_PAGE_BYTES
        raise AssertionError("the body is in no segment")

    def tiled(self, make: Callable[[int], bytes], size: int) -> tuple[bytes, list[int]]:
        """A body of tiles made for the places that they will have in later laps, and these places."""
        body = b""
        places = []
        while True:
            # A segment's file comes back as one of the next few segments: each tile is for another lap.
            lap = 1 + len(places) % LAPS
            place = self.position + self.body_offset + len(body) + lap * self.payload_bytes
            tile = make(place)
            if len(body) + len(tile) > size:
                return body.ljust(size, b"\0"), places
            body += tile
            places.append(place)

    def tile_ahead(self, places: list[int]) -> int:
        """Where a tile that was made for its place stands soon behind the end of the log; 0 for none."""
        number = self.position // self.payload_bytes
        content = self.disk.contents(segment_path(number)) if number in segment_numbers(self.disk) else b""
        nearest = self.position + self.put_bytes + 300
        for place in places:
            offset = HEAD_PAGE_BYTES + place - number * self.payload_bytes + 8
            if nearest <= place < nearest + 3_000 and content[offset : offset + 8] == place.to_bytes(8, "little"):
                return place
        return 0

    def fill(self, make: Callable[[int], bytes]) -> list[int]:
        """Let the whole log be full of tiles; where they are good for something."""
        places: list[int] = []
        for _ in range(24):
            body, made = self.tiled(make, 20_000)
            places += made
            self.put_and_get(body)
        return sorted(places)


def test_bodies_full_of_groups_are_no_evidence_of_damage() -> None:
    for forgery in FORGERIES:
        victim = Victim()
        victim.fill(partial(forgery.group, incarnation=2**31, serial=1))
        for _ in range(60):
            victim.put_and_get(b"x" * 2_000)
            victim.start_copy()
        victim.checkpoints.take()
        victim.checkpoints.take()
        assert victim.start(victim.disk).torn == "", forgery.name


def test_a_grant_in_a_body_is_not_believed_when_the_log_ends_at_it() -> None:
    for forgery in FORGERIES:
        victim = Victim()
        grant = victim.manager.objects.record(GRANT)
        places = victim.fill(partial(forgery.group, incarnation=1, serial=9, record=grant))
        tries = 0
        for _ in range(40):
            place = victim.tile_ahead(places)
            # The log is to end just where the tile stands.
            victim.put(b"y" * (place - victim.position - victim.put_bytes if place else 2_000))
            tries += victim.position == place
            restarted = victim.start_copy()
            assert restarted.manager.objects.find("AUTHREC", GRANT.name) is None, forgery.name
            assert restarted.torn == ""
            victim.get()
        assert tries > 5, "this is no attack unless tiles lie where the log ends"


def test_what_an_earlier_lap_left_behind_a_torn_group_does_not_fit() -> None:
    """Of a group only its own frame has reached the disk; the attacker's bytes stand where its records should."""
    for forgery in FORGERIES:
        victim = Victim()
        log = victim.manager.log
        victim.manager.put("Q", Message(b"z" * 1_000), persistent=True)
        group = log.take()
        frame_bytes = len(group.buffers[0])
        serial, incarnation = log._serial, victim.manager.incarnation
        grant = victim.manager.objects.record(GRANT)
        behind = group.start + frame_bytes
        forged = b"".join(frame(grant, behind, forgery.seed(incarnation, serial)))
        # And a whole group of a later start, which might begin within a torn one.
        forged_group = forgery.group(behind, incarnation + 1, 1, grant)
        for remains in (forged, forged_group):
            disk = victim.disk.copy()
            path = segment_path(group.start // victim.payload_bytes)
            content = bytearray(disk.contents(path))
            offset = HEAD_PAGE_BYTES + group.start % victim.payload_bytes
            torn = b"".join(map(bytes, group.buffers))[:frame_bytes] + remains
            content[offset : offset + len(torn)] = torn
            disk.put(path, bytes(content))
            restarted = victim.start(disk)
            assert restarted.manager.objects.find("AUTHREC", GRANT.name) is None, forgery.name
            assert restarted.torn


def test_true_groups_are_still_evidence_of_damage_among_forged_ones() -> None:
    """The search is not led astray: a flipped bit in a forced group is damage also where bodies look like groups."""
    victim = Victim()
    victim.fill(partial(FORGERIES[1].group, incarnation=2**31, serial=1))
    victim.put(b"w" * 500)
    start = victim.position
    victim.put(b"the one that is damaged")
    victim.manager.group_commit.mark()
    disk = victim.disk.copy()
    disk.flip_bit(segment_path(start // victim.payload_bytes), HEAD_PAGE_BYTES + start % victim.payload_bytes + 100, 3)
    try:
        victim.start(disk)
    except LogDamaged:
        return
    raise AssertionError("damage was taken for a torn group")


def test_two_queue_managers_with_the_same_history_do_not_continue_each_other() -> None:
    """A backup restored twice: both go on as the same start, at the same position, in a segment with the same salt."""
    victim = Victim()
    disks = [victim.disk.copy() for _ in range(2)]
    disks[1].random_bytes(1)  # from here on each has its own
    managers = [victim.start(disk).manager for disk in disks]
    starts = [manager.log.appended_position for manager in managers]
    for manager in managers:
        for _ in range(4):
            manager.put("Q", Message(b"the same in both"), persistent=True)
            manager.force()
    assert starts[0] == starts[1]
    path = segment_path(starts[0] // victim.payload_bytes)
    begin = HEAD_PAGE_BYTES + starts[0] % victim.payload_bytes
    size = (managers[0].log.appended_position - starts[0]) // 2
    ours, theirs = (disk.contents(path) for disk in disks)
    assert ours[: begin + size] != theirs[: begin + size]
    disks[0].put(path, ours[: begin + size] + theirs[begin + size :])
    reader = LogReader(disks[0], victim.settings.log, victim.settings.manager_id)
    try:
        puts = [logged for logged in reader.records(starts[0]) if isinstance(logged.record, PutRecord)]
    except LogDamaged:
        return
    raise AssertionError(f"{len(puts)} messages of two histories were read as one")


def test_the_grant_of_these_tests_is_one_that_a_log_could_hold() -> None:
    """The negative control: written by the queue manager itself, it is believed."""
    victim = Victim()
    victim.manager.log.append([victim.manager.objects.record(GRANT)])
    victim.manager.force()
    restarted = victim.start_copy()
    assert isinstance(victim.manager.objects.record(GRANT), DefineRecord)
    assert restarted.manager.objects.find("AUTHREC", GRANT.name) == GRANT
