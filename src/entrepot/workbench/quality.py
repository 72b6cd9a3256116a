# SPDX-License-Identifier: Apache-2.0
"""The four qualities of service that the documents measure, under one name each.

ours            NSTL                     CSIRO   WebSphere MQ     SonicMQ          broker
express         express                  NPNT    nonpersistent    nonpersistent    nonpersistent
recoverable     recoverable              PNT                      persistent
transactional   recoverable, sync-point  PLT     persistent                        persistent
global_unit     –                        PGT
"""

from __future__ import annotations

from enum import StrEnum


class Quality(StrEnum):
    EXPRESS = "express"
    """In memory; may be lost with the server."""
    RECOVERABLE = "recoverable"
    """Safe, as the system understands it, before each send returns."""
    TRANSACTIONAL = "transactional"
    """Sent and received in units of work of the system alone."""
    GLOBAL = "global_unit"
    """Received in one unit of work with a change in a database."""

    @property
    def is_persistent(self) -> bool:
        return self is not Quality.EXPRESS


_OF_PUBLISHED = {
    ("nstl-msmq-mqseries", "express", "none"): Quality.EXPRESS,
    ("nstl-msmq-mqseries", "recoverable", "none"): Quality.RECOVERABLE,
    ("nstl-msmq-mqseries", "recoverable", "local"): Quality.TRANSACTIONAL,
    ("wmq-windows-v53", "nonpersistent", "none"): Quality.EXPRESS,
    ("wmq-windows-v53", "persistent", "local"): Quality.TRANSACTIONAL,
    ("csiro-mst", "NPNT", ""): Quality.EXPRESS,
    ("csiro-mst", "PNT", ""): Quality.RECOVERABLE,
    ("csiro-mst", "PLT", "local"): Quality.TRANSACTIONAL,
    ("csiro-mst", "PGT", "global"): Quality.GLOBAL,
    ("sonicmq-mqseries-jms", "nonpersistent", ""): Quality.EXPRESS,
    ("sonicmq-mqseries-jms", "persistent", ""): Quality.RECOVERABLE,
    ("wbimb-hpux-v5", "nonpersistent", ""): Quality.EXPRESS,
    ("wbimb-hpux-v5", "persistent", ""): Quality.TRANSACTIONAL,
    # The broker coordinates its database; that is the flow's affair, and the messages are what they are.
    ("wbimb-hpux-v5", "nonpersistent", "global"): Quality.EXPRESS,
    ("wbimb-hpux-v5", "persistent", "global"): Quality.TRANSACTIONAL,
}


def published_quality(source: str, qos: str, transaction: str) -> Quality | None:
    """What a published row's two columns mean; None where a row has none (memory per client)."""
    return _OF_PUBLISHED.get((source, qos, transaction)) if qos else None
