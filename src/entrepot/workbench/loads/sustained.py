# SPDX-License-Identifier: Apache-2.0
"""Sustained: the highest rate of an open loop that the system bears for ever (CSIRO's maximum sustainable throughput).

Every rate that the search tries is a trial of its own on the same running
system, with fresh generators and an empty queue. A short closed loop before
it tells where to begin, so that the search starts below the edge and not a
hundred times above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy

from entrepot.errors import RateNotSustainable, SystemFailed
from entrepot.workbench.loads.load import Load
from entrepot.workbench.loads.open_loop import QUEUE, offer, pilot_per_s
from entrepot.workbench.measuring.effort import Effort
from entrepot.workbench.measuring.observations import RECEIVED, SENT
from entrepot.workbench.measuring.stage import Stage, Trial
from entrepot.workbench.scenario import Parameter
from entrepot.workbench.search.evidence import Evidence
from entrepot.workbench.search.observing import Rows, evidence_from
from entrepot.workbench.search.search import Probe, SearchEffort, search

START_SHARE = 0.5
"""Of what the closed loop brought through."""


class SustainedLoad(Load):
    name = "sustained"
    repeats = False
    needs = frozenset({"queues"})
    pipelines = True
    parameters = {
        "message_bytes": 64,
        "senders": 1,
        "receivers": 1,
        "arrivals": "constant",
        "trace": "",
        "binding": "",
        "batch": 1,
    }

    @classmethod
    def duration_s(cls, seconds: float, parameters: Mapping[str, Parameter]) -> float:
        del parameters
        # A dozen probes of half of that, and as much between them; a guess, like every estimate.
        return seconds * 12

    def run(self, stage: Stage) -> None:
        stage.system.create_queues([QUEUE])
        probing = _Probing(stage)
        start_per_s = pilot_per_s(stage) * START_SHARE
        try:
            found = search(probing, start_per_s=start_per_s, effort=search_effort(stage.effort), progress=probing.tell)
        except RateNotSustainable as error:
            stage.conclude({}, {}, status="invalid", reason=str(error))
            return
        facts = {"mst": found.rate_per_s, "mst_low": found.low, "mst_confirmed": float(found.is_confirmed)}
        if found.high != float("inf"):
            facts["mst_high"] = found.high
        stage.conclude(facts, {"mst": found.verdict})


def search_effort(effort: Effort) -> SearchEffort:
    """What a search may cost at this scale."""
    (short_s, long_s), (messages_short, messages_long) = effort.probe_s, effort.probe_messages
    return SearchEffort(
        seconds_short=short_s,
        seconds_long=long_s,
        messages_short=messages_short,
        messages_long=messages_long,
        probes_max=effort.probes_max,
        seconds_max=effort.search_s,
    )


class _Probing:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._probe = 0

    def __call__(self, rate_per_s: float, seconds: float) -> Evidence:
        stage = self._stage
        self._probe += 1
        found: list[Evidence] = []
        with stage.trial(queues=[QUEUE], probe=self._probe, offered_per_s=rate_per_s) as trial:
            is_drained = offer(trial, stage, rate_per_s, seconds)
            trial.finish("receiver")
            found.append(self._evidence(trial, rate_per_s, is_drained))
        if stage.failure or not found:
            raise SystemFailed(stage.system.name, f"at {rate_per_s:,.0f}/s: {stage.failure}")
        return found[0]

    def _evidence(self, trial: Trial, rate_per_s: float, is_drained: bool) -> Evidence:
        stage = self._stage
        return evidence_from(
            _rows(trial.raw("sent"), len(SENT)),
            _rows(trial.raw("received"), len(RECEIVED)),
            offered_per_s=rate_per_s,
            begun_ns=trial.gate.begun_ns,
            ended_ns=trial.gate.ended_ns,
            depths=trial.samples("depth", QUEUE),
            is_drained=is_drained,
            generator_cpu_share=None if stage.system.one_process else trial.busiest_generator(),
        )

    def tell(self, probe: Probe) -> None:
        self._stage.say(f"{probe.phase}: {probe.rate_per_s:,.0f}/s {probe.verdict.answer.replace('_', ' ')}")


def _rows(raw: list[Path], columns: int) -> Rows:
    parts = [numpy.fromfile(path, dtype=numpy.int64).reshape(-1, columns) for path in raw]
    return numpy.concatenate(parts) if parts else numpy.empty((0, columns), dtype=numpy.int64)
