# SPDX-License-Identifier: Apache-2.0
"""Instances of flows with a real PostgreSQL: it refuses, gets in its own way, goes away and comes back.

However a batch fails, a row is there for each message that came out, and for no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine

from entrepot.flows.definition import FlowDefinition
from entrepot.testing.postgres import Postgres
from global_units.conftest import new_postgres, prepared

from .staged import Running, Stage, compute, drawn, node, reads, writes

pytestmark = pytest.mark.usefixtures("quick")

SOURCE = "LEDGER"
INSERT = "INSERT INTO Database.ledger (n) VALUES (Root.XMLNSC.order.n);"
both = pytest.mark.parametrize("coordinated", [False, True], ids=["own units", "coordinated"])


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with new_postgres() as running:
        yield running


@pytest.fixture
def engine(postgres: Postgres) -> Iterator[Engine]:
    """With an empty ledger, in which no number is twice."""
    engine = create_engine(postgres.url)
    run(engine, "DROP TABLE IF EXISTS ledger", "CREATE TABLE ledger (n text PRIMARY KEY)")
    yield engine
    assert prepared(engine) == []
    engine.dispose()


def run(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def rows(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return sorted(connection.scalars(text("SELECT n FROM ledger")))


def order(number: object) -> str:
    return f"<order><n>{number}</n></order>"


class Scene:
    """Orders come in, a row is written for each, and they go out."""

    def __init__(self, stage: Stage, *, target: str = "") -> None:
        self.stage = stage
        self.aside, self.target, self.failed = stage.queue(), target or stage.queue(), stage.queue()
        self.source = stage.queue(f"BOQNAME({self.aside})")

    def flow(self, *links: str, coordinated: bool = False, statements: str = INSERT, **database: Any) -> FlowDefinition:
        flow = drawn(
            "In -> Row -> Out",
            *links,
            coordinated=coordinated,
            In=reads(self.source),
            Row=node("Database", statements=statements, **{"data_source": SOURCE, **database}),
            Out=writes(self.target),
            Failed=writes(self.failed),
        )
        if not links:
            del flow.nodes["Failed"]
        return flow

    def put(self, *numbers: object) -> None:
        self.stage.put(self.source, *map(order, numbers))

    def work(self, flow: FlowDefinition, url: str, **options: Any) -> Running:
        with self.stage.running(flow, databases={SOURCE: url}, **options) as running:
            running.until(lambda: self.stage.drained(self.source), "all are dealt with")
        return running

    def came_out(self) -> list[str]:
        assert all(message.backout_count == 0 for message in self.stage.messages(self.target))
        return [body.removeprefix("<order><n>").partition("<")[0] for body in self.stage.bodies(self.target)]

    def reasons(self) -> list[str]:
        return [str(message.properties["entrepot_error"]) for message in self.stage.messages(self.aside)]


@both
def test_a_row_that_is_refused_is_its_own_messages_failure(
    stage: Stage, postgres: Postgres, engine: Engine, coordinated: bool
) -> None:
    scene = Scene(stage)
    scene.put(1, 2, 1, 3, 4)
    running = scene.work(scene.flow(coordinated=coordinated), postgres.url)
    assert scene.came_out() == ["1", "2", "3", "4"]
    assert rows(engine) == ["1", "2", "3", "4"]
    assert "duplicate key" in scene.reasons()[0]
    assert stage.bodies(scene.aside) == [order(1)]
    assert running.results[0]["messages"] == 5


@both
def test_an_error_that_the_flow_deals_with_undoes_nothing_of_its_neighbours(
    stage: Stage, postgres: Postgres, engine: Engine, coordinated: bool
) -> None:
    """PostgreSQL ends the whole unit of work when one statement fails, and its commit then says nothing."""
    scene = Scene(stage)
    scene.put(1, 2, 1, 3, 4)
    scene.work(scene.flow("Row.failure -> Failed", coordinated=coordinated), postgres.url)
    assert scene.came_out() == ["1", "2", "3", "4"]
    assert stage.bodies(scene.failed) == [order(1)]
    assert stage.bodies(scene.aside) == []
    assert rows(engine) == ["1", "2", "3", "4"]


@both
def test_without_throwing_the_flow_goes_on_and_can_look_at_what_the_database_said(
    stage: Stage, postgres: Postgres, engine: Engine, coordinated: bool
) -> None:
    scene = Scene(stage)
    told = f"""{INSERT}
        IF SQLSTATE <> '00000' THEN
            INSERT INTO Database.ledger (n) VALUES ('again ' || Root.XMLNSC.order.n || ' ' || SQLSTATE);
        END IF;"""
    scene.put(1, 2, 1, 3)
    flow = scene.flow(coordinated=coordinated, statements=told, throw_on_database_error=False)
    scene.work(flow, postgres.url)
    assert scene.came_out() == ["1", "2", "1", "3"]
    assert rows(engine) == ["1", "2", "3", "again 1 23505"]


@both
def test_a_row_that_is_refused_only_at_the_commit_is_its_own_messages_failure(
    stage: Stage, postgres: Postgres, engine: Engine, coordinated: bool
) -> None:
    later = "ALTER TABLE ledger ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED"
    run(engine, "ALTER TABLE ledger DROP CONSTRAINT ledger_pkey", later, "INSERT INTO ledger VALUES ('2')")
    scene = Scene(stage)
    scene.put(1, 2, 3)
    running = scene.work(scene.flow(coordinated=coordinated), postgres.url)
    assert scene.came_out() == ["1", "3"]
    assert rows(engine) == ["1", "2", "3"]
    assert stage.bodies(scene.aside) == [order(2)]
    assert "duplicate key" in scene.reasons()[0]
    assert running.results[0]["set_aside"] == 1


@both
def test_units_that_get_in_each_others_way_are_tried_again(
    stage: Stage, postgres: Postgres, engine: Engine, coordinated: bool
) -> None:
    run(
        engine,
        "DROP SEQUENCE IF EXISTS tries",
        "CREATE SEQUENCE tries",
        """CREATE OR REPLACE FUNCTION crowded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.n = '2' AND nextval('tries') <= 3 THEN
                RAISE EXCEPTION 'somebody was in the way' USING ERRCODE = '40001';
            END IF;
            RETURN NEW;
        END $$""",
        "CREATE TRIGGER crowded BEFORE INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION crowded()",
    )
    scene = Scene(stage)
    scene.put(1, 2, 3)
    running = scene.work(scene.flow(coordinated=coordinated), postgres.url)
    assert scene.came_out() == ["1", "2", "3"]
    assert rows(engine) == ["1", "2", "3"]
    assert running.results[0]["given_back"] == 3


@both
def test_a_refused_output_leaves_no_row(stage: Stage, postgres: Postgres, engine: Engine, coordinated: bool) -> None:
    scene = Scene(stage, target=stage.queue("MAXDEPTH(2)"))
    scene.put(1, 2, 3, 4)
    scene.work(scene.flow(coordinated=coordinated), postgres.url)
    assert scene.came_out() == ["1", "2"]
    assert rows(engine) == ["1", "2"]
    assert stage.bodies(scene.aside) == [order(3), order(4)]


@both
def test_a_database_that_is_down_costs_no_message_and_is_waited_for(
    stage: Stage, postgres: Postgres, engine: Engine, coordinated: bool
) -> None:
    scene = Scene(stage)
    scene.put(1, 2)
    engine.dispose()
    with stage.running(scene.flow(coordinated=coordinated), databases={SOURCE: postgres.url}) as running:
        running.until(lambda: stage.drained(scene.source), "it works")
        postgres.stop()
        try:
            scene.put(3, 4, 5)
            running.until(lambda: running.problem, "it tells")
            assert "127.0.0.1" in running.problem or "connection" in running.problem, running.problem
        finally:
            postgres.start()
        running.until(lambda: stage.drained(scene.source), "it goes on by itself")
        running.until(lambda: not running.problem, "and says so")
    assert scene.came_out() == ["1", "2", "3", "4", "5"]
    assert rows(engine) == ["1", "2", "3", "4", "5"]
    assert scene.reasons() == []


def test_a_data_source_that_nobody_has_named_is_told_with_the_message(stage: Stage, postgres: Postgres) -> None:
    scene = Scene(stage)
    scene.put(1)
    scene.work(scene.flow(data_source="ELSEWHERE"), postgres.url)
    assert "there is no data source 'ELSEWHERE'; there is LEDGER" in scene.reasons()[0]


@both
def test_sqlite_too_keeps_the_rows_of_good_messages_and_no_others(
    stage: Stage, tmp_path: Path, coordinated: bool
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    engine = create_engine(url)
    run(engine, "CREATE TABLE ledger (n text PRIMARY KEY)")
    scene = Scene(stage, target=stage.queue("MAXDEPTH(3)"))
    scene.put(1, 2, 1, 3, 4)
    scene.work(scene.flow(coordinated=coordinated), url)
    assert scene.came_out() == ["1", "2", "3"]
    assert rows(engine) == ["1", "2", "3"]
    assert stage.bodies(scene.aside) == [order(1), order(4)]
    assert "UNIQUE" in scene.reasons()[0]
    assert "holds its maximum" in scene.reasons()[1]
    engine.dispose()


def test_a_node_that_commits_by_itself_keeps_its_row_whatever_becomes_of_the_message(
    stage: Stage, postgres: Postgres, engine: Engine
) -> None:
    scene = Scene(stage)
    flow = scene.flow(database_transaction="commit")
    flow.nodes["Check"] = compute_node("IF InputRoot.XMLNSC.order.n = '2' THEN THROW USER EXCEPTION; END IF;")
    flow.links = [link for link in flow.links if link.target != "Out"]
    flow.link("Row", "Check")
    flow.link("Check", "Out")
    scene.put(1, 2, 3)
    scene.work(flow, postgres.url)
    assert scene.came_out() == ["1", "3"]
    assert rows(engine) == ["1", "2", "3"], "its own row, and no neighbour's twice"
    assert stage.bodies(scene.aside) == [order(2)]


def compute_node(statements: str) -> Any:
    flow = FlowDefinition("part")
    kind, properties = compute(statements)
    return flow.node(kind, "Check", **properties)
