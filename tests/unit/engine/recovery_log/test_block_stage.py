# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from random import Random

import pytest

from entrepot.disk import BLOCK_BYTES
from entrepot.engine.recovery_log.block_stage import STAGE_BYTES, BlockStage
from entrepot.testing import SimulatedDisk
from entrepot.testing.simulated_disk import SimulatedFile

FILE_BYTES = 64 * BLOCK_BYTES


def new_file() -> tuple[SimulatedDisk, SimulatedFile]:
    disk = SimulatedDisk(Random(1))
    disk.put("log", b"-" * FILE_BYTES)
    return disk, disk.open("log")


def put(stage: BlockStage, file: SimulatedFile, offset: int, data: bytes, *, force: bool = True) -> None:
    half = len(data) // 2
    assert stage.write(file, offset, len(data), [data[:half], memoryview(data)[half:]], force=force)


@pytest.mark.parametrize("seed", range(20))
def test_groups_one_behind_the_other_keep_what_stood_before_them(seed: int) -> None:
    random = Random(seed)
    disk, file = new_file()
    stage = BlockStage()
    offset = start = random.randrange(1, 2 * BLOCK_BYTES)
    written = bytearray(b"-" * start)
    while offset < FILE_BYTES - 6 * BLOCK_BYTES:
        data = random.randbytes(random.choice([1, 90, BLOCK_BYTES - offset % BLOCK_BYTES, 5000, 3 * BLOCK_BYTES]))
        put(stage, file, offset, data, force=random.random() < 0.7)
        if random.random() < 0.2:
            stage.forget()
        written += data
        offset += len(data)
        assert disk.contents("log")[:offset] == written


def test_a_group_is_durable_and_followed_by_zeros_up_to_its_block() -> None:
    disk, file = new_file()
    put(BlockStage(), file, 100, b"group")
    disk.power_cut()
    assert disk.contents("log")[:BLOCK_BYTES] == b"-" * 100 + b"group" + bytes(BLOCK_BYTES - 105)


def test_an_incomplete_block_is_read_once_and_then_known() -> None:
    disk, file = new_file()
    stage = BlockStage()
    put(stage, file, 100, b"one")
    before = disk.operations
    put(stage, file, 103, b"two")
    assert disk.operations - before == 2, "a write and its force"


def test_what_another_write_has_changed_is_read_again() -> None:
    disk, file = new_file()
    stage = BlockStage()
    put(stage, file, 100, b"one")
    file.write(100, [bytes(3)])
    stage.forget()
    put(stage, file, 103, b"two")
    assert disk.contents("log")[98:108] == b"--\0\0\0two\0\0"


def test_a_group_that_is_too_large_is_left_alone() -> None:
    disk, file = new_file()
    stage = BlockStage()
    before = disk.operations
    assert not stage.write(file, 1, STAGE_BYTES, [bytes(STAGE_BYTES)], force=True)
    assert disk.operations == before
