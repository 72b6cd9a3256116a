# SPDX-License-Identifier: Apache-2.0
"""What is settled when a queue manager is created and kept in its manager.json."""

from __future__ import annotations

import msgspec

from entrepot.engine.recovery_log.settings import LogSettings


class ManagerSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    manager_id: bytes
    """12 random bytes: the beginning of every message id, and proof that a file belongs here."""
    format_version: int
    created: float
    log: LogSettings
