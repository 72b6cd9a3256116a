# SPDX-License-Identifier: Apache-2.0
"""What a rate needs, against answers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.workbench.analysis.findings import Capacity, Findings
from entrepot.workbench.report.blocks import TableBlock
from entrepot.workbench.report.findings_index import FindingsIndex
from entrepot.workbench.report.planning import RATES_PER_S, need_of, planning_section
from entrepot.workbench.scenario import Point, Scenario

POINT = Point({"quality": "express", "message_bytes": 1000}, {"quality": "express", "message_bytes": 1000})
SCENARIO = Scenario("wbimb/10.1", "The trivial flow", ("table 10.1",), "flow", (POINT,))
CAPACITY = Capacity("host", "wbimb/10.1", POINT.key, "entrepot-unix", 0.13, 0.2, 1.0, 5_000.0, 2, None, "")


def test_two_thousand_messages_a_second_of_0_13_ms_need_0_4_cores_at_65_percent() -> None:
    need = need_of(CAPACITY, 2_000)
    assert need.cores == pytest.approx(2_000 * 0.00013 / 0.65) == pytest.approx(0.4)
    assert need.servers == 1
    # M/M/1, as the variation is 1: ρ = 0.4, so S·ρ/(1 − ρ) = 0.2 · 0.4 / 0.6.
    assert need.wait_ms == pytest.approx(0.2 * 0.4 / 0.6)
    assert need.warnings == ()


def test_constant_service_waits_half_as_long() -> None:
    assert need_of(replace(CAPACITY, service_variation=0.0), 2_000).wait_ms == pytest.approx(0.2 * 0.4 / 0.6 / 2)


def test_more_than_one_server_can_do_is_divided_and_warned_of() -> None:
    need = need_of(CAPACITY, 20_000)
    # 20,000 · 0.2 ms keep 4 busy, and at 65 % that is 6.15 of them.
    assert need.servers == 7
    assert need.cores == pytest.approx(4.0)
    assert need.warnings == (
        "more than the highest rate that was measured",
        "the load would have to be divided, which was not measured",
        "more cores than the 2 of this machine",
    )


def test_scalability_law_warns_where_it_has_its_peak() -> None:
    need = need_of(replace(CAPACITY, scalability=(900.0, 0.0, 0.01)), 20_000)
    assert "the scalability law sees no gain beyond 10 clients" in need.warnings


def test_section_answers_two_thousand_a_second_and_is_left_out_without_costs() -> None:
    assert 2_000 in RATES_PER_S
    empty = Findings(("r",), {}, {}, (), (), (), (), (), (), (), {})
    assert planning_section(FindingsIndex(empty, {})) is None
    section = planning_section(FindingsIndex(replace(empty, capacities=(CAPACITY,)), {SCENARIO.name: SCENARIO}))
    assert section is not None
    (table,) = [block for block in section.blocks if isinstance(block, TableBlock)]
    groups = [column.group for column in table.columns]
    place = groups.index("2,000 msg/s")
    assert [str(cell.text) for cell in table.rows[0][place : place + 3]] == ["0.40", "1", "0.13"]
