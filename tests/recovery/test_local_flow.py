# SPDX-License-Identifier: Apache-2.0
"""`entrepot flow run --local`: flows in plain processes, which are killed as those on Spark are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from channels.processes import ServerProcess, until
from entrepot.errors import FlowEnded
from entrepot.flows.live import local_processes
from entrepot.flows.live.local_processes import LocalFlow
from spark.campaign import Campaign, numbered_flow, running
from spark.conftest import killable

__all__ = ["killable"]


@pytest.mark.parametrize(("seed", "kills"), [(1, 8), pytest.param(2, 40, marks=pytest.mark.torture)])
def test_queue_to_queue_survives_kills_of_instances_and_queue_manager(
    killable: ServerProcess, seed: int, kills: int
) -> None:
    campaign = Campaign(killable, "IN", "OUT", seed)
    campaign.put()
    worker = campaign.kill_worker
    kinds = [worker, campaign.cancel_job, worker, campaign.kill_server]
    with running(LocalFlow(numbered_flow("local", "IN", "OUT"), killable.unix_url, instances=2, batch_max=20)) as live:
        campaign.survive(live, kinds, kills)
        pids = pids_of(live)
    assert campaign.require_exactly_once() > 100
    assert not any(is_alive(pid) for pid in pids)


def pids_of(live: LocalFlow) -> list[int]:
    return [int(row["pid"]) for row in live.status() if "pid" in row]


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


FLOW = """\
flow: from-a-terminal
nodes:
  In: {type: MQInput, queue: IN, to: Out}
  Out: {type: MQOutput, queue: OUT}
"""


def test_the_command_works_in_a_relative_folder_without_java_and_leaves_no_instance_when_it_is_killed(
    killable: ServerProcess, tmp_path: Path
) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text(FLOW)
    folder = Path(killable.unix_url.removeprefix("unix:"))
    command = [
        sys.executable,
        "-m",
        "entrepot.cli.main",
        "flow",
        "run",
        f"./{folder.name}",
        str(flow),
        "--local",
        "--json",
    ]
    without_java = {**os.environ, "PATH": str(Path(sys.executable).parent), "JAVA_HOME": "/nowhere"}
    started = subprocess.Popen(command, cwd=folder.parent, stdout=subprocess.PIPE, text=True, env=without_java)
    assert started.stdout is not None
    assert json.loads(started.stdout.readline())["state"] == "running"
    campaign = Campaign(killable, "IN", "OUT", 1)
    campaign.put(100)
    until(lambda: campaign.depth("OUT") == 100, "all have come through")
    with killable.connect() as connection:
        (claim,) = connection.claims("flow/from-a-terminal/")
        started.kill()
        started.wait()
        started.stdout.close()
        until(lambda: not connection.claims("flow/from-a-terminal/")[0].connected, "its instance ends with it")
    until(lambda: not is_alive(claim.status["pid"]), "and its process")


def test_ctrl_c_stops_it_in_good_order(killable: ServerProcess, tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text(FLOW)
    command = [
        sys.executable,
        "-m",
        "entrepot.cli.main",
        "flow",
        "run",
        killable.unix_url,
        str(flow),
        "--local",
        "--json",
    ]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert started.stdout is not None
    assert started.stdout.readline()
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does
    output, _ = started.communicate(timeout=120)
    assert started.returncode == 0
    (row,) = json.loads(output)["instances"]
    assert row["connected"] is False


def test_a_process_that_dies_again_and_again_is_begun_again_after_a_pause(
    killable: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_processes, "_PROGRAM", (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"))
    with LocalFlow(numbered_flow("dying", "IN", "OUT"), killable.unix_url) as live:
        until(lambda: live.restarts > 0, "it is begun again")
        monkeypatch.undo()
        live.wait_until_running()
        assert "has ended with -9, 4 times" in live._trouble


def test_what_cannot_be_loaded_there_ends_the_flow_with_what_python_said(
    killable: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "from entrepot.flows.live import instance_process as p; p.run_instance = lambda *_: 1 // 0; p.main()"
    monkeypatch.setattr(local_processes, "_PROGRAM", (sys.executable, "-c", program))
    with LocalFlow(numbered_flow("wrong", "IN", "OUT"), killable.unix_url, instances=2) as live:
        with pytest.raises(FlowEnded, match="its tasks fail: ZeroDivisionError"):
            live.wait(120)
        with pytest.raises(FlowEnded):
            live.wait_until_running(1.0)
