# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.errors import EsqlInvalid
from entrepot.esql.checker import CheckOptions, check, check_statements, require_valid
from entrepot.esql.parsing import parse_file, parse_statements
from folding import for_each

BROKER = Path(__file__).parents[2] / "golden" / "esql" / "broker"

Found = list[tuple[int, int, str]]


def told(text: str, kind: str = "COMPUTE", **options: bool) -> Found:
    """Line, column and words of what is wrong with statements; warnings have a ? in front."""
    found = check_statements(parse_statements(text, "f"), "f", text, CheckOptions(kind=kind, **options))
    return [(each.line, each.column, "? " * each.is_warning + each.problem) for each in found]


def told_of(*texts: str) -> Found:
    found = check([parse_file(text, f"{number}.esql") for number, text in enumerate(texts)])
    return [(each.line, each.column, "? " * each.is_warning + each.problem) for each in found]


def module(body: str, *, kind: str = "COMPUTE", outside: str = "", inside: str = "") -> str:
    """A program with its body in the third line."""
    return (
        f"{outside} CREATE {kind} MODULE M {inside}\nCREATE FUNCTION Main() RETURNS BOOLEAN BEGIN\n"
        f"{body}\nRETURN TRUE; END; END MODULE;"
    )


DECLARED = "DECLARE i INTEGER; DECLARE c CHARACTER; DECLARE r REFERENCE TO InputRoot; DECLARE k CONSTANT INTEGER 1;\n"

