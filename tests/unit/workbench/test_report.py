# SPDX-License-Identifier: Apache-2.0
"""What the report says of findings that were made by hand, so that every number in it is known beforehand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from entrepot.errors import ReportImpossible
from entrepot.workbench.analysis.findings import (
    Accounting,
    Figure,
    FigureComparison,
    Findings,
    Published,
    SystemSeen,
    TrialSecond,
    UnusableTrial,
)
from entrepot.workbench.report import write_report
from entrepot.workbench.report.blocks import Cell, TableBlock
from entrepot.workbench.report.charts import Chooser
from entrepot.workbench.report.coverage import coverage_section, why
from entrepot.workbench.report.documents import documents
from entrepot.workbench.report.findings_index import FindingsIndex
from entrepot.workbench.report.glance import glance_table
from entrepot.workbench.report.methods import methods_section
from entrepot.workbench.report.promises import promises_section
from entrepot.workbench.report.sections import document_sections
from entrepot.workbench.report.summary import mean_ratio, ratios, summary_section
from entrepot.workbench.report.tables import CaseTable, metric_table
from entrepot.workbench.scenario import Point, Scenario

POINTS = tuple(
    Point({"quality": quality, "message_bytes": size, "threads": 1}, {"quality": quality, "message_bytes": size})
    for quality, size in (("express", 10), ("express", 1000), ("recoverable", 1000))
)
SCENARIO = Scenario("nstl/1", "Sending", ("table 1",), "send", POINTS, differs="Linux instead of Windows.")
OTHER = Scenario("wmq/2", "Round trips", ("table 2",), "round-trip", POINTS[:1])


def figure(point: int, system: str, value: float, metric: str = "throughput", **more: object) -> Figure:
    told = POINTS[point]
    made = Figure(
        "host", "nstl/1", told.key, {key: str(item) for key, item in told.parameters.items()}, system,
        "RabbitMQ, pika" if system == "rabbitmq" else "Entrepot, standard binding", str(told.quality),
        f"{system} keeps {told.quality} messages", metric, "msg/s", value, value * 0.9, value * 1.1, 5, "",
        "cpu", "processors 97 % busy",
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def compared(point: int, other: str, ratio: float, low: float, high: float) -> FigureComparison:
    key = POINTS[point].key
    return FigureComparison(
        "host", "nstl/1", key, "throughput", "msg/s", "entrepot-unix", other, 1, 1 / ratio, ratio, low, high, ""
    )


def findings(**more: object) -> Findings:
    made = Findings(
        runs=("run-1",),
        environments={"host": {"host": "host", "cpu": "A processor", "cores": "2"}},
        scales={"run-1": "full"},
        figures=(figure(0, "entrepot-unix", 14_000), figure(0, "rabbitmq", 7_000), figure(1, "entrepot-unix", 6_500)),
        comparisons=(
            compared(0, "published: MSMQ", 0.99, 0.9, 1.1),
            compared(0, "published: MQSeries", 16.2, 14.5, 17.8),
            compared(0, "rabbitmq", 2.0, 1.8, 2.2),
        ),
        moments=(), probes=(), capacities=(),
        marks=(UnusableTrial("t-7", "nstl/1", POINTS[1].key, "rabbitmq", "failed", "it ended with status 137"),),
        published=(
            Published("nstl/1", POINTS[0].key, "MSMQ", "throughput", 14_130, "msg/s"),
            Published("nstl/1", POINTS[0].key, "MQSeries", "throughput", 866, "msg/s"),
            Published("nstl/1", POINTS[2].key, "MSMQ", "throughput", 760, "msg/s"),
        ),
        absent={},
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def index(made: Findings) -> FindingsIndex:
    return FindingsIndex(made, {"nstl/1": SCENARIO, "wmq/2": OTHER})


def main_table(made: Findings) -> TableBlock:
    table = metric_table(index(made), "host", "nstl/1", "throughput")
    assert table is not None
    return table


def cell(table: TableBlock, row: int, column: str) -> Cell:
    return table.rows[row][[told.title for told in table.columns].index(column)]


def test_table_has_the_documents_rows_and_published_ours_ratios_and_peers_as_columns() -> None:
    table = main_table(findings())
    assert [(told.group, told.title) for told in table.columns] == [
        ("", "Quality"),
        ("", "Message bytes"),
        ("Published", "MSMQ"),
        ("Published", "MQSeries"),
        ("Entrepot", "unix"),
        ("Ratio of Entrepot", "÷ published"),
        ("Ratio of Entrepot", "÷ best peer"),
        ("Peers", "RabbitMQ"),
    ]
    assert [[str(one.text) for one in row] for row in table.rows] == [
        ["express", "10", "14,130", "866", "14,000", "≈ 0.990×", "2.00×", "7,000"],
        ["express", "1,000", "–", "–", "6,500", "–", "–", "failed"],
        ["recoverable", "1,000", "760", "–", "–", "–", "–", "–"],
    ]
    repeated = "Means of 5 repetitions with 95 % bootstrap intervals over repetitions."
    assert table.caption == f"Throughput, msg/s. Threads 1. {repeated}"
    assert cell(table, 0, "unix").detail == "12,600–15,400"
    assert cell(table, 0, "÷ published").detail == "0.900–1.10, MSMQ", "the best of the published, and ≈ as 1 is inside"
    assert cell(table, 0, "unix").kind == "best"


def test_marked_trial_is_never_a_number_and_says_why() -> None:
    table = main_table(findings())
    failed = cell(table, 1, "RabbitMQ")
    assert (failed.text, failed.kind) == ("failed", "mark")
    assert dict(table.notes)[failed.marks[0]] == "It ended with status 137."


def test_contract_stands_beside_every_figure_and_has_one_number_in_the_whole_report() -> None:
    table = main_table(findings())
    ours, peer = cell(table, 0, "unix"), cell(table, 0, "RabbitMQ")
    assert ours.marks == cell(table, 1, "unix").marks != peer.marks
    said = dict(table.notes)
    assert said[ours.marks[0]] == "Entrepot: entrepot-unix keeps express messages"
    assert said[peer.marks[0]] == "RabbitMQ: rabbitmq keeps express messages"


def test_reduced_case_and_busy_generator_are_marked_with_the_reason() -> None:
    made = findings(
        figures=(
            figure(0, "entrepot-unix", 14_000, reduced="2,000 clients instead of 11,000"),
            figure(0, "rabbitmq", 7_000, bottleneck="generator"),
        )
    )
    table = main_table(made)
    said = dict(table.notes)
    assert said[cell(table, 0, "unix").marks[-1]] == "Reduced: 2,000 clients instead of 11,000."
    assert cell(table, 0, "RabbitMQ").text == "≥ 7,000"
    assert said[cell(table, 0, "RabbitMQ").marks[-1]].startswith("The load generator was the limit")


def test_figure_whose_other_trials_were_marked_says_so() -> None:
    made = findings(
        marks=(UnusableTrial("t-7", "nstl/1", POINTS[0].key, "entrepot-unix", "invalid", "the generator was late"),)
    )
    table = main_table(made)
    note = dict(table.notes)[cell(table, 0, "unix").marks[-1]]
    assert note == "Without 1 trial that was marked (invalid: the generator was late)."


def test_one_repetition_has_no_interval_and_says_so() -> None:
    once = figure(0, "entrepot-unix", 14_000, low=14_000.0, high=14_000.0, repetitions=1)
    table = main_table(findings(figures=(once,), marks=()))
    assert cell(table, 0, "unix").detail == ""
    assert "One repetition each, so there are no intervals." in table.caption


def test_few_repetitions_are_spanned_and_never_called_an_interval_of_95_percent() -> None:
    twice = figure(0, "entrepot-unix", 14_000, repetitions=2)
    told = index(findings(figures=(twice,), marks=()))
    table = metric_table(told, "host", "nstl/1", "throughput")
    assert table is not None
    assert "Means of 2 repetitions with the lowest and the highest repetition." in table.caption
    assert "95 %" not in repr((table, methods_section(told), summary_section(told, documents())))


def test_rate_of_a_search_that_was_not_sure_is_called_an_estimate() -> None:
    def searched(confirmed: float) -> Findings:
        rate = figure(0, "entrepot-unix", 7_800, "mst", low=7_700.0, high=24_000.0, repetitions=1)
        return findings(
            figures=(rate, figure(0, "entrepot-unix", confirmed, "mst_confirmed", repetitions=1)),
            published=(Published("nstl/1", POINTS[0].key, "MQSeries", "mst", 3_000, "msg/s"),),
            comparisons=(replace(compared(0, "published: MQSeries", 2.6, 2.5, 8.0), metric="mst"),),
            marks=(),
        )

    sure, unsure = (metric_table(index(searched(each)), "host", "nstl/1", "mst") for each in (1.0, 0.0))
    assert sure is not None
    assert unsure is not None
    assert cell(sure, 0, "unix").text == "7,800"
    assert cell(unsure, 0, "unix").text == "about 7,800"
    assert "An estimate" in dict(unsure.notes)[cell(unsure, 0, "unix").marks[-1]]
    assert "no intervals" not in unsure.caption, "there is one: what was borne and what was not"
    assert [row.is_estimate for row in ratios(index(searched(0.0)), "host")] == [True]
    assert [row.is_estimate for row in ratios(index(searched(1.0)), "host")] == [False]


def test_glance_sets_the_best_of_published_ours_and_peers_side_by_side() -> None:
    weaker = replace(figure(0, "jetstream", 90_000), contract="WEAKER: forced every 2 minutes")
    table = glance_table(index(findings(figures=(*findings().figures, weaker))), "host")
    assert table is not None
    (row,) = table.rows
    assert [(one.text, one.detail) for one in row[1:]] == [
        ("14,130", "MSMQ"),
        ("14,000", "unix"),
        ("7,000", "RabbitMQ"),
        ("≈ 0.990×", "0.900–1.10"),
        ("2.00×", "1.80–2.20"),
    ]
    assert row[0].detail == "Throughput, msg/s; express, 10 message bytes"
    assert row[2].marks
    assert row[2].marks != row[3].marks


def test_glance_shows_a_second_point_where_the_published_one_has_no_peer() -> None:
    figures = (figure(0, "entrepot-unix", 14_000), figure(1, "entrepot-unix", 6_500), figure(1, "rabbitmq", 5_000))
    table = glance_table(index(findings(figures=figures, marks=())), "host")
    assert table is not None
    assert [[one.text for one in row[1:4]] for row in table.rows] == [
        ["14,130", "14,000", "–"],
        ["–", "6,500", "5,000"],
    ]


def test_glance_of_a_rated_load_shows_times_and_not_the_rate_that_was_asked_for() -> None:
    scheduled = FindingsIndex(
        findings(figures=(*findings().figures, figure(0, "entrepot-unix", 0.002, "latency_p99", unit="s"))),
        {"nstl/1": replace(SCENARIO, load="open-loop")},
    )
    table = glance_table(scheduled, "host")
    assert table is not None
    assert table.rows[0][0].detail.startswith("Latency, 99 %, ms, less is better")


def own(
    load: str, system: str, value: float, metric: str = "throughput", unit: str = "msg/s", **parameters: str
) -> Figure:
    told = {"quality": "express", "port": "0", **parameters}
    point = ",".join(f"{name}={told[name]}" for name in sorted(told))
    made = figure(0, system, value, metric, repetitions=1, load=load, unit=unit, low=value, high=value)
    return replace(made, scenario=f"ad-hoc/{load}", point=point, parameters=told)


def test_loads_of_ones_own_have_their_figures_without_the_documents(tmp_path: Path) -> None:
    figures = (
        own("send", "entrepot-unix", 9_000, message_bytes="1000"),
        own("send", "entrepot-unix", 11_000, message_bytes="200"),
        own("send", "redis-lists", 4_000, message_bytes="1000"),
        own("send", "entrepot-unix", 0.004, "latency_p99", unit="s", message_bytes="1000"),
        own("send", "entrepot-unix", 0, "lost", unit="messages", message_bytes="1000"),
    )
    made = findings(figures=figures, comparisons=(), marks=())
    told = index(made)
    table = metric_table(told, "host", "ad-hoc/send", "throughput")
    assert table is not None
    assert [[str(one.text) for one in row] for row in table.rows] == [
        ["200", "11,000", "–", "–"],
        ["1,000", "9,000", "–", "4,000"],
    ], "by size, and without the port"
    drawings = list(Chooser(told, "host", "ad-hoc/send").drawings())
    assert [panel.title for one in drawings for panel in one.panels] == ["Throughput"]
    write_report(made, {"nstl/1": SCENARIO}, tmp_path)
    text = (tmp_path / "report.md").read_text()
    for shown in ("9,000", "4,000", "4.00", "Lost", "processors 97 % busy", "keeps express messages", "Closed loop"):
        assert shown in text, shown
    for hidden in ("Coverage", "nstl/1", "14,130", "÷ published"):
        assert hidden not in text, hidden


def test_loads_of_ones_own_stand_beside_the_documents_and_are_no_scenario_of_theirs(tmp_path: Path) -> None:
    made = findings(figures=(*findings().figures, own("receive", "entrepot-unix", 12_345, message_bytes="64")))
    write_report(made, {"nstl/1": SCENARIO, "wmq/2": OTHER}, tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "**1 of 2** scenarios measured" in text
    assert "All 2 scenarios" in text
    assert "12,345" in text
    assert "Throughput, msg/s; express, 64 message bytes" in text, "all parameters, as there is no scenario to look at"
    assert "14,130" in text


def test_load_of_ones_own_that_failed_says_why(tmp_path: Path) -> None:
    mark = UnusableTrial(
        "t-1", "ad-hoc/open-loop", "quality=express,rate_per_s=500", "rabbitmq", "invalid", "too late: 9 ms"
    )
    write_report(findings(figures=(), comparisons=(), marks=(mark,)), {"nstl/1": SCENARIO}, tmp_path)
    assert "too late: 9 ms" in (tmp_path / "report.md").read_text()


def test_contract_is_explained_once_in_a_scenario_and_its_number_stands_everywhere() -> None:
    more = (figure(0, "entrepot-unix", 91, "cpu", unit="%"),)
    published = (*findings().published, Published("nstl/1", POINTS[0].key, "MSMQ", "cpu", 100, "%"))
    told = index(findings(figures=(*findings().figures, *more), published=published))
    (nstl, _) = document_sections(told, documents())
    text = repr(nstl)
    assert text.count("Entrepot: entrepot-unix keeps express messages") == 1
    table = metric_table(told, "host", "nstl/1", "cpu")
    assert table is not None
    assert cell(table, 0, "unix").marks == cell(main_table(findings()), 0, "unix").marks


def test_settings_are_told_once_and_with_the_quality_where_they_differ() -> None:
    seen = tuple(
        SystemSeen("host", "entrepot-unix", "Entrepot", "1.0", quality, "", {"read ahead": "100", "log": log})
        for quality, log in (("express", "none"), ("recoverable", "4 files"))
    )
    text = repr(promises_section(index(findings(systems=seen))))
    assert "read ahead: 100; log: none (express); log: 4 files (recoverable)" in text


def test_seconds_become_milliseconds_and_the_smaller_is_the_better() -> None:
    made = findings(
        figures=(
            figure(0, "entrepot-unix", 0.0021, "latency_p99", unit="s"),
            figure(0, "rabbitmq", 0.0043, "latency_p99", unit="s"),
        ),
        published=(),
    )
    table = metric_table(index(made), "host", "nstl/1", "latency_p99")
    assert table is not None
    assert table.caption.startswith("Latency, 99 %, ms.")
    assert (cell(table, 0, "unix").text, cell(table, 0, "unix").kind) == ("2.10", "best")


def test_verdict_and_evidence_stand_with_each_case() -> None:
    table = CaseTable(index(findings()), "host", "nstl/1").verdicts()
    assert table is not None
    assert [str(one.text) for one in table.rows[0]] == ["10", "Entrepot, unix", "cpu", "processors 97 % busy"]
    assert len(table.rows) == 3


def test_coverage_names_every_scenario_and_why_it_is_not_whole() -> None:
    told = index(findings())
    assert why(told, "wmq/2") == "not among the scenarios of these runs"
    assert why(told, "nstl/1") == "points left out; failed: it ended with status 137"
    assert (told.coverage("nstl/1").badge, told.coverage("wmq/2").badge) == ("partly", "missing")
    assert told.coverage("nstl/1").measured == 2
    section = coverage_section(told, documents())
    assert "wmq/2" in repr(section)


def test_scenario_without_measurements_is_folded_and_the_other_is_open() -> None:
    nstl, wmq = document_sections(index(findings()), documents())
    (measured,) = [block for block in nstl.blocks if getattr(block, "level", 0) == 3]
    (missing,) = [block for block in wmq.blocks if getattr(block, "level", 0) == 3]
    assert (measured.fold, missing.fold) == ("open", "closed")  # type: ignore[union-attr]
    assert "Linux instead of Windows." in repr(measured)


def test_hosts_are_never_mixed_in_one_table() -> None:
    far = replace(figure(0, "entrepot-unix", 99_000), host="far")
    told = index(findings(figures=(*findings().figures, far)))
    near_table, far_table = (metric_table(told, host, "nstl/1", "throughput") for host in ("host", "far"))
    assert near_table is not None
    assert far_table is not None
    assert "99,000" not in repr(near_table)
    assert "14,000" not in repr(far_table.rows)


def test_mean_ratio_is_geometric_and_its_interval_narrows_with_points() -> None:
    rows = [compared(0, "rabbitmq", 2.0, 1.0, 4.0), compared(0, "rabbitmq", 8.0, 4.0, 16.0)]
    value, low, high = mean_ratio(rows)
    assert value == pytest.approx(4.0)
    # Half-widths of ln 2 each: √2·ln 2 / 2.
    assert low == pytest.approx(4.0 / 2 ** (2**0.5 / 2))
    assert high == pytest.approx(4.0 * 2 ** (2**0.5 / 2))


def test_summary_takes_the_best_of_the_others_at_each_point() -> None:
    found = {row.is_published: row for row in ratios(index(findings()), "host")}
    assert found[True].others == ("published: MSMQ",)
    assert (found[False].value, found[False].points) == (pytest.approx(2.0), 1)


def test_a_peer_counts_in_its_better_form_and_answered_is_compared_with_answered() -> None:
    figures = [figure(0, "entrepot-unix", 14_000), figure(0, "entrepot-unix-answered", 15_000)]
    figures += [figure(0, "rabbitmq", 7_000), figure(0, "rabbitmq-answered", 3_000)]
    rows = [
        replace(
            compared(0, other, mine / value, mine / value, mine / value), system=ours, value=mine, other_value=value
        )
        for ours, mine in (("entrepot-unix", 14_000.0), ("entrepot-unix-answered", 15_000.0))
        for other, value in (("rabbitmq", 7_000.0), ("rabbitmq-answered", 3_000.0))
    ]
    told = index(findings(figures=tuple(figures), comparisons=tuple(rows)))
    [found] = ratios(told, "host")
    assert (found.value, found.others) == (pytest.approx(2.0), ("rabbitmq",))
    waiting = told.best("host", "nstl/1", POINTS[0].key, "entrepot-unix-answered", "throughput", False)
    assert waiting is not None
    assert waiting.other == "rabbitmq-answered"
    table = main_table(told.findings)
    assert [column.title for column in table.columns if column.group == "Peers"] == ["RabbitMQ", "RabbitMQ, answered"]


def test_a_busy_machine_shows_beside_the_figure_its_ratio_and_their_mean() -> None:
    said = "other processes used 34% of the processors meanwhile (10% are allowed)"
    disturbed = figure(0, "rabbitmq", 7_000, busy=said)
    told = index(findings(figures=(figure(0, "entrepot-unix", 14_000), disturbed)))
    table = main_table(told.findings)
    notes = dict(table.notes)
    assert [notes[sign] for sign in cell(table, 0, "RabbitMQ").marks if sign.isalpha()] == [f"Busy machine: {said}."]
    assert [notes[sign] for sign in cell(table, 0, "÷ best peer").marks] == [
        "One of the two was measured on a busy machine."
    ]
    assert not cell(table, 0, "÷ published").marks
    assert {row.is_published: row.busy_points for row in ratios(told, "host")} == {True: 0, False: 1}
    glance = glance_table(told, "host")
    assert glance is not None
    assert "busy" in glance.rows[0][3].marks
    text = str(summary_section(told, documents()))
    assert "In 1 of 2 cases other processes used more than 10 % of the processors" in text
    assert "NSTL, express (busy)" in text


def test_summary_leaves_out_rates_that_a_schedule_set_and_reduced_cases() -> None:
    reduced = tuple(replace(row, reduced="fewer clients") for row in findings().comparisons)
    assert ratios(index(findings(comparisons=reduced)), "host") == []
    scheduled = FindingsIndex(findings(), {"nstl/1": replace(SCENARIO, load="open-loop")})
    assert ratios(scheduled, "host") == []
    rated_points = tuple(replace(point, parameters={**point.parameters, "rate_per_app_hour": 3600}) for point in POINTS)
    rows = tuple(replace(row, point=rated_points[0].key) for row in findings().comparisons)
    figures = tuple(replace(row, point=rated_points[0].key) for row in findings().figures)
    rated = findings(comparisons=rows, figures=figures, published=())
    assert ratios(FindingsIndex(rated, {"nstl/1": replace(SCENARIO, points=rated_points)}), "host") == []


def test_methods_tell_only_what_was_done() -> None:
    plain = repr(methods_section(index(findings())))
    assert "Closed loop. Each thread sends" in plain
    assert "95 % bootstrap" in plain
    for absent in ("search", "Accounts", "lateness", "Sampler", "Reduced", "log latency", "Few repetitions", "Rated"):
        assert absent not in plain, absent
    once = figure(0, "entrepot-unix", 14_000, repetitions=1, bottleneck="log latency")
    late = figure(0, "entrepot-unix", 0.001, "lateness_p99", repetitions=1)
    more = repr(
        methods_section(
            index(findings(figures=(once, late), accounting=Accounting(3, 1000, 998, lost=2), comparisons=()))
        )
    )
    assert "there are no intervals" in more
    assert "bootstrap" not in more
    assert "2 messages lost" in more
    assert "log latency" in more
    assert "None was marked for it." in more


def test_drawings_follow_the_kind_of_scenario() -> None:
    (bars,) = Chooser(index(findings()), "host", "nstl/1").drawings()
    assert [panel.title for panel in bars.panels] == ["Throughput, express, by message bytes"]
    assert [entry.title for entry in bars.legend] == [
        "published: MSMQ",
        "published: MQSeries",
        "Entrepot, unix",
        "RabbitMQ",
        "no figure: the trial was marked",
    ]
    assert [entry.hollow for entry in bars.legend] == [True, True, False, False, False]
    open_loop = replace(SCENARIO, name="csiro/figure-4", load="open-loop")
    moments = tuple(
        TrialSecond(
            "t-1", "csiro/figure-4", POINTS[0].key, "entrepot-unix", 0, second, 100.0, 90.0, 10.0 * second, None, None
        )
        for second in range(5)
    )
    told = FindingsIndex(findings(moments=moments), {"csiro/figure-4": open_loop})
    (course,) = Chooser(told, "host", "csiro/figure-4").drawings()
    assert "second by second" in course.caption
    assert "messages waiting" in course.panels[0].svg


def test_report_is_one_page_without_addresses_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    scenarios = {"nstl/1": SCENARIO, "wmq/2": OTHER}
    page = write_report(findings(), scenarios, tmp_path / "a")
    again = write_report(findings(), scenarios, tmp_path / "b")
    assert page == tmp_path / "a" / "index.html"
    text = page.read_text()
    assert text == again.read_text()
    assert (tmp_path / "a" / "report.md").read_text() == (tmp_path / "b" / "report.md").read_text()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["index.html", "report.md"]
    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\((?!#)", text)
    addresses = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_report_without_a_single_figure_says_so_and_shows_what_was_published(tmp_path: Path) -> None:
    empty = findings(figures=(), comparisons=(), marks=())
    text = write_report(empty, {"nstl/1": SCENARIO}, tmp_path).read_text()
    assert "No trial gave a figure" in text
    assert "14,130" in text
    assert "Entrepot ÷ best peer" not in text


def test_report_of_no_runs_or_into_an_impossible_folder_has_a_clear_answer(tmp_path: Path) -> None:
    with pytest.raises(ReportImpossible, match="there are no runs"):
        write_report(findings(runs=()), {}, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportImpossible, match="cannot be written"):
        write_report(findings(), {"nstl/1": SCENARIO}, tmp_path / "file" / "below")


def test_a_peer_that_promises_less_is_shown_and_never_the_best() -> None:
    made = findings()
    weaker = tuple(
        replace(each, contract="WEAKER: forced every 2 minutes") if each.system == "rabbitmq" else each
        for each in made.figures
    )
    point = POINTS[0].key
    told = FindingsIndex(made, {"nstl/1": SCENARIO}).best("host", "nstl/1", point, "entrepot-unix", "throughput", False)
    assert told is not None
    assert told.other == "rabbitmq"
    less = FindingsIndex(replace(made, figures=weaker), {"nstl/1": SCENARIO})
    assert less.best("host", "nstl/1", point, "entrepot-unix", "throughput", False) is None
