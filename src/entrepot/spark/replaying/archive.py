# SPDX-License-Identifier: Apache-2.0
"""Archives of messages: Parquet with the columns of a queue, or a folder with a file for each message.

Beside a file of a folder may lie another one, of the same name with .json
behind it, that tells about the message:

    orders/0001.xml
    orders/0001.xml.json    {"queue": "ORDERS", "correlation_id": "414d51", "properties": {"region": "EU"}}

Ids are hex digits there, and the names are those of the columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace

from entrepot.client.options import criteria
from entrepot.errors import ArchiveUnreadable
from entrepot.message import Message, MessageType
from entrepot.spark.tables.places import extents, messages_within
from entrepot.spark.tables.rows import DESCRIPTOR, QUEUE_SCHEMA, cut, message_arrays, queue_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILES_PER_TASK = 200
_PARTS_PER_SLOT = 4
"""So many tasks for each that runs at a time: when one has slow messages, others take what is left."""
_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 10_000


# --- writing ------------------------------------------------------------------------------------------


def archive_queue(url: str, queue: str, path: str | Path, *, selector: str = "") -> int:
    """Write what is on a queue to a Parquet file, and leave it there; how many messages.

    Messages that come meanwhile are not in it. The file is there when all of it is.

    Raises:
        QueueNotFound, SelectorSyntaxError, ChannelError: There is no file.
    """
    import pyarrow.parquet as pq

    from entrepot.client.blocking import connect

    path = Path(path)
    unfinished = path.with_name(f".{path.name}.unfinished")
    wanted = criteria({"selector": selector}) if selector else None
    written = 0
    with connect(url, application="entrepot-archive") as connection:
        reached = extents(connection, queue)
        with pq.ParquetWriter(unfinished, QUEUE_SCHEMA, compression="zstd") as writer:
            for extent in reached:
                seen = messages_within(connection, queue, extent, wanted)
                for piece in cut(seen, _BATCH_BYTES, _BATCH_ROWS):
                    writer.write_batch(queue_batch(queue, piece))
                    written += len(piece)
    unfinished.replace(path)
    return written


# --- reading ------------------------------------------------------------------------------------------


def read_archive(spark: SparkSession, path: str | Path) -> DataFrame:
    """The messages of an archive as a table.

    Raises:
        ArchiveUnreadable: There is nothing, or nothing that could be messages.
    """
    place = Path(path)
    if "://" in str(path) or is_parquet(place):
        found = spark.read.parquet(str(path) if "://" in str(path) else str(place.absolute()))
        if "body" not in found.columns:
            raise ArchiveUnreadable(str(path), f"it has the columns {', '.join(found.columns)}, and no body")
        return found
    return _read_files(spark, place, message_files(place))


def spread(messages: DataFrame) -> DataFrame:
    """The same messages in enough tasks, with as many rows each.

    Spark cuts Parquet by bytes as they are on disk, and where a compressed file
    has a few row groups only, one task gets most of its messages. Rows pass
    through files of Spark's own then, not through memory.
    """
    wanted = _parts_wanted(messages.sparkSession)
    # Not DataFrame.rdd, which would make Python's rows of it.
    return messages if messages._jdf.rdd().getNumPartitions() >= wanted else messages.repartition(wanted)


def _parts_wanted(spark: SparkSession) -> int:
    return _PARTS_PER_SLOT * max(1, spark.sparkContext.defaultParallelism)


def is_parquet(place: Path) -> bool:
    """Whether a file or folder holds Parquet."""
    if place.is_file():
        with place.open("rb") as file:
            return file.read(4) == b"PAR1"
    return place.is_dir() and next(place.rglob("*.parquet"), None) is not None


def message_files(place: Path) -> list[Path]:
    """The messages of a folder, in the order of their names; the file itself if it is one.

    Raises:
        ArchiveUnreadable: There are none.
    """
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise ArchiveUnreadable(str(place), "there is no such file or folder")
    files = sorted(file for file in place.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
    names = set(files)
    found = [file for file in files if not (file.suffix == ".json" and file.with_suffix("") in names)]
    if not found:
        raise ArchiveUnreadable(str(place), "the folder is empty")
    return found


def _read_files(spark: SparkSession, folder: Path, files: list[Path]) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    for file in files[:1]:
        read_message(folder, file)  # what is wrong with all of them is told at once, and not by a task
    paths = [(str(file.absolute()),) for file in files]
    parts = max(min(len(paths), _parts_wanted(spark)), -(-len(paths) // _FILES_PER_TASK))
    listed = spark.createDataFrame(paths, "path string").repartition(parts)
    return listed.mapInArrow(_files_task(folder.absolute()), from_arrow_schema(QUEUE_SCHEMA))


def _files_task(folder: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column("path").to_pylist():
                queue, message = read_message(folder, Path(path))
                names = pa.array([queue], pa.string())
                yield pa.RecordBatch.from_arrays([names, *message_arrays([message])], schema=QUEUE_SCHEMA)

    return read


def read_message(folder: Path, file: Path) -> tuple[str, Message]:
    """A message and its queue from a file, and from what lies beside it.

    Raises:
        ArchiveUnreadable: What lies beside it tells something that no message has.
    """
    # The same id whenever it is read, so that outputs of two replays can be set side by side.
    name = file.relative_to(folder).as_posix() if file.is_relative_to(folder) and file != folder else file.name
    message = Message(file.read_bytes(), message_id=hashlib.blake2b(name.encode(), digest_size=24).digest())
    beside = file.with_name(file.name + ".json")
    if not beside.is_file():
        return "", message
    try:
        stored = json.loads(beside.read_bytes())
        queue = str(stored.pop("queue", ""))
        fields = {key: _field(key, value) for key, value in stored.items()}
        return queue, replace(message, **fields)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ArchiveUnreadable(str(beside), f"{type(error).__name__}: {error}") from error


def _field(name: str, value: Any) -> Any:
    if name not in DESCRIPTOR or name == "body":
        raise ValueError(f"no message has {name!r}")
    if name == "type":
        return MessageType(value)
    if name == "properties":
        return dict(value)
    kind = DESCRIPTOR[name]
    if pa.types.is_binary(kind):
        return bytes.fromhex(value)
    if pa.types.is_string(kind) and not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, and not a text")
    if pa.types.is_integer(kind) and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"{name} is {value!r}, and not a whole number")
    return value
