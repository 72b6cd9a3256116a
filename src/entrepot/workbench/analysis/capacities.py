# SPDX-License-Identifier: Apache-2.0
"""From figures to what a message costs: the inputs of capacity.py for every system and point that has them.

The rate is the highest that was measured or found by a search. While a
server is saturated, its time for one message is the reciprocal of that
rate, and how its completions vary is how its service varies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from entrepot.workbench.analysis.capacity import POINTS_MIN, fit_scalability
from entrepot.workbench.analysis.findings import Capacity, Figure
from entrepot.workbench.measuring.record import RunRecord

RATES = ("mst", "throughput", "round_trips")
COSTS = ("cpu_per_message", "server_cpu_per_message")
"""CPU of the server for each message; a load that counts more than the server's processes tells its own."""
AXES = ("apps", "threads", "instances", "execution_groups", "senders", "receivers", "subscribers")
"""What can be the number of clients in the scalability law."""
HARD_CAPS = frozenset({"generator", "network", "log bandwidth"})
"""Limits that lie outside of the software: a curve that meets one flattens, and contention is not why."""
RESIDUAL_MAX = 0.1
"""A law that misses a point by more than this is shown with a warning."""
VARIATION_ASSUMED = 1.0
"""Of service times where none was seen: those of an exponential distribution."""
Scalability = tuple[tuple[float, float, float] | None, str]


def capacities(figures: Iterable[Figure], runs: Iterable[RunRecord]) -> tuple[Capacity, ...]:
    """One for each host, scenario, point and system with a rate that was the system's own and a cost."""
    cores = {run.host: int(run.environment.get("cores", "1")) for run in runs}
    points: dict[tuple[str, str, str, str], dict[str, Figure]] = {}
    for figure in figures:
        points.setdefault((figure.host, figure.scenario, figure.point, figure.system), {})[figure.metric] = figure
    laws = _laws(points.values())
    found = []
    for (host, scenario, point, system), metrics in points.items():
        rate = next((metrics[name] for name in RATES if name in metrics), None)
        cost = next((metrics[name] for name in COSTS if name in metrics), None)
        # A programmed rate is what was asked for and not what the system can do; only a search finds that.
        if rate is None or cost is None or rate.value <= 0 or (rate.metric != "mst" and rate.offered_per_s is not None):
            continue
        variation = metrics.get("service_variation")
        law, note = laws.get((host, scenario, point, system), (None, ""))
        found.append(
            Capacity(
                host=host,
                scenario=scenario,
                point=point,
                system=system,
                cpu_ms_per_message=cost.value,
                service_ms=1000 / rate.value,
                service_variation=VARIATION_ASSUMED if variation is None else variation.value,
                rate_max_per_s=rate.value,
                cores=cores.get(host, 1),
                scalability=law,
                scalability_note=note,
            )
        )
    return tuple(found)


def _laws(points: Iterable[Mapping[str, Figure]]) -> dict[tuple[str, str, str, str], Scalability]:
    """The scalability law over each set of points that differ in one axis only."""
    rates = [next((metrics[name] for name in RATES if name in metrics), None) for metrics in points]
    curves: dict[tuple[object, ...], list[Figure]] = {}
    for figure in rates:
        if figure is None:
            continue
        for axis in AXES:
            if axis in figure.parameters:
                others = tuple(sorted((name, value) for name, value in figure.parameters.items() if name != axis))
                curves.setdefault((figure.host, figure.scenario, figure.system, axis, others), []).append(figure)
    laws = {}
    for (_, _, _, along, _), curve in curves.items():
        if len({figure.parameters[str(along)] for figure in curve}) > 1:
            law = _law(str(along), curve)
            laws.update({(one.host, one.scenario, one.point, one.system): law for one in curve})
    return laws


def _law(axis: str, curve: list[Figure]) -> Scalability:
    below = [figure for figure in curve if figure.bottleneck not in HARD_CAPS and not figure.reduced]
    clients = [float(figure.parameters[axis]) for figure in below]
    if len(set(clients)) < POINTS_MIN:
        return None, f"{len(set(clients))} numbers of {axis} lie below hard caps, and the law needs {POINTS_MIN}."
    found = fit_scalability(clients, [figure.value for figure in below])
    if found is None:
        return None, f"no scalability law fits the rates over {axis}."
    worst = max(abs(residual) for residual in found.residuals)
    note = (
        f"over {axis}, one alone {found.per_client:,.0f}/s, contention {found.contention:.3g}, crosstalk "
        f"{found.crosstalk:.2g}; measured and fitted differ by at most {worst:.1%}"
    )
    note += ": do not extrapolate." if worst > RESIDUAL_MAX else "."
    return (found.per_client, found.contention, found.crosstalk), note