# Each with what is declared above in its first line, so that the mistake stands in the second.
CASES = [
    ("SET x = 1;", 5, "x is not declared"),
    ("SET i = countt;", 9, "countt is not declared"),
    ("SET OutputRoot.XMLNSC.a = inputRoot.a;", 27, "inputRoot is not declared; there is InputRoot, and names tell"),
    ("SET OutputRoot.a = OutputRot.b;", 20, "OutputRot is not declared; is OutputRoot meant?"),
    ("SET i.x = 1;", 5, "i is INTEGER and has no fields"),
    ("SET k = 2;", 5, "k is a constant"),
    ("SET InputRoot.MQMD.Expiry = 2;", 5, "InputRoot cannot be changed in a COMPUTE module; OutputRoot can"),
    ("SET InputBody.a = 2;", 5, "InputBody cannot be changed in a COMPUTE module; OutputRoot can"),
    ("DELETE FIELD InputExceptionList.a;", 14, "InputExceptionList cannot be changed in a COMPUTE module"),
    ("CREATE LASTCHILD OF InputRoot;", 21, "InputRoot cannot be changed in a COMPUTE module"),
    ("SET i = Root.a;", 9, "Root is unknown in a COMPUTE module; there is InputRoot and OutputRoot"),
    ("SET OutputRoot.ns:a = 1;", 16, "the namespace ns is not declared"),
    ("SET OutputRoot.i:a = 1;", 16, "i is INTEGER and no namespace"),
    ("SET OutputRoot.(XMLNSC.Attrib)a = 1;", 17, "there is no type (XMLNSC.Attrib); is ATTRIBUTE meant?"),
    ("SET OutputRoot.(XMLNSS.Attribute)a = 1;", 17, "XMLNSS is not declared"),
    ("SET OutputRoot.a[TRUE] = 1;", 17, "an index is a number, and this is BOOLEAN"),
    ("SET i = NOSUCH(1);", 9, "there is no function NOSUCH"),
    ("SET i = SUBSTR(c);", 9, "there is no function SUBSTR; is SUBSTRING meant?"),
    ("SET i = LENGTH();", 9, "LENGTH takes 1 argument, and here are 0"),
    ("SET i = REPLACE(c);", 9, "REPLACE takes 2 to 3 arguments, and here are 1"),
    ("SET i = BITOR(1);", 9, "BITOR takes at least 2 arguments, and here are 1"),
    ("SET i = CARDINALITY(InputRoot.*[], 2);", 9, "CARDINALITY takes 1 argument, and here are 2"),
    ("CALL nobody();", 1, "there is no procedure nobody"),
    ("SET i = CARDINALITY(NOT_THERE.*[]);", 21, "NOT_THERE is not declared"),
    ("LEAVE away;", 1, "LEAVE away: no loop or block around this has that label"),
    (
        "around: LOOP ITERATE arund; END LOOP;",
        14,
        "ITERATE arund: no loop or block around this has that label; is around",
    ),
    ("a: LOOP a: LOOP LEAVE a; END LOOP; END LOOP;", 12, "the label a is used by a block around this one"),
    ("MOVE i NEXTSIBLING;", 1, "MOVE i: i is INTEGER, not a REFERENCE"),
    ("MOVE nothing PARENT;", 1, "nothing is not declared"),
    ("ATTACH c TO OutputRoot AS LASTCHILD;", 1, "ATTACH c: c is CHARACTER, not a REFERENCE"),
    ("DETACH i;", 1, "DETACH i: i is INTEGER, not a REFERENCE"),
    ("FOR f AS InputRoot.*[] DO MOVE f PARENT; END FOR;", 27, "MOVE f: f is a correlation name, not a REFERENCE"),
    ("CREATE FIELD OutputRoot.a AS i;", 1, "AS i: i is INTEGER, not a REFERENCE"),
    ("IF LASTMOVE(i) THEN END IF;", 13, "LASTMOVE takes a REFERENCE variable"),
    ("DECLARE i CHARACTER;", 9, "i is declared already, in line 1"),
    ("DECLARE i INTEGER 5;", 9, "i is declared already, in line 1"),
    ("DECLARE n, n INTEGER;", 9, "? n is declared a second time, as in line 2"),
    ("DECLARE i INTEGER;", 9, "? i is declared a second time, as in line 1"),
    ("DECLARE n REFERENCE;", 9, "the REFERENCE n needs TO and a field"),
    ("DECLARE n CONSTANT INTEGER;", 9, "the constant n needs a value"),
    ("DECLARE n SHARED INTEGER;", 9, "SHARED variables are declared outside of routines"),
    ("DECLARE n INTEGER n;", 19, "n is not declared"),
    ("IF TRUE THEN DECLARE n INTEGER; END IF; SET n = 1;", 45, "n is not declared"),
    ("EVAL('SET i = 1');", 1, "EVAL runs text as a program and is off; allow_eval turns it on"),
    ("SET i = EVAL('1');", 9, "EVAL runs text as a program and is off; allow_eval turns it on"),
    ("RESIGNAL;", 1, "RESIGNAL stands in a HANDLER only"),
    ("INSERT INTO Environment.T VALUES (1);", 13, "a table or data source begins with Database"),
    ("SET c NAME = 'x';", 5, "c is CHARACTER, not a field that has a NAME"),
    ("SET i = (SELECT a.b FROM nowhere.x[] AS a);", 26, "nowhere is not declared"),
    ("SET i = (SELECT b.c FROM InputRoot.x[] AS a);", 17, "b is not declared"),
    ("IF NOT c = 'x' THEN END IF;", 4, "? NOT binds more tightly than =; if NOT (... = ...) is meant, write it so"),
]


@for_each(("text", "column", "problem"), CASES, ids=[case[0] for case in CASES])
def test_mistake_is_told_with_its_place(text: str, column: int, problem: str) -> None:
    ((line, found_column, found_problem),) = told(DECLARED + text)
    assert (line, found_column) == (2, column)
    assert found_problem.startswith(problem)


