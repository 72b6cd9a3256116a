# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

from entrepot.workbench.measuring.observations import RECEIVED, SENT
from entrepot.workbench.search.evidence import Evidence, SustainCriteria, judge
from entrepot.workbench.search.observing import Rows, evidence_from

BEGUN_NS = 7_000_000_000


def rows_of(sent_s: Any, took_s: Any, late_s: Any = 0.0) -> tuple[Rows, Rows]:
    """One sender and one receiver; intended = sent − late."""
    sent_s = numpy.asarray(sent_s, dtype=float)
    count = len(sent_s)
    sent, received = numpy.zeros((count, len(SENT)), dtype=int), numpy.zeros((count, len(RECEIVED)), dtype=int)
    sent[:, SENT.index("number")] = received[:, RECEIVED.index("number")] = range(count)
    sent[:, SENT.index("sent_ns")] = BEGUN_NS + numpy.rint(sent_s * 1e9)
    sent[:, SENT.index("intended_ns")] = BEGUN_NS + numpy.rint((sent_s - late_s) * 1e9)
    received[:, RECEIVED.index("received_ns")] = BEGUN_NS + numpy.rint((sent_s + took_s) * 1e9)
    return sent, received


def observed(sent: Rows, received: Rows, seconds: float = 10, rate_per_s: float = 1000, **more: Any) -> Evidence:
    ended_ns = BEGUN_NS + round(seconds * 1e9)
    return evidence_from(sent, received, offered_per_s=rate_per_s, begun_ns=BEGUN_NS, ended_ns=ended_ns, **more)


EVENLY_S = numpy.arange(10_000) / 1000


def test_rates_and_latency_of_a_system_that_keeps_up() -> None:
    found = observed(*rows_of(EVENLY_S, 0.002))
    assert found.sent_per_s == pytest.approx(1000)
    assert found.delivered_per_s == pytest.approx(1000, rel=0.001)
    assert found.depth.slope == pytest.approx(0, abs=0.01)
    assert found.latency_p99_s == pytest.approx(0.002)
    assert (found.lost, found.duplicated, found.behind_share) == (0, 0, 0)
    assert judge(found, SustainCriteria()).answer == "sustained"


def test_backlog_of_a_system_that_takes_ninety_percent() -> None:
    # The i-th message is through at i/900 s: the backlog grows by 100/s and the latency by 111 ms a second.
    found = observed(*rows_of(EVENLY_S, numpy.arange(1, 10_001) / 900 - EVENLY_S))
    assert found.depth.slope == pytest.approx(100, rel=0.01)
    assert found.delivered_per_s == pytest.approx(900, rel=0.01)
    assert found.latency.slope == pytest.approx(1 / 9, rel=0.02)
    assert judge(found, SustainCriteria()).answer == "not_sustained"


def test_latency_counts_from_the_intended_time() -> None:
    assert observed(*rows_of(EVENLY_S, 0.002, late_s=0.05)).latency_p99_s == pytest.approx(0.052)


def test_commit_and_not_receipt_ends_a_message_where_receivers_commit() -> None:
    sent, received = rows_of(EVENLY_S, 0.002)
    received[:, RECEIVED.index("committed_ns")] = BEGUN_NS + numpy.rint(numpy.arange(1, 10_001) / 900 * 1e9)
    assert observed(sent, received).depth.slope == pytest.approx(100, rel=0.01)


def test_losses_and_duplicates_are_counted_and_unknown_when_queues_were_not_drained() -> None:
    sent, received = rows_of(EVENLY_S, 0.002)
    came = numpy.concatenate((received[:500], received[502:], received[-1:]))
    found = observed(sent, came)
    assert (found.lost, found.duplicated) == (2, 1)
    assert observed(sent, came, is_drained=False).lost is None


def test_falling_behind_is_told_by_growing_lateness() -> None:
    # 800 of the 1000 that are due each second are sent, so the last one is two seconds late.
    sent_s = numpy.arange(8_000) / 800
    found = observed(*rows_of(sent_s, 0.001, late_s=sent_s * 0.2))
    assert found.behind_share == pytest.approx(0.2, rel=0.02)
    assert found.sent_per_s == pytest.approx(800)
    assert observed(*rows_of(EVENLY_S, 0.001, late_s=0.5)).behind_share == 0.0


