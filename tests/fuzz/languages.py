# SPDX-License-Identifier: Apache-2.0
"""Texts that users write: selectors, filters, topics, MQSC and ESQL."""

from __future__ import annotations

from pathlib import Path

from entrepot.engine.topics.content_filter import Content, compile_filter
from entrepot.esql.program import compile_statements, compile_texts
from entrepot.flows.xpath import to_esql
from entrepot.message import Message
from entrepot.selectors import compile_selector
from entrepot.server.mqsc import check_script

from .target import Target, as_text

TESTS = Path(__file__).parents[1]

MESSAGES = (
    Message(b"", properties={"colour": "red_%", "amount": 7, "price": 2.5, "paid": True, "note": "x" * 50}),
    Message(b"", priority=9, persistent=True, correlation_id=b"c", properties={"colour": 1, "amount": "7"}),
    Message(b""),
)


def read_selector(data: bytes) -> None:
    selector = compile_selector(as_text(data))
    for message in MESSAGES:
        assert selector.matches(message) in (True, False)


CONTENT = b"<order n='1'><line><sku>x</sku><n>2</n></line><line/></order>"


def read_filter(data: bytes) -> None:
    filter_ = compile_filter(as_text(data))
    for body in (CONTENT, b"<", b""):
        assert Content(body).matches(filter_) in (True, False)


def read_mqsc(data: bytes) -> None:
    check_script(as_text(data), "fuzz")


def read_program(data: bytes) -> None:
    compile_texts({"f.esql": as_text(data)})


def read_statements(data: bytes) -> None:
    compile_statements(as_text(data), "f.esql")


def read_xpath(data: bytes) -> None:
    to_esql(as_text(data))


SELECTORS = (
    b"colour = 'red' AND amount > 100 OR NOT paid",
    b"colour LIKE 'r_d!_%' ESCAPE '!' AND price BETWEEN 1.5 AND 2E3",
    b"colour IN ('red', 'it''s') AND note IS NOT NULL AND -amount + 2 * 3 <> 4 / 5",
    b"JMSPriority >= 4 AND JMSDeliveryMode = 'PERSISTENT' AND amount = 0x1F AND paid = TRUE",
)
XPATHS = (b"xpath:/order[line/n > 1 and not(@n = '2')]", b"xpath://sku[text() = 'x'] | /order/line[2]", b"xpath:/a[")
ROUTES = (
    b"$InputRoot/XMLNSC/order/line[n > 1 and sku = 'x']",
    b"count($Root/XMLNSC/order/line) + 2 * sum($Body/order/line/n) > 3",
    b"substring-before(string($Root/MQMD/CorrelId), '-') = concat('a', \"b\")",
)
STATEMENTS = (
    b"DECLARE r REFERENCE TO InputRoot.XMLNSC.a; WHILE LASTMOVE(r) DO SET OutputRoot.XMLNSC.b[r.n] = r.x || 'y'; "
    b"MOVE r NEXTSIBLING REPEAT TYPE NAME; END WHILE; SET Environment.q[] = (SELECT T.b AS c FROM InputRoot.XMLNSC.a[] "
    b"AS T WHERE T.b > 1 AND NOT T.c LIKE 'x%'); SET x = CAST(y AS DATE FORMAT 'yyyyMMdd') + INTERVAL '1' DAY;",
    b"CREATE LASTCHILD OF OutputRoot DOMAIN('JSON') NAME 'JSON'; IF a = 1 THEN CALL p(x); ELSE THROW USER EXCEPTION "
    b"VALUES(1); END IF; CASE a WHEN 1 THEN SET b = CASE WHEN TRUE THEN 1 ELSE 2 END; END CASE;",
)
PROGRAMS = tuple(path.read_bytes() for path in sorted((TESTS / "golden/esql").glob("**/*.esql"))[:6])
MQSC = (
    (TESTS.parent / "examples/mqsc_script.mqsc").read_bytes(),
    b"* comment\nDEFINE QLOCAL(Q) +\n  DESCR('It''s') MAXDEPTH(10) REPLACE; DIS Q(*) WHERE(CURDEPTH GT 1) ALL\n",
    b"SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('10.0.0.*') USERSRC(NOACCESS)\nSET AUTHREC PROFILE(A.**) "
    b"OBJTYPE(QUEUE) GROUP('g') AUTHADD(PUT,GET)\nALTER QMGR CHLAUTH(ENABLED)\n"
    b"DEFINE CHANNEL(C) CHLTYPE(SDR) CONNAME('h(1)') XMITQ(X)",
    b"DEFINE SUB(S) TOPICSTR('a/#') DEST(Q) SELECTOR('a > 1')\nDEFINE TOPIC(T) TOPICSTR(a/b)\nDELETE SUB(S)\n"
    b"CLEAR Q(Q)",
)

TARGETS = (
    Target("selector", read_selector, SELECTORS, 900, 400),
    Target("filter", read_filter, XPATHS, 4000, 400),
    Target("xpath", read_xpath, ROUTES, 2500, 400, refusals=(ValueError,)),
    Target("mqsc", read_mqsc, MQSC, 1500, 2000),
    Target("esql-statements", read_statements, STATEMENTS, 300, 2000),
    Target("esql-program", read_program, PROGRAMS, 100),
)
