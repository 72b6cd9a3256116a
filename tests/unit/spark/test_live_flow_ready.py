# SPDX-License-Identifier: Apache-2.0
"""What is checked before a flow runs, what a task of Spark does, and which words of Spark's errors are passed on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.client.blocking import Connection
from entrepot.errors import FlowNotReady, NotAuthorized
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live import flow_databases
from entrepot.flows.live.deployment import ATTEMPTS_MAX, Deployment
from entrepot.flows.live.readiness import require_ready
from entrepot.spark.live import live_flow
from entrepot.spark.live.live_flow import _is_foreign, _reason, _Task
from open_files import open_files
from unit.flows.live.staged import Stage, drawn, node, reads, writes

INSERT = "INSERT INTO Database.t (n) VALUES (1);"
TRACEBACK = "Traceback (most recent call last):"


def _flow(stage: Stage, source: str = "", *, queue: str = "", coordinated: bool = False) -> FlowDefinition:
    return drawn(
        "In -> Row -> Out",
        coordinated=coordinated,
        In=reads(queue or stage.queue()),
        Row=node("Database", statements=INSERT, data_source=source),
        Out=writes(stage.queue()),
    )


def _problems(flow: FlowDefinition, databases: dict[str, str], connection: Connection) -> tuple[str, ...]:
    try:
        require_ready(flow, databases, connection)
    except FlowNotReady as error:
        return error.problems
    return ()


# --- before it runs ---------------------------------------------------------------------------------------------


def test_a_data_source_has_a_database_of_its_own_or_the_default_one(stage: Stage, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    flow = _flow(stage, "LEDGER")
    missing = "node Row: the data source 'LEDGER' has no database; say --database LEDGER=URL"
    assert _problems(flow, {"LEDGER": url}, stage.connection) == ()
    assert _problems(flow, {"": url}, stage.connection) == ()
    assert _problems(flow, {"OTHER": url}, stage.connection) == (missing,)
    assert _problems(flow, {}, stage.connection) == (missing,)
    assert _problems(_flow(stage), {}, stage.connection) == (), "a node that names none has the default one"


def test_queues_that_the_flow_makes_itself_need_not_be_there(stage: Stage) -> None:
    timer = drawn("Timer -> Out", Timer=node("TimeoutNotification", unique_id="READY"), Out=writes(stage.queue()))
    assert _problems(timer, {}, stage.connection) == ()
    (missing,) = _problems(_flow(stage, queue="NOT.DEFINED"), {}, stage.connection)
    assert missing == "node In: there is no queue NOT.DEFINED; DEFINE QLOCAL('NOT.DEFINED')"


def test_who_may_not_look_at_a_queue_hears_of_it_from_the_get(stage: Stage) -> None:
    class MayNotLook:
        def mqsc(self, script: str) -> None:
            raise NotAuthorized("somebody", "DSP", script)

    connection: Any = MayNotLook()
    assert _problems(_flow(stage), {}, connection) == ()


def test_a_database_that_cannot_be_reached_is_told_once(stage: Stage, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/no/such/folder/ledger.db"
    for coordinated in (False, True):
        problems = _problems(_flow(stage, coordinated=coordinated), {"": url}, stage.connection)
        assert [problem.partition(":")[0] for problem in problems] == ["data source (default)"]


def test_two_databases_that_cannot_prepare_are_told_for_coordinated_flows_only(stage: Stage, tmp_path: Path) -> None:
    urls = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("A", "B")}
    assert _problems(_flow(stage, "A"), urls, stage.connection) == ()
    (problem,) = _problems(_flow(stage, "A", coordinated=True), urls, stage.connection)
    assert "A.db" in problem
    assert "B.db" in problem


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[flow_databases.FlowDatabases]]:
    """Every `FlowDatabases` that is made, so that none is closed by being forgotten."""
    kept: list[flow_databases.FlowDatabases] = []

    class Kept(flow_databases.FlowDatabases):
        def __init__(self, urls: Any) -> None:
            super().__init__(urls)
            kept.append(self)

    monkeypatch.setattr(flow_databases, "FlowDatabases", Kept)
    yield kept
    for each in kept:
        each.close()


@pytest.mark.parametrize("coordinated", [False, True])
def test_a_check_leaves_no_database_open_and_no_unit_of_work(
    stage: Stage, tmp_path: Path, kept: list[flow_databases.FlowDatabases], coordinated: bool
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    flow = _flow(stage, coordinated=coordinated)
    assert _problems(flow, {"": url}, stage.connection) == ()
    assert open_files(tmp_path) == []
    assert _units(stage) == []


def _units(stage: Stage) -> list[str]:
    rows = stage.connection.mqsc("DISPLAY CONN(*) UOWSTATE APPLTAG")[0].rows
    return [str(row) for row in rows if str(row.get("UOWSTATE") or "NONE") != "NONE"]


# --- what Spark runs --------------------------------------------------------------------------------------------


class Process:
    """What stands in for a `WorkerProcess`."""

    made: list[Process]

    def __init__(self, message_s_max: float, *, is_own: bool = False, parent: int = 0) -> None:
        self.message_s_max, self.is_own, self.is_closed = message_s_max, is_own, False
        Process.made.append(self)

    def begin_message(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    Process.made = []
    monkeypatch.setattr(live_flow, "WorkerProcess", Process)
    return Process.made


def test_a_task_runs_its_instance_in_a_process_of_its_own_and_lets_go_of_it(
    stage: Stage, processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def run(deployment: Deployment, number: int, attempt: int, process: Any) -> dict[str, Any]:
        assert process.is_own
        assert not process.is_closed
        asked.append((number, attempt))
        return {"messages": number}

    monkeypatch.setattr(live_flow, "run_instance", run)
    results = list(_Task(Deployment(_flow(stage), stage.url, message_s_max=7.0))([3]))
    assert (results, asked) == ([{"messages": 3}], [(3, 0)])
    assert [(process.message_s_max, process.is_closed) for process in processes] == [(7.0, True)]


def test_a_task_that_was_fenced_ends_well_so_that_spark_does_not_try_again(
    stage: Stage, processes: list[Process]
) -> None:
    deployment = Deployment(_flow(stage), stage.url, run=1)
    stage.connection.retire(deployment.claim_name(0), 2 * ATTEMPTS_MAX)
    (result,) = _Task(deployment)([0])
    assert result["fenced"] is True
    assert deployment.claim_name(0) in result["problem"]
    assert processes[0].is_closed


def test_a_task_that_fails_lets_go_of_its_process_too(
    stage: Stage, processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object) -> None:
        raise OSError("no more memory")

    monkeypatch.setattr(live_flow, "run_instance", run)
    with pytest.raises(OSError, match="no more memory"):
        list(_Task(Deployment(_flow(stage), stage.url))([0]))
    assert processes[0].is_closed


# --- the words of Spark -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("it is gone", "it is gone"),
        ("it is gone\n\tat org.apache.spark\n", "it is gone"),
        ("Job aborted: most recent failure: Lost task 0.3 \n\tat org.apache", "Lost task 0.3"),
        (f"thrown:\n{TRACEBACK}\n  File 1\n    raise\n\nValueError: 7\n  note\n\tat org", "ValueError: 7"),
        (f"thrown:\n{TRACEBACK}\nValueError: 7", "ValueError: 7"),
        (f"{TRACEBACK}\n  File 1\nKeyError: 1\n\nduring that\n\n{TRACEBACK}\n  File 2\nOSError: 2", "OSError: 2"),
        (f"{TRACEBACK}\n  File 1\n  File 2", "  File 2"),
        (TRACEBACK, TRACEBACK),
    ],
)
def test_of_an_error_of_spark_the_reason_is_told_without_stacks(text: str, reason: str) -> None:
    assert _reason(RuntimeError(text)) == reason


def test_a_reason_has_500_characters_at_most() -> None:
    assert len(_reason(RuntimeError("x" * 900))) == 500
    assert len(_reason(RuntimeError(f"{TRACEBACK}\n{'x' * 900}"))) == 500


def test_what_python_has_raised_is_foreign_unless_it_is_ours() -> None:
    assert _is_foreign(RuntimeError(f"{TRACEBACK}\nValueError: 7"))
    assert not _is_foreign(RuntimeError(f"{TRACEBACK}\nentrepot.errors.channels.ConnectFailed: gone"))
    assert not _is_foreign(RuntimeError("Python worker exited unexpectedly"))
