# SPDX-License-Identifier: Apache-2.0
"""Decisions in the simulated world: after any crash a global unit is decided if and only if its messages have moved."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.engine.global_units import GlobalUnits
from entrepot.engine.recovery_log.record import Branch
from entrepot.errors import EntrepotError, LogFull
from entrepot.testing.simulation import Promise, SimulatedUnit, Simulation

SEEDS = 200
STEPS = 150


class GlobalSimulation(Simulation):
    """The same world, in which every unit of work is a global one."""

    def __init__(self, seed: int) -> None:
        self.decided: set[bytes] = set()
        self.finished: set[bytes] = set()
        super().__init__(seed)

    def _begin(self) -> None:
        if len(self.open) < 4:
            self.open.append(SimulatedUnit(self.manager.global_units.begin()))

    def _commit(self) -> None:
        if self.decided and self.random.random() < 0.3:
            self._finish()
        if not self.open:
            return
        work = self.open[self.random.randrange(len(self.open))]
        name = work.unit.transaction_id
        branches = [Branch("postgresql://db/shop", f"{name.decode()}-{number}", number) for number in (1, 2)]
        try:
            settlement = self.manager.global_units.decide(work.unit, branches)
        except LogFull:
            return  # still active
        except EntrepotError:
            self.open.remove(work)
            self._undo(work)
            raise
        assert settlement is not None
        self.open.remove(work)
        self._order(work)

        def apply() -> None:
            self._apply(work)
            self.decided.add(name)

        self.promises.append(Promise(settlement, work, apply, lambda: self._undo(work)))

    def _finish(self) -> None:
        name = self.random.choice(sorted(self.decided))
        ended = [f"{name.decode()}-{number}" for number in self.random.choice(((1,), (1, 2)))]
        self.manager.global_units.finish(name, ended)
        if name not in self.manager.global_units.decisions:
            self.decided.remove(name)
            self.finished.add(name)  # which a crash may bring back, because nobody waits for the note

    def _compare(self) -> None:
        super()._compare()
        units = self.manager.global_units
        assert self.decided <= units.decisions.keys() <= self.decided | self.finished
        if self.manager.failure is None:
            assert all(units.outcome(work.unit.transaction_id) == "active" for work in self.open)
            assert all(units.outcome(name) == "committed" for name in self.decided)

    def _accept_survivors(self, *, exact_counts: bool) -> None:
        pending = [promise.work for promise in self.promises]
        super()._accept_survivors(exact_counts=exact_counts)
        found = self.manager.global_units.decisions.keys()
        for work in pending:
            name = work.unit.transaction_id
            if name in found and name not in self.decided:
                moved = any(item.persistent for item in (*work.puts, *work.takes))
                assert not moved, f"{name!r} is decided, and its messages have not moved"
                self.decided.add(name)


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.torture) for part in (2, 3))])
def test_decisions_and_messages_survive_together(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        GlobalSimulation(seed).run(STEPS)


@pytest.mark.torture
@pytest.mark.parametrize("part", range(20))
def test_many_more_seeds(part: int) -> None:
    for seed in range(10_000 + part * 500, 10_500 + part * 500):
        GlobalSimulation(seed).run(STEPS * 2)


def _leave_decisions_out_of_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GlobalUnits, "state", lambda _: iter(()))


def _take_decisions_for_done_before_the_force(monkeypatch: pytest.MonkeyPatch) -> None:
    original = GlobalUnits.decide

    def early(self: GlobalUnits, unit: Any, branches: Any, user: str = "") -> Any:
        settlement = original(self, unit, branches, user)
        self._remember(unit.transaction_id, branches, user)
        return settlement

    monkeypatch.setattr(GlobalUnits, "decide", early)


@pytest.mark.parametrize(
    "plant",
    [
        _leave_decisions_out_of_checkpoints,
        _take_decisions_for_done_before_the_force,
    ],
)
def test_planted_bug_is_noticed(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(300):
            GlobalSimulation(seed).run(STEPS)