GOOD = [
    "SET OutputRoot = InputRoot; SET OutputRoot.XMLNSC.a.(XMLNSC.Attribute)b = i;",
    "SET OutputRoot.XMLNS.a.(XML.NamespaceDecl)xmlns:xsi = 'urn:x';",
    "DECLARE ns NAMESPACE 'urn:x'; SET OutputRoot.XMLNSC.ns:a.*:b[i] = r.ns:c;",
    "SET OutputRoot.a.{c}:{c || 'x'} = InputProperties.MessageSet;",
    "SET OutputRoot.MQMD.Report = MQRO_NONE; SET OutputRoot.MQRFH2.(MQRFH2.Field)Version = 2;",
    "SET OutputRoot.a TYPE = XMLNSC.Attribute; IF FIELDTYPE(r) = NameValue THEN END IF;",
    "SET OutputRoot.a = ASBITSTREAM(r OPTIONS BITOR(RootBitStream, ValidateNone) CCSID 1208);",
    "SET OutputRoot.a[] = (SELECT T.x, T.y AS b FROM Database.T AS T, InputRoot.z[] AS z WHERE T.x = z.y AND COL = 1);",
    "SET OutputRoot.a = THE(SELECT ITEM T.x FROM Database.{c}.T WHERE T.y = i);",
    "UPDATE Database.T SET A = A + 1 WHERE B = T.C; DELETE FROM Database.T AS X WHERE X.A = i;",
    "outer: WHILE i < 3 DO BEGIN LEAVE outer; END; END WHILE outer;",
    "DECLARE EXIT HANDLER FOR SQLSTATE LIKE '%' BEGIN SET c = SQLERRORTEXT; RESIGNAL; END;",
    "IF i = 1 THEN DECLARE n INTEGER; ELSE DECLARE n CHARACTER; END IF;",
    "BEGIN DECLARE i CHARACTER 'hides the other'; SET i = 'x'; END;",
    "FOR f AS InputRoot.XMLNSC.a[] DO SET OutputRoot.x = f.y; SET OutputLocalEnvironment.z = f; END FOR;",
    "MOVE r FIRSTCHILD NAME c; WHILE LASTMOVE(r) DO MOVE r NEXTSIBLING REPEAT TYPE NAME; END WHILE;",
    "CREATE FIELD OutputRoot.a AS r; CREATE LASTCHILD OF r DOMAIN 'XMLNSC' PARSE(InputRoot.BLOB.BLOB, 546, 1208);",
    "PROPAGATE TO TERMINAL 'out1' DELETE NONE; COMMIT Database.D;",
    "IF NOT (c = 'x') AND NOT EXISTS(InputRoot.a[]) THEN THROW USER EXCEPTION VALUES (c); END IF;",
    "SET c = MessageFlowLabel || CAST(CURRENT_TIMESTAMP AS CHARACTER FORMAT 'yyyy');",
]


@for_each("text", GOOD)
def test_nothing_is_told_of_a_good_program(text: str) -> None:
    assert told(DECLARED + text) == []


@pytest.mark.parametrize("name", sorted(path.name for path in BROKER.glob("*.esql")))
def test_programs_of_the_broker_document_have_no_mistakes(name: str) -> None:
    found = told((BROKER / name).read_text())
    repeated = {"9_4_very_complex.esql": 8, "9_5_nested_select.esql": 1}
    assert [problem.startswith("? ") and "a second time" in problem for _, _, problem in found] == [
        True
    ] * repeated.get(name, 0)


def test_eval_can_be_allowed() -> None:
    assert told("EVAL('SET Environment.i = 1'); SET Environment.j = EVAL('1');", allow_eval=True) == []


# --- modules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["FILTER", "DATABASE"])
def test_modules_without_output_have_other_correlation_names(kind: str) -> None:
    good = "IF Root.a = Body.b OR LocalEnvironment.c OR ExceptionList.d OR Properties.e THEN END IF;"
    assert told_of(module(good, kind=kind)) == []
    assert told_of(module("SET Environment.x = InputRoot.a;", kind=kind)) == [
        (3, 21, f"InputRoot is unknown in a {kind} module; there is Root")
    ]


def test_propagate_leaves_compute_and_database_modules_only() -> None:
    assert told_of(module("PROPAGATE;", kind="DATABASE")) == []
    assert told_of(module("PROPAGATE;", kind="FILTER")) == [
        (3, 1, "PROPAGATE stands in COMPUTE and DATABASE modules, not in a FILTER module")
    ]


def test_filter_changes_no_message() -> None:
    assert told_of(module("SET Root.a = 1;", kind="FILTER")) == [(3, 5, "Root cannot be changed in a FILTER module")]


