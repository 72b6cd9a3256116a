# SPDX-License-Identifier: Apache-2.0
"""What a rate would need: utilisation law, waiting times, the scalability law.

Plain formulas over figures that were measured; none of them knows Spark. A
model is a model: the report warns where one stops being true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

TARGET_UTILISATION = 0.65
"""Of processors: the middle of what operators plan with (0.6 to 0.7); above it, waiting grows faster than the load."""
POINTS_MIN = 4
"""The scalability law has three parameters; with three points it would fit anything."""
ITERATIONS = 50


def cores_needed(rate_per_s: float, cpu_ms: float, target: float = TARGET_UTILISATION) -> float:
    """Utilisation law: how many cores a rate keeps busy, with room to spare."""
    return rate_per_s * cpu_ms / 1000 / target


def utilisation(rate_per_s: float, service_ms: float, servers: int = 1) -> float:
    return rate_per_s * service_ms / 1000 / servers


def waiting_ms(rate_per_s: float, service_ms: float, variation: float, servers: int = 1) -> float:
    """Mean time in the queue before service; infinite from saturation on.

    One server: M/G/1, exact for Poisson arrivals (Pollaczek and Khinchine).
    Several: M/M/k by Erlang's C formula, scaled by (1 + variation) / 2 (Lee
    and Longton), which is an approximation. `variation` is the squared
    coefficient of variation of the service time.
    """
    busy = utilisation(rate_per_s, service_ms, servers)
    if busy >= 1:
        return math.inf
    if busy <= 0:
        return 0.0
    waits = erlang_c(busy * servers, servers)
    return waits * service_ms / (servers * (1 - busy)) * (1 + variation) / 2


def erlang_c(offered: float, servers: int) -> float:
    """The share of arrivals that must wait, of `offered` erlangs on so many servers."""
    blocked = 1.0
    for number in range(1, servers + 1):
        # Erlang's B by its recursion, which has no factorials to overflow.
        blocked = offered * blocked / (number + offered * blocked)
    return servers * blocked / (servers - offered * (1 - blocked))


# --- universal scalability law ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scalability:
    """X(N) = λN / (1 + α(N − 1) + βN(N − 1))."""

    per_client: float
    """λ: what one client alone would get."""
    contention: float
    """α: the share of work that only one can do at a time."""
    crosstalk: float
    """β: what clients cost each other in pairs; above 0, more clients can mean less work."""
    residuals: tuple[float, ...]
    """(measured − fitted) / measured, a point each."""

    def rate(self, clients: float) -> float:
        return (
            self.per_client * clients / (1 + self.contention * (clients - 1) + self.crosstalk * clients * (clients - 1))
        )


def peak_clients(contention: float, crosstalk: float) -> float:
    """Where the rate is highest; infinite when it only ever grows."""
    if crosstalk <= 0:
        return math.inf
    return math.sqrt(max(0.0, 1 - contention) / crosstalk)


def fit_scalability(clients: Sequence[float], rates: Sequence[float]) -> Scalability | None:
    """Least squares of relative errors, with α and β not below 0; None with fewer than POINTS_MIN different points.

    Begins with the linear form N/X = (1 + α(N−1) + βN(N−1)) / λ and improves
    it by Gauss and Newton. A law that does not hold shows in its residuals.
    """
    points, measured = numpy.asarray(clients, dtype=float), numpy.asarray(rates, dtype=float)
    if len(set(points.tolist())) < POINTS_MIN or (measured <= 0).any() or (points <= 0).any():
        return None
    best: Scalability | None = None
    # A parameter that would come out negative is left out instead, so all ways to leave some out are tried.
    for active in ((True, True), (True, False), (False, True), (False, False)):
        found = _fit(points, measured, active)
        if found is not None and (best is None or _error(found) < _error(best) - 1e-12):
            best = found
    return best


def _fit(
    points: NDArray[numpy.float64], rates: NDArray[numpy.float64], active: tuple[bool, bool]
) -> Scalability | None:
    terms = [points - 1, points * (points - 1)]
    columns = [numpy.ones_like(points), *(term for term, used in zip(terms, active, strict=True) if used)]
    design = numpy.column_stack(columns)
    # Relative errors: what is fitted is X·(…)/(λN), which is 1 where the law holds.
    weight = rates / points
    solution, *_ = numpy.linalg.lstsq(design * weight[:, None], numpy.ones_like(points), rcond=None)
    for _ in range(ITERATIONS):
        demand = design @ solution
        if (demand <= 0).any():
            return None
        fitted = points / demand
        slope = -(points / demand**2 / rates)[:, None] * design
        step, *_ = numpy.linalg.lstsq(slope, (rates - fitted) / rates, rcond=None)
        solution = solution + step
        if numpy.abs(step).max() <= 1e-12 * numpy.abs(solution).max():
            break
    if solution[0] <= 0 or (solution[1:] < 0).any():
        return None
    shares = iter((solution[1:] / solution[0]).tolist())
    contention, crosstalk = (next(shares) if used else 0.0 for used in active)
    fitted = points / (design @ solution)
    residuals = tuple(((rates - fitted) / rates).tolist())
    return Scalability(1 / float(solution[0]), contention, crosstalk, residuals)


def _error(found: Scalability) -> float:
    return sum(residual**2 for residual in found.residuals)
