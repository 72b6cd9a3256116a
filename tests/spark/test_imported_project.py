# SPDX-License-Identifier: Apache-2.0
"""A project in IBM's file format at work on Spark, beside the same flow in YAML: the same messages come out."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark import SparkContext

from channels.processes import ServerProcess, until
from entrepot import Connection
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.loading import load_flow
from entrepot.spark import LiveFlow
from golden.flows.test_projects import CASES, PROJECTS, Case

DEAD_LETTERS = "SYSTEM.DEAD.LETTER.QUEUE"


def outcome(flow: FlowDefinition, case: Case, context: SparkContext, server: ServerProcess) -> dict[str, Counter[str]]:
    """What a flow on Spark leaves on each queue."""
    named = {str(node.settings["queue"]) for node in Kernel(flow).nodes.values() if node.settings.get("queue")}
    queues = (named | set(case.queues)) - {"DEAD.LETTERS"}
    with server.connect() as connection:
        connection.mqsc("\n".join(f"DEFINE QLOCAL({queue}) REPLACE\nCLEAR QLOCAL({queue})" for queue in queues))
        connection.mqsc(f"CLEAR QLOCAL({DEAD_LETTERS})")
        for body in case.bodies:
            connection.put(case.queue, body.encode(), **case.options)
        with LiveFlow(context, flow, server.unix_url) as live:
            until(
                lambda: sum(int(row.get("messages", 0)) for row in live.status()) >= len(case.bodies),
                "all went through",
            )
        found = {queue: _taken(connection, queue) for queue in {*queues, DEAD_LETTERS}}
    found["DEAD.LETTERS"] = found.pop(DEAD_LETTERS)
    return {queue: bodies for queue, bodies in found.items() if bodies}


def _taken(connection: Connection, queue: str) -> Counter[str]:
    found: Counter[str] = Counter()
    while (message := connection.get(queue)) is not None:
        found[message.body.decode()] += 1
    return found


@pytest.mark.parametrize("name", ["orders", "requests"])
def test_an_imported_project_does_what_its_yaml_does(name: str, context: SparkContext, server: ServerProcess) -> None:
    case = CASES[name]
    ours = outcome(load_flow(PROJECTS / case.yaml), case, context, server)
    theirs = outcome(load_flow(PROJECTS / case.msgflow), case, context, server)
    assert theirs == ours
    assert {queue: theirs[queue] for queue in case.queues} == {
        queue: Counter(bodies) for queue, bodies in case.queues.items()
    }
