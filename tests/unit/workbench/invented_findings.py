# SPDX-License-Identifier: Apache-2.0
"""Findings as an analysis could bring them home, made by formulas: no run, no Spark, the same numbers every time."""

from __future__ import annotations

import math
from dataclasses import replace
from zlib import crc32

from entrepot.workbench.analysis.findings import (
    Accounting,
    Capacity,
    Figure,
    FigureComparison,
    Findings,
    ProbeFinding,
    Published,
    SystemSeen,
    TrialSecond,
    UnusableTrial,
)
from entrepot.workbench.catalogue import place_of, published_rows, scenarios
from entrepot.workbench.scenario import Point, Scenario

HOST = "bench-1-0a1b2c3d"
MEASURED = (
    "nstl/1",
    "nstl/3",
    "nstl/7",
    "wbimb/2.1",
    "wbimb/10.1",
    "wmq/1",
    "wmq/5",
    "wmq/6.1",
    "wmq/figure-17",
    "csiro/2",
    "csiro/figure-3",
    "csiro/figure-4",
    "csiro/figure-6",
    "sonicmq/one-to-many-queue",
    "sonicmq/limit-1mb",
)
PEERS = {
    "rabbitmq": ("RabbitMQ, pika", 1.1),
    "activemq": ("ActiveMQ, stomp.py", 0.35),
    "nats": ("NATS, nats-py", 2.2),
    "jetstream": ("JetStream, nats-py", 0.9),
    "redis-streams": ("Redis streams, redis-py", 1.4),
    "postgresql": ("PostgreSQL SKIP LOCKED, psycopg", 0.2),
}
CONTRACTS = {
    "express": "In memory; lost with the server",
    "recoverable": "On disk (fdatasync) before each send returns",
    "transactional": "On disk (fdatasync) before the commit returns",
    "global_unit": "Prepared in the log and in the database, then committed in both",
}
PEER_CONTRACTS = {**CONTRACTS, "recoverable": "Confirmed after the message was written; forced at the broker's leisure"}
METRICS = {
    "send": ("throughput", "cpu", "latency_p50", "latency_p99", "server_cpu_per_message", "lost", "duplicated"),
    "forward": ("throughput", "cpu_sender", "cpu_bridge", "cpu_receiver"),
    "flow": ("throughput", "throughput_full_machine", "cpu", "cpu_per_message"),
    "round-trip": ("round_trips", "response_time", "cpu", "latency_p50", "latency_p99", "lateness_p99"),
    "connected": ("round_trips", "response_time", "memory_per_client", "memory_per_open_queue"),
    "calls": ("call_put_p90", "call_get_p90", "call_commit_p90"),
    "sustained": ("mst", "mst_low", "mst_high"),
    "open-loop": ("sent", "received", "latency_p99", "lateness_p99"),
    "stream": ("sent", "received", "cpu", "latency_p50"),
}
UNITS = {
    "cpu": "%",
    "cpu_per_message": "ms",
    "server_cpu_per_message": "ms",
    "round_trips": "1/s",
    "response_time": "s",
}


def invented_findings() -> Findings:
    """15 scenarios, two repetitions, seven systems, one that crashed and one that is not installed."""
    known = scenarios()
    figures = [row for name in MEASURED for row in _figures(known[name])]
    published = [_published(row) for row in published_rows()]
    marks = [
        UnusableTrial(
            "t-9001",
            "nstl/1",
            _points(known["nstl/1"])[1].key,
            "activemq",
            "failed",
            "ActiveMQ ended with status 137 <OOM>",
        ),
        UnusableTrial(
            "t-9002",
            "wmq/5",
            _points(known["wmq/5"])[0].key,
            "entrepot-tcp",
            "invalid",
            "the generator was too late: 99 % of its messages within 31.0 ms, and 5.0 ms are allowed",
        ),
        UnusableTrial(
            "t-9003", "wmq/8", known["wmq/8"].points[0].key, "entrepot-channels", "failed", "the disk was full"
        ),
    ]
    figures = [
        row for row in figures if (row.scenario, row.point, row.system) != ("nstl/1", marks[0].point, "activemq")
    ]
    return Findings(
        runs=("quick-2026-11-16",),
        environments={
            HOST: {
                "host": "bench-1",
                "cpu": "AMD EPYC 7B13",
                "cores": "2",
                "memory_gib": "8",
                "kernel": "6.1.0",
                "file_system": "ext4",
                "device": "vda",
                "python": "3.11.7",
                "java": "openjdk 17.0.12",
                "force_ms_median": "0.312",
                "force_ms_max": "1.480",
                "write_bytes_per_s": "335000000",
                "version of pika": "1.3.2",
            }
        },
        scales={"quick-2026-11-16": "quick"},
        figures=tuple(figures),
        comparisons=tuple(_comparisons(figures, published)),
        moments=tuple(_moments(known)),
        probes=tuple(_probes(known["csiro/figure-6"])),
        capacities=tuple(_capacities(figures)),
        marks=tuple(marks),
        published=tuple(published),
        absent={"redis-lists": "redis-server not installed: entrepot bench peers install redis-lists"},
        systems=tuple(_systems(figures)),
        accounting=Accounting(trials=412, sent=9_418_022, received=9_418_022, reordered=12),
        loads={"send": 44, "round-trip": 60, "sustained": 30},
        begun={"quick-2026-11-16": "2026-11-16T09:12:44+00:00"},
    )


