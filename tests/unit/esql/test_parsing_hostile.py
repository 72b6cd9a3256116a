# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.errors import EsqlInvalid
from entrepot.esql.checker import check_statements
from entrepot.esql.parsing import TEXT_CHARACTERS_MAX, parse_expression, parse_file, parse_statements
from entrepot.esql.parsing.building import DEPTH_MAX, walk
from entrepot.esql.parsing.words import words
from folding import for_each

WORDS = sorted(
    words(
        "SET IF THEN ELSE ELSEIF END WHILE DO LOOP REPEAT UNTIL FOR CASE WHEN BEGIN ATOMIC DECLARE CONSTANT SHARED"
        " HANDLER CONTINUE EXIT SQLSTATE CREATE FIELD LASTCHILD OF AS DOMAIN PARSE IDENTITY TYPE NAME NAMESPACE VALUE"
        " FROM MOVE TO PARENT DELETE ATTACH DETACH PROPAGATE TERMINAL THROW USER EXCEPTION LOG EVENT RETURN CALL INTO"
        " IN SELECT ITEM WHERE THE ROW LIST COUNT CAST TRIM LEADING SUBSTRING POSITION EXTRACT ROUND MODE NOT AND OR"
        " LIKE ESCAPE BETWEEN IS NULL TRUE UNKNOWN INTERVAL DATE DAY SECOND MODULE COMPUTE FUNCTION PROCEDURE RETURNS"
        " BOOLEAN BROKER SCHEMA PATH PASSTHRU VALUES INSERT UPDATE x y InputRoot ns 1 0x1F 1.5 1E5 'text' X'00' B'01'"
        ' "quoted" ( ) [ ] { } . , ; : * + - / = < > <> <= || -- /* */ @ \' " 9z DECIMAL(5,2) DECIMAL(99)'
    )
)
SOUP = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)


@settings(max_examples=100, deadline=None)
@given(SOUP)
def test_no_soup_of_words_breaks_the_parser(text: str) -> None:
    for parse in (parse_file, parse_statements, parse_expression):
        try:
            parse(text, "soup")
        except EsqlInvalid as invalid:
            assert invalid.mistakes
            for file, line, column, problem, excerpt in invalid.mistakes:
                assert file == "soup"
                assert line >= 1
                assert column >= 1
                assert problem
                assert excerpt.endswith("^")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_no_characters_break_the_parser(text: str) -> None:
    for parse in (parse_file, parse_statements, parse_expression):
        try:
            parse(text, "characters")
        except EsqlInvalid as invalid:
            assert invalid.mistakes


PIECES = (
    "SET x = y + 1;",
    "IF x THEN SET z.a[] = 'b'; END IF;",
    "CALL p(x, 1);",
    "DECLARE x REFERENCE TO InputRoot.XMLNSC.a;",
    "MOVE x NEXTSIBLING;",
    "lab: WHILE x > 1 DO LEAVE lab; END WHILE;",
    "FOR f AS x.y[] DO DELETE FIELD f.z; END FOR;",
    "SET Environment.q[] = (SELECT a.b AS c FROM x.y[] AS a WHERE a.b = x);",
    "RETURN NOT x;",
    "DECLARE EXIT HANDLER FOR SQLSTATE LIKE '%' RESIGNAL;",
    "SET x = CAST(y AS DATE) - CURRENT_DATE;",
    "INSERT INTO Database.T(a) VALUES (LENGTH(x, y));",
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_the_checker_only_ever_gives_mistakes(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    found = check_statements(parse_statements(text, "f"), "f", text)
    assert found == sorted(set(found))
    for mistake in found:
        assert pieces[mistake.line - 1] == mistake.excerpt.split("\n")[0].strip()
        assert mistake.excerpt.split("\n")[1] == " " * (mistake.column + 1) + "^"


@for_each(
    "text",
    [
        "(" * 10_000 + "1" + ")" * 10_000,
        "(" * 10_000,
        "x[" * 10_000 + "1" + "]" * 10_000,
        "x.{" * 10_000 + "1" + "}" * 10_000,
        "f(" * 10_000 + ")" * 10_000,
        "NOT " * 10_000 + "TRUE",
        "- " * 10_000 + "1",
        "1" + " + 1" * 10_000,
        "1" + " = 1" * 10_000,
        "CASE WHEN TRUE THEN " * 10_000 + "1" + " END" * 10_000,
        "LIST{" * 5_000 + "}" * 5_000,
        "(SELECT ITEM a FROM b[] AS a WHERE " * 3_000 + "TRUE" + ")" * 3_000,
    ],
    ids=lambda text: text[:12],
)
def test_deep_expressions_are_refused_without_recursion(text: str) -> None:
    with pytest.raises(EsqlInvalid) as wrong:
        parse_expression(text, "deep")
    assert wrong.value.mistakes


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("IF a THEN ", "END IF; "),
        ("BEGIN ", "END; "),
        ("WHILE a DO ", "END WHILE; "),
        ("CASE a WHEN 1 THEN ", "END CASE;"),
    ],
)
def test_deep_statements_are_refused_without_recursion(opening: str, closing: str) -> None:
    with pytest.raises(EsqlInvalid) as wrong:
        parse_statements(opening * 5_000 + closing * 5_000, "deep")
    assert "nested" in wrong.value.mistakes[0][3]


def test_what_is_allowed_to_nest_can_be_checked() -> None:
    text = "SET a = " + "(1 + " * 60 + "1" + ")" * 60 + ";"
    body = parse_statements("BEGIN " * 40 + text + "END; " * 40, "f")
    assert max(depth for _, depth in walk(body)) <= DEPTH_MAX
    assert [mistake.problem for mistake in check_statements(body, "f", text)] == ["a is not declared"]


def test_a_megabyte_is_read_or_refused_in_bounded_time() -> None:
    started = time.process_time()
    with pytest.raises(EsqlInvalid, match="characters"):
        parse_file("x" * (TEXT_CHARACTERS_MAX + 1), "large")
    with pytest.raises(EsqlInvalid):
        parse_file("@" * 50_000, "strange")
    with pytest.raises(EsqlInvalid):
        parse_statements("SET a = ; " * 5_000, "mistaken")
    with pytest.raises(EsqlInvalid):
        parse_statements("'" + "x" * 1_000_000, "unclosed")
    parse_statements("/*" + "*" * 500_000 + "*/ SET a = '" + "''" * 250_000 + "';", "long")
    assert time.process_time() - started < 20


def test_a_thousand_lines_are_quick() -> None:
    parse_expression("1", "warm")
    text = "SET OutputRoot.XMLNSC.a.b[i].Name = InputRoot.XMLNSC.a.c[i].COMPONENT || 'x';\n" * 1000
    started = time.process_time()
    parse_statements(text, "quick")
    assert time.process_time() - started < 8  # 0.6 s on the machine this was written on
