# SPDX-License-Identifier: Apache-2.0
"""Everybody dies at every step of a global unit of work: a row exists if and only if its message has moved."""

from __future__ import annotations

import os
import shutil
import signal
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from entrepot.client.blocking.global_unit import GlobalUnitOfWork
from entrepot.engine.databases import points
from entrepot.engine.databases.points import BETWEEN_COMMITS, DECIDED, PREPARED
from entrepot.engine.databases.postgresql import PostgreSQL
from entrepot.engine.global_units import GlobalUnits
from entrepot.server.conversation import Conversation
from entrepot.server.wire.verbs import Verb
from entrepot.testing.postgres import Postgres
from global_units.crash import (
    APPLICATION,
    COUNT,
    MANAGER,
    POSTGRES,
    REPETITIONS,
    Kill,
    Plant,
    Violated,
    World,
    check,
    lay_out,
    lay_out_tables,
)

VICTIMS = (MANAGER, APPLICATION, POSTGRES)
SINGLES = [Kill((victim,), point) for point in points.ALL for victim in VICTIMS]
GROUPS = [group for size in (2, 3) for group in combinations(VICTIMS, size)]
# Where it is most delicate with every test, elsewhere with `make torture`.
PAIRS = [Kill(group, point) for point in (PREPARED, DECIDED) for group in GROUPS]
ALL = [Kill(group, point) for point in points.ALL for group in [(each,) for each in VICTIMS] + GROUPS]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("global") / "QM1"
    lay_out(path)
    return path


def live(
    template: Path,
    path: Path,
    postgres: Postgres,
    kill: Kill | None,
    plant: Plant | None = None,
    manager: Plant | None = None,
) -> World:
    shutil.copytree(template, path, symlinks=True)
    path.chmod(0o700)
    engine = create_engine(postgres.url)
    lay_out_tables(engine)
    engine.dispose()
    world = World(path, postgres, kill, plant, manager)
    world.run()
    check(path, postgres)
    shutil.rmtree(path)  # thousands of them would fill a disk
    return world


@pytest.mark.parametrize("kill", SINGLES + PAIRS, ids=str)
def test_a_row_exists_if_and_only_if_its_message_has_moved(
    kill: Kill, template: Path, tmp_path: Path, postgres: Postgres
) -> None:
    assert live(template, tmp_path / "QM1", postgres, kill).deaths == len(kill.victims)


@pytest.mark.torture
@pytest.mark.parametrize("kill", ALL, ids=str)
def test_again_and_again(kill: Kill, template: Path, tmp_path: Path, postgres: Postgres) -> None:
    for count in range(1, COUNT + 1):
        for _ in range(REPETITIONS):
            live(template, tmp_path / "QM1", postgres, Kill(kill.victims, kill.point, count))


# --- the moment of the decision, inside the queue manager --------------------------------------------


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_before_the_force() -> None:
    decide = GlobalUnits.decide
    left = 2

    def dying(self: GlobalUnits, *arguments: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        settlement = decide(self, *arguments, **options)
        if not left:
            _die()
        return settlement

    GlobalUnits.decide = dying  # type: ignore[method-assign]


def _die_before_the_answer() -> None:
    remember = GlobalUnits._remember
    left = 2

    def dying(self: GlobalUnits, *arguments: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            _die()
        remember(self, *arguments)

    GlobalUnits._remember = dying  # type: ignore[method-assign]


@pytest.mark.parametrize("moment", [_die_before_the_force, _die_before_the_answer])
def test_queue_manager_dies_while_it_decides(moment: Plant, template: Path, tmp_path: Path, postgres: Postgres) -> None:
    assert live(template, tmp_path / "QM1", postgres, None, manager=moment).deaths == 1


# --- mistakes that these tests would notice ----------------------------------------------------------


def _answer_before_the_force() -> None:
    def decide(conversation: Conversation, number: int, frame: Any) -> None:
        conversation._answer(number, None)
        conversation.registry.loop.call_later(0.3, _decide, conversation, 0, frame)

    _decide = Conversation._VERBS[Verb.DECIDE]
    Conversation._VERBS[Verb.DECIDE] = decide


def _presume_commit() -> None:
    def outcome(self: GlobalUnits, transaction_id: bytes) -> str:
        found = asked(self, transaction_id)
        return "committed" if found == "unknown" else found

    asked = GlobalUnits.outcome
    GlobalUnits.outcome = outcome  # type: ignore[method-assign, assignment]


def _forget_before_the_commit() -> None:
    def finish(self: GlobalUnitOfWork, branches: Any) -> None:
        self._coordinator.finish(self.transaction_id, [branch.branch_id for branch in branches])
        finishing(self, branches)

    finishing = GlobalUnitOfWork._finish
    GlobalUnitOfWork._finish = finish  # type: ignore[method-assign]


def _remember_nothing() -> None:
    GlobalUnits._remember = lambda *_: None  # type: ignore[method-assign, assignment]


PLANTED = [
    (_answer_before_the_force, Kill((MANAGER, APPLICATION), BETWEEN_COMMITS, 1)),
    (_presume_commit, Kill((APPLICATION,), PREPARED)),
    (_forget_before_the_commit, Kill((POSTGRES, APPLICATION), BETWEEN_COMMITS, 1)),
    (_remember_nothing, Kill((POSTGRES, APPLICATION), DECIDED)),
]


@pytest.mark.parametrize(("plant", "kill"), PLANTED, ids=lambda each: getattr(each, "__name__", str(each)))
def test_planted_mistake_is_noticed(
    plant: Plant, kill: Kill, template: Path, tmp_path: Path, postgres: Postgres, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Violated):
        live(template, tmp_path / "QM1", postgres, kill, plant)
    _clear(postgres)


def _clear(postgres: Postgres) -> None:
    """What a mistake has left must not harm the next test."""
    engine = create_engine(postgres.url)
    for name in PostgreSQL(engine).prepared(""):
        PostgreSQL(engine).roll_back(name)
    engine.dispose()
