# SPDX-License-Identifier: Apache-2.0
"""`entrepot flow run` on a real cluster: kill its executors, kill the command itself, and count."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from channels.processes import ServerProcess, until
from entrepot.testing.spark_cluster import SparkCluster
from spark.campaign import Campaign, numbered_flow


class FlowCommand:
    """`entrepot flow run` as a process."""

    def __init__(self, server: ServerProcess, flow: Path, *options: str) -> None:
        # Executors have other working folders than the command, whose folder is relative.
        folder = Path(server.unix_url.removeprefix("unix:"))
        command = [sys.executable, "-m", "entrepot.cli.main", "flow", "run", f"./{folder.name}", str(flow), "--json"]
        self._process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, cwd=folder.parent)
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        assert told, "it tells when it runs"

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def stop(self) -> dict[str, object]:
        """As Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        output, _ = self._process.communicate(timeout=200)
        assert self._process.returncode == 0
        told: dict[str, object] = json.loads(output)
        return told


def executors(server: ServerProcess, flow: str) -> list[int]:
    """The JVMs in which a flow's tasks run: the parents of what forks their Python processes."""
    with server.connect() as connection:
        claims = [claim for claim in connection.claims(f"flow/{flow}/") if claim.connected]
    found = []
    for claim in claims:
        pid = (claim.status or {}).get("pid")
        with contextlib.suppress(OSError, ValueError):
            found.append(_parent(_parent(int(pid or 0))))
    return found


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("executor_kills", "driver_kills"), [(1, 1), pytest.param(10, 4, marks=pytest.mark.torture)])
def test_nothing_is_lost_or_twice_when_executors_and_the_command_itself_are_killed(
    killable: ServerProcess, cluster: SparkCluster, tmp_path: Path, executor_kills: int, driver_kills: int
) -> None:
    campaign = Campaign(killable, "IN", "OUT", 3)
    campaign.put()
    flow = tmp_path / "clustered.yaml"
    flow.write_text(yaml.safe_dump(as_yaml("clustered")))
    options = ["--master", cluster.url, "--instances", "2"]
    for key, value in cluster.settings.items():
        options += ["--spark", f"{key}={value}"]
    command = FlowCommand(killable, flow, *options)
    until(lambda: len(set(executors(killable, "clustered"))) == 2, "each instance has an executor of its own")
    for _ in range(executor_kills):
        campaign.wait_for_progress()
        until(lambda: executors(killable, "clustered"), "an instance has told its process")
        os.kill(executors(killable, "clustered")[0], signal.SIGKILL)
        campaign.kills["executor"] += 1
    for _ in range(driver_kills):
        campaign.wait_for_progress()
        command.kill()
        campaign.kills["driver"] += 1
        command = FlowCommand(killable, flow, *options)
    campaign.wait_for_progress()
    told = command.stop()
    assert told["instances"]
    assert campaign.require_exactly_once() > 100


def test_instances_end_when_spark_is_killed_below_them_piece_by_piece(killable: ServerProcess, tmp_path: Path) -> None:
    """The daemon first, so that it cannot end its workers; then Java, which would start others; then the command."""
    flow = tmp_path / "orphans.yaml"
    flow.write_text(yaml.safe_dump(as_yaml("orphans")))
    command = FlowCommand(killable, flow, "--instances", "2")
    until(lambda: len(instance_pids(killable, "orphans")) == 2, "both have told their process")
    first = instance_pids(killable, "orphans")
    java = executors(killable, "orphans")[0]
    os.kill(_parent(first[0]), signal.SIGKILL)
    until(lambda: not any(_is_alive(pid) for pid in first), "instances without a parent end")

    until(lambda: len(instance_pids(killable, "orphans")) == 2, "Spark begins them again")
    second = instance_pids(killable, "orphans")
    assert not set(first) & set(second)
    os.kill(_parent(second[0]), signal.SIGKILL)
    os.kill(java, signal.SIGKILL)
    command.kill()
    until(lambda: not any(_is_alive(pid) for pid in second), "they end")


def instance_pids(server: ServerProcess, flow: str) -> list[int]:
    with server.connect() as connection:
        claims = [claim for claim in connection.claims(f"flow/{flow}/") if claim.connected]
    return [int(claim.status["pid"]) for claim in claims if (claim.status or {}).get("pid")]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def as_yaml(name: str) -> dict[str, object]:
    """The campaign's flow as somebody would write it."""
    definition = numbered_flow(name, "IN", "OUT")
    following = {link.source: link.target for link in definition.links}
    nodes = {
        node.name: {"type": node.type, **node.properties}
        | ({"to": following[node.name]} if node.name in following else {})
        for node in definition.nodes.values()
    }
    return {"flow": name, "nodes": nodes}
