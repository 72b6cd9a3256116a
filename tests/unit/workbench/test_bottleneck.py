# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from entrepot.workbench.search.bottleneck import Facts, verdict
from folding import for_each

IDLE: dict[str, Any] = {"machine_busy_share": 0.4, "cores": 2, "server_cpu_cores": 0.3, "run_queue": 1.0}
FORCING = {"is_persistent": True, "flushes_per_s": 950.0, "flush_ms": 1.0}
GROWING = {"rate_per_s": 1000.0, "depth_slope_per_s": 100.0}


@for_each(
    ("name", "facts", "told"),
    [
        ("generator", {**IDLE, "generator_cpu_share": 0.97}, "97% of a core"),
        ("generator", {**IDLE, "generator_cpu_share": 0.9, "generator_lateness_p99_s": 0.4}, "400 ms late"),
        # A server of one thread is at its end with one core, one of many threads is not.
        ("cpu", {**IDLE, "server_cpu_cores": 0.99, "server_threads": 1}, "0.99 of the 1 cores"),
        ("lock or queue", {**IDLE, "server_cpu_cores": 0.99}, "nothing was busy"),
        ("cpu", {**IDLE, "machine_busy_share": 0.98}, "busy 98%"),
        ("cpu", {**IDLE, "run_queue": 4.0}, "4.0 runnable threads on 2 cores"),
        ("log latency", {**IDLE, **FORCING}, "950 flushes/s of 1.00 ms took 95%"),
        (
            "log bandwidth",
            {**IDLE, **FORCING, "write_bytes_per_s": 180e6, "write_bandwidth_bytes_per_s": 200e6},
            "180 MB/s of 200 MB/s",
        ),
        (
            "log latency",
            {**IDLE, **FORCING, "write_bytes_per_s": 20e6, "write_bandwidth_bytes_per_s": 200e6},
            "950 flushes/s",
        ),
        # One sender who waits for each answer: the disk rests most of the time, and still it is what he waits for.
        (
            "log latency",
            {**IDLE, **FORCING, "flush_ms": 0.2, "rate_per_s": 940.0},
            "each waited for a force of its own",
        ),
        ("lock or queue", {**IDLE, **FORCING, "flush_ms": 0.2, "rate_per_s": 2000.0}, "nothing was busy"),
        ("network", {**IDLE, "network_bytes_per_s": 9e8, "network_limit_bytes_per_s": 1e9}, "900 MB/s of 1,000 MB/s"),
        ("getter shortage", {**IDLE, **GROWING, "getters": 0}, "nothing was getting"),
        ("getter shortage", {**IDLE, **GROWING, "getters": 2, "getter_wait_share": 0.1}, "only 10% of their time"),
        # Messages are there and the getters ask for them: more getters would wait with them.
        ("lock or queue", {**IDLE, **GROWING, "getters": 2, "getter_wait_share": 0.7}, "getters waited 70%"),
        ("getter shortage", {**IDLE, **GROWING, "getters": 1, "getter_cpu_share": 0.95}, "getter used 95%"),
        ("none", {**IDLE, "is_rated": True, "rate_per_s": 500.0, "delivered_share": 1.0}, "100.0% of 500/s"),
        ("lock or queue", IDLE, "the machine 40%, the server 0.30 cores"),
        ("lock or queue", {**IDLE, "machine_busy_share": 0.5}, "0.30 cores; about one core in all, as when a caller"),
        # CSIRO's persistent messages outside a unit of work: the log is busy less than half of the time.
        ("lock or queue", {**IDLE, **FORCING, "flushes_per_s": 130.0}, "flushed 130 times/s"),
        ("unknown", {}, "not known how busy the machine was, nor what the server used"),
        ("unknown", {**IDLE, "is_persistent": True}, "what the log did"),
    ],
)
def test_bottleneck_is_named_with_its_numbers(name: str, facts: dict[str, Any], told: str) -> None:
    found, evidence = verdict(Facts(**facts))
    assert (found, told in evidence) == (name, True), evidence


@pytest.mark.parametrize(
    ("busy", "cores", "takes_turns"), [(0.5, 2, True), (0.3, 2, False), (0.7, 2, False), (1.0, 1, False)]
)
def test_a_lone_caller_and_the_server_use_one_core_together(busy: float, cores: int, takes_turns: bool) -> None:
    found = verdict(Facts(**{**IDLE, "machine_busy_share": busy, "cores": cores, "run_queue": 0.0}))
    assert ("take turns" in found.evidence) is takes_turns


@for_each(
    ("name", "facts", "also"),
    [
        # A late generator spoils the trial, whatever else was busy.
        ("generator", {"machine_busy_share": 0.99, "generator_cpu_share": 0.95, "generator_lateness_p99_s": 1.0}, ""),
        # On a full machine one more generator would only take from the server.
        ("cpu", {**IDLE, "machine_busy_share": 0.99, "generator_cpu_share": 0.95}, ""),
        # Nobody can keep more than what was asked for.
        ("none", {**IDLE, **FORCING, "is_rated": True, "delivered_share": 0.999}, ""),
        ("log latency", {**IDLE, **FORCING, **GROWING, "is_rated": True, "delivered_share": 0.9}, ""),
        ("log latency", {**IDLE, **FORCING, "machine_busy_share": 0.93}, "also cpu"),
        ("cpu", {**IDLE, **FORCING, "flush_ms": 0.8, "machine_busy_share": 1.0}, "also log latency"),
        # Flushes of several files overlap: 130 % of the time is not more than always.
        ("log latency", {**IDLE, **FORCING, "flushes_per_s": 1300.0}, "130%"),
        # The getters are slow because the machine is full.
        ("cpu", {**IDLE, **GROWING, "machine_busy_share": 0.99, "getter_cpu_share": 0.9}, ""),
        # A getter is a generator, too: only where messages pile up is it the one that there are too few of.
        ("getter shortage", {**IDLE, **GROWING, "generator_cpu_share": 0.95, "getter_cpu_share": 0.95}, "a core"),
        ("generator", {**IDLE, **GROWING, "generator_cpu_share": 0.95, "getter_cpu_share": 0.9}, ""),
        ("generator", {**IDLE, "generator_cpu_share": 0.95, "getter_cpu_share": 0.95}, ""),
        # What getters are long about may be the log's or the processor's doing.
        ("log latency", {**IDLE, **FORCING, **GROWING, "getter_wait_share": 0.1}, ""),
        ("cpu", {**IDLE, **GROWING, "machine_busy_share": 0.99, "getter_wait_share": 0.1}, ""),
        ("lock or queue", {**IDLE, "rate_per_s": 1000.0, "depth_slope_per_s": 1.0, "getter_wait_share": 0.1}, ""),
        # Lateness of a generator that has time left is the system's doing.
        ("log latency", {**IDLE, **FORCING, "generator_lateness_p99_s": 2.0, "generator_cpu_share": 0.2}, ""),
    ],
)
def test_of_several_the_strongest_comes_first(name: str, facts: dict[str, Any], also: str) -> None:
    found, evidence = verdict(Facts(**facts))
    assert (found, also in evidence) == (name, True), evidence
