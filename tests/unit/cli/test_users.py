# SPDX-License-Identifier: Apache-2.0
"""`entrepot qm user` and `entrepot qm audit`, together: the second tells what the first did."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from entrepot.cli import audit, users
from entrepot.cli.main import Commands
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.server.security.audit import records
from entrepot.server.security.users import Users
from hosted import Host

CANARY = "canary-Kx7-bird"

app = typer.Typer(cls=Commands)
app.add_typer(users.app, name="user")
app.add_typer(audit.app, name="audit")


@pytest.fixture
def qm(tmp_path: Path) -> Path:
    create(tmp_path / "QM1", log=LogSettings(segment_bytes=128 * 1024, primary=3))
    return tmp_path / "QM1"


def run(*words: object, code: int = 0, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert CANARY not in result.output
    return result


def run_json(*words: object, **more: Any) -> Any:
    return json.loads(run(*words, "--json", **more).stdout)


def add(qm: Path, name: str, *words: str, password: str = CANARY) -> None:
    run("user", "add", qm, name, "--password-stdin", *words, stdin=password + "\n")


def test_a_user_is_added_listed_changed_and_removed(qm: Path) -> None:
    assert "No user" in run("user", "list", qm).stderr
    add(qm, "alice", "--group", "mqm", "-g", "ops")
    add(qm, "bob")
    assert run_json("user", "list", qm) == [
        {"user": "alice", "groups": ["mqm", "ops"]},
        {"user": "bob", "groups": []},
    ]
    assert "mqm, ops" in run("user", "list", qm).stdout
    assert Users.load(qm).verify("alice", CANARY)

    add(qm, "alice", password="another")
    assert Users.load(qm).verify("alice", "another")
    assert Users.load(qm).groups_of("alice") == {"mqm", "ops"}, "kept"
    add(qm, "alice", "--group", "ops")
    assert Users.load(qm).groups_of("alice") == {"ops"}

    assert "removed" in run("user", "remove", qm, "alice").stdout
    assert run_json("user", "remove", qm, "bob") == {"user": "bob", "removed": True}
    assert Users.load(qm).names() == ()


def test_answers_for_programs(qm: Path) -> None:
    answer = run_json("user", "add", qm, "alice", "--password-stdin", stdin=CANARY + "\r\nsecond line\n")
    assert answer == {"user": "alice", "groups": [], "new": True}
    assert Users.load(qm).verify("alice", CANARY), "only the first line, without its end"


def test_no_option_takes_a_password(qm: Path) -> None:
    for words in (("--password", "x"), ("x",)):
        run("user", "add", qm, "alice", *words, code=2)
    assert Users.load(qm).names() == ()


def test_without_a_terminal_somebody_has_to_say_where_the_password_is(qm: Path) -> None:
    assert "--password-stdin" in run("user", "add", qm, "alice", code=2, stdin=CANARY).stderr
    assert Users.load(qm).names() == ()


def test_at_a_terminal_the_password_is_asked_for_twice_and_not_shown(qm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def __getattr__(self, name: str) -> Any:
            return (lambda: True) if name == "isatty" else getattr(sys.stdin, name)

    monkeypatch.setattr(users, "sys", type("", (), {"stdin": Terminal()}))
    run("user", "add", qm, "alice", stdin=f"{CANARY}\n{CANARY}\n")
    assert Users.load(qm).verify("alice", CANARY)
    run("user", "add", qm, "bob", code=1, stdin=f"{CANARY}\nanother\n")
    assert Users.load(qm).names() == ("alice",)


@pytest.mark.parametrize(
    ("name", "stdin", "code", "words"),
    [
        ("alice", "", 1, "blank"),
        ("alice", "   \n", 1, "blank"),
        ("alice", b"\xff\xfe\n", 2, "no UTF-8"),
        ("a b", CANARY, 1, "is no name"),
        ("alice", CANARY * 100, 1, "1024 bytes"),
    ],
)
def test_what_cannot_be_is_refused_and_not_recorded(
    qm: Path, name: str, stdin: str | bytes, code: int, words: str
) -> None:
    said = run("user", "add", qm, name, "--password-stdin", code=code, stdin=stdin).stderr
    assert words in " ".join(said.replace("│", " ").split())
    assert Users.load(qm).names() == ()
    assert list(records(qm)) == []


def test_a_folder_that_is_no_queue_manager_gets_no_users(tmp_path: Path) -> None:
    for words in (("user", "list"), ("audit", "verify"), ("audit", "show")):
        assert "no queue manager" in run(*words, tmp_path, code=1).stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_others_can_read_is_refused_with_advice(qm: Path) -> None:
    add(qm, "alice")
    (qm / "users.json").chmod(0o644)
    assert "chmod 600" in " ".join(run("user", "list", qm, code=1).stderr.split())


def test_users_can_be_added_beside_a_running_queue_manager(qm: Path) -> None:
    host = Host(qm)
    try:
        add(qm, "alice")
    finally:
        host.close()
    assert Users.load(qm).names() == ("alice",)
    assert list(records(qm)) == [], "the log belongs to the process that runs it"


def test_changes_of_users_are_in_the_audit_log(qm: Path) -> None:
    add(qm, "alice")
    add(qm, "alice", password="another")
    run("user", "remove", qm, "alice")
    found = [json.loads(line) for line in run("audit", "show", qm, "--json").stdout.splitlines()]
    assert [(each["event"], each["object"], each["verdict"]) for each in found] == [
        ("user add", "alice", "allowed"),
        ("user change", "alice", "allowed"),
        ("user remove", "alice", "allowed"),
    ]
    assert all(each["user"].startswith("os:") for each in found)
    shown = run("audit", "show", qm, "--limit", 1).stdout
    assert "user remove" in shown
    assert "user change" not in shown
    assert run_json("audit", "verify", qm) == {"lines": 3, "whole": True}
    assert "3 lines" in run("audit", "verify", qm).stdout


def test_an_altered_audit_log_is_told_with_file_and_line(qm: Path) -> None:
    add(qm, "alice")
    add(qm, "bob")
    file = qm / "audit.jsonl"
    file.write_bytes(file.read_bytes().replace(b"bob", b"eve"))
    said = " ".join(run("audit", "verify", qm, code=1).stderr.split())
    assert "audit.jsonl, line 2" in said
    assert "AuditDamaged P06" in said


def test_no_user_changes_without_an_audit_log(qm: Path) -> None:
    add(qm, "alice")
    (qm / "audit.jsonl").write_bytes(b"")
    assert "AuditDamaged" in run("user", "remove", qm, "alice", code=1).stderr
    assert Users.load(qm).names() == ("alice",)


def test_no_file_but_that_of_the_hash_knows_of_a_password(qm: Path) -> None:
    add(qm, "alice")
    assert [path.name for path in qm.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()] == []
    assert run("audit", "show", qm).stdout


def test_an_empty_audit_log_is_told(qm: Path) -> None:
    assert "empty" in run("audit", "show", qm).stderr
    assert run_json("audit", "verify", qm) == {"lines": 0, "whole": True}
