# SPDX-License-Identifier: Apache-2.0
"""The broker document's cases: messages of the published sizes, and marks that no flow loses."""

from __future__ import annotations

import pytest

from entrepot.errors import ScenarioInvalid
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message
from entrepot.workbench.broker.cases import BrokerCase, cases, find_case
from entrepot.workbench.broker.deploying import definitions, queues_of
from entrepot.workbench.broker.messages import BLANK, MARK_HEAD, mark, read_mark
from entrepot.workbench.published import published_rows
from folding import for_each

ROWS = [row for row in published_rows() if row.source == "wbimb-hpux-v5"]
SIZES = {
    case.name: sorted({int(row.message_bytes) for row in ROWS if row.table == case.table and row.message_bytes})
    for case in cases().values()
}
BY_SIZE = [(case, size) for case in cases().values() for size in SIZES[case.name]]
IDS = [f"{case.name}-{size}" for case, size in BY_SIZE]


def test_every_table_of_chapter_10_has_a_case() -> None:
    assert {row.table for row in ROWS if row.table.startswith("10.")} == {case.table for case in cases().values()}


@for_each(("case", "size"), BY_SIZE, ids=IDS)
def test_a_message_has_the_published_size_and_one_mark(case: BrokerCase, size: int) -> None:
    body = case.body(size).body
    assert len(body) == size
    assert (body.count(MARK_HEAD), body.count(BLANK.encode())) == (1, 1)
    assert len(case.template(size).body(7, 12345)) == size
    assert read_mark(case.template(size).body(7, 12345)) == (7, 12345)


@for_each(
    ("case", "size"),
    [(case, size) for case, size in BY_SIZE if not case.database and not case.subscribers and not case.echo],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_flow_keeps_the_mark_at_every_size(case: BrokerCase, size: int) -> None:
    (definition,) = definitions(case, size, ".SUFFIX")
    stage, kernel = MemoryWorld(), Kernel(definition)
    template = case.template(size)
    stage.feed(kernel, kernel.points[0], Message(template.body(3, 99), format=template.format))
    assert list(stage.queues) == ["BROKER.OUT.SUFFIX"]
    (made,) = stage.queues["BROKER.OUT.SUFFIX"]
    assert read_mark(made.body) == (3, 99)


def test_marks_tell_sender_and_number() -> None:
    assert mark(5, 42) == b"QX0500000042"
    assert read_mark(b"<a>QX0500000042</a>") == (5, 42)
    assert read_mark(b"<a>no mark</a>") is None
    assert read_mark(b"QX05") is None
    assert read_mark(b"QX05000000xx") is None


def test_a_suffix_reaches_every_queue_of_a_case() -> None:
    expected = [f"BROKER.{name}.X" for name in ("IN", "REQUESTS", "REPLIES", "OUT", "LATE", "STRANGE")]
    assert queues_of(cases()["aggregation"], ".X") == expected
    fan_out = definitions(cases()["aggregation"], 1024, ".X")[0]
    told = [node.properties["statements"] for node in fan_out.nodes.values() if "statements" in node.properties]
    assert all("'BROKER.REPLIES.X'" in each for each in told)


def test_a_case_that_there_is_not_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ScenarioInvalid, match="trivial, aggregation"):
        find_case("trivail")