def test_module_needs_a_main() -> None:
    assert told_of("CREATE COMPUTE MODULE M\nEND MODULE;") == [
        (1, 23, "M has no Main: CREATE FUNCTION Main() RETURNS BOOLEAN")
    ]
    assert told_of("CREATE COMPUTE MODULE M\nCREATE FUNCTION Main(x INT) RETURNS BOOLEAN RETURN TRUE; END MODULE;") == [
        (2, 17, "Main takes no arguments and RETURNS BOOLEAN")
    ]
    assert told_of("CREATE COMPUTE MODULE M\nCREATE PROCEDURE Main() BEGIN END; END MODULE;") == [
        (2, 18, "Main takes no arguments and RETURNS BOOLEAN")
    ]


def test_what_is_not_supported_is_named_before_it_runs() -> None:
    assert told_of(module("", kind="DATABASEEVENT")) == [(1, 30, "DATABASEEVENT modules are not supported")]
    clr = "CREATE PROCEDURE p() LANGUAGE CLR EXTERNAL NAME 'x';"
    assert told_of(clr) == told_of(clr.replace("CLR", ".NET")) == [(1, 18, "LANGUAGE CLR is not supported")]
    assert told_of("CREATE FUNCTION p() LANGUAGE DATABASE EXTERNAL NAME 'x';") == [
        (1, 17, "a FUNCTION cannot be LANGUAGE DATABASE; make it a PROCEDURE")
    ]
    assert told_of("DECLARE r REFERENCE TO Environment.a;") == [
        (1, 9, "a REFERENCE outside of routines is not supported; declare it in the routine")
    ]


def test_variables_of_module_and_schema_are_seen_and_external_ones_are_constant() -> None:
    outside = "DECLARE a EXTERNAL INTEGER 1; DECLARE ns NAMESPACE 'urn:x';"
    inside = "DECLARE b SHARED INTEGER 0; DECLARE b2 INTEGER a;"
    assert told_of(module("SET b = a + b2; SET OutputRoot.ns:x = b;", outside=outside, inside=inside)) == []
    assert told_of(module("SET a = 1;", outside=outside)) == [(3, 5, "a is a constant")]
    assert told_of("DECLARE a INT 1;\nDECLARE a CHAR 'x';") == [(2, 9, "a is declared already, in line 1")]


# --- routines --------------------------------------------------------------------------------------------

ROUTINES = (
    "CREATE FUNCTION f(IN a INTEGER, IN b CHARACTER) RETURNS INTEGER RETURN a;"
    " CREATE PROCEDURE p(IN a INTEGER, OUT b CHARACTER, INOUT c INTEGER, IN d REFERENCE) BEGIN SET b = 'x'; END; "
)


@for_each(
    ("body", "found"),
    [
        ("SET Environment.x = f(1, 'x');", []),
        ("SET Environment.x = f(1);", [(3, 21, "f takes 2 arguments, and here are 1")]),
        (
            "SET Environment.x = F(1, 'x');",
            [(3, 21, "there is no function F; there is f, and names tell capitals from")],
        ),
        ("CALL f(1, 'x') INTO Environment.x;", []),
        ("CALL p(1, Environment.x, Environment.y, Environment);", []),
        ("CALL p(1, Environment.x, Environment.y);", [(3, 1, "p takes 4 arguments, and here are 3")]),
        ("CALL p(1, 'x', Environment.y, Environment);", [(3, 11, "b is OUT: name a variable or a field")]),
        ("CALL p(1, InputRoot.x, Environment.y, Environment);", [(3, 11, "InputRoot cannot be changed in a COMPUTE")]),
        ("CALL p(1, Environment.x, Environment.y, 5);", [(3, 41, "d is a REFERENCE: name a field")]),
        (
            "CALL p(1, Environment.x, Environment.y, Environment) INTO Environment.z;",
            [(3, 59, "p has no RETURNS, so INTO")],
        ),
        (
            "SET Environment.x = p(1, Environment.x, Environment.y, Environment);",
            [(3, 21, "p gives no value back; CALL")],
        ),
        ("CALL q();", [(3, 1, "there is no procedure q")]),
    ],
)
def test_calls_fit_their_routines(body: str, found: Found) -> None:
    actual = told_of(module(body, inside=ROUTINES))
    assert [place[:2] for place in actual] == [place[:2] for place in found]
    for (_, _, problem), (_, _, start) in zip(actual, found, strict=True):
        assert problem.startswith(start)


