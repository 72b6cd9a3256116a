# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from entrepot.errors import ScenarioInvalid, ScenarioUnknown
from entrepot.workbench import catalogue, loads
from entrepot.workbench.broker.cases import cases
from entrepot.workbench.catalogue import find_scenarios, place_among, place_of, published_rows, scenarios
from entrepot.workbench.published import documents, read_documents
from entrepot.workbench.quality import Quality
from entrepot.workbench.scenario import DOCUMENTS, Scenario, parse_scenario
from folding import for_each

SYSTEM_OPTIONS = {"binding", "channel_pairs", "database", "foreign", "queue_limit_bytes"}
"""What a system, and not the load, reads from a point."""
IMPLIED_BY_CASE = {"destinations", "input_format", "output_format"}
"""What a published row says of a flow, and its case has built in; a test below compares the two."""
PUBLISHED = 1135
GOOD = """
title: Some
shows: [table 1]
load: send
points:
  - {quality: express, message_bytes: [10, 1000], threads: 1}
"""


def _written(folder: Path, text: str) -> Path:
    path = folder / "1.yaml"
    path.write_text(text)
    return path


def _homeless(known: Mapping[str, Scenario]) -> list[str]:
    """What has not exactly one place, and why."""
    found = []
    for row in published_rows():
        try:
            place_among(row, known)
        except LookupError as error:
            found.append(str(error))
    return found


def _uncovered(known: Mapping[str, Scenario]) -> tuple[set[str], set[str]]:
    """Measurements without a scenario; things that scenarios show and documents do not measure."""
    shown = {f"{name.partition('/')[0]}: {thing}" for name, scenario in known.items() for thing in scenario.shows}
    measured = {
        f"{folder}: {thing.name}"
        for folder, document in documents().items()
        for thing in document.shows.values()
        if thing.kind == "measurement"
    }
    return measured - shown, shown - measured


# What is published and what is measured


def test_every_published_figure_has_exactly_one_place() -> None:
    assert len(published_rows()) == PUBLISHED
    assert _homeless(scenarios()) == []


def test_a_place_is_a_point_of_its_scenario() -> None:
    for row in published_rows():
        name, key = place_of(row)
        (point,) = (point for point in scenarios()[name].points if point.key == key)
        assert {column: str(point.parameters[column]) for column in row.parameters} == row.parameters


def test_rows_are_read_with_their_types() -> None:
    row = published_rows()[0]
    assert (row.source, row.table, row.system, row.metric) == ("nstl-msmq-mqseries", "1", "MSMQ", "throughput")
    assert (row.message_bytes, row.apps, row.value, row.quality) == (10, None, 14130.0, Quality.EXPRESS)
    assert row.parameters == {"message_bytes": "10", "threads": "1"}
    assert place_of(row) == ("nstl/1", "message_bytes=10,quality=express,threads=1")


def test_only_memory_and_short_sessions_are_published_without_a_quality() -> None:
    found = Counter(row.metric for row in published_rows() if row.quality is None)
    assert set(found) <= {"memory_per_client", "memory_per_open_queue", "short_sessions"}


def test_every_measurement_of_the_documents_has_a_scenario_and_no_scenario_shows_what_is_none() -> None:
    assert _uncovered(scenarios()) == (set(), set())


def test_documents_are_those_that_publish() -> None:
    assert {folder: document.source for folder, document in documents().items()} == DOCUMENTS
    assert {document.source for document in documents().values()} == {row.source for row in published_rows()}


def test_every_published_table_is_listed_among_what_its_document_shows() -> None:
    of_source = {document.source: document.shows for document in documents().values()}
    for source, table in {(row.source, row.table) for row in published_rows()}:
        assert {f"table {table}", f"section {table}"} & of_source[source].keys(), (source, table)


@pytest.mark.parametrize("lost", ["nstl/6", "wbimb/10.8.3.2", "wmq/14-client", "csiro/5", "sonicmq/many-to-one-queue"])
def test_a_lost_scenario_leaves_published_figures_without_a_place(lost: str, tmp_path: Path) -> None:
    shutil.copytree(catalogue.FOLDER, tmp_path / "scenarios")
    (tmp_path / "scenarios" / f"{lost}.yaml").unlink()
    assert _homeless(catalogue.read_scenarios(tmp_path / "scenarios"))


def test_a_lost_figure_is_missed_although_no_row_belongs_to_it(tmp_path: Path) -> None:
    shutil.copytree(catalogue.FOLDER, tmp_path / "scenarios")
    (tmp_path / "scenarios" / "wmq" / "figure-19.yaml").unlink()
    known = catalogue.read_scenarios(tmp_path / "scenarios")
    assert _homeless(known) == []
    assert _uncovered(known)[0] == {"wmq: figure 19"}


def test_a_scenario_that_is_there_twice_leaves_figures_with_two_places(tmp_path: Path) -> None:
    shutil.copytree(catalogue.FOLDER, tmp_path / "scenarios")
    twin = (tmp_path / "scenarios/nstl/1.yaml").read_text() + 'rows: {table: "1"}\n'
    (tmp_path / "scenarios/nstl/1-again.yaml").write_text(twin)
    found = _homeless(catalogue.read_scenarios(tmp_path / "scenarios"))
    assert len(found) == 16
    assert "2 places" in found[0]


