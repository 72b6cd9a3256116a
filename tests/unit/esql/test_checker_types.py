# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from entrepot.errors.esql import EsqlRunError
from entrepot.esql.checker import check_statements
from entrepot.esql.checker.certain_types import SCALARS, can_become, type_of_value
from entrepot.esql.parsing import parse_expression, parse_statements
from entrepot.esql.runtime.casting import cast
from entrepot.esql.syntax import Literal
from folding import for_each

DECLARED = (
    "DECLARE i INTEGER; DECLARE b BOOLEAN; DECLARE d DATE; DECLARE t TIMESTAMP; DECLARE c CHARACTER;"
    " DECLARE x BLOB; DECLARE v INTERVAL DAY; DECLARE f FLOAT;\n"
)


def told(text: str) -> list[tuple[int, str]]:
    text = DECLARED + text
    found = check_statements(parse_statements(text, "f"), "f", text)
    assert all(each.line == 2 for each in found)
    return [(each.column, each.problem) for each in found]


@for_each(
    ("text", "column", "problem"),
    [
        ("SET i = i + b;", 11, "+ takes numbers, dates and intervals, and this is a BOOLEAN"),
        ("SET i = TRUE * 2;", 14, "* takes numbers, dates and intervals, and this is a BOOLEAN"),
        ("SET i = x - 1;", 11, "- takes numbers, dates and intervals, and this is a BLOB"),
        ("SET i = -b;", 9, "- takes a number or an interval, and this is a BOOLEAN"),
        ("SET d = d + t;", 11, "a DATE and a TIMESTAMP cannot be added; an INTERVAL can be added to either"),
        ("SET d = d * 2;", 11, "* cannot take a DATE"),
        ("SET b = i AND b;", 9, "AND takes a BOOLEAN, and this is an INTEGER"),
        ("SET b = NOT i;", 9, "NOT takes a BOOLEAN, and this is an INTEGER"),
        ("SET b = b = i;", 11, "a BOOLEAN is never = an INTEGER"),
        ("SET b = d > 5;", 11, "a DATE is never > an INTEGER"),
        ("SET b = i LIKE 'x';", 9, "LIKE compares texts, and this is INTEGER"),
        ("SET b = b BETWEEN 1 AND TRUE;", 19, "a BOOLEAN is never between an INTEGER"),
        ("SET b = b IN (TRUE, 5);", 21, "a BOOLEAN is never = an INTEGER"),
        ("SET b = i IS TRUE;", 11, "IS TRUE takes a BOOLEAN, and this is an INTEGER"),
        ("IF i THEN END IF;", 4, "IF takes a BOOLEAN, and this is an INTEGER"),
        ("WHILE d DO END WHILE;", 7, "WHILE takes a BOOLEAN, and this is a DATE"),
        ("REPEAT UNTIL 1 END REPEAT;", 14, "UNTIL takes a BOOLEAN, and this is an INTEGER"),
        ("CASE WHEN 1 THEN END CASE;", 11, "WHEN takes a BOOLEAN, and this is an INTEGER"),
        ("CASE b WHEN 1 THEN END CASE;", 13, "a BOOLEAN is never = an INTEGER"),
        ("SET i = CASE WHEN 1 THEN 2 END;", 19, "WHEN takes a BOOLEAN, and this is an INTEGER"),
        ("SET b = 5;", 9, "an INTEGER cannot become a BOOLEAN"),
        ("SET i = CURRENT_DATE;", 9, "a DATE cannot become an INTEGER"),
        ("DECLARE q BOOLEAN 1.5;", 19, "a DECIMAL cannot become a BOOLEAN"),
        ("SET i = CAST(b AS INTEGER);", 9, "a BOOLEAN cannot become an INTEGER"),
        ("SET c = CAST(CAST(d AS BLOB) AS CHARACTER);", 14, "a DATE cannot become a BLOB"),
        ("SET i = CAST(1, 2 AS INTEGER);", 9, "several values make a date, a time or an interval, not INTEGER"),
        ("SET i = CAST(1 AS ROW);", 19, "nothing can be CAST to ROW"),
        ("SET v = (1 + 2) DAY;", 12, "DAY stands behind a difference in brackets: (a - b) DAY"),
    ],
)
def test_certain_type_mistake_is_told(text: str, column: int, problem: str) -> None:
    assert told(text) == [(column, problem)]


@pytest.mark.parametrize(
    "text",
    [
        "SET i = c + 1; SET c = i; SET i = '5'; SET f = i * 1.5;",
        "SET d = d + INTERVAL '1' DAY; SET t = t - v; SET v = (d - CURRENT_DATE) DAY; SET v = v * 2;",
        "SET b = c; SET b = NULL; SET b = UNKNOWN; SET b = Environment.x; SET i = Environment.x + 1;",
        "IF Environment.x THEN END IF; IF c THEN END IF; SET b = Environment.x = TRUE;",
        "SET x = CAST(i AS BLOB); SET i = CAST(x AS INTEGER); SET d = CAST(2003, 12, 24 AS DATE);",
        "SET b = d = t AND i = f AND i = '1' AND v < INTERVAL '2' DAY;",
        "SET i = (SELECT COUNT(*) FROM InputRoot.a[] AS a); SET Environment.y = ROW(1 AS a);",
    ],
)
def test_nothing_is_told_where_a_value_may_fit(text: str) -> None:
    assert told(text) == []


SAMPLES = {
    "CHARACTER": "'1'",
    "INTEGER": "1",
    "DECIMAL": "1.5",
    "FLOAT": "1.5E0",
    "BOOLEAN": "TRUE",
    "BLOB": "X'0000000000000001'",
    "BIT": "B'0000000000000000000000000000000000000000000000000000000000000001'",
    "DATE": "DATE '2003-12-24'",
    "TIME": "TIME '18:30:00'",
    "GMTTIME": "GMTTIME '18:30:00'",
    "TIMESTAMP": "TIMESTAMP '2003-12-24 18:30:00'",
    "GMTTIMESTAMP": "GMTTIMESTAMP '2003-12-24 18:30:00'",
    "INTERVAL": "INTERVAL '1' DAY",
}


def value_of(kind: str) -> Any:
    literal = parse_expression(SAMPLES[kind], "f")
    assert isinstance(literal, Literal)
    assert type_of_value(literal.value) == kind
    return literal.value


@for_each("source", sorted(SCALARS))
def test_what_the_checker_refuses_cast_refuses_too(source: str) -> None:
    for target in sorted(SCALARS):
        if not can_become(source, target):
            with pytest.raises(EsqlRunError):
                cast(value_of(source), target, qualifier="DAY" if target == "INTERVAL" else "")
