# SPDX-License-Identifier: Apache-2.0
"""The moments of a global unit of work at which a crash matters, for tests that let somebody die there."""

from __future__ import annotations

from collections.abc import Callable

BEFORE_PREPARE = "before prepare"
BETWEEN_PREPARES = "between prepares"
PREPARED = "after the last prepare"
LEFT_TO_LAST = "after the queue manager's prepare"
LAST_COMMITTED = "after the last agent's commit"
DECIDED = "after the decision"
BETWEEN_COMMITS = "between commits"
BEFORE_FORGET = "before forget"

ALL = (BEFORE_PREPARE, BETWEEN_PREPARES, PREPARED, DECIDED, BETWEEN_COMMITS, BEFORE_FORGET)
"""Of a unit whose databases all have two phases."""
LAST_AGENT = (BEFORE_PREPARE, PREPARED, LEFT_TO_LAST, LAST_COMMITTED, DECIDED, BEFORE_FORGET)
"""Of a unit whose only database has one."""


def _go_on(_: str) -> None:
    pass


reached: Callable[[str], None] = _go_on
"""Called at each of them, by whoever drives the unit."""
