# SPDX-License-Identifier: Apache-2.0
"""What an administrator asks of a queue manager: MQSC scripts, its status, copies, and what is in doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from entrepot.client.aio.calls import Calls
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

    async def mqsc(self, script: str, source: str = "-") -> list[Answer]:
        """The answers to the commands of a script, those that failed too."""
        answers: list[Answer] = await self._calls.ask(Verb.MQSC, verbs.Mqsc(script, source))
        return answers

    async def status(self) -> dict[str, int | float | str]:
        """How the queue manager is doing."""
        found: dict[str, int | float | str] = await self.manage("status")
        return found

    async def dump(self) -> str:
        """All objects as an MQSC script."""
        script: str = await self.manage("dump")
        return script

    async def back_up(self, destination: Path) -> dict[str, Any]:
        """Copy the queue manager to a folder on its machine; what was copied."""
        report: dict[str, Any] = await self.manage("backup", destination=str(destination))
        return report

    async def checkpoint(self) -> None:
        """Take a checkpoint now."""
        await self.manage("checkpoint")

    async def stop(self, *, immediate: bool = False) -> dict[str, Any]:
        """Stop a queue manager that is a process of its own; whom it waits for."""
        answer: dict[str, Any] = await self.manage("stop", immediate=immediate)
        return answer

    async def in_doubt(self) -> list[dict[str, Any]]:
        """Units of work that are not settled everywhere, oldest first within each kind."""
        found: list[dict[str, Any]] = await self.manage("in_doubt")
        return found

    async def resolve(self, transaction_id: bytes, *, commit: bool) -> None:
        """Decide a prepared unit instead of its coordinator; that is remembered."""
        await self.manage("resolve", transaction_id=transaction_id, commit=commit)

    async def forget(self, transaction_id: bytes) -> None:
        """Let go of a heuristic outcome, or of a decision that some database will never ask for."""
        await self.manage("forget", transaction_id=transaction_id)

    async def manage(self, what: str, **arguments: Any) -> Any:
        return await self._calls.ask(Verb.MANAGE, verbs.Manage(what, arguments))
