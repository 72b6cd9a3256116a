# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Complaint, Shell

GOOD = """CREATE COMPUTE MODULE Good
  CREATE FUNCTION Main() RETURNS BOOLEAN
  BEGIN
    SET OutputRoot = InputRoot;
    SET OutputRoot.XMLNSC.a = shared.twice(2);
    RETURN TRUE;
  END;
END MODULE;
"""
SHARED = "BROKER SCHEMA shared\nCREATE FUNCTION twice(IN a INTEGER) RETURNS INTEGER RETURN a * 2;\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "good.esql").write_text(GOOD)
    (tmp_path / "shared.esql").write_text(SHARED)
    (tmp_path / "notes.txt").write_text("SET SET SET")
    return tmp_path


def test_good_project_has_exit_code_0(shell: Shell, folder: Path) -> None:
    assert "2 files: no mistakes, no warnings." in shell("esql", "check", folder).stdout


def test_files_are_one_project(shell: Shell, folder: Path) -> None:
    alone = shell("esql", "check", folder / "flows", code=1).stdout
    assert "good.esql:5:31: mistake: there is no function shared.twice" in alone
    assert "                            ^" in alone
    assert "1 file: 1 mistake, no warnings." in alone
    shell("esql", "check", folder / "flows" / "good.esql", folder / "shared.esql")


def test_every_mistake_is_told_with_its_line(shell: Shell, folder: Path) -> None:
    (folder / "bad.esql").write_text("CREATE PROCEDURE p() BEGIN\nSET x = 1;\nIF NOT TRUE = FALSE THEN END IF; END;")
    (folder / "broken.esql").write_text("CREATE PROCEDURE q() BEGIN\nSET x = ;\nSET = 2;\nEND;")
    said = shell("esql", "check", folder, code=1).stdout
    assert "bad.esql:2:5: mistake: x is not declared\n  SET x = 1;\n      ^\n" in said
    assert "bad.esql:3:4: warning: NOT binds more tightly than =" in said
    assert "broken.esql:2:9: mistake: found ';' where an expression belongs" in said
    assert "broken.esql:3:5: mistake: found '=' where a name belongs" in said
    assert "4 files: 3 mistakes, 1 warning." in said


def test_warnings_alone_let_a_program_pass(shell: Shell, folder: Path) -> None:
    (folder / "shared.esql").write_text(SHARED + "CREATE FUNCTION f() RETURNS INTEGER BEGIN END;")
    assert "2 files: no mistakes, 1 warning." in shell("esql", "check", folder).stdout


def test_json_has_files_and_mistakes(shell: Shell, folder: Path) -> None:
    bad = folder / "bad.esql"
    bad.write_text("SET OutputRoot.a = nothing;")
    assert shell.json("esql", "check", bad, code=1) == {
        "files": [str(bad)],
        "mistakes": [
            {
                "file": str(bad),
                "line": 1,
                "column": 20,
                "severity": "mistake",
                "problem": "nothing is not declared",
                "excerpt": "  SET OutputRoot.a = nothing;\n                     ^",
            }
        ],
    }
    assert shell.json("esql", "check", folder / "flows", folder / "shared.esql")["mistakes"] == []


def test_bare_statements_are_the_body_of_a_compute_node(shell: Shell, tmp_path: Path) -> None:
    body = tmp_path / "body.esql"
    body.write_text("SET OutputRoot = InputRoot;\nSET OutputRoot.XML.A1 = 'x';\n")
    assert "1 file: no mistakes, no warnings." in shell("esql", "check", body).stdout
    body.write_text("SET OutputRoot = InputRoot;\nSET OutputRoot.XML. = 'x';\n")
    assert "body.esql:2:21: mistake: found '='" in shell("esql", "check", body, code=1).stdout


def test_unread_file_does_not_make_its_routines_missing(shell: Shell, folder: Path) -> None:
    (folder / "shared.esql").write_text(SHARED + "SET;")
    said = shell("esql", "check", folder, code=1).stdout
    assert "2 files: 1 mistake, no warnings." in said
    assert "twice" not in said


def test_eval_is_off_unless_allowed(shell: Shell, tmp_path: Path) -> None:
    body = tmp_path / "body.esql"
    body.write_text("EVAL('SET Environment.x = 1');")
    assert "EVAL runs text as a program" in shell("esql", "check", body, code=1).stdout
    shell("esql", "check", body, "--allow-eval")


def test_what_is_no_text_is_told_with_its_place(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "latin.esql").write_bytes(b"-- fine\n-- caf\xe9\n")
    said = shell("esql", "check", tmp_path, code=1).stdout
    assert "latin.esql:2:7: mistake: the byte 0xe9 is no UTF-8" in said


def test_missing_files_and_empty_folders_are_wrong_usage(complaint: Complaint, tmp_path: Path) -> None:
    assert "there is no such file or folder" in complaint("esql", "check", tmp_path / "nowhere.esql", code=2)
    assert "has no *.esql in it" in complaint("esql", "check", tmp_path, code=2)


def test_markup_and_control_characters_in_programs_are_shown_not_obeyed(shell: Shell, tmp_path: Path) -> None:
    body = tmp_path / "body.esql"
    body.write_text('SET "[bold]\x1b[2J" = 1;')
    said = shell("esql", "check", body, code=1).stdout
    assert "[bold]" in said
    assert "\x1b[2J" not in said
