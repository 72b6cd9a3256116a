# SPDX-License-Identifier: Apache-2.0
"""A driver with a stream from queue to queue, for tests that kill: it, its Python workers, and the queue manager.

It runs until there is a file `stop` in its folder. A file `POINT.VICTIM` lets the first process that passes the
point kill the victim, whose process ids are in `VICTIM.pids`; the victim `self` is that process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

POINTS = ("write_begun", "write_prepared", "commit_begun", "commit_decided", "commit_done", "source_removed")
VICTIMS = ("self", "manager", "driver")


def pass_point(folder: str, point: str) -> None:
    """Kill whom the test wants to be killed here, once."""
    for victim in VICTIMS:
        flag = Path(folder) / f"{point}.{victim}"
        try:
            flag.unlink()
        except FileNotFoundError:
            continue
        pids = [os.getpid()] if victim == "self" else _pids(folder, victim)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if victim == "driver":
            time.sleep(60)  # until the kernel has ended us with the rest


def _pids(folder: str, victim: str) -> list[int]:
    return [int(word) for word in (Path(folder) / f"{victim}.pids").read_text().split()]


def main(folder: str, url: str, source: str, target: str) -> None:
    from entrepot.spark import spark_session
    from entrepot.spark.starting import session as sessions

    with spark_session("local[2,4]", app="stream driver", light=True) as spark:
        assert sessions._driver is not None
        (Path(folder) / "driver.pids").write_text(f"{sessions._driver.process.pid} {os.getpid()}")
        stop = Path(folder) / "stop"
        while not stop.exists():
            query = begin(spark, folder, url, source, target)
            while query.isActive and not stop.exists():
                time.sleep(0.02)
            query.stop()


def begin(spark: SparkSession, folder: str, url: str, source: str, target: str) -> StreamingQuery:
    """Start the stream, from its checkpoint if there is one."""
    spark.dataSource.register(killing(folder))
    return (
        spark.readStream.format("killing")
        .options(url=url, queue=source, mode="consume", partitions=1, maxMessagesPerTrigger=40)
        .load()
        .writeStream.format("killing")
        .options(url=url, queue=target, messagesPerUnit=15)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )


def killing(folder: str) -> Any:
    """The data source, with points at which it may be killed."""
    from entrepot.spark.tables import ledger, stream_source
    from entrepot.spark.tables.data_source import EntrepotDataSource
    from entrepot.spark.tables.sink import StreamWriter

    class Writer(StreamWriter):
        def write(self, iterator: Iterator[Any]) -> Any:
            def passing() -> Iterator[Any]:
                for batch in iterator:
                    yield batch
                    pass_point(folder, "write_begun")

            told = super().write(passing())
            pass_point(folder, "write_prepared")
            return told

        def commit(self, messages: list[Any], batchId: int) -> None:
            pass_point(folder, "commit_begun")
            decide = ledger.SinkLedger._decide

            def deciding(*arguments: Any) -> None:
                decide(*arguments)
                pass_point(folder, "commit_decided")

            ledger.SinkLedger._decide = deciding  # type: ignore[method-assign]
            try:
                super().commit(messages, batchId)
            finally:
                ledger.SinkLedger._decide = decide  # type: ignore[method-assign]
            pass_point(folder, "commit_done")

    class Reader(stream_source.ConsumingReader):
        def commit(self, end: dict[str, Any]) -> None:
            super().commit(end)
            if end["messages"]:
                pass_point(folder, "source_removed")

    class Killing(EntrepotDataSource):
        @classmethod
        def name(cls) -> str:
            return "killing"

        def streamReader(self, schema: Any) -> Any:
            del schema
            return Reader(*self._reading())

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return Writer(super().streamWriter(schema, overwrite).options)

    return Killing


if __name__ == "__main__":
    main(*sys.argv[1:])
