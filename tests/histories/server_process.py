# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm start` for histories: PATH, a file with seconds to add to the clock (eight bytes), a bug to plant."""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

from entrepot import disk
from entrepot.cli.main import main
from entrepot.clock import SystemClock
from entrepot.engine.queue_manager import QueueManager
from entrepot.engine.recovery_log.record import Record, RemoveRecord
from entrepot.engine.unit_of_work import Unit


def plant(bug: str) -> None:
    """Make a mistake that the checkers must notice."""
    if bug == "nothing is forced":
        os.fdatasync = os.fsync = lambda _: None  # type: ignore[assignment]
        disk._FORCED = 0  # no write forces by itself
    elif bug == "gets are not logged":
        sound = QueueManager.records

        def without_gets(manager: QueueManager, unit: Unit) -> tuple[list[Record], Any]:
            records, arrivals = sound(manager, unit)
            return [record for record in records if not isinstance(record, RemoveRecord)], arrivals

        QueueManager.records = without_gets  # type: ignore[method-assign]


if __name__ == "__main__":
    path, clock, bug = sys.argv[1:]
    with Path(clock).open("r+b") as file:
        seconds = mmap.mmap(file.fileno(), 8)
    # The wall clock alone: no machine's monotonic clock can be set.
    SystemClock.now = staticmethod(lambda: time.time() + struct.unpack_from("<d", seconds)[0])
    plant(bug)
    sys.argv = ["entrepot", "qm", "start", path, "--json"]
    main()
