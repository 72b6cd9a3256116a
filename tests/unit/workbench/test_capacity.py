# SPDX-License-Identifier: Apache-2.0
"""The formulas of capacity planning, against values that textbooks print or that can be had by hand."""

from __future__ import annotations

import math

import numpy
import pytest

from entrepot.workbench.analysis.capacities import capacities
from entrepot.workbench.analysis.capacity import (
    cores_needed,
    erlang_c,
    fit_scalability,
    peak_clients,
    waiting_ms,
)
from entrepot.workbench.analysis.findings import Figure
from entrepot.workbench.measuring.record import RunRecord


def test_utilisation_law_gives_cores():
    # 2,000 messages of 1.11 CPU ms each are 2.22 busy cores; at 65 % of their time, 3.42.
    assert cores_needed(2000, 1.11) == pytest.approx(2.22 / 0.65)
    assert cores_needed(1000, 1.0, target=1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("busy", [0.1, 0.5, 0.8, 0.95])
def test_exponential_service_waits_as_m_m_1_says(busy: float):
    # Wq = ρ² / (λ(1 − ρ)); with a service of 10 ms, λ = 100ρ.
    rate = 100 * busy
    assert waiting_ms(rate, 10, 1.0) == pytest.approx(1000 * busy**2 / (rate * (1 - busy)))


def test_constant_service_waits_half_as_long():
    assert waiting_ms(80, 10, 0.0) == pytest.approx(waiting_ms(80, 10, 1.0) / 2)
    assert waiting_ms(80, 10, 0.0) == pytest.approx(20.0)


def test_nobody_waits_without_load_and_all_wait_for_ever_at_saturation():
    assert waiting_ms(0, 10, 1.0) == 0
    assert waiting_ms(100, 10, 1.0) == math.inf
    assert waiting_ms(250, 10, 1.0, servers=2) == math.inf


def test_erlang_c_as_in_the_tables():
    # One server: the share that waits is the utilisation. Two servers with 1 erlang: 1/3. Five with 4: 0.5541.
    assert erlang_c(0.7, 1) == pytest.approx(0.7)
    assert erlang_c(1.0, 2) == pytest.approx(1 / 3)
    assert erlang_c(4.0, 5) == pytest.approx(0.55411, abs=1e-5)


def test_two_servers_wait_as_m_m_2_says():
    # Wq = ρ² S / (1 − ρ²) for two servers.
    busy, service_ms = 0.75, 20.0
    assert waiting_ms(2 * busy / service_ms * 1000, service_ms, 1.0, servers=2) == pytest.approx(
        busy**2 * service_ms / (1 - busy**2)
    )


def law(clients: float, per_client: float, contention: float, crosstalk: float) -> float:
    return per_client * clients / (1 + contention * (clients - 1) + crosstalk * clients * (clients - 1))


@pytest.mark.parametrize(
    "planted", [(1000, 0.05, 0.001), (5360, 0.0, 4.1e-4), (300, 0.2, 0.0), (70, 0.0, 0.0), (995.6, 0.02671, 0.000769)]
)
def test_scalability_fit_finds_the_planted_law(planted: tuple[float, float, float]):
    clients = [1, 2, 4, 8, 16, 32]
    found = fit_scalability(clients, [law(n, *planted) for n in clients])
    assert found is not None
    assert (found.per_client, found.contention, found.crosstalk) == pytest.approx(planted, rel=1e-4, abs=1e-7)
    assert max(abs(residual) for residual in found.residuals) < 1e-6


def test_scalability_fit_bears_noise_and_shows_it():
    random = numpy.random.default_rng(7)
    clients = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    noisy = [law(n, 1000, 0.05, 0.001) * random.normal(1, 0.02) for n in clients]
    found = fit_scalability(clients, noisy)
    assert found is not None
    assert found.per_client == pytest.approx(1000, rel=0.05)
    assert found.contention == pytest.approx(0.05, abs=0.02)
    assert found.crosstalk == pytest.approx(0.001, abs=5e-4)
    assert 0.005 < max(abs(residual) for residual in found.residuals) < 0.08


def test_superlinear_rates_leave_a_law_without_negative_shares():
    found = fit_scalability([1, 2, 4, 8], [992, 2143, 4415, 10820])
    assert found is not None
    assert found.contention == found.crosstalk == 0
    assert max(found.residuals) > 0.05


def test_no_other_law_fits_ibms_core_scaling_better():
    """Round trips per second of MQ 9.3.3 on 1 to 32 cores, against all laws of a fine grid."""
    clients, rates = [1, 2, 4, 8, 16, 32], numpy.array([5506, 11073, 18454, 37794, 82051, 121166])
    found = fit_scalability(clients, rates.tolist())
    assert found is not None

    def error(*parameters: float) -> float:
        return float(sum((1 - law(n, *parameters) / rate) ** 2 for n, rate in zip(clients, rates, strict=True)))

    least = error(found.per_client, found.contention, found.crosstalk)
    assert least == pytest.approx(sum(residual**2 for residual in found.residuals))
    for per_client in numpy.linspace(4800, 6000, 25):
        for contention in (0.0, 0.002, 0.01, 0.05):
            for crosstalk in numpy.linspace(0, 1e-3, 21):
                assert error(per_client, contention, crosstalk) >= least - 1e-12


@pytest.mark.parametrize(
    ("clients", "rates"), [([1, 2, 3], [1, 2, 3]), ([1, 1, 2, 3], [1, 1, 2, 3]), ([1, 2, 3, 4], [1, 2, 0, 4])]
)
def test_too_little_is_not_fitted(clients: list[float], rates: list[float]):
    assert fit_scalability(clients, rates) is None


def test_a_law_without_crosstalk_never_peaks():
    assert peak_clients(0.1, 0.0) == math.inf
    assert peak_clients(0.04, 0.0024) == pytest.approx(20)


# --- from figures to capacities -----------------------------------------------------------------------


def figure(metric: str, value: float, apps: int, bottleneck: str = "cpu", **changes: object) -> Figure:
    fields = {
        "host": "h",
        "scenario": "wmq/1",
        "point": f"apps={apps}",
        "parameters": {"apps": str(apps), "quality": "express"},
        "system": "entrepot-unix",
        "title": "",
        "quality": "express",
        "contract": "",
        "metric": metric,
        "unit": "",
        "value": value,
        "low": value,
        "high": value,
        "repetitions": 1,
        "reduced": "",
        "bottleneck": bottleneck,
        "evidence": "",
    }
    return Figure(**{**fields, **changes})  # type: ignore[arg-type]


RUN = RunRecord(run="r", begun="", scale="quick", scenarios=[], systems=[], host="h", environment={"cores": "2"})


def test_scalability_is_fitted_below_hard_caps_only():
    planted = (1000.0, 0.05, 0.001)
    curve = [figure("round_trips", law(apps, *planted), apps) for apps in (1, 2, 4, 8, 16)]
    capped = figure("round_trips", 3000.0, 32, bottleneck="network")
    cost = [figure("server_cpu_per_message", 0.1, apps) for apps in (1, 2, 4, 8, 16, 32)]
    found = capacities([*curve, capped, *cost], [RUN])
    assert len(found) == 6
    assert found[0].scalability == pytest.approx(planted, rel=1e-3)
    assert found[0].service_ms == pytest.approx(1.0)
    assert found[0].cores == 2


def test_too_few_points_below_caps_are_told():
    figures = [figure("round_trips", 1000.0, apps, bottleneck="generator") for apps in (1, 2, 4, 8)]
    (found, *_) = capacities([*figures, figure("server_cpu_per_message", 0.1, 1)], [RUN])
    assert found.scalability is None
    assert "0 numbers of apps lie below hard caps" in found.scalability_note


def test_a_programmed_rate_is_no_capacity():
    rated = figure("round_trips", 100.0, 1, offered_per_s=100.0)
    assert capacities([rated, figure("server_cpu_per_message", 0.1, 1)], [RUN]) == ()
    searched = figure("mst", 900.0, 1, offered_per_s=880.0)
    (found,) = capacities([searched, figure("server_cpu_per_message", 0.1, 1)], [RUN])
    assert found.rate_max_per_s == 900.0
