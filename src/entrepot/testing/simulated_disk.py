# SPDX-License-Identifier: Apache-2.0
"""A disk in memory that loses in a power cut whatever a file system may lose.

Data is safe after `force` of its file, a name after `force_folder` of its
folder, and neither makes the other safe. Of what was not forced, any sectors
may be on the medium and any may be missing; of the names changed in a
folder, the first few are there and the rest are not. The same `Random` and
the same operations give the same losses, and `trace_hash` tells two runs
apart. One thread at a time may use it.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from random import Random

from entrepot.disk import BLOCK_BYTES, Buffer
from entrepot.testing.faults import Faults
from entrepot.testing.simulated_file import SimulatedContents


class SimulatedFolder:
    """Names as every process sees them, and as the medium has them."""

    __slots__ = ("durable", "names", "pending")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[NameChange] = []


Node = SimulatedContents | SimulatedFolder


class NameChange:
    """Names set and taken away in one step, which the medium has wholly or not at all."""

    __slots__ = ("settled", "steps")

    def __init__(self, *steps: tuple[SimulatedFolder, str, Node | None]) -> None:
        self.steps = steps
        self.settled = False
        for folder, name, node in steps:
            _set_name(folder.names, name, node)
            if self not in folder.pending:
                folder.pending.append(self)

    def settle(self) -> None:
        """Bring this change to the medium, after all earlier ones in its folders."""
        if self.settled:
            return
        self.settled = True
        for folder, _, _ in self.steps:
            for earlier in folder.pending:
                if earlier is self:
                    break
                earlier.settle()
        for folder, name, node in self.steps:
            _set_name(folder.durable, name, node)


class SimulatedFile:
    """An open file of a simulated disk; dead once the process or the power is gone."""

    __slots__ = ("_contents", "_disk", "_incarnation", "_open", "_path")

    def __init__(self, disk: SimulatedDisk, path: str, contents: SimulatedContents) -> None:
        self._disk = disk
        self._path = path
        self._contents = contents
        self._incarnation = disk.incarnation
        self._open = True

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if offset < 0:
            raise _error(errno.EINVAL, self._path)
        data = b"".join(buffers)
        allowed = self._begin("write", offset, len(data), data)
        if allowed is None:
            self._contents.write(offset, data)
        else:
            self._contents.write(offset, data[:allowed])
            raise _error(errno.ENOSPC, self._path)

    def write_blocks(self, offset: int, blocks: memoryview) -> None:
        """A write and a force of what it wrote, which may each fail, and between which the power may go."""
        if offset % BLOCK_BYTES or len(blocks) % BLOCK_BYTES or offset + len(blocks) > self.size():
            raise _error(errno.EINVAL, self._path)
        self.write(offset, [blocks])
        try:
            self._begin("force", offset, len(blocks))
        except OSError:
            self._contents.fail_force()
            raise
        self._contents.force_last()

    def read(self, offset: int, size: int) -> bytes:
        self._begin("read", offset, size)
        return bytes(memoryview(self._contents.bytes)[offset : offset + size])

    def force(self) -> None:
        try:
            self._begin("force", 0, 0)
        except OSError:
            self._contents.fail_force()
            raise
        self._contents.force()

    def truncate(self, size: int) -> None:
        if size < 0:
            raise _error(errno.EINVAL, self._path)
        self._begin("truncate", 0, size)
        self._contents.truncate(size)

    def allocate(self, size: int) -> None:
        self._begin("allocate", 0, size)

    def size(self) -> int:
        self._require_alive()
        return len(self._contents.bytes)

    def close(self) -> None:
        # A process that died in the simulation still unwinds in ours; its closing does no harm.
        if self._incarnation == self._disk.incarnation:
            self._require_alive()
            self._open = False

    def _begin(self, operation: str, offset: int, size: int, data: bytes = b"") -> int | None:
        self._require_alive()
        return self._disk.begin(operation, self._path, offset, size, data)

    def _require_alive(self) -> None:
        if self._incarnation != self._disk.incarnation:
            raise AssertionError(f"{self._path} was opened before the process died or the power was cut")
        if not self._open:
            raise AssertionError(f"{self._path} was closed")


class SimulatedDisk:
    """Files and folders in memory, with all the bad luck that `random` holds."""

    def __init__(self, random: Random) -> None:
        self.faults: Faults | None = None
        """Asked before each operation; an OSError it raises in a force makes that force lose data, as on Linux."""
        self.operations = 0
        """How many operations there were."""
        self.incarnation = 0
        """How often the process died or the power was cut."""
        self._random = random
        self._root = SimulatedFolder()
        self._trace = hashlib.sha256()

    # The disk's own verbs

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        folder, name = self._locate(path)
        creates = create and name not in folder.names
        self.begin("create" if creates else "open", path)
        if creates:
            NameChange((folder, name, SimulatedContents()))
        return SimulatedFile(self, path, self._contents(path))

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, in one step even between folders."""
        self.begin("rename", source, data=target.encode())
        source_folder, source_name = self._locate(source)
        target_folder, target_name = self._locate(target)
        if (source_folder, source_name) == (target_folder, target_name) and source_name in source_folder.names:
            return
        node = self._contents(source)
        if isinstance(target_folder.names.get(target_name), SimulatedFolder):
            raise _error(errno.EISDIR, target)
        NameChange((source_folder, source_name, None), (target_folder, target_name, node))

    def remove(self, path: str) -> None:
        self.begin("remove", path)
        self._contents(path)
        folder, name = self._locate(path)
        NameChange((folder, name, None))

    def names(self, folder: str) -> list[str]:
        return sorted(self._folder(folder).names)

    def exists(self, path: str) -> bool:
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it; each is durable once the one above it is forced."""
        self.begin("make_folder", path)
        folder = self._root
        for name in _parts(path):
            if name not in folder.names:
                NameChange((folder, name, SimulatedFolder()))
            below = folder.names[name]
            if not isinstance(below, SimulatedFolder):
                raise _error(errno.EEXIST, path)
            folder = below

    def force_folder(self, path: str) -> None:
        self.begin("force_folder", path)
        _force(self._folder(path))

    def describe(self, path: str) -> str:
        return f"simulated disk, {path}"

    def random_bytes(self, size: int) -> bytes:
        """The same after the same operations."""
        self._trace.update(b"random_bytes")
        return hashlib.shake_256(self._trace.digest()).digest(size)

    # What may befall it

    def kill(self) -> None:
        """The process dies and the system lives on: all that was written stays, forced or not."""
        self._trace.update(b"kill")
        self.incarnation += 1

    def power_cut(self) -> None:
        """The machine stops: what was forced stays, of the rest what chance leaves.

        What is left is on the medium: a second power cut takes no more of it.
        """
        self._trace.update(b"power_cut")
        self.incarnation += 1
        for folder in list(_folders(self._root)):
            waiting = [change for change in folder.pending if not change.settled]
            for change in waiting[: int(self._random.random() * (len(waiting) + 1))]:
                change.settle()
        for folder in _folders(self._root, durable=True):
            folder.names = dict(folder.durable)
            folder.pending = []
            for node in folder.names.values():
                if isinstance(node, SimulatedContents):
                    node.power_cut(self._random)

    def flip_bit(self, path: str, byte_offset: int, bit: int) -> None:
        """Rot: change one bit without notice, in memory and, where forced, on the medium."""
        self._contents(path).bytes[byte_offset] ^= 1 << bit

    def overwrite(self, path: str, byte_offset: int, data: bytes) -> None:
        """Let a file have held other bytes all the time where nothing was written lately."""
        contents = self._contents(path).bytes
        data = data[: max(len(contents) - byte_offset, 0)]
        contents[byte_offset : byte_offset + len(data)] = data

    # What a test wants to know and to prepare

    @property
    def trace_hash(self) -> str:
        """Stands for every operation so far, with its bytes: two equal runs have equal ones."""
        return self._trace.hexdigest()

    def contents(self, path: str) -> bytes:
        """What a reader would see; counts as no operation."""
        return bytes(self._contents(path).bytes)

    def put(self, path: str, contents: bytes) -> None:
        """Leave a durable file, forcing all the folders above it; counts as no operation."""
        *above, name = _parts(path)
        folder = self._root
        for part in above:
            below = folder.names.get(part)
            if below is None:
                below = SimulatedFolder()
                NameChange((folder, part, below))
            if not isinstance(below, SimulatedFolder):
                raise _error(errno.ENOTDIR, path)
            _force(folder)
            folder = below
        if name not in folder.names:
            NameChange((folder, name, SimulatedContents()))
        _force(folder)
        self._contents(path).replace(contents)

    def paths(self) -> list[str]:
        """All files, sorted."""
        return sorted(_paths(self._root, ""))

    def copy(self, random: Random | None = None) -> SimulatedDisk:
        """A disk that goes its own way from here, without faults and open files.

        Without `random` it meets the same luck that this one would have met.
        """
        if random is None:
            random = Random()
            random.setstate(self._random.getstate())
        twin = SimulatedDisk(random)
        twin.operations = self.operations
        twin.incarnation = self.incarnation
        twin._root = copy.deepcopy(self._root)
        twin._trace = self._trace.copy()
        return twin

    def begin(self, operation: str, path: str, offset: int = 0, size: int = 0, data: bytes = b"") -> int | None:
        """Count and trace an operation and ask the faults; every operation starts here."""
        self.operations += 1
        # The lengths are in the header, so no two traces run into the same bytes.
        self._trace.update(f"{operation} {path} {offset} {size} {len(data)}\n".encode())
        self._trace.update(data)
        if self.faults is None:
            return None
        incarnation = self.incarnation
        allowed = self.faults.before(operation, path, size)
        if incarnation != self.incarnation:
            raise AssertionError(f"{operation} of {path} went on although its process died before it")
        return allowed

    def _locate(self, path: str) -> tuple[SimulatedFolder, str]:
        """The folder a path lies in, and its name there."""
        *above, name = _parts(path) or [""]
        if not name:
            raise _error(errno.EISDIR, path)
        folder = self._node("/".join(above))
        if not isinstance(folder, SimulatedFolder):
            raise _error(errno.ENOTDIR, path)
        return folder, name

    def _node(self, path: str) -> Node:
        node: Node = self._root
        for name in _parts(path):
            if not isinstance(node, SimulatedFolder):
                raise _error(errno.ENOTDIR, path)
            if name not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[name]
        return node

    def _contents(self, path: str) -> SimulatedContents:
        node = self._node(path)
        if isinstance(node, SimulatedFolder):
            raise _error(errno.EISDIR, path)
        return node

    def _folder(self, path: str) -> SimulatedFolder:
        node = self._node(path)
        if not isinstance(node, SimulatedFolder):
            raise _error(errno.ENOTDIR, path)
        return node


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts:
        raise AssertionError(f"{path} leads out of the disk")
    return parts


def _set_name(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _force(folder: SimulatedFolder) -> None:
    for change in folder.pending:
        change.settle()
    folder.pending.clear()


def _folders(folder: SimulatedFolder, *, durable: bool = False) -> Iterator[SimulatedFolder]:
    yield folder
    for node in (folder.durable if durable else folder.names).values():
        if isinstance(node, SimulatedFolder):
            yield from _folders(node, durable=durable)


def _paths(folder: SimulatedFolder, prefix: str) -> Iterator[str]:
    for name, node in folder.names.items():
        if isinstance(node, SimulatedFolder):
            yield from _paths(node, f"{prefix}{name}/")
        else:
            yield prefix + name


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
