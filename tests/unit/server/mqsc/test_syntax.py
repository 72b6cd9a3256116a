# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.server.mqsc.syntax import Position, Script, Statement
from folding import for_each


def statements(text: str) -> list[Statement]:
    return list(Script(text).statements())


def values(text: str) -> list[list[str] | None]:
    """What the parentheses of the only statement hold."""
    (statement,) = statements(text)
    assert not statement.errors
    return [
        None if parameter.values is None else [value.text for value in parameter.values]
        for parameter in statement.parameters
    ]


def places(text: str) -> list[tuple[int, int]]:
    return [(error.line, error.column) for statement in statements(text) for error in statement.errors]


def test_comments_and_blank_lines_are_no_statements() -> None:
    assert statements("* one\n\n   * two, after blanks\n \t \n") == []


def test_keywords_and_bare_values_become_upper_case() -> None:
    (statement,) = statements("def ql(orders) put(enabled)")
    assert [parameter.keyword for parameter in statement.parameters] == ["DEF", "QL", "PUT"]
    assert values("def ql(orders)") == [None, ["ORDERS"]]


@for_each(
    ("written", "meant"),
    [
        ("'Mixed Case'", "Mixed Case"),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("''", ""),
        ('"double"', "double"),
        ('"it\'s"', "it's"),
        ('"say ""so"""', 'say "so"'),
        ("'a;b(c),d'", "a;b(c),d"),
        ("'* no comment'", "* no comment"),
    ],
)
def test_quoted_value_keeps_all_its_characters(written: str, meant: str) -> None:
    assert values(f"X({written})") == [[meant]]


def test_commas_and_blanks_both_separate_values() -> None:
    assert values("X NAMES(a,b  c,, 'd')") == [None, ["A", "B", "C", "d"]]


def test_blanks_may_stand_around_parentheses() -> None:
    assert values("ALTER QLOCAL ('Account' )      TRIGDPTH ( 1)") == [None, ["Account"], ["1"]]


def test_plus_drops_the_next_line_s_leading_blanks() -> None:
    assert values("X('Fr+\n    ed')") == [["Fred"]]


def test_minus_keeps_the_next_line_from_column_one() -> None:
    assert values("X('Fr-\n  ed')") == [["Fr  ed"]]


def test_blanks_before_a_continuation_belong_to_the_value_and_blanks_after_it_do_not() -> None:
    assert values("X('Fr  +  \n  ed')") == [["Fr  ed"]]


def test_comments_and_blank_lines_inside_a_continued_command_are_dropped() -> None:
    assert values("X(A) +\n* comment\n\n  Y(B)") == [["A"], ["B"]]


def test_indented_asterisk_inside_a_continued_command_is_no_comment() -> None:
    assert values("DISPLAY Q( +\n   *)") == [None, ["*"]]


def test_semicolons_separate_commands_in_a_line() -> None:
    assert [(s.text, s.at) for s in statements("PING QMGR; DIS Q(*) ;; X")] == [
        ("PING QMGR", Position(1, 1)),
        ("DIS Q(*)", Position(1, 12)),
        ("X", Position(1, 24)),
    ]


def test_semicolon_ends_a_command_in_spite_of_a_continuation() -> None:
    assert [s.text for s in statements("PING QMGR +\n;")] == ["PING QMGR"]
    assert places("PING QMGR; +") == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_line_end_ends_a_line(end: str) -> None:
    assert [s.at.line for s in statements(f"A{end}{end}B")] == [1, 3]


def test_byte_order_mark_is_no_part_of_the_first_command() -> None:
    assert statements("\ufeffPING QMGR")[0].parameters[0].keyword == "PING"


def test_positions_point_into_the_line_a_word_was_written_in() -> None:
    (statement,) = statements("\n  DEFINE QL(A) +\n\t  MAXDEPTH( 5 ) -\n PUT(NO)")
    assert [parameter.at for parameter in statement.parameters] == [
        Position(2, 3),
        Position(2, 10),
        Position(3, 4),
        Position(4, 2),
    ]
    depth = statement.parameters[2].values
    assert depth is not None
    assert depth[0].at == Position(3, 14)


@for_each(
    ("text", "line", "column", "problem"),
    [
        ("X('abc", 1, 3, "this quote is never closed"),
        ("X(A) +\n  Y('it's')", 2, 10, "this quote is never closed"),
        ("X(A", 1, 2, "this parenthesis is never closed"),
        ("X A)", 1, 4, "this parenthesis closes nothing"),
        ("X (A) (B)", 1, 7, "a keyword is missing before this parenthesis"),
        ("X 'A'", 1, 3, "a quoted value belongs in the parentheses of a keyword"),
        ("X(host(1414))", 1, 7, "a value with parentheses in it belongs in quotes"),
        ("X(A) +\n", 1, 6, "the script ends where this promises another line"),
    ],
)
def test_error_points_to_the_character_that_is_wrong(text: str, line: int, column: int, problem: str) -> None:
    (error,) = [error for statement in statements(text) for error in statement.errors]
    assert (error.line, error.column) == (line, column)
    assert error.problem.startswith(problem)
    assert error.line_text == text.split("\n")[line - 1]


def test_every_broken_statement_keeps_its_own_errors() -> None:
    assert places("A(;B\nC);D(\nE)") == [(1, 2), (2, 2), (2, 5), (3, 2)]


def test_unclosed_quote_takes_only_its_own_line_along() -> None:
    assert [bool(s.errors) for s in statements("A('x\nB")] == [True, False]


@given(st.text())
def test_any_text_can_be_split_into_statements(text: str) -> None:
    for statement in statements(text):
        assert statement.parameters or statement.errors


@given(st.text(alphabet="AB'\"();,+-* \n\t", max_size=60))
def test_any_error_lies_inside_its_line(text: str) -> None:
    for statement in statements(text):
        for error in statement.errors:
            assert 1 <= error.column <= len(error.line_text)
