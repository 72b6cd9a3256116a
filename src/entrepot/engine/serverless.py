# SPDX-License-Identifier: Apache-2.0
"""What a queue manager inside of a program answers to commands that only a server can carry out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.errors import NoServer

if TYPE_CHECKING:
    from entrepot.engine.queue_manager import QueueManager


class Serverless:
    """Channels, listeners and clients are a server's, which overrides all of these."""

    def _restarted(self, manager: QueueManager) -> None:
        """The engine is there and nothing has happened in it yet: where users come in, their authority does."""

    def start_object(self, kind: str, name: str) -> None:
        raise NoServer(f"START {kind}({name})")

    def stop_object(self, kind: str, name: str, *, force: bool, inactive: bool) -> None:  # noqa: ARG002
        raise NoServer(f"STOP {kind}({name})")

    def reset_channel(self, name: str, sequence: int) -> None:
        raise NoServer(f"RESET CHANNEL({name}) SEQNUM({sequence})")

    def resolve_channel(self, name: str, *, commit: bool) -> None:
        raise NoServer(f"RESOLVE CHANNEL({name}) ACTION({'COMMIT' if commit else 'BACKOUT'})")

    def ping_channel(self, name: str) -> str:
        raise NoServer(f"PING CHANNEL({name})")