def test_generator_that_stops_fell_behind() -> None:
    assert observed(*rows_of(EVENLY_S[:5000], 0.001)).behind_share > 0.04


def test_warm_up_is_left_out() -> None:
    # For two seconds only half is through at once and the rest waits; then all is as it should be.
    took_s = numpy.where(EVENLY_S < 2, EVENLY_S, 0.001)
    took_s[(EVENLY_S >= 2) & (EVENLY_S < 2.2)] = 0.1
    sent, received = rows_of(EVENLY_S, took_s)
    found = observed(sent, received)
    assert 3 < found.duration_s <= 8.5
    assert judge(found, SustainCriteria()).answer == "sustained"
    assert observed(*rows_of(EVENLY_S, 0.001), warm_up_s=2.5).duration_s == pytest.approx(7.5)


def test_system_that_still_becomes_faster_is_not_warm() -> None:
    through = 300 * numpy.linspace(0, 10, 10_000) + 30 * numpy.linspace(0, 10, 10_000) ** 2
    times_s = numpy.interp(numpy.arange(10_000), through, numpy.linspace(0, 10, 10_000), right=11)
    found = observed(*rows_of(EVENLY_S, times_s - EVENLY_S + 0.001))
    assert not found.is_warm
    assert judge(found, SustainCriteria()).answer == "unsteady"


def test_sampled_depth_counts_when_it_grew_faster() -> None:
    depths = [(BEGUN_NS + second * 100_000_000, 50.0 * second) for second in range(100)]
    assert observed(*rows_of(EVENLY_S, 0.001), depths=depths).depth.slope == pytest.approx(500)
    assert observed(*rows_of(EVENLY_S, 0.001), depths=depths[:5]).depth.slope == pytest.approx(0, abs=0.01)


def test_late_senders_were_in_calls_or_in_their_own_work() -> None:
    sent, received = rows_of(EVENLY_S, 0.002, late_s=0.01)
    at = SENT.index("acknowledged_ns")
    sent[:, at] = sent[:, SENT.index("sent_ns")] + 400_000
    found = observed(sent, received)
    assert found.in_calls_share == pytest.approx(0.4, rel=0.01)
    assert found.call_p99_s == pytest.approx(0.0004)
    # A sender that does not wait for its acknowledgements cannot spend more than all of its time in calls.
    sent[:, at] = sent[:, SENT.index("sent_ns")] + 50_000_000
    assert observed(sent, received).in_calls_share == pytest.approx(1.0)


def test_ten_messages_of_one_call_count_once() -> None:
    sent, received = rows_of(numpy.floor(EVENLY_S * 100) / 100, 0.02, late_s=0.01)
    sent[:, SENT.index("acknowledged_ns")] = sent[:, SENT.index("sent_ns")] + 7_000_000
    assert observed(sent, received).in_calls_share == pytest.approx(0.7, rel=0.01)


def test_nothing_is_said_of_senders_in_time_or_without_acknowledgements() -> None:
    sent, received = rows_of(EVENLY_S, 0.002)
    assert observed(sent, received).in_calls_share is None
    sent[:, SENT.index("acknowledged_ns")] = sent[:, SENT.index("sent_ns")] + 400_000
    assert observed(sent, received).in_calls_share is None
    assert observed(sent, received).call_p99_s == pytest.approx(0.0004)


def test_publications_count_once_for_all_their_subscribers() -> None:
    sent, received = rows_of(EVENLY_S, 0.002)
    second = received.copy()
    second[:, RECEIVED.index("receiver")] = 1
    found = observed(sent, numpy.concatenate((received, second)), all_receive=[0, 1])
    assert found.delivered_per_s == pytest.approx(1000, rel=0.001)
    assert found.depth.slope == pytest.approx(0, abs=0.01)
    assert (found.lost, found.duplicated) == (0, 0)


def test_nothing_sent_is_no_evidence_of_anything() -> None:
    sent, received = rows_of([], 0.0)
    found = observed(sent, received)
    assert found.latency_p99_s == math.inf
    assert judge(found, SustainCriteria()).answer == "unsteady"
    with pytest.raises(ValueError, match="lasts for some time"):
        observed(sent, received, seconds=0)
