# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from .conftest import Complaint, Shell, fill


def test_backup_and_restore(shell: Shell, qm: Path, tmp_path: Path) -> None:
    shell("put", qm, "Q", "kept")
    assert "Backed up to" in shell("qm", "backup", qm, tmp_path / "backup").stdout
    shell("get", qm, "Q")
    assert shell.json("qm", "restore", tmp_path / "backup", tmp_path / "new")["messages"] == 1
    assert shell("get", tmp_path / "new", "Q", "--body-only").stdout == "kept"


def test_backup_into_a_used_folder_is_refused(complaint: Complaint, qm: Path, not_a_manager: Path) -> None:
    assert "is not empty" in complaint("qm", "backup", qm, not_a_manager)


def test_restore_up_to_a_time(shell: Shell, linear: Path, tmp_path: Path) -> None:
    shell("qm", "backup", linear, tmp_path / "backup")
    shell("put", linear, "Q", "before")
    then = datetime.now(UTC).isoformat()
    shell("put", linear, "Q", "after")
    words = ("qm", "restore", tmp_path / "backup", tmp_path / "new", "--log-from", linear, "--until", then)
    assert shell.json(*words)["messages"] == 1
    assert [message["body"] for message in shell.lines("browse", tmp_path / "new", "Q")] == ["before"]


def test_a_time_that_names_no_exact_place_ends_with_exit_code_3(shell: Shell, linear: Path, tmp_path: Path) -> None:
    shell("put", linear, "Q", "before")
    shell("qm", "backup", linear, tmp_path / "backup")
    words = ("qm", "restore", tmp_path / "backup", tmp_path / "new", "--log-from", linear)
    result = shell(*words, "--until", "2020-01-01T00:00:00Z", code=3)
    assert "warning: The backup was made at" in result.stderr
    assert len(shell.lines("browse", tmp_path / "new", "Q")) == 1


def test_restore_up_to_a_position(shell: Shell, complaint: Complaint, linear: Path, tmp_path: Path) -> None:
    position = shell.json("qm", "backup", linear, tmp_path / "backup")["log_position"]
    shell("put", linear, "Q", "later")
    words = ("qm", "restore", tmp_path / "backup", tmp_path / "new", "--log-from", linear, "--to-position", position)
    assert "not both" in complaint(*words, "--until", "2020-01-01T00:00:00Z", code=2)
    assert shell.json(*words)["messages"] == 0


def test_restore_needs_a_time_and_a_linear_log(complaint: Complaint, shell: Shell, qm: Path, tmp_path: Path) -> None:
    shell("qm", "backup", qm, tmp_path / "backup")
    words = ("qm", "restore", tmp_path / "backup", tmp_path / "new")
    assert "is no time" in complaint(*words, "--until", "noon", code=2)
    assert "LogNotLinear R13" in complaint(*words, "--log-from", qm)


def test_queue_is_recovered_from_a_linear_log(shell: Shell, linear: Path) -> None:
    shell("put", linear, "Q", "x" * 3000, "--count", "50")
    shell("qm", "checkpoint", linear)
    for run in (linear / "runs").iterdir():
        run.write_bytes(b"rust")
    assert shell.json("qm", "recover", linear, "--queue", "Q") == {"queue": "Q", "messages": 50}
    assert len(shell.lines("get", linear, "Q", "--all")) == 50


def test_recover_refuses_a_circular_log_and_an_unknown_queue(complaint: Complaint, qm: Path, linear: Path) -> None:
    assert "LogNotLinear R13" in complaint("qm", "recover", qm, "--queue", "Q")
    assert "ObjectNotFound Q13" in complaint("qm", "recover", linear, "--queue", "NONE")


def test_archive_moves_what_restart_no_longer_needs(shell: Shell, linear: Path, tmp_path: Path) -> None:
    fill(linear, 120)
    shell("get", linear, "Q", "--all", "--json")
    shell("qm", "checkpoint", linear)
    moved = shell.json("log", "archive", linear, tmp_path / "archive")
    assert moved[:2] == ["segment-00000000.log", "segment-00000001.log"]
    assert sorted(path.name for path in (tmp_path / "archive").iterdir()) == moved
    assert "0 log files moved" in shell("log", "archive", linear, tmp_path / "archive").stdout
    assert "clean" in shell("log", "show", linear).stdout


def test_archive_refuses_a_circular_log(complaint: Complaint, qm: Path, tmp_path: Path) -> None:
    assert "LogNotLinear R13" in complaint("log", "archive", qm, tmp_path / "archive")
