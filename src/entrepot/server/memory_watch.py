# SPDX-License-Identifier: Apache-2.0
"""How much memory the process may have, and whether that comes to an end.

Under a limit (ulimit -v, a container's, the machine's own) an allocation
that fails may happen in a library that does not expect it, and the process
dies. So nothing is taken in any more when only the last part of the limit is
left: puts and connections are refused, gets and everything that makes room
go on. An allocation that fails all the same ends the process with a code of
its own; the recovery log has everything that was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import resource
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from entrepot.errors import MemoryShort
from entrepot.limits import MIB

_LOGGER = logging.getLogger("entrepot")

EXIT_OUT_OF_MEMORY = 71
"""What the server's process ends with when an allocation has failed; EX_OSERR of sysexits.h."""

LARGE_BODY_BYTES = 1 * MIB
_RESERVE_PART = 8
_RESERVE_BYTES_MIN, _RESERVE_BYTES_MAX = 64 * MIB, 1024 * MIB
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def reserve_bytes(limit_bytes: float) -> float:
    """What is kept back of a limit: an eighth, but neither less than 64 MiB nor more than 1 GiB, nor half of it."""
    return min(max(limit_bytes / _RESERVE_PART, _RESERVE_BYTES_MIN), _RESERVE_BYTES_MAX, limit_bytes / 2)


class MemoryWatch:
    """Knows whether memory is short; asked with every put, so it only looks now and then."""

    def __init__(
        self,
        address_space_bytes: float | None = None,
        resident_bytes: float | None = None,
        used: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self.address_space_bytes = _address_space_limit() if address_space_bytes is None else address_space_bytes
        self.resident_bytes = _resident_limit() if resident_bytes is None else resident_bytes
        self._used = used or _used_bytes
        self.is_short = False
        self._is_limited = min(self.address_space_bytes, self.resident_bytes) < math.inf
        self.look()

    def require(self, body_bytes: int, manager: str) -> None:
        """Refuse a message for which there is no memory; before a large one memory is looked at.

        Raises:
            MemoryShort
        """
        if self.is_short or (body_bytes >= LARGE_BODY_BYTES and self.look(body_bytes)):
            raise MemoryShort(manager)

    def look(self, more_bytes: int = 0) -> bool:
        """Whether memory is short, or would be with so much more."""
        if not self._is_limited:
            return False
        virtual, resident = self._used()
        short = _exceeds(virtual + more_bytes, self.address_space_bytes) or _exceeds(
            resident + more_bytes, self.resident_bytes
        )
        if not more_bytes and short != self.is_short:
            self.is_short = short
            state = "is short: puts and connections are refused" if short else "is enough again"
            _LOGGER.warning("memory %s (%d MiB in use, %d MiB of addresses)", state, resident // MIB, virtual // MIB)
        return short


def _exceeds(used_bytes: float, limit_bytes: float) -> bool:
    return used_bytes > limit_bytes - reserve_bytes(limit_bytes)


def _address_space_limit() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return float("inf") if soft == resource.RLIM_INFINITY else soft


def _resident_limit() -> float:
    """The least of what a container and the machine have."""
    limits = [float(os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES)]
    for path in _CGROUP_LIMITS:
        try:
            limits.append(float(Path(path).read_text()))
        except (OSError, ValueError):
            continue  # there is none, or it says "max"
    return min(limits)


def _used_bytes() -> tuple[int, int]:
    """Addresses and memory of this process."""
    virtual, resident, *_ = os.pread(_statm(), 256, 0).split()
    return int(virtual) * _PAGE_BYTES, int(resident) * _PAGE_BYTES


@lru_cache(maxsize=1)
def _statm() -> int:
    # Open for good: when the process is out of descriptors, memory has to be looked at all the same.
    return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)


def _is_out_of_memory(error: BaseException | None) -> bool:
    # A thread needs memory for its stack; without it a verb would wait for ever for an answer.
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error))


def end_when_out_of_memory(loop: asyncio.AbstractEventLoop, end: Callable[[int], Any] = os._exit) -> None:
    """Let an allocation that failed, on the loop or on a thread, end the process.

    Who has met it may have left a queue, a group of records or a lock as they must not be. Without
    this a thread would be missing, and the server stay up and answer nobody.
    """
    reserve = [bytearray(4 * MIB)]

    def out_of_memory(where: str) -> None:
        reserve.clear()  # for the words below
        try:
            _LOGGER.critical("out of memory (%s): the process ends; the recovery log has what was acknowledged", where)
        finally:
            end(EXIT_OUT_OF_MEMORY)

    usual_thread_hook = threading.excepthook

    def on_loop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if _is_out_of_memory(context.get("exception")):
            out_of_memory("on the event loop")
        loop.default_exception_handler(context)

    def on_thread(args: threading.ExceptHookArgs) -> None:
        if _is_out_of_memory(args.exc_value):
            out_of_memory(f"on thread {args.thread.name if args.thread else '?'}")
        usual_thread_hook(args)

    loop.set_exception_handler(on_loop)
    threading.excepthook = on_thread
