# SPDX-License-Identifier: Apache-2.0
"""What a program sees of a global unit of work, by every binding."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.engine import Engine

from entrepot.connection import Connection
from global_units.conftest import depth, prepared, rows

INSERT = text("INSERT INTO orders VALUES (:body)")


def test_a_unit_commits_messages_and_rows_together(connection: Connection, engine: Engine) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    with connection.global_unit_of_work(engine) as unit:
        order = unit.get("ORDERS", wait_s=1)
        assert order is not None
        unit.database(engine).execute(INSERT, {"body": order.body.decode()})
        unit.put("DONE", order.body, persistent=True)
    assert unit.state == "committed"
    assert unit.unfinished == []
    assert rows(engine) == ["one"]
    assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (0, 1)
    assert prepared(engine) == []


def test_an_exception_backs_out_everything(connection: Connection, engine: Engine) -> None:
    connection.put("ORDERS", b"one", persistent=True)
    with pytest.raises(ZeroDivisionError), connection.global_unit_of_work(engine) as unit:
        unit.get("ORDERS", wait_s=1)
        unit.database(engine).execute(INSERT, {"body": "one"})
        unit.put("DONE", b"one", persistent=True)
        raise ZeroDivisionError
    assert unit.state == "backed out"
    assert rows(engine) == []
    assert (depth(connection, "ORDERS"), depth(connection, "DONE")) == (1, 0)
