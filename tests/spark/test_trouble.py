# SPDX-License-Identifier: Apache-2.0
"""Flows in trouble on Spark: messages that kill their process, runs that replace each other, Spark giving up.

What an instance does about bad messages, queues and databases is tested without Spark, in tests/unit/spark.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext

from channels.processes import ServerProcess, until
from entrepot.errors import FlowEnded, FlowInvalid, FlowNotReady, InstancesTooMany
from entrepot.flows.definition import FlowDefinition
from entrepot.models.tree import Assembly
from entrepot.spark.live.live_flow import LiveFlow

NewQueue = Callable[..., str]


def dangerous_function() -> Callable[[Assembly, object], Assembly]:
    """For a Python node: what a bad message makes it do. Made here, so that it travels by value."""

    def kills(assembly: Assembly, _: object) -> Assembly:
        match assembly.root.get("XMLNSC", "order", "n"):
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "loop":
                while True:
                    pass
        return assembly

    return kills


def order(number: object) -> str:
    return f"<order><n>{number}</n></order>"


def passing(name: str, source: str, target: str, *, dangerous: bool = False) -> FlowDefinition:
    flow = FlowDefinition(name)
    flow.node("MQInput", "In", queue=source, domain="XMLNSC")
    if dangerous:
        flow.node("Python", "Work", function=dangerous_function(), timeout_s=0.5)
    else:
        flow.node("Passthrough", "Work")
    flow.node("MQOutput", "Out", queue=target)
    flow.link("In", "Work")
    flow.link("Work", "Out")
    return flow


def put(server: ServerProcess, queue: str, *numbers: object) -> None:
    with server.connect() as connection, connection.unit_of_work() as unit:
        for number in numbers:
            unit.put(queue, order(number).encode(), persistent=True)


def bodies(server: ServerProcess, queue: str) -> list[str]:
    with server.connect() as connection:
        return [message.body.decode() for message in connection.browse(queue)]


@contextlib.contextmanager
def running(*flows: LiveFlow) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for flow in flows:
            stack.enter_context(flow)
        for flow in flows:
            flow.wait_until_running()
        yield


def test_a_message_that_kills_its_process_is_set_aside_and_its_neighbours_come_out(
    context: SparkContext, server: ServerProcess, new_queue: NewQueue
) -> None:
    """Spark gives up on a job after four tries of a task; the flow does not."""
    targets, asides, sources, flows = [], [], [], []
    bad: list[list[str]] = [["kill", "interrupt", "loop"], ["exit"]]
    for number, threshold in enumerate(("BOTHRESH(3)", "")):
        targets.append(new_queue())
        asides.append(new_queue())
        sources.append(new_queue(f"BOQNAME({asides[number]}) {threshold}"))
        flow = passing(f"poisoned{number}", sources[number], targets[number], dangerous=True)
        flows.append(LiveFlow(context, flow, server.unix_url))
        put(server, sources[number], 1, 2, *bad[number], 3, 4)
    with running(*flows):
        for target in targets:
            until(lambda target=target: len(bodies(server, target)) == 4, "the neighbours come out", 60.0)  # type: ignore[misc]
        for source, target in zip(sources, targets, strict=True):
            put(server, source, 5)
            until(lambda target=target: len(bodies(server, target)) == 5, "the flows run on")  # type: ignore[misc]
        assert all(flow.is_running for flow in flows)
        assert [flow.restarts for flow in flows] == [0, 1]
    for target, aside in zip(targets, asides, strict=True):
        assert bodies(server, target) == [order(number) for number in range(1, 6)]
        with server.connect() as connection:
            found = b"".join(message.body for message in connection.browse(aside))
        wanted = bad.pop(0)
        assert [found.count(order(each).encode()) for each in wanted] == [1] * len(wanted)
        assert found.count(b"<order>") == len(wanted)
    with server.connect() as connection:
        (set_aside,) = connection.browse(asides[1])
        assert "never committed" in str(set_aside.properties["entrepot_error"])


def test_a_second_run_takes_over_and_the_first_ends_with_the_reason(
    context: SparkContext, server: ServerProcess, new_queue: NewQueue
) -> None:
    source, target = new_queue(), new_queue()
    first = LiveFlow(context, passing("twice", source, target), server.unix_url, instances=2)
    second = LiveFlow(context, passing("twice", source, target), server.unix_url, instances=1)
    with running(first), running(second):
        with pytest.raises(FlowEnded, match="another run of it has taken over"):
            first.wait(20)
        put(server, source, 1, 2)
        until(lambda: len(bodies(server, target)) == 2, "the second one works")
        until(lambda: sum(int(row["messages"]) for row in second.status()) == 2, "and tells so")
    assert bodies(server, target) == [order(1), order(2)]


def test_what_keeps_a_flow_from_starting_in_its_tasks_is_told_and_not_tried_again_for_ever(
    context: SparkContext, server: ServerProcess, new_queue: NewQueue, tmp_path: Path
) -> None:
    flow = FlowDefinition("nowhere")
    flow.node("FileInput", "In", directory=str(tmp_path / "not there"))
    flow.node("MQOutput", "Out", queue=new_queue())
    flow.link("In", "Out")
    live = LiveFlow(context, flow, server.unix_url)
    with live, pytest.raises(Exception, match="not there") as told:
        live.wait_until_running()
        live.wait(20)
    assert type(told.value).__name__ == "FolderUnusable"
    assert live.restarts == 0


def test_what_can_be_known_beforehand_is_told_at_once_and_together(
    context: SparkContext, server: ServerProcess, new_queue: NewQueue
) -> None:
    flow = passing("unready", "THERE.IS.NONE", new_queue())
    flow.node("Database", "Row", statements="INSERT INTO Database.t (n) VALUES (1);", data_source="LEDGER")
    flow.node("Database", "Other", statements="INSERT INTO Database.t (n) VALUES (1);", data_source="DOWN")
    flow.link("Work", "Row")
    flow.link("Row", "Other")
    down = {"DOWN": "postgresql+psycopg://nobody@127.0.0.1:1/none"}
    with pytest.raises(FlowNotReady) as told:
        LiveFlow(context, flow, server.unix_url, databases=down).start()
    assert "there is no queue THERE.IS.NONE" in told.value.what
    assert "--database LEDGER=URL" in told.value.what
    assert "data source DOWN" in told.value.what
    with pytest.raises(InstancesTooMany):
        LiveFlow(context, flow, server.unix_url, instances=1000)
    flow.node("MQOutput", "Wrong", quue="Q")
    with pytest.raises(FlowInvalid, match="quue"):
        LiveFlow(context, flow, server.unix_url, databases=down).start()
