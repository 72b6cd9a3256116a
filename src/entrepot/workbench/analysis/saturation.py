# SPDX-License-Identifier: Apache-2.0
"""The probes of a search judged again, from the raw data and by the criteria that the search itself had."""

from __future__ import annotations

import numpy

from entrepot.workbench.analysis.bottlenecks import EMBEDDED
from entrepot.workbench.analysis.metrics import SEARCH
from entrepot.workbench.analysis.observed import Observed
from entrepot.workbench.analysis.trial_result import JudgedProbe
from entrepot.workbench.measuring.observations import RECEIVED, SENT
from entrepot.workbench.search.evidence import Evidence, SustainCriteria, judge
from entrepot.workbench.search.observing import evidence_from
from entrepot.workbench.statistics.counting import NUMBER_BITS, SENDERS_MAX


def judged_again(observed: Observed) -> JudgedProbe | None:
    """What the probe shows, with its verdict in words; None for trials that are no probes."""
    record = observed.record
    if record.load != SEARCH or record.offered_per_s is None or record.ended_ns <= record.begun_ns:
        return None
    evidence = evidence_of(observed)
    verdict = judge(evidence, SustainCriteria())
    return JudgedProbe(
        answer=verdict.answer,
        offered_per_s=float(evidence.offered_per_s),
        delivered_per_s=float(evidence.delivered_per_s),
        depth_slope_per_s=None if evidence.depth.slope is None else float(evidence.depth.slope),
        latency_p99_s=float(evidence.latency_p99_s),
        lost=int(evidence.lost or 0),
        evidence=str(verdict),
    )


def evidence_of(observed: Observed) -> Evidence:
    """What had not come although the queues were drained is lost; where they were not, it is unknown."""
    record, times = observed.record, observed.depth
    received = observed.received
    ours = (received.sender >= 0) & (received.sender < SENDERS_MAX) & (received.number < 1 << NUMBER_BITS)
    sent_rows = numpy.column_stack([getattr(observed.sent, name) for name in SENT])
    received_rows = numpy.column_stack([getattr(received, name)[ours] for name in RECEIVED])
    is_embedded = record.system == EMBEDDED
    return evidence_from(
        sent_rows,
        received_rows,
        offered_per_s=record.offered_per_s or 0.0,
        begun_ns=record.begun_ns,
        ended_ns=record.ended_ns,
        depths=list(zip(times[0].tolist(), times[1].tolist(), strict=True)),
        is_drained=bool(record.facts.get("drained", 1.0)),
        generator_cpu_share=None if is_embedded else observed.per_second("cpu_s", "busiest generator"),
    )
