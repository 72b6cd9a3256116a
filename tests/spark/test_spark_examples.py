# SPDX-License-Identifier: Apache-2.0
"""Every program in examples/spark runs and does what it promises; one without a test here fails."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from channels.processes import ServerProcess

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
LINES_MAX = 40


def test_orders_as_table_counts_what_waits_and_copies_what_is_large(
    spark: SparkSession, server: ServerProcess, new_queue: Callable[..., str]
) -> None:
    orders, large = new_queue(), new_queue()
    with server.connect() as connection:
        for region, crates in (("EU", 30), ("EU", 120), ("US", 7)):
            connection.put(orders, str(crates).encode(), persistent=True, properties={"region": region})
        told = runpy.run_path(str(EXAMPLES / "orders_as_table.py"))["report"](spark, server.unix_url, orders, large)
        assert told == {"EU": 150, "US": 7}
        assert [message.body for message in connection.browse(orders)] == [b"30", b"120", b"7"]
        (copied,) = connection.browse(large)
        assert copied.body == b"120"
        assert copied.correlation_id == list(connection.browse(orders))[1].message_id


def test_all_examples_are_tested_and_short() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert sorted(lines) == ["orders_as_table.py"]
    assert {name: count for name, count in lines.items() if count >= LINES_MAX} == {}
