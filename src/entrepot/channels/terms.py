# SPDX-License-Identifier: Apache-2.0
"""What the two ends of a channel agree on when they meet: the smaller of what both can bear."""

from __future__ import annotations

from typing import NamedTuple

from entrepot.engine.definitions import Channel
from entrepot.limits import MIB
from entrepot.server.wire.verbs import ChannelWelcome

BATCH_BYTES_MAX = 256 * MIB
"""Whatever BATCHLIM says: with one more message a batch still fits the receiver's unit of work."""


class Terms(NamedTuple):
    """What both ends have agreed on."""

    batch_size: int
    batch_bytes_max: int
    body_bytes_max: int
    fast: bool
    sequence_wrap: int
    heartbeat_s: float

    @classmethod
    def of(cls, definition: Channel) -> Terms:
        """What a sender wants."""
        return cls(
            definition.batch_size,
            min(definition.batch_bytes_max or BATCH_BYTES_MAX, BATCH_BYTES_MAX),
            definition.body_bytes_max,
            definition.nonpersistent_fast,
            definition.sequence_wrap,
            definition.heartbeat_s,
        )

    def with_receiver(self, welcome: ChannelWelcome) -> Terms:
        """What it gets."""
        heartbeats = [each for each in (self.heartbeat_s, welcome.heartbeat_s) if each]
        return self._replace(
            batch_size=max(min(self.batch_size, welcome.batch_size), 1),
            body_bytes_max=min(self.body_bytes_max, welcome.body_bytes_max),
            fast=self.fast and welcome.nonpersistent_fast,
            heartbeat_s=min(heartbeats, default=0),
        )
