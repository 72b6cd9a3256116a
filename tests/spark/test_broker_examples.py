# SPDX-License-Identifier: Apache-2.0
"""Every case of the broker document, as a flow on Spark: what comes out is what it should be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from channels.processes import ServerProcess
from entrepot import Connection
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.rehearsal import Rehearsal
from entrepot.message import Message
from entrepot.spark.live.live_flow import LiveFlow

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.append(str(BENCH))

from broker_cases import STOCK_ROWS, TABLES, Case, cases, published  # noqa: E402

# It has modules of names that folders of tests have too, and those would be found no more.
sys.path.remove(str(BENCH))

COUNT = 6
AT_A_TIME = 6
WAIT_S = 30.0
ALONE = ("aggregation", "instances", "execution_groups", "publication")


def simple_cases() -> list[Case]:
    """Those with one flow from one queue to another."""
    return [case for case in cases().values() if not case.name.startswith(ALONE)]


def batches() -> list[list[Case]]:
    chosen = simple_cases()
    return [chosen[at : at + AT_A_TIME] for at in range(0, len(chosen), AT_A_TIME)]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    import sqlite3

    path = tmp_path_factory.mktemp("broker") / "broker.db"
    with sqlite3.connect(path) as connection:
        for table in TABLES:
            connection.execute(table)
        connection.executemany("INSERT INTO stock VALUES (?, 0)", [(number,) for number in range(1, STOCK_ROWS + 1)])
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def connection(server: ServerProcess) -> Iterator[Connection]:
    with server.connect() as found:
        yield found


def with_own_queues(definition: FlowDefinition, name: str, connection: Connection) -> FlowDefinition:
    """The same flow with queues that no other test knows."""
    for node in definition.nodes.values():
        queue = node.properties.get("queue")
        if queue:
            own = node.properties["queue"] = f"{queue}.{name}".upper()
            connection.mqsc(f"DEFINE QLOCAL({own}) REPLACE")
    return definition


def expected(definition: FlowDefinition, case: Case, queue: str) -> list[bytes]:
    """What the bare kernel makes of the case's message."""
    if case.database:
        return [case.body(case.sizes[0]).body] * COUNT  # a Database node lets the message go on as it came
    stage = Rehearsal()
    kernel = Kernel(definition)
    for _ in range(COUNT):
        stage.feed(kernel, kernel.points[0], case.body(case.sizes[0]))
    return [message.body for message in stage.queues[queue]]


def put(connection: Connection, queue: str, message: Message) -> None:
    for number in range(COUNT):
        connection.put(queue, message.body, format=message.format, persistent=number % 2 == 0)


def got(connection: Connection, queue: str, count: int = COUNT) -> list[bytes]:
    found = []
    while len(found) < count:
        message = connection.get(queue, wait_s=WAIT_S)
        assert message is not None, f"{queue} has {len(found)} of {count}"
        found.append(message.body)
    assert connection.get(queue) is None
    return found


@pytest.mark.parametrize("batch", batches(), ids=lambda batch: batch[0].name)
def test_a_flow_gives_what_the_bare_kernel_gives(
    batch: list[Case], context: SparkContext, server: ServerProcess, connection: Connection, database: str
) -> None:
    flows = []
    try:
        for case in batch:
            (definition,) = case.definitions()
            definition = with_own_queues(definition, case.name[:30], connection)
            put(connection, definition.nodes["In"].properties["queue"], case.body(case.sizes[0]))
            databases = {"BROKER": database} if case.database else {}
            flow = LiveFlow(context, definition, server.unix_url, instances=1, databases=databases)
            flows.append((case, definition, flow.start()))
        for case, definition, _ in flows:
            queue = definition.nodes["Out"].properties["queue"]
            assert got(connection, queue) == expected(definition, case, queue), case.name
    finally:
        for *_, flow in flows:
            flow.close()


@pytest.mark.parametrize("name", ["publication_1", "publication_10", "publication_content"])
def test_a_publication_reaches_everybody(
    name: str, context: SparkContext, server: ServerProcess, connection: Connection
) -> None:
    case = cases()[name]
    (definition,) = case.definitions()
    definition = with_own_queues(definition, name, connection)
    definition.nodes["Publish"].properties["topic"] = f"broker/{name}"
    content = {"content": case.content} if case.content else {}
    subscriptions = [connection.subscribe(f"broker/{name}", **content) for _ in range(case.subscribers)]
    put(connection, definition.nodes["In"].properties["queue"], case.body(1024))
    with LiveFlow(context, definition, server.unix_url):
        for subscription in subscriptions:
            received = [subscription.get(wait_s=WAIT_S) for _ in range(COUNT)]
            assert all(message is not None and message.body == case.body(1024).body for message in received)
            assert subscription.get() is None
    for subscription in subscriptions:
        subscription.close()


def test_four_replies_become_one_message(context: SparkContext, server: ServerProcess, connection: Connection) -> None:
    case = cases()["aggregation"]
    fan_out, fan_in = (with_own_queues(definition, "agg", connection) for definition in case.definitions())
    for node in fan_out.nodes.values():
        if "statements" in node.properties:
            node.properties["statements"] = node.properties["statements"].replace(
                "BROKER.REPLIES", "BROKER.REPLIES.AGG"
            )
    put(connection, "BROKER.IN.AGG", case.body(1024))
    with (
        LiveFlow(context, fan_out, server.unix_url),
        LiveFlow(context, fan_in, server.unix_url, instances=2),
    ):
        for _ in range(4 * COUNT):
            request = connection.get("BROKER.REQUESTS.AGG", wait_s=WAIT_S)
            assert request is not None
            connection.put(
                request.reply_to, request.body, correlation_id=request.message_id, persistent=request.persistent
            )
        answers = got(connection, "BROKER.OUT.AGG")
    assert all(answer.count(b"<Part>string-00001</Part>") == 4 for answer in answers)
    assert not connection.get("BROKER.LATE.AGG")
    assert not connection.get("BROKER.STRANGE.AGG")


@pytest.mark.parametrize("name", ["instances_4", "execution_groups_4"])
def test_copies_of_a_flow_share_its_messages(
    name: str, context: SparkContext, server: ServerProcess, connection: Connection
) -> None:
    case = cases()[name]
    (definition,) = case.definitions()
    definition = with_own_queues(definition, name, connection)
    for _ in range(50):
        put(connection, definition.nodes["In"].properties["queue"], case.body(4096))
    flows = [
        LiveFlow(context, definition, server.unix_url, instances=case.instances or 1, group=f"group{number}")
        for number in range(case.groups)
    ]
    try:
        for flow in flows:
            flow.start()
        bodies = got(connection, definition.nodes["Out"].properties["queue"], 50 * COUNT)
        for flow in flows:
            flow.wait_until_running()
            assert len(flow.status()) == (case.instances or 1)
    finally:
        for flow in flows:
            flow.close()
    assert len(set(bodies)) == 1


def test_every_table_of_the_document_has_a_case() -> None:
    measured = {table for table, *_ in published() if table.startswith("10.")}
    assert measured == {case.table for case in cases().values()}
