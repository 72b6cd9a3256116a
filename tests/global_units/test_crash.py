# SPDX-License-Identifier: Apache-2.0
"""Everybody dies at every step of a global unit of work: a row exists if and only if its message has moved."""

from __future__ import annotations

import shutil
from itertools import combinations
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from entrepot.databases import points
from entrepot.databases.points import DECIDED, PREPARED
from entrepot.testing.postgres import Postgres

from global_units.crash import APPLICATION, COUNT, MANAGER, POSTGRES, Kill, Plant, World, check, lay_out, lay_out_tables

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
    return world


@pytest.mark.parametrize("kill", SINGLES + PAIRS, ids=str)
def test_a_row_exists_if_and_only_if_its_message_has_moved(
    kill: Kill, template: Path, tmp_path: Path, postgres: Postgres
) -> None:
    assert live(template, tmp_path / "QM1", postgres, kill).deaths == len(kill.victims)


@pytest.mark.torture
@pytest.mark.parametrize("repetition", range(20))
@pytest.mark.parametrize("count", range(1, COUNT + 1))
@pytest.mark.parametrize("kill", ALL, ids=str)
def test_again_and_again(
    kill: Kill, count: int, repetition: int, template: Path, tmp_path: Path, postgres: Postgres
) -> None:
    live(template, tmp_path / "QM1", postgres, Kill(kill.victims, kill.point, count))
