# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/administration.py by tools/blocking: change that one.
"""What an administrator asks of a queue manager: MQSC scripts, its status, copies, and what is in doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entrepot.client.blocking.calls import Calls
from entrepot.server.mqsc import Answer
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb


class Administration:
    """The administrative verbs of a connection; the command line stands on these."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @property
    def manager_name(self) -> str:
        return self._calls.core.manager_name

    def mqsc(self, script: str, source: str = "-") -> list[Answer]:
        """The answers to the commands of a script, those that failed too."""
        answers: list[Answer] = self._calls.ask(Verb.MQSC, verbs.Mqsc(script, source))
        return answers

    def status(self) -> dict[str, int | float | str]:
        """How the queue manager is doing."""
        found: dict[str, int | float | str] = self.manage("status")
        return found

    def dump(self) -> str:
        """All objects as an MQSC script."""
        script: str = self.manage("dump")
        return script

    def back_up(self, destination: Path) -> dict[str, Any]:
        """Copy the queue manager to a folder on its machine; what was copied."""
        report: dict[str, Any] = self.manage("backup", destination=str(destination))
        return report

    def checkpoint(self) -> None:
        """Take a checkpoint now."""
        self.manage("checkpoint")

    def stop(self, *, immediate: bool = False) -> dict[str, Any]:
        """Stop a queue manager that is a process of its own; whom it waits for."""
        answer: dict[str, Any] = self.manage("stop", immediate=immediate)
        return answer

    def in_doubt(self) -> list[dict[str, Any]]:
        """Units of work that are not settled everywhere, oldest first within each kind."""
        found: list[dict[str, Any]] = self.manage("in_doubt")
        return found

    def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        """Decide a prepared unit instead of its coordinator; that is remembered."""
        self.manage("resolve", transaction_id=transaction_id, commit=commit)

    def forget(self, transaction_id: bytes) -> None:
        """Let go of a heuristic outcome, or of a decision that some database will never ask for."""
        self.manage("forget", transaction_id=transaction_id)

    def manage(self, what: str, **arguments: Any) -> Any:
        return self._calls.ask(Verb.MANAGE, verbs.Manage(what, arguments))
