# SPDX-License-Identifier: Apache-2.0
"""What MANAGE does at any queue manager: its status, checkpoints, copies, and what is in doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from entrepot import checks
from entrepot.engine import media
from entrepot.engine.coordinator import HostCoordinator
from entrepot.engine.folder import as_recovery_error
from entrepot.engine.host import Host
from entrepot.errors import InvalidArgument, InvalidSetting
from entrepot.server.mqsc import Administered, dump

ASKED = ("status", "checkpoint", "dump", "backup", "in_doubt", "resolve", "forget")


def manage(host: Host, administered: Administered, what: str, arguments: dict[str, Any]) -> Any:
    """Answer the command line; on a thread that may wait.

    Raises:
        InvalidSetting: It asks what cannot be answered here.
    """
    if what in ("status", "checkpoint"):
        if what == "checkpoint":
            host.checkpoint()
        return dict(host.status())
    if what == "dump":
        return dump(administered)
    if what == "backup":
        return _back_up(host, arguments.get("destination"))
    coordinator = HostCoordinator(host)
    if what == "in_doubt":
        return coordinator.report()
    if what == "forget":
        coordinator.forget(checks.transaction_id(arguments.get("transaction_id")))
        return None
    if what == "resolve":
        transaction_id = checks.transaction_id(arguments.get("transaction_id"))
        coordinator.resolve_heuristically(transaction_id, commit=checks.flag("commit", arguments.get("commit")))
        return None
    raise InvalidSetting("MANAGE", what, f"one of {', '.join(ASKED)}; a server knows stop as well")


def _back_up(host: Host, destination: object) -> Any:
    if not isinstance(destination, str) or not destination.startswith("/") or "\0" in destination:
        raise InvalidArgument("destination", checks.shortened(destination), "a folder's path from the root on")
    try:
        return msgspec.to_builtins(media.backup(host, Path(destination)))
    except OSError as error:
        raise as_recovery_error(Path(destination), error) from error