# What scenarios say


def test_every_load_of_a_scenario_exists_and_every_load_has_a_scenario() -> None:
    assert {scenario.load for scenario in scenarios().values()} == set(loads.NAMES)


@for_each("load", loads.NAMES)
def test_a_load_knows_every_parameter_that_its_scenarios_give_it(load: str) -> None:
    known = {*loads.find_load(load).parameters, "quality", *SYSTEM_OPTIONS}
    if load == "flow":
        known |= IMPLIED_BY_CASE
    unknown = {
        (scenario.name, parameter)
        for scenario in scenarios().values()
        if scenario.load == load
        for point in scenario.points
        for parameter in {*point.parameters, *point.effective, *scenario.thumbnail, *scenario.quick}
        if parameter not in known
    }
    assert unknown == set()


def test_no_scenario_measures_a_point_twice() -> None:
    for scenario in scenarios().values():
        keys = [point.key for point in scenario.points]
        assert len(set(keys)) == len(keys), scenario.name


def test_every_scenario_has_something_to_do_in_a_quick_run_and_says_how_it_differs() -> None:
    for scenario in scenarios().values():
        assert scenario.quick_points(), scenario.name
        assert scenario.thumbnail_point().effective, scenario.name
        assert scenario.title, scenario.name
        assert scenario.differs, scenario.name


def test_quick_runs_meet_published_figures_wherever_there_are_any() -> None:
    """Or a quick report would set nothing of ours beside what the document has."""
    places = {place_of(row) for row in published_rows()}
    published = {name for name, _ in places}
    for scenario in scenarios().values():
        if scenario.name in published:
            assert any((scenario.name, point.key) in places for point in scenario.quick_points()), scenario.name


def test_flows_are_those_of_their_table() -> None:
    for scenario in scenarios().values():
        if scenario.load == "flow":
            for case in {str(point.parameters["case"]) for point in scenario.points}:
                assert case in cases(), scenario.name
                if scenario.table.startswith("10."):
                    assert cases()[case].table == scenario.table


def test_formats_and_destinations_are_those_of_the_flow() -> None:
    for scenario in scenarios().values():
        for parameters in (point.parameters for point in scenario.points):
            if "input_format" in parameters:
                formats = f"{parameters['input_format']}_to_{parameters['output_format']}".replace("-", "_")
                assert str(parameters["case"]).endswith(formats), scenario.name
            if "destinations" in parameters and parameters["case"] != "aggregation":
                assert parameters["case"] == f"route_to_label_{parameters['destinations']}"


def test_what_is_too_large_is_made_smaller_with_a_reason_and_keeps_its_published_parameters() -> None:
    reduced = [(scenario, point) for scenario in scenarios().values() for point in scenario.points if point.reduced]
    assert {scenario.name for scenario, _ in reduced} == {
        "sonicmq/one-to-one-pubsub",
        "wbimb/10.9.1.4",
        "wbimb/10.11.1.4",
        "wbimb/10.11.2.4",
        "wmq/6.1",
        "wmq/16",
        "wmq/17",
    }
    for scenario, point in reduced:
        assert point.reduced.endswith("."), scenario.name
        changed = {name for name in point.effective if point.effective[name] != point.parameters.get(name)}
        assert changed, scenario.name
        for name in changed - {"rate_per_app_hour"}:
            assert float(point.effective[name]) < float(point.parameters[name]), scenario.name


def test_fewer_clients_together_offer_the_published_rate() -> None:
    for scenario in scenarios().values():
        for point in scenario.points:
            if point.reduced and "rate_per_app_hour" in point.parameters:
                offered, published = (
                    float(values["apps"]) * float(values["rate_per_app_hour"])
                    for values in (point.effective, point.parameters)
                )
                assert offered == published, scenario.name


# Names


def test_scenarios_come_in_the_order_of_the_documents_and_of_their_numbers() -> None:
    names = list(scenarios())
    assert [name.partition("/")[0] for name in names] == sorted(
        (name.partition("/")[0] for name in names), key=list(DOCUMENTS).index
    )
    assert names[:8] == [f"nstl/{number}" for number in range(1, 9)]
    assert names.index("wbimb/2.5") < names.index("wbimb/10.1") < names.index("wbimb/10.10.1")
    assert names.index("wbimb/10.9.2") < names.index("wbimb/10.10.1") < names.index("wbimb/10.11.1.1")
    assert [name for name in names if name.startswith("wmq/")][5:8] == ["wmq/6", "wmq/6.1", "wmq/7"]
    assert names.index("wmq/17") < names.index("wmq/figure-17")


