# SPDX-License-Identifier: Apache-2.0
"""The search has to find out what simulated servers can do, and to refuse where nobody can know."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import pytest

from entrepot.errors import RateNotSustainable
from entrepot.workbench.loads.open_loop import PILOT_MIN_PER_S
from entrepot.workbench.loads.sustained import START_SHARE, search_effort
from entrepot.workbench.measuring.effort import EFFORTS
from entrepot.workbench.search.edge import Edge
from entrepot.workbench.search.evidence import Evidence, SustainCriteria
from entrepot.workbench.search.observing import Rows
from entrepot.workbench.search.search import WANDERED, Probe, SearchEffort, Sustained, search
from folding import for_each

from .simulated_servers import (
    Bench,
    Collapsing,
    Exponential,
    GroupCommit,
    Lossy,
    Pausing,
    Repeating,
    Server,
    Stalling,
    Steady,
    Wandering,
    WarmingUp,
)

TOLERANCE = 0.03
WIDTH_MAX = 1.08
# By messages, since virtual time costs nothing: a slow server gets as many as a fast one.
BRIEF = SearchEffort(seconds_short=0, seconds_long=0, messages_short=4_000, messages_long=16_000, probes_max=60)
PATIENT = SearchEffort(seconds_short=0, seconds_long=0, messages_short=5_000, messages_long=80_000, probes_max=60)


def found_by(bench: Bench, effort: SearchEffort = BRIEF, start: float = 1 / 7) -> Sustained:
    return search(bench.probe, start_per_s=bench.server.capacity_per_s * start, effort=effort)


def is_right(found: Sustained, capacity_per_s: float) -> bool:
    is_near = abs(found.rate_per_s / capacity_per_s - 1) <= TOLERANCE
    is_narrow = found.high <= found.rate_per_s * WIDTH_MAX
    return found.is_confirmed and is_near and is_narrow and found.low <= capacity_per_s <= found.high


def pausing(capacity_per_s: float, seed: int) -> Server:
    server = Pausing(capacity_per_s, seed)
    # Twenty pauses in a long probe, whatever its time.
    server.pause_s = PATIENT.messages_long / capacity_per_s / 20 * server.share
    return server


def warming_up(capacity_per_s: float, seed: int) -> Server:
    server = WarmingUp(capacity_per_s, seed)
    server.warm_s = 1500 / capacity_per_s
    return server


CASES = [
    *[(Steady, capacity, 0, BRIEF) for capacity in (50, 1_234, 100_000)],
    *[(GroupCommit, capacity, seed, BRIEF) for capacity, seed in ((50, 1), (3_300, 2), (100_000, 3))],
    (Exponential, 2_000, 2, PATIENT),
    (pausing, 10_000, 2, PATIENT),
    (warming_up, 5_000, 2, BRIEF),
    *[
        pytest.param(kind, capacity, seed, effort, marks=pytest.mark.torture)
        for kind, effort in ((Exponential, PATIENT), (pausing, PATIENT), (warming_up, BRIEF))
        for capacity, seed in ((50, 1), (100_000, 3))
    ],
]


@pytest.mark.parametrize(("kind", "capacity_per_s", "seed", "effort"), CASES)
def test_capacity_is_found_within_three_percent_and_lies_in_the_interval(
    kind: Callable[[float, int], Server], capacity_per_s: float, seed: int, effort: SearchEffort
) -> None:
    found = found_by(Bench(kind(capacity_per_s, seed)), effort)
    assert is_right(found, capacity_per_s), (found.rate_per_s, found.low, found.high, found.verdict)


@pytest.mark.parametrize("start", [1 / 300, 0.97, 1.0, 40])
def test_capacity_is_found_from_wherever_the_search_starts(start: float) -> None:
    assert is_right(found_by(Bench(Steady(800)), start=start), 800)


QUICK = search_effort(EFFORTS["quick"])


@for_each("kind", [Wandering, Stalling])
@for_each("seed", range(6))
def test_machine_that_wanders_gets_an_interval_that_holds_the_truth(
    kind: Callable[[float, int], Server], seed: int
) -> None:
    found = found_by(Bench(kind(1_500, seed)), QUICK, start=0.5)
    assert found.is_confirmed, found.verdict
    assert found.low <= 1_500 <= found.high, (found.rate_per_s, found.low, found.high)
    assert 0.8 < found.rate_per_s / 1_500 < found.high / 1_500 < 1.3
    # No long probe contradicts either end.
    long = [one for one in found.probes if one.phase == "confirm"]
    assert all(one.verdict.answer == "sustained" for one in long if one.rate_per_s <= found.rate_per_s)
    assert all(one.verdict.answer != "sustained" for one in long if one.rate_per_s >= found.high)
    assert ("the machine wandered" in found.verdict) == (found.high > found.rate_per_s * WANDERED)


@pytest.mark.torture
@pytest.mark.parametrize("kind", [Wandering, Stalling])
def test_nine_of_ten_intervals_hold_the_truth(kind: Callable[[float, int], Server]) -> None:
    searches = [found_by(Bench(kind(1_500, seed)), QUICK, start=0.5) for seed in range(40)]
    assert sum(found.is_confirmed and found.low <= 1_500 <= found.high for found in searches) >= 36


def test_wandering_machine_is_told_from_one_that_does_not() -> None:
    def width(kind: Callable[[float, int], Server]) -> float:
        searches = [found_by(Bench(kind(1_500, seed)), QUICK, start=0.5) for seed in range(4)]
        return sum(found.high / found.rate_per_s for found in searches) / len(searches) - 1

    assert width(Steady) == pytest.approx(0.05, abs=0.01)
    assert width(Wandering) > 0.1


def test_random_arrivals_do_not_disturb() -> None:
    assert is_right(found_by(Bench(Steady(700, seed=4), poisson=True), PATIENT), 700)


def test_collapse_past_a_depth_does_not_lower_the_answer() -> None:
    # The CSIRO document's server: 2,000/s, and 40,000 messages are there after 20 s of double the rate.
    effort = SearchEffort(seconds_short=40, seconds_long=60, probes_max=40)
    found = found_by(Bench(Collapsing(2_000)), effort, start=0.9)
    assert is_right(found, 2_000)
    assert min(one.evidence.delivered_per_s for one in found.probes if one.rate_per_s > 2_200) < 1_700


def test_server_that_holds_its_senders_back_is_the_limit_itself() -> None:
    assert is_right(found_by(Bench(Steady(1_000), is_held_back=True)), 1_000)


def test_slow_generator_is_refused() -> None:
    with pytest.raises(RateNotSustainable, match=r"the generator was the limit, not the system.*up to 1,00\d/s"):
        found_by(Bench(Steady(2_000), generator_per_s=1_000))


def test_generator_that_is_hardly_fast_enough_is_refused_too() -> None:
    # 1,000/s could be sustained, but nobody can show that 1,050/s could not.
    with pytest.raises(RateNotSustainable, match="the generator was the limit"):
        found_by(Bench(Steady(1_000), generator_per_s=1_015))


def test_generator_with_some_room_is_no_obstacle() -> None:
    assert is_right(found_by(Bench(Steady(1_000), generator_per_s=1_300)), 1_000)


@pytest.mark.parametrize("one_in", [100, 1_000, 4_000])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.torture)])
def test_lossy_server_never_sustains_anything(one_in: int, seed: int) -> None:
    server = Lossy(1_000, seed)
    server.one_in = one_in
    with pytest.raises(RateNotSustainable, match="messages were lost"):
        found_by(Bench(server))


def test_server_that_repeats_messages_never_sustains_anything() -> None:
    with pytest.raises(RateNotSustainable, match="came more than once"):
        found_by(Bench(Repeating(1_000)))


def _sent_for_received(sent: Rows, received: Rows) -> tuple[Rows, Rows]:
    """The mistake of measuring what was sent and calling it delivered."""
    received = received.copy()
    received[:, 3] = sent[received[:, 2], 4] + 1_000
    return sent, received


def test_judging_by_what_was_sent_does_not_pass() -> None:
    try:
        found = found_by(Bench(Steady(1_000), spoil=_sent_for_received))
    except RateNotSustainable:
        return
    assert not is_right(found, 1_000)


def test_judging_too_leniently_does_not_pass() -> None:
    lenient = SustainCriteria(growth_share_max=0.06, delivered_share_min=0.9, latency_growth_max=1)
    found = search(Bench(Steady(1_000)).probe, start_per_s=150, effort=BRIEF, criteria=lenient)
    assert not is_right(found, 1_000)


def test_answer_is_a_rate_that_was_tried_and_names_both_sides() -> None:
    found = found_by(Bench(Steady(1_000)))
    long = [one for one in found.probes if one.phase == "confirm"]
    assert {one.rate_per_s for one in long} >= {found.rate_per_s, found.high}
    assert f"{found.rate_per_s:,.0f}/s was sustained" in found.verdict
    assert f"{found.high:,.0f}/s was not sustained: depth grew by" in found.verdict
    # In turns: A B B A.
    assert [one.rate_per_s for one in long[:4]] == [found.rate_per_s, found.high, found.high, found.rate_per_s]


def test_probes_become_longer_and_progress_is_told() -> None:
    told: list[Probe] = []
    found = search(Bench(Steady(1_000)).probe, start_per_s=100, effort=BRIEF, progress=told.append)
    assert tuple(told) == found.probes
    assert [one.number for one in told] == list(range(1, len(told) + 1))
    messages = [one.seconds * one.rate_per_s for one in told]
    assert messages[0] == pytest.approx(4_000)
    assert messages[-1] == pytest.approx(16_000)
    phases = [one.phase for one in told]
    assert phases == sorted(phases, key=["bracket", "refine", "confirm"].index)


def test_small_budget_gives_an_estimate_that_says_so() -> None:
    effort = SearchEffort(seconds_short=3, seconds_long=6, probes_max=4)
    found = search(Bench(Steady(1_000)).probe, start_per_s=600, effort=effort)
    assert not found.is_confirmed
    assert found.rate_per_s <= 1_000 <= found.high < 1_300
    assert "before it was confirmed" in found.verdict
    assert len(found.probes) == 4


def test_budget_of_seconds_is_kept() -> None:
    bench = Bench(Steady(1_000))
    effort = SearchEffort(seconds_short=2, seconds_long=10, seconds_max=25)
    assert not search(bench.probe, start_per_s=300, effort=effort).is_confirmed
    assert bench.spent_s <= 25


@for_each("scale", EFFORTS)
@for_each("capacity_per_s", [0.02, 0.5, 3])
def test_slow_system_costs_no_more_than_the_scale_allows(scale: str, capacity_per_s: float) -> None:
    bench, effort = Bench(Steady(capacity_per_s)), EFFORTS[scale]
    with contextlib.suppress(RateNotSustainable):
        search(bench.probe, start_per_s=PILOT_MIN_PER_S * START_SHARE, effort=search_effort(effort))
    assert 0 < bench.spent_s <= effort.search_s


def test_budget_that_ends_before_saturation_gives_no_figure() -> None:
    with pytest.raises(RateNotSustainable, match="before a higher rate was refuted"):
        search(Bench(Steady(1_000)).probe, start_per_s=10, effort=SearchEffort(seconds_short=3, probes_max=3))


def test_server_that_delivers_nothing_is_refused() -> None:
    class Deaf(Steady):
        def copies(self, count: int):
            return super().copies(count) * 0

    with pytest.raises(RateNotSustainable, match="not even"):
        found_by(Bench(Deaf(1_000)))


def test_start_has_to_be_above_nothing() -> None:
    def never(rate_per_s: float, seconds: float) -> Evidence:
        raise AssertionError

    with pytest.raises(ValueError, match="above 0"):
        search(never, start_per_s=0)


def test_edge_finds_back_after_wrong_answers() -> None:
    edge = Edge(100, 1000)
    for number in range(40):
        rate_per_s = edge.median_per_s
        is_sustained = rate_per_s <= 400
        # Every fifth answer is wrong.
        edge.learn(rate_per_s, 0.8 if is_sustained != (number % 5 == 0) else 0.2)
    assert edge.median_per_s == pytest.approx(400, rel=0.02)


def test_edge_trusts_a_hint_by_half() -> None:
    assert Edge(100, 10_000, hint_per_s=500).median_per_s == pytest.approx(500, rel=0.05)
    edge = Edge(100, 10_000, hint_per_s=500)
    for _ in range(12):
        edge.learn(edge.median_per_s, 1.0 if edge.median_per_s <= 3_000 else 0.0)
    assert edge.median_per_s == pytest.approx(3_000, rel=0.1)
    assert Edge(100, 10_000, hint_per_s=5).width == pytest.approx(math.log(100) * 0.9, rel=0.01)
