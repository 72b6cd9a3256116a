# SPDX-License-Identifier: Apache-2.0
"""Whatever is killed, each message is worked on once: queue to queue, and with rows in a database."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Engine

from channels.processes import ServerProcess, until
from entrepot.spark.live.live_flow import LiveFlow
from entrepot.testing.postgres import Postgres
from global_units.conftest import new_postgres, prepared
from spark.campaign import SOURCE, Campaign, numbered_flow, running

UNIT_MESSAGES = 10
"""Small units: the sooner a flow commits again, the likelier a kill hits a commit."""


def seeds_and_kills(few: int, many: int) -> pytest.MarkDecorator:
    """Each kind of kill in `make test`, and many of them in `make torture`."""
    tortures = [pytest.param(seed, many, marks=pytest.mark.torture) for seed in range(1, 12)]
    return pytest.mark.parametrize(("seed", "kills"), [(1, few), *tortures])


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with new_postgres() as running_postgres:
        yield running_postgres


@pytest.fixture
def ledger(postgres: Postgres) -> Iterator[Engine]:
    engine = create_engine(postgres.url)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS ledger"))
        connection.execute(text("CREATE TABLE ledger (number bigint)"))
    yield engine
    engine.dispose()


@seeds_and_kills(10, 20)
def test_queue_to_queue_survives_kills_of_workers_jobs_and_queue_manager(
    context: SparkContext, killable: ServerProcess, seed: int, kills: int
) -> None:
    campaign = Campaign(killable, "IN", "OUT", seed)
    campaign.put()
    flow = numbered_flow("killed", "IN", "OUT")
    worker = campaign.kill_worker
    kinds = [worker, campaign.cancel_job, worker, campaign.kill_server, worker]
    with running(LiveFlow(context, flow, killable.unix_url, instances=2, batch_max=UNIT_MESSAGES)) as live:
        campaign.survive(live, kinds, kills)
    assert campaign.require_exactly_once() > 100
    assert sum(campaign.kills.values()) == kills
    assert len(campaign.kills) == 3


@seeds_and_kills(6, 12)
def test_rows_and_messages_agree_whatever_is_killed(
    context: SparkContext, killable: ServerProcess, postgres: Postgres, ledger: Engine, seed: int, kills: int
) -> None:
    campaign = Campaign(killable, "IN", "OUT", seed)
    campaign.put()
    flow = numbered_flow("coordinated", "IN", "OUT", coordinated=True, turns=100)
    kinds = [campaign.kill_worker, campaign.cancel_job, campaign.kill_worker, campaign.kill_server]
    databases = {SOURCE: postgres.url}
    live_flow = LiveFlow(context, flow, killable.unix_url, instances=2, databases=databases, batch_max=UNIT_MESSAGES)
    with running(live_flow) as live:
        campaign.survive(live, kinds, kills)
    with killable.connect() as connection, connection.global_unit_of_work(ledger):
        pass  # the first use brings what the kills have left at the database to its end
    until(lambda: not prepared(ledger), "recovery ends what was prepared")
    done, left = campaign.numbers("OUT"), campaign.numbers("IN")
    with ledger.begin() as connection:
        rows = [number for (number,) in connection.execute(text("SELECT number FROM ledger"))]
    assert Counter(rows) == Counter(done), "a row for each message that came out, and no other"
    assert Counter(done) + Counter(left) == Counter(range(campaign.count))
    assert len(done) > 50


def test_a_cancelled_task_commits_nothing_any_more(context: SparkContext, killable: ServerProcess) -> None:
    """Spark's cancel lets a Python worker consume for seconds; the fence does not."""
    campaign = Campaign(killable, "IN", "OUT", 7)
    campaign.put()
    live = LiveFlow(context, numbered_flow("zombie", "IN", "OUT"), killable.unix_url, instances=2)
    with running(live):
        until(lambda: campaign.depth("OUT") > 100, "the flow works")
        live.cancel()
        at_once = campaign.depth("OUT")
        time.sleep(1.0)
        assert campaign.depth("OUT") == at_once
        assert campaign.depth("IN") + at_once == campaign.count
    campaign.require_exactly_once()


def test_a_stopped_flow_has_finished_its_units(context: SparkContext, killable: ServerProcess) -> None:
    campaign = Campaign(killable, "IN", "OUT", 8)
    campaign.put()
    live = LiveFlow(context, numbered_flow("stopped", "IN", "OUT"), killable.unix_url, instances=2)
    with running(live):
        until(lambda: campaign.depth("OUT") > 100, "the flow works")
        live.stop()
        told = sum(int(row["messages"]) for row in live.status())
        assert campaign.depth("OUT") == told, "what it says it has done is done"
    with killable.connect() as connection:
        assert all(message.backout_count == 0 for message in connection.browse("IN"))


def test_another_version_takes_over_without_losing_anything(context: SparkContext, killable: ServerProcess) -> None:
    campaign = Campaign(killable, "IN", "OUT", 9)
    campaign.put()
    live = LiveFlow(context, numbered_flow("versions", "IN", "OUT"), killable.unix_url, instances=2)
    with running(live):
        until(lambda: campaign.depth("OUT") > 100, "the first version works")
        live.redeploy(numbered_flow("versions", "IN", "OUT", turns=10))
        until(lambda: campaign.depth("OUT") == campaign.count, "the second one ends it")
    assert campaign.require_exactly_once() == campaign.count
