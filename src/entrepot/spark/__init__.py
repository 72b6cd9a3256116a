# SPDX-License-Identifier: Apache-2.0
"""The engine that flows run on; with the workbench's analysis the only room that imports pyspark.

starting/   from nothing to a running Spark
live/       flows at work on queues: long-running tasks
tables/     queues as tables: the data source and sink `entrepot`
replaying/  flows over tables, in a stream or over an archive

Nothing here is imported before it is used, since pyspark costs half a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entrepot.spark.live.live_flow import LiveFlow
    from entrepot.spark.replaying.archive import archive_queue, read_archive
    from entrepot.spark.replaying.replay import replay
    from entrepot.spark.replaying.transform import transform
    from entrepot.spark.starting.java import Java, find_java
    from entrepot.spark.starting.session import close_session, open_context, open_session, session_log, spark_session
    from entrepot.spark.starting.settings import local_master
    from entrepot.spark.tables.data_source import register

DOORS = (
    "live.live_flow",
    "replaying.differences",
    "replaying.replay",
    "starting.java",
    "starting.launching",
    "starting.session",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""

__all__ = [
    "Java",
    "LiveFlow",
    "archive_queue",
    "close_session",
    "find_java",
    "local_master",
    "open_context",
    "open_session",
    "read_archive",
    "register",
    "replay",
    "session_log",
    "spark_session",
    "transform",
]

_HOMES = {
    "live.live_flow": ("LiveFlow",),
    "replaying.archive": ("archive_queue", "read_archive"),
    "replaying.replay": ("replay",),
    "replaying.transform": ("transform",),
    "starting.java": ("Java", "find_java"),
    "starting.session": ("close_session", "open_context", "open_session", "session_log", "spark_session"),
    "starting.settings": ("local_master",),
    "tables.data_source": ("register",),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"entrepot.spark.{home}"), name)
    raise AttributeError(f"module 'entrepot.spark' has no attribute {name!r}")
