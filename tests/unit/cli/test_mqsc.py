# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from entrepot.cli import opening
from entrepot.cli.mqsc import converse

from .conftest import SMALL, Complaint, Shell


def test_commands_from_the_command_line(shell: Shell, qm: Path) -> None:
    said = shell("mqsc", qm, "-e", "DEFINE QLOCAL(A) DESCR('one')", "-e", "DISPLAY QLOCAL(A) DESCR").stdout
    assert "Local queue A defined." in said
    assert "one" in said


def test_few_columns_are_a_table_and_many_are_lines(shell: Shell, qm: Path) -> None:
    assert "QUEUE(Q)" not in shell("mqsc", qm, "-e", "DISPLAY QUEUE(*)").stdout
    assert "QUEUE(Q)" in shell("mqsc", qm, "-e", "DISPLAY QLOCAL(Q)").stdout


def test_script_from_a_file_and_from_standard_input(shell: Shell, qm: Path, tmp_path: Path) -> None:
    script = tmp_path / "shop.mqsc"
    script.write_text("* the shop\nDEFINE QLOCAL(A) +\n  MAXDEPTH(7)\nDEFINE QLOCAL(B)\n")
    assert shell("mqsc", qm, script).stdout.count("defined") == 2
    assert "deleted" in shell("mqsc", qm, "-", stdin="DELETE QLOCAL(A)\n").stdout
    assert "deleted" in shell("mqsc", qm, stdin="DELETE QLOCAL(B)\n").stdout


def test_failing_command_stops_no_other_one_and_gives_exit_code_1(shell: Shell, qm: Path) -> None:
    done = shell("mqsc", qm, "-e", "DEFINE QLOCAL(Q)", "-e", "DEFIN QLOCAL(B)", "-e", "DEFINE QLOCAL(C)", code=1)
    assert "Local queue C defined." in done.stdout
    assert "2 of 3 commands failed." in done.stderr
    assert "^" in done.stderr


def test_json_answers_every_command(shell: Shell, qm: Path) -> None:
    good, bad = shell.json("mqsc", qm, "-e", "DISPLAY QLOCAL(Q) MAXDEPTH", "-e", "DISPLAY QLOCAL(NONE)", code=1)
    assert good["rows"] == [{"QUEUE": "Q", "TYPE": "QLOCAL", "MAXDEPTH": 5000}]
    assert (bad["ok"], bad["errors"][0]["code"], bad["errors"][0]["source"]) == (False, "A02", "-e 2")


def test_check_carries_nothing_out_and_needs_no_queue_manager(shell: Shell, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert "No errors found" in shell("mqsc", nowhere, "--check", "-e", "DEFINE QLOCAL(A)").stdout
    assert "column" in shell("mqsc", nowhere, "--check", "-e", "DEFINE QLOCAL(A) MAXDEPTH(x)", code=1).stderr
    assert shell.json("mqsc", nowhere, "--check", "-e", "NONSENSE", code=1)[0]["code"] == "A01"
    assert not nowhere.exists()


def test_wrong_scripts(complaint: Complaint, qm: Path, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "is no UTF-8 text" in complaint("mqsc", qm, tmp_path / "binary", code=2)
    assert "No such file" in complaint("mqsc", qm, tmp_path / "none", code=2)
    assert "Is a directory" in complaint("mqsc", qm, tmp_path, code=2)
    assert "not both" in complaint("mqsc", qm, tmp_path / "binary", "-e", "PING QMGR", code=2)


def test_conversation_joins_continued_lines_and_ends_with_end(qm: Path) -> None:
    typed = iter(["DEFINE QLOCAL(A) +", "  MAXDEPTH(7)", "* only a comment -", "PING QMGR", "end", "PING QMGR"])
    prompts = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return next(typed)

    with opening.connected(qm) as connection:
        answers = list(converse(connection.administration.mqsc, "QM1", read))
    assert [answer.ok for answer in answers] == [True, True]
    assert prompts == ["QM1> ", "   + ", "QM1> ", "QM1> ", "QM1> "]


def test_conversation_ends_with_its_input(qm: Path) -> None:
    def read(prompt: str) -> str:
        raise EOFError

    with opening.connected(qm) as connection:
        assert list(converse(connection.administration.mqsc, "QM1", read)) == []


def test_dump_makes_the_same_objects_again(shell: Shell, qm: Path, tmp_path: Path) -> None:
    shell("mqsc", qm, "-e", "DEFINE QLOCAL(A) DESCR('mine [b]') MAXDEPTH(7)", "-e", "DEFINE QALIAS(B) TARGET(A)")
    script = shell("dump", qm).stdout
    assert shell.json("dump", qm)["script"] == script
    shell("qm", "create", tmp_path / "copy" / "QM1", *SMALL)
    shell("mqsc", tmp_path / "copy" / "QM1", stdin=script)
    assert shell("dump", tmp_path / "copy" / "QM1").stdout == script
