# SPDX-License-Identifier: Apache-2.0
"""Where messages rest.

Reading order: entry, lane, queue, unit_of_work, queue_manager (the
deterministic engine), restart, checkpointing, and last host, which runs
the engine for the threads of a process.
"""

DOORS = (
    "browsing",
    "checkpointing",
    "claims",
    "completion",
    "coordinator",
    "criteria",
    "databases.branch",
    "databases.points",
    "databases.recovery",
    "databases.registered",
    "databases.resource",
    "databases.watch",
    "definitions",
    "entry",
    "express",
    "folder",
    "global_units",
    "host",
    "loop_host",
    "media",
    "memory_disk",
    "objects",
    "publishing",
    "put_authority",
    "queue",
    "queue_manager",
    "quotas",
    "recovery_log.checkpoint",
    "recovery_log.group",
    "recovery_log.reader",
    "recovery_log.record",
    "recovery_log.segment",
    "recovery_log.settings",
    "reports",
    "restart",
    "routes",
    "search",
    "settings",
    "settlement",
    "subscribers",
    "subscription_owner",
    "system_queues",
    "thread_loop",
    "topics",
    "trigger_monitor",
    "unit_of_work",
    "waiting",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""
