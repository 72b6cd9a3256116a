# SPDX-License-Identifier: Apache-2.0
"""`entrepot bench` as people use it: lists, one load of one's own, and clear answers to what cannot be."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from entrepot.cli.main import app


def entrepot(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def test_the_list_shows_every_scenario_with_what_it_needs() -> None:
    told = json.loads(entrepot("bench", "list", "--json").stdout)
    assert len(told) == 100
    assert told[0]["name"] == "nstl/1"
    assert told[0]["needs"] == ["queues"]
    assert "entrepot-unix" in told[0]["systems"]


def test_systems_tell_what_they_promise() -> None:
    told = {each["system"]: each for each in json.loads(entrepot("bench", "systems", "--json").stdout)}
    assert set(told["entrepot-unix"]["contracts"]) == {"express", "recoverable", "transactional", "global_unit"}
    assert all(promise for each in told.values() for promise in each["contracts"].values())


def test_a_send_prints_the_four_lines_of_nstl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = entrepot("bench", "send", "--messages", "200", "--bytes", "100", "--seconds", "2")
    assert result.exit_code == 0, result.output
    lines = [line.split("  ")[0] for line in result.stdout.splitlines()]
    assert lines[:4] == ["Total messages", "Test time", "Benchmark", "Throughput"]
    assert "200" in result.stdout.splitlines()[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["bench", "run", "nstl/99"], "there is no scenario 'nstl/99'; near it are nstl/"),
        (["bench", "run", "nstl/1", "--system", "rabbit"], "there is no system 'rabbit'"),
        (["bench", "run", "nstl/1", "--scale", "huge"], "'huge' is none of thumbnail, quick, full"),
        (["bench", "run", "nstl/1", "--repeat", "often"], "'often' is none of fixed, steady, alike"),
        (["bench", "run"], "name at least one scenario"),
        (["bench", "run", "--resume", "nowhere"], "no run.json"),
        (["bench", "send", "--quality", "fast"], "'fast' is none of express"),
        (["bench", "open-loop", "--arrivals", "trace"], "belong together"),
        (["bench", "publish", "--system", "postgresql"], "it has no topics"),
        (["report", "nowhere"], "no run.json"),
    ],
)
def test_what_cannot_be_gets_a_clear_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    result = entrepot(*arguments)
    assert result.exit_code in (1, 2)
    assert told in " ".join(result.output.split())
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_is_none_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "trace.txt"
    trace.write_text("0.1\nsoon\n")
    result = entrepot("bench", "open-loop", "--arrivals", "trace", "--trace", str(trace))
    assert result.exit_code == 2
    assert "soon" in result.output


def test_a_port_in_use_is_told_and_gives_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = entrepot("bench", "send", "--system", "entrepot-tcp", "--port", str(port), "--seconds", "1")
    assert result.exit_code == 1
    assert f"port {port} of the loopback, and another process does so already" in " ".join(result.output.split())
