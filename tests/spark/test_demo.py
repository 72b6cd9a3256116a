# SPDX-License-Identifier: Apache-2.0
"""The demo as its users run it, and what it does when a kill leaves a unit of work in doubt."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from channels.processes import until
from demo.orders import OrderBook
from demo.sender import Sender
from demo.verdict import LEDGER, OUTCOMES
from demo.world import World

EXAMPLES = Path(__file__).parents[2] / "examples"

DIES_IN_BETWEEN = """
    import os, signal, sys
    from sqlalchemy import create_engine, text
    import entrepot
    from entrepot.engine.databases.branch import OneTimeBranch

    url, database, moment = sys.argv[1:]
    commit = OneTimeBranch.commit

    def die(branch):
        if moment == "after":
            commit(branch)
        os.kill(os.getpid(), signal.SIGKILL)

    OneTimeBranch.commit = die
    engine = create_engine(database)
    with entrepot.connect(url) as connection, connection.global_unit_of_work(engine) as unit:
        for number in range(1, 4):
            assert unit.get("ORDERS", wait_s=5)
            unit.put("PRICED.EU", b"<order><number>%d</number></order>" % number, persistent=True)
            unit.database(engine).execute(text("INSERT INTO ledger VALUES (:n, 'C001', 0)"), {"n": number})
"""


def test_demo_kills_and_proves_exactly_once(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, EXAMPLES / "demo", "--orders", "400", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:] + finished.stdout[-4000:]
    told = json.loads(finished.stdout)
    assert told["holds"]
    assert told["in_doubt"] == []
    assert [kill["killed"] for kill in told["kills"]] == ["a task of orders", "the queue manager", "a task of confirm"]
    found = {place["place"]: place["found"] for place in told["verdict"]["places"]}
    assert sum(found[place] for place in OUTCOMES) == 400
    assert found[LEDGER] == 400 - len(told["refused"])
    assert len(told["refused"]) == 8


@pytest.mark.parametrize("moment", ["before", "after"])
def test_unit_in_doubt_follows_what_the_ledger_has(tmp_path: Path, moment: str) -> None:
    book = OrderBook(100)
    with World(tmp_path) as world, world.connected() as connection:
        sender = Sender(world.url, book, lambda: 0)
        while sender.sent < book.count:
            sender.send_some(connection)
        died = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(DIES_IN_BETWEEN), world.url, *world.databases.values(), moment],
            timeout=200,
            check=False,
        )
        assert died.returncode == -signal.SIGKILL
        until(lambda: len(world.in_doubt(connection)) == 1, "the unit is left in doubt")
        assert len(world.read_all()["ORDERS"]) == 97, "three are locked in it"

        assert world.recover() == []

        found = {place: sorted(seen.number for seen in orders) for place, orders in world.read_all().items()}
    happened = [1, 2, 3] if moment == "after" else []
    assert found["PRICED.EU"] == happened
    assert found[LEDGER] == happened
    assert found["ORDERS"] == sorted(set(book.numbers) - set(happened))
