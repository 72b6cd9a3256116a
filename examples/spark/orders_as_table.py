# SPDX-License-Identifier: Apache-2.0
"""A queue as a table of Spark: what is waiting, by region; the large orders go to another queue, all or none.

Run it against a server that has the queues ORDERS and LARGE: python orders_as_table.py unix:./qm1
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from entrepot.spark import spark_session
from entrepot.spark.tables.data_source import register


def report(spark: SparkSession, url: str, orders: str = "ORDERS", large: str = "LARGE") -> dict[str, int]:
    """How many crates wait for each region. The orders themselves stay where they are."""
    register(spark)
    waiting = spark.read.format("entrepot").option("url", url).option("queue", orders).load()
    # One task: what is counted here is less work than to hand it on to Spark's usual two hundred.
    crates = waiting.coalesce(1).selectExpr(
        "body", "message_id", "properties['region'] AS region", "int(string(body)) AS crates"
    )
    (
        crates.where("crates >= 100")
        .select("body", f.col("message_id").alias("correlation_id"))
        .write.format("entrepot")
        .options(url=url, queue=large)
        .mode("append")
        .save()
    )
    return {row.region: row.total for row in crates.groupBy("region").agg(f.sum("crates").alias("total")).collect()}


if __name__ == "__main__":
    with spark_session(app="orders") as session:
        print(report(session, sys.argv[1]))
