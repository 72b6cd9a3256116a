# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from entrepot.esql.parsing import parse_statements
from folding import for_each

from .shown import shown

CASES = [
    ("DECLARE a, b CHARACTER;", "Declare(names=['a', 'b'], kind='variable', type=CHARACTER)"),
    ("DECLARE a CHAR 'init';", "Declare(names=['a'], kind='variable', type=CHARACTER, value='init')"),
    ("DECLARE a CONSTANT INT 5;", "Declare(names=['a'], constant=True, kind='variable', type=INTEGER, value=5)"),
    ("DECLARE a SHARED ROW;", "Declare(names=['a'], scope='SHARED', kind='variable', type=ROW)"),
    (
        "DECLARE a EXTERNAL BOOLEAN TRUE;",
        ("Declare(names=['a'], scope='EXTERNAL', constant=True, kind='variable', type=BOOLEAN, value=True)"),
    ),
    ("DECLARE ns NAMESPACE 'urn:x';", "Declare(names=['ns'], constant=True, kind='namespace', value='urn:x')"),
    ("DECLARE n NAME 'x';", "Declare(names=['n'], constant=True, kind='name', value='x')"),
    (
        "DECLARE r REFERENCE TO InputRoot.XMLNSC;",
        "Declare(names=['r'], kind='variable', type=REFERENCE, value=InputRoot.XMLNSC)",
    ),
    ("DECLARE d DECIMAL(10,2) 1.5;", "Declare(names=['d'], kind='variable', type=DECIMAL(10,2), value=Decimal('1.5'))"),
    (
        "DECLARE i INTERVAL DAY TO SECOND INTERVAL '1' DAY;",
        (
            "Declare(names=['i'], kind='variable', type=INTERVAL DAY TO SECOND, "
            "value=Interval(qualifier='DAY', months=0, seconds=Decimal('86400')))"
        ),
    ),
    ("DECLARE d DATE CURRENT_DATE;", "Declare(names=['d'], kind='variable', type=DATE, value=CURRENT_DATE())"),
    ("DECLARE d DATE DATE '2000-01-01';", "Declare(names=['d'], kind='variable', type=DATE, value=date(2000, 1, 1))"),
    ("DECLARE Continue CHAR;", "Declare(names=['Continue'], kind='variable', type=CHARACTER)"),
    ("DECLARE Exit, Name, Type CHARACTER;", "Declare(names=['Exit', 'Name', 'Type'], kind='variable', type=CHARACTER)"),
    (
        "DECLARE CONTINUE HANDLER FOR SQLSTATE LIKE '%' ESCAPE '!', SQLSTATE VALUE 'S22003' BEGIN END;",
        "Handler(action='CONTINUE', states=[['LIKE', '%', '!'], ['=', 'S22003', '']], body=Begin())",
    ),
    (
        "DECLARE EXIT HANDLER FOR SQLSTATE 'x' SET a = 1;",
        "Handler(action='EXIT', states=[['=', 'x', '']], body=Set(target=a, value=1))",
    ),
    ("SET a = 1;", "Set(target=a, value=1)"),
    ("SET a VALUE = 1;", "Set(target=a, facet='VALUE', value=1)"),
    ("SET a NAME = 'x';", "Set(target=a, facet='NAME', value='x')"),
    ("SET a NAMESPACE = ns;", "Set(target=a, facet='NAMESPACE', value=ns)"),
    ("SET a TYPE = XMLNSC.Attribute;", "Set(target=a, facet='TYPE', value=XMLNSC.Attribute)"),
    ("SET Name = 'x';", "Set(target=Name, value='x')"),
    ("SET Value VALUE = Value;", "Set(target=Value, facet='VALUE', value=Value)"),
    ("SET a.Type = 'x';", "Set(target=a.Type, value='x')"),
    (
        "SET a[] = SELECT x.y FROM b[] AS x;",
        ("Set(target=a[], value=Select(form='list', selected=[x.y], sources=[FromSource(path=b[], alias='x')]))"),
    ),
    (
        "IF a THEN SET b = 1; ELSEIF c THEN SET b = 2; ELSE SET b = 3; END IF;",
        (
            "If(branches=[[a, [Set(target=b, value=1)]], [c, [Set(target=b, value=2)]]], "
            "otherwise=[Set(target=b, value=3)])"
        ),
    ),
    ("IF a THEN END IF;", "If(branches=[[a, []]])"),
    (
        "CASE a WHEN 1 THEN SET b = 1; WHEN 2 THEN ELSE SET b = 2; END CASE;",
        (
            "CaseStatement(operand=a, branches=[[1, [Set(target=b, value=1)]], [2, []]], "
            "otherwise=[Set(target=b, value=2)])"
        ),
    ),
    ("CASE WHEN a = 1 THEN SET b = 1; END CASE;", "CaseStatement(branches=[[(a = 1), [Set(target=b, value=1)]]])"),
    ("lab : WHILE a DO ITERATE lab; END WHILE lab;", "While(condition=a, body=[Iterate(label='lab')], label='lab')"),
    ("WHILE a DO END WHILE;", "While(condition=a)"),
    (
        "lab: REPEAT SET a = 1; UNTIL a > 1 END REPEAT lab;",
        "Repeat(body=[Set(target=a, value=1)], until=(a > 1), label='lab')",
    ),
    ("lab: LOOP LEAVE lab; END LOOP lab;", "Loop(body=[Leave(label='lab')], label='lab')"),
    ("FOR x AS a.b[] DO SET x.c = 1; END FOR;", "For(name='x', source=a.b[], body=[Set(target=x.c, value=1)])"),
    ("lab: BEGIN ATOMIC SET a = 1; END lab;", "Begin(body=[Set(target=a, value=1)], atomic=True, label='lab')"),
    ("BEGIN NOT ATOMIC END;", "Begin()"),
    ("RETURN;", "Return()"),
    ("RETURN a OR b;", "Return(value=(a OR b))"),
    ("CALL f(1, a) INTO b;", "CallStatement(name=['f'], arguments=[1, a], into=b)"),
    ("CALL s.t.f();", "CallStatement(name=['s', 't', 'f'])"),
    (
        "CALL f(a) IN Database.DSN EXTERNAL SCHEMA 'x';",
        "CallStatement(name=['f'], arguments=[a], database=Database.DSN, schema='x')",
    ),
    ("MOVE r TO a.b;", "Move(reference='r', direction='TO', target=a.b)"),
    ("MOVE r PARENT;", "Move(reference='r', direction='PARENT')"),
    ("MOVE r NEXTSIBLING;", "Move(reference='r', direction='NEXTSIBLING')"),
    ("MOVE r NEXTSIBLING NAME 'x';", "Move(reference='r', direction='NEXTSIBLING', name='x')"),
    ("MOVE r NEXTSIBLING REPEAT TYPE NAME;", "Move(reference='r', direction='NEXTSIBLING', repeat=['TYPE', 'NAME'])"),
    (
        "MOVE r FIRSTCHILD TYPE XMLNSC.Attribute NAMESPACE * NAME 'y';",
        ("Move(reference='r', direction='FIRSTCHILD', kinds=[<XMLNSC.Attribute>], any_namespace=True, name='y')"),
    ),
    (
        "MOVE r LASTCHILD IDENTITY (XMLNSC.Field)ns:Name;",
        "Move(reference='r', direction='LASTCHILD', kinds=[<XMLNSC.Field>], namespace=ns, name='Name')",
    ),
    ("CREATE FIELD a.b;", "Create(where='FIELD', target=a.b)"),
    (
        "CREATE FIELD a.b AS r TYPE NameValue NAMESPACE ns NAME 'n' VALUE 1;",
        ("Create(where='FIELD', target=a.b, alias='r', kinds=[<.NameValue>], namespace=ns, name='n', value=1)"),
    ),
    (
        "CREATE LASTCHILD OF a AS r DOMAIN('XMLNSC') NAME 'XMLNSC';",
        "Create(where='LASTCHILD', target=a, alias='r', domain='XMLNSC', name='XMLNSC')",
    ),
    (
        "CREATE LASTCHILD OF a IDENTITY (XMLNSC.Field)ns:Name VALUE 'v';",
        ("Create(where='LASTCHILD', target=a, kinds=[<XMLNSC.Field>], namespace=ns, name='Name', value='v')"),
    ),
    ("CREATE NEXTSIBLING OF a REPEAT;", "Create(where='NEXTSIBLING', target=a, repeat=['TYPE', 'NAME'])"),
    (
        "CREATE NEXTSIBLING OF a REPEAT VALUE 'x';",
        "Create(where='NEXTSIBLING', target=a, value='x', repeat=['TYPE', 'NAME'])",
    ),
    ("CREATE FIRSTCHILD OF a FROM b.c;", "Create(where='FIRSTCHILD', target=a, source=b.c)"),
    (
        "CREATE FIELD a DOMAIN 'XMLNSC' PARSE(x OPTIONS RootBitStream ENCODING 1 CCSID 2 SET 's' TYPE 't' FORMAT 'f');",
        (
            "Create(where='FIELD', target=a, domain='XMLNSC', parse=x, options=RootBitStream, "
            "encoding=1, ccsid=2, set='s', type='t', format='f')"
        ),
    ),
    (
        "CREATE LASTCHILD OF OutputRoot DOMAIN('XMLNSC') PARSE(x, 546, 1208);",
        ("Create(where='LASTCHILD', target=OutputRoot, domain='XMLNSC', parse=x, encoding=546, ccsid=1208)"),
    ),
    ("DELETE FIELD a.b;", "DeleteField(where='FIELD', target=a.b)"),
    ("DELETE LASTCHILD OF a;", "DeleteField(where='LASTCHILD', target=a)"),
    ("ATTACH r TO a AS LASTCHILD;", "Attach(reference='r', target=a, where='LASTCHILD')"),
    ("DETACH r;", "Detach(reference='r')"),
    ("PROPAGATE;", "Propagate()"),
    ("PROPAGATE TO TERMINAL 'out1' DELETE NONE;", "Propagate(terminal='out1', delete=False)"),
    (
        "PROPAGATE TO LABEL 'x' ENVIRONMENT a MESSAGE b EXCEPTION c FINALIZE NONE DELETE DEFAULT;",
        "Propagate(label='x', environment=a, message=b, exception=c, finalize=False)",
    ),
    ("THROW EXCEPTION;", "Throw()"),
    (
        "THROW USER EXCEPTION SEVERITY 1 CATALOG 'c' MESSAGE 2951 VALUES (1, 'x');",
        "Throw(severity=1, catalog='c', message=2951, values=[1, 'x'])",
    ),
    ("RESIGNAL;", "Resignal()"),
    (
        "LOG EVENT SEVERITY 1 CATALOG 'c' MESSAGE 2 VALUES ('x');",
        "LogStatement(where='EVENT', severity=1, catalog='c', message=2, values=['x'])",
    ),
    (
        "LOG USER TRACE FULL EXCEPTION VALUES ('x');",
        "LogStatement(where='USER TRACE', full=True, exception=True, values=['x'])",
    ),
    ("EVAL('SET a = 1');", "Eval(text='SET a = 1')"),
    ("INSERT INTO Database.T (A, B) VALUES (1, 2);", "Insert(target=Database.T, columns=['A', 'B'], values=[1, 2])"),
    ("INSERT INTO Database.T VALUES (1, 2);", "Insert(target=Database.T, values=[1, 2])"),
    (
        "UPDATE Database.T AS X SET A = 1, B = X.C WHERE X.D = 2;",
        "Update(target=Database.T, alias='X', settings=[['A', 1], ['B', X.C]], where=(X.D = 2))",
    ),
    ("DELETE FROM Database.T AS X WHERE X.A = 1;", "DeleteFrom(target=Database.T, alias='X', where=(X.A = 1))"),
    ("PASSTHRU('x');", "PassthruStatement(passthru=Passthru(text='x'))"),
    (
        "PASSTHRU('x' TO Database.D VALUES (1));",
        "PassthruStatement(passthru=Passthru(text='x', source=Database.D, arguments=[1]))",
    ),
    (
        "PASSTHRU('x') TO Database.D VALUES (1);",
        "PassthruStatement(passthru=Passthru(text='x', source=Database.D, arguments=[1]))",
    ),
    (
        "PASSTHRU 'x' TO Database.D VALUES (1);",
        "PassthruStatement(passthru=Passthru(text='x', source=Database.D, arguments=[1]))",
    ),
    ("PASSTHRU('x', 1, 2);", "PassthruStatement(passthru=Passthru(text='x', arguments=[1, 2]))"),
    ("COMMIT;", "Finish(commit=True)"),
    ("ROLLBACK Database.D;", "Finish(database=Database.D)"),
    (";", ""),
    ("END_1: BEGIN LEAVE END_1; END END_1;", "Begin(body=[Leave(label='END_1')], label='END_1')"),
    ("SET Set = 1;", "Set(target=Set, value=1)"),
    ("SET a.b:Name = End;", "Set(target=a.b:Name, value=End)"),
    ("DECLARE I, J, Count INTEGER 1;", "Declare(names=['I', 'J', 'Count'], kind='variable', type=INTEGER, value=1)"),
    ("SET style = Date || Time;", "Set(target=style, value=(Date || Time))"),
    ("IF End THEN SET Then = Else; END IF;", "If(branches=[[End, [Set(target=Then, value=Else)]]])"),
    (
        "DECLARE x EXTERNAL CONSTANT CHARACTER 'a';",
        ("Declare(names=['x'], scope='EXTERNAL', constant=True, kind='variable', type=CHARACTER, value='a')"),
    ),
    ("DECLARE f FLOAT 1E0;", "Declare(names=['f'], kind='variable', type=FLOAT, value=1.0)"),
    ("set Output = input.*[<]; Return true;", "Set(target=Output, value=input.*[<]), Return(value=True)"),
    ("MOVE r NEXTSIBLING NAME *;", "Move(reference='r', direction='NEXTSIBLING', any_name=True)"),
    ("MOVE r PREVIOUSSIBLING REPEAT NAME;", "Move(reference='r', direction='PREVIOUSSIBLING', repeat=['NAME'])"),
    (
        "CREATE FIELD OutputRoot.MQRFH2.(MQRFH2.Field)Version;",
        "Create(where='FIELD', target=OutputRoot.MQRFH2.(<MQRFH2.Field>)Version)",
    ),
    (
        "CREATE LASTCHILD OF a TYPE XMLNSC.Field + 1 NAME 'x';",
        "Create(where='LASTCHILD', target=a, kinds=[<XMLNSC.Field>, 1], name='x')",
    ),
    (
        "SET OutputRoot.XML.(XML.XmlDecl).(XML.Version) = '1.0';",
        "Set(target=OutputRoot.XML.(<XML.XmlDecl>).(<XML.Version>), value='1.0')",
    ),
    ("CREATE PREVIOUSSIBLING OF a VALUE 5;", "Create(where='PREVIOUSSIBLING', target=a, value=5)"),
    ("DELETE FROM Database.T;", "DeleteFrom(target=Database.T)"),
    ("UPDATE Database.T SET A = NULL;", "Update(target=Database.T, settings=[['A', None]])"),
    (
        "CALL p(a) INTO b.c IN Database.{d};",
        "CallStatement(name=['p'], arguments=[a], into=b.c, database=Database.{d})",
    ),
    (
        "DECLARE NodeLabel CHARACTER NodeLabel;",
        "Declare(names=['NodeLabel'], kind='variable', type=CHARACTER, value=NodeLabel)",
    ),
]


@for_each(("text", "tree"), CASES, ids=[text for text, _ in CASES])
def test_statement_is_read_as(text: str, tree: str) -> None:
    assert shown(parse_statements(text, "test")).replace("datetime.", "") == f"[{tree}]"
