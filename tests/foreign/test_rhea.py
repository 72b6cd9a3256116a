# SPDX-License-Identifier: Apache-2.0
"""Rhea, the AMQP client of Node, unmodified, against our AMQP side; one script in rhea/ for each scenario."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .amqp_server import AmqpServer
from .test_proton_client import eventually

SCRIPTS = Path(__file__).parent / "rhea"
# Beside the Python packages, so that the tree stays as it was checked out.
MODULES = Path(sys.prefix) / "rhea"

pytestmark = pytest.mark.skipif(
    shutil.which("npm") is None or shutil.which("node") is None, reason="node and npm are not installed"
)


@pytest.fixture(scope="session")
def modules() -> Path:
    """Rhea, installed once for all test runs; where npm's registry cannot be reached, these tests are skipped."""
    MODULES.mkdir(exist_ok=True)
    wanted = (SCRIPTS / "package.json").read_text()
    stamp = MODULES / "package.json"
    with (MODULES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (MODULES / "node_modules" / "rhea").exists() or not stamp.exists() or stamp.read_text() != wanted:
            stamp.write_text(wanted)
            command = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0", "--prefix", str(MODULES)]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
                shutil.rmtree(MODULES / "node_modules", ignore_errors=True)
                pytest.skip(f"npm cannot install rhea here: {str(failed.stderr or failed).strip()[:200]}")
    return MODULES / "node_modules"


def run(modules: Path, server: AmqpServer, script: str, queue: str) -> Any:
    finished = subprocess.run(
        ["node", str(SCRIPTS / script), str(server.port), queue],
        env={**os.environ, "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_sent_messages_are_received(modules: Path, server: AmqpServer, queue: str) -> None:
    assert run(modules, server, "send.js", queue) == {"accepted": 100}
    assert server.depth(queue) == 100
    got = run(modules, server, "receive.js", queue)
    assert [each["body"] for each in got] == ["text", "data", "binary", {"a": 1}, [1, "x"]]
    assert [each["id"] for each in got] == [f"id-{number}" for number in range(5)]
    assert {(each["subject"], each["durable"]) for each in got} == {("a subject", True)}
    assert eventually(lambda: server.depth(queue) == 95)


def test_every_way_to_settle(modules: Path, server: AmqpServer, queue: str) -> None:
    seen = run(modules, server, "settle.js", queue)
    assert seen == [
        ["settled", True, 0],
        ["released", False, 0],
        ["released", False, 0],
        ["modified", False, 0],
        ["modified", False, 1],
        ["rejected", False, 0],
    ]
    moved = server.host.get("BACKOUT", wait_s=60)
    assert moved is not None
    assert moved.properties["dead_letter_problem"] == "app:poison: cannot be read"


def test_refusals_have_their_conditions(modules: Path, server: AmqpServer) -> None:
    assert run(modules, server, "reject.js", "TINY") == {
        "rejected": "amqp:link:message-size-exceeded",
        "detached": "amqp:not-found",
    }


def test_transactions_commit_and_abort(modules: Path, server: AmqpServer, queue: str) -> None:
    assert run(modules, server, "transaction.js", queue) == {
        "committed": "accepted",
        "before": [["c", 0], ["d", 0]],
        "after": [["c", 1], ["d", 1]],
        "unknown": "amqp:transaction:unknown-id",
    }
    assert server.depth(queue) == 0


def test_reply_finds_its_way(modules: Path, server: AmqpServer, queue: str) -> None:
    assert run(modules, server, "reply.js", queue) == {"body": "re: question", "same": True, "dynamic": True}


def test_topics_are_published_and_subscribed_to(modules: Path, server: AmqpServer) -> None:
    topic = "open/rhea"
    assert run(modules, server, "topic.js", topic) == {
        "all": [[body, f"topic://{topic}", body == "kept"] for body in ("kept", "blue", "red")],
        "some": [["red", f"topic://{topic}", False]],
        "resumed": ["while detached", "while away"],
        "shared": sorted(["kept", *(f"shared {number}" for number in range(10))]),
        "inUse": "amqp:resource-locked",
        "wrong": "amqp:invalid-field",
    }
    assert [each.name for each in server.host.definitions() if each.kind == "SUB"] == []
