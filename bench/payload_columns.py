# SPDX-License-Identifier: Apache-2.0
"""What the columns of `model=` cost a message: batches of records at once, beside the tree of each.

    python bench/payload_columns.py

The tree is `PayloadColumns.read` for each message and one Arrow array of the rows, which is what all models had before
there were columns of records. Both have to give the same array. One column is a model with one field; 31 are those of
the broker document's conversions, in 400 bytes and in 4 KB. The last rows are records in an EBCDIC code page with
packed and zoned decimals, and records of which one in a hundred is damaged. Times are microseconds of processor time a
message, the medians of rounds in which all ways take turns, so that a busy machine slows all of them alike; the ratio
is the median over the rounds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa

from entrepot.message import Message
from entrepot.models import MessageFormat, find_set
from entrepot.models.cwf import CwfCodec
from entrepot.models.mrm import MRM
from entrepot.models.notation import read_notation
from entrepot.models.tree import Element
from entrepot.spark.tables.payload import PayloadColumns
from entrepot.workbench.broker.messages import MESSAGE, SET, formats

ROUNDS = 15
BATCH_BYTES = 1 << 20
"""As `rows.cut_for_spark` cuts, and at most so many rows:"""
BATCH_ROWS = 10_000

LEDGER = """
set: ledger
formats: {CWF1: cwf}
messages:
  Entry:
""" + "".join(
    f"""
    - account{n}: string(10)
    - amount{n}: decimal(9,2)
    - count{n}: integer
      cwf: {{storage: external, length: 6}}
""" for n in range(10)
)  # fmt: skip


def by_trees(payload: PayloadColumns, messages: Sequence[Message]) -> pa.Array:
    return pa.array([payload.read(message)[0] for message in messages], payload.columns[0].type)


def one_field() -> tuple[PayloadColumns, list[Message]]:
    found = read_notation("set: one\nformats: {CWF1: cwf}\nmessages: {One: [quantity: integer]}", "one.yaml")
    payload = PayloadColumns(MessageFormat(found, "One", "CWF1"))
    return payload, [Message(number.to_bytes(4, "little")) for number in range(BATCH_ROWS)]


def fields_31(size: int, format_name: str) -> tuple[PayloadColumns, list[Message]]:
    body = formats(size)[format_name]
    payload = PayloadColumns(MessageFormat(find_set(SET), MESSAGE, format_name))
    return payload, [Message(body)] * min(BATCH_BYTES // len(body), BATCH_ROWS)


def ledger(damaged: int = 0) -> tuple[PayloadColumns, list[Message]]:
    """30 fields in code page 500; of as many records one has no digit in a number."""
    payload = PayloadColumns(MessageFormat(read_notation(LEDGER, "ledger.yaml"), "Entry", "CWF1"))
    codec = MRM.codec(payload.model)
    assert isinstance(codec, CwfCodec)
    entry = Element("Entry")
    for n in range(10):
        entry.add(f"account{n}", f"ACC{n}")
        entry.add(f"amount{n}", Decimal(-n * 1001) / 100)
        entry.add(f"count{n}", n * 77)
    body = codec.render(entry, 500, 785)
    bad = body[:20] + bytes(len(body) - 20)
    return payload, [
        Message(bad if damaged and number % damaged == 0 else body, ccsid=500, encoding=785)
        for number in range(min(BATCH_BYTES // len(body), BATCH_ROWS))
    ]


CASES: dict[str, Callable[[], tuple[PayloadColumns, list[Message]]]] = {
    "CWF, 1 column of 4 bytes": one_field,
    "CWF, 31 columns, 400 bytes": lambda: fields_31(400, "CWF1"),
    "CWF, 31 columns, 4 KB": lambda: fields_31(4096, "CWF1"),
    "CWF, 30 columns, EBCDIC, decimals": ledger,
    "the same, 1 in 100 damaged": lambda: ledger(100),
    "TDS, 31 columns, 4 KB": lambda: fields_31(4096, "TDS1"),
    "MRM XML, 31 columns, 4 KB": lambda: fields_31(4096, "XML1"),
}


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main(rounds: int = ROUNDS) -> None:
    print(f"{'µs a message':36} {'tree':>8} {'columns':>8} {'ratio':>7}   messages in a batch")
    for name, make in CASES.items():
        payload, messages = make()
        # Trees of a whole batch would take most of the time; the first thousand are as good.
        few = messages[:1000]
        assert payload.arrays(few)[0].equals(by_trees(payload, few)), name
        turns = [
            (
                seconds(lambda: by_trees(payload, few)) / len(few),  # noqa: B023 -- called at once
                seconds(lambda: payload.arrays(messages)) / len(messages),  # noqa: B023
            )
            for _ in range(rounds)
        ]
        tree, at_once = (statistics.median(turn[number] for turn in turns) * 1e6 for number in (0, 1))
        ratio = statistics.median(slow / fast for slow, fast in turns)
        print(f"{name:36} {tree:8.2f} {at_once:8.2f} {ratio:7.1f}   {len(messages)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
