# SPDX-License-Identifier: Apache-2.0
"""One row per message and reception: what was sent beside what came, for every trial at once.

A message that never came has no reception (`received_ns` is null), one that
came twice has two rows, one that nobody sent is a stray (`sent_ns` is null).
A publication has a row for each subscriber that got it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from entrepot.workbench.analysis.reading import Tables

COLUMNS = (
    "trial",
    "sender",
    "number",
    "bytes",
    "intended_ns",
    "sent_ns",
    "acknowledged_ns",
    "receiver",
    "received_ns",
    "committed_ns",
    "arrival",
)


def messages(tables: Tables) -> DataFrame:
    """`intended`, `sent`, `acknowledged`, `received`, `committed` of each message, joined by trial, sender, number."""
    joined = tables.sent.join(tables.received, ["trial", "sender", "number"], "full_outer")
    return joined.select(*COLUMNS)
