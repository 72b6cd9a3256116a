# SPDX-License-Identifier: Apache-2.0
"""`entrepot flow run`, `stop` and `status`: what they answer when something is missing or wrong, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.cli import flow_run, opening
from entrepot.client.blocking import connect
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import ConnectFailed, Fenced, FlowEnded
from entrepot.flows import load_flow
from entrepot.flows.live.deployment import Deployment
from entrepot.flows.live.instance import Instance
from entrepot.spark.starting import java as java_module
from entrepot.spark.starting import session as session_module
from entrepot.testing.servers import ServerThread

from .conftest import Complaint, Shell

FLOW = """\
flow: orders
nodes:
  In: {type: MQInput, queue: ORDERS, to: Out}
  Out: {type: MQOutput, queue: DONE}
"""
WITH_DATABASE = """\
flow: ledger
nodes:
  In: {type: MQInput, queue: ORDERS, to: Row}
  Row:
    type: Database
    data_source: LEDGER
    statements: INSERT INTO Database.t (n) VALUES (1);
    to: Out
  Out: {type: MQOutput, queue: DONE}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    path = tmp_path_factory.mktemp("flow_run") / "QM1"
    create(path, log=LogSettings(segment_bytes=256 * 1024, primary=3, secondary=4))
    with ServerThread(path) as running:
        with connect(running.unix_url) as connection:
            connection.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QLOCAL(DONE)")
        yield running


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "flow.yaml"
        path.write_text(text)
        return path

    return write


Written = Callable[[str], Path]


# --- run ------------------------------------------------------------------------------------------------------


def test_a_flow_file_that_is_missing_or_wrong_is_told_before_anything_starts(
    complaint: Complaint, server: ServerThread, written: Written, tmp_path: Path
) -> None:
    assert "nowhere.yaml" in complaint("flow", "run", server.path, tmp_path / "nowhere.yaml")
    assert "quue" in complaint("flow", "run", server.path, written(FLOW.replace("queue: DONE", "quue: DONE")))
    said = complaint("flow", "run", server.path, written(FLOW.replace("to: Out", "to: Nobody")))
    assert "flow.yaml:3:42" in said
    assert "There is In, Out" in said


def test_what_a_flow_needs_and_is_not_there_is_told_before_anything_starts(
    complaint: Complaint, server: ServerThread, written: Written, tmp_path: Path
) -> None:
    said = complaint("flow", "run", server.path, written(FLOW.replace("ORDERS", "ORDRES")))
    assert "node In: there is no queue ORDRES; DEFINE QLOCAL('ORDRES')" in said
    assert "FlowNotReady F08" in said
    said = complaint("flow", "run", server.path, written(WITH_DATABASE))
    assert "the data source 'LEDGER' has no database; say --database LEDGER=URL" in said
    down = "LEDGER=postgresql+psycopg://nobody@127.0.0.1:1/none"
    said = complaint("flow", "run", server.path, written(WITH_DATABASE), "--database", down)
    assert "data source LEDGER" in said
    assert "refused" in said
    unknown = "LEDGER=oracel://somewhere/db"
    assert "oracel" in complaint("flow", "run", server.path, written(WITH_DATABASE), "--database", unknown)
    missing = f"LEDGER=sqlite:///{tmp_path}/no/such/folder/db"
    said = complaint("flow", "run", server.path, written(WITH_DATABASE), "--database", missing)
    assert "unable to open database file" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--database", "LEDGER"), "is no data source; write ORDERS=postgresql+psycopg://host/db"),
        (("--spark", "memory"), "spark.executor.memory=512m"),
        (("--instances", "0"), "--instances"),
        (("--batch", "5000"), "--batch"),
        (("--local", "--master", "local[2]"), "--local runs without Spark"),
    ],
)
def test_wrong_options_are_wrong_usage(
    complaint: Complaint, server: ServerThread, written: Written, options: tuple[str, ...], said: str
) -> None:
    assert said in complaint("flow", "run", server.path, written(FLOW), *options, code=2)


