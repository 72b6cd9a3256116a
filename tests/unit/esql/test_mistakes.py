# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from entrepot.errors import EsqlInvalid
from entrepot.esql.mistakes import WARNING, Mistake, excerpt_of, invalid
from entrepot.esql.parsing import parse_expression, parse_file, parse_statements
from folding import for_each

CASES = [
    ("SET a = ;", 1, 9, "found ';' where an expression belongs"),
    ("SET a = 1 SET b = 2;", 1, 10, "';' is missing before 'SET'"),
    ("IF a = 1 SET b = 2; END IF;", 1, 10, "found 'SET' where THEN or an operator belongs"),
    ("IF a = THEN SET b = 2; END IF;", 1, 8, "found 'THEN' where an expression belongs"),
    ("WHILE a THEN END WHILE;", 1, 9, "found 'THEN' where DO or an operator belongs"),
    ("WHILE a DO SET b = 1; END IF;", 1, 27, "found END IF where END WHILE belongs"),
    ("IF a THEN SET b = 1; END;", 1, 25, "found ';' where IF belongs: END IF closes the block"),
    ("SET a.b. = 3;", 1, 10, "found '=' where '(', '*', '{' or a name belongs"),
    ("SET a = f(1, ;", 1, 14, "found ';' where an expression belongs"),
    ("DECLARE x FOO;", 1, 11, "found 'FOO' where ',' or a type belongs"),
    ("DECLARE x;", 1, 10, "found ';' where ',' or a type belongs"),
    ("SET a = 12ab;", 1, 9, "'12ab' is neither a number nor a name"),
    ("SET a = @;", 1, 9, "'@' means nothing in ESQL"),
    ("SET a = ‘x’;", 1, 9, "‘ is no quote of ESQL; texts stand in ' and names in \""),
    ("SET a = 'x;\nSET b = 1;", 1, 9, "the text that begins here has no end"),
    ('SET "a = 1;', 1, 5, "the name that begins here has no end"),
    ("SET a = 1; /* SET b", 1, 12, "the comment that begins here has no end"),
    ("STE a = 1;", 1, 1, "'STE' begins no statement; is SET meant?"),
    ("SELECT a FROM b;", 1, 1, "'SELECT' begins no statement"),
    ("SET a = 1", 1, 10, "found the end of the text where ';' or an operator belongs"),
    ("SET a = X'0';", 1, 9, "a BLOB is written as an even number of hexadecimal digits: X'0AFF'"),
    ("SET a = B'012';", 1, 9, "a BIT value is written in zeros and ones: B'0101'"),
    ("SET a = DATE '2003-02-30';", 1, 14, "this is no DATE; one is written DATE '2003-12-24'"),
    ("SET a = GMTTIME '25:00:00';", 1, 17, "this is no GMTTIME; one is written GMTTIME '18:30:00'"),
    ("SET a = INTERVAL 'x' DAY;", 1, 18, "this is no INTERVAL DAY"),
    ("SET a = INTERVAL '1' SECOND TO DAY;", 1, 22, "there is no INTERVAL SECOND TO DAY"),
    ("SET a = 1E999;", 1, 9, "this is too large for a FLOAT"),
    ("SET a = 12345678901234567890123456789012345;", 1, 9, "a DECIMAL has at most 34 digits"),
    ("SET a = 0x12345678901234567;", 1, 9, "an INTEGER has at most 16 hexadecimal digits"),
    ("DECLARE d DECIMAL(5,6);", 1, 11, "a DECIMAL has at most 34 digits, and no more behind the point than in all"),
    ("DECLARE c CHARACTER(5);", 1, 11, "CHARACTER takes no size in brackets; only DECIMAL does"),
    ("DECLARE c SHARED EXTERNAL INT;", 1, 18, "SHARED and EXTERNAL do not go together"),
    ("SET a = TRIM();", 1, 9, "TRIM needs what it is to trim: TRIM(x), TRIM(LEADING '0' FROM x)"),
    ("SET a = ROUND(1, 2 MODE UPWARDS);", 1, 25, "there is no MODE UPWARDS; there is ROUND_CEILING"),
    ("SET a = EXTRACT(FOO FROM b);", 1, 17, "EXTRACT knows no FOO; it knows DAY, DAYOFWEEK"),
    ("SET a = CAST(b AS INTEGER CCSID 1 CCSID 2);", 1, 35, "CCSID is given twice"),
    ("SET a = ASBITSTREAM('x');", 1, 21, "ASBITSTREAM begins with a field reference"),
    ("SET a = b[1](2);", 1, 9, "a function's name is made of names and dots only"),
    ("SET a = x IS +NULL;", 1, 14, "only INF takes a sign here"),
    ("SET a = (SELECT MAX(*) FROM b[] AS c);", 1, 21, "MAX needs an expression; only COUNT takes *"),
    ("a: LOOP END LOOP b;", 1, 18, "the label b at the end is not a"),
    ("LOOP END LOOP b;", 1, 15, "the label b at the end is not at the beginning too"),
    ("MOVE r NEXTSIBLING VALUE 1;", 1, 20, "MOVE has no VALUE"),
    ("CREATE FIELD a NAME *;", 1, 21, "NAME takes no * here"),
    ("CREATE FIELD a NAME 'b' IDENTITY c;", 1, 25, "IDENTITY says again what was said before"),
    ("CREATE FIELD a IDENTITY b[1];", 1, 25, "IDENTITY takes no index"),
    ("INSERT INTO Database.T(a, b) VALUES (1);", 1, 1, "INSERT names 2 columns and gives 1 values"),
    ("PASSTHRU('x' VALUES (1)) VALUES (2);", 1, 1, "TO and VALUES stand within the brackets or behind them, not both"),
    ("PROPAGATE DELETE NONE DELETE NONE;", 1, 23, "DELETE is given twice"),
]


