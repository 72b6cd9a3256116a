# SPDX-License-Identifier: Apache-2.0
"""Two queue managers joined by server channels: applications that ask are at A, those that answer or receive at B.

    sender ─▶ A: remote queue ─▶ TO.B.0 ─▶ channel A.B.0 ─▶ B: queue ─▶ receiver
    requester ─▶ A: queue@B.n ─▶ TO.B.n ─▶ channel A.B.n ─▶ B ─▶ replier ─▶ …@A.n ─▶ TO.A.n ─▶ channel B.A.n ─▶ A

`channel_pairs` of a point says how many pairs of channels there are; a
requester's number says which one it uses. A pair has an alias of the other
queue manager at each end, which is how a reply finds its own way back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from entrepot.client.blocking import Connection, connect
from entrepot.errors import SystemFailed
from entrepot.workbench.quality import Quality
from entrepot.workbench.systems.entrepot_server import USER, QueueManagerProcess
from entrepot.workbench.systems.entrepot_system import (
    DEPTH_MAX,
    ON_DISK,
    EntrepotSystem,
)
from entrepot.workbench.systems.processes import LOOPBACK
from entrepot.workbench.systems.system import Ability

_RUNNING_S = 60.0
_SETTLE_S = 60.0
_POLL_S = 0.05


class EntrepotChannels(EntrepotSystem):
    name = "entrepot-channels"
    title = "Entrepot, server channels"
    abilities: ClassVar[frozenset[Ability]] = frozenset({"queues", "requests", "sessions", "connections"})
    contracts: ClassVar[Mapping[Quality, str]] = {
        Quality.EXPRESS: (
            "In memory of either queue manager, and lost with it or with a channel that breaks (NPMSPEED(FAST)):"
            " at most once."
        ),
        Quality.RECOVERABLE: (
            f"{ON_DISK.capitalize()} each put at A returns, on disk at B before A forgets it; received in a unit of"
            " work, on disk before its commit returns: none lost, none twice."
        ),
        Quality.TRANSACTIONAL: (
            f"{ON_DISK.capitalize()} each commit at A returns, on disk at B before A forgets it, and before the commit"
            " of its receiver returns: none lost, none twice."
        ),
        Quality.GLOBAL: (
            f"{ON_DISK.capitalize()} each commit at A returns, on disk at B before A forgets it; the receiver's get and"
            " its row in the database commit together or not at all: none lost, none twice."
        ),
    }
    start_s = 4.0

    def __init__(self, folder: Path, quality: Quality, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(folder, quality, options)
        self.sending = QueueManagerProcess(folder, "A", self.log)
        self.receiving = QueueManagerProcess(folder, "B", self.log)
        self.pairs = max(1, int(self.options.get("channel_pairs", 1)))

    @property
    def url(self) -> str:
        return self.sending.unix_url

    @property
    def managers(self) -> Sequence[QueueManagerProcess]:
        return (self.sending, self.receiving)

    def start(self) -> None:
        super().start()
        # A sender that finds no receiver channel would only try again after a pause.
        for here, there in ((self.sending, self.receiving), (self.receiving, self.sending)):
            here.mqsc(
                *(
                    f"DEFINE CHANNEL({_channel(there, here, pair)}) CHLTYPE(RCVR) MCAUSER('{USER}') REPLACE"
                    for pair in range(self.pairs)
                )
            )
        for here, there in ((self.sending, self.receiving), (self.receiving, self.sending)):
            # After a restart they run of themselves, and look for the other one where it was before.
            running = [row["CHANNEL"] for row in _channel_states(here)]
            here.mqsc(*(f"STOP CHANNEL({channel}) MODE(FORCE)" for channel in running))
            here.mqsc(*_way(here, there, self.pairs))
        self._await_channels()

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "channel pairs": str(self.pairs),
            "channels": "as they come: BATCHSZ(50), BATCHINT(0), NPMSPEED(FAST), over TCP",
        }

    def create_queues(self, names: Sequence[str]) -> None:
        if not names:
            return
        # What an earlier trial has left on its way would come out of the channel afterwards.
        deadline = time.monotonic() + _SETTLE_S
        while self.sending.depth(*self._transmission_queues()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        super().create_queues(names)
        self.sending.mqsc(
            *(
                f"DEFINE QREMOTE('{name}') RNAME('{name}') RQMNAME({self.receiving.name})"
                f" XMITQ({_transmission_queue(self.receiving, 0)}) REPLACE"
                for name in names
            )
        )

    def depth(self, queue: str) -> int | None:
        """Of a transmission queue, such as `TO.B.0`; of any other, what waits there and on the way to it."""
        on_the_way = self._transmission_queues()
        if queue in on_the_way:
            return self.sending.depth(queue)
        return self.sending.depth(*on_the_way) + self.receiving.depth(queue)

    def way_of(self, requests: str, number: int) -> tuple[str, str]:
        pair = number % self.pairs
        return f"{requests}@{_alias(self.receiving, pair)}", _alias(self.sending, pair)

    def connect_receiver(self) -> Connection:
        return connect(self.receiving.unix_url)

    def _transmission_queues(self) -> list[str]:
        return [_transmission_queue(self.receiving, pair) for pair in range(self.pairs)]

    def _await_channels(self) -> None:
        """Return when all channels run, so that no trial waits for one."""
        deadline = time.monotonic() + _RUNNING_S
        for manager in self.managers:
            while True:
                states = [str(row["STATUS"]) for row in _channel_states(manager)]
                if states.count("RUNNING") >= self.pairs:
                    break
                if time.monotonic() > deadline:
                    raise SystemFailed(self.name, f"has channels from {manager.name} that do not run: {states}")
                time.sleep(_POLL_S)


def _channel_states(manager: QueueManagerProcess) -> list[Mapping[str, Any]]:
    """Of its senders that run, or try to."""
    answers = manager.mqsc("DISPLAY CHSTATUS(*) STATUS CHLTYPE")
    return [row for answer in answers for row in answer.rows if row["CHLTYPE"] == "SDR"]


def _channel(here: QueueManagerProcess, there: QueueManagerProcess, pair: int) -> str:
    return f"{here.name}.{there.name}.{pair}"


def _transmission_queue(there: QueueManagerProcess, pair: int) -> str:
    return f"TO.{there.name}.{pair}"


def _alias(manager: QueueManagerProcess, pair: int) -> str:
    """Another name of a queue manager, which leads to it by the channel of a pair."""
    return f"{manager.name}.{pair}"


def _way(here: QueueManagerProcess, there: QueueManagerProcess, pairs: int) -> Iterator[str]:
    for pair in range(pairs):
        channel, transmission = _channel(here, there, pair), _transmission_queue(there, pair)
        yield f"DEFINE QLOCAL({transmission}) USAGE(XMITQ) MAXDEPTH({DEPTH_MAX}) REPLACE"
        yield f"DEFINE QREMOTE({_alias(there, pair)}) RNAME(' ') RQMNAME({there.name}) XMITQ({transmission}) REPLACE"
        yield (
            f"DEFINE CHANNEL({channel}) CHLTYPE(SDR) CONNAME('{LOOPBACK}({there.port})') XMITQ({transmission}) REPLACE"
        )
        yield f"START CHANNEL({channel})"
