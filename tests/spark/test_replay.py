# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from entrepot.errors import ArchiveUnreadable, FlowNotStreamable, InvalidArgument
from entrepot.flows.definition import FlowDefinition
from entrepot.message import Message
from entrepot.spark.replaying.archive import read_archive, spread
from entrepot.spark.replaying.replay import replay
from entrepot.spark.tables.rows import queue_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 40


def pricing(factor: str, *, name: str = "pricing", large: str = "LARGE") -> FlowDefinition:
    """Adds a total, and sends large orders elsewhere; order 13 has no price, and fails."""
    flow = FlowDefinition(name)
    flow.node("MQInput", "Orders", queue="ORDERS", domain="XMLNSC")
    flow.node(
        "Compute",
        "Total",
        statements="SET OutputRoot = InputRoot;"
        f" SET OutputRoot.XMLNSC.order.total = CAST(InputRoot.XMLNSC.order.price AS INTEGER) * {factor};",
    )
    flow.node("Filter", "Large", condition="CAST(Root.XMLNSC.order.price AS INTEGER) >= 30")
    flow.node("MQOutput", "Desk", queue=large)
    flow.node("MQOutput", "Done", queue="DONE")
    flow.link("Orders", "Total")
    flow.link("Total", "Large")
    flow.link("Large", "Desk", terminal="true")
    flow.link("Large", "Done", terminal="false")
    return flow


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "orders.parquet"
    messages = [
        Message(
            b"<order><price>%s</price></order>" % (b"none" if number == 13 else b"%d" % number),
            message_id=bytes([number]) * 24,
        )
        for number in range(COUNT)
    ]
    with pq.ParquetWriter(path, queue_batch("ORDERS", messages).schema) as writer:
        writer.write_batch(queue_batch("ORDERS", messages))
    return path


def test_a_replay_counts_what_goes_where_and_writes_it_down(spark: SparkSession, archive: Path, tmp_path: Path) -> None:
    report = replay(spark, pricing("2"), archive, out=tmp_path / "out")
    assert (report.messages, report.outputs, report.errors) == (COUNT, COUNT, 1)
    assert {(each.name, each.before, each.after, each.errors) for each in report.destinations} == {
        ("DONE", None, 29, 0),
        ("LARGE", None, 10, 0),
        ("SYSTEM.DEAD.LETTER.QUEUE", None, 1, 1),
    }
    assert 0 < report.kernel_s <= report.python_s
    outputs = pq.read_table(tmp_path / "out" / "outputs").to_pylist()
    assert {row["body"] for row in outputs if row["destination"] == "LARGE"} == {
        b"<order><price>%d</price><total>%d</total></order>" % (number, 2 * number) for number in range(30, 40)
    }
    assert json.loads((tmp_path / "out" / "report.json").read_text())["messages"] == COUNT


def test_another_version_is_compared_field_by_field(spark: SparkSession, archive: Path) -> None:
    report = replay(spark, pricing("3"), archive, against=pricing("2", name="before"))
    assert not report.is_same
    # An order without a price fails both times, and one that costs nothing has the same total.
    assert report.differing == COUNT - 2
    assert {(each.destination, each.path, each.messages) for each in report.fields} == {
        ("DONE", "body.order.total", 28),
        ("LARGE", "body.order.total", 10),
    }
    sample = report.samples[0]
    assert sample["path"] == "body.order.total"
    assert int(sample["after"]) * 2 == int(sample["before"]) * 3
    assert report.differences.count() == COUNT - 2
    assert replay(spark, pricing("2"), archive, against=pricing("2 * 1"), limit=5).is_same


def test_recorded_outputs_are_compared_and_missing_ones_told(
    spark: SparkSession, archive: Path, tmp_path: Path
) -> None:
    replay(spark, pricing("2"), archive, out=tmp_path / "before")
    assert replay(spark, pricing("2"), archive, recorded=tmp_path / "before").is_same
    report = replay(spark, pricing("2", large="VERY.LARGE"), archive, recorded=tmp_path / "before")
    assert report.differing == 10
    assert {(each.destination, each.path, each.messages) for each in report.fields} == {
        ("LARGE", "message", 10),
        ("VERY.LARGE", "message", 10),
    }
    counts = {each.name: (each.before, each.after) for each in report.destinations}
    assert (counts["LARGE"], counts["VERY.LARGE"]) == ((10, 0), (0, 10))


def test_a_folder_of_files_is_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.xml").write_bytes(b"<order><price>%d</price></order>" % (number + 29))
    report = replay(spark, pricing("1"), tmp_path)
    assert {each.name: each.after for each in report.destinations} == {"DONE": 1, "LARGE": 2}


def test_what_cannot_be_replayed_is_told_before_anything_runs(
    spark: SparkSession, archive: Path, tmp_path: Path
) -> None:
    waiting = pricing("1")
    waiting.node("MQGet", "More", queue="MORE")
    with pytest.raises(FlowNotStreamable, match="More is MQGet"):
        replay(spark, waiting, archive)
    with pytest.raises(ArchiveUnreadable, match="no such file"):
        replay(spark, pricing("1"), tmp_path / "none")
    with pytest.raises(InvalidArgument, match="no input node 'Nowhere'"):
        replay(spark, pricing("1"), archive, point="Nowhere")
    table = spark.createDataFrame([("x",)], "text string")
    table.write.parquet(str(tmp_path / "strange"))
    with pytest.raises(ArchiveUnreadable, match="no body"):
        replay(spark, pricing("1"), tmp_path / "strange")


def test_each_task_gets_as_many_messages_of_an_archive_as_any_other(spark: SparkSession, archive: Path) -> None:
    from pyspark.sql import functions

    wanted = 4 * spark.sparkContext.defaultParallelism
    found = read_archive(spark, archive)
    assert pq.ParquetFile(archive).num_row_groups == 1, "Spark would give all of it to one task"
    for messages in (found, found.limit(COUNT)):
        counts = [row["count"] for row in spread(messages).groupBy(functions.spark_partition_id()).count().collect()]
        assert sum(counts) == COUNT
        assert len(counts) == min(wanted, COUNT)
        assert max(counts) - min(counts) <= 1
    assert spread(found.repartition(wanted + 1)).rdd.getNumPartitions() == wanted + 1, (
        "what has enough tasks keeps them"
    )
