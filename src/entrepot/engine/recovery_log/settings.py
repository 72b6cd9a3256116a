# SPDX-License-Identifier: Apache-2.0
"""How a queue manager's log is laid out; chosen at creation and kept in manager.json."""

from __future__ import annotations

from typing import Literal

import msgspec

from entrepot import limits
from entrepot.engine.recovery_log.segment import HEAD_PAGE_BYTES
from entrepot.errors import InvalidSetting


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["circular", "linear"] = "circular"
    """Circular reuses segments after a checkpoint; linear keeps them, for media recovery and restore to a time."""
    segment_bytes: int = limits.LOG_SEGMENT_BYTES_DEFAULT
    primary: int = limits.LOG_PRIMARY_DEFAULT
    """Segments that are made at creation."""
    secondary: int = limits.LOG_SECONDARY_DEFAULT
    """Segments that a circular log may make beyond these when it has to."""
    buffer_bytes: int = limits.LOG_BUFFER_BYTES_DEFAULT
    """Records that gather in memory before they are written even though nobody waits for them."""
    checkpoint_bytes: int = 0
    """How much log a checkpoint interval may grow to; 0 leaves the choice to us."""

    @property
    def payload_bytes(self) -> int:
        """What of the stream fits into one segment."""
        return self.segment_bytes - HEAD_PAGE_BYTES

    @property
    def segments_max(self) -> int:
        return self.primary + self.secondary

    @property
    def checkpoint_interval_bytes(self) -> int:
        # Restart needs up to two intervals of log; half of the primaries leaves room for one more group.
        return self.checkpoint_bytes or self.primary * self.payload_bytes // 4

    def validated(self) -> LogSettings:
        """Itself, when it makes sense."""
        checks = (
            ("kind", self.kind, self.kind in ("circular", "linear"), "circular or linear"),
            (
                "segment_bytes",
                self.segment_bytes,
                limits.LOG_SEGMENT_BYTES_MIN <= self.segment_bytes <= limits.LOG_SEGMENT_BYTES_MAX
                and self.segment_bytes % HEAD_PAGE_BYTES == 0,
                f"a multiple of 4096 from {limits.LOG_SEGMENT_BYTES_MIN} to {limits.LOG_SEGMENT_BYTES_MAX}",
            ),
            ("primary", self.primary, 2 <= self.primary <= 510, "2 to 510 segments"),
            ("secondary", self.secondary, 1 <= self.secondary <= 510, "1 to 510 segments"),
            ("buffer_bytes", self.buffer_bytes, self.buffer_bytes >= 4096, "at least 4096"),
            (
                "checkpoint_bytes",
                self.checkpoint_bytes,
                0 <= self.checkpoint_bytes <= self.segments_max * self.payload_bytes // 3,
                "0, or at most a third of primary and secondary segments together",
            ),
        )
        for key, value, sound, expected in checks:
            if not sound:
                raise InvalidSetting(f"log {key}", str(value), expected)
        return self
