# SPDX-License-Identifier: Apache-2.0
"""The engine that flows run on; with the workbench's analysis the only room that imports pyspark.

java           which Java there is to run Spark with
launching      the commands that start Spark's own processes
class_archive  Java's classes as its memory wants them, kept from one start to the next
settings       what we tell Spark, and why
quick_daemon   what Python's workers are forked from
driver         the JVM that a session lives in
session        a session, from start to end
folders        where we keep what saves time, and what is nobody else's business

Nothing here is imported before somebody asks for it, since pyspark costs half a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from entrepot.spark.java import Java, find_java
    from entrepot.spark.session import close_session, open_context, open_session, session_log, spark_session
    from entrepot.spark.settings import local_master

__all__ = [
    "Java",
    "close_session",
    "find_java",
    "local_master",
    "open_context",
    "open_session",
    "session_log",
    "spark_session",
]

_HOMES = {
    "entrepot.spark.java": ("Java", "find_java"),
    "entrepot.spark.session": ("close_session", "open_context", "open_session", "session_log", "spark_session"),
    "entrepot.spark.settings": ("local_master",),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'entrepot.spark' has no attribute {name!r}")
