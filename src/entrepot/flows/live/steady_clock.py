# SPDX-License-Identifier: Apache-2.0
"""A time for what waits that only goes forward, and that all instances of a machine agree on.

The machine's own such clock counts from its start. What has to be added, so
that it reads like the wall clock, is found out once for each start of the
machine and kept on a queue of the flows, by the start's own id. So a clock
that is set, forward or back, fires and delays nothing, also after instances
have begun again; after a restart of the machine the wall clock is believed
once more.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from pathlib import Path

from entrepot.client.blocking import Connection
from entrepot.clock import Clock, SystemClock
from entrepot.errors import MqscError, NotAuthorized, QueueFull, QueueNotFound

QUEUE = "SYSTEM.FLOW.CLOCK"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_KEY_BYTES = 24


class SteadyClock:
    """The clock of one instance."""

    def __init__(self, connection: Connection, clock: Clock | None = None) -> None:
        self._connection = connection
        self._clock: Clock = clock or SystemClock()
        self._offset_s: float | None = None

    def now(self) -> float:
        """Seconds since 1970, as the wall clock had them when the flows of this machine first asked."""
        if self._offset_s is None:
            self._offset_s = self._agreed_offset_s()
        return self._clock.elapsed() + self._offset_s

    def _agreed_offset_s(self) -> float:
        own = self._clock.now() - self._clock.elapsed()
        key = _boot_key()
        with contextlib.suppress(MqscError, NotAuthorized):  # it is there, or this user may not define queues
            self._connection.mqsc(f"DEFINE QLOCAL('{QUEUE}') DEFPSIST(YES) NOREPLACE")
        try:
            found = self._kept(key)
            if found is None:
                self._connection.put(QUEUE, repr(own).encode(), correlation_id=key, persistent=True)
                found = self._kept(key)  # of two that were put at the same time, the older one counts
        except (NotAuthorized, QueueFull, QueueNotFound):
            return own  # the instance is on its own: its waits are right for as long as it lives
        return own if found is None else found

    def _kept(self, key: bytes) -> float | None:
        for message in self._connection.browse(QUEUE, correlation_id=key):
            try:
                offset_s = float(message.body)
            except ValueError:
                continue
            if math.isfinite(offset_s):
                return offset_s
        return None


def _boot_key() -> bytes:
    try:
        boot_id = _BOOT_ID.read_bytes().strip()
    except OSError:
        boot_id = b""
    return hashlib.sha256(b"boot\n" + boot_id).digest()[:_KEY_BYTES]
