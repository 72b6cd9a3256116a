# SPDX-License-Identifier: Apache-2.0
"""ESQL that means harm, or means well and never ends: refused before it runs, or stopped while it does.

Every case has the error it must end with and words of the problem, so that another end is no end.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from entrepot.errors import BudgetSpent, CastFailed, EntrepotError, EsqlInvalid, EsqlRunError, UserException
from entrepot.esql.program import EsqlModule, compile_statements, compile_texts
from entrepot.esql.runtime import large
from entrepot.esql.runtime import run as running
from entrepot.esql.runtime.strings import RESULT_MAX
from entrepot.limits import BODY_BYTES_MAX, MIB
from entrepot.message import Message
from entrepot.models.assembling import parse_message
from entrepot.models.tree import Assembly, Element, Root
from entrepot.models.tree_state import COPIES, COPIES_AT_A_TIME, LEVELS_MAX
from folding import for_each

SOON_S = 6.0
STEPS = 50_000
"""What these programs may take: one in two hundred of the usual."""
SPENT, CAST, FAILED = BudgetSpent, CastFailed, EsqlRunError
DEEP = 100_000

_LIST = (
    "DECLARE i INTEGER 0; CREATE FIELD Environment.l; WHILE i < 500 DO CREATE LASTCHILD OF Environment.l NAME 'a' "
    "VALUE i; SET i = i + 1; END WHILE; "
)
_SOURCES = "Environment.l.a[] AS x, Environment.l.a[] AS y, Environment.l.a[] AS z"
_LARGE = "DECLARE large DECIMAL CAST('1E+999999999' AS DECIMAL); "
_SMALL = "DECLARE small DECIMAL CAST('1E-999999999' AS DECIMAL); "

PROGRAMS: list[tuple[str, str, type[EntrepotError], str]] = [
    # --- loops ---
    ("WHILE", "DECLARE i INTEGER 0; WHILE TRUE DO SET i = i + 1; END WHILE;", SPENT, "loops without end"),
    ("WHILE over nothing", "WHILE TRUE DO END WHILE;", SPENT, "loops without end"),
    ("LOOP", "a: LOOP END LOOP a;", SPENT, "loops without end"),
    ("REPEAT", "REPEAT SET Environment.a = 1; UNTIL FALSE END REPEAT;", SPENT, "loops without end"),
    ("ITERATE", "a: WHILE TRUE DO ITERATE a; END WHILE a;", SPENT, "loops without end"),
    ("reference that never moves", "DECLARE r REFERENCE TO Environment; WHILE LASTMOVE(r) DO MOVE r TO Environment; "
     "END WHILE;", SPENT, "loops without end"),
    ("loop in a loop", "WHILE TRUE DO WHILE TRUE DO SET Environment.a = 1; END WHILE; END WHILE;", SPENT, "loops"),
    ("loop that a HANDLER keeps", "WHILE TRUE DO BEGIN DECLARE CONTINUE HANDLER FOR SQLSTATE LIKE '%' BEGIN "
     "END; SET Environment.a = 1 / 0; END; END WHILE;", SPENT, "loops without end"),
    ("FOR over what it makes", "CREATE FIELD Environment.l.a; WHILE TRUE DO FOR r AS Environment.l.a[] DO CREATE "
     "LASTCHILD OF Environment.l NAME 'a'; END FOR; END WHILE;", SPENT, "loops without end"),
    ("PROPAGATE", "WHILE TRUE DO PROPAGATE TO TERMINAL -2; END WHILE;", SPENT, "loops without end"),
    # --- strings ---
    ("doubled CHARACTER", "DECLARE s CHARACTER 'x'; WHILE TRUE DO SET s = s || s; END WHILE;", FAILED, "longer than"),
    ("doubled BLOB", "DECLARE s BLOB X'00'; WHILE TRUE DO SET s = s || s; END WHILE;", FAILED, "longer than"),
    ("doubled BIT", "DECLARE s BIT B'0'; WHILE TRUE DO SET s = s || s; END WHILE;", FAILED, "longer than"),
    ("OVERLAY", "DECLARE s CHARACTER REPLICATE('x', 3000000); WHILE TRUE DO SET s = OVERLAY(s PLACING s FROM "
     "1000000000); "
     "END WHILE;", FAILED, "OVERLAY"),
    ("REPLACE", "DECLARE s CHARACTER REPLICATE('x', 1000000); SET s = REPLACE(s, 'x', REPLICATE('y', 100));", FAILED,
     "REPLACE"),
    ("REPLICATE", "SET Environment.a = REPLICATE('xy', 9223372036854775807);", FAILED, str(RESULT_MAX)),
    ("REPLICATE of a BLOB", "SET Environment.a = REPLICATE(X'00', 9223372036854775807);", FAILED, str(RESULT_MAX)),
    ("SPACE", "SET Environment.a = SPACE(9223372036854775807);", FAILED, str(RESULT_MAX)),
    ("SPACE below nothing", "SET Environment.a = SPACE(-1);", FAILED, "-1"),
    ("BASE64ENCODE", "DECLARE s CHARACTER REPLICATE('x', 3000000); WHILE TRUE DO SET s = BASE64ENCODE(s); END WHILE;",
     FAILED, "BASE64ENCODE"),
    ("CAST to hexadecimal", "DECLARE s BLOB REPLICATE(X'00', 3000000); WHILE TRUE DO SET s = CAST(CAST(s AS CHARACTER) "
     "AS BLOB CCSID 1208); END WHILE;", FAILED, "CAST"),
    ("CAST to BIT", "DECLARE s BLOB X'00'; WHILE TRUE DO SET s = s || s; SET Environment.a = CAST(s AS BIT); "
     "END WHILE;", FAILED, "CAST"),
    ("CAST to UTF-16", "DECLARE s CHARACTER 'x'; WHILE TRUE DO SET s = s || s; SET Environment.a = CAST(s AS "
     "BLOB CCSID 1200); END WHILE;", FAILED, "CAST"),
    ("many large strings", "DECLARE s CHARACTER REPLICATE('x', 3000000); WHILE TRUE DO SET s = SUBSTRING(s || "
     "'y' FROM 2); "
     "END WHILE;", SPENT, "loops without end"),
    ("POSITION", "DECLARE i INTEGER 0; WHILE TRUE DO SET i = POSITION('a' IN 'bbb' REPEAT 9223372036854775807); "
     "END WHILE;", SPENT, "loops without end"),
    # --- casts and numbers ---
    ("FORMAT of digits", "SET Environment.a = CAST(1 AS CHARACTER FORMAT REPLICATE('0', 3000000));", CAST, "longer"),
    ("FORMAT of padding", "SET Environment.a = CAST(1 AS CHARACTER FORMAT '*x' || REPLICATE('#', 1000000));", CAST,
     "longer"),
    ("FORMAT of a date", "SET Environment.a = CAST(CURRENT_DATE AS CHARACTER FORMAT REPLICATE('yyyyMMdd', 100000));",
     CAST, "too long"),
    ("date by FORMAT", "SET Environment.a = CAST('2024' AS DATE FORMAT REPLICATE('yyyyMMdd', 100000));", CAST,
     "longer"),
    ("FORMAT of a huge number", _LARGE + "SET Environment.a = CAST(large AS CHARACTER FORMAT '#,##0.00');", CAST,
     "999999999"),
    ("huge number to INTEGER", _LARGE + "SET Environment.a = CAST(large AS INTEGER);", CAST, "INTEGER"),
    ("huge number to FLOAT", _LARGE + "SET Environment.a = CAST(large AS FLOAT);", CAST, "FLOAT"),
    ("MOD of a huge number", _LARGE + "SET Environment.a = MOD(large, 7);", FAILED, "MOD"),
    ("huge number times itself", _LARGE + "SET Environment.a = large * large;", FAILED, "too large"),
    ("huge number with digits", _LARGE + "SET Environment.a = CAST(large AS DECIMAL(10, 2));", CAST, "DECIMAL"),
    ("small number of places", _SMALL + "SET Environment.a = 1 / (small * small);", FAILED, "zero|too large"),
    ("ROUND to many places", "SET Environment.a = ROUND(12345678901234567890.5, 999999999) / 0;", FAILED,
     "zero|too large"),
    ("POWER", "SET Environment.a = POWER(9.9, 999999999);", FAILED, "POWER"),
    ("EXP", "SET Environment.a = EXP(100000);", FAILED, "EXP"),
    ("INTEGER", "DECLARE i INTEGER 1; WHILE TRUE DO SET i = i * 10; END WHILE;", FAILED, "too large"),
    ("many digits", "SET Environment.a = CAST(REPLICATE('9', 3000000) AS INTEGER);", CAST, "INTEGER"),
    ("wide interval", "SET Environment.a = INTERVAL '999999999' YEAR * 9223372036854775807;", FAILED, "too wide"),
    ("far date", "SET Environment.a = DATE '9999-12-31' + INTERVAL '1' DAY;", FAILED, "9999|date|year"),
    ("LIKE", "SET Environment.a = REPLICATE('ab', 1000000) LIKE '%' || REPLICATE('a_', 10000) || 'c%';", FAILED,
     "LIKE"),
    # --- trees ---
    ("tree into itself", "CREATE FIELD Environment.x.a; WHILE TRUE DO SET Environment.y.a = Environment.x; SET "
     "Environment.y.b = Environment.x; SET Environment.x = Environment.y; END WHILE;", SPENT, "loops|deep"),
    ("list into itself", "CREATE FIELD Environment.x.a; WHILE TRUE DO SET Environment.x.a[] = LIST{Environment.x, "
     "Environment.x}; END WHILE;", SPENT, "loops|deep"),
    ("rows of rows", "CREATE FIELD Environment.x.a; WHILE TRUE DO SET Environment.z.b[] = SELECT i, j FROM "
     "Environment.x.a[] AS i, Environment.x.a[] AS j; SET Environment.x.a[] = Environment.z.b[]; CREATE LASTCHILD OF "
     "Environment.x NAME 'a'; END WHILE;", SPENT, "loops|deep"),
    ("output into the output", "CREATE FIELD OutputRoot.XMLNSC.a; WHILE TRUE DO SET OutputRoot.XMLNSC.b = "
     "OutputRoot.XMLNSC.a; SET OutputRoot.XMLNSC.a.c = OutputRoot.XMLNSC.b; SET OutputRoot.XMLNSC.a.d = "
     "OutputRoot.XMLNSC.b; END WHILE;", SPENT, "loops|deep"),
    ("deep CREATE", "DECLARE r REFERENCE TO Environment; WHILE TRUE DO CREATE LASTCHILD OF r AS r NAME 'a'; END WHILE;",
     SPENT, f"deeper than {LEVELS_MAX}"),
    ("deep MOVE", "DECLARE r REFERENCE TO Environment; WHILE TRUE DO SET r.a = 1; MOVE r FIRSTCHILD; END WHILE;",
     SPENT, f"deeper than {LEVELS_MAX}"),
    ("CREATE", "WHILE TRUE DO CREATE LASTCHILD OF Environment NAME 'a'; END WHILE;", SPENT, "loops without end"),
    ("index far away", "SET Environment.a[9223372036854775807] = 1;", FAILED, "cannot be created"),
    ("ATTACH below itself", "CREATE FIELD Environment.a.b.c; DECLARE r REFERENCE TO Environment.a; DECLARE t "
     "REFERENCE TO "
     "Environment.a.b.c; DETACH r; ATTACH r TO t AS LASTCHILD;", FAILED, "ATTACH: a.b.c"),
    ("ATTACH to itself", "CREATE FIELD Environment.a; DECLARE r REFERENCE TO Environment.a; DETACH r; ATTACH r TO r AS "
     "FIRSTCHILD;", FAILED, "ATTACH"),
    ("ATTACH beside its child", "CREATE FIELD Environment.a.b; DECLARE r REFERENCE TO Environment.a; DETACH r; "
     "ATTACH r TO "
     "r.b AS NEXTSIBLING;", FAILED, "ATTACH"),
    ("ATTACH twice", "CREATE FIELD Environment.a.b; DECLARE r REFERENCE TO Environment.a.b; ATTACH r TO Environment AS "
     "LASTCHILD;", FAILED, "attached already"),
    ("DETACH of a root", "DECLARE r REFERENCE TO Environment; DETACH r;", FAILED, "root"),
    # --- SELECT ---
    ("join", _LIST + f"SET Environment.n[] = SELECT x, y, z FROM {_SOURCES};", SPENT, "loops without end"),
    ("join that finds nothing", _LIST + f"SET Environment.n[] = SELECT x FROM {_SOURCES} WHERE FALSE;", SPENT, "loops"),
    ("join that counts", _LIST + f"SET Environment.n = SELECT COUNT(*) FROM {_SOURCES} WHERE x = 0;", SPENT, "loops"),
    ("join for the first", _LIST + f"SET Environment.n = THE (SELECT ITEM x FROM {_SOURCES} WHERE x < 0);", SPENT,
     "loops"),
    ("SELECT in a condition", _LIST + "SET Environment.n[] = SELECT x FROM Environment.l.a[] AS x WHERE "
     "EXISTS(SELECT y "
     "FROM Environment.l.a[] AS y WHERE EXISTS(SELECT z FROM Environment.l.a[] AS z WHERE z < 0));", SPENT, "loops"),
    # --- bytes ---
    ("PARSE of depth", f"CREATE LASTCHILD OF Environment DOMAIN('XMLNSC') PARSE(CAST(REPLICATE('<a>', {DEEP}) AS BLOB "
     "CCSID 1208));", FAILED, "PARSE: .*offset 770: .*depth"),
    ("PARSE of JSON's depth", f"CREATE LASTCHILD OF Environment DOMAIN('JSON') PARSE(CAST(REPLICATE('[', "
     f"{DEEP}) AS BLOB "
     "CCSID 1208));", FAILED, "PARSE: .*deeper"),
    ("PARSE of a bomb", "CREATE LASTCHILD OF Environment DOMAIN('XMLNSC') PARSE(CAST('<!DOCTYPE a><a/>' AS BLOB CCSID "
     "1208));", FAILED, "PARSE: .*DOCTYPE"),
    ("PARSE of noise", "CREATE LASTCHILD OF Environment DOMAIN('MQRFH2') PARSE(X'00FF');", FAILED, "PARSE: .*MQRFH2"),
    ("ASBITSTREAM of depth", "CREATE FIELD OutputRoot.XMLNSC; DECLARE r REFERENCE TO OutputRoot.XMLNSC; DECLARE i "
     "INTEGER 0; WHILE i < 2000 DO CREATE LASTCHILD OF r AS r NAME 'a'; SET i = i + 1; END WHILE; SET Environment.b = "
     "ASBITSTREAM(OutputRoot.XMLNSC);", FAILED, "ASBITSTREAM: .*deeper"),
    ("ASBITSTREAM of a copy of depth", "CREATE FIELD OutputRoot.XMLNSC; DECLARE r REFERENCE TO "
     "OutputRoot.XMLNSC; DECLARE "
     "i INTEGER 0; WHILE i < 2000 DO CREATE LASTCHILD OF r AS r NAME 'a'; SET i = i + 1; END WHILE; SET "
     "Environment.b = "
     "ASBITSTREAM(OutputRoot.XMLNSC.a);", SPENT, "too deep"),
    *((f"ASBITSTREAM of shared strings, {domain}", "DECLARE s CHARACTER REPLICATE('x', 4000000); DECLARE i INTEGER 0; "
     f"CREATE FIELD OutputRoot.{path}; WHILE i < 1000 DO CREATE LASTCHILD OF OutputRoot.{path} NAME 'a' VALUE "
     f"s; SET i = "
     f"i + 1; END WHILE; SET Environment.b = ASBITSTREAM(OutputRoot.{domain});", FAILED, "ASBITSTREAM: .*longer")
     for domain, path in (("XMLNSC", "XMLNSC.r"), ("JSON", "JSON.Data"))),
    # --- the rest ---
    ("THROW", "WHILE TRUE DO THROW USER EXCEPTION VALUES(1); END WHILE;", UserException, "1"),
    ("division", "SET Environment.a = 1 / 0;", FAILED, "zero"),
]  # fmt: skip

_MODULE = "CREATE COMPUTE MODULE M CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN {} RETURN TRUE; END; {} END MODULE;"

MODULES: list[tuple[str, str, str]] = [
    ("mutual recursion", _MODULE.format(
        "CALL f(1);", "CREATE PROCEDURE f(IN a INTEGER) BEGIN CALL g(a); END; CREATE PROCEDURE g(IN a INTEGER) "
        "BEGIN CALL "
        "f(a); END;"), "recurses without end"),
    ("recursion in a function", _MODULE.format(
        "DECLARE x INTEGER f(1);", "CREATE FUNCTION f(IN a INTEGER) RETURNS INTEGER BEGIN RETURN f(a + 1); END;"),
        "recurses without end"),
    ("recursion that branches", _MODULE.format(
        "DECLARE x INTEGER f(100);", "CREATE FUNCTION f(IN a INTEGER) RETURNS INTEGER BEGIN IF a < 2 THEN "
        "RETURN 1; END IF; "
        "RETURN f(a - 1) + f(a - 2); END;"), "loops without end"),
    ("recursion into Main", _MODULE.format("DECLARE x BOOLEAN Main();", ""), "too deep|recurses"),
    ("recursion in a SELECT", _MODULE.format(
        "DECLARE x INTEGER f(1);", "CREATE FUNCTION f(IN a INTEGER) RETURNS INTEGER BEGIN CREATE FIELD "
        "Environment.l.a; "
        "RETURN SELECT SUM(f(a)) FROM Environment.l.a[] AS r; END;"), "recurses without end|too deep"),
    ("recursion that a HANDLER keeps", _MODULE.format(
        "CALL f(1);", "CREATE PROCEDURE f(IN a INTEGER) BEGIN DECLARE CONTINUE HANDLER FOR SQLSTATE LIKE '%' "
        "BEGIN END; "
        "CALL f(a); END;"), "recurses without end"),
    ("recursion down a tree", _MODULE.format(
        "CREATE FIELD Environment.a; CALL f(Environment.a);",
        "CREATE PROCEDURE f(IN r REFERENCE) BEGIN CREATE LASTCHILD OF "
        "r NAME 'a'; DECLARE c REFERENCE TO r.a; CALL f(c); END;"), "recurses without end"),
]  # fmt: skip


def assembly() -> Assembly:
    return parse_message(Message(b"<a><b>1</b></a>"), domain="XMLNSC")


def stopped(module: EsqlModule, error: type[EntrepotError], words: str) -> EsqlRunError:
    """Run it; what it ended with, which was soon."""
    message = assembly()
    begun = time.process_time()
    with pytest.raises(error, match=words or None) as ended:
        module.compute(message, steps=STEPS)
    assert time.process_time() - begun < SOON_S
    assert type(ended.value) is error
    assert isinstance(ended.value, EsqlRunError)
    return ended.value


@pytest.mark.parametrize(("text", "error", "words"), [
    pytest.param(text, error, words, id=what) for what, text, error, words in PROGRAMS
])  # fmt: skip
def test_hostile_program_is_stopped_soon(
    monkeypatch: pytest.MonkeyPatch, text: str, error: type[EntrepotError], words: str
) -> None:
    # So that doubling is over sooner; the limit itself is below, and in the campaign.
    monkeypatch.setattr(large, "STRING_MAX", 4 * MIB)
    ended = stopped(compile_statements("\n" + text, "p.esql"), error, words)
    assert ended.place == "p.esql:2"
    assert "p.esql:2: " in str(ended)
    assert len(str(ended)) < 10_000


@pytest.mark.parametrize(("text", "words"), [pytest.param(text, words, id=what) for what, text, words in MODULES])
def test_recursion_is_stopped_soon(text: str, words: str) -> None:
    module = compile_texts({"p.esql": text}).module("M")
    ended = stopped(module, BudgetSpent, words)
    assert ended.place == "p.esql:1"


def test_longest_string_is_as_long_as_the_longest_body() -> None:
    text = "DECLARE s CHARACTER REPLICATE('x', 32768); SET s = REPLICATE(s, 1024); SET Environment.a = s || s || s{};"
    message = assembly()
    compile_statements(text.format("")).compute(message)
    assert len(message.environment.get("a")) == 96 * MIB < BODY_BYTES_MAX
    stopped(compile_statements(text.format(" || s")), EsqlRunError, str(BODY_BYTES_MAX))


def test_spent_budget_survives_a_pickle() -> None:
    ended = stopped(compile_statements("WHILE TRUE DO END WHILE;", "p.esql"), BudgetSpent, "loops")
    assert str(pickle.loads(pickle.dumps(ended))) == str(ended)


def test_budget_is_exact_and_is_given_again_to_each_message() -> None:
    module = compile_statements("DECLARE i INTEGER 0; WHILE i < 25000 DO SET i = i + 1; END WHILE;", "p.esql")
    for _ in range(3):
        module.compute(assembly(), steps=25_000)
    with pytest.raises(BudgetSpent):
        module.compute(assembly(), steps=24_999)


def test_program_pays_for_its_copies_alone() -> None:
    """What others copy on this thread afterwards costs nobody anything, and another thread's budget is its own."""
    _ = stopped(compile_statements({what: text for what, text, *_ in PROGRAMS}["tree into itself"]), SPENT, "")
    assert COPIES.charge is None
    root = Root("Environment")
    for _ in range(1000):
        root.add("a").add("b")
    for _ in range(2 * COPIES_AT_A_TIME // 1000):
        root.copy()
    copying = compile_statements(_LIST + "WHILE i > 0 DO SET Environment.m = Environment.l; SET i = i - 1; END WHILE;")
    failures: list[BaseException] = []

    def compute() -> None:
        try:
            copying.compute(assembly(), steps=300_000)
        except EntrepotError as error:
            failures.append(error)

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    "text",
    [
        "WHILE TRUE DO CREATE LASTCHILD OF Environment NAME 'a'; END WHILE;",
        "DECLARE s CHARACTER REPLICATE('x', 1000000); WHILE TRUE DO SET Environment.a = s || 'y'; END WHILE;",
        "CREATE FIELD Environment.a.b; WHILE TRUE DO SET Environment.c = Environment.a; END WHILE;",
    ],
)
def test_memory_of_a_run_is_bounded(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The process seems to grow by a mebibyte with each portion of the budget."""
    told = itertools.count(100 * MIB, MIB)
    monkeypatch.setattr(running, "resident_bytes", lambda: next(told))
    monkeypatch.setattr(running, "RUN_MEMORY_BYTES_MAX", 3 * MIB)
    begun = time.process_time()
    with pytest.raises(BudgetSpent, match="3 MiB of memory"):
        compile_statements(text).compute(assembly())
    assert time.process_time() - begun < SOON_S


def test_memory_of_the_process_is_known() -> None:
    before = running.resident_bytes()
    taken = b"x" * (64 * MIB)
    assert running.resident_bytes() - before > len(taken) // 2


def test_tree_that_nobody_can_walk_is_not_built() -> None:
    place: Element = Root("Environment")
    with pytest.raises(EntrepotError, match="deeper"):
        for _ in range(10_000):
            place = place.add("a")


# --- text -----------------------------------------------------------------------------------------------

TEXTS: list[tuple[str, str, str]] = [
    ("parentheses", "SET x = " + "(" * DEEP + "1" + ")" * DEEP + ";", "nested|deep"),
    ("parentheses without end", "SET x = " + "(" * DEEP, "nested|deep"),
    ("blocks", "BEGIN " * DEEP + "END; " * DEEP, "nested|deep"),
    ("conditions", "IF TRUE THEN " * DEEP, "nested|deep"),
    ("sums", "SET Environment.x = 1" + " + 1" * (DEEP // 10) + ";", "nested|deep"),
    ("NOT", "SET Environment.x = " + "NOT " * DEEP + "TRUE;", "nested|deep"),
    ("indexes", "SET Environment.x = a" + "[a" * DEEP + "]" * DEEP + ";", "nested|deep"),
    ("CASE", "SET Environment.x = " + "CASE WHEN TRUE THEN " * DEEP, "nested|deep"),
    ("SELECT", "SET Environment.x = " + "(SELECT ITEM a FROM b[] AS a WHERE " * (DEEP // 10), "nested|deep"),
    ("open comment", "/*" + "*" * 1_000_000, "comment"),
    ("open string", "SET Environment.x = '" + "x" * 1_000_000, "string|quote|literal|'"),
    ("strange characters", "\x00\x01\ufffe\U0010ffff" * 1000, ""),
    ("quotes", "'" * 100_001, ""),
    ("mistakes", "SET = ; " * 2_000, "1:5"),
    ("EVAL", "EVAL('SET Environment.x = 1;');", "EVAL"),
    ("EVAL in an expression", "SET Environment.x = EVAL('1');", "EVAL"),
    ("too long", "-- " + "x" * (5 * 1024 * 1024), "characters"),
    ("huge FLOAT", "SET Environment.x = 1E+999999999;", "too large"),
    ("huge number and letters", "SET Environment.x = " + "9" * 100_000 + "_;", "9"),
    ("huge INTEGER", "SET Environment.x = " + "9" * 100_000 + ";", "large|INTEGER|digits"),
    ("labels", "a: WHILE TRUE DO LEAVE b; END WHILE a;", "b"),
    ("precision", "DECLARE d DECIMAL(999999999, 5);", "999999999|precision|34"),
]


@for_each(("text", "words"), [pytest.param(text, words, id=what) for what, text, words in TEXTS])
def test_hostile_text_is_refused_soon(text: str, words: str) -> None:
    compile_statements("SET Environment.a = 1;")
    begun = time.process_time()
    with pytest.raises(EsqlInvalid, match=words or None) as refused:
        compile_statements(text, "p.esql")
    assert time.process_time() - begun < 2 * SOON_S
    for file, line, column, problem, _ in refused.value.mistakes:
        assert (file, problem != "") == ("p.esql", True)
        assert line >= 1
        assert column >= 1
    assert len(str(refused.value)) < 500_000


def test_text_that_is_long_and_right_is_compiled_soon() -> None:
    """What the limits above must not refuse: flat text, however much of it there is in practice."""
    lines = [f"SET Environment.a{n % 7}.b = InputRoot.XMLNSC.a.b || '{n}';" for n in range(500)]
    begun = time.process_time()
    compile_statements("\n".join(lines)).compute(assembly())
    assert time.process_time() - begun < 2 * SOON_S


# --- memory ---------------------------------------------------------------------------------------------

GROWTH_MIB_MAX = 700
"""A string of 100 MiB, twice that while it is made, and four bytes for a character in the worst case."""

_CHILD = """
import json, mmap, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
from hostile.test_hostile_esql import PROGRAMS, STEPS, assembly
from entrepot.esql.program import compile_statements
from entrepot.errors import EntrepotError
compile_statements("SET Environment.a = 1;")
size = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (size + %d * 1024 * 1024,) * 2)
for what, text, error, words in PROGRAMS:
    try:
        compile_statements(text, "p.esql").compute(assembly(), steps=STEPS)
        print(what, "ended")
    except error as ended:
        if "memory" in str(ended):
            print(what, ended)
    except BaseException as wrong:
        print(what, type(wrong).__name__, wrong)
print("done", len(PROGRAMS))
"""


@pytest.mark.torture
def test_hostile_programs_are_stopped_in_little_memory() -> None:
    """Where a process has only so much memory, none of them is stopped for another reason than its own."""
    paths = [str(Path(__file__).parents[1])]
    child = subprocess.run(
        [sys.executable, "-c", _CHILD % GROWTH_MIB_MAX, json.dumps(paths)],
        capture_output=True, text=True, timeout=120, env={**os.environ, "MALLOC_ARENA_MAX": "1"}, check=False,
    )  # fmt: skip
    assert child.stdout.split("\n")[:-1] == [f"done {len(PROGRAMS)}"], child.stderr[-2000:]
