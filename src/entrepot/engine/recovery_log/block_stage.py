# SPDX-License-Identifier: Apache-2.0
"""A group as whole blocks, which is how a direct write wants it.

    | rest of the group before | the group ... | zeros |
    block                      block           block

A block that two groups share is written with each of them; what the first
has of it is written again as it was. Behind the group stand zeros: nothing
that the log needs has been written there yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.disk import BLOCK_BYTES, Buffer, File, block_memory

STAGE_BYTES = 1024 * 1024
"""Groups that do not fit are written by the kernel's page cache: they are rare, and cost more than a force."""

_ZEROS = bytes(BLOCK_BYTES)


class BlockStage:
    """Memory for one group at a time, and for the part of its last block that the next group begins with."""

    def __init__(self) -> None:
        self._memory: memoryview | None = None
        self._file: File | None = None
        self._end = -1
        """Where in `_file` ends what the first block in memory has the beginning of; -1: it has nothing."""

    def write(self, file: File, offset: int, size: int, buffers: Sequence[Buffer], *, force: bool) -> bool:
        """Bring a group to disk, durably with `force`; False: it does not fit, and nothing was done.

        Without `force` it goes through the page cache, which would have to read an incomplete block first.
        """
        shared = offset % BLOCK_BYTES
        used = shared + size
        whole = -(-used // BLOCK_BYTES) * BLOCK_BYTES
        if whole > STAGE_BYTES:
            return False
        if self._memory is None:
            self._memory = block_memory(STAGE_BYTES)
        memory = self._memory
        begin = offset - shared
        if shared and (self._end != offset or self._file is not file):
            memory[:shared] = file.read(begin, shared)
        self.forget()  # until all of it is on disk
        at = shared
        for buffer in buffers:
            behind = at + len(buffer)
            memory[at:behind] = buffer
            at = behind
        memory[used:whole] = _ZEROS[: whole - used]
        if force:
            file.write_blocks(begin, memory[:whole])
        else:
            file.write(begin, [memory[:whole]])
        if whole > BLOCK_BYTES and whole != used:
            memory[: used % BLOCK_BYTES] = memory[whole - BLOCK_BYTES : used]
        self._file, self._end = file, offset + size
        return True

    def forget(self) -> None:
        """Something else was written to the log's last block."""
        self._file, self._end = None, -1