def test_a_java_that_is_too_old_or_missing_is_told_with_advice(
    complaint: Complaint, server: ServerThread, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_391\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr(java_module, "find_spec", lambda _: None)
    # The process that had the tests of Spark may get this one, too, and would be refused a second session first.
    monkeypatch.setattr(session_module, "_active_context", lambda: None)
    monkeypatch.setattr(session_module, "_driver", None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    said = complaint("flow", "run", server.path, written(FLOW))
    assert "Spark needs Java 17 or later" in said
    assert "is 1.8.0_391" in said
    assert "Set JAVA_HOME to a later one" in said
    monkeypatch.delenv("JAVA_HOME")
    assert "no java is on the PATH" in complaint("flow", "run", server.path, written(FLOW))


def test_a_master_that_does_not_answer_is_told_at_once(
    complaint: Complaint, server: ServerThread, written: Written
) -> None:
    begun = time.monotonic()
    said = complaint("flow", "run", server.path, written(FLOW), "--master", "spark://127.0.0.1:1")
    assert "no Spark master answers at spark://127.0.0.1:1" in said
    assert time.monotonic() - begun < 45, "Spark itself would try for a minute"


def test_a_server_that_was_started_for_the_flow_ends_with_it(complaint: Complaint, qm: Path, written: Written) -> None:
    assert "no queue ORDERS" in complaint("flow", "run", qm, written(FLOW))
    assert opening.owner(qm) is None


def test_a_folder_that_is_no_queue_manager_is_told(complaint: Complaint, not_a_manager: Path, written: Written) -> None:
    assert "QueueManagerNotFound" in complaint("flow", "run", not_a_manager, written(FLOW))
    assert "QueueManagerNotFound" in complaint("flow", "status", not_a_manager)
    assert "QueueManagerNotFound" in complaint("flow", "stop", not_a_manager, "orders")


# --- stop and status ------------------------------------------------------------------------------------------


def test_stop_and_status_of_nothing_say_so(shell: Shell, qm: Path) -> None:
    assert shell("flow", "status", qm).stdout == "No flow has run here.\n"
    assert shell("flow", "stop", qm, "orders").stdout == "No instance of orders runs.\n"
    assert shell.json("flow", "status", qm) == {"instances": []}
    assert shell.json("flow", "stop", qm, "orders") == {"flow": "orders", "stopped": 0, "fenced": 0}


def test_status_tells_what_instances_do_and_stop_ends_them(
    shell: Shell, server: ServerThread, written: Written
) -> None:

    flow = load_flow(written(FLOW))
    instance = Instance(Deployment(flow, server.unix_url, run=1, node_statistics=True), 0)
    results: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: results.append(instance.run()), daemon=True)
    thread.start()
    with connect(server.unix_url) as connection:
        connection.put("ORDERS", b"<n>1</n>", persistent=True)
        connection.put("ORDERS", b"<n>2</n>", persistent=True)
        deadline = time.monotonic() + 60
        while not (row := shell.json("flow", "status", server.path, "orders")["instances"][0]).get("messages"):
            assert time.monotonic() < deadline
    assert row["connected"]
    said = " ".join(shell("flow", "status", server.path).stdout.split())
    assert "orders/default/0 running" in said
    assert "node messages errors elapsed ms CPU ms" in said
    assert shell("flow", "stop", server.path, "orders").stdout == "1 of 1 instances of orders have stopped.\n"
    thread.join(60)
    assert results[0]["messages"] == 2
    assert "orders/default/0 stopped 2 2 0 0" in " ".join(shell("flow", "status", server.path).stdout.split())


def test_the_status_of_an_instance_that_never_began_is_not_that_it_stopped(shell: Shell, server: ServerThread) -> None:
    with connect(server.unix_url) as connection:
        connection.retire("flow/awaited/default/0", 1000)
        rows = shell.json("flow", "status", server.path, "awaited")["instances"]
        assert [row["connected"] for row in rows] == [False]
        assert "awaited/default/0 not begun" in " ".join(shell("flow", "status", server.path, "awaited").stdout.split())


def test_stop_fences_what_does_not_end_in_time_and_says_so(shell: Shell, server: ServerThread) -> None:
    with connect(server.unix_url) as connection:
        connection.claim("flow/deaf/default/0", 1)
        said = shell("flow", "stop", server.path, "deaf", "--wait", "0", code=1).stdout
        with pytest.raises(Fenced):
            connection.put("DONE", b"too late")
    assert said == (
        "0 of 1 instances of deaf have stopped.\n"
        "1 did not end within 0 s and had to be fenced: its work is backed out.\n"
    )
    assert shell("flow", "stop", server.path, "deaf").stdout == "No instance of deaf runs.\n"


# --- while it runs --------------------------------------------------------------------------------------------


class Flow:
    """What `flow run` asks of a LiveFlow, with what it answers in turn."""

    name = "orders"

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.is_running = True

    def status(self) -> list[dict[str, Any]]:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            self.is_running = not isinstance(answer, FlowEnded)
            if self.is_running:
                raise answer
            self._error = answer
            return []
        messages, problem = answer
        return [{"messages": messages, "problem": problem, "connected": True}]

    def wait(self, _: float) -> bool:
        raise self._error


def test_while_it_runs_problems_are_told_once_and_idle_means_that_all_is_well(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gone = ConnectFailed("unix:/qm1", "nobody listens")
    flow: Any = Flow(
        (0, ""), (5, ""), (5, "no queue"), (5, "no queue"), gone, (5, ""), (5, ""), FlowEnded("orders", "x")
    )
    watched = flow_run._Watched(flow, quiet=False)
    assert [watched.look() for _ in range(8)] == [False, False, False, False, False, True, True, False]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "orders: 5 messages, 5/s"
    assert said[1] == "orders: no queue"
    assert "nobody listens" in said[2]
    assert said[3] == "orders: all is well again"
    assert "the flow orders does not run: x" in said[4]
    assert len(said) == 5
