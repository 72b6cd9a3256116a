# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.esql.parsing import parse_expression
from folding import for_each

from .shown import shown

# What precedence, field references and functions mean is from the manual's topics ak01050, ak04861 and those of
# the functions; `shown` writes trees with all their brackets.
CASES = [
    ("1 + 2 * 3", "(1 + (2 * 3))"),
    ("1 - 2 - 3", "((1 - 2) - 3)"),
    ("a || b + c || d", "((a || b) + (c || d))"),
    ("NOT a AND b", "((NOT a) AND b)"),
    ("NOT a = b", "((NOT a) = b)"),
    ("- a * b", "((- a) * b)"),
    ("a = b OR c = d AND e", "((a = b) OR ((c = d) AND e))"),
    ("a BETWEEN 1 AND 2 AND b", "(Between(operand=a, low=1, high=2) AND b)"),
    ("a NOT BETWEEN SYMMETRIC 1 AND 2", "Between(operand=a, low=1, high=2, negated=True, symmetric=True)"),
    ("a IN (1, 2)", "Among(operand=a, candidates=[1, 2])"),
    ("a NOT IN ('x')", "Among(operand=a, candidates=['x'], negated=True)"),
    ("a LIKE 'x%' ESCAPE '!'", "Like(operand=a, pattern='x%', escape='!')"),
    ("a NOT LIKE b", "Like(operand=a, pattern=b, negated=True)"),
    ("a IS NULL", "Is(operand=a, what='NULL')"),
    ("a IS NOT TRUE", "Is(operand=a, what='TRUE', negated=True)"),
    ("a IS -INF", "Is(operand=a, what='-INF')"),
    ("a.b IS NUMBER", "Is(operand=a.b, what='NUM')"),
    ("OutputRoot.XMLNSC.ns:Order.(XMLNSC.Attribute)Id", "OutputRoot.XMLNSC.ns:Order.(<XMLNSC.Attribute>)Id"),
    ("InputRoot.*[<]", "InputRoot.*[<]"),
    ("x.*:name[]", "x.*:name[]"),
    ("Environment.Variables.{expr || 'x'}[I+1]", "Environment.Variables.{(expr || 'x')}[(I + 1)]"),
    ("ref.{ns}:{name}", "ref.{ns}:{name}"),
    ("y.(XML.attr)Type", "y.(<XML.attr>)Type"),
    ("x.(0x03000000){style}[1]", "x.(50331648){style}[1]"),
    ("x.*.*", "x.*.*"),
    ("x[>]", "x[>]"),
    ("x.y[<2]", "x.y[<2]"),
    ("x.[3]", "x.[3]"),
    ("x.:y", "x.:y"),
    ("Database.{schema}.{table}", "Database.{schema}.{table}"),
    ("x.(XML.XmlDecl).(XML.Version)", "x.(<XML.XmlDecl>).(<XML.Version>)"),
    ("x.(XML.Element + XML.Attribute)[1] AND b", "(x.(<XML.Element>+<XML.Attribute>)[1] AND b)"),
    ("x.(XML.Attribute) AND b", "(x.(<XML.Attribute>) AND b)"),
    ("x.(XML.Attribute)AND", "x.(<XML.Attribute>)AND"),
    ("x.(NameValue)a", "x.(<.NameValue>)a"),
    ("x.(k)a", "x.(k)a"),
    ('x."a b"."c""d"', 'x."a b"."c"d"'),
    ("x.Case.From.When.Not", "x.Case.From.When.Not"),
    ("Name.Type.Value", "Name.Type.Value"),
    ("COUNT + Date", "(COUNT + Date)"),
    ("Date.Time", "Date.Time"),
    ("DATE '2003-12-24'", "date(2003, 12, 24)"),
    ("TIMESTAMP '2003-12-24 18:30:00.123456'", "datetime(2003, 12, 24, 18, 30, 0, 123456)"),
    ("GMTTIME '18:30:00'", "time(18, 30, tzinfo=timezone.utc)"),
    ("INTERVAL '1' DAY", "Interval(qualifier='DAY', months=0, seconds=Decimal('86400'))"),
    ("INTERVAL -'1-6' YEAR TO MONTH", "Interval(qualifier='YEAR TO MONTH', months=-18, seconds=Decimal('0'))"),
    ("(a - b) DAY TO SECOND", "IntervalOf(operand=(a - b), qualifier='DAY TO SECOND')"),
    (
        ("CAST((GMTTIMESTAMP '2022-06-27 17:10:37' - GMTTIMESTAMP '1970-01-01 00:00:00') SECOND AS INTEGER)"),
        (
            "Cast(operand=[IntervalOf(operand=(datetime(2022, 6, 27, 17, 10, 37, "
            "tzinfo=timezone.utc) - datetime(1970, 1, 1, 0, 0, tzinfo=timezone.utc)), "
            "qualifier='SECOND')], type=INTEGER)"
        ),
    ),
    (
        "CAST(a AS DECIMAL(10,2) FORMAT '#' CCSID 1208 ENCODING 546 DEFAULT 0)",
        "Cast(operand=[a], type=DECIMAL(10,2), ccsid=1208, encoding=546, format='#', default=0)",
    ),
    ("CAST(2003, 12, 24 AS DATE)", "Cast(operand=[2003, 12, 24], type=DATE)"),
    ("CAST(a AS INTERVAL DAY TO SECOND)", "Cast(operand=[a], type=INTERVAL DAY TO SECOND)"),
    ("TRIM(a)", "TRIM(a)"),
    ("TRIM(LEADING '0' FROM a)", "TRIM:FROM('LEADING', '0', a)"),
    ("TRIM(BOTH FROM a)", "TRIM:FROM('BOTH', a)"),
    ("TRIM('x' FROM a)", "TRIM:FROM('BOTH', 'x', a)"),
    ("SUBSTRING(a FROM 1 FOR 2)", "SUBSTRING:FROM_FOR(a, 1, 2)"),
    ("SUBSTRING(a BEFORE ',')", "SUBSTRING:BEFORE(a, ',')"),
    ("SUBSTRING(a AFTER ',')", "SUBSTRING:AFTER(a, ',')"),
    ("POSITION('a' IN b FROM 2 REPEAT 3)", "POSITION:IN_FROM_REPEAT('a', b, 2, 3)"),
    ("POSITION('a' IN b)", "POSITION:IN('a', b)"),
    ("OVERLAY(a PLACING b FROM 1 FOR 2)", "OVERLAY:PLACING_FROM_FOR(a, b, 1, 2)"),
    ("EXTRACT(YEAR FROM CURRENT_DATE)", "EXTRACT:FROM('YEAR', CURRENT_DATE())"),
    ("ROUND(a, 2)", "ROUND(a, 2)"),
    ("ROUND(a, 2 MODE ROUND_UP)", "ROUND:MODE(a, 2, 'ROUND_UP')"),
    ("CURRENT_TIMESTAMP || SQLCODE || MessageFlowLabel", "((CURRENT_TIMESTAMP() || SQLCODE()) || MessageFlowLabel())"),
    ("X'0aFF' || B'0101'", "(b'\\n\\xff' || Bits(digits='0101'))"),
    ("0x1F + 1.5 + 1.5E0 + .5", "(((31 + Decimal('1.5')) + 1.5) + Decimal('0.5'))"),
    ("'it''s'", '"it\'s"'),
    ("TRUE OR UNKNOWN", "(True OR UNKNOWN)"),
    ("NULL", "None"),
    (
        "THE(SELECT ITEM T.a FROM Database.DSN.SCHEMA.TABLE AS T WHERE T.b = 1)",
        (
            "The(select=Select(form='item', selected=[T.a], "
            "sources=[FromSource(path=Database.DSN.SCHEMA.TABLE, alias='T')], where=(T.b = 1)))"
        ),
    ),
    ("EXISTS(SELECT * FROM a.b[] AS x)", "EXISTS(Select(form='all', sources=[FromSource(path=a.b[], alias='x')]))"),
    (
        "(SELECT COUNT(*) FROM a.b[] AS x)",
        "Select(form='aggregate', sources=[FromSource(path=a.b[], alias='x')], aggregate='COUNT')",
    ),
    (
        "SELECT SUM(x.y) AS total FROM a.b[] AS x, x.c[] AS z",
        (
            "Select(form='aggregate', selected=[Selected(expression=x.y, alias=[total])], "
            "sources=[FromSource(path=a.b[], alias='x'), FromSource(path=x.c[], alias='z')], aggregate='SUM')"
        ),
    ),
    (
        "ROW(1 AS a, 'b' AS c.d, e)",
        "RowOf(selected=[Selected(expression=1, alias=[a]), Selected(expression='b', alias=[c, d]), e])",
    ),
    ("LIST{1, 2, ROW(1 AS a)}", "ListOf(items=[1, 2, RowOf(selected=[Selected(expression=1, alias=[a])])])"),
    ("LIST{}", "ListOf()"),
    ("CASE WHEN a THEN b ELSE c END", "Case(branches=[[a, b]], otherwise=c)"),
    ("CASE a WHEN 1 THEN b WHEN 2 THEN c END", "Case(operand=a, branches=[[1, b], [2, c]])"),
    (
        "ASBITSTREAM(x.y OPTIONS FolderBitStream CCSID 1208 ENCODING 546 SET 's' TYPE 't' FORMAT 'f')",
        ("BitStream(path=x.y, options=FolderBitStream, encoding=546, ccsid=1208, set='s', type='t', format='f')"),
    ),
    ("ASBITSTREAM(x, 546, 1208)", "BitStream(path=x, encoding=546, ccsid=1208)"),
    (
        "ASBITSTREAM(x,,1208,'','','',RootBitStream)",
        "BitStream(path=x, options=RootBitStream, ccsid=1208, set='', type='', format='')",
    ),
    (
        "PASSTHRU('SELECT 1' TO Database.DSN1 VALUES (1, a))",
        "Passthru(text='SELECT 1', source=Database.DSN1, arguments=[1, a])",
    ),
    ("PASSTHRU('SELECT ?', a)", "Passthru(text='SELECT ?', arguments=[a])"),
    ("schema.f(1, b) + g()", "(schema.f(1, b) + g())"),
    ("EVAL('1')", "EVAL('1')"),
    ("LEFT(a, 3) || RIGHT(b, 2)", "(LEFT(a, 3) || RIGHT(b, 2))"),
    ("COALESCE(a, b)", "COALESCE(a, b)"),
    ("CARDINALITY(InputRoot.*[])", "CARDINALITY(InputRoot.*[])"),
    ("Null.x || True(1)", "(Null.x || True(1))"),
    ("Select.a", "Select.a"),
    ("The.b", "The.b"),
    ("LIST.x", "LIST.x"),
    ("Row[1]", "Row[1]"),
    ("SQL.MessageFlowLabel", "MessageFlowLabel()"),
    ("UUIDASCHAR || UUIDASCHAR(x)", "(UUIDASCHAR() || UUIDASCHAR(x))"),
    ("TIME '18:30:00' = TIME", "(time(18, 30) = TIME)"),
    ("a.b[1].c[I]", "a.b[1].c[I]"),
    ("x.{'a' || b}:{c}.d", "x.{('a' || b)}:{c}.d"),
    ("SUBSTRING(a FROM 2)", "SUBSTRING:FROM(a, 2)"),
    ("OVERLAY(a PLACING b FROM 1)", "OVERLAY:PLACING_FROM(a, b, 1)"),
    ("POSITION(a || 'x' IN b REPEAT 2)", "POSITION:IN_REPEAT((a || 'x'), b, 2)"),
    (
        "f(SELECT ITEM x FROM y[] AS x)",
        "f(Select(form='item', selected=[x], sources=[FromSource(path=y[], alias='x')]))",
    ),
    ("a = b = c", "((a = b) = c)"),
    ("a IS NULL = FALSE", "(Is(operand=a, what='NULL') = False)"),
    ("+1 - -1", "((+ 1) - (- 1))"),
    ("9223372036854775807 + 9223372036854775808", "(9223372036854775807 + Decimal('9223372036854775808'))"),
    ("a -- comment\n + /* more\n */ b", "(a + b)"),
    ("Database.T.Value", "Database.T.Value"),
    (
        "SELECT T.Type, T.Name AS Value FROM Database.T AS T",
        (
            "Select(form='list', selected=[T.Type, Selected(expression=T.Name, alias=[Value])], "
            "sources=[FromSource(path=Database.T, alias='T')])"
        ),
    ),
    (
        "SELECT x.a AS ns:b.(XMLNSC.Attribute)ns:c[1] FROM y[] AS x",
        (
            "Select(form='list', selected=[Selected(expression=x.a, alias=[ns:b, "
            "(<XMLNSC.Attribute>)ns:c[1]])], sources=[FromSource(path=y[], alias='x')])"
        ),
    ),
]


@for_each(("text", "tree"), CASES, ids=[text for text, _ in CASES])
def test_expression_is_read_as(text: str, tree: str) -> None:
    assert shown(parse_expression(text, "test")).replace("datetime.", "") == tree
