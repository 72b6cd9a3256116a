# SPDX-License-Identifier: Apache-2.0
"""Calls: the response time of each call by itself, made by one thread on an empty queue (figures 17 to 20).

One application stays connected and puts, gets, commits and backs out;
another comes and goes beside it, in turn and never at the same time. Put
and get are in units of work where the quality has them; commit and back-out
always end a unit with one message in it. Where a put in a unit of work is
not waited for, its commit takes the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from entrepot.errors import GeneratorFailed
from entrepot.workbench.generators.client import Client, header, padding
from entrepot.workbench.loads.load import Load
from entrepot.workbench.measuring.observations import CALL_NAMES
from entrepot.workbench.measuring.stage import Stage
from entrepot.workbench.quality import Quality

QUEUE = "BENCH.CALLS"
WARM_UP_ROUNDS = 5
LIMIT_S = 600.0


class CallsLoad(Load):
    name = "calls"
    needs = frozenset({"calls"})
    parameters = {"message_bytes": 2048, "binding": ""}

    def run(self, stage: Stage) -> None:
        rounds = stage.effort.calls
        stage.system.create_queues([QUEUE])
        with stage.trial() as trial:
            trial.start("caller", call, 1, stage.number("message_bytes"), rounds)
            trial.gather()
            trial.go(LIMIT_S, until=lambda: trial.counted("caller") >= rounds)
            trial.applications.join("caller")
            trial.evidence["calls"] = f"{trial.counted('caller')} of {rounds} of each kind"


def call(client: Client, message_bytes: int, rounds: int) -> None:
    timed = TimedCalls(client, message_bytes)
    for _ in range(WARM_UP_ROUNDS):
        timed.round(noted=False)
    client.gate.wait()
    for done in range(1, rounds + 1):
        if time.monotonic_ns() >= client.gate.ended_ns:
            break
        timed.round(noted=True)
        client.count(done)
    timed.stays.disconnect()


class TimedCalls:
    """All eight calls, one after the other; the queue is empty before and afterwards."""

    def __init__(self, client: Client, message_bytes: int) -> None:
        self._in_unit = client.system.quality in (Quality.TRANSACTIONAL, Quality.GLOBAL)
        self._note, self._me, self._bytes = client.calls.add, client.number, message_bytes
        self._tail, self._number = padding(message_bytes), 0
        self._is_noted = False
        self.stays = client.system.caller(QUEUE)
        self.stays.connect()
        self._comes = client.system.caller(QUEUE)

    def round(self, *, noted: bool) -> None:
        self._is_noted = noted
        self._come_and_go()
        body = header(self._me, self._number) + self._tail
        self._number += 1
        self._pass_on(body)
        self.stays.put(body, in_unit=True)
        self._timed("back_out", self.stays.back_out)
        if self.stays.get(in_unit=False) is not None:
            raise GeneratorFailed("caller", "a put that was backed out has left its message")

    def _come_and_go(self) -> None:
        self._timed("connect", self._comes.connect)
        self._timed("open", self._comes.open)
        self._timed("close", self._comes.close)
        self._timed("disconnect", self._comes.disconnect)

    def _pass_on(self, body: bytes) -> None:
        """One message through the queue."""
        in_unit = self._in_unit
        self._timed("put", lambda: self.stays.put(body, in_unit=in_unit))
        if in_unit:
            self._timed("commit", self.stays.commit)
        self._require(self._timed("get", lambda: self.stays.get(in_unit=in_unit)), body)
        if in_unit:
            self._timed("commit", self.stays.commit)
            return
        self.stays.put(body, in_unit=True)
        self._timed("commit", self.stays.commit)
        self._require(self.stays.get(in_unit=False), body)

    def _timed(self, name: str, verb: Callable[[], Any]) -> Any:
        before = time.monotonic_ns()
        answer = verb()
        after = time.monotonic_ns()
        if self._is_noted:
            self._note((self._me, CALL_NAMES.index(name), self._bytes, before, after))
        return answer

    def _require(self, found: bytes | None, wanted: bytes) -> None:
        if found != wanted:
            raise GeneratorFailed("caller", f"message {self._number - 1} did not come out of the queue")
