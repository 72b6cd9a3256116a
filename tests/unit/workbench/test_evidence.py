# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from entrepot.workbench.search.evidence import Evidence, SustainCriteria, combined, judge
from entrepot.workbench.statistics.trends import Trend
from folding import for_each

GOOD = Evidence(
    offered_per_s=10_000,
    sent_per_s=10_000,
    delivered_per_s=10_000,
    duration_s=10,
    depth=Trend(0.0, 2.0),
    depth_swing=20,
    left_per_s=(3.5,),
    latency=Trend(0.0, 0.0001),
    latency_p99_s=0.004,
    lost=0,
    duplicated=0,
    lateness_p99_s=0.001,
    behind_share=0.0,
    in_calls_share=0.3,
    call_p99_s=0.001,
    generator_cpu_share=0.4,
)


BEHIND = {"behind_share": 0.2, "sent_per_s": 8_000, "left_per_s": (2_000,)}


def test_good_evidence_is_sustained_and_names_its_numbers() -> None:
    found = judge(GOOD, SustainCriteria())
    assert found.answer == "sustained"
    assert found.likely_sustained > 0.99
    assert "100.00% of 10,000/s were delivered" in str(found)
    assert "depth, at its lowest, grew by at most 3.5/s" in str(found)


@for_each(
    ("changes", "answer", "told"),
    [
        ({"depth": Trend(212, 4)}, "not_sustained", "depth grew by 212/s, more than 0.5% of 10,000/s"),
        ({"lost": 3}, "not_sustained", "3 of 100,000 messages were lost"),
        ({"duplicated": 1}, "not_sustained", "1 of 100,000 messages came more than once"),
        (
            {"delivered_per_s": 9_900, "depth": Trend(100, 20), "left_per_s": (100,)},
            "not_sustained",
            "9,900/s were delivered of 10,000/s sent, 99.0% of what was offered",
        ),
        ({"latency": Trend(0.02, 0.001)}, "not_sustained", "latency grew by 20.0 ms each second, more than 5.0 ms"),
        # Grown, but nobody can tell whether by chance.
        (
            {"depth": Trend(60, 40), "left_per_s": (60,)},
            "unsteady",
            "not caught up; depth changed by -10.1 to +130/s, and 50/s lies between",
        ),
        # A peak makes the trend uncertain, but the backlog came down again.
        ({"depth": Trend(60, 400)}, "sustained", "delivered"),
        ({"depth": Trend(0, math.inf)}, "sustained", "delivered"),
        # A pause at the very end leaves a backlog of which one probe cannot tell whether it would grow.
        ({"delivered_per_s": 9_900, "depth": Trend(60, 90), "left_per_s": (90,)}, "unsteady", "not caught up"),
        (
            {"depth": Trend(60, 90), "left_per_s": (90, 120)},
            "not_sustained",
            "none of 2 probes caught up: their lowest backlogs grew by 90/s to 120/s",
        ),
        ({"depth": Trend(60, 90), "left_per_s": (-2, 120)}, "unsteady", "1 of 2 probes caught up"),
        ({"lost": None}, "unsteady", "were not drained"),
        ({"sent_per_s": 1.5}, "unsteady", "only 15 messages"),
        ({"depth": Trend(212, 4), "is_warm": False}, "unsteady", "still warming up"),
        ({"is_warm": False}, "sustained", "delivered"),
        (
            {**BEHIND, "delivered_per_s": 8_000, "generator_cpu_share": 0.98},
            "generator_limited",
            "sent 8,000/s of 10,000/s; its busiest process used 98% of a core",
        ),
        ({"lateness_p99_s": 0.5, "left_per_s": (60,)}, "generator_limited", "500 ms late or later, more than 100 ms"),
        # Late now and then, but all was sent, and that was too much.
        (
            {"lateness_p99_s": 0.5, "left_per_s": (200,), "depth": Trend(212, 4)},
            "not_sustained",
            "depth grew by 212/s",
        ),
        (
            {"lateness_p99_s": 0.5, "left_per_s": (200,), "depth": Trend(212, 4), "generator_cpu_share": 0.9},
            "generator_limited",
            "used 90% of a core",
        ),
        # Late for a moment, and all of it was delivered nevertheless.
        ({"lateness_p99_s": 0.5, "behind_share": 0.02}, "sustained", "delivered"),
        # The system made its senders wait: a limit of the system, unless their processor is at its end as well.
        (
            {**BEHIND, "delivered_per_s": 8_000, "in_calls_share": 0.99, "lateness_p99_s": 2},
            "not_sustained",
            "senders were held back in their calls (99% of the time) and sent 8,000/s of 10,000/s",
        ),
        (
            {**BEHIND, "in_calls_share": 0.99, "generator_cpu_share": 0.95},
            "generator_limited",
            "fell behind",
        ),
        ({"lateness_p99_s": 0.3, "call_p99_s": 0.25}, "sustained", "delivered"),
        (
            {**BEHIND, "in_calls_share": None, "call_p99_s": None},
            "generator_limited",
            "",
        ),
    ],
)
def test_each_criterion_decides_by_itself(changes: dict[str, Any], answer: str, told: str) -> None:
    found = judge(replace(GOOD, **changes), SustainCriteria())
    assert (found.answer, told in str(found)) == (answer, True), str(found)


def test_an_unsteady_probe_still_tells_which_side_is_likelier() -> None:
    left = replace(GOOD, left_per_s=(60,))
    up = judge(replace(left, depth=Trend(60, 40)), SustainCriteria()).likely_sustained
    down = judge(replace(left, depth=Trend(20, 40)), SustainCriteria()).likely_sustained
    assert up == pytest.approx(0.401, abs=0.001)
    assert down == pytest.approx(0.773, abs=0.001)
    assert judge(replace(GOOD, depth=Trend(60, 40)), SustainCriteria()).likely_sustained == 0.9


def test_criteria_can_be_stricter() -> None:
    assert judge(replace(GOOD, depth=Trend(30, 1)), SustainCriteria()).answer == "sustained"
    assert judge(replace(GOOD, depth=Trend(30, 1)), SustainCriteria(growth_share_max=0.001)).answer == "not_sustained"


def test_four_probes_together_know_twice_as_much_as_one() -> None:
    one = replace(GOOD, depth=Trend(80, 24), left_per_s=(80,))
    assert judge(one, SustainCriteria()).answer == "unsteady"
    together = combined([one] * 4)
    assert together.depth == Trend(80, 12)
    assert together.duration_s == 40
    assert together.left_per_s == (80, 80, 80, 80)
    assert "depth grew by 80/s" in str(judge(together, SustainCriteria()))


def test_probes_together_are_as_bad_as_their_worst() -> None:
    together = combined([GOOD, replace(GOOD, lost=2, lateness_p99_s=1, generator_cpu_share=None)])
    assert (together.lost, together.lateness_p99_s) == (2, 1)
    assert together.generator_cpu_share == 0.4
    assert combined([GOOD, replace(GOOD, lost=None)]).lost is None


def test_who_was_warm_in_one_probe_has_warmed_up() -> None:
    cold = replace(GOOD, is_warm=False)
    assert combined([cold, GOOD]).is_warm
    assert not combined([cold, cold]).is_warm