def test_return_fits_its_routine() -> None:
    assert told_of("CREATE FUNCTION f() RETURNS INTEGER BEGIN\nRETURN; END;") == [
        (2, 1, "f returns INTEGER, so RETURN needs a value")
    ]
    assert told_of("CREATE PROCEDURE p() BEGIN\nRETURN 5; END;") == [
        (2, 8, "p has no RETURNS, so RETURN takes no value")
    ]
    assert told_of("CREATE FUNCTION f() RETURNS BOOLEAN\nRETURN 5;") == [(2, 8, "an INTEGER cannot become a BOOLEAN")]
    assert told_of("CREATE FUNCTION f() RETURNS INTEGER BEGIN END;") == [(1, 17, "? f never returns a value")]
    assert told_of("CREATE FUNCTION f() BEGIN END;") == [(1, 17, "? the function f has no RETURNS")]


def test_parameters_are_names_of_the_routine() -> None:
    assert told_of(
        "CREATE PROCEDURE p(IN a CONSTANT CHAR, IN ns NAMESPACE) BEGIN\nSET a = 'x'; SET Environment.ns:b = a; END;"
    ) == [(2, 5, "a is a constant")]
    assert told_of("CREATE PROCEDURE p(IN a CHAR) BEGIN\nSET a = 'x'; END;") == [
        (2, 5, "? a is an IN parameter; the caller will not see the change")
    ]
    assert told_of("CREATE PROCEDURE p(IN a CHAR,\nOUT a CHAR) BEGIN END;") == [(2, 5, "there are two parameters a")]


def test_routines_are_found_in_module_schema_path_and_by_full_name() -> None:
    library = "BROKER SCHEMA lib.text CREATE FUNCTION shout(IN a CHAR) RETURNS CHAR RETURN UPPER(a);"
    program = "BROKER SCHEMA shop {path} " + module("SET Environment.a = {name}('x');")
    assert told_of(library, program.format(path="PATH lib.text;", name="shout")) == []
    assert told_of(library, program.format(path="", name="lib.text.shout")) == []
    assert told_of(library, program.format(path="", name="shout")) == [(3, 21, "there is no function shout")]
    assert told_of(program.format(path="PATH lib.text;", name="UPPER")) == [
        (1, 1, "? PATH names the schema lib.text, which no file has")
    ]


def test_names_of_a_schema_can_be_given_once() -> None:
    one = "CREATE PROCEDURE p() BEGIN END;"
    assert told_of(one, one) == [(1, 18, "there is a p already, in 0.esql, line 1")]
    assert told_of(f"{one}\n{one}") == [(2, 18, "there is a p already, in line 1")]
    assert told_of(one, f"BROKER SCHEMA other {one}") == []


def test_require_valid_raises_all_mistakes_and_gives_back_warnings() -> None:
    file = parse_file(module("SET a = 1; SET b = 2; IF NOT TRUE = FALSE THEN END IF;"), "orders.esql")
    with pytest.raises(EsqlInvalid) as wrong:
        require_valid([file])
    assert wrong.value.mistakes == (
        ("orders.esql", 3, 5, "a is not declared", "  SET a = 1; SET b = 2; IF NOT TRUE = FALSE THEN END IF;\n      ^"),
        (
            "orders.esql",
            3,
            16,
            "b is not declared",
            "  SET a = 1; SET b = 2; IF NOT TRUE = FALSE THEN END IF;\n                 ^",
        ),
    )
    (warning,) = require_valid([parse_file(module("IF NOT TRUE = FALSE THEN END IF;"), "orders.esql")])
    assert warning.is_warning
