# SPDX-License-Identifier: Apache-2.0
"""An instance of a flow in trouble, on a real queue manager: bad messages between good ones, and queues that refuse.

What IBM documents is the answer: failure and catch terminals first, then the
backout queue when the threshold is reached, then the dead-letter queue.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import Fenced
from entrepot.flows.definition import FlowDefinition
from entrepot.models.tree import Assembly
from entrepot.queues.folder import create
from entrepot.recovery_log.settings import LogSettings
from entrepot.spark.instance import Instance
from entrepot.testing.servers import ServerThread

from .staged import Stage, compute, drawn, node, quick, reads, until, writes

pytestmark = pytest.mark.usefixtures("quick")
__all__ = ["quick"]

LOG = LogSettings(segment_bytes=1024 * 1024, primary=3, secondary=4)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    path = tmp_path_factory.mktemp("instance") / "QM1"
    create(path, log=LOG)
    with ServerThread(path) as server:
        stage = Stage(server.unix_url)
        stage.connection.mqsc("DEFINE QLOCAL(DEAD) REPLACE\nALTER QMGR DEADQ(DEAD)")
        yield stage
        stage.connection.close()


def order(number: object) -> str:
    return f"<order><n>{number}</n></order>"


# --- a bad message between good ones, node by node -------------------------------------------------------------


def _raises(assembly: Assembly, send: Any) -> Assembly:
    number = assembly.root.get("XMLNSC", "order", "n")
    match str(number):
        case "error":
            raise ValueError("no such number")
        case "exit":
            sys.exit(3)
        case "nothing":
            return number  # type: ignore[return-value]
        case "recursion":
            return _raises(assembly, send) if send else assembly
    return assembly


TO_LABEL = "SET OutputLocalEnvironment.Destination.RouterList.DestinationData[1].labelName = 'L' || InputRoot.XMLNSC.order.n;"
TO_QUEUE = "SET OutputLocalEnvironment.Destination.MQ.DestinationData[1].queueName = InputRoot.XMLNSC.order.q;"
BROKEN = "<order><n>"
EVERY: dict[str, tuple[dict[str, Any], str, str]] = {
    "Compute: broken XML": ({"X": compute("SET OutputRoot.XMLNSC.order.m = InputRoot.XMLNSC.order.n;")}, BROKEN, "XML"),
    "Compute: cast": ({"X": compute("SET OutputRoot.XMLNSC.order.m = CAST(InputRoot.XMLNSC.order.n AS INTEGER);")},
                      order("seven"), "seven"),
    "Compute: division": ({"X": compute("SET OutputRoot.XMLNSC.order.m = 1 / (CAST(InputRoot.XMLNSC.order.n AS INTEGER) - 99);")},
                          order(99), "zero"),
    "Compute: THROW": ({"X": compute("IF InputRoot.XMLNSC.order.n = '99' THEN THROW USER EXCEPTION MESSAGE 2951 VALUES('far too many'); END IF;")},
                       order(99), "far too many"),
    "Compute: label": ({"X": compute("PROPAGATE TO LABEL 'L' || InputRoot.XMLNSC.order.n; RETURN FALSE;"),
                        "L1": node("Label", label="L1"), "L2": node("Label", label="L2"),
                        "L3": node("Label", label="L3"), "L4": node("Label", label="L4")}, order(99), "L99"),
    "Mapping: broken XML": ({"X": node("Mapping", map={"copy": [{"from": "order.n", "to": "order.n"}]})}, BROKEN, "XML"),
    "Filter: broken XML": ({"X": node("Filter", condition="Root.XMLNSC.order.n > 0")}, BROKEN, "XML"),
    "Route: broken XML": ({"X": node("Route", routes=[{"when": "Root.XMLNSC.order.n > 0", "to": "match"}])}, BROKEN, "XML"),
    "RouteToLabel": ({"X": compute(TO_LABEL, mode="destinationAndMessage"), "Y": node("RouteToLabel"),
                      "L1": node("Label", label="L1"), "L2": node("Label", label="L2"),
                      "L3": node("Label", label="L3"), "L4": node("Label", label="L4")}, order(99), "L99"),
    "Validate": ({"X": node("Validate", validation="content")}, BROKEN, "XML"),
    "Python: any exception": ({"X": node("Python", function=_raises)}, order("error"), "no such number"),
    "Python: exit": ({"X": node("Python", function=_raises)}, order("exit"), "exit"),
    "Python: no message": ({"X": node("Python", function=_raises)}, order("nothing"), "return the message"),
    "Python: endless": ({"X": node("Python", function=_raises)}, order("recursion"), "recursion"),
    "ResetContentDescriptor": ({"Y": node("ResetContentDescriptor", domain="JSON"),
                                "X": compute("SET OutputRoot.JSON.Data.m = InputRoot.JSON.Data.n;")}, b"{\xff", "JSON"),
    "Trace": ({"Y": node("Trace", pattern="${Root.XMLNSC.order.n}"), "X": compute("SET OutputRoot.XMLNSC.order.m = InputRoot.XMLNSC.order.n;")},
              BROKEN, "XML"),
    "MQOutput: no list": ({"X": compute(f"IF InputRoot.XMLNSC.order.n <> '99' THEN {TO_QUEUE} END IF;", mode="destinationAndMessage")},
                          order(99), "lists no queue"),
}  # fmt: skip
TERMINALS = {"Filter": ("true", "false", "unknown"), "Route": ("match", "default"), "Validate": ("match",)}


def _every(stage: Stage, case: str, source: str, target: str) -> FlowDefinition:
    nodes = dict(EVERY[case][0])
    chain = [name for name in ("Y", "X") if name in nodes] if case != "RouteToLabel" else ["X", "Y"]
    listed = writes("", destination="list") if case == "MQOutput: no list" else writes(target)
    last = chain[-1]
    lines = [" -> ".join(["In", *chain])]
    lines += [f"{last}.{terminal} -> Out" for terminal in TERMINALS.get(nodes[last][0], ("out",))]
    labels = [name for name in nodes if name.startswith("L")]
    lines = lines[:1] + [f"{name} -> Out" for name in labels] if labels else lines
    return drawn(*lines, In=reads(source), Out=listed, **nodes)


@pytest.mark.parametrize("case", EVERY)
def test_a_bad_message_goes_to_the_backout_queue_and_its_neighbours_come_out(stage: Stage, case: str) -> None:
    aside, target = stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside})")
    _, bad, reason = EVERY[case]
    numbers = range(1, 5)

    def good(number: int) -> str:
        if case == "ResetContentDescriptor":
            return f'{{"n": {number}}}'
        return f"<order><n>{number}</n><q>{target}</q></order>"

    stage.put(source, good(1), good(2), bad, good(3), good(4))
    with stage.running(_every(stage, case, source, target)) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
        assert running.count("messages") == 5
        assert running.count("set_aside") == 1
        assert running.count("outputs") == 5
    came = stage.messages(target)
    assert [_number(message.body) for message in came] == list(numbers)
    assert all(message.backout_count == 0 for message in came)
    (set_aside,) = stage.messages(aside)
    assert set_aside.body == (bad if isinstance(bad, bytes) else bad.encode())
    assert reason in str(set_aside.properties["entrepot_error"])


def _number(body: bytes) -> int:
    return int("".join(filter(str.isdigit, body.decode().partition("</n>")[0].partition("}")[0].partition(",")[0])))
