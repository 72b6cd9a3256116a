# SPDX-License-Identifier: Apache-2.0
"""The embedded binding: a host, and the verbs that a connection needs beyond those of a host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from entrepot.errors import EntrepotError, RequestTimedOut
from entrepot.message import Message
from entrepot.mqsc import Answer, dump, run_script
from entrepot.queues import media
from entrepot.queues.coordinator import HostCoordinator
from entrepot.queues.criteria import Criteria
from entrepot.queues.host import Host
from entrepot.queues.unit_of_work import Unit


class EmbeddedHost(Host):
    """What `channels.client.Client` is for the other bindings."""

    opened = 1
    """Its one connection never breaks."""

    on_close: Callable[[], None] | None = None
    """What has to end before it does."""

    def close(self) -> None:
        if self.on_close is not None:
            self.on_close()
        super().close()

    @property
    def coordinator(self) -> HostCoordinator:
        return HostCoordinator(self)

    def mqsc(self, script: str, source: str) -> list[Answer]:
        return run_script(script, self, source)

    @property
    def manager_name(self) -> str:
        return self.settings.name

    def dump(self) -> str:
        return dump(self)

    def back_up(self, destination: Path) -> dict[str, Any]:
        report: dict[str, Any] = msgspec.to_builtins(media.backup(self, destination))
        return report

    def request(
        self,
        name: str,
        message: Message,
        reply_queue: str,
        timeout_s: float,
        *,
        persistent: bool | None,
        priority: int | None,
        opened: int,
    ) -> Message:
        del opened  # it is always the same
        message_id = self.put(name, message, persistent=persistent, priority=priority)
        reply = self.get(reply_queue, Criteria(correlation_id=message_id), wait_s=timeout_s)
        if reply is None:
            raise RequestTimedOut(name, timeout_s)
        return reply

    def get_many(
        self, name: str, limit: int, criteria: Criteria | None, *, unit: Unit, wait_s: float = 0.0
    ) -> list[Message]:
        first = self.get(name, criteria, unit=unit, wait_s=wait_s)
        found = [] if first is None else [first]
        with self.lock:
            while found and len(found) < limit:
                message, _ = self.manager.get(name, criteria, unit)
                if message is None:
                    break
                found.append(message)
        return found

    def put_without_answer(
        self, name: str | Sequence[str], message: Message, *, persistent: bool | None, priority: int | None
    ) -> bytes:
        return self.put(name, message, persistent=persistent, priority=priority)

    def pipeline(self) -> EmbeddedPipeline:
        return EmbeddedPipeline(self)

    def consume(self, name: str, criteria: Criteria | None, read_ahead: int) -> EmbeddedConsumption:
        del read_ahead  # nothing is far away here
        return EmbeddedConsumption(self, name, criteria)

    def reader(self, name: str, criteria: Criteria | None, read_ahead: int) -> EmbeddedReader:
        del read_ahead
        return EmbeddedReader(self, name, criteria)


class EmbeddedPipeline:
    """Each put is carried out at once; only its refusal waits, as through a channel."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._refusal: EntrepotError | None = None

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None,
        priority: int | None,
        wait_s: float,
    ) -> bytes:
        try:
            return self._host.put(name, message, persistent=persistent, priority=priority, wait_s=wait_s)
        except EntrepotError as error:
            self._refusal = self._refusal or error
            return b""

    def wait(self) -> None:
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal


class EmbeddedConsumption:
    """One message after another; there is no way on which they could be read ahead."""

    def __init__(self, host: Host, name: str, criteria: Criteria | None) -> None:
        with host.lock:
            host.manager.readable(name)
        self._host = host
        self._name = name
        self._criteria = criteria
        self._ended = False

    def get(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""
        if self._ended:
            return None
        return self._host.get(self._name, self._criteria, wait_s=wait_s)

    def close(self) -> None:
        self._ended = True


class EmbeddedReader:
    """Gets in units of work, one by one."""

    def __init__(self, host: Host, name: str, criteria: Criteria | None) -> None:
        self._host = host
        self._name = name
        self._criteria = criteria
        self._ended = False

    def get(self, unit: Unit, wait_s: float) -> Message | None:
        """The next message, now in the unit, or None when none comes within `wait_s`."""
        if self._ended:
            return None
        return self._host.get(self._name, self._criteria, unit=unit, wait_s=wait_s)

    def close(self) -> None:
        self._ended = True
