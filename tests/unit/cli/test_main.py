# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from entrepot.compiled import form
from folding import for_each
from hosted import Host

from .conftest import Complaint, Shell

COMMANDS = [
    ("qm", "status"),
    ("qm", "checkpoint"),
    ("qm", "indoubt", "list"),
    ("qm", "indoubt", "commit", "PATH", "00"),
    ("qm", "indoubt", "backout", "PATH", "00"),
    ("qm", "backup", "PATH", "DEST"),
    ("qm", "restore", "PATH", "DEST"),
    ("qm", "recover", "PATH", "--queue", "Q"),
    ("log", "show"),
    ("log", "archive", "PATH", "DEST"),
    ("mqsc", "PATH", "-e", "PING QMGR"),
    ("dump",),
    ("put", "PATH", "Q", "body"),
    ("get", "PATH", "Q"),
    ("browse", "PATH", "Q"),
    ("publish", "PATH", "prices", "body"),
    ("subscribe", "PATH", "prices"),
    ("unsubscribe", "PATH", "desk-7"),
    ("trigger-monitor",),
]

BESIDE_A_RUNNING_ONE = {("qm", "status"), ("qm", "restore"), ("log", "archive")}


def words_of(command: tuple[str, ...], path: object, tmp_path: Path) -> list[str]:
    places = {"PATH": str(path), "DEST": str(tmp_path / "destination")}
    words = [places.get(word, word) for word in command]
    return words if "PATH" in command else [*words, str(path)]


def test_help_groups_the_commands_and_shows_a_first_session(shell: Shell) -> None:
    text = shell("--help").stdout
    for part in (
        "A first session",
        "entrepot qm create ./qm1",
        "entrepot get ./qm1 ORDERS",
        "Messages",
        "Administration",
    ):
        assert part in text


@for_each("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_and_json(shell: Shell, command: tuple[str, ...]) -> None:
    count = next((place for place, word in enumerate(command) if word == "PATH"), len(command))
    assert "--json" in shell(*command[:count], "--help").stdout


@for_each("command", COMMANDS, ids=" ".join)
def test_missing_folder_is_a_clear_error(complaint: Complaint, tmp_path: Path, command: tuple[str, ...]) -> None:
    said = complaint(*words_of(command, tmp_path / "nowhere", tmp_path))
    assert "no queue manager at" in said
    assert "R09" in said
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_folder_of_something_else_is_a_clear_error_and_untouched(
    complaint: Complaint, not_a_manager: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    said = complaint(*words_of(command, not_a_manager, tmp_path))
    assert "no queue manager at" in said
    assert {path.name for path in not_a_manager.iterdir()} <= {"lamp", "lock"}


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if command[:2] not in BESIDE_A_RUNNING_ONE],
    ids=" ".join,
)
def test_queue_manager_that_runs_elsewhere_is_a_clear_error(
    complaint: Complaint, linear: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    # Not through a connection, because the connections of one process share the queue manager.
    host = Host(linear)
    try:
        said = complaint(*words_of(command, linear, tmp_path))
    finally:
        host.close()
    assert "is running already (process" in said
    assert "R11" in said


def test_url_that_leads_nowhere_is_told(complaint: Complaint) -> None:
    assert "does not say where the queue manager is" in complaint("get", "mq://127.0.0.1:port/QM1", "Q")
    assert "no queue manager answers at mq://127.0.0.1:1" in complaint("get", "mq://127.0.0.1:1/QM1", "Q")


def test_embedded_url_is_a_path_too(shell: Shell, qm: Path) -> None:
    shell("put", f"embedded:{qm}", "Q", "hello")
    assert shell("get", f"embedded:{qm}", "Q", "--body-only").stdout == "hello"


def test_errors_show_text_that_looks_like_markup_as_it_is(complaint: Complaint, qm: Path) -> None:
    assert "[red]x[/red]" in complaint("browse", qm, "Q", "-s", "[red]x[/red]")


def test_errors_spell_out_control_characters(complaint: Complaint, tmp_path: Path) -> None:
    said = complaint("qm", "status", tmp_path / "a\x1b[31mb")
    assert "\x1b" not in said
    assert "\\x1b" in said


def test_unknown_command_and_option_are_usage_errors(shell: Shell, qm: Path) -> None:
    shell("fetch", code=2)
    shell("get", qm, "Q", "--fast", code=2)


def test_version(shell: Shell) -> None:
    assert shell("--version").stdout == f"entrepot {version('entrepot')} ({form()})\n"


def test_interrupt_gives_130(qm: Path) -> None:
    command = [sys.executable, "-m", "entrepot.cli.main", "trigger-monitor", str(qm)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as monitor:
        assert monitor.stderr is not None
        assert "Ctrl-C" in monitor.stderr.readline()
        monitor.send_signal(signal.SIGINT)
        rest = monitor.stderr.read()
        assert monitor.wait(timeout=60) == 130
    assert "Traceback" not in rest


def test_reader_that_leaves_early_makes_no_noise(shell: Shell, qm: Path) -> None:
    shell("put", qm, "Q", "x" * 1000, "--count", "200")
    command = f"{sys.executable} -m entrepot.cli.main get {qm} Q --all --json | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    # What the reader did not take went back to the queue.
    assert len(shell.lines("browse", qm, "Q", "--limit", "500")) > 0


def test_help_shows_no_value_behind_a_flag(shell: Shell) -> None:
    for command in (("get",), ("qm", "start"), ("mqsc",)):
        assert "bool" not in shell(*command, "--help").stdout