def invented_without_figures() -> Findings:
    full = invented_findings()
    return replace(
        full,
        figures=(),
        comparisons=(),
        moments=(),
        probes=(),
        capacities=(),
        marks=(),
        systems=(),
        accounting=Accounting(),
        loads={},
        absent={},
    )


def _points(scenario: Scenario) -> tuple[Point, ...]:
    """NSTL's and CSIRO's whole, of the others what a quick run keeps."""
    return scenario.points if scenario.name.startswith(("nstl", "csiro")) else scenario.quick_points()


def _figures(scenario: Scenario) -> list[Figure]:
    systems = {
        f"entrepot-{binding}": (f"Entrepot, {binding}", 1.6 - 0.2 * place)
        for place, binding in enumerate(scenario.entrepot)
    }
    if scenario.load not in ("flow", "forward", "connected", "calls"):
        systems |= PEERS
    rows = []
    for point in _points(scenario):
        for system, (title, speed) in systems.items():
            if point.quality.is_persistent and system == "nats":
                continue
            contract = (CONTRACTS if system.startswith("entrepot") else PEER_CONTRACTS)[point.quality]
            for metric in METRICS[scenario.load]:
                value = _value(metric, point, speed)
                spread = 0.012 + crc32(f"{scenario.name}{point.key}{system}{metric}".encode()) % 60 / 1500
                offered = float(point.parameters.get("rate_factor", 0)) * 4000 * speed or None
                rows.append(
                    Figure(
                        HOST,
                        scenario.name,
                        point.key,
                        {key: str(value) for key, value in point.parameters.items()},
                        system,
                        title,
                        str(point.quality),
                        contract,
                        metric,
                        UNITS.get(
                            metric,
                            "s"
                            if metric.startswith(("lat", "call"))
                            else "KB"
                            if "memory" in metric
                            else "messages"
                            if metric in ("lost", "duplicated")
                            else "msg/s",
                        ),
                        value,
                        value * (1 - spread),
                        value * (1 + spread),
                        2,
                        point.reduced,
                        _verdict(system, speed, point),
                        f"processors {min(99, 60 * speed):.0f} % busy, run queue {speed * 2:.1f}",
                        scenario.load,
                        offered,
                    )
                )
    return rows


def _verdict(system: str, speed: float, point: Point) -> str:
    if speed > 1:
        return "cpu"
    if point.quality.is_persistent:
        return "log latency"
    return "generator" if system == "activemq" else "lock or queue"


def _value(metric: str, point: Point, speed: float) -> float:
    size = float(point.parameters.get("message_bytes", 1000))
    apps = float(point.parameters.get("apps", point.parameters.get("receivers", 1)))
    rate = 9000 * speed / (1 + size / 8000) * (0.2 if point.quality.is_persistent else 1.0)
    factor = float(point.parameters.get("rate_factor", 0))
    if factor:
        sent = 4000 * speed * factor
        return {"sent": sent, "received": min(sent, 4000 * speed * 1.02), "latency_p99": 0.002 * 9**factor}.get(
            metric, 3e-4
        )
    if metric in ("round_trips", "mst", "mst_low", "mst_high"):
        return rate * apps / (apps + 3) / (1 + apps / 400)
    if metric in ("throughput", "throughput_full_machine", "sent", "received"):
        return rate
    if metric.startswith(("latency", "response")):
        return apps / rate * {"latency_p50": 0.8, "latency_p99": 3.1}.get(metric, 1.0)
    if metric.startswith("call"):
        return (25e-6 + size * 2e-9) / speed * (1.5 if "get" in metric else 1.0)
    return {
        "lost": 0.0,
        "duplicated": 0.0,
        "cpu_per_message": 2000 * 0.9 / rate,
        "lateness_p99": 4e-4,
        "server_cpu_per_message": 700 / rate,
        "memory_per_client": 55.0,
        "memory_per_open_queue": 3.4,
    }.get(metric, 90.0)