@for_each(
    ("pattern", "meant"),
    [
        ("nstl/1", ["nstl/1"]),
        ("csiro/figure-*", ["csiro/figure-3", "csiro/figure-4", "csiro/figure-6"]),
        ("wmq/figure-21", ["wmq/1", "wmq/11"]),
        ("csiro/figure-5", ["csiro/figure-4"]),
        ("wmq/14", ["wmq/14-client", "wmq/14-local", "wmq/14-server"]),
        ("wmq/table-2", ["wmq/2"]),
        ("*/3", ["nstl/3", "wmq/3", "csiro/3"]),
        ("sonicmq/limit-1mb", ["sonicmq/limit-1mb"]),
    ],
)
def test_a_scenario_is_named_by_its_file_by_what_it_shows_or_by_a_pattern(pattern: str, meant: list[str]) -> None:
    assert [scenario.name for scenario in find_scenarios([pattern])] == meant


def test_a_table_that_several_files_share_names_them_all() -> None:
    assert len(find_scenarios(["sonicmq/A"])) == 6


def test_scenarios_that_are_named_twice_come_once_and_in_order() -> None:
    found = find_scenarios(["wmq/2", "nstl/1", "nstl/[12]", "wmq/2"])
    assert [scenario.name for scenario in found] == ["nstl/1", "nstl/2", "wmq/2"]


def test_an_unknown_name_is_answered_with_those_near_it() -> None:
    with pytest.raises(ScenarioUnknown) as caught:
        find_scenarios(["nstl/1", "sonicmq/one-to-many-queues"])
    assert caught.value.name == "sonicmq/one-to-many-queues"
    assert "sonicmq/one-to-many-queue" in caught.value.near


@for_each("name", ["", "/", "nstl", "nstl/", "nstl/99", "other/1", "rabbitmq/*", "[", "nstl/1 "])
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(ScenarioUnknown):
        find_scenarios([name])


# Files that cannot be read


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ("title: [", "", "is not YAML"),
        ("- title", "", "has to be a mapping"),
        ("", "", "has to be a mapping"),
        (GOOD + "colour: red\n", "colour", "is unknown"),
        (GOOD.replace("title: Some\n", ""), "title", "is missing"),
        (GOOD.replace("load: send\n", ""), "load", "is missing"),
        (GOOD.replace("shows: [table 1]\n", ""), "shows", "is missing"),
        (GOOD.partition("points")[0], "points", "is missing"),
        (GOOD.partition("points")[0] + "points: []\n", "points", "has to be a list"),
        (GOOD.partition("points")[0] + "points: [express]\n", "points", "is no mapping"),
        (GOOD.replace("quality: express, ", ""), "points", "has no quality"),
        (GOOD.replace("express", "durable"), "quality", "'durable' is none of express"),
        (GOOD + "entrepot: pipe\n", "entrepot", "'pipe' is none of"),
        (GOOD + "too_large: [{where: {threads: 1}, instead: {threads: 1}}]\n", "too_large", "needs where, reason"),
        (GOOD + "too_large: many\n", "too_large", "has to be a list of mappings"),
        (GOOD + "too_large: [many]\n", "too_large", "has to be a list of mappings"),
        (GOOD + "quick: 1000\n", "quick", "has to be a mapping"),
        (GOOD + "rows: [A]\n", "rows", "has to be a mapping"),
        (GOOD + "thumbnail: small\n", "thumbnail", "has to be a mapping"),
    ],
)
def test_a_bad_file_is_refused_with_its_path_and_the_key(text: str, key: str, problem: str, tmp_path: Path) -> None:
    path = _written(tmp_path, text)
    with pytest.raises(ScenarioInvalid) as caught:
        parse_scenario(path, "nstl/1")
    assert caught.value.path == str(path)
    assert caught.value.key == key
    assert problem in caught.value.problem


def test_axes_are_multiplied_out(tmp_path: Path) -> None:
    text = GOOD.replace("threads: 1", "threads: [1, 3]")
    scenario = parse_scenario(_written(tmp_path, text), "nstl/1")
    assert [point.key for point in scenario.points] == [
        "message_bytes=10,quality=express,threads=1",
        "message_bytes=10,quality=express,threads=3",
        "message_bytes=1000,quality=express,threads=1",
        "message_bytes=1000,quality=express,threads=3",
    ]


def test_what_is_too_large_keeps_its_key(tmp_path: Path) -> None:
    limit = "too_large: [{where: {message_bytes: [1000]}, reason: No room., instead: {message_bytes: 500}}]\n"
    small, large = parse_scenario(_written(tmp_path, GOOD + limit), "nstl/1").points
    assert small.effective == small.parameters
    assert not small.reduced
    assert large.key == "message_bytes=1000,quality=express,threads=1"
    assert large.effective["message_bytes"] == 500
    assert large.reduced == "No room."


def test_a_folder_that_is_no_documents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rfc").mkdir()
    with pytest.raises(ScenarioInvalid, match="named after no document"):
        catalogue.read_scenarios(tmp_path)


def test_a_document_shows_measurements_and_diagrams_only(tmp_path: Path) -> None:
    path = tmp_path / "documents.yaml"
    path.write_text("nstl: {source: a, title: b, year: 2000, shows: {table 1: {photo: caption}}}\n")
    with pytest.raises(ScenarioInvalid, match="'photo' is neither"):
        read_documents(path)