@for_each(("text", "line", "column", "problem"), CASES, ids=[case[0] for case in CASES])
def test_statement_is_refused_at_its_place(text: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(EsqlInvalid) as wrong:
        parse_statements(text, "f.esql")
    file, *place, told, excerpt = wrong.value.mistakes[0]
    assert (file, *place) == ("f.esql", line, column)
    assert told.startswith(problem)
    assert excerpt == f"  {text.splitlines()[line - 1]}\n  {' ' * (column - 1)}^"


FILES = [
    ("SET a = 1;", 1, 1, "found 'SET' where BROKER, CREATE, DECLARE or PATH belongs"),
    ("END MODULE;", 1, 1, "found 'END' where BROKER, CREATE, DECLARE or PATH belongs"),
    ("CREATE MODULE m END MODULE;", 1, 1, "say which module: CREATE COMPUTE MODULE, FILTER or DATABASE"),
    ("DECLARE a INT;\nBROKER SCHEMA x", 2, 1, "BROKER stands once, at the beginning of a file"),
    ("CREATE PROCEDURE p();", 1, 18, "p has neither a body nor an EXTERNAL NAME"),
    ("CREATE PROCEDURE p() EXTERNAL NAME 'x' BEGIN END;", 1, 18, "p has a body and an EXTERNAL NAME"),
    ("CREATE PROCEDURE p() LANGUAGE COBOL EXTERNAL NAME 'x';", 1, 31, "there is no LANGUAGE COBOL"),
    ("CREATE FUNCTION f() RETURNS INT RETURNS INT BEGIN END;", 1, 33, "RETURNS is given twice"),
    ("CREATE FUNCTION f(x) BEGIN END;", 1, 20, "found ')' where a type belongs"),
]


@for_each(("text", "line", "column", "problem"), FILES, ids=[case[0] for case in FILES])
def test_file_is_refused_at_its_place(text: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(EsqlInvalid) as wrong:
        parse_file(text, "f.esql")
    assert wrong.value.mistakes[0][1:4] == (line, column, problem)


def test_every_mistake_of_a_file_is_told_at_once() -> None:
    text = """CREATE COMPUTE MODULE M
  CREATE FUNCTION Main() RETURNS BOOLEAN
  BEGIN
    SET a = ;
    IF x = 1 SET y = 2; END IF;
    WHILE a < 3 DO SET b = 1 END WHILE;
    SET d = DATE 'tomorrow';
    RETURN TRUE
  END;
  CREATE PROCEDURE p(IN x CHAR, y) BEGIN SET hidden = ; END;
  CREATE PROCEDURE q() BEGIN IF a THEN SET b = 1; END;
  CREATE PROCEDURE r() BEGIN SET a = #; END;
END MODULE;
"""
    with pytest.raises(EsqlInvalid) as wrong:
        parse_file(text, "f")
    assert [mistake[1:3] for mistake in wrong.value.mistakes] == [
        (4, 13),
        (5, 14),
        (6, 29),
        (7, 18),
        (8, 16),
        (10, 34),
        (11, 54),
        (12, 38),
    ]
    assert "8 mistakes in ESQL:\nf:4:13: found ';' where an expression belongs\n  SET a = ;\n          ^" in str(
        wrong.value
    )


def test_misspelt_head_of_a_routine_hides_no_other_routine() -> None:
    text = (
        "CREATE COMPUTE MODULE M\nCREATE FUNCTON f() RETURNS INT BEGIN SET a = 1; SET b = 2; END;\n"
        "CREATE PROCEDURE g() BEGIN SET = 1; END;\nEND MODULE;\n"
    )
    with pytest.raises(EsqlInvalid) as wrong:
        parse_file(text, "f")
    assert [mistake[1:4] for mistake in wrong.value.mistakes] == [
        (2, 8, "found 'FUNCTON' where FUNCTION or PROCEDURE belongs"),
        (3, 32, "found '=' where a name belongs"),
    ]


def test_number_of_mistakes_is_bounded() -> None:
    with pytest.raises(EsqlInvalid) as wrong:
        parse_statements("SET a = ;\n" * 200, "f")
    assert len(wrong.value.mistakes) == 50


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "found the end of the text where an expression belongs"),
        ("1 +", 4, "found the end of the text where an expression belongs"),
        ("a b", 3, "found 'b' where an operator belongs"),
        ("(1", 3, "found the end of the text where ')' or an operator belongs"),
        ("a..b", 3, "found '.' where '(', '*', '{' or a name belongs"),
        ("1;", 2, "found ';' where an operator belongs"),
    ],
)
def test_lone_expression_is_refused_at_its_place(text: str, column: int, problem: str) -> None:
    with pytest.raises(EsqlInvalid) as wrong:
        parse_expression(text, "f")
    assert wrong.value.mistakes[0][1:4] == (1, column, problem)


def test_excerpt_shows_the_line_without_its_indent_and_a_caret() -> None:
    assert excerpt_of("one\n\t  two three\r\nfour", 2, 8) == "  two three\n      ^"
    assert excerpt_of("one", 1, 1) == "  one\n  ^"
    assert excerpt_of("one", 7, 3) == "  \n    ^"


def test_excerpt_of_a_long_line_is_cut_around_its_caret() -> None:
    first, second = excerpt_of("x" * 500 + "HERE" + "y" * 500, 1, 501).split("\n")
    assert len(first) == 122
    assert first[second.index("^") :].startswith("HEREyyy")


def test_control_characters_do_not_reach_a_terminal() -> None:
    with pytest.raises(EsqlInvalid) as wrong:
        parse_statements("SET a = \x1b[2J;", "f")
    assert "\x1b" not in wrong.value.what


def test_warnings_are_no_part_of_the_error() -> None:
    mistake, warning = Mistake("f", 2, 1, "no", excerpt="x"), Mistake("f", 1, 1, "hm", WARNING)
    assert invalid([mistake, warning]).mistakes == (("f", 2, 1, "no", "x"),)
    assert str(mistake) == "f:2:1: no"
    assert warning.is_warning
