# SPDX-License-Identifier: Apache-2.0
"""How often an event loop is woken, and what reading verbs tell before they return."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import LocalQueue
from entrepot.engine.loop_host import LoopHost
from entrepot.engine.waiting import StandingWaiter, Waiter
from entrepot.message import Message, Report

from .looping import Bench, bench, turns

__all__ = ["bench"]


class Wakes:
    """Counts how often the loop is woken as from another thread."""

    def __init__(self, engine: LoopHost, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._wake = engine.loop.call_soon_threadsafe
        monkeypatch.setattr(engine.loop, "call_soon_threadsafe", self._counted)

    def _counted(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return self._wake(*arguments, **options)


def test_a_verb_of_the_loop_wakes_it_by_no_detour(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(engine: LoopHost) -> None:
        engine.keep_free()
        wakes = Wakes(engine, monkeypatch)
        for persistent in (False, True):
            engine.get_or_wait("Q", bench.waiter(engine, None, engine.manager.begin()))
            bench.host.force_s = 0.0
            bench.put(engine, b"served", persistent=persistent)
            await turns()
        for give_back in (engine.back_out, partial(engine.retry, delay_s=0), partial(engine.give_up, lost=True)):
            bench.put(engine, b"returns", persistent=True)
            bench.host.force_s = 0.0
            await turns()
            unit = engine.manager.begin()
            assert engine.get_some("Q", None, unit, 1)
            engine.get_or_wait("Q", bench.waiter(engine, None, engine.manager.begin()))
            give_back(unit)
        engine.get_or_wait("Q", bench.waiter(engine, Criteria(whole_group=True), engine.manager.begin()))
        bench.put(engine, b"a group of one")
        await turns()
        assert (bench.notes.count(b"served"), bench.notes.count(b"returns")) == (2, 3)
        assert bench.notes[-1] == b"a group of one"
        assert wakes.count == 0

    bench.on_loop(work)


def test_many_callbacks_from_another_thread_wake_the_loop_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(engine: LoopHost) -> None:
        wakes = Wakes(engine, monkeypatch)
        for times in (1, 2):
            with bench.host.lock:
                for _ in range(3):
                    engine.post(lambda: bench.notes.append("told"))
            await turns()
            assert (bench.notes.count("told"), wakes.count) == (3 * times, times)

    bench.on_loop(work)


READS: dict[str, Callable[[Bench, LoopHost], object]] = {
    "get": lambda bench, engine: engine.get_or_wait("Q", Waiter(None, None, lambda: None)),
    "lease": lambda bench, engine: engine.lease_or_wait("Q", Waiter(None, engine.manager.begin(), lambda: None)),
    "get some": lambda bench, engine: engine.get_some("Q", None, engine.manager.begin(), 1),
    "get some or wait": lambda bench, engine: engine.get_some_or_wait("Q", credited(engine), 1, 1000),
    "run": lambda bench, engine: engine.run(lambda: engine.manager.get("Q")[1], lambda _: None),
}


def credited(engine: LoopHost) -> StandingWaiter:
    waiter = StandingWaiter(None, engine.manager.begin(), lambda: None)
    waiter.credit = 1
    return waiter


@pytest.mark.parametrize("verb", READS)
def test_who_waits_for_a_report_is_told_before_the_get_returns_that_found_the_message_expired(
    bench: Bench, verb: str
) -> None:
    bench.host.define(LocalQueue(name="REPLIES"), replace=False)

    async def work(engine: LoopHost) -> None:
        report = {"report": int(Report.EXPIRATION), "reply_to": "REPLIES"}
        engine.put("Q", Message(b"", expiry_s=10, **report), False, None, None, lambda *_: None)  # type: ignore[arg-type]
        engine.get_or_wait("REPLIES", bench.waiter(engine))
        bench.clock.advance(10)
        READS[verb](bench, engine)
        assert bench.notes == [b""]

    bench.on_loop(work)
