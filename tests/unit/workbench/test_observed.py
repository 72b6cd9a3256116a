# SPDX-License-Identifier: Apache-2.0
"""One trial as arrays: its steady window, and whose fault it is when messages are sent late."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.workbench.analysis.metrics import dispersion
from entrepot.workbench.analysis.observed import Observed, Received, Sent
from entrepot.workbench.measuring.record import TrialRecord

SECOND, MS = 1_000_000_000, 1_000_000
BEGUN = 1_000 * SECOND


def record(**changes: Any) -> TrialRecord:
    names = [
        "run",
        "host",
        "visit",
        "trial",
        "scenario",
        "document",
        "table",
        "load",
        "system",
        "title",
        "contract",
        "version",
        "point",
        "scale",
        "quality",
    ]
    texts = {name: name for name in names}
    fields = {
        "load": "stream",
        "quality": "express",
        "begun_ns": BEGUN,
        "ended_ns": BEGUN + 3 * SECOND,
        "repetition": 0,
    }
    return TrialRecord(**{**texts, "settings": {}, "parameters": {}, "effective": {}, **fields, **changes})


def received_at(times: Any, **changes: Any) -> Observed:
    return Observed(record(**changes), received=Received(received_ns=numpy.asarray(times, dtype=numpy.int64)))


def at_rates(*rates: float) -> list[int]:
    """Completions at a constant rate in each tenth of the trial."""
    times: list[int] = []
    for tenth, rate in enumerate(rates):
        begin = BEGUN + tenth * 3 * SECOND // 10
        times += [begin + int((n + 0.5) / rate * SECOND) for n in range(int(rate * 0.3))]
    return times


def test_a_slow_start_is_left_out():
    window = received_at(at_rates(200, *[1000] * 9)).window
    assert window.begun_ns == pytest.approx(BEGUN + 0.3 * SECOND, abs=0.06 * SECOND)
    assert window.ended_ns == BEGUN + 3 * SECOND
    assert not window.problem


def test_a_steady_trial_is_kept_whole():
    assert received_at(at_rates(*[1000] * 10)).window.begun_ns == BEGUN


def test_a_trial_that_never_settles_has_no_window():
    window = received_at(at_rates(*[100 * n for n in range(1, 11)])).window
    assert "had not settled" in window.problem
    assert "second quarter" in window.problem


def test_a_programmed_rate_that_is_not_kept_is_no_fault_of_the_trial():
    falling = at_rates(*[100 * n for n in range(10, 0, -1)])
    window = received_at(falling, load="open-loop").window
    assert not window.problem
    assert "had not settled" in received_at(falling).window.problem


def test_steady_trials_are_hardly_ever_refused():
    random = numpy.random.default_rng(3)
    refused = 0
    for _ in range(100):
        times = BEGUN + numpy.cumsum(random.exponential(MS / 2, 8000)).astype(numpy.int64)
        refused += bool(received_at(times).window.problem)
    assert refused == 0


def test_a_pause_is_no_warm_up():
    times = [at for at in at_rates(*[1000] * 10) if not BEGUN + SECOND <= at < BEGUN + 1.05 * SECOND]
    window = received_at(times).window
    assert not window.problem
    assert window.begun_ns < BEGUN + 0.5 * SECOND


def test_what_the_leader_waited_at_the_end_does_not_count():
    times = at_rates(*[1000] * 10)
    assert received_at(times, load="receive", ended_ns=times[-1] + 30 * MS).window.ended_ns == times[-1] + 1
    # A system that stopped long before the end has no excuse.
    assert received_at(times, load="receive", ended_ns=times[-1] + SECOND).window.ended_ns == times[-1] + SECOND


# --- lateness -----------------------------------------------------------------------------------------


def sending(intended: Any, sent: Any, acknowledged: Any, sender: Any = None, **changes: Any) -> Observed:
    arrays = [numpy.asarray(each, dtype=numpy.int64) for each in (intended, sent, acknowledged)]
    senders = numpy.zeros_like(arrays[0]) if sender is None else numpy.asarray(sender, dtype=numpy.int64)
    numbers = numpy.arange(len(arrays[0]))
    noted = Sent(senders, numbers, numbers, *(BEGUN + each * (each != 0) for each in arrays))
    return Observed(record(load="open-loop", offered_per_s=10.0, **changes), sent=noted)


def test_a_late_sender_that_was_free_is_late_of_its_own():
    observed = sending([10, 20, 30], [15, 25, 35], [16, 26, 36])
    assert observed.own_lateness_ns.tolist() == [5, 5, 5]


def test_a_sender_that_a_call_held_up_is_not():
    observed = sending([10, 20, 30], [10, 60, 70], [60, 70, 80])
    assert observed.own_lateness_ns.tolist() == [0, 0, 0]
    assert observed.lateness_ns.tolist() == [0, 40, 40]


def test_wasted_time_adds_up():
    # Each call takes 8 of the 10 between messages, and 4 are lost before each: behind by 2 more every time.
    intended = [10 * n for n in range(1, 8)]
    sent = [14 + 12 * n for n in range(7)]
    observed = sending(intended, sent, [at + 8 for at in sent])
    assert observed.own_lateness_ns.tolist() == [4 + 2 * n for n in range(7)]


def test_messages_of_one_call_share_its_excuse():
    observed = sending([10, 20, 30, 40], [10, 45, 45, 45], [45, 50, 50, 50])
    assert observed.own_lateness_ns.tolist() == [0, 0, 0, 0]


def test_an_acknowledgement_that_nobody_waited_for_is_no_excuse():
    observed = sending([10, 20, 30], [10, 40, 60], [200, 200, 200])
    assert observed.own_lateness_ns.tolist() == [0, 20, 30]


def test_senders_do_not_excuse_each_other():
    observed = sending([10, 20], [10, 60], [60, 70], sender=[0, 1])
    assert observed.own_lateness_ns.tolist() == [0, 40]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 30), st.integers(1, 40), st.booleans()), min_size=1, max_size=30
    )
)
def test_own_lateness_equals_a_sender_that_wastes_nothing(steps: list[tuple[int, int, int, bool]]):
    """The closed form against the loop that it replaces."""
    intended, sent, acknowledged, expected = [], [], [], []
    due = now = ideal = 1
    for gap, wasted, took, is_waited_for in steps:
        due += gap
        begun = max(due, now) + wasted
        ideal = max(due, ideal)
        intended.append(due)
        sent.append(begun)
        expected.append(begun - ideal)
        if is_waited_for:
            now, ideal = begun + took, ideal + took
            acknowledged.append(now)
        else:
            # So far away that the next message goes out before it.
            now = begun + 1
            acknowledged.append(begun + 10**6)
    acknowledged[-1] = sent[-1] + 1
    assert sending(intended, sent, acknowledged).own_lateness_ns.tolist() == expected


# --- dispersion ---------------------------------------------------------------------------------------


def test_dispersion_is_the_squared_variation_of_service():
    random = numpy.random.default_rng(11)
    end = BEGUN + 10 * SECOND
    poisson = BEGUN + numpy.cumsum(random.exponential(MS, 12_000)).astype(numpy.int64)
    constant = BEGUN + numpy.arange(12_000, dtype=numpy.int64) * MS
    erlang = BEGUN + numpy.cumsum(random.gamma(4, MS / 4, 12_000)).astype(numpy.int64)
    assert dispersion(poisson, BEGUN, end) == pytest.approx(1.0, abs=0.25)
    assert dispersion(constant, BEGUN, end) == pytest.approx(0.0, abs=0.02)
    assert dispersion(erlang, BEGUN, end) == pytest.approx(0.25, abs=0.1)
    assert numpy.isnan(dispersion(constant[:100], BEGUN, end))