def _published(row: object) -> Published:
    scenario, point = place_of(row)  # type: ignore[arg-type]
    return Published(scenario, point, row.system, row.metric, row.value, row.unit)  # type: ignore[attr-defined]


def _comparisons(figures: list[Figure], published: list[Published]) -> list[FigureComparison]:
    said: dict[tuple[str, str, str], list[Published]] = {}
    for row in published:
        said.setdefault((row.scenario, row.point, row.metric), []).append(row)
    measured: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in figures:
        measured.setdefault((figure.scenario, figure.point, figure.metric), []).append(figure)
    rows = []
    for key, group in measured.items():
        for ours in group:
            if not ours.system.startswith("entrepot") or not ours.value:
                continue
            others = [(f"published: {row.system}", row.value) for row in said.get(key, ())]
            others += [(row.system, row.value) for row in group if not row.system.startswith("entrepot")]
            for other, value in others:
                rows.append(
                    FigureComparison(
                        HOST,
                        *key,
                        ours.unit,
                        ours.system,
                        other,
                        ours.value,
                        value,
                        ours.value / value,
                        ours.low / value,
                        ours.high / value,
                        ours.reduced,
                    )
                )
    return rows


def _moments(known: dict[str, Scenario]) -> list[TrialSecond]:
    rows = []
    for name in ("csiro/figure-4", "csiro/figure-3", "sonicmq/limit-1mb"):
        for point in _points(known[name])[:2]:
            for place, system in enumerate((f"entrepot-{known[name].entrepot[0]}", "rabbitmq", "jetstream")):
                depth = 0.0
                for second in range(24):
                    sent = (4790.0 + len(name)) * (1 + 0.05 * math.sin(second)) if second < 18 else 0.0
                    received = 4000.0 * (1 - 0.03 * place) if depth > 0 or sent else 0.0
                    depth = max(0.0, depth + sent - received)
                    rows.append(
                        TrialSecond(
                            f"{name}-{point.key}-{system}",
                            name,
                            point.key,
                            system,
                            0,
                            second,
                            sent,
                            received,
                            depth if system != "jetstream" else None,
                            0.01,
                            88.0,
                        )
                    )
    return rows


def _probes(scenario: Scenario) -> list[ProbeFinding]:
    rows = []
    for point in _points(scenario):
        for place, system in enumerate(("entrepot-channels", "rabbitmq")):
            limit = 4200.0 - 900 * place
            for number, offered in enumerate((1000.0, 2000.0, 4000.0, 8000.0, 4400.0, 4100.0, 3600.0), 1):
                sustained = offered <= limit
                rows.append(
                    ProbeFinding(
                        f"p-{point.key}-{system}-{number}",
                        scenario.name,
                        point.key,
                        system,
                        1,
                        number,
                        offered,
                        min(offered, limit),
                        0.0 if sustained else offered - limit,
                        0.004 if sustained else 1.9,
                        0,
                        sustained,
                        "depth slope within 0.5 % of the rate" if sustained else "the backlog grew",
                    )
                )
    return rows


def _capacities(figures: list[Figure]) -> list[Capacity]:
    rows = []
    for figure in figures:
        if figure.metric in ("throughput", "round_trips") and figure.value > 0:
            law = (900.0, 0.04, 0.0008) if figure.scenario == "wmq/1" else None
            note = "residuals up to 4 %" if law else ""
            rows.append(
                Capacity(
                    HOST,
                    figure.scenario,
                    figure.point,
                    figure.system,
                    700 / figure.value,
                    1000 / figure.value,
                    1.3,
                    figure.value,
                    2,
                    law,
                    note,
                )
            )
    return rows


def _systems(figures: list[Figure]) -> list[SystemSeen]:
    seen = {}
    for row in figures:
        version = (
            "Entrepot 0.1.0"
            if row.system.startswith("entrepot")
            else f"{row.title.partition(',')[0]} 3.10.8, client 1.3.2"
        )
        settings = {"queue mode": "lazy, which favours long queues"} if row.system == "rabbitmq" else {}
        seen[row.system, row.quality] = SystemSeen(
            HOST, row.system, row.title, version, row.quality, row.contract, settings
        )
    return list(seen.values())
