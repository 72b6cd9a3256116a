# SPDX-License-Identifier: Apache-2.0
"""Several things at once, none of which may wait for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_threads(works: list[Callable[[], None]]) -> None:
    """All at once; what one of them raises is raised here."""
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "it waits for ever"
    if failures:
        raise failures[0]
