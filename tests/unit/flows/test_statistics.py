# SPDX-License-Identifier: Apache-2.0
"""Accounting: who has had how many messages, and what they took."""

from __future__ import annotations

import time
from typing import Any

from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message

from .drawn import compute, drawn, node, reads, writes

COPY = "SET OutputRoot = InputRoot;"


def spins(message: Any, send: Any) -> Any:
    until = time.thread_time_ns() + 3_000_000
    while time.thread_time_ns() < until:
        pass
    return message


def test_messages_bytes_and_failures_are_counted_for_the_flow() -> None:
    kernel = Kernel(drawn("In -> Out", In=reads(), Out=writes()))
    broken = Kernel(drawn("In -> Fail", In=reads(), Fail=node("Throw")))
    world = MemoryWorld(facts={"IN": QueueFacts(threshold=3, dead_letter_queue="DEAD")})
    for _ in range(3):
        world.feed(kernel, "IN", Message(b"<a/>"))
    world.feed(broken, "IN", Message(b"<abc/>", persistent=True))
    assert (kernel.statistics.messages, kernel.statistics.bytes_in, kernel.statistics.failed) == (3, 12, 0)
    told = broken.statistics.as_data()
    assert (told["messages"], told["bytes_in"], told["failed"], told["set_aside"]) == (1, 6, 3, 1)
    assert "nodes" not in told


def test_each_node_is_counted_and_the_input_node_too() -> None:
    flow = drawn(
        "In -> Twice",
        "Twice.out -> Out",
        In=reads(),
        Twice=compute(COPY + "PROPAGATE DELETE NONE; RETURN TRUE;"),
        Out=writes(),
    )
    kernel, world = Kernel(flow, node_statistics=True), MemoryWorld()
    for _ in range(2):
        world.feed(kernel, "IN", Message(b"<a/>"))
    nodes = kernel.statistics.as_data()["nodes"]
    assert {name: told["messages"] for name, told in nodes.items()} == {"In": 2, "Twice": 2, "Out": 4}
    assert all(told["errors"] == 0 for told in nodes.values())


def test_time_belongs_to_the_node_that_took_it_and_not_to_those_before() -> None:
    flow = drawn(
        "In -> Before -> Spin -> Out",
        In=reads(),
        Before=node("Passthrough"),
        Spin=node("Python", function=spins),
        Out=writes(),
    )
    kernel, world = Kernel(flow, node_statistics=True), MemoryWorld()
    for _ in range(5):
        world.feed(kernel, "IN", Message(b"<a/>"))
    nodes = kernel.statistics.as_data()["nodes"]
    assert nodes["Spin"]["cpu_ms"] >= 15
    assert nodes["Spin"]["elapsed_ms"] >= 15
    assert nodes["Before"]["cpu_ms"] + nodes["In"]["cpu_ms"] < nodes["Spin"]["cpu_ms"]
    assert kernel.statistics.nodes["Before"].cpu_ns >= kernel.statistics.nodes["Spin"].cpu_ns


def test_errors_are_counted_at_every_node_that_they_passed() -> None:
    flow = drawn(
        "In -> Try",
        "Try.try -> Pass -> Fail",
        "Try.catch -> Out",
        In=reads(),
        Try=node("TryCatch"),
        Pass=node("Passthrough"),
        Fail=node("Throw"),
        Out=writes(),
    )
    kernel, world = Kernel(flow, node_statistics=True), MemoryWorld()
    world.feed(kernel, "IN", Message(b"<a/>"))
    nodes = kernel.statistics.as_data()["nodes"]
    assert {name: told["errors"] for name, told in nodes.items()} == {"In": 0, "Try": 0, "Pass": 1, "Fail": 1, "Out": 0}
    assert kernel.statistics.failed == 0


def test_a_label_counts_as_the_node_it_is() -> None:
    flow = drawn(
        "In -> Go",
        "Red -> Out",
        In=reads(),
        Go=compute(COPY + "PROPAGATE TO LABEL 'red'; RETURN FALSE;"),
        Red=node("Label", label="red"),
        Out=writes(),
    )
    kernel = Kernel(flow, node_statistics=True)
    MemoryWorld().feed(kernel, "IN", Message(b"<a/>"))
    assert kernel.statistics.nodes["Red"].messages == 1
