# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from channels.processes import ServerProcess
from entrepot.message import Message, MessageType
from entrepot.spark.starting.java import find_java
from entrepot.spark.tables.data_source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewQueue = Callable[..., str]


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def read(spark: SparkSession, server: ServerProcess, queue: str, **options: Any) -> DataFrame:
    return spark.read.format("entrepot").options(url=server.unix_url, queue=queue, **options).load()


def write(table: DataFrame, server: ServerProcess, **options: Any) -> None:
    table.write.format("entrepot").options(url=server.unix_url, **options).mode("append").save()


def said(message: Message) -> tuple[Any, ...]:
    """All that an application says of a message."""
    return (
        message.body, message.message_id, message.correlation_id, message.group_id, message.sequence,
        message.last_in_group, message.type, message.format, message.ccsid, message.encoding, message.persistent,
        message.priority, message.reply_to, message.reply_to_manager, message.report, message.feedback,
        {name: (type(value), value) for name, value in message.properties.items()},
    )  # fmt: skip


def test_put_table_put_loses_nothing(spark: SparkSession, server: ServerProcess, new_queue: NewQueue) -> None:
    source, target = new_queue(), new_queue()
    with server.connect() as connection:
        for number in range(40):
            connection.put(
                source,
                b"\x00\xff%d" % number,
                persistent=number % 2 == 0,
                priority=number % 3,
                correlation_id=b"\xfe%d" % number,
                group_id=b"g",
                sequence=number + 1,
                last_in_group=number == 39,
                type=MessageType.REQUEST,
                reply_to="REPLIES",
                format="MQSTR",
                ccsid=500,
                encoding=785,
                report=0x1000,
                feedback=-1,
                properties={
                    "n": number,
                    "half": number / 2,
                    "odd": number % 2 == 1,
                    "raw": b"\x00",
                    "text": "é",
                    "no": "",
                },
            )
        table = read(spark, server, source, partitions=1)
        write(table, server, queue=target)
        before = {message.message_id: said(message) for message in connection.browse(source)}
        after = {message.message_id: said(message) for message in connection.browse(target)}
        assert len(before) == 40
        assert after == before
        assert connection.in_doubt() == []


def test_columns_can_be_asked_for_like_any_others(
    spark: SparkSession, server: ServerProcess, new_queue: NewQueue
) -> None:
    one, two = new_queue(), new_queue()
    with server.connect() as connection:
        for queue, count in ((one, 5), (two, 7)):
            for number in range(count):
                connection.put(queue, b"%d" % number, properties={"n": number})
    table = read(spark, server, f"{one},{two}")
    counted = {row["queue"]: row["count"] for row in table.groupBy("queue").count().collect()}
    assert counted == {one: 5, two: 7}
    assert table.where(table.queue == two).where("CAST(properties['n'] AS INT) >= 4").count() == 3
    assert read(spark, server, one, selector="n < 2").count() == 2


def test_a_model_gives_typed_columns_and_bad_bodies_a_reason(
    spark: SparkSession, server: ServerProcess, new_queue: NewQueue, tmp_path: Path
) -> None:
    copybook = tmp_path / "part.cpy"
    copybook.write_text("       01  PART.\n           05  NAME PIC X(4).\n           05  PRICE PIC 9(3)V99.\n")
    queue = new_queue()
    with server.connect() as connection:
        for body in (b"BOLT00150", b"bad", b"NUT 01025"):
            connection.put(queue, body)
    rows = read(spark, server, queue, model=str(copybook)).select("payload.*", "payload_error").collect()
    assert [(row["NAME"], row["PRICE"]) for row in rows] == [
        ("BOLT", Decimal("1.50")),
        (None, None),
        ("NUT", Decimal("10.25")),
    ]
    assert "offset" in rows[1]["payload_error"]


def test_a_write_is_all_or_nothing(spark: SparkSession, server: ServerProcess, new_queue: NewQueue) -> None:
    queue = new_queue()
    rows = [(b"%d" % number, queue if number != 150 else "NO.SUCH.QUEUE") for number in range(200)]
    table = spark.createDataFrame(rows, "body binary, destination string").repartition(2)
    with pytest.raises(Exception, match=r"NO\.SUCH\.QUEUE"):
        write(table, server)
    with server.connect() as connection:
        assert list(connection.browse(queue)) == []
        assert connection.in_doubt() == []
    write(table.where("destination != 'NO.SUCH.QUEUE'"), server, messagesPerUnit=20)
    with server.connect() as connection:
        found = list(connection.browse(queue))
        assert len(found) == 199
        assert all(message.persistent for message in found)


def test_rows_are_published_where_they_say(spark: SparkSession, server: ServerProcess) -> None:
    with server.connect() as connection, connection.subscribe("test/spark/#") as subscription:
        rows = [(f"topic://test/spark/{number}", f"{number}") for number in range(3)]
        write(spark.createDataFrame(rows, "destination string, body string"), server, persistent="no")
        got = sorted((message.topic, message.body) for message in iter(lambda: subscription.get(wait_s=2), None))
    assert got == [(f"test/spark/{number}", b"%d" % number) for number in range(3)]


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("body binary, colour string", {"queue": "Q"}, "no message has colour"),
        ("text string", {"queue": "Q"}, "no column body"),
        ("body binary", {}, "nothing says where rows go"),
        ("body binary, priority string", {"queue": "Q"}, "column priority: it is string"),
    ],
)
def test_rows_that_cannot_be_put_are_refused_before_any_is(
    spark: SparkSession, server: ServerProcess, columns: str, options: dict[str, str], told: str
) -> None:
    with pytest.raises(Exception, match=told):
        write(spark.createDataFrame([], columns), server, **options)


def test_a_wrong_way_of_reading_is_told(spark: SparkSession, server: ServerProcess, new_queue: NewQueue) -> None:
    with pytest.raises(Exception, match="a batch read may be repeated"):
        read(spark, server, new_queue(), mode="consume").count()
    with pytest.raises(Exception, match=r"NO\.SUCH\.QUEUE"):
        read(spark, server, "NO.SUCH.QUEUE").count()
    with pytest.raises(Exception, match="option url: it is missing"):
        spark.read.format("entrepot").option("queue", "Q").load()


IN_A_SESSION_OF_ONES_OWN = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()


def bodies(queue):
    table = spark.read.format("entrepot").option("url", sys.argv[1]).option("queue", queue).load()
    return [bytes(row.body).decode() for row in table.where(f"queue = '{queue}'").select("body").collect()]


print("found by Spark itself:", bodies(sys.argv[2]))
from entrepot.spark import register

register(spark)
print("registered:", bodies(sys.argv[2]))
"""


def test_queues_are_tables_in_a_session_that_is_not_ours(server: ServerProcess, new_queue: NewQueue) -> None:
    queue = new_queue()
    with server.connect() as connection:
        connection.put(queue, b"42 crates")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java().home)}
    finished = subprocess.run(
        [sys.executable, "-c", IN_A_SESSION_OF_ONES_OWN, server.unix_url, queue],
        env=environment,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    told = [line for line in finished.stdout.splitlines() if ": [" in line]
    assert told == ["found by Spark itself: ['42 crates']", "registered: ['42 crates']"], finished.stderr[-3000:]
