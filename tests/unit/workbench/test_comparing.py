# SPDX-License-Identifier: Apache-2.0
"""Ratios of what two searches found, worked out by hand; the rest is in tests/spark/test_workbench_analysis.py."""

from __future__ import annotations

import pytest

from entrepot.workbench.analysis.comparing import Series, _ratios


def once(**values: float) -> dict[str, dict[tuple[str, int], float]]:
    return {system.replace("_", "-"): {("run", 0): value} for system, value in values.items()}


def test_ratio_of_two_searches_is_known_no_better_than_their_brackets() -> None:
    series: Series = {
        "mst": once(entrepot_unix=8_000, rabbitmq=4_000),
        "mst_low": once(entrepot_unix=7_500, rabbitmq=3_900),
        "mst_high": once(entrepot_unix=9_000, rabbitmq=5_000),
    }
    (row,) = _ratios(series)
    assert row["value"] / row["other_value"] == pytest.approx(2.0)
    assert (row["low"], row["high"]) == pytest.approx((7_500 / 5_000, 9_000 / 3_900))


def test_ratio_of_single_repetitions_without_a_search_has_no_width() -> None:
    (row,) = _ratios({"throughput": once(entrepot_unix=8_000, rabbitmq=4_000)})
    assert row["low"] == row["high"] == pytest.approx(2.0)
