# SPDX-License-Identifier: Apache-2.0
"""How much work something is, for tests that compare work with work."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def processor_s(work: Callable[[], object], tries: int = 5) -> float:
    """The least processor time that a call took.

    The least of several, and without the collector of garbage: that looks at
    all objects of the process, among them those that other tests have left.
    """
    gc.collect()
    gc.disable()
    try:
        return min(_once(work) for _ in range(tries))
    finally:
        gc.enable()


def _once(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun
